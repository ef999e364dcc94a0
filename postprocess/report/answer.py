"""The answer to a run's question, in sentences that claim no more than the trials can bear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, PAIR, WORKLOAD
from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER
from tierbench.postprocess.compare.points import RunPoint, Standing, deciding_place, point_at, points, within
from tierbench.postprocess.report.causes import causes, next_step
from tierbench.postprocess.report.grid import bounded, headline, what_is_compared
from tierbench.postprocess.report.notes import (
    Said,
    amplification_notes,
    each_files_time,
    round_trips,
    saturation_notes,
    scaling_of,
    shares_of_alone,
    shares_of_baseline,
)
from tierbench.postprocess.schema.rows import RATE, SUMMED, TrialRow
from tierbench.postprocess.schema.run_rows import SummaryRow
from tierbench.postprocess.tables.factors import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results, why
from tierbench.postprocess.tables.run_tables import strays
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, UNJUDGED, counts, verdict
from tierbench.postprocess.wording import counted, figures, listed, percent, span, worded
from tierbench.starts import IN_TURN

FEW = 5  # with fewer repetitions than this the reader is reminded of what their intervals suppose
WALL_TIME = "wall_time_s"


@dataclass(frozen=True)
class Answer:
    """What the trials of one panel say, and its caveats."""

    clear: bool
    sentence: str
    notes: tuple[str, ...] = ()
    compares: bool = True  # there was something to compare


def answer(results: Results, panel: Panel, alone: bool = True) -> Answer:
    """Which level of the factor that was asked about is the fastest, where it matters most, and by how much.

    `alone`: no other sentence says what to change.
    """
    trials = results.trials_at(panel.levels)
    usable = [trial for trial in trials if counts(trial)]
    if not usable:
        all_of = "its one trial is" if len(trials) == 1 else f"all {len(trials)} of its trials are"
        sentence = f"No answer for {panel.name or 'this run'}: {all_of} INVALID."
        return Answer(False, sentence, tuple(f"{reason}." for reason in _most(trials)), compares=False)
    point = point_at(results, panel, deciding_place(results, panel))
    if not point:
        sentence = f"No answer for {panel.name or 'this run'}: no usable trial has a rate."
        return Answer(False, sentence, tuple(_doubts(results, trials, trials)), compares=False)
    where = conditions(results, panel, point.x)
    there = rows_at(usable, results.at(panel, x=point.x))
    ranked = [standing.row for standing in point.standings]
    if not point.others:
        rate = point.reference.row.means[results.rate]
        interval = f" (95\N{NO-BREAK SPACE}% CI {span(rate)})" if rate.interval else ""
        only = f"{_name(results, point.reference)}: {_rate(results, point.reference.row)}{interval}"
        other = f"no other {what_is_compared(results)} has usable trials to compare it with"
        said = False, f"{where}, {only}; {other}."
    else:
        said = (
            shares_of_alone(results, ranked, where)
            or shares_of_baseline(results, point, where)
            or _compared(results, point, where)
        )
    # What takes an answer back, and its cause, stand in it: wherever it is read, the notes may not be.
    own = alone or len(results.panels) > 1  # or the sentence about all points says the same
    because = causes(results, there, [standing.line for standing in point.standings]) if own else []
    step = next_step(results, [point], there) if point.others and alone else []
    clear, first = said
    sentence = " ".join([first, *_without(results, point), *because, *step])
    directions = {trial.direction for trial in usable}
    notes = [worded(note, directions) for note in _notes(results, panel, ranked)]
    doubts = _doubts(results, trials, there)
    clear = clear and not point.without
    return Answer(clear, worded(sentence, directions), (*notes, *doubts), compares=bool(point.others))


def answers(results: Results) -> list[Answer]:
    """What the run says: of all its points, then of each panel, those first that have something to compare."""
    scaled = scaling_of(results)
    overall = [Answer(*scaled)] if scaled else []
    # Several points are summed up in a sentence, if at each of them the fastest is asked for.
    of_each = results.layout.baseline or any(trial.started == IN_TURN for trial in results.trials)
    comparable = [] if of_each else [point for point in points(results) if point.others]
    if several := len(comparable) > 1:
        clear, sentence = headline(results, comparable)
        trials = [trial for trial in results.trials if counts(trial)]
        lines = [line for line in results.compared.texts if rows_at(trials, {results.layout.lines: line})]
        because = [*causes(results, trials, lines), *next_step(results, comparable, trials)]
        overall.append(Answer(clear, results.worded(" ".join([sentence, *because]))))
    of_panels = [answer(results, panel, alone=not several) for panel in results.panels]
    of_panels.sort(key=lambda said: not said.compares)
    return [*overall, *of_panels]


def _without(results: Results, point: RunPoint) -> list[str]:
    """Which lines have no usable trial, though they were tried there."""
    if not point.without:
        return []
    lines = results.layout.lines
    tried = results.trials_at(results.at(point.panel, x=point.x))
    number = sum(level_of(trial, lines) in point.without for trial in tried)
    named = listed([level_name(lines, line) for line in point.without])
    return [f"No usable trial of {named}: {counted(number, 'trial')} INVALID."]


def conditions(results: Results, panel: Panel, x: str) -> str:
    """What is the same for all that is compared: With 6 jobs of root by direct at rtt_ms=14."""
    point = {**{name: factor.texts[-1] for name, factor in results.factors.items()}, **results.at(panel, x=x)}
    for name in (ACCESS, WORKLOAD) if results.layout.lines == PAIR else (results.layout.lines,):
        del point[name]
    words = [counted(int(point[JOBS]), "job")] if JOBS in point else []
    if WORKLOAD in point:
        words.append(f"of {point[WORKLOAD]}" if words else point[WORKLOAD])
    words += [f"by {point[ACCESS]}"] if ACCESS in point else []
    axes = [name for name in point if name not in BUILT_IN and results.factors[name].several]
    words += ["at " + listed([level_name(name, point[name]) for name in axes])] if axes else []
    return "With " + " ".join(words)


def _name(results: Results, standing: Standing) -> str:
    return level_name(results.layout.lines, standing.line)


def _rate(results: Results, row: SummaryRow) -> str:
    delivered = " delivered" if results.rate in (RATE, SUMMED) else ""
    return f"{figures(row.means[results.rate].value, results.unit)}{delivered}"


def _compared(results: Results, point: RunPoint, where: str) -> Said:
    """The sentence about the fastest line of a point and all others."""
    what, best, rate = what_is_compared(results), _name(results, point.reference), _rate(results, point.reference.row)
    if any(not other.result for other in point.others):
        others = [f"{_name(results, other)} {_rate(results, other.row)}" for other in point.others]
        reason = "No interval: too few repetitions have both."
        if min(standing.row.trials or 0 for standing in point.standings) < 2:
            reason = "A single repetition gives no interval, so this may be chance."
        elif all(other.lead.value is None for other in point.others):
            reason = "No interval: the run has no ratios of them."
        return False, f"{where}, {best} has the highest mean: {rate}, against {listed(others)}. {reason}"
    names = {
        other.line: f"{_name(results, other)} (ratio {bounded(other.lead).replace(' (', ', ')}"
        for other in point.others
    }

    def those(*kinds: str) -> str:
        return listed([names[other.line] for other in point.others if other.result in kinds])

    if clear := all(other.result == SLOWER for other in point.others):
        behind = [f"{bounded(other.lead)} times {_name(results, other)}" for other in point.others]
        among = f" {what} with usable trials" if point.without else f" {what}"
        sentence = f"{where}, {best} is the fastest{among}: {rate}, {listed(behind)}."
    else:
        unclear, alike = those(INCONCLUSIVE, FASTER), those(EQUIVALENT)
        parts = [f"not distinguishable from {unclear}"] if unclear else []
        parts += [f"equivalent within {percent(within(results))} to {alike}"] if alike else []
        said = " and ".join(parts)
        sentence = f"{where}, no {what} is the fastest: {best} has the highest mean ({rate}), {said}."
        sentence += f" It is faster than {those(SLOWER)}." if those(SLOWER) else ""
    doubted = []
    for other in point.others:
        if ratio := other.by_valid:
            alone = bounded(ratio) if ratio.interval else f"{bounded(ratio)} (a single repetition)"
            alone = alone if ratio.value is not None else "not compared (no repetition has both VALID)"
            doubted.append(f"{best} against {_name(results, other)} {alone}")
    if doubted:
        sentence += f" That rests on SUSPECT trials. By VALID trials alone: {'; '.join(doubted)}."
    return clear and not doubted, sentence


def _along(results: Results, panel: Panel) -> list[str]:
    """By which factor each line changes from the least level along x to the largest, where these are numbers."""
    x, ladder = results.layout.x, results.ladder(panel)
    if x == JOBS or len(ladder) < 2 or not results.factors[x].numeric:
        return []
    least, largest = ladder[0], ladder[-1]
    factors = [
        f"{level_name(results.layout.lines, line)} {bounded(results.together(row))}"
        for line in results.lines(panel)
        for row in rows_at(results.ratios, results.at(panel, line, largest))
        if (row.factor, row.against, row.metric) == (x, least, results.rate) and row.ratio.value
    ]
    return [f"From {level_name(x, least)} to {largest} the rate changes by {'; '.join(factors)}."] if factors else []


def _wall_time(results: Results, ranked: Sequence[SummaryRow]) -> list[str]:
    if results.rate != RATE:
        return []
    lines = results.layout.lines
    times = [(time, row) for row in ranked if (time := row.means[WALL_TIME].value) is not None]
    named = [
        f"{level_name(lines, level_of(row, lines))} {figures(time, 's')}"
        for time, row in sorted(times, key=lambda pair: pair[0])
    ]
    return [f"Wall time, from submission to the last end: {', '.join(named)}."] if len(named) > 1 else []


def _notes(results: Results, panel: Panel, ranked: Sequence[SummaryRow]) -> Iterator[str]:
    """What is said below an answer."""
    yield from round_trips(results, panel)
    yield from each_files_time(results, panel)
    yield from amplification_notes(results, ranked)
    yield from _along(results, panel)
    yield from saturation_notes(results, panel)
    yield from _wall_time(results, ranked)


def _doubts(results: Results, trials: list[TrialRow], deciding: list[TrialRow]) -> Iterator[str]:
    """What weakens an answer: of a panel's trials, and of those that the sentence is about."""
    if far := [trial for trial in strays(results.trials, results.rate) if trial in trials]:
        rates = [f"{trial.trial} ({figures(trial[results.rate], results.unit)})" for trial in far]
        lie, are = ("lies", "is") if len(far) == 1 else ("lie", "are")
        yield f"{listed(rates)} {lie} far off all others and {are} left out of ratios."
    if 1 < (repeats := len({trial.repeat for trial in deciding})) < FEW:
        yield f"{repeats} repetitions: intervals are wide."
    if suspect := [trial for trial in deciding if verdict(trial) == SUSPECT]:
        are = "is" if len(suspect) == 1 else "are"
        yield f"{len(suspect)} of the {len(deciding)} trials behind it {are} SUSPECT: {'; '.join(_most(suspect))}."
    if invalid := sum(verdict(trial) == INVALID for trial in trials):
        yield f"{invalid} of {counted(len(trials), 'trial')} INVALID and left out."
    if any(verdict(trial) == UNJUDGED for trial in deciding):
        yield "These trials were checked for completeness only; they have no verdict."


def _most(trials: list[TrialRow], at_most: int = 3) -> list[str]:
    """The reasons that most trials give, with how many do."""
    numbers = Counter(reason for trial in trials for reason in why(trial)).most_common(at_most)
    return [reason + (f" (in {number} trials)" if number > 1 else "") for reason, number in numbers]
