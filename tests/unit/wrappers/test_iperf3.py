"""The client of iperf3, which is a script here that says what iperf3 3.18 says; and trials whose bytes lie nowhere."""

import json

import pytest

from tests.unit import synthetic_run as synthetic
from tierbench.dags.graphs import trial_dag
from tierbench.dags.hosts import flushed_hosts
from tierbench.dags.plan import expand, from_json, to_json
from tierbench.dags.records import ReplicaLists, trial_record
from tierbench.errors import ConfigError
from tierbench.postprocess.records.ceilings import ARRANGED, STATED, Ceiling, read_ceilings
from tierbench.postprocess.tables.write import trial_tables
from tierbench.site_configs.site import find_site
from tierbench.submit.questions import pools_of, visits
from tierbench.wrappers.clients.iperf3 import Iperf3

SITE = find_site("testbed")
POOL = {"public": ["wn03.fiu.test"], "private": ["wn01.private.fiu.test"]}
SIZE = 4_000_000
IPERF3 = """
echo "$@" >{folder}/asked
[ ! -e {folder}/refuses ] || refused='"error": "the server is busy running a test. try again later", '
while [ "$1" != --logfile ]; do shift; done
cat >"$2" <<END
{{$refused"end": {ends}}}
END
[ ! -e {folder}/refuses ]
"""
STREAMING = """
name = "streaming"
question = "?"
access = ["network-storage", "network-metadata"]
batches = [1]
repeats = 1
pool = "private"

[workloads.to]
client = "iperf3"
replicas = "bytes"

[workloads.from]
client = "iperf3"
options = { back = true, seconds = 3 }
replicas = "bytes"

[replicas.bytes]
kind = "streamed"
"""


@pytest.fixture
def job(job):
    job.offer("iperf3://oss.uf.test:5210/bytes-0001.dat", SIZE)
    ends = {"sum_sent": {"bytes": 4_063_232, "retransmits": 7}, "sum_received": {"bytes": 4_063_232, "seconds": 0.5}}
    job.script("bin/iperf3", IPERF3.format(folder=job.folder, ends=json.dumps(ends)))
    return job


def arguments(job):
    return (job.folder / "asked").read_text().strip()


@pytest.fixture
def load(load):
    return lambda *changes: load(STREAMING, *changes)


def planned(experiment):
    return expand(SITE, experiment, POOL)


def test_what_the_receiving_end_counted_is_what_was_moved_there_or_back_of_a_size_or_for_a_time(job):
    end = job.end("iperf3")
    assert (end["status"], end["bytes_app"], end["bytes_source"]) == ("ok", 4_063_232, "iperf3")
    assert end["detail"]["own_mbps"] == pytest.approx(65.0117, abs=0.001)
    assert end["detail"]["retransmits"] == 7
    assert arguments(job).startswith("--json --client oss.uf.test --port 5210 --parallel 1 --logfile")
    assert arguments(job).endswith(f"--bytes {SIZE}")
    job.offer("iperf3://oss.uf.test:5210/bytes-0001.dat", "")
    assert job.end("iperf3", options={"back": True, "seconds": 3, "window_kb": 512})["status"] == "ok"
    assert arguments(job).endswith("--time 3 --window 512K --reverse")


def test_what_is_under_way_when_all_is_sent_is_missing_from_the_receivers_count_alone(job):
    program = job.folder / "bin/iperf3"
    program.write_text(program.read_text().replace('_received": {"bytes": 4063232', '_received": {"bytes": 3000000'))
    end = job.end("iperf3")
    assert (end["status"], end["bytes_app"]) == ("ok", 3_000_000)


def test_less_than_was_asked_for_is_no_success_and_a_refusal_is_told_in_the_servers_words(job):
    job.offer("iperf3://oss.uf.test:5210/bytes-0001.dat", 10 * SIZE)
    assert job.end("iperf3")["status"] == "short-write"
    (job.folder / "refuses").touch()
    (job.folder / "bin/iperf3").write_text((job.folder / "bin/iperf3").read_text().replace("4063232", "0"))
    end = job.end("iperf3")
    assert (end["status"], end["message"]) == ("open-failed", "the server is busy running a test. try again later")


def test_which_way_its_bytes_go_is_said_by_its_options():
    assert [Iperf3.traits(options)["does"] for options in ({}, {"back": True})] == ["writes", "reads"]


def test_nothing_is_made_looked_for_or_removed_for_what_lies_nowhere(load):
    experiment = load()
    plan = planned(experiment)
    assert not experiment.used_replicas
    assert from_json(to_json(plan)) == plan
    for trial in plan.trials:
        record = trial_record(SITE, experiment, plan, trial)
        assert (record["writes"], record["bytes"], record["streamed"]) == (None, None, True)
        assert not list(flushed_hosts(SITE, experiment, plan, trial.configuration))
        assert "outbox" not in trial_dag(SITE, experiment, trial).text()


def test_each_client_has_its_server_and_how_many_bytes_are_to_go(load):
    experiment = load(('kind = "streamed"', 'kind = "streamed"\nsize_mb = 2'), ("[1]", "[2]"))
    plan = planned(experiment)
    trial = next(trial for trial in plan.trials if trial.configuration.access == "network-metadata")
    assert trial.bytes == 4_000_000
    lines = ReplicaLists(SITE, plan).text(trial).splitlines()
    assert lines == [f"iperf3://mds.uf.test:5210/bytes-000{number}.dat\t2000000" for number in (1, 2)]
    for_a_time = planned(load())
    assert ReplicaLists(SITE, for_a_time).text(for_a_time.trials[0]).endswith(".dat\t\n")


def test_its_clients_are_in_the_pool_that_is_asked_for_or_by_an_axis_in_one_after_the_other(load):
    experiment = load()
    plan = planned(experiment)
    record = trial_record(SITE, experiment, plan, plan.trials[0])
    assert (record["pool"], record["workers"]) == ("private", POOL["private"])
    assert record["requirements"] == SITE.pools["private"].requirements
    assert {configuration.pool for configuration in plan.configurations} == {"private"}
    assert "wn03.fiu.test" not in visits(SITE, experiment, POOL)
    questions = visits(SITE, experiment, POOL)["wn01.private.fiu.test"].questions
    assert "client iperf3" in {question.thing for question in questions}
    axis = '[axes.place.values]\nhere = { pool = "public" }\nthere = { pool = "private" }\n[replicas.bytes]'
    experiment = load(('pool = "private"\n', ""), ("[replicas.bytes]", axis))
    pools = {(at.levels["place"], at.pool) for at in planned(experiment).configurations}
    assert pools == {("here", "public"), ("there", "private")}
    assert pools_of(SITE, experiment, "network-storage") == ["public", "private"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('pool = "private"', 'pool = "privat"', 'did you mean "private"'),
        ('client = "iperf3"\nreplicas', 'client = "dd"\nreplicas', 'cannot read replicas of kind "streamed"'),
        ('kind = "streamed"', 'kind = "random"\ncount = 1\nsize_mb = 1', 'cannot read replicas of kind "random"'),
    ],
)
def test_what_does_not_fit_is_told(load, old, new, complaint):
    with pytest.raises(ConfigError, match=complaint):
        planned(load((old, new)))


def test_no_cache_can_have_what_lies_nowhere(tmp_path):
    def doubted(name, **more):
        folder = synthetic.write_trial(tmp_path / name, flush={"strategy": "none", "hosts": []}, **more)
        return "no cache was flushed" in trial_tables(folder)["verdict_reasons"]

    assert doubted("read")
    assert not doubted("streamed", streamed=True, protocol="iperf3")
    assert doubted("commands", streamed=True)  # whose files have no catalogue, and lie somewhere


def test_a_server_with_a_link_of_its_own_and_a_pool_as_wide_as_servers_are_held_against_that(tmp_path):
    samplers = {"mds": {"host": "mds.uf.test", "link": "metadata"}, "oss": {"host": "oss.uf.test"}}
    site = {"links": {"storage": 800.0, "metadata": 100.0}, "samplers": samplers}
    (tmp_path / "site.json").write_text(json.dumps(site))
    known = read_ceilings(tmp_path, "public", print)
    assert known.nic("mds.uf.test", "storage") == Ceiling(100.0, STATED)
    assert known.nic("oss.uf.test", "storage") == Ceiling(800.0, STATED)
    changed = known.under({"storage": 400.0})
    assert changed.nic("mds.uf.test", "storage") == Ceiling(100.0, STATED)
    assert changed.nic("oss.uf.test", "storage") == Ceiling(400.0, ARRANGED)
    site = {"links": {"worker": 100.0, "door": 1000.0}, "pools": {"near": {"link": "door"}, "public": {"link": None}}}
    (tmp_path / "site.json").write_text(json.dumps(site))
    ceilings = [read_ceilings(tmp_path, pool, print).nic("wn.uf.test", "worker") for pool in ("near", "public")]
    assert ceilings == [Ceiling(1000.0, STATED), Ceiling(100.0, STATED)]


def test_what_iperf3_measured_from_the_storage_bounds_nothing_that_goes_there(tmp_path):
    measured = {"to": "pool private", "role": "worker", "pool": "private", "mbps": 200.0, "rtt_ms": 1.0}
    measured |= {"hosts": {"wn01.private.fiu.test": {"mbps": 200.0, "rtt_ms": 1.0}}}

    def ceiling(way, does):
        run = tmp_path / way
        folder = synthetic.write_trial(run, pool="private", traits={**Iperf3.traits({}), "does": does})
        (run / "ceilings.json").write_text(json.dumps({"format": 1, "measured": [measured]}))
        (run / "site.json").write_text(json.dumps({"links": {"worker": 900.0}}))
        return trial_tables(folder).limit.ceiling_mbps

    assert (ceiling("back", "reads"), ceiling("there", "writes")) == (200.0, 900.0)
