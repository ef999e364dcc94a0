"""Why clients have not read their files, the first cause first.

When one job of a cluster fails DAGMan removes the others, so most of those that failed say no more than that
they were ended. HTCondor's event log has the order, and the reasons of those that could not tell theirs.
Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import json
from pathlib import Path
from typing import Any

from tierbench.submit.trial.joblog import OUR_DAGMAN, Cluster

REMOVED = "was removed: "


def client_reasons(jobs: int) -> "list[str]":
    """In words, each client of the trial here that has not read its file to the end."""
    cluster = Cluster(Path("clients.log"))
    cluster.read_on()
    order = [number for number in cluster.ended if number < jobs]
    order += sorted(set(range(jobs)) - set(order))
    causes = []  # type: list[str]
    consequences = []  # type: list[str]
    for number in order:
        words = _reason(last_record(Path("clients", f"{number}.jsonl")), cluster, number)
        if words is not None:
            why = cluster.ended.get(number, "")
            follows = why.startswith(REMOVED) and OUR_DAGMAN.match(why[len(REMOVED) :])
            (consequences if follows else causes).append(f"client {number} {words}")
    return causes + consequences


def _reason(last: "dict[str, Any] | None", cluster: Cluster, number: int) -> "str | None":
    """What became of a client that has not read its file; None of one that has."""
    why = cluster.ended.get(number) or (cluster.away[number].why if number in cluster.away else "")
    if last is not None and last.get("event") == "end":
        status, message = last.get("status"), last.get("message")
        if status == "ok":
            return None
        if status == "killed" and why:
            return f"killed: it {why}"
        return f"{status}: {message}" if message else str(status)
    told = "never started" if last is None else "lost"
    return f"{told}: it {why}" if why else told


def last_record(path: Path) -> "dict[str, Any] | None":
    """The last whole line of a client's output; it is its "end" record unless the client was lost."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            return record
    return None
