"""Whether a run's question is answered: which trials of its plan are needed no more, and why; left as answered.json."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierbench import files, json_files, names
from tierbench.dags.records import read_outcome
from tierbench.dags.trial_settings import Until
from tierbench.errors import ConfigError
from tierbench.json_files import Damaged
from tierbench.postprocess.verdict.counting import rule_of
from tierbench.trials import SKIPPED


@dataclass(frozen=True)
class Decision:
    """answered.json."""

    repeats: int = 0  # that are measured whole
    look: int = 0  # after how many of them the trials were last looked at
    spared: list[str] = field(default_factory=list)  # trials that are not needed
    ended: bool = False
    sentence: str = ""


def read_decision(run: Path) -> Decision:
    try:
        return json_files.read_as(Decision, run / names.ANSWERED)
    except (FileNotFoundError, Damaged):
        return Decision()


def decide(run: Path) -> Decision:
    """What to do after the repetitions that are measured whole; the same as before where there are no more of them."""
    plan, experiment = json_files.read_table(run / names.PLAN), json_files.read_table(run / names.EXPERIMENT)
    rule = rule_of(run)
    if not isinstance(rule, Until) or rule.until is None:
        raise ConfigError(f"{run}: does not go on until its question is answered; name a trial")
    before, measured = read_decision(run), _measured(run, plan)
    if before.ended or measured == before.repeats:
        return before
    decision = _decided(run, plan, experiment, rule, dataclasses.replace(before, repeats=measured))
    files.replace(run / names.ANSWERED, json.dumps({"format": 1, **dataclasses.asdict(decision)}, indent=1) + "\n")
    return decision


def _decided(run: Path, plan: dict[str, Any], experiment: dict[str, Any], rule: Until, decision: Decision) -> Decision:
    # Here and not above: these take a second to load, and most often nothing is to be decided.
    from tierbench.postprocess.compare.sequential import look_at, question_of
    from tierbench.postprocess.schema.columns import read_rows
    from tierbench.postprocess.schema.rows import TrialRow

    measured, question = decision.repeats, question_of(plan, experiment)
    to_come = [trial for trial in plan["trials"] if trial["repeat"] > measured]
    after = f"after {measured} of {rule.at_most} repetitions"
    at = max((number for number in question.looks if number <= measured), default=0)
    if at > decision.look:
        folders = (_folder(run, trial) for trial in plan["trials"] if trial["repeat"] <= at)
        look = look_at((row for folder in folders for row in read_rows(TrialRow, folder)), question)
        needed = look.needed
        decision = dataclasses.replace(
            decision, look=at,
            spared=[trial["id"] for trial in to_come if trial["name"].rpartition(" #")[0] not in needed],
        )  # fmt: skip
        if look.is_enough:
            ceilings = ", ".join(sorted({f"the {each.same_ceiling}" for each in look.open}))
            limited = f"stopped {after}: more cannot answer what is open, as {ceilings} limits both sides"
            return dataclasses.replace(decision, ended=True, sentence=limited if look.open else f"answered {after}")
        if not to_come:
            open_ = f"{len(look.open)} of {len(look.comparisons)} comparisons are open {after}"
            return dataclasses.replace(decision, ended=True, sentence=open_)
    marks = (_folder(run, trial) / names.BEGUN for trial in plan["trials"])
    elapsed = time.time() - min((mark.stat().st_mtime for mark in marks if mark.exists()), default=time.time())
    if measured >= rule.at_least and elapsed + elapsed / measured > rule.budget_s:
        sentence = f"stopped {after}: another one would go beyond the budget of {rule.budget}"
        return dataclasses.replace(decision, spared=[trial["id"] for trial in to_come], ended=True, sentence=sentence)
    return decision


def _measured(run: Path, plan: dict[str, Any]) -> int:
    """How many repetitions have all their trials behind them, with their tables."""
    repeats = {int(trial["repeat"]): True for trial in plan["trials"]}
    for trial in plan["trials"]:
        repeats[int(trial["repeat"])] &= _is_over(_folder(run, trial))
    return next((repeat - 1 for repeat in sorted(repeats) if not repeats[repeat]), max(repeats))


def _is_over(trial: Path) -> bool:
    outcome = read_outcome(trial)
    if outcome is None or outcome.again or outcome.state == SKIPPED:
        return outcome is not None and not outcome.again
    try:
        return (trial / names.TRIALS_CSV).stat().st_mtime_ns >= (trial / names.OUTCOME).stat().st_mtime_ns
    except FileNotFoundError:
        return False


def _folder(run: Path, trial: dict[str, Any]) -> Path:
    return run / names.trial_directory(trial["id"])
