"""The verdict on a trial: VALID, SUSPECT or INVALID, by the rules and what was measured.

Here are also the rules that take all trials of a run: whether one is unlike the others, and whether rates add up.
"""

import itertools
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tierbench.dags.measure import RECEIVED, SENT
from tierbench.postprocess.measures.bottleneck import LATENCY, UNEXPLAINED
from tierbench.postprocess.measures.traffic import by_storage, without_clients
from tierbench.postprocess.records import clocks, host_settings
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict import byte_rules, cache_rules, client_rules, sampling_rules
from tierbench.postprocess.verdict.counting import INVALID, RUNNING, STREAM, SUSPECT, VALID, counts, grouped, values_of
from tierbench.postprocess.verdict.rules import Evidence, Limits, Measured, Rule, rule, run_rule
from tierbench.postprocess.wording import abridged, counted, enumerated
from tierbench.starts import IN_TURN, OVERLAPPING

Hosts = Mapping[str, Mapping[str, Any]]  # what conditions.json says of each trial's hosts, by the trial's name
TrialWindow = tuple[int, int, TrialRow]  # when a trial's window began and ended, by the wall clock
OfTrials = Iterator[tuple[str, float, str]]  # a trial's name, a value in the rule's unit, and words

FEWEST = 3  # repetitions; of two nobody knows which one is odd
OF_EXCESS = 0.1  # of the usual excess: a way that wastes much does not waste just as much each time
APART_H, TIMES_USUAL = 1.0, 10.0  # between trials of one repetition; and so often what is usual between two
ADDS_UP = 0.75  # behind latency, a client among many gets at least so much of what it gets among few
NO_MORE = 0.1  # of their rate, by which more clients together differ from those that share the same thing


@rule(Limits("troubles", invalid=0), remedy="`tierbench submit` repeats the trial")
def incomplete(data: TrialData, row: TrialRow) -> Measured:
    """Clients, samples and files that are missing or broken.

    Its reasons stand in the row, before those of all other rules.
    """
    yield from ()


@run_rule(
    Limits("% of what was read", suspect=3),
    remedy="a part of a cache was warm, somebody else used the storage, or clients did not do the same: repeat it",
)
def unlike_its_repetitions(trials: Sequence[TrialRow], hosts: Hosts) -> OfTrials:
    """Deviation of excess bytes (less a tenth of their median), bytes read and events from the median of the trial's
    repetitions (three or more)."""
    for repetitions in grouped(trials, lambda trial: (trial.configuration, trial.jobs)):
        for column, words, of_excess in (
            ("closure", "the storage {} {:+.1%} beyond what was {}, its repetitions {:+.1%}", OF_EXCESS),
            ("bytes_app", "its clients moved {1:.0f} B, those of its repetitions {3:.0f} B", 0.0),
            ("events", "its clients counted {1:.0f} events, those of its repetitions {3:.0f}", 0.0),
        ):
            values = values_of((trial for trial in repetitions if counts(trial)), column)
            usual = statistics.median(values) if len(values) >= FEWEST else None
            whole = 1.0 if column == "closure" else usual
            for trial in repetitions:
                if column == "bytes_app" and trial.protocol == STREAM and trial.bytes_expected is None:
                    continue  # as much as the rate was
                if column == "closure" and trial.operations is not None:
                    continue  # nearly all that is moved is excess
                if usual is not None and whole and trial[column] is not None and trial.job_for_s is None:
                    beyond = 100 * (abs(trial[column] - usual) - of_excess * abs(usual)) / whole
                    done = "written" if trial.direction == RECEIVED else "read"
                    yield trial.trial, beyond, words.format(trial.direction or SENT, trial[column], done, usual)


@run_rule(
    Limits("% more or less", suspect=10),  # the fullest worker ends last: with 6 clients, not 5, up to a fifth later
    remedy="workers that have more clients serve each more slowly: let the experiment place them, `placement ="
    " 'in-turn'`",
)
def split_otherwise(trials: Sequence[TrialRow], hosts: Hosts) -> OfTrials:
    """Clients on the fullest worker, or workers with clients, against the run's other trials of as many clients in that
    pool.

    Not only of repetitions: a configuration all of whose trials were split otherwise is slower for that.
    """
    for alike in grouped(trials, lambda trial: (trial.pool, trial.jobs, trial.placed)):
        splits = {
            trial.trial: tuple(sorted(clients.values(), reverse=True))
            for trial in alike
            if trial.started != IN_TURN and (clients := json.loads(trial.clients_by_worker or "{}"))
        }
        often = Counter(splits.values())
        usual = max(often, key=lambda split: (often[split], -split[0]), default=())
        for name, split in splits.items():
            factors = (split[0] / usual[0], len(split) / len(usual))
            most = max(*factors, *(1 / factor for factor in factors))
            words = f"its {sum(split)} clients were split {_split(split)} over workers, where {_split(usual)} is usual"
            yield name, 100 * (most - 1), words


@run_rule(
    Limits("h", suspect=APART_H),
    remedy="ratios assume that a repetition's trials ran close together, so changes in between bias them: add whole"
    " repetitions (`tierbench run --more N RUN`)",
)
def far_from_its_repetition(trials: Sequence[TrialRow], hosts: Hosts) -> OfTrials:
    """Time between a trial and most of its repetition, where it is also ten times what usually lies between two trials.

    As where trials of one repetition were submitted again the day after.
    """
    windows = _windows(filter(counts, trials))
    usual_h = statistics.median_low([_hours(*pair) for pair in itertools.pairwise(windows)] or [0.0])
    for repetition in {trial.repeat: None for _, _, trial in windows}:
        parts: list[list[TrialWindow]] = []
        for each in (each for each in windows if each[2].repeat == repetition):
            if parts and _hours(parts[-1][-1], each) <= max(APART_H, TIMES_USUAL * usual_h):
                parts[-1].append(each)
            else:
                parts.append([each])
        most = max(parts, key=len)
        for part in parts:
            hours = max(_hours(most[-1], part[0]), _hours(part[-1], most[0]))
            for _, _, trial in part if part is not most else ():
                yield trial.trial, hours, f"it was measured {hours:.1f} h from the rest of its repetition"


@run_rule(
    Limits("% of the window", invalid=5),
    remedy="both competed: find out who removed the measurement lock while its holder was at work, and repeat it",
)
def beside_another_trial(trials: Sequence[TrialRow], hosts: Hosts) -> OfTrials:
    """The time for which another trial of the run was measured, too.

    Two that began at the same nanosecond are copies, and others tell of these.
    """
    windows = [  # an end is by the clock of the last client's worker
        (begin, end - round(1e6 * max(0.0, trial.clock_offset_ms or 0.0)), trial)
        for begin, end, trial in _windows(trials)
    ]
    for begin, end, trial in windows:
        others = [
            (max(begin, other[0]), min(end, other[1]))
            for other in windows
            if other[0] != begin and other[0] < end and other[1] > begin
        ]
        both, till = 0, begin
        for first, last in sorted(others):
            both, till = both + max(0, last - max(first, till)), max(till, last)
        share = 100 * both / max(1, end - begin)
        yield trial.trial, share, f"{counted(len(others), 'other trial')} measured in {share:.0f} % of its window"


def _windows(trials: Iterable[TrialRow]) -> list[TrialWindow]:
    """Those that were measured, in the order in which they began."""
    times = ((trial.go_wall_ns, trial.end_wall_ns, trial) for trial in trials)
    return sorted(((begin, end, trial) for begin, end, trial in times if begin and end), key=lambda each: each[:2])


def _hours(earlier: TrialWindow, later: TrialWindow) -> float:
    """From the one's end to the other's begin."""
    return (later[0] - earlier[1]) / 3600e9


@run_rule(Limits("settings", suspect=0), remedy="conditions.json has them all: compare only trials under the same ones")
def other_conditions(trials: Sequence[TrialRow], hosts: Hosts) -> OfTrials:
    """Host settings and versions unlike those of most of the run's trials under the same conditions."""
    for name, settings in host_settings.differences(hosts).items():
        yield name, len(settings), enumerated(settings)


SUBJECTS = (byte_rules, cache_rules, client_rules, sampling_rules)
OF_TRIALS = (each for subject in SUBJECTS for each in vars(subject).values() if isinstance(each, Rule))
RULES = (
    incomplete, *OF_TRIALS, unlike_its_repetitions, split_otherwise, far_from_its_repetition,
    beside_another_trial, other_conditions,
)  # fmt: skip


def judge(data: TrialData, row: TrialRow) -> TrialRow:
    """The trial's row of trials.csv with its verdict."""
    idle_before, idle_after = without_clients(data, by_storage(data))
    row = replace(
        row,
        idle_before_mbps=idle_before,
        idle_after_mbps=idle_after,
        clock_offset_ms=clocks.largest_offset_ms(data),
        conditions=host_settings.host_settings(data)["digest"],
        verdict_reasons=row.reasons,
    )
    if data.at_work:
        return replace(row, verdict=RUNNING)
    if not data.sampled and not any(job.starts for job in data.jobs):
        return replace(row, verdict=INVALID)
    return _with_evidence(replace(row, verdict=INVALID if row.reasons else VALID), list(evidence(data, row)))


def judge_run(rows: Sequence[TrialRow], hosts: Mapping[str, Mapping[str, Any]]) -> list[TrialRow]:
    """The rows of trials.csv when the trials, and their conditions by their names, have been compared."""
    of_trial: dict[str, list[Evidence]] = defaultdict(list)
    for each in RULES:
        for name, value, words in each.measure(rows, hosts) if each.of_run else ():
            of_trial[name].append(Evidence(each, value, words))
    return with_rates_that_add_up([_with_evidence(row, of_trial[row.trial]) for row in rows])


def evidence(data: TrialData, row: TrialRow) -> Iterator[Evidence]:
    """All that can be measured of a trial; what is not known is no evidence, unless a rule is about that."""
    of_bytes = data.measure.of == "bytes"
    for each in RULES:
        if not each.of_run and (of_bytes or not each.bytes_only):
            yield from (Evidence(each, value, words) for value, words in each.measure(data, row))


def _with_evidence(row: TrialRow, measured: Sequence[Evidence]) -> TrialRow:
    """A trial's row with the reasons that evidence gives, what makes it invalid before what makes it suspect."""
    invalid, suspect = ([each.reason for each in measured if each.verdict == verdict] for verdict in (INVALID, SUSPECT))
    if not (invalid or suspect) or row.verdict == RUNNING:
        return row
    verdict = max(row.verdict, INVALID if invalid else SUSPECT, key=[VALID, SUSPECT, INVALID].index)
    return replace(row, verdict=verdict, verdict_reasons=(*row.verdict_reasons, *invalid, *suspect))


def with_rates_that_add_up(trials: Sequence[TrialRow]) -> list[TrialRow]:
    """Trials whose clients do not get what fewer get each are not limited by latency, behind which rates add up.

    Nor are those from which on more clients get no more together, and nothing is known to be full of these either.
    """
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)  # of each client, by configuration and batch
    named: dict[tuple[str, int], set[str]] = defaultdict(set)
    for trial in trials:
        if counts(trial) and trial.delivered_mbps is not None:
            rates[trial.configuration, trial.jobs].append(trial.delivered_mbps / trial.jobs)
            named[trial.configuration, trial.jobs].add(trial.limit.bottleneck)

    def shared_with(trial: TrialRow) -> tuple[float, int]:
        """What each client gets in a batch that speaks against latency, and how many these are."""
        each, most = (trial.delivered_mbps or 0.0) / trial.jobs, (0.0, 0)
        for (configuration, jobs), own in rates.items():
            mbps, whole = statistics.median(own), each * trial.jobs
            shares = jobs > trial.jobs and mbps < ADDS_UP * each and abs(mbps * jobs - whole) <= NO_MORE * whole
            shares = shares and named[configuration, jobs] <= {LATENCY, UNEXPLAINED}
            if configuration == trial.configuration and (shares or (jobs < trial.jobs and each < ADDS_UP * mbps)):
                most = max(most, (mbps, jobs))
        return most

    def explained(trial: TrialRow) -> TrialRow:
        limit = trial.limit
        if limit.bottleneck != LATENCY or trial.started not in OVERLAPPING or not trial.delivered_mbps:
            return trial
        mbps, jobs = shared_with(trial)
        if not jobs:
            return trial
        words = (
            f"not latency, behind which rates add up: each of {jobs} clients got {mbps:.1f} Mb/s, each of {trial.jobs}"
            f" gets {trial.delivered_mbps / trial.jobs:.1f}, so they share something that is not measured;"
            f" {limit.bottleneck_evidence}"
        )
        return replace(trial, limit=replace(limit, bottleneck=UNEXPLAINED, bottleneck_evidence=words))

    return sorted(map(explained, trials), key=lambda trial: trial.position)


def _split(clients: tuple[int, ...]) -> str:
    return "+".join(abridged([str(count) for count in clients]))
