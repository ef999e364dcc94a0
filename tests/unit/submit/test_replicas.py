"""Sets of replicas: made once, kept in a catalogue that survives what happens to it, and verified."""

import errno
import json
import os
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from tierbench.dags.replicas import DoublingReplicas, Entry, NtupleReplicas, RandomReplicas, TreeReplicas
from tierbench.errors import BusyError, TierbenchError, UnmetNeed
from tierbench.host import Mount
from tierbench.site_configs.site import find_site
from tierbench.submit import catalogue, programs, replication
from tierbench.submit.cli import main
from tierbench.submit.replication import make, not_mounted, verify

DOUBLING = DoublingReplicas(name="twice", kind="doubling", count=5, size_mb=0.001, up_to_mb=0.004)
SET = RandomReplicas(name="noise", kind="random", count=12, size_mb=0.001)


@pytest.fixture
def storage(tmp_path):
    """A storage with the set on it."""
    (tmp_path / "mount").mkdir()
    make(SET, tmp_path / "mount/replicas", 2)
    return tmp_path / "mount/replicas"


def replica(storage, number=1):
    return storage / SET.folder / SET.files[number - 1]


def listing(storage):
    return storage / SET.folder / "catalogue.jsonl"


def contents(storage):
    return {name: (storage / SET.folder / name).read_bytes() for name in SET.files}


def inodes(storage):
    return {name: (storage / SET.folder / name).stat().st_ino for name in SET.files}


def test_what_a_call_that_was_killed_has_left_goes_with_the_next_one(storage):
    left, other = (replica(storage).with_name(f".{name}.0123456789abcdef") for name in (SET.files[0], "of-somebody"))
    at_work = left.with_name(f".{SET.files[1]}.0123456789abcdef")
    partial = left.with_name(f"{left.name}.partial")
    for path in (left, partial, other, at_work):
        path.touch()
    for path in (left, partial):
        os.utime(path, (0, 0))
    replica(storage).unlink()
    make(SET, storage, 1)
    assert [path.exists() for path in (left, partial, other, at_work)] == [False, False, True, True]
    assert replica(storage).exists()


@pytest.mark.parametrize(
    ("point", "missing"), [("/nowhere/lustre", "/nowhere/lustre"), ("/", ""), ("/nowhere/other", "")]
)
def test_a_storage_that_is_to_be_mounted_and_is_not_gets_no_files(tmp_path, point, missing):
    """They would fill this machine's own disk, and be hidden when it is mounted."""
    (tmp_path / "fstab").write_text(
        f"# device point kind\nmgs@o2ib:/lustre {point} lustre defaults 0 0\nswap none swap\n\n"
    )
    assert not_mounted(Path("/nowhere/lustre/tierbench"), str(tmp_path / "fstab")) == missing


def test_the_catalogue_says_what_each_file_holds(storage):
    entries = [json.loads(line) for line in listing(storage).read_text().splitlines()]
    assert {entry["name"]: (entry["bytes"], entry["adler32"]) for entry in entries} == {
        name: (1000, f"{zlib.adler32(content):08x}") for name, content in contents(storage).items()
    }


def test_files_made_anew_are_the_same_and_no_two_are_alike(tmp_path):
    (tmp_path / "mount").mkdir()
    for folder in ("one", "other"):
        make(DOUBLING, tmp_path / "mount" / folder, 2)
    one, other = ([path.read_bytes() for path in sorted((tmp_path / "mount" / folder).glob("*/*.dat"))]
                  for folder in ("one", "other"))  # fmt: skip
    assert (one == other, len(one), len(set(one))) == (True, DOUBLING.count, DOUBLING.count)
    assert len(zlib.compress(one[2])) > len(one[2])


def test_no_file_is_larger_than_the_largest_that_was_asked_for():
    assert replace(DOUBLING, up_to_mb=0.003).sizes == [1000, 2000]


def test_files_of_doubling_sizes_begin_again_after_the_largest(tmp_path):
    (tmp_path / "mount").mkdir()
    make(DOUBLING, tmp_path / "mount/replicas", 2)
    made = [tmp_path / "mount/replicas" / DOUBLING.folder / name for name in DOUBLING.files]
    assert [path.stat().st_size for path in made] == [1000, 2000, 4000, 1000, 2000]
    assert DOUBLING.nominal_bytes == 7000 // 3


def test_a_tree_stays_where_it_was_and_an_rntuple_lies_beside_it() -> None:
    tree = TreeReplicas(name="root-tree", kind="tree", count=1, size_mb=64)
    ntuple = NtupleReplicas(name="root-tree", kind="rntuple", count=1, size_mb=64, events=9, cluster_events=3)
    assert tree.folder == "root-tree-95104a"
    assert (ntuple.folder != tree.folder, ntuple.files) == (True, ["root-tree-0001.rntuple.root"])


def test_no_storage_of_another_host_is_filled_on_this_hosts_own_disk(monkeypatch, capsys):
    monkeypatch.setattr(replication, "mounts", lambda: [Mount("/dev/sda1", "/", "ext4"), Mount("mfs", "/ext", "fuse")])
    assert main(["replicas", "quick", "--site", "testbed"]) == 3
    assert (
        "is on this host's own disk, with nothing mounted there, and the storage is oss.uf.test"
        in capsys.readouterr().err
    )


def test_a_root_config_that_does_not_work_is_named(tmp_path, monkeypatch):
    script = tmp_path / "root-config"
    script.write_text("#!/bin/sh\necho no libraries >&2; exit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(programs, "find_root_executable", lambda: "")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UnmetNeed, match="root-config does not work: no libraries"):
        programs.find_root()


def overwrite(storage):
    path = replica(storage)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")


def forget(storage):
    lines = listing(storage).read_text().splitlines()
    listing(storage).write_text("".join(f"{line}\n" for line in lines if replica(storage).name not in line))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (overwrite, "its contents have changed"),
        (lambda storage: replica(storage).write_bytes(b"short"), "has 5 bytes, not 1000"),
        (lambda storage: replica(storage).unlink(), "is not there"),
        (forget, "not in the catalogue"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(storage, damage, complaint):
    damage(storage)
    (told,) = verify(SET, storage, 2)
    assert told.startswith(str(replica(storage)))
    assert complaint in told


@pytest.mark.parametrize("damage", [b"\0\0\0\0", b"}", b'{"name": "noise-0001.dat", "bytes": NaN, "adler32": "0"}'])
def test_a_damaged_line_costs_one_file_and_no_other(storage, damage):
    before, made = contents(storage), inodes(storage)
    lines = listing(storage).read_bytes().splitlines(keepends=True)
    listing(storage).write_bytes(b"".join([*lines[:3], damage + b"\n", *lines[4:]]))
    told, *others = verify(SET, storage, 2)
    assert told == f"{listing(storage)}: 1 lines are damaged; `tierbench replicas` makes again what they listed"
    assert len(others) == 1
    make(SET, storage, 2)
    assert sum(made[name] != again for name, again in inodes(storage).items()) == 1
    assert contents(storage) == before
    assert list(verify(SET, storage, 2)) == []


def test_whose_folder_it_is_nobody_here_may_know(storage, monkeypatch):
    def unknown(_):
        raise KeyError("getpwuid(): uid not found: 4711")

    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    replica(storage).unlink()
    monkeypatch.setattr(Path, "owner", unknown)
    monkeypatch.setattr("tierbench.submit.catalogue.files.locked", denied)
    with pytest.raises(TierbenchError, match=r"it belongs to uid \d+"):
        make(SET, storage, 2)


def test_a_catalogue_that_was_cut_off_is_gone_on_with(storage):
    listing(storage).write_bytes(listing(storage).read_bytes()[:-30])
    make(SET, storage, 2)
    assert len(catalogue.read(storage / SET.folder).entries) == SET.count


def test_a_catalogue_on_a_mount_that_does_not_answer_is_given_up(storage, monkeypatch):
    """Here it is a pipe into which nobody writes."""
    site = find_site("testbed")
    site = replace(site, storage=replace(site.storage, replicas=str(storage)), access={"direct": site.access["direct"]})
    assert len(catalogue.fetched(site, SET.folder).entries) == SET.count
    listing(storage).unlink()
    os.mkfifo(listing(storage))
    monkeypatch.setattr(catalogue, "FETCH_SECONDS", 0.5)
    assert catalogue.fetched(site, SET.folder) is None


def test_adding_writes_a_line_and_no_more(storage):
    """However many there are: ten thousand were written ten thousand times over."""
    with catalogue.adding(storage / SET.folder) as (listed, file):
        before = listing(storage).read_bytes()
        listed.add(Entry("noise-9999.dat", 1, "00000001"), file)
        added = listing(storage).read_bytes()
    assert added.startswith(before)
    assert added[len(before) :].count(b"\n") == 1


def test_two_do_not_make_one_set_at_once(storage):
    replica(storage).unlink()
    with catalogue.adding(storage / SET.folder), pytest.raises(BusyError, match="another `tierbench replicas`"):
        make(SET, storage, 2)


def test_a_sound_set_is_verified_and_who_only_looks_waits_for_nobody(storage):
    with catalogue.adding(storage / SET.folder):
        make(SET, storage, 2)
        assert list(verify(SET, storage, 2)) == []


def test_a_link_in_a_sets_folder_is_neither_filled_nor_handed_over(storage, tmp_path):
    """As root makes replicas in a folder of somebody's."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    precious.chmod(0o600)
    replica(storage).unlink()
    (storage / SET.folder / f".{replica(storage).name}.{os.uname().nodename}.{os.getpid()}").symlink_to(precious)
    make(SET, storage, 1)
    assert precious.read_text() == "mine"
    listing(storage).unlink()
    listing(storage).symlink_to(precious)
    with pytest.raises(TierbenchError, match="cannot be written"):
        make(SET, storage, 1)
    with pytest.raises(OSError, match="symbolic links"):
        catalogue.hand_over(listing(storage))
    assert (precious.read_text(), precious.stat().st_mode & 0o777) == ("mine", 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_what_root_makes_belongs_to_the_storages_owner(tmp_path):
    (tmp_path / "mount").mkdir()
    os.chown(tmp_path / "mount", 4321, 4322)
    make(SET, tmp_path / "mount/replicas", 2)
    made = [tmp_path / "mount/replicas", *(tmp_path / "mount/replicas").rglob("*")]
    assert len(made) == SET.count + 3
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(4321, 4322)}


@pytest.mark.parametrize(("above", "file"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600)])
def test_who_may_read_the_storage_may_read_what_is_made_whatever_the_umask(tmp_path, above, file):
    (tmp_path / "mount").mkdir()
    (tmp_path / "mount").chmod(above)
    before = os.umask(0o077)
    try:
        make(SET, tmp_path / "mount/replicas", 2)
    finally:
        os.umask(before)
    made = list((tmp_path / "mount/replicas").rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {file}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {above}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_set_of_somebody_elses_says_whose_it_is():
    with tempfile.TemporaryDirectory() as name:  # which others may enter, where pytest's own may not
        Path(name).chmod(0o755)
        (Path(name) / "mount").mkdir()
        storage = Path(name) / "mount/replicas"
        make(SET, storage, 2)
        replica(storage).unlink()
        os.seteuid(65534)
        try:
            with pytest.raises(TierbenchError, match="cannot be written: Permission denied; it belongs to root"):
                make(SET, storage, 1)
        finally:
            os.seteuid(0)
