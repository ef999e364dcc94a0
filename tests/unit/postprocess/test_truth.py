"""Trials of known truth: what is wrong with them is told by its own name, and what is right is let be."""

import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import READ, TICKS, apart, compare_clock, edit_client, edit_trial, sampled
from tests.unit.synthetic_run import WORKER
from tierbench.postprocess.tables.write import tables, trial_tables

MTU = 1500
SENT = synthetic.during(400, 20)


def moving(mbps, begin, end):
    """A counter that rises at one rate for a while."""
    return lambda time: round((min(max(time, begin), end) - begin) * mbps * 1e6 / 8)


def both(*totals):
    return lambda time: sum(total(time) for total in totals)


def packets(total, size=MTU):
    return lambda time: total(time) // size


def samples(
    folder, *, host = synthetic.OSS, role = "storage", period = 0.25, until = 23,
    header = None, bounds_ms = 2.0, **counters,
):  # fmt: skip
    """A host's samples anew, of counters by their names."""
    ahead_ns = synthetic.GO_NS - synthetic.MONO_NS
    bounds = {"low_ns": ahead_ns - round(bounds_ms * 1e6), "high_ns": ahead_ns + round(bounds_ms * 1e6)}
    end = {"clocks": [bounds]}
    synthetic.write_host(folder, host, role, period=period, until=until, head=header, end=end, **counters)


def verdict_of(folder):
    row = trial_tables(folder)
    return row["verdict"], row["verdict_reasons"], row["mean_mbps"]


def with_worker(folder, tx_bytes, rx_bytes):
    samples(folder, tx_bytes=tx_bytes, tx_packets=packets(tx_bytes))
    samples(folder, host=WORKER, role="worker", rx_bytes=rx_bytes, rx_packets=packets(rx_bytes))


def sends(*totals, planned=None, wrote=None, ended=None, **more):
    """The storage sends that; of the definition, of all clients' records, or of their ends something is otherwise."""

    def change(folder):
        edit_trial(folder, **(planned or {}))
        if wrote is not None:
            synthetic.write_clients(folder, begin_s=0, end_s=20, size=round(READ / 4), **wrote)
        synthetic.edit_clients(folder, "end", **(ended or {}))
        samples(folder, tx_bytes=both(*totals), **more)

    return change


def stands_still(begin, end):
    return moving(400 * 20 / (20 - end + begin), 0, begin), moving(400 * 20 / (20 - end + begin), end, 20)


def stands_still_often(seconds, *begins):
    """So long from each of these times on."""
    ends = [begin + seconds for begin in begins]
    rate = 400 * 20 / (20 - seconds * len(begins))
    return [moving(rate, begin, end) for begin, end in zip([0, *ends], [*begins, 20], strict=True)]


def wastes(share, size, **header):
    """Packets of that size, whose headers and a share more are beside what the clients read."""
    wire = synthetic.during(400 / 1.02 * share, 20)
    return sends(wire, planned=DD, tx_packets=packets(wire, size), **header)


def beside_headers(size, mtu):
    return wastes(size / (size - 66) * 1.005, size, header={"tuning": {"mtu": str(mtu)}})


def slow_last_client(folder):
    for index in range(4):
        size = round(0.005 * READ) if index == 3 else round(0.995 / 3 * READ)
        synthetic.write_client(folder / f"clients/{index}.jsonl", begin_s=0, end_s=20 if index == 3 else 8, size=size)
    samples(folder, tx_bytes=both(moving(998, 0, 8), moving(2, 0, 20)))


def passes(sent, received, **planned):
    """What the storage sends, and what of it reaches the worker."""

    def change(folder):
        edit_trial(folder, **planned)
        with_worker(folder, both(*sent), both(*received))

    return change


def a_gateways_clock(folder):
    apart(folder, 0)
    sampled(folder, host="gw.uf.test", role="gateway", boot_id="gateway", ahead_ms=1500, wall_step=(10, 500))


def times_excess(times):
    return synthetic.during(400 / 1.02 * times, 20)


def cut_off(times):
    """A sampler that was killed after these samples, and said nothing."""
    return lambda folder: synthetic.write_samples(folder / f"samples/{synthetic.OSS}.samples", times, SENT, cut=True)


def serve_others_at_a_door(folder):
    with_worker(folder, WIRE, WIRE)
    samples(folder, host="door.test", role="door", tx_bytes=moving(100, 0, 20), rx_bytes=moving(100, 0, 20))


WIRE_MBPS = 400 / 1.02 * MTU / 1434  # what the clients read, with the headers of its packets
WIRE = synthetic.during(WIRE_MBPS, 20)
WARM = synthetic.during(WIRE_MBPS * 0.93, 20)
FILE, DD = {"protocol": "file"}, {"client": "dd"}
SEVERAL_FILES, IN_TURN = {"work": {"files_per_job": 4}}, {"start": {"kind": "in-turn", "every_s": 0.0}}
IDLE = {"cpu_user_s": 0.1, "cpu_system_s": 0.1}
AT_AN_EDGE, SILENT, WRITES = "nothing moved for 8.0 s", "sent nothing", "somebody else writes to the storage"
STALL, NOT_OURS = "the storage sent nothing for", "reached none of the trial's own hosts"
EXCESS, BACKGROUND = "beyond what was read", "somebody else uses the storage, or much was sent again"
SLOWLY = {"wall_ns": lambda time: synthetic.times(time + 0.08 * (time == 5))["wall_ns"]}
AGAIN = {"tcp_retrans": lambda time: round(min(max(time, 0), 20) * 0.1 * READ / MTU / 20), "tcp_out_segs": lambda _: 10}
LATE_TICKS = [time + (0.6 if time in (5, 9) else 0) for time in TICKS if time != 12]
LATE, TWICE = 8e6 * 8 / 1e6 / 0.6, moving(400, 8, 13)
TRIALS = {
    # what is done to it, its verdict ("" where that is no matter), what its reasons say and what they do not
    "as it was written": (lambda _: None, "VALID", "", ""),
    "a sampler that is killed after the window": (cut_off(TICKS), "VALID", "", ""),
    "late ticks are counted without the sampler's last words":
        (cut_off(LATE_TICKS), "", "was late 3 times of 25", ""),
    "a single slow reading of two clocks is no step": (sends(SENT, **SLOWLY), "VALID", "", ""),
    "a gateway's clock enters no mean": (a_gateways_clock, "SUSPECT", "ahead of that of", "of the window"),
    "an excess": (sends(times_excess(1.2)), "SUSPECT", EXCESS, BACKGROUND),
    "what TCP sent again is no excess": (sends(times_excess(1.2), **AGAIN), "", "", EXCESS),
    "a large excess": (sends(times_excess(1.6)), "SUSPECT", EXCESS, BACKGROUND),
    "an excess beside background traffic is background":
        (sends(times_excess(1.6), moving(20, 20, 100)), "INVALID", BACKGROUND, ""),
    "a path that pauses": (sends(*stands_still(6, 6.75), planned=FILE), "VALID", "", ""),
    "a path that stands still in the middle": (sends(*stands_still(6, 10), planned=FILE), "SUSPECT", STALL, ""),
    "a path that stands still three times":
        (sends(*stands_still_often(0.9, 3, 9, 15), planned=FILE, wrote=IDLE), "SUSPECT",
         f"{STALL} 2.4 s while clients were at work, 12 % of the window, in 3 pauses, the longest from", ""),
    "a path that carries little between its pauses":
        (sends(moving(423.3, 0, 9), moving(127, 9.25, 9.5), moving(127, 9.75, 10), moving(423.3, 10.25, 20),
               planned=FILE, wrote=IDLE), "VALID", "", ""),
    "a path that pauses three times":
        (sends(*stands_still_often(0.3, 3, 9, 15), planned=FILE, wrote=IDLE), "VALID", "", ""),
    "clients that compute while a path pauses":
        (sends(*stands_still_often(0.9, 3, 9, 15), planned=FILE), "VALID", "", ""),
    "jobs that go from file to file pause between them":
        (sends(*stands_still_often(0.9, 5, 10, 15), planned=FILE | SEVERAL_FILES, wrote=IDLE), "VALID", "", ""),
    "clients that take turns pause between them":
        (sends(*stands_still_often(0.9, 5, 10, 15), planned=FILE | IN_TURN, wrote=IDLE), "", "", SILENT),
    "clients whose server reads ahead while it serves others":
        (sends(*stands_still_often(0.9, 3, 9, 15), wrote=IDLE), "VALID", "", ""),
    "a path that stands still for long": (sends(*stands_still(6, 14), planned=FILE), "INVALID", STALL, ""),
    "between two samples a stall is as long as it was, with what of it is in their neighbours":
        (sends(*stands_still(6.3, 8.8), planned=FILE, period=1), "SUSPECT", f"{STALL} 2.5 s", ""),
    "nothing moves at first": (sends(moving(400 * 20 / 12, 8, 20), planned=FILE, wrote={}), "SUSPECT", AT_AN_EDGE, ""),
    "nothing moves at last": (sends(moving(400 * 20 / 12, 0, 12), planned=FILE, wrote={}), "SUSPECT", AT_AN_EDGE, ""),
    "a little moves before a long pause":
        (sends(moving(40, 0, 1), moving(667, 8, 20), planned=FILE, wrote=IDLE), "SUSPECT", "from 0.8 s on", ""),
    "a little moves before all compute":
        (sends(moving(40, 0, 1), moving(667, 8, 20), planned=FILE, wrote={"cpu_user_s": 7.0}), "", "", "nothing moved"),
    "a little moves after a long pause":
        (sends(moving(889, 0, 9), moving(30, 19, 20), planned=FILE, wrote=IDLE), "SUSPECT", "from 9.0 s on", ""),
    "programs that start by computing are not still":
        (sends(moving(400 * 20 / 12, 8, 20), planned=FILE, wrote={"cpu_user_s": 15.0}), "", "", "nothing moved"),
    "bursts of a way that reads ahead": (sends(*(moving(1600, n, n + 1) for n in range(0, 20, 4))), "", "", SILENT),
    "clients that compute meanwhile do not wait":
        (sends(moving(800, 0, 5), moving(800, 15, 20), ended={"cpu_user_s": 16.0}), "", "", SILENT),
    "the last client alone is slow": (slow_last_client, "", "", SILENT),
    "somebody writes all the time": (sends(SENT, rx_bytes=moving(400, -100, 100)), "INVALID", WRITES, ""),
    "somebody writes in the window": (sends(SENT, rx_bytes=moving(400, 0, 20)), "INVALID", WRITES, ""),
    "somebody writes for a while": (sends(SENT, rx_bytes=moving(400, 0, 4)), "SUSPECT", WRITES, ""),
    "somebody writes an eighth of it": (sends(SENT, rx_bytes=moving(50, 0, 20)), "SUSPECT", WRITES, ""),
    "acknowledgements are no writing": (sends(SENT, rx_bytes=lambda time: SENT(time) // 25), "VALID", "", ""),
    "foreign traffic within what a client is wont to waste":
        (passes([WIRE, moving(0.06 * 400, 0, 20)], [WIRE]), "SUSPECT", NOT_OURS, ""),
    "more foreign traffic": (passes([WIRE, moving(0.3 * 400, 0, 20)], [WIRE]), "INVALID", NOT_OURS, ""),
    "a warm share at a worker beside others' excess":
        (passes([WARM, moving(0.09 * 400, 0, 20)], [WARM]), "SUSPECT", "that its clients read", ""),
    "data sent twice are not somebody else's":
        (passes([WIRE, TWICE], [WIRE, TWICE], **DD), "SUSPECT",
         "data were sent twice after a connection or a server broke", "somebody"),
    "a door off the path serves whom it likes": (serve_others_at_a_door, "VALID", "", ""),
    "headers of small packets by cards for large ones": (beside_headers(1500, 9000), "VALID", "", ""),
    "headers of small packets": (beside_headers(1500, 1500), "VALID", "", ""),
    "headers of large packets by cards for small ones": (beside_headers(60_000, 1500), "VALID", "", ""),
    "small headers leave room for no background": (wastes(1.045, 60_000), "SUSPECT", "", ""),
    "what is read ahead and comes late is no background traffic":
        (sends(SENT, moving(LATE, 20, 20.6), until=22), "VALID", "", ""),
    "a background that goes on is": (sends(SENT, moving(50, 20, 100), until=22), "INVALID", "", ""),
}  # fmt: skip


@pytest.mark.parametrize(("change", "verdict", "said", "unsaid"), TRIALS.values(), ids=TRIALS)
def test_what_is_wrong_is_told_and_what_is_right_is_let_be(folder, change, verdict, said, unsaid):
    change(folder)
    found, reasons, _ = verdict_of(folder)
    assert found == (verdict or found), reasons
    assert said in reasons
    assert not unsaid or unsaid not in reasons
    assert verdict != "VALID" or not reasons


def test_a_server_that_has_read_ahead_serves_while_the_storage_rests(folder):
    ahead = both(moving(800, 0, 9.9), moving(400, 19.6, 20))
    samples(folder, tx_bytes=ahead)
    assert verdict_of(folder)[0] == "SUSPECT"  # nobody knows what the workers received
    samples(folder, host=WORKER, role="worker", rx_bytes=SENT)
    assert verdict_of(folder)[:2] == ("VALID", "")
    samples(folder, host=WORKER, role="worker", rx_bytes=ahead)
    assert verdict_of(folder)[0] == "INVALID"


@pytest.mark.parametrize("other_mbps", [0, 26])
def test_what_else_workers_receive_all_the_time_hides_no_standstill(folder, other_mbps):
    edit_trial(folder, **FILE)
    pauses = both(moving(2 * 400, 0, 5), moving(2 * 400, 15, 20))
    with_worker(folder, pauses, both(pauses, moving(other_mbps, -100, 100)))
    assert verdict_of(folder)[0] == "INVALID"


@pytest.mark.parametrize(("mbps", "verdict"), [(2, "SUSPECT"), (10, "SUSPECT"), (25, "VALID")])
def test_a_trial_as_slow_as_a_server_at_rest_is_not_valid(tmp_path, mbps, verdict):
    folder = synthetic.write_trial(tmp_path, mbps=mbps)
    samples(folder, tx_bytes=both(synthetic.during(mbps, 20), moving(0.45, -100, 100)))
    found, reasons, _ = verdict_of(folder)
    assert found == verdict
    assert ("the storage sent 0.45 Mb/s" in reasons and "the trial, at rest" in reasons) == (verdict == "SUSPECT")


@pytest.mark.parametrize(
    ("around", "in_it", "verdict"), [(0.45, 0.45, "SUSPECT"), (0.45, 0, "VALID"), (2, 2, "INVALID"), (2, 0, "VALID")]
)
@pytest.mark.parametrize("warm", [False, True])
def test_what_moves_around_a_trial_and_not_in_it_is_no_background_in_it(tmp_path, around, in_it, verdict, warm):
    """As HTCondor's starting and ending of the sampler; what a warm cache serves hides no background."""
    folder = synthetic.write_trial(tmp_path, mbps=10)
    read = synthetic.during((10 - (0.9 * in_it if warm else 0)) / 1.02 * MTU / (MTU - 66), 20)
    sent = both(read, moving(around, -100, 0), moving(in_it, 0, 20), moving(around, 20, 100))
    with_worker(folder, sent, read)
    found, reasons, _ = verdict_of(folder)
    assert found == verdict, reasons
    assert ("Mb/s" in reasons and "of its rate in it" in reasons) == (verdict != "VALID")


@pytest.mark.parametrize(("share", "verdict"), [(0.05, "VALID"), (0.2, "SUSPECT"), (7.0, "SUSPECT")])
@pytest.mark.parametrize("role", ["worker", "door", "gateway"])
def test_others_that_use_a_host_of_the_path(folder, role, share, verdict):
    """What they move there is in nothing that the storage or the clients count."""
    others = both(WIRE, moving(400 * share, 0, 20))
    with_worker(folder, WIRE, others if role == "worker" else WIRE)
    if role != "worker":
        samples(folder, host=f"{role}.test", role=role, tx_bytes=others, rx_bytes=others)
    found, reasons, _ = verdict_of(folder)
    assert (found, "somebody else uses these hosts" in reasons) == (verdict, verdict != "VALID")


@pytest.mark.parametrize(("path", "verdict"), [((), "VALID"), (("door.test",), "SUSPECT")])
def test_others_that_use_a_door_of_a_mount_are_seen_where_path_names_it(folder, path, verdict):
    """As an NFS server before the storage: a mount may as well lead past a door that is only sampled."""
    edit_trial(folder, protocol="file", path=path)
    with_worker(folder, WIRE, WIRE)
    others = both(WIRE, moving(200, 0, 20))
    samples(folder, host="door.test", role="door", tx_bytes=others, rx_bytes=others)
    found, reasons, _ = verdict_of(folder)
    assert (found, "somebody else uses these hosts" in reasons) == (verdict, verdict != "VALID"), reasons


@pytest.mark.parametrize("share", [1.045, 0.96])
def test_a_trial_unlike_its_repetitions_is_suspect(tmp_path, share):
    """A foreign burst or a warm part that stays within what a client of this kind is wont to waste."""
    for repeat in (1, 2, 3, 4):
        folder = synthetic.write_trial(tmp_path, repeat=repeat, index=repeat)
        factor = 1.04 + (share - 1 if repeat == 3 else 0) + 0.002 * repeat
        samples(folder, tx_bytes=synthetic.during(400 / 1.02 * factor, 20))
    rows = tables(tmp_path)
    assert [row["verdict"] for row in rows] == ["VALID", "VALID", "SUSPECT", "VALID"]
    assert "its repetitions +4" in rows[2]["verdict_reasons"]
    synthetic.edit_clients(folder.parent / rows[2]["trial_id"], "end", operations=100)
    assert "its repetitions" not in tables(tmp_path)[2]["verdict_reasons"]


@pytest.mark.parametrize(
    ("splits", "verdicts"),
    [
        (["wwvv", "wwwv", "vwvw"], "V S V"),
        (["wwvv", "vvwv"], "V S"),  # of two, the even one is the usual
        (["wwww", "wwvv", "wwvv"], "S V V"),
        (["wvxy", "wwvv", "wwvv", "wwvv"], "S V V V"),
        (["wwwv", "wwwv", "wwvv", "wwvv", "wwvv"], "S S V V V"),  # the first two are all of another configuration's
        (["wwvv", "xxyy", "vvxx"], "V V V"),
        (["vwxy" * 5, "vwxy" * 5, "vwxy" * 4 + "vvwx"], "V V S"),  # 6+5+5+4 where 5+5+5+5 is usual
    ],
)
def test_clients_that_were_split_unlike_those_of_most_trials_are_told(tmp_path, splits, verdicts):
    for place, split in enumerate(splits):
        access = "direct" if len(splits) > 4 and place < 2 else "lan-xrootd"
        more = {"repeat": place + 1, "index": place, "access": access, "workers": list("vwxy")}
        folder = synthetic.write_trial(tmp_path, jobs=len(split), **more)
        for index, host in enumerate(split):
            edit_client(folder, index, "start", host=host)
            edit_client(folder, index, "end", **synthetic.times(20))
    rows = tables(tmp_path)
    assert " ".join(row["verdict"][0] for row in rows) == verdicts
    assert all(("clients were split" in row["verdict_reasons"]) == (row["verdict"] != "VALID") for row in rows)


def read(folder, share):
    samples(folder, tx_bytes=synthetic.during(400 * share, 20))
    synthetic.edit_clients(folder, "end", **dict.fromkeys(("bytes_app", "bytes_client"), round(READ / 4 * share)))


def streamed(folder, share):
    """What is sent for a time is as much as the rate was."""
    traits = {"does": "reads", "reads_whole": True, "usual_excess": 0.03, "taken_in": "bytes_app"}
    edit_trial(folder, client="iperf3", protocol="iperf3", streamed=True, bytes=None, traits=traits)
    synthetic.edit_clients(folder, "start", expected_bytes=None)
    read(folder, share)


def counted_events(folder, events):
    synthetic.edit_clients(folder, "end", events=events)


@pytest.mark.parametrize(
    ("does", "usually", "once", "verdict", "words"),
    [
        (read, 1.0, 0.9, "SUSPECT", "those of its repetitions 980392156 B"),
        (streamed, 1.0, 0.9, "VALID", "those of its repetitions"),
        (counted_events, 1000, 1020, "VALID", "its clients counted"),
        (counted_events, 1000, 2000, "SUSPECT", "its clients counted 8000 events, those of its repetitions 4000"),
        (counted_events, 1000, 500, "SUSPECT", "its clients counted 2000 events, those of its repetitions 4000"),
    ],
)
def test_clients_that_did_otherwise_than_those_of_repetitions_are_told(tmp_path, does, usually, once, verdict, words):
    for repeat in (1, 2, 3):
        folder = synthetic.write_trial(tmp_path, repeat=repeat, index=repeat)
        does(folder, once if repeat == 2 else usually)
    rows = tables(tmp_path)
    assert [row["verdict"] for row in rows] == ["VALID", verdict, "VALID"]
    assert (words in rows[1]["verdict_reasons"]) is (verdict == "SUSPECT")


@pytest.mark.parametrize("step_s", [-1.5, 0.8])
def test_a_clock_set_before_the_last_end_moves_no_edge_and_is_told(folder, step_s):
    """NTP steps the worker when three of its four clients have ended: the last one sets the window's end."""
    samples(folder, tx_bytes=SENT)
    end = json.loads((folder / "clients/0.jsonl").read_text().splitlines()[-1])  # of the last client to end
    edit_client(folder, 0, "end", wall_ns=end["wall_ns"] + round(step_s * 1e9))
    verdict, reasons, mean = verdict_of(folder)
    assert mean == pytest.approx(400, rel=1e-3)
    assert verdict != "VALID"
    assert f"the clock of {WORKER} was set by" in reasons


@pytest.mark.parametrize(("sampled", "verdict"), [(True, "VALID"), (False, "SUSPECT")])
def test_a_client_preempted_between_its_clocks_at_the_go_is_no_step_where_the_sampler_saw_none(
    folder, sampled, verdict
):
    samples(folder, tx_bytes=WIRE)
    if sampled:
        with_worker(folder, WIRE, WIRE)
    edit_client(folder, 1, "go", mono_ns=synthetic.times(0.001)["mono_ns"] + 11_000_000)
    found, reasons, _ = verdict_of(folder)
    assert (found, f"the clock of {WORKER} was set by 11.0 ms" in reasons) == (verdict, verdict != "VALID"), reasons


def test_a_clock_that_was_set_before_the_begin_and_back_moves_the_windows_begin_and_is_told(folder):
    """Clients without a gate begin when they say: 0.3 s early by a clock that is right before and after."""
    edit_trial(folder, start={"kind": "natural", "every_s": 0.0}, sample_period_s=0.2)
    (folder / "go.json").unlink()
    samples(folder, tx_bytes=SENT, period=0.2)
    for index in range(4):
        begun = {"go_wall_ns": None, "wall_ns": synthetic.times(index * 1e-3 - 0.3)["wall_ns"]}
        edit_client(folder, index, "go", **begun)
    verdict, reasons, mean = verdict_of(folder)
    assert mean == pytest.approx(394, abs=0.1)
    assert (verdict, f"the clock of {WORKER} was set by 300.0 ms" in reasons) == ("SUSPECT", True)


@pytest.mark.parametrize(
    ("stamp", "begin_ahead_s", "end_ahead_s", "error_s", "verdict"),
    [
        pytest.param("03:59:50.5", 0, 0, 0.0045, "VALID", id="nobody sets it"),
        pytest.param("03:59:47.5", None, -3, 0.0045, "VALID", id="3 s behind, and its clock at the begin is not known"),
        pytest.param("04:00:20.5", 30, 0, 3.502, "SUSPECT", id="30 s ahead and corrected after the submission"),
        pytest.param("03:59:50.5", -30, 0, 3.502, "SUSPECT", id="30 s behind and corrected before the submission"),
        pytest.param("03:59:50.5", 0, 30, 3.502, "SUSPECT", id="set by 30 s after the submission"),
        pytest.param("03:59:55.5", 5, 0, 3.502, "SUSPECT", id="5 s ahead and corrected"),
        pytest.param("04:00:20.5", 0, 0, 3.502, "VALID", id="set for a moment"),
        pytest.param("04:59:50.5", 0, 0, 0.0045, "VALID", id="summer time ends after the submission"),
        pytest.param("02:59:50.5", 0, 0, 0.0045, "VALID", id="summer time begins after the submission"),
    ],
)
def test_the_wall_time_is_right_within_its_error(folder, stamp, begin_ahead_s, end_ahead_s, error_s, verdict):
    """29.5 s; its turn came 1.5 s before the submission, its first client began 5.5 s after that."""
    compare_clock(folder)
    samples(folder, tx_bytes=SENT)
    path = folder / "clients.log"
    path.write_text(path.read_text().replace("03:59:50.5", stamp))
    for name, ahead_s in (("begun", begin_ahead_s), ("clock.json", end_ahead_s)):
        uptime = {"uptime_ns": synthetic.MONO_NS - 11 * 10**9, "boot_id": "access point"}
        if ahead_s is not None:
            (folder / name).write_text(json.dumps({**synthetic.clock(ahead_ms=1e3 * ahead_s), **uptime}))
    row = trial_tables(folder)
    assert abs(row["wall_time_s"] - 29.5) <= row["wall_time_error_s"] + 1e-6
    assert (row["wall_time_error_s"], row["verdict"]) == (pytest.approx(error_s, abs=1e-3), verdict)


@pytest.mark.parametrize("submitted", ["03:59:45.5", "01:23:45.5"])
def test_the_wall_time_of_clients_that_were_on_hold_begins_at_their_release(folder, submitted):
    path = folder / "clients.log"
    log = path.read_text()
    first, dots, rest = log.partition("\n...\n")
    released = first.replace("000 ", "013 ", 1).replace("Job submitted", "Job was released.")
    before = trial_tables(folder)
    path.write_text(first.replace("03:59:50.5", submitted) + dots + released + dots + rest)
    held = trial_tables(folder)
    columns = "submit_wall_ns", "wall_time_s", "wall_time_error_s", "verdict"
    assert [held[column] for column in columns] == [before[column] for column in columns]


def test_a_wall_time_that_cannot_be_is_none(folder):
    """Of an earlier version, and on hosts that have not compared their clocks."""
    path = folder / "clients.log"
    path.write_text(path.read_text().replace("03:59:50.5", "04:00:20.5"))
    assert trial_tables(folder)["wall_time_s"] is None


def test_a_comparison_with_wide_bounds_is_none(folder):
    compare_clock(folder)
    samples(folder, tx_bytes=SENT, bounds_ms=20)
    assert verdict_of(folder)[0] == "VALID"
    samples(folder, tx_bytes=SENT, bounds_ms=500)
    verdict, reasons, _ = verdict_of(folder)
    assert verdict == "SUSPECT"
    assert "the clocks of storage and workers can be 502 ms apart, 2.5 % of the window" in reasons


@pytest.mark.parametrize(("period", "refresh", "phase"), [(1.0, 1.0, 0.5), (0.5, 0.5, 0.15), (0.2, 0.7, 0.3)])
def test_a_driver_that_counts_late_is_within_the_trials_own_error(folder, period, refresh, phase):
    """Refreshed as often as it is sampled it cannot be seen, and what it owes comes after the window."""
    last = lambda time: SENT((time - phase) // refresh * refresh + phase)  # noqa: E731
    samples(folder, period=period, tx_bytes=last)
    row = trial_tables(folder)
    assert row["mean_mbps"] < 400
    assert row["mean_mbps"] + row["mean_error_mbps"] >= 400 - 1e-3


@pytest.mark.parametrize("ahead_s", [-0.4, -0.1, 0.1, 0.4])
def test_a_clock_that_is_off_within_its_bounds_is_within_the_trials_own_error(folder, ahead_s):
    compare_clock(folder)
    samples(folder, tx_bytes=SENT, bounds_ms=500, header={"clock_wall_ns": synthetic.GO_NS + round(ahead_s * 1e9)})
    row = trial_tables(folder)
    assert abs(row["mean_mbps"] - 400) <= row["mean_error_mbps"] + 1e-6
