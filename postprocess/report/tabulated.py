"""The tables of the page: the summary, the ratios, and those that the thesis has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tierbench.postprocess.columns import RATE, SENT
from tierbench.postprocess.counting import INVALID, SUSPECT, counts, verdict
from tierbench.postprocess.plots.gallery import interval_words, volatility_column
from tierbench.postprocess.report.answer import deciding_batch, ranking
from tierbench.postprocess.report.markup import Markup, element, table
from tierbench.postprocess.report.words import NOTHING, TIMES, figures, percent, span
from tierbench.postprocess.results import Results, Row

REST = (
    "client_mbps", "mean_mbps", "amplification", "volatility_mbps", "peak_mbps", "window_s", "wall_time_s",
    "events_per_s",
)  # fmt: skip


def summary_table(results: Results) -> Markup:
    """One row for each configuration and batch."""
    bounded = any(row.get(f"{RATE}_low") is not None for row in results.summary)
    doubted = any(row.get("delivered_valid_mbps") is not None for row in results.summary)
    heads = ["access", "workload", "jobs", "trials", "Mb/s", "95 % interval" if bounded else "± trials"]
    heads += ["VALID alone"] if doubted else []
    heads += ["a client", "sent", "sent / taken in", "volatility", "peak", "window s", "wall s", "events/s"]
    rows = []
    for row in _ordered(results):
        spread = span(row.get(f"{RATE}_low"), row.get(f"{RATE}_high")) if bounded else figures(row.get(f"{RATE}_sd"))
        rest = (row.get(name) for name in REST)
        cells = [row["access"], row["workload"], row["jobs"], _trials(results, row), figures(row.get(RATE))]
        cells += [spread or NOTHING, *([_valid_alone(row)] if doubted else [])]
        rows.append([*cells, *map(figures, rest)])
    caption = (
        "Means over the trials that count, VALID and SUSPECT, of each configuration and batch. Mb/s: what the jobs"
        " took in, all together and each; sent, volatility and peak: what the storage sent, the thesis’ measure."
    )
    return table(heads, rows, words=2, caption=caption)


def _valid_alone(row: Row) -> str:
    """The rate by the VALID trials alone, where that is not the one beside it."""
    if row.get("delivered_valid_mbps") is None:
        return "none VALID" if row.get("suspect") and not row.get("valid") else "the same"
    interval = span(row.get("delivered_valid_low"), row.get("delivered_valid_high"))
    return figures(row["delivered_valid_mbps"]) + (f" ({interval})" if interval else "")


def ratio_table(results: Results, workload: str) -> Markup | None:
    """By what factor the access of a row is faster than that of a column, at the batch that decides."""
    jobs = deciding_batch(results, workload)
    accesses = [row["access"] for row in ranking(results, workload, jobs)]
    known = {
        (row["access"], row["against"]): row
        for row in results.ratios
        if (row["factor"], row["workload"], row["jobs"], row["metric"]) == ("access", workload, jobs, RATE)
        and row.get("ratio") is not None
    }
    if not known or len(accesses) < 2:
        return None
    rows = [[access, *(_ratio(known.get((access, other))) for other in accesses)] for access in accesses]
    example = next(iter(known.values()))
    told = f" ({example['method']})" if example.get("method") else ""
    caption = (
        f"Rate delivered by the row’s access over that of the column’s, {workload} with {jobs} jobs, with 95 % interval"
        f" from trials of the same repetition{told}. In bold: the interval leaves 1 out."
    )
    return table(["", *accesses], rows, caption=caption)


def volatility_table(results: Results) -> Markup | None:
    """The thesis' Tables 6.1 and 6.2: volatility of whole trials, and of their steady state."""
    rows = [row for row in _ordered(results) if row.get(SENT) is not None]
    if not rows:
        return None
    column = volatility_column(rows)
    steady = any(row.get("steady_mbps") is not None for row in rows)
    heads = ["access", "workload", "jobs", "sent Mb/s", "std. dev.", "% of mean"]
    heads += ["steady, sent Mb/s", "std. dev.", "% of mean"] if steady else []
    cells = [
        [
            row["access"],
            row["workload"],
            row["jobs"],
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
    for link, rate in (results.site.get("links") or {}).items():
        if rate and link != "rtt_ms":
            rows.append([f"{link} link", "stated by the site’s file", figures(rate), NOTHING, NOTHING])
    if not rows:
        return None
    caption = "What the links can carry, measured before the run and stated; counterpart of the thesis’ Table 2-1."
    return table(["link", "", "Mb/s", "each host", "round trip ms"], rows, words=2, caption=caption)


def bottleneck_table(results: Results) -> Markup | None:
    """What held each configuration back at each batch."""
    found: dict[tuple[str, str], dict[int, list[str]]] = {}
    for trial in results.trials:
        if trial.get("bottleneck") and counts(trial):
            batches = found.setdefault((trial["access"], trial["workload"]), {})
            batches.setdefault(trial["jobs"], []).append(trial["bottleneck"])
    if not found:
        return None
    ladder = sorted({jobs for batches in found.values() for jobs in batches})
    rows = [
        [access, workload, *(_labels(batches_of_one.get(jobs, [])) for jobs in ladder)]
        for workload in results.workloads
        for access in results.accesses
        if (batches_of_one := found.get((access, workload)))
    ]
    caption = (
        "What held the trials of each batch back, by the samplers’ evidence; the number of trials where they differ."
    )
    heads = ["access", "workload", *(f"{TIMES}{jobs}" for jobs in ladder)]
    return table(heads, rows, words=len(heads), caption=caption)


def _labels(labels: list[str]) -> str:
    told = Counter(labels).most_common()
    if len(told) < 2:
        return told[0][0] if told else NOTHING
    return ", ".join(f"{label} {number}{TIMES}" for label, number in told)


def _ordered(results: Results) -> Iterator[Row]:
    for workload in results.workloads:
        for access in results.accesses:
            yield from results.summaries(workload, access)


def _trials(results: Results, row: Row) -> str:
    """How many trials count, and what the others are."""
    verdicts = [verdict(trial) for trial in results.trials_of(row["workload"], row["access"], row["jobs"])]
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
