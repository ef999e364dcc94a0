"""The history in a terminal: each configuration in a line, a mark for each night and a gap for each that has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from tierbench.postprocess.history.alarms import Watch, control_of, findings
from tierbench.postprocess.history.queries import Chronicle
from tierbench.postprocess.history.rows import MEASURED, Night, Value
from tierbench.postprocess.history.sentences import sentence, unmeasured, what_else
from tierbench.postprocess.wording import NOTHING, counted, figures, moment

BARS, GAP = "▁▂▃▄▅▆▇█", "·"
MOST = 60  # nights in a line


def spark(values: Sequence[float | None]) -> str:
    """A bar for each value, from the least to the largest; a dot where there is none."""
    there = [value for value in values if value is not None]
    least, span = (min(there), max(there) - min(there)) if there else (0.0, 0.0)
    steps = len(BARS) - 1

    def bar(value: float | None) -> str:
        return GAP if value is None else BARS[round((value - least) / span * steps) if span else steps // 2]

    return "".join(map(bar, values))


def overview(known: Chronicle, watch: Watch, pattern: str = "*", metric: str = "", last: int = MOST) -> Iterator[str]:
    """A nightly's configurations over its last nights, and what is to be said of them now."""
    nights = known.nights[-last:]
    control = control_of(known)
    measured = sum(night.outcome == MEASURED for night in known.nights)
    days = f"{known.nights[0].day} to {known.nights[-1].day}"
    yield f"{known.nightly}: {counted(len(known.nights), 'night')}, {measured} measured, {days}"
    names = [name for name in known.configurations if fnmatchcase(name, pattern)]
    width = max(map(len, names), default=0)
    for name in names:
        values = [known.value(night, name, metric) for night in nights]
        there = [value.mean for value in values if value]
        middle = f"{figures(min(there))}…{figures(max(there))}" if there else NOTHING
        newest = next((value for value in reversed(values) if value), None)
        drawn = spark([value.mean if value else None for value in values])
        unit = known.measured[-1].unit if known.measured and not metric else ""
        mark = "  control" if name == control else ""
        yield f"  {name:<{width}}  {drawn}  {figures(newest.mean if newest else None):>6} {unit}  of {middle}{mark}"
    yield from (f"  {words}" for words in unmeasured(known))
    yield from (
        f"  {'(acknowledged) ' if found.acknowledged else ''}{sentence(found, known)}"
        for found in findings(known, watch)
    )


def night_lines(known: Chronicle, night: Night) -> Iterator[str]:
    """One night: what became of it, what it measured, and what was otherwise than in the night before."""
    rerun = ", a rerun" if night.rerun else ""
    yield f"{known.nightly}, night of {night.day}{rerun}: {night.outcome}" + (
        f", {night.reason}" if night.reason else ""
    )
    yield f"  planned {moment(night.planned_ns)}" + (f", began {moment(night.started_ns)}" if night.started_ns else "")
    if night.directory:
        yield f"  {night.directory}"
    counted_as = {row.configuration: row for row in known.verdicts.get(night.id, [])}
    for name, row in counted_as.items():
        value = known.value(night, name, night.metric)
        yield f"  {name}  {_value(value)} {night.unit}  {row.valid} VALID, {row.suspect} SUSPECT, {row.invalid} INVALID"
    for link in known.links.get(night.id, []):
        yield f"  link to {link.line}: {figures(link.mbps, 'Mb/s')}, {figures(link.rtt_ms, 'ms')}"
    before = [one for one in known.measured if one.planned_ns < night.planned_ns]
    if before and night.outcome == MEASURED:
        yield from (f"  then: {words}" for words in what_else(known, before[-1], night))


def _value(value: Value | None) -> str:
    if value is None:
        return NOTHING
    interval = "" if value.low is None else f" ({figures(value.low)}…{figures(value.high)})"
    return f"{figures(value.mean)}{interval}"
