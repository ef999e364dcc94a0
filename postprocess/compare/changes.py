"""By what factor a metric changed from one run to another, with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tierbench.dags.levels import ACCESS, WORKLOAD
from tierbench.errors import ConfigError
from tierbench.postprocess import stats
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import batch_name, level_of
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.tables.run_tables import strays
from tierbench.postprocess.verdict.counting import SUSPECT, counts, verdict
from tierbench.postprocess.wording import between, factor, listed

Point = frozenset[tuple[str, str]]
METHOD = "moderated t of the logarithms, 95 % for all of them together"


@dataclass(frozen=True)
class Change:
    """A point of the factors in two runs: what their trials had, and the later over the earlier."""

    point: Mapping[str, str]
    before: tuple[float, ...]
    after: tuple[float, ...]
    ratio: float
    low: float | None
    high: float | None
    by_valid: tuple[float | None, float | None] | None = None  # by VALID trials alone, where some are SUSPECT
    strays: tuple[str, ...] = ()  # trials far off all others, which the ratio leaves out
    with_strays: Interval = field(default_factory=Interval)

    @property
    def name(self) -> str:
        return batch_name(self.point)

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out that nothing changed."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def is_doubted(self) -> bool:
        """Whether it is certain by SUSPECT trials alone: those that are VALID do not say so, or the contrary."""
        if not self.certain or self.by_valid is None:
            return False
        low, high = self.by_valid
        return low is None or high is None or not (low > 1 if self.ratio > 1 else high < 1)

    @property
    def stray_words(self) -> str:
        """Which trials the ratio leaves out, and what it is with them."""
        if not self.strays:
            return ""
        lie, are, them = ("lies", "is", "it") if len(self.strays) == 1 else ("lie", "are", "them")
        ratio = self.with_strays
        interval = f" ({between(*ratio.interval)})" if ratio.interval else ""
        return (
            f"{listed(self.strays)} {lie} far off all others and {are} left out;"
            f" with {them} the ratio is {factor(ratio.value)}{interval}"
        )


def changes(first: Results, second: Results, metric: str) -> Iterator[Change]:
    """Every point of the factors that both runs have trials at; the intervals hold all together."""
    runs = _trials(first, metric), _trials(second, metric)
    values = [_values(trials, metric) for trials in runs]
    robust, whole = stats.changes(*values), stats.changes(*values, with_strays=True)
    of_valid = stats.changes(*(_values(trials, metric, doubtful=False) for trials in runs))
    far = {f"{row.trial} of {run.name}" for run in (first, second) for row in strays(run.trials, metric)}
    intervals = zip(stats.simultaneous(robust.values()), stats.simultaneous(whole.values()), strict=True)
    for point, (compared, with_strays) in zip(robust, intervals, strict=True):
        levels = dict(point)  # type: ignore[call-overload]
        both = [trials[point] for trials in runs]  # type: ignore[index]
        doubtful = any(verdict(trial) == SUSPECT for trials in both for trial in trials)
        alone = of_valid[point].ratio if point in of_valid else Interval()
        before, after = (tuple(trial[metric] for trial in trials) for trials in both)
        named = [f"{row.trial} of {run.name}" for run, rows in zip((first, second), both, strict=True) for row in rows]
        yield Change(
            {name: levels[name] for name in first.factors}, before, after,
            compared.ratio.value or 1.0, compared.ratio.low, compared.ratio.high,
            (alone.low, alone.high) if doubtful else None,
            tuple(name for name in named if name in far), with_strays.ratio,
        )  # fmt: skip


def left_out(first: Results, second: Results, metric: str) -> list[str]:
    """The points that either run has trials of, and that are not compared: one of them has none that count."""
    compared = _trials(first, metric).keys() & _trials(second, metric).keys()
    names = {batch_name(dict(point)) for point in compared}
    planned = dict.fromkeys(batch_name(trial.levels) for run in (first, second) for trial in run.trials)
    return [name for name in planned if name not in names]


def _values(trials: Mapping[Point, Sequence[TrialRow]], metric: str, doubtful: bool = True) -> stats.Values:
    return {
        (point, trial.repeat): trial[metric]
        for point, rows in trials.items() for trial in rows if doubtful or verdict(trial) != SUSPECT
    }  # fmt: skip


def usable(trials: Iterable[TrialRow], metric: str) -> list[TrialRow]:
    """The trials that may be compared: those that count, and have the metric."""
    return [trial for trial in trials if counts(trial) and (trial[metric] or 0) > 0]


def _trials(results: Results, metric: str) -> dict[Point, list[TrialRow]]:
    """The trials that count and have the metric, by points: workload by workload, then in the order of the levels."""
    by_point: dict[Point, list[TrialRow]] = {}
    rows = usable(results.trials, metric)
    names = [WORKLOAD, ACCESS, *(name for name in results.factors if name not in (WORKLOAD, ACCESS))]
    places = {name: factor.texts for name, factor in results.factors.items()}
    for trial in sorted(rows, key=lambda row: [places[name].index(level_of(row, name)) for name in names]):
        point = frozenset((name, level_of(trial, name)) for name in names)
        by_point.setdefault(point, []).append(trial)
    return by_point


def run_names(runs: Sequence[Results]) -> list[str]:
    """What each run is called: its folder, with as much of the path as tells it from the others."""
    paths = [run.directory.resolve().parts for run in runs]
    for length in range(1, max(map(len, paths)) + 1):
        called = ["/".join(parts[-length:]) for parts in paths]
        if len(set(called)) == len(called):
            return called
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
