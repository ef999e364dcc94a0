"""What only the trials of a run together can tell: whether one is unlike its repetitions, and whether rates add up."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tierbench.postprocess.measures.bottleneck import LATENCY, UNEXPLAINED
from tierbench.postprocess.tables.rows import Limit, TrialRow
from tierbench.postprocess.verdict.counted import counts
from tierbench.postprocess.verdict.rules import Evidence
from tierbench.starts import IN_TURN

FEWEST = 3  # repetitions; of two nobody knows which one is odd
OF_EXCESS = 0.1  # of the usual excess: a way that wastes much does not waste just as much each time
ADDS_UP = 0.75  # behind latency, a client among many gets at least so much of what it gets among few


def unlike_repetitions(trials: Iterable[TrialRow]) -> dict[str, Evidence]:
    """Trials whose closure is not that of their repetitions, by their names: there the usual excess is measured."""
    unlike = {}
    for repetitions in _grouped(trials, lambda trial: (trial.configuration, trial.jobs)):
        closures = [trial.closure for trial in repetitions if counts(trial) and trial.closure is not None]
        if len(closures) < FEWEST:
            continue
        usual = statistics.median(closures)
        for trial in repetitions:
            if trial.closure is not None and trial.job_for_s is None:
                beyond = 100 * (abs(trial.closure - usual) - OF_EXCESS * abs(usual))
                words = f"the storage sent {trial.closure:+.1%} beyond what was read, its repetitions {usual:+.1%}"
                unlike[trial.trial] = Evidence("unlike its repetitions", beyond, words)
    return unlike


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
