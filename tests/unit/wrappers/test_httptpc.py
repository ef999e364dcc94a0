"""What the client makes of answers to COPY, recorded with XRootD 5.8.1, and that it leaves no copy behind."""

import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from tests.unit.client_process import PATIENCE_S, SIZE, events, until
from tests.unit.stand_ins import serving
from tierbench.wrappers.clients.httptpc import COPY

MARKER = """\
Perf Marker
Timestamp: 1795502873
Stripe Index: 0
Stripe Bytes Transferred: {}
Total Stripe Count: 1
RemoteConnections: tcp:198.18.1.13:8445
End
"""
BEGUN, LATER = MARKER.format(0), MARKER.format(329056256)
BROKEN_OFF = (
    "Internal transfer failure, local=/b1, remote=https://x/y, HTTP library failure=Failure when receiving data"
)
REFUSED = "Remote side failed with status code 403, local=/a.dat, remote=https://dgt.fiu.test:8446/p5"
UNSEEN = "Remote side [::ffff:198.18.2.103] failed with status code 404 while fetching remote size, local=/p3"
SUCCESS = BEGUN + "success: Created"


class Servers(BaseHTTPRequestHandler):
    """Both in one: answers as it is told, and keeps what it was asked."""

    protocol_version = "HTTP/1.1"
    code, said, size, removal, cut, hangs, takes_s = 201, SUCCESS, SIZE, 200, False, "", 0.0

    def do_COPY(self):
        self.asked.append(("COPY", self.path, dict(self.headers)))
        if self.path.startswith("/manager"):
            self.answer(307, location=self.path.replace("/manager", "/copies"))
            return
        time.sleep(self.takes_s)
        self.send_response(self.code)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in self.said.splitlines(keepends=True):
            self.wfile.write(f"{len(line):x}\r\n{line}\r\n".encode())
        if self.hangs == "COPY":
            self.over.wait(PATIENCE_S)
        self.close_connection = True
        if not self.cut:
            self.wfile.write(b"0\r\n\r\n")

    def do_HEAD(self):
        self.asked.append(("HEAD", self.path, {}))
        if self.hangs == "HEAD":
            self.over.wait(PATIENCE_S)
        self.answer(200, length=self.size)

    def do_DELETE(self):
        self.asked.append(("DELETE", self.path, {"at": time.time_ns()}))
        self.answer(self.removal)

    def answer(self, code, length=0, location=""):
        self.send_response(code)
        self.send_header("Content-Length", str(length))
        if location:
            self.send_header("Location", location)
        self.end_headers()


@pytest.fixture
def servers():
    servers = type("Asked", (Servers,), {"asked": [], "over": threading.Event()})
    with serving(servers) as servers.url:
        yield servers
        servers.over.set()


@pytest.fixture
def job(job, servers):
    job.offer(f"{servers.url}/data/replica.root", SIZE)
    return job


def asked(servers, method):
    return [path for asked, path, _ in servers.asked if asked == method]


@pytest.mark.parametrize(
    ("answer", "status", "moved", "reason"),
    [
        ({"said": SUCCESS}, "ok", SIZE, ""),
        ({"said": BEGUN + "failure: " + REFUSED}, "open-failed", 0, REFUSED),
        ({"said": BEGUN + LATER + "failure: " + BROKEN_OFF}, "short-read", 329056256, BROKEN_OFF),
        ({"said": BEGUN + LATER, "cut": True}, "short-read", 329056256, "neither success nor failure"),
        ({"said": BEGUN}, "open-failed", 0, "neither success nor failure"),
        ({"said": ""}, "open-failed", 0, "neither success nor failure"),
        ({"code": 500, "said": "failure: " + UNSEEN}, "open-failed", 0, f"the server answered 500: {UNSEEN}"),
        ({"size": SIZE - 1}, "short-read", SIZE - 1, f"{SIZE - 1} of {SIZE} bytes"),
        ({"removal": 403}, "failed", SIZE, "could not be removed: the server answered 403"),
        ({"removal": 404}, "ok", SIZE, ""),
    ],
    ids=["success", "refused", "broken off", "cut off", "no last line", "nothing", "error", "short", "left", "gone"],
)
def test_the_last_line_and_the_size_tell_and_no_copy_is_left(servers, job, answer, status, moved, reason):
    for name, value in answer.items():
        setattr(servers, name, value)
    end = job.end("httptpc", options={"to": f"{servers.url}/copies"})
    assert (end["status"], end["bytes_app"], end["bytes_client"]) == (status, moved, None)
    assert reason in end["message"]
    assert asked(servers, "DELETE") == asked(servers, "COPY")


@pytest.mark.parametrize("push", [False, True])
def test_the_destination_fetches_or_the_source_writes(servers, job, push):
    job.end("httptpc", options={"to": f"{servers.url}/copies", "push": push, "streams": 4})
    _, path, headers = servers.asked[0]
    (copy,) = asked(servers, "DELETE")
    assert path == ("/data/replica.root" if push else copy)
    assert headers.get("Source") == (None if push else f"{servers.url}/data/replica.root")
    assert headers.get("Destination") == (f"{servers.url}{copy}" if push else None)
    assert headers["X-Number-Of-Streams"] == "4"


def test_who_is_behind_the_timetable_waits_from_when_a_copy_was_due(servers, job):
    servers.takes_s, due_s = 0.3, 0.1
    end = job.end("httptpc", options={"to": f"{servers.url}/copies"}, for_s=4, fetch_every_s=due_s)
    copies = end["work"]["fetches"]
    assert end["work"]["latency_s"]["max"] > 0.95 * (copies * servers.takes_s - (copies - 1) * due_s) > servers.takes_s


def test_a_clusters_manager_sends_on(servers, job):
    end = job.end("httptpc", options={"to": f"{servers.url}/manager"})
    assert end["status"] == "ok", end
    manager, server = asked(servers, "COPY")
    assert (manager.split("/")[1], server.split("/")[1]) == ("manager", "copies")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves connections to its end
def test_no_token_goes_where_a_server_sends_on_to_without_tls(servers, monkeypatch):
    asks = {"sys": sys}
    monkeypatch.setattr(sys, "argv", ["", *[""] * 7])
    exec(COPY.partition("wait_for_go()")[0], asks)  # noqa: S102
    headers = {"Authorization": "Bearer a", "TransferHeaderAuthorization": "Bearer b", "Source": "https://x/y"}
    asks["ask"]("COPY", f"{servers.url}/copies/1", headers).close()
    _, _, seen = servers.asked[0]
    assert (seen["Source"], [name for name in seen if "Authorization" in name]) == ("https://x/y", [])


def test_the_removal_is_after_the_copys_time(servers, job):
    end = job.end("httptpc", options={"to": f"{servers.url}/copies"})
    assert end["wall_ns"] < servers.asked[-1][2]["at"]


def test_each_copy_of_a_job_has_a_name_of_its_own(servers, job):
    (job.folder / "replicas.txt").write_text(f"{servers.url}/data/replica.root\t{SIZE}\n" * 3)
    end = job.end("httptpc", options={"to": f"{servers.url}/copies"}, files_per_job=3)
    assert (end["status"], end["bytes_app"], end["work"]["fetches"]) == ("ok", 3 * SIZE, 3)
    assert len(set(asked(servers, "COPY"))) == 3


@pytest.mark.parametrize(("hangs", "said"), [("COPY", BEGUN), ("HEAD", SUCCESS)])
def test_who_is_ended_in_a_copy_or_as_its_size_is_asked_for_removes_it(servers, job, hangs, said):
    servers.said, servers.hangs = said, hangs
    process = job.start("httptpc", "--options", f'{{"to": "{servers.url}/copies"}}')
    until(lambda: asked(servers, hangs))
    process.send_signal(signal.SIGTERM)
    assert events(process)["end"]["status"] == "killed"
    assert asked(servers, "DELETE") == asked(servers, "COPY")
