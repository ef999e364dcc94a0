"""Where each way is full, what is predicted of the next batch, and whether another run has held that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierbench.dags.levels import JOBS
from tierbench.postprocess.measures.knee import FLAT, FULL, RISING
from tierbench.postprocess.report.markup import Markup, element, table
from tierbench.postprocess.report.words import NOTHING, figures, listed, span
from tierbench.postprocess.schema.rows import RATE
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.across import KneeRow
from tierbench.postprocess.tables.points import Panel, batch_name, level_name, level_of, rows_at
from tierbench.postprocess.tables.results import Results

CAPTION = (
    "Where a ladder of batches is full: the number of jobs at which the straight line, on which each job brings its"
    " share, meets the plateau, with 95 % intervals; < and > where the ladder bounds it on one side only. What one"
    " further job brings is the gain of the last step over its jobs. The prediction is of the mean of the next larger"
    " batch over as many repetitions, for another run to be held against."
)


def knee_notes(results: Results, panel: Panel) -> list[str]:
    """Where the lines of a panel are full, as far as it can be told."""
    told, untold = [], []
    for row in rows_at(results.knees, _without_jobs(panel)):
        line = level_name(results.layout.lines, level_of(row, results.layout.lines))
        if sentence := _told(row):
            told.append(f"{line} {sentence}")
        else:
            untold.append(f"{line} ({row.why})")
    notes = [f"Where it is full: {'; '.join(told)}."] if told else []
    return [*notes, f"Where it is full cannot be told of {listed(untold)}."] if untold else notes


def _without_jobs(panel: Panel) -> dict[str, str]:
    return {name: text for name, text in panel.levels.items() if name != JOBS}


def _told(row: KneeRow) -> str:
    further = f"; beyond, one further brings {_with(row.further, 'Mb/s')}" if row.further.value is not None else ""
    plateau = f"a plateau of {_with(row.plateau, 'Mb/s')}"
    if row.state == FULL:
        each = f"each job before brings {figures(row.each.value, 'Mb/s')}"
        return f"with {_with(row.knee, 'jobs')}, {plateau}; {each}{further}"
    if row.state == FLAT:
        return f"with fewer than {figures(row.knee.high, 'jobs')}, {plateau}{further}"
    if row.state == RISING:
        each = f"each job brings {_with(row.each, 'Mb/s')}"
        return f"with more than {figures(row.knee.low, 'jobs')}, beyond this ladder; {each}"
    return ""


def _with(bounded: Interval, unit: str) -> str:
    ends = f" (95\N{NO-BREAK SPACE}% interval {span(bounded)})" if bounded.interval else ""
    return f"{figures(bounded.value, unit)}{ends}"


def knee_table(results: Results) -> Markup | None:
    """Each ladder's knee, plateau, what a job brings before and beyond, and the prediction."""
    if not results.knees:
        return None
    names = [name for name in results.factors if name != JOBS and results.factors[name].several]
    heads = [*names, "", "full with jobs", "plateau Mb/s", "each job", "one further", "next batch", "predicted Mb/s"]
    rows = []
    for row in results.knees:
        cells = [_cell(one) for one in (row.knee, row.plateau, row.each, row.further)]
        later = [str(row.predicted_jobs or NOTHING), _cell(row.predicted)]
        said = f"{row.state}: {row.why}" if row.why else row.state
        rows.append([*(level_of(row, name) for name in names), element("span", said, class_="finding"), *cells, *later])
    return table(heads, rows, words=len(names) + 1, caption=CAPTION)


def _cell(bounded: Interval) -> str:
    if bounded.value is None:
        one_sided = [f"> {figures(bounded.low)}" if bounded.low is not None else ""]
        one_sided += [f"< {figures(bounded.high)}" if bounded.high is not None else ""]
        return " ".join(filter(None, one_sided)) or NOTHING
    if bounded.interval:
        return f"{figures(bounded.value)} ({span(bounded)})"
    if bounded.low is not None:
        return f"> {figures(bounded.low)}"
    return f"< {figures(bounded.high)}" if bounded.high is not None else figures(bounded.value)


def held_predictions(runs: Sequence[Results], called: Sequence[str]) -> Iterator[Markup]:
    """What earlier runs predicted of batches that later ones have measured."""
    rows = []
    for number, before in enumerate(runs):
        for prediction in before.knees:
            point = {name: level_of(prediction, name) for name in before.factors} | {
                JOBS: str(prediction.predicted_jobs)
            }
            for name, after in zip(called[number + 1 :], runs[number + 1 :], strict=True):
                for row in rows_at(after.summary, point):
                    mean, interval = row.means[RATE], prediction.predicted.interval
                    if mean.value is None or interval is None or (row.trials or 0) < (prediction.repeats or 0):
                        continue  # it is the interval of the mean of as many
                    held = interval[0] <= mean.value <= interval[1]
                    verdict = element("b", "held" if held else "did not hold")
                    rows.append(
                        [
                            batch_name(row.levels),
                            called[number],
                            name,
                            verdict,
                            _cell(prediction.predicted),
                            _cell(mean),
                        ]
                    )
    if rows:
        heads = ["", "predicted by", "measured by", "", "predicted Mb/s", "measured Mb/s"]
        caption = "What a run predicted of the next larger batch, and what another measured there."
        yield table(heads, rows, words=4, caption=caption)
