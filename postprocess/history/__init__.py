"""The history of nights: what they measured, in one database, and what has changed from one to another.

`rows` says what it holds; `database` writes and reads it, `runs` makes a night of a run directory.
`series`, `changepoints` and `alarms` say what has changed, from rows alone, and `sentences` says it in words:
`findings(chronicle(history, name), Watch(…))`, `sentence(finding, chronicle)`.
"""
