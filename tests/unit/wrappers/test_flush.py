"""The flush, run as a process as on a worker: what it reports is measured, and never assumed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.unit.shipped import PYTHON, texts

FLUSH = texts()["flush.py"].decode()
SIZE = 1_000_001


@pytest.fixture
def replicas(tmp_path: Path) -> Path:
    """A folder with two files that are all in memory, and clean, so that they can be dropped."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout
    if kind.strip() == "tmpfs":
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
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes stand-ins for root's helper, which a stand-in for sudo runs; root itself calls it without."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")

    def make(name: str, lines: str) -> Path:
        script = folder / name
        script.write_text(f"#!/bin/sh\n{lines}\n")
        script.chmod(0o755)
        return script

    make("sudo", '[ "$1" = -n ] && shift && exec "$@"')
    return lambda lines: make("tierbench-flush", lines)


def flush(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [PYTHON, "-", *map(str, arguments)]
    return subprocess.run(command, input=FLUSH, capture_output=True, text=True, check=False)


def report(*arguments: str | Path) -> dict[str, Any]:
    result = flush(*arguments)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_pages_in_memory_are_found(replicas: Path) -> None:
    found = report("--strategy", "none", "--directory", replicas)
    assert found["resident_before_bytes"] == found["resident_after_bytes"] == found["bytes"] == 2 * SIZE


def test_no_flush_leaves_warm_caches_and_says_so(replicas: Path) -> None:
    assert report("--strategy", "none", "--directory", replicas)["status"] == "still-warm"


def test_measuring_reads_nothing(replicas: Path) -> None:
    report("--strategy", "fadvise", "--directory", replicas)
    assert report("--strategy", "none", "--directory", replicas)["resident_before_bytes"] == 0


def test_fadvise_empties_the_cache(replicas: Path) -> None:
    found = report("--strategy", "fadvise", "--directory", replicas)
    assert (found["resident_after_bytes"], found["status"]) == (0, "ok")


def test_fadvise_keeps_to_the_files_that_are_listed(replicas: Path) -> None:
    listing = replicas.parent / "replicas.txt"
    listing.write_text(f"{replicas}/a\t{SIZE}\nroot://server:1094/{replicas}/b\t{SIZE}\n")
    assert report("--strategy", "fadvise", "--paths-from", listing)["files"] == 1
    assert report("--strategy", "none", "--directory", replicas)["resident_after_bytes"] == SIZE


def test_files_that_are_not_here_are_no_warm_files(tmp_path: Path) -> None:
    found = report("--strategy", "fadvise", "--directory", tmp_path / "nowhere")
    assert (found["files"], found["status"]) == (0, "ok")


def test_a_host_without_the_replicas_may_have_no_directory() -> None:
    assert report("--strategy", "fadvise", "--directory", "")["files"] == 0


def test_a_missing_helper_is_reported(replicas: Path) -> None:
    found = report("--strategy", "drop_caches", "--directory", replicas, "--helper", replicas / "helper")
    assert found["status"] == "no-helper"


def test_the_helper_is_told_the_strategy(replicas: Path, helper: Callable[[str], Path]) -> None:
    told = replicas.parent / "told"
    script = helper(f'echo "$@" > {told}')
    report("--strategy", "lustre", "--directory", replicas, "--helper", script)
    assert told.read_text() == "lustre\n"


def test_a_helper_that_fails_is_a_refusal_with_its_words(replicas: Path, helper: Callable[[str], Path]) -> None:
    script = helper("echo not today; exit 1")
    found = report("--strategy", "lustre", "--directory", replicas, "--helper", script)
    assert (found["status"], found["message"].endswith("not today")) == ("refused", True)


def test_a_helper_that_changes_nothing_leaves_a_warm_cache(replicas: Path, helper: Callable[[str], Path]) -> None:
    found = report("--strategy", "drop_caches", "--directory", replicas, "--helper", helper("exit 0"))
    assert found["status"] == "still-warm"


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to read as somebody else")
def test_pages_of_others_files_are_not_guessed() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "file").write_text("of root")
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]
        command = [*nobody, "-", "--strategy", "fadvise", "--directory", folder]
        result = subprocess.run(command, input=FLUSH, capture_output=True, text=True, check=True)
    found = json.loads(result.stdout)
    assert (found["status"], "resident_after_bytes" in found) == ("unmeasured", False)


def test_strict_makes_a_warm_cache_a_failure(replicas: Path) -> None:
    assert flush("--strategy", "none", "--directory", replicas, "--strict").returncode == 1


def test_an_unreadable_list_is_a_wrong_call(tmp_path: Path) -> None:
    result = flush("--strategy", "none", "--paths-from", tmp_path / "nothing")
    assert (result.returncode, result.stdout) == (2, "")


def test_runs_on_python_3_6() -> None:
    ast.parse(FLUSH, feature_version=(3, 6))


HELPER = Path(str(resources.files("tierbench.site_configs") / "tierbench-flush"))


@pytest.mark.parametrize("words", [[], ["everything"], ["drop_caches", "/etc"]])
def test_the_helper_takes_no_other_words(words: list[str]) -> None:
    assert subprocess.run(["sh", str(HELPER), *words], capture_output=True, check=False).returncode == 2
