"""Tokens and grid proxies: they travel and are shown, nobody is told what is in them, and one that is over is none."""

import base64
import dataclasses
import json
import re
import shutil
import socket
import ssl
import stat
import struct
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from unittest.mock import Mock

import htcondor2
import pytest

from tests.unit.client_process import events
from tests.unit.quick_plan import larger_quick
from tests.unit.stand_ins import script
from tests.unit.submit.test_doctor import WORKERS, answer, probe, proxy
from tests.unit.wrappers.test_client_gate import at_the_gate, open_gate
from tierbench import names
from tierbench.checked_text import AbsolutePath, Name, Value
from tierbench.dags.credentials import of
from tierbench.dags.plan import expand
from tierbench.dags.write import write_run
from tierbench.errors import ConfigError
from tierbench.files import poll
from tierbench.site_configs.site import SHIPPED, GridProxy, Submission, Token, find_site, load_site
from tierbench.submit.planning import Planned, open_secrets, preflight
from tierbench.submit.planning import credentials as findings
from tierbench.submit.questions import visits
from tierbench.trials import read_trial
from tierbench.wrappers.credentials import ticket_expires
from tierbench.wrappers.main import explain_refusal

WAY = "wan-xrootd-public"
TOLD_TO_NOBODY = "c2lnbmF0dXJl"  # the signature, without which a token is worth nothing
HOUR = 3600.0


def token(path, lasts_s=HOUR, mode=0o600):
    """A JSON web token that expires so long from now, in a file."""
    claims = {"sub": "bench"} if lasts_s is None else {"sub": "bench", "exp": int(time.time() + lasts_s)}
    header, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims))
    path.write_text(f"{header}.{body}.{TOLD_TO_NOBODY}\n")
    path.chmod(mode)
    return path


def going(**credentials):
    """The testbed, by one of whose ways clients show something, and an experiment that goes this way."""
    site, experiment = find_site("testbed"), larger_quick()
    access = dataclasses.replace(site.access[WAY], **credentials)
    return dataclasses.replace(site, access={**site.access, WAY: access}), experiment


def by_file(path):
    return {"token": Token(file=AbsolutePath(str(path)))}


def written(site, experiment, run):
    """The directory of a trial that goes this way."""
    write_run(expand(site, experiment, WORKERS), site, experiment, run)
    return next(trial for trial in (run / names.TRIALS).iterdir() if trial.name.startswith(f"{WAY}."))


def submitted(trial, node):
    """A node's submit description with the macros that its DAG sets."""
    (told,) = re.findall(rf"^VARS {node} (.*)$", (trial / names.TRIAL_DAG).read_text(), re.MULTILINE)
    submit = htcondor2.Submit((trial.parents[1] / names.SUBMIT / f"{node}.sub").read_text())
    for macro, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', told):
        submit[macro] = value
    return submit


def test_a_token_travels_from_where_it_is_and_a_run_directory_has_but_its_path(tmp_path):
    file = token(tmp_path / "my-token")
    trial = written(*going(**by_file(file)), tmp_path / "run")
    submit = submitted(trial, "clients")
    assert submit.expand("transfer_input_files").split(", ")[-1] == str(file)
    assert "--token my-token" in submit.expand("arguments")
    assert read_trial(trial).credentials == ("--token my-token", [str(file)], "")
    holding = [path for path in (tmp_path / "run").rglob("*") if path.is_file() and TOLD_TO_NOBODY in path.read_text()]
    assert holding == []


def test_a_token_of_htcondors_credentials_is_asked_for_by_the_clients(tmp_path):
    trial = written(*going(token=Token(condor=Name("scitokens"))), tmp_path / "run")
    submit = submitted(trial, "clients")
    assert submit.expand("use_oauth_services") == "scitokens"
    assert "--credential scitokens" in submit.expand("arguments")


def test_who_copies_has_a_token_for_either_server():
    access = find_site("testbed").access["https-servers"]
    files = ["/home/bench/token", "/home/bench/token-copies"]
    assert of(access) == ("--token token --destination-token token-copies", files, "")
    there = dataclasses.replace(access.to, token=Token(condor=Name("other")))
    by_condor = dataclasses.replace(access, token=Token(condor=Name("one")), to=there)
    assert of(by_condor) == ("--credential one --destination-credential other", [], "one,other")


def test_a_proxy_travels_beside_a_token_and_with_trials_by_other_accesses_neither(tmp_path):
    credentials = {**by_file(token(tmp_path / "t")), "x509": GridProxy(AbsolutePath(str(proxy(tmp_path))))}
    trial = written(*going(**credentials), tmp_path / "run")
    submit = submitted(trial, "clients")
    assert submit.expand("transfer_input_files").split(", ")[-2:] == [str(tmp_path / "t"), str(tmp_path / "proxy.pem")]
    assert "--token t --x509 proxy.pem" in submit.expand("arguments")
    others = [path for path in trial.parent.iterdir() if not path.name.startswith(f"{WAY}.")]
    assert others
    assert not any("proxy.pem" in (path / file).read_text() for path in others for file in names.WRITTEN)


def test_a_token_that_is_not_there_or_has_the_name_of_what_is_needed_is_told_before_anything_is_written(tmp_path):
    for file, told in ((tmp_path / "none", "is not there to be read"), (token(tmp_path / "trial.json"), "call this")):
        with pytest.raises(ConfigError, match=rf"access\.{WAY}: .*{told}"):
            written(*going(**by_file(file)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "table", ["token = {}", 'token = { file = "/t", condor = "n" }', 'token = { file = "t" }', "x509 = {}"]
)
def test_a_credential_is_in_one_place(tmp_path, table):
    path = tmp_path / "site.toml"
    path.write_text((SHIPPED / "testbed.toml").read_text().replace(f"[access.{WAY}]", f"[access.{WAY}]\n{table}"))
    with pytest.raises(ConfigError, match=rf"access\.{WAY}\."):
        load_site(path)


def test_two_files_do_not_travel_under_one_name(tmp_path):
    path, text = tmp_path / "site.toml", (SHIPPED / "testbed.toml").read_text()
    for way, file in ((WAY, "/a/token"), ("lan-xrootd", "/b/token")):
        text = text.replace(f"[access.{way}]", f'[access.{way}]\ntoken = {{ file = "{file}" }}')
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"token\.file: .* would travel under one name"):
        load_site(path)


def test_the_idle_limit_is_the_sites_to_say(tmp_path):
    site, experiment = going()
    written(dataclasses.replace(site, submission=Submission(idle_limit=50)), experiment, tmp_path / "limited")
    written(site, experiment, tmp_path / "run")
    setting = "DAGMAN_MAX_JOBS_IDLE = 50\n"
    assert setting in (tmp_path / "limited" / names.TRIAL_CONFIG).read_text()
    assert "IDLE" not in (tmp_path / "run" / names.TRIAL_CONFIG).read_text()


def shows(job, variable):
    """Have dd leave what it was told to show."""
    job.script("bin/dd", f'printf %s "${variable}" > {job.folder}/shown')
    return job.folder / "shown"


def test_the_reading_process_is_told_where_the_token_is_which_is_its_own_alone(job):
    file, shown = token(job.folder / "my-token", mode=0o644), shows(job, "BEARER_TOKEN_FILE")
    record = job.run("dd", "--token", "my-token")
    assert shown.read_text() == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert TOLD_TO_NOBODY not in json.dumps(record)


def test_a_token_of_the_workers_does_not_go_before_the_access_methods(job):
    token(job.folder / "my-token")
    job.environment["BEARER_TOKEN"] = TOLD_TO_NOBODY
    shown = shows(job, "BEARER_TOKEN")
    job.run("dd", "--token", "my-token")
    assert shown.read_text() == ""


def test_a_proxy_is_used_where_openssl_cannot_run(job):
    proxy(job.folder)
    job.script("bin/openssl", "echo 'symbol lookup error' >&2; exit 127")
    assert job.end("dd", "--x509", "proxy.pem")["status"] == "ok"


def test_htcondors_credentials_are_found_by_their_name_and_a_proxy_is_shown_too(job):
    creds = job.folder / ".condor_creds"
    creds.mkdir()
    job.environment["_CONDOR_CREDS"] = str(creds)
    for variable, file, asked in (
        ("BEARER_TOKEN_FILE", token(creds / "scitokens.use"), ["--credential", "scitokens"]),
        ("X509_USER_PROXY", proxy(job.folder), ["--x509", "proxy.pem"]),
    ):
        shown = shows(job, variable)
        job.run("dd", *asked)
        assert shown.read_text() == str(file)


NO_TOKENS = {
    "empty": "", "torn": f"a.{TOLD_TO_NOBODY}.b",
    "json": "{}", "torn-json": '{"access_token": 1', "other-json": '{"expires_in": 9}',
}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (["--token", "over"], "expired-token"),
        *((["--token", name], "no-token") for name in ("none", *NO_TOKENS)),
        (["--credential", "scitokens"], "no-token"),
        (["--destination-token", "over"], "expired-token"),
        (["--destination-credential", "scitokens"], "no-token"),
        (["--x509", "proxy.pem"], "expired-proxy"),
        (["--x509", "torn"], "no-proxy"),
    ],
)
def test_what_lets_nobody_in_is_not_read_with(job, asked, status):
    token(job.folder / "over", -1)
    proxy(job.folder, -1)
    for name, content in NO_TOKENS.items():
        (job.folder / name).write_text(content)
    read = shows(job, "PATH")
    record = job.run("dd", *asked)
    assert (record["end"]["status"], record["end"].get("bytes_app")) == (status, None)
    assert ("go" in record, read.exists()) == (False, False)
    assert TOLD_TO_NOBODY not in json.dumps(record)


def test_a_token_that_does_not_say_when_it_expires_is_the_servers_to_judge(job):
    token(job.folder / "always", None)
    (job.folder / "opaque").write_text("MDAxY2xvY2F0aW9u")
    assert {job.end("dd", "--token", name)["status"] for name in ("always", "opaque")} == {"ok"}


def test_a_token_that_is_over_before_the_go_is_told_at_the_gate(job):
    token(job.folder / "soon", 3600)
    process = job.start("dd", "--token", "soon", "--gate", "go.json")
    at_the_gate(process)
    token(job.folder / "soon", 0.5)  # as it would be an hour later
    open_gate(job.folder / "go.json", 6)
    record = events(process)
    assert (record["end"]["status"], "go" in record) == ("expired-token", False)


def outlives_its_token(job, *then):
    """A client whose program does this when its token, which it had at its start, has expired."""
    file = token(job.folder / "soon")
    job.script(
        "bin/dd",
        "over=$(($(date +%s) + 1))",
        f"""echo "e30.$(printf '{{"exp": %d}}' $over | base64 | tr -d =).{TOLD_TO_NOBODY}" > {file}""",
        "while [ $(date +%s) -lt $over ]; do sleep 0.1; done",
        *then,
    )
    return job.end("dd", "--token", "soon")


def test_that_its_token_expired_meanwhile_is_the_reason_of_a_client_that_is_refused(job):
    end = outlives_its_token(job, "echo no permission >&2; exit 1")
    assert end["status"] == "expired-token", end
    assert re.match(r"its token expired at .* UTC, \d s after the start; use .*; then: no permission", end["message"])


@pytest.mark.parametrize(("then", "status"), [('exec /bin/dd "$@"', "ok"), ("kill -KILL $$", "killed")])
def test_and_of_no_other(job, then, status):
    end = outlives_its_token(job, then)
    assert (end["status"], "expired" in str(end["message"])) == (status, False)


def test_nor_of_damage():
    outcome = {"status": "damaged", "message": "its adler32 is another"}
    explain_refusal(outcome, Mock(expired=lambda _: {"status": "expired-token", "message": "it expired"}), 0.0)
    assert outcome["status"] == "damaged"


def test_a_token_in_json_as_htcondor_writes_it_is_shown_alone_and_renewed_when_htcondor_renews_it(job):
    creds, first, second = job.folder / "creds", token(job.folder / "a", 60), token(job.folder / "b", 600)
    creds.mkdir()
    job.environment["_CONDOR_CREDS"] = str(creds)
    use = creds / "scitokens.use"

    def write(own):
        new = creds / "new"
        new.write_text(json.dumps({"access_token": own.read_text().strip(), "expires_in": 60}))
        new.replace(use)

    write(first)
    seen = f'cat "$BEARER_TOKEN_FILE" >> {job.folder}/shown'
    wait = f'for _ in $(seq 200); do cmp -s "$BEARER_TOKEN_FILE" {second} && break; sleep 0.1; done'
    job.script("bin/dd", seen, f"touch {job.folder}/begun", wait, seen)
    process = job.start("dd", "--credential", "scitokens")
    assert poll((job.folder / "begun").exists, 20)
    write(second)
    assert events(process)["end"]["status"]
    assert (job.folder / "shown").read_text() == first.read_text() + second.read_text()


@pytest.mark.parametrize(("lasts_s", "ahead_s"), [(60, 1.0), (5, 8.0)])
def test_what_is_shown_is_the_token_as_it_is_at_the_clients_own_start(job, lasts_s, ahead_s):
    """A client may have been ready, in turn or for want of slots, since before HTCondor renewed its token.

    Clients that start one after the other know early when, and what they have by then may have expired.
    """
    creds, first, second = job.folder / "creds", token(job.folder / "a", lasts_s), token(job.folder / "b", 600)
    creds.mkdir()
    shown, job.environment["_CONDOR_CREDS"] = job.folder / "shown", str(creds)
    (creds / "scitokens.use").write_text(first.read_text())
    job.script(
        "bin/curl",
        f'for word; do case $word in @*) stat -c %a - <"${{word#@}}"; cat "${{word#@}}";; esac; done >{shown}',
    )
    job.offer("https://localhost:1/replica", 1)
    process = job.start("http", "--credential", "scitokens", "--gate", "go.json")
    at_the_gate(process)
    if lasts_s < ahead_s:
        open_gate(job.folder / "go.json", ahead_s)
    token(creds / "new", 600).write_text(second.read_text())
    (creds / "new").replace(creds / "scitokens.use")
    if lasts_s > ahead_s:
        open_gate(job.folder / "go.json", ahead_s)
    assert events(process)["end"]["status"] != "expired-token"
    assert shown.read_text() == f"600\nAuthorization: Bearer {second.read_text()}"


def principal(realm, *names):
    parts = [realm, *names]
    return struct.pack(">2I", 1, len(names)) + b"".join(struct.pack(">I", len(part)) + part for part in parts)


def test_a_ticket_expires_when_its_cache_says_whatever_the_library_notes_before_it(tmp_path, monkeypatch):
    expires = int(time.time() + HOUR)
    me = principal(b"UF.TEST", b"jobs", b"wn03")

    def entry(server, end):
        times = struct.pack(">4I", 1, 1, end, 0)
        return me + server + struct.pack(">HI", 18, 4) + b"key!" + times + bytes(5) + struct.pack(">4I", 0, 0, 0, 0)

    note = entry(principal(b"X-CACHECONF:", b"krb5_ccache_conf_data", b"fast_avail"), 0)
    note = note[:-8] + struct.pack(">I", 3) + b"yes" + struct.pack(">I", 0)
    ticket = entry(principal(b"UF.TEST", b"krbtgt", b"UF.TEST"), expires)
    cache = tmp_path / "krb5cc"
    cache.write_bytes(b"\x05\x04" + struct.pack(">H", 12) + bytes(12) + me + note + ticket)
    assert ticket_expires(cache) == expires
    script(tmp_path / "kinit", f'cp {cache} "${{KRB5CCNAME#FILE:}}"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for needed_s, why in ((HOUR // 2, ""), (2 * HOUR, "short")):
        assert answer("kerberos", keytab=str(cache), principal="jobs", needed_s=needed_s)["why"] == why
    cache.write_bytes(cache.read_bytes()[:60])
    assert ticket_expires(cache) is None


class Door(BaseHTTPRequestHandler):
    """Serves a replica to whoever shows the token."""

    shown: ClassVar[list[str | None]] = []
    content = b"a replica"

    def do_GET(self):
        self.shown.append(self.headers["Authorization"])
        self.send_response(200 if self.shown[-1] else 401)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("shown", [True, False])
def test_curl_shows_a_token_to_a_server_that_it_trusts_and_not_on_its_command_line(job, shown):
    key, certificate = job.folder / "key.pem", job.folder / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    file = token(job.folder / "t")
    real = shutil.which("curl")
    job.script("bin/curl", f'printf "%s\\n" "$@" >> {job.folder}/asked', f'exec {real} "$@"')
    with ThreadingHTTPServer(("localhost", 0), Door) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        job.offer(f"https://localhost:{server.server_port}/replica", len(Door.content))
        Door.shown.clear()
        trusting = {"environment": {"CURL_CA_BUNDLE": str(certificate)}}
        end = job.end("http", *(["--token", "t"] if shown else []), options=trusting)
        server.shutdown()
    assert end["status"] == ("ok" if shown else "open-failed"), end
    assert Door.shown == [f"Bearer {file.read_text().strip()}" if shown else None]
    assert TOLD_TO_NOBODY not in (job.folder / "asked").read_text()


@pytest.mark.parametrize(
    ("lasts_s", "mode", "state", "seen"),
    [
        (2 * HOUR, 0o600, "good", "expires in 2.0 hours"),
        (HOUR / 2, 0o600, "doubtful", "is needed for at least"),
        (-HOUR, 0o600, "bad", "expired at"),
        (HOUR, 0o640, "bad", "others may read it"),
        (None, 0o600, "good", "only its server knows"),
    ],
)
def test_the_doctor_looks_at_a_token(tmp_path, lasts_s, mode, state, seen):
    site, _ = going(**by_file(token(tmp_path / "t", lasts_s, mode)))
    (finding,) = findings({WAY: site.access[WAY]}, needed_s=HOUR)
    assert (finding.state, finding.thing) == (state, f"access {WAY}, its token")
    assert seen in finding.seen
    assert bool(finding.remedy) == (state != "good")
    assert TOLD_TO_NOBODY not in finding.seen


@pytest.mark.parametrize(
    ("answer", "state", "seen"),
    [
        ("echo A credential was stored and is valid.", "good", "has a credential for scitokens"),
        ("echo No credential is stored.; exit 1", "bad", "so it takes no job"),
        ("echo no credd answers; exit 1", "doubtful", "no credd answers"),
    ],
)
def test_the_credential_daemon_is_asked_whether_it_has_what_jobs_will_need(tmp_path, monkeypatch, answer, state, seen):
    script(tmp_path / "condor_store_cred", '[ "$*" = "query-oauth -s scitokens" ] || exit 9', answer)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    site, experiment = going(token=Token(condor=Name("scitokens")))
    (finding,) = findings({WAY: site.access[WAY]}, needed_s=HOUR)
    assert (finding.state, seen in finding.seen) == (state, True)
    assert ("condor_store_cred" in finding.remedy) == (state != "good")
    (door,) = (question for question in visits(site, experiment, WORKERS)[WORKERS["public"][0]].questions
               if question.thing == f"access {WAY}")  # fmt: skip
    assert door.kind == "server"  # nobody else is shown to the door than who would be let in


def doubts(site, experiment):
    plan = expand(site, experiment, WORKERS)
    everything = preflight(Planned(plan, site, experiment, "no pool"), "quick")
    return [finding.line for finding in everything if finding.thing.startswith("access ")]


def test_how_long_a_token_is_needed_is_how_long_the_run_takes(tmp_path):
    site, experiment = going(**by_file(token(tmp_path / "t", HOUR)))
    assert doubts(site, experiment) == []
    longer = dataclasses.replace(experiment, repeats=1000)
    assert re.match(rf"doubtful: access {WAY}, its token: \S+ expires in", doubts(site, longer)[0])
    token(tmp_path / "t", -1)
    assert doubts(site, experiment)[0].startswith(f"missing: access {WAY}, its token: ")


def test_workers_show_the_token_when_their_door_is_tried(tmp_path):
    file = token(tmp_path / "t")
    site, experiment = going(**by_file(file))
    visit = visits(site, experiment, WORKERS)[WORKERS["public"][0]]
    (door,) = (question for question in visit.questions if question.thing == f"access {WAY}")
    assert door.to_json()["shown"] == {"BEARER_TOKEN_FILE": "t"}
    assert visit.files == [str(file)]
    others = [question for question in visit.questions if "shown" in question.to_json()]
    assert {question.thing for question in others} <= {f"access {WAY}", f"access {WAY}, its token"}


def test_a_worker_tells_of_the_token_that_it_got(tmp_path):
    assert answer("token", path=str(token(tmp_path / "t")), needed_s=0)["state"] == "good"
    assert answer("token", path=str(token(tmp_path / "t", -1)), needed_s=0)["why"] == "expired"
    assert answer("token", path=str(tmp_path / "none"), needed_s=0)["why"] == "absent"


def test_a_door_is_shown_what_is_for_it_and_the_next_one_what_was_there_before(tmp_path, monkeypatch):
    script(tmp_path / "xrdfs", f'echo "$BEARER_TOKEN_FILE" >> {tmp_path}/shown')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("BEARER_TOKEN_FILE", "/before")
    with socket.create_server(("localhost", 0)) as door:
        about = {"ask": "xrootd", "door": f"localhost:{door.getsockname()[1]}", "paths": [["/data", 0]]}
        result = probe(json.dumps([{**about, "shown": {"BEARER_TOKEN_FILE": "t"}}, about]))
    assert [answer["state"] for answer in json.loads(result.stdout)["answers"]] == ["good", "good"]
    assert (tmp_path / "shown").read_text().split() == [str(Path.cwd() / "t"), "/before"]


def test_a_token_in_the_open_in_a_sites_file_is_doubted():
    site, experiment = going(environment={"BEARER_TOKEN": Value("abc")})
    line = next(open_secrets(site, experiment)).line
    assert f"access.{WAY}.environment.BEARER_TOKEN: is a secret by its looks" in line
    assert "token = { file" in line
