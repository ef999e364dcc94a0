"""Sets of replicas: made once, kept in a catalogue that survives what happens to it, and verified."""

import errno
import json
import os
import shutil
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests.unit.stand_ins import run, script
from tierbench import files, host
from tierbench.checked_text import Glob
from tierbench.dags.replicas import KINDS, CopiedReplicas, DoublingReplicas, Entry, RandomReplicas, TreeReplicas
from tierbench.errors import BusyError, TierbenchError, UnmetNeed
from tierbench.host import Mount
from tierbench.site_configs.site import find_site
from tierbench.submit import catalogue, programs, replication
from tierbench.submit.cli import main
from tierbench.submit.replication import copy, make, not_mounted, verify

DOUBLING = DoublingReplicas(name="twice", kind="doubling", count=5, size_mb=0.001, up_to_mb=0.004)
SET = RandomReplicas(name="noise", kind="random", count=12, size_mb=0.001)
TREE = TreeReplicas(name="root-tree", kind="tree", count=1, size_mb=1)
LOCK = ".catalogue.jsonl.lock"
WRITES = ['echo whole >"$2.partial" && mv "$2.partial" "$2"', 'echo "Processing make_tree.C"']


@pytest.fixture
def mount(tmp_path):
    (tmp_path / "mount").mkdir()
    return tmp_path / "mount"


@pytest.fixture
def storage(mount):
    """A storage with the set on it."""
    make(SET, mount / "replicas", 2)
    return mount / "replicas"


def replica(storage, number=1):
    return storage / SET.folder / SET.files[number - 1]


def listing(storage):
    return storage / SET.folder / "catalogue.jsonl"


def contents(storage):
    return {name: (storage / SET.folder / name).read_bytes() for name in SET.files}


def inodes(storage):
    return {name: (storage / SET.folder / name).stat().st_ino for name in SET.files}


@pytest.fixture
def copies(storage, mount):
    """Makes the copies that an access method has of the set, and says what they hold."""

    def make_copies():
        copy(SET, storage, mount / "copies", 2)
        return contents(mount / "copies")

    return make_copies


@pytest.fixture
def tree(mount, monkeypatch):
    """Makes a set of one ROOT file by a program of these lines, and gives its contents."""

    def make_tree(*lines):
        program = script(mount.with_name("make_tree"), *lines)
        monkeypatch.setattr(programs, "command", lambda _, arguments: [str(program), *arguments])
        make(TREE, mount / "replicas", 1)
        return (mount / "replicas" / TREE.folder / TREE.files[0]).read_text()

    return make_tree


@pytest.fixture
def free(monkeypatch):
    """Has a disk with so much room."""
    return lambda size: monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=size, total=size))


def test_what_a_call_that_was_killed_has_left_goes_with_the_next_one(storage):
    left, other = (replica(storage).with_name(f".{name}.0123456789abcdef") for name in (SET.files[0], "of-somebody"))
    at_work = left.with_name(f".{SET.files[1]}.0123456789abcdef")
    folder = left.with_name(f"{left.name}.d")
    folder.mkdir()
    (folder / f"{left.name}.partial").touch()
    for path in (left, other, at_work):
        path.touch()
    for path in (left, folder):
        os.utime(path, (0, 0))
    replica(storage).unlink()
    make(SET, storage, 1)
    assert [path.exists() for path in (left, folder, other, at_work)] == [False, False, True, True]
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


def test_the_catalogue_says_what_each_file_holds_and_a_catalogue_that_was_cut_off_is_gone_on_with(storage):
    entries = [json.loads(line) for line in listing(storage).read_text().splitlines()]
    assert {entry["name"]: (entry["bytes"], entry["adler32"]) for entry in entries} == {
        name: (1000, f"{zlib.adler32(content):08x}") for name, content in contents(storage).items()
    }
    listing(storage).write_bytes(listing(storage).read_bytes()[:-30])
    make(SET, storage, 2)
    assert len(catalogue.read(storage / SET.folder).entries) == SET.count


def test_files_made_anew_are_the_same_no_two_are_alike_and_doubling_sizes_begin_again_after_the_largest(mount):
    for folder in ("one", "other"):
        make(DOUBLING, mount / folder, 2)
    one, other = (
        [(mount / folder / DOUBLING.folder / name).read_bytes() for name in DOUBLING.files]
        for folder in ("one", "other")
    )
    assert (one == other, len(set(one))) == (True, DOUBLING.count)
    assert len(zlib.compress(one[2])) > len(one[2])
    assert list(map(len, one)) == [1000, 2000, 4000, 1000, 2000]
    assert DOUBLING.nominal_bytes == 7000 // 3
    assert replace(DOUBLING, up_to_mb=0.003).sizes == [1000, 2000]


def test_a_tree_stays_where_it_was_and_an_rntuple_lies_beside_it() -> None:
    tree = TreeReplicas(name="root-tree", kind="tree", count=1, size_mb=64)
    ntuple = KINDS["rntuple"](name="root-tree", kind="rntuple", count=1, size_mb=64, events=9, cluster_events=3)
    assert tree.folder == "root-tree-95104a"
    assert (ntuple.folder != tree.folder, ntuple.files) == (True, ["root-tree-0001.rntuple.root"])


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        (["quick"], 3, "and the storage is oss.uf.test; mount it, or say --directory"),
        (["extenci-pools-scaled", "--access", "far-pool"], 3, "and the storage is osf.fnal.test; mount it, or name"),
        (["extenci-local-input-scaled", "--access", "local-disk"], 1, "to be copied; make the replicas first"),
    ],
)
def test_no_storage_of_another_host_is_filled_on_this_hosts_own_disk(monkeypatch, capsys, asked, status, says):
    mounts = [Mount("/dev/sda1", "/", "ext4"), Mount("mfs", "/ext", "fuse")]
    for module in (replication, host):
        monkeypatch.setattr(module, "mounts", lambda *_: mounts)
    assert main(["replicas", *asked, "--site", "testbed"]) == status
    assert says in capsys.readouterr().err


def test_a_root_config_that_does_not_work_is_named(tmp_path, monkeypatch):
    script(tmp_path / "root-config", "echo no libraries >&2; exit 1")
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
    replica(storage).unlink()
    monkeypatch.setattr(Path, "owner", Mock(side_effect=KeyError("getpwuid(): uid not found: 4711")))
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    monkeypatch.setattr("tierbench.submit.catalogue.files.locked", Mock(side_effect=denied))
    with pytest.raises(TierbenchError, match=r"belongs to uid \d+"):
        make(SET, storage, 2)


def test_copies_of_what_has_changed_since_are_made_anew(storage, copies):
    assert copies() == contents(storage)
    name = SET.files[0]
    replica(storage).write_bytes(b"other")
    with catalogue.adding(storage / SET.folder) as (listed, file):
        listed.add(Entry(name, 5, f"{zlib.adler32(b'other'):08x}"), file)
    assert copies() == contents(storage)


def test_room_is_needed_for_what_the_sources_hold(mount, tmp_path, free):
    for number, size in enumerate((2000, 1)):
        (tmp_path / f"{number}.dat").write_bytes(b"x" * size)
    sources = CopiedReplicas(name="like", kind="copies", count=5, size_mb=0.001, source=Glob(f"{tmp_path}/*.dat"))
    free(6302)  # 5 % of it stay free
    with pytest.raises(TierbenchError, match="GB are to be written"):
        make(sources, mount / "replicas", 2)
    free(6303)
    make(sources, mount / "replicas", 2)


def test_files_of_doubling_sizes_need_just_their_room_which_is_told(mount, free, capsys):
    free(10_500)
    make(DOUBLING, mount / "replicas", 2)
    assert "; 0.0 GB are to be written and 0.0 GB are free\n" in capsys.readouterr().err
    free(0)  # as a mount says that does not tell
    make(DOUBLING, mount / "others", 2)


def test_copies_need_the_room_of_what_is_listed(storage, copies, free):
    with catalogue.adding(storage / SET.folder) as (listed, file):
        listed.add(Entry(SET.files[0], 10**9, "00000001"), file)
    free(10**9)
    with pytest.raises(TierbenchError, match=r"1\.0 GB are to be written"):
        copies()


def test_a_catalogue_on_a_mount_that_does_not_answer_is_given_up(storage, monkeypatch):
    """Here it is a pipe into which nobody writes."""
    site = find_site("testbed")
    site = replace(site, storage=replace(site.storage, replicas=str(storage)), access={"direct": site.access["direct"]})
    assert len(catalogue.fetch(site, SET.folder).entries) == SET.count
    listing(storage).unlink()
    os.mkfifo(listing(storage))
    monkeypatch.setattr(catalogue, "FETCH_SECONDS", 0.5)
    assert catalogue.fetch(site, SET.folder) is None


def test_adding_writes_a_line_and_no_more(storage):
    """However many there are: ten thousand were written ten thousand times over."""
    with catalogue.adding(storage / SET.folder) as (listed, file):
        before = listing(storage).read_bytes()
        listed.add(Entry("noise-9999.dat", 1, "00000001"), file)
        added = listing(storage).read_bytes()
    assert added.startswith(before)
    assert added[len(before) :].count(b"\n") == 1


def test_a_sound_set_is_verified_and_who_only_looks_waits_for_nobody_and_two_do_not_make_one_set_at_once(storage):
    with catalogue.adding(storage / SET.folder):
        make(SET, storage, 2)
        assert list(verify(SET, storage, 2)) == []
    replica(storage).unlink()
    with catalogue.adding(storage / SET.folder), pytest.raises(BusyError, match="another `tierbench replicas`"):
        make(SET, storage, 2)


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


def test_what_a_program_makes_goes_through_no_link_beside_it(tree, tmp_path):
    """All can read in its arguments what it writes, before it does."""
    victim, folder = tmp_path / "victim", tmp_path / "mount/replicas" / TREE.folder
    plant = [f'ln -s {victim} "{folder}/$(basename "$2"){suffix}"' for suffix in ("", ".partial")]
    assert tree(*plant, *WRITES, 'echo \'{"bytes": 6, "events": 3}\'; echo "(int) 0"') == "whole\n"
    assert not victim.exists()
    assert catalogue.read(folder).entries[TREE.files[0]].events == 3


@pytest.mark.parametrize("swapped", ["link", "folder"])
def test_no_program_writes_in_a_folder_of_somebody_elses(tree, tmp_path, monkeypatch, swapped):
    if swapped == "folder" and os.geteuid() != 0:
        pytest.skip("only root makes folders for others")

    def mkdir(path, *mode, real=Path.mkdir, **more):
        real(path, *mode, **more)
        if path.suffix == ".d":
            path.rename(path.with_name("moved"))
            path.symlink_to(path.with_name("moved")) if swapped == "link" else real(path)
            os.chown(path, 4321, -1, follow_symlinks=False)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(TierbenchError, match="Not a directory" if swapped == "link" else "put another folder there"):
        tree(f"touch {tmp_path}/ran")
    assert not (tmp_path / "ran").exists()


def test_a_file_of_other_bytes_than_its_program_says_is_none(tree):
    with pytest.raises(TierbenchError, match="has 6 of the 7 bytes that make_tree wrote"):
        tree(*WRITES, 'echo \'{"bytes": 7, "events": 3}\'')


ROOT = """
#pragma once
#include <cstdio>
#include <string>
typedef long long Long64_t;
typedef unsigned long long ULong64_t;
typedef unsigned UInt_t;
#define ROOT_VERSION(major, minor, patch) 1
#define ROOT_VERSION_CODE 0
struct TFile {
    enum { kWriteError };
    bool full = false;
    TFile(std::string path, ...) { std::fclose(std::fopen(path.substr(0, path.find('?')).c_str(), "w")); }
    bool IsZombie() { return false; }
    bool TestBit(int) { return full; }
    void Close() { full = FULL; }
    Long64_t GetEND() { return 0; }
};
struct TTree {
    Long64_t filled = 0;
    TTree(...) {}
    void Branch(...) {}
    void SetAutoFlush(Long64_t) {}
    Long64_t GetEntries() { return filled; }
    void Fill() { ++filled; }
    Long64_t GetZipBytes() { return filled; }
    void Write() {}
};
struct TRandom3 {
    TRandom3(unsigned) {}
    void RndmArray(...) {}
    double Rndm() { return 0; }
    double Poisson(double) { return 0; }
    double Exp(double) { return 0; }
    double Uniform(double, double) { return 0; }
    double Gaus(double, double) { return 0; }
};
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++ here")
@pytest.mark.parametrize("full", [0, 1])
def test_a_disk_that_gets_full_while_root_closes_a_file_is_told(tmp_path, full):
    """By a stand-in for ROOT, whose own disks get full at the same place."""
    for header in ("RVersion", "TFile", "TRandom3", "TTree"):
        (tmp_path / f"{header}.h").write_text(ROOT)
    program, made = tmp_path / "make_tree", tmp_path / "made.root"
    built = run("g++", "-x", "c++", f"-I{tmp_path}", f"-DFULL={full}", programs.MAKE_TREE, "-o", program)
    assert built.returncode == 0, built.stderr
    assert run(program, "tree", made, "1", "1", "1", "1", "1", "none", "1").returncode == full
    assert made.exists() is not bool(full)


def test_where_there_are_no_locks_none_is_left_behind(storage, monkeypatch):
    replica(storage).unlink()
    monkeypatch.setattr(files.fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
    make(SET, storage, 1)
    assert not (storage / SET.folder / LOCK).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_what_root_makes_belongs_to_the_storages_owner(mount):
    os.chown(mount, 4321, 4322)
    make(SET, mount / "replicas", 2)
    made = [*mount.rglob("*")]
    assert len(made) == SET.count + 3
    with catalogue.adding(mount / "replicas" / SET.folder):
        made.append(mount / "replicas" / SET.folder / LOCK)
        assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(4321, 4322)}


@pytest.mark.parametrize(("above", "file"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600)])
def test_who_may_read_the_storage_may_read_what_is_made_whatever_the_umask(mount, above, file):
    mount.chmod(above)
    before = os.umask(0o077)
    try:
        make(SET, mount / "replicas", 2)
    finally:
        os.umask(before)
    made = list((mount / "replicas").rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {file}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {above}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(
    ("owner", "denied"), [(0, rf"{SET.folder} belongs to root"), (65534, f"{LOCK} belongs to root")]
)
def test_what_is_somebody_elses_is_named(owner, denied):
    with tempfile.TemporaryDirectory() as name:  # which others may enter, where pytest's own may not
        Path(name).chmod(0o755)
        (Path(name) / "mount").mkdir()
        os.chown(Path(name) / "mount", owner, owner)
        storage = Path(name) / "mount/replicas"
        make(SET, storage, 2)
        replica(storage).unlink()
        if owner:
            (storage / SET.folder / LOCK).touch(0o600)
        os.seteuid(65534)
        try:
            with pytest.raises(TierbenchError, match=rf"cannot be written: Permission denied; \S+/{denied}"):
                make(SET, storage, 1)
        finally:
            os.seteuid(0)
