"""Scripts of several parts in one file, run as what they are: alone, and by way of standard input."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.unit.shipped import PYTHON, texts
from tests.unit.stand_ins import run
from tierbench.dags.clients import as_parts, shipped_clients
from tierbench.dags.shipping import SCRIPTS
from tierbench.errors import TierbenchError
from tierbench.single_file_script import single_file

ISOLATED = [PYTHON, "-I"]  # nothing is imported from here


def test_a_joined_script_needs_nothing_beside_it_can_come_by_standard_input_and_names_its_parts(tmp_path):
    client = tmp_path / "client.py"
    client.write_text(single_file("tierbench.wrappers.main", as_parts([shipped_clients()["dd"]])))
    (tmp_path / "replicas.txt").write_text(f"{client}\n")
    asked = ["--trial", "t", "--index", "0", "--client", "dd", "--replicas", tmp_path / "replicas.txt"]
    assert '"status": "ok"' in run(*ISOLATED, client, *asked).stdout
    assert "Exit codes:" in run(*ISOLATED, "-", "--help", input=client.read_text()).stdout
    broken = tmp_path / "broken.py"
    broken.write_text(client.read_text().replace("def wall_ns", "1 / 0\n\n\ndef wall_ns"))
    assert 'File "tierbench/host.py", line ' in run(*ISOLATED, broken, "--help").stderr


def test_a_part_that_would_end_the_quotation_is_refused():
    with pytest.raises(TierbenchError, match="quoting: holds"):
        single_file("tierbench.wrappers.main", {"quoting": "text = '''odd'''"})


def test_what_is_shipped_asks_for_no_more_than_python_3_6():
    """Grammar and library, part by part; `make unit` runs them."""
    entries = {f"{module.rpartition('.')[2]}.py": f"tierbench.{module}" for module in SCRIPTS}
    entries |= {"client.py": "tierbench.wrappers.main", "probe.py": "tierbench.wrappers.probe"}
    joined_in = re.findall(r"^PARTS\['([a-z0-9_.]+)'\]", b"".join(texts().values()).decode(), re.MULTILINE)
    parts = {str(importlib.util.find_spec(module).origin) for module in (*entries.values(), *joined_in)}
    vermin = Path(sys.executable).with_name("vermin")
    checked = run(vermin, "--target=3.6-", "--violations", "--no-tips", *sorted(parts))
    assert checked.returncode == 0, checked.stdout
