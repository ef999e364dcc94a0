"""What the nodes of a trial are given beside its DAG: lists of hosts and of replicas, its record, its variables."""

import dataclasses
import re

import pytest

from tests.unit.quick_plan import POOL, changed, the_trial
from tierbench.checked_text import Prefix
from tierbench.dags.experiment import find_experiment
from tierbench.dags.graphs import trial_dag
from tierbench.dags.hosts import host_lists
from tierbench.dags.plan import expand
from tierbench.dags.records import ReplicaLists, trial_record
from tierbench.dags.replicas import Entry
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Access, find_site
from tierbench.spec import build
from tierbench.wrappers.clients.root import Root

WAY = "xrootd-near-tls-control"


def lists(site, experiment, plan, configuration):
    """The lines of a configuration's host lists."""
    (chosen,) = (each for each in plan.configurations if each.id == configuration)
    return {name: text.splitlines() for name, text in host_lists(site, experiment, plan, chosen)}


def test_each_sampled_host_is_found_by_its_requirements_and_one_out_of_the_pool_sampled_over_ssh(site, quick, plan):
    assert lists(site, quick, plan, "direct.root")["lists/direct.root.samplers-pool"] == [
        'oss.uf.test, eth%, storage, Machine == "oss.uf.test"',
        'dgt.fiu.test, eth0+eth1, gateway, Machine == "dgt.fiu.test"',
        'vmuf.uf.test, eth0, door, Machine == "vmuf.uf.test"',
        'wn03.fiu.test, eth0, worker, Machine == "wn03.fiu.test"',
    ]
    mixed = changed(site, "samplers", "oss", via="ssh")
    text = trial_dag(mixed, quick, the_trial(plan)).text()
    assert "SERVICE sampling-ssh ../../submit/sampler-ssh.sub\n" in text
    (by_ssh,) = lists(mixed, quick, plan, "direct.root")["lists/direct.root.samplers-ssh"]
    assert by_ssh.startswith("oss.uf.test, eth%, storage")


def test_workers_flush_their_own_mount_if_there_is_one_and_the_gateway_its_own(site, quick, plan):
    (only,) = lists(site, quick, plan, "lan-xrootd.root")["lists/lan-xrootd.root.flush"]
    assert only.startswith("dgt.fiu.test, /")
    chep = find_experiment("chep-2013")
    plan = expand(site, chep, POOL)
    directory = next(s.directory for s in plan.replicas.values() if s.name == "plain")
    assert lists(site, chep, plan, "lan-xrootdfs.dd")["lists/lan-xrootdfs.dd.flush"] == [
        f"wn01.private.fiu.test, /xrootd-fs{directory}",
        f"dgt.fiu.test, {directory}",
    ]


def test_of_copies_between_servers_what_the_clients_count_is_held_against_the_wire(site, plan, quick):
    copying = changed(site, "access", "lan-xrootd", to=site.access["xrootd-servers"].to)
    traits = trial_record(copying, quick, plan, the_trial(plan))["traits"]
    assert (traits["does"], traits["taken_in"]) == ("copies", "bytes_app")  # no process of theirs takes these in


def test_where_nothing_is_known_to_keep_the_files_no_cache_is_flushed(site, quick, plan):
    unknown = changed(site, "access", "lan-xrootd", path=())
    assert trial_record(unknown, quick, plan, the_trial(plan))["flush"]["strategy"] == "none"
    assert "JOB flush" not in trial_dag(unknown, quick, the_trial(plan)).text()
    assert "lists/lan-xrootd.root.flush" not in lists(unknown, quick, plan, "lan-xrootd.root")


def test_a_condition_of_another_pools_workers_is_refused(site, quick):
    """They would be changed, and the trial labelled by it, while its clients run elsewhere."""
    site = changed(site, "conditions", "wan-rtt", hosts=(), pool="public")
    with pytest.raises(ConfigError, match="workers of pool public, and by lan-xrootd clients run in pool private"):
        expand(site, dataclasses.replace(quick, conditions={"wan-rtt": 47}), POOL)


def test_a_job_that_keeps_its_files_asks_for_room_for_them(site):
    staging = find_experiment("stage-in-or-stream")
    plan = expand(site, staging, POOL)
    own = {trial.configuration.client: trial_dag(site, staging, trial).text() for trial in plan.trials}
    (room,) = re.findall(r'disk="(\d+)"', own["staged"])
    (replicas,) = staging.used_replicas.values()
    assert int(room) * 1024 > replicas.nominal_bytes
    assert 'disk="' not in own["root"]


@pytest.mark.parametrize(("grace_s", "vacate"), [(Root.grace_s, []), (20, ["28"])])
def test_htcondor_gives_a_client_that_ends_slowly_its_time(site, quick, plan, monkeypatch, grace_s, vacate):
    monkeypatch.setattr(Root, "grace_s", grace_s)
    assert re.findall(r'vacate="(\d+)"', trial_dag(site, quick, plan.trials[0]).text()) == vacate


def test_each_client_finds_its_replica_in_its_line_by_a_door_of_its_own_where_a_way_has_several(site, plan):
    trial = next(t for t in plan.trials if t.offset + t.jobs > 24 and t.configuration.access == "wan-xrootd-private")
    lines = ReplicaLists(site, plan).text(trial).splitlines()
    prefix = f"root://vmuf.uf.test:1094/{plan.replicas[trial.replicas].directory}/root-tree-"
    assert lines == [f"{prefix}{(trial.offset + n) % 24 + 1:04d}.root\t" for n in range(trial.jobs)]
    trial = next(t for t in plan.trials if t.jobs >= 3 and t.configuration.access == "wan-xrootd-private")
    further = tuple(Prefix(f"root://door-{number}.uf.test:1094/") for number in (2, 3))
    site = changed(site, "access", "wan-xrootd-private", further=further, writes=None)
    lines = ReplicaLists(site, plan).text(trial).splitlines()
    prefixes = site.access["wan-xrootd-private"].prefixes
    assert [line.split("/")[2] for line in lines] == [prefixes[n % 3].split("/")[2] for n in range(trial.jobs)]
    assert len({line.split("/", 3)[3] for line in lines}) == trial.jobs  # each still has a file of its own


def test_sizes_and_checksums_stand_beside_replicas_where_they_are_known(site, quick):
    ((folder, replicas),) = quick.used_replicas.items()
    plan = expand(site, quick, POOL, {folder: {name: Entry(name, 7, "0a1b2c3d") for name in replicas.files}})
    lines = ReplicaLists(site, plan).text(plan.trials[0]).splitlines()
    assert {tuple(line.split("\t")[1:]) for line in lines} == {("7", "0a1b2c3d")}


def test_trial_json_holds_what_runs_and_reads_needs(site, quick, plan):
    expected = {
        "id": "lan-xrootd.root.x004.r1", "jobs": 4, "client": "root", "start": {"kind": "together", "every_s": 0.0},
        "workers": ["wn01.private.fiu.test"], "flush": {"strategy": "fadvise", "hosts": ["dgt.fiu.test"]},
        "bytes": None, "writes": None,
    }  # fmt: skip
    record = trial_record(site, quick, plan, the_trial(plan))
    assert {key: record[key] for key in expected} == expected


def environment_of(experiment, access):
    site = find_site("testbed")
    plan = expand(site, experiment, {"virtual-near": ["vwuf.uf.test"]})
    trial = next(trial for trial in plan.trials if trial.configuration.access == access)
    return trial_record(site, experiment, plan, trial)["options"]["environment"]


def test_a_trial_has_the_variables_of_its_way_and_no_other_after_its_workloads_own(variant):
    experiment = find_experiment("extenci-flavours-xrootd-scaled")
    assert environment_of(experiment, WAY) == {"XRD_TLSNODATA": "1"}
    assert environment_of(experiment, "xrootd-near-tls") == {}
    own = '[workloads.read]\nenvironment = { XRD_TLSNODATA = "0" }'
    assert environment_of(variant(own, "extenci-flavours-xrootd-scaled"), WAY) == {"XRD_TLSNODATA": "0"}


def test_a_name_that_is_no_variables_is_refused():
    with pytest.raises(ConfigError, match=r"environment\.a b: must be the name of a variable"):
        build(Access, {"pool": "public", "protocol": "file", "environment": {"a b": "1"}}, "site.toml")
