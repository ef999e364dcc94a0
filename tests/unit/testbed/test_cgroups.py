"""A host's control group, on folders that look like the kernel's hierarchies."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tierbench.testbed import cgroups
from tierbench.testbed.cgroups import MOUNTS, Cgroup, Hierarchy, Means, means_in


@pytest.fixture
def group(tmp_path, monkeypatch, means):
    monkeypatch.setattr(cgroups, "means", lambda: means)
    made = Cgroup(tmp_path / "testbeds/name/hosts/dgt")
    made.make()
    return made


@pytest.fixture(params=["version 1", "version 2", "version 2 without limits", "nothing"])
def means(request, tmp_path):
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


def test_a_command_enters_each_of_the_hosts_groups(group, means):
    command = group.entering(["true"])
    assert [word for word in command if word.endswith("cgroup.procs")] == list(map(str, group.entrances))
    assert len(group.entrances) == len(means.hierarchies)
    assert command[-1] == "true"


@pytest.mark.parametrize(("cores", "quotas"), [(0.25, ["5000", "5000 20000"]), (None, ["-1", "max 20000"])])
def test_a_limit_is_a_share_of_each_period_and_can_be_lifted(group, means, cores, quotas):
    group.limit(0.5)
    group.limit(cores)
    files = [file for file in group.account if file.name in ("cpu.max", "cpu.cfs_quota_us") and file.exists()]
    assert [file.read_text() for file in files] == ([quotas[means.hierarchies[0].unified]] if means.limits else [])
    assert group.limited is means.limits


def test_groups_of_equal_names_in_other_places_are_others(tmp_path, group, means):
    other = Cgroup(tmp_path / "elsewhere/name/hosts/dgt")
    assert other.entrances == []
    assert bool(group.entrances) is bool(means.hierarchies)


def test_where_there_is_nothing_to_count_by_or_to_write_to_it_says_so(tmp_path):
    means = cgroups.means_in("proc /proc proc rw 0 0\ntmpfs /sys/fs/cgroup tmpfs rw 0 0\n")
    assert means.hierarchies == ()
    assert "cannot be told from the machine's" in means.missing
    gone = tmp_path / "gone"
    means = cgroups.means_in(f"cgroup {gone} cgroup ro,cpu,cpuacct 0 0\ncgroup2 {gone} cgroup2 ro 0 0\n")
    assert means.hierarchies == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes control groups")
def test_who_asks_at_once_is_told_the_same():
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: means_in(MOUNTS.read_text()), range(40)))
    assert answers == [answers[0]] * 40
