"""Several interfaces of a host and several storage servers: summed for the rate, seen one by one."""

import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.synthetic_run import rows
from tierbench import names
from tierbench.postprocess.measures.over_time import read_over_time
from tierbench.postprocess.measures.stalls import stalled
from tierbench.postprocess.records.increments import intervals
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.records.samples import UnreadableSamples, read_samples
from tierbench.postprocess.tables.write import tables, trial_tables
from tierbench.submit.watch import current_rate_mbps

MBPS, SECONDS = 400.0, 20
OSS2 = "oss2.uf.test"
TIMES = synthetic.ticks(-2, 23)
# What no two numbers of the same bytes can differ in, however many interfaces they went through.
ALIKE = (
    "delivered_mbps", "mean_mbps", "mean_error_mbps", "amplification", "volatility_mbps", "volatility_5s_mbps",
    "peak_mbps", "steady_mbps", "all_active_mbps", "bytes_server", "closure", "resolution_s",
    "idle_before_mbps", "idle_after_mbps", "state", "verdict", "samplers_cut",
)  # fmt: skip


def trial(run, servers):
    """A trial whose storage servers' interfaces send as told."""
    samplers = [
        {"host": host, "interface": "+".join(sent), "role": "storage", "via": "pool"} for host, sent in servers.items()
    ]
    folder = synthetic.write_trial(run, mbps=MBPS, samplers=samplers)
    for host, sent in servers.items():
        synthetic.write_interfaces(folder / f"samples/{host}.samples", TIMES, sent)
    return folder


def even(*interfaces, of):
    return {interface: synthetic.during(MBPS / of, SECONDS) for interface in interfaces}


@pytest.mark.parametrize(
    "servers",
    [
        {synthetic.OSS: even("eth0", "eth1", "eth2", "eth3", of=4)},
        {synthetic.OSS: even("eth0", of=2), OSS2: even("eth0", of=2)},
        {synthetic.OSS: even("eth0", "eth1", of=4), OSS2: even("ib0", "ib0.8001", of=4)},
    ],
    ids=["four interfaces", "two servers", "two servers with two each"],
)
def test_what_several_send_is_what_one_would_have_sent(tmp_path, folder, servers):
    row, single = trial_tables(trial(tmp_path / "run", servers)), trial_tables(folder)
    expected = {name: pytest.approx(single[name]) if single[name] else single[name] for name in ALIKE}
    assert {name: row[name] for name in ALIKE} == expected
    assert row["samples"] == len(servers) * single["samples"]


def test_each_interface_is_seen_by_itself(tmp_path):
    sent = {"eth0": synthetic.during(300, SECONDS), "eth1": synthetic.during(100, SECONDS)}
    folder = trial(tmp_path, {synthetic.OSS: sent})
    tables(tmp_path)
    inside = [row for row in rows(tmp_path / names.SAMPLES_CSV) if 1 <= float(row["time_s"]) <= 19]
    for interface, mbps in (("eth0", 300.0), ("eth1", 100.0)):
        rates = [float(row["tx_mbps"]) for row in inside if row["interface"] == interface]
        assert rates == pytest.approx([mbps] * 19)
    used = [
        (row["resource"], row["interface"], round(float(row["value"]))) for row in rows(folder / names.RESOURCES_CSV)
    ]
    assert [each for each in used if each[0] == "NIC sent"] == [("NIC sent", "eth0", 300), ("NIC sent", "eth1", 100)]
    assert [each for each in used if each[0] == "CPU"] == [("CPU", "", 50)]  # the host's, once
    series = read_over_time(tmp_path, folder.name)
    assert [host.host for host in series.hosts] == [f"{synthetic.OSS} eth0", f"{synthetic.OSS} eth1"]
    assert series.storage.values[len(series.storage.values) // 2] == pytest.approx(400)


# Of two drivers, one of which says it late.
DIFFERING = {
    "eth0": synthetic.during(200, SECONDS), "eth1": lambda time: synthetic.during(200, SECONDS)(time // 0.8 * 0.8),
}  # fmt: skip


def test_interfaces_whose_drivers_differ_are_drawn_with_one_step(tmp_path):
    folder = trial(tmp_path, {synthetic.OSS: DIFFERING})
    times = synthetic.ticks(-2, 23, 0.2)
    synthetic.write_interfaces(folder / f"samples/{synthetic.OSS}.samples", times, DIFFERING, period_s=0.2)
    whole = read_over_time(tmp_path, trial_tables(folder).trial_id).storage
    inside = (whole.edges[:-1] >= 0) & (whole.edges[1:] <= SECONDS)
    assert whole.values[inside].mean() == pytest.approx(MBPS, rel=0.02)


def test_a_full_interface_is_named_among_others(tmp_path):
    sent = {"eth0": synthetic.during(98, SECONDS), **even("eth1", "eth2", "eth3", of=20)}
    folder = trial(tmp_path, {synthetic.OSS: sent})
    (tmp_path / names.SITE).write_text(json.dumps({"links": {"storage": 100}}))
    row = trial_tables(folder)
    assert row["bottleneck"] == "storage"
    assert f"{synthetic.OSS} eth0 sent 98.0 of 100.0 Mb/s" in row["bottleneck_evidence"]
    assert "one of 4 interfaces" in row["bottleneck_evidence"]
    assert row["ceiling_mbps"] == 400


def test_servers_that_are_busy_in_turn_do_not_stall(tmp_path):
    def second_half(time):
        return synthetic.during(MBPS, 10)(time - 10)

    both = {synthetic.OSS: {"eth0": synthetic.during(MBPS, 10)}, OSS2: {"eth0": second_half}}
    folder = trial(tmp_path, both)
    assert stalled(read_trial(folder), at_rest_mbps=0.0) is None
    assert trial_tables(folder)["mean_mbps"] == pytest.approx(MBPS)


class TestCounters:
    def test_one_wraps_and_the_other_goes_on(self, tmp_path):
        def wrapping(time):
            return (2**32 - 10**8 + synthetic.during(200, SECONDS)(time) - 10**9) % 2**32

        folder = trial(tmp_path, {synthetic.OSS: {"eth0": synthetic.during(200, SECONDS), "eth1": wrapping}})
        row = trial_tables(folder)
        assert (row["wraps"], row["resets"]) == (1, 0)
        assert row["mean_mbps"] == pytest.approx(MBPS)
        flags = {(row["interface"], row["flag"]) for row in rows(folder / names.SAMPLES_CSV)}
        assert flags == {("eth0", ""), ("eth1", ""), ("eth1", "wrap")}

    def test_one_begins_anew_and_the_sum_is_not_known_then(self, tmp_path):
        def anew(time):
            return synthetic.during(200, SECONDS)(time) - (0 if time < 10 else synthetic.during(200, SECONDS)(10))

        folder = trial(tmp_path, {synthetic.OSS: {"eth0": synthetic.during(200, SECONDS), "eth1": anew}})
        row = trial_tables(folder)
        assert row["resets"] == 1
        assert f"{synthetic.OSS}: bytes sent are not known over 1.0 s" in row["reasons"]
        assert (row["bytes_server"], row["closure"], row["mean_mbps"]) == (None, None, pytest.approx(MBPS))
        reset = [row for row in rows(folder / names.SAMPLES_CSV) if row["flag"] == "reset"]
        unknown = [(row["interface"], row["time_s"]) for row in reset]
        assert unknown == [("eth1", "10.000000")]

    def test_a_driver_that_says_it_late_is_one_interfaces(self, tmp_path):
        path = tmp_path / "oss.samples"
        synthetic.write_interfaces(path, synthetic.ticks(-2, 23, 0.2), DIFFERING, period_s=0.2)
        found = [intervals(one).resolution_s("tx_bytes") for one in read_samples(path).by_interface()]
        assert found == [pytest.approx(0.2), pytest.approx(0.8, rel=0.05)]


def test_a_file_without_one_of_its_interfaces_is_refused(tmp_path):
    path = tmp_path / "oss.samples"
    cards = [{"name": name} for name in ("eth0", "eth1", "eth2")]
    synthetic.write_interfaces(path, TIMES, even("eth0", "eth1", of=2), interfaces=cards)
    with pytest.raises(UnreadableSamples, match=r"has no column rx_bytes\.eth2, tx_bytes\.eth2$"):
        read_samples(path)


def test_what_is_shown_of_a_running_trial_is_the_sum(tmp_path):
    files = [tmp_path / "a.samples", tmp_path / "b.samples"]
    for path in files:
        synthetic.write_interfaces(path, synthetic.ticks(0, 5), even("eth0", "eth1", of=4))
        path.write_bytes(path.read_bytes().rpartition(b'{"tierbench": "end"')[0])
    assert current_rate_mbps(files) == pytest.approx(MBPS)
    assert current_rate_mbps([*files, tmp_path / "c.samples"]) is None
