"""The tables of the page: the summary, the ratios, scaling, saturation, and those that the thesis has."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, WORKLOAD
from tierbench.postprocess.compare.points import deciding_place, ranking
from tierbench.postprocess.plots.gallery import interval_words, volatility_column
from tierbench.postprocess.records.ceilings import measured_lines
from tierbench.postprocess.report.answer import conditions
from tierbench.postprocess.report.markup import Markup, element, table
from tierbench.postprocess.schema.rows import EVENTS, OPERATIONS, RATE, SENT, SUMMED
from tierbench.postprocess.schema.run_rows import EXTRAPOLATED, SummaryRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import Panel, batch_name, level_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, counts, verdict
from tierbench.postprocess.wording import NOTHING, TIMES, bounds, factor, figures, numbered, percent, with_interval

ALL_ACTIVE = ("all_active_mbps", "all_active_volatility_pct")
TAKEN = {
    RATE: "delivered throughput of all jobs, and of each",
    SUMMED: "each job’s own throughput while it read, summed, and in the mean",
    EVENTS: "events of all jobs together in a second",
    OPERATIONS: "operations of all jobs together in a second",
}
COMPARED = {
    RATE: "Delivered throughput of", SUMMED: "Sum of the clients’ own rates of", EVENTS: "Events per second of",
    OPERATIONS: "Operations per second of",
}  # fmt: skip
FURTHER = {
    "a client": "client_mbps", "sent": "mean_mbps", "amplification": "amplification", "volatility": "volatility_mbps",
    "peak": "peak_mbps", "window s": "window_s", "wall s": "wall_time_s", "events/s": "events_per_s",
}  # fmt: skip
SATURATION_CAPTION = (
    "Saturation points: the number of jobs at which the straight line, on which each job brings its share, meets the"
    " plateau, with 95 % intervals; < and > where the numbers of jobs bound it on one side only. What one further job"
    " brings is the gain of the last step over its jobs. The prediction is of the mean with more jobs over as many"
    " repetitions, for another run to be held against."
)
SCALING_CAPTION = (
    "Delivered throughput, and the scale factor: the rate over that at the least {along}, over the one {along}"
    " over the other; 1 where twice as many bring twice as much. In italics, after ≈: extrapolated, nothing of it was"
    " measured."
)


def run_tables(results: Results) -> Iterator[Markup | None]:
    """All tables of a run's page, in their order."""
    yield from (scaling_table(results), saturation_table(results), summary_table(results))
    yield from (ratio_table(results, panel) for panel in results.panels)
    yield from (bottleneck_table(results), volatility_table(results), link_table(results))


def summary_table(results: Results) -> Markup:
    """One row for each configuration and number of jobs."""
    bounded = any(row.means[results.rate].low is not None for row in results.summary)
    doubted = results.rate == RATE and any(row.by_valid.value is not None for row in results.summary)
    heads = [*_factors(results), "trials", results.unit, "95 % interval" if bounded else "± trials"]
    heads += [*(["VALID alone"] if doubted else []), *FURTHER]
    rows = []
    for row in _ordered(results):
        mean = row.means[results.rate]
        spread = bounds(mean, figures) if bounded else figures(mean.sd)
        cells = [*_levels(results, row), _trial_numbers(results, row), figures(mean.value)]
        cells += [spread or NOTHING, *([_valid_alone(row)] if doubted else [])]
        rows.append([*cells, *(figures(row.means[name].value) for name in FURTHER.values())])
    caption = (
        f"Means over the usable trials, VALID and SUSPECT, of each configuration and number of jobs. {results.unit}:"
        f" {TAKEN[results.rate]}; sent, volatility and peak: storage throughput, the thesis’ measure."
    )
    return table([*map(results.worded, heads)], rows, words=2, caption=results.worded(caption))


def _valid_alone(row: SummaryRow) -> str:
    """The rate by the VALID trials alone, where that is not the one beside it."""
    if row.by_valid.value is None:
        return "none VALID" if row.suspect and not row.valid else "the same"
    return with_interval(row.by_valid, write=figures)


def ratio_table(results: Results, panel: Panel) -> Markup | None:
    """By what factor the line of a row is faster than that of a column, at the place along x that decides."""
    factor, x = results.layout.lines, deciding_place(results, panel)
    lines = [level_of(row, factor) for row in ranking(results, panel, x)]
    ratios = {
        (level_of(row, factor), row.against): results.together(row)
        for row in rows_at(results.ratios, results.at(panel, x=x))
        if (row.factor, row.metric) == (factor, results.rate) and row.ratio.value is not None
    }
    if not ratios or len(lines) < 2:
        return None

    def cell(line: str, other: str) -> str | Markup:
        if (line, other) not in ratios:
            return NOTHING
        ratio = ratios[line, other].ratio
        return element("b", with_interval(ratio)) if ratio.leaves_out(1) else with_interval(ratio)

    names = [level_name(factor, line) for line in lines]
    rows = [[name, *(cell(line, other) for other in lines)] for name, line in zip(names, lines, strict=True)]
    method = next(iter(ratios.values())).method
    same = conditions(results, panel, x).removeprefix("With ")
    caption = (
        f"{COMPARED[results.rate]} the row’s {factor} over that of the column’s, with {same}, with 95 % interval"
        f" for all comparisons together, repetitions as blocks{f' ({method})' if method else ''}."
        " In bold: the interval leaves 1 out."
    )
    return table(["", *names], rows, caption=caption)


def volatility_table(results: Results) -> Markup | None:
    """The thesis' Tables 6.1 and 6.2: volatility of whole trials, and while all clients were active."""
    rows = [row for row in _ordered(results) if row.means[SENT].value is not None]
    if not rows:
        return None
    column = volatility_column(rows)
    together = any(row.means[name].value is not None for name in ALL_ACTIVE for row in rows)
    heads = [*_factors(results), "sent Mb/s", "std. dev.", "% of mean"]
    heads += ["all active, sent Mb/s", "% of mean, single samples"] if together else []
    cells = []
    for row in rows:
        sent, deviation = row.means[SENT].value, row.means[column].value
        share = deviation / sent if sent and deviation is not None else None
        all_active = [figures(row.means[name].value) for name in ALL_ACTIVE] if together else []
        cells.append([*_levels(results, row), figures(sent), figures(deviation), percent(share), *all_active])
    interval = interval_words(results, column)
    counterpart = "Tables 6.1 and 6.2" if together else "Table 6.1"
    caption = f"Standard deviation of the rates sent within a trial ({interval}), as the thesis’ {counterpart}."
    return table([*map(results.worded, heads)], cells, words=2, caption=results.worded(caption))


def link_table(results: Results) -> Markup | None:
    """The thesis' Table 2-1: what the links can carry, as measured before the run, and as stated."""
    rows: list[list[str]] = []
    for line in measured_lines(results.ceilings):
        rates = [host["mbps"] for host in line["hosts"].values()]
        each = f"{figures(min(rates))}–{figures(max(rates))}" if len(rates) > 1 else NOTHING
        where = f"{results.ceilings.get('from', 'storage')} to {line.get('to', line['role'])}"
        rows.append([where, "measured by iperf3", figures(line["mbps"]), each, figures(line["rtt_ms"])])
    for link, rate in (results.site.get("links") or {}).items():
        if rate and link != "rtt_ms":
            rows.append([f"{link} link", "stated by the site’s file", figures(rate), NOTHING, NOTHING])
    if not rows:
        return None
    caption = "What the links can carry, measured before the run and stated; counterpart of the thesis’ Table 2-1."
    return table(["link", "", "Mb/s", "each host", "round trip ms"], rows, words=2, caption=caption)


def bottleneck_table(results: Results) -> Markup | None:
    """What limited each configuration at each place along x."""
    x = results.layout.x
    explained = [trial for trial in results.trials if trial.limit.bottleneck and counts(trial)]
    if not explained:
        return None
    ladder = [text for text in results.factors[x].in_order.texts if rows_at(explained, {x: text})]
    names = [name for name in _factors(results) if name != x]
    rows = []
    for levels in dict.fromkeys(tuple(level_of(row, name) for name in names) for row in _ordered(results)):
        cells = []
        for text in ladder:
            trials = rows_at(explained, {**dict(zip(names, levels, strict=True)), x: text})
            cells.append(numbered(Counter(trial.limit.bottleneck for trial in trials)) or NOTHING)
        if set(cells) != {NOTHING}:
            rows.append([*levels, *cells])
    caption = (
        "What limited the trials of each point, by the samplers’ evidence; the number of trials where they differ."
    )
    heads = [*names, *(f"{TIMES}{text}" if x == JOBS else level_name(x, text) for text in ladder)]
    return table(heads, rows, words=len(heads), caption=caption)


def _ordered(results: Results) -> Iterator[SummaryRow]:
    """The means, panel by panel and line by line, along x at last."""
    for panel in results.panels:
        for line in results.lines(panel):
            yield from results.summaries_at(results.at(panel, line))


def _factors(results: Results) -> list[str]:
    """The factors that are columns on the page: those that are built in, and the axes."""
    axes = [name for name in results.factors if name not in BUILT_IN]
    return [ACCESS, WORKLOAD, *axes, JOBS]


def _levels(results: Results, row: SummaryRow) -> list[str]:
    return [level_of(row, name) for name in _factors(results)]


def _trial_numbers(results: Results, row: SummaryRow) -> str:
    """How many trials are usable, and what the others are."""
    verdicts = [verdict(trial) for trial in results.trials_at(row.point)]
    others = [f"{verdicts.count(word)} {word}" for word in (SUSPECT, INVALID) if word in verdicts]
    return f"{row.trials or 0}" + (f" ({', '.join(others)})" if others else "")


def saturation_table(results: Results) -> Markup | None:
    """Each ladder's saturation, plateau, what a job brings before and beyond, and the prediction."""
    if not results.saturations:
        return None
    names = [name for name in results.factors if name != JOBS and results.factors[name].several]
    of_ladder = ("saturated with jobs", "plateau Mb/s", "each job", "one further", "then, with jobs", "predicted Mb/s")
    heads = [*names, "", *of_ladder]
    rows = []
    for row in results.saturations:
        cells = [_bounded_cell(bounded) for bounded in (row.full_with, row.plateau, row.each, row.further)]
        later = [str(row.predicted_jobs or NOTHING), _bounded_cell(row.predicted)]
        state = element("span", f"{row.state}: {row.why}" if row.why else row.state, class_="finding")
        rows.append([*(level_of(row, name) for name in names), state, *cells, *later])
    return table(heads, rows, words=len(names) + 1, caption=SATURATION_CAPTION)


def _bounded_cell(bounded: Interval) -> str:
    if bounded.interval and bounded.value is not None:
        return with_interval(bounded, write=figures)
    ends = [f"{sign} {figures(end)}" for sign, end in ((">", bounded.low), ("<", bounded.high)) if end is not None]
    return " ".join(ends) or figures(bounded.value)


def prediction_table(runs: Sequence[Results], names: Sequence[str]) -> Markup | None:
    """What earlier runs predicted of numbers of jobs that later ones have measured."""
    rows = []
    for number, before in enumerate(runs):
        for prediction in before.saturations:
            point = {**prediction.point, JOBS: str(prediction.predicted_jobs)}
            for name, after in zip(names[number + 1 :], runs[number + 1 :], strict=True):
                for row in rows_at(after.summary, point):
                    mean, interval = row.means[RATE], prediction.predicted.interval
                    if mean.value is None or interval is None or (row.trials or 0) < (prediction.repeats or 0):
                        continue  # it is the interval of the mean of as many
                    result = "held" if interval[0] <= mean.value <= interval[1] else "did not hold"
                    cells = [_bounded_cell(prediction.predicted), _bounded_cell(mean)]
                    rows.append([batch_name(row.levels), names[number], name, element("b", result), *cells])
    heads = ["", "predicted by", "measured by", "", "predicted Mb/s", "measured Mb/s"]
    caption = "What a run predicted of more jobs, and what another measured there."
    return table(heads, rows, words=4, caption=caption) if rows else None


def scaling_table(results: Results) -> Markup | None:
    """Each point along the factor, measured or extrapolated."""
    if not results.scaling:
        return None
    along = results.scaling[0].factor
    columns = [name for name in _factors(results) if name != along and results.factors[name].several]
    places = {name: results.factors[name].in_order.texts.index for name in (*columns, along)}
    rows = []
    for row in sorted(results.scaling, key=lambda row: [place(level_of(row, name)) for name, place in places.items()]):
        cells = [figures(row.delivered.value), bounds(row.delivered, figures) or NOTHING]
        cells += [factor(row.scale.value), bounds(row.scale) or NOTHING]
        kind = row.kind
        if kind == EXTRAPOLATED:
            cells = [cell if cell == NOTHING else element("i", f"≈ {cell}") for cell in cells]
            kind = element("i", f"extrapolated by {row.by}")
        rows.append([*(level_of(row, name) for name in columns), level_of(row, along), kind, *cells])
    heads = [*columns, along, "", "Mb/s", "95 % interval", "scale factor", "95 % interval"]
    return table(heads, rows, words=len(columns) + 2, caption=SCALING_CAPTION.format(along=along))
