"""The client of Globus' transfer service: a job of several files against a service on this machine.

The service answers as Globus documents its Transfer API, and copies nothing.
globus-cli itself is asked where it is installed beside this Python or on the PATH, else a stand-in with its commands.
"""

import json
import os
import shutil
import signal
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.unit.client_process import Job, events, until
from tests.unit.stand_ins import serving

SOURCE, TARGET = "aa752cea-8222-5bc8-acd9-555b090c0ccb", "313ce13e-b597-5858-ae13-29e46fea26e6"
STAND_IN = Path(__file__).parents[1] / "data/globus"
FILES = [(f"globus://{SOURCE}/data/f{number}.dat", 1000 * number) for number in (1, 2, 3)]
TOTAL = sum(size for _, size in FILES)


TOKEN = {
    "access_token": "a", "scope": "urn:globus:auth:scope:transfer.api.globus.org:all", "expires_in": 172800,
    "token_type": "Bearer", "resource_server": "transfer.api.globus.org", "other_tokens": [],
}  # fmt: skip


class Service:
    """What it was asked, and what becomes of each task."""

    def __init__(self, **of_task):
        self.submitted = []
        self.cancelled = []
        self.of_task = of_task
        self.answers_after_s = 0.0  # what it has accepted
        self.ended = threading.Event()

    def answer(self, method, path, body):
        if path.endswith("/oauth2/token"):
            return TOKEN
        if path.endswith("/submission_id"):
            return {"DATA_TYPE": "submission_id", "value": str(uuid.uuid4())}
        if method == "POST" and path.endswith("/transfer"):
            self.submitted.append(json.loads(body))
            self.ended.wait(self.answers_after_s)
            told = {"DATA_TYPE": "transfer_result", "code": "Accepted", "message": "accepted", "request_id": "r"}
            return {**told, "task_id": str(uuid.uuid4()), "submission_id": self.submitted[-1].get("submission_id", "")}
        task = path.split("/task/")[1].split("/")[0].split("?")[0]
        if path.endswith("/cancel"):
            self.cancelled.append(task)
            return {"DATA_TYPE": "result", "code": "Canceled", "message": "cancelled", "request_id": "r"}
        files = len(self.submitted[-1]["DATA"])
        return {"DATA_TYPE": "task", "task_id": task, "type": "TRANSFER", "status": "SUCCEEDED", "files": files,
                "files_transferred": files, "faults": 0, "directories": 0, "label": "tierbench", "is_paused": False,
                "request_time": "2026-01-01T00:00:00+00:00", "completion_time": "2026-01-01T00:00:09+00:00",
                "source_endpoint_display_name": "a", "destination_endpoint_display_name": "b",
                **self.of_task}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        said = json.dumps(self.service.answer(self.command, self.path, body)).encode()
        self.send_response(202 if self.path.endswith("/transfer") else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_POST = do_GET  # noqa: N815


def started(folder, service, **options):
    """A job as HTCondor runs it, whose service tells of its task what it is told to."""
    job = Job(folder)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    (folder / "bin/globus").symlink_to(shutil.which("globus", path=path) or STAND_IN)
    (folder / "replicas.txt").write_text("".join(f"{url}\t{size}\n" for url, size in FILES))
    task = {"options": {"to": f"globus://{TARGET}/in", **options}, "work": {"files_per_job": len(FILES)}}
    account = {"GLOBUS_CLI_CLIENT_ID": SOURCE, "GLOBUS_CLI_CLIENT_SECRET": "secret", "HOME": str(folder)}
    urls = {f"GLOBUS_SDK_SERVICE_URL_{name}": f"{service.url}/" for name in ("TRANSFER", "AUTH")}
    job.environment.update(account, **urls, PATH=f"{folder}/bin:{path}")
    return job.start("globus", "--options", json.dumps(task))


@pytest.fixture
def service(request):
    service = Service(**getattr(request, "param", {"bytes_transferred": TOTAL}))
    with serving(type("Own", (Handler,), {"service": service})) as service.url:
        yield service
        service.ended.set()


def test_all_files_of_a_job_are_one_task(tmp_path, service):
    end = events(started(tmp_path, service, verify=False, encrypt=True))["end"]
    assert (end["status"], end["bytes_app"], end["work"]["fetches"]) == ("ok", TOTAL, 3)
    (asked,) = service.submitted
    assert (asked["source_endpoint"], asked["destination_endpoint"]) == (SOURCE, TARGET)
    assert (asked["verify_checksum"], asked["encrypt_data"]) == (False, True)
    copied = [(item["source_path"], item["destination_path"]) for item in asked["DATA"]]
    assert copied == [(f"/data/f{number}.dat", f"/in/f{number}.dat") for number in (1, 2, 3)]
    assert not (tmp_path / ".globus").exists()  # globus-cli's tokens went with the job


@pytest.mark.parametrize(
    ("service", "status", "words"),
    [
        ({"status": "FAILED", "fatal_error": {"description": "no such collection"}},
         "open-failed", "the task is FAILED: no such collection"),
        ({"bytes_transferred": TOTAL - 1}, "short-read", f"moved {TOTAL - 1} of {TOTAL} bytes"),
        ({"bytes_transferred": TOTAL, "files_transferred": 2, "files_skipped": 1}, "short-read", "2 of 3 files"),
    ],
    indirect=["service"],
)  # fmt: skip
def test_a_task_that_did_not_move_all_is_no_success(tmp_path, service, status, words):
    end = events(started(tmp_path, service))["end"]
    assert end["status"] == status
    assert words in end["message"]


@pytest.mark.parametrize("service", [{"status": "ACTIVE", "bytes_transferred": 0}], indirect=True)
def test_a_job_that_is_ended_takes_its_task_back(tmp_path, service):
    service.answers_after_s = 120  # so the job does not know its task yet
    running = started(tmp_path, service)
    until(lambda: service.submitted)
    running.send_signal(signal.SIGTERM)
    time.sleep(1)  # in which it hears of it
    service.ended.set()
    running.communicate(timeout=120)
    until(lambda: service.cancelled)  # which may outlive the job
