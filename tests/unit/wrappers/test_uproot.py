"""uproot as a client: on the real library where the tests' python3 finds it, and what it says where it is missing."""

import json

import pytest

from tests.unit.stand_ins import run
from tierbench.wrappers.child import Run
from tierbench.wrappers.client import Job as Asked
from tierbench.wrappers.clients.uproot import REPORT, Uproot

EVENTS, BRANCHES = 20_000, 10
MADE = f"""
import numpy, sys, uproot
content = {{f"b{{number}}": numpy.random.default_rng(number).random({EVENTS}) for number in range({BRANCHES})}}
with uproot.recreate(sys.argv[1], compression=None) as file:
    (file.mkrntuple if sys.argv[2] == "rntuple" else file.mktree)("Events", content)
"""


@pytest.fixture(params=["ttree", "rntuple"])
def file(request, tmp_path):
    path = tmp_path / f"{request.param}.root"
    made = run("python3", "-c", MADE, path, request.param)
    if "ModuleNotFoundError" in made.stderr:
        pytest.skip("python3 has no uproot")
    assert made.returncode == 0, made.stderr
    return path


@pytest.mark.parametrize(("branches", "share"), [(1.0, 1.0), (0.3, 0.3)])
def test_its_share_of_the_branches_is_read_of_all_events(job, file, branches, share):
    size = file.stat().st_size
    job.offer(file, size)
    end = job.end("uproot", options={"branches": branches, "step_events": 5000})
    assert (end["status"], end["message"], end["events"]) == ("ok", "", EVENTS)
    assert end["bytes_app"] == pytest.approx(share * 8 * EVENTS * BRANCHES, rel=0.02)
    assert end["detail"]["branches"] == share * BRANCHES


def client(folder, **options):
    return Uproot(Asked("/data/f.root", 1000, None, 0, Uproot.with_defaults(options), folder))


@pytest.mark.parametrize(
    ("size", "exit_status", "status"),
    [(1000, 0, "ok"), (900, 0, "short-read"), (1100, 0, "failed"), (None, 1, "open-failed")],
)
def test_the_file_has_to_be_the_one_that_was_planned(tmp_path, size, exit_status, status):
    if size:
        report = {"opened_wall_ns": 1, "first_event_wall_ns": 2, "file_bytes": size, "events": 3, "bytes": 800}
        (tmp_path / REPORT).write_text(json.dumps(report))
    end = client(tmp_path).outcome(Run(exit_status, 0, 0, None, 9000, 0, 0.0, 0.0, 0, "", 0))
    assert end["status"] == status


def test_a_python_without_it_is_named(job, monkeypatch):
    job.script("bin/python3", "exit 1")
    monkeypatch.setenv("PATH", job.environment["PATH"])
    assert Uproot.missing(Uproot.with_defaults({})) == "python3 finds no uproot and awkward"
    assert Uproot.missing(Uproot.with_defaults({"setup": "python3() { :; }; exec true"})) == ""
