"""What XRootD's servers report is used where it is of the whole window, or of nearly all of it."""

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import edit_trial
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row

END_S = 20
SENT, READS, VECTOR_READS = 50_000_000, 8, 2


@pytest.fixture
def bytes_per_read(tmp_path):
    """What the table has of a server that reports as given, by seconds since the window's begin."""
    folder = synthetic.write_trial(tmp_path)
    roles = {synthetic.OSS: "storage", "vmuf.uf.test": "door"}
    hosts = [{"host": host, "interface": "eth0", "role": role, "via": "pool"} for host, role in roles.items()]
    edit_trial(folder, samplers=hosts)

    def of(until=23, **gauges):
        counters = {"sent_bytes": SENT, "reads": READS, "vector_reads": VECTOR_READS}
        rising = {f"xrootd_{name}": lambda t, n=total: n if t > END_S else 0 for name, total in counters.items()}
        gauges = {"processes": lambda _: 2, "report_age_ms": lambda _: 900} | gauges
        named = {f"xrootd_{name}": of_time for name, of_time in gauges.items()}
        synthetic.write_host(folder, "vmuf.uf.test", "door", until=until, **rising, **named)
        return trial_row(read_trial(folder)).bytes_per_server_read

    return of


def test_it_is_what_was_sent_for_a_read(bytes_per_read):
    assert bytes_per_read() == SENT / (READS + VECTOR_READS)


@pytest.mark.parametrize(
    "reports",
    [
        {"processes": lambda time: 2 if time > 2 else -1},
        {"processes": lambda time: 2 if time > 2 else 1},  # of two processes
        {"report_age_ms": lambda time: round(1000 * max(0, time - 19))},
    ],
    ids=["none at first", "one not at first", "none after it"],
)
def test_what_is_not_whole_is_left_out(bytes_per_read, reports):
    assert bytes_per_read(**reports) is None


def test_a_first_report_soon_after_the_begin_is_early_enough(bytes_per_read):
    assert bytes_per_read(processes=lambda time: 2 if time > 1 else -1) == SENT / (READS + VECTOR_READS)


def test_the_first_record_by_which_all_have_reported_is_enough(bytes_per_read):
    assert bytes_per_read(until=21) is not None
    assert bytes_per_read(until=20) is None
