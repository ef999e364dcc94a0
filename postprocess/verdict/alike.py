"""What only the trials of a run together can tell: whether one is unlike its repetitions, and whether rates add up."""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tierbench.postprocess.measures.bottleneck import LATENCY, UNEXPLAINED
from tierbench.postprocess.schema.rows import Limit, TrialRow
from tierbench.postprocess.verdict.counted import counts, values_of
from tierbench.postprocess.verdict.rules import Evidence
from tierbench.postprocess.wording import abridged
from tierbench.starts import IN_TURN

FEWEST = 3  # repetitions; of two nobody knows which one is odd
OF_EXCESS = 0.1  # of the usual excess: a way that wastes much does not waste just as much each time
ADDS_UP = 0.75  # behind latency, a client among many gets at least so much of what it gets among few


def unlike_repetitions(trials: Iterable[TrialRow]) -> Iterator[tuple[str, Evidence]]:
    """By trials' names, what sets them apart from their repetitions: there the usual excess is measured."""
    for repetitions in _grouped(trials, lambda trial: (trial.configuration, trial.jobs)):
        for column, words, of_excess in (
            ("closure", "the storage sent {:+.1%} beyond what was read, its repetitions {:+.1%}", OF_EXCESS),
            ("bytes_app", "its clients moved {:.0f} B, those of its repetitions {:.0f} B", 0.0),
        ):
            values = values_of((trial for trial in repetitions if counts(trial)), column)
            usual = statistics.median(values) if len(values) >= FEWEST else None
            whole = 1.0 if column == "closure" else usual
            for trial in repetitions:
                if usual is not None and whole and trial[column] is not None and trial.job_for_s is None:
                    beyond = 100 * (abs(trial[column] - usual) - of_excess * abs(usual)) / whole
                    yield trial.trial, Evidence("unlike its repetitions", beyond, words.format(trial[column], usual))


def split_otherwise(trials: Iterable[TrialRow]) -> Iterator[tuple[str, Evidence]]:
    """By trials' names, how their clients were split over workers, where most with as many had another split.

    Not only repetitions are compared: a configuration all of whose trials were split otherwise is slower for that.
    """
    for alike in _grouped(trials, lambda trial: (trial.pool, trial.jobs, trial.placed)):
        splits = {
            trial.trial: tuple(sorted(clients.values(), reverse=True))
            for trial in alike
            if trial.started != IN_TURN and (clients := json.loads(trial.clients_by_worker or "{}"))
        }
        often = Counter(splits.values())
        usual = max(often, key=lambda split: (often[split], -split[0]), default=())
        for name, split in splits.items():
            times = max(one / other for one, other in ((split[0], usual[0]), (len(split), len(usual))))
            fewer = max(one / other for one, other in ((usual[0], split[0]), (len(usual), len(split))))
            words = f"its {sum(split)} clients were split {_split(split)} over workers, where {_split(usual)} is usual"
            yield name, Evidence("split otherwise", 100 * (max(times, fewer) - 1), words)


def _split(clients: tuple[int, ...]) -> str:
    return "+".join(abridged([str(count) for count in clients]))


def with_rates_that_add_up(trials: Iterable[TrialRow]) -> list[TrialRow]:
    """Trials whose clients do not get what fewer get each are not limited by latency, behind which rates add up."""
    explained = []
    for of_configuration in _grouped(trials, lambda trial: trial.configuration):
        each_mbps = {
            batch[0].jobs: mbps
            for batch in _grouped(of_configuration, lambda trial: trial.jobs)
            if (mbps := _each_mbps(batch)) is not None
        }
        for trial in of_configuration:
            fewer = {jobs: mbps for jobs, mbps in each_mbps.items() if jobs < trial.jobs}
            if trial.limit.bottleneck == LATENCY and trial.started != IN_TURN and trial.delivered_mbps and fewer:
                each, jobs = trial.delivered_mbps / trial.jobs, max(fewer, key=lambda jobs: fewer[jobs])
                if each < ADDS_UP * fewer[jobs]:
                    trial = replace(trial, limit=_shared(trial, each, jobs, fewer[jobs]))
            explained.append(trial)
    return sorted(explained, key=lambda trial: trial.position)


def _each_mbps(batch: Iterable[TrialRow]) -> float | None:
    """What each client of a batch got in the median of its trials."""
    rates = [trial.delivered_mbps / trial.jobs for trial in batch if counts(trial) and trial.delivered_mbps is not None]
    return statistics.median(rates) if rates else None


def _shared(trial: TrialRow, each: float, jobs: int, mbps: float) -> Limit:
    words = (
        f"not latency, behind which rates add up: each of {jobs} clients got {mbps:.1f} Mb/s, each of {trial.jobs}"
        f" gets {each:.1f}, so they share something that is not measured"
    )
    evidence = f"{words}; {trial.limit.bottleneck_evidence}"
    return replace(trial.limit, bottleneck=UNEXPLAINED, bottleneck_evidence=evidence)


def _grouped(trials: Iterable[TrialRow], key: Callable[[TrialRow], Any]) -> Iterator[list[TrialRow]]:
    for _, group in itertools.groupby(sorted(trials, key=key), key=key):
        yield list(group)
