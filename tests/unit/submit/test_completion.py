"""Completion, in real shells: what the script's function makes of what is typed."""

import shlex
import shutil
import subprocess

import pytest

from tierbench.submit.cli import main

TYPED = {
    "tierbench doc": "doctor",
    "tierbench nightly pau": "pause",
    "tierbench plan quick --sit": "--site",
    "tierbench plan extenci-flavours-s": "extenci-flavours-scaled",
    "tierbench plan quick --site testb": "testbed",
    "tierbench plan my-": "my-experiment.toml",
    "tierbench watch mon": "runs/monday-1",
    "tierbench watch runs/mon": "runs/monday-1",
    "tierbench completion z": "zsh",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    (folder / "runs/monday-1").mkdir(parents=True)
    (folder / "my-experiment.toml").touch()
    for shell in ("bash", "zsh"):
        with pytest.MonkeyPatch.context() as patch, (folder / shell).open("w") as file:
            patch.setattr("sys.stdout", file)
            assert main(["completion", shell]) == 0
    return folder


@pytest.fixture(scope="module")
def completed(folder):
    lines = ["source ./bash"]
    for typed in TYPED:
        words = typed.split()
        lines.append(f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; COMPREPLY=(); _shtab_tierbench")
        lines.append('echo "${COMPREPLY[@]}"')
    command = ["bash", "--norc", "--noprofile", "-c", "\n".join(lines)]
    shell = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return dict(zip(TYPED, shell.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("typed", TYPED)
def test_what_is_typed_is_completed(completed, typed):
    assert completed[typed] == TYPED[typed]


def test_zsh_takes_its_script(folder):
    assert "_tierbench_run" in (folder / "zsh").read_text()
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n", str(folder / "zsh")], check=True)
