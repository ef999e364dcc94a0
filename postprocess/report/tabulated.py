"""The tables of the page: the summary, the ratios, and those that the thesis has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, WORKLOAD
from tierbench.postprocess.plots.gallery import interval_words, volatility_column
from tierbench.postprocess.records.roles import by_role
from tierbench.postprocess.report.answer import conditions, deciding_place, ranking
from tierbench.postprocess.report.markup import Markup, element, table
from tierbench.postprocess.report.words import NOTHING, TIMES, figures, percent, span
from tierbench.postprocess.tables.columns import RATE, SENT, SUMMED
from tierbench.postprocess.tables.points import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.results import Results, Row
from tierbench.postprocess.verdict.counted import INVALID, SUSPECT, counts, verdict

TAKEN = {
    RATE: "what the jobs took in, all together and each",
    SUMMED: "what each job took in while it read, summed, and in the mean",
}
COMPARED = {RATE: "Rate delivered by", SUMMED: "Sum of the clients’ own rates by"}
REST = (
    "client_mbps", "mean_mbps", "amplification", "volatility_mbps", "peak_mbps", "window_s", "wall_time_s",
    "events_per_s",
)  # fmt: skip


def summary_table(results: Results) -> Markup:
    """One row for each configuration and batch."""
    rate = results.rate
    bounded = any(row.get(f"{rate}_low") is not None for row in results.summary)
    doubted = rate == RATE and any(row.get("delivered_valid_mbps") is not None for row in results.summary)
    heads = [*_factors(results), "trials", "Mb/s", "95 % interval" if bounded else "± trials"]
    heads += ["VALID alone"] if doubted else []
    heads += ["a client", "sent", "sent / taken in", "volatility", "peak", "window s", "wall s", "events/s"]
    rows = []
    for row in _ordered(results):
        spread = span(row.get(f"{rate}_low"), row.get(f"{rate}_high")) if bounded else figures(row.get(f"{rate}_sd"))
        rest = (row.get(name) for name in REST)
        cells = [*_levels(results, row), _trials(results, row), figures(row.get(rate))]
        cells += [spread or NOTHING, *([_valid_alone(row)] if doubted else [])]
        rows.append([*cells, *map(figures, rest)])
    caption = (
        f"Means over the trials that count, VALID and SUSPECT, of each configuration and batch. Mb/s: {TAKEN[rate]};"
        " sent, volatility and peak: what the storage sent, the thesis’ measure."
    )
    return table(heads, rows, words=2, caption=caption)


def _valid_alone(row: Row) -> str:
    """The rate by the VALID trials alone, where that is not the one beside it."""
    if row.get("delivered_valid_mbps") is None:
        return "none VALID" if row.get("suspect") and not row.get("valid") else "the same"
    interval = span(row.get("delivered_valid_low"), row.get("delivered_valid_high"))
    return figures(row["delivered_valid_mbps"]) + (f" ({interval})" if interval else "")


def ratio_table(results: Results, panel: Panel) -> Markup | None:
    """By what factor the line of a row is faster than that of a column, at the place along x that decides."""
    factor, x = results.layout.lines, deciding_place(results, panel)
    lines = [level_of(row, factor) for row in ranking(results, panel, x)]
    known = {
        (level_of(row, factor), row["against"]): row
        for row in rows_at(results.ratios, results.at(panel, x=x))
        if (row["factor"], row["metric"]) == (factor, results.rate) and row.get("ratio") is not None
    }
    if not known or len(lines) < 2:
        return None
    names = [level_name(factor, line) for line in lines]
    rows = [
        [name, *(_ratio(known.get((line, other))) for other in lines)] for name, line in zip(names, lines, strict=True)
    ]
    example = next(iter(known.values()))
    told = f" ({example['method']})" if example.get("method") else ""
    same = conditions(results, panel, x).removeprefix("With ")
    caption = (
        f"{COMPARED[results.rate]} the row’s {factor} over that of the column’s, with {same}, with 95 % interval"
        f" from trials of the same repetition{told}. In bold: the interval leaves 1 out."
    )
    return table(["", *names], rows, caption=caption)


def volatility_table(results: Results) -> Markup | None:
    """The thesis' Tables 6.1 and 6.2: volatility of whole trials, and of their steady state."""
    rows = [row for row in _ordered(results) if row.get(SENT) is not None]
    if not rows:
        return None
    column = volatility_column(rows)
    steady = any(row.get("steady_mbps") is not None for row in rows)
    heads = [*_factors(results), "sent Mb/s", "std. dev.", "% of mean"]
    heads += ["steady, sent Mb/s", "std. dev.", "% of mean"] if steady else []
    cells = [
        [
            *_levels(results, row),
            *_volatility(row, SENT, column),
            *(_volatility(row, "steady_mbps", "steady_volatility_mbps") if steady else ()),
        ]
        for row in rows
    ]
    interval = interval_words(results, column)
    counterpart = "Tables 6.1 and 6.2" if steady else "Table 6.1; the steady state, its Table 6.2, was not determined"
    caption = f"Standard deviation of the rates sent within a trial ({interval}), as the thesis’ {counterpart}."
    return table(heads, cells, words=2, caption=caption)


def link_table(results: Results) -> Markup | None:
    """The thesis' Table 2-1: what the links can carry, as measured before the run, and as stated."""
    rows: list[list[str]] = []
    for line in results.ceilings.get("measured", []):
        rates = [host["mbps"] for host in line["hosts"].values()]
        each = f"{figures(min(rates))}–{figures(max(rates))}" if len(rates) > 1 else NOTHING
        where = f"{results.ceilings['from']} to {line['to']}"
        rows.append([where, "measured by iperf3", figures(line["mbps"]), each, figures(line["rtt_ms"])])
    for link, rate in by_role(results.site.get("links") or {}).items():
        if rate and link != "rtt_ms":
            rows.append([f"{link} link", "stated by the site’s file", figures(rate), NOTHING, NOTHING])
    if not rows:
        return None
    caption = "What the links can carry, measured before the run and stated; counterpart of the thesis’ Table 2-1."
    return table(["link", "", "Mb/s", "each host", "round trip ms"], rows, words=2, caption=caption)


def bottleneck_table(results: Results) -> Markup | None:
    """What held each configuration back at each place along x."""
    x = results.layout.x
    told = [trial for trial in results.trials if trial.get("bottleneck") and counts(trial)]
    if not told:
        return None
    ladder = [text for text in results.factors[x].in_order.texts if rows_at(told, {x: text})]
    names = [name for name in _factors(results) if name != x]
    points = [{name: level_of(row, name) for name in names} for row in _ordered(results)]
    rows = [
        [
            *point.values(),
            *(_labels([row["bottleneck"] for row in rows_at(told, {**point, x: text})]) for text in ladder),
        ]
        for number, point in enumerate(points)
        if point not in points[:number] and rows_at(told, point)
    ]
    caption = (
        "What held the trials of each batch back, by the samplers’ evidence; the number of trials where they differ."
    )
    heads = [*names, *(f"{TIMES}{text}" if x == JOBS else level_name(x, text) for text in ladder)]
    return table(heads, rows, words=len(heads), caption=caption)


def _labels(labels: list[str]) -> str:
    told = Counter(labels).most_common()
    if len(told) < 2:
        return told[0][0] if told else NOTHING
    return ", ".join(f"{label} {number}{TIMES}" for label, number in told)


def _ordered(results: Results) -> Iterator[Row]:
    """The means, panel by panel and line by line, along x at last."""
    for panel in results.panels:
        for line in results.lines(panel):
            yield from results.summaries_at(results.at(panel, line))


def _factors(results: Results) -> list[str]:
    """The factors that are columns on the page: those that are built in, and the axes."""
    axes = [name for name in results.factors if name not in BUILT_IN]
    return [ACCESS, WORKLOAD, *axes, JOBS]


def _levels(results: Results, row: Row) -> list[str]:
    return [level_of(row, name) for name in _factors(results)]


def _trials(results: Results, row: Row) -> str:
    """How many trials count, and what the others are."""
    point = {name: level_of(row, name) for name in results.factors}
    verdicts = [verdict(trial) for trial in results.trials_at(point)]
    told = [f"{verdicts.count(word)} {word}" for word in (SUSPECT, INVALID) if word in verdicts]
    return f"{row.get('trials') or 0}" + (f" ({', '.join(told)})" if told else "")


def _ratio(row: Row | None) -> str | Markup:
    if row is None:
        return NOTHING
    if row.get("low") is None:
        return f"{row['ratio']:.2f}"
    told = f"{row['ratio']:.2f} ({row['low']:.2f}\N{EN DASH}{row['high']:.2f})"
    return told if row["low"] <= 1 <= row["high"] else element("b", told)


def _volatility(row: Row, mean: str, spread: str) -> tuple[str, str, str]:
    value, deviation = row.get(mean), row.get(spread)
    share = deviation / value if value and deviation is not None else None
    return figures(value), figures(deviation), percent(share)
