"""The flush, run as a process as on a worker: what it reports is measured, and never assumed."""

import json
import os
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.shipped import PYTHON, texts
from tests.unit.stand_ins import run, script
from tierbench.host import Mount
from tierbench.wrappers import flush as flush_module

FLUSH = texts()["flush.py"].decode()
SIZE = 1_000_001
HELPER = Path(str(resources.files("tierbench.site_configs") / "tierbench-flush"))


@pytest.fixture
def replicas(tmp_path):
    """A folder with two files that are all in memory, and clean, so that they can be dropped."""
    if run("stat", "-f", "-c", "%T", tmp_path).stdout.strip() == "tmpfs":
        pytest.skip(f"{tmp_path} is in memory by its nature; give --basetemp on a disk")
    folder = tmp_path / "replicas"
    folder.mkdir()
    for name in ("a", "b"):
        with (folder / name).open("wb") as file:
            file.write(os.urandom(SIZE))
            file.flush()
            os.fsync(file.fileno())
    return folder


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """Makes stand-ins for root's helper, which a stand-in for sudo runs; root itself calls it without."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    script(folder / "sudo", '[ "$1" = -n ] && shift && exec "$@"')
    return lambda line: script(folder / "tierbench-flush", line)


def flush(*arguments):
    return run(PYTHON, "-", *arguments, input=FLUSH)


def report(*arguments):
    result = flush(*arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def report_here(monkeypatch, capsys, *arguments):
    """The same by this process, of which parts were replaced."""
    monkeypatch.setattr("sys.argv", ["flush", *map(str, arguments)])
    flush_module.main()
    return json.loads(capsys.readouterr().out)


def test_no_flush_leaves_caches_warm_fadvise_empties_them_and_a_folder_within_is_unmeasured(replicas):
    result = report("--strategy", "none", "--directory", replicas)
    assert result["resident_after_bytes"] == result["bytes"] == 2 * SIZE
    assert result["status"] == "still-warm"
    assert flush("--strategy", "none", "--directory", replicas, "--strict").returncode == 1
    result = report("--strategy", "fadvise", "--directory", replicas)
    assert (result["resident_after_bytes"], result["status"]) == (0, "ok")
    assert report("--strategy", "none", "--directory", replicas)["resident_after_bytes"] == 0
    (replicas / "run1").mkdir()
    assert report("--strategy", "fadvise", "--directory", replicas)["status"] == "unmeasured"


@pytest.mark.parametrize("kind", ["zfs", "gpfs"])
def test_what_lies_on_zfs_or_gpfs_nobody_can_measure(kind, replicas, monkeypatch):
    mount = Mount("tank", str(replicas), kind)
    monkeypatch.setattr(flush_module, "all_mounts", lambda: [mount])
    assert flush_module.pages_of(str(replicas / "a"), flush_module.with_own_cache()).resident is None
    assert flush_module.pages_of(str(replicas / "a"), set()).resident == SIZE


def test_one_file_that_cannot_be_measured_hides_no_warm_ones(replicas, monkeypatch, capsys):
    def pages_of(path, _):
        return SimpleNamespace(bytes=SIZE, resident=None if path.endswith("a") else SIZE)

    monkeypatch.setattr(flush_module, "pages_of", pages_of)
    result = report_here(monkeypatch, capsys, "--strategy", "none", "--directory", replicas)
    assert (result["status"], result["resident_after_bytes"]) == ("still-warm", SIZE * (result["files"] - 1))


@pytest.mark.parametrize(("resident", "status"), [(9, "ok"), (11, "still-warm")])
def test_a_hundredth_in_memory_is_warm(replicas, monkeypatch, capsys, resident, status):
    monkeypatch.setattr(flush_module, "pages_of", lambda *_: flush_module.Pages(1000, resident))
    assert report_here(monkeypatch, capsys, "--strategy", "none", "--directory", replicas)["status"] == status


@pytest.mark.parametrize("directory", ["/nowhere", ""])
def test_files_that_are_not_here_are_no_warm_files(directory):
    result = report("--strategy", "fadvise", "--directory", directory)
    assert (result["files"], result["status"]) == (0, "ok")


@pytest.mark.parametrize(("strategy", "status"), [("lustre", "unmeasured"), ("fadvise", "ok")])
def test_what_a_server_with_zfs_has_of_files_that_it_does_not_see_nobody_can_measure(
    helper, monkeypatch, capsys, strategy, status
):
    monkeypatch.setattr(flush_module, "ARC", __file__)
    options = ["--strategy", strategy, "--directory", "", "--helper", helper("exit 0")]
    assert report_here(monkeypatch, capsys, *options)["status"] == status


def test_the_helper_is_told_the_strategy_and_a_missing_one_is_reported(replicas, helper):
    told = replicas.parent / "told"
    told_all = helper(f'echo "$@" > {told}')
    report("--strategy", "lustre", "--directory", replicas, "--helper", told_all)
    assert told.read_text() == "lustre\n"
    result = report("--strategy", "drop_caches", "--directory", replicas, "--helper", replicas / "helper")
    assert result["status"] == "no-helper"
    refuses = helper("echo not today; exit 1")
    result = report("--strategy", "lustre", "--directory", replicas, "--helper", refuses)
    assert (result["status"], result["message"].endswith("not today")) == ("refused", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to read as somebody else")
@pytest.mark.parametrize(("closed", "mode"), [("folder/file", 0o644), ("folder/file", 0o600), ("folder", 0o644)])
def test_pages_of_others_files_are_not_guessed(open_folder, closed, mode):
    """Nor are those of files that may not be opened or found taken for none: others may have read them."""
    (open_folder / "folder").mkdir(mode=0o755)
    (open_folder / "folder/file").write_text("of root")
    (open_folder / closed).chmod(mode)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]
    asked = ["--strategy", "fadvise", "--directory", open_folder / "folder"]
    result = json.loads(run(*nobody, "-", *asked, input=FLUSH).stdout)
    assert (result["status"], "resident_after_bytes" in result) == ("unmeasured", False)


def test_what_is_no_directory_is_a_wrong_call():
    result = flush("--strategy", "none", "--directory", "/dev/null")
    assert (result.returncode, result.stdout) == (2, "")


@pytest.mark.parametrize("words", [[], ["everything"], ["drop_caches", "/etc"]])
def test_the_helper_takes_no_other_words(words):
    assert run("sh", HELPER, *words).returncode == 2
