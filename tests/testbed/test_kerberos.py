"""The remote file system opens to whoever holds a ticket, and to nobody else."""

import pytest

from tierbench.testbed.services import filesystem
from tierbench.testbed.services.filesystem import MOUNT_COMMAND, MOUNT_POINT

EMPTY_CACHE = ["env", "KRB5CCNAME=FILE:/run/empty.ccache"]


@pytest.fixture
def unmounted(testbed):
    """A public worker whose mount is away, whose admission is withdrawn and whose ticket is destroyed.

    In the end its keytab opens the way again, or the test fails.
    """
    worker = testbed.host("wn04")
    worker.script([f"umount {MOUNT_POINT}", "kdestroy -q -c FILE:/run/mount.ccache"])
    for server in ("mds", "oss"):
        testbed.host(server).script([f"nft delete element ip gate admitted '{{ {worker.host.address} }}'"])
    yield worker
    filesystem.mount(worker)


def test_the_mount_is_where_it_belongs_and_nowhere_else(testbed):
    with_mount = {name for name, host in testbed.hosts.items() if host.succeeds("mountpoint", "-q", MOUNT_POINT)}
    assert with_mount == {"dgt", "vmuf", "wn03", "wn04"}


def test_private_workers_have_no_keytab(testbed):
    assert not testbed.host("wn01").succeeds("test", "-e", "/etc/krb5.keytab")


def test_without_keytab_and_ticket_the_mount_is_refused(unmounted):
    unmounted.script(["mv /etc/krb5.keytab /etc/hidden.keytab"])
    try:
        refused = unmounted.run(*EMPTY_CACHE, MOUNT_COMMAND, check=False)
    finally:
        unmounted.script(["mv /etc/hidden.keytab /etc/krb5.keytab"])
    assert refused.returncode != 0
    assert "keytab" in refused.stderr.lower()
    assert not unmounted.succeeds("mountpoint", "-q", MOUNT_POINT)


def test_the_gate_refuses_a_login_without_ticket(unmounted):
    login = ["ssh", "-F", "none", "-o", "BatchMode=yes", "root@mds.uf.test", "true"]
    refused = unmounted.run(*EMPTY_CACHE, *login, check=False)
    assert refused.returncode == 255
    assert "Permission denied" in refused.stderr


def test_whoever_is_not_admitted_cannot_connect_to_the_file_system(unmounted):
    for server in ("mds.uf.test/9421", "oss.uf.test/9422"):
        assert not unmounted.succeeds("bash", "-c", f": </dev/tcp/{server}", timeout=5)


def test_the_kerberized_xrootd_door_wants_a_ticket(testbed):
    worker = testbed.host("wn03")
    ask = ["xrdfs", "vmuf.uf.test:1095", "stat", MOUNT_POINT]
    refused = worker.run(*EMPTY_CACHE, *ask, check=False)
    assert refused.returncode == 52
    assert "Auth failed" in refused.stderr
    ticket = ["env", "KRB5CCNAME=FILE:/tmp/jobs.ccache"]
    worker.run(*ticket, "kinit", "-k", "-t", "/home/bench/jobs.keytab", f"jobs/{worker.host.fqdn}")
    worker.run(*ticket, *ask)
