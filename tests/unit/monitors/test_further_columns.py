"""A source that nobody here knows reaches the tables: its file, its line where sources are listed, and no more."""

import csv
import json
import sys

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.sampler_process import sample
from tests.unit.shipped import PYTHON
from tests.unit.stand_ins import run
from tierbench import names
from tierbench.postprocess.tables.write import tables
from tierbench.single_file_script import single_file

LISTED = """
from tierbench.monitors.sources.door import Door
from tierbench.monitors.sources.net import Net

SOURCES = (Net, Door)
"""
DOOR = """
from tierbench.monitors.source import Column, Source


class Door(Source):
    columns = (
        Column("door_opens", 12, "1", "counter", "host"),
        Column("door_waiting", 6, "clients", "gauge", "host"),
    )

    def __init__(self, options):
        self.asked = 0

    def look(self):
        self.asked += 1
        return 10 * self.asked, 7 if self.asked % 2 else -1
"""


def test_a_counter_becomes_a_rate_and_a_gauge_stays_and_the_schema_tells_of_it(tmp_path):
    """Of two trials one was sampled with a source more than the other."""
    synthetic.write_trial(tmp_path, repeat=1)
    folder = synthetic.write_trial(tmp_path, repeat=2, index=1)
    sources = {"tierbench.monitors.sources": LISTED, "tierbench.monitors.sources.door": DOOR}
    script = tmp_path / "sampler.py"
    script.write_text(single_file("tierbench.monitors.sampler", sources))
    options = ["--trial", "t", "--role", "storage", "--interface", "lo", "--period", "0.05"]
    sample([sys.executable, str(script), *options], folder / f"samples/{synthetic.OSS}.samples", records=4)
    tables(tmp_path)
    with (tmp_path / names.SAMPLES_CSV).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    known = [row for row in rows if row["repeat"] == "2"]
    assert known[0]["door_opens_per_s"] == ""
    for row in known[1:]:
        interval_s = float(row["interval_s"])  # to a microsecond, of which there are few after a late sample
        assert float(row["door_opens_per_s"]) == pytest.approx(10 / interval_s, rel=1e-3 + 0.5e-6 / interval_s)
    assert {row["door_waiting"] for row in known} == {"7", ""}
    assert {row["door_opens_per_s"] for row in rows if row["repeat"] == "1"} == {""}
    columns = json.loads((tmp_path / names.SCHEMA).read_text())["files"][names.SAMPLES_CSV]["columns"]
    assert [column["name"] for column in columns] == list(rows[0])
    told = {column["name"]: (column["type"], column["unit"], column["meaning"]) for column in columns}
    assert told["door_waiting"] == ("integer", "clients", "door_waiting of the sampler's source door, of the host")
    assert told["door_opens_per_s"][:2] == ("number", "1/s")


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ('"door_opens"', '"tx_bytes"', "two columns are called tx_bytes"),
        (", 7 if", ", 7, 7 if", "source Door: gave 3 values for its 2 columns"),
    ],
)
def test_a_source_that_is_wrong_is_named(tmp_path, right, wrong, words):
    sources = {"tierbench.monitors.sources": LISTED, "tierbench.monitors.sources.door": DOOR.replace(right, wrong)}
    script = tmp_path / "sampler.py"
    script.write_text(single_file("tierbench.monitors.sampler", sources))
    options = ["--trial", "t", "--role", "storage", "--interface", "lo", "--period", "0.05", "--max-seconds", "0.2"]
    sampler = run(PYTHON, script, *options)
    assert (sampler.returncode, words in sampler.stderr) == (4, True), sampler.stderr
