"""A host's control group, on folders that look like the kernel's hierarchies."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tierbench.testbed import cgroups
from tierbench.testbed.cgroups import MOUNTS, Cgroup, Hierarchy, Means, means_in


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, means: Means) -> Cgroup:
    monkeypatch.setattr(cgroups, "means", lambda: means)
    made = Cgroup(tmp_path / "testbeds/name/hosts/dgt")
    made.make()
    return made


@pytest.fixture(params=["version 1", "version 2", "version 2 without limits", "nothing"])
def means(request: pytest.FixtureRequest, tmp_path: Path) -> Means:
    for name in ("cpu", "cpuacct", "unified"):
        (tmp_path / name).mkdir()
    limiting = ("cpu.stat", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    return {
        "version 1": Means(
            (Hierarchy(tmp_path / "cpuacct", ("cpuacct.usage",)), Hierarchy(tmp_path / "cpu", limiting, limits=True))
        ),
        "version 2": Means((Hierarchy(tmp_path / "unified", ("cpu.stat", "cpu.max"), unified=True, limits=True),)),
        "version 2 without limits": Means((Hierarchy(tmp_path / "unified", ("cpu.stat",), unified=True),), "no limits"),
        "nothing": Means((), "nothing"),
    }[request.param]


def test_a_command_enters_each_of_the_hosts_groups(group: Cgroup, means: Means) -> None:
    command = group.entering(["true"])
    assert [word for word in command if word.endswith("cgroup.procs")] == list(map(str, group.entrances))
    assert len(group.entrances) == len(means.hierarchies)
    assert command[-1] == "true"


def test_a_limit_is_a_share_of_each_period(group: Cgroup, means: Means) -> None:
    group.limit(0.25)
    limits = {
        file.name: file.read_text()
        for file in group.account
        if file.name in ("cpu.max", "cpu.cfs_quota_us") and file.exists()
    }
    expected = {"version 1": {"cpu.cfs_quota_us": "5000"}, "version 2": {"cpu.max": "5000 20000"}}
    version = "version 2" if means.hierarchies and means.hierarchies[0].unified else "version 1"
    assert limits == (expected[version] if means.limits else {})
    assert group.limited is means.limits


def test_a_limit_is_lifted(group: Cgroup, means: Means) -> None:
    group.limit(0.25)
    group.limit(None)
    left = [
        file.read_text().split()[0]
        for file in group.account
        if file.name in ("cpu.max", "cpu.cfs_quota_us") and file.exists()
    ]
    assert left == ([("max" if means.hierarchies[0].unified else "-1")] if means.limits else [])


def test_groups_of_equal_names_in_other_places_are_others(tmp_path: Path, group: Cgroup, means: Means) -> None:
    other = Cgroup(tmp_path / "elsewhere/name/hosts/dgt")
    assert other.entrances == []
    assert bool(group.entrances) is bool(means.hierarchies)


def test_where_there_is_nothing_to_count_by_it_says_so() -> None:
    means = cgroups.means_in("proc /proc proc rw 0 0\ntmpfs /sys/fs/cgroup tmpfs rw 0 0\n")
    assert means.hierarchies == ()
    assert "cannot be told from the machine's" in means.lacking


def test_a_hierarchy_that_cannot_be_written_to_is_no_means(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    means = cgroups.means_in(f"cgroup {gone} cgroup ro,cpu,cpuacct 0 0\ncgroup2 {gone} cgroup2 ro 0 0\n")
    assert means.hierarchies == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes control groups")
def test_who_asks_at_once_is_told_the_same() -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: means_in(MOUNTS.read_text()), range(40)))
    assert answers == [answers[0]] * 40
