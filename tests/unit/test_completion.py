"""Completion, in real shells: what their own function makes of what is typed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

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
# zsh calls it in this emulation.
SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-c"], "zsh": ["zsh", "-f", "-c"]}
EMULATED = {"bash": "", "zsh": "emulate sh\n"}


@pytest.fixture(scope="module", params=sorted(SHELLS))
def completed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    if not shutil.which(request.param):
        pytest.skip(f"there is no {request.param} here")
    folder: Path = tmp_path_factory.mktemp(request.param)
    (folder / "runs/monday-1").mkdir(parents=True)
    (folder / "my-experiment.toml").touch()
    script = folder / "completion"
    with pytest.MonkeyPatch.context() as patch, script.open("w") as file:
        patch.setattr("sys.stdout", file)
        assert main(["completion", request.param]) == 0
    lines = ["source ./completion", EMULATED[request.param]]
    for typed in TYPED:
        words = typed.split()
        lines.append(f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _tierbench")
        lines.append('echo "${COMPREPLY[@]}"')
    shell = subprocess.run(
        [*SHELLS[request.param], "\n".join(lines)], cwd=folder, env={**os.environ, "HOME": str(folder)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(zip(TYPED, shell.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("typed", TYPED)
def test_what_is_typed_is_completed(completed: Mapping[str, str], typed: str) -> None:
    assert completed[typed] == TYPED[typed]
