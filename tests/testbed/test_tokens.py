"""A door that wants a token lets in who shows one that its issuer has signed for it, and nobody else; by https, too.

Beside it is a door for grid proxies. All clients read by them in one run.
"""

import subprocess
from collections.abc import Callable

import pytest

from tests.testbed.runs import HOME, outcome
from tierbench import names
from tierbench.testbed.services import tokens
from tierbench.testbed.services.certificates import PROXY
from tierbench.testbed.services.filesystem import DATA, MOUNT_POINT
from tierbench.testbed.services.xrootd import AUTHORITIES, COPY_TOKEN, TOKEN_HTTPS_PORT, TOKEN_PORT, X509_PORT
from tierbench.testbed.topology import USER

CLIENTS = {
    "wan-xrootd-token": "xrdcp", "wan-xrootd-x509": "xrdcp", "wan-https-token": "http", "wan-nginx": "http",
    "https-servers": "httptpc",
}  # fmt: skip
FILE, CONTENT = f"{DATA}/for-bearers", "read by its bearer"
SHOWN = f"/home/{USER}/shown"
EXPERIMENT = """
access = {}
batches = [2]
sample_period_s = 1.0
time_limit_s = 300
replicas.noise = {{ kind = "random", count = 2, size_mb = 8 }}
"""
FURTHER = """
workloads.davix = { client = "davix", replicas = "noise", access = ["wan-https-token"] }
replicas.columns = { kind = "tree", count = 2, size_mb = 8, branches = 20, leaves = 1 }
[workloads.uproot]
client = "uproot"
replicas = "columns"
access = ["wan-xrootd-token", "wan-https-token"]
options = { branches = 0.5 }
"""
FURTHER_TRIALS = 3
Read = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module", params=["root", "https"])
def read(testbed, request):
    """Read a file by the door as a user who shows this token, or none."""
    worker = testbed.host("wn03")
    testbed.host("vmuf").put(FILE, CONTENT, user=USER)

    def read(token, mode=0o600):
        worker.put(SHOWN, token, mode, USER)
        worker.run("chmod", f"{mode:o}", SHOWN)
        environment = [f"BEARER_TOKEN_FILE={SHOWN}"] if token else []
        copy = ["xrdcp", "--silent", f"root://vmuf.uf.test:{TOKEN_PORT}/{FILE}", "-"]
        if request.param == "https":
            header = ["--header", f"Authorization: Bearer {token.strip()}"] if token else []
            copy = ["curl", "-sS", "--fail", "--capath", AUTHORITIES, *header]
            copy.append(f"https://vmuf.uf.test:{TOKEN_HTTPS_PORT}{FILE}")
        return worker.run("env", *environment, *copy, user=USER, check=False)

    return read


def test_its_bearer_reads(read, issue):
    copy = read(issue())
    assert copy.stdout == CONTENT, copy.stderr


@pytest.mark.parametrize(
    ("lasts_s", "claims"),
    [
        (-60, {}),
        (3600, {"aud": "root://elsewhere.uf.test"}),
        (3600, {"scope": "read:/elsewhere"}),
        (3600, {"scope": f"write:{MOUNT_POINT}"}),
        (3600, {"iss": "https://another.uf.test"}),
    ],
    ids=["expired", "for another door", "for other files", "for writing", "of another issuer"],
)
def test_other_tokens_are_refused(read, issue, lasts_s, claims):
    refused = read(issue(lasts_s, **claims))
    assert refused.returncode != 0
    assert CONTENT not in refused.stdout


def test_nobody_reads_without_one_or_with_a_forged_one(kdc, read):
    forger = "/run/forger"
    kdc.run("mkdir", "-p", forger)
    kdc.run(tokens.PROGRAM, "make", forger, tokens.URL)  # with a key of its own, by the same name
    for token in ("", tokens.sign_token(kdc, tokens.claims(), forger)):
        refused = read(token)
        assert refused.returncode != 0
        assert CONTENT not in refused.stdout


@pytest.mark.parametrize("read", ["root"], indirect=True)
def test_a_token_that_others_may_read_is_not_shown(read, issue):
    assert read(issue(), 0o644).returncode != 0


def test_nobody_reads_without_a_proxy_where_one_is_wanted(testbed):
    worker, url = testbed.host("wn03"), f"root://vmuf.uf.test:{X509_PORT}/{FILE}"
    testbed.host("vmuf").put(FILE, CONTENT, user=USER)
    copies = [
        worker.run("env", f"X509_USER_PROXY={proxy}", "xrdcp", "--silent", url, "-", user=USER, check=False)
        for proxy in (PROXY, "/none")
    ]
    assert [copy.stdout for copy in copies] == [CONTENT, ""], copies
    assert "Auth failed" in copies[1].stderr


def told_of(ce, text):
    """Where a text stands in what a run and HTCondor tell."""
    files = ce.run("grep", "-rlF", text, f"{HOME}/by-token", user=USER, check=False).stdout
    jobs = ce.run("condor_history", "-l", user=USER).stdout.splitlines()
    return files + "".join(line for line in jobs if text in line)


def define(access_point, *ways, further=""):
    workload = 'workloads.{0} = {{ client = "{1}", replicas = "noise", access = ["{0}"] }}\n'
    workloads = (workload.format(way, CLIENTS[way]) for way in ways)
    access_point.define("by-token", EXPERIMENT.format([*ways]) + "".join(workloads) + further)


@pytest.mark.long
def test_clients_of_a_trial_show_it_and_nothing_tells_it(testbed, access_point, issue):
    ce, token = testbed.host("ce"), issue().strip()
    ce.put(tokens.TOKEN, token, 0o600, USER)
    define(access_point, *CLIENTS, further=FURTHER)
    access_point.make_replicas("by-token")
    report = access_point.doctor("by-token")
    lines = [line for line in report.splitlines() if line.partition(" access ")[2].startswith(tuple(CLIENTS))]
    assert lines, report
    assert all(line.startswith("good") for line in lines), report
    run = access_point.run("by-token")
    ends = [outcome(trial) for trial in run.trials]
    assert [end["state"] for end in ends] == ["complete"] * (len(CLIENTS) + FURTHER_TRIALS), ends
    rows = run.rows(names.TRIALS_CSV)
    (fetched,) = (row for row in rows if row["workload"] == "davix")
    assert int(fetched["bytes_app"]) == pytest.approx(2 * 8 * 10**6, rel=0.001)
    arrays = {row["access"]: row for row in rows if row["workload"] == "uproot"}
    by_root, by_https = (arrays[way] for way in ("wan-xrootd-token", "wan-https-token"))
    assert int(by_https["bytes_app"]) == int(by_root["bytes_app"]) == pytest.approx(8 * 10**6, rel=0.1)
    assert by_https["events"] == by_root["events"]
    (copied,) = (row for row in rows if row["access"] == "https-servers")
    assert int(copied["bytes_app"]) == 2 * 8 * 10**6
    assert -0.01 < float(copied["closure"]) < 0.12  # counted by the servers' interfaces, which no worker's shows
    assert "the trial's own hosts" not in copied["verdict_reasons"]
    for shown in (token, ce.read(COPY_TOKEN).decode().strip()):
        assert told_of(ce, shown.rpartition(".")[2]) == ""  # its signature, without which it is worth nothing


def ends_of(access_point, way, *more):
    """What the trial by an access method has come to, if there was a run."""
    define(access_point, way)
    access_point.make_replicas("by-token")
    options = [f"{HOME}/by-token.toml", "--site", "testbed", "--no-links", "--into", f"{HOME}/{way}"]
    access_point.command("tierbench", "run", *options, *more, check=False)
    if not access_point.there(way).exists():
        return None
    return outcome(access_point.copy(way) / f"trials/{way}.{way}.x002.r1")


def test_an_expired_one_gives_a_reason_and_no_rate(access_point, show):
    show(-60)
    assert ends_of(access_point, "wan-xrootd-token") is None
    end = ends_of(access_point, "wan-xrootd-token", "--anyway")
    assert end and end["state"] == "incomplete"
    assert "expired-token" in str(end["reasons"])


def test_so_does_one_that_the_server_refuses(access_point, show):
    show(3600, scope="read:/elsewhere")
    end = ends_of(access_point, "wan-https-token")
    assert end and end["state"] == "incomplete"
    assert "error: 403" in str(end["reasons"])
