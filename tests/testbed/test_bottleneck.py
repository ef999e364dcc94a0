"""Bottlenecks staged on the testbed, one by one, each of which a trial must name by what was measured of it."""

import contextlib
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pytest

from tests.testbed.runs import HOME, STARVED, starved, window
from tierbench import names
from tierbench.testbed.cgroups import means
from tierbench.testbed.services import conditions
from tierbench.testbed.testbed import SHIPPED, Testbed

SLOW_MBPS = 25
SHALLOW = "256k"  # 80 ms: a queue of 2 MB takes 0.6 s of the 3 s that iperf3 has, and it measures less than there is
SLOW_CORES = 0.05
FAR_MS = 160.0

SETS = """
replicas.plain = { kind = "random", count = 4, size_mb = 3 }
replicas.small = { kind = "random", count = 1, size_mb = 2 }
replicas.events = { kind = "higgs", count = 4, size_mb = 2 }
"""

EXPERIMENT = """
access = ["{access}"]
batches = [{jobs}]
sample_period_s = 0.1
retries = 1

[workloads.read]
client = "{client}"
replicas = "{replicas}"
{options}
"""

REPLICAS = """
access = ["lan-xrootdfs"]

[workloads]
plain = { client = "dd", replicas = "plain" }
small = { client = "dd", replicas = "small" }
events = { client = "higgs", replicas = "events" }
"""


@dataclass(frozen=True)
class Trial:
    """What is run while a bottleneck is staged, and what the site's file says meanwhile of its links."""

    access: str
    jobs: int = 4
    client: str = "xrdcp"
    replicas: str = "plain"
    options: str = ""
    links: dict[str, float] = field(default_factory=dict)
    measure: bool = False


@pytest.fixture(scope="module")
def _replicas(access_point):
    access_point.define("staged", SETS + REPLICAS)
    access_point.make_replicas("staged")


def row_of(trial, name, access_point):
    """The trial's row of trials.csv, under what was staged."""
    access_point.define(name, SETS + EXPERIMENT.format(**vars(trial)))
    access_point.put(f"{name}-site.toml", site_with(trial.links))
    ran = access_point.run(name, f"{HOME}/{name}-site.toml", links=trial.measure)
    assert ran.ended_well
    (row,) = ran.rows(names.TRIALS_CSV)
    return row


def site_with(links):
    text, table, stated = SHIPPED.read_text(encoding="utf-8").partition("[links]")
    for link, value in links.items():
        stated, changed = re.subn(rf"(?m)^{link} = .*$", f"{link} = {value}", stated)
        assert changed == 1, link
    return text + table + stated


# -- what can be staged ------------------------------------------------------------------------------------


@contextlib.contextmanager
def slow_ports(host, *devices):
    """Interfaces of a host that send at a slow rate."""
    before = {device: host.run("tc", "qdisc", "show", "dev", device, "root").stdout for device in devices}
    for device in devices:
        host.run(*change(device, f"{SLOW_MBPS}Mbit", limit=SHALLOW))
    try:
        yield
    finally:
        for device, shown in before.items():
            (rate,) = re.findall(r"rate (\S+?bit)", shown)
            (burst,) = re.findall(r"burst (\S+)", shown)
            host.run(*change(device, rate, burst))


def change(device, rate, burst="64k", limit="2m"):
    bucket = ["tbf", "rate", rate, "burst", burst, "limit", limit]
    return ["tc", "qdisc", "change", "dev", device, "root", "handle", "1:", *bucket]


@contextlib.contextmanager
def slow_cpu(host):
    cgroup = host.namespaces.cgroup
    cgroup.limit(SLOW_CORES)
    try:
        yield
    finally:
        cgroup.limit(None)


@contextlib.contextmanager
def favoured(*hosts):
    """Hosts that others on this machine take no CPU time from."""
    shares = {"cpu.shares": "200000", "cpu.weight": "10000"}
    entrances = [entrance for host in hosts for entrance in host.namespaces.cgroup.entrances]
    groups = {group for entrance in entrances for group in entrance.parents[:2]}
    files = [group / name for group in groups for name in shares if (group / name).exists()]
    before = {file: file.read_text() for file in files}
    for file in files:
        file.write_text(shares[file.name])
    try:
        yield
    finally:
        for file, value in before.items():
            file.write_text(value)


@contextlib.contextmanager
def far_away(wan, usual_ms):
    set_round_trip(wan, FAR_MS)
    try:
        yield
    finally:
        set_round_trip(wan, usual_ms)


def set_round_trip(wan, rtt_ms):
    wan.run(f"{conditions.WORDS}/rtt", "set", f"{rtt_ms:g}")


# -- what is named -----------------------------------------------------------------------------------------

Stage = Callable[[Testbed], AbstractContextManager[None]]
SLOW = float(SLOW_MBPS)
STAGED_CPUS = {"gateway CPU": "dgt.fiu.test", "door CPU": "vmuf.uf.test"}
AS_IN_THE_PAPERS = "options = { cpu_s_per_mb = 0.7 }"


IN_ANY_CASE = ("latency",)  # the others a busy machine blurs: they are for a quiet one


def staged(label, stage, trial):
    marks = () if label in IN_ANY_CASE else pytest.mark.quiet
    return pytest.param(label, stage, trial, id=label.replace(" ", "-").replace("'", ""), marks=marks)


@pytest.mark.parametrize(
    ("label", "stage", "trial"),
    [
        staged(
            "WAN link",
            lambda bed: slow_ports(bed.host("wan"), "br-fiu"),
            Trial("lan-xrootd", measure=True),  # the site's file still says 1000
        ),
        staged(
            "worker NIC",
            lambda bed: slow_ports(bed.host("wan"), "wn03-eth0", "wn04-eth0"),
            Trial("wan-xrootd-public", links={"worker": SLOW}),
        ),
        staged(
            "storage",
            lambda bed: slow_ports(bed.host("oss"), "eth0"),
            Trial("wan-xrootd-public", links={"storage": SLOW}),
        ),
        staged(
            "gateway NIC",
            lambda bed: slow_ports(bed.host("wan"), "dgt-eth0"),
            Trial("lan-xrootd", links={"gateway": SLOW}),
        ),
        staged("gateway CPU", lambda bed: slow_cpu(bed.host("dgt")), Trial("lan-xrootd")),
        staged("door CPU", lambda bed: slow_cpu(bed.host("vmuf")), Trial("wan-xrootd-public")),
        staged(
            "latency",
            lambda bed: far_away(bed.host("wan"), bed.settings.rtt_ms),
            Trial("direct", 1, "dd", "small", links={"rtt_ms": FAR_MS}),
        ),
        staged(
            "client's own CPU",
            lambda bed: favoured(bed.host("wn03"), bed.host("wn04")),
            Trial("wan-xrootd-public", 4, "higgs", "events", AS_IN_THE_PAPERS),
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("_replicas")
def test_the_staged_bottleneck_is_named(access_point, testbed, machine, label, stage, trial):
    if label in ("gateway CPU", "door CPU") and not means().limits:
        pytest.skip(means().missing)
    name = re.sub(r"\W+", "-", label).lower()
    with stage(testbed):
        row = row_of(trial, name, access_point)
    print(label, row["bottleneck_evidence"])
    assert (row["state"], row["reasons"]) == ("complete", "")
    named = row["bottleneck"] == label and (trial.client != "higgs" or float(row["cpu_efficiency"]) >= 0.9)
    busy = starved(row) if label in IN_ANY_CASE else held_up(row, machine, but=STAGED_CPUS.get(label, "nowhere"))
    usable = row["verdict"] != "INVALID"
    if busy and not (named and usable):
        pytest.skip(f"this machine was too busy: {row['verdict_reasons']}")
    assert usable, row["verdict_reasons"]
    assert named, (row["bottleneck"], row["cpu_efficiency"], row["bottleneck_evidence"])


def held_up(row, machine, but):
    """Whether this machine kept a trial waiting, other than by the CPU of the host that was made slow."""
    reasons = [reason for reason in row["verdict_reasons"].split("; ") if not reason.startswith(but)]
    return any(words in " ".join(reasons) for words in STARVED) or not machine.was_at_rest(*window(row))
