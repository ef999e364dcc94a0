"""An experiment may name a level that all others are compared with, and the answer says what each gets of it."""

import dataclasses

import pytest

from tests.unit.synthetic_report import Shape, write_run
from tierbench.dags.experiment import load_experiment
from tierbench.errors import ConfigError
from tierbench.postprocess.report.answer import answer
from tierbench.postprocess.tables.load_run import read_results

FLAVOURS = Shape(
    rates={"near": 400.0},
    batches=(1,),
    samples=False,
    axes={"flavour": {"none": 1, "krb5": 1.01, "krb5i": 0.6, "krb5p": 0.2}},
    report={"lines": "flavour", "baseline": "none"},
)


def answered(folder, shape):
    results = read_results(write_run(folder / "run", shape), lambda _: None)
    return answer(results, results.panels[0])


def test_each_level_is_compared_with_the_baseline_and_the_like_are_told_as_such(tmp_path):
    found = answered(tmp_path, FLAVOURS)
    assert found.clear
    assert found.sentence.startswith("With 1 job of root by near, against flavour=none (")
    assert "flavour=krb5i 0.60 (0.59–0.61) and flavour=krb5p 0.20 (0.20–0.20) of it" in found.sentence
    assert "equivalent within 5\N{NO-BREAK SPACE}%: flavour=krb5 1.01 (0.98–1.04)" in found.sentence


def test_what_is_near_but_not_known_well_is_not_called_as_much(tmp_path):
    found = answered(tmp_path, dataclasses.replace(FLAVOURS, interval=0.2))
    assert not found.clear
    assert "not distinguishable: flavour=krb5 1.01 (0.75–1.45)" in found.sentence


def test_a_level_without_an_interval_is_said_to_have_none(tmp_path):
    found = answered(tmp_path, dataclasses.replace(FLAVOURS, repeats=1))
    assert not found.clear
    assert "no interval, too few repetitions: flavour=krb5 1.01, flavour=krb5i 0.60 and" in found.sentence
    assert "distinguishable" not in found.sentence


EXPERIMENT = """
extends = "quick"
name = "mine"
[axes.cache_mb]
values = [20, 30]
sets = "workloads.root.options.cache_mb"
[report]
"""


@pytest.mark.parametrize("report", ['lines = "cache_mb"\nbaseline = 31', 'baseline = "0"'])
def test_a_baseline_is_a_level_of_what_is_compared(tmp_path, report):
    (tmp_path / "mine.toml").write_text(EXPERIMENT + report)
    with pytest.raises(ConfigError, match=r"baseline: .* is no level of report\.lines"):
        load_experiment(tmp_path / "mine.toml")
