"""What becomes of jobs that read several files, or again and again: their columns, and what the verdict says."""

import json

import pytest

from tests.unit import doctored_trial
from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import edit_trial
from tests.unit.synthetic_start import EACH_S, in_turn
from tierbench import names
from tierbench.postprocess.tables.write import trial_tables
from tierbench.wrappers.client import Client
from tierbench.wrappers.work import STEP, Fetch, Tally, classes_of

SIZE = 10_000_000  # of each client of the synthetic trial's, which the storage has sent


def work_done(**changes):
    """What a job of two processes reports that has read four files, each once."""
    latencies = {"latency_s": {"p50": 0.1, "p95": 0.2, "p99": 0.2, "max": 0.2}, "latency_classes": {"581": 3, "616": 1}}
    return doctored_trial.work_done(
        **{"processes": 2, "files": 4, "fetches": 4, "bytes_once": SIZE, **latencies, **changes}
    )


def with_work(folder, definition, *done, times=1):
    """The trial's row, when its jobs were to do this and each has told that; of the bytes so many times as much."""
    edit_trial(folder, work=definition)
    for number, path in enumerate(sorted((folder / "clients").glob("*.jsonl"))):
        own = done[number % len(done)]
        go = next(event for event in map(json.loads, path.read_text().splitlines()) if event["event"] == "go")
        begun_ns = own["last_begin_wall_ns"] + (go["go_wall_ns"] or go["wall_ns"])

        def ended(end, own=own, begun_ns=begun_ns):
            once, begin = end["bytes_app"], {"first_begin_wall_ns": begun_ns, "last_begin_wall_ns": begun_ns}
            count = dict.fromkeys(("bytes_app", "bytes_client"), round(once * times))
            return {**end, **count, "work": {**own, "bytes_once": once, **begin}}

        synthetic.edit_events(path, "end", ended)
    if definition.get("for_s"):
        synthetic.edit_clients(folder, "start", expected_bytes=None)
    return trial_tables(folder)


def jobs(folder):
    return synthetic.rows(folder / names.JOBS_CSV)


def test_what_a_file_costs_is_the_time_that_was_under_way_and_in_round_trips(folder):
    (folder.parents[1] / names.SITE).write_text(json.dumps({"links": {"rtt_ms": 50}}))
    row = with_work(folder, {"files_per_job": 4, "processes": 2}, work_done(under_way_s=3.0))
    assert row.fetch_s == pytest.approx(0.75)
    assert row.round_trips_per_fetch == pytest.approx(0.75 / 0.05)


@pytest.mark.parametrize("at_once", [1, 2])
def test_of_jobs_that_cannot_tell_it_is_by_all_that_they_had_under_way(folder, at_once):
    edit_trial(folder, traits={**Client.traits(), "at_once": at_once})
    row = with_work(folder, {"files_per_job": 4, "processes": 2}, work_done())
    run_s = sum(float(job["run_s"]) for job in jobs(folder))
    assert row.fetch_s == pytest.approx(run_s * 2 * at_once / (4 * row.jobs))


@pytest.mark.parametrize(("fetches", "known"), [(4, False), (200, True)])
def test_of_jobs_that_cannot_tell_those_that_were_cut_must_be_few(folder, fetches, known):
    row = with_work(folder, {"for_s": 20, "processes": 2}, work_done(fetches=fetches, cut=2), times=2)
    assert (row.fetch_s is not None) == known


@pytest.mark.parametrize(("longer", "known"), [(0, True), (60, False)])
def test_what_a_file_costs_is_not_known_where_one_that_was_cut_took_longer_than_any(folder, longer, known):
    """In classes of 2 %: the longest that ended, and so many further."""
    done = work_done(under_way_s=3.0, cut=1)
    longest = max(map(int, done["latency_classes"]))
    row = with_work(folder, {"for_s": 20, "processes": 2}, {**done, "cut_classes": {str(longest + longer): 1}})
    assert (row.fetch_s is not None) is known


def test_what_a_file_costs_is_the_same_when_jobs_take_turns(folder):
    """The window has the others' turns in it, in which a job has no file under way."""
    in_turn(folder)
    row = with_work(folder, {"files_per_job": 4, "processes": 2}, work_done())
    assert row.started == "in-turn"
    assert row.fetch_s == pytest.approx(EACH_S * 2 / 4, rel=0.01)


def test_what_a_program_for_each_file_reads_as_it_starts_did_not_come_from_the_storage(folder):
    row = with_work(folder, {"files_per_job": 400}, work_done(files=400, fetches=400))
    synthetic.edit_clients(folder, "end", bytes_client=row.bytes_app // row.jobs + 400 * 45_000)
    assert trial_tables(folder).closure == row.closure


def test_by_a_timetable_a_process_waits_between_two_files(folder):
    row = with_work(folder, {"for_s": 20, "fetch_every_s": 2}, work_done(), times=2)
    assert (row.fetch_s, row.round_trips_per_fetch) == (None, None)


def test_a_jobs_fetches_are_in_its_row_and_a_trials_latencies_are_those_of_all_of_them(folder):
    row, job = with_work(folder, {"files_per_job": 4, "processes": 2}, work_done()), jobs(folder)[0]
    assert (job["processes"], job["files"], job["fetches"], job["fetch_failures"]) == ("2", "4", "4", "0")
    assert float(job["latency_p95_s"]) == 0.2
    assert (row["job_files"], row["job_processes"], row["job_for_s"]) == (4, 2, None)
    assert row["fetches"] == 4 * row["jobs"]
    assert row["latency_p50_s"] == pytest.approx(0.1, rel=0.02)
    assert row["latency_p99_s"] == pytest.approx(0.2, rel=0.02)


def test_a_job_may_tell_how_far_it_came_after_its_time_was_over(folder):
    """What is under way then is broken off, which takes a while; its end is when time was over."""
    path = folder / names.client_output(1)
    *others, end = path.read_text().splitlines()
    late = json.loads(end)
    progress = {"event": "progress", "wall_ns": late["wall_ns"] + 10**9, "mono_ns": late["mono_ns"] + 10**9, "done": 7}
    path.write_text("".join(f"{line}\n" for line in (*others, json.dumps(progress), end)))
    assert "damaged" not in trial_tables(folder)["verdict_reasons"]


def test_the_timetables_overdue_fetches_are_later_than_all(folder):
    """One of ten processes hangs: its fetches are no tenth of those that ended, and the worst of all that were due."""
    done = work_done(fetches=90, overdue=10, latency_classes={"581": 90})
    row = with_work(folder, {"for_s": 20, "fetch_every_s": 2}, done, times=2)
    assert (row.fetched.fetches_overdue, row.fetched.latency_p99_s) == (40, None)
    assert row.fetched.latency_p50_s == pytest.approx(0.1, rel=0.02)


def test_fetches_that_hung_until_time_was_over_are_later_than_those_that_ended(folder):
    """In one job of four two processes hung from the go on; what the others had just begun says nothing."""
    work = {"for_s": 20, "processes": 2}
    well = work_done(fetches=6, cut=2, latency_classes={"7500": 6}, latency_step=1.002, cut_classes={"6000": 2})
    hung = work_done(fetches=0, cut=2, latency_classes={}, latency_step=1.002, cut_classes={"8400": 2})
    well["latency_s"] = hung["latency_s"] = {"p50": 3.2, "p95": 3.2, "p99": 3.2, "max": 3.3}
    row = with_work(folder, work, well, well, well, hung, times=2)
    assert row.fetched.latency_p50_s == pytest.approx(3.22, rel=0.01)
    assert (row.fetched.latency_p95_s, row.fetched.latency_p99_s) == (None, None)


def test_latencies_that_differ_by_less_than_a_per_cent_are_not_one_class_apart(folder):
    """Three trials each in classes of 2 % would say 1.02 with an interval of no width, of what is 1.003."""
    told = []
    for seconds in (0.01017, 0.0102):
        tally = Tally()
        for number in range(100):
            tally.add(Fetch(number, "ok", "", 1, seconds))
        work = {**work_done(), **tally.to_record()}
        told.append(with_work(folder, {"files_per_job": 100}, work).fetched.latency_p50_s or 0)
    assert told[1] / told[0] == pytest.approx(1.003, abs=0.0021)


@pytest.mark.parametrize(
    "damage",
    [{"latency_classes": {"5a1": 3}}, {"latency_classes": {"581000000": 3}}, {"latency_s": {}}, {"latency_step": -1.02},
     {"under_way_s": -1.0}, {"fetches": -4}, {"latency_classes": {"581": 4, "616": -1}}],
)  # fmt: skip
def test_latencies_that_are_none_cost_their_trial_alone(folder, damage):
    row = with_work(folder, {"files_per_job": 4}, work_done(**damage))
    assert row.verdict == "INVALID"
    assert "its fetches or latencies are none" in row["reasons"]


@pytest.mark.parametrize(("for_s", "cached"), [(20, pytest.approx(0.75, abs=0.02)), (None, None)])
def test_files_that_are_read_again_may_come_from_a_cache_and_those_read_once_not(folder, for_s, cached):
    row = with_work(folder, {"files_per_job": 4, "for_s": for_s}, work_done(), times=4)
    assert (row["cached_share"], row["verdict"] == "INVALID") == (cached, for_s is None)
    assert ("the storage sent" in row["verdict_reasons"]) == (for_s is None)


@pytest.mark.parametrize(
    ("cut_after", "reason"),
    [((0.15, 9.0), False), ((0.2, 0.3), False), ((9.0, 9.5), True)],  # one alone is slow, all stand still
)
def test_a_standstill_to_the_end_of_a_given_time_is_seen_by_what_was_under_way_then(folder, cut_after, reason):
    done = work_done(
        cut=2, latency_step=STEP, latency_classes=classes_of([0.1, 0.2]), cut_classes=classes_of(cut_after)
    )
    row = with_work(folder, {"for_s": 20, "processes": 2}, done, times=2)
    assert ("no file ended in the last 9.0 s" in str(row["verdict_reasons"])) is reason
    assert not reason or row["verdict"] == "INVALID"


@pytest.mark.parametrize(("failed", "verdict"), [(1, "SUSPECT"), (10, "INVALID")])
def test_failed_fetches_are_told_by_their_share(folder, failed, verdict):
    done = work_done(fetches=400, failed=failed, failures={"(7) refused": failed})
    row = with_work(folder, {"for_s": 20}, done, times=2)
    assert row["verdict"] == verdict
    assert "fetches failed" in row["verdict_reasons"]
    assert "(7) refused" in row["verdict_reasons"]


def test_the_last_of_its_processes_is_when_a_client_began(folder):
    row = with_work(folder, {"for_s": 20}, work_done(last_begin_wall_ns=2_000_000_000), times=2)
    assert "began 2000 ms after the go" in row["verdict_reasons"]
