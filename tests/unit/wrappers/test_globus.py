"""The client of Globus' transfer service: a job of several files against a service on this machine.

globus-cli itself is asked where it is installed beside this Python or on the PATH, else a stand-in with its commands.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.unit.client_process import Job, events, until
from tests.unit.globus_service import Service, serving

SOURCE, TARGET = "aa752cea-8222-5bc8-acd9-555b090c0ccb", "313ce13e-b597-5858-ae13-29e46fea26e6"
STAND_IN = Path(__file__).parents[1] / "data/globus"
FILES = [(f"globus://{SOURCE}/data/f{number}.dat", 1000 * number) for number in (1, 2, 3)]
TOTAL = sum(size for _, size in FILES)


def started(folder, service, **options):
    """A job as HTCondor runs it, whose service tells of its task what it is told to."""
    job = Job(folder)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    (folder / "bin/globus").symlink_to(shutil.which("globus", path=path) or STAND_IN)
    (folder / "replicas.txt").write_text("".join(f"{url}\t{size}\n" for url, size in FILES))
    task = {"options": {"to": f"globus://{TARGET}/in", **options}, "work": {"files_per_job": len(FILES)}}
    account = {"GLOBUS_CLI_CLIENT_ID": SOURCE, "GLOBUS_CLI_CLIENT_SECRET": "secret", "HOME": str(folder)}
    urls = {f"GLOBUS_SDK_SERVICE_URL_{name}": service.url for name in ("TRANSFER", "AUTH")}
    job.environment.update(account, **urls, PATH=f"{folder}/bin:{path}")
    return job.start("globus", "--options", json.dumps(task))


@pytest.fixture
def service(request):
    with serving(Service(**getattr(request, "param", {"bytes_transferred": TOTAL}))) as service:
        yield service


def test_all_files_of_a_job_are_one_task(tmp_path, service):
    end = events(started(tmp_path, service, verify=False, encrypt=True))["end"]
    assert (end["status"], end["bytes_app"], end["work"]["fetches"]) == ("ok", TOTAL, 3)
    (asked,) = service.submitted
    assert (asked["source_endpoint"], asked["destination_endpoint"]) == (SOURCE, TARGET)
    assert (asked["verify_checksum"], asked["encrypt_data"]) == (False, True)
    copied = [(item["source_path"], item["destination_path"]) for item in asked["DATA"]]
    assert copied == [(f"/data/f{number}.dat", f"/in/f{number}.dat") for number in (1, 2, 3)]


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


def test_it_copies_only_where_the_way_leads_to_a_collection(tmp_path, service):
    end = events(started(tmp_path, service, to=""))["end"]
    assert (end["status"], service.submitted) == ("wrong-protocol", [])
