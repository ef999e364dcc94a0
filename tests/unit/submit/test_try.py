"""`tierbench try`: the experiment that commands stand for, and the client that runs a command and counts its output."""

import pytest

from tests.unit.client_process import Job
from tests.unit.quick_plan import POOL
from tierbench.dags.experiment import load_experiment
from tierbench.dags.hosts import flushed_hosts
from tierbench.dags.plan import expand
from tierbench.errors import ConfigError
from tierbench.site_configs.site import find_site
from tierbench.submit.cli import main
from tierbench.submit.try_commands import experiment_of

SITE = find_site("testbed")
BY_LAN, BY_CACHE = "xrdcp root://dgt.private.fiu.test:1094//f{n} -", "xrdcp 'root://dgt.fiu.test:1101//f\"{n}' -"


def points(tmp_path, *commands, access=()):
    path = tmp_path / "try.toml"
    path.write_text(experiment_of(commands, SITE, 4, access, "10min"))
    plan = expand(SITE, load_experiment(path), POOL)
    assert {trial.jobs for trial in plan.trials} == {4}
    return {(trial.configuration.access, trial.configuration.workload) for trial in plan.trials}


def test_a_command_takes_the_access_that_leads_to_its_server_or_is_compared_with_others_of_one(tmp_path):
    assert points(tmp_path, BY_LAN, BY_CACHE) == {("lan-xrootd", "xrdcp"), ("xcache", "xrdcp-2")}
    without_its_usual_port = "xrdcp root://DGT.private.fiu.test//f{n} -"
    assert points(tmp_path, without_its_usual_port) == {("lan-xrootd", "xrdcp")}
    assert points(tmp_path, "cat /extenci/f", "dd if=/extenci/f", access=("direct",)) == {
        ("direct", "cat"), ("direct", "dd"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("commands", "access", "emptied"),
    [
        (["/bin/cat /extenci/a/f{n}", "xrdcp root://dgt.fiu.test:1101//b//c -"], ("direct", "xcache"),
         {"/extenci/a", "/b"}),
        (["dd if=/extenci/near/a/f{n}", "cat </extenci/b/f"], ("near-pool",), {"/extenci/near/a", "/extenci/b"}),
    ],
)  # fmt: skip
def test_caches_are_emptied_of_what_is_read_and_not_of_the_copies_of_an_access(tmp_path, commands, access, emptied):
    path = tmp_path / "try.toml"
    path.write_text(experiment_of(commands, SITE, 2, access, "5min"))
    experiment = load_experiment(path)
    plan = expand(SITE, experiment, POOL)
    folders = [flushed_hosts(SITE, experiment, plan, configuration) for configuration in plan.configurations]
    assert {host.directory for hosts in folders for host in hosts} == emptied


@pytest.mark.parametrize("command", ["écho f", "x" * 80])
def test_a_program_of_any_name_is_run(tmp_path, command):
    assert len(points(tmp_path, command, command, access=("direct",))) == 2


@pytest.mark.parametrize(("into", "words"), [(".", "is there already"), ("mine", "mine.toml: is there already")])
def test_nothing_of_the_users_is_written_over(tmp_path, monkeypatch, capsys, into, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("my own")
    assert main(["try", "--site", "testbed", "--access", "direct", "--into", into, "cat f"]) == 2
    assert words in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["my own"]


@pytest.mark.parametrize(
    ("commands", "access", "words"),
    [
        (["cat /extenci/f"], (), "any of direct, near-pool"),
        (["curl https://elsewhere.test/f"], (), "none of the site's access methods"),
        (["cat a", "cat b"], ("direct",) * 3, "3 for 2 commands"),
        (["cat a\ncat b"], ("direct",), "a line of shell"),
        (["cat a", ""], ("direct",), '"": must be a line of shell'),
        (["cat a"], ("dirct",), 'there is no "dirct" .did you mean "direct"'),
        (["cat /extenci/{n}/f"], ("direct",), "files in one folder.*may stand in the file's name"),
        (["curl http://[::1/f"], (), "none of the site's access methods"),
    ],
)
def test_what_does_not_follow_is_asked_for(commands, access, words):
    with pytest.raises(ConfigError, match=words):
        experiment_of(commands, SITE, 4, access, "10min")


def test_a_budget_that_is_no_time_is_refused_before_anything_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["try", "--site", "testbed", "--access", "direct", "--budget", "5", "cat f"]) == 2
    assert '--budget 5: must be a time such as "10min"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "status", "read"),
    [
        ("head -c 300000 /dev/zero; echo and so on >&2", "ok", 300000),
        ("printf %d {n}", "ok", 1),
        ("true", "failed", 0),
        ("echo refused >&2; exit 3", "open-failed", 0),
        ("head -c 5000 /dev/zero; exit 3", "short-read", 5000),
        ("there-is-no-such-program", "failed", 0),
    ],
)
def test_what_a_command_writes_is_what_it_has_read(tmp_path, command, status, read):
    job = Job(tmp_path)
    job.offer("root://server:1094//none-0001.dat", "")
    end = job.end("command", options={"command": command})
    assert (end["status"], end["bytes_app"]) == (status, read)


def test_what_a_pipeline_had_read_when_time_was_over_counts(tmp_path):
    job = Job(tmp_path)
    job.offer("root://server:1094//none-0001.dat", "")
    end = job.end(
        "command", options={"command": "head -c 200000 /dev/zero; cat /dev/zero | (head -c 300000; sleep 600)"}, for_s=2
    )
    assert (end["status"], end["work"]["cut"]) == ("ok", 1)
    assert end["bytes_app"] == pytest.approx(500_000, abs=100)  # less its report's bytes
