"""uproot as a client: on the real library where the tests' python3 finds it, and what it says where it is missing."""

import json
import re
from http.server import BaseHTTPRequestHandler

import pytest

from tests.unit.client_process import client_of, run_of
from tests.unit.stand_ins import run, serving
from tierbench.wrappers.clients.uproot import REPORT, Uproot

EVENTS, BRANCHES = 20_000, 10
MADE = f"""
import numpy, sys, uproot
name = "b" if sys.argv[2] == "rntuple" else "Jets.b"  # as in files of ATLAS and CMS
content = {{f"{{name}}{{number}}": numpy.random.default_rng(number).random({EVENTS}) for number in range({BRANCHES})}}
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


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_its_share_of_the_branches_is_read_of_all_events(job, file, share):
    job.offer(file, file.stat().st_size)
    end = job.end("uproot", options={"branches": share, "step_events": 5000})
    assert (end["status"], end["message"], end["events"]) == ("ok", "", EVENTS)
    assert end["bytes_app"] == pytest.approx(share * 8 * EVENTS * BRANCHES, rel=0.02)
    assert end["detail"]["branches"] == share * BRANCHES


class Ranges(BaseHTTPRequestHandler):
    """Serves a file by ranges, and what a path says of it in its stead."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        whole, (fault, _) = self.content, self.path.strip("/").split("/")
        if fault == "404":
            self.answer(404, b"<html>no such file</html>" * 1000)
            return
        if fault == "page":
            self.answer(200, b"<html>log in, please</html>")
            return
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        body = whole[first : last + 1]
        late = len(body) > 10_000
        self.answer(206, body[: len(body) // 2] if fault == "short" and late else body, cut=fault == "cut" and late)

    def do_HEAD(self):
        self.answer(200, self.content)

    def answer(self, code, body, cut=False):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection |= cut


@pytest.fixture
def served(file):
    if run("python3", "-c", "import aiohttp").returncode:
        pytest.skip("python3 has no aiohttp")
    with serving(type("Served", (Ranges,), {"content": file.read_bytes()})) as url:
        yield url


def test_by_http_it_reads_the_bytes_that_it_reads_from_a_mount(job, file, served):
    ends = []
    for url in (file, f"{served}/good/f.root"):
        job.offer(url, file.stat().st_size)
        ends.append(job.end("uproot", options={"branches": 0.5}))
    assert [end["status"] for end in ends] == ["ok", "ok"], ends
    assert ends[0]["events"] == ends[1]["events"]
    assert ends[0]["bytes_app"] == ends[1]["bytes_app"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("404", "FileNotFoundError: http"),
        ("page", "OSError: expected Chunk"),
        ("short", "OSError: expected Chunk"),
        ("cut", "ClientPayloadError: "),
    ],
)
def test_what_a_broken_server_sends_is_no_read_and_its_reason_is_told(job, file, served, fault, reason):
    job.offer(f"{served}/{fault}/f.root", file.stat().st_size)
    end = job.end("uproot")
    assert (end["status"], end["bytes_app"]) == ("open-failed", None)
    assert reason in end["message"]


@pytest.mark.parametrize("secured", [True, False])
def test_a_token_is_shown_to_a_secured_server_only_and_on_no_command_line(tmp_path, monkeypatch, secured):
    token = tmp_path / "token"
    token.write_text("secret")
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(token))
    url = f"http{'s' * secured}://server/f.root"
    words = client_of(Uproot, tmp_path, url, 1000).held_command()
    assert (str(token) in words) == secured
    assert "secret" not in words


@pytest.mark.parametrize(
    ("size", "exit_status", "status"),
    [(1000, 0, "ok"), (900, 0, "short-read"), (1100, 0, "failed"), (None, 1, "open-failed")],
)
def test_the_file_has_to_be_the_one_that_was_planned(tmp_path, size, exit_status, status):
    if size:
        report = {"opened_wall_ns": 1, "first_event_wall_ns": 2, "file_bytes": size, "events": 3, "bytes": 800}
        (tmp_path / REPORT).write_text(json.dumps(report))
    end = client_of(Uproot, tmp_path, "/data/f.root", 1000).outcome(run_of("", exit_status))
    assert end["status"] == status


def test_a_python_without_it_is_named(job, monkeypatch):
    job.script("bin/python3", "exit 1")
    monkeypatch.setenv("PATH", job.environment["PATH"])
    assert Uproot.missing(Uproot.with_defaults({})) == "python3 finds no uproot and awkward"
    assert Uproot.missing(Uproot.with_defaults({"setup": "python3() { :; }; exec true"})) == ""
