"""More repetitions of a run that has ended: the same trials, or a refusal with its reason; what was measured stays."""

import dataclasses
import json
from unittest.mock import Mock

import pytest

from tests.unit.quick_plan import WORKERS
from tierbench import files, json_files, names
from tierbench.dags.experiment import load_experiment
from tierbench.dags.plan import expand, from_json
from tierbench.dags.replicas import Entry
from tierbench.dags.write import write_run
from tierbench.errors import BusyError, ConfigError
from tierbench.postprocess.verdict.counting import looks_of
from tierbench.site_configs.site import find_site
from tierbench.submit import commands, planning
from tierbench.submit.cli import main
from tierbench.submit.pool import Slots
from tierbench.submit.progress import Run
from tierbench.submit.repetitions import Definitions, extension
from tierbench.trials import read_trial

OWN = 'extends = "quick"\nname = "own"\naccess = ["direct", "lan-xrootd"]\nbatches = [4]\nrepeats = 2\n'


class Site:
    """What the pool and the storage say."""

    def __init__(self):
        self.workers = {name: list(hosts) for name, hosts in WORKERS.items()}
        self.sizes = 64_000_000
        self.queued = False

    def slots(self, requirements):
        return Slots(dict.fromkeys(self.workers["private" if "private" in requirements else "public"], 97))

    def catalogues(self, _, experiment):
        sets = experiment.used_replicas  # type: ignore[attr-defined]
        if self.sizes is None:
            return {}
        return {folder: {name: Entry(name, self.sizes, "0") for name in own.files} for folder, own in sets.items()}


@pytest.fixture(autouse=True)
def site(monkeypatch):
    site = Site()
    monkeypatch.setattr(planning.pool, "matching_slots", site.slots)
    monkeypatch.setattr(planning, "catalogues", site.catalogues)
    monkeypatch.setattr(planning.pool, "in_queue", lambda *_: site.queued)
    return site


@pytest.fixture
def definition(tmp_path):
    (tmp_path / "own.toml").write_text(OWN)
    return tmp_path / "own.toml"


def made(definition, only=()):
    """A run that has ended well."""
    here, experiment, run = find_site("testbed"), load_experiment(definition), definition.parent / "run"
    plan = planning.expanded(here, experiment, only).plan
    write_run(plan, here, experiment, run)
    json_files.write(run / names.ASKED, Definitions(str(definition), "testbed", list(only)))
    for directory in Run(run).trial_directories:
        (directory / names.OUTCOME).write_text(json.dumps({"format": 1, "state": "complete", "reasons": []}))
    Run(run).record_submission(7, 0.0)
    return Run(run)


def test_what_is_added_are_the_trials_that_more_repetitions_would_have_had(definition):
    run = made(definition)
    extension(run, 3).write()
    five = dataclasses.replace(load_experiment(definition), repeats=5)
    plan = from_json((run.directory / names.PLAN).read_text())
    assert plan.trials == planning.expanded(find_site("testbed"), five).plan.trials
    written = [json.loads((run.directory / name).read_text()) for name in (names.PLAN, names.EXPERIMENT)]
    assert looks_of(*written) == (2, 5)  # after which its answer was, and is, looked at
    assert [trial.stage.value for trial in Run(run.directory).trials()] == ["finished"] * 4 + ["waiting"] * 6
    dag = (run.directory / names.EXPERIMENT_DAG).read_text()
    done = [line.split()[2] for line in dag.splitlines() if line.startswith("SUBDAG") and line.endswith(" DONE")]
    assert done == [trial.id for trial in plan.trials[:4]]
    assert all((run.directory / names.trial_directory(trial.id) / names.TRIAL_DAG).exists() for trial in plan.trials)


def test_each_of_them_is_run_and_the_rule_goes_on_to_count_its_looks(definition):
    definition.write_text(OWN.replace("repeats = 2", "repeats = { within_pct = 5, at_least = 2, at_most = 4 }"))
    run = made(definition)
    extension(run, 2).write()
    assert json.loads((run.directory / names.EXPERIMENT).read_text())["repeats"]["at_most"] == 6
    waits = [read_trial(trial).until_known for trial in Run(run.directory).trial_directories]
    assert waits == [True] * 8 + [False] * 4


def test_the_rule_that_goes_on_is_the_runs_own(definition):
    run = made(definition)
    definition.write_text(OWN.replace("repeats = 2", "repeats = { within_pct = 5, at_least = 10, at_most = 20 }"))
    extension(run, 1).write()
    assert json.loads((run.directory / names.EXPERIMENT).read_text())["repeats"] == 3


def test_repetitions_that_were_planned_and_of_which_none_has_begun_are_not_added_to(definition):
    """A call was broken off before it submitted them, and is made again."""
    run = made(definition)

    def added(number):
        extension(Run(run.directory), number).write()
        return from_json((run.directory / names.PLAN).read_text())

    plans = [added(1), added(2)]
    assert [(max(trial.repeat for trial in plan.trials), plan.extended) for plan in plans] == [(3, (2,)), (4, (2,))]
    outcome = run.directory / names.trial_directory(plans[1].trials[-1].id) / names.OUTCOME
    outcome.write_text(json.dumps({"format": 1, "state": "complete", "reasons": []}))
    assert added(1).extended == (2, 4)


def test_a_run_of_which_something_would_be_missing_does_not_stay(definition, monkeypatch):
    monkeypatch.setattr(commands.programs, "ship", Mock(side_effect=KeyboardInterrupt))
    command = ["write", str(definition), "--site", "testbed", "--into", str(definition.parent / "half")]
    assert main(command) == 130
    assert not (definition.parent / "half").exists()


def test_what_was_wanted_of_a_run_alone_is_repeated(definition):
    run = made(definition, only=("direct",))
    extension(run, 1).write()
    assert [trial["configuration"] for trial in Run(run.directory).plan["trials"]] == ["direct.root"] * 3


def write(run, name, content):
    (run.directory / name).write_text(content)


def another_site(run):
    return json.dumps({**json.loads((run.directory / names.SITE).read_text()), "links": {"wan": 1}})


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (lambda run, _: write(run, "../own.toml", OWN + "time_limit_s = 10\n"),
         "the experiment own has changed since (time_limit_s)"),
        (lambda run, _: write(run, names.SITE, another_site(run)), "the site testbed has changed since (links)"),
        (lambda _, site: site.workers["public"].pop(), "pool public had wn03, wn04, and has wn03"),
        (lambda _, site: setattr(site, "sizes", None), "their catalogue cannot be read"),
        (lambda _, site: setattr(site, "sizes", 1), "are others now"),
        (lambda run, _: write(run, f"{names.SCRIPTS}/client.py", ""), "its scripts/client.py is not what"),
        (lambda run, _: (run.directory / names.ASKED).unlink(), "an earlier tierbench wrote it"),
        (lambda _, site: setattr(site, "queued", True), "still goes on"),
    ],
)  # fmt: skip
def test_what_would_not_be_the_same_is_refused(definition, site, happens, reason):
    run = made(definition)
    happens(run, site)
    with pytest.raises((ConfigError, BusyError)) as refused:
        extension(run, 1)
    assert reason in str(refused.value)


@pytest.mark.parametrize("last", [names.EXPERIMENT_DAG, names.EXPERIMENT, names.PLAN])
def test_one_that_is_broken_off_leaves_the_run_as_it_was_and_can_be_repeated(definition, last, monkeypatch):
    run = made(definition)
    plan = (run.directory / names.PLAN).read_text()

    def broken_off(path, content):
        if path.name == last:
            raise KeyboardInterrupt
        files.replace(path, content)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("tierbench.dags.write.files", type("Broken", (), {"replace": broken_off, "remove": files.remove}))
        extension(run, 1).write()
    assert (run.directory / names.PLAN).read_text() == plan
    assert all(trial.well for trial in Run(run.directory).trials())
    assert not list(run.directory.glob(".more-*"))
    extension(run, 1).write()
    assert len(Run(run.directory).trial_directories) == 6


def test_the_command_submits_it_and_takes_no_other_definitions(definition, monkeypatch, capsys):
    run = made(definition)
    submitted = []
    monkeypatch.setattr(commands, "_submit_and_watch", lambda run, _: submitted.append(run) or 0)
    assert main(["run", "--more", "1", str(run.directory), "--no-links"]) == 0
    assert [len(each.trial_directories) for each in submitted] == [6]
    for mistaken in (["--more", "1", "--site", "testbed"], ["--more", "0"], ["--more", "2000"], []):
        assert main(["run", str(run.directory), *mistaken]) == ConfigError.exit_status
    assert "--site is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "words"), [(0, "must be 1 or more"), (1000, "must be at most 99"), (1, "is a copy of /elsewhere")]
)
def test_a_number_that_cannot_be_is_refused_in_a_copy_too(definition, monkeypatch, number, words):
    run = made(definition)
    if number < 1000:
        monkeypatch.setattr(Run, "copy_of", "/elsewhere")
    with pytest.raises(ConfigError, match=words):
        extension(run, number)


def test_a_pattern_that_fits_nothing_says_what_there_is(definition):
    with pytest.raises(
        ConfigError, match=r"--only \"xrd\*\": fits no trial; the configurations are direct/root, lan-xrootd/root"
    ):
        planning.expanded(find_site("testbed"), load_experiment(definition), ["xrd*"])


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("lan-*", lambda trial: trial.configuration.access == "lan-xrootd"),
        ("root", lambda _: True),
        ("*/root ×4", lambda trial: trial.jobs == 4),  # noqa: RUF001
        ("direct.root.x004", lambda trial: trial.configuration.access == "direct" and trial.jobs == 4),
    ],
)
def test_a_pattern_is_of_access_workload_client_configuration_or_point(definition, pattern, fits):
    definition.write_text(OWN.replace("[4]", "[2, 4]"))
    site, experiment = find_site("testbed"), load_experiment(definition)
    everything = {trial.id: fits(trial) for trial in expand(site, experiment, WORKERS).trials}
    chosen = {trial.id for trial in expand(site, experiment, WORKERS, only=[pattern]).trials}
    assert everything == {trial: trial in chosen for trial in everything}


def test_of_a_run_that_ends_when_answered_each_extension_is_one_more_look():
    plan = {"extended": [10, 11], "trials": [{"repeat": 12}]}
    assert looks_of(plan, {"repeats": {"until": "answered"}}) == (3, 4, 6, 8, 10, 11, 12)
