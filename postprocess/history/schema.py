"""The database's tables, and how one of an older version becomes one of this; docs/nightly.md explains them."""

from __future__ import annotations

FIRST = """
CREATE TABLE night (
    id INTEGER PRIMARY KEY,
    nightly TEXT NOT NULL,
    planned_ns INTEGER NOT NULL,
    run TEXT NOT NULL DEFAULT '',
    directory TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL CHECK (outcome IN ('measured', 'missed', 'running', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    rerun INTEGER NOT NULL DEFAULT 0,
    started_ns INTEGER,
    ended_ns INTEGER,
    control TEXT NOT NULL DEFAULT '',
    metric TEXT NOT NULL DEFAULT '',
    unit TEXT NOT NULL DEFAULT '',
    environment TEXT NOT NULL DEFAULT '',
    UNIQUE (nightly, planned_ns, run)
);
CREATE TABLE value (
    night INTEGER NOT NULL REFERENCES night (id) ON DELETE CASCADE,
    configuration TEXT NOT NULL,
    metric TEXT NOT NULL,
    mean REAL NOT NULL,
    low REAL,
    high REAL,
    n INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (night, configuration, metric)
) WITHOUT ROWID;
CREATE INDEX value_of ON value (configuration, metric);
CREATE TABLE verdicts (
    night INTEGER NOT NULL REFERENCES night (id) ON DELETE CASCADE,
    configuration TEXT NOT NULL,
    valid INTEGER NOT NULL,
    suspect INTEGER NOT NULL,
    invalid INTEGER NOT NULL,
    PRIMARY KEY (night, configuration)
) WITHOUT ROWID;
CREATE TABLE link (
    night INTEGER NOT NULL REFERENCES night (id) ON DELETE CASCADE,
    line TEXT NOT NULL,
    mbps REAL,
    rtt_ms REAL,
    PRIMARY KEY (night, line)
) WITHOUT ROWID;
CREATE TABLE environment (
    digest TEXT NOT NULL,
    host TEXT NOT NULL,
    setting TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (digest, host, setting)
) WITHOUT ROWID;
CREATE TABLE acknowledgement (
    nightly TEXT NOT NULL,
    configuration TEXT NOT NULL,
    since_ns INTEGER NOT NULL,
    "by" TEXT NOT NULL,
    at_ns INTEGER NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    accepted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (nightly, configuration, since_ns)
) WITHOUT ROWID;
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    nightly TEXT NOT NULL,
    planned_ns INTEGER NOT NULL,
    channel TEXT NOT NULL,
    state TEXT NOT NULL,
    text TEXT NOT NULL,
    at_ns INTEGER NOT NULL,
    delivered INTEGER NOT NULL
);
CREATE INDEX message_of ON message (nightly, planned_ns);
"""

# Each makes a database of one version into one of the next; never changed once it has been released.
MIGRATIONS = (FIRST,)
VERSION = len(MIGRATIONS)
