"""Which hosts the trials of a configuration flush, sample and run on, as lists that the submit files queue from."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tierbench import names, trials
from tierbench.dags.experiment import Experiment
from tierbench.dags.levels import level_text
from tierbench.dags.nodes import item
from tierbench.dags.plan import Configuration, Plan, Trial
from tierbench.dags.replicas import StreamedBytes
from tierbench.dags.trial_settings import EVENLY, place_lines, places
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Condition, Sampler, Site


class FlushedHost(NamedTuple):
    """A host whose caches a trial empties first, and where it sees the replicas ("" where it does not)."""

    host: str
    directory: str


def flushes(site: Site, experiment: Experiment, configuration: Configuration) -> bool:
    """Whether there are caches to empty: of workers that mount the storage, or of hosts on the way."""
    access = site.access[configuration.access]
    return experiment.flush and site.flush.strategy != "none" and (access.protocol == "file" or bool(access.path))


def flushed_hosts(site: Site, experiment: Experiment, plan: Plan, configuration: Configuration) -> list[FlushedHost]:
    """The workers of the configuration's pool, if they mount the storage, and the hosts of its access method's path.

    A storage server of it that another way of the plan empties keeps what any of them has read: it is emptied, too.
    """
    if not flushes(site, experiment, configuration):
        return []
    access = site.access[configuration.access]
    replicas = experiment.replicas_of(configuration.workload)
    files = plan.replicas[replicas.folder]
    place = access.place(files.directory) if files.lies_ready else ""  # of what is not there yet no cache has anything
    if isinstance(replicas, StreamedBytes) and replicas.reads:
        place = str(replicas.reads)
    workers = plan.pools[configuration.pool] if access.protocol == "file" else ()
    seen_by_workers = access.url(place) if place else ""
    every = dict.fromkeys([FlushedHost(host, seen_by_workers) for host in workers])
    emptied = {host for other in plan.configurations for host in site.access[other.access].path}
    servers = [own.host for own in sampled_hosts(site, plan, configuration) if own.role == "storage"]
    kept = [host for host in servers if host in emptied and host in (access.servers or servers) and host not in workers]
    path = [*access.path, *kept]
    every |= dict.fromkeys(FlushedHost(host, place) for host in path)
    worker = next((each.host for each in every if each.host in workers and each.host in path), None)
    if worker and len(every) > len({each.host for each in every}):
        why = f"is a worker of pools.{configuration.pool}, too, which sees the files at {seen_by_workers}"
        remedy = "leave it out of path, or out of the pool by its requirements"
        raise ConfigError(f"{site.name}: access.{configuration.access}.path: {worker} {why}; {remedy}")
    return list(every)


def sampled_hosts(site: Site, plan: Plan, configuration: Configuration) -> list[Sampler]:
    """Who is sampled during a trial: the site's hosts of its access method, and the workers of the trial's own pool."""
    workers = site.pools[configuration.pool].samplers(plan.pools[configuration.pool])
    # A worker whose disk is the storage is sampled as a worker, whatever else it is.
    disks = {sampler.host for sampler in workers} if site.access[configuration.access].on_disk else set()
    named = {sampler.host for sampler in site.samplers.values()} - disks
    of_site = (sampler for sampler in site.samplers.values() if sampler.is_of({configuration.access}))
    on_the_way = [sampler for sampler in of_site if sampler.host not in disks]
    return [*on_the_way, *(sampler for sampler in workers if sampler.host not in named)]


def ways_to_sample(site: Site, configuration: Configuration) -> list[str]:
    """How the sampled hosts are reached: as members of the pool, or over ssh."""
    workers = {"pool"} if site.pools[configuration.pool].interface else set()
    on_the_way = (sampler for sampler in site.samplers.values() if sampler.is_of({configuration.access}))
    return sorted({sampler.via for sampler in on_the_way} | workers)


def condition_hosts(condition: Condition, workers: Mapping[str, Iterable[str]]) -> list[str]:
    """The hosts that arrange it: those that the site names, and the workers of a pool."""
    return list(dict.fromkeys([*condition.hosts, *workers.get(condition.pool or "", ())]))


def arranged_hosts(site: Site, experiment: Experiment, plan: Plan) -> list[trials.Condition]:
    """Who has to change what before the trials of an experiment at one of its points."""
    arranged = []
    for name, value in experiment.conditions.items():
        condition = site.conditions[name]
        hosts = condition_hosts(condition, plan.pools)
        about = (level_text(value), condition.unit, condition.tolerance_pct, condition.link, condition.word)
        how = (condition.helper, condition.reads_only)
        arranged += [trials.Condition(f"{name}.{host}", name, host, *about, *how) for host in hosts]
    return arranged


def host_lists(
    site: Site, experiment: Experiment, plan: Plan, configuration: Configuration
) -> Iterator[tuple[str, str]]:
    """The lists of a configuration: the name of each in the run directory, and its text."""
    flushed = flushed_hosts(site, experiment, plan, configuration)
    if flushed:
        yield names.flush_list(configuration.id), "".join(item(*host) for host in flushed)
    arranged = arranged_hosts(site, experiment, plan)
    if arranged:
        lines = [item(own.name, own.host, own.condition, own.word, own.value, own.helper) for own in arranged]
        yield names.arranged_list(configuration.id), "".join(lines)
    sampled = sampled_hosts(site, plan, configuration)
    for via in ways_to_sample(site, configuration):
        there = [(own, own.requirements or f'Machine == "{own.host}"') for own in sampled if own.via == via]
        lines = [item(own.host, own.interfaces, own.role, requirements) for own, requirements in there]
        yield names.sampler_list(configuration.id, via), "".join(lines)


def place_lists(
    site: Site, experiment: Experiment, plan: Plan, configuration: Configuration
) -> Iterator[tuple[str, str]]:
    """The lists that the clients of a configuration's trials are queued from: one for each batch."""
    placement = experiment.at(configuration.levels).placement
    beside = beside_clients(site, experiment, plan, configuration)
    for jobs in dict.fromkeys(trial.jobs for trial in plan.trials_of(configuration)):
        where = places(placement, plan.pools[configuration.pool], jobs)
        needed = {host: clients + beside[host] for host, clients in Counter(where).items()}
        if placement == EVENLY and any(plan.cores.get(host, cores) < cores for host, cores in needed.items()):
            where = []
        yield names.place_list(configuration.id, jobs), place_lines(where, jobs, placement)


def beside_clients(site: Site, experiment: Experiment, plan: Plan, configuration: Configuration) -> Counter[str]:
    """How many slots of each worker other jobs of a trial have as long as its clients have theirs."""
    sampled = [sampler.host for sampler in sampled_hosts(site, plan, configuration) if sampler.via == "pool"]
    arranged = [condition.host for condition in arranged_hosts(site, experiment.at(configuration.levels), plan)]
    return Counter(host for host in [*sampled, *arranged] if host in plan.pools[configuration.pool])


def crowded(site: Site, experiment: Experiment, plan: Plan, trial: Trial) -> bool:
    """Whether its clients might leave one of its other jobs without a slot, as far as the pool is known."""
    workers, beside = plan.pools[trial.configuration.pool], beside_clients(site, experiment, plan, trial.configuration)
    before = 2  # the flush, and who makes the write area
    return any(plan.cores.get(host, 0) < trial.jobs + beside[host] + before for host in workers or [""])


def slot_problems(
    site: Site, experiment: Experiment, plan: Plan, cores: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """Why trials would wait for slots that their own jobs hold, by what each worker of each pool has."""
    for pool, there in cores.items():
        configurations = [configuration for configuration in plan.configurations if configuration.pool == pool]
        if not configurations:
            continue
        besides = [beside_clients(site, experiment, plan, configuration) for configuration in configurations]
        largest, beside = _largest(plan, pool), max(besides, key=Counter.total)
        total, others = sum(there.values()), _others(beside.total())
        if total < largest + beside.total():
            yield f"pool {pool} has {total} cores for a batch of {largest}{others}"
        clients: Counter[str] = Counter()
        flushing: set[str] = set()
        for configuration in configurations:
            at_point = experiment.at(configuration.levels)
            flushing |= {host.host for host in flushed_hosts(site, at_point, plan, configuration)}
            for trial in plan.trials_of(configuration) if at_point.placement != EVENLY else ():
                clients |= Counter(places(at_point.placement, plan.pools[pool], trial.jobs))
        for host in plan.pools[pool]:
            others, has = _others(beside[host]), there.get(host, 0)
            if clients[host] and has < clients[host] + beside[host]:
                yield f"{host} has {has} cores for the {clients[host]} clients that are placed there{others}"
            elif host in flushing and has < beside[host] + 1:
                yield f"{host} has {has} cores for its flush{others}"


def _others(jobs: int) -> str:
    return f" beside {jobs} jobs that sample or set conditions" if jobs else ""


def memory_problems(
    experiment: Experiment, plan: Plan, cores: Mapping[str, Mapping[str, int]], memory: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """Batches for which a pool has cores, and no memory."""
    short: dict[str, tuple[int, str]] = {}  # by pool, where most is missing
    for trial in plan.trials:
        own = trial.configuration
        asked_mb = experiment.at(own.levels).workloads[own.workload].asks_mb(trial.work.processes)
        there = memory.get(own.pool, {})
        places = sum(min(number, there.get(host, 0) // asked_mb) for host, number in cores[own.pool].items())
        wanted = min(trial.jobs, sum(cores[own.pool].values()))
        if there and wanted - places > short.get(own.pool, (0, ""))[0]:
            words = f"has memory for {places} clients, which ask for {asked_mb} MB each, and not for {wanted}"
            short[own.pool] = wanted - places, f"pool {own.pool} {words}"
    yield from (words for _, words in short.values())


def _largest(plan: Plan, pool: str) -> int:
    return max(trial.jobs for trial in plan.trials if trial.configuration.pool == pool)
