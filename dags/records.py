"""What a trial's own files say: trial.json, from which all that runs and reads takes it, replicas.txt, outcome.json."""

import dataclasses
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tierbench import json_files, names, trials
from tierbench.dags import credentials
from tierbench.dags.clients import Workload
from tierbench.dags.credentials import Secret
from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import arranged_hosts, flushed_hosts, sampled_hosts
from tierbench.dags.limits import limits
from tierbench.dags.nodes import rows
from tierbench.dags.plan import Plan, ReplicaSet, Trial
from tierbench.dags.trial_settings import EVENLY, Until, least_repeats, placement_text, places
from tierbench.json_files import Damaged
from tierbench.site_configs.site import Access, Site
from tierbench.trials import Outcome

DAMAGED = "damaged"


def trial_record(site: Site, experiment: Experiment, plan: Plan, trial: Trial, run: str = "") -> dict[str, Any]:
    """The content of trial.json; `run` names the folder in which the run's trials write, if they do."""
    configuration = trial.configuration
    access = site.access[configuration.access]
    workload = experiment.workloads[configuration.workload]
    traits = workload.declared.traits(dataclasses.asdict(workload.options))
    if access.to:  # no process of its clients sees the bytes
        traits = {**traits, "does": "copies", "taken_in": "bytes_app"}
    caches, samplers = flushed_hosts(site, experiment, plan, configuration), sampled_hosts(site, plan, configuration)
    where: list[str] = []  # evenly is a wish: who has run elsewhere has not run where it must not
    if experiment.placement != EVENLY:
        where = places(experiment.placement, plan.pools[configuration.pool], trial.jobs)
    record = trials.Trial(
        id=trial.id,
        name=trial.name,
        index=trial.index,
        configuration=configuration.name,
        access=configuration.access,
        workload=configuration.workload,
        client=configuration.client,
        traits=traits,
        jobs=trial.jobs,
        repeat=trial.repeat,
        levels=dict(trial.levels),
        pool=configuration.pool,
        requirements=site.pools[configuration.pool].requirements,
        protocol=access.protocol,
        credentials=credentials.of(access),
        workers=plan.pools[configuration.pool],
        flush=trials.Flush(site.flush.strategy if caches else "none", [cache.host for cache in caches]),
        samplers=[trials.Sampler(own.host, own.role, own.via, own.interfaces) for own in samplers],
        sample_period_s=experiment.sample_period_s,
        start=experiment.begins,
        placement=trials.Placement(placement_text(experiment.placement), where, experiment.cores == "pinned"),
        limits=limits(experiment, trial.jobs),
        until_known=isinstance(experiment.repeats, Until),
        until_answered=(answered := isinstance(experiment.repeats, Until) and bool(experiment.repeats.until)),
        after_look=answered and trial.repeat > least_repeats(experiment.repeats),
        copied_to=access.to.host if access.to else None,
        on_disk=access.on_disk,
        servers=access.servers,
        path=access.path,
        streamed=plan.replicas[trial.replicas].streamed,
        options={
            **_options(configuration.workload, workload, access),
            "scale": plan.scale,
            "core": site.core,
            "to": access.to.url if access.to else "",
            **({"proxy": ",".join(access.proxies)} if access.proxy else {}),
        },
        bytes=trial.bytes,
        work=trial.work,
        writes=_write_area(access, plan, trial, run, trial.files * workload.entries),
        conditions=arranged_hosts(site, experiment, plan),
    )
    return trials.to_record(record)


def _write_area(access: Access, plan: Plan, trial: Trial, run: str, entries: int) -> dict[str, Any] | None:
    """Where a trial writes, as its clients name it, how much, and what is looked at afterwards; None if it reads."""
    written = plan.replicas[trial.replicas].written
    if written is None or access.writes is None:
        return None
    area, room = names.write_area(access.writes, run, trial.id), {"bytes": trial.bytes, "entries": entries}
    return {"under": access.url(access.writes), "url": access.url(area), **room, "check": written.check}


class ReplicaLists:
    """The text of replicas.txt for any trial: a line for each file of each client, client by client.

    It has the file's URL, its size and its adler32; the size is left empty, and the checksum out, where the catalogue
    was not at hand. Of what is written there is no checksum; where clients share a file, a fourth column says from
    which byte on each writes.
    """

    def __init__(self, site: Site, plan: Plan, run: str = "") -> None:
        self._site, self._plan, self._run = site, plan, run
        self._lines: dict[tuple[str, str, int], list[str]] = {}

    def text(self, trial: Trial) -> str:
        files = self._plan.replicas[trial.replicas]
        if files.written:
            return "".join(self._to_write(trial))
        if files.streamed:
            return "".join(self._to_stream(trial, files))
        each = trial.work.files_per_job
        own = [line for job in range(trial.jobs) for line in self._of_job(trial, job, trial.offset + job * each, each)]
        return "".join(own if trial.work.order == "listed" else self._shuffled(trial, own))

    def _of_job(self, trial: Trial, job: int, first: int, each: int) -> list[str]:
        """So many files in turn, as this client names them."""
        access = self._site.access[trial.configuration.access]
        key = (trial.configuration.access, trial.replicas, job % len(access.prefixes))
        if key not in self._lines:
            self._lines[key] = _lines(access, self._plan.replicas[trial.replicas], key[2])
        lines = self._lines[key]
        return [lines[place % len(lines)] for place in range(first, first + each)]

    def _shuffled(self, trial: Trial, lines: list[str]) -> Iterator[str]:
        """Each job's lines in an order of its own, the same whenever the plan is written."""
        each = trial.work.files_per_job
        for job in range(trial.jobs):
            of_job = lines[job * each : (job + 1) * each]
            random.Random(f"{self._plan.seed} {trial.id} {job}").shuffle(of_job)  # noqa: S311
            yield from of_job

    def _to_write(self, trial: Trial) -> list[str]:
        """What each client is to write: where, how much, and from which byte on."""
        files, access = self._plan.replicas[trial.replicas], self._site.access[trial.configuration.access]
        assert files.written is not None and access.writes is not None  # noqa: S101 - or there were no such trial
        where = access.url(names.write_area(access.writes, self._run, trial.id))
        size, everything, pattern = files.nominal_bytes, trial.jobs * files.nominal_bytes, files.written.pattern
        if pattern == "multifile":
            return rows([f"{where}/{file}" for file in files.first(trial.files)], [str(size)] * trial.files)
        shared = [f"{where}/{files.first(1)[0]}"] * trial.jobs
        if pattern == "serial":
            return rows(shared, [str(everything), *["0"] * (trial.jobs - 1)])
        offsets = [str(number * size) for number in range(trial.jobs)]
        return rows(shared, [str(size)] * trial.jobs, [""] * trial.jobs, offsets)

    def _to_stream(self, trial: Trial, streamed: ReplicaSet) -> list[str]:
        """The server of each client and how many bytes are to go; nothing of them where its client says how long."""
        access = self._site.access[trial.configuration.access]
        each = trial.work.files_per_job
        urls = [access.url(f"/{file}", place // each) for place, file in enumerate(streamed.first(trial.files))]
        return rows(urls, [str(streamed.nominal_bytes or "")] * trial.files)


def _lines(access: Access, replicas: ReplicaSet, client: int) -> list[str]:
    where = f"{access.url(access.place(replicas.directory), client)}/"
    sizes = [""] * replicas.count if replicas.sizes is None else [str(size) for size in replicas.sizes]
    checksums = [replicas.checksums] if replicas.checksums else []
    return rows([where + file for file in replicas.files], sizes, *checksums)


def _options(name: str, workload: Workload, access: Access) -> Mapping[str, Any]:
    own = workload.environment.items()
    environment = {**access.environment, **{name: v.record if isinstance(v, Secret) else v for name, v in own}}
    options = {**dataclasses.asdict(workload.options), "environment": environment}
    files = {option: names.option_file(name, path) for option, path in workload.option_files.items() if path}
    return options | files  # which travel with the programs


def read_outcome(trial: Path) -> Outcome | None:
    """The outcome of the trial in this folder; None where it has none yet."""
    try:
        return json_files.read_as(Outcome, trial / names.OUTCOME, names.OUTCOME)
    except FileNotFoundError:
        return None
    except Damaged as error:
        return Outcome(DAMAGED, [str(error)])
