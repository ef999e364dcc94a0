"""What would go wrong, or out, is told before anything is written."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tests.unit.quick_plan import larger_quick
from tierbench.dags.experiment import Experiment, find_experiment, load_experiment, shipped_experiments
from tierbench.dags.plan import expand
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Links, Site, find_site
from tierbench.submit.cli import main
from tierbench.submit.planning import asked_experiment
from tierbench.submit.pool import Slots
from tierbench.submit.preflight import long_enough, preflight, samplers_in_time

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


def test_the_doctor_asks_what_a_run_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = experiment(tmp_path, with_variable("DB_PASSWORD", '"abc"'))
    assert main(["doctor", "--site", "testbed", "--experiment", path, "--quick"]) == 1  # for want of a pool
    told = capsys.readouterr().out
    assert "environment.DB_PASSWORD: is a secret by its looks" in told
    assert f"`tierbench replicas {path} --site testbed` makes them" in told


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


# -- trials that are too short ---------------------------------------------------------------------------

REAL = find_site("fiu-uf-2014")
QUICK = larger_quick()


def larger(size_mb: float) -> Experiment:
    ((name, replicas),) = QUICK.replicas.items()
    return replace(QUICK, replicas={name: replace(replicas, size_mb=size_mb)})


def told(site: Site, experiment: Experiment) -> list[str]:
    return [finding.line for finding in long_enough(expand(site, experiment, {}), site, experiment)]


def test_trials_that_are_too_short_at_a_real_sites_rates_are_doubted() -> None:
    (line,) = told(REAL, QUICK)
    assert "24 trials are too short: the shortest reads for 0.6 s, of which a sampling period of 0.2 s is 34 %" in line
    assert "make size_mb 4 times as large" in line
    assert line in [found.line for found in preflight(expand(REAL, QUICK, {}), REAL, QUICK, "no pool", "quick")]


def test_what_is_advised_is_enough() -> None:
    assert told(REAL, larger(3 * 64))
    assert not told(REAL, larger(4 * 64))


def test_the_first_experiment_of_the_readme_is_large_enough_for_the_site_file_that_it_copies(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    block = text.split("in `first.toml`:")[1].split("and run it:")[0]
    block = block.replace(
        '["xrootd", "mount"]', '["lan-xrootd", "direct"]'
    )  # as init-site calls them, and as this site does
    (tmp_path / "first.toml").write_text(dedent(block), encoding="utf-8")
    assert not told(REAL, load_experiment(tmp_path / "first.toml"))


def test_a_site_that_does_not_know_its_links_is_not_told() -> None:
    assert not told(replace(REAL, links=Links()), QUICK)


def test_no_experiment_that_comes_with_tierbench_is_doubted_on_the_testbed() -> None:
    testbed, doubted, asked = find_site("testbed"), [], 0
    for name in shipped_experiments():
        with suppress(ConfigError):  # three of real size ask for what the testbed has not
            doubted += told(testbed, find_experiment(name))
            asked += 1
    assert not doubted
    assert asked > 30
