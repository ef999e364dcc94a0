"""`testbed run --all-papers` runs what is not done and writes a page of what there is; what comes home from hosts."""

import os
from unittest.mock import Mock

import pytest

from tests.unit.stand_ins import HereHost
from tests.unit.synthetic_report import Shape, write_run
from tierbench import names
from tierbench.errors import BusyError, HostError
from tierbench.postprocess.report.write import INDEX
from tierbench.submit.cli import main
from tierbench.submit.progress import Run
from tierbench.testbed import all_papers, host
from tierbench.testbed.cli import Progress
from tierbench.testbed.run import bring_home
from tierbench.testbed.services import topology
from tierbench.testbed.settings import Settings
from tierbench.testbed.testbed import Testbed

FIRST, SECOND, THIRD = "extenci-pools-scaled", "extenci-stacked-scaled", "ani-srm-scaled"
SHAPE = Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, samples=False)
WHOLE = "tar -C {} -cf - ."


def _bring_home(into):
    write_run(into, SHAPE)
    (into / "report.html").touch()
    for trial in Run(into).trial_directories:
        trial.mkdir(parents=True, exist_ok=True)
        (trial / names.OUTCOME).write_text('{"format": 1, "state": "complete", "reasons": [], "again": false}')


@pytest.fixture
def ran(monkeypatch):
    """The experiments that were run, each within an instant, of which the second fails the first time."""
    ran = []

    def run(_testbed, experiment, into, *_):
        ran.append(experiment)
        if experiment == SECOND and ran.count(SECOND) == 1:
            raise HostError("a mount did not come up")
        _bring_home(into)
        return 0

    monkeypatch.setattr(all_papers, "experiments", lambda: [FIRST, SECOND, THIRD])
    monkeypatch.setattr(all_papers, "run", run)
    monkeypatch.setattr(Testbed, "down", lambda _: True)
    return ran


def run_all(into):
    return all_papers.run_all(Testbed("none-of-that-name"), into, Progress(), anyway=False)


def test_what_failed_is_named_and_alone_tried_again(ran, tmp_path, capsys):
    assert run_all(tmp_path) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"{SECOND}: a mount did not come up")
    page = (tmp_path / INDEX).read_text()
    assert f'href="{FIRST}/report.html"' in page
    assert f'href="{SECOND}/report.html"' not in page

    assert run_all(tmp_path) == 0
    assert ran == [FIRST, SECOND, THIRD, SECOND]
    assert f'href="{SECOND}/report.html"' in (tmp_path / INDEX).read_text()


@pytest.fixture
def holds(monkeypatch):
    """Makes it a testbed that is up, with these DAGs in its queue, these runs, and one of them that is not home."""

    def holds(queue, runs, waiting=""):
        monkeypatch.setattr(Testbed, "is_up", True)
        monkeypatch.setattr(all_papers, "waits_for_us", lambda _, home: home.name == waiting)
        monkeypatch.setattr(all_papers, "_in_queue", lambda _: queue)
        monkeypatch.setattr(all_papers, "_submitted", lambda _: runs)

    return holds


@pytest.fixture
def goes_on(ran, holds, monkeypatch):
    """A testbed in which the third experiment's run is, and not home; what is done with it."""
    holds("", [THIRD], THIRD)
    monkeypatch.setattr(Testbed, "down", lambda _: ran.append("down"))
    monkeypatch.setattr(all_papers, "attach", lambda _, home, __: ran.append(home.name) or _bring_home(home) or 0)
    return ran


def test_what_goes_on_there_comes_home_first(goes_on, tmp_path):
    run_all(tmp_path)
    assert goes_on == [THIRD, "down", FIRST, "down", SECOND, "down"]


def test_a_testbed_that_alone_has_a_run_stays_up(goes_on, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(all_papers, "attach", Mock(side_effect=HostError("there is no room")))
    assert run_all(tmp_path) == 1
    assert goes_on == []
    assert "the same command brings it home" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("queue", "there", "why"),
    [
        ("7", [], r"has DAGs in its queue \(7\)"),
        ("", ["mine", THIRD], r"has other runs \(mine\), which may not have come"),
    ],
)
def test_a_testbed_in_which_something_else_goes_on_is_not_taken(ran, holds, tmp_path, queue, there, why):
    holds(queue, there)
    with pytest.raises(BusyError, match=why):
        run_all(tmp_path)
    assert ran == []


def test_the_list_says_what_is_done_and_how_long_the_rest_takes(ran, tmp_path, capsys):
    _bring_home(tmp_path / FIRST)
    all_papers.show_list(tmp_path)
    first, second, _, total = capsys.readouterr().out.splitlines()
    assert first.split() == [FIRST, "is", "done"]
    assert float(second.split()[1]) >= 1
    assert float(total.split()[-2]) > 0
    assert ran == []


def test_a_stopped_run_is_neither_done_nor_overwritten(ran, tmp_path, capsys):
    _bring_home(tmp_path / FIRST)
    next((tmp_path / FIRST).glob(f"trials/*/{names.OUTCOME}")).unlink()
    run_all(tmp_path)
    assert FIRST not in ran
    assert f"{FIRST}: was stopped before its end" in capsys.readouterr().err


def test_each_experiment_gets_the_testbed_that_it_demands():
    assert all_papers.settings_of("ani-srm-redirector-scaled") == Settings(redirector=1)
    assert {name.rsplit("-", 1)[1] for name in all_papers.experiments()} == {"scaled"}


def test_repetitions_are_added_to_no_more_than_one_run(monkeypatch, capsys):
    monkeypatch.setattr(all_papers, "run_all", lambda *_: 0)  # nothing is brought up here, whatever is broken
    with pytest.raises(SystemExit, match="2"):
        main(["testbed", "run", "--all-papers", "--more", "1"])
    assert "--more: not allowed with argument --all-papers" in capsys.readouterr().err


class Host:
    """As a running host is to who copies from it: something with commands."""

    name = "ce"

    def __init__(self, line):
        self.line = line

    def command(self, *_):
        return ["sh", "-c", self.line]


@pytest.fixture
def there(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "first").write_text("whole")
    (folder / "second").write_bytes(b"x" * 100_000)
    return folder


def brought(line, there, into, anew=False):
    return bring_home(Host(line.format(there)), str(there), into, "bench", anew)


def test_all_of_it_comes_home_and_takes_the_place_of_a_copy_before_also_if_that_was_broken_off(there, tmp_path):
    assert brought(WHOLE, there, tmp_path / "runs/run") == []
    assert [path.name for path in tmp_path.glob("runs/*")] == ["run"]
    assert sorted(path.name for path in tmp_path.glob("runs/run/*")) == ["first", "second"]
    (tmp_path / "runs/run/first").rename(tmp_path / "runs/run/only-before")
    (tmp_path / "runs/.run.before/half").mkdir(parents=True)
    assert brought(WHOLE, there, tmp_path / "runs/run", anew=True) == []
    assert [path.name for path in tmp_path.glob("runs/*")] == ["run"]
    assert sorted(path.name for path in tmp_path.glob("runs/run/*")) == ["first", "second"]
    assert [path.name for path in tmp_path.glob("runs/.*")] == []


def test_what_cannot_be_read_is_named_however_much_it_is(there, tmp_path):
    line = "tar: ./denied: Warning: Cannot open: Permission denied"
    complains = f"yes '{line}' | head -5000 >&2; {WHOLE}"
    assert brought(complains, there, tmp_path / "runs/run") == ["./denied"] * 5000
    assert (tmp_path / "runs/run/first").read_text() == "whole"


def test_a_pipe_in_place_of_a_file_is_not_read_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "EXCHANGE_SECONDS", 0.5)
    here = HereHost(topology(Settings()).host("ce"), tmp_path / "bed/hosts/ce")
    (tmp_path / "file").write_text("whole")
    os.mkfifo(tmp_path / "pipe")
    assert here.read(str(tmp_path / "file")) == b"whole"
    with pytest.raises(HostError, match=r"ce: -- .*/pipe: no end after 0\.5 s"):
        here.read(str(tmp_path / "pipe"))


def test_of_what_was_broken_off_nothing_is_taken_for_the_run(there, tmp_path):
    with pytest.raises(HostError):
        brought(f"{WHOLE} | head -c 2000; exit 2", there, tmp_path / "runs/run")
    assert list(tmp_path.glob("runs/*")) == []
