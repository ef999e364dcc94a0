"""The DAGs of a plan: one per trial, one per configuration, one for the whole experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierbench.dags import names
from tierbench.dags.experiment import Experiment
from tierbench.dags.nodes import Dag, Edge, Final, Job, OneAtATime, Part, Service, SubDag, Tries
from tierbench.dags.plan import Configuration, Plan, Trial
from tierbench.dags.records import flushed_hosts, trial_samplers
from tierbench.site_configs.site import Access, Sampler, Site

# DAGMan runs a trial's DAG, its jobs and its PRE script in the trial's own directory.
RUN_DIRECTORY = "../.."

DAGMAN = (
    ("DAGMAN_USER_LOG_SCAN_INTERVAL = 1", "seconds; the shortest there is. Each step of a trial waits for it"),
    ("DAGMAN_MAX_SUBMITS_PER_INTERVAL = 1000", "the most there is: all flushes of a trial at once"),
    ("DAGMAN_HOLD_CLAIM_TIME = 20", "seconds for which a slot that was flushed waits for its client"),
    ("DAGMAN_RETRY_NODE_FIRST = True", "a failed trial is tried again at once, near those it is compared with"),
    (
        "DAGMAN_USE_STRICT = 0",
        "or DAGMan, which miscounts idle services, fails a trial that went well",
    ),
    ("DAGMAN_MAX_PRE_SCRIPTS = 1", "or the trial whose script ends first would run first, whatever its priority"),
)


def dagman_config() -> str:
    """DAGMan's settings, for all DAGs of the run."""
    return "".join(f"# {reason}\n{setting}\n" for setting, reason in DAGMAN)


def experiment_dag(plan: Plan, experiment: Experiment) -> Dag:
    """All trials, in the plan's order."""
    comment = f"Experiment {plan.experiment} at site {plan.site}: {len(plan.trials)} trials, one at a time."
    return _dag_of_trials(comment, names.EXPERIMENT_DAG, plan.trials, experiment)


def configuration_dag(plan: Plan, experiment: Experiment, configuration: Configuration) -> Dag:
    """The trials of one configuration, in the plan's order."""
    trials = plan.trials_of(configuration)
    comment = f"{configuration.name} of experiment {plan.experiment} at site {plan.site}: {len(trials)} trials."
    return _dag_of_trials(comment, names.configuration_dag(configuration.id), trials, experiment)


def _dag_of_trials(comment: str, dag: str, trials: Sequence[Trial], experiment: Experiment) -> Dag:
    """Trials without edges, so that a failed one keeps no other from running; their priorities are their order."""
    usage = [
        comment,
        f"In this directory: condor_submit_dag {dag}   (one DAG at a time: all trials share the storage)",
        "Submitted again after failures, it repeats the trials that failed, each as a whole, and no others.",
    ]
    nodes: list[Part] = [
        SubDag(trial.id, names.TRIAL_DAG, names.trial_directory(trial.id), priority=len(trials) - position)
        for position, trial in enumerate(trials)
    ]
    return Dag(
        usage, names.DAGMAN_CONFIG, [*nodes, OneAtATime("trials"), Tries(_script(names.FRESH), experiment.retries)]
    )


def trial_dag(site: Site, experiment: Experiment, plan: Plan, trial: Trial) -> Dag:
    """One trial: sampling and start gate, flush, then clients, and the books closed at the end."""
    usage = [f"{trial.name}", f"In this directory: condor_submit_dag {names.TRIAL_DAG}"]
    config = f"{RUN_DIRECTORY}/{names.DAGMAN_CONFIG}"
    return Dag(usage, config, list(_trial_parts(site, experiment, plan, trial)))


def _trial_parts(site: Site, experiment: Experiment, plan: Plan, trial: Trial) -> Iterator[Part]:
    for sampler in trial_samplers(site, plan, trial):
        yield _sampler(sampler, trial, experiment.sample_period_s)
    if experiment.gate:
        yield Service("gate", _submit("gate"))
    flushes = [
        Job(
            f"flush-{flushed.host}",
            _submit("flush"),
            {
                "machine": flushed.host,
                "strategy": site.flush.strategy,
                "helper": site.flush.helper,
                "directory": flushed.directory,
            },
        )
        for flushed in flushed_hosts(site, experiment, plan, trial)
    ]
    yield from flushes
    yield Job(
        "clients",
        _submit("clients"),
        {
            "trial": trial.id,
            "client": trial.configuration.client,
            "jobs": trial.jobs,
            "flags": " ".join(_client_flags(site.access[trial.configuration.access], experiment)),
            "pool_requirements": site.pools[trial.configuration.pool].requirements,
        },
    )
    if flushes:
        yield Edge([flush.name for flush in flushes], ["clients"])
    yield Final("finish", _script(names.FINISH))


def _sampler(sampler: Sampler, trial: Trial, period_s: float) -> Service:
    macros: dict[str, object] = {
        "trial": trial.id,
        "host": sampler.host,
        "interface": sampler.interface,
        "role": sampler.role,
        "period": period_s,
    }
    if sampler.via == "ssh":
        return Service(f"sampler-{sampler.host}", _submit("sampler-ssh"), macros)
    macros["host_requirements"] = sampler.requirements or f'Machine == "{sampler.host}"'
    return Service(f"sampler-{sampler.host}", _submit("sampler"), macros)


def _client_flags(access: Access, experiment: Experiment) -> Iterator[str]:
    """What only some clients are told: the file that the gate opens with, whose ticket to get."""
    if experiment.gate:
        yield f"--gate {names.GO}"
    if access.kerberos:
        yield f"--principal {access.kerberos.principal} --keytab {access.kerberos.keytab}"


def _script(name: str) -> str:
    return f"{RUN_DIRECTORY}/{names.SCRIPTS}/{name}"


def _submit(kind: str) -> str:
    return f"{RUN_DIRECTORY}/{names.SUBMIT}/{kind}.sub"
