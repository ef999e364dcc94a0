"""What the doctor has found: good, doubtful or bad, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

State = Literal["good", "doubtful", "bad"]
STATES = get_args(State)
HOSTS_SHOWN = 4


@dataclass(frozen=True)
class Finding:
    """One thing, on one host or at the site as a whole, and what was seen of it."""

    state: State
    thing: str
    seen: str
    remedy: str = ""
    host: str = ""


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    """A line for each, and one more for what to do; what is the same on several hosts is said once."""
    hosts: dict[Finding, list[str]] = {}
    for finding in findings:
        alike = Finding(finding.state, finding.thing, finding.seen, finding.remedy)
        hosts.setdefault(alike, []).extend([finding.host] if finding.host else [])
    for finding, where in hosts.items():
        # All the hosts that need something done are named; of many that are well some will do.
        named = where if finding.state == "bad" or len(where) <= HOSTS_SHOWN else where[: HOSTS_SHOWN - 1]
        more = f" and {len(where) - len(named)} more" if len(named) < len(where) else ""
        place = f" ({', '.join(named)}{more})" if where else ""
        yield f"{finding.state:<8}  {finding.thing}{place}: {finding.seen}"
        if finding.remedy and finding.state != "good":
            yield f"{'':<8}  → {finding.remedy}"
