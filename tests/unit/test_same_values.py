"""The same samples give the same tables: a real trial's, as they were before hosts had several interfaces."""

from __future__ import annotations

import csv
import tarfile
from pathlib import Path

import pytest

from tierbench.dags import names
from tierbench.postprocess.tables.write import trial_tables

HERE = Path(__file__).parent
REAL, TABLES = HERE / "data/direct-trial.tar.gz", HERE / "fixtures/direct-trial"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real trial's folder, with its tables made anew."""
    directory = tmp_path_factory.mktemp("real")
    with tarfile.open(REAL) as archive:
        archive.extractall(directory, filter="data")
    (found,) = directory.glob(f"run/{names.TRIALS}/*")
    trial_tables(found)
    return found


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("table", [names.TRIALS_CSV, names.JOBS_CSV, names.RESOURCES_CSV, names.SAMPLES_CSV])
def test_columns_may_come_and_none_changes(folder: Path, table: str) -> None:
    before, now = rows(TABLES / table), rows(folder / table)
    assert [{name: row.get(name) for name in before[0]} for row in now] == before
