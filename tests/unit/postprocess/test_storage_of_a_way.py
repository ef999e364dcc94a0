"""Where a way's bytes come from: the servers that it names, or the workers' own disks; others are no part of it."""

import dataclasses
import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import edit_trial, work_done
from tests.unit.synthetic_run import WORKER
from tierbench import names
from tierbench.dags.experiment import find_experiment
from tierbench.dags.hosts import flushed_hosts, sampled_hosts
from tierbench.dags.plan import expand
from tierbench.dags.records import ReplicaLists
from tierbench.dags.replicas import RandomReplicas
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.measures.over_time import read_over_time
from tierbench.postprocess.tables.write import trial_tables
from tierbench.site_configs.site import find_site, load_site
from tierbench.submit import replication
from tierbench.submit.trial import trial_monitor
from tierbench.submit.trial.trial_monitor import OF_DISKS, OF_INTERFACES, Moving

MBPS, SECONDS, JOBS = 400.0, 20, 4
SIZE = round(MBPS * 1e6 / 8 * SECONDS / 1.02 / JOBS)  # what each client of a synthetic trial reads
FAR = "oss2.uf.test"
TIMES = synthetic.ticks(-2, 23)
READ = synthetic.during(MBPS / 1.02, SECONDS)
NOTHING = synthetic.during(0, SECONDS)


def two_servers(run, near, far):
    """A trial by a way that leads to the far server alone, of two that send so much."""
    samplers = synthetic.samplers({synthetic.OSS: "storage", FAR: "storage"})
    folder = synthetic.write_trial(run, mbps=MBPS, samplers=samplers, servers=[FAR], access="far-pool")
    synthetic.write_host(folder, synthetic.OSS, "storage", tx_bytes=synthetic.during(near, SECONDS))
    synthetic.write_host(folder, FAR, "storage", tx_bytes=synthetic.during(far, SECONDS))
    return trial_tables(folder)


def on_disk(run, *, fetched=SIZE, sent=NOTHING, **counters):
    """A trial whose storage is the worker's disk, by its samples' counters and the kernel's count for each client."""
    samplers = synthetic.samplers({synthetic.OSS: "storage", WORKER: "worker"})
    folder = synthetic.write_trial(
        run, mbps=MBPS, samplers=samplers, on_disk=True, access="local-disk", protocol="file"
    )
    synthetic.write_host(folder, synthetic.OSS, "storage", tx_bytes=sent)
    synthetic.write_host(folder, WORKER, "worker", **(counters or {"disk_read_bytes": READ}))
    for client in range(JOBS):
        path = folder / f"clients/{client}.jsonl"
        synthetic.write_client(path, begin_s=client * 1e-3, end_s=SECONDS - client, size=SIZE, bytes_disk=fetched)
    return trial_tables(folder)


def about(row, words):
    return words in row["verdict_reasons"]


def test_the_rate_is_that_of_the_servers_that_the_way_names(tmp_path):
    row = two_servers(tmp_path, near=0.3, far=MBPS)
    assert row.mean_mbps == pytest.approx(MBPS, rel=0.01)
    assert not about(row, "does not lead to")
    assert json.loads(row.bytes_by_server) == {
        FAR: pytest.approx(MBPS * 1e6 / 8 * SECONDS, rel=0.01), synthetic.OSS: pytest.approx(750_000, rel=0.01)
    }  # fmt: skip


@pytest.mark.parametrize("changes", [{"servers": ["oss9.uf.test"]}, {"samplers": []}])
def test_a_trial_none_of_whose_servers_were_sampled_is_invalid(folder, changes):
    edit_trial(folder, **changes)
    if "samplers" in changes:
        (folder / f"samples/{synthetic.OSS}.samples").unlink()
    row = trial_tables(folder)
    assert (row.verdict, row.mean_mbps) == ("INVALID", None)
    assert "no storage server of its access method was sampled" in row["reasons"]


@pytest.mark.parametrize(
    ("near", "far", "verdict", "words"),
    [
        (0.05, 1, "SUSPECT", "far-pool does not lead to oss.uf.test"),
        (0.5, 1, "INVALID", "far-pool does not lead to oss.uf.test"),
        (1, 0, "INVALID", "the storage sent 0.00 MB"),
    ],
)
def test_bytes_from_another_server_than_the_way_names_are_told(tmp_path, near, far, verdict, words):
    row = two_servers(tmp_path, near=near * MBPS, far=far * MBPS)
    assert row.verdict == verdict
    assert about(row, words)


def test_a_server_of_some_ways_is_sampled_in_their_trials_alone():
    site = find_site("testbed")
    for name, far in (("quick", False), ("extenci-pools-scaled", True)):
        plan = expand(site, find_experiment(name), {pool: [f"w.{pool}.test"] for pool in site.pools})
        for configuration in plan.configurations:
            hosts = {sampler.host for sampler in sampled_hosts(site, plan, configuration)}
            assert ("osf.fnal.test" in hosts, "oss.uf.test" in hosts) == (far, True)


def test_what_a_worker_reads_from_its_own_disk_its_disks_counters_prove_and_its_course_is_theirs(tmp_path):
    row = on_disk(tmp_path)
    assert (row.state, row.counted_by, row.closure) == ("complete", "disks", pytest.approx(0, abs=0.01))
    assert not about(row, "disk")
    assert row.limit.ceiling_mbps is None  # no link's
    rate = read_over_time(tmp_path, row.trial_id).storage
    assert rate is not None
    assert max(rate.values[5:-5]) == pytest.approx(MBPS / 1.02, rel=0.01)


def test_a_host_that_shares_its_machine_goes_by_its_own_part_of_the_disks(tmp_path):
    others = synthetic.during(3 * MBPS, SECONDS)
    row = on_disk(tmp_path, disk_read_bytes=others, disk_own_read_bytes=READ, disk_own_written_bytes=NOTHING)
    assert (row.counted_by, row.closure) == ("own disks", pytest.approx(0, abs=0.01))


def test_a_disks_counter_may_run_ahead_of_the_clients(tmp_path):
    row = on_disk(tmp_path, disk_read_bytes=synthetic.during(MBPS / 1.02 * SECONDS / 17, 17))
    assert not about(row, "did not end")


def test_a_worker_of_several_interfaces_counts_its_disks_once(tmp_path):
    on_disk(tmp_path)
    folder = next((tmp_path / "trials").iterdir())
    one = trial_tables(folder)
    nics, path = {"eth0": NOTHING, "eth1": synthetic.during(0.1, SECONDS)}, folder / f"samples/{WORKER}.samples"
    synthetic.write_interfaces(path, TIMES, nics, {"disk_read_bytes": READ}, role="worker")
    two = trial_tables(folder)
    assert (two.mean_mbps, two.bytes_by_server, two.verdict) == (one.mean_mbps, one.bytes_by_server, one.verdict)


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        pytest.param({"fetched": 0}, "INVALID", "the kernel fetched 0.00 MB from disks", id="a warm cache"),
        pytest.param({"disk_read_bytes": synthetic.during(MBPS / 2, SECONDS)}, "INVALID", "the workers' disks sent",
                     id="a disk that has read less"),
        pytest.param({"sent": synthetic.during(MBPS, SECONDS)}, "INVALID", "local-disk does not lead to oss.uf.test",
                     id="no local copy"),
        pytest.param({"fetched": None}, "SUSPECT", "is not known", id="without the kernel's count"),
    ],
)  # fmt: skip
def test_what_was_not_read_from_the_local_disk_is_seen(tmp_path, changes, verdict, words):
    row = on_disk(tmp_path, **changes)
    assert row.verdict == verdict
    assert about(row, words)


def test_a_disks_cache_may_serve_what_is_read_again_for_a_given_time(tmp_path):
    on_disk(tmp_path)
    folder = next((tmp_path / "trials").iterdir())
    edit_trial(folder, bytes=None, work={"for_s": SECONDS})
    latencies = {"latency_s": dict.fromkeys(("p50", "p95", "p99", "max"), 5.0)}
    done = work_done(fetches=4, bytes_once=SIZE, last_begin_wall_ns=synthetic.GO_NS, **latencies)
    synthetic.write_clients(folder, begin_s=0, end_s=SECONDS, size=4 * SIZE, bytes_disk=SIZE, work=done)
    row = trial_tables(folder)
    assert row.verdict != "INVALID", row["verdict_reasons"]
    assert not about(row, "the kernel fetched")


def test_without_its_workers_samples_a_local_trial_is_invalid(tmp_path):
    folder = synthetic.write_trial(tmp_path, mbps=MBPS, on_disk=True, protocol="file")
    row = trial_tables(folder)
    assert row.verdict == "INVALID"
    assert "what their disks read is unknown" in row["reasons"]


@pytest.mark.parametrize(("counters", "still"), [(OF_DISKS, False), (OF_INTERFACES, True)])
def test_a_trial_on_a_disk_is_not_still_while_that_is_read(tmp_path, monkeypatch, counters, still):
    monkeypatch.chdir(tmp_path)
    clock = Mock(return_value=0.0)
    monkeypatch.setattr(trial_monitor, "time", Mock(wraps=trial_monitor.time, monotonic=clock))
    moving = Moving([WORKER], counters)
    (tmp_path / "samples").mkdir()
    for seconds in (0, 20):
        clock.return_value = float(seconds)
        synthetic.write_host(
            tmp_path, WORKER, "worker", disk_read_bytes=lambda _, at=seconds: READ(at), tx_bytes=NOTHING
        )
        moving.look()
    assert (moving.still_s() > 0) == still


def test_clients_and_flushes_are_given_the_copies():
    site, experiment = find_site("testbed"), find_experiment("extenci-local-input-scaled")
    plan = expand(site, experiment, {"public": ["wn03.fiu.test"]})
    folder = next(iter(plan.replicas))
    for trial in plan.trials:
        where = "/scratch/replicas" if trial.configuration.access == "local-disk" else "/extenci/tierbench/replicas"
        assert all(line.startswith(f"{where}/{folder}/") for line in ReplicaLists(site, plan).text(trial).splitlines())
        point = next(use for use in experiment.uses() if use.access == trial.configuration.access)
        flushed = flushed_hosts(site, point_experiment(experiment, point), plan, trial.configuration)
        assert {host.directory for host in flushed} == {f"{where}/{folder}"}


def point_experiment(experiment, use):
    return next(point.experiment for point in experiment.points if use.access in point.experiment.access)


WAYS = [
    ({"replicas": "/extenci/tierbench/replicas/copies"}, r"must be elsewhere"),
    ({"servers": ["oss9.uf.test"]}, r"access.direct.servers"),
]


@pytest.mark.parametrize(("changes", "complaint"), WAYS)
def test_a_way_whose_bytes_nothing_would_prove_is_refused(tmp_path, changes, complaint):
    path = Path(find_site.__globals__["SHIPPED"]) / "testbed.toml"
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in changes.items())
    mine = tmp_path / "mine.toml"
    mine.write_text(path.read_text().replace("[access.direct]\n", f"[access.direct]\n{lines}\n"))
    with pytest.raises(ConfigError, match=complaint):
        load_site(mine)


def test_copies_are_those_of_the_storages_catalogue(tmp_path):
    site, replicas = made(tmp_path)
    storage, copies = Path(site.storage.replicas), tmp_path / "disk/copies"
    replication.copy(replicas, storage, copies, 2)
    assert list(replication.verify(replicas, copies, 2)) == []
    damaged = tmp_path / "disk/copies" / replicas.folder / replicas.files[0]
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    assert "its contents have changed" in next(replication.verify(replicas, copies, 2))


def test_a_replica_that_is_not_what_the_catalogue_says_is_not_copied(tmp_path):
    site, replicas = made(tmp_path)
    source = tmp_path / "storage/replicas" / replicas.folder / replicas.files[1]
    source.write_bytes(b"x" * source.stat().st_size)
    with pytest.raises(TierbenchError, match="not what its catalogue says"):
        replication.copy(replicas, Path(site.storage.replicas), tmp_path / "disk/copies", 1)
    assert not (tmp_path / "disk/copies" / replicas.folder / replicas.files[1]).exists()


def made(tmp_path):
    """A site with a set of replicas, and a disk to copy it to."""
    for folder in ("storage", "disk"):
        (tmp_path / folder).mkdir()
    usual = find_site("testbed")
    access = dataclasses.replace(usual.access["local-disk"], replicas=str(tmp_path / "disk/copies"))
    storage = dataclasses.replace(usual.storage, replicas=str(tmp_path / "storage/replicas"))
    site = dataclasses.replace(usual, access={**usual.access, "local-disk": access}, storage=storage)
    replicas = RandomReplicas(kind="random", name="some", count=3, size_mb=0.1)
    replication.make(replicas, Path(storage.replicas), 2)
    return site, replicas


@pytest.mark.parametrize("measured", [True, False])
def test_how_far_one_storage_server_is_says_nothing_of_a_way_to_another(tmp_path, *, measured):
    """The links are measured from one of them; a worker may be beside the other, or three times as far from it."""
    if measured:
        line = {"to": "pool private", "role": "worker", "pool": "private", "mbps": 700.0, "rtt_ms": 14.1, "hosts": {}}
        content = {"format": 1, "from": synthetic.OSS, "measured": [line]}
        (tmp_path / names.CEILINGS).write_text(json.dumps(content))
    else:
        site = {"links": {"rtt_ms": 14.1}, "storage": {"replicas": "/r", "sampled": synthetic.OSS}}
        (tmp_path / names.SITE).write_text(json.dumps(site))
    near = synthetic.write_trial(tmp_path, servers=[synthetic.OSS], access="near-pool")
    assert trial_tables(near).round_trip_s == pytest.approx(0.0141)
    assert two_servers(tmp_path, 0, MBPS).round_trip_s is None
