"""Clients that are each at a distance of their own: when that is what they wait for, and when nobody may say so."""

import json
from dataclasses import replace

import pytest

from tests.unit.doctored_trial import arranged, edit_trial
from tests.unit.synthetic_run import WORKER, during, write_client, write_host, write_trial
from tests.unit.synthetic_start import in_turn
from tierbench import names
from tierbench.postprocess.measures.latency import Client, Clients, clients_of, why_latency
from tierbench.postprocess.measures.resources import part_of
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.wrappers import client as shipped

RTTS_MS = {"wn02.fiu.test": 5.0, "wn03.fiu.test": 14.0, "wn04.fiu.test": 47.0, "wn05.fiu.test": 60.0}
WINDOW = 32 * 1024  # bytes that each has on the way at a time
DISTANCE = {"host": "wan.fiu.test", "unit": "ms", "link": "rtt_ms"}
MEASURED = ((5, 71), (14, 63), (47, 49), (60, 39))  # ROOT over a mount, each alone: most of its waiting is for else


def by_distance(rtt_ms):
    """The Mb/s of a client that waits a round trip for each window."""
    return WINDOW * 8e-3 / rtt_ms


def apart(rtt_ms, **changes):
    return replace(Client(rtt_ms, by_distance(rtt_ms), computing=0.05, link_use=0.3), **changes)


WAITING = [apart(rtt_ms) for rtt_ms in RTTS_MS.values()]


def why(*each, use=0.1):
    return why_latency([use], Clients(each, 0.05, "arranged for the trial"))


def test_clients_that_each_have_as_much_on_the_way_or_wait_as_often_for_a_read_wait_for_their_distances():
    words = why(*WAITING)
    assert "clients 5.0 to 60.0 ms away (arranged for the trial) wait: each receives 4.4 to 52.4 Mb/s" in words
    assert "32 KiB are on the way at a time" in words
    # However much the one reads at a time, and the other.
    small = [
        apart(rtt_ms, mbps=rate, wait_per_read_ms=1.1 * rtt_ms)
        for rate, rtt_ms in zip((1, 2, 3, 4), RTTS_MS.values(), strict=True)
    ]
    assert "wait 1.1 round trips for each of their reads" in why(*small)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(replace(apart(5), rtt_ms=None), id="distance not known"),
        pytest.param(apart(0.5), id="next door"),
        pytest.param(apart(5, computing=0.6), id="computes"),
        pytest.param(apart(5, computing=None), id="nobody knows what it computes"),
        pytest.param(apart(5, link_use=0.9), id="fills its link"),
        pytest.param(apart(5, mbps=None), id="its rate is not known"),
        pytest.param(apart(5, mbps=by_distance(5) / 2), id="held up by something else"),
    ],
)
@pytest.mark.parametrize("reads_told", [False, True])
def test_one_client_that_waits_for_something_else_speaks_for_none(odd, reads_told):
    others = WAITING[1:]
    if reads_told:  # a round trip each for the others, and as many for this one as its rate says
        slow = by_distance(5) / odd.mbps if odd.mbps else 1
        odd = replace(odd, wait_per_read_ms=5 * 2 * slow)
        others = [replace(other, wait_per_read_ms=other.rtt_ms) for other in others]
    assert why(odd, *others) == ""


@pytest.mark.parametrize(
    ("each", "use"),
    [
        pytest.param([apart(rtt_ms, mbps=20.0) for rtt_ms in RTTS_MS.values()], 0.1, id="they wait for a server"),
        pytest.param([apart(rtt_ms, mbps=mbps) for rtt_ms, mbps in MEASURED], 0.1, id="not for these alone"),
        pytest.param(WAITING, 0.8, id="something else is nearly full"),
    ],
)
def test_what_does_not_go_by_distance_alone_is_not_latency(each, use):
    assert why(*each, use=use) == ""


def trial_of(run, rates, each):
    """A trial whose clients read for 20 s, each on a worker at a distance of its own, as the arranging host says."""
    folder = write_trial(run, mbps=sum(rates))
    for client, (rate, host) in enumerate(zip(rates, RTTS_MS, strict=True)):
        size = round(rate * 1e6 / 8 * 20)
        write_client(folder / f"clients/{client}.jsonl", begin_s=0.001, end_s=20, size=size, host=host)
    write_host(folder, tx_bytes=during(sum(rates), 20))
    record = {"event": "arranged", "before": "alike", "now": "5-14-47-60", **({"each": each} if each else {})}
    arranged(folder, "worker-rtts", "5-14-47-60", record, **DISTANCE)
    (run / names.SITE).write_text(json.dumps({"links": {"storage": 800, "wan": 1000, "worker": 100, "rtt_ms": 14.0}}))
    return folder


def limit(folder):
    row = trial_row(read_trial(folder))
    return row["bottleneck"], row["bottleneck_evidence"]


@pytest.mark.parametrize(
    "each",  # begin, end and bytes
    [
        pytest.param([(5 * n, 5 * n + 5, 12_500_000) for n in range(4)], id="one after the other"),
        pytest.param([(0, 20, 50_000_000 if n == 0 else 0) for n in range(4)], id="one for all"),
    ],
)
def test_who_moves_nothing_takes_no_share_of_the_rate(tmp_path, each):
    folder = write_trial(tmp_path, mbps=20, jobs=4)
    for client, (begin_s, end_s, size) in enumerate(each):
        write_client(folder / f"clients/{client}.jsonl", begin_s=begin_s, end_s=end_s, size=size)
    data = read_trial(folder)
    (client,) = clients_of(data, part_of(data), [], 20).each
    assert client.mbps == pytest.approx(20, rel=0.01)


BY_DISTANCE = [by_distance(rtt_ms) for rtt_ms in RTTS_MS.values()]


UNKNOWN = "the round-trip time is not one for all, and that of"
FAR_APART = "clients 5.0 to 60.0 ms away have 12 to 146 KiB each on the way (alike where distance alone holds)"


@pytest.mark.parametrize(
    ("rates", "of", "named", "words"),
    [
        (BY_DISTANCE, list(RTTS_MS), "latency", "clients 5.0 to 60.0 ms away (arranged for the trial) wait"),
        (BY_DISTANCE, list(RTTS_MS)[1:], "unexplained", f"{UNKNOWN} 1 of 4 clients not known"),
        (BY_DISTANCE, [], "unexplained", f"{UNKNOWN} 4 of 4 clients not known"),
        ([20.0] * 4, list(RTTS_MS), "unexplained", FAR_APART),
    ],
)
def test_each_client_is_held_against_the_distance_of_its_worker(tmp_path, rates, of, named, words):
    label, evidence = limit(trial_of(tmp_path, rates, {host: RTTS_MS[host] for host in of}))
    assert label == named
    assert words in evidence


def test_a_near_client_that_fills_its_link_is_not_hidden_by_far_ones_that_do_not(tmp_path):
    """Its link is a quarter of all workers', and what it has on the way may be as much as theirs by chance."""
    far = dict(zip(RTTS_MS, (40.0, 50.0, 60.0, 75.0), strict=True))
    named, evidence = limit(trial_of(tmp_path, [90.0, 72.0, 60.0, 48.0], far))
    assert "4 workers received 270.0 of 400.0 Mb/s (68 %)" in evidence
    assert named == "unexplained"


@pytest.mark.parametrize(("rates", "label"), [(BY_DISTANCE, "latency"), ([20.0] * 4, "unexplained")])
def test_clients_in_turn_are_each_held_against_their_own_too(tmp_path, rates, label):
    """What one took alone says little; all of them together show whether it went by distance."""
    folder = in_turn(trial_of(tmp_path, rates, RTTS_MS), each_s=20.0)
    alike = json.loads((folder / names.TRIAL).read_text())["bytes"] // 4
    for client, (rate, host) in enumerate(zip(rates, RTTS_MS, strict=True)):
        path = folder / f"clients/{client}.jsonl"
        text = path.read_text().replace(WORKER, host)
        path.write_text(text.replace(f": {alike}", f": {round(rate * 1e6 / 8 * 20)}"))
    named, evidence = limit(folder)
    assert named == label
    assert evidence.startswith("while client ")


def test_two_conditions_that_disagree_leave_the_round_trip_time_open(folder):
    for value in ("5", "60"):
        arranged(folder, f"rtt-{value}", value, {"event": "arranged", "before": "0", "now": value}, **DISTANCE)
    assert read_trial(folder).ceilings.rtt_ms is None


def test_of_what_servers_copy_among_themselves_the_clients_distances_say_nothing(tmp_path):
    folder = trial_of(tmp_path, BY_DISTANCE, RTTS_MS)
    edit_trial(folder, traits=type("Copies", (shipped.Client,), {"does": "copies"}).traits())
    data = read_trial(folder)
    assert [client.rtt_ms for client in clients_of(data, part_of(data), [], 40.0).each] == [None] * 4
