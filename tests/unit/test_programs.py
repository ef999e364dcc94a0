"""The ROOT programs: for which ROOT they are compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierbench.submit.programs import find_root

HEADER = """\
#define ROOT_VERSION_MAJOR 6
#define ROOT_VERSION_MINOR 8
#define ROOT_VERSION_PATCH 0  // without leading zeroes
#define ROOT_VERSION(a,b,c) (((a) << 16) + ((b) << 8) + (c))
"""


def test_of_a_wheel_roots_own_version_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ROOT"
    for name, text in {"__init__.py": "", "bin/root.exe": "", "include/ROOT/RVersion.hxx": HEADER}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert find_root().version == "6.08.00"
