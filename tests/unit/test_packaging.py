"""What a user installs is the whole package and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FOLDERS = {
    "tierbench": "tierbench",
    "tierbench/dags": "dags",
    "tierbench/submit": "submit",
    "tierbench/wrappers": "wrappers",
    "tierbench/wrappers/clients": "wrappers/clients",
    "tierbench/monitors": "monitors",
    "tierbench/postprocess": "postprocess",
    "tierbench/postprocess/plots": "postprocess/plots",
    "tierbench/postprocess/report": "postprocess/report",
    "tierbench/testbed": "testbed",
    "tierbench/site_configs": "site-configs",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from what git tracks."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(["git", "-C", PROJECT, "ls-files", "-z"], capture_output=True, check=True).stdout
    copy = ["xargs", "-0", "cp", "--parents", "--no-dereference", "-t", source]
    subprocess.run(copy, input=tracked, cwd=PROJECT, check=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", target, source]
    subprocess.run(build, check=True)
    (path,) = target.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheel(built: zipfile.ZipFile) -> set[str]:
    """The names of the files of the package in the wheel."""
    return {name for name in built.namelist() if ".dist-info/" not in name}


def tracked(folder: str) -> set[str]:
    names = subprocess.run(["git", "ls-files", folder], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    return {name for name in names.split() if not (PROJECT / name).is_symlink()}


@pytest.mark.parametrize("package", FOLDERS)
def test_the_wheel_holds_all_that_belongs_to(wheel: set[str], package: str) -> None:
    folder = FOLDERS[package]
    expected = {package + name.removeprefix(folder) for name in tracked(folder)}
    assert {name for name in expected if name not in wheel} == set()


def test_nothing_else_is_in_the_wheel(wheel: set[str]) -> None:
    expected = {package + name.removeprefix(folder) for package, folder in FOLDERS.items() for name in tracked(folder)}
    assert wheel - expected == set()


def test_the_wheel_says_its_licence_and_carries_it(built: zipfile.ZipFile) -> None:
    folder = next(name.partition("/")[0] for name in built.namelist() if ".dist-info/" in name)
    assert "License-Expression: Apache-2.0" in built.read(f"{folder}/METADATA").decode().splitlines()
    assert "Apache License" in built.read(f"{folder}/licenses/LICENSE").decode()
