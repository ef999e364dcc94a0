"""One experiment at several sites: the ratios within each, side by side, and whether these differ between sites.

Rates of two sites are not compared: they are of other hardware. Of ratios it is known that they are within one site.
"""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tierbench.errors import ConfigError
from tierbench.postprocess import stats
from tierbench.postprocess.compare.differences import UNMEASURED
from tierbench.postprocess.compare.judgement import EQUIVALENT, INCONCLUSIVE, judgement, run_names
from tierbench.postprocess.schema.run_rows import RatioRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import batch_name
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT
from tierbench.postprocess.wording import aligned, counted, limit_percent, listed, with_interval

DIFFER, AGREE = "differ", "agree"


@dataclass(frozen=True)
class Shared:
    """A ratio that all sites have: at each of them, and of which two sites the one is how many times the other's."""

    name: str
    ratios: Mapping[str, Interval]
    result: str
    pair: tuple[str, str]
    apart: Interval
    by_suspect: str = ""  # what SUSPECT trials alone would make of an inconclusive one


@dataclass(frozen=True)
class AcrossSites:
    """What several sites have of one experiment."""

    sites: Sequence[str]
    against: str
    metric: str
    size: float
    shared: Sequence[Shared]
    lacking: Mapping[str, Sequence[str]]  # by ratio, the sites that have none with an interval
    verdicts: Mapping[str, Mapping[str, int]]  # how many trials of each site have which one

    @property
    def exit_status(self) -> int:
        """0 all agree, 1 some differ, 3 inconclusive; errors are 2."""
        results = {shared.result for shared in self.shared}
        return 1 if DIFFER in results else 0 if results == {AGREE} and not self.lacking else 3


def across_sites(runs: Sequence[Results], size: float, metric: str = "") -> AcrossSites:
    """The ratios of all lines over one, which is the experiment's baseline, or the first that it names."""
    names = run_names(runs)
    sites = [str(run.plan.get("site")) for run in runs]
    sites = sites if len(set(sites)) == len(sites) else names
    for run, name in zip(runs[1:], names[1:], strict=True):
        _refuse_other_experiment(runs[0], run, names[0], name)
    first = runs[0]
    metric, against = metric or first.rate, first.layout.baseline or first.compared.texts[0]
    by_site = {
        site: {
            batch_name(row.levels): row for row in run.ratios
            if (row.factor, row.against, row.metric) == (run.layout.lines, against, metric)
        }
        for site, run in zip(sites, runs, strict=True)
    }  # fmt: skip
    having = {
        name: [site for site, rows in by_site.items() if name in rows and rows[name].compared.df]
        for name in dict.fromkeys(itertools.chain(*by_site.values()))
    }
    lacking = {name: left for name, there in having.items() if (left := [site for site in sites if site not in there])}
    common = [name for name in having if name not in lacking]
    together = len(common) * math.comb(len(sites), 2) * max(run.looks for run in runs)
    shared = []
    for name in common:
        rows = {site: by_site[site][name] for site in sites}
        result, pair, apart = _between_sites(rows, size, metric, together)
        doubted, by_suspect = any(row.is_doubted for row in rows.values()), ""
        if doubted and _between_sites(rows, size, metric, together, valid=True)[0] != result:
            by_suspect, result = "" if result == INCONCLUSIVE else result, INCONCLUSIVE
        ratios = {site: run.together(rows[site]).ratio for site, run in zip(sites, runs, strict=True)}
        shared.append(Shared(name, ratios, result, pair, apart, by_suspect))
    verdicts = {
        site: dict(Counter(trial.verdict for trial in run.trials)) for site, run in zip(sites, runs, strict=True)
    }
    return AcrossSites(sites, against, metric, size, shared, lacking, verdicts)


def _refuse_other_experiment(first: Results, other: Results, *names: str) -> None:
    """An experiment is what its rates go by; a key that says nothing is as good as none."""
    keys = sorted((first.experiment.keys() | other.experiment.keys()) - UNMEASURED - {"repeats"})
    differing = [key for key in keys if (first.experiment.get(key) or None) != (other.experiment.get(key) or None)]
    if differing:
        raise ConfigError(
            f"{' and '.join(names)}: are runs of different experiments (other {listed(differing)});"
            " --sites brings together runs of one experiment file"
        )


def _between_sites(
    rows: Mapping[str, RatioRow], size: float, metric: str, together: float, *, valid: bool = False
) -> tuple[str, tuple[str, str], Interval]:
    """Whether any two sites differ, or all are equivalent; and of which two the ratios are furthest apart."""
    judged = []
    for one, other in itertools.combinations(rows, 2):
        ratios = (
            row.compared_by_valid if valid and row.is_doubted else row.compared for row in (rows[other], rows[one])
        )
        apart = stats.over(*ratios).at(functools.partial(stats.student, together=together))
        judged.append((judgement(apart, size, metric), (one, other), apart))
    results = {result for result, _, _ in judged}
    differing = [each for each in judged if each[0] not in (EQUIVALENT, INCONCLUSIVE)]
    _, pair, apart = max(differing or judged, key=lambda each: abs(math.log(each[2].value or 1.0)))
    return DIFFER if differing else AGREE if results == {EQUIVALENT} else INCONCLUSIVE, pair, apart


def lines(comparison: AcrossSites) -> Iterator[str]:
    yield f"{comparison.metric}, ratio to {comparison.against} within each site (95 % CI):"
    table = [["", *comparison.sites, ""]] if comparison.shared else []
    table += [[each.name, *map(with_interval, each.ratios.values()), _words(each)] for each in comparison.shared]
    yield from (f"  {line}" for line in aligned(table))
    for name, sites in comparison.lacking.items():
        yield f"  {name}  left out: no ratio with an interval at {listed(sites)}"
    results = [shared.result for shared in comparison.shared]
    counts = ", ".join(f"{results.count(kind)} {kind}" for kind in dict.fromkeys(results))
    within = f"; agree: within {limit_percent(comparison.size)}" if AGREE in results else ""
    yield f"of {counted(len(results), 'ratio')} {counts}{within}" if results else "no ratio that all sites have"
    for site, verdicts in comparison.verdicts.items():
        doubts = [f"{verdicts[verdict]} {verdict}" for verdict in (SUSPECT, INVALID) if verdicts.get(verdict)]
        if doubts:
            yield f"{site}: {listed(doubts)} of {counted(sum(verdicts.values()), 'trial')}; its report says why"
    if INCONCLUSIVE in results or comparison.lacking:
        yield "more repetitions may decide what is inconclusive or left out: `tierbench run --more N RUN` at its site"


def _words(shared: Shared) -> str:
    """What to make of a ratio's values at the sites, and of the two that are furthest apart."""
    if shared.result == AGREE:
        return AGREE
    one, other = shared.pair
    why = f" ({shared.by_suspect} by SUSPECT trials alone)" if shared.by_suspect else ""
    return f"{shared.result}{why}: {other}'s is {with_interval(shared.apart)} times {one}'s"
