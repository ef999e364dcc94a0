"""A testbed comes, is found again, and goes without a trace, whatever happens to it."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tierbench.errors import BusyError, HostError
from tierbench.files import poll
from tierbench.testbed import service
from tierbench.testbed.host import RunningHost
from tierbench.testbed.services.filesystem import MOUNT_POINT
from tierbench.testbed.settings import Rates, Settings
from tierbench.testbed.topology import USER

from .conftest import SETTINGS, of_our_own, say
from .test_network import round_trip_ms

TINY = Settings(private_workers=1, public_workers=1, slots_per_worker=2, storage_gb=1)
WIDE = replace(TINY, storage_nics=2, redirector=1, rtt_ms=40, rates_mbps=Rates(storage=40, worker=1000))
SETTLE_SECONDS = 60


def goes(testbed):
    """Whether nothing is left of a testbed; the kernel takes namespaces apart in its own time."""
    return poll(lambda: not traces(testbed), SETTLE_SECONDS)


def traces(testbed):
    """All that this machine shows of a testbed: its directory, processes, mounts, control groups."""
    remains = [str(testbed.directory)] if testbed.directory.exists() else []
    remains += [line for line in Path("/proc/mounts").read_text().splitlines() if str(testbed.directory) in line]
    groups = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if " cgroup" in line]
    remains += [str(group) for point in groups for group in Path(point).glob(f"tierbench-{testbed.name}-*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            about = (process / "cmdline").read_text() + (process / "mountinfo").read_text()
        except OSError:
            continue
        if f"{testbed.directory}/" in about:
            remains.append(f"{process.name}: {(process / 'comm').read_text()}")
    return remains


def interfaces():
    return {path.name for path in Path("/sys/class/net").iterdir()}


@pytest.fixture
def tiny():
    """A second, small testbed of which nothing may be left at the end."""
    bed = of_our_own("tiny")
    yield bed
    bed.down()


@contextmanager
def coming_up(testbed, words):
    """An `up` by the command line in a process of its own, just when it has said these words."""
    settings = ["private_workers=1", "public_workers=1", "slots_per_worker=2", "storage_gb=1"]
    options = [word for setting in settings for word in ("--set", setting)]
    as_at_a_terminal = ["env", "--default-signal"]  # whatever started these tests may ignore signals, as nohup does
    command = [*as_at_a_terminal, sys.executable, "-m", "tierbench", "testbed", "up", "--name", testbed.name, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert any(words in line for line in process.stderr)
        yield process
        process.stderr.read()


def test_a_second_up_finds_it_running(testbed):
    pids = {name: host.pid for name, host in testbed.hosts.items()}
    assert testbed.up(SETTINGS, say) is False
    assert {name: host.pid for name, host in testbed.hosts.items()} == pids


def test_up_with_other_settings_is_refused(testbed):
    with pytest.raises(BusyError, match="other settings"):
        testbed.up(TINY, say)


def test_all_is_well_on_a_fresh_testbed(testbed):
    assert [reply for reply in testbed.status() if not reply.well] == []


def test_its_hosts_need_not_compile_tierbench(testbed):
    command = ("python3", "-v", "-c", "import tierbench.submit.cli")
    lines = testbed.host("ce").run("env", "PYTHONPATH=/opt/tierbench", *command, user=USER).stderr.splitlines()
    assert any("matches" in line and line.endswith("/tierbench/submit/cli.py") for line in lines)


def has_its_own_distance(beside, rtt_ms):
    stated = "from tierbench.site_configs.site import find_site; print(find_site('testbed').links.rtt_ms)"
    assert float(beside.host("ce").run("env", "PYTHONPATH=/opt/tierbench", "python3", "-c", stated).stdout) == rtt_ms
    return round_trip_ms(beside.host("wn01"), "oss.uf.test") == pytest.approx(rtt_ms, abs=1)


PLANTED = """
cd; mkdir -m 0 shut; mkdir -p swapped/sub; touch swapped/file; ln swapped/file hard; ln /usr/bin/env hard-env || true
ln -s {outside} link; mkfifo pipe; unshare -Urm mount -t tmpfs tmpfs swapped/sub || true
while :; do mv swapped was; ln -s {outside} swapped; rm swapped; mv was swapped; done 2>/dev/null
"""


@pytest.mark.long
def test_another_testbed_beside_it_has_its_own_distance_and_goes_with_nothing_but_itself(testbed, tiny, tmp_path):
    before = interfaces()
    tiny.up(replace(TINY, rtt_ms=0), say)
    assert has_its_own_distance(tiny, 0)
    assert has_its_own_distance(testbed, 14)
    assert interfaces() == before
    (tmp_path / "file").touch()
    tiny.host("ce").daemon("planted", "runuser", "-u", USER, "--", "sh", "-c", PLANTED.format(outside=tmp_path))
    tiny.down()
    assert goes(tiny), traces(tiny)
    assert (tmp_path / "file").exists()
    assert testbed.is_up


def test_an_interrupted_up_leaves_nothing(tiny):
    with coming_up(tiny, "HTCondor") as process:
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert goes(tiny), traces(tiny)


def test_down_clears_what_a_killed_up_left(tiny):
    with coming_up(tiny, "mounts") as process:
        process.kill()
    assert traces(tiny)
    assert tiny.down() is True
    assert goes(tiny), traces(tiny)


@pytest.fixture(scope="module")
def afresh():
    """A small testbed with a storage server of two interfaces and a redirector; its first `up` was killed."""
    bed = of_our_own("afresh")
    with coming_up(bed, "Kerberos") as process:
        process.kill()
    assert bed.up(WIDE, say) is True
    yield bed
    bed.down()


def test_up_starts_afresh_where_a_killed_one_stopped(afresh):
    assert [reply for reply in afresh.status() if not reply.well] == []
    assert has_its_own_distance(afresh, WIDE.rtt_ms)


@pytest.fixture(scope="module")
def file(afresh):
    """What a worker reads, which the server has in memory."""
    path = f"{MOUNT_POINT}/afresh"
    afresh.host("vmuf").run("sh", "-c", f"head -c {8 << 20} /dev/urandom >{path} && chmod 644 {path}")
    afresh.host("oss").run("sh", "-c", f"cat {path} >/dev/null")
    return path


def seconds_of(worker, file, *doors):
    """How long the worker takes to copy a file from each of these at once."""
    copies = [f"xrdcp -f --nopbar root://{door}:1094/{file} /dev/null &" for door in doors]
    begin = time.monotonic()
    worker.script([*copies, "wait"])
    return time.monotonic() - begin


def sent_by(server, device):
    return int(server.read(f"/sys/class/net/{device}/statistics/tx_bytes"))


@pytest.mark.quiet
def test_two_interfaces_of_a_server_send_twice_as_much_in_the_same_time(afresh, file):
    alone = seconds_of(afresh.host("wn02"), file, "oss.uf.test")
    assert seconds_of(afresh.host("wn02"), file, "oss.uf.test", "oss-2.uf.test") < 1.5 * alone


def test_each_of_a_servers_interfaces_sends_what_is_asked_of_it_and_no_faster_than_it_can(afresh, file):
    worker, server = afresh.host("wn02"), afresh.host("oss")
    before = [sent_by(server, device) for device in ("eth0", "eth1")]
    alone = seconds_of(worker, file, "oss.uf.test")
    seconds_of(worker, file, "oss.uf.test", "oss-2.uf.test")
    first, second = (sent_by(server, device) - sent for device, sent in zip(("eth0", "eth1"), before, strict=True))
    assert alone > (8 << 20) * 8 / (WIDE.rates_mbps.storage * 1e6)
    assert (first / (8 << 20), second / (8 << 20)) == (pytest.approx(2, rel=0.3), pytest.approx(1, rel=0.3))


@pytest.mark.quiet
def test_a_redirector_costs_round_trips(afresh, file):
    worker, server = (afresh.host(name) for name in ("wn02", "vmuf"))
    small = f"{file}-small"
    server.run("sh", "-c", f"head -c 4096 {file} >{small} && chmod 644 {small}")
    sent_on = min(seconds_of(worker, small, "rdr.uf.test") for _ in range(5))
    at_most = sent_on - 2 * WIDE.rtt_ms / 1000  # it takes a connection and a login more, at the least
    assert min(seconds_of(worker, small, "vmuf.uf.test") for _ in range(5)) <= at_most


def test_a_redirector_carries_no_data(afresh, file):
    worker, redirector, server = (afresh.host(name) for name in ("wn02", "rdr", "vmuf"))
    before = [sent_by(host, "eth0") for host in (redirector, server)]
    seconds_of(worker, file, "rdr.uf.test")
    passed, sent = (sent_by(host, "eth0") - were for host, were in zip((redirector, server), before, strict=True))
    assert sent > 8 << 20
    assert passed < 0.05 * sent


@pytest.mark.long
def test_a_daemon_that_dies_during_up_is_named_with_its_last_words(tiny, monkeypatch):
    start = RunningHost.daemon

    def start_and_kill_the_master(host, name, *argv):
        start(host, name, *argv)
        if name == "mfsmaster":
            host.script(["kill -9 $(cat /run/mfsmaster.pid)"])

    monkeypatch.setattr(RunningHost, "daemon", start_and_kill_the_master)
    monkeypatch.setattr(service, "START_SECONDS", 3.0)  # it is not coming
    with pytest.raises(HostError) as failure:
        tiny.up(TINY, say)
    assert "mfsmaster on mds did not answer within" in str(failure.value)
    assert "mfsmaster.log" in str(failure.value)
    assert (tiny.directory / "logs/mds/mfsmaster.log").exists()
    assert [trace for trace in traces(tiny) if trace != str(tiny.directory)] == []


def test_status_names_dead_daemons_and_hosts(afresh):
    """The last one to use it."""
    afresh.host("dgt").script(["kill -9 $(cat /run/xrootd.pid)"])
    afresh.host("wn02").namespaces.kill()
    unwell = {(reply.host, reply.thing) for reply in afresh.status() if not reply.well}
    assert ("dgt", "xrootd") in unwell
    assert ("wn02", "host") in unwell
    assert ("vmuf", "xrootd") not in unwell
    assert not afresh.is_up
