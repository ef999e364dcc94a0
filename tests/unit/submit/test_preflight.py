"""What would go wrong, or out, is told before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierbench.dags.plan import expand
from tierbench.site_configs.site import find_site
from tierbench.submit.cli import main
from tierbench.submit.planning import asked_experiment
from tierbench.submit.pool import Slots
from tierbench.submit.preflight import samplers_in_time

CHECKED = """
extends = "quick"
name = "checked"
flush = false
access = ["direct"]
[workloads.root]
client = "dd"
replicas = "noise"
options = { checksum = true }
[replicas.noise]
kind = "random"
count = 8
size_mb = 1
"""
TOKEN = ".".join(["eyJhbGciOiJSUzI1NiJ9", "e30", "c2lnbmF0dXJl"])


def experiment(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def with_variable(name: str, value: str) -> str:
    return f'extends = "quick"\nname = "mine"\n[workloads.root]\nenvironment = {{ {name} = {value} }}\n'


@pytest.mark.parametrize(
    ("name", "value", "doubted"),
    [
        ("BEARER_TOKEN", '"abc"', True),
        ("DB_PASSWORD", '"abc"', True),
        ("SOMETHING", f'"{TOKEN}"', True),
        ("BEARER_TOKEN", '{ from_env = "MINE" }', False),
        ("BEARER_TOKEN_FILE", '"/run/token"', False),
        ("XRD_STREAMTIMEOUT", '"30"', False),
    ],
)
def test_a_secret_in_the_open_is_doubted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: str, doubted: bool
) -> None:
    assert main(["plan", experiment(tmp_path, with_variable(name, value)), "--site", "testbed"]) == 0
    told = capsys.readouterr().out
    assert (f"environment.{name}: is a secret by its looks" in told) == doubted
    assert TOKEN not in told


def test_checksums_that_nothing_can_be_compared_with_are_refused_before_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [experiment(tmp_path, CHECKED), "--site", "testbed"]
    assert main(["plan", *asked]) == 0
    assert "missing: workloads.root: checksum = true compares with the catalogue" in capsys.readouterr().out
    assert main(["write", *asked, "--into", str(tmp_path / "run")]) == 3
    assert "make them first, or leave it out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("jobs", "doubted"), [(192, []), (1000, ["w1", "w2"])])
def test_a_sampler_beside_too_many_clients_is_doubted_before(tmp_path: Path, jobs: int, doubted: list[str]) -> None:
    """192 clients on two workers of two cores were sampled in time; of 1,000 nothing was for 43 seconds."""
    text = f'extends = "quick"\nname = "mine"\naccess = ["lan-xrootd"]\nbatches = [{jobs}]\n'
    text += f"[replicas.root-tree]\ncount = {jobs}\n"
    site, asked = find_site("testbed"), asked_experiment(experiment(tmp_path, text))
    (pool,) = {site.access[use.access].pool for use in asked.uses()}
    there = {"w1": 600, "w2": 600}
    plan = expand(site, asked, {pool: tuple(there)})
    found = list(samplers_in_time(plan, site, {pool: Slots(there, dict.fromkeys(there, 2))}))
    assert sorted(finding.host for finding in found) == doubted
    assert all("LimitNICE=-10" in finding.remedy for finding in found)
