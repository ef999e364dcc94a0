"""Whether a run is better or worse than another, or than the nights of a baseline: configuration by configuration.

Worse is what is certain and as large as was asked for; the same is what is certain to differ by less; of the rest
nobody can tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from xml.etree import ElementTree

import numpy as np

from tierbench.errors import ConfigError
from tierbench.postprocess.compare.changes import changes, check_common, left_out, usable
from tierbench.postprocess.compare.differences import Difference, differences, incomparable
from tierbench.postprocess.schema.rows import trial_column
from tierbench.postprocess.tables.factors import batch_name
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.tables.run_tables import strays
from tierbench.postprocess.wording import change_percent, counted, figures

BETTER, WORSE, SAME, CANNOT_TELL = "better", "worse", "same", "cannot tell"


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
    strays: Sequence[str] = ()  # trials of either that are far off all others: in its mean, and in no ratio

    @property
    def exit_status(self) -> int:
        """0 same or better, 1 worse, 3 nobody can tell; errors are 2."""
        given = {one.judgement for one in self.judged}
        return 1 if WORSE in given else 3 if CANNOT_TELL in given or self.lost or not given else 0


def compare_runs(one: Results, other: Results, size: float, metric: str = "", anyway: bool = False) -> Comparison:
    """From one run to another; refused where they were made differently."""
    check_common([one, other])
    differing = differences(one, other)
    refuse_unlike(one.name, other.name, differing, anyway)
    metric = metric or one.rate
    judged = []
    for change in changes(one, other, metric):
        interval = (change.ratio, change.low, change.high)
        said = CANNOT_TELL if change.is_doubted else judgement(*interval, size, metric)
        counts = (len(change.before), len(change.after))
        judged.append(
            Judged(change.name, _geometric_mean(change.before), _geometric_mean(change.after), counts, *interval, said)
        )
    there = {batch_name(row.levels) for row in usable(one.trials, metric)}
    missing = left_out(one, other, metric)
    lost = [name for name in missing if name in there]
    new = [name for name in missing if name not in there]
    far = [f"{row.trial} of {run.name}" for run in (one, other) for row in strays(run.trials, metric)]
    return Comparison(
        one.name, other.name, metric, one.unit if metric == one.rate else "", judged, differing, lost, new, far
    )


def judgement(factor: float, low: float | None, high: float | None, size: float, metric: str) -> str:
    """What to make of a ratio and its interval."""
    least, most = 1 - size, 1 / (1 - size)
    if low is None or high is None:
        return CANNOT_TELL
    if least < low and high < most:
        return SAME
    if (high < 1 and factor <= least) or (low > 1 and factor >= most):
        return WORSE if (factor < 1) != (trial_column(metric).better == "less") else BETTER
    return CANNOT_TELL


def _geometric_mean(rates: Sequence[float]) -> float:
    """The geometric mean, as the ratio is that of two of them."""
    return float(np.exp(np.mean(np.log(rates))))


def refuse_unlike(first: str, second: str, differing: Sequence[Difference], anyway: bool) -> None:
    parting = incomparable(differing)
    if parting and not anyway:
        told = "; ".join(difference.words for difference in parting[:4])
        more = f"; and {len(parting) - 4} more" if len(parting) > 4 else ""
        raise ConfigError(
            f"{first} and {second}: cannot be compared, they were made differently: {told}{more};"
            " --anyway compares them all the same"
        )


def lines(made: Comparison) -> Iterator[str]:
    """For a terminal."""
    yield f"{made.second} against {made.first}, {made.metric}:"
    width = max((len(one.configuration) for one in made.judged), default=0)
    for one in made.judged:
        interval = (
            ""
            if one.low is None or one.high is None
            else f" ({change_percent(one.low, 1)}…{change_percent(one.high, 1)})"
        )
        yield (
            f"  {one.configuration:<{width}}  {figures(one.before):>6} → {figures(one.after):>6} {made.unit}"
            f"  {change_percent(one.ratio, 1)}{interval}  {one.judgement}"
        )
    if not made.judged:
        yield "  no configuration has usable trials in both"
    for name in made.lost:
        yield f"  {name:<{width}}  has no usable trials in {made.second}, so nobody can tell"
    for name in made.new:
        yield f"  {name:<{width}}  left out: it has no usable trials in {made.first}"
    for name in made.strays:
        yield f"  {name} lies far off all others, and no ratio is taken with it"
    if made.differing is None:
        yield f"  differs: nobody can say, the run of {made.first}'s latest night is not there any more"
    for difference in made.differing or ():
        yield f"  differs: {difference.words}"


def as_json(made: Comparison) -> str:
    content = {
        "tierbench": "compare", "format": 1,
        "first": made.first, "second": made.second, "metric": made.metric, "unit": made.unit,
        "exit_status": made.exit_status, "configurations": [asdict(one) for one in made.judged],
        "lost": list(made.lost), "new": list(made.new), "strays": list(made.strays),
        "differences": None if made.differing is None else [asdict(one) for one in made.differing],
    }  # fmt: skip
    return json.dumps(content, indent=1, ensure_ascii=False)


def as_junit(made: Comparison) -> str:
    """A test for each configuration: failed where it is worse, skipped where nobody can tell."""
    count = [one.judgement for one in made.judged].count
    suite = ElementTree.Element(
        "testsuite", name=f"{made.second} against {made.first}", tests=str(len(made.judged) + len(made.lost)),
        failures=str(count(WORSE)), skipped=str(count(CANNOT_TELL) + len(made.lost)), errors="0",
    )  # fmt: skip
    for one in made.judged:
        case = ElementTree.SubElement(suite, "testcase", classname=f"tierbench.{made.metric}", name=one.configuration)
        words = f"{figures(one.before)} → {figures(one.after)} {made.unit}, {change_percent(one.ratio, 1)}"
        words += (
            ""
            if one.low is None or one.high is None
            else f", {change_percent(one.low, 1)}…{change_percent(one.high, 1)}"
        )
        if one.judgement == WORSE:
            ElementTree.SubElement(case, "failure", message=words)
        elif one.judgement == CANNOT_TELL:
            ElementTree.SubElement(case, "skipped", message=f"cannot tell: {words}")
    for name in made.lost:
        case = ElementTree.SubElement(suite, "testcase", classname=f"tierbench.{made.metric}", name=name)
        ElementTree.SubElement(case, "skipped", message=f"cannot tell: no usable trials in {made.second}")
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def summary(made: Comparison) -> str:
    """All of it in one line."""
    given = [one.judgement for one in made.judged]
    kinds = [f"{counted(given.count(kind), 'configuration')} {kind}" for kind in dict.fromkeys(given)]
    kinds += [f"{counted(len(made.lost), 'configuration')} without usable trials"] if made.lost else []
    return ", ".join(kinds) or "nothing to compare"
