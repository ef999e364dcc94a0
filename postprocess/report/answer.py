"""The answer to a run's question, in sentences that claim no more than the trials can bear."""

from __future__ import annotations

from dataclasses import dataclass

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, WORKLOAD
from tierbench.postprocess.report.turns import shares_of_alone
from tierbench.postprocess.report.waste import waste
from tierbench.postprocess.report.words import counted, figures, listed, span
from tierbench.postprocess.tables.columns import RATE
from tierbench.postprocess.tables.points import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.results import Results, Row, why
from tierbench.postprocess.verdict.counted import INVALID, SUSPECT, UNJUDGED, counts, verdict

FEW = 5  # with fewer repetitions than this the reader is reminded of what their intervals suppose
WALL_TIME = "wall_time_s"


@dataclass(frozen=True)
class Answer:
    """What the trials of one panel say, and what has to be known with it."""

    clear: bool
    sentence: str
    notes: tuple[str, ...]


def answer(results: Results, panel: Panel) -> Answer:
    """The fastest level of the factor that was asked about, where it matters most, and by how much."""
    trials = results.trials_at(panel.levels)
    usable = [trial for trial in trials if counts(trial)]
    if not usable:
        return Answer(False, _unusable(results, panel), tuple(_reasons(trials)))
    x = deciding_place(results, panel)
    ranked = ranking(results, panel, x)
    if not ranked:
        sentence = f"No answer for {panel.name or 'this run'}: no trial that counts has a rate."
        return Answer(False, sentence, tuple(_doubts(trials, trials)))
    where = conditions(results, panel, x)
    if len(ranked) == 1:
        clear, sentence, contradiction = False, f"{where}, {_alone(results, ranked[0])}", []
    else:
        ratios = _ratios(results, panel, x, results.rate, ranked[0])
        of_alone = shares_of_alone(results, ranked, where)
        clear, sentence = of_alone or _compared(results, ranked, ratios, where)
        contradiction = _by_valid_trials(results, ranked, ratios) if clear and not of_alone else []
        clear = clear and not contradiction
    deciding = rows_at(usable, results.at(panel, x=x))
    notes = [*contradiction, *waste(results, ranked), *_over_the_ladder(results, panel, x), *_along(results, panel)]
    notes += _wall_time(results, panel, x, ranked) if results.rate == RATE else []
    return Answer(clear, sentence, (*notes, *_doubts(trials, deciding)))


def sentences(results: Results) -> list[str]:
    """The answer of each panel, in one sentence, as the page gives it."""
    return [answer(results, panel).sentence for panel in results.panels]


def deciding_place(results: Results, panel: Panel) -> str:
    """The last place along x, mostly the largest batch, at which most lines have trials that count."""
    ladder = results.ladder(panel)
    return max(ladder, key=lambda x: (len(ranking(results, panel, x)), ladder.index(x)))


def ranking(results: Results, panel: Panel, x: str) -> list[Row]:
    """The lines' means at a place along x, the fastest first."""
    rows = results.summaries_at(results.at(panel, x=x))
    return sorted(
        (row for row in rows if row.get(results.rate) is not None and row.get("trials")),
        key=lambda row: -float(row[results.rate]),
    )


def conditions(results: Results, panel: Panel, x: str) -> str:
    """What is the same for all that is compared: With 6 jobs of root by direct at rtt_ms=14."""
    point = {**{name: factor.texts[-1] for name, factor in results.factors.items()}, **results.at(panel, x=x)}
    del point[results.layout.lines]
    told = [counted(int(point[JOBS]), "job")] if JOBS in point else []
    if WORKLOAD in point:
        told.append(f"of {point[WORKLOAD]}" if told else point[WORKLOAD])
    told += [f"by {point[ACCESS]}"] if ACCESS in point else []
    axes = [name for name in point if name not in BUILT_IN and results.factors[name].several]
    told += ["at " + listed([level_name(name, point[name]) for name in axes])] if axes else []
    return "With " + " ".join(told)


def _ratios(results: Results, panel: Panel, x: str, metric: str, first: Row) -> dict[str, Row]:
    """How the first compares with each other line, where that is known."""
    lines = results.layout.lines
    rows = rows_at(results.ratios, results.at(panel, level_of(first, lines), x))
    return {
        row["against"]: row
        for row in rows
        if (row["factor"], row["metric"]) == (lines, metric) and row.get("ratio") is not None
    }


def _name(results: Results, row: Row) -> str:
    """What the line of a row is called."""
    return level_name(results.layout.lines, level_of(row, results.layout.lines))


def _compared(results: Results, ranked: list[Row], ratios: dict[str, Row], where: str) -> tuple[bool, str]:
    first, others = ranked[0], ranked[1:]
    rate = f"its jobs took in {figures(first[results.rate], 'Mb/s')}"
    bounded = {
        _name(results, row): ratios[line]
        for row in others
        if ratios.get(line := level_of(row, results.layout.lines), {}).get("low") is not None
    }
    best, names = _name(results, first), [_name(results, other) for other in others]
    if not all(name in bounded for name in names):
        return (
            False,
            f"{where}, {best} was fastest in the mean: {rate}, those of {_plain(results, others)}."
            + _why_not(ranked, ratios),
        )
    level = [name for name in names if bounded[name]["low"] <= 1]
    behind = [name for name in names if bounded[name]["low"] > 1]
    if level:
        told = listed([f"{name} (ratio {_interval(bounded[name])})" for name in level])
        sentence = (
            f"{where} there is no clear winner: {best} was fastest in the mean ({rate}),"
            f" but cannot be told apart from {told}."
        )
        if behind:
            sentence += f" It was ahead of {_ahead(bounded, behind)}."
        return False, sentence
    return True, f"{where}, {best} is the fastest: {rate}, ahead of {_ahead(bounded, behind)}."


def _by_valid_trials(results: Results, ranked: list[Row], ratios: dict[str, Row]) -> list[str]:
    """What becomes of a clear answer without the SUSPECT trials, where that is another one."""
    of_others = [(_name(results, row), ratios[level_of(row, results.layout.lines)]) for row in ranked[1:]]
    doubtful = [(name, ratio) for name, ratio in of_others if _doubtful(ratio)]
    if not doubtful:
        return []
    alone = [f"against {name} {_valid_words(ratio)}" for name, ratio in doubtful]
    best = _name(results, ranked[0])
    return [f"That rests on SUSPECT trials. By the VALID ones alone {best} is, {'; '.join(alone)}."]


def _doubtful(ratio: Row) -> bool:
    """Whether pairs of VALID trials alone do not say that the first is ahead."""
    if ratio.get("valid_pairs") in (None, ratio["pairs"]):
        return False
    return (ratio.get("valid_low") or 0.0) <= 1


def _valid_words(ratio: Row) -> str:
    if ratio.get("valid_ratio") is None:
        return "not compared at all: no repetition has both VALID"
    if ratio.get("valid_low") is None:
        return f"at {ratio['valid_ratio']:.2f} of it, from a single repetition"
    return f"at {_interval({'ratio': ratio['valid_ratio'], 'low': ratio['valid_low'], 'high': ratio['valid_high']})}"


def _ahead(bounded: dict[str, Row], names: list[str]) -> str:
    return listed([f"{name} by a factor of {_factor(bounded[name])}" for name in names])


def _factor(row: Row) -> str:
    if row.get("low") is None:
        return f"{row['ratio']:.2f}"
    return f"{row['ratio']:.2f} (95\N{NO-BREAK SPACE}% interval {row['low']:.2f}\N{EN DASH}{row['high']:.2f})"


def _interval(row: Row) -> str:
    return f"{row['ratio']:.2f}, 95\N{NO-BREAK SPACE}% interval {row['low']:.2f}\N{EN DASH}{row['high']:.2f}"


def _plain(results: Results, others: list[Row]) -> str:
    return listed([f"{_name(results, other)} {figures(other[results.rate], 'Mb/s')}" for other in others])


def _why_not(ranked: list[Row], ratios: dict[str, Row]) -> str:
    if min(int(row["trials"]) for row in ranked) < 2:
        return " With a single repetition there is no telling what of that is chance."
    if not ratios:
        return " How sure that is, is not known: this run has no table of ratios."
    return " How sure that is, is not known: too few repetitions have both to compare."


def _alone(results: Results, row: Row) -> str:
    interval = span(row.get(f"{results.rate}_low"), row.get(f"{results.rate}_high"))
    told = f" (95\N{NO-BREAK SPACE}% interval {interval})" if interval else ""
    lines = results.layout.lines
    other = "batch" if lines == JOBS else lines
    return (
        f"{_name(results, row)} delivered {figures(row[results.rate], 'Mb/s')}{told};"
        f" no other {other} has trials to compare it with."
    )


def _unusable(results: Results, panel: Panel) -> str:
    number = len(results.trials_at(panel.levels))
    all_of = "its one trial is" if number == 1 else f"all {number} of its trials are"
    return f"No answer for {panel.name or 'this run'}: {all_of} INVALID."


def _elsewhere(results: Results, panel: Panel, decisive: str) -> list[str]:
    """Of two lines, how the first compares with the other at the other places along x."""
    lines, ladder = results.lines(panel), results.ladder(panel)
    if len(lines) != 2 or len(ladder) < 2:
        return []
    first = ranking(results, panel, decisive)[0]
    other = next(line for line in lines if line != level_of(first, results.layout.lines))
    found = [(x, _ratios(results, panel, x, results.rate, first).get(other)) for x in ladder if x != decisive]
    told = [f"{_factor(ratio)} {_at(results, [x])}" for x, ratio in found if ratio]
    against = f"{_name(results, first)} against {level_name(results.layout.lines, other)}"
    return [f"Elsewhere, {against}: {'; '.join(told)}."] if told else []


def _over_the_ladder(results: Results, panel: Panel, decisive: str) -> list[str]:
    first = _name(results, ranking(results, panel, decisive)[0])
    others: dict[str, list[str]] = {}
    for x in results.ladder(panel):
        ranked = ranking(results, panel, x)
        if len(ranked) > 1 and x != decisive:
            others.setdefault(_name(results, ranked[0]), []).append(x)
    if not others:
        return []
    if others.keys() == {first}:
        if told := _elsewhere(results, panel, decisive):
            return told
        if results.layout.x == JOBS:
            return [f"It has the highest mean at all other batches too ({', '.join(others[first])} jobs)."]
        return [f"It has the highest mean at all other levels of {results.layout.x} too ({', '.join(others[first])})."]
    told = [f"{_at(results, places)} {name}" for name, places in others.items()]
    return [f"The highest mean elsewhere on the ladder: {'; '.join(told)}."]


def _at(results: Results, places: list[str]) -> str:
    """Where along x: with 4 and 8 jobs, at rtt_ms=5 and 14."""
    x = results.layout.x
    if x == JOBS:
        return f"with {listed(places)} job{'' if places == ['1'] else 's'}"
    return f"{'by' if x == ACCESS else 'at'} {level_name(x, listed(places))}"


def _along(results: Results, panel: Panel) -> list[str]:
    """By which factor each line changes from the least level along x to the largest, where these are numbers."""
    x, ladder = results.layout.x, results.ladder(panel)
    if x == JOBS or len(ladder) < 2 or not results.factors[x].numeric:
        return []
    least, largest = ladder[0], ladder[-1]
    told = []
    for line in results.lines(panel):
        rows = rows_at(results.ratios, results.at(panel, line, largest))
        known = [
            r for r in rows if (r["factor"], r["against"], r["metric"]) == (x, least, results.rate) and r.get("ratio")
        ]
        told += [f"{level_name(results.layout.lines, line)} {_factor(row)}" for row in known]
    if not told:
        return []
    return [f"From {level_name(x, least)} to {largest} the rate changes by a factor of: {'; '.join(told)}."]


def _wall_time(results: Results, panel: Panel, x: str, ranked: list[Row]) -> list[str]:
    known = [row for row in ranked if row.get(WALL_TIME) is not None]
    if len(known) < 2:
        return []
    quickest = sorted(known, key=lambda row: float(row[WALL_TIME]))
    told = [f"{_name(results, row)} {figures(row[WALL_TIME], 's')}" for row in quickest]
    ratios = _ratios(results, panel, x, WALL_TIME, quickest[0])
    ratio = ratios.get(level_of(quickest[1], results.layout.lines))
    interval = ""
    if ratio and ratio.get("low") is not None:
        interval = (
            f" The first of them took {ratio['ratio']:.2f} (95\N{NO-BREAK SPACE}% interval"
            f" {ratio['low']:.2f}\N{EN DASH}{ratio['high']:.2f}) of the next one’s time."
        )
    return [f"Wall time of the batch, from submission to the last end: {', '.join(told)}.{interval}"]


def _doubts(trials: list[Row], deciding: list[Row]) -> list[str]:
    """What weakens the answer."""
    doubts = []
    repeats = len({trial["repeat"] for trial in deciding})
    if 1 < repeats < FEW:
        doubts.append(
            f"It rests on {repeats} repetitions; intervals from so few are wide, and hold only if repetitions scatter"
            " evenly about their mean."
        )
    suspect = [trial for trial in deciding if verdict(trial) == SUSPECT]
    if suspect:
        are = "is" if len(suspect) == 1 else "are"
        doubts.append(
            f"{len(suspect)} of the {len(deciding)} trials behind it {are} SUSPECT: {'; '.join(_most(suspect))}."
        )
    invalid = sum(verdict(trial) == INVALID for trial in trials)
    if invalid:
        doubts.append(f"{invalid} of {counted(len(trials), 'trial')} INVALID and left out.")
    if any(verdict(trial) == UNJUDGED for trial in deciding):
        doubts.append("These trials were checked for completeness only; they have no verdict.")
    return doubts


def _reasons(trials: list[Row]) -> list[str]:
    return [f"{reason}." for reason in _most(trials)]


def _most(trials: list[Row], at_most: int = 3) -> list[str]:
    """The reasons that most trials give, with how many do."""
    numbers: dict[str, int] = {}
    for trial in trials:
        for reason in why(trial):
            numbers[reason] = numbers.get(reason, 0) + 1
    told = sorted(numbers.items(), key=lambda pair: -pair[1])[:at_most]
    return [reason + (f" (in {number} trials)" if number > 1 else "") for reason, number in told]
