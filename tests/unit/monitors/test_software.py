"""A sampler's header says what its host runs and has mounted."""

import subprocess

import pytest

from tierbench.monitors.host_facts import mounts, packages

MOUNTS = """\
/dev/vda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
oss.uf.test:/export /mnt/uf nfs4 rw,sec=krb5,rsize=1048576 0 0
mfs#mds.uf.test:9421 /mnt/mfs fuse.mfs rw,allow_other 0 0
"""


def test_file_systems_over_the_network_are_told_with_their_options(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mounts").write_text(MOUNTS)
    assert mounts(tmp_path) == {"/mnt/uf": "nfs4 rw,sec=krb5,rsize=1048576", "/mnt/mfs": "fuse.mfs rw,allow_other"}
    assert mounts(tmp_path / "nowhere") == {}


def test_packages_have_the_versions_that_the_package_manager_says():
    try:
        listing = ["dpkg-query", "-W", "-f", "${Version}", "libkrb5-3"]
        version = subprocess.run(listing, stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no dpkg with libkrb5-3 here")
    assert packages()["libkrb5-3"] == version
