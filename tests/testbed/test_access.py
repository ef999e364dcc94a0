"""The four access methods deliver the same bytes, and the storage server's counter accounts for them."""

import time

import pytest

from tests.testbed.runs import sampled, sampling
from tierbench.postprocess.measures.server_reports import XROOTD_SENT, reported_by, rises
from tierbench.site_configs.site import load_site
from tierbench.testbed.check import access_methods
from tierbench.testbed.services import topology
from tierbench.testbed.services.filesystem import MOUNT_POINT, WRITES
from tierbench.testbed.services.xrootd import PORT
from tierbench.testbed.settings import Settings
from tierbench.testbed.testbed import SHIPPED

MEGABYTES = 16
# The pool's own traffic while the jobs last, and what TCP sends again, are the more the busier this machine is.
ONCE, HARDLY = 1.3, 0.2
BLOCK = 8 << 20  # of a read by xrdcp
METHODS = access_methods(topology(Settings()), load_site(SHIPPED))


@pytest.fixture(scope="module")
def files(check):
    made = check.make_files(MEGABYTES, 2)
    yield made
    check.remove_files(made)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_cold_then_warm(check, files, method):
    check.flush(method, files)
    cold = check.read(method, files, MEGABYTES)
    assert all(reading.intact for reading in cold.readings)
    assert [reading.worker for reading in cold.readings] == [host.fqdn for host in method.workers]
    assert 0.99 < cold.sent_per_byte_read < ONCE

    warm = check.read(method, files, MEGABYTES)
    assert all(reading.intact for reading in warm.readings)
    assert warm.sent_per_byte_read < HARDLY

    check.flush(method, files)
    again = check.read(method, files, MEGABYTES)
    assert 0.99 < again.sent_per_byte_read < ONCE


@pytest.mark.parametrize("host", ["dgt", "vmuf", "wn03"])
def test_mounts_read_ahead_as_far_as_they_are_told(testbed, host):
    ask = f"cat /sys/class/bdi/$(mountpoint -d {MOUNT_POINT})/read_ahead_kb"
    assert int(testbed.host(host).run("sh", "-c", ask).stdout) == testbed.settings.read_ahead_kb


def test_what_an_xrootd_server_reports_is_what_its_client_read(testbed):
    server, file, blocks = testbed.host("vmuf"), f"{WRITES}/counted", 4
    server.run("dd", "if=/dev/urandom", f"of={file}", f"bs={BLOCK}", f"count={blocks}")

    def read():
        """When a client read, and all of it has been reported."""
        begin_ns = time.time_ns()
        testbed.host("wn03").run("xrdcp", "-f", "--nopbar", f"root://{server.host.fqdn}:{PORT}/{file}", "/dev/null")
        end_ns = time.time_ns()
        server.wait_until(lambda: len(reported_by(sampled(log), end_ns)) > 0, "no report came after it", log.name)
        return begin_ns, end_ns

    def is_known():
        """Whether the server had reported before it was read from: what it did until then is not counted."""
        read()
        return bool(sampled(log).samples.columns["xrootd_reads"][-1] > 0)

    with sampling(server, "counted", "door") as log:
        server.wait_until(is_known, "its reads were not reported", log.name)
        begin_ns, end_ns = read()
    assert rises(sampled(log), begin_ns, end_ns) == {
        XROOTD_SENT: pytest.approx(blocks * BLOCK, rel=0.01), "xrootd_reads": blocks, "xrootd_vector_reads": 0
    }  # fmt: skip
