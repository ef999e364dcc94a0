"""An experiment from its definition to its tables on a real pool and real storage, also when things go wrong.

One experiment is measured alone. The small runs after it show courses of events, not rates, so they run all at once.
"""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import htcondor2
import pytest
from htcondor2 import JobEventType

from tests.testbed.runs import (
    HOME,
    RUN_SECONDS,
    Ran,
    all_read,
    content,
    fed,
    outcome,
    sent_again,
)
from tierbench import names
from tierbench.submit.trial.joblog import Cluster, last_record

# The server's counter is interpolated at the window's edges, so the period is short beside windows of some seconds.
# ROOT looks at what it has opened for 0.1 s without reading, which is little beside them, too.
MEASURED = """
access = ["lan-xrootd", "wan-xrootd-private", "wan-xrootd-public", "direct"]
batches = [2]
sample_period_s = 0.05
retries = 1
workloads.root = { client = "root", replicas = "tree" }
workloads.dd = { client = "dd", replicas = "tree", access = ["direct"] }
replicas.tree = { kind = "tree", count = 10, size_mb = 24 }
"""

SMALL = """
access = {access}
batches = {batches}
repeats = {repeats}
retries = 1
start = "{start}"
workloads.copy = {{ client = "xrdcp", replicas = "{replicas}" }}
replicas.short = {{ kind = "random", count = 2, size_mb = 1 }}
replicas.middling = {{ kind = "random", count = 1, size_mb = 48 }}
replicas.long = {{ kind = "random", count = 4, size_mb = 512 }}
"""


@dataclass(frozen=True)
class Stopped(Ran):
    """A run that was stopped, and the jobs of it that were in the queue after that."""

    left_in_queue: str


# -- one experiment, measured ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(access_point):
    """One trial of each of the four ways with root, and one of dd."""
    return access_point.measured("measured", MEASURED)


def test_all_trials_are_complete(measured):
    assert {
        row["trial_id"]: row["reasons"] for row in measured.rows(names.TRIALS_CSV) if row["state"] != "complete"
    } == {}
    assert len(measured.rows(names.TRIALS_CSV)) == 5
    assert measured.ended_well
    assert [trial.name for trial in measured.trials if (trial / names.TRIES).exists()] == []


@pytest.mark.quiet
def test_no_trial_is_doubted(measured, machine):
    doubted = [row for row in fed(measured.rows(names.TRIALS_CSV), machine) if row["verdict"] != "VALID"]
    assert {row["trial_id"]: row["verdict_reasons"] for row in doubted} == {}


def test_the_clocks_were_compared(measured):
    """On one kernel they are one clock; what is measured is less than the 10 ms of uptime's step and 14 of the WAN.

    A slow answer only adds to it, so the least of all trials' counts.
    """
    assert min(abs(float(row["clock_offset_ms"])) for row in measured.rows(names.TRIALS_CSV)) <= 24


def test_the_versions_are_kept(measured):
    hosts = content(measured.directory / names.CONDITIONS)["hosts"]
    assert {"client.condor", "client.kernel", "client.root_version"} <= hosts["wn01.private.fiu.test"].keys()
    assert {"kernel", "congestion_control", "mtu"} <= hosts["oss.uf.test"].keys()
    assert hosts["oss.uf.test"]["congestion_control"] == "cubic"  # by route, whatever the machine's own is


def test_behind_the_gate_clients_start_together(measured):
    """On a quiet machine within a millisecond (docs/runs.md); without a gate each trial's are hundreds apart."""
    assert min(float(row["start_skew_ms"]) for row in measured.rows(names.TRIALS_CSV)) < 50


def test_the_server_sent_what_the_clients_read(measured):
    """And a little more: headers (4.6 % in full segments), and what a mount reads of a file where ROOT skips parts.

    What TCP sends again after drops at a worker's port depends on how busy this machine is: it is counted apart.
    """
    rows = measured.rows(names.TRIALS_CSV)
    once = {row["trial_id"]: float(row["closure"]) - sent_again(measured, row) for row in rows}
    assert {trial: closure for trial, closure in once.items() if not -0.05 <= closure <= 0.2} == {}


def test_each_client_read_all_of_a_replica_of_its_own_on_a_worker_of_its_pool(measured):
    jobs = measured.rows(names.JOBS_CSV)
    pools = {trial["name"]: trial["workers"] for trial in (content(folder / names.TRIAL) for folder in measured.trials)}
    assert [row for row in jobs if row["host"] not in pools[row["trial"]]] == []
    files = [Path(row["url"]).name for row in jobs]
    assert len(set(files)) == len(files) == 10
    assert all(row["bytes_app"] == row["bytes_expected"] for row in jobs if row["program"] == "dd")
    events = {row["events"] for row in jobs if row["program"] == "root"}
    assert len(events) == 1  # all of them, for the replicas are alike
    assert events != {""}


def test_no_replica_was_in_memory_when_the_clients_began(measured):
    """But a page or two, perhaps, which the kernel was about to write to as it forgot the others."""
    for trial in measured.trials:
        for host in content(trial / names.TRIAL)["flush"]["hosts"]:
            report = content(trial / names.flush_report(host))
            assert report["status"] == "ok", (trial.name, host)
            assert report["resident_after_bytes"] <= 1e-3 * report["bytes"], (trial.name, host)


def test_a_flush_is_known_of_before_htcondor_has_ended_its_job(measured):
    """The gate waits for the report, which HTCondor would bring home a second later."""
    brought = re.compile(r"^040 \(\d+\.(\d+)\.\d+\) (\S+ \S+) Finished transferring output files", re.MULTILINE)
    for trial in measured.trials:
        hosts = content(trial / names.TRIAL)["flush"]["hosts"]
        ends = {hosts[int(job)]: when for job, when in brought.findall((trial / "flush.log").read_text())}
        for host, when in ends.items():
            ended = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()
            assert (trial / names.flush_report(host)).stat().st_mtime < ended


def test_the_flush_saw_the_replicas_on_each_mount_along_the_way(measured):
    direct, lan = "direct.root.x002.r1", "lan-xrootd.root.x002.r1"
    flushed = {
        (trial, path.stem): content(path)["files"]
        for trial in (direct, lan)
        for path in (measured.trial(trial) / names.FLUSH).glob("*.json")
    }
    assert {(trial, host) for (trial, host), files in flushed.items() if files} == {
        (direct, "wn03.fiu.test"),
        (direct, "wn04.fiu.test"),
        (lan, "dgt.fiu.test"),
    }


def test_htcondors_own_checker_accepts_every_dag(access_point, measured):
    if access_point.command("which", "condor_dag_checker", check=False)[0]:
        pytest.skip("this HTCondor has no condor_dag_checker; 25 has, in the suite forky")
    dags = [dag.relative_to(measured.directory) for dag in measured.directory.rglob("*.dag")]
    assert len(dags) == 1 + 5 + 5  # the experiment, its configurations, their trials
    for dag in dags:
        there = ["env", "-C", f"{HOME}/measured/{dag.parent}"]
        status, answer = access_point.command(*there, "condor_dag_checker", dag.name, check=False)
        assert status == 0, answer


def test_what_goes_into_one_side_of_the_gateway_comes_out_of_the_other(measured):
    def rise(interface, counter):
        mine = [row for row in of_gateway if row["interface"] == interface]
        return int(mine[-1][counter]) - int(mine[0][counter])

    of_gateway = [
        row
        for row in measured.rows(names.SAMPLES_CSV)
        if row["host"] == "dgt.fiu.test" and row["access"] == "wan-xrootd-private"
    ]
    by_nat = rise("eth1", "tx_bytes")
    assert by_nat > 0
    assert rise("eth0", "rx_bytes") == pytest.approx(by_nat, rel=0.05)


def test_the_trials_ran_one_by_one_in_the_plans_order(measured):
    rows = {row["trial_id"]: row for row in measured.rows(names.TRIALS_CSV)}
    times = [int(rows[trial.name][when]) for trial in measured.trials for when in ("go_wall_ns", "end_wall_ns")]
    assert times == sorted(times)


# -- small runs, all at once -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def courses(access_point, measured):
    """What comes of each of the small runs, which begin when nothing is measured any more."""
    assert measured
    access_point.define("missing", small(batches=[1, 2]))
    access_point.define("by-hand", small(*BY_HAND, batches=[2]))
    access_point.define("ungated", small(batches=[2], start="natural"))
    access_point.define("begun", small(batches=[2]) + BEGUN)
    access_point.define("until-known", small(replicas="middling", batches=[1], repeats=UNTIL_KNOWN))
    access_point.define("stopped", small("wan-xrootd-private", replicas="long", batches=[4]))
    access_point.make_replicas("until-known")
    access_point.make_replicas("missing")  # which are those of by-hand and ungated, too
    runs = {
        "missing": lose_a_replica_and_repair,
        "stopped": stop_while_reading,
        "by-hand": submit_by_hand,
        "ungated": lambda access_point: (access_point.run("ungated"), access_point.more("ungated", 1)),
        "begun": lambda access_point: access_point.run("begun"),
        "until-known": lambda access_point: access_point.run("until-known"),
    }
    with ThreadPoolExecutor() as threads:
        yield {name: threads.submit(run, access_point) for name, run in runs.items()}


def course(name, part=None):
    """What came of one of them, or a part of that, as a fixture."""
    return pytest.fixture(scope="module")(
        lambda courses: courses[name].result() if part is None else courses[name].result()[part]
    )


hurt = course("missing", 0)
repaired = course("missing", 1)
stopped = course("stopped")
by_hand = course("by-hand")
spread = course("begun")
ungated = course("ungated", 0)
with_more = course("ungated", 1)
until_known = course("until-known")


def small(*access, replicas="short", batches, start="together", repeats="1"):
    methods = json.dumps(access or ["wan-xrootd-public"])
    return SMALL.format(access=methods, replicas=replicas, batches=batches, start=start, repeats=repeats)


# A replica that is gone, and comes back

HURT, UNHURT = "wan-xrootd-public.copy.x002.r1", "wan-xrootd-public.copy.x001.r1"


def lose_a_replica_and_repair(access_point):
    """A run in which one client's replica is missing, and the same run again when it is there."""
    replicas = access_point.write("missing") / names.trial_directory(HURT) / names.REPLICAS
    whole = replicas.read_text()
    first, second = whole.splitlines(keepends=True)
    replicas.write_text(first + second.replace(".dat", ".gone"))
    hurt = access_point.submit("missing", copy="missing-hurt")
    replicas.write_text(whole)
    return hurt, access_point.submit("missing", copy="missing-repaired")


def test_a_missing_replica_makes_its_trial_incomplete_and_is_named(hurt):
    trial = hurt.trial(HURT)
    assert outcome(trial)["state"] == "incomplete"
    (reason,) = outcome(trial)["reasons"]
    assert reason.startswith("client 1 open-failed: ")
    assert "no such file" in reason.lower()
    assert [path.name for path in (trial / names.TRIES).iterdir()] == ["1"]


def test_each_try_has_a_flush_a_gate_and_samples_of_its_own(hurt):
    trial = hurt.trial(HURT)
    before, hosts = trial / names.TRIES / "1", content(trial / names.TRIAL)["flush"]["hosts"]
    for file, time in (*((names.flush_report(host), "wall_ns") for host in hosts), (names.GO, "go_wall_ns")):
        assert content(before / file)[time] < content(trial / file)[time]
    assert (before / names.sample_file("oss.uf.test")).stat().st_size > 0


def test_an_incomplete_trial_stays_in_the_tables_and_the_command_says_so(hurt):
    other = outcome(hurt.trial(UNHURT))
    assert (other["state"], other["reasons"], other["again"], other["left"]) == ("complete", [], False, [])
    states = {row["trial_id"]: row["state"] for row in hurt.rows(names.TRIALS_CSV)}
    assert (states, hurt.status) == ({HURT: "incomplete", UNHURT: "complete"}, 1)


def test_submitted_again_the_incomplete_trial_is_completed_and_all_tries_are_kept(repaired):
    trial = repaired.trial(HURT)
    assert outcome(trial)["state"] == "complete"
    assert repaired.ended_well
    assert {path.name for path in (trial / names.TRIES).iterdir()} == {"1", "2"}


def test_submitted_again_the_complete_trial_is_left_alone(hurt, repaired):
    assert not (repaired.trial(UNHURT) / names.TRIES).exists()
    go = [content(run.trial(UNHURT) / names.GO) for run in (hurt, repaired)]
    assert go[0] == go[1]


# A run that is stopped


def stop_while_reading(access_point):
    """A run that is stopped when all clients read; that would take them 80 s."""
    access_point.make_replicas("stopped")
    run = access_point.write("stopped")
    with access_point.submitting("stopped") as watched:
        reading = partial(all_read, next((run / names.TRIALS).iterdir()), 4)
        access_point.wait_until(reading, "the clients did not begin", "stopped")
        status = access_point.tierbench("stop", f"{HOME}/stopped", check=False)
        inside = f'regexp("^{HOME}/stopped", Iwd)'
        _, left = access_point.command("condor_q", "-constraint", inside, "-af", "ClusterId", "Cmd")
        watched.result()
    return Stopped(status, access_point.copy("stopped"), left)


def test_stopped_clients_and_samplers_end_in_order(stopped):
    (trial,) = stopped.trials
    ends = [last_record(trial / names.client_output(index)) for index in range(4)]
    assert [(end["event"], end["status"]) for end in ends] == [("end", "killed")] * 4
    trailers = {path.name: last_record(path)["tierbench"] for path in (trial / names.SAMPLES).glob("*.samples")}
    sampled = [sampler["host"] for sampler in content(trial / names.TRIAL)["samplers"]]
    assert trailers == {f"{host}.samples": "end" for host in sampled}


def test_a_stopped_trial_says_so_and_is_not_tried_again(stopped):
    (trial,) = stopped.trials
    assert (stopped.status, stopped.left_in_queue, outcome(trial)["state"]) == (0, "", "incomplete")
    assert "the trial was removed" in outcome(trial)["reasons"]
    assert not (trial / names.TRIES).exists()


def test_a_stopped_run_has_tables_of_what_was_done(stopped):
    (row,) = stopped.rows(names.TRIALS_CSV)
    assert (row["state"], row["jobs_failed"]) == ("incomplete", "4")
    # bytes_server is not among them: samplers are removed with the clients, and may end a little before.
    assert float(row["mean_mbps"]) > 0
    assert int(row["bytes_client"]) > 0  # an xrdcp that is ended early may have passed none of it on


def test_htcondors_own_reader_finds_the_same_starts_and_ends_in_a_log(measured, stopped):
    logs = [log for run in (measured.directory, stopped.directory) for log in run.glob(f"*/*/{names.CLIENTS_LOG}")]
    for log in logs:
        ours = Cluster(log)
        ours.read_on()
        events = [(event.proc, event.type) for event in htcondor2.JobEventLog(str(log)).events(stop_after=0)]
        assert ours.starts == Counter(proc for proc, kind in events if kind == JobEventType.EXECUTE)
        ends = (JobEventType.JOB_TERMINATED, JobEventType.JOB_ABORTED)
        assert set(ours.ended) == {proc for proc, kind in events if kind in ends}
    assert len(logs) > len(measured.trials)


# A configuration's DAG, by hand


BY_HAND = ("wan-xrootd-public", "wan-xrootd-private")


def submit_by_hand(access_point):
    """Two configurations' DAGs at once, without the command tierbench; were there tables then, and the run after."""
    run = access_point.write("by-hand")
    there = ["env", "-C", f"{HOME}/by-hand", "PATH=/usr/bin:/bin"]
    dags = [f"{access}.copy.dag" for access in BY_HAND]
    for dag in dags:
        access_point.command(*there, "condor_submit_dag", dag)
    for dag in dags:
        access_point.command(*there, "condor_wait", "-wait", str(RUN_SECONDS), f"{dag}.dagman.log")
    logs = "".join((run / f"{dag}.dagman.log").read_text() for dag in dags)
    tabled = any(run.rglob("*.csv"))
    access_point.tierbench("tables", f"{HOME}/by-hand")
    return tabled, Ran(sum(map(int, re.findall(r"\(return value (\d+)\)", logs))), access_point.copy("by-hand"))


def test_dags_that_are_submitted_at_once_measure_in_turn(by_hand):
    _, run = by_hand
    (_, first_end), (second_go, _) = sorted(
        (int(row["go_wall_ns"]), int(row["end_wall_ns"])) for row in run.rows(names.TRIALS_CSV)
    )
    assert first_end < second_go


def test_a_dag_by_hand_does_without_tierbench_and_gets_its_tables_later(by_hand):
    tabled, run = by_hand
    assert (tabled, run.status) == (False, 0)
    rows = run.rows(names.TRIALS_CSV)
    assert [(row["state"], row["jobs_ok"]) for row in rows] == [("complete", "2")] * len(BY_HAND)


# Clients that do not begin together, placed and pinned

BEGUN = """
[axes.how.values]
in-turn = { start = "in-turn", cores = "pinned" }
one-by-one = { "start.every_s" = 2, placement = "one-worker" }
"""


def clients_of(ran, how):
    return [row for row in ran.rows(names.JOBS_CSV) if row["how"] == how]


def test_however_clients_begin_their_trials_are_complete(spread):
    rows = {(row["started"], row["placed"], row["state"]) for row in spread.rows(names.TRIALS_CSV)}
    assert rows == {("in-turn", "evenly, pinned", "complete"), ("every 2 s", "one-worker", "complete")}


def test_in_turn_a_client_begins_when_the_one_before_has_ended(spread):
    first, second = clients_of(spread, "in-turn")
    assert int(second["begin_wall_ns"]) > int(first["end_wall_ns"])


def test_one_by_one_a_client_is_told_to_begin_so_long_after_the_one_before(spread):
    first, second = clients_of(spread, "one-by-one")
    begins_ns = [int(row["begin_wall_ns"]) - float(row["begin_after_go_ms"]) * 1e6 for row in (first, second)]
    assert begins_ns[1] - begins_ns[0] == pytest.approx(2e9, abs=1e6)


def test_clients_on_one_worker_are(spread):
    assert len({row["host"] for row in clients_of(spread, "one-by-one")}) == 1


def test_a_pinned_client_has_a_core_of_its_own(spread):
    pinned = [(row["host"], row["core"]) for row in clients_of(spread, "in-turn")]
    assert "" not in {core for _, core in pinned}
    assert len(set(pinned)) == len(pinned)


# Without a gate


def test_a_repetition_is_added_to_a_run_that_has_ended(ungated, with_more):
    before, after = (run.rows(names.TRIALS_CSV) for run in (ungated, with_more))
    assert [row["repeat"] for row in after] == ["1", "2"]
    assert after[0]["go_wall_ns"] == before[0]["go_wall_ns"]
    assert with_more.ended_well


def test_without_a_gate_a_trial_is_complete_and_its_skew_is_natural(ungated):
    (row,), (trial,) = ungated.rows(names.TRIALS_CSV), ungated.trials
    assert (row["started"], row["state"], ungated.ended_well) == ("natural", "complete", True)
    assert min(float(row["natural_skew_ms"]), float(row["start_skew_ms"])) > 0
    assert not (trial / names.GO).exists()


# Repeated until the mean is known

UNTIL_KNOWN = "{ within_pct = 100, at_least = 3, at_most = 12 }"


def test_trials_that_are_not_needed_are_skipped_and_not_in_the_tables(until_known):
    """Three are enough, or a few more where a busy machine has them scatter by their mean."""
    states = {trial.name: outcome(trial)["state"] for trial in until_known.trials}
    assert list(states.values())[:3] == ["complete"] * 3
    assert list(states.values())[-1] == "skipped"
    assert until_known.ended_well
    complete = [name for name, state in states.items() if state == "complete"]
    assert [row["trial_id"] for row in until_known.rows(names.TRIALS_CSV)] == complete
