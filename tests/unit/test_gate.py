"""Start gate and stop, run as HTCondor runs them: in a trial's directory, beside turn.py, without any environment."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.shipped import PYTHON, ship
from tierbench.dags import names
from tierbench.dags.graphs import CALLED_OFF
from tierbench.starts import begin_of
from tierbench.submit.trial import stop, watched

CLOSED_S = 0.4
TOGETHER = {"kind": "together", "every_s": 0.0}
IN_TURN = {"kind": "in-turn", "every_s": 0.0}
WHEN = "2026-01-01 12:00:00"
LIMITS = {"ready_s": 60, "end_s": 60, "read_s": 50, "stall_s": 60, "away_s": 60, "samplers_s": 60, "stop_s": 1}


class Gate:
    """Gate and stop at work on a trial of two clients, a flushed host and a sampler."""

    def __init__(self, run: Path, start: dict[str, Any] = TOGETHER, *, at_work: bool = True, **limits: float) -> None:
        scripts = run / names.SCRIPTS
        scripts.mkdir()
        ship(scripts)
        self.run = run
        self.trial = run / names.TRIALS / "one"
        self.trial.mkdir(parents=True)
        for folder in names.FILLED:
            (self.trial / folder).mkdir()
        sampler = {"host": "oss", "role": "storage", "via": "pool"}
        definition = {
            "jobs": 2, "flush": {"hosts": ["wn01"]}, "samplers": [sampler], "start": start, "sample_period_s": 0.2,
            "conditions": [],
            "limits": {**LIMITS, **limits},
        }  # fmt: skip
        (self.trial / names.REPLICAS).write_text("file:///data/1\t1\nfile:///data/2\t1\n")
        (self.trial / names.TRIAL).write_text(json.dumps(definition))
        (run / names.TURN).write_text("one")
        self.scripts = scripts
        self.processes: list[subprocess.Popen[bytes]] = []
        if at_work:
            self.start()

    def start(self) -> None:
        # As HTCondor's local universe does it: no environment at all.
        self.processes = [
            subprocess.Popen([PYTHON, self.scripts / name], cwd=self.trial, env={}) for name in ("gate.py", "stop.py")
        ]
        self.gate, self.stop = self.processes

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def log(self, name: str, *lines: str) -> None:
        with (self.trial / name).open("a") as file:
            file.writelines(f"{line}\n...\n" for line in lines)

    def add_sampler(self, host: str, role: str) -> None:
        """Those that read this begin with it."""
        self.kill()
        trial = json.loads((self.trial / names.TRIAL).read_text())
        trial["samplers"].append({"host": host, "role": role, "via": "pool"})
        (self.trial / names.TRIAL).write_text(json.dumps(trial))
        self.start()

    @property
    def waits_for(self) -> str:
        """What it tells of waiting for."""
        try:
            return str(json.loads((self.trial / names.WAITING_FOR).read_text())["what"])
        except FileNotFoundError:
            return ""

    def flushed(self) -> None:
        (self.trial / names.flush_report("wn01")).write_text('{"status": "ok"}')

    def sampling(self, *bytes_sent: int) -> None:
        """A header and the records so far."""
        columns = [{"name": name} for name in ("mono_ns", "rx_bytes", "tx_bytes")]
        header = json.dumps({"tierbench": "samples", "columns": columns, "record_bytes": 40})
        records = [f"{n:10d} {0:10d} {sent:10d}".ljust(39) for n, sent in enumerate(bytes_sent or (0, 0))]
        (self.trial / names.sample_file("oss")).write_text("\n".join([header, *records]) + "\n")

    @property
    def why(self) -> str:
        """Why the trial was called off; DAGMan then removes its jobs."""
        wait_until((self.trial / names.CALLED_OFF).exists)
        assert sorted((self.gate.wait(60), self.stop.wait(60))) == [0, CALLED_OFF]  # one of them has
        return str(json.loads((self.trial / names.CALLED_OFF).read_text())["reason"])

    def tells(self, client: int, **record: Any) -> None:
        with (self.trial / names.client_output(client)).open("a") as file:
            file.write(json.dumps(record) + "\n")

    def begun(self, *clients: int) -> None:
        for n in clients:
            self.log(names.CLIENTS_LOG, f"000 (7.00{n}.000) {WHEN} Job submitted from host: <198.18.2.11:9618>")
            self.log(
                names.CLIENTS_LOG, f"001 (7.00{n}.000) {WHEN} Job executing on host: <>\n\tSlotName: slot1_{n}@wn0{n}"
            )

    def terminated(self, *clients: int) -> None:
        how = "Job terminated.\n\t(1) Normal termination (return value 0)"
        self.log(names.CLIENTS_LOG, *(f"005 (7.00{n}.000) {WHEN} {how}" for n in clients))

    def ready(self, *clients: int) -> None:
        self.begun(*clients)
        self.log(names.CLIENTS_LOG, *(f"008 (7.00{n}.000) {WHEN} TIERBENCH READY {n}" for n in clients))

    def said(self) -> dict[str, Any]:
        wait_until((self.trial / names.GO).exists)
        said: dict[str, Any] = json.loads((self.trial / names.GO).read_text())
        return said

    def open(self) -> None:
        self.flushed()
        self.sampling()
        self.ready(0, 1)
        self.said()


def test_a_gate_that_was_started_ahead_waits_for_its_turn(trial: Gate) -> None:
    trial.kill()
    definition = json.loads((trial.trial / names.TRIAL).read_text())
    (trial.trial / names.TRIAL).write_text(json.dumps({**definition, "ahead": True}))
    trial.start()
    trial.flushed()
    trial.sampling()
    trial.ready(0, 1)
    time.sleep(CLOSED_S)
    assert not (trial.trial / names.GO).exists()
    (trial.trial / names.BEGUN).write_text("begun\n")
    assert trial.said()["go_wall_ns"]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Gate]:
    trial = Gate(tmp_path)
    yield trial
    trial.kill()


def wait_until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_opens_when_all_are_ready_flushed_and_sampled(trial: Gate) -> None:
    trial.open()
    assert trial.said()["go_wall_ns"] > time.time_ns() - 10**10


@pytest.mark.parametrize("lacking", ["ready", "flushed", "sampling"])
def test_it_stays_closed_while_anything_is_lacking(trial: Gate, lacking: str) -> None:
    for name, does in (
        ("ready", lambda: trial.ready(0, 1)),
        ("flushed", trial.flushed),
        ("sampling", trial.sampling),
    ):
        if name == lacking:
            trial.ready(0)
        else:
            does()
    time.sleep(CLOSED_S)
    assert not (trial.trial / names.GO).exists()


def test_it_does_not_wait_for_a_client_that_has_ended(trial: Gate) -> None:
    trial.flushed()
    trial.sampling()
    trial.ready(0)
    trial.terminated(1)
    assert "go_wall_ns" in trial.said()


def test_who_watches_many_clients_leaves_the_cores_to_them(trial: Gate) -> None:
    """A look at 10,000 takes a tenth of a second and would be taken ten times in one."""
    trial.kill()
    definition = json.loads((trial.trial / names.TRIAL).read_text())
    (trial.trial / names.TRIAL).write_text(json.dumps({**definition, "jobs": 10_000}))
    trial.start()
    trial.begun(0)
    wait_until(lambda: trial.waits_for)  # it has looked once
    before, since = cpu_seconds(trial.gate.pid), time.monotonic()
    time.sleep(2)
    assert cpu_seconds(trial.gate.pid) - before < 0.4 * (time.monotonic() - since)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_without_a_flush_the_trial_is_called_off(trial: Gate) -> None:
    trial.ready(0, 1)
    trial.log("flush.log", f"005 (6.000.000) {WHEN} Job terminated.\n\t(1) Normal termination (return value 0)")
    assert "the flush on wn01 failed" in trial.said()["called_off"]


def test_the_turn_is_passed_on_when_the_last_client_has_said_its_end(trial: Gate) -> None:
    trial.open()
    (trial.trial / names.client_output(0)).write_text('{"event": "end"}\n')
    time.sleep(CLOSED_S)
    assert not (trial.trial / names.SERVED).exists()
    (trial.trial / names.client_output(1)).write_text('{"event": "end"}\n')
    wait_until((trial.trial / names.SERVED).exists)


def test_a_client_that_died_without_a_word_is_not_waited_for(trial: Gate) -> None:
    trial.open()
    trial.terminated(0, 1)
    wait_until((trial.trial / names.SERVED).exists)


def test_samplers_see_the_idle_storage_before_they_are_stopped(trial: Gate) -> None:
    trial.open()
    for number in (0, 1):
        (trial.trial / names.client_output(number)).write_text('{"event": "end"}\n')
    assert trial.stop.wait(60) == 0
    idle = (trial.trial / names.STOP).stat().st_mtime - (trial.trial / names.SERVED).stat().st_mtime
    assert idle >= stop.IDLE_SECONDS - 0.01  # the stamps of files are some ms old


def test_it_ends_when_no_client_is_left_to_wait_for_the_samplers(trial: Gate) -> None:
    trial.terminated(0, 1)
    assert trial.stop.wait(60) == 0
    assert not (trial.trial / names.GO).exists()


# When it does not come to that


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Callable[..., Gate]]:
    """Makes a gate with limits of its own; one that is not at work yet finds all that the test has laid out for it."""
    gates: list[Gate] = []

    def make(*, at_work: bool = True, **limits: float) -> Gate:
        gates.append(Gate(tmp_path, at_work=at_work, **limits))
        return gates[-1]

    yield make
    for made in gates:
        made.kill()


def test_clients_that_get_no_slot_are_not_waited_for_without_end(impatient: Callable[..., Gate]) -> None:
    trial = impatient(at_work=False, ready_s=1)
    trial.flushed()
    trial.sampling()
    trial.ready(0)
    trial.start()
    assert "client 1 without a slot" in trial.why


def test_a_storage_server_that_is_not_sampled_is_not_waited_for_without_end(impatient: Callable[..., Gate]) -> None:
    trial = impatient(at_work=False, ready_s=1)
    trial.flushed()
    trial.ready(0, 1)
    trial.start()
    assert "samples of oss" in trial.why


def test_the_sampler_of_a_storage_server_that_was_held_calls_the_trial_off(trial: Gate) -> None:
    trial.log("samplers.log", f"000 (5.000.000) {WHEN} Job submitted from host: <>")
    trial.log("samplers.log", f"012 (5.000.000) {WHEN} Job was held.\n\tno such interface\n\tCode 1 Subcode 0")
    assert "the sampler on oss was held: no such interface" in trial.why


def test_clients_that_wait_for_the_go_are_told_that_it_is_called_off(impatient: Callable[..., Gate]) -> None:
    trial = impatient(at_work=False, ready_s=1)
    trial.ready(0)
    trial.start()
    assert trial.said()["called_off"] == trial.why


def test_another_hosts_sampler_is_waited_for_a_while_and_then_done_without(impatient: Callable[..., Gate]) -> None:
    trial = impatient(samplers_s=0.5)
    trial.add_sampler("wn01", "worker")
    trial.flushed()
    trial.sampling()
    trial.ready(0, 1)
    assert "go_wall_ns" in trial.said()


def test_who_does_not_end_is_not_waited_for_without_end(impatient: Callable[..., Gate]) -> None:
    """Whatever the client does: stopped, or in a read that cannot be killed."""
    trial = impatient(at_work=False, end_s=1, read_s=0)
    trial.flushed()
    trial.sampling()
    trial.ready(0, 1)
    trial.terminated(0)
    trial.start()
    assert trial.why.startswith("client 1 had not ended 1 s after the go")


def test_a_worker_that_does_not_answer_ends_the_trial(impatient: Callable[..., Gate]) -> None:
    trial = impatient(away_s=1)
    trial.open()
    trial.log(names.CLIENTS_LOG, f"022 (7.001.000) {WHEN} Job disconnected, attempting to reconnect\n    Socket closed")
    wait_until(lambda: "client 1" in trial.waits_for)
    assert trial.why == "client 1 was lost: its slot slot1_1@wn01 does not answer (Socket closed)"


def test_a_worker_that_answers_again_in_time_is_no_matter(impatient: Callable[..., Gate]) -> None:
    trial = impatient(away_s=1.5)
    trial.open()
    away = f"022 (7.001.000) {WHEN} Job disconnected, attempting to reconnect\n    Socket closed"
    trial.log(names.CLIENTS_LOG, away, f"023 (7.001.000) {WHEN} Job reconnected to slot1_1@wn01")
    time.sleep(2)
    assert trial.stop.poll() is None
    assert not (trial.trial / names.CALLED_OFF).exists()


def test_a_client_that_begins_anew_ends_the_trial(trial: Gate) -> None:
    trial.open()
    trial.begun(1)
    assert trial.why == "client 1 began anew, on slot1_1@wn01"


def test_storage_that_moves_nothing_ends_the_trial(impatient: Callable[..., Gate]) -> None:
    trial = impatient(stall_s=3)
    trial.open()
    trial.sampling(0, 10**9)
    assert "the storage has moved nothing for" in trial.why


def test_a_worker_lost_before_the_storage_stood_still_is_told_first(impatient: Callable[..., Gate]) -> None:
    trial = impatient(stall_s=4)
    trial.open()
    trial.log(names.CLIENTS_LOG, f"022 (7.001.000) {WHEN} Job disconnected, attempting to reconnect\n    Socket closed")
    assert trial.why.startswith(
        "client 1, which was lost: its slot slot1_1@wn01 does not answer (Socket closed); since"
    )


def test_storage_that_moves_something_does_not(impatient: Callable[..., Gate]) -> None:
    trial = impatient(stall_s=4)
    trial.open()
    for moved in range(60):
        trial.sampling(0, 10**6 * moved)
        time.sleep(0.1)
    assert trial.stop.poll() is None


def test_clients_that_come_on_without_it_are_not_called_off(impatient: Callable[..., Gate]) -> None:
    """Metadata's few bytes go to another server, and what is done on a worker's own disk goes nowhere."""
    trial = impatient(stall_s=4)
    trial.open()
    for done in range(60):
        trial.tells(1, event="progress", done=done)
        time.sleep(0.1)
    assert trial.stop.poll() is None
    assert "the storage has moved nothing for" in trial.why


def test_a_gate_that_died_finds_its_go_and_goes_on(trial: Gate) -> None:
    trial.open()
    go = trial.said()
    trial.kill()
    trial.start()
    trial.terminated(0, 1)
    assert trial.stop.wait(60) == 0
    assert trial.said() == go


def test_a_stop_that_died_goes_on_where_it_was(trial: Gate) -> None:
    trial.open()
    trial.kill()
    trial.start()
    assert trial.gate.wait(60) == 0
    trial.terminated(0, 1)
    assert trial.stop.wait(60) == 0
    assert not (trial.trial / names.CALLED_OFF).exists()


def test_without_a_gate_the_stop_watches_how_the_clients_begin(trial: Gate) -> None:
    trial.kill()
    definition = json.loads((trial.trial / names.TRIAL).read_text())
    limits = {**LIMITS, "ready_s": 1}
    (trial.trial / names.TRIAL).write_text(json.dumps({**definition, "start": {"kind": "natural"}, "limits": limits}))
    trial.stop = subprocess.Popen([PYTHON, trial.scripts / "stop.py"], cwd=trial.trial, env={})
    trial.processes.append(trial.stop)
    trial.flushed()
    assert trial.stop.wait(60) == CALLED_OFF
    assert "clients 0, 1 without a slot" in (trial.trial / names.CALLED_OFF).read_text()


def test_those_who_watch_have_the_exit_status_that_dagman_looks_for() -> None:
    assert watched.CALLED_OFF == CALLED_OFF


def test_an_earlier_trys_clients_are_not_taken_for_this_ones(trial: Gate) -> None:
    """A job that could not be ended writes on into the log when the trial is tried again."""
    aborted = [f"009 (3.00{n}.000) {WHEN} Job was aborted.\n\tDAG Abort" for n in (0, 1)]
    trial.begun(0, 1)
    trial.log(names.CLIENTS_LOG, *aborted)
    time.sleep(CLOSED_S)
    assert not (trial.trial / names.SERVED).exists()


def test_storage_is_seen_at_rest_for_a_whole_interval_before_the_go(trial: Gate) -> None:
    """With a period of five seconds, too, its rate without clients is known then."""
    trial.flushed()
    trial.sampling(0)
    trial.ready(0, 1)
    time.sleep(CLOSED_S)
    assert not (trial.trial / names.GO).exists()
    trial.sampling(0, 0)
    assert "go_wall_ns" in trial.said()


# What the site has arranged

RTT = {
    "name": "wan-rtt.wan", "condition": "wan-rtt", "host": "wan", "word": "rtt", "value": "47", "unit": "ms",
    "tolerance_pct": 1.0, "helper": "/usr/local/sbin/tierbench-arrange",
}  # fmt: skip


@pytest.fixture
def arranged(trial: Gate) -> Gate:
    """A trial for which the WAN is to be 47 ms long."""
    trial.kill()
    definition = json.loads((trial.trial / names.TRIAL).read_text())
    (trial.trial / names.TRIAL).write_text(json.dumps({**definition, "conditions": [RTT]}))
    trial.start()
    trial.flushed()
    trial.sampling()
    trial.ready(0, 1)
    return trial


def says(trial: Gate, event: str, **content: str) -> None:
    with (trial.trial / names.ARRANGED / "wan-rtt.wan.jsonl").open("a") as file:
        file.write(json.dumps({"event": event, **content}) + "\n")


def test_it_opens_when_the_condition_is_what_was_asked_for(arranged: Gate) -> None:
    time.sleep(CLOSED_S)
    assert not (arranged.trial / names.GO).exists()
    says(arranged, "arranged", before="14", now="47.2")
    assert "go_wall_ns" in arranged.said()


@pytest.mark.parametrize(
    ("event", "content", "why"),
    [
        ("arranged", {"before": "14", "now": "14"}, "wan-rtt on wan is 14 ms where 47 ms were asked for"),
        ("failed", {"message": "no such word"}, "wan-rtt on wan could not be arranged: no such word"),
    ],
)
def test_a_condition_that_did_not_take_calls_the_trial_off(
    arranged: Gate, event: str, content: dict[str, str], why: str
) -> None:
    says(arranged, event, **content)
    assert arranged.why == why


def test_a_condition_that_is_undone_too_early_calls_the_trial_off(arranged: Gate) -> None:
    says(arranged, "arranged", before="14", now="47")
    arranged.said()
    says(arranged, "restored", now="14")
    assert arranged.why == "wan-rtt on wan was undone before the trial was over"


def test_a_condition_whose_job_ends_without_a_word_calls_the_trial_off(arranged: Gate) -> None:
    arranged.log("arrange.log", f"009 (6.000.000) {WHEN} Job was aborted.\n\tvia condor_rm (by user bench)")
    assert arranged.why.startswith("wan-rtt on wan was let go before the trial was over: its job")


def test_a_condition_whose_job_is_killed_calls_the_trial_off(arranged: Gate) -> None:
    """Root's helper restores it then, and nobody is left to say so."""
    says(arranged, "arranged", before="14", now="47")
    arranged.said()
    arranged.log("arrange.log", f"005 (6.000.000) {WHEN} Job terminated.\n\t(0) Abnormal termination (signal 9)")
    assert arranged.why.startswith("wan-rtt on wan was let go before the trial was over: its job")


def test_the_next_trial_does_not_begin_under_this_ones_conditions(arranged: Gate) -> None:
    says(arranged, "arranged", before="14", now="47")
    arranged.said()
    for number in (0, 1):
        (arranged.trial / names.client_output(number)).write_text('{"event": "end"}\n')
    wait_until((arranged.trial / names.STOP).exists)
    assert not (arranged.trial / names.SERVED).exists()
    says(arranged, "restored", now="14")
    wait_until((arranged.trial / names.SERVED).exists)


@pytest.fixture
def in_turn(tmp_path: Path) -> Iterator[Gate]:
    trial = Gate(tmp_path, start=IN_TURN)
    yield trial
    trial.kill()


def test_clients_that_begin_one_by_one_have_one_go_and_a_step(tmp_path: Path) -> None:
    trial = Gate(tmp_path, start={"kind": "every", "every_s": 2.5})
    trial.open()
    go = trial.said()
    trial.kill()
    assert [begin_of(go, client) - go["go_wall_ns"] for client in (0, 1)] == [0, 2_500_000_000]  # type: ignore[operator]


def test_nothing_has_to_move_while_the_next_client_does_not_read_yet(tmp_path: Path) -> None:
    trial = Gate(tmp_path, start={"kind": "every", "every_s": 600}, stall_s=1)
    trial.open()
    trial.terminated(0)
    time.sleep(3)  # beyond the limit, and the time that it takes to be seen
    called_off = (trial.trial / names.CALLED_OFF).exists()
    trial.kill()
    assert not called_off


def test_a_clients_turn_comes_when_the_one_before_has_ended(in_turn: Gate) -> None:
    in_turn.open()
    time.sleep(CLOSED_S)
    assert len(in_turn.said()["turns_wall_ns"]) == 1
    ended = time.time_ns()
    in_turn.terminated(0)
    wait_until(lambda: len(in_turn.said()["turns_wall_ns"]) == 2)
    assert in_turn.said()["turns_wall_ns"][1] > ended
    assert in_turn.gate.wait(60) == 0
    in_turn.terminated(1)
    assert in_turn.stop.wait(60) == 0


def test_a_gate_that_died_between_two_turns_goes_on(in_turn: Gate) -> None:
    in_turn.open()
    first = in_turn.said()
    in_turn.kill()
    in_turn.terminated(0)
    in_turn.start()
    wait_until(lambda: len(in_turn.said()["turns_wall_ns"]) == 2)
    assert in_turn.said()["turns_wall_ns"][0] == first["go_wall_ns"]


def test_who_waits_for_its_turn_learns_that_the_trial_is_called_off(in_turn: Gate) -> None:
    in_turn.kill()
    definition = json.loads((in_turn.trial / names.TRIAL).read_text())
    limits = {**LIMITS, "stall_s": 2}
    (in_turn.trial / names.TRIAL).write_text(json.dumps({**definition, "limits": limits}))
    in_turn.start()
    in_turn.open()
    wait_until((in_turn.trial / names.CALLED_OFF).exists)
    reason = in_turn.why
    assert "while client 0 read" in reason
    assert in_turn.said()["called_off"] == reason
