"""What `tierbench plan` doubts before anything is run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

from tests.unit.quick_plan import larger_quick
from tierbench.dags.experiment import Experiment, find_experiment, load_experiment, shipped_experiments
from tierbench.dags.plan import expand
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Links, Site, find_site
from tierbench.submit.preflight import long_enough, preflight

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
