"""Small files: a tree of its own, the operations that were asked for, and an experiment that compares their rate."""

import json
from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.client_process import events, until
from tests.unit.dags.test_writes import POOL, WRITING
from tierbench.dags.plan import expand
from tierbench.dags.records import trial_record
from tierbench.errors import ConfigError
from tierbench.submit.planning import Planned
from tierbench.submit.preview import preview
from tierbench.wrappers.client import Client
from tierbench.wrappers.clients.smallfiles import Tree
from tierbench.wrappers.main import PROGRESS_S, Progress, Record

SHAPE = {
    "directories": 12, "files": 60, "links": 3, "opens": 11, "stats": 20, "lstats": 30, "readlinks": 5,
}  # fmt: skip
KINDS = {"open": 11, "stat": 20, "lstat": 30, "readlink": 5}
SIZE = 60_000
SMALL = WRITING.replace('"writer"', '"smallfiles"').replace(', "lan-xrootd"', "")
COUNTED = ("repeats = 1", 'repeats = 1\nmeasure = "operations"')


@pytest.fixture
def job(job):
    job.offer(job.folder / "mine", SIZE)
    return job


def test_it_makes_its_tree_and_does_all_that_was_asked_for(job):
    end = job.end("smallfiles", options=SHAPE)
    assert (end["status"], end["operations"]) == ("ok", 66)
    assert end["detail"].keys() == {"peak_rss_kb", "counts", *(f"{kind}_s" for kind in KINDS)}
    assert end["detail"]["counts"] == KINDS
    root = job.folder / "mine.tree"
    found = Counter("link" if p.is_symlink() else "folder" if p.is_dir() else "file" for p in root.rglob("*"))
    assert found == {"folder": 11, "file": 60, "link": 3}
    assert sum(p.stat().st_size for p in root.rglob("f*")) == SIZE
    assert end["bytes_app"] == 11 * SIZE // 60
    trees = [Tree(root, {**SHAPE, "seed": seed}) for seed in (1, 1, 2)]
    assert {str(path) for path in root.rglob("f*")} == set(trees[0].files) != set(trees[2].files)
    assert [tree.steps() == trees[0].steps() for tree in trees] == [True, True, False]


def test_the_outbox_is_waited_for(job):
    """Another job makes it; what was made there before would be removed."""
    job.offer(job.folder / "outbox" / "mine", SIZE)
    process = job.start("smallfiles", "--options", json.dumps(SHAPE))
    until(lambda: list(job.folder.glob("tierbench-*")))
    assert process.poll() is None
    (job.folder / "outbox").mkdir()
    assert events(process)["end"]["status"] == "ok"


def test_all_numbers_are_scaled_by_one_and_a_tree_on_the_workers_own_disk_leaves_nothing(job):
    before = set(job.folder.rglob("*"))
    end = job.end("smallfiles", options={**SHAPE, "share": 0.1, "where": "local"})
    assert end["detail"]["counts"] == {"open": 1, "stat": 2, "lstat": 3, "readlink": 1}
    assert (end["status"], end["bytes_app"]) == ("ok", SIZE // 6)
    assert set(job.folder.rglob("*")) == before


def test_how_far_it_has_come_is_told_when_that_has_changed(capsys):
    done = iter([1, 1, 2])
    progress = Progress(cast("Client", SimpleNamespace(progress=lambda: next(done))), Record())
    written = []
    for _ in range(3):
        progress.written_at -= PROGRESS_S
        written += [progress.tell(), progress.tell()]
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["done"] for line in lines] == [1, 2]
    assert [count for count in written if count] == [len(line) + 1 for line in lines]


def test_a_tree_that_cannot_be_made_is_told(job):
    job.offer("/proc/mine", SIZE)
    end = job.end("smallfiles", options=SHAPE)
    assert end["status"] == "failed"


def test_what_it_counts_has_to_be_what_is_compared(site, load):
    with pytest.raises(ConfigError, match='say measure = "operations"'):
        load(SMALL)
    assert len(expand(site, load(SMALL, COUNTED), POOL).trials) == 1


@pytest.mark.parametrize(("where", "entries"), [("mount", 615_348), ("local", 0)])
def test_how_many_files_it_makes_on_the_storage_is_told_before(site, load, where, entries):
    experiment = load(SMALL, ('"smallfiles"', f'"smallfiles"\noptions = {{ where = "{where}" }}'), COUNTED)
    plan = expand(site, experiment, POOL)
    writes = trial_record(site, experiment, plan, plan.trials[0], "run")["writes"] or {"entries": 0}
    assert writes["entries"] == entries
    words = "\n".join(preview(Planned(plan, site, experiment, "no pool"), []))
    assert (f"each trial makes and removes up to {entries:,} files and folders" in words) == bool(entries)
