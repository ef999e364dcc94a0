"""The DAGs of a plan: one per trial, one per configuration, one for the whole experiment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from tierbench import names
from tierbench.dags import credentials
from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import flushes, ways_to_sample
from tierbench.dags.limits import awaited_s, limits, waiting
from tierbench.dags.nodes import (
    AbortOn,
    After,
    AtOnce,
    Before,
    Dag,
    Edge,
    Final,
    Job,
    Part,
    Retries,
    Service,
    SkipIf,
    Step,
    SubDag,
)
from tierbench.dags.plan import Configuration, Plan, Trial
from tierbench.dags.trial_settings import has_gate, start_kind
from tierbench.dags.workloads import Workload
from tierbench.site_configs.site import Access, Site
from tierbench.starts import EVERY, IN_TURN, TOGETHER
from tierbench.trials import ALREADY_COMPLETE

# Trials measure one at a time; meanwhile the DAGMans of the next ones start, and wait for their turns.
IN_FLIGHT = 3

# The exit status of gate and stop when they have called a trial off, and how often they are started again if they die.
CALLED_OFF = 3
WATCHING_RETRIES = 3

# What the gate does, by the kind of start.
READY = "when they are ready, caches empty and samplers delivering"
GATE = {
    TOGETHER: f"gate: one go for all clients, {READY}",
    EVERY: f"gate: one go after the other, by the clock, for all clients, {READY}",
    IN_TURN: f"gate: a go for each client when the one before has ended, {READY}",
}

# The scripts of the nodes that may be started ahead of their trial's turn.
WAITING = {"flush": "flush.py", "sampling": "sampler.py", "gate": "gate.py", "clients": "client.py"}

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
    (
        "DAGMAN_ALLOW_EVENTS = 118",
        "the default, 114, and 4: a schedd that was killed runs jobs again whose ends it has logged and forgotten",
    ),
)
IN_ORDER = ("DAGMAN_MAX_PRE_SCRIPTS = 1", "or the trial whose script ends first would run first, whatever its priority")
STARTER = f"../../{names.NIGHTLY_STARTER}"  # from a night's directory
NOTHING_TO_DO = 3  # of a night's step: the node behind it is skipped
DONE = "/bin/true"


def dagman_config() -> str:
    """DAGMan's settings for the DAGs whose nodes are trials."""
    return _settings(*DAGMAN, IN_ORDER)


def trial_config(site: Site) -> str:
    """DAGMan's settings for the DAGs of single trials."""
    most = site.submission.idle_limit
    limit = (
        [(f"DAGMAN_MAX_JOBS_IDLE = {most}", "the site's limit of a trial's jobs that wait for slots")] if most else []
    )
    return _settings(*DAGMAN, *limit)


def _settings(*settings: tuple[str, str]) -> str:
    return "".join(f"# {reason}\n{setting}\n" for setting, reason in settings)


def experiment_dag(plan: Plan, experiment: Experiment, done: Collection[str] = ()) -> Dag:
    """All trials, in the plan's order; those that are done already are not begun."""
    comment = f"Experiment {plan.experiment} at site {plan.site}: {len(plan.trials)} trials, one at a time."
    return _dag_of_trials(comment, names.EXPERIMENT_DAG, plan.trials, experiment, done)


def repetition_dag(plan: Plan, experiment: Experiment, repeat: int) -> Dag:
    """The trials of one repetition, in the plan's order."""
    trials = [trial for trial in plan.trials if trial.repeat == repeat]
    comment = f"Repetition {repeat} of experiment {plan.experiment} at site {plan.site}: {len(trials)} trials."
    return _dag_of_trials(comment, names.repetition_dag(repeat), trials, experiment)


def configuration_dag(plan: Plan, experiment: Experiment, configuration: Configuration) -> Dag:
    """The trials of one configuration, in the plan's order."""
    trials = plan.trials_of(configuration)
    comment = f"{configuration.name} of experiment {plan.experiment} at site {plan.site}: {len(trials)} trials."
    return _dag_of_trials(comment, names.configuration_dag(configuration.id), trials, experiment)


def _dag_of_trials(
    comment: str, dag: str, trials: Sequence[Trial], experiment: Experiment, done: Collection[str] = ()
) -> Dag:
    """Trials without edges, so that a failed one keeps no other from running; their priorities are their order."""
    usage = [
        comment,
        f"In this directory: condor_submit_dag {dag}",
        "Trials share the storage, so they measure in turn, also those of several DAGs that are submitted at once.",
        f"Tables are made where the access point has tierbench on its PATH; else {names.NO_TABLES} says how.",
        "Submitted again after failures, it repeats the trials that failed, each as a whole, and no others.",
    ]
    nodes: list[Part] = []
    befores: list[Part] = []
    for position, trial in enumerate(trials):
        directory, priority = names.trial_directory(trial.id), len(trials) - position
        nodes.append(SubDag(trial.id, names.TRIAL_DAG, directory, priority, trial.id in done))
        before = [trials[position - 1].id] if position else []
        befores.append(Before(trial.id, _script(names.RESET_TRIAL), ["$RETRY", "$MAX_RETRIES", *before]))
        befores.append(SkipIf(trial.id, ALREADY_COMPLETE))
    return Dag(usage, names.DAGMAN_CONFIG, [*nodes, *befores, AtOnce("trials", IN_FLIGHT), Retries(experiment.retries)])


def trial_dag(site: Site, experiment: Experiment, trial: Trial, *, crowded: bool = False) -> Dag:
    """One trial, step by step: caches flushed, sampling, the clients let go and seen out, sampling stopped, tables."""
    usage = [
        f"{trial.name}",
        f"In this directory: {_script(names.RESET_TRIAL)} && condor_submit_dag {names.TRIAL_DAG}",
        "Each step is there when the trial's turn has come, and goes on when it has what it waits for.",
    ]
    config = f"{RUN_DIRECTORY}/{names.TRIAL_CONFIG}"
    return Dag(usage, config, list(_steps(site, experiment, trial, crowded)))


def _steps(site: Site, experiment: Experiment, trial: Trial, crowded: bool) -> Iterator[Step]:
    gate_s = limits(experiment, trial.jobs).gate_s + awaited_s(experiment, trial.jobs)
    flushed = flushes(site, experiment)
    begin = _ahead if experiment.ahead else _in_turn
    arranged = ["arranged"] if experiment.conditions else []
    if arranged:
        purpose = "arrange: the site changes what the trial asks for, and undoes it at the stop"
        yield Step(purpose, _in_turn(_arranging(experiment, trial)))
    if flushed:
        purpose = "flush: caches are emptied on each worker and on the way, and measured to be empty"
        yield Step(purpose, begin(_flush(site, experiment, trial), *arranged))
    writes = ["outbox"] if experiment.replicas_of(trial.configuration.workload).is_written else []
    if writes:
        purpose = "outbox: the trial gets a folder of its own to write in, which its last step removes"
        yield Step(purpose, _in_turn(_outbox(site, experiment, trial)))
    # What is arranged may start a service anew, whose counters a sampler that was there before would see fall.
    samplers = [part for node in _samplers(site, experiment, trial) for part in begin(node, *arranged)]
    yield Step("sampling: counters are read along the way, until the stop", samplers)
    if has_gate(experiment.start):  # it waits for all of the above
        purpose = GATE[start_kind(experiment.start)]
        yield Step(purpose, _watching("gate", gate_s, begin))
    clients = _clients(site, experiment, trial)
    purpose = "clients: one cluster, each with a replica of its own"
    if has_gate(experiment.start):  # a job has a copy of all mounts from its begin, and some may be made anew
        yield Step(purpose, begin(clients, *arranged, *(["slots"] if crowded else [])))
    else:
        before = [*(["flush"] if flushed else []), *writes]
        edges = [Edge(before, ["clients"])] if before else []
        yield Step(purpose, [*_in_turn(clients, *arranged, "sampled"), *edges])
    purpose = "stop: when all clients have ended the turn is passed on, and the sampling stopped"
    yield Step(purpose, _watching("stop", gate_s, _in_turn, "waking"))
    purpose = "tables: last in any case; what has not ended is ended, how it went is told, tables are made"
    yield Step(purpose, [Final("tables", _script(names.FINISH))])


def _in_turn(job: Job, *awaited: str) -> list[Part]:
    """A node when the trial's turn has come, and what its script waits for beside it."""
    return [job, Before(job.name, _script(names.TURN_TAKING), ["take", *awaited])]


def _ahead(job: Job, *awaited: str) -> list[Part]:
    """A node whose jobs are started before the trial's turn, and wait for it themselves; over ssh none can."""
    script = WAITING.get(job.name)
    if script is None:
        return _in_turn(job, *awaited)
    job = waiting(job, script, brings_chirp=job.name != "flush") if job.name != "gate" else job
    return [job, Before(job.name, _script(names.TURN_TAKING), ["ahead", *awaited])]


def _watching(step: str, run_limit: int, begin: Callable[..., list[Part]], *awaited: str) -> list[Part]:
    """A node on the access point that may call the trial off, and is started again if it dies."""
    node = Job(step, _submit(step), {"run_limit": run_limit})
    return [*begin(node, *awaited), Retries(WATCHING_RETRIES, step), AbortOn(step, CALLED_OFF)]


def _arranging(experiment: Experiment, trial: Trial) -> Service:
    hosts = f"{RUN_DIRECTORY}/{names.arranged_list(trial.configuration.id)}"
    return Service("arrange", _submit("arrange"), {"hosts": hosts, **_waits(experiment, trial)})


def _flush(site: Site, experiment: Experiment, trial: Trial) -> Job:
    return Job(
        "flush",
        _submit("flush"),
        {
            "strategy": site.flush.strategy,
            "helper": site.flush.helper,
            "hosts": f"{RUN_DIRECTORY}/{names.flush_list(trial.configuration.id)}",
            **_waits(experiment, trial),
        },
    )


def _outbox(site: Site, experiment: Experiment, trial: Trial) -> Job:
    access = site.access[trial.configuration.access]
    return Job(
        "outbox",
        _submit("outbox"),
        {
            "step": "make",
            "flags": credentials.flags(access),
            **_travelling("files", credentials.files(access)),
            **_service(access),
            "pool_requirements": site.pools[trial.configuration.pool].requirements,
            **_waits(experiment, trial),
        },
    )


def _samplers(site: Site, experiment: Experiment, trial: Trial) -> Iterator[Service]:
    for via in ways_to_sample(site, trial.configuration):
        yield Service(
            "sampling" if via == "pool" else f"sampling-{via}",
            _submit("sampler" if via == "pool" else f"sampler-{via}"),
            {
                "trial": trial.id,
                "period": experiment.sample_period_s,
                "hosts": f"{RUN_DIRECTORY}/{names.sampler_list(trial.configuration.id, via)}",
                **_waits(experiment, trial),
            },
        )


def _clients(site: Site, experiment: Experiment, trial: Trial) -> Job:
    configuration = trial.configuration
    access = site.access[configuration.access]
    return Job(
        "clients",
        _submit("clients"),
        {
            "trial": trial.id,
            "client": configuration.client,
            "places": f"{RUN_DIRECTORY}/{names.place_list(configuration.id, trial.jobs)}",
            "memory": experiment.workloads[configuration.workload].asks_mb(trial.work.processes),
            "flags": " ".join(_client_flags(access, experiment, trial.jobs)),
            "pool_requirements": site.pools[configuration.pool].requirements,
            **_waits(experiment, trial),
            **_travelling("secrets", _secrets(access, experiment.workloads[configuration.workload])),
            **_service(access),
        },
    )


def _waits(experiment: Experiment, trial: Trial) -> dict[str, int]:
    """How long HTCondor lets a job wait for a slot, and run."""
    limit, awaited = limits(experiment, trial.jobs), awaited_s(experiment, trial.jobs)
    return {"slot_limit": limit.slot_s + awaited, "run_limit": limit.job_s + awaited}


def _secrets(access: Access, workload: Workload) -> list[str]:
    """The files of the access point that travel with each client, and whose content nobody else may learn."""
    return list(dict.fromkeys([*credentials.files(access), *credentials.secret_files(workload.environment)]))


def _travelling(macro: str, paths: Sequence[str]) -> dict[str, str]:
    """A macro for what else travels with a job, if there is anything."""
    return {macro: "".join(f", {path}" for path in paths)} if paths else {}


def _service(access: Access) -> dict[str, str]:
    service = credentials.service(access)
    return {"service": service} if service else {}


def _client_flags(access: Access, experiment: Experiment, jobs: int) -> Iterator[str]:
    """What not every client is told: the file that the gate opens with, when to give up, its core, whose ticket."""
    limit = limits(experiment, jobs)
    yield f"--clients {jobs} --timeout {limit.read_s}"
    if has_gate(experiment.start):
        yield f"--gate {names.GO} --gate-timeout {limit.go_s}"
    if experiment.cores == "pinned":
        yield "--pin"
    if flags := credentials.flags(access):
        yield flags


def _script(name: str) -> str:
    return f"{RUN_DIRECTORY}/{names.SCRIPTS}/{name}"


def _submit(kind: str) -> str:
    return f"{RUN_DIRECTORY}/{names.SUBMIT}/{kind}.sub"


def night_dag(plan: Plan) -> Dag:
    """Each repetition's trials with a look at the links before it, and one after the last.

    A repetition with a trial that is not complete fails, and the night goes on all the same.
    """
    usage = [
        f"A night of {plan.experiment} at site {plan.site}.",
        f"`tierbench nightly` submits it, once; the trials' own DAGs are in {names.NIGHT_RUN}.",
    ]
    return Dag(usage, f"{names.NIGHT_RUN}/{names.DAGMAN_CONFIG}", list(_night_parts(plan)))


def repetitions(plan: Plan) -> list[int]:
    return sorted({trial.repeat for trial in plan.trials})


def repetition_dags(plan: Plan, experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The run's files that a night's DAG names."""
    for repeat in repetitions(plan):
        yield names.repetition_dag(repeat), repetition_dag(plan, experiment, repeat).text()


def _night_parts(plan: Plan) -> Iterator[Part]:
    nodes = [f"repetition-{repeat}" for repeat in repetitions(plan)]
    for repeat, node in zip(repetitions(plan), nodes, strict=True):
        yield SubDag(node, names.repetition_dag(repeat), names.NIGHT_RUN, priority=0)
        yield Before(node, f"../{STARTER}", ["links", ".."])
        yield SkipIf(node, NOTHING_TO_DO)
        yield After(node, DONE)
    yield SubDag("again", names.EXPERIMENT_DAG, names.NIGHT_AGAIN, priority=0)
    yield Before("again", f"../{STARTER}", ["judge", ".."])
    yield SkipIf("again", NOTHING_TO_DO)
    yield After("again", DONE)
    for before, after in zip(nodes, [*nodes[1:], "again"], strict=True):
        yield Edge([before], [after])
    yield Final("books", STARTER, ("close", "."))
