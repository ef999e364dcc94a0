"""What `tierbench run` leaves of its measurement of the links, above all where there is none."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tierbench import names
from tierbench.dags.experiment import find_experiment
from tierbench.dags.plan import expand
from tierbench.postprocess.records.ceilings import MEASURED, read_ceilings
from tierbench.postprocess.records.ceilings import ceilings as links_from
from tierbench.site_configs.site import find_site
from tierbench.submit import links
from tierbench.submit.links import Received
from tierbench.submit.pool import PoolError

SITE = find_site("testbed")
PLAN = expand(SITE, find_experiment("quick"), {"private": ["wn01", "wn02"], "public": ["wn03"]})
RATES = {"dgt.fiu.test": 765.0, "vmuf.uf.test": 764.0, "wn01": 95.0, "wn02": 96.0, "wn03": 94.0}


def left(run):
    return json.loads((run / names.CEILINGS).read_text(encoding="utf-8"))


@pytest.fixture
def iperf3(monkeypatch):
    """iperf3 everywhere but on wn03."""

    @contextmanager
    def serving(*_):
        yield list(range(5201, 5205 + 1))

    def received(_submission, visits, _host, ports, *_):
        assert len(ports) == len(visits)
        if visits[0].host == "wn03":
            raise PoolError("wn03: there is no iperf3")
        return {visit.host: Received(RATES[visit.host], 14.0) for visit in visits}

    monkeypatch.setattr(links, "serving", serving)
    monkeypatch.setattr(links, "received", received)


def test_a_server_that_no_job_reaches_is_told_and_stops_nothing(tmp_path):
    by_ssh = {name: replace(sampler, via="ssh") for name, sampler in SITE.samplers.items()}
    said = []
    links.leave_ceilings(replace(SITE, samplers=by_ssh), PLAN, tmp_path, said.append)
    assert left(tmp_path)["measured"] == []
    assert set(left(tmp_path)["not_measured"]) == {"pool private", "pool public"}
    assert "not in the pool" in said[-1]


@pytest.mark.usefixtures("iperf3")
def test_what_could_not_be_measured_is_left_with_the_reason(tmp_path):
    links.leave_ceilings(SITE, PLAN, tmp_path, lambda _: None)
    assert left(tmp_path)["not_measured"] == {"pool public": "wn03: there is no iperf3"}
    assert [line["to"] for line in left(tmp_path)["measured"]] == ["dgt.fiu.test", "vmuf.uf.test", "pool private"]


@pytest.mark.usefixtures("iperf3")
def test_the_tables_understand_what_was_left(tmp_path):
    links.leave_ceilings(SITE, PLAN, tmp_path, lambda _: None)
    known = read_ceilings(tmp_path, "private", pytest.fail)
    assert {host: (ceiling.mbps, ceiling.source) for host, ceiling in known.hosts.items()} == {
        "wn01": (95.0, MEASURED), "wn02": (96.0, MEASURED),
    }  # fmt: skip
    assert (known.rtt_ms, known.rtt_source) == (14.0, "measured")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"measured": 3}'])
def test_a_damaged_file_is_as_good_as_none_and_is_told(tmp_path, content):
    (tmp_path / names.CEILINGS).write_text(content, encoding="utf-8")
    said = []
    assert read_ceilings(tmp_path, "private", said.append).hosts == {}
    assert [words.partition(" is damaged")[0] for words in said] == [names.CEILINGS]


def line(role, mbps, *hosts):
    each = {host: {"mbps": mbps / len(hosts), "rtt_ms": 14.0} for host in hosts}
    pool = "private" if role == "worker" else None
    return {"role": role, "pool": pool, "mbps": mbps, "rtt_ms": 14.0, "hosts": each}


WORKERS = [f"wn{number}" for number in range(16)]


@pytest.mark.parametrize("others", [[], [line("gateway", 3400, "dgt")]], ids=["shared", "a stream's own limit"])
def test_what_could_be_another_links_or_a_streams_own_limit_is_nobodys_ceiling(others):
    """One stream carries 3.4 Gb/s where sixteen workers receive 9.4 Gb/s by the same links, and nothing is stated."""
    found = links_from({}, [*others, line("worker", 9392, *WORKERS)], "private")
    assert (found.links, found.hosts) == ({}, {})


ODD = ["a text", {}, {"role": "moon", "pool": None, "mbps": 1, "rtt_ms": 1, "hosts": {}}]


@pytest.mark.parametrize("odd", [[], *([each] for each in ODD)])
def test_a_link_that_carries_less_than_is_stated_has_the_measured_ceiling(odd):
    """Whatever else stands there that is not understood."""
    stated = {"wan": 10_000, "storage": 8_000, "gateway": 10_000, "worker": 1_000}
    found = links_from(stated, [*odd, line("gateway", 7650, "dgt")], "private")
    assert found.links["storage"].mbps == 7650


@pytest.mark.parametrize(("changes", "mbps"), [({}, 95), ({"worker": 1000.0}, 1000), ({"storage": 50.0}, 95)])
def test_what_was_measured_before_a_link_was_changed_is_not_its_ceiling(changes, mbps):
    stated = {"wan": 1000, "storage": 800, "gateway": 1000, "worker": 100}
    known = links_from(stated, [line("worker", 190, "wn03", "wn04")], "private").under(changes)
    found = known.nic("wn03", "worker")
    assert found is not None
    assert found.mbps == mbps


def test_a_distance_that_is_not_one_for_all_workers_is_not_known():
    known = links_from({"wan": 1000}, [line("gateway", 760, "dgt")], "private").under({"rtt_ms": None})
    assert known.rtt_ms is None
