"""What a report compares, along what and in which panels: as an experiment asks, or as suggests itself."""

from pathlib import Path

import pytest

from tierbench.dags.experiment import find_experiment, load_experiment
from tierbench.dags.layout import Layout, Report, layout
from tierbench.dags.levels import Factor, Level
from tierbench.dags.plan import expand, from_json, to_json
from tierbench.errors import ConfigError
from tierbench.site_configs.site import find_site
from tierbench.submit.preflight import comparison

WAYS, ROOT, BATCHES = ("direct", "lan-xrootd"), ("root",), (4, 8)


def factors(
    access: tuple[Level, ...] = WAYS,
    workload: tuple[Level, ...] = ROOT,
    jobs: tuple[Level, ...] = BATCHES,
    **axes: tuple[Level, ...],
) -> list[Factor]:
    levels = {"access": access, "workload": workload, "jobs": jobs, **axes}
    return [Factor(name, those) for name, those in levels.items()]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (factors(), Layout("access", "jobs", ("workload",))),
        (factors(workload=("root", "higgs")), Layout("access", "jobs", ("workload",))),
        (factors(access=("direct",), jobs=(4,)), Layout("access", "jobs", ("workload",))),
        (factors(cache=(0, 30)), Layout("cache", "jobs", ("workload", "access"))),
        (factors(cache=(30,)), Layout("access", "jobs", ("workload",))),
        (factors(jobs=(4,), cache=(0, 30), rtt=(1, 9)), Layout("cache", "rtt", ("workload", "access"))),
        (factors(cache=(0, 30), rtt=(1, 9)), Layout("cache", "jobs", ("workload", "access", "rtt"))),
        (factors(jobs=(4,), data=("small", "large")), Layout("data", "jobs", ("workload", "access"))),
    ],
)
def test_a_layout_suggests_itself(of: list[Factor], expected: Layout) -> None:
    assert layout(Report(), of) == expected


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({"lines": "access", "x": "rtt"}, Layout("access", "rtt", ("workload", "jobs", "cache"))),
        ({"lines": "jobs"}, Layout("jobs", "cache", ("workload", "access", "rtt"))),
        ({"x": "cache"}, Layout("rtt", "cache", ("workload", "access", "jobs"))),
        ({"panels": ("rtt",)}, Layout("cache", "jobs", ("rtt", "workload", "access"))),
        ({"lines": "workload", "x": "access"}, Layout("workload", "access", ("jobs", "cache", "rtt"))),
    ],
)
def test_what_is_asked_for_leaves_the_rest_as_panels(report: dict[str, str], expected: Layout) -> None:
    assert layout(Report(**report), factors(cache=(0, 30), rtt=(1, 9))) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ('lines = "cash"', r'report\.lines: there is no "cash" \(did you mean "cache"'),
        ('x = "cache"\nlines = "cache"', "report: cache has two places"),
        ('x = "pair"', r'report\.x: there is no "pair"'),
        ('lines = "pair"\nx = "access"', "report: access is part of the pair"),
        ('panels = ["jobs", "joobs"]', r'report\.panels: there is no "joobs"'),
        ('colour = "red"', r"report\.colour: unknown key"),
    ],
)
def test_a_report_of_what_is_no_factor_is_refused(tmp_path: Path, report: str, words: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = "tree-cache"\nname = "mine"\n[report]\n{report}\n')
    with pytest.raises(ConfigError, match=words):
        load_experiment(path)


OWN_CLIENTS = """extends = "quick"
name = "clients"
access = ["lan-xrootd", "direct"]
[workloads.root]
access = ["lan-xrootd"]
[workloads.dd]
client = "dd"
replicas = "root-tree"
access = ["direct"]
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", Layout("pair", "jobs", ())),
        ('[report]\nx = "jobs"\nlines = "access"', Layout("access", "jobs", ("workload",))),
        ('[report]\nlines = "pair"\nbaseline = "direct/dd"', Layout("pair", "jobs", (), baseline="direct/dd")),
        ('[axes.flush]\nvalues = [true, false]\nsets = "flush"', Layout("flush", "jobs", ("workload", "access"))),
    ],
)
def test_accesses_with_clients_of_their_own_are_compared_as_pairs(tmp_path: Path, more: str, expected: Layout) -> None:
    path = tmp_path / "clients.toml"
    path.write_text(f"{OWN_CLIENTS}{more}\n")
    plan = expand(find_site("testbed"), load_experiment(path), {})
    assert plan.report == expected
    assert from_json(to_json(plan)) == plan
    assert bool(list(comparison(plan))) == (expected.lines == "access")


def test_the_plan_has_the_layout_and_keeps_it() -> None:
    plan = expand(find_site("testbed"), find_experiment("tree-cache"), {})
    assert plan.report == Layout("cache", "jobs", ("workload",))
    assert from_json(to_json(plan)) == plan


def test_an_experiment_along_one_option_is_a_few_lines() -> None:
    text = (Path(__file__).parents[3] / "dags/experiments/tree-cache.toml").read_text(encoding="utf-8")
    assert len([line for line in text.splitlines() if line and not line.startswith("#")]) < 15
