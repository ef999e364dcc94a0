"""Room on the access point's disk: estimated, waited for, and kept in reserve."""

import dataclasses

import pytest

from tierbench import names
from tierbench.dags.experiment import find_experiment
from tierbench.dags.plan import expand
from tierbench.errors import UnmetNeed
from tierbench.site_configs.site import find_site
from tierbench.submit import preflight
from tierbench.submit.planning import run_bytes
from tierbench.submit.trial import disk_reserve

POOL = {"private": ["wn01.private.fiu.test"], "public": ["wn02.fiu.test"]}


def test_the_reserve_takes_up_room_and_gives_it_back(tmp_path):
    disk_reserve.hold_reserve(tmp_path)
    assert (tmp_path / names.RESERVE).stat().st_blocks * 512 >= disk_reserve.RESERVE_BYTES
    disk_reserve.give_up_reserve(tmp_path)
    disk_reserve.give_up_reserve(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_trial_waits_for_room(tmp_path, monkeypatch):
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


def test_a_run_that_does_not_fit_is_refused_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "free_bytes", lambda _: 10**6)
    with pytest.raises(UnmetNeed, match=r"takes up to 100 MB and 1 MB are free .*; make room"):
        preflight.refuse([preflight.disk_space(100 * 10**6, tmp_path / "runs" / "new")])


def test_a_shorter_period_needs_more_room():
    site = find_site("testbed")
    quick = find_experiment("quick")
    often, seldom = (dataclasses.replace(quick, sample_period_s=period_s) for period_s in (0.1, 1.0))
    plan = expand(site, quick, POOL)
    assert run_bytes(plan, site, often) > 1.1 * run_bytes(plan, site, seldom)
