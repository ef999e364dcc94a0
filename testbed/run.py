"""Run an experiment on a testbed from out here: replicas at the Tier-2, the run at the Tier-3, results home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tierbench import json_files, names
from tierbench.dags.clients import digest_of
from tierbench.dags.experiment import Experiment
from tierbench.dags.shipping import bundle
from tierbench.errors import ConfigError, HostError
from tierbench.interrupts import ASKING
from tierbench.site_configs.site import load_site
from tierbench.submit.planning import asked_experiment
from tierbench.testbed import terminal
from tierbench.testbed.copying import bring_home, give_to_caller, make_parents
from tierbench.testbed.host import RunningHost
from tierbench.testbed.rootfs import Say
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.settings import check_demands, demands, load, with_demands
from tierbench.testbed.testbed import SHIPPED, Testbed
from tierbench.testbed.topology import USER, Host, Topology

HOME = f"/home/{USER}"
ASKED_TO_END = tuple(128 + number for number in ASKING)  # what ends the watching, and not the run


def run(testbed: Testbed, experiment: str, into: Path, say: Say, anyway: bool = False) -> int:
    """Make the experiment's replicas, run it on the access point, copy the run directory to `into` and report on it."""
    if into.exists():
        raise ConfigError(f"{into}: is there already; a run gets a directory of its own (--into)")
    try:  # found out now, and not after the measurement
        make_parents(into)
    except OSError as error:
        raise ConfigError(f"{into.parent}: cannot be made: {error.strerror}; see --into") from None
    _see_to(testbed, experiment, say)
    experiment_here = asked_experiment(experiment)
    writer, access_point = testbed.host(testbed.topology.writer.name), testbed.host(ACCESS_POINT)
    if Path(experiment).is_file():
        experiment = _taken_along(Path(experiment), writer, access_point)
    there = _place(into)
    if access_point.succeeds("test", "-e", there):
        raise ConfigError(f"the testbed has a run {there} already; give this one another name with --into")
    say("replicas")
    definition = [experiment, "--site", "testbed"]
    status = _inside(writer, "replicas", *definition)
    if status in ASKED_TO_END:
        return status
    if status:
        raise HostError("the replicas could not be made, so nothing was run")
    for host, access in _copied(testbed.topology, experiment_here, writer.host):
        say(f"copies on {host.name}, for {access}")
        status = _inside(testbed.host(host.name), "replicas", *definition, "--access", access)
        if status:
            return status
    access_point.run("mkdir", "-p", f"{HOME}/runs", user=USER)
    say("run")
    status = _inside(access_point, "run", *definition, "--into", there, *(["--anyway"] if anyway else []))
    return _to_its_end(testbed, access_point, status, into, say)


def more(testbed: Testbed, number: int, into: Path, say: Say, anyway: bool = False) -> int:
    """Add repetitions to a run of this testbed's that has come home, and bring it home anew."""
    access_point, there = testbed.host(ACCESS_POINT), _place(into)
    if into.exists() and not (into / names.PLAN).is_file():
        raise ConfigError(f"{into}: is no run directory; --more takes one that has come home, or its name")
    if not access_point.succeeds("test", "-d", there):
        raise ConfigError(f"testbed {testbed.name!r} has no run {there} to add to; `tierbench testbed run` makes one")
    if into.exists() and not _same_run(access_point, there, into):
        raise ConfigError(f"{into}: is another run than {there} on testbed {testbed.name!r}")
    status = _inside(access_point, "run", "--more", str(number), there, *(["--anyway"] if anyway else []))
    if _is_home(access_point, there, into):
        return status
    return _to_its_end(testbed, access_point, status, into, say, anew=True)


def _copied(topology: Topology, experiment: Experiment, writer: Host) -> Iterator[tuple[Host, str]]:
    """The access methods of an experiment that have copies of their own, and the hosts where these are made."""
    for name, access in load_site(SHIPPED).access.items():
        if access.replicas is not None and any(use.access == name and use.replicas.made for use in experiment.uses()):
            workers = [worker for worker in topology.workers if worker.network_kind == access.pool]
            yield from ((host, name) for host in (workers if access.on_disk else [writer]))


def _see_to(testbed: Testbed, experiment: str, say: Say) -> None:
    """Have the testbed up, as the experiment needs it."""
    needed = demands(experiment)
    if testbed.exists:
        check_demands(testbed.settings, needed, testbed.name)
    else:
        testbed.up(with_demands(load(SHIPPED, []), needed, experiment), say)


def waits_for_us(testbed: Testbed, into: Path) -> bool:
    """Whether the testbed has a run that was submitted and has not come home."""
    return testbed.host(ACCESS_POINT).succeeds("test", "-e", f"{_place(into)}/{names.SUBMITTED}")


def attach(testbed: Testbed, into: Path, say: Say) -> int:
    """Watch a run that goes on in the testbed, and bring it home when it has ended."""
    access_point = testbed.host(ACCESS_POINT)
    there = _place(into)
    if not access_point.succeeds("test", "-d", there):
        raise ConfigError(f"testbed {testbed.name!r} has no run {there}; `tierbench testbed run` makes one")
    if into.exists() and (_is_home(access_point, there, into) or not _same_run(access_point, there, into)):
        raise ConfigError(f"{into}: is there already, so that run has come home")
    return _to_its_end(testbed, access_point, _inside(access_point, "watch", there), into, say, anew=True)


def _is_home(access_point: RunningHost, there: str, into: Path) -> bool:
    """Whether a run is here with all the trials that it has there."""
    return into.exists() and access_point.read(f"{there}/{names.PLAN}", USER) == (into / names.PLAN).read_bytes()


def _same_run(access_point: RunningHost, there: str, into: Path) -> bool:
    """Whether a run here is the one there, perhaps with fewer trials: its first trial ended as that one did."""
    first = json_files.read_table(into / names.PLAN)["trials"][0]["id"]
    outcome = f"{names.trial_directory(first)}/{names.OUTCOME}"
    here = into / outcome
    if not here.is_file() or not access_point.succeeds("test", "-f", f"{there}/{outcome}"):
        return False
    return access_point.read(f"{there}/{outcome}", USER) == here.read_bytes()


def _to_its_end(
    testbed: Testbed, access_point: RunningHost, status: int, into: Path, say: Say, anew: bool = False
) -> int:
    """Bring a run home that has ended, with a report on it; of one that goes on, say where."""
    there = _place(into)
    if status in ASKED_TO_END:
        if access_point.succeeds("test", "-e", f"{there}/{names.SUBMITTED}"):
            name = "" if testbed.name == "default" else f" --name {testbed.name}"
            say(f"the run goes on in the testbed, as {there} on {access_point.name}; from here:")
            say(f"  tierbench testbed attach {into}{name}    watches it again, and brings it home at its end")
            inside = f"tierbench testbed exec --user {USER}{name} {access_point.name} -- tierbench"
            say(f"  {inside} stop {there}    ends it")
        else:
            say("nothing was submitted")
        return status
    if access_point.succeeds("test", "-d", there):
        left = bring_home(access_point, there, into, USER, anew)
        say(f"the run directory is {into}" + (f"; no files, so left on the testbed: {', '.join(left)}" if left else ""))
        if (into / names.TRIALS_CSV).exists():
            # Here and not above: matplotlib takes a second to load.
            from tierbench.postprocess.report.write import run_report

            say(f"its report is {run_report(into, None, lambda _: None)}")
        give_to_caller(into)
    return status


def _place(into: Path) -> str:
    """Where on the access point a run lies that will be brought here."""
    return f"{HOME}/runs/{into.name}"


def _inside(host: RunningHost, *arguments: str) -> int:
    """The exit status of a tierbench command on a host, which speaks, and answers signals, for itself.

    It is apart from our terminal: a Ctrl-C would end those between it and us, and leave it alone in the testbed.
    """
    return terminal.run(host, ["tierbench", *arguments], USER, reads=False, signalled=_commands_of)


def _commands_of(pid: int) -> list[int]:
    """The tierbench among a process and its descendants; what is between it and us ends when it does."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    if words[1:3] == [b"-m", b"tierbench"]:
        return [pid]
    return [found for child in children for found in _commands_of(int(child))]


def _taken_along(definition: Path, *hosts: RunningHost) -> str:
    """Copy an experiment of the user's to the hosts, with its clients and their files; its path there."""
    copies = bundle(definition, PurePosixPath(HOME, definition.stem))
    clients = "".join(f"{digest_of(text)}\n" for place, text in copies.items() if place.suffix == ".py")
    for host in hosts:
        if clients:  # which were allowed here
            host.run("mkdir", "-p", f"{HOME}/.config/tierbench", user=USER)
            host.put(f"{HOME}/.config/tierbench/allowed", clients, user=USER)
        for place, content in copies.items():
            host.run("mkdir", "-p", str(place.parent), user=USER)
            host.put(str(place), content, user=USER)
    return str(next(iter(copies)))
