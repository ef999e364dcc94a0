"""The answer to a run's question, in sentences that claim no more than the trials can bear."""

from __future__ import annotations

from dataclasses import dataclass

from tierbench.postprocess.columns import RATE
from tierbench.postprocess.counting import INVALID, SUSPECT, UNJUDGED, counts, verdict
from tierbench.postprocess.report.waste import waste
from tierbench.postprocess.report.words import counted, figures, listed, span
from tierbench.postprocess.results import Results, Row, why

FEW = 5  # with fewer repetitions than this the reader is reminded of what their intervals suppose
WALL_TIME = "wall_time_s"


@dataclass(frozen=True)
class Answer:
    """What one workload's trials say, and what has to be known with it."""

    workload: str
    clear: bool
    sentence: str
    notes: tuple[str, ...]


def answer(results: Results, workload: str) -> Answer:
    """The fastest access at the largest batch, and by how much."""
    trials = results.trials_of(workload)
    usable = [trial for trial in trials if counts(trial)]
    if not usable:
        told = _unusable(results, workload)
        return Answer(workload, False, told, tuple(_reasons(trials)))
    jobs = deciding_batch(results, workload)
    ranked = ranking(results, workload, jobs)
    if not ranked:
        sentence = f"No answer for {workload}: no trial that counts has a rate."
        return Answer(workload, False, sentence, tuple(_doubts(trials, trials)))
    if len(ranked) == 1:
        clear, sentence, contradiction = False, _alone(ranked[0], workload), []
    else:
        ratios = _ratios(results, workload, jobs, RATE, ranked[0])
        clear, sentence = _compared(ranked, ratios, workload)
        contradiction = _by_valid_trials(ranked, ratios) if clear else []
        clear = clear and not contradiction
    deciding = [trial for trial in usable if trial["jobs"] == jobs]
    notes = [*contradiction, *waste(results, ranked), *_over_the_ladder(results, workload, jobs)]
    notes += _wall_time(results, workload, jobs, ranked)
    return Answer(workload, clear, sentence, (*notes, *_doubts(trials, deciding)))


def deciding_batch(results: Results, workload: str) -> int:
    """The largest batch at which most accesses have trials that count."""
    return max(results.batches(workload), key=lambda jobs: (len(ranking(results, workload, jobs)), jobs))


def ranking(results: Results, workload: str, jobs: int) -> list[Row]:
    """The accesses' means at a batch, the fastest first."""
    rows = [
        row
        for row in results.summary
        if (row["workload"], row["jobs"]) == (workload, jobs) and row.get(RATE) is not None and row.get("trials")
    ]
    return sorted(rows, key=lambda row: -float(row[RATE]))


def _ratios(results: Results, workload: str, jobs: int, metric: str, first: Row) -> dict[str, Row]:
    """How the first compares with each other access, where that is known."""
    return {
        row["against"]: row
        for row in results.ratios
        if (row["factor"], row["workload"], row["jobs"], row["metric"]) == ("access", workload, jobs, metric)
        and row["access"] == first["access"]
        and row.get("ratio") is not None
    }


def _compared(ranked: list[Row], ratios: dict[str, Row], workload: str) -> tuple[bool, str]:
    first, others = ranked[0], ranked[1:]
    where = f"With {counted(first['jobs'], 'job')} of {workload}"
    rate = f"its jobs took in {figures(first[RATE], 'Mb/s')}"
    bounded = {name: row for name, row in ratios.items() if row.get("low") is not None}
    if not all(other["access"] in bounded for other in others):
        return (
            False,
            f"{where}, {first['access']} was fastest in the mean: {rate}, those of {_plain(others)}."
            + _why_not(ranked, ratios),
        )
    level = [other for other in others if bounded[other["access"]]["low"] <= 1]
    behind = [other for other in others if bounded[other["access"]]["low"] > 1]
    if level:
        told = listed([f"{other['access']} (ratio {_interval(bounded[other['access']])})" for other in level])
        sentence = (
            f"{where} there is no clear winner: {first['access']} was fastest in the mean ({rate}),"
            f" but cannot be told apart from {told}."
        )
        if behind:
            sentence += f" It was ahead of {_ahead(bounded, behind)}."
        return False, sentence
    return True, f"{where}, {first['access']} is the fastest: {rate}, ahead of {_ahead(bounded, behind)}."


def _by_valid_trials(ranked: list[Row], ratios: dict[str, Row]) -> list[str]:
    """What becomes of a clear answer without the SUSPECT trials, where that is another one."""
    doubtful = [(row["access"], ratios[row["access"]]) for row in ranked[1:] if _doubtful(ratios[row["access"]])]
    if not doubtful:
        return []
    alone = [f"against {access} {_valid_words(ratio)}" for access, ratio in doubtful]
    return [f"That rests on SUSPECT trials. By the VALID ones alone {ranked[0]['access']} is, {'; '.join(alone)}."]


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


def _ahead(bounded: dict[str, Row], others: list[Row]) -> str:
    return listed([f"{other['access']} by a factor of {_factor(bounded[other['access']])}" for other in others])


def _factor(row: Row) -> str:
    return f"{row['ratio']:.2f} (95\N{NO-BREAK SPACE}% interval {row['low']:.2f}\N{EN DASH}{row['high']:.2f})"


def _interval(row: Row) -> str:
    return f"{row['ratio']:.2f}, 95\N{NO-BREAK SPACE}% interval {row['low']:.2f}\N{EN DASH}{row['high']:.2f}"


def _plain(others: list[Row]) -> str:
    return listed([f"{other['access']} {figures(other[RATE], 'Mb/s')}" for other in others])


def _why_not(ranked: list[Row], ratios: dict[str, Row]) -> str:
    if min(int(row["trials"]) for row in ranked) < 2:
        return " With a single repetition there is no telling what of that is chance."
    if not ratios:
        return " How sure that is, is not known: this run has no table of ratios."
    return " How sure that is, is not known: too few repetitions have both to compare."


def _alone(row: Row, workload: str) -> str:
    interval = span(row.get(f"{RATE}_low"), row.get(f"{RATE}_high"))
    told = f" (95\N{NO-BREAK SPACE}% interval {interval})" if interval else ""
    return (
        f"With {counted(row['jobs'], 'job')} of {workload}, {row['access']} delivered"
        f" {figures(row[RATE], 'Mb/s')}{told}; no other access has trials to compare it with."
    )


def _unusable(results: Results, workload: str) -> str:
    number = len(results.trials_of(workload))
    all_of = "its one trial is" if number == 1 else f"all {number} of its trials are"
    return f"No answer for {workload}: {all_of} INVALID."


def _over_the_ladder(results: Results, workload: str, decisive: int) -> list[str]:
    first = ranking(results, workload, decisive)[0]["access"]
    others: dict[str, list[str]] = {}
    for jobs in results.batches(workload):
        ranked = ranking(results, workload, jobs)
        if len(ranked) > 1 and jobs != decisive:
            others.setdefault(ranked[0]["access"], []).append(str(jobs))
    if not others:
        return []
    if others.keys() == {first}:
        return [f"It has the highest mean at all other batches too ({', '.join(others[first])} jobs)."]
    told = [f"with {listed(batches)} jobs {access}" for access, batches in others.items()]
    return [f"The highest mean elsewhere on the ladder: {'; '.join(told)}."]


def _wall_time(results: Results, workload: str, jobs: int, ranked: list[Row]) -> list[str]:
    known = [row for row in ranked if row.get(WALL_TIME) is not None]
    if len(known) < 2:
        return []
    quickest = sorted(known, key=lambda row: float(row[WALL_TIME]))
    told = [f"{row['access']} {figures(row[WALL_TIME], 's')}" for row in quickest]
    ratio = _ratios(results, workload, jobs, WALL_TIME, quickest[0]).get(quickest[1]["access"])
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
