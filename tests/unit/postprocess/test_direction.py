"""A trial's rates, slices and verdict follow the way that its bytes go: what clients write, the storage receives."""

import json

import numpy as np
import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import arranged, compare_clock, does
from tests.unit.doctored_trial import edit_trial as edit
from tests.unit.postprocess.test_truth import MTU, WIRE, WIRE_MBPS, WORKER, both, moving, packets, samples
from tierbench.postprocess.schema.columns import places
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.write import tables, trial_tables
from tierbench.postprocess.wording import bounds, figures, worded

OTHER = "oss2.uf.test"
STALLED = both(moving(400 * 1500 / 1434, 0, 6), moving(400 * 1500 / 1434, 14, 26))
NOTHING, HALF = synthetic.during(0, 20), moving(200 * 1500 / 1434, 0, 20)
LESS, MORE = moving(100, 0, 20), both(WIRE, moving(100, 0, 20))
UNLIKE = [(*ends, "that the clients copied") for ends in ((WIRE, LESS), (LESS, WIRE))]
UNLIKE += [(*ends, "reached none of the trial's own hosts") for ends in ((WIRE, MORE), (MORE, WIRE))]
LATE = both(moving(200 / 1.02 * 1500 / 1434, 0, 20), moving(2000 / 1.02 * 1500 / 1434, 20.5, 22.5))


def moves(folder, there, here, storage_way):
    """The storage moves bytes one way, and the worker the other."""
    worker_way = {"tx": "rx", "rx": "tx"}[storage_way]
    samples(folder, **{f"{storage_way}_bytes": there, f"{storage_way}_packets": packets(there)})
    far = {f"{worker_way}_bytes": here, f"{worker_way}_packets": packets(here)}
    samples(folder, host=WORKER, role="worker", **far)


def rows_both_ways(tmp_path, there, here):
    """The tables of a trial that reads and of one that writes, in which all moves the other way."""
    rows = []
    for what, way in (("reads", "tx"), ("writes", "rx")):
        folder = synthetic.write_trial(tmp_path / what)
        does(folder, what)
        moves(folder, there, here, way)
        rows.append(trial_tables(folder))
    return rows[0], rows[1]


@pytest.mark.parametrize("course", [WIRE, STALLED, both(WIRE, moving(50, -2, 23))])
def test_a_trial_that_writes_has_the_numbers_of_one_that_reads(tmp_path, course):
    reading, writing = rows_both_ways(tmp_path, course, WIRE)
    worded = {"bytes_late", "verdict_reasons", "bottleneck_evidence", "bottleneck", "direction"}
    assert (reading.direction, writing.direction, writing["steady_from"]) == ("sent", "received", "delivered")
    same = places(TrialRow).keys() - worded
    assert {name: writing[name] for name in same} == {name: reading[name] for name in same}


@pytest.mark.parametrize("what", ["reads", "writes"])
@pytest.mark.parametrize("reads_only", [True, False])
def test_a_rate_that_is_set_for_what_is_read_limits_no_writer(folder, what, reads_only):
    does(folder, what)
    moves(folder, WIRE, WIRE, "tx" if what == "reads" else "rx")
    told = {"event": "arranged", "now": "410"}
    arranged(folder, "storage-rate", "410", told, unit="Mb/s", link="storage", reads_only=reads_only)
    limited = what == "reads" or not reads_only
    assert (trial_tables(folder)["ceiling_mbps"] == 410) is limited


@pytest.mark.parametrize(
    ("there", "here", "words"),
    [
        (HALF, HALF, ("the storage received", "that the clients wrote")),
        (both(WIRE, moving(100, 0, 20)), WIRE, ("came from none of the trial's own hosts",)),
    ],
    ids=["what is still in a cache is missing", "somebody else who writes is background"],
)
def test_what_was_written_and_what_arrived_must_agree(tmp_path, there, here, words):
    _, writing = rows_both_ways(tmp_path, there, here)
    assert writing["verdict"] == "INVALID"
    assert all(each in writing["verdict_reasons"] for each in words)


def test_a_trial_that_writes_is_compared_with_its_repetitions_in_its_words(tmp_path):
    for repeat in (1, 2, 3, 4):
        folder = synthetic.write_trial(tmp_path, repeat=repeat, index=repeat)
        does(folder, "writes")
        samples(folder, rx_bytes=synthetic.during(400 / 1.02 * (1.085 if repeat == 3 else 1.04), 20))
    reasons = tables(tmp_path)[2]["verdict_reasons"]
    assert "the storage received +8.5% beyond what was written, its repetitions +4.0%" in reasons


def test_somebody_who_reads_meanwhile(folder):
    does(folder, "writes")
    reads = moving(300, 0, 20)
    samples(folder, rx_bytes=WIRE, rx_packets=packets(WIRE), tx_bytes=reads, tx_packets=packets(reads))
    assert "the storage sent" in trial_tables(folder)["verdict_reasons"]


def copy_row(folder, sent, received, role="storage"):
    """One storage server sends, another server receives, and the clients only steer."""
    does(folder, "copies")
    sampler = {"interface": "eth0", "via": "pool"}
    edit(
        folder,
        copied_to=None if role == "storage" else OTHER,
        samplers=[{"host": synthetic.OSS, "role": "storage", **sampler}, {"host": OTHER, "role": role, **sampler}],
    )
    samples(folder, tx_bytes=sent, tx_packets=packets(sent))
    samples(folder, host=OTHER, role=role, rx_bytes=received, rx_packets=packets(received))
    return trial_tables(folder)


@pytest.mark.parametrize("role", ["storage", "gateway"])  # or wherever the way leads to
def test_copies_are_closed_by_both_ends(folder, role):
    row = copy_row(folder, WIRE, WIRE, role)
    assert (row["verdict"], row["verdict_reasons"]) == ("VALID", "")
    assert row["mean_mbps"] == pytest.approx(WIRE_MBPS, rel=1e-3)
    assert row["delivered_mbps"] == pytest.approx(400 / 1.02, rel=1e-3)


@pytest.mark.parametrize("servers", [[], [synthetic.OSS]])
@pytest.mark.parametrize(("back", "verdict"), [(0.025, "VALID"), (1.0, "INVALID")])
def test_what_the_server_that_is_copied_to_sends_is_no_part_of_the_rate(folder, servers, back, verdict):
    """Its acknowledgements are 2 % where packets are as small as the wire's; more is somebody else's."""
    copy_row(folder, WIRE, WIRE)
    edit(folder, copied_to=OTHER, servers=servers)
    sent = moving(back * 200, 0, 20)
    samples(folder, host=OTHER, role="storage", rx_bytes=WIRE, rx_packets=packets(WIRE), tx_bytes=sent)
    row = trial_tables(folder)
    assert row["verdict"] == verdict
    assert row["mean_mbps"] == pytest.approx(WIRE_MBPS, rel=1e-3)


@pytest.mark.parametrize(
    ("role", "compared", "verdict", "words"),
    [
        ("storage", [], "SUSPECT", f"the clock of {OTHER} was not compared"),
        ("gateway", [], "SUSPECT", f"the clock of {OTHER} was not compared"),
        ("gateway", [synthetic.clock(-1100)], "INVALID", f"ahead of that of {OTHER}, 5.5 % of the window"),
    ],
)
def test_the_clock_of_the_server_that_is_copied_to_dates_bytes_too(folder, role, compared, verdict, words):
    compare_clock(folder)
    copy_row(folder, WIRE, WIRE, role)
    edit(folder, copied_to=OTHER)
    counted = {"rx_bytes": WIRE, "rx_packets": packets(WIRE)}
    synthetic.write_host(folder, OTHER, role, period=0.25, head={"boot_id": "far"}, end={"clocks": compared}, **counted)
    row = trial_tables(folder)
    assert (row["verdict"], words in row["verdict_reasons"]) == (verdict, True)


def test_what_is_copied_is_read_from_caches_too(folder):
    copy_row(folder, WIRE, WIRE)
    edit(folder, flush={"strategy": "none", "hosts": []})
    row = trial_tables(folder)
    assert (row["verdict"], "no cache was flushed" in row["verdict_reasons"]) == ("SUSPECT", True)


def test_what_workers_can_receive_limits_no_copy_between_servers(folder):
    (folder.parents[1] / "site.json").write_text(json.dumps({"links": {"worker": 10}}))
    does(folder, "reads")
    assert "workers" in trial_tables(folder)["ceiling_from"]
    assert "workers" not in copy_row(folder, WIRE, WIRE)["ceiling_from"]


def test_the_server_that_is_copied_to_may_be_what_limits(folder):
    site = {"links": {"storage": 4000, "metadata": 420}, "samplers": {"to": {"host": OTHER, "link": "metadata"}}}
    (folder.parents[1] / "site.json").write_text(json.dumps(site))
    copy_row(folder, WIRE, WIRE)
    edit(folder, copied_to=OTHER)
    row = trial_tables(folder)
    assert (row["bottleneck"], row["ceiling_mbps"]) == ("storage", 420)


@pytest.mark.parametrize("role", ["storage", "gateway"])
@pytest.mark.parametrize(("sent", "received", "words"), UNLIKE)
def test_what_only_one_end_of_the_copies_moved_is_missing_or_background(folder, sent, received, words, role):
    row = copy_row(folder, sent, received, role)
    assert row["verdict"] == "INVALID"
    assert words in row["verdict_reasons"]


def test_who_counts_operations_needs_no_bytes(folder):
    does(folder, "metadata")
    samples(folder, tx_bytes=NOTHING, rx_bytes=NOTHING)
    reasons = trial_tables(folder)["verdict_reasons"]
    assert "storage" not in reasons


def write_row(folder, arrived, *, settles=True, looked_at=4):
    """A trial that wrote, of which the storage received so much in time."""
    does(folder, "writes", settles=settles)
    edit(folder, writes={"url": "/writes/run/trial"})
    moves(folder, arrived, WIRE, "rx")
    if looked_at is not None:
        (folder / "outbox").mkdir()
        report = {"status": "ok", "check": "size", "checked": looked_at}
        (folder / "outbox/clear.json").write_text(json.dumps(report))
    return trial_tables(folder)


def test_what_was_looked_at_is_told(folder):
    row = write_row(folder, WIRE)
    assert (row["verdict"], row["verdict_reasons"]) == ("VALID", "")
    assert (row["looked_at"], row["left_behind"]) == ("size of 4 files", "")
    assert row["closure"] == pytest.approx(1500 / 1434 - 1, rel=1e-3)
    assert row["bytes_late"] < 1e6


def one_writes(folder, others_begin_s):
    """Have one client write for all; the others are there for a second."""
    size = json.loads((folder / "trial.json").read_text())["bytes"]
    for client in range(4):
        begin_s, end_s = (others_begin_s, others_begin_s + 1) if client else (0, 20)
        path = folder / f"clients/{client}.jsonl"
        synthetic.write_client(path, begin_s=begin_s, end_s=end_s, size=0 if client else size)
    compare_clock(folder)


@pytest.mark.parametrize("others_begin_s", [-0.5, 0, 25])
def test_where_one_client_writes_for_all_a_client_has_its_rate_and_the_others_make_no_window(folder, others_begin_s):
    one_writes(folder, others_begin_s)
    row = write_row(folder, WIRE)
    assert (row["window_s"], row["verdict"], row["verdict_reasons"]) == (20, "VALID", "")
    assert row["wall_time_s"] == pytest.approx(29.5, abs=0.01)
    assert row["client_mbps"] == row["summed_mbps"] == pytest.approx(row["delivered_mbps"])


def test_who_waits_beside_the_one_that_writes_hides_no_standstill(folder):
    one_writes(folder, 9)
    stopped = both(moving(1000 / 1.02 * MTU / 1434, 0, 4), moving(1000 / 1.02 * MTU / 1434, 16, 20))
    does(folder, "writes")
    moves(folder, stopped, stopped, "rx")
    assert "the storage received nothing for 12.0 s" in trial_tables(folder)["verdict_reasons"]


@pytest.mark.parametrize(
    ("arrived", "looked_at", "words"),
    [
        pytest.param(WIRE, None, "what was written was not checked afterwards", id="nobody has looked"),
        pytest.param(WIRE, 0, "what was written was not checked afterwards", id="there was nothing to look at"),
        pytest.param(both(WIRE, moving(100, 20.5, 22.5)), 4, "reached the storage after the last end",
                     id="a client says that all is there, and is not believed"),
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_there_is_not_valid(folder, arrived, looked_at, words):
    row = write_row(folder, arrived, looked_at=looked_at)
    assert row["verdict"] == "SUSPECT"
    assert words in row["verdict_reasons"]


def arrives(folder, what, arrived, phase, period=1.0, **counters):
    """A trial of 20 s, or copies, of which this reaches its storage, sampled so often and so long after the begin."""
    host, _ = (synthetic.OSS, write_row(folder, WIRE)) if what == "writes" else (OTHER, copy_row(folder, WIRE, WIRE))
    edit(folder, sample_period_s=period, **({"copied_to": OTHER} if what == "copies" else {}))
    times = [phase + period * number for number in range(round(-3 / period), round(25 / period))]
    samples(folder, host=host, period=period, times=times, rx_bytes=arrived, rx_packets=packets(arrived), **counters)
    return trial_tables(folder)


@pytest.mark.parametrize("what", ["writes", "copies"])
@pytest.mark.parametrize("phase", [0.03, 0.3, 0.5, 0.97])
def test_what_a_driver_tells_late_is_not_late_where_tcp_tells_at_once(folder, what, phase):
    row = arrives(folder, what, counted_slowly, phase, tcp_in_segs=packets(WIRE))
    assert (row["verdict"], row["verdict_reasons"]) == ("VALID", "")


@pytest.mark.parametrize("what", ["writes", "copies"])
@pytest.mark.parametrize("phase", [0.03, 0.5, 0.97])
def test_what_comes_within_a_sampling_period_of_the_end_is_late_too(folder, what, phase):
    in_all = WIRE_MBPS * 20
    arrived = moving(in_all / 20.9, 0, 20.9)
    row = arrives(folder, what, arrived, phase, tcp_in_segs=packets(arrived))
    assert row["bytes_late"] == pytest.approx(0.9 * in_all / 20.9 * 1e6 / 8, rel=0.05)
    assert (row["verdict"], "reached the storage after the last end" in row["verdict_reasons"]) == ("SUSPECT", True)


def uneven(seed):
    """What arrives at rates that differ by half from one fifth of a second to the next."""
    parts = np.random.default_rng(seed).lognormal(sigma=0.5, size=100)
    risen = np.concatenate([[0.0], np.cumsum(parts)]) / parts.sum() * (WIRE(20) - WIRE(0))
    return lambda time: round(float(np.interp(time, np.arange(101) / 5, risen)))


def counted_slowly(time):
    return WIRE((time - 0.4) // 1 + 0.4)


@pytest.mark.parametrize("what", ["writes", "copies"])
@pytest.mark.parametrize("phase", [0.03, 0.3, 0.97])
@pytest.mark.parametrize(
    ("arrived", "period"), [(WIRE, 1.0), *[(uneven(seed), 1.0) for seed in range(8)], (counted_slowly, 0.6)]
)
def test_what_comes_in_time_is_not_late(folder, what, arrived, period, phase):
    row = arrives(folder, what, arrived, phase, period)
    assert row["bytes_late"] < 0.01 * row["bytes_app"]
    assert (row["verdict"], row["verdict_reasons"]) == ("VALID", "")


def test_in_a_window_of_one_interval_nothing_is_called_late(folder):
    synthetic.write_clients(folder, begin_s=0, end_s=1.7, size=10**7)
    row = arrives(folder, "writes", moving(4e7 / 1.7 * 8e-6 * MTU / 1434, 0, 1.7), 0.6)
    assert row["bytes_late"] == 0


def test_what_a_client_leaves_to_a_cache_is_counted_when_it_comes(folder):
    row = write_row(folder, LATE, settles=False)
    assert row["bytes_late"] == pytest.approx(4000 / 1.02 * 1500 / 1434 * 1e6 / 8, rel=0.1)
    assert "missing" not in row["verdict_reasons"]
    assert "the clients wrote" not in row["verdict_reasons"]


@pytest.mark.parametrize(("settles", "others"), [(False, False), (True, True)])
def test_what_clients_leave_to_a_cache_and_comes_to_the_end_is_nobody_elses(folder, settles, others):
    row = write_row(folder, both(moving(200 / 1.02 * 1500 / 1434, 0, 20), moving(400, 20, 30)), settles=settles)
    assert ("somebody else uses the storage" in row["verdict_reasons"]) is others


def test_what_has_not_come_by_the_end_of_sampling_cannot_be_told(folder):
    row = write_row(folder, moving(200, 0, 20), settles=False)
    assert "in a cache still when the sampling ended" in row["verdict_reasons"]


def test_what_is_left_on_the_storage_is_told(folder):
    (folder / "outcome.json").write_text(json.dumps({"state": "complete", "left": ["2 of the files: /w/1, /w/2"]}))
    assert write_row(folder, WIRE)["left_behind"] == "2 of the files: /w/1, /w/2"


@pytest.mark.parametrize(
    ("text", "written", "both"),
    [
        ("sent by the storage [Mb/s]", "received by the storage [Mb/s]", "carried by the storage [Mb/s]"),
        ("sent / delivered", "received / delivered", "carried / delivered"),
        ("Sent by ", "Received by ", "Carried by "),
        ("read ahead in vain, or sent again", "read ahead in vain, or sent again", "read ahead in vain, or sent again"),
        ("absent, presented, consent", "absent, presented, consent", "absent, presented, consent"),
    ],
)
def test_the_words_follow_the_direction(text, written, both):
    assert worded(text, ["sent", ""]) == text
    assert worded(text, ["received"]) == written
    assert worded(text, ["received", "sent"]) == both


def test_below_nothing_stands_a_minus():
    assert (figures(-0.5), bounds(Interval(1, -1.2, 3))) == ("\N{MINUS SIGN}0.50", "\N{MINUS SIGN}1.20–3.00")
