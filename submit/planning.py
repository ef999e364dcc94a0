"""From the names that a user gives to a plan, what its run takes at the least, and what is looked at before it.

Each check is a function that yields findings, and `preflight` is all of them.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from tierbench.dags.experiment import Experiment, find_experiment
from tierbench.dags.hosts import beside_clients, memory_problems, sampled_hosts, slot_problems
from tierbench.dags.levels import PAIR
from tierbench.dags.plan import Plan, Trial, expand
from tierbench.dags.trial_settings import Every, places
from tierbench.errors import UnmetNeed
from tierbench.errors import refuse as refuse_problems
from tierbench.monitors.sources import SOURCES
from tierbench.site_configs.site import Access, Site
from tierbench.starts import IN_TURN
from tierbench.submit import pool
from tierbench.submit.catalogue import catalogues
from tierbench.submit.pool import PoolError, Slots
from tierbench.submit.questions import REMEDIES
from tierbench.submit.trial.disk_reserve import LOW_BYTES, RESERVE_BYTES, free_bytes
from tierbench.wrappers.child import run_program
from tierbench.wrappers.client import CHECKSUM
from tierbench.wrappers.credentials import judged

OVERHEAD_S = 4.5  # of a trial in which nothing is read: flush, start, gate, tables
TURN_S = 2.0  # from a client's end to the next one's begin, where they take turns

# Measured with HTCondor 23.9: the logs of a trial and of each of its clients, a sample with its line in two tables.
TRIAL_BYTES = 300_000
CLIENT_BYTES = 20_000
SAMPLE_BYTES = 700
AROUND_S = 15.0  # samplers run before the go and after the last end
MARGIN = 3.0  # times are estimated at the links' full rates, and trials are tried again

State = Literal["good", "doubtful", "bad"]
STATES = get_args(State)
HOSTS_SHOWN = 4
CLIENTS_PER_CORE = 100  # beside a sampler of the usual priority
NOT_STORED = "No credential is stored"  # condor_store_cred's words
SECRET_NAME = re.compile(r"(?i)(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_KEY)$")
JSON_WEB_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.")
BEARER = re.compile(r"(?i)\bbearer\s+\S{20}")
OF_POINTS = {"rate", "against", "ratio", "low", "high", "result", "rests_on_suspect_trials"}  # of `tables --json`
EXPOSED = "a secret by its looks, and its value would be in the run directory for all to read"


def asked_experiment(name_or_path: str) -> Experiment:
    """An experiment whose axes can be columns of its tables."""
    # Here, as the tables need numpy, and other commands do not.
    from tierbench.postprocess.compare.claims import problems as claim_problems
    from tierbench.postprocess.schema import columns
    from tierbench.postprocess.schema.run_rows import FILES

    experiment = find_experiment(name_or_path)
    taken = {name for table in FILES.values() for name in columns.places(table)} | OF_POINTS
    sampled = [column for source in SOURCES for column in source.columns]
    taken |= {column.name if column.kind == "gauge" else f"{column.name}_per_s" for column in sampled}
    axes, why = [axis.name for axis in experiment.axes], "the tables have a column of that name already"
    problems = [f"{name_or_path}: axes.{name}: {why}; call the axis otherwise" for name in axes if name in taken]
    problems += [f"{name_or_path}: {problem}" for problem in claim_problems(experiment.claims, experiment.expects)]
    refuse_problems(problems)
    return experiment


@dataclass(frozen=True)
class Planned:
    """A plan, what it was made of, and the slots of the live pool, or why it was not asked."""

    plan: Plan
    site: Site
    experiment: Experiment
    slots: dict[str, Slots] | str

    @property
    def run_s(self) -> float:
        """So long the plan's trials take at the least."""
        return sum(map(self.trial_s, self.plan.trials))

    def trial_s(self, trial: Trial) -> float:
        """A lower bound: what the slowest link whose rate the site tells takes for the trial's bytes."""
        own, pool = self.experiment.at(trial.configuration.levels), self.plan.pools[trial.configuration.pool]
        links, in_turn = self.site.links, own.start == IN_TURN
        placed = set(places(own.placement, pool, trial.jobs))
        workers = 1 if in_turn else min(len(placed or pool) or trial.jobs, trial.jobs)
        wan = links.wan if self.site.pools[trial.configuration.pool].over_wan else None
        samplers = self.site.samplers.values()
        access, options = trial.configuration.access, own.workloads[trial.configuration.workload].options
        sampled = {sampler.host for sampler in samplers if sampler.role == "storage" and sampler.is_of({access})}
        servers = len(self.site.access[access].servers or sampled)
        storage = links.storage and links.storage * max(1, servers)
        ceilings = list(filter(None, (wan, storage, links.worker and links.worker * workers)))
        share = getattr(options, "branches", 1.0)  # of a client of one's own it may be anything
        size = (trial.bytes or trial.nominal_bytes) * (share if isinstance(share, float) and 0 < share <= 1 else 1.0)
        lasts_s = getattr(options, "seconds", 0)
        lasts_s = float(lasts_s) if isinstance(lasts_s, int | float) else 0.0
        work_s = (size * 8 / 1e6 / min(ceilings) if ceilings else 0.0) if size else lasts_s
        if trial.work.for_s is not None:
            work_s = trial.work.for_s * (trial.jobs if in_turn else 1)
        if isinstance(own.start, Every):
            return OVERHEAD_S + max(work_s, (trial.jobs - 1) * own.start.every_s + (trial.work.for_s or 0.0))
        return OVERHEAD_S + work_s + (TURN_S * (trial.jobs - 1) if in_turn else 0.0)

    @property
    def run_bytes(self) -> int:
        """What the run directory will hold at its end, and what a trial needs to begin."""
        trials = 0.0
        for trial in self.plan.trials:
            sampled_s = self.trial_s(trial) + AROUND_S
            samplers = len(sampled_hosts(self.site, self.plan, trial.configuration))
            samples = samplers * sampled_s / self.experiment.sample_period_s
            trials += TRIAL_BYTES + CLIENT_BYTES * trial.jobs + SAMPLE_BYTES * samples
        return round(MARGIN * trials) + LOW_BYTES + RESERVE_BYTES


def expanded(site: Site, experiment: Experiment, only: Sequence[str] = ()) -> Planned:
    """The plan, with all that the live pool and the storage can tell."""
    slots = matching_slots(site, site.pools)
    there = {} if isinstance(slots, str) else slots
    workers = {name: matching.machines for name, matching in there.items()}
    cores = {host: number for matching in there.values() for host, number in matching.cores.items()}
    sets, listed = experiment.used_replicas, catalogues(site, experiment)
    whole = {folder: entries for folder, entries in listed.items() if entries.keys() >= {*sets[folder].files}}
    plan = expand(site, experiment, workers, whole, cores, only)
    return Planned(plan, site, experiment, slots)


def matching_slots(site: Site, pools: Iterable[str]) -> dict[str, Slots] | str:
    """What the live pool has for each of a site's pools, or why it was not asked."""
    try:
        return {name: pool.matching_slots(site.pools[name].requirements) for name in pools}
    except PoolError as error:
        return str(error)


@dataclass(frozen=True)
class Finding:
    """One thing, on one host or at the site as a whole, what was seen of it, and what to do about it."""

    state: State
    thing: str
    seen: str
    remedy: str = ""
    host: str = ""
    indispensable: bool = False  # nothing can be run without it, whoever wants it all the same

    @property
    def line(self) -> str:
        state = "missing" if self.state == "bad" else self.state
        return f"{state}: {self.thing}: {self.seen}" + (f"; {self.remedy}" if self.remedy else "")


def table(findings: Iterable[Finding]) -> Iterator[str]:
    """A line for each, and one more for what to do; what is the same on several hosts is said once."""
    hosts: dict[Finding, list[str]] = {}
    for finding in findings:
        alike = Finding(finding.state, finding.thing, finding.seen, finding.remedy)
        hosts.setdefault(alike, []).extend([finding.host] if finding.host else [])
    for finding, where in hosts.items():
        # All the hosts that need something done are named; of many that are well some will do.
        named = where if finding.state == "bad" or len(where) <= HOSTS_SHOWN else where[: HOSTS_SHOWN - 1]
        more = f" and {len(where) - len(named)} more" if len(named) < len(where) else ""
        place = f" ({', '.join(named)}{more})" if where else ""
        yield f"{finding.state:<8}  {finding.thing}{place}: {finding.seen}"
        if finding.remedy and finding.state != "good":
            yield f"{'':<8}  → {finding.remedy}"


def preflight(planned: Planned, call: str, directory: Path = Path("runs")) -> list[Finding]:
    """All that is not good; `call` is what the user has typed."""
    findings = (*replicas_there(planned.plan, call), *checks(planned, directory))
    return [finding for finding in findings if finding.state != "good"]


def checks(planned: Planned, directory: Path = Path("runs")) -> Iterator[Finding]:
    """What is looked at before a run, and by the doctor."""
    site, experiment = planned.site, planned.experiment
    yield from enough_slots(planned)
    yield from long_enough(planned)
    yield from samplers_in_time(planned)
    yield from comparison(planned.plan)
    yield from checksums(planned.plan, experiment)
    chosen = {own.access for own in planned.plan.configurations}
    yield from credentials({name: site.access[name] for name in site.access if name in chosen}, planned.run_s)
    yield from open_secrets(site, experiment)
    yield disk_space(planned.run_bytes, directory)


def refuse(findings: Sequence[Finding], anyway: bool = False, tell: Callable[[str], None] | None = None) -> None:
    """UnmetNeed where something is missing; `anyway`, where it is indispensable. `tell` gets the others."""
    stops = [finding for finding in findings if finding.state == "bad" and (finding.indispensable or not anyway)]
    for finding in findings:
        if tell and finding not in stops:
            tell(finding.line)
    if stops:
        hint = "; nothing was submitted, --anyway does where it can be done" if tell and not anyway else ""
        raise UnmetNeed("; ".join(finding.line for finding in stops) + hint)


def enough_slots(planned: Planned) -> Iterator[Finding]:
    plan, slots = planned.plan, planned.slots
    if isinstance(slots, str):
        yield Finding("doubtful", "the live pool", f"was not asked: {slots}")
        return
    cores = {name: slots[name].cores for name in plan.pools}
    remedy = "make the batches smaller, or have the workers advertise more (NUM_CPUS)"
    site, experiment = planned.site, planned.experiment
    for own in plan.configurations:
        if experiment.at(own.levels).cores == "pinned":  # slots may be more than cores, but no core is two clients'
            remedy = "make the batches smaller: a pinned client has a core of its own"
            beside = beside_clients(site, experiment, plan, own)
            most = {host: number + beside[host] for host, number in slots[own.pool].detected.items()}
            cores[own.pool] = {host: min(number, most.get(host, number)) for host, number in cores[own.pool].items()}
    memory = {name: slots[name].memory_mb for name in plan.pools}
    for problem in slot_problems(site, experiment, plan, cores):
        yield Finding("bad", "slots", problem, remedy)
    for problem in memory_problems(experiment, plan, cores, memory):
        yield Finding("bad", "slots", problem, "make the batches smaller, or set memory_mb of the workload lower")


def samplers_in_time(planned: Planned) -> Iterator[Finding]:
    """Machines where a sampler may wait for its core, since so many clients run beside it."""
    plan, site, slots = planned.plan, planned.site, planned.slots
    if isinstance(slots, str):
        return
    crowds: dict[str, tuple[int, int]] = {}
    for trial in plan.trials:
        pool = trial.configuration.pool
        for host in {sampler.host for sampler in sampled_hosts(site, plan, trial.configuration)} & {*plan.pools[pool]}:
            clients, cores = math.ceil(trial.jobs / len(plan.pools[pool])), slots[pool].detected.get(host, 0)
            if cores and clients > CLIENTS_PER_CORE * cores:
                crowds[host] = max(crowds.get(host, (0, 0)), (clients, cores))
    for machine, (clients, cores) in crowds.items():
        seen = f"{clients} clients run beside it on {cores} cores, so it may get no core for seconds"
        seen += " (96 a core were sampled in time, 500 were not)"
        first = "give HTCondor's unit there LimitNICE=-10 (`systemctl edit condor`), which lets it go first"
        yield Finding("doubtful", "sampler", seen, f"{first}, or take fewer clients or more workers", machine)


def long_enough(planned: Planned) -> Iterator[Finding]:
    """Trials that, as far as the links tell, are over before enough samples are taken.

    Of a scale model the links do not tell it: there clients wait more for other things.
    """
    # Here and not above: it loads numpy, which takes a while and which other commands do not need.
    from tierbench.postprocess.verdict.sampling_rules import few_samples

    plan, experiment, limit = planned.plan, planned.experiment, few_samples.limits.suspect
    if plan.scale != 1 or experiment.measure == "operations" or limit is None:
        return
    shares = []
    for trial in plan.trials:
        reading_s = planned.trial_s(trial) - OVERHEAD_S
        period_s = experiment.at(trial.configuration.levels).sample_period_s
        if 0 < reading_s < 100 * period_s / limit:
            shares.append((100 * period_s / reading_s, reading_s, period_s))
    if shares:
        share, reading_s, period_s = max(shares)
        seen = f"at the links' full rate {len(shares)} trials are too short: the shortest reads for {reading_s:.1f} s"
        part = f"a sampling period of {period_s:g} s is {share:.0f} % (verdict: {few_samples.name}, {limit:g} %)"
        remedy = f"make size_mb {math.ceil(share / limit)} times as large, or sample_period_s shorter"
        yield Finding("doubtful", "length of trials", f"{seen}, of which {part}", remedy)


def comparison(plan: Plan) -> Iterator[Finding]:
    """That no trial has another one to be compared with."""
    lines, panels = plan.report.lines, (*plan.report.panels, plan.report.x)
    lines_at: dict[tuple[object, ...], set[object]] = {}
    for trial in plan.trials:
        levels: dict[str, object] = {**trial.levels, PAIR: (trial.configuration.access, trial.configuration.workload)}
        lines_at.setdefault(tuple(levels[name] for name in panels), set()).add(levels[lines])
    if all(len(compared) == 1 for compared in lines_at.values()):
        nothing = f"nothing will be compared: nowhere do trials differ in {lines} alone"
        remedy = "give the experiment another access, or say in [report] what the lines are"
        yield Finding("doubtful", "comparison", nothing, remedy)


def replicas_there(plan: Plan, call: str) -> Iterator[Finding]:
    for name, replicas in plan.replicas.items():
        if replicas.sizes is None and replicas.lies_ready:
            making = f"where the storage is mounted, `tierbench replicas {call}` makes what of them is missing"
            seen = f"not in {replicas.directory}, or not of all {replicas.count} files"
            yield Finding("bad", f"the catalogue of replicas {name}", seen, making)


def checksums(plan: Plan, experiment: Experiment) -> Iterator[Finding]:
    """Workloads that compare what they read with a catalogue that is not at hand: each trial of theirs would fail."""
    (option,) = CHECKSUM
    for folder, replicas in plan.replicas.items():
        uses = [use for use in experiment.uses() if use.replicas.folder == folder]
        asking = sorted({use.name for use in uses if getattr(use.workload.options, option, False)})
        if asking and replicas.checksums is None and replicas.lies_ready:
            thing, remedy = f"workloads.{', '.join(asking)}", "make them first, or leave it out"
            seen = f"{option} = true compares with the catalogue of replicas {folder}, which is not at hand here"
            yield Finding("bad", thing, seen, remedy, indispensable=True)


def credentials(accesses: Mapping[str, Access], needed_s: float) -> Iterator[Finding]:
    """Of the tokens and proxies that clients are to show: are they there, nobody else's to read, and lasting?"""
    for name, access in accesses.items():
        for kind, path in access.secrets.items():
            state, seen, why = judged(kind, Path(path), needed_s)
            yield Finding(cast("State", state), f"access {name}, its {kind}", seen, REMEDIES.get(f"{kind} {why}", ""))
        for token in (access.token, access.to and access.to.token):
            if token and token.condor:
                yield _stored(name, token.condor)


def _stored(access: str, service: str) -> Finding:
    """Whether HTCondor's credential daemon here has what it makes jobs' tokens of: DAGMan cannot ask for it."""
    thing, remedy = f"access {access}, its token", "store it before (`condor_store_cred`, `condor_vault_storer`)"
    try:
        answer = run_program("condor_store_cred", "query-oauth", "-s", service)
    except OSError as error:
        return Finding("doubtful", thing, f"HTCondor's credential daemons ({service}) were not asked: {error}", remedy)
    if answer.status == 0:
        return Finding("good", thing, f"HTCondor has a credential for {service}")
    if NOT_STORED in answer.output:
        return Finding("bad", thing, f"HTCondor has no credential for {service}, so it takes no job", remedy)
    return Finding("doubtful", thing, f"`condor_store_cred query-oauth -s {service}`: {answer.last_words}", remedy)


def open_secrets(site: Site, experiment: Experiment) -> Iterator[Finding]:
    """Variables whose values look like secrets and would be in the run directory."""
    environments: dict[str, Mapping[str, object]] = {}
    for use in experiment.uses():
        environments[f"workloads.{use.name}"] = use.workload.environment
        for option, value in dataclasses.asdict(use.workload.options).items():
            if isinstance(value, str) and (JSON_WEB_TOKEN.search(value) or BEARER.search(value)):
                seen, remedy = f"holds {EXPOSED}", "have the command read it from a file"
                yield Finding("doubtful", f"workloads.{use.name}.options.{option}", seen, remedy)
        environments[f"access.{use.access}"] = site.access[use.access].environment
    for place, environment in environments.items():
        # Only an experiment's variables may be secret ones; an access method has tokens by name.
        instead = '{name} = {{ from_file = "/a/path" }}' if place[0] == "w" else 'token = {{ file = "/a/path" }}'
        for name, value in environment.items():
            if isinstance(value, str) and (SECRET_NAME.search(name) or JSON_WEB_TOKEN.match(value)):
                seen = f"is {EXPOSED}"
                remedy = f"say where it is instead: {instead.format(name=name)}"
                yield Finding("doubtful", f"{place}.environment.{name}", seen, remedy)


def disk_space(needed: int, directory: Path) -> Finding:
    """Whether a run fits on the disk of a directory that is to be made."""
    there = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    free = free_bytes(there)
    if free >= needed:
        return Finding("good", "disk", f"there is room for a run directory of up to {needed / 1e6:.0f} MB")
    seen = f"the run takes up to {needed / 1e6:.0f} MB and {free / 1e6:.0f} MB are free for {directory}"
    return Finding("bad", "disk", seen, "make room, or run it on another disk (--into)", indispensable=True)
