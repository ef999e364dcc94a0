"""What proxies, XRootD's servers and caches report of themselves must be proven, or their trial is not VALID."""

import dataclasses

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import arranged, edit_trial, work_done
from tests.unit.synthetic_run import WORKER
from tierbench import names
from tierbench.postprocess.measures.server_reports import caches
from tierbench.postprocess.measures.stalls import longest_at_an_edge
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.tables.write import trial_tables
from tierbench.postprocess.verdict import byte_rules, cache_rules
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, VALID
from tierbench.postprocess.verdict.judge import evidence

ORIGIN = "vmuf.uf.test"
PROXIED = 200_000_000  # by the four clients of the trial, ten times what the storage sent
FILE = 500_000
FETCHED = 20_000_000
END_S = 20
SENT, READS, VECTOR_READS = 50_000_000, 8, 2


def rising(total):
    """A counter that rises so much in the window, and by some of it only afterwards."""
    return lambda time: 1000 + round(min(max(time, 0), 21) / 21 * total)


def proxy(folder, **risen):
    counters = {f"squid_{name}": rising(total) for name, total in risen.items()}
    synthetic.write_host(folder, synthetic.GATEWAY, "gateway", **counters)


@pytest.fixture
def through_a_proxy(tmp_path):
    folder = synthetic.write_trial(tmp_path, mbps=8.0)
    samplers = synthetic.samplers({synthetic.OSS: "storage", synthetic.GATEWAY: "gateway", ORIGIN: "door"})
    more = {"options": {"proxy": "dgt.private.fiu.test:3128"}, "work": {"for_s": 20}, "samplers": samplers}
    edit_trial(folder, **more, protocol="http", client="http")
    latencies = {"latency_s": dict.fromkeys(("p50", "p95", "p99", "max"), 0.1), "latency_classes": {"581": 100}}
    work = work_done(processes=2, fetches=100, cut=2, bytes_once=FILE, **latencies)
    synthetic.edit_clients(folder, "end", bytes_app=PROXIED // 4, bytes_client=PROXIED // 4, work=work)
    return folder


def of_proxies(folder):
    data = read_trial(folder)
    rules = (
        cache_rules.proxies_apart, cache_rules.origin_apart, cache_rules.hits_apart, cache_rules.proxies_not_compared
    )  # fmt: skip
    return [finding for finding in evidence(data, trial_row(data)) if finding.rule in rules]


def findings(folder, **changes):
    """What the rules see of a proxy with a hit for nine requests of ten, changed so."""
    squid = {"requests": 400, "hits": 360, "sent": PROXIED + 8 * FILE / 2, "fetched": FETCHED, "origin": 1.03 * FETCHED}
    squid |= changes
    kilobytes = {"sent_kb": squid["sent"] / 1024, "fetched_kb": squid["fetched"] / 1024}
    proxy(folder, requests=squid["requests"], hits=squid["hits"], **kilobytes)
    synthetic.write_host(folder, ORIGIN, "door", tx_bytes=rising(squid["origin"]))
    return {finding.rule.name: finding.value for finding in of_proxies(folder)}


def test_a_sound_proxy_agrees_with_its_clients_and_the_origin(through_a_proxy):
    assert max(findings(through_a_proxy).values()) < 1


@pytest.mark.parametrize(
    ("changes", "rule", "more_than"),
    [
        ({"sent": 0.7 * PROXIED}, "proxies apart", 10),  # a third of the clients went past it
        ({"sent": 1.5 * PROXIED}, "proxies apart", 10),  # somebody else fetches through it
        ({"origin": FETCHED + 0.3 * PROXIED}, "origin apart", 10),  # and that third was served by the origin
        ({"fetched": 0.5 * PROXIED, "hits": 360}, "hits apart", 20),
        ({"fetched": 0.5 * PROXIED}, "origin apart", 10),  # which sent less than what it says
    ],
)
def test_what_does_not_agree_is_seen(through_a_proxy, changes, rule, more_than):
    assert findings(through_a_proxy, **changes)[rule] > more_than


def test_a_door_of_another_access_method_is_not_its_origin(through_a_proxy):
    edit_trial(through_a_proxy, path=[ORIGIN])
    synthetic.write_host(through_a_proxy, "other.uf.test", "door", tx_bytes=rising(3 * FETCHED))
    assert findings(through_a_proxy)["origin apart"] < 1


def test_a_trial_whose_clients_went_past_the_proxy_is_invalid(through_a_proxy):
    findings(through_a_proxy, sent=0.5 * PROXIED, origin=FETCHED + 0.5 * PROXIED)
    row = trial_tables(through_a_proxy)
    assert row.verdict == "INVALID"
    assert "the proxy says that it sent 100.00 MB of 200.00 MB that the clients read" in row["verdict_reasons"]


def test_a_proxy_that_nobody_asked_is_told(through_a_proxy):
    proxy(through_a_proxy, requests=0)
    assert {finding.rule.name for finding in of_proxies(through_a_proxy)} == {"proxies not compared"}


@pytest.fixture
def bytes_per_read(folder):
    """What the table has of a server that reports as given, by seconds since the window's begin."""
    edit_trial(folder, samplers=synthetic.samplers({synthetic.OSS: "storage", ORIGIN: "door"}))

    def of(until=23, **gauges):
        counters = {"sent_bytes": SENT, "reads": READS, "vector_reads": VECTOR_READS}
        rising = {f"xrootd_{name}": lambda t, n=total: n if t > END_S else 0 for name, total in counters.items()}
        gauges = {"processes": lambda _: 2, "report_age_ms": lambda _: 900} | gauges
        named = {f"xrootd_{name}": of_time for name, of_time in gauges.items()}
        synthetic.write_host(folder, ORIGIN, "door", until=until, **rising, **named)
        return trial_row(read_trial(folder)).bytes_per_server_read

    return of


def test_it_is_what_was_sent_for_a_read(folder, bytes_per_read):
    synthetic.write_host(folder, "gw.uf.test", "door", xrootd_processes=lambda _: 0)  # where no server runs
    assert bytes_per_read(processes=lambda _: 1) == SENT / (READS + VECTOR_READS)


@pytest.mark.parametrize(
    "reports",
    [
        {"processes": lambda time: 2 if time > 2 else -1},
        {"processes": lambda time: 2 if time > 2 else 1},  # of two processes
        {"report_age_ms": lambda time: round(1000 * max(0, time - 17))},
    ],
    ids=["none at first", "one not at first", "none at last"],
)
def test_what_is_not_whole_is_left_out(bytes_per_read, reports):
    assert bytes_per_read(**reports) is None


def test_a_first_report_soon_after_the_begin_and_the_first_record_with_all_reports_are_early_enough(bytes_per_read):
    assert bytes_per_read(processes=lambda time: 2 if time > 1 else -1) == SENT / (READS + VECTOR_READS)
    assert bytes_per_read(until=21) is not None
    assert bytes_per_read(until=20) is None


def test_an_idle_server_that_skips_the_report_after_the_end_leaves_the_ratio_known(folder, bytes_per_read):
    gauges = {"processes": lambda _: 3, "report_age_ms": lambda time: round(1000 * max(0, time - 19))}
    gauges |= dict.fromkeys(("sent_bytes", "reads", "vector_reads"), lambda _: 0)
    synthetic.write_host(folder, "gw.uf.test", "door", **{f"xrootd_{name}": of for name, of in gauges.items()})
    assert bytes_per_read() == SENT / (READS + VECTOR_READS)


FOLDER = "/cvmfs/sft.cern.ch"
CACHE, CACHE_2 = "cache.fiu.test", "cache2.fiu.test"
SOFTWARE = 300_000_000
DOOR = "root://synthetic/"
READ = 400e6 / 8 * 20 / 1.02  # by the clients of a synthetic trial


def verdict_of(folder, value, before, after, host=WORKER, cache=None):
    """The verdict, and its reasons, of a trial whose clients' worker has a cache of software that held so much."""
    records = {"event": "arranged", "before": "cold", "now": value}, {"event": "restored", "now": "cold"}
    for record, size in zip(records, (before, after), strict=True):
        if size is not None:
            record["cache"] = {"bytes": int(size), **(cache or {"folder": FOLDER})}
    arranged(folder, "software-cache", value, *records, host=host)
    row = trial_tables(folder)
    return row.verdict, row["verdict_reasons"]


def verdict_of_data(folder, value, before, after, trouble=""):
    """The same of a cache of data, on a host of its own."""
    return verdict_of(folder, value, before, after, CACHE, {"folder": DOOR, "trouble": trouble})


@pytest.mark.parametrize(
    ("value", "before", "after", "library", "verdict", "words"),
    [
        ("cold", 1_000_000, SOFTWARE, f"{FOLDER}/lib/libCore.so", VALID, ""),
        ("warm", SOFTWARE, SOFTWARE, f"{FOLDER}/lib/libCore.so", VALID, ""),
        ("cold", 0, 0, "", INVALID, "held 0.0 MB before the trial and 0.0 MB after it"),
        ("cold", SOFTWARE, SOFTWARE, "", INVALID, "held 300.0 MB before"),
        ("cold", SOFTWARE // 5, SOFTWARE, "", SUSPECT, "held 60.0 MB before"),
        ("warm", SOFTWARE * 99 // 100, SOFTWARE, "", SUSPECT, "held 297.0 MB before"),
        ("warm", 0, SOFTWARE, "", INVALID, "held 0.0 MB before"),
        ("warm", SOFTWARE, SOFTWARE, "/opt/root/lib/libCore.so", INVALID, "/opt/root/lib/libCore.so"),
        ("warm", SOFTWARE, None, "", SUSPECT, "what the cache held of"),
    ],
)
def test_what_the_cache_held_decides(folder, value, before, after, library, verdict, words):
    synthetic.edit_clients(folder, "end", detail={"root_library": library})
    verdict_there, reasons = verdict_of(folder, value, before, after)
    assert verdict_there == verdict, reasons
    assert words in reasons


@pytest.mark.parametrize(
    ("value", "before", "after", "sent_mbps", "trouble", "verdict", "words"),
    [
        ("cold", 0, READ, 400, "", VALID, ""),
        ("cold", 0, READ, 0.01, "", INVALID, "that the clients read"),
        ("cold", READ, READ, 400, "", INVALID, "held 980.4 MB before"),
        ("cold", 0, READ, 400, "write error -28", INVALID, "says: write error -28"),
        ("warm", READ, READ, 0.01, "", VALID, ""),
        ("warm", READ, READ, 12, "", SUSPECT, "from a warm cache"),
        ("warm", READ, READ, 400, "", INVALID, "from a warm cache"),
        ("warm", READ / 2, READ, 0.01, "", INVALID, "held 490.2 MB before"),
        ("warm", READ, None, 0.01, "", SUSPECT, f"what the cache held of {CACHE}"),
    ],
)
def test_a_data_cache_is_proven_by_bytes_sent_and_held(
    folder, value, before, after, sent_mbps, trouble, verdict, words
):
    synthetic.write_host(folder, tx_bytes=synthetic.during(sent_mbps, 20))
    verdict_there, reasons = verdict_of_data(folder, value, before, after, trouble)
    assert verdict_there == verdict, reasons
    assert words in reasons


@pytest.mark.parametrize(("share", "verdict"), [(1, VALID), (0.4, INVALID)])
def test_a_cache_that_fetches_from_the_storage_itself_is_the_way_and_not_the_door_beside_it(folder, share, verdict):
    rx, none = (synthetic.during(mbps, 20) for mbps in (400 * share, 0))
    synthetic.write_host(folder, tx_bytes=synthetic.during(400, 20))
    synthetic.write_host(folder, CACHE, "gateway", rx_bytes=rx)
    synthetic.write_host(folder, ORIGIN, "door", tx_bytes=none, rx_bytes=none)
    roles = {synthetic.OSS: "storage", CACHE: "gateway", ORIGIN: "door"}
    edit_trial(folder, samplers=synthetic.samplers(roles), path=[ORIGIN, synthetic.OSS])
    found, reasons = verdict_of_data(folder, "cold", 0, READ)
    assert (found == INVALID, f"{ORIGIN} carried no more than" in reasons) == ((verdict == INVALID,) * 2), reasons


@pytest.mark.parametrize(("second", "is_warm"), [("warm", True), ("cold", False)])
def test_each_cache_of_data_that_clients_read_through_counts(folder, second, is_warm):
    verdict_of_data(folder, "warm", READ, READ)
    data = read_trial(folder)
    other = dataclasses.replace(data.caches[0], host=CACHE_2, value=second)
    unused = dataclasses.replace(other, folder="root://nobody/")
    data = dataclasses.replace(data, caches=[*data.caches, other, unused])
    assert [cache.host for cache in caches(data)] == [CACHE, CACHE_2]
    assert data.is_warm is is_warm


def through(folder, server, share, further=None, **planned):
    """A trial whose worker received what its clients read, while the storage, and a server on the way, moved more."""
    moved = synthetic.during(400 * share, 20)
    synthetic.write_host(folder, tx_bytes=moved)
    synthetic.write_host(folder, server, "door", tx_bytes=moved, rx_bytes=moved)
    synthetic.write_host(folder, WORKER, "worker", rx_bytes=synthetic.during(400, 20))
    roles = {synthetic.OSS: "storage", server: "door", WORKER: "worker", **(further or {})}
    edit_trial(folder, samplers=synthetic.samplers(roles), **planned)


def background_mb(data):
    [(share_pct, _)] = byte_rules.background_bytes.measure(data, trial_row(data))
    return share_pct / 100 * READ / 1e6


@pytest.mark.parametrize(("share", "verdict"), [(1.0, VALID), (1.4, INVALID)])
def test_who_else_reads_through_a_cold_cache_or_a_door_on_the_way_is_seen_by_what_it_sent_on(folder, share, verdict):
    """And is no read-ahead: that stays in the cache."""
    through(folder, CACHE, share)
    of_cache = verdict_of_data(folder, "cold", 0, READ)
    edit_trial(folder, path=[CACHE], conditions=[])
    row = trial_tables(folder)
    for verdict_there, reasons in (of_cache, (row.verdict, row["verdict_reasons"])):
        assert verdict_there == verdict, reasons
        assert ("reached none of the trial's own hosts" in reasons) is (verdict == INVALID)


@pytest.mark.parametrize(("fetched", "verdict"), [(1.5, VALID), (1.0, SUSPECT)])
def test_what_a_cold_caches_host_received_and_the_cache_did_not_is_somebody_elses(folder, fetched, verdict):
    """In whole blocks it fetches more than is read, and holds that then."""
    through(folder, CACHE, 1.5)
    synthetic.write_host(folder, CACHE, "door", tx_bytes=synthetic.during(400, 20), rx_bytes=synthetic.during(600, 20))
    verdict_there, reasons = verdict_of_data(folder, "cold", 0, fetched * READ)
    assert verdict_there == verdict, reasons
    assert (f"its caches hold {READ / 1e6:.2f} MB more than before" in reasons) is (verdict == SUSPECT)


@pytest.mark.parametrize(("worker_mbps", "verdict"), [(400, VALID), (600, SUSPECT)])
def test_what_workers_behind_a_cold_cache_receive_beyond_what_they_read_is_somebody_elses(folder, worker_mbps, verdict):
    """However much more the cache fetches, in whole blocks."""
    through(folder, CACHE, 4)
    synthetic.write_host(folder, CACHE, "door", tx_bytes=synthetic.during(400, 20), rx_bytes=synthetic.during(1600, 20))
    synthetic.write_host(folder, WORKER, "worker", rx_bytes=synthetic.during(worker_mbps, 20))
    verdict_there, reasons = verdict_of_data(folder, "cold", 0, 4 * READ)
    assert verdict_there == verdict, reasons
    assert ("somebody else uses these hosts" in reasons) is (verdict == SUSPECT)


@pytest.mark.parametrize(("value", "before", "verdict"), [("cold", 0, VALID), ("warm", SOFTWARE, SUSPECT)])
def test_what_workers_receive_beside_a_software_cache_that_fetched_nothing_is_somebody_elses(
    folder, value, before, verdict
):
    through(folder, CACHE, 1.0)
    synthetic.write_host(folder, WORKER, "worker", rx_bytes=synthetic.during(520, 20))
    verdict_there, reasons = verdict_of(folder, value, before, SOFTWARE)
    assert verdict_there == verdict, reasons
    assert ("somebody else uses these hosts" in reasons) is (verdict == SUSPECT)


@pytest.mark.parametrize(("share", "expected_mb"), [(0.5, 0), (0.7, 400)])
def test_what_others_read_through_several_caches_is_what_these_sent_together(folder, share, expected_mb):
    through(folder, CACHE, 1.0, further={CACHE_2: "door"})
    moved = synthetic.during(400 * share, 20)
    for host in (CACHE, CACHE_2):
        synthetic.write_host(folder, host, "door", tx_bytes=moved, rx_bytes=moved)
    verdict_of_data(folder, "cold", 0, READ)
    data = read_trial(folder)
    data = dataclasses.replace(data, caches=[*data.caches, dataclasses.replace(data.caches[0], host=CACHE_2)])
    assert background_mb(data) == pytest.approx(expected_mb, abs=10)


@pytest.mark.parametrize(("others", "expected_mb"), [(0.0, 0), (0.3, 300)])
def test_a_cache_that_reads_whole_blocks_through_a_door_is_not_somebody_else(folder, others, expected_mb):
    through(folder, ORIGIN, 2 + others, further={CACHE: "gateway"}, path=[ORIGIN])
    read, blocks = synthetic.during(400, 20), synthetic.during(800, 20)
    synthetic.write_host(folder, CACHE, "gateway", tx_bytes=read, rx_bytes=blocks)
    verdict_of_data(folder, "cold", 0, 2 * READ)
    assert background_mb(read_trial(folder)) == pytest.approx(expected_mb, abs=10)


def test_of_servers_a_warm_cache_alone_is_on_the_way_however_little_the_storage_sends(folder):
    through(folder, CACHE, 1.0, further={ORIGIN: "door"})
    synthetic.write_host(folder, tx_bytes=synthetic.during(0.01, 20))
    synthetic.write_host(folder, ORIGIN, "door", tx_bytes=synthetic.during(1, 20))
    verdict_of_data(folder, "warm", READ, READ)
    used = [row for row in synthetic.rows(folder / names.RESOURCES_CSV) if row["role"] == "door"]
    assert {row["host"]: row["on_the_way"] for row in used} == {CACHE: "yes", ORIGIN: "no"}


def test_what_the_caches_took_in_is_in_the_table(folder):
    verdict_of(folder, "cold", 1_000_000, SOFTWARE)
    assert trial_tables(folder).software_bytes == SOFTWARE - 1_000_000


@pytest.mark.parametrize(("opened_s", "waited_s"), [(0.1, 9.9), (9.0, 1.0)])
def test_what_starting_took_is_no_waiting_after_all_has_come(tmp_path, opened_s, waited_s):
    """A client that computes for ten of its twenty seconds waits for the rest, but not where it was starting then."""
    folder = synthetic.write_trial(tmp_path, jobs=1, protocol="file")
    opened_ns = synthetic.GO_NS + round(opened_s * 1e9)
    client = {"opened_wall_ns": opened_ns, "detail": {"computed_s": 10.0}}
    synthetic.write_client(folder / names.client_output(0), begin_s=0, end_s=20, size=500_000_000, **client)
    synthetic.write_host(folder, tx_bytes=synthetic.during(400, 10))
    pause = longest_at_an_edge(read_trial(folder), 0.0, ends=True)
    assert pause is not None
    assert pause.seconds == pytest.approx(waited_s, abs=0.3)
