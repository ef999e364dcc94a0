"""Trials that write: planned where an access lets them, in a place of their own, and looked at afterwards."""

import json
import re
from pathlib import Path

import pytest

from tests.unit.quick_plan import POOL, written
from tierbench.dags.experiment import find_experiment
from tierbench.dags.graphs import trial_dag
from tierbench.dags.hosts import flushed_hosts
from tierbench.dags.plan import expand, from_json, to_json
from tierbench.dags.records import ReplicaLists, trial_record
from tierbench.errors import ConfigError
from tierbench.site_configs.site import find_site, load_site
from tierbench.submit.trial import finish

WRITING = """
name = "writing"
question = "?"
access = ["direct", "lan-xrootd"]
batches = [3]
repeats = 1

[workloads.write]
client = "writer"
replicas = "out"

[replicas.out]
kind = "written"
size_mb = 1
"""


@pytest.fixture
def load(load):
    return lambda *changes: load(WRITING, *changes)


@pytest.mark.parametrize("change", [
    ("size_mb = 1", 'size_mb = 1\npattern = "partfile"'), ('client = "writer"', 'client = "writer"\nfiles_per_job = 2'),
    ('client = "writer"', 'client = "fio"'),
])  # fmt: skip
def test_checksums_that_would_not_be_compared_are_refused(load, change):
    checked = ('kind = "written"', 'kind = "written"\ncheck = "adler32"')
    load(checked)
    with pytest.raises(ConfigError, match=r'replicas\.out\.check: "adler32" is compared where'):
        load(checked, change)


@pytest.fixture
def plan(site, load):
    return expand(site, load(), POOL)


def lines(site, plan, access):
    trial = next(trial for trial in plan.trials if trial.configuration.access == access)
    return [line.split("\t") for line in ReplicaLists(site, plan, "run").text(trial).splitlines()]


def test_each_client_has_a_file_of_its_own_in_the_trials_place(site, plan):
    place = "root://dgt.private.fiu.test:1094//extenci-writes/run/lan-xrootd.write.x003.r1"
    assert lines(site, plan, "lan-xrootd") == [[f"{place}/out-{n:04d}.dat", "1000000"] for n in (1, 2, 3)]
    assert plan.trials[0].bytes == 3_000_000


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("partfile", [["1000000", "", str(n)] for n in (0, 1_000_000, 2_000_000)]),
        ("serial", [["3000000"], ["0"], ["0"]]),
    ],
)
def test_clients_can_share_a_file(site, load, pattern, parts):
    by_mount = ('"direct", "lan-xrootd"', '"direct"')
    plan = expand(site, load(by_mount, ("size_mb = 1", f'size_mb = 1\npattern = "{pattern}"')), POOL)
    written = lines(site, plan, "direct")
    assert len({line[0] for line in written}) == 1
    assert [line[1:] for line in written] == parts
    assert plan.trials[0].bytes == 3_000_000


def test_nothing_is_made_beforehand_and_cached_the_plan_says_where_and_the_dag_makes_it(site, load, plan):
    assert load().used_replicas == {}
    assert len(load().used_sets) == 1
    hosts = [host for one in plan.configurations for host in flushed_hosts(site, load(), plan, one)]
    assert {host.directory for host in hosts} == {""}
    trial = next(trial for trial in plan.trials if trial.configuration.access == "direct")
    assert from_json(to_json(plan)) == plan
    writes = trial_record(site, load(), plan, trial, "run")["writes"]
    place = "/extenci-writes/run/direct.write.x003.r1"
    assert writes == {"under": "/extenci-writes", "url": place, "bytes": 3_000_000, "entries": 3, "check": "size"}
    assert "JOB outbox ../../submit/outbox.sub" in trial_dag(site, load(), trial).text()


def test_the_place_is_made_when_the_trials_conditions_are_set():
    """One of them may mount the storage anew, or start its door anew."""
    site, experiment = find_site("testbed"), find_experiment("extenci-flavours-scaled")
    workers = {name: ["wn01.example"] for name in site.pools}
    writing = next(t for t in expand(site, experiment, workers).trials if t.configuration.workload == "write")
    text = trial_dag(site, experiment, writing).text()
    assert re.search('^VARS outbox .* on_hold="True"$', text, re.MULTILINE)
    assert "SCRIPT PRE release ../../scripts/lock.py release arranged\n" in text


def test_two_runs_of_one_name_write_apart(load, tmp_path):
    places = set()
    for folder in ("a", "b"):
        (record,) = written(load(), tmp_path / folder / "same").glob("trials/direct*/trial.json")
        places.add(json.loads(record.read_text())["writes"]["url"])
    assert len(places) == 2


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ('"writer"', '"dd"', 'client "dd" reads, and "written" is what trials write'),
        ('"written"', '"random"\ncount = 3', 'cannot read replicas of kind "random"'),
        ('"lan-xrootd"', '"lan-xrootdfs"',
         r'trials may not write by access "lan-xrootdfs"; by "lan-xrootd", .* they may'),
        ("size_mb = 1", 'size_mb = 1\npattern = "partfile"', 'access "lan-xrootd" takes whole files'),
    ],
)  # fmt: skip
def test_clients_and_accesses_that_do_not_write_are_refused(site, load, old, new, refused):
    with pytest.raises(ConfigError, match=refused):
        expand(site, load((old, new)), POOL)


@pytest.mark.parametrize("path", ["/extenci/tierbench/replicas", "/extenci", "/extenci/tierbench/replicas/mine", "/"])
def test_no_access_writes_where_replicas_are(tmp_path, path):
    text = Path("site-configs/testbed.toml").read_text().replace('writes = "/extenci-writes"', f'writes = "{path}"')
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(ConfigError, match="writes"):
        load_site(tmp_path / "site.toml")


@pytest.mark.parametrize(
    ("replicas", "ends", "expected"),
    [
        (("/w/1\t10", "/w/2\t10"), ("ok", "killed"), ["/w/1\t10\t00000000\n"]),
        (("/w/1\t10\t\t0", "/w/1\t10\t\t10"), ("ok", "ok"), ["/w/1\t20\t\n"]),  # as large as all its parts
        (("/w/1\t10\t\t0", "/w/1\t10\t\t10"), ("ok", "killed"), []),
        (("/w/1\t20", "/w/1\t0"), ("ok", "ok"), ["/w/1\t20\t00000000\n"]),  # written by the first for all
        (("/w/1\t5", "/w/2\t5", "/w/3\t5", "/w/4\t5"), ("ok", "lost"), ["/w/1\t5\t\n", "/w/2\t5\t\n"]),
    ],
)
def test_the_files_of_clients_that_ended_well_are_expected(tmp_path, monkeypatch, replicas, ends, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clients").mkdir()
    (tmp_path / "replicas.txt").write_text("".join(line + "\n" for line in replicas))
    for number, status in enumerate(ends):
        end = {"event": "end", "status": status, "detail": {"adler32": f"0000000{number}"}}
        (tmp_path / f"clients/{number}.jsonl").write_text(json.dumps(end) + "\n")
    assert finish.expected(2) == expected


def test_workers_that_were_lost_are_not_asked_to_clear(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    when = "2026-11-21 22:00:00.000"
    events = (
        f"000 (7.000.000) {when} Job submitted from host: <>",
        f"000 (7.001.000) {when} Job submitted from host: <>",
        f"001 (7.000.000) {when} Job executing on host: <>\n\tSlotName: slot1_1@wn03.fiu.test",
        f"001 (7.001.000) {when} Job executing on host: <>\n\tSlotName: slot1_1@wn04.fiu.test",
        f"022 (7.001.000) {when} Job disconnected, attempting to reconnect\n    Socket closed",
    )
    (tmp_path / "clients.log").write_text("".join(f"{line}\n...\n" for line in events))
    assert finish.lost_workers() == ["wn04.fiu.test"]
