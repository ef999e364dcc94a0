"""The repetitions of a run: more of one that has ended (`run --more`), and fewer of one whose question is answered."""

import dataclasses
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierbench import files, json_files, names
from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Plan, from_json, read_plan, to_json
from tierbench.dags.records import read_outcome
from tierbench.dags.shipping import shipped_files
from tierbench.dags.trial_settings import MOST_REPEATS, Repeats, Until
from tierbench.dags.write import extend_run
from tierbench.errors import BusyError, ConfigError
from tierbench.postprocess.verdict.counting import rule_of
from tierbench.site_configs.site import Site, find_site
from tierbench.submit.planning import Planned, asked_experiment, expanded
from tierbench.submit.progress import Run, tables_made_ns
from tierbench.trials import SKIPPED

ANEW = "start a new run"


@dataclass(frozen=True)
class Definitions:
    """asked.json: the definitions that a run was made of, and the patterns of the trials that were wanted."""

    experiment: str
    site: str
    only: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Extension:
    """A run's plan with more repetitions, and what it was planned from."""

    run: Run
    definitions: Definitions
    planned: Planned
    had: int  # trials
    rule: Repeats  # as it will stand in the run: intervals go on to count its looks

    @property
    def added(self) -> Planned:
        plan = self.planned.plan
        return dataclasses.replace(self.planned, plan=dataclasses.replace(plan, trials=plan.trials[self.had :]))

    def write(self) -> None:
        done, own = {trial.directory.name for trial in self.run.trials() if trial.well}, self.planned
        extend_run(own.plan, own.site, own.experiment, self.run.directory, self.had, done, self.rule)


def definitions_of(directory: Path) -> Definitions:
    """What a run was made of."""
    try:
        return json_files.read_as(Definitions, directory / names.ASKED)
    except FileNotFoundError:
        raise ConfigError(
            f"{directory}: has no {names.ASKED}, which tells its definitions: an earlier tierbench wrote it; {ANEW}"
        ) from None


def extension(run: Run, number: int) -> Extension:
    """So many repetitions more; ConfigError or BusyError where they would not be those of this run."""
    directory = run.directory
    if number < 1:
        raise ConfigError(f"--more {number}: must be 1 or more")
    if run.copy_of:
        raise ConfigError(f"{directory}: is a copy of {run.copy_of}; add repetitions there")
    run.check_here()
    if run.goes_on:
        raise BusyError(f"{directory}: still goes on; `tierbench watch {directory}` shows when it has ended")
    definitions = definitions_of(directory)
    before = _without_unbegun(from_json(files.read_text(directory / names.PLAN)), directory)
    had = max(trial.repeat for trial in before.trials)
    repeats = had + number
    if repeats > MOST_REPEATS:
        raise ConfigError(f"--more {number}: must be at most {MOST_REPEATS - had}")
    site, experiment = find_site(definitions.site), asked_experiment(definitions.experiment)
    _refuse(directory, _changed(directory / names.SITE, site, "site"))
    check_experiment(directory, experiment)
    _refuse(directory, _scripts_changed(site, experiment, directory))
    planned = expanded(site, repeated(experiment, repeats), definitions.only)
    own = dataclasses.replace(planned.plan, cores=before.cores, extended=before.extended)
    _refuse(directory, _plan_changed(before, dataclasses.replace(planned, plan=own)))
    planned = dataclasses.replace(planned, plan=dataclasses.replace(own, extended=(*before.extended, had)))
    rule = rule_of(directory)
    if isinstance(rule, Until):
        rule = dataclasses.replace(rule, at_least=min(rule.at_least, repeats), at_most=repeats)
    else:
        rule = repeats
    return Extension(run, definitions, planned, len(before.trials), rule)


def _without_unbegun(plan: Plan, directory: Path) -> Plan:
    """A run's plan without repetitions that were added to it by a call that was broken off before any of them began."""
    had = plan.extended[-1] if plan.extended else 0
    added = [names.trial_directory(trial.id) for trial in plan.trials if trial.repeat > had]
    if not had or any((directory / place / name).exists() for place in added for name in (names.BEGUN, names.OUTCOME)):
        return plan
    trials = tuple(trial for trial in plan.trials if trial.repeat <= had)
    return dataclasses.replace(plan, trials=trials, extended=plan.extended[:-1])


def repeated(experiment: Experiment, repeats: int) -> Experiment:
    """The experiment with so many repetitions, all of which are run."""
    replace = dataclasses.replace
    points = [(point, replace(point.experiment, repeats=repeats)) for point in experiment.variants]
    return replace(experiment, repeats=repeats, variants=tuple(replace(point, experiment=own) for point, own in points))


def check_experiment(directory: Path, experiment: Experiment) -> None:
    """ConfigError where a run's experiment is another one by now."""
    _refuse(directory, _changed(directory / names.EXPERIMENT, experiment, "experiment"))


def _refuse(directory: Path, changed: Iterator[str] | list[str]) -> None:
    if reasons := list(changed):
        raise ConfigError(f"{directory}: more repetitions would not be comparable: {'; '.join(reasons)}; {ANEW}")


def _changed(recorded: Path, definition: Site | Experiment, kind: str) -> Iterator[str]:
    """The keys of a definition that say otherwise now; of those that there were."""
    before = json_files.read_table(recorded)
    now = json.loads(json.dumps(dataclasses.asdict(definition)))
    keys = [key for key in before if before[key] != now.get(key) and key not in ("repeats", "variants")]
    if keys:
        yield f"the {kind} {definition.name} has changed since ({', '.join(keys)})"


def _scripts_changed(site: Site, experiment: Experiment, directory: Path) -> Iterator[str]:
    for place, content in shipped_files(site, experiment):
        file = directory / place
        if not file.exists() or files.read_bytes(file) != content:
            yield f"its {place} is not what this tierbench, or the client's file, brings now"
            return


def _plan_changed(before: Plan, planned: Planned) -> Iterator[str]:
    now, slots = planned.plan, planned.slots
    if isinstance(slots, str) and any(now.pools[name] != workers for name, workers in before.pools.items()):
        yield f"the pool cannot be asked for its workers: {slots}"
        return
    # As it would be read: tuples have become lists on the way, and back.
    same: Any = from_json(to_json(dataclasses.replace(now, trials=now.trials[: len(before.trials)])))
    for folder, replicas in before.replicas.items():
        if replicas != same.replicas.get(folder):
            gone = folder in same.replicas and same.replicas[folder].sizes is None
            yield f"replicas {folder}: " + ("their catalogue cannot be read" if gone else "are others now")
            return
    for name, workers in before.pools.items():
        others = same.pools.get(name, ())
        if workers != others:
            yield f"pool {name} had {', '.join(workers) or 'no workers'}, and has {', '.join(others) or 'none'}"
            return
    keys = (field.name for field in dataclasses.fields(Plan))
    differing = [key for key in keys if getattr(before, key) != getattr(same, key)]
    if differing:
        yield f"it would be planned otherwise now ({', '.join(differing)})"


@dataclass(frozen=True)
class Decision:
    """answered.json."""

    repeats: int = 0  # that are measured whole
    look: int = 0  # after how many of them the trials were last looked at
    spared: list[str] = field(default_factory=list)  # trials that are not needed
    ended: bool = False
    sentence: str = ""


def decide(run: Path) -> Decision:
    """What to do after the repetitions that are measured whole; the same as before where there are no more of them."""
    plan, experiment = read_plan(run), json_files.read_table(run / names.EXPERIMENT)
    rule = rule_of(run)
    if not isinstance(rule, Until) or rule.until is None:
        raise ConfigError(f"{run}: does not go on until its question is answered; name a trial")
    before, measured = json_files.read_or(Decision(), run / names.ANSWERED), _measured(run, plan)
    if before.ended or measured == before.repeats:
        return before
    decision = _decided(run, plan, experiment, rule, dataclasses.replace(before, repeats=measured))
    json_files.write(run / names.ANSWERED, decision)
    return decision


def _decided(run: Path, plan: dict[str, Any], experiment: dict[str, Any], rule: Until, decision: Decision) -> Decision:
    # Here and not above: these take a second to load, and most often nothing is to be decided.
    from tierbench.postprocess.compare.sequential import look_at, question_of
    from tierbench.postprocess.schema.columns import read_rows
    from tierbench.postprocess.schema.rows import TrialRow
    from tierbench.postprocess.verdict.judge import judge_run
    from tierbench.postprocess.wording import counted

    measured, question = decision.repeats, question_of(plan, experiment)
    to_come = [trial for trial in plan["trials"] if trial["repeat"] > measured]
    after = f"after {measured} of {rule.at_most} repetitions"
    at = max((number for number in question.looks if number <= measured), default=0)
    if at > decision.look:
        folders = [_folder(run, trial) for trial in plan["trials"] if trial["repeat"] <= at]
        rows = [(row, folder / names.CONDITIONS) for folder in folders for row in read_rows(TrialRow, folder)]
        hosts = {row.trial: json_files.read_table(under) for row, under in rows if under.exists()}
        look = look_at(judge_run([row for row, _ in rows], hosts), question)  # as the run's tables do
        spared = [trial["id"] for trial in to_come if trial["name"].rpartition(" #")[0] not in look.needed]
        decision = dataclasses.replace(decision, look=at, spared=spared)
        if look.is_enough:
            obstacles = ", ".join(sorted({each.obstacle for each in look.open}))
            do = "answer what is open" if any(each.is_open for each in look.open) else "confirm what is answered"
            limited = f"stopped {after}: more cannot {do}, as {obstacles}"
            answered = f"answered {after}" if look.comparisons else f"stopped {after}: nothing is compared"
            return dataclasses.replace(decision, ended=True, sentence=limited if look.open else answered)
        if not to_come:
            are = "is" if len(look.open) == 1 else "are"
            sentence = f"{len(look.open)} of {counted(len(look.comparisons), 'comparison')} {are} open {after}"
            return dataclasses.replace(decision, ended=True, sentence=sentence)
    marks = (_folder(run, trial) / names.BEGUN for trial in plan["trials"])
    elapsed = time.time() - min((mark.stat().st_mtime for mark in marks if mark.exists()), default=time.time())
    if measured >= rule.at_least and elapsed + elapsed / measured > rule.budget_s:
        sentence = f"stopped {after}: another one would go beyond the budget of {rule.budget}"
        return dataclasses.replace(decision, spared=[trial["id"] for trial in to_come], ended=True, sentence=sentence)
    return decision


def _measured(run: Path, plan: dict[str, Any]) -> int:
    """How many repetitions have all their trials behind them, with their tables."""
    unfinished = [int(trial["repeat"]) for trial in plan["trials"] if not _is_over(_folder(run, trial))]
    if unfinished:
        return min(unfinished) - 1
    return max((int(trial["repeat"]) for trial in plan["trials"]), default=0)


def _is_over(trial: Path) -> bool:
    outcome = read_outcome(trial)
    if outcome is None or outcome.again:
        return False
    return outcome.state == SKIPPED or tables_made_ns(trial) is not None


def _folder(run: Path, trial: dict[str, Any]) -> Path:
    return run / names.trial_directory(trial["id"])
