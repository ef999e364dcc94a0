"""A trial whose tables are there is not computed again, and nothing that has changed passes for what it was."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.report_page import silent
from tierbench import names
from tierbench.postprocess.schema.run_rows import FILES
from tierbench.postprocess.tables import cache, write
from tierbench.postprocess.tables.factors import axes_of_run
from tierbench.postprocess.tables.write import further_columns, tables, trial_tables


@pytest.fixture
def run(tmp_path):
    for repeat in (1, 2):
        synthetic.write_trial(tmp_path / "run", repeat=repeat, index=2 - repeat, jobs=2)
    site = {"name": "synthetic", "links": {"wan": 1000}}
    (tmp_path / "run" / names.SITE).write_text(json.dumps(site))
    return tmp_path / "run"


@pytest.fixture
def computed(monkeypatch):
    """The folders of the trials that were computed."""
    folders = []

    def noted(folder, *more):
        folders.append(folder.name)
        return trial_tables(folder, *more)

    monkeypatch.setattr(write, "trial_tables", noted)
    return folders


@pytest.fixture
def made(run, computed):
    """The run when its tables have been made, before anything is computed again."""
    tables(run, silent)
    computed.clear()
    return run


def written(run):
    return {name: (run / name).read_bytes() for name in (*FILES, names.CONDITIONS, names.SCHEMA)}


def fresh(run, at):
    """The tables of a copy that remembers nothing."""
    copy = Path(shutil.copytree(run, at))
    for path in copy.glob(f"trials/*/{names.MADE_OF}"):
        path.unlink()
    tables(copy, silent)
    return written(copy)


def test_only_a_new_trial_is_computed(made, computed, tmp_path):
    before, rows = written(made), tables(made, silent)
    assert tables(made, silent) == rows
    assert computed == []
    assert written(made) == before
    new = synthetic.write_trial(made, repeat=3, index=7, jobs=2)
    tables(made, silent)
    assert computed == [new.name]
    assert written(made) == fresh(made, tmp_path / "copy")


def test_a_copy_elsewhere_at_another_time_is_the_same(made, computed, tmp_path):
    shutil.copytree(made, tmp_path / "copy", copy_function=shutil.copyfile)
    tables(tmp_path / "copy", silent)
    assert computed == []


def test_whatever_has_changed_is_computed_again(made, computed):
    """Every file counts, by its content: a change that keeps size and time is one as well."""
    folder = sorted((made / names.TRIALS).iterdir())[0]
    paths = [path for path in (*made.glob("*.json"), *folder.rglob("*")) if path.is_file()]
    paths = [path for path in paths if path.name not in (names.SCHEMA, names.CONDITIONS, names.MADE_OF)]
    assert len(paths) > 8
    for path in paths:
        computed.clear()
        before, told = path.stat(), path.read_bytes()
        place = len(told) // 2
        path.write_bytes(told[:place] + (b"3" if told[place : place + 1] == b"7" else b"7") + told[place + 1 :])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        tables(made, silent)
        assert folder.name in computed, path
        path.write_bytes(told)


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [("clients/0.jsonl", '"cpu_user_s": 1.0', '"cpu_user_s": 7.0', True), ("jobs.csv", "ok", "no", False)],
    ids=["a changed number", "a table that was changed by hand"],
)
def test_tables_are_those_of_what_the_trials_have_left(made, tmp_path, file, old, new, changes):
    before = written(made)
    path = next(made.glob(f"trials/*r1/{file}"))
    path.write_text(path.read_text().replace(old, new))
    tables(made, silent)
    assert written(made) == fresh(made, tmp_path / "copy")
    assert (written(made) != before) == changes


def test_a_file_that_comes_or_goes_counts(made, computed):
    folder = sorted((made / names.TRIALS).iterdir())[0]
    for change in ((folder / names.DAGMAN_LOCK).touch, (folder / names.DAGMAN_LOCK).unlink, (folder / "new").mkdir):
        computed.clear()
        change()
        tables(made, silent)
        assert computed == [folder.name]


def test_other_code_computes_all_again(made, computed, monkeypatch):
    monkeypatch.setattr(cache, "_code", lambda: b"of another version")
    tables(made, silent)
    assert len(computed) == 2


def test_all_that_is_loaded_to_make_tables_counts_as_code():
    program = (
        "import sys, tierbench.postprocess.tables.write;"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'tierbench'), sep='\\n')"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    counted = {path.resolve() for _, path in cache.code_files()}
    loaded_files = {path for path in map(Path, loaded.split()) if path.name != "__init__.py"}
    assert {path.resolve() for path in loaded_files} - counted == set()


def test_code_of_commands_and_reports_does_not_count():
    """A nightly's words are changed without each trial of each run being computed anew."""
    folders = {
        path.resolve().relative_to(Path(cache.__file__).resolve().parents[2]).parts for _, path in cache.code_files()
    }
    assert not {("postprocess", "report"), ("postprocess", "history")} & {f[:2] for f in folders}
    assert "submit" not in {folder[0] for folder in folders}


@pytest.mark.parametrize("content", ["", "{}", '{"of": 1, "made": 2}', "[]", '{"of": "x", "made": "y", "row": {}}'])
def test_a_damaged_memory_is_none(made, computed, content):
    for path in made.glob(f"trials/*/{names.MADE_OF}"):
        path.write_text(content)
    tables(made, silent)
    assert len(computed) == 2


def test_a_trial_that_changes_while_it_is_computed_is_not_remembered(run, monkeypatch):
    def grown_meanwhile(folder, *more):
        row = trial_tables(folder, *more)
        (folder / names.OUTCOME).write_text(json.dumps({"state": "complete", "reasons": []}))
        return row

    monkeypatch.setattr(write, "trial_tables", grown_meanwhile)
    tables(run, silent)
    assert not list(run.glob(f"trials/*/{names.MADE_OF}"))


READ = """
import sys
from pathlib import Path
run, seen, watching = Path(sys.argv[1]), set(), []

def watch(event, arguments):
    if watching and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes, Path)):
        seen.add(str(arguments[0]))

sys.addaudithook(watch)
from tierbench.postprocess.tables.factors import axes_of_run
from tierbench.postprocess.tables.write import further_columns
from tierbench.postprocess.tables.write import trial_tables
folders = sorted((run / "trials").iterdir())
axes, further = axes_of_run(run, print)[0], further_columns(folders)
watching.append(True)
trial_tables(folders[0], axes, further)
watching.clear()
print("\\n".join(path for path in seen if path.startswith(str(run))), file=sys.stderr)
"""


def test_a_trials_tables_read_nothing_that_is_not_in_the_digest(run):
    """By what Python itself says of every file that is opened."""
    done = subprocess.run([sys.executable, "-c", READ, run], capture_output=True, text=True, check=True)
    paths = [Path(line) for line in done.stderr.splitlines()]
    folder = sorted((run / names.TRIALS).iterdir())[0]
    assert any(path.suffix == ".samples" for path in paths)
    outside = [path for path in paths if folder not in (path, *path.parents)]
    allowed = {run / name for name in cache.OF_RUN} | {run / names.TRIALS}
    definitions = {path for path in outside if path.name == names.TRIAL or path.parent == run / names.TRIALS}
    assert set(outside) - definitions <= allowed


def test_the_runs_columns_and_pools_are_in_the_digest(run):
    axes, further = axes_of_run(run, silent)[0], further_columns((run / names.TRIALS).iterdir())
    shared = cache.shared_digest(run, axes, further)
    path = sorted(run.glob(f"trials/*/{names.TRIAL}"))[0]
    trial = json.loads(path.read_text())
    path.write_text(json.dumps({**trial, "pool": "another", "workers": ["wn99.test"]}))
    assert cache.shared_digest(run, axes, further) != shared
    path.write_text(json.dumps(trial))
    assert cache.shared_digest(run, axes, further) == shared
    assert cache.shared_digest(run, axes, FILES[names.JOBS_CSV].__dataclass_fields__) != shared
