"""What a night will measure, its needs checked: its run and DAG, and the run that is to confirm a change."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tierbench import names
from tierbench.dags.experiment import Experiment
from tierbench.dags.graphs import night_dag, repetition_dags
from tierbench.dags.plan import Trial
from tierbench.dags.trial_settings import Until
from tierbench.dags.write import write_run
from tierbench.postprocess.history.rows import NightMark, write_night_mark
from tierbench.site_configs.site import find_site
from tierbench.submit.nightly import record
from tierbench.submit.nightly.record import Night, Nightly, Say
from tierbench.submit.planning import Planned, asked_experiment, expanded, preflight, refuse, ship_programs
from tierbench.submit.pool import PoolError
from tierbench.submit.repetitions import repeated


def prepare(nightly: Nightly, night: Night, shift: int = 0) -> Planned:
    """The night's plan, in an order of its own, with all there that its trials need."""
    site, experiment = find_site(nightly.terms.site), asked_experiment(str(nightly.experiment))
    experiment = of_a_night(experiment, int(night.planned_wall_s / 60) + shift)
    planned = expanded(site, experiment)
    if isinstance(planned.slots, str):
        raise PoolError(planned.slots)
    given, folder = f"{nightly.experiment} --site {nightly.terms.site}", record.folder(nightly, night)
    refuse(preflight(planned, given, folder))
    return planned


def of_a_night(experiment: Experiment, seed: int) -> Experiment:
    """In an order of its own, and as often as every night: it is with other nights that a night is compared."""
    if isinstance(experiment.repeats, Until) and experiment.repeats.until:
        experiment = repeated(experiment, experiment.repeats.at_least)
    return dataclasses.replace(experiment, seed=experiment.seed + seed)


def write_night(nightly: Nightly, night: Night, ready: Planned, say: Say) -> Path:
    """The night's run and its DAG, unless they have been written; where the DAG is."""
    folder = record.folder(nightly, night)
    dag = folder / names.NIGHT_DAG
    if not dag.exists():
        _write(nightly, night, ready, folder / names.NIGHT_RUN, say)
        for name, text in repetition_dags(ready.plan, ready.experiment):
            (folder / names.NIGHT_RUN / name).write_text(text, encoding="utf-8")
        (folder / names.NIGHT_AGAIN).mkdir(exist_ok=True)  # DAGMan wants the places of all nodes at once
        dag.write_text(night_dag(ready.plan).text(), encoding="utf-8")
    return dag


def write_confirmation(nightly: Nightly, night: Night, configurations: Sequence[str], say: Say) -> None:
    """A run of these configurations and the control alone, or of all (""), to see whether they have changed."""
    ready = prepare(nightly, night, shift=1)
    wanted, every = {*configurations, nightly.terms.control}, "" in configurations
    trials = [trial for trial in ready.plan.trials if every or point(trial) in wanted]
    used = {trial.configuration.id: trial.configuration for trial in trials}
    plan = dataclasses.replace(ready.plan, trials=tuple(trials), configurations=tuple(used.values()))
    place = record.folder(nightly, night) / names.NIGHT_AGAIN
    place.rmdir()
    _write(nightly, night, dataclasses.replace(ready, plan=plan), place, say)


def _write(nightly: Nightly, night: Night, ready: Planned, run: Path, say: Say) -> None:
    write_run(ready.plan, ready.site, ready.experiment, run)
    ship_programs(ready.experiment, run, say)
    planned, rerun = int(night.planned_wall_s * 1e9), run.name == names.NIGHT_AGAIN
    write_night_mark(run, NightMark(nightly.name, planned, rerun=rerun, control=nightly.terms.control))


def point(trial: Trial) -> str:
    """What the history calls a configuration with so many clients."""
    return f"{trial.configuration.name} \N{MULTIPLICATION SIGN}{trial.jobs}"
