"""The side that talks to HTCondor: what the pool has, submit a DAG, ask after it, remove it."""

import os
import re
import shutil
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierbench.checked_text import Host, Name, shown
from tierbench.errors import TierbenchError
from tierbench.host import own_name

DAG = " && JobUniverse == 7"  # HTCondor's scheduler universe, DAGMan's
HOW_TO_GET_BINDINGS = "pip install 'htcondor>=24.12'"


class PoolError(TierbenchError):
    """HTCondor cannot be asked, or says no."""


@dataclass(frozen=True)
class Slots:
    """What matches a requirement in the live pool: the cores on each machine, as advertised and as they are."""

    cores: dict[str, int]
    detected: dict[str, int] = field(default_factory=dict)
    memory_mb: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.cores.values())

    @property
    def machines(self) -> tuple[str, ...]:
        return tuple(sorted(self.cores))


@contextmanager
def plain_errors(what: str) -> Iterator[Any]:
    """The bindings, with their errors as ours."""
    try:
        import htcondor2
    except ImportError:
        raise PoolError(f"cannot {what}: the HTCondor Python bindings are missing ({HOW_TO_GET_BINDINGS})") from None
    try:
        yield htcondor2
    except (htcondor2.HTCondorException, OSError, RuntimeError) as error:
        raise PoolError(f"cannot {what}: {' '.join(str(error).split())}") from None


@dataclass(frozen=True)
class Machine:
    host: str
    cores: int
    network: str


def all_machines() -> list[Machine]:
    networks = {_host(ad["Machine"]): _network(ad) for ad in _startds("true", ["Machine", "TierbenchNetwork"])}
    cores = matching_slots("true").cores
    return [Machine(host, cores.get(host, 0), networks[host]) for host in sorted(networks)]


def matching_slots(requirements: str) -> Slots:
    """The cores of the pool that a job with these requirements could ever get."""
    # The collector knows no TARGET, which is the slot where a job is matched: no slot would have any of its attributes.
    scope = r'("(?:[^"\\]|\\.)*")|\btarget\.'  # which a text may have in it
    requirements = re.sub(scope, lambda found: found[1] or "", requirements, flags=re.IGNORECASE)
    # Dynamic slots are parts of the partitionable ones, which count all cores; a backfill slot has the same ones again.
    whole = 'DynamicSlot =!= True && BackfillSlot =!= True && State =!= "Drained"'
    attributes = ["Machine", "PartitionableSlot", "TotalSlotCpus", "TotalSlotMemory", "DetectedCpus"]
    ads = _startds(f"({requirements}) && {whole}", attributes)
    cores: Counter[str] = Counter()
    memory_mb: Counter[str] = Counter()
    for ad in ads:
        # A slot that cannot be divided takes one job, however many cores it has.
        cores[_host(ad["Machine"])] += int(ad.get("TotalSlotCpus", 0)) if ad.get("PartitionableSlot") else 1
        memory_mb[_host(ad["Machine"])] += int(ad.get("TotalSlotMemory", 0))
    detected = {str(_host(ad["Machine"])): int(ad["DetectedCpus"]) for ad in ads if ad.get("DetectedCpus")}
    return Slots(dict(cores), detected, dict(+memory_mb))


def _startds(constraint: str, attributes: list[str]) -> list[Any]:
    with plain_errors("ask the pool for its slots") as htcondor2:
        return list(htcondor2.Collector().query(htcondor2.AdTypes.Startd, constraint, attributes))


def _host(machine: str) -> Host:
    """A machine of the pool, which says of itself what it is called."""
    try:
        return Host(machine)
    except ValueError as error:
        raise PoolError(f"a slot's Machine {error}; have it corrected, or leave it out by requirements") from None


def _network(ad: Any) -> str:
    """What a machine calls its network, which becomes part of a site's file."""
    network = ad.get("TierbenchNetwork", "")
    if not isinstance(network, str):  # as "public" is without its quotes, which equals no text
        raise PoolError(f'{ad["Machine"]}: TierbenchNetwork must be a text in "", not {network}; have it corrected')
    if network and not Name.fits(network):
        why = f"TierbenchNetwork must be {Name.must_be}, not {shown(network)}"
        raise PoolError(f"{ad['Machine']}: {why}; have it corrected")
    return network


def versions() -> tuple[str, str]:
    """The version of the bindings and of the scheduler that jobs are submitted to."""
    with plain_errors("ask the scheduler for its version") as htcondor2:
        schedds = htcondor2.Collector().locateAll(htcondor2.DaemonType.Schedd)
        here = htcondor2.Collector().locate(htcondor2.DaemonType.Schedd)
        version = here.get("CondorVersion") or schedds[0]["CondorVersion"]
        return htcondor2.version().split()[1], str(version).split()[1]


def submit_dag(dag: Path) -> int:
    """Submit a DAG, or what a rescue file says is left of it; the number of its cluster."""
    have_command_on_path()
    before = Path.cwd()
    os.chdir(dag.parent)  # a DAG's paths are relative to where it is submitted
    try:
        with plain_errors(f"submit {dag}") as htcondor2:
            description = htcondor2.Submit.from_dag(dag.name, {"update_submit": True})
            return int(htcondor2.Schedd().submit(description).cluster())
    finally:
        os.chdir(before)


def have_command_on_path() -> None:
    """The last step of each trial has our PATH, and finds on it the command that makes its tables."""
    command = Path(sysconfig.get_path("scripts"), "tierbench")
    if not shutil.which(command.name) and os.access(command, os.X_OK):
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{command.parent}"


def jobs(constraint: str, attributes: list[str]) -> list[dict[str, Any]]:
    with plain_errors("ask the scheduler for its queue") as htcondor2:
        return [dict(ad) for ad in htcondor2.Schedd().query(constraint, attributes)]


def is_elsewhere(host: str) -> bool:
    """Whether what was submitted on a host is in another queue than this one's."""
    hosts = (host.lower(), own_name().lower())
    if not all("." in name for name in hosts):  # no name server answered
        hosts = (hosts[0].partition(".")[0], hosts[1].partition(".")[0])
    return host != "" and hosts[0] != hosts[1]


def in_queue(cluster: int, directory: str | Path) -> bool:
    """Whether a DAG that was submitted in a directory, or below it, is there, or a job of it.

    What has its number elsewhere, or is no DAG, is somebody else's: a new queue counts anew.
    """
    return any(_is_below(directory, job) for job in jobs(_of_dag(cluster), ["ClusterId", "Iwd"]))


def _is_below(directory: str | Path, job: Mapping[str, Any]) -> bool:
    """By the names it had and has alone: who looks at a folder of somebody else's, on a dead mount, waits for ever."""
    there, own = Path(str(job.get("Iwd"))), Path(directory)
    return there.is_relative_to(own.absolute()) or there.is_relative_to(own.resolve())


def _of_dag(cluster: int) -> str:
    return f"(ClusterId == {cluster}{DAG}) || DAGManJobId =?= {cluster}"


def on_hold(cluster: int) -> list[str]:
    """In words, each DAGMan of a DAG that is on hold, so that nothing goes on."""
    there = jobs(f"({_of_dag(cluster)}){DAG} && JobStatus == 5", ["ClusterId", "HoldReason"])
    return [
        f"job {job['ClusterId']} of the run is on hold: {job.get('HoldReason', 'no reason given')};"
        f" `condor_release {job['ClusterId']}` lets it go on"
        for job in there
    ]


def act(action: str, constraint: str, reason: str) -> None:
    """Hold, Release, Remove or RemoveX jobs."""
    with plain_errors(f"{action.lower()} jobs ({constraint})") as htcondor2:
        result = htcondor2.Schedd().act(getattr(htcondor2.JobAction, action), constraint, reason=reason)
    if int(result.get("TotalPermissionDenied", 0)):
        raise PoolError(f"cannot {action.lower()} jobs ({constraint}): they are another user's")


def remove(cluster: int, reason: str) -> None:
    """Remove a submitted DAG; DAGMan then removes its jobs and runs its final nodes."""
    act("Remove", f"ClusterId == {cluster}{DAG}", reason)


def forget(cluster: int, directory: str | Path) -> list[int]:
    """Take a DAG and all that it has started in a directory out of the queue, ended or not; their clusters.

    What has its number elsewhere is somebody else's: a new queue counts anew.
    """

    def clusters(constraints: Iterable[str]) -> set[int]:
        there = jobs(" || ".join(constraints), ["ClusterId", "Iwd"])
        return {int(job["ClusterId"]) for job in there if _is_below(directory, job)}

    family, parents = {cluster}, {cluster}
    while parents:  # a DAG's jobs name it, and the DAGs of trials are such jobs
        parents = clusters(f"DAGManJobId =?= {parent}" for parent in sorted(parents)) - family
        family |= parents
    those = [f"ClusterId == {each}{DAG if each == cluster else ''}" for each in sorted(family)]
    left = sorted(clusters(those))
    for action in ("Remove", "RemoveX") if left else ():
        act(action, " || ".join(those), "tierbench stop")
    return left


def setting(name: str) -> str:
    """What HTCondor's configuration here says, or "" where it says nothing."""
    with plain_errors(f"read the setting {name}") as htcondor2:
        return str(htcondor2.param.get(name) or "")


def is_true_of(expression: str, attributes: dict[str, int]) -> bool:
    """Whether a ClassAd expression is true of a job with these attributes; one that cannot be read is not."""
    with plain_errors(f"evaluate {expression}"):
        import classad2

        with suppress(classad2.ClassAdException):
            return classad2.ExprTree(expression).eval(classad2.ClassAd(attributes)) is True
        return False


def submit(description: str) -> int:
    """Submit the text of a submit file; the number of its cluster."""
    with plain_errors("submit a job") as htcondor2:
        return int(htcondor2.Schedd().submit(htcondor2.Submit(description)).cluster())
