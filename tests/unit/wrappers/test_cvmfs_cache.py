"""The condition of CVMFS's cache, an admin's program: CVMFS is stand-ins here, with a folder in place of its cache."""

import os
from pathlib import Path

import pytest

from tests.unit.stand_ins import run, script
from tierbench import site_configs

PROGRAM = Path(site_configs.__file__).parent / "arrange.d" / "cvmfs-cache"
CONFIG = """
case $1 in
probe) [ ! -e {folder}/broken ] ;;
wipecache) [ -e {folder}/stubborn ] || echo 1000 >{folder}/cached ;;
esac
"""
TALK = """
[ "$*" = "-i sft.cern.ch cache size" ] && [ ! -e {folder}/mute ] || exit 1
echo "Current cache size is 0MB ($(/bin/cat {folder}/cached) Bytes), pinned: 0MB (1000 Bytes)"
"""
# What is read comes into the cache.
CAT = """
[ ! -e {folder}/small ] || exit 0
for file in "$@"; do echo $(($(/bin/cat {folder}/cached) + $(stat -c %s "$file"))) >{folder}/cached; done
"""


class Host:
    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        software = folder / "software" / "lib"
        software.mkdir(parents=True)
        for name in ("libCore.so", "libTree.so"):
            (software / name).write_bytes(bytes(500_000))
        (folder / "cached").write_text("600000\n")  # of 1000000: a part of it, as a trial leaves it
        (folder / "cvmfs").write_text(f"REPOSITORY=sft.cern.ch\nSOFTWARE={folder}/software\n")
        for name, text in (("cvmfs_config", CONFIG), ("cvmfs_talk", TALK), ("cat", CAT)):
            script(folder / "bin" / name, text.replace("{folder}", str(folder)))
        script(folder / "bin/program", PROGRAM.read_text().replace("/etc/tierbench/cvmfs", str(folder / "cvmfs")))

    @property
    def cached(self):
        return int((self.folder / "cached").read_text())

    def run(self, *arguments):
        return run(self.folder / "bin/program", *arguments, env={"PATH": f"{self.folder}/bin:{os.environ['PATH']}"})


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.mark.parametrize(("value", "cached"), [("cold", 1000), ("warm", 1_600_000)])
def test_what_was_set_is_what_is_read_back_and_what_is_there_need_not_come_again(host, value, cached):
    """The stand-in of `cat` adds what is read to what was there; wiping begins with 1000 bytes."""
    assert host.run("set", value).returncode == 0
    assert host.cached == cached
    assert host.run("get").stdout.splitlines() == [value, f"{cached} /cvmfs/sft.cern.ch"]


def test_a_trial_makes_a_cold_cache_no_warm_one(host):
    """It reads a part of the software; the next trial finds it cold, and has it wiped all the same."""
    assert host.run("get").stdout.startswith("cold\n")


@pytest.mark.parametrize(
    ("trouble", "value", "words"),
    [
        ("broken", "cold", "cvmfs_config probe sft.cern.ch: failed"),
        ("stubborn", "cold", "the cache was wiped and holds 59 %"),
        ("small", "warm", "all of"),
        ("mute", "cold", "cvmfs_talk does not tell the size of the cache"),
    ],
)
def test_a_cache_that_is_not_as_asked_for_is_refused(host, trouble, value, words):
    (host.folder / trouble).touch()
    refused = host.run("set", value)
    assert refused.returncode == 1
    assert words in refused.stderr
