"""What is said of the nights: a change in words, a nightly and a night in the terminal, the history as one table."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.compare.differences import altered, altered_links
from tierbench.postprocess.history import alarms
from tierbench.postprocess.history.database import Chronicle
from tierbench.postprocess.history.rows import MEASURED, Night
from tierbench.postprocess.history.series import DAY_NS
from tierbench.postprocess.schema.rows import SUMMARISED, trial_column
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.wording import NOTHING, change_percent, counted, figures, listed, moment, with_interval
from tierbench.spec import unknown_name

THIS_MONTH = 27  # nights within which a day of the month says it all
MOST = 3  # of what else changed; the page has the rest
BESIDE = 1  # nights by which what else changed may lie beside the night that is named
NEARBY = "within a night of it "


def sentence(finding: alarms.Finding, chronicle: Chronicle) -> str:
    """A finding in words, with what else changed."""
    beside = what_else(chronicle, finding.last, finding.since)
    when = "when it began," if finding.kind == alarms.DRIFT else "that night"
    if when == "that night" and _is_gap(finding):  # nights without its value, or that measured nothing
        when = f"since the night of {day(finding.last, chronicle.measured[-1])}"
    if (nearby := [words.removeprefix(NEARBY) for words in beside]) != beside:
        when, beside = NEARBY.strip(), nearby
    more = f"; {when} {listed(beside[:MOST])}" if beside else ""
    left = f", and {counted(len(beside) - MOST, 'more thing')} changed" if len(beside) > MOST else ""
    return f"{_head(finding, chronicle)}{more}{left}."


def _is_gap(finding: alarms.Finding) -> bool:
    return finding.since.planned_ns - finding.last.planned_ns > 1.5 * DAY_NS


def _head(finding: alarms.Finding, chronicle: Chronicle) -> str:
    nights, kind, name = chronicle.measured, finding.kind, finding.configuration
    since, unit = day(finding.since, nights[-1]), chronicle.unit
    if kind == alarms.LOST:
        why = ", the control, so that no access method is compared with it" if finding.is_control else ""
        if chronicle.latest and name not in chronicle.counts(chronicle.latest):
            is_what = "is the control" if finding.is_control else "has a floor"
            why = f", which {is_what} and is not measured any more"
        return f"No VALID trial since the night of {since}: of {name}{why}"
    before, after = figures(finding.before, unit), figures(finding.after, unit)
    if kind == alarms.FLOOR:
        return f"Below its floor of {before} since the night of {since}: {name}, {after}"
    better = finding.direction.capitalize()
    change = f"{_what(finding, chronicle)}, {figures(finding.before)} → {after} ({change_percent(finding.ratio[0])}"
    if kind == alarms.DRIFT and finding.per_night:
        middle, low, high = finding.per_night
        slope = f"{change_percent(middle, 2)} a night, {_bare(low, 2)}…{_bare(high, 2)}"
        return f"Slowly {finding.direction} since about the night of {since}: {change} in all, {slope})"
    change += f", {_bare(finding.ratio[1])}…{_bare(finding.ratio[2])}"
    change += " relative to the control" if finding.by_control else ""
    if finding.latest:
        change += f"; the present level since the night of {day(finding.latest, nights[-1])}"
    if kind != alarms.SINGLE:
        unknown = f" or some night after that of {day(finding.last, nights[-1])}" if _is_gap(finding) else ""
        return f"{better} since the night of {since}{unknown}: {change})"
    alone = "one night is no change until the next night confirms it"
    return f"{better} in the night of {since} alone, so far: {change}); {alone}"


def _what(finding: alarms.Finding, chronicle: Chronicle) -> str:
    """Whose the change is: an access method's, the environment's, or the control's own."""
    if finding.is_control:
        return f"the control {finding.configuration} by itself, so that ratios to it tell nothing across that night"
    if finding.configuration:
        return finding.configuration
    control, (along, of_all) = chronicle.control, finding.along
    methods = "all access methods" if along == of_all else f"{along} of {of_all} access methods"
    whose = f" together with the control ({control})" if control else ""
    return f"the environment, since {methods} changed{f', {finding.least} the least' if finding.least else whose}"


def what_else(chronicle: Chronicle, before: Night, after: Night, beside: int = BESIDE) -> list[str]:
    """What was otherwise in a night than in the one before it, in words, the software first; else a night beside it."""
    that_night = list(_otherwise(chronicle, before, after))
    if that_night or not beside:
        return that_night
    nights = chronicle.measured
    at, last = nights.index(before), nights.index(after)
    wider = nights[max(at - beside, 0)], nights[min(last + beside, len(nights) - 1)]
    return [f"{NEARBY}{words}" for words in _otherwise(chronicle, *wider)]


def _otherwise(chronicle: Chronicle, before: Night, after: Night) -> Iterator[str]:
    yield from (change.words for change in altered(chronicle.environment(before), chronicle.environment(after)))
    yield from altered_links(chronicle.links.get(before.id, []), chronicle.links.get(after.id, []))
    earlier = chronicle.counts(before)
    for name, row in chronicle.counts(after).items():
        was = earlier.get(name)
        if was and row.trials and (was.valid * row.trials > row.valid * was.trials):
            yield f"of {name} {row.valid} of {row.trials} trials were VALID and not {was.valid} of {was.trials}"


def unmeasured(chronicle: Chronicle) -> list[str]:
    """What became of the nights since the last one that was measured."""
    lines = []
    for night in (night for night in reversed(chronicle.nights) if not night.rerun):
        if night.outcome == MEASURED:
            break
        why = f": {night.reason}" if night.reason else ""
        lines.append(f"Nothing was measured in the night of {night.day} ({night.outcome}{why}).")
    return lines[::-1]


def day(night: Night, today: Night) -> str:
    """The 14th, where that says which; else 14 November, or 2026-11-14."""
    then = datetime.fromtimestamp(night.planned_ns / 1e9, UTC).astimezone()
    nights = (today.planned_ns - night.planned_ns) / DAY_NS
    if nights > 365 - 31:
        return night.day
    if nights > THIS_MONTH:
        return f"{then.day} {then:%B}"
    suffix = "th" if 11 <= then.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(then.day % 10, "th")
    return f"the {then.day}{suffix}"


def _bare(factor: float, decimals: int = 0) -> str:
    """The same where its unit stands beside it."""
    return change_percent(factor, decimals).split("\N{NO-BREAK SPACE}")[0]


BARS, GAP = "▁▂▃▄▅▆▇█", "·"
IN_LINE = 60  # nights


def spark(values: Sequence[float | None]) -> str:
    """A bar for each value, from the least to the largest; a dot where there is none."""
    there = [value for value in values if value is not None]
    least, span = (min(there), max(there) - min(there)) if there else (0.0, 0.0)
    steps = len(BARS) - 1
    bars = (BARS[round((value - least) / span * steps) if span else steps // 2] for value in there)
    return "".join(GAP if value is None else next(bars) for value in values)


def overview(
    chronicle: Chronicle, watch: alarms.Watch, pattern: str = "*", metric: str = "", last: int = IN_LINE
) -> Iterator[str]:
    """A nightly's configurations over its last nights, and what is to be said of them now."""
    nights = chronicle.nights[-last:]
    days = f"{chronicle.nights[0].day} to {chronicle.nights[-1].day}"
    count = counted(len({night.planned_ns for night in chronicle.nights}), "night")
    yield f"{chronicle.nightly}: {count}, {chronicle.count} measured, {days}"
    if metric and metric not in SUMMARISED:
        raise ConfigError(unknown_name("--metric", metric, SUMMARISED))
    names = [name for name in chronicle.configurations if fnmatchcase(name, pattern)]
    if chronicle.configurations and not names:
        raise ConfigError(f"--configuration {pattern}: fits none of {', '.join(chronicle.configurations)}")
    width = max(map(len, names), default=0)
    for name in names:
        values = [chronicle.value(night, name, metric) for night in nights]
        there = [value.mean for value in values if value]
        middle = f"{figures(min(there))}…{figures(max(there))}" if there else NOTHING
        newest = next((value for value in reversed(values) if value), None)
        drawn = spark([value.mean if value else None for value in values])
        unit = trial_column(metric).shown_unit if metric else chronicle.unit
        mark = "  control" if name == chronicle.control else ""
        yield f"  {name:<{width}}  {drawn}  {figures(newest.mean if newest else None):>6} {unit}  of {middle}{mark}"
    yield from (f"  {words}" for words in unmeasured(chronicle))
    yield from (
        f"  {'(acknowledged) ' if finding.acknowledged else ''}{sentence(finding, chronicle)}"
        for finding in alarms.findings(chronicle, watch)
    )


def night_lines(chronicle: Chronicle, night: Night) -> Iterator[str]:
    """One night: what became of it, what it measured, and what was otherwise than in the night before."""
    yield f"{chronicle.nightly}, night of {night.named}: {night.outcome}" + (
        f", {night.reason}" if night.reason else ""
    )
    yield f"  planned {moment(night.planned_ns)}" + (f", began {moment(night.started_ns)}" if night.started_ns else "")
    if night.directory:
        yield f"  {night.directory}"
    for name, row in chronicle.counts(night).items():
        value = chronicle.value(night, name, night.metric)
        mean = with_interval(Interval(value.mean, value.low, value.high), write=figures) if value else NOTHING
        yield f"  {name}  {mean} {night.unit}  {row.valid} VALID, {row.suspect} SUSPECT, {row.invalid} INVALID"
    for link in chronicle.links.get(night.id, []):
        yield f"  link to {link.line}: {figures(link.mbps, 'Mb/s')}, {figures(link.rtt_ms, 'ms')}"
    before = chronicle.before(night)
    if before and night.outcome == MEASURED:
        yield from (f"  then: {words}" for words in what_else(chronicle, before, night))


TEXT, WHOLE, REAL, TRUTH = "string", "int64", "float64", "bool"  # as Arrow calls them
COLUMNS = {
    "nightly": TEXT, "night": TEXT, "planned_ns": WHOLE, "run": TEXT, "rerun": TRUTH, "outcome": TEXT, "reason": TEXT,
    "control": TEXT, "configuration": TEXT, "metric": TEXT, "mean": REAL, "low": REAL, "high": REAL, "n": WHOLE,
    "valid": WHOLE, "suspect": WHOLE, "invalid": WHOLE, "environment": TEXT,
}  # fmt: skip


def table_rows(chronicle: Chronicle) -> Iterator[tuple[Any, ...]]:
    """A row for each night, configuration and metric; a night without any has one, too."""
    for night in chronicle.nights:
        own_words = (night.outcome, night.reason, night.control)
        lead = (chronicle.nightly, night.day, night.planned_ns, night.run, night.rerun, *own_words)
        verdicts = chronicle.counts(night)
        values = chronicle.values.get(night.id, [])
        cells: list[tuple[Any, ...]] = [(v.configuration, v.metric, v.mean, v.low, v.high, v.n) for v in values]
        without = verdicts.keys() - {value.configuration for value in values}
        cells += [(name, night.metric, *(None,) * 4) for name in verdicts if name in without]
        for own in cells or [("", "", *(None,) * 4)]:
            of = verdicts.get(own[0])
            counts = (of.valid, of.suspect, of.invalid) if of else (None, None, None)
            yield (*lead, *own, *counts, night.environment)


def as_csv(chronicle: Chronicle) -> str:
    # Here and not above: it loads much, and a check needs sentences alone.
    from tierbench.postprocess.tables.write import csv_bytes, no_formula

    lines = ([no_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in table_rows(chronicle))
    return csv_bytes([[*COLUMNS], *lines]).decode()


def write_parquet(chronicle: Chronicle, path: Path) -> None:
    """The same as Parquet, where pyarrow is installed; each column is of its type, also where nothing was measured."""
    from tierbench.postprocess.tables.write import arrow

    pyarrow = arrow("--csv")
    types = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    content = [dict(zip(COLUMNS, row, strict=True)) for row in table_rows(chronicle)]
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content, schema=types), path)
    except OSError as error:
        raise TierbenchError(f"{error}; is there room, and may you write there?") from None
