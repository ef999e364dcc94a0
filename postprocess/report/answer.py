"""The answer to a run's question, in sentences that claim no more than the trials can bear: what, why, what next."""

import functools
import json
import math
import shlex
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tierbench.dags.experiment import shipped_experiments
from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, PAIR, WORKLOAD
from tierbench.dags.measure import SENT
from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER
from tierbench.postprocess.compare.points import RunPoint, Standing, more_repetitions, point_at, points, within
from tierbench.postprocess.compare.sequential import common_limit
from tierbench.postprocess.measures.bottleneck import LATENCY
from tierbench.postprocess.measures.resources import ALL_AT_WORK
from tierbench.postprocess.report.grid import headline, leads_over, what_is_compared, with_ci
from tierbench.postprocess.report.notes import NOTES, Sentence, scaling_of, shares_of_alone, shares_of_baseline
from tierbench.postprocess.schema.rows import RATE, SUMMED, TrialRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.factors import Panel, level_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results, why
from tierbench.postprocess.tables.run_tables import strays
from tierbench.postprocess.verdict.counting import INVALID, NOT_RUN, RUNNING, SUSPECT, UNJUDGED, counts, verdict
from tierbench.postprocess.wording import (
    CI,
    abridged,
    bounds,
    counted,
    far_off,
    figures,
    limit_percent,
    listed,
    percent,
    worded,
)
from tierbench.starts import IN_TURN

MOST_MORE = 20  # repetitions that it is worth while to ask for
FEW = 5  # with fewer repetitions than this the reader is reminded of what their intervals suppose
WORKERS = "--set private_workers=8 --set public_workers=8"
REMEDIES = {  # of what limits all lines: what would raise it, and the rate of a testbed that does
    "worker NIC": ("more or faster workers", WORKERS),
    "worker CPU": ("more workers, or ones with more cores", WORKERS),
    "client's own CPU": ("faster cores, or clients that compute less", ""),
    "storage": ("faster storage, or fewer jobs (batches)", "storage"),
    "WAN link": ("a faster WAN, or fewer jobs (batches)", "wan"),
    "TCP window": ("larger TCP buffers where the receiver's window is full, or more jobs (batches)", ""),
    "latency": ("more jobs (batches), or clients that ask for larger pieces", ""),
    "door NIC": ("a faster door, or more doors", "server"),
    "door CPU": ("a door with more cores, or more doors", ""),
    "gateway NIC": ("a faster gateway", "gateway"),
    "gateway CPU": ("a gateway with more cores", ""),
}
TESTBED = "testbed"  # the name of its site


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
    trials = [trial for trial in results.trials_at(panel.levels) if verdict(trial) not in (RUNNING, NOT_RUN)]
    usable = list(filter(counts, trials))
    if not usable:
        all_of = "its one trial is" if len(trials) == 1 else f"all {len(trials)} of its trials are"
        why = f"{all_of} INVALID" if trials else "its first trial is being measured"
        sentence = f"No answer for {panel.name or 'this run'}: {why}."
        return Answer(False, sentence, tuple(f"{reason}." for reason in _most(trials)), compares=False)
    point = point_at(results, panel)
    if not point:
        sentence = f"No answer for {panel.name or 'this run'}: no usable trial has a rate."
        return Answer(False, sentence, tuple(_doubts(results, trials, trials)), compares=False)
    where = conditions(results, panel, point.x)
    deciding = rows_at(usable, results.at(panel, x=point.x))
    clear, sentence = (
        shares_of_alone(results, point, where)
        or shares_of_baseline(results, point, where)
        or _comparison(results, point, where)
    )
    sentences, lines = [sentence], results.layout.lines
    trials_there = rows_at(trials, {results.layout.x: point.x})
    if without := [trial for trial in trials_there if level_of(trial, lines) in point.without]:
        named = listed([*map(results.line_name, point.without)])
        all_invalid = all(verdict(trial) == INVALID for trial in without)
        why = f"No usable trial of {named}: {counted(len(without), 'trial')} INVALID."
        sentences.append(why if all_invalid else f"No usable trial of {named} has a rate.")
    # What takes an answer back, and its cause, stand in it: wherever it is read, the notes may not be.
    if alone or len(results.panels) > 1:  # or the sentence about all points says the same
        sentences += causes(results, deciding, [standing.line for standing in point.standings])
    sentences += next_step(results, [point], deciding) if point.others and alone else []
    directions = {trial.direction for trial in usable}
    notes = [worded(note, directions) for notes in NOTES for note in notes(results, point)]
    doubts = [*_doubts(results, trials, deciding)]
    if to_come := sum(verdict(trial) in (RUNNING, NOT_RUN) for trial in results.trials_at(panel.levels)):
        doubts.insert(0, f"{counted(to_come, 'planned trial')} of it {'has' if to_come == 1 else 'have'} not ended.")
    text = worded(" ".join(sentences), directions)
    return Answer(clear and not point.without, text, (*notes, *doubts), compares=bool(point.others))


def answers(results: Results) -> list[Answer]:
    """What the run says: of all its points, then of each panel, those first that have something to compare."""
    scaled = scaling_of(results)
    overall = [Answer(*scaled)] if scaled else []
    # Several points are summed up in a sentence, if at each of them the fastest is asked for.
    of_each = results.layout.baseline or any(trial.started == IN_TURN for trial in results.trials)
    comparable = [] if of_each else [point for point in points(results) if point.others]
    if several := len(comparable) > 1:
        clear, sentence = headline(results, comparable)
        trials = list(filter(counts, results.trials))
        lines = [line for line in results.compared.texts if rows_at(trials, {results.layout.lines: line})]
        because = [*causes(results, trials, lines), *next_step(results, comparable, trials)]
        overall.append(Answer(clear, results.worded(" ".join([sentence, *because]))))
    of_panels = [answer(results, panel, alone=not several) for panel in results.panels]
    return [*overall, *sorted(of_panels, key=lambda answer: not answer.compares)]


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


def _comparison(results: Results, point: RunPoint, where: str) -> Sentence:
    """The sentence about the fastest line of a point and all others."""
    rate = functools.partial(_rate, results)

    def with_result(*results: str) -> str:
        others = [other for other in point.others if other.result in results]
        named = [f"{each.name} (ratio {with_ci(each.lead).replace(' (', ', ')}" for each in others]
        return listed(abridged(named))

    what, best, its_rate = what_is_compared(results), point.reference.name, rate(point.reference)
    if not point.others:
        its_mean = point.reference.row.means[results.rate]
        interval = f" ({CI}{bounds(its_mean, figures)})" if its_mean.interval else ""
        return False, f"{where}, {best}: {its_rate}{interval}; no other {what} has usable trials to compare it with."
    higher = _higher_means(results, point)
    leads = "comes first by its ratios" if higher else "has the highest mean"
    if not any(other.result for other in point.others):
        others = [f"{other.name} {rate(other)}" for other in point.others]
        reason = "No interval: too few repetitions have usable trials of both."
        if min(standing.row.trials or 0 for standing in point.standings) < 2:
            reason = "A single repetition gives no interval, so this may be chance."
        elif all(other.lead.value is None for other in point.others):
            reason = "No interval: the run has no ratios of them, which take repetitions with usable trials of both."
        return False, f"{where}, {best} {leads}: {its_rate}, against {listed(abridged(others))}. {reason}"
    if clear := all(other.result == SLOWER for other in point.others):
        among = f" {what} with usable trials" if point.without else f" {what}"
        sentence = f"{where}, {best} is the fastest{among}: {its_rate}, {leads_over(point.others)}."
    else:
        unclear, alike, slower = with_result(INCONCLUSIVE, FASTER), with_result(EQUIVALENT), with_result(SLOWER)
        parts = [f"not distinguishable from {unclear}"] if unclear else []
        parts += [f"equivalent within {limit_percent(within(results))} to {alike}"] if alike else []
        single = [other.name for other in point.others if not other.result]
        parts += [f"without an interval against {listed(single)}"] if single else []
        by = f"by more than {limit_percent(within(results))}"
        is_it = "distinguishably the fastest" if unclear or single else f"the fastest {by}"
        sentence = f"{where}, no {what} is {is_it}: {best} {leads} ({its_rate}), {' and '.join(parts)}."
        sentence += f" It is faster than {slower}." if slower else ""
    sentence += higher
    by_valid = [f"{best} against {each.name} {_valid_ratio(each.by_valid)}" for each in point.others if each.by_valid]
    if by_valid:
        sentence += f" That rests on SUSPECT trials. By VALID trials alone: {'; '.join(by_valid)}."
    return clear and not by_valid, sentence


def _mean(results: Results, standing: Standing) -> float:
    return standing.row.means[results.rate].value or 0.0


def _rate(results: Results, standing: Standing) -> str:
    what = {RATE: " delivered", SUMMED: " summed over the jobs’ turns"}.get(results.rate, "")
    return f"{figures(_mean(results, standing), results.unit)}{what}"


def _higher_means(results: Results, point: RunPoint) -> str:
    """A sentence about the lines that have a higher mean than the one that comes first; mostly there are none.

    A mean is over all trials of a line, so one that lacks a slow repetition has the higher one.
    """
    first, its_rate = _mean(results, point.reference), _rate(results, point.reference)
    rates = {other.name: _rate(results, other) for other in point.others if _mean(results, other) > first}
    higher = [f"{name} ({rate})" for name, rate in rates.items() if rate != its_rate]
    if not higher:
        return ""
    have = "has the higher mean" if len(higher) == 1 else "have higher means"
    return f" {listed(higher)} {have}: ratios go by trials of the same repetitions, and by their logarithms."


def _valid_ratio(ratio: Interval) -> str:
    """A ratio of VALID trials."""
    if ratio.value is None:
        return "not compared (no repetition has both VALID)"
    return with_ci(ratio) + ("" if ratio.interval else " (a single repetition)")


def limit_of_lines(results: Results, trials: Sequence[TrialRow], lines: Iterable[str]) -> dict[str, list[str]]:
    """By what limited most trials of each line, the lines; nothing for those that no one thing limited."""
    limits: dict[str, list[str]] = {}
    for line in lines:
        label = common_limit([trial for trial in trials if level_of(trial, results.layout.lines) == line])
        limits.setdefault(label if label in REMEDIES else "", []).append(line)
    return limits


def causes(results: Results, trials: Sequence[TrialRow], lines: Sequence[str]) -> list[str]:
    """What limited each side, in a sentence, and in how many trials where not in all; none where that is unknown."""
    limits = limit_of_lines(results, trials, lines)
    if len(limits) > 1 or len(lines) == 1:

        def side(line: str, label: str) -> str:
            of_line = [trial for trial in trials if level_of(trial, results.layout.lines) == line]
            often = _in_some(of_line, label)
            return results.line_name(line) + (f" ({often})" if often else "")

        sides = [
            f"{listed([side(line, label) for line in limited])} by {'' if label == LATENCY else 'the '}{label}"
            for label, limited in limits.items()
            if label
        ]
        return [f"What limited: {'; '.join(sides)}."] if sides else []
    (label,) = limits
    if not label:
        return []
    of_label = [trial for trial in trials if trial.limit.bottleneck == label]
    used = [100 * trial.limit.efficiency for trial in of_label if trial.limit.efficiency is not None]
    late = _differs_at_its_ends(results, of_label)
    ceilings = {figures(trial.limit.ceiling_mbps, "Mb/s") for trial in of_label if trial.limit.ceiling_mbps}
    share = ""
    if used and len(ceilings) == 1:
        # The ceiling is that of the access: it may be another resource's than what limits, as behind latency.
        ends = "–".join(dict.fromkeys(f"{end:.0f}" if end >= 1 else f"{end:.1g}" for end in (min(used), max(used))))
        did = "received" if all((trial.direction or SENT) == SENT for trial in trials) else "moved"
        share = f": {'over whole windows ' if late else ''}the jobs {did} {ends}\N{NO-BREAK SPACE}% of"
        share += f" {ceilings.pop()}, the path's tightest known ceiling"
    whose, often = "Latency" if label == LATENCY else f"The {label}", _in_some(trials, label)
    methods = "both" if len(lines) == 2 else f"all {len(lines)}"
    when = " while all jobs are at work" if late else ""
    return [f"{whose} limits {methods}{f' in {often}' if often else ''}{when}{share}."]


def _differs_at_its_ends(results: Results, trials: Sequence[TrialRow]) -> bool:
    """Whether one thing limits all while all clients are at work, and lines differ: by how these begin and end."""
    used: dict[str, list[float]] = {}
    for trial in trials:
        if trial.limit.efficiency and trial.limit.bottleneck_evidence.startswith(ALL_AT_WORK):
            used.setdefault(level_of(trial, results.layout.lines), []).append(trial.limit.efficiency)
    middles = [statistics.median(shares) for shares in used.values()]
    return bool(middles) and max(middles) > (1 + within(results)) * min(middles)


def _in_some(trials: Sequence[TrialRow], label: str) -> str:
    """In how many of some trials it is what limited, where it is not in all: another thing did in the others."""
    number = sum(trial.limit.bottleneck == label for trial in trials)
    return f"{number} of {counted(len(trials), 'trial')}" if number < len(trials) else ""


def next_step(results: Results, points: Sequence[RunPoint], trials: Sequence[TrialRow]) -> list[str]:
    """What to change where a comparison is open: the common limit, or the number of repetitions, as a command."""
    # What differs is not hidden by one limit.
    if not any(other.result in (SLOWER, FASTER) for point in points for other in point.others):
        limits = limit_of_lines(results, trials, {each.line: None for point in points for each in point.standings})
        if len(limits) == 1 and (label := next(iter(limits))):
            return _raise_limit(results, label, trials)
    needed, hidden = more_repetitions(results, points)
    more = max((each for each in needed if each is not None), default=0)
    if not more or any(verdict(trial) in (RUNNING, NOT_RUN) for trial in results.trials):  # more of them are to come
        return []
    resolved = limit_percent(within(results))
    if more > MOST_MORE:
        repeats = len({trial.repeat for trial in trials})
        then = math.expm1(math.log1p(within(results)) * math.sqrt((repeats + more) / (repeats + MOST_MORE)))
        numbers = f"{more} more needed, {MOST_MORE} more would resolve {percent(then)}"
        return [
            f"Repetitions alone will not resolve {resolved} ({numbers}): read longer (size_mb), or at a quiet time."
        ]
    each = _minutes_a_repetition(results)
    minutes = f" (about {max(round(more * each), 1)} min)" if each else ""
    emulated = results.plan.get("site") == TESTBED
    own = results.directory
    if emulated and own.absolute().parent == Path.home() / "runs":  # on its access point, from where it comes home
        own = Path("runs", own.name)
    run = f"{'testbed ' if emulated else ''}run --more {more} {shlex.quote(str(own))}"
    would = f"{counted(more, 'more repetition')}{minutes} would resolve {resolved}, if the scatter stays"
    if unknown := needed.count(None):
        would += f" ({unknown} of {len(needed)} open comparisons cannot be foretold)"
    would += f" ({hidden} more open: one thing limits both sides)" if hidden else ""
    return [f"{would}: `tierbench {run}`."]


def _minutes_a_repetition(results: Results) -> float | None:
    """How long a repetition of everything took, from its first submission to its last end, in the median."""
    spans: dict[int, list[int]] = {}
    for trial in filter(counts, results.trials):
        if trial.end_wall_ns:
            begin = trial.submit_wall_ns or trial.go_wall_ns or trial.end_wall_ns
            spans.setdefault(trial.repeat, []).extend((begin, trial.end_wall_ns))
    return statistics.median_high((max(ends) - min(ends)) / 60e9 for ends in spans.values()) if spans else None


def _raise_limit(results: Results, label: str, trials: Sequence[TrialRow]) -> list[str]:
    words, raises = REMEDIES[label]
    fixed = "jobs" if results.layout.lines == JOBS else "fewer jobs" if all(row.jobs == 1 for row in trials) else None
    remedies = [remedy for remedy in words.split(", or ") if fixed is None or fixed not in remedy]
    if not remedies:
        return []
    sentence = f"To compare them by themselves, use {', or '.join(remedies)}"
    setting = _setting(results, raises, [trial for trial in trials if trial.limit.bottleneck == label])
    if not setting or results.plan.get("site") != TESTBED:
        return [f"{sentence}."]
    name = str(results.plan.get("experiment"))
    file = name if name in shipped_experiments() else f"{name}.toml"
    return [f"{sentence}: `tierbench testbed down && tierbench testbed run {file} {setting}`."]


def _setting(results: Results, raises: str, trials: Sequence[TrialRow]) -> str:
    """The setting of a testbed that raises what limits; nothing where it would not, as where a core is full."""
    if raises == WORKERS:
        pools = results.plan.get("pools") or {}

        def would_use_more(trial: TrialRow) -> bool:
            used, there = len(json.loads(trial.clients_by_worker or "{}")), len(pools.get(trial.pool) or ())
            return trial.pool in ("private", "public") and used == there < min(trial.jobs, 8)

        return WORKERS if all(map(would_use_more, trials)) else ""
    link = (results.site.get("links") or {}).get({"server": "door"}.get(raises, raises))
    is_link = all("Mb/s" in trial.limit.bottleneck_evidence.partition(";")[0] for trial in trials)
    return f"--set rates_mbps.{raises}={2 * link:g}" if isinstance(link, int | float) and is_link else ""


def _doubts(results: Results, trials: list[TrialRow], deciding: list[TrialRow]) -> Iterator[str]:
    """What weakens an answer: of a panel's trials, and of those that the sentence is about."""
    across = results.layout.lines in (WORKLOAD, PAIR)
    if far := [trial for trial in strays(results.trials, results.rate, across=across) if trial in trials]:
        rates = [f"{trial.trial} ({figures(trial[results.rate], results.unit)})" for trial in far]
        yield f"{far_off(rates)} of ratios, unless that decides them."
    yield from _workers_apart(results, deciding)
    if 1 < (repeats := len({trial.repeat for trial in deciding})) < FEW:
        yield f"{repeats} repetitions: intervals are wide."
    if suspect := [trial for trial in deciding if verdict(trial) == SUSPECT]:
        are = "is" if len(suspect) == 1 else "are"
        yield f"{len(suspect)} of the {len(deciding)} trials behind it {are} SUSPECT: {'; '.join(_most(suspect))}."
    if invalid := sum(verdict(trial) == INVALID for trial in trials):
        yield f"{invalid} of {counted(len(trials), 'trial')} INVALID and left out."
    if any(verdict(trial) == UNJUDGED for trial in deciding):
        yield "These trials were checked for completeness only; they have no verdict."


def _workers_apart(results: Results, trials: Sequence[TrialRow]) -> Iterator[str]:
    """A sentence for each pool in which two lines have no worker in common: a slow one is then the line's."""
    pools: dict[str, dict[str, set[str]]] = {}
    for trial in trials:
        hosts = pools.setdefault(trial.pool, {}).setdefault(level_of(trial, results.layout.lines), set())
        hosts.update(json.loads(trial.clients_by_worker or "{}"))
    for pool, lines in pools.items():
        alone = [line for line, own in lines.items() if own and any(own.isdisjoint(of) for of in lines.values() if of)]
        if alone:
            named = listed([*map(results.line_name, alone)])
            yield f"{named} had no worker of the pool {pool} in common: what differs may be the workers."


def _most(trials: list[TrialRow]) -> Iterator[str]:
    """The reasons that most trials give, with how many do: those with one remedy are one."""
    alike: dict[str, dict[str, str]] = {}
    for trial in trials:
        for reason in why(trial):
            alike.setdefault(reason.partition(": ")[2] or reason, {}).setdefault(trial.trial_id, reason)
    for reasons in sorted(alike.values(), key=len, reverse=True)[:3]:
        first, *others = reasons.values()
        yield first + (
            f" ({'in' if {*others} == {first} else 'the like in'} {1 + len(others)} trials)" if others else ""
        )
