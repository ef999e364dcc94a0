"""What the hosts that change something for a trial say of it, on the access point; the gate and its like ask.

Runs with the trial's scripts, on Python 3.6 or newer.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tierbench import names
from tierbench.files import poll
from tierbench.trials import Condition

POLL_SECONDS = 0.1
COLD, WARM = "cold", "warm"  # states of a cache, which the trial itself changes


class ConditionState:
    """One host's condition: whether it is set as asked, why not, and whether it was restored."""

    def __init__(self, trial: Path, condition: Condition) -> None:
        self.condition = condition
        self.name = condition.condition + " on " + condition.host
        self.path = trial / names.ARRANGED / f"{condition.name}.jsonl"

    @property
    def records(self) -> "dict[str, dict[str, Any]]":
        """What the host has said, by the kind of event."""
        return read_state(self.path)

    def trouble(self) -> str:
        """Why the condition is not what the trial asks for, in words; empty if it is, or nothing is said yet."""
        records = self.records
        if "failed" in records:
            return f"{self.name} could not be arranged: {records['failed'].get('message')}"
        if "arranged" in records and not self.is_as_asked(str(records["arranged"].get("now"))):
            asked, unit = self.condition.value, self.condition.unit
            return f"{self.name} is {records['arranged'].get('now')} {unit} where {asked} {unit} were asked for"
        at_end = records.get("restored", {}).get("at_end")
        if at_end is not None and self.condition.value not in (COLD, WARM) and not self.is_as_asked(str(at_end)):
            return f"{self.name} was {at_end} {self.condition.unit} at the end: somebody else has changed it meanwhile"
        return ""

    @property
    def now(self) -> str:
        """The value read back; empty where there is none."""
        return str(self.records.get("arranged", {}).get("now", ""))

    @property
    def number(self) -> "float | None":
        try:
            return float(self.now)
        except ValueError:
            return None

    @property
    def each(self) -> "dict[str, float]":
        """Of what hosts have a number of, which each of them had."""
        each = self.records.get("arranged", {}).get("each")
        numbers = each.items() if isinstance(each, dict) else ()
        kinds = (int, float)
        return {str(host): float(rate) for host, rate in numbers if type(rate) in kinds and 0 <= rate < 1e9}

    @property
    def cache_before(self) -> "dict[str, Any]":
        """Of a cache, the bytes that it held when the trial could begin, and the folder that is read through it."""
        return dict(self.records.get("arranged", {}).get("cache") or {})

    @property
    def cache_after(self) -> "dict[str, Any]":
        return dict(self.records.get("restored", {}).get("cache") or {})

    def unproven(self) -> str:
        return "" if self.now else f"nothing says that {self.name} was arranged"

    def is_as_asked(self, value: str) -> bool:
        return is_near(value, self.condition.value, self.condition.tolerance_pct)

    @property
    def settled(self) -> bool:
        """Whether the host has said that it is arranged, or cannot be."""
        return bool(self.records)

    @property
    def restored(self) -> bool:
        """Whether nothing of it is left: it is restored, or was never changed."""
        records = self.records
        if "restored" in records:
            before = records.get("arranged", {}).get("before")
            return before is None or bool(records["restored"].get("now") == before)
        return "arranged" not in records


def is_near(value: str, wanted: str, tolerance_pct: float) -> bool:
    """Whether a value that was read back is the one that was asked for."""
    try:
        return abs(float(value) - float(wanted)) <= tolerance_pct / 100 * abs(float(wanted))
    except ValueError:
        return value == wanted


def read_state(path: Path) -> "dict[str, dict[str, Any]]":
    """What a host has said, by the kind of event."""
    records = {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    for line in lines:
        try:
            record = json.loads(line)
            records[record["event"]] = record
        except (ValueError, KeyError, TypeError):  # still being written, or damaged
            continue
    return records


def condition_states(trial: Path, conditions: "Iterable[Condition]") -> "list[ConditionState]":
    return [ConditionState(trial, condition) for condition in conditions]


def wait_until_settled(trial: Path, conditions: "list[Condition]", seconds: float) -> None:
    """Return when each host has said how it went, or time is over: the gate judges."""
    states = condition_states(trial, conditions)
    poll(lambda: all(state.settled for state in states), seconds, POLL_SECONDS)


def slowest(trial: Path) -> float:
    """Within how many seconds the slowest of its conditions is restored, of those that say so."""
    hosts = (read_state(path).get("arranged", {}) for path in (trial / names.ARRANGED).glob("*.jsonl"))
    return max((float(arranged.get("within_s") or 0) for arranged in hosts), default=0.0)


def wait_until_restored(trial: Path, conditions: "list[Condition]", seconds: float) -> "list[str]":
    """Return when each host has restored its change, or time is over, also what a slow one said it needs.

    In words, what was not restored.
    """
    states = condition_states(trial, conditions)
    slow_s = slowest(trial)
    if slow_s:  # from when they were told, as another step may have waited before
        stop = trial / names.STOP
        seconds = max(seconds, slow_s - (time.time() - stop.stat().st_mtime if stop.exists() else 0.0))
    poll(lambda: all(state.restored for state in states), seconds, POLL_SECONDS)
    left = [state.name for state in states if not state.restored]
    return [f"nothing says that {name} was restored: who asks for it next does that first" for name in left]
