"""What `tierbench run` leaves of its measurement of the links, above all where there is none; the ceilings of it."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tierbench import names
from tierbench.dags.experiment import find_experiment
from tierbench.dags.plan import expand
from tierbench.postprocess.records.ceilings import DRIVER, MEASURED, STATED, Ceiling, Ceilings, read_ceilings
from tierbench.postprocess.records.ceilings import ceilings as links_from
from tierbench.postprocess.records.samples import Card
from tierbench.site_configs.site import find_site
from tierbench.submit import links
from tierbench.submit.links import Received, together
from tierbench.submit.pool import PoolError

SITE = find_site("testbed")
PLAN = expand(SITE, find_experiment("quick"), {"private": ["wn01", "wn02"], "public": ["wn03"]})
RATES = {"dgt.fiu.test": 765.0, "vmuf.uf.test": 764.0, "wn01": 95.0, "wn02": 96.0, "wn03": 94.0}
LINKS = {"wan": 1000.0, "storage": 800.0, "gateway": 1000.0, "door": 1000.0, "worker": 100.0, "rtt_ms": 14.0}


def content_of(run):
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
    assert content_of(tmp_path)["measured"] == []
    assert set(content_of(tmp_path)["not_measured"]) == {"pool private", "pool public"}
    assert "not in the pool" in said[-1]


def test_of_hosts_that_measure_beside_each_other_the_time_counts_that_they_have_in_common():
    def answer(begin, *rates):
        slices = [(begin + number / 2, begin + (number + 1) / 2, rate) for number, rate in enumerate(rates)]
        return {"mbps": sum(rates) / len(rates), "rtt_ms": 14.0, "slices": slices}

    first, second = answer(100.0, 900, 900, 400, 400, 400, 400), answer(101.0, 500, 500, 500, 500, 800, 800)
    assert {name: host.mbps for name, host in together({"a": first, "b": second}).items()} == {"a": 400, "b": 500}
    tail = {**first, "slices": [*first["slices"], (103.0, 103.001, 4000)]}
    assert together({"a": tail})["a"].mbps == pytest.approx(565, abs=5)
    with pytest.raises(PoolError, match="2 hosts did not measure at once"):
        together({"a": first, "b": answer(102.1, 900, 900, 900, 900, 900, 900)})


@pytest.mark.usefixtures("iperf3")
def test_what_could_not_be_measured_is_left_with_the_reason_and_the_tables_understand_what_was_left(tmp_path):
    links.leave_ceilings(SITE, PLAN, tmp_path, lambda _: None)
    assert content_of(tmp_path)["not_measured"] == {"pool public": "wn03: there is no iperf3"}
    assert [line["to"] for line in content_of(tmp_path)["measured"]] == ["dgt.fiu.test", "vmuf.uf.test", "pool private"]
    known = read_ceilings(tmp_path, "private", pytest.fail)
    assert {host: (ceiling.mbps, ceiling.source) for host, ceiling in known.hosts.items()} == {
        "wn01": (95.0, MEASURED), "wn02": (96.0, MEASURED),
    }  # fmt: skip
    assert (known.rtt_ms, known.rtt_source) == (14.0, "measured")


@pytest.mark.parametrize(
    ("over_wan", "server", "limits"),
    [
        (True, "oss", {"wan": 600}),
        (False, "oss", {}),  # the worker's own link, of which nothing is stated, may have held it up
        (False, "at a third site", {"wan": 100}),  # what was measured was the other server's
    ],
)
def test_workers_beside_the_storage_have_no_ceiling_of_the_wan(tmp_path, over_wan, server, limits):
    """Nor is what they were measured with the WAN's, nor one that is arranged for it."""
    site = {"links": {"wan": 100, "storage": 800}, "pools": {"near": {"over_wan": over_wan}}}
    (tmp_path / names.SITE).write_text(json.dumps(site), encoding="utf-8")
    line = {"role": "worker", "pool": "near", "mbps": 600.0, "rtt_ms": 0.1, "hosts": {"wnuf": {"mbps": 600.0}}}
    (tmp_path / names.CEILINGS).write_text(json.dumps({"from": "oss", "measured": [line]}), encoding="utf-8")
    known = read_ceilings(tmp_path, "near", pytest.fail).to([server]).on_the_way().links
    assert {link: ceiling.mbps for link, ceiling in known.items()} == {"storage": 800, **limits}
    arranged = read_ceilings(tmp_path, "near", pytest.fail).under({"wan": 50}).to([server]).on_the_way()
    assert ("wan" in arranged.links) is ("wan" in limits)
    unknown = read_ceilings(tmp_path, "near", pytest.fail).under({"storage": None}).to([server])
    assert "storage" not in unknown.links


@pytest.mark.parametrize("content", ["", "{", "[]", '{"measured": 3}'])
def test_a_damaged_file_is_as_good_as_none_and_is_told(tmp_path, content):
    (tmp_path / names.CEILINGS).write_text(content, encoding="utf-8")
    said = []
    assert read_ceilings(tmp_path, "private", said.append).hosts == {}
    assert [words.partition(" is damaged")[0] for words in said] == [names.CEILINGS]


def line(role, *rates):
    """What iperf3 has measured to hosts of a role, called worker0 and so on, at once."""
    hosts = {f"{role}{n}": {"mbps": rate, "rtt_ms": 14.3} for n, rate in enumerate(rates)}
    pool = "private" if role == "worker" else None
    return {"to": role, "role": role, "pool": pool, "mbps": sum(rates), "rtt_ms": 14.3, "hosts": hosts}


def lines(door, gateway, *workers):
    """What iperf3 has measured to each of the servers, and to the workers of a pool at once."""

    return [line("door", door), line("gateway", gateway), line("worker", *workers)]


def measured_rates(ceilings):
    of_links = {link: ceiling.mbps for link, ceiling in ceilings.links.items() if ceiling.source == MEASURED}
    return {**of_links, **{host: ceiling.mbps for host, ceiling in ceilings.hosts.items()}}


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (lines(765, 765, 95, 95), {"storage": 765, "worker0": 95, "worker1": 95}),  # all as stated
        (lines(765, 29, 14, 15), {"storage": 765, "wan": 29}),  # slow WAN
        (lines(765, 765, 24, 24), {"storage": 765, "worker0": 24, "worker1": 24}),  # slow workers
        (lines(765, 765, 95, 0), {"storage": 765, "worker0": 95}),  # one of them came to nothing
        (lines(29, 28, 14, 14), {"storage": 29}),  # slow storage
        (lines(765, 955, 95, 95), {"door": 765, "storage": 955, "worker0": 95, "worker1": 95}),  # faster than stated
    ],
)
def test_a_measurement_is_the_ceiling_of_the_link_that_limited_it(measured, expected):
    assert measured_rates(links_from(LINKS, measured, "private")) == expected


def test_what_is_stated_counts_where_nothing_was_measured_to_this_pool():
    stated = links_from(LINKS, [], "private")
    assert stated.links["wan"] == Ceiling(1000.0, STATED)
    assert (stated.rtt_ms, stated.rtt_source) == (14.0, "stated")
    assert links_from(LINKS, lines(765, 765, 95), "private").rtt_ms == 14.3
    assert links_from(LINKS, lines(765, 765, 95), "public").hosts == {}


def test_a_real_card_goes_before_more_that_is_stated_and_not_before_what_was_measured():
    card = Card("eth0", 1000, link_speed_real=True)
    assert Ceilings().nic("h", "worker", card) == Ceiling(1000.0, DRIVER)
    assert Ceilings().nic("h", "worker", replace(card, link_speed_real=False)) is None
    assert Ceilings({"worker": Ceiling(10_000.0, STATED)}).nic("h", "worker", card) == Ceiling(1000.0, DRIVER)
    assert Ceilings({"worker": Ceiling(500.0, STATED)}).nic("h", "worker", card) == Ceiling(500.0, STATED)
    assert Ceilings(hosts={"h": Ceiling(1900.0, MEASURED)}).nic("h", "worker", card) == Ceiling(1900.0, MEASURED)
    of_another_host = Ceilings({"storage": Ceiling(9400.0, MEASURED)})
    assert of_another_host.nic("h", "storage", card) == Ceiling(1000.0, DRIVER)


@pytest.mark.parametrize("others", [[], [line("gateway", 3400)]], ids=["shared", "a stream's own limit"])
def test_what_could_be_another_links_or_a_streams_own_limit_is_nobodys_ceiling(others):
    """One stream carries 3.4 Gb/s where sixteen workers receive 9.4 Gb/s by the same links, and nothing is stated."""
    found = links_from({}, [*others, line("worker", *[587] * 16)], "private")
    assert (found.links, found.hosts) == ({}, {})
    # Nor where the workers could carry more, as is stated of them alone.
    found = links_from({"worker": 10_000}, [*others, line("worker", *[587] * 16)], "private")
    assert found.hosts == {}


ODD = ["a text", {}, {"role": "moon", "pool": None, "mbps": 1, "rtt_ms": 1, "hosts": {}}, line("worker", 0.0)]


@pytest.mark.parametrize("odd", [[], *([each] for each in ODD)])
def test_a_link_that_carries_less_than_is_stated_has_the_measured_ceiling(odd):
    """Whatever else stands there that is not understood, or has no rate."""
    stated = {"wan": 10_000, "storage": 8_000, "gateway": 10_000, "worker": 1_000}
    found = links_from(stated, [*odd, line("gateway", 7650)], "private")
    assert (found.links["storage"].mbps, found.hosts) == (7650, {})


@pytest.mark.parametrize(("changes", "mbps"), [({}, 95), ({"worker": 1000.0}, 1000), ({"storage": 50.0}, 95)])
def test_what_was_measured_before_a_link_was_changed_is_not_its_ceiling(changes, mbps):
    stated = {"wan": 1000, "storage": 800, "gateway": 1000, "worker": 100}
    known = links_from(stated, [line("worker", 95, 95)], "private").under(changes)
    found = known.nic("worker0", "worker")
    assert found is not None
    assert found.mbps == mbps
