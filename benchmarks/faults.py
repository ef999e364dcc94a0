"""What a bad day costs: faults on a testbed, and the seconds until each was told of and until the next trial began.

usage: faults.py TESTBED [FAULT ...]      (as root; a testbed of the usual settings is up; without names all faults,
                                           some ten minutes)
       faults.py TESTBED --kills NUMBER   (the schedd is killed so often, at any time of a run)

Each fault meets the first of two trials while its clients read. "told" is the first word of it in `tierbench watch`,
"ended" the trial's outcome, "next" the other trial's go. docs/operations.md has figures. With --kills each trial has to
end with an outcome, and `tierbench status` has to say that all are finished; exit status 1 where one is not so.
"""

import contextlib
import csv
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from frame import offer

from tierbench import names
from tierbench.files import poll
from tierbench.testbed.testbed import Testbed
from tierbench.testbed.topology import USER

HOME = f"/home/{USER}/faults"
PATIENCE_S = 240
EXPERIMENT = """
name = "{name}"
question = "Does the trial end, and is the next one measured?"
access = ["{access}"]
batches = [3]
repeats = {repeats}
sample_period_s = 0.2
retries = 0
time_limit_s = {read}
slot_limit_s = 60
stall_limit_s = 15
workloads.{client} = {{ client = "{client}", replicas = "long" }}
replicas.long = {{ kind = "random", count = 6, size_mb = {size_mb} }}
"""


@dataclass
class Scene:
    """A run whose first trial is about to meet a fault."""

    testbed: Testbed
    name: str
    lines: list[tuple[float, str]] = field(default_factory=list)

    def host(self, name):
        return self.testbed.host(name)

    def shell(self, host, script):
        return self.host(host).run("sh", "-c", script, check=False).stdout

    def as_user(self, *command):
        return self.host("ce").run(*command, user=USER, check=False, timeout=PATIENCE_S).stdout

    @property
    def directory(self):
        return Path(f"/proc/{self.host('ce').pid}/root{HOME}/{self.name}")

    def trial(self, number):
        plan = json.loads((self.directory / names.PLAN).read_text())
        return self.directory / names.trial_directory(plan["trials"][number]["id"])


@dataclass(frozen=True)
class Fault:
    """Something that breaks, and is mended when its trial has ended."""

    strike: Callable[[Scene], None]
    mend: Callable[[Scene], None] = lambda _: None
    access: str = "wan-xrootd-private"
    client: str = "xrdcp"
    read: int = 120
    early: bool = False  # it strikes before the go


def workers_client(scene):
    """A worker on which a client reads, and there is always one."""
    return next(
        host for host in ("wn01", "wn02", "wn03", "wn04") if scene.shell(host, "pgrep -f '[c]lient.py.*--index'")
    )


def on(host, script):
    """What a line of shell does on a host."""
    return lambda scene: scene.shell(host, script) and None


STOP_CLIENT = "kill -STOP $(pgrep -f '[c]lient.py.*--index' | head -1)"
# With a worker's link its routes go, and do not come back by themselves.
cut_worker = on("wn01", "ip route show >/run/routes; ip link set eth0 down")
mend_worker = on("wn01", "ip link set eth0 up; sort /run/routes | while read route; do ip route replace $route; done")
# The server that the clients read from, with what it takes to start it again.
kill_xrootd = on(
    "vmuf",
    "p=$(pgrep -u xrootd -f -- '-n xrootd -c'); tr '\\0' '\\n' </proc/$p/cmdline >/run/mend.args;"
    "stat -c %U /proc/$p >/run/mend.user; readlink /proc/$p/cwd >/run/mend.cwd; kill -KILL $p",
)
mend_xrootd = on(
    "vmuf",
    "cd $(cat /run/mend.cwd); xargs -d '\\n' setsid runuser -u $(cat /run/mend.user) --"
    " </run/mend.args >/dev/null 2>&1 &",
)


def restart_xrootd(scene):
    """Its clients connect again and go on; what was on its way is sent twice."""
    kill_xrootd(scene)
    mend_xrootd(scene)


def remove_client(scene, by="condor_rm"):
    queue = scene.as_user("condor_q", "-constraint", "JobStatus == 2", "-af", "ClusterId", "Cmd").splitlines()
    clients = [line.split()[0] for line in queue if "client.py" in line]
    scene.as_user(by, f"{clients[0]}.1")


def kill_at_last_step(scene):
    """Of a trial that is called off: DAGMan cannot take up again one that it has aborted."""
    remove_client(scene, "condor_hold")
    scene.shell("ce", "until pgrep -f '[s]cripts/finish.py'; do sleep 0.1; done; kill -KILL $(pgrep -x condor_schedd)")


FAULTS = {
    "client removed by hand": Fault(remove_client),
    "wrapper stopped": Fault(lambda scene: scene.shell(workers_client(scene), STOP_CLIENT), read=30),
    "mount hung": Fault(
        on("wn03", "kill -STOP $(pgrep mfsmount)"), on("wn03", "kill -CONT $(pgrep mfsmount)"), "direct", "dd", read=30
    ),
    "worker cut off": Fault(cut_worker, mend_worker),
    "worker without routes": Fault(  # as a link is that comes back without them
        on("wn01", "ip route show >/run/routes; ip route del default; ip route del 198.18.2.11"),
        mend_worker,
        early=True,
    ),
    "execute folder read-only": Fault(
        on("wn01", "d=$(condor_config_val EXECUTE); mount --bind $d $d; mount -o remount,bind,ro $d"),
        on("wn01", "umount $(condor_config_val EXECUTE)"),
        early=True,
    ),
    "xrootd killed": Fault(kill_xrootd, mend_xrootd, "wan-xrootd-public"),
    "xrootd restarted at once": Fault(restart_xrootd, access="wan-xrootd-public"),
    "object server frozen for 8 s": Fault(  # and goes on as if nothing had been
        on("oss", "p=$(pgrep mfschunkserver); kill -STOP $p; (sleep 8; kill -CONT $p) >/dev/null 2>&1 &")
    ),
    "gate killed before the go": Fault(on("ce", "kill -KILL $(pgrep -f '[s]cripts/gate.py')"), early=True),
    "stop killed after the go": Fault(on("ce", "kill -KILL $(pgrep -f '[s]cripts/stop.py')")),
    "disk full for 40 s": Fault(  # as far as it goes
        on("ce", f"cd {HOME}; dd if=/dev/zero of=filler bs=1M 2>/dev/null; (sleep 40; rm filler) >/dev/null 2>&1 &")
    ),
    "schedd killed at the last step": Fault(kill_at_last_step),
    "schedd and collector killed": Fault(
        on("ce", "kill -KILL $(pgrep -x condor_schedd) $(pgrep -f ^condor_collector)")
    ),
    "second DAG in the run": Fault(
        lambda scene: scene.as_user("sh", "-c", f"cd {HOME}/{scene.name} && condor_submit_dag -f *.*.dag")
    ),
    "worker vanished": Fault(lambda scene: scene.host("wn01").namespaces.kill()),
}


def main(arguments):
    testbed = Testbed(arguments[0])
    if arguments[1:2] == ["--kills"]:
        return survives(int(arguments[2]), testbed)
    print(f"{'fault':<28} {'told s':>7} {'ended s':>8} {'next s':>7}  {'then':<12} first reason")
    for name in arguments[1:] or FAULTS:
        print(strike_and_time(name, FAULTS[name], testbed), flush=True)
    return 0


def survives(kills, testbed):
    """Kill the schedd again and again during a run of short trials; 1 if a trial is left without an outcome."""
    scene, chance = Scene(testbed, "schedd-killed"), random.Random(1)  # noqa: S311 - no secret
    scene.host("ce").put("/etc/condor/config.d/90-faults.conf", "MASTER_BACKOFF_CEILING = 2\n")
    scene.shell("ce", "condor_reconfig -master")
    left = kills
    lost = []
    while left:
        until(lambda: scene.host("ce").run("condor_q", check=False).returncode == 0, "the schedd does not answer")
        scene.lines.clear()
        prepare(scene, Fault(remove_client), repeats=4, size_mb=32)
        with watched(scene) as process:
            until((scene.directory / f"{names.EXPERIMENT_DAG}.dagman.out").exists, "the run was not submitted")
            while left and process.poll() is None and not (scene.trial(3) / names.OUTCOME).exists():
                time.sleep(chance.uniform(5, 30))
                scene.shell("ce", "kill -KILL $(pgrep -x condor_schedd)")
                left -= 1
            until(lambda: process.poll() is not None, "the run did not end")
        print("\n".join(line for _, line in scene.lines))
        status = json.loads(scene.as_user("tierbench", "status", "--json", f"{HOME}/{scene.name}"))
        for trial in status["trials"]:
            print(
                f"{kills - left:>3} kills  {trial['trial']}: {trial['state'] or trial['stage']}", *trial["reasons"][:1]
            )
            lost += [trial["trial"]] * (trial["stage"] != "finished")
        sys.stdout.flush()
    scene.shell("ce", "rm /etc/condor/config.d/90-faults.conf; condor_reconfig -master")
    print(f"{kills} kills, {len(lost)} trials without an outcome")
    return 1 if lost else 0


def strike_and_time(name, fault, testbed):
    scene = Scene(testbed, name.replace(" ", "-"))
    prepare(scene, fault)
    first, second = scene.trial(0), scene.trial(1)
    with watched(scene):
        until(lambda: started(first, fault.early), "its clients did not begin")
        time.sleep(0 if fault.early else 3)
        struck = time.time()
        fault.strike(scene)
        until((first / names.OUTCOME).exists, "the trial did not end")
        ended = (first / names.OUTCOME).stat().st_mtime
        fault.mend(scene)
        until(lambda: (second / names.GO).exists() or (second / names.OUTCOME).exists(), "there was no next trial")
        until((second / names.OUTCOME).exists, "the next trial did not end")
        word = next((when for when, line in scene.lines if when > struck), float("nan"))
    scene.as_user("tierbench", "tables", f"{HOME}/{scene.name}")
    (row, *_) = csv.DictReader((scene.directory / "trials.csv").read_text().splitlines())
    print(f"    {row['verdict']}: {row['verdict_reasons']}")
    outcome, then = (json.loads((trial / names.OUTCOME).read_text()) for trial in (first, second))
    content = json.loads((second / names.GO).read_text()) if (second / names.GO).exists() else {}
    go = content.get("go_wall_ns", float("nan")) / 1e9
    reason = (outcome["reasons"] or [outcome["state"]])[0]
    for when, line in scene.lines:
        print(f"    {when - struck:+7.1f} s  {line}")
    return f"{name:<28} {word - struck:>7.1f} {ended - struck:>8.1f} {go - struck:>7.1f}  {then['state']:<12} {reason}"


def prepare(scene, fault, repeats=2, size_mb=128):
    """Define the experiment, make its replicas and write its run, on a disk of its own."""
    text = EXPERIMENT.format(
        name=scene.name, access=fault.access, client=fault.client, read=fault.read, repeats=repeats, size_mb=size_mb
    )
    definition = offer(scene.testbed, scene.name, text)
    scene.host("ce").run("mkdir", "-p", HOME)
    scene.shell("ce", f"umount {HOME} 2>/dev/null; mount -t tmpfs -o size=300m,uid=$(id -u {USER}) tmpfs {HOME}")
    scene.host("ce").run("tierbench", "write", *definition, "--into", f"{HOME}/{scene.name}", user=USER)


@contextlib.contextmanager
def watched(scene):
    """Run it, and keep what the watching says with the time of each line."""
    command = scene.host("ce").command(["tierbench", "submit", f"{HOME}/{scene.name}"], USER)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # What the program has started may keep the pipe open for longer than it lives, so nobody waits for the pipe's end.
    Thread(
        target=lambda: scene.lines.extend((time.time(), line.rstrip()) for line in process.stdout or ()), daemon=True
    ).start()
    try:
        yield process
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        scene.as_user("tierbench", "stop", f"{HOME}/{scene.name}")


def started(trial, early):
    if early:
        return (trial / names.CLIENTS).exists()
    records = [trial / names.client_output(number) for number in range(3)]
    return all(path.exists() and '"event": "go"' in path.read_text() for path in records)


def until(ready, complaint):
    if not poll(ready, PATIENCE_S, every_s=0.1):
        raise SystemExit(f"{complaint} within {PATIENCE_S} s")


if __name__ == "__main__":
    sys.exit(print(__doc__) if {*sys.argv[1:]} <= {"-h", "--help"} else main(sys.argv[1:]))
