"""Whether a run is faster or slower than another, or than the nights of a baseline: configuration by configuration.

By what factor each metric changed at each point, with its interval. Slower is what is certain and as large as was asked
for; equivalent is what is certain to differ by less.
"""

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from xml.etree import ElementTree

import numpy as np

from tierbench.dags.levels import ACCESS, WORKLOAD, no_difference
from tierbench.errors import ConfigError
from tierbench.postprocess import stats
from tierbench.postprocess.compare.differences import Difference, differences
from tierbench.postprocess.schema.rows import TrialRow, trial_column
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import batch_name, level_of
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import SUSPECT, comparable, verdict
from tierbench.postprocess.wording import change_percent, counted, far_off, figures, with_interval

METHOD = "moderated t of the logarithms, 95 % for all of them together"
FASTER, SLOWER, EQUIVALENT, INCONCLUSIVE = "faster", "slower", "equivalent", "inconclusive"


@dataclass(frozen=True)
class Change:
    """A point of the factors in two runs: what their trials had, and the later over the earlier."""

    point: Mapping[str, str]
    before: tuple[float, ...]
    after: tuple[float, ...]
    ratio: Interval
    by_valid: Interval | None = None  # by VALID trials alone, where some are SUSPECT
    strays: tuple[str, ...] = ()  # trials far off all others, which the ratio leaves out
    with_strays: Interval = field(default_factory=Interval)

    @property
    def name(self) -> str:
        return batch_name(self.point)

    @property
    def factor(self) -> float:
        return self.ratio.value or 1.0

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out that nothing changed."""
        return self.ratio.leaves_out(1)

    @property
    def is_doubted(self) -> bool:
        """Whether it is certain by SUSPECT trials alone: those that are VALID do not say so, or the contrary."""
        if not self.certain or self.by_valid is None:
            return False
        same_side = ((self.by_valid.low or 0) > 1) == (self.factor > 1)
        return not (self.by_valid.leaves_out(1) and same_side)

    @property
    def stray_words(self) -> str:
        """Which trials the ratio leaves out, and what it is with them."""
        if not self.strays:
            return ""
        them = "it" if len(self.strays) == 1 else "them"
        return f"{far_off(self.strays)}; with {them} the ratio is {with_interval(self.with_strays)}"


def changes(first: Results, second: Results, metric: str) -> Iterator[Change]:
    """Every point of the factors that both runs have trials at; the intervals hold all together."""
    runs = _trials(first, metric), _trials(second, metric)
    values, by_valid = (
        [{at: row[metric] for at, row in rows.items() if doubtful or verdict(row) != SUSPECT} for rows in runs]
        for doubtful in (True, False)
    )
    changed = stats.changes(*values), stats.changes(*values, with_strays=True), stats.changes(*by_valid)
    looks = max(run.looks for run in (first, second))
    robust, with_strays, of_valid = (stats.simultaneous(of, looks) for of in changed)
    strays = [stats.blocks(of)[1] for of in values]
    for point, ratio in robust.items():
        before, after = both = [{at: row for at, row in rows.items() if at[0] == point} for rows in runs]
        doubtful = any(verdict(row) == SUSPECT for rows in both for row in rows.values())
        yield Change(
            point={name: level_of(next(iter(before.values())), name) for name in first.factors},
            before=tuple(row[metric] for row in before.values()),
            after=tuple(row[metric] for row in after.values()),
            ratio=ratio,
            by_valid=of_valid.get(point, Interval()) if doubtful else None,
            strays=tuple(
                f"{row.trial} of {run.name}"
                for run, rows, far in zip((first, second), both, strays, strict=True)
                for at, row in rows.items() if at in far
            ),
            with_strays=with_strays[point],
        )  # fmt: skip


def left_out(first: Results, second: Results, metric: str) -> list[str]:
    """The points that either run has trials of, and that are not compared: one of them has none that is usable."""
    with_trials = ({batch_name(row.levels) for row in comparable(run.trials, metric)} for run in (first, second))
    compared = set.intersection(*with_trials)
    planned = dict.fromkeys(batch_name(trial.levels) for run in (first, second) for trial in run.trials)
    return [name for name in planned if name not in compared]


def _trials(results: Results, metric: str) -> dict[tuple[Hashable, Hashable], TrialRow]:
    """The usable trials by point and repetition: workload by workload, then in the order of the levels."""
    names = [WORKLOAD, ACCESS, *(name for name in results.factors if name not in (WORKLOAD, ACCESS))]
    places = {name: factor.texts for name, factor in results.factors.items()}
    rows = comparable(results.trials, metric)
    rows.sort(key=lambda row: [places[name].index(level_of(row, name)) for name in names])
    return {(frozenset(row.point.items()), row.repeat): row for row in rows}


def run_names(runs: Sequence[Results]) -> list[str]:
    """What each run is called: its folder, with as much of the path as tells it from the others."""
    paths = [run.directory.resolve().parts for run in runs]
    for length in range(1, max(map(len, paths)) + 1):
        names = ["/".join(parts[-length:]) for parts in paths]
        if len(set(names)) == len(names):
            return names
    raise ConfigError(f"{runs[0].directory}: given twice; a comparison needs different runs")


def check_common(runs: Sequence[Results]) -> None:
    """Runs without a configuration in common have nothing to compare."""
    first = {row.configuration for row in runs[0].trials}
    for run in runs[1:]:
        if not first & {row.configuration for row in run.trials}:
            both = (", ".join(dict.fromkeys(trial.configuration for trial in each.trials)) for each in (runs[0], run))
            raise ConfigError(
                f"{runs[0].directory} and {run.directory}: have no configuration in common"
                f" ({' against '.join(both)}); make a report of each"
            )


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
    by_suspect: str = ""  # what SUSPECT trials alone would make of an inconclusive one

    @property
    def words(self) -> str:
        return self.judgement + (f" ({self.by_suspect} by SUSPECT trials alone)" if self.by_suspect else "")

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
    compared: str = "usable trials"  # or of which there are too few

    @property
    def exit_status(self) -> int:
        """0 equivalent or faster, 1 slower, 3 inconclusive; errors are 2."""
        judgements = {row.judgement for row in self.judged}
        return 1 if SLOWER in judgements else 3 if INCONCLUSIVE in judgements or self.lost or not judgements else 0


def compare_runs(first: Results, second: Results, size: float, metric: str = "", anyway: bool = False) -> Comparison:
    """From one run to another; refused where they were made differently."""
    before, after = run_names([first, second])
    check_common([first, second])
    differing = differences(first, second)
    refuse_unlike(before, after, differing, anyway)
    metric = metric or first.rate
    judged = [
        Judged(
            change.name, _geometric_mean(change.before), _geometric_mean(change.after),
            (len(change.before), len(change.after)), change.factor, change.ratio.low, change.ratio.high,
            _of_change(change, size, metric), change.stray_words, _by_suspect(change, size, metric),
        )
        for change in changes(first, second, metric)
    ]  # fmt: skip
    of_first = {batch_name(row.levels) for row in comparable(first.trials, metric)}
    missing = left_out(first, second, metric)
    lost, new = ([name for name in missing if (name in of_first) == in_first] for in_first in (True, False))
    usable = "usable trials" if metric == first.rate else f"usable trials with {metric}"
    return Comparison(before, after, metric, trial_column(metric).shown_unit, judged, differing, lost, new, usable)


def _of_change(change: Change, size: float, metric: str) -> str:
    """Inconclusive where SUSPECT trials decide, or where nothing is slower only because a trial was left out."""
    result = INCONCLUSIVE if _by_suspect(change, size, metric) else judgement(change.ratio, size, metric)
    if not change.strays or result == SLOWER:
        return result
    return agreed(result, change.with_strays, size, metric)


def _by_suspect(change: Change, size: float, metric: str) -> str:
    """The result of all trials, where the VALID ones alone do not have it."""
    result = judgement(change.ratio, size, metric)
    return "" if change.by_valid is None or agreed(result, change.by_valid, size, metric) == result else result


def agreed(result: str, other: Interval, size: float, metric: str) -> str:
    """A result, unless another choice of trials has another one."""
    return result if judgement(other, size, metric) == result else INCONCLUSIVE


def judgement(ratio: Interval, size: float, metric: str) -> str:
    """What to make of a ratio and its interval."""
    factor, (least, most) = ratio.value or 1.0, no_difference(size)
    if ratio.interval is None:
        return INCONCLUSIVE
    low, high = ratio.interval
    if least < low and high < most:
        return EQUIVALENT
    if (high < 1 and factor <= least) or (low > 1 and factor >= most):
        return SLOWER if (factor < 1) != (trial_column(metric).better == "less") else FASTER
    return INCONCLUSIVE


def _geometric_mean(rates: Sequence[float]) -> float:
    """The geometric mean, as the ratio is that of two of them."""
    return float(np.exp(np.mean(np.log(rates))))


def refuse_unlike(first: str, second: str, differing: Sequence[Difference], anyway: bool) -> None:
    parting = [difference for difference in differing if difference.parts]
    if parting and not anyway:
        first_few = "; ".join(difference.words for difference in parting[:4])
        more = f"; and {len(parting) - 4} more" if len(parting) > 4 else ""
        raise ConfigError(
            f"{first} and {second}: cannot be compared, they were made differently: {first_few}{more};"
            " --anyway compares them all the same"
        )


def lines(comparison: Comparison) -> Iterator[str]:
    less = " (less is better)" if trial_column(comparison.metric).better == "less" else ""
    yield f"{comparison.second} against {comparison.first}, {comparison.metric}{less}:"
    width = max((len(row.configuration) for row in comparison.judged), default=0)
    for row in comparison.judged:
        rates = f"{figures(row.before):>6} → {figures(row.after):>6} {comparison.unit}"
        yield f"  {row.configuration:<{width}}  {rates}  {row.percent}  {row.words}"
        if row.strays:
            yield f"  {'':<{width}}  {row.strays}"
    if not comparison.judged:
        yield f"  no configuration has {comparison.compared} in both"
    for name in comparison.lost:
        yield f"  {name:<{width}}  inconclusive: no {comparison.compared} in {comparison.second}"
    for name in comparison.new:
        yield f"  {name:<{width}}  left out: no {comparison.compared} in {comparison.first}"
    if comparison.differing is None:
        yield f"  differs: unknown, since the run of {comparison.first}'s latest night was removed"
    for difference in comparison.differing or ():
        yield f"  differs: {difference.words}"


def as_json(comparison: Comparison) -> str:
    differing = comparison.differing
    content = {
        "tierbench": "compare", "format": 2,
        **{key: getattr(comparison, key) for key in ("first", "second", "metric", "unit")},
        "exit_status": comparison.exit_status, "configurations": [asdict(row) for row in comparison.judged],
        "lost": list(comparison.lost), "new": list(comparison.new),
        "differences": None if differing is None else [asdict(difference) for difference in differing],
    }  # fmt: skip
    return json.dumps(content, indent=1, ensure_ascii=False)


def as_junit(comparison: Comparison) -> str:
    """A test for each configuration: failed where it is slower, skipped where that is inconclusive."""
    count, lost = [row.judgement for row in comparison.judged].count, len(comparison.lost)
    suite = ElementTree.Element(
        "testsuite", name=f"{comparison.second} against {comparison.first}", tests=str(len(comparison.judged) + lost),
        failures=str(count(SLOWER)), skipped=str(count(INCONCLUSIVE) + lost), errors="0",
    )  # fmt: skip

    def case(configuration: str) -> ElementTree.Element:
        return ElementTree.SubElement(suite, "testcase", classname=f"tierbench.{comparison.metric}", name=configuration)

    for row in comparison.judged:
        test, strays = case(row.configuration), f"; {row.strays}" if row.strays else ""
        words = f"{figures(row.before)} → {figures(row.after)} {comparison.unit}, {row.percent}{strays}"
        if row.judgement == SLOWER:
            ElementTree.SubElement(test, "failure", message=words)
        elif row.judgement == INCONCLUSIVE:
            ElementTree.SubElement(test, "skipped", message=f"{row.words}: {words}")
        elif row.strays:
            ElementTree.SubElement(test, "system-out").text = row.strays
    without = f"inconclusive: no {comparison.compared} in {comparison.second}"
    for name in comparison.lost:
        ElementTree.SubElement(case(name), "skipped", message=without)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def summary(comparison: Comparison) -> str:
    judgements = [row.judgement for row in comparison.judged]
    kinds = [f"{counted(judgements.count(kind), 'configuration')} {kind}" for kind in dict.fromkeys(judgements)]
    if comparison.lost:
        kinds.append(f"{counted(len(comparison.lost), 'configuration')} without {comparison.compared}")
    return ", ".join(kinds) or "nothing to compare"
