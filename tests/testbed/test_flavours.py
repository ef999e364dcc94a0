"""Kerberos' flavours of NFS on virtual workers: what each hides, on the wire, and whom it refuses.

Needs a testbed with virtual workers, which takes a minute to build and some seconds more to come up, so CI leaves it
out: pytest -m virtual tests/testbed/test_flavours.py
"""

import subprocess
import time
from dataclasses import replace
from functools import partial

import pytest

from tests.testbed.conftest import SETTINGS, brought_up
from tests.testbed.runs import AccessPoint, marks_on_the_wire
from tierbench import names
from tierbench.testbed.services.filesystem import DATA, MOUNT_POINT
from tierbench.testbed.services.nfs import BRIDGED, MOUNT_COMMAND, PORT, TICKETS, USUAL
from tierbench.testbed.services.xrootd import KRB5_PORT, TLS_PORT
from tierbench.testbed.topology import USER

pytestmark = pytest.mark.virtual

HIDDEN = "/run/hidden-tickets"
MARK = "what everybody on the way could read"
COPIES = 10_000
PLAIN = f"{DATA}/plain"
EXPERIMENT = """
extends = "extenci-flavours-scaled"
access = ["nfs-near"]
repeats = 1
axes.flavour = { values = ["sys", "krb5p"], arranges = "nfs-flavour" }
replicas.plain = { count = 1, size_mb = 64 }
replicas.out = { size_mb = 64 }
"""
BRIDGE = """
question = "Does the gateway's mount start cold when it is read by NFS again?"
access = ["nfs-bridge"]
batches = [2]
repeats = 2
workloads.dd = { client = "dd", replicas = "plain" }
replicas.plain = { kind = "random", count = 2, size_mb = 64 }
"""


# A job with mounts of its own, as HTCondor gives each, that arranges a flavour and tells what it then sees itself.
ARRANGES = f"""#!/bin/sh
mkfifo hold
sudo -n /usr/local/sbin/tierbench-arrange hold nfs-flavour krb5p <hold >held &
exec 9>hold
until [ -s held ]; do sleep 0.1; done
grep -o 'sec=[a-z0-9]*' /proc/self/mounts >/home/{USER}/seen
until [ -e /home/{USER}/release ]; do sleep 0.1; done
exec 9>&-
wait
"""
JOB = """
executable = {program}
transfer_executable = false
requirements = Machine == "{machine}"
log = arranges.log
queue
"""


@pytest.fixture(scope="module")
def testbed():
    with brought_up("flavours", replace(SETTINGS, private_workers=1, public_workers=1, virtual_workers=1)) as bed:
        bed.host("vmuf").run("sh", "-c", f"yes '{MARK}' | head -n {COPIES} >{PLAIN}", user=USER)
        yield bed


@pytest.fixture
def worker(testbed):
    """A virtual worker, whose user has a ticket again and whose mount is the usual one when it has been used."""
    host = testbed.host("vwuf")
    yield host
    host.script([f"for hidden in {HIDDEN}/*; do [ ! -e $hidden ] || mv $hidden /tmp; done"])
    host.run(MOUNT_COMMAND, "set", USUAL)


def marks_seen(server, worker, port, *reader):
    """How often the mark was among what a server sent to a worker that read the file."""

    def read():
        assert worker.run(*reader, user=USER).stdout.count(MARK) == COPIES

    of = f"src port {port} and dst host {worker.host.address}"
    return marks_on_the_wire(server, of, MARK, COPIES * len(MARK), read)


def test_the_machines_clock_is_ours(testbed):
    command = testbed.host("vwuf").command(["python3", "-uc", "import time\nwhile input(): print(time.time_ns())"])
    least, most = -1e9, 1e9
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as clock:
        assert clock.stdin is not None
        assert clock.stdout is not None
        for _ in range(20):
            before = time.time_ns()
            clock.stdin.write(b"?\n")
            there = int(clock.stdout.readline())
            least, most = max(least, there - time.time_ns()), min(most, there - before)
        clock.stdin.write(b"\n")
    assert most > -5e6
    assert least < 5e6


@pytest.mark.parametrize(("flavour", "hidden"), [("sys", False), ("krb5", False), ("krb5i", False), ("krb5p", True)])
def test_only_privacy_hides_the_data_on_the_wire(testbed, worker, flavour, hidden):
    worker.run(MOUNT_COMMAND, "set", flavour)
    marks = marks_seen(testbed.host("vmuf"), worker, PORT, "cat", PLAIN)
    assert marks == 0 if hidden else marks > 0.5 * COPIES  # a mark may lie across two packets


@pytest.mark.parametrize(
    ("port", "environment", "hidden"),
    [(KRB5_PORT, [], False), (TLS_PORT, ["XRD_TLSNODATA=1"], False), (TLS_PORT, [], True)],
    ids=["krb5", "tls-control", "tls"],
)
def test_only_tls_for_data_hides_them_on_the_wire(testbed, worker, port, environment, hidden):
    copy = ["env", *environment, "xrdcp", "--nopbar", f"root://vmuf.uf.test:{port}/{PLAIN}", "-"]
    marks = marks_seen(testbed.host("vmuf"), worker, port, *copy)
    assert marks == 0 if hidden else marks > 0.5 * COPIES


def test_the_tls_door_refuses_who_has_no_ticket(worker):
    copy = ["xrdcp", "--nopbar", f"root://vmuf.uf.test:{TLS_PORT}/{PLAIN}", "-"]
    refused = worker.run("env", "KRB5CCNAME=FILE:/run/empty.ccache", *copy, user=USER, check=False)
    assert refused.returncode != 0
    assert MARK not in refused.stdout


@pytest.mark.parametrize("flavour", ["krb5", "krb5i", "krb5p"])
def test_a_user_without_a_ticket_is_refused(worker, flavour):
    worker.script([f"mkdir -p {HIDDEN}", f"mv {TICKETS}* {HIDDEN}"])
    worker.run(MOUNT_COMMAND, "set", flavour)
    refused = worker.run("cat", PLAIN, user=USER, check=False)
    assert refused.returncode != 0
    assert MARK not in refused.stdout
    worker.run(MOUNT_COMMAND, "set", "sys")
    assert worker.succeeds("runuser", "-u", USER, "cat", PLAIN)


def test_a_host_without_a_keytab_mounts_by_no_flavour_of_kerberos(worker):
    worker.script(["mv /etc/krb5.keytab /etc/hidden.keytab", "rm -f /tmp/krb5ccmachine_*"])
    try:
        refused = [worker.run(MOUNT_COMMAND, "set", flavour, check=False) for flavour in ("krb5", "krb5p")]
    finally:
        worker.script(["mv /etc/hidden.keytab /etc/krb5.keytab"])
    assert all(refusal.returncode for refusal in refused)
    assert not worker.succeeds("mountpoint", "-q", MOUNT_POINT)


def test_what_a_job_arranges_holds_for_the_host_and_so_for_other_jobs(testbed, worker):
    there = f"/home/{USER}"
    worker.put(f"{there}/arranges", ARRANGES, 0o755, USER)
    ce = testbed.host("ce")
    ce.put(f"{there}/arranges.sub", JOB.format(program=f"{there}/arranges", machine=worker.host.fqdn), user=USER)
    ce.run("condor_submit", "arranges.sub", user=USER)
    worker.wait_until(lambda: worker.succeeds("test", "-s", f"{there}/seen"), "no job began", "machine.log")
    inside = worker.run("cat", f"{there}/seen").stdout.strip()
    outside = worker.run(MOUNT_COMMAND, "get").stdout.strip()
    worker.run("touch", f"{there}/release", user=USER)
    assert (inside, outside) == ("sec=krb5p", "krb5p")
    restored = partial(worker.run, MOUNT_COMMAND, "get")
    worker.wait_until(lambda: restored().stdout.strip() == USUAL, "the flavour was not restored", "machine.log")


def test_the_flavours_are_an_axis_of_an_experiment(testbed, tmp_path_factory):
    access_point = AccessPoint(testbed, tmp_path_factory.mktemp("runs"))
    ran = access_point.measured("flavours", EXPERIMENT)
    rows = {(row["workload"], row["flavour"]): row for row in ran.rows(names.TRIALS_CSV)}
    assert rows.keys() == {(did, flavour) for did in ("read", "write") for flavour in ("sys", "krb5p")}
    assert {row["jobs_ok"] for row in rows.values()} == {"1"}
    assert {row["bytes_app"] for row in rows.values()} == {str(64 * 10**6)}


def test_the_gateways_mount_is_read_by_nfs_and_flushed(testbed, tmp_path_factory):
    marks = marks_seen(testbed.host("dgt"), testbed.host("vwfiu"), PORT, "cat", f"{BRIDGED}{PLAIN}")
    assert marks > 0.5 * COPIES
    ran = AccessPoint(testbed, tmp_path_factory.mktemp("runs")).measured("bridge", BRIDGE)
    assert [row["jobs_ok"] for row in ran.rows(names.TRIALS_CSV)] == ["2", "2"]
    assert all(0.95 < float(row["amplification"]) < 1.1 for row in ran.rows(names.TRIALS_CSV))
