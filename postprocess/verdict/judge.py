"""The verdict on a trial: VALID, SUSPECT or INVALID, by the rules and what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tierbench.postprocess.measures import idle
from tierbench.postprocess.records import clocks, conditions
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.verdict import alike
from tierbench.postprocess.verdict.counted import INVALID, RUNNING, SUSPECT, VALID
from tierbench.postprocess.verdict.evidence import findings
from tierbench.postprocess.verdict.rules import BY_NAME, Evidence
from tierbench.postprocess.wording import abridged, separated


def judge(data: TrialData, row: TrialRow) -> TrialRow:
    """The trial's row of trials.csv with its verdict."""
    offset = clocks.largest_offset(data)
    row = replace(
        row,
        idle_before_mbps=idle.idle_before_mbps(data),
        idle_after_mbps=idle.idle_after_mbps(data),
        clock_offset_ms=offset.milliseconds if offset else None,
        conditions=conditions.conditions(data)["digest"],
    )
    if data.at_work:
        return replace(row, verdict=RUNNING, verdict_reasons=row.reasons)
    if not data.sampled and not any(job.starts for job in data.jobs):
        return replace(row, verdict=INVALID, verdict_reasons=row.reasons)
    measured = list(findings(data, row))
    verdicts = [of_finding(finding) for finding in measured]
    verdict = INVALID if row.reasons or INVALID in verdicts else SUSPECT if SUSPECT in verdicts else VALID
    return replace(
        row, verdict=verdict, verdict_reasons="; ".join(filter(None, [row.reasons, separated(_reasons(measured))]))
    )


def judge_run(rows: Sequence[TrialRow], hosts: Mapping[str, Mapping[str, Any]]) -> list[TrialRow]:
    """The rows of trials.csv when the trials, and their conditions by their names, have been compared."""
    measured = {
        name: [Evidence("other conditions", len(settings), ", ".join(abridged(settings)))]
        for name, settings in conditions.differences(hosts).items()
    }
    for name, finding in (*alike.unlike_repetitions(rows), *alike.split_otherwise(rows)):
        measured[name].append(finding)
    return alike.with_rates_that_add_up(_with_findings(row, measured[row.trial]) for row in rows)


def _with_findings(row: TrialRow, further: list[Evidence]) -> TrialRow:
    """A trial's row when more has been found out about it."""
    reasons = list(_reasons(further))
    if not reasons or row.verdict == RUNNING:
        return row
    verdict = max(row.verdict, *map(of_finding, further), key=[VALID, SUSPECT, INVALID].index)
    return replace(
        row, verdict=verdict, verdict_reasons="; ".join(filter(None, [row.verdict_reasons, separated(reasons)]))
    )


def of_finding(finding: Evidence) -> str:
    """The verdict to which one finding leads."""
    rule = BY_NAME[finding.rule]
    if rule.invalid is not None and finding.value > rule.invalid:
        return INVALID
    return SUSPECT if rule.suspect is not None and finding.value > rule.suspect else VALID


def of_reason(finding: Evidence) -> str:
    """What was measured, how much of it is allowed, and what to do."""
    rule = BY_NAME[finding.rule]
    limit = rule.suspect if rule.suspect is not None else rule.invalid
    allowed = f" (at most {limit:g} {rule.unit})" if limit else ""
    return f"{finding.words}{allowed}: {rule.remedy}"


def _reasons(findings: Iterable[Evidence]) -> list[str]:
    """The reasons of all findings that count, what makes the trial invalid before what makes it suspect."""
    counting = [(of_finding(finding), finding) for finding in findings]
    return [of_reason(finding) for wanted in (INVALID, SUSPECT) for verdict, finding in counting if verdict == wanted]
