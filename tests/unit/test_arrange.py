"""Root's helper changes one thing and always undoes it; the job that holds a condition tells what became of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tierbench import site_configs
from tierbench.joined import joined

HELPER = Path(site_configs.__file__).parent / "tierbench-arrange"
WORD = """#!/bin/sh
# takes: 0 2000
case $1 in
get) cat {value} ;;
set) [ "$2" != 13 ] || {{ echo "not on a Friday" >&2; exit 1; }}; echo "$2" >{value} ;;
esac
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the helper is root's")


class Place:
    """A host's helper with one word, `rtt`, whose value is in a file."""

    def __init__(self, folder: Path) -> None:
        self.words, self.state, self.value = folder / "arrange.d", folder / "state", folder / "value"
        self.words.mkdir()
        self.value.write_text("14\n")
        self.helper = folder / "tierbench-arrange"
        text = HELPER.read_text().replace("/etc/tierbench/arrange.d", str(self.words))
        self.helper.write_text(text.replace("/run/tierbench-arrange", str(self.state)))
        self.helper.chmod(0o755)
        self.program = self.words / "rtt"
        self.program.write_text(WORD.format(value=self.value))
        self.program.chmod(0o755)
        self.script = folder / "arrange.py"
        self.script.write_text(joined("tierbench.wrappers.arrange"))

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.helper, *arguments], input="", capture_output=True, text=True, timeout=60, check=False
        )

    def held(self, value: str) -> subprocess.Popen[str]:
        holder = subprocess.Popen(
            [self.helper, "hold", "rtt", value], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        assert json.loads(holder.stdout.readline())["now"] == value
        return holder

    def job(self, value: str, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, self.script, "--condition", "wan-rtt", "--word", "rtt", "--value", value,
             "--helper", self.helper, *more],
            cwd=self.value.parent, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # others may look in, as they may at a real one
        yield Place(Path(folder))


def lines(job: subprocess.Popen[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in job.communicate(timeout=60)[0].splitlines()]


def test_it_tells_the_present_value(place: Place) -> None:
    assert place.call("get", "rtt").stdout == "14\n"


def test_it_changes_the_value_and_restores_it_when_its_input_ends(place: Place) -> None:
    holder = place.held("47")
    assert place.value.read_text() == "47\n"
    told, _ = holder.communicate(timeout=60)
    assert json.loads(told) == {"word": "rtt", "restored": "14"}
    assert place.value.read_text() == "14\n"


def test_it_restores_the_value_when_it_is_ended(place: Place) -> None:
    holder = place.held("47")
    holder.send_signal(signal.SIGTERM)
    holder.communicate(timeout=60)
    assert place.value.read_text() == "14\n"


def test_what_a_killed_holder_left_is_restored_by_the_next_one(place: Place) -> None:
    holder = place.held("47")
    holder.kill()
    holder.communicate(timeout=60)
    assert place.value.read_text() == "47\n"
    next_one = place.held("60")
    next_one.communicate(timeout=60)
    assert place.value.read_text() == "14\n"


def test_a_change_that_fails_is_undone_and_told(place: Place) -> None:
    result = place.call("hold", "rtt", "13")
    assert (result.returncode, place.value.read_text()) == (1, "14\n")
    assert "not on a Friday" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_status", "words"),
    [
        (("hold", "rtt", "2001"), 2, "takes a number in 0 to 2000"),
        (("hold", "rtt", "1;reboot"), 2, "takes a number in 0 to 2000"),
        (("hold", "rtt", "nan"), 2, "takes a number in 0 to 2000"),
        (("hold", "rtt", "-1"), 2, "takes a number in 0 to 2000"),
        (("hold", "../rtt", "1"), 2, "a word has small letters"),
        (("get", "rate"), 2, "this host arranges no rate; its words are: rtt"),
        (("get",), 2, "usage"),
        ((), 2, "usage"),
    ],
)
def test_nothing_else_reaches_the_words_program(
    place: Place, arguments: tuple[str, ...], exit_status: int, words: str
) -> None:
    result = place.call(*arguments)
    assert (result.returncode, place.value.read_text()) == (exit_status, "14\n")
    assert words in result.stderr


@pytest.mark.parametrize("which", ["program", "words"])
def test_a_program_that_others_could_change_is_not_run(place: Place, which: str) -> None:
    path: Path = getattr(place, which)
    path.chmod(0o777)
    result = place.call("get", "rtt")
    assert (result.returncode, result.stdout) == (4, "")


def test_a_link_is_no_program(place: Place) -> None:
    (place.words / "other").symlink_to(place.program)
    assert place.call("get", "other").returncode == 4


def test_only_root_is_served(place: Place) -> None:
    command = ["setpriv", "--reuid=65534", "--clear-groups", str(place.helper), "get", "rtt"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 4
    assert "only root can do this" in result.stderr


def test_a_job_holds_a_condition_until_it_is_told_to_stop(place: Place) -> None:
    job = place.job("47", "--stop-file", "stop")
    assert job.stdout is not None
    arranged = json.loads(job.stdout.readline())
    assert (arranged["event"], arranged["before"], arranged["now"]) == ("arranged", "14", "47")
    (place.value.parent / "stop").touch()
    (restored,) = lines(job)
    assert (restored["event"], restored["now"], place.value.read_text()) == ("restored", "14", "14\n")


def test_a_job_that_is_removed_restores_the_value(place: Place) -> None:
    job = place.job("47")
    assert job.stdout is not None
    job.stdout.readline()
    job.send_signal(signal.SIGTERM)
    assert [line["event"] for line in lines(job)] == ["restored"]
    assert place.value.read_text() == "14\n"


def test_a_job_that_is_killed_leaves_the_value_restored(place: Place) -> None:
    job = place.job("47")
    assert job.stdout is not None
    job.stdout.readline()
    job.kill()
    job.communicate(timeout=60)
    assert place.call("hold", "rtt", "5").returncode == 0  # which waits for the holder before it
    assert place.value.read_text() == "14\n"


@pytest.mark.parametrize(("value", "words"), [("13", "not on a Friday"), ("9999", "takes a number in 0 to 2000")])
def test_a_job_tells_why_a_condition_is_not_held(place: Place, value: str, words: str) -> None:
    (failed,) = lines(place.job(value))
    assert failed["event"] == "failed"
    assert words in failed["message"]


def test_a_job_tells_that_there_is_no_helper(place: Place) -> None:
    place.helper.unlink()
    (failed,) = lines(place.job("47"))
    assert "is what an admin installs" in failed["message"]
