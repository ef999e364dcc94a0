"""The notes below an answer, and the sentences against a baseline, or against jobs that run alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS
from tierbench.postprocess.measures.saturation import FLAT, FULL, RISING
from tierbench.postprocess.schema.rows import RATE, SENT, SUMMED
from tierbench.postprocess.schema.run_rows import MEASURED, KneeRow, ScalingRow, SummaryRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.stats import round_trips as fitted
from tierbench.postprocess.tables.factors import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import counts
from tierbench.postprocess.wording import TIMES, between, factor, figures, listed, percent, span
from tierbench.starts import IN_TURN, NATURAL, TOGETHER

SIZEABLE = 0.1  # what a difference has to come to, if two are not to be alike
APART, SAME, UNKNOWN, SINGLE = "apart", "same", "unknown", "single"
STARTED = {TOGETHER: "together they get", NATURAL: "started by HTCondor they get"}
EACH, ROUND_TRIPS = "fetch_s", "round_trips_per_fetch"
AMPLIFICATION = "amplification"
MUCH = 1.1  # sent over delivered: headers and what is usual (docs/verdicts.md) explain less than this
CACHE = "cache_mb"  # a client's option, by which it asks for more in one piece
LARGER_CACHE = f"a read cache of several clusters (option {CACHE} = 30), which asks for larger pieces in their order"
ELSE = "a smaller read-ahead on the way, or a client that asks for larger pieces in their order"


class Shares(NamedTuple):
    """What can be said of all levels against the one that they are compared with."""

    clear: bool
    sentence: str
    notes: list[str]


def shares_of_baseline(results: Results, ranked: Sequence[SummaryRow], where: str) -> Shares | None:
    """The sentence that compares each level with the baseline; None where there is none, or nothing beside it.

    A level is equivalent only if all of its interval is near 1: not distinguishable does not mean equal.
    """
    lines, baseline = results.layout.lines, results.layout.baseline
    of = next((row for row in ranked if level_of(row, lines) == baseline), None)
    others = [row for row in ranked if row is not of]
    if of is None or not others:
        return None
    kinds: dict[str, list[str]] = {APART: [], SAME: [], UNKNOWN: [], SINGLE: []}
    doubtful = []
    for row in others:
        name, compared = level_name(lines, level_of(row, lines)), results.compared_with(row, baseline, results.rate)
        ratio = compared.ratio if compared else Interval()
        kind = _kind(ratio)
        kinds[kind].append(f"{name} {_ratio_words(ratio)}".strip())
        if compared and kind in (APART, SAME) and compared.is_doubted and _kind(compared.by_valid) != kind:
            doubtful.append(name)
    parts = [f"{listed(kinds[APART])} of it"] if kinds[APART] else []
    parts += [f"equivalent within {percent(SIZEABLE)}: {listed(kinds[SAME])}"] if kinds[SAME] else []
    parts += [f"not distinguishable: {listed(kinds[UNKNOWN])}"] if kinds[UNKNOWN] else []
    parts += [f"no interval, too few repetitions: {listed(kinds[SINGLE])}"] if kinds[SINGLE] else []
    rate = figures(of.means[results.rate].value, results.unit)
    sentence = f"{where}, against {level_name(lines, baseline)} ({rate}): {'; '.join(parts)}."
    return Shares(not (kinds[UNKNOWN] or kinds[SINGLE] or doubtful), sentence, without_suspects(doubtful))


def without_suspects(doubtful: Sequence[str]) -> list[str]:
    """Of which levels the VALID trials alone do not say the same."""
    return [f"Without the SUSPECT trials that is not so of {listed(doubtful)}."] if doubtful else []


def _kind(ratio: Interval) -> str:
    if ratio.interval is None:
        return SINGLE
    low, high = ratio.interval
    if low > 1 - SIZEABLE and high < 1 + SIZEABLE:
        return SAME
    return UNKNOWN if low <= 1 <= high else APART


def _ratio_words(ratio: Interval) -> str:
    if ratio.value is None:
        return ""
    return factor(ratio.value) + (f" ({between(*ratio.interval)})" if ratio.interval else "")


def shares_of_alone(results: Results, ranked: Sequence[SummaryRow], where: str) -> Shares | None:
    """The sentence that answers it, and whether it is clear; None unless one line of them took turns."""
    lines = results.layout.lines
    starts = {level_of(row, lines): _start_of(results, row) for row in ranked}
    alone = [row for row in ranked if starts[level_of(row, lines)] == IN_TURN]
    others = [row for row in ranked if starts[level_of(row, lines)] != IN_TURN]
    if len(alone) != 1 or not others:
        return None
    shares, clear, doubtful = [], True, []
    for row in others:
        compared = results.compared_with(row, level_of(alone[0], lines), SUMMED)
        if compared is None or compared.ratio.value is None:
            return None
        ratio, start = compared.ratio, starts[level_of(row, lines)]
        clear = clear and ratio.interval is not None
        interval = f" ({between(*ratio.interval)})" if ratio.interval else ""
        shares.append(f"{STARTED.get(start, f'started {start} they get')} {factor(ratio.value)}{interval}")
        if compared.is_doubted and _side(compared.by_valid) != _side(ratio):
            doubtful.append(level_name(lines, level_of(row, lines)))
    rates = listed([figures(row.means[SUMMED].value, "Mb/s") for row in others])
    sentence = (
        f"{where}, {listed(shares)} of what they get alone, summed: {rates} where each alone adds up to"
        f" {figures(alone[0].means[SUMMED].value, 'Mb/s')}."
    )
    return Shares(clear and not doubtful, sentence, without_suspects(doubtful))


def _start_of(results: Results, row: SummaryRow) -> str:
    """How the trials of a row of the summary began; nothing if that differs."""
    point = {name: level_of(row, name) for name in results.factors}
    starts = {trial.started for trial in results.trials_at(point)}
    return starts.pop() if len(starts) == 1 else ""


def _side(ratio: Interval) -> str:
    """Whether they get less together, more, or what cannot be told from as much; nothing where there is no telling."""
    if ratio.interval is None:
        return ""
    low, high = ratio.interval
    return "less" if high < 1 else "more" if low > 1 else "either"


def each_files_time(results: Results, panel: Panel) -> list[str]:
    """A note for each place along x at which jobs had lists of files to work through once."""
    return [note for x in results.ladder(panel) if (note := _file_times_at(results, panel, x))]


def _file_times_at(results: Results, panel: Panel, x: str) -> str:
    point = results.at(panel, x=x)
    trials = [trial for trial in rows_at(results.trials_at(panel.levels), point) if counts(trial)]
    if not any((trial.job_files or 0) > 1 and trial.job_for_s is None for trial in trials):
        return ""
    rows = [row for row in results.summaries_at(point) if row.trials and row.means[EACH].value is not None]
    quickest_first = sorted(rows, key=lambda row: row.means[EACH].value or 0.0)
    times = [
        _file_time(results, row, before) for before, row in zip([None, *quickest_first], quickest_first, strict=False)
    ]
    where = level_name(results.layout.x, x)
    return f"The time of a file, with its share of logging in, at {where}: {'; '.join(times)}." if times else ""


def _file_time(results: Results, row: SummaryRow, before: SummaryRow | None) -> str:
    lines = results.layout.lines
    trips = row.means[ROUND_TRIPS].value
    said = f"{level_name(lines, level_of(row, lines))} {_ms(row.means[EACH].value)}"
    said += f" or {figures(trips)} round trips" if trips else ""
    longer = results.compared_with(row, level_of(before, lines), EACH) if before else None
    more = longer.more if longer else Interval()
    if more.value is None:
        return said
    interval = f" (95\N{NO-BREAK SPACE}% interval {' to '.join(map(_ms, more.interval))})" if more.interval else ""
    return f"{said}, {_ms(more.value)}{interval} more"


def _ms(seconds: float | None) -> str:
    return figures(None if seconds is None else 1000 * seconds, "ms")


def round_trips(results: Results, panel: Panel) -> Iterator[str]:
    """A sentence for each group of a panel's trials that differ in nothing but their distance."""
    trials = [trial for trial in results.trials_at(panel.levels) if counts(trial) and trial.operation_s]
    alike = [name for name in results.factors if not _is_distance(results, name)]
    groups: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for trial in trials:
        if trial.round_trip_s is not None and trial.operation_s is not None:
            key = tuple(level_name(name, level_of(trial, name)) for name in alike)
            groups.setdefault(key, []).append((trial.round_trip_s, trial.operation_s))
    for levels, points in groups.items():
        fit = fitted(points)
        if fit is None:
            continue
        apart = [level for place, level in enumerate(levels) if len({other[place] for other in groups}) > 1]
        low, high = fit.each.low, fit.each.high
        interval = (
            f" (95\N{NO-BREAK SPACE}% interval {between(low, high)})" if low is not None and high is not None else ""
        )
        # A line that begins below nothing is bent: what is near waits for less.
        beside = (
            f" and takes {figures(1e3 * fit.beside_s, 'ms')} beside them" if fit.beside_s >= 0 else ", fewer if near"
        )
        trips = round(fit.each.value or 0.0, 2) + 0.0
        yield (
            f"An operation{' with ' if apart else ''}{', '.join(apart)} waits for {trips:.2f}"
            f" round trips{interval}{beside}: a straight line through {len(points)} trials."
        )


def _is_distance(results: Results, factor: str) -> bool:
    """Whether it is an axis of numbers by which alone the trials' round-trip times differ.

    Two ways, or two pools, that are not equally far differ in more than that.
    """
    if factor in BUILT_IN or not results.factors[factor].numeric:
        return False
    times: dict[str, set[float | None]] = {}
    for trial in results.trials:
        times.setdefault(level_of(trial, factor), set()).add(trial.round_trip_s)
    return all(len(those) == 1 for those in times.values()) and len(set().union(*times.values())) > 1


def amplification_notes(results: Results, ranked: list[SummaryRow]) -> list[str]:
    """Notes on read amplification, given the means of all lines at the place that decides."""

    def name(row: SummaryRow) -> str:
        return level_name(results.layout.lines, level_of(row, results.layout.lines))

    wasteful = [row for row in ranked if (row.means[AMPLIFICATION].value or 0.0) > MUCH]
    if not wasteful:
        return []
    each = [f"{name(row)} {_amplification(row)} ({figures(row.means[SENT].value, 'Mb/s')})" for row in wasteful]
    over = "over" if results.layout.lines == ACCESS else "with"
    workload = (results.experiment.get("workloads") or {}).get(wasteful[0].workload) or {}
    avoided = LARGER_CACHE if CACHE in (workload.get("options") or {}) else ELSE
    notes = [
        f"Read amplification: the storage sent more than was delivered {over} {listed(each)}. The rest was read ahead"
        f" in vain, sent again, or background traffic. What may avoid it: {avoided}."
    ]
    if results.rate != RATE:  # between two turns nothing is sent
        return notes
    by_sent = sorted(
        (row for row in ranked if row.means[SENT].value is not None), key=lambda row: -(row.means[SENT].value or 0.0)
    )
    if by_sent and name(by_sent[0]) != name(ranked[0]):
        first = by_sent[0]
        notes.append(
            f"By what the storage sent, the thesis’ measure, {name(first)} would come first"
            f" ({figures(first.means[SENT].value, 'Mb/s')},"
            f" {figures(first.means[RATE].value, 'Mb/s')} of it delivered)."
        )
    return notes


def _amplification(row: SummaryRow) -> str:
    mean = row.means[AMPLIFICATION]
    interval = span(mean)
    return f"{mean.value:.2f}{TIMES}" + (f" ({interval})" if interval else "")


def saturation_notes(results: Results, panel: Panel) -> list[str]:
    """From how many jobs on more bring nothing, by the lines of a panel; and why that is unknown of others."""
    points: list[str] = []
    unknown: dict[str, list[str]] = {}
    for row in rows_at(results.knees, _without_jobs(panel)):
        line = level_name(results.layout.lines, level_of(row, results.layout.lines))
        if sentence := _saturation(row):
            points.append(f"{line} {sentence}")
        else:
            unknown.setdefault(row.why, []).append(line)
    notes = [f"Saturation point: {'; '.join(points)}."] if points else []
    return [*notes, *(f"Saturation point of {listed(lines)}: unknown ({why})." for why, lines in unknown.items())]


def _without_jobs(panel: Panel) -> dict[str, str]:
    return {name: text for name, text in panel.levels.items() if name != JOBS}


def _saturation(row: KneeRow) -> str:
    further = f"; beyond, one further brings {_with(row.further, 'Mb/s')}" if row.further.value is not None else ""
    plateau = f"a plateau of {_with(row.plateau, 'Mb/s')}"
    if row.state == FULL:
        each = f"each job before brings {figures(row.each.value, 'Mb/s')}"
        return f"with {_with(row.knee, 'jobs')}, {plateau}; {each}{further}"
    if row.state == FLAT:
        return f"with fewer than {figures(row.knee.high, 'jobs')}, {plateau}{further}"
    if row.state == RISING:
        each = f"each job brings {_with(row.each, 'Mb/s')}"
        return f"with more than {figures(row.knee.low, 'jobs')}, more than were measured; {each}"
    return ""


def _with(bounded: Interval, unit: str) -> str:
    ends = f" (95\N{NO-BREAK SPACE}% interval {span(bounded)})" if bounded.interval else ""
    return f"{figures(bounded.value, unit)}{ends}"


def scaling_of(results: Results) -> tuple[bool, str] | None:
    """The scale factor at the largest level that was measured, for each line, and whether that is clear.

    Nothing where it was not asked for.
    """
    measured = [row for row in results.scaling if row.kind == MEASURED and row.scale.value is not None]
    if not measured:
        return None
    along = measured[0].factor
    most = max(float(level_of(row, along)) for row in measured)
    by_least: dict[str, list[ScalingRow]] = {}
    for row in (row for row in measured if float(level_of(row, along)) == most):
        by_least.setdefault(row.against, []).append(row)
    sentences = [_of_least(results, along, least, rows) for least, rows in by_least.items()]
    points = [row for rows in by_least.values() for row in rows]
    doubted = [row for row in points if _is_doubted(results, row)]
    if doubted:
        sentences.append(
            f"That rests on SUSPECT trials{_where(results, doubted) if len(doubted) < len(points) else ''}."
        )
    return all(row.scale.interval for row in points) and not doubted, " ".join(sentences)


def _is_doubted(results: Results, row: ScalingRow) -> bool:
    """Whether some of the pairs by which its scale factor was found have a SUSPECT trial."""
    compared = results.compared_with(row, row.against, RATE, row.factor)
    return compared is not None and compared.is_doubted


def _where(results: Results, rows: Sequence[ScalingRow]) -> str:
    """Where some points are, if they differ from others in anything else."""
    places = [", ".join(_others(results, row)) for row in rows]
    return f" at {'; '.join(places)}" if any(places) else ""


def _of_least(results: Results, along: str, least: str, rows: list[ScalingRow]) -> str:
    """The sentence about points that are held against the same least level."""
    shares = []
    for row in rows:
        interval = f" (95 % interval {between(*row.scale.interval)})" if row.scale.interval else ""
        shares.append(f"{factor(row.scale.value)}{interval}{_where(results, [row])}")
    named, few = level_name(along, level_of(rows[0], along)), "one alone" if least == "1" else f"each of {least}"
    return f"With {named} instead of {least}, each brings this share of what {few} does: {'; '.join(shares)}."


def _others(results: Results, row: ScalingRow) -> list[str]:
    """The levels in which a point differs from others, but for the one along which it is scaled."""
    several = [name for name in results.factors if name != row.factor and results.factors[name].several]
    return [level_name(name, level_of(row, name)) for name in several]
