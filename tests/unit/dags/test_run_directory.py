"""The run directory: it holds all that its DAGs name, under names that the shipped scripts know, or is not there."""

import dataclasses
import json
import re

import pytest

from tierbench import names
from tierbench.dags.plan import expand, from_json
from tierbench.dags.write import write_run
from tierbench.errors import ConfigError


@pytest.fixture(scope="module")
def run(tmp_path_factory, plan, site, quick):
    directory = tmp_path_factory.mktemp("runs") / "quick"
    write_run(plan, site, quick, directory)
    return directory


def test_a_run_directory_holds_its_plan_what_it_was_made_of_and_dags_for_each_trial_configuration_and_all(run, plan):
    assert from_json((run / names.PLAN).read_text()) == plan
    assert json.loads((run / names.EXPERIMENT).read_text())["replicas"]["root-tree"]["codec"] == "zlib-1"
    assert json.loads((run / names.SITE).read_text())["scale"] == 0.1
    assert {path.name for path in (run / names.TRIALS).iterdir()} == {trial.id for trial in plan.trials}
    expected = {f"{configuration.id}.dag" for configuration in plan.configurations} | {names.EXPERIMENT_DAG}
    assert {path.name for path in run.glob("*.dag")} == expected


def test_every_file_that_a_dag_names_is_there(run, plan):
    missing = []
    for trial in plan.trials:
        directory = run / names.trial_directory(trial.id)
        pattern = r"^(?:JOB|SERVICE|SCRIPT (?:PRE|POST)) \S+ (\S+)(?!\S| NOOP)|^CONFIG (\S+)| hosts=\"(\S+)\""
        named = re.findall(pattern, (directory / names.TRIAL_DAG).read_text(), re.M)
        missing += [name for groups in named for name in groups if name and not (directory / name).is_file()]
    assert missing == []


@pytest.mark.parametrize("kind", ["sampler", "gate", "flush", "clients", "stop"])
def test_a_node_sets_every_macro_of_its_submit_file(run, plan, kind):
    trial = (run / names.trial_directory(plan.trials[0].id) / names.TRIAL_DAG).read_text()
    vars_line = re.findall(rf"^(?:JOB|SERVICE) \S+ \S+/{kind}\.sub\n(?:VARS \S+ (.*))?", trial, re.MULTILINE)[0]
    submit = (run / names.SUBMIT / f"{kind}.sub").read_text()
    used = set(re.findall(r"\$\((\w+)\)", re.sub(r"^#.*", "", submit, flags=re.MULTILINE)))
    queued = re.findall(r"\w+", re.findall(r"^queue (.*) from", submit, re.MULTILINE)[0]) if " from " in submit else []
    assert used - set(re.findall(r"(\w+)=", vars_line)) - {"Process", "Cluster", *queued} == set()


def words(text):
    return {
        word
        for line in text.splitlines()
        if line.startswith("periodic_remove")
        for word in re.findall(r"\$\(\w+\)", line)
    }


def test_every_node_is_removed_that_does_not_end_and_a_run_directory_is_the_same_wherever_it_lies(run):
    submitted = {path.name: path.read_text() for path in (run / names.SUBMIT).glob("*.sub")}
    assert [name for name, text in submitted.items() if "periodic_remove" not in text] == []
    assert [name for name, text in submitted.items() if not {"$(run_limit)", "$(slot_limit)"} <= words(text)] == []
    assert all(path.stat().st_mode & 0o111 for path in (run / names.SCRIPTS).glob("*.py"))
    texts = [path.read_text() for path in run.rglob("*") if path.suffix in (".dag", ".config", ".json", ".txt")]
    assert not any(str(run) in text for text in texts)


def test_a_directory_that_is_there_and_a_run_without_known_workers_are_refused(run, plan, site, quick, tmp_path):
    with pytest.raises(ConfigError, match=r"is there already"):
        write_run(plan, site, quick, run)
    with pytest.raises(ConfigError, match=r"pools\.private: no workers are known"):
        write_run(expand(site, quick, {}), site, quick, tmp_path / "run")


def test_a_failure_leaves_nothing_behind(tmp_path, plan, site, quick):
    broken = dataclasses.replace(site, access={})
    with pytest.raises(KeyError):
        write_run(plan, broken, quick, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
