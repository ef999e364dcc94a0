"""Tokens and tickets that last for half a minute: what becomes of trials while they expire.

A door looks at them when a client connects: who reads a file by then reads on, and who opens the next one does not.
"""

import time

import pytest

from tests.testbed.runs import outcome
from tierbench import names
from tierbench.submit.trial.joblog import last_record
from tierbench.testbed.services import tokens
from tierbench.testbed.services.kerberos import REALM

pytestmark = pytest.mark.long

LASTS_S = 30  # from before the run is submitted on
EXPERIMENT = """
access = ["{access}"]
repeats = {repeats}
flush = false
time_limit_s = 120
replicas.small = {{ kind = "random", count = 2, size_mb = 4 }}
replicas.large = {{ kind = "random", count = 1, size_mb = 420 }}
[workloads.again]
client = "xrdcp"
replicas = "{files}"
{work}
"""


@pytest.fixture(scope="module")
def site(access_point):
    define(access_point, "wan-xrootd-token", "small", "")
    access_point.make_replicas("expiring")
    define(access_point, "wan-xrootd-token", "large", "")
    access_point.make_replicas("expiring")
    return access_point


def define(access_point, access, files, work, repeats=1, name="expiring"):
    access_point.define(name, EXPERIMENT.format(access=access, files=files, work=work, repeats=repeats))


@pytest.fixture
def _short_tickets(kdc):
    """The realm's tickets for jobs last no longer than that."""
    jobs = [f"jobs/wn0{number}.fiu.test@{REALM}" for number in (3, 4)]

    def allow(life):
        kdc.run("kadmin.local", stdin="".join(f'modprinc -maxlife "{life}" {name}\n' for name in jobs))

    allow(f"{LASTS_S} seconds")
    yield
    allow("30 days")


def trial(run, access, repetition=1):
    return run / names.trial_directory(f"{access}.again.x001.r{repetition}")


def at_work(run, access):
    """What the client of the first trial has reported at its end."""
    return last_record(trial(run, access) / names.client_output(0))


def test_who_opens_another_file_after_the_token_has_expired_is_refused_and_says_so(site, show):
    """The first trial loses its token, the second has an expired one, the third a new one."""
    way = "wan-xrootd-token"
    define(site, way, "small", f"for_s = {LASTS_S}", repeats=2, name="token-again")
    run = site.write("token-again")
    show(LASTS_S)
    ran = site.submit("token-again")
    lost, without = (outcome(trial(run, way, number)) for number in (1, 2))
    assert lost["state"] == "incomplete"
    assert "expired-token: its token expired at " in lost["reasons"][0]
    assert "s after the start; use one that outlasts the trial" in lost["reasons"][0]
    work = at_work(run, way)["work"]
    assert min(work["fetches"], work["failed"]) > 0
    assert without["state"] == "incomplete"
    assert "before the start; get it anew" in without["reasons"][0]
    assert {row["verdict"] for row in ran.rows(names.TRIALS_CSV)} == {"INVALID"}
    show(tokens.TOKEN_S)
    define(site, way, "small", "", name="token-next")
    assert outcome(site.run("token-next").trials[0])["state"] == "complete"


def test_who_has_the_file_open_by_then_reads_it_to_its_end(site, show):
    way = "wan-xrootd-token"
    define(site, way, "large", "options = { checksum = true }", name="token-large")
    run = site.write("token-large")
    show(LASTS_S)
    over_ns = (time.time() + LASTS_S) * 1e9
    site.submit("token-large")
    end = at_work(run, way)
    assert (end["status"], end["bytes_app"]) == ("ok", 420 * 10**6)
    assert end["wall_ns"] > over_ns
    assert outcome(trial(run, way))["state"] == "complete"


@pytest.mark.usefixtures("_short_tickets")
def test_a_ticket_that_expires_in_the_middle_ends_the_trial_and_the_next_one_gets_its_own(site):
    way = "wan-xrootd-krb5"
    define(site, way, "small", f"for_s = {LASTS_S + 5}", name="ticket-again")
    assert " s only" in site.doctor("ticket-again")
    run = site.write("ticket-again")
    site.submit("ticket-again")
    (reason,) = outcome(trial(run, way))["reasons"]
    assert "expired-ticket: its ticket expired at " in reason
    assert "let the KDC give tickets that outlast the trial" in reason
    work = at_work(run, way)["work"]
    assert min(work["fetches"], work["failed"]) > 0
    define(site, way, "small", "", name="ticket-next")
    assert outcome(site.run("ticket-next").trials[0])["state"] == "complete"
