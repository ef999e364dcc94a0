"""What jobs get together of what each of them gets alone, where a run has measured both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tierbench.postprocess.report.against import Shares, without_suspects
from tierbench.postprocess.report.words import between, factor, figures, listed
from tierbench.postprocess.schema.rows import SUMMED
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.across import RatioRow, SummaryRow
from tierbench.postprocess.tables.points import level_name, level_of, rows_at
from tierbench.postprocess.tables.results import Results
from tierbench.starts import IN_TURN, NATURAL, TOGETHER

BEGUN = {TOGETHER: "together they get", NATURAL: "started by HTCondor they get"}


def shares_of_alone(results: Results, ranked: Sequence[SummaryRow], where: str) -> Shares | None:
    """The sentence that answers it, and whether it is clear; None unless one line of them took turns."""
    lines = results.layout.lines
    begun = {level_of(row, lines): _begun(results, row) for row in ranked}
    alone = [row for row in ranked if begun[level_of(row, lines)] == IN_TURN]
    others = [row for row in ranked if begun[level_of(row, lines)] != IN_TURN]
    if len(alone) != 1 or not others:
        return None
    told, clear, doubtful = [], True, []
    for row in others:
        found = _against(results, row, alone[0])
        if found is None or found.ratio.value is None:
            return None
        ratio, start = found.ratio, begun[level_of(row, lines)]
        clear = clear and ratio.interval is not None
        interval = f" ({between(*ratio.interval)})" if ratio.interval else ""
        told.append(f"{BEGUN.get(start, f'begun {start} they get')} {factor(ratio.value)}{interval}")
        if found.is_doubted and _side(found.by_valid) != _side(ratio):
            doubtful.append(level_name(lines, level_of(row, lines)))
    rates = listed([figures(row.means[SUMMED].value, "Mb/s") for row in others])
    sentence = (
        f"{where}, {listed(told)} of what they get alone, summed: {rates} where each alone adds up to"
        f" {figures(alone[0].means[SUMMED].value, 'Mb/s')}."
    )
    return Shares(clear and not doubtful, sentence, without_suspects(doubtful))


def _begun(results: Results, row: SummaryRow) -> str:
    """How the trials of a row of the summary began; nothing if that differs."""
    point = {name: level_of(row, name) for name in results.factors}
    begun = {trial.started for trial in results.trials_at(point)}
    return begun.pop() if len(begun) == 1 else ""


def _side(ratio: Interval) -> str:
    """Whether they get less together, more, or what cannot be told from as much; nothing where there is no telling."""
    if ratio.interval is None:
        return ""
    low, high = ratio.interval
    return "less" if high < 1 else "more" if low > 1 else "either"


def _against(results: Results, row: SummaryRow, alone: SummaryRow) -> RatioRow | None:
    lines = results.layout.lines
    point = {name: level_of(row, name) for name in results.factors}
    wanted = (lines, level_of(alone, lines), SUMMED)
    found = next((r for r in rows_at(results.ratios, point) if (r.factor, r.against, r.metric) == wanted), None)
    return found and replace(found, ratio=results.together(found))
