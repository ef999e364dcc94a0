"""Whether a run is faster or slower than another, or than the nights of a baseline: configuration by configuration.

Slower is what is certain and as large as was asked for; equivalent is what is certain to differ by less.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from xml.etree import ElementTree

import numpy as np

from tierbench.errors import ConfigError
from tierbench.postprocess.compare.changes import Change, changes, check_common, left_out, usable
from tierbench.postprocess.compare.differences import Difference, differences, incomparable
from tierbench.postprocess.schema.rows import trial_column
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import batch_name
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.wording import change_percent, counted, figures

FASTER, SLOWER, EQUIVALENT, INCONCLUSIVE = "faster", "slower", "equivalent", "inconclusive"


@dataclass(frozen=True)
class Judged:
    """A configuration in both: how much it has in each, the later over the earlier, and what to make of it."""

    configuration: str
    before: float
    after: float
    counts: tuple[int, int]  # of trials, or of nights
    ratio: float
    low: float | None
    high: float | None
    judgement: str
    strays: str = ""  # which trials far off all others may have decided it

    @property
    def percent(self) -> str:
        ends = [change_percent(end, 1) for end in (self.low, self.high) if end is not None]
        return change_percent(self.ratio, 1) + (f" ({'…'.join(ends)})" if len(ends) == 2 else "")


@dataclass(frozen=True)
class Comparison:
    """Two runs, or a run and a baseline, by one metric."""

    first: str
    second: str
    metric: str
    unit: str
    judged: Sequence[Judged]
    differing: Sequence[Difference] | None  # none: nobody can look any more
    lost: Sequence[str] = ()  # configurations of the first that have no usable trials in the second
    new: Sequence[str] = ()  # those that have none in the first

    @property
    def exit_status(self) -> int:
        """0 equivalent or faster, 1 slower, 3 inconclusive; errors are 2."""
        given = {row.judgement for row in self.judged}
        return 1 if SLOWER in given else 3 if INCONCLUSIVE in given or self.lost or not given else 0


def compare_runs(first: Results, second: Results, size: float, metric: str = "", anyway: bool = False) -> Comparison:
    """From one run to another; refused where they were made differently."""
    check_common([first, second])
    differing = differences(first, second)
    refuse_unlike(first.name, second.name, differing, anyway)
    metric = metric or first.rate
    judged = [
        Judged(
            change.name, _geometric_mean(change.before), _geometric_mean(change.after),
            (len(change.before), len(change.after)), change.ratio, change.low, change.high,
            _of_change(change, size, metric), change.stray_words,
        )
        for change in changes(first, second, metric)
    ]  # fmt: skip
    there = {batch_name(row.levels) for row in usable(first.trials, metric)}
    missing = left_out(first, second, metric)
    lost, new = ([name for name in missing if (name in there) == in_first] for in_first in (True, False))
    unit = first.unit if metric == first.rate else ""
    return Comparison(first.name, second.name, metric, unit, judged, differing, lost, new)


def _of_change(change: Change, size: float, metric: str) -> str:
    """Inconclusive where SUSPECT trials decide, or where nothing is slower only because a trial was left out."""
    result = judgement(change.ratio, change.low, change.high, size, metric)
    if change.is_doubted:
        return INCONCLUSIVE
    if not change.strays or result == SLOWER:
        return result
    return agreed(result, change.with_strays, size, metric)


def agreed(result: str, other: Interval, size: float, metric: str) -> str:
    """A result, unless another choice of trials has another one."""
    same = judgement(other.value or 1.0, other.low, other.high, size, metric) == result
    return result if same else INCONCLUSIVE


def judgement(factor: float, low: float | None, high: float | None, size: float, metric: str) -> str:
    """What to make of a ratio and its interval."""
    least, most = 1 - size, 1 / (1 - size)
    if low is None or high is None:
        return INCONCLUSIVE
    if least < low and high < most:
        return EQUIVALENT
    if (high < 1 and factor <= least) or (low > 1 and factor >= most):
        return SLOWER if (factor < 1) != (trial_column(metric).better == "less") else FASTER
    return INCONCLUSIVE


def _geometric_mean(rates: Sequence[float]) -> float:
    """The geometric mean, as the ratio is that of two of them."""
    return float(np.exp(np.mean(np.log(rates))))


def refuse_unlike(first: str, second: str, differing: Sequence[Difference], anyway: bool) -> None:
    parting = incomparable(differing)
    if parting and not anyway:
        first_few = "; ".join(difference.words for difference in parting[:4])
        more = f"; and {len(parting) - 4} more" if len(parting) > 4 else ""
        raise ConfigError(
            f"{first} and {second}: cannot be compared, they were made differently: {first_few}{more};"
            " --anyway compares them all the same"
        )


def lines(made: Comparison) -> Iterator[str]:
    yield f"{made.second} against {made.first}, {made.metric}:"
    width = max((len(row.configuration) for row in made.judged), default=0)
    for row in made.judged:
        rates = f"{figures(row.before):>6} → {figures(row.after):>6} {made.unit}"
        yield f"  {row.configuration:<{width}}  {rates}  {row.percent}  {row.judgement}"
        if row.strays:
            yield f"  {'':<{width}}  {row.strays}"
    if not made.judged:
        yield "  no configuration has usable trials in both"
    for name in made.lost:
        yield f"  {name:<{width}}  inconclusive: no usable trials in {made.second}"
    for name in made.new:
        yield f"  {name:<{width}}  left out: no usable trials in {made.first}"
    if made.differing is None:
        yield f"  differs: unknown, since the run of {made.first}'s latest night was removed"
    for difference in made.differing or ():
        yield f"  differs: {difference.words}"


def as_json(made: Comparison) -> str:
    content = {
        "tierbench": "compare", "format": 2,
        "first": made.first, "second": made.second, "metric": made.metric, "unit": made.unit,
        "exit_status": made.exit_status, "configurations": [asdict(row) for row in made.judged],
        "lost": list(made.lost), "new": list(made.new),
        "differences": None if made.differing is None else [asdict(difference) for difference in made.differing],
    }  # fmt: skip
    return json.dumps(content, indent=1, ensure_ascii=False)


def as_junit(made: Comparison) -> str:
    """A test for each configuration: failed where it is slower, skipped where that is inconclusive."""
    count = [row.judgement for row in made.judged].count
    suite = ElementTree.Element(
        "testsuite", name=f"{made.second} against {made.first}", tests=str(len(made.judged) + len(made.lost)),
        failures=str(count(SLOWER)), skipped=str(count(INCONCLUSIVE) + len(made.lost)), errors="0",
    )  # fmt: skip

    def case(configuration: str) -> ElementTree.Element:
        return ElementTree.SubElement(suite, "testcase", classname=f"tierbench.{made.metric}", name=configuration)

    for row in made.judged:
        test, strays = case(row.configuration), f"; {row.strays}" if row.strays else ""
        words = f"{figures(row.before)} → {figures(row.after)} {made.unit}, {row.percent}{strays}"
        if row.judgement == SLOWER:
            ElementTree.SubElement(test, "failure", message=words)
        elif row.judgement == INCONCLUSIVE:
            ElementTree.SubElement(test, "skipped", message=f"inconclusive: {words}")
        elif row.strays:
            ElementTree.SubElement(test, "system-out").text = row.strays
    for name in made.lost:
        ElementTree.SubElement(case(name), "skipped", message=f"inconclusive: no usable trials in {made.second}")
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def summary(made: Comparison) -> str:
    given = [row.judgement for row in made.judged]
    kinds = [f"{counted(given.count(kind), 'configuration')} {kind}" for kind in dict.fromkeys(given)]
    kinds += [f"{counted(len(made.lost), 'configuration')} without usable trials"] if made.lost else []
    return ", ".join(kinds) or "nothing to compare"
