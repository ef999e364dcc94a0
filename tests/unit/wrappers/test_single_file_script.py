"""Scripts of several parts in one file, run as what they are: alone, and by way of standard input."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.shipped import PYTHON, texts
from tierbench.dags.clients import as_parts, shipped_clients
from tierbench.dags.shipping import SCRIPTS
from tierbench.errors import TierbenchError
from tierbench.single_file_script import single_file

ISOLATED = [PYTHON, "-I"]  # nothing is imported from here


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = tmp_path_factory.mktemp("joined") / "client.py"
    script.write_text(single_file("tierbench.wrappers.main", as_parts([shipped_clients()["dd"]])))
    return script


def run(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **more)  # type: ignore[call-overload,no-any-return]


def test_a_joined_script_needs_nothing_beside_it(client: Path, tmp_path: Path) -> None:
    (tmp_path / "replicas.txt").write_text(f"{client}\n")
    asked = ["--trial", "t", "--index", "0", "--client", "dd", "--replicas", tmp_path / "replicas.txt"]
    assert '"status": "ok"' in run(*ISOLATED, client, *asked).stdout


def test_a_joined_script_can_come_by_standard_input(client: Path) -> None:
    assert "JSON lines" in run(*ISOLATED, "-", "--help", input=client.read_text()).stdout


def test_its_help_is_the_entrys_with_the_exit_codes(client: Path) -> None:
    assert "Exit codes:" in run(*ISOLATED, client, "--help").stdout


def test_a_trouble_in_a_part_names_the_part(client: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(client.read_text().replace("def wall_ns", "1 / 0\n\n\ndef wall_ns"))
    assert 'File "tierbench/host.py", line ' in run(*ISOLATED, broken, "--help").stderr


def test_a_part_that_would_end_the_quotation_is_refused() -> None:
    with pytest.raises(TierbenchError, match="quoting: holds"):
        single_file("tierbench.wrappers.main", {"quoting": "text = '''odd'''"})


def test_a_part_lies_in_it_as_it_is_in_the_package(client: Path) -> None:
    dd = shipped_clients()["dd"]
    assert dd.text in client.read_text()


def test_what_is_shipped_asks_for_no_more_than_python_3_6() -> None:
    """Grammar and library, part by part; `make unit` runs them."""
    entries = {name: f"{package}.{name.removesuffix('.py')}" for package, name in SCRIPTS}
    entries |= {"client.py": "tierbench.wrappers.main", "probe.py": "tierbench.wrappers.probe"}
    joined_in = re.findall(r"^PARTS\['([a-z0-9_.]+)'\]", b"".join(texts().values()).decode(), re.MULTILINE)
    parts = {str(importlib.util.find_spec(module).origin) for module in (*entries.values(), *joined_in)}
    vermin = [
        str(Path(sys.executable).with_name("vermin")),
        "--target=3.6-",
        "--violations",
        "--no-tips",
        *sorted(parts),
    ]
    checked = subprocess.run(vermin, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
