"""How often trials are repeated: the rule in an experiment, and when it is satisfied."""

import csv
import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.quick_plan import POOL, previewed, written
from tierbench import names
from tierbench.dags.experiment import load_experiment
from tierbench.dags.plan import expand
from tierbench.dags.trial_settings import Until
from tierbench.errors import ConfigError
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.tables.write import trial_tables
from tierbench.postprocess.verdict.counting import enough, enough_without
from tierbench.submit.cli import main

RULE = Until(within_pct=5, at_least=3, at_most=6)


def rows(*rates, **changes):
    return [
        TrialRow(repeat=repeat, position=repeat, **{"state": "complete", "delivered_mbps": rate, **changes})
        for repeat, rate in enumerate(rates)
    ]


@pytest.fixture
def load(variant):
    return lambda repeats: variant(f"repeats = {repeats}")


@pytest.mark.parametrize(
    ("rates", "is_enough"),
    [
        ((100, 101, 99), True),
        ((100, 120, 80), False),
        ((100, 100), False),  # too few, however close
        ((10, 100, 20, 90, 30), False),
        ((10, 100, 20, 90, 30, 80), True),  # at_most
        ((100, 101, 99, 50), False),  # an outlier counts
    ],
)
def test_trials_that_are_close_are_enough(rates, is_enough):
    assert enough(rows(*rates), RULE) == is_enough


@pytest.mark.parametrize("flaw", [{"state": "incomplete"}, {"verdict": "INVALID"}, {"delivered_mbps": None}])
def test_what_does_not_count_brings_the_end_no_nearer(flaw):
    assert not enough([*rows(100, 101), *rows(99, **{"delivered_mbps": 99, **flaw})], RULE)


def test_a_number_is_reached_or_not():
    assert (enough(rows(1, 9), 2), enough(rows(1), 2)) == (True, False)


def test_a_plan_holds_the_most_repetitions_and_says_that_not_all_may_be_needed(site, load):
    experiment = load("{ within_pct = 5, at_most = 4 }")
    assert max(trial.repeat for trial in expand(site, experiment, {}).trials) == 4
    assert "until the mean rate is known to ±5 %, 3 … 4 times" in previewed(site, experiment)


@pytest.mark.parametrize(
    ("repeats", "complaint"),
    [
        ("{ within = 5 }", 'repeats.within: unknown key (did you mean "within_pct"?)'),
        ("{ at_most = 5 }", 'needs within_pct, a number, or until = "answered"'),
        ("{ within_pct = 0 }", "repeats.within_pct: must be in 0.1 … 100, not 0"),
        ("{ within_pct = 5, at_least = 1 }", "repeats.at_least: must be in 2 … 1000, not 1"),
        ("{ within_pct = 5, at_least = 9, at_most = 4 }", "repeats: at_most is 4, which is less than at_least, 9"),
        ('"three"', 'repeats: must be a whole number or a table, not "three"'),
        ("true", "repeats: must be a whole number or a table, not true"),
        ("0", "repeats: must be in 1 … 1000, not 0"),
    ],
)
def test_a_wrong_rule_is_explained(load, repeats, complaint):
    with pytest.raises(ConfigError) as error:
        load(repeats)
    assert complaint in str(error.value)


def test_a_variant_replaces_the_rule_and_nothing_else_of_that_name(tmp_path):
    base = """name = "base"
question = "?"
access = ["direct"]
batches = [1]
repeats = { within_pct = 5, at_most = 4 }
workloads.repeats = { client = "dd", replicas = "a", options = { block_kb = 64 } }
replicas.a = { kind = "tree", count = 1, size_mb = 1 }
"""
    (tmp_path / "base.toml").write_text(base)
    changed = 'repeats = { until = "answered", budget = "1h" }\nworkloads.repeats.options = { checksum = true }\n'
    (tmp_path / "variant.toml").write_text(f'extends = "./base.toml"\nname = "variant"\n{changed}')
    experiment = load_experiment(tmp_path / "variant.toml")
    assert experiment.repeats == Until(until="answered", budget="1h")
    options = experiment.workloads["repeats"].options
    assert (options.block_kb, options.checksum) == (64, True)


def repetitions(run, *more_mbps, **changes):
    """The repetitions of a run's only batch, of which the first three are close and have their tables."""
    folders = [
        synthetic.write_trial(run, mbps=mbps, repeat=repeat, index=repeat, **changes)
        for repeat, mbps in enumerate((400.0, 404.0, 396.0, *more_mbps), 1)
    ]
    for folder in folders[:3]:
        trial_tables(folder)
    of_all = {"configuration": "lan-xrootd.root", "jobs": 4}
    trials = [{"id": path.name, "name": path.name, "repeat": n, **of_all} for n, path in enumerate(folders, 1)]
    (run / names.PLAN).write_text(json.dumps({"trials": trials}))
    ask_for(run, {"within_pct": 5.0, "at_least": 3, "at_most": 6})
    return folders


@pytest.fixture
def run(tmp_path):
    repetitions(tmp_path, 400.0)
    return tmp_path


def ask_for(run, repeats):
    (run / names.EXPERIMENT).write_text(json.dumps({"repeats": repeats}))


def test_the_command_tells_by_its_exit_status(run, capsys):
    assert main(["enough", str(run), "lan-xrootd.root.x004.r4"]) == 0
    assert main(["enough", str(run), "lan-xrootd.root.x004.r3"]) == 1
    assert "r4: not needed any more\nlan-xrootd.root.x004.r3: needed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mishap", "repeat"),
    [
        (lambda run: (run / "experiment.json").unlink(), 4),
        (lambda run: ask_for(run, {}), 4),
        (lambda _: None, 9),  # is not planned
    ],
)
def test_an_error_has_a_status_of_its_own(run, mishap, repeat):
    mishap(run)
    assert main(["enough", str(run), f"lan-xrootd.root.x004.r{repeat}"]) == 2


@pytest.mark.parametrize("repeats", [4, {"within_pct": 1.0}])
def test_with_a_number_each_trial_is_needed_and_a_tighter_rule_needs_more(run, repeats):
    ask_for(run, repeats)
    assert not enough_without(run, "lan-xrootd.root.x004.r4")


def test_a_trial_before_it_that_was_invalid_does_not_count(run):
    path = run / "trials/lan-xrootd.root.x004.r2/trials.csv"
    with path.open(newline="") as file:
        [row] = csv.DictReader(file)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*row, "verdict"] if "verdict" not in row else list(row))
        writer.writeheader()
        writer.writerow({**row, "verdict": "INVALID"})
    assert not enough_without(run, "lan-xrootd.root.x004.r4")


def test_a_written_run_can_be_asked(site, load, tmp_path):
    experiment = load("{ within_pct = 5, at_most = 3 }")
    last = expand(site, experiment, POOL).trials[-1]
    assert not enough_without(written(experiment, tmp_path / "run"), last.id)
