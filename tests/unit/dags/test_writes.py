"""Trials that write: planned where an access lets them, in a place of their own, and looked at afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tierbench.dags.experiment import Experiment, find_experiment, load_experiment
from tierbench.dags.graphs import trial_dag
from tierbench.dags.hosts import flushed_hosts
from tierbench.dags.plan import Plan, expand, from_json, to_json
from tierbench.dags.records import ReplicaLists, trial_record
from tierbench.dags.write import write_run
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Site, find_site, load_site
from tierbench.submit.trial import finish

POOL = {"private": ["wn01.private.fiu.test"], "public": ["wn02.fiu.test"]}
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

Load = Callable[..., Experiment]


@pytest.fixture(scope="module")
def site() -> Site:
    return find_site("testbed")


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(*changes: tuple[str, str]) -> Experiment:
        text = WRITING
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "writing.toml").write_text(text)
        return load_experiment(tmp_path / "writing.toml")

    return load


@pytest.fixture
def plan(site: Site, load: Load) -> Plan:
    return expand(site, load(), POOL)


def lines(site: Site, plan: Plan, access: str) -> list[list[str]]:
    trial = next(trial for trial in plan.trials if trial.configuration.access == access)
    return [line.split("\t") for line in ReplicaLists(site, plan, "run").text(trial).splitlines()]


def test_each_client_has_a_file_of_its_own_in_the_trials_place(site: Site, plan: Plan) -> None:
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
def test_clients_can_share_a_file(site: Site, load: Load, pattern: str, parts: list[list[str]]) -> None:
    by_mount = ('"direct", "lan-xrootd"', '"direct"')
    plan = expand(site, load(by_mount, ("size_mb = 1", f'size_mb = 1\npattern = "{pattern}"')), POOL)
    written = lines(site, plan, "direct")
    assert len({line[0] for line in written}) == 1
    assert [line[1:] for line in written] == parts
    assert plan.trials[0].bytes == 3_000_000


def test_nothing_is_made_or_catalogued_beforehand(load: Load) -> None:
    assert load().used_replicas == {}
    assert len(load().used_sets) == 1


def test_no_host_is_asked_for_cached_replicas(site: Site, load: Load, plan: Plan) -> None:
    hosts = [host for one in plan.configurations for host in flushed_hosts(site, load(), plan, one)]
    assert {host.directory for host in hosts} == {""}


def test_the_plan_comes_back_from_its_file(plan: Plan) -> None:
    assert from_json(to_json(plan)) == plan


def test_the_record_says_where_and_the_dag_makes_it(site: Site, load: Load, plan: Plan) -> None:
    trial = next(trial for trial in plan.trials if trial.configuration.access == "direct")
    writes = trial_record(site, load(), plan, trial, "run")["writes"]
    place = "/extenci-writes/run/direct.write.x003.r1"
    assert writes == {"under": "/extenci-writes", "url": place, "bytes": 3_000_000, "check": "size"}
    assert "JOB outbox ../../submit/outbox.sub" in trial_dag(site, load(), trial).text()


def test_two_runs_of_one_name_write_apart(site: Site, load: Load, plan: Plan, tmp_path: Path) -> None:
    places = set()
    for folder in ("a", "b"):
        write_run(plan, site, load(), tmp_path / folder / "same")
        (record,) = (tmp_path / folder / "same/trials").glob("direct*/trial.json")
        places.add(json.loads(record.read_text())["writes"]["url"])
    assert len(places) == 2


def test_a_trial_that_reads_has_no_place(site: Site) -> None:
    quick = find_experiment("quick")
    reading = expand(site, quick, POOL)
    assert trial_record(site, quick, reading, reading.trials[0])["writes"] is None
    assert "outbox" not in trial_dag(site, quick, reading.trials[0]).text()


# -- what is refused -----------------------------------------------------------------------------------------


def test_a_client_that_reads_does_not_read_what_is_written(load: Load) -> None:
    with pytest.raises(ConfigError, match='client "dd" reads, and "written" is what trials write'):
        load(('"writer"', '"dd"'))


def test_a_client_that_writes_has_no_replicas(load: Load) -> None:
    with pytest.raises(ConfigError, match='cannot read replicas of kind "random"'):
        load(('"written"', '"random"\ncount = 3'))


def test_an_access_where_trials_may_not_write_is_refused(site: Site, load: Load) -> None:
    with pytest.raises(
        ConfigError, match=r'trials may not write by access "lan-xrootdfs"; by "lan-xrootd", .* they may'
    ):
        expand(site, load(('"lan-xrootd"', '"lan-xrootdfs"')), POOL)


def test_no_parts_are_written_through_a_server(site: Site, load: Load) -> None:
    with pytest.raises(ConfigError, match='access "lan-xrootd" takes whole files'):
        expand(site, load(("size_mb = 1", 'size_mb = 1\npattern = "partfile"')), POOL)


@pytest.mark.parametrize("path", ["/extenci/tierbench/replicas", "/extenci", "/extenci/tierbench/replicas/mine", "/"])
def test_no_access_writes_where_replicas_are(tmp_path: Path, path: str) -> None:
    text = Path("site-configs/testbed.toml").read_text().replace('writes = "/extenci-writes"', f'writes = "{path}"')
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(ConfigError, match="writes"):
        load_site(tmp_path / "site.toml")


# -- what is expected afterwards -------------------------------------------------------------------------------


class Left:
    """What the clients of a trial have left on the access point."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "clients").mkdir()

    def clients(self, *ends: str) -> None:
        for number, status in enumerate(ends):
            end = {"event": "end", "status": status, "detail": {"adler32": f"0000000{number}"}}
            (self.folder / f"clients/{number}.jsonl").write_text(json.dumps(end) + "\n")

    def listed(self, *lines: str) -> None:
        (self.folder / "replicas.txt").write_text("".join(line + "\n" for line in lines))


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    monkeypatch.chdir(tmp_path)
    return Left(tmp_path)


def test_the_files_of_clients_that_ended_well_are_expected(left: Left) -> None:
    left.listed("/w/1\t10", "/w/2\t10")
    left.clients("ok", "killed")
    assert finish.expected(2) == ["/w/1\t10\t00000000\n"]


def test_a_file_of_several_is_as_large_as_all_their_parts(left: Left) -> None:
    left.listed("/w/1\t10\t\t0", "/w/1\t10\t\t10")
    left.clients("ok", "ok")
    assert finish.expected(2) == ["/w/1\t20\t\n"]
    left.clients("ok", "killed")
    assert finish.expected(2) == []


def test_a_file_that_one_writes_for_all_has_its_checksum(left: Left) -> None:
    left.listed("/w/1\t20", "/w/1\t0")
    left.clients("ok", "ok")
    assert finish.expected(2) == ["/w/1\t20\t00000000\n"]


def test_workers_that_were_lost_are_not_asked_to_clear(left: Left) -> None:
    when = "2026-11-21 22:00:00.000"
    (left.folder / "clients.log").write_text(
        "".join(
            f"{line}\n...\n"
            for line in (
                f"000 (7.000.000) {when} Job submitted from host: <>",
                f"000 (7.001.000) {when} Job submitted from host: <>",
                f"001 (7.000.000) {when} Job executing on host: <>\n\tSlotName: slot1_1@wn03.fiu.test",
                f"001 (7.001.000) {when} Job executing on host: <>\n\tSlotName: slot1_1@wn04.fiu.test",
                f"022 (7.001.000) {when} Job disconnected, attempting to reconnect\n    Socket closed",
            )
        )
    )
    assert finish.lost_workers() == ["wn04.fiu.test"]
