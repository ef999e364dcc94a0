"""The rules by which a bottleneck is named: on resources that are made up, and on a synthetic trial's files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.synthetic_report import read_csv
from tests.unit.synthetic_run import (
    GATEWAY,
    during,
    steady,
    write_client,
    write_host,
    write_trial,
)
from tierbench import names
from tierbench.postprocess.measures.bottleneck import explain
from tierbench.postprocess.measures.latency import Client, Clients
from tierbench.postprocess.measures.resources import QUOTA, SHARED, Resource
from tierbench.postprocess.records.ceilings import DRIVER, MEASURED, STATED, Ceiling, Ceilings, ceilings
from tierbench.postprocess.tables.write import tables, trial_tables


def waiting(cpu_efficiency: float = 0.05, **changes: Any) -> Clients:
    """Clients that wait for each answer, but for what is changed."""
    return Clients([replace(Client(14.0, 10.0, cpu_efficiency), **changes)], cpu_efficiency, "stated")


WAITING = waiting()


def nic(role: str, value: float, ceiling: float, *, host: str = "", **more: Any) -> Resource:
    return Resource(host or f"a-{role}", role, "NIC received", value, "Mb/s", ceiling, STATED, **more)


def wan(value: float, ceiling: float) -> Resource:
    return Resource("", "wan", "link", value, "Mb/s", ceiling, STATED)


def own_cpu(role: str, cores: float, limit: float, source: str = QUOTA) -> Resource:
    return Resource(f"a-{role}", role, "CPU", cores, "cores", limit, source)


def percent(role: str, what: str, value: float) -> Resource:
    return Resource(f"a-{role}", role, what, value, "%", 100)


def client(share: float) -> Resource:
    return Resource("", "client", "CPU of a client", 100 * share, "%", 100)


IDLE = [nic("storage", 40, 800), nic("gateway", 40, 1000), nic("worker", 40, 200), wan(40, 1000), client(0.05)]


@pytest.mark.parametrize(
    ("label", "full"),
    [
        ("storage", nic("storage", 780, 800)),
        ("storage", percent("storage", "disks busy", 97)),
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
def test_the_one_thing_that_is_full_is_named(label: str, full: Resource) -> None:
    used = [r for r in IDLE if (r.role, r.resource) != (full.role, full.resource)]
    named, words = explain([*used, full], WAITING)
    assert named == label
    assert STATED in words or "%" in words


@pytest.mark.parametrize(("rate", "label"), [(91, "worker NIC"), (89, "unexplained")])
def test_a_link_is_full_from_nine_tenths_on(rate: float, label: str) -> None:
    assert explain([nic("worker", rate, 100)], waiting(rtt_ms=None))[0] == label


def test_a_link_that_is_often_at_its_ceiling_is_full_too() -> None:
    for label, bursts in (("worker NIC", nic("worker", 80, 100)), ("WAN link", wan(80, 100))):
        named, words = explain([replace(bursts, at_ceiling=0.6)], WAITING)
        assert named == label
        assert "in 60 % of the samples at the ceiling" in words


def test_of_several_full_ones_the_fullest_is_named_and_the_others_told() -> None:
    label, words = explain([nic("worker", 92, 100), wan(990, 1000), nic("storage", 740, 800)], WAITING)
    assert label == "WAN link"
    assert words.index("also full: storage server") < len(words)
    assert words.index("also full: workers a-worker") < len(words)


def test_one_slow_worker_of_many_does_not_make_the_batch_slow() -> None:
    workers = [nic("worker", 10, 10, host="slow"), *(nic("worker", 20, 100, host=f"wn{n}") for n in range(9))]
    assert explain(workers, waiting(rtt_ms=None))[0] == "unexplained"


def test_a_host_beside_the_way_is_no_suspect() -> None:
    beside = replace(own_cpu("gateway", 0.2, 0.2), on_the_way=False)
    assert explain([*IDLE, beside], WAITING)[0] != "gateway CPU"


def test_workers_full_of_busy_clients_are_not_to_blame_for_it() -> None:
    bound = waiting(cpu_efficiency=0.95)
    assert explain([percent("worker", "CPU", 99), client(0.95)], bound)[0] == "client's own CPU"
    assert explain([percent("worker", "CPU", 99), client(0.3)], WAITING)[0] == "worker CPU"


@pytest.mark.parametrize(("held_back", "label"), [(0.7, "gateway CPU"), (0.1, "unexplained")])
def test_a_quota_that_holds_a_host_back_is_full_before_it_is_used_up(held_back: float, label: str) -> None:
    throttled = Resource("a-gateway", "gateway", "CPU throttled", held_back, "s/s")
    assert explain([own_cpu("gateway", 0.16, 0.2), throttled], WAITING)[0] == label


def test_a_machine_that_hosts_share_is_charged_to_who_uses_most_of_it() -> None:
    machine = Resource("", "machine", "CPU", 99, "%", 100)
    shares = [own_cpu("gateway", 1.4, 2, SHARED), own_cpu("worker", 0.3, 2, SHARED)]
    assert explain([machine, *shares], WAITING)[0] == "gateway CPU"
    even = [own_cpu(role, 0.45, 2, SHARED) for role in ("gateway", "worker", "storage", "door")]
    assert explain([machine, *even], waiting(rtt_ms=None))[0] == "unexplained"


def test_the_share_of_its_own_cores_that_a_virtual_machine_uses_is_no_number_of_cores() -> None:
    machine = Resource("", "machine", "CPU", 99, "%", 100)
    gateway = Resource("dgt", "gateway", "CPU", 1.9, "cores", 2, source=SHARED)
    virtual = Resource("vm", "worker", "CPU", 50, "%", 100)
    name, words = explain([machine, gateway, virtual], WAITING)
    assert name == "gateway CPU"
    assert "1.90 cores of it" in words


class TestLatency:
    def test_is_named_where_nothing_is_busy_and_all_wait(self) -> None:
        label, words = explain(IDLE, WAITING)
        assert label == "latency"
        assert "17 KiB are on the way at a time" in words  # 10 Mb/s a client for 14 ms

    @pytest.mark.parametrize(
        "clients",
        [
            pytest.param(waiting(rtt_ms=None), id="distance not known"),
            pytest.param(waiting(rtt_ms=0.2), id="next door"),
            pytest.param(waiting(cpu_efficiency=0.6), id="clients work"),
            pytest.param(waiting(mbps=0.025), id="less than any read on the way"),
            pytest.param(waiting(mbps=20_000.0), id="more than any window"),
        ],
    )
    def test_is_not_named_without_its_signs(self, clients: Clients) -> None:
        assert explain(IDLE, clients)[0] == "unexplained"

    def test_is_named_where_each_read_waits_a_round_trip_however_small_it_is(self) -> None:
        label, words = explain(IDLE, waiting(mbps=0.025, wait_per_read_ms=15.4))
        assert label == "latency"
        assert "clients 14.0 ms away (stated) wait 1.1 round trips for each of their reads" in words
        assert explain(IDLE, waiting(mbps=0.025, wait_per_read_ms=80.0))[0] == "unexplained"

    def test_is_not_named_while_something_is_nearly_full(self) -> None:
        assert explain([*IDLE, own_cpu("gateway", 0.16, 0.2)], WAITING)[0] == "unexplained"


# -- ceilings --------------------------------------------------------------------------------------------

SITE = {"wan": 1000.0, "storage": 800.0, "gateway": 1000.0, "door": 1000.0, "worker": 100.0, "rtt_ms": 14.0}


def lines(door: float, gateway: float, *workers: float, rtt_ms: float | None = 14.3) -> list[dict[str, Any]]:
    """What iperf3 has measured to each of the servers, and to the workers of a pool at once."""

    def line(role: str, pool: str | None, *rates: float) -> dict[str, Any]:
        hosts = {f"{role}{n}": {"mbps": rate, "rtt_ms": rtt_ms} for n, rate in enumerate(rates)}
        return {"to": role, "role": role, "pool": pool, "mbps": sum(rates), "rtt_ms": rtt_ms, "hosts": hosts}

    return [line("door", None, door), line("gateway", None, gateway), line("worker", "private", *workers)]


def measured(known: Ceilings) -> dict[str, float]:
    found = {link: ceiling.mbps for link, ceiling in known.links.items() if ceiling.source == MEASURED}
    return {**found, **{host: ceiling.mbps for host, ceiling in known.hosts.items()}}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (lines(765, 765, 95, 95), {"storage": 765, "worker0": 95, "worker1": 95}),  # all as stated
        (lines(765, 29, 14, 15), {"storage": 765, "wan": 29}),  # slow WAN
        (lines(765, 765, 24, 24), {"storage": 765, "worker0": 24, "worker1": 24}),  # slow workers
        (lines(29, 28, 14, 14), {"storage": 29}),  # slow storage
        (lines(765, 955, 95, 95), {"door": 765, "storage": 955, "worker0": 95, "worker1": 95}),  # faster than stated
    ],
)
def test_a_measurement_is_the_ceiling_of_the_link_that_limited_it(
    seen: list[dict[str, Any]], expected: dict[str, float]
) -> None:
    assert measured(ceilings(SITE, seen, "private")) == expected


def test_what_is_stated_counts_where_nothing_was_measured_to_this_pool() -> None:
    stated = ceilings(SITE, [], "private")
    assert stated.links["wan"] == Ceiling(1000.0, STATED)
    assert (stated.rtt_ms, stated.rtt_source) == (14.0, "stated")
    assert ceilings(SITE, lines(765, 765, 95), "private").rtt_ms == 14.3
    assert ceilings(SITE, lines(765, 765, 95), "public").hosts == {}


def test_a_real_card_goes_before_more_that_is_stated_and_not_before_what_was_measured() -> None:
    card = {"link_speed_mbps": 1000, "link_speed_real": True}
    assert Ceilings().nic("h", "worker", card) == Ceiling(1000.0, DRIVER)
    assert Ceilings().nic("h", "worker", {**card, "link_speed_real": False}) is None
    assert Ceilings({"worker": Ceiling(10_000.0, STATED)}).nic("h", "worker", card) == Ceiling(1000.0, DRIVER)
    assert Ceilings({"worker": Ceiling(500.0, STATED)}).nic("h", "worker", card) == Ceiling(500.0, STATED)
    assert Ceilings(hosts={"h": Ceiling(1900.0, MEASURED)}).nic("h", "worker", card) == Ceiling(1900.0, MEASURED)


# -- from a trial's files to its rows -----------------------------------------------------------------------


def tables_of(run: Path, trial: Path, **links: float) -> tuple[dict[str, str], list[dict[str, str]]]:
    (run / names.SITE).write_text(json.dumps({"links": {**SITE, "worker": 2000, **links}}))
    trial_tables(trial)
    return read_csv(trial / names.TRIALS_CSV)[0], read_csv(trial / names.RESOURCES_CSV)


def test_a_full_storage_server_is_named_in_the_trials_row(tmp_path: Path) -> None:
    row, _ = tables_of(tmp_path, write_trial(tmp_path, mbps=780))
    assert row["bottleneck"] == "storage"
    assert "sent 780.0 of 800.0 Mb/s (98 %), stated in [links]" in row["bottleneck_evidence"]


def test_a_card_that_is_full_is_named_whatever_the_site_states(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, mbps=950)
    card = {"link_speed_mbps": 1000, "link_speed_real": True}
    write_host(trial, begin=-2.3, until=22.7, head=card, tx_bytes=steady(950))
    (tmp_path / names.SITE).write_text(json.dumps({"links": {"storage": 10_000}}))
    trial_tables(trial)
    [row] = read_csv(trial / names.TRIALS_CSV)
    assert row["bottleneck"] == "storage"
    assert row["ceiling_mbps"] == "1000.000"


def write_batches(run: Path, **mbps: float) -> dict[int, dict[str, Any]]:
    """Trials of some clients each, at a rate altogether, far from the storage; their rows by their clients."""
    for index, (jobs, rate) in enumerate(mbps.items()):
        write_trial(run, mbps=rate, jobs=int(jobs.removeprefix("of")), index=index)
    (run / names.SITE).write_text(json.dumps({"links": {"storage": 800, "rtt_ms": 14.0}}))
    return {row["jobs"]: row for row in tables(run, say=print).trials}


def test_clients_that_share_something_do_not_wait_for_the_distance(tmp_path: Path) -> None:
    found = write_batches(tmp_path, of2=108 * 1.02, of6=126 * 1.02)
    assert (found[2]["bottleneck"], found[6]["bottleneck"]) == ("latency", "unexplained")
    assert "each of 2 clients got 54.0 Mb/s, each of 6 gets 21.0" in found[6]["bottleneck_evidence"]


def test_clients_whose_rates_add_up_wait_for_the_distance(tmp_path: Path) -> None:
    found = write_batches(tmp_path, of2=60, of6=165)
    assert (found[2]["bottleneck"], found[6]["bottleneck"]) == ("latency", "latency")


def of_eight_processes(run: Path, moving_s: float) -> Path:
    """A trial of two clients of eight processes each, which compute an eighth of their 20 s."""
    folder = write_trial(run, mbps=160, jobs=2, work={"processes": 8, "files_per_job": 8})
    for client in (0, 1):
        write_client(
            folder / f"clients/{client}.jsonl", begin_s=0.001, end_s=20, size=round(160e6 / 8 * moving_s / 1.02 / 2),
            cpu_user_s=20.0, cpu_system_s=0.0,
        )  # fmt: skip
    return folder


def test_processes_of_one_job_have_a_core_each(tmp_path: Path) -> None:
    """They wait, and do not compute."""
    of_eight_processes(tmp_path, moving_s=20)
    (tmp_path / names.SITE).write_text(json.dumps({"links": {"storage": 800, "rtt_ms": 14.0}}))
    (row,) = tables(tmp_path, say=print).trials
    assert row["bottleneck"] == "latency"
    assert "each receives 10.0 Mb/s" in row["bottleneck_evidence"]
    (computed,) = (line for line in read_csv(tmp_path / names.RESOURCES_CSV) if line["role"] == "client")
    assert (float(computed["value"]), float(computed["ceiling"])) == (pytest.approx(100, abs=0.1), 800)


def test_what_many_processes_computed_does_not_hide_that_all_of_them_waited(tmp_path: Path) -> None:
    folder = of_eight_processes(tmp_path, moving_s=12)
    write_host(folder, tx_bytes=lambda time: during(160, 12)(time - 8))
    assert "nothing moved for 8.0 s from the go on" in trial_tables(folder)["verdict_reasons"]


def test_efficiency_is_the_delivered_rate_over_the_tightest_ceiling(tmp_path: Path) -> None:
    row, _ = tables_of(tmp_path, write_trial(tmp_path, mbps=400))
    assert (row["ceiling_mbps"], row["ceiling_from"]) == ("800.000", "storage server, stated in [links]")
    assert float(row["efficiency"]) == pytest.approx(0.5 / 1.02, abs=1e-4)


def test_a_row_for_each_resource_with_its_use(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, mbps=400)
    write_host(trial, GATEWAY, "gateway", begin=-2.3, until=22.7, head={"boot_id": "other"}, tx_bytes=steady(390))
    _, found = tables_of(tmp_path, trial)
    use = {(row["role"], row["resource"]): row["utilisation"] for row in found}
    assert use["storage", "NIC sent"] == "0.5000"
    assert use["gateway", "NIC sent"] == "0.3900"
    assert use["gateway", "CPU"] == "0.5000"  # user and idle alike
    assert {row["on_the_way"] for row in found if row["role"] == "gateway"} == {"yes"}


def test_hosts_of_one_boot_have_no_cpu_of_their_own(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, mbps=400)
    write_host(trial, GATEWAY, "gateway", begin=-2.3, until=22.7, tx_bytes=steady(390))
    _, found = tables_of(tmp_path, trial)
    assert {row["role"] for row in found if row["resource"] == "CPU"} == {"machine"}


@pytest.mark.parametrize(
    ("each_pct", "step", "label", "words"),
    [
        (70, 7, "latency", ""),  # of 64 some core is full at each sample, by chance
        (70, 0, "storage", "busiest core 98 %"),  # one core serves the card, others are busy too
        (1.6, 7, "storage", "busiest core 98 %"),  # one thread moves between cores
        (95, 7, "storage", "CPU, all cores 95 %, 55 % stolen by the hypervisor"),
    ],
)
def test_one_core_is_full_by_its_own_mean(tmp_path: Path, each_pct: float, step: int, label: str, words: str) -> None:
    trial = write_trial(tmp_path, mbps=200)
    stolen = 55 if each_pct > 90 else 0
    spent = {"cpu_steal": stolen, "cpu_user": each_pct - stolen, "cpu_idle": 100 - each_pct}
    write_host(
        trial, head={"ncpu": 64}, tx_bytes=during(200, 20), cpu_busiest=lambda time: round(time + 2) * step % 64,
        cpu_busiest_busy_pct=lambda _: 98,
        **{name: lambda time, pct=pct: round(round((time + 100) * 6400) * pct / 100) for name, pct in spent.items()},
    )  # fmt: skip
    row, _ = tables_of(tmp_path, trial)
    assert row["bottleneck"] == label
    assert words in row["bottleneck_evidence"]


def test_a_wan_that_is_full_in_bursts_is_named(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, mbps=320)

    def bursts(time: float) -> int:
        whole, part = divmod(min(max(time, 0), 20), 5)
        return 10**9 + round((whole * 4 + min(part, 4)) * 400 * 1e6 / 8)

    write_host(trial, tx_bytes=bursts)
    row, _ = tables_of(tmp_path, trial, wan=400)
    assert row["bottleneck"] == "WAN link"
    assert "of the samples at the ceiling" in row["bottleneck_evidence"]


def test_what_was_full_for_a_third_of_the_window_does_not_explain_it(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, mbps=400)
    for index in range(4):
        whole = 980392156
        size, end_s = (round(0.73 * whole), 20) if index == 0 else (round(0.09 * whole), 6.6)
        write_client(trial / f"clients/{index}.jsonl", begin_s=0, end_s=end_s, size=size)
    write_host(trial, tx_bytes=lambda time: during(567, 6.6)(time) + during(213, 20)(time))
    row, _ = tables_of(tmp_path, trial, wan=800)
    assert row["bottleneck"] == "unexplained"
    assert "of the whole window of 20.0 s; while all clients were at work, 5.9 s of it" in row["bottleneck_evidence"]


def test_a_trial_without_samples_says_so(tmp_path: Path) -> None:
    trial = write_trial(tmp_path)
    for samples in (trial / "samples").iterdir():
        samples.unlink()
    row, _ = tables_of(tmp_path, trial)
    assert (row["bottleneck"], row["bottleneck_evidence"]) == ("unexplained", "there are no samples of its window")
