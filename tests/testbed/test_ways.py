"""The four ways of access deliver the same bytes, and the storage server's counter accounts for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tierbench.testbed.check import Check, Way, ways
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import topology

MEGABYTES = 16
WAYS = ways(topology(Settings()))


@pytest.fixture(scope="module")
def files(check: Check) -> Iterator[dict[str, str]]:
    made = check.make_files(MEGABYTES, 2)
    yield made
    check.remove_files(made)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
class TestWay:
    def test_cold_then_warm(self, check: Check, files: dict[str, str], way: Way) -> None:
        check.flush(way, files)
        cold = check.read(way, files, MEGABYTES)
        assert all(reading.intact for reading in cold.readings)
        assert [reading.worker for reading in cold.readings] == [host.fqdn for host in way.workers]
        assert cold.sent_per_byte_read == pytest.approx(1, abs=0.05)

        warm = check.read(way, files, MEGABYTES)
        assert all(reading.intact for reading in warm.readings)
        assert warm.sent_per_byte_read < 0.02

        check.flush(way, files)
        again = check.read(way, files, MEGABYTES)
        assert again.sent_per_byte_read == pytest.approx(1, abs=0.05)
