"""A run that goes on until its question is answered: which trials it takes no more, and what it says of it."""

import dataclasses
import json
import os
import re

import pytest

from tests.unit.postprocess import test_uncertainty as uncertain
from tests.unit.quick_plan import WORKERS, written
from tierbench import json_files, names
from tierbench.dags.experiment import load_experiment
from tierbench.dags.plan import expand
from tierbench.errors import ConfigError
from tierbench.postprocess.compare import sequential
from tierbench.postprocess.compare.sequential import Comparison, Look
from tierbench.site_configs.site import Links, find_site
from tierbench.submit.cli import main
from tierbench.submit.planning import Planned
from tierbench.submit.preview import preview
from tierbench.submit.repetitions import Decision, decide
from tierbench.trials import read_trial

OWN = """
extends = "quick"
name = "own"
access = ["direct", "lan-xrootd", "wan-xrootd-public"]
batches = [4]
repeats = { until = "answered", at_most = 8%s }
"""


def made(folder, more=""):
    (folder / "own.toml").write_text(OWN % more)
    return written(load_experiment(folder / "own.toml"), folder / "run", WORKERS)


def trials(run):
    return list(json.loads((run / names.PLAN).read_text())["trials"])


def measure(run, repeats, ago_s=0.0):
    """As if so many repetitions had been measured, from so long ago on; what was is as it was."""
    for trial in trials(run):
        folder = run / names.trial_directory(trial["id"])
        if trial["repeat"] > repeats or (folder / names.OUTCOME).exists():
            continue
        for name in (names.BEGUN, names.OUTCOME, names.TRIALS_CSV):
            (folder / name).write_text('{"format": 1, "state": "complete"}' if name == names.OUTCOME else "")
        when = (folder / names.BEGUN).stat().st_mtime - ago_s
        os.utime(folder / names.BEGUN, (when, when))


@pytest.fixture
def looks(monkeypatch):
    """What is seen, one look after the other."""
    looks = []
    monkeypatch.setattr(sequential, "look_at", lambda rows, _: list(rows) or looks.pop(0))
    monkeypatch.setattr("tierbench.postprocess.schema.columns.read_rows", lambda *_: [])
    return looks


def test_a_look_is_at_the_repetitions_up_to_it_and_at_no_others(tmp_path, looks, monkeypatch):
    read = []
    monkeypatch.setattr("tierbench.postprocess.schema.columns.read_rows", lambda _, of: read.append(of.name) or [])
    run = made(tmp_path)
    looks.append(Look(3, (OPEN, FASTER)))
    measure(run, 3)
    decide(run)
    assert sorted(read) == sorted(trial["id"] for trial in trials(run) if trial["repeat"] <= 3)


def test_a_look_judges_the_trials_as_the_runs_tables_do(tmp_path, monkeypatch):
    """A rule that takes all trials of a run sees them there, too."""
    rows, seen = [uncertain.trial("direct", 1, 400.0, verdict="VALID")], []
    monkeypatch.setattr("tierbench.postprocess.schema.columns.read_rows", lambda *_: rows[:1])
    monkeypatch.setattr(
        "tierbench.postprocess.verdict.judge.judge_run", lambda rows, hosts: ["judged", len(rows), *hosts]
    )
    monkeypatch.setattr(sequential, "look_at", lambda rows, _: seen.extend(rows) or Look(3, (OPEN, FASTER)))
    run = made(tmp_path)
    measure(run, 3)
    (run / names.trial_directory(trials(run)[0]["id"]) / names.CONDITIONS).write_text('{"format": 1}')
    decide(run)
    assert seen == ["judged", 9, rows[0].trial]


def point(access):
    return (("access", access), ("workload", "root"), ("jobs", "4"))


def compared(first, second, result, obstacle=""):
    return Comparison(point(first), point(second), f"{first} and {second}", result, obstacle=obstacle)


OPEN = compared("direct", "lan-xrootd", "inconclusive")
LIMITED = compared("direct", "lan-xrootd", "inconclusive", "the worker NIC limits both sides")
FASTER = compared("direct", "wan-xrootd-public", "faster")
DOUBTED = dataclasses.replace(
    compared("direct", "lan-xrootd", "faster", "too few trials are VALID"), by_valid="inconclusive"
)


def spared(run, decision):
    return {(trial["configuration"], trial["repeat"]) for trial in trials(run) if trial["id"] in decision.spared}


def test_only_what_is_open_is_repeated_until_it_is_answered(tmp_path, looks):
    run = made(tmp_path)
    looks += [Look(3, (OPEN, FASTER)), Look(4, (FASTER,))]
    measure(run, 3)
    first = decide(run)
    assert spared(run, first) == {("wan-xrootd-public.root", repeat) for repeat in range(4, 9)}
    assert not first.ended
    assert decide(run) == first  # and is not looked at again
    measure(run, 4)
    assert decide(run).sentence == "answered after 4 of 8 repetitions"
    assert {repeat for _, repeat in spared(run, json_files.read_or(Decision(), run / names.ANSWERED))} == {5, 6, 7, 8}


def test_before_the_first_look_and_between_two_all_stays_as_it_is(tmp_path, looks):
    run = made(tmp_path)
    looks += [Look(3, (OPEN,)), Look(4, (OPEN,))]
    for repeats, look in ((2, 0), (3, 3), (4, 4), (5, 4)):
        measure(run, repeats)
        assert (decide(run).repeats, decide(run).look, decide(run).ended) == (repeats, look, False)
    assert looks == []


@pytest.mark.parametrize(
    ("repeats", "left", "skipped", "sentence"),
    [
        (3, (LIMITED, FASTER), 5 * 3, "stopped after 3 of 8 repetitions: more cannot answer what is open, as the"
         " worker NIC limits both sides"),
        (3, (DOUBTED, FASTER), 5 * 3, "stopped after 3 of 8 repetitions: more cannot confirm what is answered, as"
         " too few trials are VALID"),
        (8, (OPEN, FASTER), 0, "1 of 2 comparisons is open after 8 of 8 repetitions"),
        (8, (OPEN,), 0, "1 of 1 comparison is open after 8 of 8 repetitions"),
        (3, (), 5 * 3, "stopped after 3 of 8 repetitions: nothing is compared"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_any_more_is_said(tmp_path, looks, repeats, left, skipped, sentence):
    run = made(tmp_path)
    looks.append(Look(repeats, left))
    measure(run, repeats)
    decision = decide(run)
    assert (decision.ended, len(decision.spared), decision.sentence) == (True, skipped, sentence)


@pytest.mark.parametrize(("ago_s", "ended"), [(500, True), (100, False)])
def test_a_repetition_that_would_go_beyond_the_budget_does_not_begin(tmp_path, looks, ago_s, ended):
    run = made(tmp_path, ', budget = "10min"')
    looks += [Look(3, (OPEN,))]
    measure(run, 3, ago_s)
    decision = decide(run)
    assert decision.ended == ended
    assert len(decision.spared) == (5 * 3 if ended else 5)  # of the access that nothing open is about
    assert ("beyond the budget of 10min" in decision.sentence) == ended


def test_a_repetition_begins_when_those_before_have_been_looked_at(tmp_path):
    run = made(tmp_path)
    planned = [read_trial(run / names.trial_directory(trial["id"])) for trial in trials(run)]
    assert [trial.after_look for trial in planned] == [trial.repeat > 3 for trial in planned]
    assert all(trial.until_answered and trial.until_known for trial in planned)


def test_the_command_names_the_trials_that_are_not_needed(tmp_path, looks, capsys):
    run = made(tmp_path)
    looks += [Look(3, (FASTER,))]
    measure(run, 3)
    assert main(["enough", str(run)]) == 0
    assert len(spared := capsys.readouterr().out.split()) == 15
    for trial in trials(run):
        assert main(["enough", str(run), trial["id"]]) == (0 if trial["id"] in spared else 1)


def test_plan_says_the_range_of_time(tmp_path):
    (tmp_path / "own.toml").write_text(OWN % ', budget = "3min"')
    site, experiment = find_site("testbed"), load_experiment(tmp_path / "own.toml")
    plan = expand(site, experiment, WORKERS)

    def said(site):
        return "\n".join(preview(Planned(plan, site, experiment, ""), []))

    assert re.search(r"\nrepeated until the question .*3 … 8 times, in 3min: about .* to about 3 min", said(site))
    unknown = said(dataclasses.replace(site, links=Links()))
    assert "how long is not known, without [links] in the site's file: over about" in unknown
    assert "3 … 8 times, in 3min: over about" in unknown


@pytest.mark.parametrize(
    "repeats",
    ['{ until = "answered", within_pct = 5 }', '{ until = "answered", budget = "soon" }', "{ at_least = 3 }",
     '{ until = "answered", at_least = 2 }', '{ within_pct = 5, budget = "1h" }'],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused(tmp_path, repeats):
    (tmp_path / "own.toml").write_text(f'extends = "quick"\nname = "own"\nrepeats = {repeats}\n')
    with pytest.raises(ConfigError, match="repeats"):
        load_experiment(tmp_path / "own.toml")
