"""What a user installs is the whole package and nothing else."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.unit.stand_ins import run

PROJECT = Path(__file__).parents[2]
FOLDERS = {"tierbench": "tierbench", "tierbench/site_configs": "site-configs"} | {
    f"tierbench/{name}": name for name in ("dags", "submit", "wrappers", "monitors", "postprocess", "testbed")
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel built from what git tracks."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(["git", "-C", PROJECT, "ls-files", "-z"], capture_output=True, check=True).stdout
    copy = ["xargs", "-0", "cp", "--parents", "--no-dereference", "-t", source]
    subprocess.run(copy, input=tracked, cwd=PROJECT, check=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", target, source]
    subprocess.run(build, check=True)
    (path,) = target.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_all_that_belongs_to_the_package_with_its_licence_and_nothing_else(built):
    expected = set()
    for package, folder in FOLDERS.items():
        names = run("git", "ls-files", folder, cwd=PROJECT).stdout.split()
        files = (name for name in names if not (PROJECT / name).is_symlink())
        expected |= {package + name.removeprefix(folder) for name in files}
    assert {name for name in built.namelist() if ".dist-info/" not in name} == expected
    folder = next(name.partition("/")[0] for name in built.namelist() if ".dist-info/" in name)
    assert "License-Expression: Apache-2.0" in built.read(f"{folder}/METADATA").decode().splitlines()
    assert "Apache License" in built.read(f"{folder}/licenses/LICENSE").decode()


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The commands of the wheel, installed in an environment of its own that has what it depends on."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin/python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(built.filename)], check=True)
    return environment / "bin"


@pytest.mark.parametrize("command", [["list"], ["show", "quick"], ["completion", "bash"], ["plan", "--help"]])
def test_the_wheels_commands_need_nothing_else_of_the_project(installed, tmp_path, command):
    dependencies = {"PYTHONPATH": sysconfig.get_path("purelib"), "PATH": os.defpath, "HOME": str(tmp_path)}
    done = run(installed / "tierbench", *command, cwd=tmp_path, env=dependencies)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    where = "import tierbench.submit.cli as cli; print(cli.__file__)"
    path = run(installed / "python", "-c", where, cwd=tmp_path, env=dependencies).stdout
    assert path.startswith(str(installed.parent))


@pytest.mark.parametrize("name", ["Containerfile", "Containerfile.debian"])
def test_the_container_is_made_of_what_the_project_says(built, name):
    """benchmarks/access_point_container.sh builds the second; of the first what it names is held to what is there."""
    text = (PROJECT / "site-configs/container" / name).read_text(encoding="utf-8")
    steps = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (least,) = re.findall(r">=(\d+)\.(\d+)", project["requires-python"])
    for python in re.findall(r"^ARG PYTHON=python(\d+)\.(\d+)$", steps, re.MULTILINE):
        assert tuple(map(int, python)) >= tuple(map(int, least))
    (wheel,) = re.findall(r"/wheel/(\S+\.whl)", steps)
    assert Path(str(built.filename)).match(wheel)
    assert all(f"/bin/{command}" in steps for command in project["scripts"])
    copied = re.findall(r"\S+\.conf\b", text[: text.index("podman")])
    assert len(copied) == 2
    assert all((PROJECT / name).is_file() for name in copied)
    assert "://" not in text
