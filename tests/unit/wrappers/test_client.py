"""What a client tells of what it read, what can go wrong with it, and its ticket."""

import json
import os
import signal
import subprocess
import sys
import zlib
from http.server import BaseHTTPRequestHandler

import pytest

from tests.unit.client_process import PATIENCE_S, SIZE, URL, events, is_running, until
from tests.unit.shipped import PYTHON
from tests.unit.stand_ins import run, serving
from tierbench.wrappers.child import USUAL_GRACE_S, Child, Interrupts, cpu_of, run_program
from tierbench.wrappers.clients import dd


def test_a_read_in_full_is_ok_and_leaves_nothing_behind(job):
    before = set(job.folder.iterdir())
    record = job.run("dd")
    end = record["end"]
    assert (end["status"], end["bytes_app"], end["exit_status"]) == ("ok", SIZE, 0)
    assert end["bytes_client"] == SIZE  # the kernel's count of dd's bytes is exact
    assert list(record) == ["start", "go", "end"] == sorted(record, key=lambda event: record[event]["mono_ns"])
    assert set(job.folder.iterdir()) == before


def test_start_says_what_is_read_by_whom_and_where_in_htcondors_words(job):
    (job.folder / ".machine.ad").write_text('Machine = "wn07.site"\nName = "slot1_3@wn07.site"\nCpus = 1\n')
    job.environment["_CONDOR_MACHINE_AD"] = ".machine.ad"
    start = job.run("dd")["start"]
    assert (start["url"], start["expected_bytes"], start["index"], start["format"]) == (str(job.replica), SIZE, 0, 1)
    assert (start["host"], start["slot"]) == ("wn07.site", "slot1_3@wn07.site")


@pytest.mark.parametrize("checksum", [False, True])
def test_a_missing_file_is_an_open_failure(job, checksum):
    job.offer(job.folder / "nothing", SIZE)
    end = job.end("dd", options={"checksum": checksum})
    assert (end["status"], end["first_byte_wall_ns"]) == ("open-failed", None)
    assert "No such file" in end["message"]


@pytest.mark.parametrize(("size", "status"), [(SIZE + 1, "short-read"), (SIZE - 1, "failed"), ("", "ok")])
def test_the_file_has_to_be_as_large_as_was_planned(job, size, status):
    job.offer(job.replica, size)
    end = job.end("dd")
    assert (end["status"], end["bytes_app"]) == (status, SIZE)


@pytest.mark.parametrize(
    ("client", "url", "options", "words"),
    [
        ("dd", URL, {}, f"dd reads files, not {URL}"),
        ("xrdcp", "/a/path", {}, "is to read by XRootD, not /a/path"),
        ("http", URL, {}, "curl is to fetch by HTTP"),
        ("davix", URL, {}, "davix-get is to fetch by HTTP"),
        ("davix", "https://server/f", {"proxy": "squid:3128"}, "asks no HTTP proxy, as squid:3128 is"),
        ("staged", URL, {"proxy": "squid:3128"}, "asks no HTTP proxy, as squid:3128 is"),
        ("gridftp", URL, {}, "is to fetch by GridFTP"),
        ("replay", "/a/path", {"record": "r.csv"}, "is to read by XRootD"),
        ("httptpc", "https://server/f", {}, "are to copy to a URL like https://…, not ''"),
        ("globus", "globus://collection/f", {}, "is to copy to a collection (globus://ID/path), not ''"),
    ],
)
def test_a_client_refuses_the_other_protocol(job, client, url, options, words):
    job.offer(url, SIZE)
    end = job.end(client, options=options)
    assert (end["status"], words in end["message"]) == ("wrong-protocol", True)


def test_what_a_client_asks_beside_its_process_has_the_declared_environment_too(job):
    """As where authorities come from CVMFS: davix is told by its options where they are."""
    job.script("bin/davix-get", f'printf "%s\\n" "$@" > {job.folder}/asked')
    job.offer("https://localhost:1/replica", 1)
    job.end("davix", options={"environment": {"SSL_CERT_DIR": "/cvmfs/certificates"}})
    assert "--capath\n/cvmfs/certificates\n" in (job.folder / "asked").read_text()


@pytest.mark.parametrize(("block_kb", "memory_mb"), [(1024, 128), (524_288, 128 + 2 * 511)])
def test_the_memory_for_large_blocks_is_asked_for(block_kb, memory_mb):
    assert dd.Dd.memory(dd.Dd.with_defaults({"block_kb": block_kb})) == memory_mb


def test_strict_turns_a_bad_status_into_an_exit_status(job):
    job.offer(job.folder / "nothing", SIZE)
    process = job.start("dd", "--strict")
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1


@pytest.mark.parametrize(
    "more", [("--index", "7"), ("--options", '{"blocks": 3}'), ("--options", '{"block_kb": "4"}'), ("--options", "{")]
)
def test_a_wrong_call_leaves_no_record(job, more):
    process = job.start("dd", *more)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (2, "")


def test_a_client_that_is_killed_writes_its_end_and_takes_all_its_processes_with_it(job):
    job.script("bin/dd", f"trap '' TERM; sleep 600 & echo $! > {job.folder}/pid; wait")
    process = job.start("dd")
    told = job.folder / "pid"
    until(lambda: told.exists() and told.read_text().endswith("\n"))
    process.send_signal(signal.SIGTERM)
    assert events(process)["end"]["status"] == "killed"
    until(lambda: not is_running(told.read_text().strip()))


def test_the_end_is_the_programs_also_where_a_process_that_it_leaves_behind_holds_on_to_its_output(job):
    ended = job.folder / "ended"
    job.script("bin/gfal-copy", "sleep 600 &", "sleep 0.6", f"date +%s%N >{ended}")
    job.offer(URL, SIZE)
    late_ns = (
        job.end("gfal")["wall_ns"] - int(ended.read_text()) for _ in range(3)
    )  # a busy machine may be late itself
    assert any(late < 400_000_000 for late in late_ns)


def test_a_program_may_say_more_than_there_is_memory(job):
    job.script("bin/dd", "truncate -s 1T stderr; exit 3")
    assert job.end("dd")["exit_status"] == 3


@pytest.mark.parametrize("errors", ["2>/dev/full", "2>&-"])
def test_a_read_is_recorded_though_nobody_takes_its_programs_words(job, errors):
    command = f'exec "{PYTHON}" client.py --trial t --index 0 --replicas replicas.txt --client dd {errors}'
    output = run("sh", "-c", command, cwd=job.folder, env=job.environment).stdout
    assert [line["status"] for line in map(json.loads, output.splitlines()) if line["event"] == "end"] == ["ok"]


@pytest.fixture
def interrupts():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)}
    yield Interrupts()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_who_is_ended_as_its_time_begins_has_the_grace_and_not_the_whole_time(interrupts):
    """The signal comes when the child has been let go and its time is not yet counted."""
    signal.raise_signal(signal.SIGTERM)
    interrupts.limit(3600)
    assert 0 < signal.alarm(0) <= USUAL_GRACE_S


BEFORE_AND_AFTER = """
import os, sys, time
while time.process_time() < 0.4: sum(range(10000))
open(sys.argv[1], "rb").read()
print("ready", flush=True)
os.read(0, 64)
for _ in range(4):
    open(sys.argv[1], "rb").read()
    time.sleep(0.1)
"""


def test_what_it_did_before_the_go_and_what_we_read_to_see_it_begin_are_none_of_its_reading(job, interrupts):
    command = [sys.executable, "-c", BEFORE_AND_AFTER, str(job.replica)]
    with Child(command, job.folder, dict(os.environ), interrupts) as process, process.stdin, process.stdout:
        process.wait_until_ready(PATIENCE_S)
        process.release(None)
        run = process.wait(PATIENCE_S, lambda *_: False, lambda: 0)
    assert run.read_bytes == pytest.approx(4 * SIZE, abs=100)  # and the line with the go
    assert run.cpu_user_s + run.cpu_system_s < 0.2


def test_a_scratch_directory_that_cannot_be_written_is_told(job):
    job.environment["_CONDOR_SCRATCH_DIR"] = "/dev/full/scratch"
    end = job.end("dd")
    assert end["status"] == "failed"
    assert end["message"].startswith("on the worker: ")


@pytest.mark.parametrize(
    ("program", "status", "message"),
    [
        ("exec sleep 60", "failed", "no end after 1 s"),
        ("kill -9 $$", "killed", "dd was ended by signal 9 (SIGKILL)"),
        ("echo words >&2; exit 139", "killed", "dd was ended by signal 11 (SIGSEGV): words"),  # by a shell
    ],
)
def test_a_read_without_end_is_ended_and_one_that_the_system_kills_is_recorded(job, program, status, message):
    job.script("bin/dd", program)
    end = job.end("dd", "--timeout", "1")
    assert (end["status"], message in end["message"]) == (status, True)


@pytest.mark.parametrize(
    ("then", "status", "read"), [("count=1; exit 54", "short-read", 1 << 20), ("status=none", "ok", SIZE)]
)
def test_xrdcp_is_ok_if_it_moves_all(job, then, status, read):
    job.script("bin/xrdcp", f"dd if={job.replica} of=/dev/null bs=1M {then}")
    job.offer(URL, SIZE)
    end = job.end("xrdcp")
    assert (end["status"], read <= end["bytes_app"] < read + 1000) == (status, True)


@pytest.mark.parametrize(
    ("changed", "catalogued", "status"), [(False, True, "ok"), (True, True, "damaged"), (False, False, "failed")]
)
@pytest.mark.parametrize("client", ["dd", "xrdcp"])
def test_a_checksum_tells_a_replica_whose_content_changed(job, client, changed, catalogued, status):
    checksum = f"{zlib.adler32(job.replica.read_bytes()):08x}" if catalogued else ""
    if changed:
        first, *others = job.replica.read_bytes()
        job.replica.write_bytes(bytes([first ^ 1, *others]))
    job.script("bin/xrdcp", f"exec cat {job.replica}")
    job.offer(URL if client == "xrdcp" else job.replica, f"{SIZE}\t{checksum}")
    end = job.end(client, options={"checksum": True})
    assert (end["status"], end["bytes_app"], end["bytes_client"]) == (status, SIZE, SIZE)


def test_a_checksum_needs_no_path(job):
    """HTCondor gives a job none, and then Python does not know where it is itself."""
    job.offer(job.replica, f"{SIZE}\t{zlib.adler32(job.replica.read_bytes()):08x}")
    asked = ["--trial", "t", "--index", "0", "--replicas", "replicas.txt", "--client", "dd", "--options"]
    process = subprocess.Popen(
        ["python3", "client.py", *asked, '{"checksum": true}'], executable=PYTHON, cwd=job.folder,
        env={"_CONDOR_SCRATCH_DIR": str(job.folder)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert events(process)["end"]["status"] == "ok"


def test_dd_says_what_went_wrong_and_not_its_counts(job):
    error = "dd: error reading 'f': Input/output error"
    job.script("bin/dd", f'echo "{error}" >&2; echo "9 bytes copied, 1 s" >&2; exit 1')
    assert job.end("dd")["message"] == error


@pytest.mark.parametrize("client", ["dd", "xrdcp"])
def test_with_a_checksum_a_short_file_is_a_short_read(job, client):
    job.script("bin/xrdcp", f"cat {job.replica}; exit 54")
    job.offer(URL if client == "xrdcp" else job.replica, SIZE + 1)
    assert job.end(client, options={"checksum": True})["status"] == "short-read"


@pytest.mark.parametrize(
    ("copies", "told", "status"),
    [("exit 0", SIZE, "ok"), ("exit 0", 5, "short-read"), ("exit 54", SIZE, "open-failed")],
)
def test_what_xrdcp_has_copied_from_server_to_server_is_what_the_server_has_then(job, copies, told, status):
    job.script("bin/xrdcp", f'[ "$1" = --version ] || echo "$@" >{job.folder}/copied', copies)
    job.script("bin/xrdfs", f'echo "$@" >{job.folder}/asked', f'echo "Size:   {told}"')
    job.offer(URL, SIZE)
    end = job.end("xrdcp", options={"to": "root://other:1098//copies"})
    assert (end["status"], end["bytes_client"]) == (status, None)
    arguments = f"-f --nopbar --tpc only {URL} root://other:1098//copies/replica.root\n"
    assert (job.folder / "copied").read_text() == arguments
    if copies == "exit 0":
        assert end["bytes_app"] == told
        assert (job.folder / "asked").read_text() == "root://other:1098 stat /copies/replica.root\n"


def test_a_signal_after_all_was_read_makes_it_no_worse(job):
    job.script("bin/xrdcp", "exit 0")
    job.script("bin/xrdfs", "kill -TERM $PPID", f"echo 'Size:   {SIZE}'")
    job.offer(URL, SIZE)
    assert job.end("xrdcp", options={"to": "root://other:1098//copies"})["status"] == "ok"


def test_of_several_processes_none_waits_for_what_a_server_says_of_anothers_copy(job):
    job.script("bin/xrdcp", "exit 0")
    job.script("bin/xrdfs", f"echo asked >>{job.folder}/asked", "echo Size: 5")
    job.offer(URL, SIZE)
    end = job.end("xrdcp", options={"to": "root://other:1098//copies"}, processes=2)
    assert (end["status"], end["bytes_app"], (job.folder / "asked").exists()) == ("ok", 2 * SIZE, False)


def test_a_door_may_send_on_to_the_server_that_has_the_file(job):
    class Door(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(307 if self.path.startswith("/store") else 200)
            self.send_header("Location", "/pool" + self.path)
            self.end_headers()
            self.wfile.write(b"x" * SIZE if self.path.startswith("/pool") else b"moved")

    with serving(Door) as url:
        job.offer(f"{url}/store/1", SIZE)
        end = job.end("http")
    assert (end["status"], end["bytes_app"], end["bytes_client"], "work" in end) == ("ok", SIZE, SIZE, False)


def test_the_ticket_is_for_this_host_and_in_a_cache_of_the_jobs_own_and_no_ticket_no_read(job):
    job.script("bin/kinit", f'echo "$4 $KRB5CCNAME" > {job.folder}/asked')
    job.script("bin/dd", f'echo "$KRB5CCNAME" > {job.folder}/used')
    job.run("dd", "--keytab", "/k", "--principal", "host/{host}@REALM")
    principal, cache = (job.folder / "asked").read_text().split()
    assert "{" not in principal
    assert cache.startswith(f"FILE:{job.folder}/")
    assert (job.folder / "used").read_text().strip() == cache
    job.script("bin/kinit", "echo no such principal >&2; exit 1")
    end = job.end("dd", "--keytab", "/k", "--principal", "me@REALM")
    assert (end["status"], "no such principal" in end["message"]) == ("no-ticket", True)


@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")  # even its death may take a busy machine too long
def test_who_was_waited_for_in_vain_is_told_with_the_time():
    answer = run_program("sleep", "600", patience_s=2)
    assert (answer.status, answer.last_words) == (None, "no answer in 2 s")


def test_the_cpu_time_of_a_process_has_that_of_children_that_still_run():
    """Those of a job's further files have started by then, which is no part of their reading."""
    busy = "import os, time\nwhile sum(os.times()[:2]) < 0.3: pass\nprint(flush=True); time.sleep(600)"
    with subprocess.Popen(["sh", "-c", '"$0" -c "$1" & wait', sys.executable, busy], stdout=subprocess.PIPE,
                          start_new_session=True) as shell:  # fmt: skip
        try:
            assert shell.stdout.readline()
            assert sum(cpu_of(shell.pid)) >= 0.25
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
