"""One testbed for all tests of this folder, brought up once; with pytest-xdist one for each of its workers.

TIERBENCH_TEST_SUITE=forky runs them on HTCondor 25.14 and XRootD 6.
"""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.testbed.runs import AccessPoint, Machine
from tierbench.errors import TierbenchError
from tierbench.testbed.check import Check
from tierbench.testbed.services import tokens
from tierbench.testbed.services.kerberos import KDC
from tierbench.testbed.settings import Settings
from tierbench.testbed.testbed import Testbed, home
from tierbench.testbed.topology import USER

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
OURS = f"test-{os.getppid() if WORKER else os.getpid()}-"
SUITE = os.environ.get("TIERBENCH_TEST_SUITE", "trixie")
SETTINGS = Settings(storage_gb=4, software_mounts=int(SUITE == "trixie"), token_door=1, xrootd_copies=1, suite=SUITE)


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/testbed" in str(item.path):
            item.add_marker("testbed")


def pytest_configure():
    """What tests that were killed have left goes, or it stays for good."""
    for left in (home() / "testbeds").glob("test-*-*") if not WORKER and os.geteuid() == 0 else ():
        if not Path("/proc", left.name.split("-")[1]).exists():
            Testbed(left.name).down()


def pytest_unconfigure():
    """Whoever started the workers takes down what those left that were broken off."""
    if not WORKER:
        for left in (home() / "testbeds").glob(f"{OURS}*"):
            Testbed(left.name).down()


def of_our_own(kind):
    if os.geteuid() != 0:
        pytest.skip("a testbed takes root")
    return Testbed(f"{OURS}{WORKER}{kind}")


def say(words):
    print(words, file=sys.stderr, flush=True)


@contextmanager
def brought_up(kind, settings):
    bed = of_our_own(kind)
    try:
        bed.up(settings, say)
    except TierbenchError as error:
        pytest.fail(f"the testbed did not come up, so nothing was tested: {error}", pytrace=False)
    yield bed
    bed.down()


@pytest.fixture(scope="session")
def testbed():
    with brought_up("usual", SETTINGS) as bed:
        yield bed


@pytest.fixture(scope="session", autouse=True)
def machine():
    with Machine().watched() as machine:
        yield machine


@pytest.fixture(scope="session")
def check(testbed):
    return Check(testbed)


@pytest.fixture(scope="module")
def access_point(testbed, tmp_path_factory):
    return AccessPoint(testbed, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def kdc(testbed):
    return testbed.host(KDC)


@pytest.fixture(scope="module")
def issue(kdc):
    return lambda lasts_s=3600, **claims: tokens.sign_token(kdc, tokens.claims(lasts_s, **claims))


@pytest.fixture
def show(testbed, issue):
    """Give the jobs' user another token, for the time of a test."""

    def show(lasts_s, **claims):
        testbed.host("ce").put(tokens.TOKEN, issue(lasts_s, **claims), 0o600, USER)

    yield show
    show(tokens.TOKEN_S)
