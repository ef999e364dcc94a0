"""What is read from a sample file, and how counters that fell are understood."""

import json

import numpy as np
import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.sampler_process import sample
from tests.unit.shipped import PYTHON, ship
from tierbench.postprocess.records.increments import intervals
from tierbench.postprocess.records.samples import UnreadableSamples, read_samples
from tierbench.postprocess.tables.write import csv_lines

COLUMNS = synthetic.header()["columns"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "oss.samples"


def write(path, *records, **header):
    """A sample file of these records, or of what else comes behind its header."""
    path.write_bytes(b"".join([json.dumps(synthetic.header(**header)).encode(), b"\n", *records]))
    return read_samples(path)


def write_counter(path, values, name="tx_bytes", **header):
    """A sample file in which one counter has these values, a second apart."""
    records = (synthetic.record(second, **{name: value}) for second, value in enumerate(values))
    return intervals(write(path, *records, **header))


@pytest.mark.parametrize("width", range(1, 20))
def test_columns_of_every_width_are_read(path, width):
    values = [0, 1, 9, min(10**width, 2**63) - 1, 10 ** (width - 1)]
    widths = {"tx_bytes": width, "mono_ns": 12, "rx_bytes": 2}
    columns = [{"name": name, "width": columns} for name, columns in widths.items()]
    records = (f" {value:{width}d} {second:12d} -1\n".encode() for second, value in enumerate(values))
    samples = write(path, *records, columns=columns, record_bytes=width + 18)
    assert (samples.columns["tx_bytes"].tolist(), set(samples.columns["rx_bytes"])) == (values, {-1})


def test_numbers_are_written_as_python_writes_them_unknown_ones_empty_and_choices_as_their_texts():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=500) * 10.0 ** rng.integers(-4, 9, 500), [0.0, -0.0, -0.0004, 1e9]])
    lines = csv_lines("synthetic", [(values, 3)]).decode().splitlines()
    assert lines == [f"synthetic,{round(value * 1000) / 1000 + 0.0:.3f}" for value in values]
    rates, counts = (np.array([np.nan, 1.5, np.inf]), 1), (np.array([10**18 + 1, -2, 0]), 0)
    assert csv_lines("nan", [rates, counts]) == b"nan,,1000000000000000001\nnan,1.5,-2\nnan,,0\n"
    assert csv_lines("a", [(np.array(["gap", ""]), 0), (np.array([7, 8]), 0)]) == b"a,gap,7\na,,8\n"


def test_more_records_than_a_chunk_are_all_read(path):
    samples = write(path, *(synthetic.record(second, tx_bytes=5) for second in range(40_000)))
    assert samples.columns["tx_bytes"].sum() == 200_000


def test_columns_are_found_by_the_header_whatever_their_order(path):
    widths = {"tx_bytes": 6, "new_thing": 3, "rx_bytes": 3, "mono_ns": 12}
    columns = [{"name": name, "width": width} for name, width in widths.items()]
    samples = write(path, b"    123   9   7   5000000000\n", columns=columns, record_bytes=29)
    assert samples.columns["tx_bytes"].tolist() == [123]


def test_what_the_sampler_writes_is_read(path, tmp_path):
    options = ["--trial=t", "--role=storage", "--interface=lo", "--period=0.05"]
    sample([PYTHON, ship(tmp_path, "sampler.py"), *options], path, records=3)
    samples = read_samples(path)
    assert samples.damage is None
    assert len(samples) == samples.trailer.records
    assert (np.diff(samples.time_ns) > 0).all()


@pytest.mark.parametrize(
    ("cut", "whole", "damage"), [(7, 2, "the last record is cut off, after 2 whole ones"), (0, 3, None)]
)
def test_what_is_cut_off_at_the_end_costs_no_whole_record(path, cut, whole, damage):
    records = b"".join(map(synthetic.record, range(3)))
    samples = write(path, records[: len(records) - cut], b"" if cut else synthetic.trailer(3)[:-20])
    assert (len(samples), samples.damage, samples.trailer) == (whole, damage, None)


def test_records_before_a_damaged_one_are_kept_and_fewer_records_than_the_trailer_says_are_reported(path):
    synthetic.write_samples(path, [0, 1, 2, 3], synthetic.steady(1))
    content = bytearray(path.read_bytes())
    second_end = content.index(b"\n") + 2 * synthetic.RECORD_BYTES
    content[second_end] = ord("x")
    path.write_bytes(content)
    samples = read_samples(path)
    assert len(samples) == 1
    assert samples.damage.startswith("record 2 of 4 is damaged")
    assert write(path, synthetic.record(0), synthetic.trailer(2)).damage == "holds 1 records, but the sampler wrote 2"


@pytest.mark.parametrize(
    ("period_s", "damage"), [(0.3, "its records are 0.2 s apart, and not the 0.3 s"), (0.25, None)]
)
def test_records_that_are_nearer_than_the_headers_period_are_damage(path, period_s, damage):
    synthetic.write_samples(path, synthetic.ticks(0, 5, 0.2), synthetic.steady(1), period_s=period_s)
    assert (read_samples(path).damage or "").startswith(damage or "") is True
    assert (read_samples(path).damage is None) == (damage is None)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is empty"), (b"Traceback (most recent call last):\n", "does not begin with the header")],
)
def test_a_file_without_samples_is_refused_with_the_reason(path, content, words):
    path.write_bytes(content)
    with pytest.raises(UnreadableSamples, match=words):
        read_samples(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 9}, "has format 9"),
        ({"columns": []}, "has no column mono_ns, rx_bytes, tx_bytes"),
        ({"columns": [{"name": "mono_ns", "width": None}]}, r"columns\[0\].width: must be a whole number, not null"),
        ({"columns": [{"name": "mono_ns"}]}, r"columns\[0\].width: missing"),
        ({"columns": [*COLUMNS, {"name": "tx_bytes", "width": 1, "source": "net", "kind": "cnunter"}]},
         "is damaged: tx_bytes is a counter, and not 'cnunter'"),
        ({"record_bytes": 7}, "do not add up"),
        ({"clock_mono_ns": "soon"}, 'clock_mono_ns: must be a whole number, not "soon"'),
        ({"clock_wall_ns": -1}, "its clocks are no times"),
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_is_refused_with_the_reason(path, changes, words):
    with pytest.raises(UnreadableSamples, match=words):
        write(path, **changes)


def test_a_header_alone_is_a_file_of_no_samples(path):
    samples = write(path)
    assert len(samples) == len(intervals(samples).seconds) == 0


@pytest.mark.parametrize(
    ("values", "differences", "what"),
    [
        ([2**32 - 300, 2**32 - 200, 50, 150], [100, 250, 100], "wrap"),
        ([1000, 2000, 10, 110], [1000, np.nan, 100], "reset"),
    ],
)
def test_a_32_bit_wrap_is_corrected_and_what_began_anew_makes_its_interval_unknown(path, values, differences, what):
    found = write_counter(path, values)
    np.testing.assert_equal(found.differences["tx_bytes"][1:], differences)
    flags = {name: getattr(found, name).tolist() for name in ("wrap", "reset")}
    assert flags == {**dict.fromkeys(flags, [False] * 4), what: [False, False, True, False]}


@pytest.mark.parametrize(
    ("values", "mbps"),
    [
        pytest.param([2**32 + 5, 2**32 - 90], 1000, id="it has been above 32 bits"),
        pytest.param([2**32 - 20_000_000, 1000], 100, id="more than the link can carry"),
        pytest.param([2**32 - 300, 50], 100_000, id="in a second the link can carry what wraps it twice"),
        pytest.param([2**31 - 1000, 1000], None, id="more than half the range, without a link speed"),
    ],
)
def test_a_fall_that_is_no_wrap_is_a_reset(path, values, mbps):
    assert write_counter(path, values, link_speed_mbps=mbps).reset.tolist() == [False, True]


def test_counters_that_fall_together_have_begun_anew(path):
    before = synthetic.record(0, tx_bytes=2**32 - 10, tx_packets=900, rx_bytes=7)
    found = intervals(write(path, before, synthetic.record(1, tx_bytes=10, tx_packets=5, rx_bytes=9)))
    assert found.reset.tolist() == [False, True]
    assert np.isnan(found.differences["rx_bytes"][1])


def test_a_step_back_of_iowait_or_a_counter_that_the_kernel_has_not_is_no_reset(path):
    found = write_counter(path, [100, 99, 103], name="cpu_iowait")
    assert found.differences["cpu_iowait"].tolist()[1:] == [0, 4]
    assert not found.reset.any()
    found = write_counter(path, [-1, -1], name="tcp_retrans")
    assert np.isnan(found.differences["tcp_retrans"]).all()
    assert not found.reset.any()


def test_a_missing_tick_is_a_gap(path):
    synthetic.write_samples(path, [0, 1, 3, 4], synthetic.steady(80))
    found = intervals(read_samples(path))
    assert found.gap.tolist() == [False, False, True, False]
    assert (found.differences["tx_bytes"] / found.seconds)[2] == pytest.approx(1e7)
