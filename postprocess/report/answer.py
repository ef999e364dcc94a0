"""The answer to a run's question, in sentences that claim no more than the trials can bear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, PAIR, WORKLOAD
from tierbench.postprocess.measures.bottleneck import LATENCY
from tierbench.postprocess.report.notes import (
    amplification_notes,
    each_files_time,
    knee_notes,
    round_trips,
    scaling_of,
    shares_of_alone,
    shares_of_baseline,
)
from tierbench.postprocess.schema.rows import EVENTS, OPERATIONS, RATE, TrialRow
from tierbench.postprocess.schema.run_rows import RatioRow, SummaryRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results, why
from tierbench.postprocess.tables.run_tables import strays
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, UNJUDGED, counts, verdict
from tierbench.postprocess.wording import between, counted, factor, figures, listed, span, worded

RAISE = {  # by what limits all lines: how it could be raised, so that they can be compared
    "worker NIC": "more or faster workers",
    "worker CPU": "workers with more cores",
    "client's own CPU": "workers with faster cores, or jobs that compute less",
    "storage": "faster storage, or fewer jobs",
    "WAN link": "a faster WAN, or fewer jobs",
    "latency": "more jobs, or larger reads",
    "door NIC": "a faster door, or more doors",
    "door CPU": "a door with more cores, or more doors",
    "gateway NIC": "a faster gateway",
    "gateway CPU": "a gateway with more cores",
}
FEW = 5  # with fewer repetitions than this the reader is reminded of what their intervals suppose
WALL_TIME = "wall_time_s"


@dataclass(frozen=True)
class Answer:
    """What the trials of one panel say, and its caveats."""

    clear: bool
    sentence: str
    notes: tuple[str, ...] = ()
    compares: bool = True  # there was something to compare


@dataclass(frozen=True)
class Basis:
    """What an answer rests on."""

    results: Results
    panel: Panel
    trials: list[TrialRow]
    deciding: list[TrialRow]  # those that the sentence is about
    x: str = ""
    ranked: Sequence[SummaryRow] = ()

    @property
    def repeats(self) -> int:
        return len({trial.repeat for trial in self.deciding})

    def of_verdict(self, word: str) -> list[TrialRow]:
        """Of those that decide."""
        return [trial for trial in self.deciding if verdict(trial) == word]


@dataclass(frozen=True)
class Note:
    """What is said below an answer, and when."""

    words: Callable[[Basis], Iterable[str]]
    when: Callable[[Basis], bool] = lambda _: True


def _said(notes: Sequence[Note], basis: Basis) -> tuple[str, ...]:
    return tuple(words for note in notes if note.when(basis) for words in note.words(basis))


DID = {EVENTS: "went through", OPERATIONS: "did"}


def answer(results: Results, panel: Panel) -> Answer:
    """The fastest level of the factor that was asked about, where it matters most, and by how much."""
    trials = results.trials_at(panel.levels)
    usable = [trial for trial in trials if counts(trial)]
    if not usable:
        return Answer(False, _unusable(results, panel), tuple(_reasons(trials)), compares=False)
    x = deciding_place(results, panel)
    ranked = ranking(results, panel, x)
    if not ranked:
        sentence = f"No answer for {panel.name or 'this run'}: no trial that counts has a rate."
        return Answer(False, sentence, _said(DOUBTS, Basis(results, panel, trials, trials)), compares=False)
    where = conditions(results, panel, x)
    contradiction: list[str] = []
    unknown = _unknown(results, panel, x, ranked)
    differs = False
    if len(ranked) == 1:
        clear, sentence = False, f"{where}, {_alone(results, ranked[0])}"
    else:
        ratios = _ratios(results, panel, x, results.rate, ranked[0])
        shares = shares_of_alone(results, ranked, where)
        shares = shares or shares_of_baseline(results, ranked, where, DID.get(results.rate, "took in"))
        if shares:
            clear, sentence, contradiction = shares
        else:
            clear, sentence = _compared(
                results, ranked, ratios, where, " of those with trials that count" if unknown else ""
            )
            contradiction = _by_valid_trials(results, ranked, ratios) if clear else []
        differs = clear
        clear = clear and not contradiction and not unknown
    rests = Basis(results, panel, trials, rows_at(usable, results.at(panel, x=x)), x, ranked)
    # What takes an answer back, and its cause, stand in it: wherever it is read, the notes may not be.
    sentence = " ".join([sentence, *contradiction, *unknown, *_limits(rests, differs)])
    directions = {trial.direction for trial in usable}
    notes = [worded(note, directions) for note in _said(NOTES, rests)]
    return Answer(clear, worded(sentence, directions), (*notes, *_said(DOUBTS, rests)), compares=len(ranked) > 1)


def answers(results: Results) -> list[Answer]:
    """What the run says: of all its batches, then of each panel, those first that have something to compare."""
    scaled = scaling_of(results)
    of_panels = sorted((answer(results, panel) for panel in results.panels), key=lambda said: not said.compares)
    return [Answer(*scaled), *of_panels] if scaled else of_panels


def _unknown(results: Results, panel: Panel, x: str, ranked: list[SummaryRow]) -> list[str]:
    """Of which lines nothing is known, though they have trials there."""
    lines = results.layout.lines
    known = {level_of(row, lines) for row in ranked}
    missing: dict[str, int] = {}
    for trial in results.trials_at(results.at(panel, x=x)):
        if (line := level_of(trial, lines)) not in known:
            missing[line] = missing.get(line, 0) + 1
    if not missing:
        return []
    named = listed([level_name(lines, line) for line in missing])
    trials = sum(missing.values())
    none = "its only trial does not count" if trials == 1 else f"none of {trials} trials counts"
    return [f"Nothing is known of {named}: {none}."]


def _limits(basis: Basis, differs: bool) -> list[str]:
    """What limited most trials of each line; where it is one for all, what would have to change to compare them."""
    results, lines = basis.results, basis.results.layout.lines
    limits: dict[str, list[str]] = {}
    for row in basis.ranked:
        labels = [trial.limit.bottleneck for trial in basis.deciding if level_of(trial, lines) == level_of(row, lines)]
        label = max(RAISE, key=labels.count)
        limits.setdefault(label if labels.count(label) > len(labels) / 2 else "", []).append(_name(results, row))
    if len(limits) > 1:
        known = {label: names for label, names in limits.items() if label}
        named = [f"{listed(names)} by {_the(label)}" for label, names in known.items()]
        return [f"Limited {'was' if sum(map(len, known.values())) == 1 else 'were'} {'; '.join(named)}."]
    (label, names), *_ = limits.items()
    if not label:
        return []
    if len(names) == 1:
        return [f"It was limited by {_the(label)}."]
    of_label = [trial.limit for trial in basis.deciding if trial.limit.bottleneck == label]
    used = [100 * limit.efficiency for limit in of_label if limit.efficiency is not None]
    ceilings = {figures(limit.ceiling_mbps, "Mb/s") for limit in of_label if limit.ceiling_mbps}
    share = ""
    if used and len(ceilings) == 1:
        # The ceiling is that of the way: it may be another resource's than what limits, as behind latency.
        least, most = f"{min(used):.0f}", f"{max(used):.0f}"
        received = least if least == most else f"{least}–{most}"
        share = (
            f": the jobs received {received}\N{NO-BREAK SPACE}% of {ceilings.pop()}, the way's tightest known ceiling"
        )
    ways = [way for way in RAISE[label].split(", or ") if lines != JOBS or "jobs" not in way]
    remedy = "" if differs or not ways else f" To compare them by themselves takes {', or '.join(ways)}."
    words = _the(label)
    return [f"{words[0].upper()}{words[1:]} limits all {len(names)}{share}.{remedy}"]


def _the(label: str) -> str:
    """What limits, with its article."""
    return label if label == LATENCY else f"the {label}"


def deciding_place(results: Results, panel: Panel) -> str:
    """The last place along x, mostly the largest batch, at which most lines have trials that count."""
    ladder = results.ladder(panel)
    return max(ladder, key=lambda x: (len(ranking(results, panel, x)), ladder.index(x)))


def ranking(results: Results, panel: Panel, x: str) -> list[SummaryRow]:
    """The lines' means at a place along x, the fastest first."""
    rows = results.summaries_at(results.at(panel, x=x))
    ranked = _ranked([row for row in rows if row.trials], results.rate, largest_first=True)
    # A stray trial is in the mean and in no ratio; what is said is said by ratios.
    behind = _ratios(results, panel, x, results.rate, ranked[0]) if ranked else {}
    if len(behind) < len(ranked) - 1:
        return ranked
    lines = results.layout.lines
    return sorted(
        ranked, key=lambda row: behind[text].ratio.value or 1.0 if (text := level_of(row, lines)) in behind else 1.0
    )


def _ranked(rows: list[SummaryRow], metric: str, *, largest_first: bool) -> list[SummaryRow]:
    """The rows with a mean of the metric, by it."""
    means = [(row, mean) for row in rows if (mean := row.means[metric].value) is not None]
    return [row for row, _ in sorted(means, key=lambda pair: -pair[1] if largest_first else pair[1])]


def conditions(results: Results, panel: Panel, x: str) -> str:
    """What is the same for all that is compared: With 6 jobs of root by direct at rtt_ms=14."""
    point = {**{name: factor.texts[-1] for name, factor in results.factors.items()}, **results.at(panel, x=x)}
    for name in (ACCESS, WORKLOAD) if results.layout.lines == PAIR else (results.layout.lines,):
        del point[name]
    told = [counted(int(point[JOBS]), "job")] if JOBS in point else []
    if WORKLOAD in point:
        told.append(f"of {point[WORKLOAD]}" if told else point[WORKLOAD])
    told += [f"by {point[ACCESS]}"] if ACCESS in point else []
    axes = [name for name in point if name not in BUILT_IN and results.factors[name].several]
    told += ["at " + listed([level_name(name, point[name]) for name in axes])] if axes else []
    return "With " + " ".join(told)


def _ratios(results: Results, panel: Panel, x: str, metric: str, first: SummaryRow) -> dict[str, RatioRow]:
    """How the first compares with each other line, where that is known."""
    lines = results.layout.lines
    rows = rows_at(results.ratios, results.at(panel, level_of(first, lines), x))
    return {
        row.against: replace(row, ratio=results.together(row))
        for row in rows
        if (row.factor, row.metric) == (lines, metric) and row.ratio.value is not None
    }


def _name(results: Results, row: SummaryRow) -> str:
    """What the line of a row is called."""
    return level_name(results.layout.lines, level_of(row, results.layout.lines))


def _compared(
    results: Results, ranked: list[SummaryRow], ratios: dict[str, RatioRow], where: str, among: str
) -> tuple[bool, str]:
    first, others = ranked[0], ranked[1:]
    rate = f"its jobs {DID.get(results.rate, 'took in')} {figures(first.means[results.rate].value, results.unit)}"
    factors = {name: row.ratio for name, row in _by_name(results, others, ratios) if row.ratio.interval}
    best, names = _name(results, first), [_name(results, other) for other in others]
    if not all(name in factors for name in names):
        return (
            False,
            f"{where}, {best} was fastest in the mean: {rate}, those of {_plain(results, others)}."
            + _why_not(ranked, ratios),
        )
    behind = {name: factor for name, factor in factors.items() if (factor.low or 0.0) > 1}
    if len(behind) < len(factors):
        level = [f"{name} (ratio {_interval(factors[name])})" for name in names if name not in behind]
        sentence = (
            f"{where} there is no clear winner: {best} was fastest in the mean ({rate}),"
            f" but cannot be told apart from {listed(level)}."
        )
        if behind:
            sentence += f" It was ahead of {_ahead(behind)}."
        return False, sentence
    return True, f"{where}, {best} is the fastest{among}: {rate}, ahead of {_ahead(behind)}."


def _by_name(results: Results, others: list[SummaryRow], ratios: dict[str, RatioRow]) -> Iterator[tuple[str, RatioRow]]:
    """How the first compares with each of the others, by their names."""
    for row in others:
        if ratio := ratios.get(level_of(row, results.layout.lines)):
            yield _name(results, row), ratio


def _by_valid_trials(results: Results, ranked: list[SummaryRow], ratios: dict[str, RatioRow]) -> list[str]:
    """What becomes of a clear answer without the SUSPECT trials, where that is another one."""
    best = _name(results, ranked[0])
    alone = [
        f"{best} against {name} {_by_valid_words(row.by_valid)}"
        for name, row in _by_name(results, ranked[1:], ratios)
        if _doubtful(row)
    ]
    return [f"That rests on SUSPECT trials. By VALID trials alone: {'; '.join(alone)}."] if alone else []


def _doubtful(row: RatioRow) -> bool:
    """Whether pairs of VALID trials alone do not say that the first is ahead."""
    return row.is_doubted and (row.by_valid.low or 0.0) <= 1


def _by_valid_words(ratio: Interval) -> str:
    if ratio.value is None:
        return "not compared (no repetition has both VALID)"
    return f"{_interval(ratio)}" if ratio.interval else f"{factor(ratio.value)} (a single repetition)"


def _ahead(behind: Mapping[str, Interval]) -> str:
    return listed([f"{name} by a factor of {_bounded(ratio)}" for name, ratio in behind.items()])


def _bounded(ratio: Interval) -> str:
    return factor(ratio.value) + (f" ({_of_95(*ratio.interval)})" if ratio.interval else "")


def _interval(ratio: Interval) -> str:
    return factor(ratio.value) + (f", {_of_95(*ratio.interval)}" if ratio.interval else "")


def _of_95(low: float, high: float) -> str:
    return f"95\N{NO-BREAK SPACE}% interval {between(low, high)}"


def _plain(results: Results, others: list[SummaryRow]) -> str:
    return listed(
        [f"{_name(results, other)} {figures(other.means[results.rate].value, results.unit)}" for other in others]
    )


def _why_not(ranked: list[SummaryRow], ratios: dict[str, RatioRow]) -> str:
    if min(row.trials or 0 for row in ranked) < 2:
        return " With a single repetition there is no telling what of that is chance."
    if not ratios:
        return " How sure that is, is not known: this run has no table of ratios."
    return " How sure that is, is not known: too few repetitions have both to compare."


def _alone(results: Results, row: SummaryRow) -> str:
    rate = row.means[results.rate]
    interval = f" (95\N{NO-BREAK SPACE}% interval {span(rate)})" if rate.interval else ""
    lines = results.layout.lines
    other = "batch" if lines == JOBS else lines
    return (
        f"{_name(results, row)} {DID.get(results.rate, 'delivered')} {figures(rate.value, results.unit)}{interval};"
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
    rows = [(x, _ratios(results, panel, x, results.rate, first).get(other)) for x in ladder if x != decisive]
    elsewhere = [f"{_bounded(row.ratio)} {_at(results, [x])}" for x, row in rows if row]
    against = f"{_name(results, first)} against {level_name(results.layout.lines, other)}"
    return [f"Elsewhere, {against}: {'; '.join(elsewhere)}."] if elsewhere else []


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
        if elsewhere := _elsewhere(results, panel, decisive):
            return elsewhere
        if results.layout.x == JOBS:
            return [f"It has the highest mean at all other batches too ({', '.join(others[first])} jobs)."]
        return [f"It has the highest mean at all other levels of {results.layout.x} too ({', '.join(others[first])})."]
    highest = [f"{_at(results, places)} {name}" for name, places in others.items()]
    return [f"The highest mean elsewhere on the ladder: {'; '.join(highest)}."]


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
    factors = [
        f"{level_name(results.layout.lines, line)} {_bounded(results.together(row))}"
        for line in results.lines(panel)
        for row in rows_at(results.ratios, results.at(panel, line, largest))
        if (row.factor, row.against, row.metric) == (x, least, results.rate) and row.ratio.value
    ]
    if not factors:
        return []
    return [f"From {level_name(x, least)} to {largest} the rate changes by a factor of: {'; '.join(factors)}."]


def _wall_time(results: Results, ranked: Sequence[SummaryRow]) -> list[str]:
    quickest = _ranked(list(ranked), WALL_TIME, largest_first=False)
    if len(quickest) < 2:
        return []
    times = [f"{_name(results, row)} {figures(row.means[WALL_TIME].value, 's')}" for row in quickest]
    return [f"Wall time of the batch, from submission to the last end: {', '.join(times)}."]


def _strays(basis: Basis) -> list[str]:
    results, there = basis.results, basis.results.trials_at(basis.panel.levels)
    far = [trial for trial in strays(results.trials, results.rate) if trial in there]
    rates = [f"{trial.trial} ({figures(trial[results.rate], results.unit)})" for trial in far]
    apart = "lies" if len(far) == 1 else "lie"
    return [f"{listed(rates)} {apart} far off all others, and no ratio is taken with it."] if far else []


def _suspects(basis: Basis) -> list[str]:
    suspect = basis.of_verdict(SUSPECT)
    are = "is" if len(suspect) == 1 else "are"
    return [f"{len(suspect)} of the {len(basis.deciding)} trials behind it {are} SUSPECT: {'; '.join(_most(suspect))}."]


def _left_out(basis: Basis) -> list[str]:
    invalid = sum(verdict(trial) == INVALID for trial in basis.trials)
    return [f"{invalid} of {counted(len(basis.trials), 'trial')} INVALID and left out."] if invalid else []


def _reasons(trials: list[TrialRow]) -> list[str]:
    return [f"{reason}." for reason in _most(trials)]


def _most(trials: list[TrialRow], at_most: int = 3) -> list[str]:
    """The reasons that most trials give, with how many do."""
    numbers: dict[str, int] = {}
    for trial in trials:
        for reason in why(trial):
            numbers[reason] = numbers.get(reason, 0) + 1
    commonest = sorted(numbers.items(), key=lambda pair: -pair[1])[:at_most]
    return [reason + (f" (in {number} trials)" if number > 1 else "") for reason, number in commonest]


NOTES = (
    Note(lambda of: round_trips(of.results, of.panel)),
    Note(lambda of: each_files_time(of.results, of.panel)),
    Note(lambda of: amplification_notes(of.results, list(of.ranked))),
    Note(lambda of: _over_the_ladder(of.results, of.panel, of.x)),
    Note(lambda of: _along(of.results, of.panel)),
    Note(lambda of: knee_notes(of.results, of.panel)),
    Note(lambda of: _wall_time(of.results, of.ranked), when=lambda of: of.results.rate == RATE),
)
DOUBTS = (  # what weakens the answer
    Note(_strays, when=lambda of: bool(of.x)),
    Note(lambda of: [f"{of.repeats} repetitions: intervals are wide."], when=lambda of: 1 < of.repeats < FEW),
    Note(_suspects, when=lambda of: bool(of.of_verdict(SUSPECT))),
    Note(_left_out),
    Note(
        lambda _: ["These trials were checked for completeness only; they have no verdict."],
        when=lambda of: bool(of.of_verdict(UNJUDGED)),
    ),
)
