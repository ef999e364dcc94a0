"""The same samples give the same tables: a real trial's, as they were before hosts had several interfaces."""

import re
import shutil
from pathlib import Path

import pytest

from tests.unit.synthetic_run import rows
from tierbench import names
from tierbench.postprocess.records.ceilings import read_ceilings
from tierbench.postprocess.schema.rows import TRIAL_FILES
from tierbench.postprocess.tables.write import trial_tables

TABLES = Path(__file__).parents[1] / "fixtures/direct-trial"


@pytest.fixture(scope="module")
def folder(real, tmp_path_factory):
    """The real trial's folder, with its tables made anew."""
    run = shutil.copytree(real, tmp_path_factory.mktemp("real") / "run")
    (found,) = run.glob(f"{names.TRIALS}/*")
    trial_tables(found)
    return found


@pytest.fixture
def with_a_door(folder, tmp_path):
    """The same run as if one of its sampled hosts had been an xrootd server, whose role was called that then."""
    run = shutil.copytree(folder.parents[1], tmp_path / "run")
    trial = run / names.TRIALS / folder.name
    for path in (trial / names.TRIAL, trial / names.sample_file("wn04.fiu.test")):
        text = path.read_text()
        path.write_text(re.sub(r'("host": ?"wn04[^{}]*"role": ?)"worker"', r'\1"xrootd"', text))
        assert path.read_text() != text
    return trial


@pytest.mark.parametrize("table", [names.TRIALS_CSV, names.JOBS_CSV, names.RESOURCES_CSV, names.SAMPLES_CSV])
def test_columns_may_come_and_none_changes(folder, table):
    before, now = rows(TABLES / table), rows(folder / table)
    if table == names.TRIALS_CSV:
        now = [{name: value for part in TRIAL_FILES for name, value in rows(folder / part)[0].items()}]
    assert [{name: row.get(name) for name in before[0]} for row in now] == before


def test_what_an_older_run_calls_an_xrootd_server_is_a_door(with_a_door):
    assert "door" in read_ceilings(with_a_door.parents[1], "public", print).links
    row = trial_tables(with_a_door)
    assert "by their header" not in f"{row['verdict_reasons']}"
    assert {row["role"] for row in rows(with_a_door / names.SAMPLES_CSV)} == {"storage", "worker", "door"}
