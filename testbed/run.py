"""Run an experiment on a testbed from out here: replicas at the Tier-2, the run at the Tier-3, results home."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tierbench.dags import names
from tierbench.errors import ConfigError, HostError
from tierbench.testbed.copying import bring_home, give_to_caller
from tierbench.testbed.host import RunningHost
from tierbench.testbed.rootfs import Say
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import USER

HOME = f"/home/{USER}"
WATCHED = 130  # the exit status of `tierbench run` after Ctrl-C, which ends the watching and not the run


def run(testbed: Testbed, experiment: str, into: Path, say: Say) -> int:
    """Make the experiment's replicas, run it on the access point, copy the run directory to `into` and report on it."""
    if into.exists():
        raise ConfigError(f"{into}: is there already; a run gets a directory of its own (--into)")
    try:  # found out now, and not after the measurement
        into.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{into.parent}: cannot be made: {error.strerror}; see --into") from None
    writer, access_point = (testbed.host(testbed.topology.with_role(r)[0].name) for r in ("wan-xrootd", "access-point"))
    if Path(experiment).is_file():
        experiment = _taken_along(Path(experiment), writer, access_point)
    there = f"{HOME}/runs/{into.name}"
    if access_point.succeeds("test", "-e", there):
        raise ConfigError(f"the testbed has a run {there} already; give this one another name with --into")
    say("replicas")
    definition = [experiment, "--site", "testbed"]
    if _inside(writer, "replicas", *definition):
        raise HostError("the replicas could not be made, so nothing was run")
    access_point.run("mkdir", "-p", f"{HOME}/runs", user=USER)
    say("run")
    status = _inside(access_point, "run", *definition, "--into", there)
    if status == WATCHED:
        say(f"on the testbed that is: tierbench testbed exec --user {USER} ce -- tierbench watch {there}")
        return status
    if access_point.succeeds("test", "-d", there):
        left = bring_home(access_point, there, into, USER)
        say(f"the run directory is {into}" + (f"; no files, so left on the testbed: {', '.join(left)}" if left else ""))
        if (into / names.TRIALS_CSV).exists():
            # Here and not above: matplotlib takes a second to load.
            from tierbench.postprocess.report.write import run_report

            say(f"its report is {run_report(into, None, lambda _: None)}")
        give_to_caller(into)
    return status


def _inside(host: RunningHost, *arguments: str) -> int:
    """The exit status of a tierbench command on a host, which speaks, and answers Ctrl-C, for itself."""
    ours = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(host.command(["tierbench", *arguments], USER), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, ours)


def _taken_along(definition: Path, *hosts: RunningHost) -> str:
    """Copy a file of the user's to the hosts; its path there."""
    there = f"{HOME}/{definition.name}"
    for host in hosts:
        host.put(there, definition.read_bytes(), user=USER)
    return there
