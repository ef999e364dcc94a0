"""What jobs get together of what each of them gets alone, where a run has measured both."""

from __future__ import annotations

from collections.abc import Sequence

from tierbench.postprocess.report.words import between, figures, listed
from tierbench.postprocess.tables.points import level_of, rows_at
from tierbench.postprocess.tables.results import Results
from tierbench.postprocess.tables.rows import SUMMED, Bounded, SummaryRow
from tierbench.starts import IN_TURN, NATURAL, TOGETHER

BEGUN = {TOGETHER: "together they get", NATURAL: "started by HTCondor they get"}


def shares_of_alone(results: Results, ranked: Sequence[SummaryRow], where: str) -> tuple[bool, str] | None:
    """The sentence that answers it, and whether it is clear; None unless one line of them took turns."""
    lines = results.layout.lines
    begun = {level_of(row, lines): _begun(results, row) for row in ranked}
    alone = [row for row in ranked if begun[level_of(row, lines)] == IN_TURN]
    others = [row for row in ranked if begun[level_of(row, lines)] != IN_TURN]
    if len(alone) != 1 or not others:
        return None
    told, clear = [], True
    for row in others:
        ratio = _ratio(results, row, alone[0])
        if ratio is None:
            return None
        clear = clear and ratio.interval is not None
        interval = f" ({between(*ratio.interval)})" if ratio.interval else ""
        start = begun[level_of(row, lines)]
        told.append(f"{BEGUN.get(start, f'begun {start} they get')} {ratio.value:.2f}{interval}")
    rates = listed([figures(row.means[SUMMED].value, "Mb/s") for row in others])
    sentence = (
        f"{where}, {listed(told)} of what they get alone, summed: {rates} where each alone adds up to"
        f" {figures(alone[0].means[SUMMED].value, 'Mb/s')}."
    )
    return clear, sentence


def _begun(results: Results, row: SummaryRow) -> str:
    """How the trials of a row of the summary began; nothing if that differs."""
    point = {name: level_of(row, name) for name in results.factors}
    begun = {trial.started for trial in results.trials_at(point)}
    return begun.pop() if len(begun) == 1 else ""


def _ratio(results: Results, row: SummaryRow, alone: SummaryRow) -> Bounded | None:
    lines = results.layout.lines
    point = {name: level_of(row, name) for name in results.factors}
    wanted = (lines, level_of(alone, lines), SUMMED)
    ratios = [r.ratio for r in rows_at(results.ratios, point) if (r.factor, r.against, r.metric) == wanted]
    return ratios[0] if ratios and ratios[0].value is not None else None
