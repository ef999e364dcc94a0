"""What a report compares, along what and in which panels: as an experiment asks, or as suggests itself."""

import dataclasses
import json
from pathlib import Path

import pytest

from tierbench.dags.experiment import find_experiment
from tierbench.dags.levels import Factor, Layout, Report, layout
from tierbench.dags.plan import expand, from_json, to_json
from tierbench.errors import ConfigError
from tierbench.postprocess.compare.sequential import question_of
from tierbench.submit.planning import comparison

WAYS, ROOT, BATCHES = ("direct", "lan-xrootd"), ("root",), (4, 8)


def factors(access=WAYS, workload=ROOT, jobs=BATCHES, **axes):
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
def test_a_layout_suggests_itself(of, expected):
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
def test_what_is_asked_for_leaves_the_rest_as_panels(report, expected):
    assert layout(Report(**report), factors(cache=(0, 30), rtt=(1, 9))) == expected


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ('lines = "cash"', r'report\.lines: there is no "cash" \(did you mean "cache"'),
        ('x = "cache"\nlines = "cache"', "report: cache has two places"),
        ('x = "pair"', r'report\.x: there is no "pair"'),
        ('lines = "pair"\nx = "access"', "report: access is part of the pair"),
        ('panels = ["jobs", "joobs"]', r'report\.panels: there is no "joobs"'),
        ('colour = "red"', r"report\.colour: unknown key"),
        ("same_within = 5", r"report\.same_within: must be .*0\.5"),
    ],
)
def test_a_report_of_what_is_no_factor_is_refused(variant, report, words):
    with pytest.raises(ConfigError, match=words):
        variant(f"[report]\n{report}", "tree-cache")


def test_what_counts_as_equal_is_asked_for(variant):
    experiment = variant("report.same_within = 0.1", "tree-cache")
    asked = json.loads(json.dumps(dataclasses.asdict(experiment)))
    plan = {"report": {"lines": "access", "x": "jobs"}, "trials": []}
    assert question_of(plan, asked).same_within == 0.1


OWN_CLIENTS = """
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
def test_accesses_with_clients_of_their_own_are_compared_as_pairs(site, variant, more, expected):
    plan = expand(site, variant(OWN_CLIENTS + more), {})
    assert plan.report == expected
    assert from_json(to_json(plan)) == plan
    assert bool(list(comparison(plan))) == (expected.lines == "access")


def test_the_plan_has_the_layout_and_keeps_it_and_such_an_experiment_is_a_few_lines(site):
    plan = expand(site, find_experiment("tree-cache"), {})
    assert plan.report == Layout("cache", "jobs", ("workload",))
    assert from_json(to_json(plan)) == plan
    text = (Path(__file__).parents[3] / "dags/experiments/tree-cache.toml").read_text(encoding="utf-8")
    assert len([line for line in text.splitlines() if line and not line.startswith("#")]) < 15
