"""The four access methods deliver the same bytes, and the storage server's counter accounts for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tierbench.site_configs.site import load_site
from tierbench.testbed.check import AccessMethod, Check, access_methods
from tierbench.testbed.services import topology
from tierbench.testbed.services.filesystem import MOUNT_POINT
from tierbench.testbed.settings import Settings
from tierbench.testbed.testbed import SHIPPED, Testbed

MEGABYTES = 16
# The pool's own traffic while the jobs last, and what TCP sends again, are the more the busier this machine is.
ONCE, HARDLY = 1.3, 0.2
METHODS = access_methods(topology(Settings()), load_site(SHIPPED))


@pytest.fixture(scope="module")
def files(check: Check) -> Iterator[dict[str, str]]:
    made = check.make_files(MEGABYTES, 2)
    yield made
    check.remove_files(made)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
class TestAccess:
    def test_cold_then_warm(self, check: Check, files: dict[str, str], method: AccessMethod) -> None:
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
def test_mounts_read_ahead_as_far_as_they_are_told(testbed: Testbed, host: str) -> None:
    ask = f"cat /sys/class/bdi/$(mountpoint -d {MOUNT_POINT})/read_ahead_kb"
    assert int(testbed.host(host).run("sh", "-c", ask).stdout) == testbed.settings.read_ahead_kb
