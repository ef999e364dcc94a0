"""The history of nights: what they measured, in one database, and what has changed from one to another.

`rows` says what it holds, `schema` how; `store` writes, `queries` reads, `of_run` makes a night of a run directory.
`steps`, `drifts` and `alarms` say what has changed, from rows alone, and `sentences` how it is told:
`findings(chronicle(history, name), Watch(…))`, `suspected(…)`, `sentence(finding, chronicle)`.
"""
