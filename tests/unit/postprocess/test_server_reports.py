"""What servers report: a proxy must agree with its clients and the origin, XRootD's servers tell of the window."""

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import edit_trial, work_done
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.tables.write import trial_tables
from tierbench.postprocess.verdict import cache_rules
from tierbench.postprocess.verdict.judge import evidence

READ = 200_000_000  # by the four clients of the trial, ten times what the storage sent
FILE = 500_000
FETCHED = 20_000_000


def rising(total):
    """A counter that rises so much in the window, and by some of it only afterwards."""
    return lambda time: 1000 + round(min(max(time, 0), 21) / 21 * total)


def proxy(folder, **risen):
    counters = {f"squid_{name}": rising(total) for name, total in risen.items()}
    synthetic.write_host(folder, "dgt.fiu.test", "gateway", **counters)


@pytest.fixture
def folder(tmp_path):
    folder = synthetic.write_trial(tmp_path, mbps=8.0)
    hosts = [
        {"host": host, "interface": "eth0", "role": role, "via": "pool"}
        for host, role in ((synthetic.OSS, "storage"), ("dgt.fiu.test", "gateway"), ("vmuf.uf.test", "door"))
    ]
    more = {"options": {"proxy": "dgt.private.fiu.test:3128"}, "work": {"for_s": 20}, "samplers": hosts}
    edit_trial(folder, **more, protocol="http", client="http")
    latencies = {"latency_s": dict.fromkeys(("p50", "p95", "p99", "max"), 0.1), "latency_classes": {"581": 100}}
    work = work_done(processes=2, fetches=100, cut=2, bytes_once=FILE, **latencies)
    synthetic.edit_clients(folder, "end", bytes_app=READ // 4, bytes_client=READ // 4, work=work)
    return folder


def of_proxies(folder):
    data = read_trial(folder)
    rules = (
        cache_rules.proxies_apart, cache_rules.origin_apart, cache_rules.hits_apart, cache_rules.proxies_not_compared
    )  # fmt: skip
    return [finding for finding in evidence(data, trial_row(data)) if finding.rule in rules]


def told(folder, **changes):
    """What the rules see of a proxy with a hit for nine requests of ten, changed so."""
    squid = {"requests": 400, "hits": 360, "sent": READ + 8 * FILE / 2, "fetched": FETCHED, "origin": 1.03 * FETCHED}
    squid |= changes
    kilobytes = {"sent_kb": squid["sent"] / 1024, "fetched_kb": squid["fetched"] / 1024}
    proxy(folder, requests=squid["requests"], hits=squid["hits"], **kilobytes)
    synthetic.write_host(folder, "vmuf.uf.test", "door", tx_bytes=rising(squid["origin"]))
    return {finding.rule.name: finding.value for finding in of_proxies(folder)}


def test_a_sound_proxy_agrees_with_its_clients_and_the_origin(folder):
    assert max(told(folder).values()) < 1


@pytest.mark.parametrize(
    ("changes", "rule", "more_than"),
    [
        ({"sent": 0.7 * READ}, "proxies apart", 10),  # a third of the clients went past it
        ({"sent": 1.5 * READ}, "proxies apart", 10),  # somebody else fetches through it
        ({"origin": FETCHED + 0.3 * READ}, "origin apart", 10),  # and that third was served by the origin
        ({"fetched": 0.5 * READ, "hits": 360}, "hits apart", 20),
        ({"fetched": 0.5 * READ}, "origin apart", 10),  # which sent less than what it says
    ],
)
def test_what_does_not_agree_is_seen(folder, changes, rule, more_than):
    assert told(folder, **changes)[rule] > more_than


def test_a_trial_whose_clients_went_past_the_proxy_is_invalid(folder):
    told(folder, sent=0.5 * READ, origin=FETCHED + 0.5 * READ)
    row = trial_tables(folder)
    assert row.verdict == "INVALID"
    assert "the proxy says that it sent 100.00 MB of 200.00 MB that the clients read" in row["verdict_reasons"]


def test_a_proxy_that_nobody_asked_is_told(folder):
    proxy(folder, requests=0)
    assert {finding.rule.name for finding in of_proxies(folder)} == {"proxies not compared"}


END_S = 20
SENT, READS, VECTOR_READS = 50_000_000, 8, 2


@pytest.fixture
def bytes_per_read(tmp_path):
    """What the table has of a server that reports as given, by seconds since the window's begin."""
    folder = synthetic.write_trial(tmp_path)
    roles = {synthetic.OSS: "storage", "vmuf.uf.test": "door"}
    hosts = [{"host": host, "interface": "eth0", "role": role, "via": "pool"} for host, role in roles.items()]
    edit_trial(folder, samplers=hosts)

    def of(until=23, **gauges):
        counters = {"sent_bytes": SENT, "reads": READS, "vector_reads": VECTOR_READS}
        rising = {f"xrootd_{name}": lambda t, n=total: n if t > END_S else 0 for name, total in counters.items()}
        gauges = {"processes": lambda _: 2, "report_age_ms": lambda _: 900} | gauges
        named = {f"xrootd_{name}": of_time for name, of_time in gauges.items()}
        synthetic.write_host(folder, "vmuf.uf.test", "door", until=until, **rising, **named)
        return trial_row(read_trial(folder)).bytes_per_server_read

    return of


def test_it_is_what_was_sent_for_a_read(bytes_per_read):
    assert bytes_per_read() == SENT / (READS + VECTOR_READS)


@pytest.mark.parametrize(
    "reports",
    [
        {"processes": lambda time: 2 if time > 2 else -1},
        {"processes": lambda time: 2 if time > 2 else 1},  # of two processes
        {"report_age_ms": lambda time: round(1000 * max(0, time - 19))},
    ],
    ids=["none at first", "one not at first", "none after it"],
)
def test_what_is_not_whole_is_left_out(bytes_per_read, reports):
    assert bytes_per_read(**reports) is None


def test_a_first_report_soon_after_the_begin_is_early_enough(bytes_per_read):
    assert bytes_per_read(processes=lambda time: 2 if time > 1 else -1) == SENT / (READS + VECTOR_READS)


def test_the_first_record_by_which_all_have_reported_is_enough(bytes_per_read):
    assert bytes_per_read(until=21) is not None
    assert bytes_per_read(until=20) is None
