"""The steps of a night: it is prepared and started, looked at before each repetition, judged and finished.

The one that is due starts, once, unless the one before is still at work; its DAG does the rest. To finish it is to make
its tables, to put it into the history, and to notify its admin of what has changed: whatever of this fails is noted in
the night's record and its message, and holds up nothing else.
"""

import csv
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tierbench import files, json_files, names
from tierbench.dags.experiment import Experiment
from tierbench.dags.graphs import night_dag, repetition_dags
from tierbench.dags.plan import Trial, from_json
from tierbench.dags.trial_settings import Until
from tierbench.dags.write import write_run
from tierbench.errors import BusyError, TierbenchError, UnmetNeed, held_back, in_words
from tierbench.host import own_name
from tierbench.json_files import Damaged
from tierbench.postprocess.history.rows import NightMark
from tierbench.postprocess.schema.columns import parted
from tierbench.site_configs.site import find_site
from tierbench.submit import pool, programs
from tierbench.submit.links import leave_ceilings
from tierbench.submit.nightly import record
from tierbench.submit.nightly.messages import Message, deliver
from tierbench.submit.nightly.monitoring import changes, record_in_history, suspected, write_textfile
from tierbench.submit.nightly.record import NOBODY, Change, Night, Nightly, duration
from tierbench.submit.planning import Planned, asked_experiment, expanded, preflight, refuse
from tierbench.submit.pool import PoolError
from tierbench.submit.progress import Run, hopeless
from tierbench.submit.repetitions import repeated

RETRY_S = 10.0  # between two questions to a pool that does not answer
LONGEST = 0.5  # of the time between two nights: longer, and no repetition begins
ENOUGH = 0.75  # of a night's trials are VALID, or its message says why not, as where a keytab went in the middle of it

T = TypeVar("T")


def prepare(nightly: Nightly, night: Night, shift: int = 0) -> Planned:
    """The night's plan, in an order of its own, with all there that its trials need."""
    experiment = of_a_night(asked_experiment(str(nightly.experiment)), int(night.planned_wall_s / 60) + shift)
    planned = expanded(find_site(nightly.terms.site), experiment)
    if isinstance(planned.slots, str):
        raise PoolError(planned.slots)
    refuse(preflight(planned, f"{nightly.experiment} --site {nightly.terms.site}", record.folder(nightly, night)))
    return planned


def of_a_night(experiment: Experiment, seed: int) -> Experiment:
    """In an order of its own, and as often as every night: it is with other nights that a night is compared."""
    if isinstance(experiment.repeats, Until) and experiment.repeats.until:
        experiment = repeated(experiment, experiment.repeats.at_least)
    return dataclasses.replace(experiment, seed=experiment.seed + seed)


def write_night(nightly: Nightly, night: Night, ready: Planned) -> Path:
    """The night's run and its DAG, unless they have been written; where the DAG is."""
    folder = record.folder(nightly, night)
    dag = folder / names.NIGHT_DAG
    if not dag.exists():
        _write(nightly, night, ready, folder / names.NIGHT_RUN)
        for name, text in repetition_dags(ready.plan, ready.experiment):
            (folder / names.NIGHT_RUN / name).write_text(text, encoding="utf-8")
        (folder / names.NIGHT_AGAIN).mkdir(exist_ok=True)  # DAGMan wants the places of all nodes at once
        dag.write_text(night_dag(ready.plan).text(), encoding="utf-8")
    return dag


def write_confirmation(nightly: Nightly, night: Night, configurations: Sequence[str]) -> None:
    """A run of these configurations and the control alone, or of all (""), to see whether they have changed."""
    ready = prepare(nightly, night, shift=1)
    wanted, every = {*configurations, nightly.terms.control}, "" in configurations
    trials = [trial for trial in ready.plan.trials if every or point(trial) in wanted]
    used = {trial.configuration.id: trial.configuration for trial in trials}
    plan = dataclasses.replace(ready.plan, trials=tuple(trials), configurations=tuple(used.values()))
    place = record.folder(nightly, night) / names.NIGHT_AGAIN
    place.rmdir()
    _write(nightly, night, dataclasses.replace(ready, plan=plan), place)


def _write(nightly: Nightly, night: Night, ready: Planned, run: Path) -> None:
    write_run(ready.plan, ready.site, ready.experiment, run)
    programs.ship(ready.experiment, run / names.PROGRAMS, nightly.say)
    planned, rerun = int(night.planned_wall_s * 1e9), run.name == names.NIGHT_AGAIN
    json_files.write(run / names.NIGHT, NightMark(nightly.name, planned, rerun=rerun, control=nightly.terms.control))


def point(trial: Trial) -> str:
    """What the history calls a configuration with so many clients."""
    return f"{trial.configuration.name} \N{MULTIPLICATION SIGN}{trial.jobs}"


def start(nightly: Nightly, asked_for: bool) -> Night | None:
    """Start the night that is due, or one that is asked for now; None if that one has been started already."""
    now = datetime.now(UTC)
    try:
        with record.locked(nightly.directory):
            return _start(nightly, now, asked_for)
    except BusyError as error:  # as where a start hangs on a mount that does not answer
        planned = None if asked_for else _due(nightly, now)
        if planned is None:
            raise
        night = Night(planned.timestamp(), "still-running", str(error), time.time())
        return finish_unmeasured(nightly, night)


def _start(nightly: Nightly, now: datetime, asked_for: bool) -> Night | None:
    planned = now if asked_for else _due(nightly, now)
    if planned is None:
        return None
    try:
        record.record_missed(nightly, planned)
    except OSError as error:  # a full disk, which this night reports
        nightly.say(f"missed nights: {error}")
    night = Night(planned.timestamp(), "running", begun_wall_s=time.time(), asked_for=asked_for)
    nightly.say(f"the night of {nightly.label(night)} starts")
    try:
        at_work = _retry(nightly, lambda: record.finish_dead_nights(nightly))
        if at_work:
            why = f"the night of {nightly.label(at_work)} is still at work, as job {at_work.cluster}"
            if asked_for:  # whoever asks is told, and no night is missing
                raise BusyError(f"{nightly.name}: {why}")
            return finish_unmeasured(nightly, night.now(outcome="still-running", reason=why))
        _retry(nightly, lambda: _put_on_record(nightly, night))
        ready = _retry(nightly, lambda: prepare(nightly, night))
        cluster = _retry(nightly, lambda: _submitted(nightly, night, ready))
    except KeyboardInterrupt:
        finish_unmeasured(nightly, night.now(outcome="failed", reason="it was interrupted as it started"))
        raise
    except (TierbenchError, OSError) as error:
        if asked_for and isinstance(error, BusyError):
            raise
        return finish_unmeasured(nightly, night.now(outcome="failed", reason=str(error)))
    nightly.say(f"the night of {nightly.label(night)} is at work as job {cluster}")
    return night.now(cluster=cluster, host=own_name())


def _put_on_record(nightly: Nightly, night: Night) -> None:
    """Record it as running, unless another of this user's nightlies is measuring at its site."""
    with record.locked(record.home()):
        for other in record.all_nightlies():
            try:
                concerns_us = other.name != nightly.name and other.terms.site == nightly.terms.site
            except Damaged as error:  # whose nights cannot start
                nightly.say(str(error))
                continue
            for its in record.nights(other) if concerns_us else ():
                if _is_at_work(other, its):
                    why = f"the nightly {other.name} measures at the same site, its night of {other.label(its)}"
                    raise UnmetNeed(f"{why}; let one of them start later")
        record.write(nightly, night)


def _is_at_work(nightly: Nightly, night: Night) -> bool:
    """Whether a night that is recorded as running is, or is being started; one that died is for its own next night."""
    if night.outcome != "running" or night.cluster is not None:
        return night.outcome == "running" and (
            pool.is_elsewhere(night.host) or pool.in_queue(night.cluster or 0, nightly.directory)
        )
    try:
        with record.locked(nightly.directory, patience_s=0.0):
            return False
    except BusyError:
        return True


def _due(nightly: Nightly, now: datetime) -> datetime | None:
    """When the night was planned that is to start now, unless it has started already."""
    if nightly.terms.paused:
        nightly.say(f"{nightly.name} is paused")
        return None
    planned = nightly.calendar.meant(now, nightly.zone)
    if planned is None:
        return None
    before = [night for night in record.nights(nightly) if night.planned == planned and night.outcome != "missed"]
    if before:  # as where 02:30 comes twice
        nightly.say(f"the night of {nightly.label(before[0])} has been {before[0].outcome} already")
        return None
    return planned


def _retry(nightly: Nightly, ask: Callable[[], T]) -> T:
    """An answer of the pool or the storage, asked for again for a while where there is none."""
    limit = min(nightly.terms.patience_s, nightly.calendar.longest_gap.total_seconds() / 4)
    deadline, reported = time.monotonic() + limit, False
    while True:
        try:
            return ask()
        except (PoolError, UnmetNeed) as error:
            if time.monotonic() + RETRY_S > deadline:
                raise
            if not reported:
                nightly.say(f"{error}; asking again for up to {limit / 60:.0f} min")
            reported = True
            time.sleep(RETRY_S)


def _submitted(nightly: Nightly, night: Night, ready: Planned) -> int:
    """The number of the job that the night's DAG becomes."""
    dag = write_night(nightly, night, ready)
    submitted = time.time()
    with held_back():
        cluster = pool.submit_dag(dag)
        Run(dag.parent / names.NIGHT_RUN).record_submission(cluster, submitted)
        record.write(nightly, night.now(cluster=cluster, host=own_name()))
    return cluster


class Problems:
    """What went wrong beside the night itself."""

    def __init__(self, nightly: Nightly) -> None:
        self.lines: list[str] = []
        self.say = nightly.say

    def attempt(self, what: str, step: Callable[..., object], *arguments: object) -> None:
        try:
            step(*arguments)
        except Exception as error:  # whatever it is: the night has to be finished, and its message to be sent
            self.lines.append(f"{what}: {in_words(error)}")
            self.say(self.lines[-1])


def goes_on(nightly: Nightly, folder: Path) -> bool:
    """Whether the night goes on with another repetition, before which the links are measured; its record says why not.

    A host that does not answer keeps each of its trials waiting for a slot.
    """
    night, run = record.read(folder), folder / names.NIGHT_RUN
    calendar = nightly.calendar  # by which one that was asked for has no next
    next_one = calendar.longest_gap if night.asked_for else calendar.until_next(night.planned, nightly.zone)
    limit_s, why = LONGEST * next_one.total_seconds(), ""
    if time.time() - (night.begun_wall_s or night.planned_wall_s) > limit_s:
        why = f"it has taken more than {duration(limit_s)}, so it ended before its last repetition"
    elif hopeless_why := hopeless(list(Run(run).trials())):
        why = f"all its trials were INVALID for one reason, so it ended before its last repetition: {hopeless_why}"
    if why:
        nightly.say(why)
        record.write(nightly, night.now(reason=why))
        return False
    leave_ceilings(find_site(nightly.terms.site), from_json(files.read_text(run / names.PLAN)), run, nightly.say)
    return True


def needs_confirmation(nightly: Nightly, folder: Path) -> bool:
    """Whether something seems to have changed; then a run that is to confirm it is written."""
    if (folder / names.NIGHT_AGAIN / names.PLAN).exists():  # asked once more, as after a restart of the scheduler
        return True
    night = record.read(folder)
    _make_tables(nightly, folder / names.NIGHT_RUN)
    record_in_history(nightly, night, [folder / names.NIGHT_RUN])
    doubtful = suspected(nightly)
    if doubtful:
        nightly.say(f"{', '.join(doubtful) or 'all'} seem to have changed; they are measured again")
        write_confirmation(nightly, night, doubtful)
    return bool(doubtful)


def finish(nightly: Nightly, folder: Path, died: str = "") -> Night:
    """Finish a night that was at work; `died` says why its DAG did not do so."""
    night, runs, problems = record.read(folder), record.run_directories(folder), Problems(nightly)
    if night.outcome == "running":
        for run in runs:
            problems.attempt("tables", _make_tables, nightly, run)
        night = _with_outcome(night, runs[0] if runs else None, died)
        problems.attempt("the night's record", record.write, nightly, night)
    return night if night.deliveries else _conclude(nightly, night, runs, problems)


def finish_unmeasured(nightly: Nightly, night: Night) -> Night:
    """Finish a night that did not come to measure anything; its message needs no record."""
    problems = Problems(nightly)
    night = night.now(ended_wall_s=time.time())
    nightly.say(f"the night of {nightly.label(night)}: {night.outcome}: {night.reason}")
    problems.attempt("the night's record", record.write, nightly, night)
    return _conclude(nightly, night, [], problems)


def _conclude(nightly: Nightly, night: Night, runs: list[Path], problems: Problems) -> Night:
    """History, reports, what has changed, one message, the text file for Prometheus; in this order."""
    problems.attempt("the history", record_in_history, nightly, night, runs)
    for run in runs if night.outcome == "measured" else ():
        problems.attempt("the report", _make_report, run)
    changed: list[Change] = []
    problems.attempt("what has changed", lambda: changed.extend(changes(nightly)))
    message = Message.of(nightly, night, changed, problems.lines)
    deliveries = deliver(message) if message.sentences else {NOBODY: "there was nothing to tell"}
    for channel, how in deliveries.items():
        nightly.say(f"message to {channel}: {how}")
    night = night.now(sentences=message.sentences, reported=message.changes, deliveries=deliveries)
    problems.attempt("the night's record", record.write, nightly, night)
    # Where the changes are unknown the file stays as it is, and its age tells.
    problems.attempt("the text file", lambda: write_textfile(nightly, changes(nightly)))
    return night


def _with_outcome(night: Night, run: Path | None, died: str) -> Night:
    """A night has measured something if one of its trials is VALID, however it ended."""
    rows = _trials(run) if run else []
    counts = Counter(row["verdict"] for row in rows)
    ended = night.now(counts=dict(counts), ended_wall_s=time.time())
    reasons = Counter(parted(row["verdict_reasons"])[0] for row in rows if row["verdict_reasons"])
    common = [reason for reason, _ in reasons.most_common(1)]
    if not counts["VALID"]:
        unmeasured = [*_unfinished(run), *common] if run else []
        why = "; ".join(filter(None, [died, night.reason, *dict.fromkeys(unmeasured[:2])]))
        return ended.now(outcome="failed", reason=why or "no trial of it has ended")
    few = counts["VALID"] < ENOUGH * counts.total()
    why = f"{counts['VALID']} of {counts.total()} trials are VALID: {common[0]}" if few and common else ""
    return ended.now(outcome="measured", reason=died or night.reason or why)


def _trials(run: Path) -> list[dict[str, str]]:
    try:
        with (run / names.TRIALS_CSV).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError:
        return []


def _unfinished(run: Path) -> list[str]:
    """Why trials are not complete, the most common reason first; or why their state cannot be read."""
    try:
        trials = [trial for trial in Run(run).trials() if trial.state and not trial.well and trial.reasons]
    except (TierbenchError, OSError) as error:
        return [str(error)]
    return [reason for reason, _ in Counter(trial.reasons[0] for trial in trials).most_common()]


def _make_tables(nightly: Nightly, run: Path) -> None:
    from tierbench.postprocess.tables.write import tables

    nightly.say(f"tables of {run}")
    tables(run)


def _make_report(run: Path) -> None:
    from tierbench.postprocess.report.write import run_report

    run_report(run, None, lambda _: None)
