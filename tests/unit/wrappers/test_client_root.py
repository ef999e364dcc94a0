"""The client of the root routine, with a stand-in for the program and for ROOT."""

import importlib.util
import json
import os
from http.server import SimpleHTTPRequestHandler

import pytest

from tests.unit.client_process import URL, client_of, run_of
from tests.unit.stand_ins import script, serving
from tierbench.errors import UnmetNeed
from tierbench.submit.programs import find_root
from tierbench.wrappers.clients.root import Root

REPORT = {
    "status": "ok", "message": "", "opened_wall_ns": 1, "first_event_wall_ns": 2, "end_wall_ns": 3, "bytes": 90,
    "process_read_bytes": 95, "tree_bytes": 120, "events": 12, "file_bytes": 100, "tree_entries": 12,
    "file_class": "TNetXNGFile", "root_version": "6.40.00", "program": "compiled",
}  # fmt: skip


def root_program(job, name="root_read", begins="echo ready; read go", ends="", **told):
    """A stand-in for a ROOT program, which tells what it is to tell in the file that is its last argument."""
    (job.folder / "told.json").write_text(json.dumps({**REPORT, **told}))
    tells = f'for last; do :; done; cp {job.folder}/told.json "$last"'
    job.script(name, begins, f'echo "$@" > {job.folder}/arguments', tells, ends)
    job.offer(URL, 100)


def test_what_the_root_program_tells_becomes_the_record(job):
    root_program(job)
    end = job.end("root")
    assert (end["status"], end["events"], end["bytes_app"], end["bytes_client"]) == ("ok", 12, 90, 95)
    assert (end["opened_wall_ns"], end["first_byte_wall_ns"]) == (1, 2)
    assert end["detail"]["root_version"] == "6.40.00"


@pytest.mark.parametrize(("cache_mb", "told"), [("off", "-1.0"), ("default", "0.0"), (30, "30.0")])
def test_the_options_reach_the_root_program(job, cache_mb, told):
    root_program(job)
    job.run("root", options={"cache_mb": cache_mb, "learn": True, "tree": "Events", "branches": 0.3, "clusters": 9})
    clusters = "0" if cache_mb == "off" else "9"
    assert (job.folder / "arguments").read_text().split()[:7] == [URL, "Events", told, "1", "1.0", "0.3", clusters]


def test_in_a_scale_model_the_computing_is_scaled_with_the_links(job):
    root_program(job, "higgs")
    job.run("higgs", options={"cpu_s_per_mb": 0.7, "scale": 0.1, "core": 0.02, "combinatorics": 7})
    arguments = (job.folder / "arguments").read_text().split()
    assert arguments[:2] == [URL, "7"]
    assert [float(word) for word in arguments[-4:-2]] == [pytest.approx(0.14), 0.02]


@pytest.mark.parametrize(
    ("told", "status", "message"),
    [
        ({"file_bytes": 99}, "short-read", "the file has 99 bytes where 100 were expected"),
        ({"status": "wrong-protocol", "message": "why", "opened_wall_ns": None}, "wrong-protocol", "why"),
    ],
)
def test_the_root_programs_failure_is_the_clients(job, told, status, message):
    root_program(job, **told)
    end = job.end("root")
    assert (end["status"], end["message"]) == (status, message)


@pytest.mark.parametrize(("exit_status", "status"), [(139, "killed"), (3, "failed")])
def test_a_program_that_dies_after_its_report_has_not_done_well(job, exit_status, status):
    """Its last seconds, in which ROOT prints where it was, would count as reading."""
    root_program(job, ends=f"exit {exit_status}")
    assert job.end("root")["status"] == status


def test_without_a_compiled_program_root_interprets_the_macro(job):
    root_program(job, "bin/root.exe")
    job.run("root", options={"setup": "true"})
    macro = f'root_read.C("{URL}","",0.0,false,1.0,1.0,1,true,"'
    assert macro in (job.folder / "arguments").read_text()


def test_a_setup_that_fails_is_told(job):
    root_program(job)
    end = job.end("root", options={"setup": "echo nothing here >&2; false"})
    assert (end["status"], "nothing here" in end["message"]) == ("failed", True)


def test_root_is_started_at_the_go_where_that_is_to_count(job):
    root_program(job, begins=f"date +%s%N > {job.folder}/began")
    run = job.run("root", options={"starting": True})
    assert run["end"]["status"] == "ok"
    assert (job.folder / "arguments").read_text().split()[-2] == "0"
    assert int((job.folder / "began").read_text()) > run["go"]["wall_ns"]


def test_a_program_that_leaves_no_report_is_not_credited_with_the_one_before(job):
    once = f"[ ! -e {job.folder}/ran ] || exit 1; touch {job.folder}/ran"
    root_program(job, begins=f"echo ready; read go; {once}", bytes=90_000)
    (job.folder / "replicas.txt").write_text(f"{URL}\t100\n" * 2)
    end = job.end("root", files_per_job=2)
    assert (end["work"]["fetches"], end["work"]["failed"]) == (1, 1)
    assert end["bytes_app"] == pytest.approx(90_000, abs=5000)  # but for what starting it took


HEADER = """\
#define ROOT_VERSION_MAJOR 6
#define ROOT_VERSION_MINOR 8
#define ROOT_VERSION_PATCH 0  // without leading zeroes
#define ROOT_VERSION(a,b,c) (((a) << 16) + ((b) << 8) + (c))
"""


@pytest.fixture
def wheel(tmp_path):
    package = tmp_path / "ROOT"
    for name, text in {"__init__.py": "", "bin/root.exe": "", "include/ROOT/RVersion.hxx": HEADER}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def test_of_a_wheel_roots_own_version_is_told(wheel, monkeypatch):
    monkeypatch.syspath_prepend(wheel.parent)
    assert find_root().version == "6.08.00"


def test_who_makes_files_finds_the_root_that_the_systems_python_has(wheel, tmp_path, monkeypatch):
    """As jobs do, whose Python that is: what the doctor calls good there is good enough here."""
    script(tmp_path / "python3", f"echo {wheel}/__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(os, "defpath", "/nowhere")
    assert "there is no ROOT" in Root.missing({"setup": ""})
    with pytest.raises(UnmetNeed, match="there is no ROOT here"):
        find_root()
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    assert Root.missing({"setup": ""}) == ""
    assert find_root().version == "6.08.00"


def test_a_staged_file_is_copied_after_the_go_and_read_from_there(job):
    root_program(job, process_read_bytes=40, read_calls=21)
    job.script(
        "bin/xrdcp", f'ls {job.folder}/arguments 2>/dev/null; for last; do :; done; head -c 100 /dev/zero > "$last"'
    )
    end = job.end("staged", options={"branches": 0.3})
    assert (end["status"], end["bytes_client"], end["events"]) == ("ok", 100, 12)
    assert (end["detail"]["copied_bytes"], end["detail"]["local_read_bytes"]) == (100, 40)
    assert (end["detail"]["local_read_calls"], "read_calls" in end["detail"]) == (21, False)
    assert (job.folder / "arguments").read_text().split()[0].endswith("/staged.root")


@pytest.mark.parametrize(
    ("copy", "status", "message"),
    [
        ("echo no such file >&2; exit 54", "open-failed", "no such file"),
        ('for last; do :; done; head -c 99 /dev/zero > "$last"', "short-read", "99"),
    ],
)
def test_a_file_that_could_not_be_staged_is_told(job, copy, status, message):
    root_program(job, file_bytes=99)
    job.script("bin/xrdcp", copy)
    end = job.end("staged")
    assert (end["status"], message in end["message"]) == (status, True)
    assert not end["events"] or status == "short-read"


def test_of_a_copy_that_is_cut_what_had_come_counts(job):
    root_program(job)
    second = f"[ ! -e {job.folder}/ran ] || {{ printf %60s > $4; exec sleep 600; }}"
    job.script("bin/xrdcp", second, f"touch {job.folder}/ran; head -c 100 /dev/zero > $4")
    end = job.end("staged", for_s=4)
    assert (end["status"], end["work"]["cut"], end["bytes_app"], end["bytes_client"]) == ("ok", 1, 160, 160)


def test_https_is_staged_by_htcondors_plugin_which_is_shown_the_token(job):
    root_program(job)
    job.script("bin/condor_config_val", f"echo {job.folder}/bin")
    job.script(
        "bin/curl_plugin",
        f'cp "$2" {job.folder}/asked; echo "$X509_CERT_DIR" > {job.folder}/trusted',
        f"cp $_CONDOR_CREDS/staged.use {job.folder}/shown",
        f"head -c 100 /dev/zero > $(sed -n 's/.*LocalFileName = .\\([^\\\"]*\\).*/\\1/p' {job.folder}/asked)",
    )
    (job.folder / "token").write_text("secret")
    job.offer("https://door/f.root", 100)
    job.environment["SSL_CERT_DIR"] = "/etc/grid"
    job.environment["BEARER_TOKEN_FILE"] = str(job.folder / "token")
    end = job.end("staged")
    assert (end["status"], end["bytes_client"]) == ("ok", 100)
    assert (job.folder / "trusted").read_text() == "/etc/grid\n"
    assert "staged+https://door/f.root" in (job.folder / "asked").read_text()
    assert '"access_token": "secret"' in (job.folder / "shown").read_text()
    (job.folder / "replicas.txt").write_text("https://door/f.root\t100\n" * 2)
    assert job.end("staged", files_per_job=2)["work"]["fetches"] == 2


def test_stage_in_comes_from_the_server_on_a_worker_with_a_proxy(job):
    root_program(job)
    job.script("bin/condor_config_val", f"echo {job.folder}/bin")
    told = """sed -n 's/.*%s = "\\([^"]*\\)".*/\\1/p' "$2\""""
    job.script("bin/curl_plugin", f'curl -sS -o "$({told % "LocalFileName"})" "$({told % "Url"})"')
    job.environment["http_proxy"] = "http://127.0.0.1:9"
    (job.folder / "f.root").write_bytes(bytes(100))
    with serving(SimpleHTTPRequestHandler, directory=str(job.folder)) as address:
        job.offer(f"{address}/f.root", 100)
        assert job.end("staged")["status"] == "ok"


def test_why_htcondors_plugin_failed_is_told(job):
    root_program(job)
    job.script("bin/condor_config_val", f"echo {job.folder}/bin")
    job.script("bin/curl_plugin", """echo '[ A = 1; TransferError = "no such certificate"; B = 2 ]' > "$4"; exit 1""")
    job.offer("https://door/f.root", 100)
    end = job.end("staged")
    assert (end["status"], "no such certificate" in end["message"]) == ("open-failed", True)


@pytest.mark.parametrize(("exit_status", "signal"), [(129, "SIGSEGV"), (128, "SIGBUS"), (134, "SIGABRT")])
def test_what_ended_root_is_told_though_it_exits_with_numbers_of_its_own(tmp_path, exit_status, signal):
    end = client_of(Root, tmp_path, URL, 1000).outcome(run_of("", exit_status))
    assert (end["status"], signal in end["message"]) == ("killed", True)
