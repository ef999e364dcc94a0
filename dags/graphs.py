"""The DAGs of a plan: one per trial, one per configuration, one for the whole experiment."""

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence

from tierbench import names
from tierbench.dags import credentials
from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import flushes, ways_to_sample
from tierbench.dags.limits import limits
from tierbench.dags.nodes import Dag, Job, final, line, step
from tierbench.dags.plan import Configuration, Plan, Trial
from tierbench.site_configs.site import Site
from tierbench.starts import EVERY, IN_TURN, TOGETHER
from tierbench.trials import ALREADY_COMPLETE, Credentials
from tierbench.wrappers.client import Client

# Trials measure one at a time; meanwhile the DAGMans of the next ones start, submit their jobs on hold, and wait.
IN_FLIGHT = 3

# The exit status of gate, release and stop when they call a trial off, and how often they are started again
# if they die.
CALLED_OFF = 3
WATCHING_RETRIES = 3

# What the gate does, by the kind of start.
READY = "when they are ready, caches empty and samplers delivering"
GATE = {
    TOGETHER: f"gate: one go for all clients, {READY}",
    EVERY: f"gate: one go after the other, by the clock, for all clients, {READY}",
    IN_TURN: f"gate: a go for each client when the one before has ended, {READY}",
}

# DAGMan runs a trial's DAG, its jobs and its PRE script in the trial's own directory.
RUN_DIRECTORY = "../.."

DAGMAN = (
    ("DAGMAN_USER_LOG_SCAN_INTERVAL = 1", "seconds; the shortest there is. Each step of a trial waits for it"),
    ("DAGMAN_MAX_SUBMITS_PER_INTERVAL = 1000", "the most there is: all flushes of a trial at once"),
    ("DAGMAN_HOLD_CLAIM_TIME = 20", "seconds for which a slot that a job has left waits for the next one"),
    ("DAGMAN_CHECK_QUEUE_INTERVAL = 120", "seconds without news; events that a full disk has lost are missed then"),
    ("DAGMAN_PUT_FAILED_JOBS_ON_HOLD = False", "or a trial that has failed waits for somebody to release it"),
    ("DAGMAN_PROHIBIT_MULTI_JOBS = False", "clients are one cluster"),
    ("DAGMAN_RETRY_NODE_FIRST = True", "a failed trial is tried again at once, near those it is compared with"),
    ("DAGMAN_USE_STRICT = 0", "or DAGMan, which miscounts idle services, fails a trial that went well"),
    (
        "DAGMAN_ALLOW_EVENTS = 118",
        "the default, 114, and 4: a schedd that was killed runs jobs again whose ends it has logged and forgotten",
    ),
)
IN_ORDER = ("DAGMAN_MAX_PRE_SCRIPTS = 1", "or the trial whose script ends first would run first, whatever its priority")
STARTER = f"../../{names.NIGHTLY_STARTER}"  # from a night's directory
NOTHING_TO_DO = 3  # of a night's step: the node behind it is skipped


def dagman_config() -> str:
    """DAGMan's settings for the DAGs whose nodes are trials."""
    return _settings(*DAGMAN, IN_ORDER)


def trial_config(site: Site) -> str:
    """DAGMan's settings for the DAGs of single trials."""
    if site.submission.idle_limit is None:
        return _settings(*DAGMAN)
    idle = f"DAGMAN_MAX_JOBS_IDLE = {site.submission.idle_limit}"
    return _settings(*DAGMAN, (idle, "the site's limit of a trial's jobs that wait for slots"))


def _settings(*settings: tuple[str, str]) -> str:
    return "".join(f"# {reason}\n{setting}\n" for setting, reason in settings)


def experiment_dag(plan: Plan, experiment: Experiment, done: Collection[str] = ()) -> Dag:
    """All trials, in the plan's order; those that are done already are not started."""
    comment = f"Experiment {plan.experiment} at site {plan.site}: {len(plan.trials)} trials, one at a time."
    return _dag_of_trials(comment, names.EXPERIMENT_DAG, plan.trials, experiment, done)


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
    nodes: list[str] = []
    scripts: list[str] = []
    for position, trial in enumerate(trials):
        directory = names.trial_directory(trial.id)
        already = ["DONE"] if trial.id in done else []
        nodes.append(line("SUBDAG", "EXTERNAL", trial.id, names.TRIAL_DAG, "DIR", directory, *already))
        nodes.append(line("PRIORITY", trial.id, len(trials) - position))
        before = [trials[position - 1].id] if position else []
        reset = _script(names.RESET_TRIAL), "$RETRY", "$MAX_RETRIES"
        scripts.append(line("SCRIPT", "PRE", trial.id, *reset, *before))
        scripts.append(line("PRE_SKIP", trial.id, ALREADY_COMPLETE))
    at_once = [line("CATEGORY", "ALL_NODES", "trials"), line("MAXJOBS", "trials", IN_FLIGHT)]
    retries = [line("RETRY", "ALL_NODES", experiment.retries)] if experiment.retries else []
    return Dag(usage, names.DAGMAN_CONFIG, [*nodes, *scripts, *at_once, *retries])


def trial_dag(site: Site, experiment: Experiment, trial: Trial, *, crowded: bool = False) -> Dag:
    """One trial, step by step: caches flushed, sampling, the clients let go and seen out, sampling stopped, tables."""
    usage = [
        f"{trial.name}",
        f"In this directory: {_script(names.RESET_TRIAL)} && condor_submit_dag {names.TRIAL_DAG}",
        "Each step is there when the trial's turn has come, and goes on when it has what it waits for.",
    ]
    config = f"{RUN_DIRECTORY}/{names.TRIAL_CONFIG}"
    return Dag(usage, config, [text for lines in _steps(site, experiment, trial, crowded) for text in lines])


def _steps(site: Site, experiment: Experiment, trial: Trial, crowded: bool) -> Iterator[list[str]]:
    waits = _waits(experiment, trial)
    waits["run_limit"] = limits(experiment, trial.jobs).gate_s
    flushed, gated = flushes(site, experiment, trial.configuration), experiment.begins.gated
    # A job has a copy of all mounts from its begin, and a condition may make some anew.
    arranged = ["arranged"] if experiment.conditions else []
    slots = ["slots"] if crowded else []

    def begin(job: Job) -> list[str]:
        """A node whose jobs are submitted early, on hold, where the trial has a gate."""
        return _on_hold(job) if gated else _in_turn(job, *arranged)

    if arranged:
        purpose = "arrange: the site changes what the trial asks for, and undoes it at the stop"
        yield step(purpose, _in_turn(_arranging(experiment, trial)))
    if flushed:
        purpose = "flush: caches are emptied on each worker and on the way, and measured to be empty"
        yield step(purpose, begin(_flush(site, experiment, trial)))
    writes = ["outbox"] if experiment.replicas_of(trial.configuration.workload).is_written else []
    if writes:
        purpose = "write area: the trial gets a folder of its own to write in, which its last step removes"
        yield step(purpose, begin(_write_area(site, experiment, trial)))
    # What is arranged may start a service anew, whose counters a sampler that was there before would see fall.
    samplers = [
        begin(node) if node.name == "sampling" else _in_turn(node, *arranged)
        for node in _samplers(site, experiment, trial)
    ]
    yield step("sampling: counters are read along the way, until the stop", itertools.chain(*samplers))
    if gated:  # it waits for all of the above
        yield step(GATE[experiment.begins.kind], _watching("gate", waits))
    clients = _clients(site, experiment, trial)
    purpose = "clients: one cluster, each with a replica of its own"
    if gated:
        yield step(purpose, begin(clients))
        purpose = "release: a script lets the jobs go that were submitted on hold"
        script = line("SCRIPT", "PRE", "release", _script(names.LOCK_SCRIPT), "release", *arranged, *slots)
        yield step(purpose, [line("JOB", "release", "release.sub", "NOOP"), script, *_ends_the_trial("release")])
    else:
        before = [*(["flush"] if flushed else []), *writes]
        edges = [line("PARENT", *before, "CHILD", "clients")] if before else []
        yield step(purpose, [*_in_turn(clients, *arranged, "sampled"), *edges])
    purpose = "stop: when all clients have ended the measurement lock is given on, and the sampling stopped"
    yield step(purpose, _watching("stop", waits))
    purpose = "tables: last in any case; ends what has not ended, records how it went, makes the tables"
    yield step(purpose, final("tables", _script(names.FINISH)))


def _in_turn(job: Job, *awaited: str) -> list[str]:
    """A node when the trial has the measurement lock, and what its script waits for beside it."""
    return [*job.lines(), line("SCRIPT", "PRE", job.name, _script(names.LOCK_SCRIPT), "take", *awaited)]


def _on_hold(job: Job) -> list[str]:
    """A node whose jobs are submitted before the trial has the lock, which then releases them."""
    return [*dataclasses.replace(job, macros={**job.macros, "on_hold": "True"}).lines()]


def _watching(name: str, waits: dict[str, int]) -> list[str]:
    """A node on the access point that may call the trial off, and is started again if it dies."""
    each = {**waits, "slot_limit": waits["slot_limit"] // (WATCHING_RETRIES + 1)}
    return [*_in_turn(Job(name, _submit(name), each)), *_ends_the_trial(name)]


def _ends_the_trial(name: str) -> list[str]:
    return [line("RETRY", name, WATCHING_RETRIES), line("ABORT-DAG-ON", name, CALLED_OFF)]


def _arranging(experiment: Experiment, trial: Trial) -> Job:
    hosts = f"{RUN_DIRECTORY}/{names.arranged_list(trial.configuration.id)}"
    return Job("arrange", _submit("arrange"), {"hosts": hosts, **_waits(experiment, trial)}, "SERVICE")


def _flush(site: Site, experiment: Experiment, trial: Trial) -> Job:
    hosts = f"{RUN_DIRECTORY}/{names.flush_list(trial.configuration.id)}"
    how = {"strategy": site.flush.strategy, "helper": site.flush.helper, "hosts": hosts}
    return Job("flush", _submit("flush"), {**how, **_waits(experiment, trial)})


def _write_area(site: Site, experiment: Experiment, trial: Trial) -> Job:
    who = credentials.of(site.access[trial.configuration.access])
    macros = {
        "step": "make",
        "flags": who.flags,
        **_travelling("files", who.files),
        **_service(who),
        "pool_requirements": site.pools[trial.configuration.pool].requirements,
        **_waits(experiment, trial),
    }
    return Job("outbox", _submit("outbox"), macros)


def _samplers(site: Site, experiment: Experiment, trial: Trial) -> Iterator[Job]:
    for via in ways_to_sample(site, trial.configuration):
        suffix = "" if via == "pool" else f"-{via}"
        macros = {
            "trial": trial.id,
            "period": experiment.sample_period_s,
            "hosts": f"{RUN_DIRECTORY}/{names.sampler_list(trial.configuration.id, via)}",
            **_waits(experiment, trial),
        }
        yield Job(f"sampling{suffix}", _submit(f"sampler{suffix}"), macros, "SERVICE")


def _clients(site: Site, experiment: Experiment, trial: Trial) -> Job:
    configuration = trial.configuration
    who, workload = credentials.of(site.access[configuration.access]), experiment.workloads[configuration.workload]
    file_bytes = experiment.replicas_of(configuration.workload).nominal_bytes
    room_kib = 16384 + trial.work.processes * file_bytes // 900  # and a tenth
    # The files of the access point that travel with each client, and whose content nobody else may learn.
    secrets = list(dict.fromkeys([*who.files, *credentials.secret_files(workload.environment)]))
    macros = {
        "trial": trial.id,
        "client": configuration.client,
        "places": f"{RUN_DIRECTORY}/{names.place_list(configuration.id, trial.jobs)}",
        "memory": workload.asks_mb(trial.work.processes),
        "flags": " ".join(_client_flags(experiment, trial.jobs, who.flags)),
        "pool_requirements": site.pools[configuration.pool].requirements,
        **_waits(experiment, trial),
        **({"disk": room_kib} if workload.declared.keeps_files else {}),
        **({"vacate": 8 + grace} if (grace := workload.declared.grace_s) > Client.grace_s else {}),
        **_travelling("secrets", secrets),
        **_service(who),
    }
    return Job("clients", _submit("clients"), macros)


def _waits(experiment: Experiment, trial: Trial) -> dict[str, int]:
    """How long HTCondor lets a job wait for a slot, and run."""
    limit = limits(experiment, trial.jobs)
    return {"slot_limit": limit.slot_s, "run_limit": limit.job_s}


def _travelling(macro: str, paths: Sequence[str]) -> dict[str, str]:
    """A macro for what else travels with a job, if there is anything."""
    return {macro: "".join(f", {path}" for path in paths)} if paths else {}


def _service(who: Credentials) -> dict[str, str]:
    return {"service": who.service} if who.service else {}


def _client_flags(experiment: Experiment, jobs: int, ticket: str) -> Iterator[str]:
    """What only some clients get: the file that the gate opens with, when to give up, its core, whose ticket."""
    limit = limits(experiment, jobs)
    yield f"--clients {jobs} --timeout {limit.read_s}"
    if experiment.begins.gated:
        yield f"--gate {names.GO} --gate-timeout {limit.go_s}"
    if experiment.cores == "pinned":
        yield "--pin"
    if ticket:
        yield ticket


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
    dags = {f"repetition-{repeat}": names.repetition_dag(repeat) for repeat in repetitions(plan)}
    parts = [text for node, dag in dags.items() for text in _night_node(node, dag, names.NIGHT_RUN, "links")]
    parts += _night_node("again", names.EXPERIMENT_DAG, names.NIGHT_AGAIN, "judge")
    parts += [line("PARENT", before, "CHILD", after) for before, after in itertools.pairwise([*dags, "again"])]
    parts += final("books", STARTER, "close", ".")
    return Dag(usage, f"{names.NIGHT_RUN}/{names.DAGMAN_CONFIG}", parts)


def _night_node(node: str, dag: str, directory: str, look: str) -> list[str]:
    """A DAG of trials after a look at the night, which may skip it; whatever becomes of it, the night goes on."""
    return [
        line("SUBDAG", "EXTERNAL", node, dag, "DIR", directory),
        line("PRIORITY", node, 0),
        line("SCRIPT", "PRE", node, f"../{STARTER}", look, ".."),
        line("PRE_SKIP", node, NOTHING_TO_DO),
        line("SCRIPT", "POST", node, "/bin/true"),
    ]


def repetitions(plan: Plan) -> list[int]:
    return sorted({trial.repeat for trial in plan.trials})


def repetition_dags(plan: Plan, experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The run's files that a night's DAG names: the trials of each repetition, in the plan's order."""
    for repeat in repetitions(plan):
        name, trials = names.repetition_dag(repeat), [trial for trial in plan.trials if trial.repeat == repeat]
        comment = f"Repetition {repeat} of experiment {plan.experiment} at site {plan.site}: {len(trials)} trials."
        yield name, _dag_of_trials(comment, name, trials, experiment).text()
