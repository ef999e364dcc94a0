"""What would go wrong, or out, is told before anything is written; there is room on the disk, or it is waited for."""

import errno
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from unittest.mock import Mock

import htcondor2
import pytest

from tests.unit.quick_plan import POOL, larger_quick
from tierbench import names
from tierbench.dags.experiment import find_experiment, load_experiment, shipped_experiments
from tierbench.dags.plan import expand
from tierbench.dags.replicas import Entry
from tierbench.errors import ConfigError, UnmetNeed
from tierbench.site_configs.site import Links, find_site
from tierbench.submit import planning
from tierbench.submit.cli import main
from tierbench.submit.planning import Planned, asked_experiment, long_enough, preflight, samplers_in_time
from tierbench.submit.pool import Slots
from tierbench.submit.trial import disk_reserve

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
REAL = find_site("fiu-uf-2014")
QUICK = larger_quick()


def experiment(folder, text):
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def with_variable(name, value):
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
def test_a_secret_in_the_open_is_doubted(tmp_path, capsys, name, value, doubted):
    assert main(["plan", experiment(tmp_path, with_variable(name, value)), "--site", "testbed"]) == 0
    output = capsys.readouterr().out
    assert (f"environment.{name}: is a secret by its looks" in output) == doubted
    assert TOKEN not in output


def test_a_secret_in_a_command_is_doubted(tmp_path, capsys):
    header = f"Authorization: Bearer {TOKEN}"
    text = (
        CHECKED.replace('"dd"', '"command"')
        .replace('"random"', '"streamed"')
        .replace("checksum = true", f"command = \"curl -H '{header}' {{url}}\"")
    )
    main(["plan", experiment(tmp_path, text), "--site", "testbed"])
    assert "workloads.root.options.command: holds a secret by its looks" in capsys.readouterr().out


def test_a_set_that_is_made_in_part_is_missing(tmp_path, capsys, monkeypatch):
    entries = {"random-0001": Entry("random-0001", 1, "00000001")}
    monkeypatch.setattr(planning, "catalogues", lambda *_: dict.fromkeys(asked_experiment(path).used_replicas, entries))
    path = experiment(tmp_path, CHECKED.replace("checksum = true", ""))
    assert main(["plan", path, "--site", "testbed"]) == 0
    assert "or not of all 8 files; where the storage is mounted" in capsys.readouterr().out


def test_the_doctor_asks_what_a_run_asks(tmp_path, capsys):
    path = experiment(tmp_path, with_variable("DB_PASSWORD", '"abc"'))
    assert main(["doctor", "--site", "testbed", "--experiment", path, "--quick"]) == 1  # for want of a pool
    output = capsys.readouterr().out
    assert "environment.DB_PASSWORD: is a secret by its looks" in output
    assert f"`tierbench replicas {path} --site testbed` makes them" in output


def test_checksums_that_nothing_can_be_compared_with_are_refused_before_a_run(tmp_path, capsys):
    asked = [experiment(tmp_path, CHECKED), "--site", "testbed"]
    assert main(["plan", *asked]) == 0
    assert "missing: workloads.root: checksum = true compares with the catalogue" in capsys.readouterr().out
    assert main(["write", *asked, "--into", str(tmp_path / "run")]) == 3
    assert "make them first, or leave it out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("jobs", "doubted"), [(192, []), (1000, ["w1", "w2"])])
def test_a_sampler_beside_too_many_clients_is_doubted_before(tmp_path, jobs, doubted):
    """192 clients on two workers of two cores were sampled in time; of 1,000 nothing was for 43 seconds."""
    text = f'extends = "quick"\nname = "mine"\naccess = ["lan-xrootd"]\nbatches = [{jobs}]\n'
    text += f"[replicas.root-tree]\ncount = {jobs}\n"
    site, asked = find_site("testbed"), asked_experiment(experiment(tmp_path, text))
    (pool,) = {site.access[use.access].pool for use in asked.uses()}
    there = {"w1": 600, "w2": 600}
    plan = expand(site, asked, {pool: tuple(there)})
    findings = list(samplers_in_time(Planned(plan, site, asked, {pool: Slots(there, dict.fromkeys(there, 2))})))
    assert sorted(finding.host for finding in findings) == doubted
    assert all("LimitNICE=-10" in finding.remedy for finding in findings)


def larger(size_mb):
    ((name, replicas),) = QUICK.replicas.items()
    return replace(QUICK, replicas={name: replace(replicas, size_mb=size_mb)})


def told(site, experiment):
    return [finding.line for finding in long_enough(Planned(expand(site, experiment, {}), site, experiment, {}))]


def test_trials_that_are_too_short_at_a_real_sites_rates_are_doubted_and_what_is_advised_is_enough():
    (line,) = told(REAL, QUICK)
    assert "24 trials are too short: the shortest reads for 0.6 s, of which a sampling period of 0.2 s is 34 %" in line
    assert "make size_mb 4 times as large" in line
    assert line in [each.line for each in preflight(Planned(expand(REAL, QUICK, {}), REAL, QUICK, "no pool"), "quick")]
    assert told(REAL, larger(3 * 64))
    assert not told(REAL, larger(4 * 64))
    assert not told(replace(REAL, links=Links()), QUICK)


def test_the_first_experiment_of_the_readme_is_large_enough_for_the_site_file_that_it_copies(tmp_path):
    text = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    block = text.split("in `first.toml`:")[1].split("and run it:")[0]
    # As init-site calls them, and as this site does.
    block = block.replace('["xrootd", "mount"]', '["lan-xrootd", "direct"]')
    (tmp_path / "first.toml").write_text(dedent(block), encoding="utf-8")
    assert not told(REAL, load_experiment(tmp_path / "first.toml"))


def test_no_experiment_that_comes_with_tierbench_is_doubted_on_the_testbed():
    testbed, doubted, asked = find_site("testbed"), [], 0
    for name in shipped_experiments():
        with suppress(ConfigError):  # three of real size ask for what the testbed has not
            doubted += told(testbed, find_experiment(name))
            asked += 1
    assert not doubted
    assert asked > 30


def test_a_quota_that_the_file_system_does_not_tell_leaves_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=OSError(errno.EDQUOT, "Disk quota exceeded")))
    monkeypatch.setattr(disk_reserve, "PATIENCE_SECONDS", 0)
    assert (disk_reserve.wait_for_room(tmp_path), disk_reserve.wait_for_room(tmp_path, hold=True)) == (True, False)
    assert not (tmp_path / names.RESERVE).exists()


@pytest.mark.parametrize(("number", "may"), [(errno.EDQUOT, False), (errno.ENOSPC, False), (errno.EACCES, True)])
def test_a_quota_that_is_used_up_during_a_trial_is_seen(tmp_path, monkeypatch, number, may):
    assert disk_reserve.may_write(tmp_path)
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(number, "no")))
    assert disk_reserve.may_write(tmp_path) is may
    assert list(tmp_path.iterdir()) == []


def test_the_reserve_takes_up_room_and_gives_it_back_and_a_trial_waits_for_room(tmp_path, monkeypatch):
    disk_reserve.hold_reserve(tmp_path)
    assert (tmp_path / names.RESERVE).stat().st_blocks * 512 >= disk_reserve.RESERVE_BYTES
    disk_reserve.give_up_reserve(tmp_path)
    disk_reserve.give_up_reserve(tmp_path)
    assert list(tmp_path.iterdir()) == []
    free = iter([0, disk_reserve.LOW_BYTES, disk_reserve.LOW_BYTES + disk_reserve.RESERVE_BYTES])
    monkeypatch.setattr(disk_reserve, "free_bytes", lambda _: next(free))
    monkeypatch.setattr(disk_reserve, "POLL_SECONDS", 0)
    assert disk_reserve.wait_for_room(tmp_path)
    assert next(free, None) is None


def test_a_disk_without_room_for_more_files_is_full(tmp_path, monkeypatch):
    class Full:
        f_files, f_favail, f_bavail, f_frsize = 10**6, 10, 10**9, 4096

    monkeypatch.setattr(disk_reserve.os, "statvfs", lambda _: Full)
    assert disk_reserve.free_bytes(tmp_path) == 0
    Full.f_files = Full.f_favail = 0  # where nobody counts them
    assert disk_reserve.free_bytes(tmp_path) > 0


def test_a_run_that_does_not_fit_is_refused_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "free_bytes", lambda _: 10**6)
    with pytest.raises(UnmetNeed, match=r"takes up to 100 MB and 1 MB are free .*; make room"):
        planning.refuse([planning.disk_space(100 * 10**6, tmp_path / "runs" / "new")])


def test_a_shorter_period_needs_more_room():
    site = find_site("testbed")
    quick = find_experiment("quick")
    often, seldom = (replace(quick, sample_period_s=period_s) for period_s in (0.1, 1.0))
    plan = expand(site, quick, POOL)
    assert Planned(plan, site, often, "").run_bytes > 1.1 * Planned(plan, site, seldom, "").run_bytes


EVENT = """005 (031.000.000) 2026-11-28 08:45:11.628 Job terminated.
\t(1) Normal termination (return value 3)
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Total Remote Usage
\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Total Local Usage
...
"""


@pytest.mark.parametrize("cut", [0, 30, 180, len(EVENT) - 1, len(EVENT)])
def test_an_event_that_a_full_disk_has_cut_off_hides_none_after_it(tmp_path, cut, monkeypatch):
    """As HTCondor's own reader sees it."""
    monkeypatch.setattr(disk_reserve, "WRITTEN_SECONDS", 0)
    log = tmp_path / names.NODES_LOG
    log.write_text(EVENT + EVENT.replace("031", "033")[:cut] + EVENT, encoding="utf-8")
    assert disk_reserve.has_cut_event(tmp_path) is (0 < cut < len(EVENT))
    log.write_text(EVENT + EVENT.replace("031", "033")[:cut], encoding="utf-8")
    disk_reserve.close_cut_event(tmp_path)
    assert not disk_reserve.has_cut_event(tmp_path)
    assert "...\n...\n" not in log.read_text(encoding="utf-8")
    with log.open("a", encoding="utf-8") as file:
        file.write(EVENT.replace("031", "034"))
    reader, clusters = htcondor2.JobEventLog(str(log)), []
    for _ in range(2):
        with suppress(htcondor2.HTCondorException):  # of the cut one; DAGMan, too, reads on
            clusters.extend(event.cluster for event in reader.events(stop_after=0))
    assert (clusters[0], clusters[-1]) == (31, 34)


def test_an_event_that_is_being_written_is_not_cut_off(tmp_path, monkeypatch):
    log = tmp_path / names.NODES_LOG
    monkeypatch.setattr(disk_reserve, "time", Mock(sleep=lambda _: log.write_text(EVENT * 2, encoding="utf-8")))
    log.write_text(EVENT + EVENT[:180], encoding="utf-8")
    assert not disk_reserve.has_cut_event(tmp_path)
    log.write_text(EVENT + EVENT[:180], encoding="utf-8")
    disk_reserve.close_cut_event(tmp_path)
    assert log.read_text(encoding="utf-8") == EVENT * 2
