"""Root's helper changes one thing and always undoes it; the job that holds a condition tells what became of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.shipped import wait_until
from tests.unit.stand_ins import RootsHelper, full_disk, run, script
from tierbench.condition_state import ConditionState
from tierbench.single_file_script import single_file
from tierbench.trials import Condition
from tierbench.wrappers import arrange

ANCESTOR = "_CONDOR_ANCESTOR_1"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the helper is root's")


class Place(RootsHelper):
    """A host where jobs hold conditions."""

    def __init__(self, folder):
        super().__init__(folder)
        self.script = folder / "arrange.py"
        self.script.write_text(single_file("tierbench.wrappers.arrange"))

    def holder(self, value):
        command = [self.helper, "hold", "rtt", value]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def held(self, value):
        holder = self.holder(value)
        assert json.loads(holder.stdout.readline())["now"] == value
        return holder

    def declare(self, comment):
        """Have the word's program say more of itself."""
        self.program.write_text(self.program.read_text().replace("# takes", f"{comment}\n# takes", 1))

    def helpers(self):
        """The processes of the helper that hold the value, or wait for those that do."""
        pids = set()
        for process in processes():
            with contextlib.suppress(OSError):
                if f"{self.helper}\0hold\0".encode() in (process / "cmdline").read_bytes():
                    pids.add(int(process.name))
        return pids

    def during(self, value, *more, meanwhile=lambda: None):
        """What a job says when it has set the value, and all that it says when it is told to stop."""
        job = self.job(value, "--stop-file", "stop", *more)
        arranged = json.loads(job.stdout.readline())
        meanwhile()
        (self.value.parent / "stop").touch()
        return arranged, lines(job)

    def job(self, value, *more):
        return subprocess.Popen(
            [sys.executable, self.script, "--condition", "wan-rtt", "--word", "rtt", "--value", value,
             "--helper", self.helper, *more],
            cwd=self.value.parent, stdout=subprocess.PIPE, text=True, env={**os.environ, ANCESTOR: str(self.script)},
        )  # fmt: skip


@pytest.fixture
def place(open_folder):
    return Place(open_folder)


def lines(job):
    return [json.loads(line) for line in job.communicate(timeout=120)[0].splitlines()]


def processes():
    return Path("/proc").glob("[0-9]*")


def family(pid, mark):
    """A job's processes, as HTCondor finds them: its children, theirs, and who has its mark in the environment."""
    parents = {}
    for process in processes():
        with contextlib.suppress(OSError):
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if mark.encode() in (process / "environ").read_bytes():
                parents[int(process.name)] = pid
    members = {pid}
    while more := {child for child, parent in parents.items() if parent in members} - members:
        members |= more
    return members


def kill(processes):
    """All at once: none has the time to do anything about the end of another one."""
    for how in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):  # it ends by itself once the one before it is gone
                os.kill(process, how)


@contextlib.contextmanager
def group_of_condor():
    """A control group as HTCondor makes one for a job."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options = line.split()[:4]
        if kind == "cgroup2" or (kind == "cgroup" and "pids" in options):
            group = Path(mount, f"tierbench-test-condor-{os.getpid()}")
            with contextlib.suppress(OSError):
                group.mkdir()
                break
    else:
        pytest.skip("no control group can be made here")
    try:
        yield group
    finally:
        deadline = time.monotonic() + 60
        while group.exists():  # the kernel takes the last process out in its own time
            with contextlib.suppress(OSError if time.monotonic() < deadline else ()):
                group.rmdir()


OF_HOSTS = """#!/bin/sh
# takes: alike 5-14
case $1 in
get) cat {value} ;;
set) echo "$2" >{value}; [ "$2" = alike ] || echo 'each wn02.fiu.test=5 wn03.fiu.test=14.5 wn04=x' >>{value} ;;
esac
"""


def test_what_hosts_each_have_a_number_of_is_told_of_each_whose_number_is_one(place):
    place.value.write_text("alike\n")
    place.program.write_text(OF_HOSTS.format(value=place.value))
    arranged, [restored] = place.during("5-14")
    assert (arranged["now"], arranged["each"]) == ("5-14", {"wn02.fiu.test": 5.0, "wn03.fiu.test": 14.5})
    assert (restored["now"], place.value.read_text()) == ("alike", "alike\n")


def test_a_slow_word_tells_first_how_long_it_may_take_and_the_trial_waits_so_long_for_its_undoing(place):
    place.declare("# within: 300 s")
    first = place.holder("5")
    # Once while somebody else may hold it, and once when it is its own time that counts.
    assert [json.loads(first.stdout.readline()) for _ in range(2)] == [{"within_s": 300}] * 2
    assert json.loads(first.stdout.readline())["now"] == "5"
    first.communicate("")
    arranged, [restored] = place.during("7")
    assert (arranged["within_s"] > 300, restored["now"]) == (True, "14")


def test_endless_input_is_refused(place):
    place.declare("# files: of the trial")
    assert "takes 100000 files at most" in run("sh", "-c", f"yes /a | {place.helper} hold rtt 5").stderr


CACHE = """#!/bin/sh
# takes: cold warm
# within: 300 s
case $1 in
get) cat {value}; echo "$(stat -c %s {cache}) /software" ;;
set) echo "$2" >{value}; [ "$2" = warm ] || : >{cache} ;;
esac
"""


def test_a_cache_says_what_it_held_when_it_was_set_and_when_the_trial_was_over(place):
    cache = place.value.with_name("cache")
    place.value.write_text("warm\n")
    cache.write_bytes(bytes(1000))
    place.program.write_text(CACHE.format(value=place.value, cache=cache))
    arranged, [restored] = place.during("cold", meanwhile=lambda: cache.write_bytes(bytes(700)))
    assert (arranged["now"], arranged["cache"]) == ("cold", {"bytes": 0, "folder": "/software"})
    assert (restored["now"], restored["cache"]) == ("warm", {"bytes": 700, "folder": "/software"})
    assert place.call("get", "rtt").stdout == "warm\nmay take 300 s\n"


OF_FILES = """#!/bin/sh
# takes: cold warm
# files: of the trial
case $1 in
get) cat {value}; echo "0 root://cache:1094/"; echo "saw $(paste -sd+)" ;;
set) echo "$2" >{value}; paste -sd+ >>{value}.files ;;
esac
"""


def test_a_cache_of_data_is_told_the_trials_files_each_once_and_again_to_restore_it(place):
    replicas = place.value.with_name("replicas.txt")
    urls = ("root://cache:1094//data/a.root", "file:///data/b.root", "root://cache:1094//data/a.root")
    replicas.write_text("".join(f"{url}\t9\n" for url in urls))
    place.program.write_text(OF_FILES.format(value=place.value))
    arranged, [restored] = place.during("cold", "--replicas", str(replicas))
    assert restored["event"] == "restored"
    assert arranged["cache"]["trouble"] == "saw /data/a.root+/data/b.root"
    assert place.value.with_name("value.files").read_text() == 2 * "/data/a.root+/data/b.root\n"


def test_what_cannot_be_restored_of_another_trials_files_keeps_nobody_out(place):
    failing = OF_FILES.replace("set)", "set) ! grep /gone || exit 1;")
    place.value.write_text("warm\n")
    place.program.write_text(failing.format(value=place.value))
    place.state.mkdir()
    left = place.state / "rtt.json"
    left.write_text(json.dumps({"before": "warm", "files": ["/gone"], "now": "warm"}))
    held = place.call("hold", "rtt", "cold", given="/data/a\n\n")
    assert (held.returncode, left.exists()) == (0, False)
    assert "passed over, an earlier holder's: rtt set warm: exit status 1" in held.stderr


def test_a_value_that_cannot_be_restored_is_told_with_the_file_that_has_it(place):
    place.value.write_text("13\n")  # which its program refuses to set
    for _ in ("at the end", "by the next one"):
        held = place.call("hold", "rtt", "5")
        assert held.returncode == 1
        assert f"13 is not restored: the next holder tries it again, or set it and remove {place.state}" in held.stderr


@pytest.mark.parametrize("note", ["", "{"])
def test_what_cannot_be_noted_or_read_is_told_and_nothing_is_changed(place, note):
    if note:
        place.state.mkdir(exist_ok=True)
        (place.state / "rtt.json").write_text(note)
    with contextlib.nullcontext() if note else full_disk():
        held = place.call("hold", "rtt", "5")
    why = "Expecting property name" if note else "File too large"
    assert (held.returncode, place.value.read_text()) == (1, "14\n")
    assert held.stderr.startswith("tierbench-arrange: rtt: ")
    assert why in held.stderr
    assert f"is noted in {place.state}" in held.stderr


@pytest.mark.parametrize("path", ["/data/../etc/passwd", "/data/a b", "/data/$(id)", "data/a"])
def test_nothing_but_plain_paths_reaches_roots_program(place, path):
    place.program.write_text(OF_FILES.format(value=place.value))
    refused = place.call("hold", "rtt", "cold", given=f"{path}\n\n")
    assert refused.returncode == 2
    assert "takes plain absolute paths" in refused.stderr


@pytest.mark.parametrize(
    ("within", "older_helper", "seen"),
    [
        ("", False, "rtt can be 47; it is 14 again"),
        ("# within: 1800 s", False, "rtt is 14; not changed to try it, since that may take 1800 s"),
        ("# within: 1800 s", True, "rtt can be 47; it is 14 again"),
    ],
)
def test_the_doctor_tries_what_is_changed_in_a_minute(place, within, older_helper, seen):
    place.declare(within)
    if older_helper:
        place.helper.write_text(place.helper.read_text().replace('print(f"may take', '(f"may take'))
    assert asked_of_the_doctor(place) == ("good", seen)


def test_the_doctor_names_a_value_that_is_not_taken_and_passes_over_what_sudo_says(place):
    place.helper = script(place.helper.with_name("sudo"), "echo 'sudo: no host' >&2", f'exec {place.helper} "$@"')
    assert asked_of_the_doctor(place) == ("good", "rtt can be 47; it is 14 again")
    assert asked_of_the_doctor(place, "47.04", 0.1) == ("good", "rtt can be 47.04; it is 14 again")
    clamped = place.program.read_text().replace("set)", "set) set -- set $(($2 > 20 ? 20 : $2));", 1)
    place.program.write_text(clamped)
    assert asked_of_the_doctor(place) == ("bad", "rtt is 20 where 47 was asked for")
    script(place.program, "# takes: cold warm", "echo cold")  # of a trial's files, of which there are none
    assert asked_of_the_doctor(place, "warm")[0] == "good"


def asked_of_the_doctor(place, value="47", tolerance_pct=0.0):
    question = {"helper": str(place.helper), "word": "rtt", "values": [value], "tolerance_pct": tolerance_pct}
    question["ask"] = "condition"
    probe = run(sys.executable, "-c", single_file("tierbench.wrappers.probe"), json.dumps([question]))
    [answer] = json.loads(probe.stdout)["answers"]
    return answer["state"], answer["seen"]


def test_it_changes_the_value_and_restores_it_when_its_input_ends_or_it_is_ended(place):
    for ended in (False, True):
        assert place.call("get", "rtt").stdout == "14\n"
        holder = place.held("47")
        assert place.value.read_text() == "47\n"
        if ended:
            holder.send_signal(signal.SIGTERM)
        told, _ = holder.communicate(timeout=120)
        assert ended or json.loads(told) == {"word": "rtt", "at_end": "47", "restored": "14"}
        assert place.value.read_text() == "14\n"


@pytest.mark.parametrize(("since", "after"), [("47\n", "14\n"), ("25\n", "25\n")], ids=["nothing", "another value"])
def test_what_a_killed_holder_left_is_restored_by_the_next_one_unless_somebody_has_set_it_since(place, since, after):
    holder = place.held("47")
    kill(place.helpers())
    holder.communicate(timeout=120)
    assert place.value.read_text() == "47\n"
    place.value.write_text(since)
    place.held("60").communicate(timeout=120)
    assert place.value.read_text() == after


def test_a_value_that_somebody_else_changes_meanwhile_is_trouble(place):
    arranged, [restored] = place.during("47", meanwhile=lambda: place.value.write_text("20\n"))
    trial = place.value.parent / "trial"
    (trial / "arranged").mkdir(parents=True)
    records = "".join(json.dumps(record) + "\n" for record in (arranged, restored))
    (trial / "arranged/wan-rtt.wan.jsonl").write_text(records)
    state = ConditionState(trial, Condition("wan-rtt.wan", "wan-rtt", "wan", "47", "ms", 0.0))
    assert state.trouble() == "wan-rtt on wan was 20 ms at the end: somebody else has changed it meanwhile"
    # A cache, which the trial itself has filled.
    state.path.write_text(records.replace('"47"', '"cold"').replace('"20"', '"warm"'))
    assert not ConditionState(trial, state.condition._replace(value="cold")).trouble()
    assert state.restored


def test_a_word_that_says_nothing_is_refused_before_it_changes_anything(place):
    place.value.write_text("")
    refused = place.call("hold", "rtt", "47")
    assert (refused.returncode, "get: says nothing" in refused.stderr, place.value.read_text()) == (1, True, "")
    assert not list(place.state.glob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "exit_status", "words"),
    [
        (("hold", "rtt", "13"), 1, "not on a Friday"),  # by the program itself
        (("hold", "rtt", "2001"), 2, "takes a number in 0 to 2000"),
        (("hold", "rtt", "1;reboot"), 2, "takes a number in 0 to 2000"),
        (("hold", "rtt", "nan"), 2, "takes a number in 0 to 2000"),
        (("hold", "rtt", "-1"), 2, "takes a number in 0 to 2000"),
        (("hold", "../rtt", "1"), 2, "a word has small letters"),
        (("get", "rate"), 2, "this host arranges no rate; its words are: rtt"),
        (("get",), 2, "usage"),
        ((), 2, "usage"),
    ],
)
def test_a_change_that_fails_is_undone_and_nothing_else_reaches_the_words_program(place, arguments, exit_status, words):
    result = place.call(*arguments)
    assert (result.returncode, place.value.read_text()) == (exit_status, "14\n")
    assert words in result.stderr


@pytest.mark.parametrize("which", ["program", "words"])
def test_a_program_that_others_could_change_is_not_run(place, which):
    getattr(place, which).chmod(0o777)
    result = place.call("get", "rtt")
    assert (result.returncode, result.stdout) == (4, "")


def test_a_link_is_no_program_and_only_root_is_served(place):
    (place.words / "other").symlink_to(place.program)
    assert place.call("get", "other").returncode == 4
    result = run("setpriv", "--reuid=65534", "--clear-groups", place.helper, "get", "rtt")
    assert result.returncode == 4
    assert "only root can do this" in result.stderr


def test_a_job_holds_a_condition_until_it_is_told_to_stop(place):
    place.program.write_text(place.program.read_text().replace("set)", "set) sleep 0.1;", 1))
    arranged, [restored] = place.during("47")
    assert (arranged["event"], arranged["before"], arranged["now"]) == ("arranged", "14", "47")
    assert (restored["event"], restored["now"], place.value.read_text()) == ("restored", "14", "14\n")
    assert arranged["mono_ns"] < restored["undoing_mono_ns"] < restored["mono_ns"] - 0.1e9  # which undoing it took


@pytest.fixture
def job(place):
    """A job that holds the value."""
    job = place.job("47")
    job.stdout.readline()
    return job


def test_a_job_that_is_removed_and_again_while_it_restores_the_value_does_so(place, job):
    place.program.write_text(place.program.read_text().replace("set)", f"set) kill {job.pid};", 1))
    job.send_signal(signal.SIGTERM)
    assert [line["event"] for line in lines(job)] == ["restored"]
    assert place.value.read_text() == "14\n"


def test_an_access_point_that_does_not_answer_for_once_ends_no_condition(monkeypatch):
    fetch = Mock(side_effect=[OSError, "", "stop"])
    for name, stand_in in {"POLL_S": 0, "in_job": lambda: True, "AccessPoint": lambda: Mock(fetch=fetch)}.items():
        monkeypatch.setattr(arrange, name, stand_in)
    arrange.wait_for("stop", Mock(process=Mock(poll=lambda: None)))
    assert fetch.call_count == 3


def test_a_job_that_is_removed_before_it_has_changed_anything_says_so(place):
    files = place.value.parent / "replicas.txt"
    os.mkfifo(files)
    job = place.job("40", "--replicas", files)
    with files.open("w"):
        status = Path(f"/proc/{job.pid}/stat")
        wait_until(lambda: status.read_text().rpartition(")")[2].split()[0] == "S")  # now it reads them
        job.terminate()
        assert [line["message"] for line in lines(job)] == ["stopped before anything was changed"]


@pytest.mark.parametrize("whole", [False, True], ids=["alone", "with its whole family"])
def test_a_job_that_is_killed_leaves_the_value_restored(place, job, whole):
    kill(family(job.pid, f"{ANCESTOR}={place.script}") if whole else {job.pid})
    job.communicate(timeout=120)
    if whole:
        wait_until(lambda: place.value.read_text() == "14\n")  # by the holder, and not by the next one
    assert place.call("hold", "rtt", "5").returncode == 0  # which waits for the holder before it
    assert place.value.read_text() == "14\n"


def test_a_job_tells_that_the_process_which_holds_its_value_was_killed(place, job):
    kill(place.helpers() - family(job.pid, ANCESTOR))
    (failed,) = lines(job)
    assert "the process that held rtt was killed" in failed["message"]


def test_the_holder_leaves_htcondors_control_groups(place):
    with group_of_condor() as group:
        job = subprocess.Popen(
            ["sh", "-c", 'echo 0 >"$1"; shift; exec "$@"', "sh", group / "cgroup.procs",
             place.helper, "hold", "rtt", "47"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        job.stdout.readline()
        inside = set(map(int, (group / "cgroup.procs").read_text().split()))
        (holder,) = place.helpers() - {job.pid}
        job.communicate(timeout=120)
    assert inside == {job.pid} != {holder}


@pytest.mark.parametrize(
    ("value", "more", "words"),
    [
        ("13", [], "not on a Friday"),
        ("9999", [], "takes a number in 0 to 2000"),
        ("47", ["--helper", "/no/helper"], "is what an admin installs"),
    ],
)
def test_a_job_tells_why_a_condition_is_not_held(place, value, more, words):
    (failed,) = lines(place.job(value, *more))
    assert (failed["event"], words in failed["message"]) == ("failed", True)
