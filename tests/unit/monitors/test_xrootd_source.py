"""XRootD's counters as the sampler gets them: by the reports that its servers send."""

import argparse
import socket

import pytest

from tests.unit.client_process import until
from tierbench.host import wall_ns
from tierbench.monitors.sources import xrootd
from tierbench.monitors.sources.xrootd import UNKNOWN, XRootD

REPORT = (
    '<statistics tod="1795574562" ver="v5.8.1" src="door:1094" tos="{started}" pgm="xrootd" ins="xrootd" pid="{pid}" '
    'site=""><stats id="link"><num>1</num><tot>2</tot><in>893</in><out>{sent}</out></stats><stats id="xrootd"><num>1'
    "</num><ops><open>{opens}</open><rf>0</rf><rd>{reads}</rd><pr>0</pr><rv>{vectors}</rv><rs>{pieces}</rs><wv>0</wv>"
    "</ops></stats></statistics>"
)
COUNTED = {"pid": 7, "started": 1, "sent": 1000, "opens": 1, "reads": 10, "vectors": 2, "pieces": 50}


@pytest.fixture
def port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken


@pytest.fixture
def source(port):
    source = XRootD(argparse.Namespace(xrootd_reports=f"127.0.0.1:{port.getsockname()[1]}"))
    assert source.look() == UNKNOWN
    yield source
    source.ended.set()


@pytest.fixture
def reports(source, port):
    """Sends a report until it is among what the source has; the port is free only by now."""
    address = port.getsockname()
    port.close()

    def send(expected, report=REPORT, **counted):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:

            def seen():
                server.sendto(report.format(**{**COUNTED, **counted}).encode(), address)
                return source.look()[:6] == expected

            until(seen)

    return send


def test_counters_rise_from_the_first_report_on(reports):
    reports((0, 0, 0, 0, 0, 1))
    reports((500, 1, 3, 1, 20, 1), sent=1500, opens=2, reads=13, vectors=3, pieces=70)


def test_those_of_several_processes_are_added_and_a_new_ones_past_is_no_rise(reports):
    reports((0, 0, 0, 0, 0, 1))
    reports((500, 0, 0, 0, 0, 1), sent=1500)
    reports((500, 0, 0, 0, 0, 2), pid=8, sent=10**12)
    reports((600, 0, 0, 0, 0, 2), pid=8, sent=10**12 + 100)
    reports((600, 0, 0, 0, 0, 3), started=2, sent=0)  # the first one's number again


def test_the_age_is_that_of_the_report_of_whom_nothing_was_heard_for_longest(reports, source):
    reports((0, 0, 0, 0, 0, 1))
    reports((0, 0, 0, 0, 0, 2), pid=8)  # by now all that the first one sent is read
    until(lambda: source.look()[6] > 200)
    reports((100, 0, 0, 0, 0, 2), pid=8, sent=1100)
    assert source.look()[6] > 200


def test_the_age_counts_from_when_a_report_came_and_not_from_when_it_was_read(reports, source, monkeypatch):
    monkeypatch.setattr(xrootd, "wall_ns", lambda: wall_ns() + 10**9)  # as of a thread that waited for its turn
    reports((0, 0, 0, 0, 0, 1))
    assert source.look()[6] >= 1000


def test_what_is_no_servers_report_is_passed_over(reports):
    reports((-1,) * 6, report="<statistics><stats/>")
    reports((0, 0, 0, 0, 0, 1))
