"""The client, run as the process it is in a job. ROOT, CMSSW, Kerberos and HTCondor are stand-ins: small scripts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.shipped import PYTHON, ship
from tierbench.wrappers.cores import CLAIM
from tierbench.wrappers.jobreport import JobReport

URL = "root://server:1094//store/replica.root"
PATIENCE_S = 20
SIZE = 3_000_001


class Job:
    """A job's scratch directory with what was shipped into it, and clients run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "_CONDOR_SCRATCH_DIR": str(folder),
        }
        (folder / "bin").mkdir()
        ship(folder, "client.py")
        self.replica = folder / "replica"
        self.replica.write_bytes(os.urandom(SIZE))
        self.offer(self.replica, SIZE)

    def offer(self, url: str | Path, size: int | str) -> None:
        (self.folder / "replicas.txt").write_text(f"{url}\t{size}\n")

    def script(self, name: str, *lines: str) -> Path:
        """Put a stand-in beside the client, or into bin/ on the PATH."""
        script = self.folder / name
        script.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
        script.chmod(0o755)
        return script

    def start(self, client: str, *more: str) -> subprocess.Popen[str]:
        command = [PYTHON, "client.py", "--trial", "t", "--index", "0", "--replicas", "replicas.txt"]
        return subprocess.Popen(
            [*command, "--client", client, *more], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, client: str, *more: str, options: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
        """The events of a client's record, by their names; its exit status is 0."""
        process = self.start(client, *more, *(["--options", json.dumps(options)] if options else []))
        return events(process)

    def end(self, client: str, *more: str, options: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.run(client, *more, options=options)["end"]


def events(process: subprocess.Popen[str]) -> dict[str, dict[str, Any]]:
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return {line["event"]: line for line in map(json.loads, output.splitlines())}


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def is_running(pid: str) -> bool:
    """Whether a process is more than an entry that nobody has looked at yet."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


# -- the record --------------------------------------------------------------------------------------------


def test_a_read_in_full_is_ok(job: Job) -> None:
    end = job.end("dd")
    assert (end["status"], end["bytes_app"], end["exit_status"]) == ("ok", SIZE, 0)


def test_the_kernels_count_of_dds_bytes_is_exact(job: Job) -> None:
    assert job.end("dd")["bytes_client"] == SIZE


def test_the_record_tells_its_events_in_order(job: Job) -> None:
    times = [event["mono_ns"] for event in job.run("dd").values()]
    assert times == sorted(times)
    assert list(job.run("dd")) == ["start", "go", "end"]


def test_start_says_what_is_read_by_whom(job: Job) -> None:
    start = job.run("dd")["start"]
    assert (start["url"], start["expected_bytes"], start["index"], start["format"]) == (str(job.replica), SIZE, 0, 1)


def test_the_machine_is_named_as_htcondor_names_it(job: Job) -> None:
    (job.folder / ".machine.ad").write_text('Machine = "wn07.site"\nName = "slot1_3@wn07.site"\nCpus = 1\n')
    job.environment["_CONDOR_MACHINE_AD"] = ".machine.ad"
    start = job.run("dd")["start"]
    assert (start["host"], start["slot"]) == ("wn07.site", "slot1_3@wn07.site")


def test_nothing_is_left_in_the_scratch_directory(job: Job) -> None:
    before = set(job.folder.iterdir())
    job.run("dd")
    assert set(job.folder.iterdir()) == before


# -- what can go wrong -------------------------------------------------------------------------------------


def test_a_missing_file_is_an_open_failure(job: Job) -> None:
    job.offer(job.folder / "nothing", SIZE)
    end = job.end("dd")
    assert (end["status"], end["first_byte_wall_ns"]) == ("open-failed", None)
    assert "No such file" in end["message"]


def test_a_scratch_directory_that_cannot_be_written_is_told(job: Job) -> None:
    job.environment["_CONDOR_SCRATCH_DIR"] = "/dev/full/scratch"
    end = job.end("dd")
    assert end["status"] == "failed"
    assert end["message"].startswith("on the worker: ")


def test_a_truncated_file_is_a_short_read(job: Job) -> None:
    job.offer(job.replica, SIZE + 1)
    end = job.end("dd")
    assert (end["status"], end["bytes_app"]) == ("short-read", SIZE)


def test_more_than_was_planned_is_no_success(job: Job) -> None:
    job.offer(job.replica, SIZE - 1)
    assert job.end("dd")["status"] == "failed"


def test_without_a_known_size_all_that_is_there_will_do(job: Job) -> None:
    job.offer(job.replica, "")
    assert job.end("dd")["status"] == "ok"


@pytest.mark.parametrize(("client", "url"), [("dd", URL), ("xrdcp", "/a/path")])
def test_a_client_refuses_the_other_protocol(job: Job, client: str, url: str) -> None:
    job.offer(url, SIZE)
    assert job.end(client)["status"] == "wrong-protocol"


def test_strict_turns_a_bad_status_into_an_exit_status(job: Job) -> None:
    job.offer(job.folder / "nothing", SIZE)
    process = job.start("dd", "--strict")
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1


@pytest.mark.parametrize(
    "more",
    [("--index", "7"), ("--options", '{"blocks": 3}'), ("--options", '{"block_kb": "4"}'), ("--options", "{")],
)
def test_a_wrong_call_leaves_no_record(job: Job, more: tuple[str, ...]) -> None:
    process = job.start("dd", *more)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (2, "")


def test_a_client_that_is_killed_still_writes_its_end(job: Job) -> None:
    job.script("bin/dd", "sleep 60")
    process = job.start("dd")
    assert process.stdout
    process.stdout.readline(), process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert events(process)["end"]["status"] == "killed"


def test_a_killed_client_takes_all_its_processes_with_it(job: Job) -> None:
    job.script("bin/dd", f"trap '' TERM; sleep 60 & echo $! > {job.folder}/pid; wait")
    process = job.start("dd")
    until((job.folder / "pid").exists)
    process.send_signal(signal.SIGTERM)
    events(process)
    assert not is_running((job.folder / "pid").read_text().strip())


def test_a_read_without_end_is_ended(job: Job) -> None:
    job.script("bin/dd", "exec sleep 60")
    end = job.end("dd", "--timeout", "1")
    assert (end["status"], end["message"]) == ("failed", "no end after 1 s")


def test_a_process_that_the_system_kills_is_recorded_as_killed(job: Job) -> None:
    job.script("bin/dd", "kill -9 $$")
    assert job.end("dd")["status"] == "killed"


def test_xrdcp_that_breaks_off_is_a_short_read(job: Job) -> None:
    job.script("bin/xrdcp", f"dd if={job.replica} of=/dev/null bs=1M count=1; exit 54")
    job.offer(URL, SIZE)
    assert job.end("xrdcp")["status"] == "short-read"


@pytest.mark.parametrize(
    ("changed", "catalogued", "status"),
    [(False, True, "ok"), (True, True, "damaged"), (False, False, "failed")],
)
@pytest.mark.parametrize("client", ["dd", "xrdcp"])
def test_a_checksum_tells_a_replica_whose_content_changed(
    job: Job, client: str, changed: bool, catalogued: bool, status: str
) -> None:
    checksum = f"{zlib.adler32(job.replica.read_bytes()):08x}" if catalogued else ""
    if changed:
        job.replica.write_bytes(b"!" + job.replica.read_bytes()[1:])
    job.script("bin/xrdcp", f"exec cat {job.replica}")
    job.offer(URL if client == "xrdcp" else job.replica, f"{SIZE}\t{checksum}")
    end = job.end(client, options={"checksum": True})
    assert (end["status"], end["bytes_app"], end["bytes_client"]) == (status, SIZE, SIZE)


def test_a_checksum_needs_no_path(job: Job) -> None:
    """HTCondor gives a job none, and then Python does not know where it is itself."""
    job.offer(job.replica, f"{SIZE}\t{zlib.adler32(job.replica.read_bytes()):08x}")
    asked = ["--trial", "t", "--index", "0", "--replicas", "replicas.txt", "--client", "dd", "--options"]
    process = subprocess.Popen(
        ["python3", "client.py", *asked, '{"checksum": true}'], executable=PYTHON, cwd=job.folder,
        env={"_CONDOR_SCRATCH_DIR": str(job.folder)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert events(process)["end"]["status"] == "ok"


@pytest.mark.parametrize("client", ["dd", "xrdcp"])
def test_with_a_checksum_a_short_file_is_a_short_read(job: Job, client: str) -> None:
    job.script("bin/xrdcp", f"cat {job.replica}; exit 54")
    job.offer(URL if client == "xrdcp" else job.replica, SIZE + 1)
    assert job.end(client, options={"checksum": True})["status"] == "short-read"


def test_with_a_checksum_a_missing_file_is_an_open_failure(job: Job) -> None:
    job.offer(job.folder / "nothing", SIZE)
    end = job.end("dd", options={"checksum": True})
    assert (end["status"], "No such file" in end["message"]) == ("open-failed", True)


def test_xrdcp_that_moves_all_is_ok(job: Job) -> None:
    job.script("bin/xrdcp", f"exec dd if={job.replica} of=/dev/null bs=1M status=none")
    job.offer(URL, SIZE)
    end = job.end("xrdcp")
    assert (end["status"], end["bytes_app"]) == ("ok", SIZE)


# -- tickets -----------------------------------------------------------------------------------------------


def test_no_ticket_no_read(job: Job) -> None:
    job.script("bin/kinit", "echo no such principal >&2; exit 1")
    end = job.end("dd", "--keytab", "/k", "--principal", "me@REALM")
    assert (end["status"], "no such principal" in end["message"]) == ("no-ticket", True)


def test_the_ticket_is_for_this_host_and_in_a_cache_of_the_jobs_own(job: Job) -> None:
    job.script("bin/kinit", f'echo "$4 $KRB5CCNAME" > {job.folder}/asked')
    job.script("bin/dd", f'echo "$KRB5CCNAME" > {job.folder}/used')
    job.run("dd", "--keytab", "/k", "--principal", "host/{host}@REALM")
    principal, cache = (job.folder / "asked").read_text().split()
    assert "{" not in principal
    assert cache.startswith(f"FILE:{job.folder}/")
    assert (job.folder / "used").read_text().strip() == cache


# -- the start gate ----------------------------------------------------------------------------------------


def open_gate(path: Path, seconds_ahead: float) -> int:
    go = int((time.time() + seconds_ahead) * 1e9)
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps({"format": 1, "go_wall_ns": go}))
    unfinished.rename(path)
    return go


def test_a_client_begins_at_the_go_time_and_not_before(job: Job) -> None:
    process = job.start("dd", "--gate", "go.json")
    go = open_gate(job.folder / "go.json", 1.5)
    record = events(process)
    late_ns = record["go"]["wall_ns"] - go
    assert 0 <= late_ns < 50e6
    assert record["go"]["go_wall_ns"] == go


def test_a_client_is_ready_with_its_process_started_and_held(job: Job) -> None:
    record_of_start = job.folder / "began"
    job.script("bin/dd", f"date +%s%N > {record_of_start}")
    process = job.start("dd", "--gate", "go.json")
    go = open_gate(job.folder / "go.json", 1.5)
    assert events(process)["ready"]["wall_ns"] < go
    assert int(record_of_start.read_text()) >= go


def test_no_go_within_the_patience_is_recorded(job: Job) -> None:
    assert job.end("dd", "--gate", "go.json", "--gate-timeout", "0.5")["status"] == "no-gate"


def test_a_go_far_ahead_of_the_clock_is_not_waited_for(job: Job) -> None:
    open_gate(job.folder / "go.json", 7200)
    end = job.end("dd", "--gate", "go.json", "--gate-timeout", "60")
    assert (end["status"], "ahead of this host's clock" in end["message"]) == ("no-gate", True)


def test_a_client_killed_at_the_gate_says_so(job: Job) -> None:
    process = job.start("dd", "--gate", "go.json")
    assert process.stdout
    process.stdout.readline(), process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert events(process)["end"]["status"] == "killed"


@pytest.mark.parametrize("go", [{"step_ns": 10**9}, {"turns_wall_ns": [0, 10**9]}], ids=["every second", "in turn"])
def test_a_client_begins_at_its_own_time(job: Job, go: dict[str, Any]) -> None:
    (job.folder / "replicas.txt").write_text(f"nothing\t0\n{job.replica}\t{SIZE}\n")
    process = job.start("dd", "--gate", "go.json", "--index", "1")
    common = time.time_ns() + 10**9
    turns = {"turns_wall_ns": [common + turn for turn in go.get("turns_wall_ns", ())]}
    unfinished = job.folder / "go.new"
    unfinished.write_text(
        json.dumps({"format": 1, "go_wall_ns": common, **go, **(turns if turns["turns_wall_ns"] else {})})
    )
    unfinished.rename(job.folder / "go.json")
    begun = events(process)["go"]
    assert begun["go_wall_ns"] == common + 10**9
    assert 0 <= begun["wall_ns"] - begun["go_wall_ns"] < 50e6


def test_a_client_whose_turn_has_not_come_waits_for_it(job: Job) -> None:
    (job.folder / "replicas.txt").write_text(f"nothing\t0\n{job.replica}\t{SIZE}\n")
    now = time.time_ns()
    (job.folder / "go.json").write_text(json.dumps({"format": 1, "go_wall_ns": now, "turns_wall_ns": [now]}))
    end = job.end("dd", "--gate", "go.json", "--gate-timeout", "1", "--index", "1")
    assert end["status"] == "no-gate"


def claimed(core: int) -> socket.socket | None:
    """A core that is taken, by this test or by whoever has it already."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(CLAIM.format(core))
    except OSError:
        claim.close()
        return None
    return claim


def test_a_pinned_client_and_its_process_keep_to_one_core(job: Job) -> None:
    seen = job.folder / "seen"
    job.script("bin/dd", f"sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status > {seen}")
    deadline = time.monotonic() + 60
    while "go" not in (record := job.run("dd", "--pin")):  # another test's client may have the cores
        assert time.monotonic() < deadline, record
    assert seen.read_text().strip() == str(record["go"]["core"])


def test_where_each_core_is_taken_the_client_says_so(job: Job) -> None:
    claims = [claimed(core) for core in os.sched_getaffinity(0)]
    end = job.end("dd", "--pin")
    for claim in filter(None, claims):
        claim.close()
    assert (end["status"], "has a client already" in end["message"]) == ("not-pinned", True)


HTCHIRP = """
import os, shutil, time
class HTChirp:  # a stand-in for HTCondor's module: the access point is the folder ap/
    class ChirpError(Exception): pass
    class DoesntExist(ChirpError): pass
    class Busy(ChirpError): pass
    def __init__(self): open("ap/connected", "a").write("x")
    def connect(self): pass
    def ulog(self, text): open("ap/log", "a").write(text + "\\n")
    def fetch(self, name, copy):
        if os.path.exists("ap/trouble"):
            os.remove("ap/trouble")
            raise self.Busy("busy")
        if not os.path.exists("ap/" + name): raise self.DoesntExist("no " + name)
        shutil.copyfile("ap/" + name, copy)
    def _open(self, name, flags):
        if not os.path.exists("ap/uptime"): raise self.DoesntExist("no " + name)
        return 3
    def _read(self, file, length, offset): return b"%.2f 0.00\\n" % (time.monotonic() + 1000)
    def _close(self, file): pass
"""


@pytest.fixture
def access_point(job: Job) -> Path:
    """The job runs in HTCondor, with an access point to talk to."""
    (job.folder / "htchirp.py").write_text(HTCHIRP)
    (job.folder / ".chirp.config").touch()
    (job.folder / "ap").mkdir()
    return job.folder / "ap"


def test_in_a_job_the_access_point_is_told_and_asked(job: Job, access_point: Path) -> None:
    process = job.start("dd", "--gate", "go.json")
    until((access_point / "log").exists)
    open_gate(access_point / "go.json", 0.5)
    assert events(process)["end"]["status"] == "ok"
    assert (access_point / "log").read_text() == "TIERBENCH READY 0\n"


def test_a_conversation_that_breaks_off_is_taken_up_again(job: Job, access_point: Path) -> None:
    (access_point / "trouble").touch()
    open_gate(access_point / "go.json", 0.5)
    assert job.end("dd", "--gate", "go.json")["status"] == "ok"
    assert (access_point / "connected").read_text() == "xxx"  # one of them to compare the clocks


def test_in_a_job_the_clock_is_compared_with_the_access_points_uptime(job: Job, access_point: Path) -> None:
    (access_point / "uptime").touch()
    clock = job.run("dd")["clock"]
    true_ns = clock["wall_ns"] - clock["mono_ns"] - 1000e9
    assert clock["low_ns"] - 6e6 <= true_ns <= clock["high_ns"] + 6e6  # the stand-in rounds, a kernel cuts off
    assert clock["high_ns"] - clock["low_ns"] < 50e6


def test_an_access_point_without_uptime_is_no_harm(job: Job, access_point: Path) -> None:
    assert access_point
    said = job.run("dd")
    assert ("clock" in said, said["end"]["status"]) == (False, "ok")


def test_in_a_job_the_gate_takes_htchirp(job: Job) -> None:
    (job.folder / ".chirp.config").touch()
    end = job.end("dd", "--gate", "go.json")
    assert (end["status"], "htchirp.py" in end["message"]) == ("no-gate", True)


# -- ROOT --------------------------------------------------------------------------------------------------

REPORT = {
    "status": "ok", "message": "", "opened_wall_ns": 1, "first_event_wall_ns": 2, "end_wall_ns": 3, "bytes": 90,
    "process_read_bytes": 95, "tree_bytes": 120, "events": 12, "file_bytes": 100, "tree_entries": 12,
    "file_class": "TNetXNGFile", "root_version": "6.40.00", "program": "compiled",
}  # fmt: skip


def root_program(job: Job, name: str = "root_read", **told: Any) -> None:
    """A stand-in for a ROOT program, which tells what it is to tell in the file that is its last argument."""
    (job.folder / "told.json").write_text(json.dumps({**REPORT, **told}))
    for_last = f'for last; do :; done; cp {job.folder}/told.json "$last"'
    job.script(name, f'echo ready; read go; echo "$@" > {job.folder}/arguments; {for_last}')
    job.offer(URL, 100)


def test_what_the_root_program_tells_becomes_the_record(job: Job) -> None:
    root_program(job)
    end = job.end("root")
    assert (end["status"], end["events"], end["bytes_app"], end["bytes_client"]) == ("ok", 12, 90, 95)
    assert (end["opened_wall_ns"], end["first_byte_wall_ns"]) == (1, 2)
    assert end["detail"]["root_version"] == "6.40.00"


def test_the_options_reach_the_root_program(job: Job) -> None:
    root_program(job)
    job.run("root", options={"cache_mb": -1, "learn": True, "tree": "Events"})
    assert (job.folder / "arguments").read_text().split()[:5] == [URL, "Events", "-1", "1", "1"]


def test_options_may_come_from_the_trials_file(job: Job) -> None:
    root_program(job, "higgs")
    (job.folder / "trial.json").write_text(json.dumps({"id": "t", "options": {"combinatorics": 7}}))
    job.run("higgs", "--options", "trial.json")
    assert (job.folder / "arguments").read_text().split()[:2] == [URL, "7"]


def test_in_a_scale_model_the_computing_is_scaled_with_the_links(job: Job) -> None:
    root_program(job, "higgs")
    job.run("higgs", options={"cpu_s_per_mb": 0.7, "scale": 0.1, "core": 0.02})
    computed, core = (job.folder / "arguments").read_text().split()[-4:-2]
    assert (float(computed), float(core)) == (pytest.approx(0.14), 0.02)


def test_a_file_that_is_shorter_than_planned_is_a_short_read(job: Job) -> None:
    root_program(job, file_bytes=99)
    assert job.end("root")["status"] == "short-read"


@pytest.mark.parametrize("status", ["open-failed", "wrong-protocol", "short-read"])
def test_the_root_programs_failure_is_the_clients(job: Job, status: str) -> None:
    root_program(job, status=status, message="why", opened_wall_ns=None)
    end = job.end("root")
    assert (end["status"], end["message"]) == (status, "why")


def test_without_a_compiled_program_root_interprets_the_macro(job: Job) -> None:
    root_program(job, "bin/root.exe")
    (job.folder / "told.json").rename(job.folder / "report")
    job.script("bin/root.exe", "echo ready; read go", f'echo "$@" > {job.folder}/arguments')
    job.run("root", options={"setup": "true"})
    macro = f'root_read.C("{URL}","",0.0,false,1.0,true,"'
    assert macro in (job.folder / "arguments").read_text()


def test_a_setup_that_fails_is_told(job: Job) -> None:
    root_program(job)
    end = job.end("root", options={"setup": "echo nothing here >&2; false"})
    assert (end["status"], "nothing here" in end["message"]) == ("failed", True)


# -- CMSSW -------------------------------------------------------------------------------------------------

JOB_REPORT = """<FrameworkJobReport>
<ReadBranches></ReadBranches>
<InputFile>
<LFN></LFN>
<PFN>root://server:1094//store/replica.root</PFN>
<Catalog></Catalog>
<InputType>primaryFiles</InputType>
<ModuleLabel>source</ModuleLabel>
<GUID>5E9F4B4C-4D4A-E411-A5A1-0025905A60B8</GUID>
<InputSourceClass>PoolSource</InputSourceClass>
<EventsRead>18192</EventsRead>
<Runs><Run ID="207905"></Run></Runs>
</InputFile>
<PerformanceReport>
 <PerformanceSummary Metric="ApplicationMemory">
  <Metric Name="PeakValueRss" Value="891.617"/>
 </PerformanceSummary>
 <PerformanceSummary Metric="StorageStatistics">
  <Metric Name="Parameter-untracked-bool-enabled" Value="true"/>
  <Metric Name="Timing-root-read-totalMegabytes" Value="12.5"/>
  <Metric Name="Timing-root-readv-totalMegabytes" Value="300"/>
  <Metric Name="Timing-tstoragefile-read-totalMegabytes" Value="12.5"/>
  <Metric Name="Timing-tstoragefile-readActual-numOperations" Value="412"/>
  <Metric Name="Timing-tstoragefile-readActual-totalMegabytes" Value="312.5"/>
 </PerformanceSummary>
 <PerformanceSummary Metric="Timing">
  <Metric Name="EventThroughput" Value="41.2"/>
  <Metric Name="TotalJobCPU" Value="430.1"/>
  <Metric Name="TotalJobTime" Value="455.7"/>
 </PerformanceSummary>
</PerformanceReport>
</FrameworkJobReport>
"""


def job_report(folder: Path, text: str = JOB_REPORT) -> JobReport:
    (folder / "FrameworkJobReport.xml").write_text(text)
    return JobReport(folder / "FrameworkJobReport.xml")


@pytest.mark.parametrize(
    "count", ["<EventsRead/>", "<EventsRead>many</EventsRead>", "<EventsRead>nan</EventsRead>", ""]
)
def test_events_that_the_job_report_leaves_out_are_not_known(tmp_path: Path, count: str) -> None:
    report = job_report(tmp_path, JOB_REPORT.replace("<EventsRead>18192</EventsRead>", count))
    assert report.events is None
    assert report.bytes_read is not None


def test_the_job_reports_megabytes_are_mebibytes(tmp_path: Path) -> None:
    assert job_report(tmp_path).bytes_read == 312.5 * 2**20


def test_without_actual_reads_single_and_vector_reads_add_up(tmp_path: Path) -> None:
    report = job_report(tmp_path, JOB_REPORT.replace("readActual-totalMegabytes", "seek-totalMegabytes"))
    assert report.bytes_read == 312.5 * 2**20


def test_the_job_report_tells_events_and_cpu_time(tmp_path: Path) -> None:
    report = job_report(tmp_path)
    assert (report.events, report.detail["total_job_cpu_s"]) == (18192, 430.1)


@pytest.mark.parametrize(
    ("code", "status"), [(8020, "open-failed"), (8028, "open-failed"), (8021, "short-read"), (8001, "failed")]
)
def test_cmsruns_exit_codes_become_statuses(tmp_path: Path, code: int, status: str) -> None:
    error = f'<FrameworkError ExitStatus="{code}" Type="Fatal Exception"><![CDATA[Of\n a sort]]></FrameworkError>'
    report = job_report(tmp_path, f"<FrameworkJobReport>{error}</FrameworkJobReport>")
    assert report.failure("")[0] == status


@pytest.fixture
def cmssw(job: Job) -> dict[str, Any]:
    """A stand-in for a site with CMSSW: what is set up, and a cmsRun that only leaves a job report."""
    (job.folder / "cvmfs").mkdir()
    job.script("cvmfs/cmsset_default.sh", "export CMSSET=done")
    job.script("bin/scramv1", 'if [ "$1" = project ]; then mkdir -p $3/src; else echo "export SCRAM=$PWD"; fi')
    (job.folder / "job-report.xml").write_text(JOB_REPORT)
    job.script("bin/cmsRun", f'env > {job.folder}/environment; cp "$3" {job.folder}/pset-seen.py',
               f'cp {job.folder}/job-report.xml "$2"')  # fmt: skip
    (job.folder / "higgs_cfg.py").write_text("process = Process()\n")
    job.offer(URL, SIZE)
    return {"cvmfs": str(job.folder / "cvmfs"), "release": "CMSSW_10_6_30", "arch": "slc7", "pset": "higgs_cfg.py"}


def test_cmsrun_runs_in_the_release_that_was_set_up(job: Job, cmssw: dict[str, Any]) -> None:
    assert job.end("cmssw", options=cmssw)["status"] == "ok"
    seen = (job.folder / "environment").read_text()
    assert "CMSSET=done" in seen
    assert "SCRAM_ARCH=slc7" in seen
    assert "CMSSW_10_6_30/src" in seen


def test_the_job_report_becomes_the_record(job: Job, cmssw: dict[str, Any]) -> None:
    end = job.end("cmssw", options=cmssw)
    assert (end["events"], end["bytes_app"], end["bytes_source"]) == (18192, 312.5 * 2**20, "StorageStatistics")


def test_the_users_pset_reads_this_jobs_replica_to_the_end(job: Job, cmssw: dict[str, Any]) -> None:
    job.run("cmssw", options=cmssw)
    pset = (job.folder / "pset-seen.py").read_text()
    assert f"fileNames = cms.untracked.vstring('{URL}')" in pset
    assert "int32(-1)" in pset
    assert "user_pset.py" in pset


def test_another_file_than_the_replica_is_the_wrong_protocol(job: Job, cmssw: dict[str, Any]) -> None:
    (job.folder / "job-report.xml").write_text(JOB_REPORT.replace("server:1094", "fallback:1094"))
    assert job.end("cmssw", options=cmssw)["status"] == "wrong-protocol"


def test_cmsrun_without_a_job_report_has_failed(job: Job, cmssw: dict[str, Any]) -> None:
    job.script("bin/cmsRun", "true")
    assert job.end("cmssw", options=cmssw)["status"] == "failed"


def test_an_image_is_entered_before_anything_is_set_up(job: Job, cmssw: dict[str, Any]) -> None:
    job.script("bin/apptainer", f'echo "$@" > {job.folder}/apptainer; shift 4; exec "$@"')
    assert job.end("cmssw", options={**cmssw, "image": "/images/el7.sif", "binds": ["/data"]})["status"] == "ok"
    command = (job.folder / "apptainer").read_text()
    assert command.startswith(f"exec --bind {job.folder}/tierbench-")
    assert ",/data" in command


def test_a_missing_release_is_told(job: Job, cmssw: dict[str, Any]) -> None:
    job.script("bin/scramv1", "echo no such release >&2; exit 1")
    end = job.end("cmssw", options=cmssw)
    assert (end["status"], "no such release" in end["message"]) == ("failed", True)
