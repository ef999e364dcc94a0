"""The rules by which a bottleneck is named: on resources that are made up, and on a synthetic trial's files."""

import json
from dataclasses import replace

import pytest

from tests.unit.postprocess.test_ceilings import LINKS
from tests.unit.synthetic_report import read_csv
from tests.unit.synthetic_run import GATEWAY, OSS, during, steady, write_client, write_clients, write_host, write_trial
from tierbench import names
from tierbench.postprocess.measures.bottleneck import explain
from tierbench.postprocess.measures.latency import Client, Clients
from tierbench.postprocess.measures.resources import QUOTA, SHARED, WINDOWS, Resource
from tierbench.postprocess.records.ceilings import STATED
from tierbench.postprocess.tables.write import tables, trial_tables


def waiting(cpu_efficiency=0.05, **changes):
    """Clients that wait for each answer, but for what is changed."""
    return Clients([replace(Client(14.0, 10.0, cpu_efficiency), **changes)], cpu_efficiency, "stated")


WAITING = waiting()


def nic(role, value, ceiling, *, host="", **more):
    return Resource(host or f"a-{role}", role, "NIC received", value, "Mb/s", ceiling, STATED, **more)


def wan(value, ceiling):
    return Resource("", "wan", "link", value, "Mb/s", ceiling, STATED)


def own_cpu(role, cores, limit, source=QUOTA):
    return Resource(f"a-{role}", role, "CPU", cores, "cores", limit, source)


def percent(role, what, value):
    return Resource(f"a-{role}", role, what, value, "%", 100)


def client(share):
    return Resource("", "client", "CPU of a client", 100 * share, "%", 100)


IDLE = [nic("storage", 40, 800), nic("gateway", 40, 1000), nic("worker", 40, 200), wan(40, 1000), client(0.05)]


@pytest.mark.parametrize(
    ("label", "full"),
    [
        ("storage", nic("storage", 780, 800)),
        ("storage", percent("storage", "busiest disk", 97)),
        ("storage", percent("storage", "CPU", 95)),
        ("WAN link", wan(950, 1000)),
        ("gateway NIC", nic("gateway", 960, 1000)),
        ("gateway CPU", own_cpu("gateway", 0.19, 0.2)),
        ("gateway CPU", percent("gateway", "busiest core's softirq", 92)),
        ("gateway CPU", percent("gateway", "busiest core", 99)),
        ("door CPU", own_cpu("door", 0.098, 0.1)),
        ("door NIC", nic("door", 960, 1000)),
        ("worker NIC", nic("worker", 190, 200)),
        ("worker CPU", percent("worker", "CPU", 98)),
        ("client's own CPU", client(0.93)),
    ],
)
def test_the_one_thing_that_is_full_is_named(label, full):
    used = [r for r in IDLE if (r.role, r.resource) != (full.role, full.resource)]
    named, words = explain([*used, full], WAITING)
    assert named == label
    assert STATED in words or "%" in words


def again(host, percent):
    return Resource(host, "storage", "TCP segments sent again", percent, "%")


def often_full(share):
    return replace(nic("worker", 80, 100), at_ceiling=share)


def throttled(share):
    return [own_cpu("gateway", 0.16, 0.2), Resource("a-gateway", "gateway", "CPU throttled", share, "s/s")]


def flows(full, mbps=38, role="storage", host=""):
    """Four TCP flows, of which so many fill windows of 32 KiB."""
    uses = {
        "NIC sent": (40, "Mb/s", 800), WINDOWS: (full, "flows", 4), "TCP flows sent": (mbps, "Mb/s"),
        "TCP congestion window": (90, "KiB"), "TCP receiver's window": (32, "KiB"),
        "TCP round trip, the least": (14, "ms"),
    }  # fmt: skip
    return [Resource(host or f"a-{role}", role, name, *use) for name, use in uses.items()]


UNKNOWN, COMPUTING = waiting(rtt_ms=None), waiting(cpu_efficiency=0.95)
OFTEN = "in 60 % of the samples at the ceiling"
SEVERAL = [nic("worker", 92, 100), wan(990, 1000), nic("storage", 740, 800)]
ONE_SLOW = [nic("worker", 10, 10, host="slow"), *(nic("worker", 20, 100, host=f"wn{n}") for n in range(9))]
MACHINE = Resource("", "machine", "CPU", 99, "%", 100)
ONE_USES_IT = [MACHINE, own_cpu("gateway", 1.4, 2, SHARED), own_cpu("worker", 0.3, 2, SHARED)]
ALL_USE_IT = [MACHINE, *(own_cpu(role, 0.45, 2, SHARED) for role in ("gateway", "worker", "storage", "door"))]
TEN_HELD_BACK = [
    r for _ in range(10)
    for r in (own_cpu("worker", 0.65, 1), Resource("a-worker", "worker", "CPU throttled", 0.03, "s/s"))
]  # fmt: skip
VIRTUAL = Resource("vm", "worker", "CPU", 50, "%", 100)  # of its own cores, which is no number of them
CASES = {
    "a link from nine tenths on": (
        [nic("worker", 91, 100)], UNKNOWN, "worker NIC", f"a-worker received 91.0 of 100.0 Mb/s (91 %), {STATED}.",
    ),
    "a link below nine tenths": ([nic("worker", 89, 100)], UNKNOWN, "unexplained", ""),
    "links often full": ([often_full(0.9), often_full(0.3)], WAITING, "worker NIC", OFTEN),
    "a WAN often full": ([replace(wan(80, 100), at_ceiling=0.6)], WAITING, "WAN link", OFTEN),
    "the fullest of several": (SEVERAL, WAITING, "WAN link", "also full: storage server"),
    "the others of several": (SEVERAL, WAITING, "WAN link", "also full: workers a-worker"),
    "one slow worker of ten": (ONE_SLOW, UNKNOWN, "unexplained", ""),
    "a host beside the way": ([*IDLE, replace(own_cpu("gateway", 0.2, 0.2), on_the_way=False)], WAITING, "latency", ""),
    "clients that compute": ([percent("worker", "CPU", 99), client(0.95)], COMPUTING, "client's own CPU", ""),
    "a busy worker": ([percent("worker", "CPU", 99), client(0.3)], WAITING, "worker CPU", ""),
    "held back by a quota": (throttled(0.7), WAITING, "gateway CPU", ""),
    "hardly held back": (throttled(0.1), WAITING, "unexplained", ""),
    "ten workers hardly held back": (TEN_HELD_BACK, WAITING, "latency", ""),
    "a machine that one uses": (ONE_USES_IT, WAITING, "gateway CPU", ""),
    "a machine that all use": (ALL_USE_IT, UNKNOWN, "unexplained", ""),
    "a machine that others fill": ([*IDLE, MACHINE, own_cpu("worker", 0.1, 2, SHARED)], WAITING, "latency", ""),
    "a full machine of which nothing is known by host": ([*IDLE, MACHINE], WAITING, "unexplained", "99 % busy"),
    "a full disk of the machine": ([*IDLE, replace(MACHINE, resource="busiest disk")], WAITING, "latency", ""),
    "a full disk of the machine where nothing tells of latency": (
        [*IDLE, replace(MACHINE, resource="busiest disk")], UNKNOWN, "unexplained",
        "a disk of the machine that all hosts share is 99 % busy",
    ),
    "a machine with a virtual one": (
        [MACHINE, own_cpu("gateway", 1.9, 2, SHARED), VIRTUAL], WAITING, "gateway CPU", "1.90 cores of it",
    ),
    "nothing busy": (IDLE, WAITING, "latency", "17 KiB are on the way at a time"),  # 10 Mb/s a client for 14 ms
    "a distance not known": (IDLE, UNKNOWN, "unexplained", ""),
    "next door": (IDLE, waiting(rtt_ms=0.2), "unexplained", ""),
    "clients that work": (IDLE, waiting(cpu_efficiency=0.6), "unexplained", ""),
    "less than any read on the way": (IDLE, waiting(mbps=0.025), "unexplained", ""),
    "more than any window": (IDLE, waiting(mbps=20_000.0), "unexplained", ""),
    "a round trip for each small read": (
        IDLE, waiting(mbps=0.025, wait_per_read_ms=15.4), "latency",
        "clients 14.0 ms away (stated) wait 1.1 round trips for each of their reads",
    ),
    "more than that for each": (IDLE, waiting(mbps=0.025, wait_per_read_ms=80.0), "unexplained", ""),
    "more than that for each, with much on the way": (IDLE, waiting(wait_per_read_ms=80.0), "unexplained", ""),
    "each of several processes": (
        IDLE, replace(WAITING, processes=16), "latency", "clients' processes (16 each) 14.0 ms away",
    ),
    "windows that flows fill": (
        [*IDLE, *flows(3.9)], WAITING, "TCP window",
        "9.5 Mb/s each; in the median the receiver's window is 32 KiB, the least round trip 14.0 ms",
    ),
    "windows, and latency, of flows that stand in a queue": (
        [*IDLE, *flows(3.9)], waiting(rtt_ms=8.0), "unexplained",
        "flows of a-storage stand in a queue: their least round trip is 14.0 ms, 8.0 ms at rest",
    ),
    "a full interface beside an idle one": (
        [
            nic("worker", 95, 100, interface="eth0"), nic("worker", 0.1, 100, interface="eth1"),
            replace(nic("worker", 9, 100, interface="eth0"), resource="NIC sent"),
        ],
        WAITING, "worker NIC", f"a-worker eth0 received 95.0 of 100.0 Mb/s (95 %), {STATED}, one of 2 interfaces.",
    ),
    "windows that they do not fill": ([*IDLE, *flows(0.4)], WAITING, "latency", "0.4 of 4.0 TCP flows by which"),
    "windows of few of those that send": ([*IDLE, *flows(4, mbps=5)], WAITING, "latency", "nothing is busy"),
    "windows of one worker": (
        [*IDLE, *flows(4, role="worker"), *flows(1, role="worker", host="another")], WAITING, "latency",
        "1.0 of 4.0 TCP flows by which workers another sends",
    ),
    "windows before a full link": ([*IDLE, *flows(4), wan(950, 1000)], WAITING, "WAN link", ""),
    "a busy disk beside a full link": (
        [percent("storage", "busiest disk", 98), nic("door", 93, 100)], WAITING, "door NIC",
        "also full: storage server",
    ),
    "a busy farm beside a full link": (
        [percent("worker", "CPU", 99), client(0.2), nic("gateway", 92, 100)], WAITING, "gateway NIC",
        "also full: workers a-worker: CPU",
    ),
    "segments sent again": ([again("one", 0.1), again("two", 0.09), *IDLE], WAITING, "latency",
        "; 0.1 % of one's TCP segments were sent again.",
    ),
    "something nearly full": ([*IDLE, own_cpu("gateway", 0.16, 0.2)], WAITING, "unexplained", ""),
}  # fmt: skip


@pytest.mark.parametrize(("used", "clients", "named", "words"), CASES.values(), ids=CASES)
def test_what_is_named(used, clients, named, words):
    label, evidence = explain(used, clients)
    assert (label, words in f"{evidence}.") == (named, True)


def tables_of(folder, **links):
    (folder.parents[1] / names.SITE).write_text(json.dumps({"links": {**LINKS, "worker": 2000, **links}}))
    trial_tables(folder)
    return read_csv(folder / names.TRIALS_CSV)[0], read_csv(folder / names.RESOURCES_CSV)


def write_batches(run, **mbps):
    """Trials of some clients each, at a rate altogether, far from the storage; their rows by their clients."""
    for index, (jobs, rate) in enumerate(mbps.items()):
        write_trial(run, mbps=rate, jobs=int(jobs.removeprefix("of")), index=index)
    (run / names.SITE).write_text(json.dumps({"links": {"storage": 800, "wan": 1000, "rtt_ms": 14.0}}))
    return {row["jobs"]: row for row in tables(run, say=print)}


@pytest.mark.parametrize(
    ("two", "six", "named", "words"),
    [(108 * 1.02, 126 * 1.02, "unexplained", "each of 2 clients got 54.0 Mb/s, each of 6 gets 21.0"),
     (60, 165, "latency", "")],
)  # fmt: skip
def test_clients_wait_for_the_distance_where_their_rates_add_up_not_where_they_share(tmp_path, two, six, named, words):
    found = write_batches(tmp_path, of2=two, of6=six)
    assert (found[2]["bottleneck"], found[6]["bottleneck"]) == ("latency", named)
    assert words in found[6]["bottleneck_evidence"]


def test_clients_to_which_more_add_nothing_wait_for_what_they_share(tmp_path):
    found = write_batches(tmp_path, of2=108, of4=112, of8=110)
    assert [found[jobs]["bottleneck"] for jobs in (2, 4, 8)] == ["unexplained"] * 3
    assert "each of 4 clients got 27.5 Mb/s, each of 2 gets 52.9" in found[2]["bottleneck_evidence"]


def of_eight_processes(run, moving_s):
    """A trial of two clients of eight processes each, which compute an eighth of their 20 s."""
    folder = write_trial(run, mbps=160, jobs=2, work={"processes": 8, "files_per_job": 8})
    size = round(160e6 / 8 * moving_s / 1.02 / 2)
    write_clients(folder, begin_s=0.001, end_s=20, size=size, cpu_user_s=20.0, cpu_system_s=0.0)
    return folder


def test_processes_of_one_job_have_a_core_each(tmp_path):
    """They wait, and do not compute."""
    of_eight_processes(tmp_path, moving_s=20)
    (tmp_path / names.SITE).write_text(json.dumps({"links": {"storage": 800, "wan": 1000, "rtt_ms": 14.0}}))
    (row,) = tables(tmp_path, say=print)
    assert row["bottleneck"] == "latency"
    assert "each receives 10.0 Mb/s" in row["bottleneck_evidence"]
    (tmp_path / names.SITE).write_text(json.dumps({"links": {"storage": 800, "rtt_ms": 14.0}}))
    (row,) = tables(tmp_path, say=print)
    assert row["bottleneck"] == "unexplained"
    assert "no ceiling is known of the WAN link" in row["bottleneck_evidence"]
    (computed,) = (line for line in read_csv(tmp_path / names.RESOURCES_CSV) if line["role"] == "client")
    assert (float(computed["value"]), float(computed["ceiling"])) == (pytest.approx(100, abs=0.1), 800)


def test_what_many_processes_computed_does_not_hide_that_all_of_them_waited(tmp_path):
    folder = of_eight_processes(tmp_path, moving_s=12)
    write_host(folder, tx_bytes=lambda time: during(160, 12)(time - 8))
    assert "nothing moved for 8.0 s from the go on" in trial_tables(folder)["verdict_reasons"]


def test_efficiency_is_the_delivered_rate_over_the_tightest_ceiling(folder):
    row, _ = tables_of(folder)
    assert (row["ceiling_mbps"], row["ceiling_from"]) == ("800.000", "storage server, stated in [links]")
    assert float(row["efficiency"]) == pytest.approx(0.5 / 1.02, abs=1e-4)
    row, _ = tables_of(folder, wan=700)
    assert (row["ceiling_mbps"], row["ceiling_from"]) == ("700.000", "WAN link, stated in [links]")


def test_a_row_for_each_resource_with_its_use_and_hosts_of_one_boot_have_no_cpu_of_their_own(folder):
    write_host(folder, GATEWAY, "gateway", begin=-2.3, until=22.7, head={"boot_id": "other"}, tx_bytes=steady(390))
    _, found = tables_of(folder)
    use = {(row["role"], row["resource"]): row["utilisation"] for row in found}
    assert use["storage", "NIC sent"] == "0.5000"
    assert use["gateway", "NIC sent"] == "0.3900"
    assert use["gateway", "CPU"] == "0.5000"  # user and idle alike
    assert {row["on_the_way"] for row in found if row["role"] == "gateway"} == {"yes"}
    write_host(folder, GATEWAY, "gateway", begin=-2.3, until=22.7, tx_bytes=steady(390))
    row, found = tables_of(folder)
    assert {row["role"] for row in found if row["resource"] == "CPU"} == {"machine"}
    assert row["server_cpu_s_per_gb"] == ""


@pytest.mark.parametrize("stolen", [0, 40])
@pytest.mark.parametrize(("carried", "servers"), [(390, 2), (0, 1)])
def test_the_cpu_time_of_the_servers_that_the_data_passed_is_counted(folder, carried, servers, stolen):
    rest = {"cpu_idle": 100 - stolen, "cpu_steal": stolen}
    write_host(
        folder, GATEWAY, "door", begin=-2.3, until=22.7, head={"boot_id": "other"}, tx_bytes=steady(carried),
        **{name: lambda time, rate=rate: round((time + 1000) * rate) for name, rate in rest.items()},
    )  # fmt: skip
    row, _ = tables_of(folder)
    of_each = 20.0  # half of two cores
    assert float(row["server_cpu_s_per_gb"]) == pytest.approx(
        servers * of_each / (int(row["bytes_app"]) / 1e9), rel=0.01
    )


@pytest.mark.parametrize(
    ("each_pct", "step", "label", "words"),
    [
        (70, 7, "latency", ""),  # of 64 some core is full at each sample, by chance
        (70, 0, "storage", "busiest core 98 %"),  # one core serves the card, others are busy too
        (1.6, 7, "storage", "busiest core 98 %"),  # one thread moves between cores
        (95, 7, "storage", "CPU, all cores 95 %, 55 % stolen by the hypervisor"),
    ],
)
def test_one_core_is_full_by_its_own_mean(tmp_path, each_pct, step, label, words):
    trial = write_trial(tmp_path, mbps=200)
    stolen = 55 if each_pct > 90 else 0
    spent = {"cpu_steal": stolen, "cpu_user": each_pct - stolen, "cpu_idle": 100 - each_pct}
    write_host(
        trial, head={"ncpu": 64}, tx_bytes=during(200, 20), cpu_busiest=lambda time: round(time + 2) * step % 64,
        cpu_busiest_busy_pct=lambda _: 98,
        **{name: lambda time, pct=pct: round(round((time + 100) * 6400) * pct / 100) for name, pct in spent.items()},
    )  # fmt: skip
    row, _ = tables_of(trial)
    assert row["bottleneck"] == label
    assert words in row["bottleneck_evidence"]


def test_an_idle_disk_hides_no_busy_one(tmp_path):
    trial = write_trial(tmp_path, mbps=200)
    busy = {name: during(ms * 8e-6, 20) for name, ms in (("disk_busy_ms", 1000), ("disk_busiest_ms", 980))}
    write_host(trial, head={"disks": ["sda", "sdb"]}, tx_bytes=during(200, 20), **busy)
    row, _ = tables_of(trial)
    assert (row["bottleneck"], "busiest disk 98 %" in row["bottleneck_evidence"]) == ("storage", True)


@pytest.mark.parametrize(
    ("carried", "label", "ceiling", "wan"),
    [
        ((133, 134, 133), "door NIC", "door, stated in [links]: 420", 400),  # side by side
        ((240, 160), "door NIC", "door, stated in [links]: 280", 400),
        ((400, 400), "door NIC", "door, stated in [links]: 140", 400),  # one behind the other
        ((133, 1), "latency", "storage server, stated in [links]: 800", 400),  # of none that is on the way
        ((108, 80), "latency", "storage server, stated in [links]: 800", 400),  # others' data
        ((400, 120), "door NIC", "door, stated in [links]: 140", 400),  # the second is somebody else's
    ],
)
def test_doors_side_by_side_are_each_on_the_way(folder, carried, label, ceiling, wan):
    for number, mbps in enumerate(carried):
        head = {"boot_id": f"other-{number}"}
        rates = {"rx_bytes": steady(mbps), "tx_bytes": steady(mbps)}
        write_host(folder, f"door{number}.uf.test", "door", begin=-2.3, until=22.7, head=head, **rates)
    row, used = tables_of(folder, door=140, wan=1000)
    assert row["bottleneck"] == label
    assert f"{row['ceiling_from']}: {float(row['ceiling_mbps']):.0f}" == ceiling
    assert [float(each["value"]) for each in used if each["role"] == "wan"] == [pytest.approx(wan, rel=0.01)]


@pytest.mark.parametrize(("carried", "others"), [((410, 410), False), ((410, 300), True), ((640, 410), True)])
def test_what_doors_in_series_carry_is_not_added_up(folder, carried, others):
    """But what others have through one of them is seen."""
    for number, mbps in enumerate(carried):
        rates = {"rx_bytes": during(mbps, 20), "tx_bytes": during(mbps, 20)}
        write_host(folder, f"door{number}.uf.test", "door", begin=-2.3, until=22.7, **rates)
    assert ("somebody else uses these hosts" in trial_tables(folder)["verdict_reasons"]) == others


GAUGES = {
    "tcp_flows": 4, "tcp_flows_window_full": 4, "tcp_flows_bytes_per_s": 5_000_000, "tcp_flow_cwnd_bytes": 65536,
    "tcp_flow_peer_window_bytes": -1, "tcp_flow_rtt_us": 14500, "tcp_flow_min_rtt_us": 14000,
}  # fmt: skip


def with_flows(trial):
    write_host(trial, tx_bytes=during(40, 20), **{name: lambda _, value=value: value for name, value in GAUGES.items()})


def with_a_card(trial):
    card = {"link_speed_mbps": 1000, "link_speed_real": True}
    write_host(trial, begin=-2.3, until=22.7, head=card, tx_bytes=steady(950))


def in_bursts(trial):
    def bursts(time):
        whole, part = divmod(min(max(time, 0), 20), 5)
        return 10**9 + round((whole * 4 + min(part, 4)) * 400 * 1e6 / 8)

    write_host(trial, tx_bytes=bursts)


def full_for_a_third(trial):
    for index in range(4):
        size, end_s = (round(0.73 * 980392156), 20) if index == 0 else (round(0.09 * 980392156), 6.6)
        write_client(trial / f"clients/{index}.jsonl", begin_s=0, end_s=end_s, size=size)
    write_host(trial, tx_bytes=lambda time: during(567, 6.6)(time) + during(213, 20)(time))


def without_samples(trial):
    for samples in (trial / "samples").iterdir():
        samples.unlink()


@pytest.mark.parametrize(
    ("mbps", "change", "links", "label", "words"),
    [
        (780, lambda _: None, {}, "storage", "sent 780.0 of 800.0 Mb/s (98 %), stated in [links]"),
        (950, with_a_card, {"storage": 10_000}, "storage", "sent 950.0 of 1000.0 Mb/s (95 %), stated by the card"),
        (40, with_flows, {}, "TCP window", "10.0 Mb/s each; in the median the congestion window is 64 KiB"),
        (320, in_bursts, {"wan": 400}, "WAN link", "of the samples at the ceiling"),
        (400, full_for_a_third, {"wan": 800}, "unexplained",
         "of the whole window of 20.0 s; while all clients were at work, 5.9 s of it"),
        (400, without_samples, {}, "unexplained", "there are no samples of its window"),
    ],
)  # fmt: skip
def test_what_limited_a_trial_is_named_in_its_row(tmp_path, mbps, change, links, label, words):
    trial = write_trial(tmp_path, mbps=mbps)
    change(trial)
    row, used = tables_of(trial, **links)
    assert (row["bottleneck"], words in row["bottleneck_evidence"]) == (label, True)
    assert {each["utilisation"] for each in used if each["resource"] == WINDOWS} <= {"1.0000"}


@pytest.mark.parametrize(
    ("end_s", "label", "words"),
    [
        (22.7, "latency", "nothing is busy"),
        (8.0, "unexplained", f"nothing that is known of is full; the samples of gateway {GATEWAY} are missing"),
        (None, "unexplained", f"the samples of gateway {GATEWAY} are missing"),
    ],
)
def test_latency_is_not_named_where_a_server_on_the_way_was_to_be_sampled_and_was_not(tmp_path, end_s, label, words):
    """It is named since nothing else is full; what is not known may be."""
    planned = [{"host": host, "role": role, "via": "pool"} for host, role in ((OSS, "storage"), (GATEWAY, "gateway"))]
    trial = write_trial(tmp_path, mbps=40, samplers=planned)
    if end_s:
        write_host(trial, GATEWAY, "gateway", begin=-2.3, until=end_s, rx_bytes=steady(40), tx_bytes=steady(40))
    row, _ = tables_of(trial)
    assert (row["bottleneck"], words in row["bottleneck_evidence"]) == (label, True)


@pytest.mark.parametrize(
    ("received", "sent", "protocol", "label", "on_the_way"),
    [
        (400, 400, "xrootd", "latency", "yes"),
        (400, 400, "file", "latency", "yes"),  # a mount by FUSE goes through one, too
        (400, 950, "file", "latency", "no"),
        (950, 400, "file", "latency", "no"),
        (950, 20, "file", "latency", "no"),
        (400, 950, "xrootd", "WAN link", "yes"),  # and the trial is SUSPECT for who uses the door meanwhile
    ],
)
def test_a_door_that_others_use_meanwhile_does_not_limit_a_mount(tmp_path, received, sent, protocol, label, on_the_way):
    trial = write_trial(tmp_path, mbps=400, protocol=protocol)
    write_host(trial, GATEWAY, "door", begin=-2.3, until=22.7, rx_bytes=steady(received), tx_bytes=steady(sent))
    row, used = tables_of(trial, door=1000, wan=900)
    assert row["bottleneck"] == label
    assert {each["on_the_way"] for each in used if each["role"] == "door"} == {on_the_way}
