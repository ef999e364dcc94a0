"""On which mounts clients have their files, and what becomes of a trial in which it was mounted anew meanwhile."""

import json
import os
import shlex
import subprocess

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.client_process import PATIENCE_S
from tests.unit.doctored_trial import flushed
from tests.unit.shipped import PYTHON, ship
from tierbench import names
from tierbench.postprocess.records.jobs import Place
from tierbench.postprocess.tables.write import trial_tables
from tierbench.postprocess.verdict.cache_rules import is_other_mount
from tierbench.postprocess.verdict.counting import INVALID, VALID
from tierbench.wrappers import mounts
from tierbench.wrappers.mounts import mounts_in, place_of, target_of

LIST = """\
22 1 0:21 / / rw,relatime shared:1 - overlay overlay rw
23 22 0:22 / /proc rw - proc proc rw
24 22 0:30 / /net rw shared:2 - autofs systemd-1 rw,fd=29
25 22 0:31 / /storage rw shared:3 - nfs4 server:/a rw,sec=sys
26 22 0:32 / /storage rw shared:4 master:1 - nfs4 server:/a rw,sec=krb5p
27 26 8:1 /below /storage/with\\040blank rw - ext4 /dev/sda1 rw
"""


def test_the_last_mount_counts_and_a_trigger_is_none():
    assert mounts_in(LIST) == {"/": "0:21", "/storage": "0:32", "/storage/with blank": "8:1"}


def test_links_are_followed_up_to_the_mount_which_is_not_asked(tmp_path, monkeypatch):
    (tmp_path / "mount").mkdir()
    (tmp_path / "link").symlink_to("mount/below")
    (tmp_path / "other").symlink_to("link")
    (tmp_path / "circle").symlink_to("circle")
    points = {"/": "0:21", str(tmp_path / "mount"): "0:32"}
    asked = []
    monkeypatch.setattr(mounts, "target_of", lambda path: asked.append(str(path)) or target_of(path))
    place = place_of(str(tmp_path / "other" / "file"), points)
    assert place == (str(tmp_path / "mount/below/file"), str(tmp_path / "mount"), "0:32")
    assert str(tmp_path / "mount") not in asked
    assert place_of(str(tmp_path / "circle"), points) == (str(tmp_path / "circle"), "/", "0:21")


@pytest.mark.parametrize(
    ("place", "points", "other"),
    [
        (Place("/storage/a", "/storage", "0:32"), {"/": "0:21", "/storage": "0:32"}, False),
        (Place("/storage/a", "/storage", "0:31"), {"/": "0:21", "/storage": "0:32"}, True),
        (Place("/storage/a", "/", "0:21"), {"/": "0:21", "/storage": "0:32"}, True),  # it was not mounted yet
        (Place("/cvmfs/a/b", "/cvmfs/a", "0:40"), {"/": "0:21"}, False),  # mounted on demand
        (Place("/opt/root", "/", "0:50"), {"/": "0:21"}, False),  # a root of its own
        (Place("/storage/a", "/storage", "0:31"), {}, False),  # not flushed, or by an earlier version
    ],
)
def test_another_mount_is_one_that_the_flush_has_seen(place, points, other):
    assert is_other_mount(place, points) == other


@pytest.mark.parametrize(("device", "verdict"), [("0:32", VALID), ("0:31", INVALID)])
def test_a_client_on_the_mount_from_before_makes_its_trial_invalid(tmp_path, device, verdict):
    host = "wn01.private.fiu.test"
    folder = synthetic.write_trial(tmp_path, jobs=1)
    mounted = {"path": "/storage/a", "point": "/storage", "device": device}
    size = round(400e6 / 8 * 20 / 1.02)
    synthetic.write_client(folder / names.client_output(0), begin_s=0, end_s=20, size=size, mounts=[mounted])
    flushed(folder, **{host: {"mounts": {"/": "0:21", "/storage": "0:32"}}})
    row = trial_tables(folder)
    assert row.verdict == verdict, row["verdict_reasons"]
    assert ("1 clients had their files on another mount at /storage" in row["verdict_reasons"]) == (verdict == INVALID)


# A host mounts its storage anew while a job, whose mounts are its own, waits for the go; then its caches are emptied.
HOST = """
set -e
mount --make-rprivate /
new() {{ mount -t tmpfs none storage; echo replica >storage/replica; }}
new
unshare --mount {client} >client.jsonl &
until grep -q ready client.jsonl 2>/dev/null; do sleep 0.02; done
{between}
{flush} >flush.json
echo '{{"format": 1, "go_wall_ns": 1}}' >go.new
mv go.new go.json
wait
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize(("between", "other"), [("", False), ("umount storage; new", True)], ids=["kept", "anew"])
def test_a_client_that_waited_tells_that_its_mount_is_not_the_hosts(tmp_path, between, other):
    ship(tmp_path, "client.py")
    ship(tmp_path, "flush.py")
    storage = tmp_path / "storage"
    storage.mkdir()
    (tmp_path / "replicas.txt").write_text(f"{storage}/replica\t8\n")
    client = [PYTHON, "client.py", "--trial", "t", "--index", "0", "--replicas", "replicas.txt", "--client", "dd"]
    flush = [PYTHON, "flush.py", "--strategy", "none", "--directory", str(storage)]
    words = HOST.format(client=shlex.join([*client, "--gate", "go.json"]), flush=shlex.join(flush), between=between)
    subprocess.run(["unshare", "--mount", "sh", "-c", words], cwd=tmp_path, check=True, timeout=PATIENCE_S)
    record = json.loads((tmp_path / "client.jsonl").read_text().splitlines()[-1])
    [place] = [Place(**place) for place in record["mounts"]]
    assert (record["status"], place.point) == ("ok", str(storage))
    assert is_other_mount(place, json.loads((tmp_path / "flush.json").read_text())["mounts"]) == other
