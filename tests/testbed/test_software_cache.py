"""ROOT by HTTP, its cache cold and warm: what the cache says of itself, Squid's counters and the verdict agree."""

import pytest

from tierbench import names
from tierbench.submit.trial.joblog import last_record
from tierbench.testbed.services.filesystem import MOUNT_POINT as DATA_MOUNT
from tierbench.testbed.services.web import MOUNT_POINT, SQUID_PORT

pytestmark = pytest.mark.long

LEAST = 100_000_000  # that ROOT opens to read a tree
SOFTWARE = f"""
access = ["direct"]
sample_period_s = 1.0
placement = "one-worker"
replicas.tree = {{ kind = "tree", count = 1, size_mb = 8 }}
axes.cache = {{ values = ["cold", "warm"], arranges = "software-cache" }}
workloads.root.client = "root"
workloads.root.replicas = "tree"

[workloads.root.options]
starting = true
setup = "cd {MOUNT_POINT}/ROOT/lib && export LD_LIBRARY_PATH=$PWD && cd - >/dev/null"
"""


@pytest.fixture(scope="module")
def fetched_before(testbed):
    return fetched_by_squid(testbed)


@pytest.fixture(scope="module")
def software(fetched_before, access_point):
    assert fetched_before >= 0
    yield access_point.measured("software", SOFTWARE)


@pytest.fixture(scope="module")
def fetched_bytes(software):
    return {row["cache"]: int(row["software_bytes"] or -1) for row in software.rows(names.TRIALS_CSV)}


def fetched_by_squid(testbed):
    """Bytes, by its own counters."""
    counters = testbed.host("dgt").run("curl", "--silent", f"http://127.0.0.1:{SQUID_PORT}/squid-internal-mgr/counters")
    values = dict(line.split(" = ") for line in counters.stdout.splitlines() if " = " in line)
    return 1024 * int(values["server.all.kbytes_in"])


def test_a_cold_cache_takes_in_what_root_opens_and_a_warm_one_nothing(fetched_bytes):
    assert fetched_bytes["cold"] > LEAST
    assert 0 <= fetched_bytes["warm"] < fetched_bytes["cold"] / 200


def test_a_warm_cache_is_what_its_clients_read_from(software):
    """They began before it was made so: they must not go on with the mount that there was then."""
    windows = {row["cache"]: float(row["window_s"]) for row in software.rows(names.TRIALS_CSV)}
    assert windows["warm"] < windows["cold"] / 2


def test_its_clients_had_the_mounts_of_their_host(software):
    """By what the flush saw of them, which began when the cache had been mounted anew."""
    ends = [last_record(trial / names.client_output(0)) for trial in software.trials]
    assert [{mount["point"] for mount in end["mounts"]} for end in ends] == 2 * [{DATA_MOUNT, MOUNT_POINT}]
    assert not [row for row in software.rows(names.TRIALS_CSV) if "on another mount" in row["verdict_reasons"]]


def test_what_the_caches_took_in_came_through_squid(testbed, fetched_before, fetched_bytes):
    """By the trial's cold cache, and by the warm ones of both workers; some is thrown away."""
    fetched = fetched_by_squid(testbed) - fetched_before
    assert 3 * fetched_bytes["cold"] < fetched < 2 * 3 * fetched_bytes["cold"]


def test_its_clients_loaded_root_from_there(software):
    libraries = {row["detail"].partition('root_library": "')[2] for row in software.rows(names.JOBS_CSV)}
    assert all(path.startswith(f"{MOUNT_POINT}/ROOT/lib/libCore.so") for path in libraries)


def test_the_verdict_has_nothing_to_say_of_caches(software):
    rows = software.rows(names.TRIALS_CSV)
    assert [row["state"] for row in rows] == ["complete", "complete"]
    assert not [row["verdict_reasons"] for row in rows if "cache" in row["verdict_reasons"]]
