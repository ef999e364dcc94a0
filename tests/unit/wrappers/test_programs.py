"""The ROOT programs: for which ROOT they are compiled."""

import importlib.util
import os

import pytest

from tierbench.errors import UnmetNeed
from tierbench.submit.programs import find_root
from tierbench.wrappers.clients.root import Root

HEADER = """\
#define ROOT_VERSION_MAJOR 6
#define ROOT_VERSION_MINOR 8
#define ROOT_VERSION_PATCH 0  // without leading zeroes
#define ROOT_VERSION(a,b,c) (((a) << 16) + ((b) << 8) + (c))
"""


@pytest.fixture
def wheel(tmp_path):
    package = tmp_path / "ROOT"
    for name, text in {"__init__.py": "", "bin/root.exe": "", "include/ROOT/RVersion.hxx": HEADER}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def test_of_a_wheel_roots_own_version_is_told(wheel, monkeypatch):
    monkeypatch.syspath_prepend(wheel.parent)
    assert find_root().version == "6.08.00"


def test_who_makes_files_finds_the_root_that_the_systems_python_has(wheel, tmp_path, monkeypatch):
    """As jobs do, whose Python that is: what the doctor calls good there is good enough here."""
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\necho {wheel}/__init__.py\n")
    python.chmod(0o755)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(os, "defpath", "/nowhere")
    assert "there is no ROOT" in Root.missing({"setup": ""})
    with pytest.raises(UnmetNeed, match="there is no ROOT here"):
        find_root()
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    assert Root.missing({"setup": ""}) == ""
    assert find_root().version == "6.08.00"
