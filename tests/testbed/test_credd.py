"""Tokens that HTCondor hands to jobs and renews: credd, shadow and starter are real, the monitor is not."""

import json
from pathlib import Path

import pytest

from tests.testbed.runs import HOME, outcome
from tierbench import names
from tierbench.submit.trial.joblog import last_record
from tierbench.testbed.host import verbatim
from tierbench.testbed.services import tokens
from tierbench.testbed.services.htcondor import CONFIG
from tierbench.testbed.services.kerberos import KDC
from tierbench.testbed.topology import USER

pytestmark = pytest.mark.long

WAY, SERVICE = "wan-xrootd-token", "scitokens"
LASTS_S, WINDOW_S = 20, 35  # a token, and a trial
CONFIGURATION = f"{CONFIG}/60-credd.conf"
MONITOR = "/usr/local/sbin/credmon-stand-in"
ACCESS_POINT_SAYS = f"use feature:oauth\nCREDMON_OAUTH = {MONITOR}\n"
WORKERS_SAY = "SEC_CREDENTIAL_REFRESH = 5\n"
EXPERIMENT = f"""
access = ["{WAY}"]
batches = [2]
for_s = {WINDOW_S}
time_limit_s = 120
workloads.copy = {{ client = "xrdcp", replicas = "renewed" }}
replicas.renewed = {{ kind = "random", count = 2, size_mb = 4 }}
"""


@pytest.fixture(scope="module")
def ce(testbed):
    """The access point with a credential daemon, whose monitor signs tokens as the issuer does."""
    ce, workers = testbed.host("ce"), [testbed.host(name) for name in ("wn03", "wn04")]
    claims = {name: value for name, value in tokens.claims().items() if name not in ("iat", "nbf", "exp")}
    ce.script(["install -d -g condor -m 2770 /var/lib/condor/oauth_credentials", "install -d -m 700 /run/credmon"])
    ce.put(MONITOR, Path(__file__).with_name("credmon_stand_in.py").read_text(encoding="utf-8"), 0o755)
    ce.put(tokens.PROGRAM, verbatim("token-issuer"), 0o755)
    ce.put("/run/credmon/signing.key", testbed.host(KDC).read(f"{tokens.FOLDER}/signing.key"), 0o600)
    ce.put("/run/credmon/asked.json", json.dumps({"claims": claims, "lasts_s": LASTS_S}), 0o600)
    says = {ce: ACCESS_POINT_SAYS, **dict.fromkeys(workers, WORKERS_SAY)}
    for host, text in says.items():
        host.put(CONFIGURATION, text)
        host.run("condor_reconfig")
    yield ce
    for host in says:
        host.run("rm", CONFIGURATION)
        host.run("condor_reconfig")
    ce.run("rm", "-r", "/run/credmon", "/var/lib/condor/oauth_credentials")


@pytest.fixture(scope="module")
def site(ce, access_point):
    """A site file by which jobs get that token; its path on the access point."""
    text = ce.read("/etc/tierbench/testbed.toml").decode()
    head, way, rest = text.partition(f"[access.{WAY}]")
    access_point.put(
        "credd-site.toml", head + way + rest.replace('file = "/home/bench/token"', f'condor = "{SERVICE}"', 1)
    )
    access_point.define("by-credd", EXPERIMENT)
    access_point.make_replicas("by-credd")
    return f"{HOME}/credd-site.toml"


@pytest.fixture
def _stored(ce):
    """The user has asked for the token, and the monitor has made it."""
    use = f"/var/lib/condor/oauth_credentials/{USER}/{SERVICE}.use"
    store = ["condor_store_cred", "add-oauth", "-s", SERVICE, "-i", "-"]
    ce.wait_until(
        lambda: ce.run(*store, user=USER, stdin="{}", check=False).returncode == 0, "no credd", "condor/CredLog"
    )
    ce.wait_until(lambda: ce.succeeds("test", "-s", use), "no token was made", "condor/MasterLog")
    yield
    ce.run("condor_store_cred", "delete-oauth", "-s", SERVICE, user=USER)


@pytest.mark.usefixtures("_stored")
def test_a_trial_that_takes_longer_than_its_token_reads_on_with_renewed_ones(access_point, site):
    (trial,) = access_point.run("by-credd", site, "credd-renewed").trials
    assert outcome(trial)["state"] == "complete", outcome(trial)
    for client in range(2):
        work = last_record(trial / names.client_output(client))["work"]
        assert (work["fetches"] > 0, work["failed"]) == (True, 0)


def test_without_a_stored_credential_the_run_is_refused_and_a_trial_ends_at_once(access_point, site):
    status, answer = access_point.command("tierbench", "plan", f"{HOME}/by-credd.toml", "--site", site, check=False)
    assert "HTCondor has no credential for scitokens, so it takes no job; store it before" in answer, status
    (trial,) = access_point.run("by-credd", site, "credd-none").trials
    (reason, *_) = outcome(trial)["reasons"]
    assert "HTCondor did not take the jobs of clients: " in reason
    assert "job credentials" in reason
