"""Run an experiment on a testbed from out here: replicas at the Tier-2, the run at the Tier-3, results home.

A run is read there by the host's own user, and made here of nothing but files and folders: nothing that the host's user
has put there can lead anywhere else. Links, devices and strange names stay behind.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from tierbench import files, json_files, names
from tierbench.dags.clients import digest_of
from tierbench.dags.experiment import Experiment, shipped_experiments
from tierbench.dags.shipping import bundle
from tierbench.errors import ASKING, BusyError, ConfigError, HostError
from tierbench.site_configs.site import load_site
from tierbench.submit.planning import asked_experiment
from tierbench.submit.repetitions import check_experiment, definitions_of
from tierbench.testbed import terminal
from tierbench.testbed.host import RunningHost
from tierbench.testbed.rootfs import Say
from tierbench.testbed.services import topology
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.settings import Settings, check_demands, demands, load, recorded, with_demands
from tierbench.testbed.testbed import SHIPPED, Testbed, offered
from tierbench.testbed.topology import USER, Host, Topology

HOME = f"/home/{USER}"
ASKED_TO_END = tuple(128 + number for number in ASKING)  # what ends the watching, and not the run
DEEPEST, LONGEST = 30, 3000  # of paths in a run, far beyond any that a run has
SPARE_BYTES = 1 << 28  # that a disk keeps, whatever comes home
UNREADABLE = re.compile(r"^tar: (.+?): Warning: Cannot ", re.MULTILINE)
CHANGED = 1  # tar's exit status where a file has changed as it was read: the run may be going on


def run(
    testbed: Testbed, experiment: str, into: Path, say: Say, anyway: bool = False, overrides: Sequence[str] = ()
) -> int:
    """Make the experiment's replicas, run it on the access point, copy the run directory to `into` and report on it."""
    experiment_here = asked_experiment(experiment)
    if into.exists():
        raise ConfigError(f"{into}: is there already; a run gets a directory of its own (--into)")
    try:  # found out now, and not after the measurement
        make_parents(into)
    except OSError as error:
        raise ConfigError(f"{into.parent}: cannot be made: {error.strerror}; see --into") from None
    _have_testbed(testbed, experiment, overrides, experiment_here, say)
    access_point = testbed.host(ACCESS_POINT)
    if Path(experiment).is_file():
        copying = [host for host, _ in _copies(testbed.topology, experiment_here, testbed.topology.writer)]
        hosts = {host.name: None for host in (testbed.topology.writer, *copying)}
        experiment = _take_along(Path(experiment), access_point, *map(testbed.host, hosts))
    remote = _place(into)
    if access_point.succeeds("test", "-e", remote):
        raise ConfigError(f"the testbed has a run {remote} already; give this one another name with --into")
    definition = [experiment, "--site", "testbed"]
    status = _make_replicas(testbed, definition, experiment_here, say)
    if status:
        return status
    access_point.run("mkdir", "-p", f"{HOME}/runs", user=USER)
    say("run")
    status = _inside(access_point, "run", *definition, "--into", remote, *(["--anyway"] if anyway else []))
    return _to_its_end(testbed, access_point, status, into, say)


def _make_replicas(testbed: Testbed, definition: Sequence[str], experiment: Experiment, say: Say) -> int:
    """On the storage, and where access methods have copies of their own; 0, or the status of who is asked to end."""
    writer = testbed.topology.writer
    say("replicas")
    status = _inside(testbed.host(writer.name), "replicas", *definition)
    if status not in (0, *ASKED_TO_END):
        raise HostError("the replicas could not be made, so nothing was run")
    for host, access in _copies(testbed.topology, experiment, writer):
        if status:
            break
        say(f"copies on {host.name}, for {access}")
        status = _inside(testbed.host(host.name), "replicas", *definition, "--access", access)
    return status


def more(testbed: Testbed, number: int, into: Path, say: Say, anyway: bool = False) -> int:
    """Add repetitions to a run that has come home, and bring it home anew; if its testbed is gone, on one like it."""
    into = into.absolute()
    if into.exists() and not (into / names.PLAN).is_file():
        raise ConfigError(f"{into}: is no run directory; --more takes one that has come home, or its name")
    if number < 1:
        raise ConfigError(f"--more {number}: must be 1 or more")
    remote = _place(into)
    testbed.check_up()
    if not testbed.exists or testbed.host(ACCESS_POINT).run("test", "-d", remote, check=False).returncode:
        status = _put_back(testbed, into, say)
        if status:
            return status
    access_point = testbed.host(ACCESS_POINT)
    if into.exists() and not _same_run(access_point, remote, into):
        raise ConfigError(f"{into}: is another run than {remote} on testbed {testbed.name!r}")
    before = _submitted(access_point, remote)
    status = _inside(access_point, "run", "--more", str(number), remote, *(["--anyway"] if anyway else []))
    if _submitted(access_point, remote) == before:
        say("nothing was submitted")
        return status
    return _to_its_end(testbed, access_point, status, into, say, anew=True)


def _submitted(access_point: RunningHost, remote: str) -> str:
    """What a run there says of the job that it has become; nothing where it has become none."""
    return access_point.run("cat", f"{remote}/{names.SUBMITTED}", user=USER, check=False).stdout


def _put_back(testbed: Testbed, into: Path, say: Say) -> int:
    """Have a testbed like that of a run, its replicas and the run as it came home; 0, or the status of who ended it."""
    if not into.exists():
        missing = f"{into}: there is no such run, here or on testbed {testbed.name!r}"
        raise ConfigError(f"{missing}; `tierbench testbed run EXPERIMENT` makes one")
    name, record = definitions_of(into).experiment, into / names.TESTBED
    if not record.is_file():
        why = "nothing tells the settings of its testbed, for it came from none, or by an earlier tierbench"
        raise ConfigError(f"{into}: {why}: run it anew")
    if name not in shipped_experiments():
        raise ConfigError(f"{into}: its experiment was a file of yours, which has gone with its testbed: run it anew")
    experiment = asked_experiment(name)
    check_experiment(into, experiment)
    if any(replicas.kind == "rntuple" for replicas in experiment.used_replicas.values()):
        raise ConfigError(f"{into}: its RNTuples have gone with its testbed, and would be other bytes: run it anew")
    settings = recorded(record)
    if not testbed.exists:
        testbed.up(settings, say)
    elif testbed.settings != settings:
        another = "give --name another one, which is brought up like that, or take it down first"
        raise BusyError(f"testbed {testbed.name!r} is up, and is not like the one of {into}: {another}")
    status = _make_replicas(testbed, [name, "--site", "testbed"], experiment, say)
    if status:
        return status
    say(f"{into} goes back")
    access_point, remote = testbed.host(ACCESS_POINT), _place(into)
    unfinished = f"{remote}.unfinished"
    access_point.run("sh", "-euc", 'rm -rf "$0" && mkdir -p "$0"', unfinished, user=USER)
    pack = ["tar", "-C", str(into), f"--exclude=./{names.SUBMITTED}", "-cf", "-", "."]  # its job is in no queue here
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as sending:
        unpack = access_point.command(["tar", "-C", unfinished, "-xf", "-"], USER)
        ended = subprocess.run(unpack, stdin=sending.stdout, capture_output=True, text=True, check=False)
    if sending.returncode or ended.returncode:
        raise HostError(f"{into} could not be copied to {access_point.name}: {ended.stderr.strip()}")
    access_point.run("mv", "-T", unfinished, remote, user=USER)
    return 0


def _copies(topology: Topology, experiment: Experiment, writer: Host) -> Iterator[tuple[Host, str]]:
    """The access methods of an experiment that have copies of their own, and the hosts where these are made."""
    for name, access in load_site(SHIPPED).access.items():
        if access.replicas is not None and any(use.access == name and use.replicas.made for use in experiment.uses()):
            yield from ((host, name) for host in (topology.pool(access.pool) if access.on_disk else [writer]))


def _have_testbed(testbed: Testbed, name: str, overrides: Sequence[str], experiment: Experiment, say: Say) -> None:
    """Have the testbed up, as the experiment and the command line want it, if all ways are there then."""
    needed = demands(name, overrides)
    testbed.check_up()
    if testbed.exists:
        check_demands(testbed.settings, needed, testbed.name)
        settings = testbed.settings
    else:
        settings = with_demands(load(SHIPPED, []), needed, " --set ".join([name, *overrides]))
    if words := "; ".join(missing_access(settings, experiment)):
        raise ConfigError(f"{name}: {words}. What a testbed has is set by --set and an experiment's .testbed.toml")
    if not testbed.exists:
        testbed.up(settings, say)


def missing_access(settings: Settings, experiment: Experiment) -> Iterator[str]:
    """What of an experiment a testbed with these settings does not have: servers, or workers."""
    access_there = tomllib.loads(offered(SHIPPED.read_text(encoding="utf-8"), settings))["access"]
    methods = load_site(SHIPPED).access
    for access in dict.fromkeys(use.access for use in experiment.uses()):
        if access in methods and access not in access_there:
            yield f"access method {access} leads to a server that such a testbed lacks"
        elif access in methods and not topology(settings).pool(methods[access].pool):
            yield f"access method {access} is for workers of pool {methods[access].pool}, and such a testbed has none"


def waits_for_us(testbed: Testbed, into: Path) -> bool:
    """Whether the testbed has a run that was submitted and has not come home."""
    return testbed.host(ACCESS_POINT).succeeds("test", "-e", f"{_place(into)}/{names.SUBMITTED}")


def attach(testbed: Testbed, into: Path, say: Say) -> int:
    """Watch a run that goes on in the testbed, and bring it home when it has ended."""
    into = into.absolute()
    testbed.check_up()
    access_point, remote = testbed.host(ACCESS_POINT), _place(into)
    if not access_point.succeeds("test", "-d", remote):
        raise ConfigError(f"testbed {testbed.name!r} has no run {remote}; `tierbench testbed run` makes one")
    if into.exists() and _is_home(access_point, remote, into):
        raise ConfigError(f"{into}: is there already, so that run has come home; move it away to fetch it anew")
    if into.exists() and not _same_run(access_point, remote, into):
        raise ConfigError(f"{into}: is another run than {remote} on testbed {testbed.name!r}; move it away")
    return _to_its_end(testbed, access_point, _inside(access_point, "watch", remote), into, say, anew=True)


def _is_home(access_point: RunningHost, remote: str, into: Path) -> bool:
    """Whether a run is here with all the trials that it has there, and was not submitted once more since."""
    return all(
        access_point.read(f"{remote}/{name}", USER) == (into / name).read_bytes()
        for name in (names.PLAN, names.SUBMITTED) if (into / name).is_file()
    )  # fmt: skip


def _same_run(access_point: RunningHost, remote: str, into: Path) -> bool:
    """Whether a run here is the one there, perhaps with fewer trials: one of its trials ended as it did there."""
    ids = [trial["id"] for trial in json_files.read_table(into / names.PLAN)["trials"]]
    outcomes = [f"{names.trial_directory(trial)}/{names.OUTCOME}" for trial in ids]
    return any(
        access_point.succeeds("test", "-f", f"{remote}/{outcome}")
        and access_point.read(f"{remote}/{outcome}", USER) == (into / outcome).read_bytes()
        for outcome in outcomes if (into / outcome).is_file()
    )  # fmt: skip


def _to_its_end(
    testbed: Testbed, access_point: RunningHost, status: int, into: Path, say: Say, anew: bool = False
) -> int:
    """Bring a run home that has ended, with a report on it; of one that goes on, say where."""
    remote = _place(into)
    if status in ASKED_TO_END:
        if access_point.succeeds("test", "-e", f"{remote}/{names.SUBMITTED}"):
            name = "" if testbed.name == "default" else f" --name {testbed.name}"
            say(f"the run goes on in the testbed, as {remote} on {access_point.name}; from here:")
            say(f"  tierbench testbed attach {into}{name}    watches it again, and brings it home at its end")
            inside = f"tierbench testbed exec --user {USER}{name} {access_point.name} -- tierbench"
            say(f"  {inside} stop {remote}    ends it")
        else:
            say("nothing was submitted")
        return status
    if access_point.run("test", "-d", remote, check=False).returncode == 0:  # no answer is an error, and no "no"
        leftovers = bring_home(access_point, remote, into, USER, anew)
        json_files.write(into / names.TESTBED, testbed.settings)
        note = f"; no files, so left on the testbed: {', '.join(leftovers)}" if leftovers else ""
        say(f"the run directory is {into}{note}")
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
    for process in (pid, *terminal.descendants(pid)):
        with contextlib.suppress(OSError):  # it has ended
            if Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[1:3] == [b"-m", b"tierbench"]:
                return [process]
    return []


def _take_along(definition: Path, *hosts: RunningHost) -> str:
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


def bring_home(host: RunningHost, remote: str, into: Path, user: str, anew: bool = False) -> list[str]:
    """Copy a folder of a host's user to a new one here; the names of what is no file or folder and was left there.

    It has its name when it is whole: what was broken off is not taken for the run.
    Anew, it takes the place of what it was.
    """
    make_parents(into)
    unfinished = into.with_name(f".{into.name}.{os.getpid()}")
    unfinished.mkdir()
    try:
        leftovers = _receive(host, remote, unfinished, user)
        before = into.with_name(f".{into.name}.before")
        if anew and into.exists():
            if before.exists():  # which was broken off as it was removed
                files.remove(before)
            into.rename(before)
        unfinished.rename(into)
        if before.exists():
            files.remove(before)
    except BaseException:
        with contextlib.suppress(OSError):
            files.remove(unfinished)
        raise
    return leftovers


def _receive(host: RunningHost, remote: str, into: Path, user: str) -> list[str]:
    command = host.command(["tar", "--ignore-failed-read", "-C", remote, "-cf", "-", "."], user)
    with (
        tempfile.TemporaryFile() as complaints,  # of any length: a pipe would be full, and tar wait for us
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints) as sending,
    ):
        assert sending.stdout  # noqa: S101 - a pipe, as asked for
        try:
            leftovers = _unpack(sending.stdout, into)
        except (tarfile.TarError, OSError) as error:
            sending.kill()
            raise HostError(f"{host.name}: {remote} could not be copied to {into}: {error}") from None
        while sending.stdout.read(1 << 16):  # what follows an archive's end
            pass
        sending.wait()
        complaints.seek(0)
        complaint = complaints.read().decode(errors="replace").strip()
        leftovers += UNREADABLE.findall(complaint)
    if sending.returncode not in (0, CHANGED):
        raise HostError(f"{host.name}: {remote} could not be read whole: {complaint}")
    return leftovers


def _unpack(stream: IO[bytes], into: Path) -> list[str]:
    leftovers = []
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or not (member.isdir() or member.isreg()):
                leftovers.append(member.name)
            elif len(path.parts) > DEEPEST or len(os.fsencode(into / path)) > LONGEST:
                leftovers += [member.name] if len(path.parts) == DEEPEST + 1 else []
            elif member.size > shutil.disk_usage(into).free - SPARE_BYTES:
                raise HostError(f"{member.name}: has {member.size / 1e9:.1f} GB, for which {into.parent} has no room")
            elif member.isdir():
                (into / path).mkdir(exist_ok=True)
            elif content := archive.extractfile(member):
                access = 0o777 if member.mode & 0o100 else 0o666  # and what our umask leaves of that
                with os.fdopen(os.open(into / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, access), "wb") as file:
                    shutil.copyfileobj(content, file)
                os.utime(into / path, (member.mtime, member.mtime))
    return leftovers


def make_parents(folder: Path) -> None:
    """Make the folders that a folder will lie in."""
    missing = [parent for parent in reversed(folder.absolute().parents) if not parent.exists()]
    for parent in missing:
        parent.mkdir()
    for outermost in missing[:1]:
        give_to_caller(outermost)


def give_to_caller(folder: Path) -> None:
    """What root has made here belongs to who has called it by sudo."""
    if os.geteuid() != 0 or "SUDO_UID" not in os.environ:
        return
    owner, group = int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", -1))
    os.chown(folder, owner, group, follow_symlinks=False)
    for here, entry in files.walk(folder):
        os.chown(entry.name, owner, group, dir_fd=here, follow_symlinks=False)
