"""The DAGs of a plan: one per trial, one per configuration, one for the whole experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierbench.dags import fresh, names, secret
from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import flushes, ways_to_sample
from tierbench.dags.limits import limits
from tierbench.dags.nodes import AbortOn, AtOnce, Before, Dag, Edge, Final, Job, Part, Retries, Service, SkipIf, SubDag
from tierbench.dags.plan import Configuration, Plan, Trial
from tierbench.dags.workloads import Workload
from tierbench.site_configs.site import Access, Site

# Trials measure one at a time; meanwhile the DAGMans of the next ones start, and wait for their turns.
IN_FLIGHT = 3

# The gate's exit status with which it has called a trial off, and how often it is started again if it dies.
CALLED_OFF = 3
GATE_RETRIES = 3

# DAGMan runs a trial's DAG, its jobs and its PRE script in the trial's own directory.
RUN_DIRECTORY = "../.."

DAGMAN = (
    ("DAGMAN_USER_LOG_SCAN_INTERVAL = 1", "seconds; the shortest there is. Each step of a trial waits for it"),
    ("DAGMAN_MAX_SUBMITS_PER_INTERVAL = 1000", "the most there is: all flushes of a trial at once"),
    ("DAGMAN_HOLD_CLAIM_TIME = 20", "seconds for which a slot that a job has left waits for the next one"),
    ("DAGMAN_CHECK_QUEUE_INTERVAL = 120", "seconds without news; events that a full disk has lost are missed then"),
    ("DAGMAN_RETRY_NODE_FIRST = True", "a failed trial is tried again at once, near those it is compared with"),
    (
        "DAGMAN_USE_STRICT = 0",
        "or DAGMan, which miscounts idle services, fails a trial that went well",
    ),
)
IN_ORDER = ("DAGMAN_MAX_PRE_SCRIPTS = 1", "or the trial whose script ends first would run first, whatever its priority")


def dagman_config() -> str:
    """DAGMan's settings for the DAGs whose nodes are trials."""
    return _settings(*DAGMAN, IN_ORDER)


def trial_config() -> str:
    """DAGMan's settings for the DAGs of single trials."""
    return _settings(*DAGMAN)


def _settings(*settings: tuple[str, str]) -> str:
    return "".join(f"# {reason}\n{setting}\n" for setting, reason in settings)


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
        f"In this directory: condor_submit_dag {dag}",
        "Trials share the storage, so they measure in turn, also those of several DAGs that are submitted at once.",
        "Submitted again after failures, it repeats the trials that failed, each as a whole, and no others.",
    ]
    nodes: list[Part] = []
    befores: list[Part] = []
    for position, trial in enumerate(trials):
        nodes.append(
            SubDag(trial.id, names.TRIAL_DAG, names.trial_directory(trial.id), priority=len(trials) - position)
        )
        before = [trials[position - 1].id] if position else []
        befores.append(Before(trial.id, _script(names.FRESH), ["$RETRY", "$MAX_RETRIES", *before]))
        befores.append(SkipIf(trial.id, fresh.DONE))
    return Dag(usage, names.DAGMAN_CONFIG, [*nodes, *befores, AtOnce("trials", IN_FLIGHT), Retries(experiment.retries)])


def trial_dag(site: Site, experiment: Experiment, trial: Trial) -> Dag:
    """One trial: when its turn has come sampling, flush and clients, and the books closed at the end."""
    usage = [
        f"{trial.name}",
        f"In this directory: {_script(names.FRESH)} && condor_submit_dag {names.TRIAL_DAG}",
    ]
    config = f"{RUN_DIRECTORY}/{names.TRIAL_CONFIG}"
    return Dag(usage, config, list(_trial_parts(site, experiment, trial)))


def _trial_parts(site: Site, experiment: Experiment, trial: Trial) -> Iterator[Part]:
    jobs = list(_trial_jobs(site, experiment, trial))
    yield from jobs
    yield AbortOn("gate", CALLED_OFF)
    yield Retries(GATE_RETRIES, "gate")
    for job in jobs:
        yield Before(job.name, _script(names.TURN_TAKING), ["take", *_awaited(job, experiment)])
    if flushes(site, experiment) and not experiment.gate:  # a gate waits for the flush itself
        yield Edge(["flush"], ["clients"])
    yield Final("finish", _script(names.FINISH))


def _awaited(job: Job, experiment: Experiment) -> Iterator[str]:
    """What a node's script waits for beside the turn; clients at a gate wait there."""
    alone = job.name == "clients" and not experiment.gate
    if experiment.conditions and (job.name == "flush" or alone):
        yield "arranged"
    if alone:
        yield "sampled"


def _trial_jobs(site: Site, experiment: Experiment, trial: Trial) -> Iterator[Job]:
    configuration, limit = trial.configuration, limits(experiment)
    waits = {"slot_limit": limit.slot_s, "run_limit": limit.job_s}
    for via in ways_to_sample(site, configuration):
        yield Service(
            "samplers" if via == "pool" else f"samplers-{via}",
            _submit("sampler" if via == "pool" else f"sampler-{via}"),
            {
                "trial": trial.id,
                "period": experiment.sample_period_s,
                "hosts": f"{RUN_DIRECTORY}/{names.sampler_list(configuration.id, via)}",
                **waits,
            },
        )
    if experiment.conditions:
        hosts = f"{RUN_DIRECTORY}/{names.arranged_list(configuration.id)}"
        yield Service("arrange", _submit("arrange"), {"hosts": hosts, **waits})
    yield Job("gate", _submit("gate"), {"run_limit": limit.gate_s})
    if flushes(site, experiment):
        yield Job(
            "flush",
            _submit("flush"),
            {
                "strategy": site.flush.strategy,
                "helper": site.flush.helper,
                "hosts": f"{RUN_DIRECTORY}/{names.flush_list(configuration.id)}",
                **waits,
            },
        )
    yield Job(
        "clients",
        _submit("clients"),
        {
            "trial": trial.id,
            "client": configuration.client,
            "jobs": trial.jobs,
            "memory": experiment.workloads[configuration.workload].asks_mb,
            "flags": " ".join(_client_flags(site.access[configuration.access], experiment)),
            "pool_requirements": site.pools[configuration.pool].requirements,
            **waits,
            **_secrets(experiment.workloads[configuration.workload]),
        },
    )


def _secrets(workload: Workload) -> dict[str, str]:
    """The files of secrets as a macro for what else travels with a client, if there are any."""
    paths = secret.files(workload.environment)
    return {"secrets": "".join(f", {path}" for path in paths)} if paths else {}


def _client_flags(access: Access, experiment: Experiment) -> Iterator[str]:
    """What not every client is told: the file that the gate opens with, when to give up, whose ticket to get."""
    limit = limits(experiment)
    yield f"--timeout {limit.read_s}"
    if experiment.gate:
        yield f"--gate {names.GO} --gate-timeout {limit.go_s}"
    if access.kerberos:
        yield f"--principal {access.kerberos.principal} --keytab {access.kerberos.keytab}"


def _script(name: str) -> str:
    return f"{RUN_DIRECTORY}/{names.SCRIPTS}/{name}"


def _submit(kind: str) -> str:
    return f"{RUN_DIRECTORY}/{names.SUBMIT}/{kind}.sub"
