"""The work of a job: several files, several processes, a given time; by the client as it is shipped."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import time
import zlib
from collections import Counter
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from tests.unit.client_process import PATIENCE_S, events, is_running, until
from tests.unit.client_process import Job as OneFileJob
from tests.unit.shipped import PYTHON
from tests.unit.stand_ins import serving
from tierbench import files
from tierbench.starts import Go, settling
from tierbench.trials import Work
from tierbench.wrappers.client import Job as ClientJob
from tierbench.wrappers.clients.dd import Dd
from tierbench.wrappers.process_pool import ProcessPool
from tierbench.wrappers.work import Fetch, Tally, latency_of

SIZE = 100_001
HUNDREDTHS = [n / 100 for n in range(1, 61)]
LONGER_AND_LONGER_S = (1, 10, 60)  # for what a busy machine may not come to in the first of them


class Job(OneFileJob):
    """A job with so many files, and clients that work on them there."""

    def __init__(self, folder, prefix="", count=6):
        super().__init__(folder)
        (folder / "data").mkdir()
        self.files = [folder / f"data/{number}" for number in range(count)]
        for file in self.files:
            file.write_bytes(os.urandom(SIZE))
        lines = (f"{prefix}{file}\t{SIZE}\n" for file in self.files)
        (folder / "replicas.txt").write_text("".join(lines))

    def begin(self, client, *more, **work):
        return self.start(client, "--options", json.dumps({"options": {}, "work": work}), *more)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


class Files(SimpleHTTPRequestHandler):
    """This machine's files, and what was asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.asked_ns.append(time.time_ns())
        self.connections.add(self.client_address)
        self.ended.wait(self.stalls.pop() if self.stalls else self.slow_s)
        super().do_GET()


@pytest.fixture
def web():
    """A web server, and how slow it is."""
    state = {"connections": set(), "asked_ns": [], "slow_s": 0.0, "stalls": [], "ended": threading.Event()}
    web = type("Web", (Files,), state)
    with serving(web, directory="/") as web.address:
        yield web
        web.ended.set()


@pytest.mark.parametrize("processes", [1, 3])
def test_a_jobs_processes_deal_its_files_among_them_and_read_each_once(job, processes):
    end = job.end("dd", files_per_job=6, processes=processes)
    assert (end["status"], end["bytes_app"], end["bytes_client"]) == ("ok", 6 * SIZE, 6 * SIZE)
    work = end["work"]
    assert (work["processes"], work["files"], work["fetches"], work["failed"], work["cut"]) == (processes, 6, 6, 0, 0)


def in_all(work):
    """The latencies of all fetches, by their classes."""
    return sum(count * latency_of(int(number)) for number, count in work["latency_classes"].items())


def test_a_process_without_a_file_has_none_under_way(job):
    """One of four has two files; the others have ended long before."""
    work = job.end("dd", files_per_job=5, processes=4)["work"]
    assert work["under_way_s"] == pytest.approx(in_all(work), rel=0.003)


def test_the_second_client_has_the_files_after_the_firsts(job):
    start = job.run("dd", "--index", "1", files_per_job=3)["start"]
    assert (start["url"], start["expected_bytes"]) == (str(job.files[3]), 3 * SIZE)


def test_a_file_that_is_too_short_is_told_and_counted_and_the_others_are_read(job):
    job.files[2].write_bytes(b"short")
    end = job.end("dd", files_per_job=6, processes=2)
    assert (end["status"], end["work"]["failed"], end["work"]["files"]) == ("short-read", 1, 5)
    assert "read 5 of 100001 bytes" in end["message"]


def test_for_a_time_files_are_read_again_and_again(job):
    record = job.run("dd", files_per_job=2, processes=3, for_s=2)
    end, work = record["end"], record["end"]["work"]
    assert end["status"] == "ok"
    assert work["fetches"] > 3 > work["files"] == 2
    assert work["bytes_once"] == 2 * SIZE
    assert work["fetches"] * SIZE <= end["bytes_app"] <= (work["fetches"] + work["cut"]) * SIZE
    assert 2.0 <= (end["mono_ns"] - record["go"]["mono_ns"]) / 1e9 < PATIENCE_S


def test_what_is_under_way_when_time_is_over_counts_by_what_had_come(job):
    endless = job.folder / "endless"
    os.mkfifo(endless)
    (job.folder / "replicas.txt").write_text(f"{endless}\t{10**12}\n")
    for for_s in LONGER_AND_LONGER_S:
        client = job.begin("dd", for_s=for_s)
        writer = subprocess.Popen(["sh", "-c", f"exec >{endless}; head -c 3145728 /dev/zero; exec sleep 600"])
        try:
            end = events(client)["end"]
        finally:
            writer.kill()
            writer.wait()
        if end["bytes_app"] == 3 * 1024 * 1024:
            break
    assert (end["status"], end["work"]["fetches"], end["work"]["cut"]) == ("ok", 0, 1)
    assert end["bytes_app"] == 3 * 1024 * 1024


def test_of_a_file_that_is_cut_xrdcp_has_what_it_read_though_it_wrote_nothing_yet(job):
    read = "import time; open('/dev/zero', 'rb').read(3 << 20); time.sleep(600)"
    job.script("bin/xrdcp", f'[ "$1" = --version ] || exec {sys.executable} -c "{read}"')
    job.offer("root://door:1094//replica", 10**12)
    for for_s in LONGER_AND_LONGER_S:
        end = job.end("xrdcp", for_s=for_s)
        if end["bytes_app"] > 2 << 20:
            break
    assert (end["status"], end["work"]["cut"]) == ("ok", 1)
    assert 2.8 < end["bytes_app"] / (1 << 20) < 3.8  # Python reads more of its own than xrdcp does


def test_nothing_counts_that_ends_after_time_is_over(job):
    """Of hundreds on few cores it takes seconds to end them all, one after the other."""
    job.script("bin/dd", '/bin/dd "$@" || exit', f"date +%s%N >>{job.folder}/ended")
    record = job.run("dd", processes=200, files_per_job=1, for_s=2)
    ended = [int(line) for line in (job.folder / "ended").read_text().split()]
    assert 0 < record["end"]["work"]["fetches"] <= sum(wall_ns <= record["end"]["wall_ns"] for wall_ns in ended)


def test_a_server_that_refuses_is_not_asked_without_a_pause(job):
    for file in job.files:
        file.unlink()
    end = job.end("dd", files_per_job=2, processes=2, for_s=2)
    assert end["status"] == "open-failed"
    assert 2 <= end["work"]["failed"] <= 24
    assert sum(end["work"]["failures"].values()) == end["work"]["failed"]


def test_each_process_waits_for_the_go_by_itself(job):
    """None has to be woken by another one: not even by who leads them, which the first to run may keep waiting."""
    for ahead_s in LONGER_AND_LONGER_S:
        go_ns, begun_ns, end = _begun_by_themselves(job, 5 + ahead_s)
        if begun_ns:
            break
    assert end["status"] == "ok", end["message"]
    work = end["work"]
    assert go_ns <= work["first_begin_wall_ns"] <= work["last_begin_wall_ns"] <= begun_ns


def _begun_by_themselves(job, ahead_s):
    """The go, when all had begun though who leads them stood still from before it, if it did, and how the job ended."""
    client = job.begin("dd", "--gate", "go.json", files_per_job=6, processes=40, for_s=2)
    until(lambda: "ready" in client.stdout.readline())
    crowd = [pid for pid in _processes() if "--process-pool" in _command(pid) and str(job.folder) in _command(pid)]
    assert len(crowd) == 1 + 40
    (leader,) = (pid for pid in crowd if _parent(pid) not in crowd)
    go_ns, begun_ns = time.time_ns() + round(ahead_s * 1e9), 0
    files.replace(job.folder / "go.json", Go(go_ns).text())
    # By the end of the pipe with both ends here they are told.
    until(lambda: time.time_ns() > go_ns or max(_pipes(leader).values()) == 1)
    if time.time_ns() < go_ns:
        os.kill(leader, signal.SIGSTOP)
        in_time = time.time_ns() < go_ns
        try:
            until(lambda: not any("--process-pool" in _command(pid) for pid in crowd if pid != leader))
            begun_ns = time.time_ns() if in_time else 0
        finally:
            os.kill(leader, signal.SIGCONT)
    end = json.loads(client.communicate(timeout=PATIENCE_S)[0].splitlines()[-1])
    (job.folder / "go.json").unlink()
    return go_ns, begun_ns, end


def test_programs_begin_when_the_last_process_has_had_the_time_to_wake(job):
    """Else those that are first take the cores from those that are still to come."""
    job.script("bin/dd", f"date +%s%N >>{job.folder}/begun", 'exec /bin/dd "$@"')
    go_ns = time.time_ns() + 3_000_000_000
    (job.folder / "go.json").write_text(Go(go_ns).text())
    end = job.end("dd", "--gate", "go.json", "--clients", "50", files_per_job=6, processes=6)
    assert end["status"] == "ok", end["message"]
    begun = [int(line) for line in (job.folder / "begun").read_text().split()]
    assert (len(begun), min(begun) >= go_ns + 1e9 * settling(50 * 6)) == (6, True)


def _processes():
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _pipes(pid):
    """How many ends of each pipe a process has."""
    ends = []
    for end in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is closed meanwhile
            ends.append(str(end.readlink()))
    return Counter(end for end in ends if end.startswith("pipe:"))


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_job_leaves_no_process_behind(job, how):
    fifo = job.folder / "silent"
    os.mkfifo(fifo)
    (job.folder / "replicas.txt").write_text(f"{fifo}\t1\n")
    client = job.begin("dd", processes=8, for_s=60)
    until(lambda: len(_dds(fifo)) == 8)
    pids = _dds(fifo)
    client.send_signal(how)
    output, _ = client.communicate(timeout=PATIENCE_S)
    until(lambda: not any(map(is_running, pids)))
    until(lambda: not _dds(job.folder))
    if how == signal.SIGTERM:
        assert json.loads(output.splitlines()[-1])["status"] == "killed"


def _dds(path):
    """The processes that have the path in their command, but for the client itself."""
    return [str(pid) for pid in _processes() if str(path) in _command(pid) and is_running(str(pid))]


@pytest.mark.parametrize("reuse", [True, False])
def test_curl_keeps_its_connection_or_does_not(tmp_path, web, reuse):
    end = Job(tmp_path, web.address).end("http", options={"reuse": reuse}, files_per_job=6, processes=2)
    assert (end["status"], end["bytes_app"], end["bytes_client"]) == ("ok", 6 * SIZE, 6 * SIZE)
    assert end["work"]["fetches"] == 6
    assert len(web.connections) == (2 if reuse else 6)


def test_files_of_which_curl_tells_nothing_were_not_read(tmp_path):
    job = Job(tmp_path, "http://nowhere.test", count=3)
    job.script("bin/curl", f"echo 'fetched 200 {SIZE} 0.1' >&2; exit 27")
    end = job.end("http", files_per_job=3)
    assert (end["status"], end["bytes_app"]) == ("failed", SIZE)
    assert (end["work"]["files"], end["work"]["failed"]) == (1, 2)


def test_a_job_tells_that_it_comes_on_though_the_storage_may_rest(job):
    client = job.begin("dd", files_per_job=2, processes=2, for_s=60)
    until(lambda: any(_progress(told) > 5 for told in job.folder.glob("tierbench-*")))
    client.terminate()
    client.communicate(timeout=PATIENCE_S)


def _progress(scratch):
    """As the wrapper asks its job for it, whose record then says so."""
    return ProcessPool(Dd(ClientJob("", None, None, 0, {}, scratch)), "dd", [], Work(for_s=60)).progress()


def test_clients_have_one_proxy_of_several_in_turn(tmp_path, web):
    job = Job(tmp_path, "http://nowhere.test")
    absent, there = "127.0.0.1:9", web.address.removeprefix("http://")
    proxies = {"proxy": f"{absent},{there}"}
    told = [job.end("http", "--index", index, options=proxies)["message"] for index in ("0", "1")]
    assert "port 9" in told[0]
    assert "404" in told[1]  # it is no proxy, and knows no file by such a name: but it was asked


def test_a_workers_no_proxy_does_not_take_the_access_methods_proxy_away(tmp_path, web):
    job = Job(tmp_path, web.address)
    job.environment["no_proxy"] = "127.0.0.1"
    assert "port 9" in job.end("http", options={"proxy": "127.0.0.1:9"})["message"]


def test_what_the_server_does_not_have_is_told_and_latency_is_what_a_slow_one_takes(tmp_path, web):
    web.slow_s = 0.1
    job = Job(tmp_path, web.address)
    work = job.end("http", files_per_job=6, processes=2)["work"]
    assert 0.1 <= work["latency_s"]["p50"] <= work["latency_s"]["p95"] <= work["latency_s"]["max"]
    assert sum(work["latency_classes"].values()) == 6
    job.files[1].unlink()
    end = job.end("http", files_per_job=3)
    assert (end["status"], end["work"]["failed"], end["work"]["fetches"]) == ("open-failed", 1, 2)
    assert "404" in end["message"]


def test_a_server_that_stalls_does_not_hide_those_who_would_have_come_meanwhile(tmp_path, web):
    web.stalls = [1.5]  # the first answer alone
    work = Job(tmp_path, web.address).end("http", for_s=6, fetch_every_s=0.25)["work"]
    # One in two dozen stalls. That ones are late which were to come while it did is seen as well: 1.25 s, 1.0 s …
    assert work["latency_s"]["max"] >= 1.5
    late = sum(count for number, count in work["latency_classes"].items() if latency_of(int(number)) > 0.7)
    assert late + work["cut"] + work["overdue"] >= 3  # on a busy machine, some of them never were begun
    assert 23 <= work["fetches"] + work["cut"] + work["overdue"] <= 25  # with the one due as time is over


def test_those_that_keep_a_timetable_begin_one_after_the_other(tmp_path, web):
    """Else each step is a burst of all. Of two jobs of two processes, these are the second and the fourth of four."""
    alone = Job(tmp_path, web.address)
    work = {"files_per_job": 3, "processes": 2, "for_s": 1.6, "fetch_every_s": 0.8}
    record = alone.run("http", "--index", "1", "--clients", "2", **work)
    done = record["end"]["work"]
    # At once; after 0.8 s and a quarter of it, or three.
    assert done["fetches"] + done["cut"] + done["overdue"] == 2 + 2
    after_s = [asked_ns / 1e9 - record["go"]["wall_ns"] / 1e9 for asked_ns in sorted(web.asked_ns)]
    assert all(begin_s >= least_s for begin_s, least_s in zip(after_s[2:], (1.0, 1.4), strict=False))


def test_who_read_nothing_in_all_the_time_has_failed_and_fetches_that_were_due_and_never_begun_are_told(tmp_path, web):
    web.slow_s = 30
    end = Job(tmp_path, web.address).end("http", for_s=1.05, fetch_every_s=0.1)
    work = end["work"]
    assert (end["status"], end["message"].startswith("nothing was read; 1 fetches")) == ("failed", True)
    assert (work["fetches"], work["cut"], work["overdue"]) == (0, 1, 10)


def test_a_program_that_ends_well_when_it_is_ended_has_read_no_file(job):
    """As cmsRun, which closes its files and says that all is well."""
    job.script("bin/dd", "trap 'echo \"100001 bytes copied\" >&2; exit 0' TERM", "while :; do sleep 0.05; done")
    work = job.end("dd", for_s=1, processes=2)["work"]
    assert (work["fetches"], work["cut"], work["failed"], work["latency_s"]["max"]) == (0, 2, 0, None)


def test_of_a_summed_file_that_is_cut_what_had_come_counts_and_not_the_one_before(job):
    """The second dd has handed on a kilobyte when time is over."""
    file, ran = job.files[0], job.folder / "ran"
    job.offer(file, f"{SIZE}\t{zlib.adler32(file.read_bytes()):08x}")
    job.script("bin/dd", f"[ -e {ran} ] || {{ touch {ran}; exec cat {file}; }}", f"head -c 1000 {file}; exec sleep 600")
    end = job.end("dd", options={"checksum": True}, for_s=2)
    assert (end["status"], end["work"]["fetches"], end["work"]["cut"]) == ("ok", 1, 1)
    assert end["bytes_app"] == end["bytes_client"] == pytest.approx(SIZE + 1000, abs=100)  # less its report's bytes


# Reads on when it is told to end, and says that it has begun and that it has been told.
READS_ON = f"""#!{PYTHON}
import os, signal, sys
path = next(word[3:] for word in sys.argv if word.startswith("if="))
signal.signal(signal.SIGTERM, lambda *_: os.close(os.open(path + ".over", os.O_CREAT)))
read = 0
with open(path, "rb", 0) as file, open("/dev/null", "wb", 0) as nothing:
    os.close(os.open(path + ".begun", os.O_CREAT))
    for block in iter(lambda: file.read(65536), b""):
        read += nothing.write(block)
print(read, "bytes copied", file=sys.stderr)
"""


def _feed(client, source):
    """Give it 3 MiB, and 9 more when time is over; whether it had read the first by then."""
    begun, over = (source.with_name(source.name + mark) for mark in (".begun", ".over"))
    both_ends = os.open(source, os.O_RDWR)  # so that neither has to wait for the other
    try:
        until(lambda: begun.exists() or client.poll() is not None)
        pipe = source.open("wb", 0)
    finally:
        os.close(both_ends)
    with pipe, contextlib.suppress(BrokenPipeError):  # it has ended before
        pipe.write(bytes(3 << 20))
        until(lambda: not _unread(pipe))
        in_time = not over.exists()
        until(over.exists)
        pipe.write(bytes(9 << 20))
        return in_time
    return False


def _unread(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_what_comes_after_time_was_over_is_not_counted(job, tmp_path):
    """As of ROOT, which finishes the event that it is at."""
    job.script("bin/dd", READS_ON)
    for for_s in LONGER_AND_LONGER_S:
        source = tmp_path / f"source{for_s}"
        os.mkfifo(source)
        (tmp_path / "replicas.txt").write_text(f"{source}\t{10**12}\n")
        client = job.begin("dd", for_s=for_s)
        in_time = _feed(client, source)
        end = events(client)["end"]
        if in_time:
            break
    assert (end["status"], end["work"]["cut"]) == ("ok", 1)
    assert [end[count] for count in ("bytes_app", "bytes_client")] == 2 * [pytest.approx(3 * 1024 * 1024, abs=1000)]


@pytest.mark.parametrize(
    ("ended", "cut", "overdue", "latency_s"),
    [
        (HUNDREDTHS, [], 0, {"p50": 0.3, "p95": 0.57, "p99": 0.6, "max": 0.6}),
        (HUNDREDTHS, [], 40, {"p50": 0.5, "p95": None, "p99": None, "max": 0.6}),
        # Eight fetched thrice while eight others hung; each of the first had begun anew when time was over.
        (8 * [19.0, 19.5, 20.0], 8 * [60.0, 1.5], 0, {"p50": 19.5, "p95": None, "p99": None, "max": 20.0}),
    ],
    ids=["all ended", "some were due and never begun", "some were cut off, and are longer than they had been"],
)
def test_percentiles_are_of_all_that_were_due(ended, cut, overdue, latency_s):
    tally = Tally()
    for status, several in (("ok", ended), ("cut", cut)):
        for seconds in several:
            tally.add(Fetch(0, status, "", 1, seconds))
    assert tally.to_record(overdue=overdue)["latency_s"] == latency_s


def test_how_long_a_fetch_was_under_way_when_time_was_over_is_told(tmp_path, web):
    web.stalls = [30, 0]  # the second answer
    work = Job(tmp_path, web.address).end("http", files_per_job=2, for_s=2)["work"]
    ((number, count),) = work["cut_classes"].items()
    assert (work["fetches"], count) == (1, 1)
    assert latency_of(int(number)) < 20  # and not the 30 s that it would have taken
    assert work["under_way_s"] == work["latency_s"]["max"]  # the other one is no part of the time of whole files
    assert work["latency_s"]["p95"] is None
