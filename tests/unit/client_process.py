"""The client, run as the process it is in a job. ROOT, CMSSW, Kerberos and HTCondor are stand-ins: small scripts."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.unit.shipped import PYTHON, ship, wait_until
from tests.unit.stand_ins import run, script
from tierbench.wrappers import client
from tierbench.wrappers.child import Run

URL = "root://server:1094//store/replica.root"
PATIENCE_S = 600  # of a busy machine's; nothing takes a tenth of it elsewhere
SIZE = 3_000_001
until = wait_until
RECORDED = [("Read", (0, 300)), ("VectorRead", (500_000, 400_000, 2_000_000, 600_000)), ("Read", (2_999_701, 600))]


class Job:
    """A job's scratch directory with what was shipped into it, and clients run there."""

    def __init__(self, folder):
        self.folder = folder
        path = f"{folder}/bin:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "_CONDOR_SCRATCH_DIR": str(folder)}
        (folder / "bin").mkdir()
        ship(folder, "client.py")
        self.replica = folder / "replica"
        self.replica.write_bytes(os.urandom(SIZE))
        self.offer(self.replica, SIZE)

    def offer(self, url, size):
        (self.folder / "replicas.txt").write_text(f"{url}\t{size}\n")

    def script(self, name, *lines):
        """Put a stand-in beside the client, or into bin/ on the PATH."""
        return script(self.folder / name, *lines)

    def start(self, client, *more):
        command = [PYTHON, "client.py", "--trial", "t", "--index", "0", "--replicas", "replicas.txt"]
        return subprocess.Popen(
            [*command, "--client", client, *more], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, client, *more, options=None, **work):
        """The events of a client's record, by their names; its exit status is 0."""
        definition = json.dumps({"options": options or {}, "work": work})
        return events(self.start(client, *more, *(["--options", definition] if options or work else [])))

    def end(self, client, *more, options=None, **work):
        return self.run(client, *more, options=options, **work)["end"]


def record(*, reads=RECORDED, urls=("root://elsewhere:1094//store/f.root?authz=secret",), took_s=0.5, answered=None):
    """What XRootD's recorder plug-in writes of a job whose reads begin a second apart; the last one ends at SIZE."""
    lines = [["7", "Open", 1e9, f"{url};16;0;0", 1e9 + 0.1, "[SUCCESS]", ""] for url in urls]
    lines.append(["7", "Stat", 1e9 + 0.2, "false;0", 1e9 + 0.2, "[SUCCESS]", f"{SIZE};16"])
    for second, (name, numbers) in enumerate(reads, 1):
        arguments, begin = ";".join(map(str, (*numbers, 0))), 1e9 + second
        got = min(sum(numbers[1::2]), SIZE - numbers[0]) if answered is None else answered
        lines.append(["7", name, begin, arguments, begin + took_s, "[SUCCESS]", f"{got};{arguments}"])
    lines.append(["7", "Close", 1e9 + 60, "0", 1e9 + 60.1, "[SUCCESS]", ""])
    return "".join(",".join(f'"{value}"' for value in line) + "\n" for line in lines)


def as_a_job(directory, sandbox, client, replica, size):
    """The record of a run's first trial's client, from a process that has what HTCondor would transfer alone."""
    trial = sorted((directory / "trials").iterdir())[0]
    sandbox.mkdir()
    for path in (directory / "scripts/client.py", trial / "trial.json", *(directory / "scripts/programs").iterdir()):
        shutil.copy(path, sandbox)
    (sandbox / "replicas.txt").write_text(f"{replica}\t{size}\n")
    asked = ["--trial", "t", "--index", "0", "--client", client, "--replicas", "replicas.txt"]
    environment = {**os.environ, "_CONDOR_SCRATCH_DIR": str(sandbox)}
    job = run(PYTHON, "-I", "client.py", *asked, "--options", "trial.json", cwd=sandbox, env=environment)
    return [json.loads(line) for line in job.stdout.splitlines()]


def events(process):
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return {line["event"]: line for line in map(json.loads, output.splitlines())}


def client_of(kind, folder, url, size, **options):
    """A client of this kind that was asked for one file, in this process."""
    return kind(client.Job(url, size, None, 0, kind.with_defaults(options), folder))


def run_of(words="", exit_status=0, written=11_000):
    """How its program ended, which has written so much beside its words."""
    return Run(exit_status, 0, 0, None, 9000, written + len(words), 0.0, 0.0, 0, words, len(words))


def is_running(pid):
    """Whether a process is more than an entry that nobody has looked at yet."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
