"""The verdict on a trial: VALID, SUSPECT or INVALID, by the rules and what was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tierbench.postprocess.measures.traffic import idle_mbps
from tierbench.postprocess.records import clocks, host_settings
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict import (
    byte_rules,
    cache_rules,
    client_rules,
    repeat_rules,
    sampling_rules,
)
from tierbench.postprocess.verdict.counting import INVALID, RUNNING, SUSPECT, VALID
from tierbench.postprocess.verdict.repeat_rules import with_rates_that_add_up
from tierbench.postprocess.verdict.rules import Evidence, Limits, Measured, Rule, rule


@rule(
    "clients, samples and files that are missing or broken",
    Limits("troubles", invalid=0),
    remedy="`tierbench submit` repeats the trial",
)
def incomplete(data: TrialData, row: TrialRow) -> Measured:
    """Its reasons stand in the row, before those of all other rules."""
    yield from ()


SUBJECTS = (byte_rules, cache_rules, client_rules, sampling_rules, repeat_rules)
RULES = (incomplete, *(each for subject in SUBJECTS for each in vars(subject).values() if isinstance(each, Rule)))


def judge(data: TrialData, row: TrialRow) -> TrialRow:
    """The trial's row of trials.csv with its verdict."""
    idle_before, idle_after = idle_mbps(data)
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
