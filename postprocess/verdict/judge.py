"""The verdict on a trial: VALID, SUSPECT or INVALID, by the rules and what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tierbench.postprocess.abridged import abridged
from tierbench.postprocess.measures import idle
from tierbench.postprocess.records import clocks, conditions
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.verdict import alike
from tierbench.postprocess.verdict.counted import INVALID, RUNNING, SUSPECT, VALID
from tierbench.postprocess.verdict.evidence import findings
from tierbench.postprocess.verdict.rules import BY_NAME, Finding

Row = dict[str, Any]


def judge(data: TrialData, row: Row) -> Row:
    """The verdict's columns of trials.csv, from the trial and its other columns."""
    offset = clocks.largest_offset(data)
    measured: Row = {
        "idle_before_mbps": idle.idle_before_mbps(data),
        "idle_after_mbps": idle.idle_after_mbps(data),
        "clock_offset_ms": offset.milliseconds if offset else None,
        "conditions": conditions.conditions(data)["digest"],
    }
    told = [reason for reason in row["reasons"].split("; ") if reason]
    if data.at_work:
        return {**measured, "verdict": RUNNING, "verdict_reasons": "; ".join(told)}
    if not data.sampled and not any(job.starts for job in data.jobs):
        return {**measured, "verdict": INVALID, "verdict_reasons": "; ".join(told)}
    found = list(findings(data, {**row, **measured}))
    verdicts = [of_finding(finding) for finding in found]
    verdict = INVALID if told or INVALID in verdicts else SUSPECT if SUSPECT in verdicts else VALID
    return {**measured, "verdict": verdict, "verdict_reasons": "; ".join([*told, *_reasons(found)])}


def judge_run(rows: Sequence[Row], trials: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """The rows of trials.csv when the trials, and their conditions by their names, have been compared."""
    differing = conditions.differences(trials)
    unlike = alike.unlike_repetitions(rows)
    found = {
        name: [Finding("other conditions", len(settings), ", ".join(abridged(settings)))]
        for name, settings in differing.items()
    }
    for name, finding in unlike.items():
        found[name].append(finding)
    return alike.with_rates_that_add_up(_with_findings(row, found[row["trial"]]) for row in rows)


def _with_findings(row: Row, found: list[Finding]) -> Row:
    """A trial's row when more has been found out about it."""
    reasons = list(_reasons(found))
    if not reasons:
        return row
    verdict = max(row["verdict"], *map(of_finding, found), key=[VALID, SUSPECT, INVALID].index)
    return {**row, "verdict": verdict, "verdict_reasons": "; ".join(filter(None, [row["verdict_reasons"], *reasons]))}


def of_finding(finding: Finding) -> str:
    """The verdict to which one finding leads."""
    rule = BY_NAME[finding.rule]
    if rule.invalid is not None and finding.value > rule.invalid:
        return INVALID
    return SUSPECT if rule.suspect is not None and finding.value > rule.suspect else VALID


def of_reason(finding: Finding) -> str:
    """What was measured, how much of it is allowed, and what to do."""
    rule = BY_NAME[finding.rule]
    limit = rule.suspect if rule.suspect is not None else rule.invalid
    allowed = f" (at most {limit:g} {rule.unit})" if limit else ""
    return f"{finding.words}{allowed}: {rule.remedy}"


def _reasons(found: Iterable[Finding]) -> list[str]:
    """The reasons of all findings that count, what makes the trial invalid before what makes it suspect."""
    counting = [(of_finding(finding), finding) for finding in found]
    return [of_reason(finding) for wanted in (INVALID, SUSPECT) for verdict, finding in counting if verdict == wanted]
