"""A site file is made of what the pool, the mounts and some URLs tell, and can be read as it is."""

import argparse
import socket
from pathlib import Path
from unittest.mock import Mock

import classad2
import pytest

from tests.unit.stand_ins import full_disk
from tierbench import host
from tierbench.host import Mount
from tierbench.site_configs.site import load_site
from tierbench.submit import init_site, pool
from tierbench.submit.cli import main
from tierbench.submit.pool import Machine, PoolError

NFS = Mount("nas.example:/export", "/data", "nfs4")
DISK = Mount("/dev/sda1", "/", "ext4")
NODES = [Machine("a.example", 8, "public"), Machine("b.example", 8, "private"), Machine("door.example", 4, "server")]
ALL_MACHINES = pool.all_machines


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """Has these machines in the pool, and these file systems mounted beside the disk; at first nothing."""

    def here(*machines, mounted=()):
        monkeypatch.setattr(pool, "all_machines", lambda: list(machines))
        for module in (init_site, host):
            monkeypatch.setattr(module, "mounts", lambda *_: [DISK, *mounted])

    monkeypatch.chdir(tmp_path)
    here()
    return here


def made(*arguments):
    assert main(["init-site", "mine.toml", *arguments]) == 0
    return load_site(Path("mine.toml"))


def test_one_box_alone_has_its_own_disk(here):
    here(Machine("box.example", 4, ""))
    site = made()
    assert site.pools["workers"].requirements == 'Machine == "box.example"'
    assert site.access["disk"].on_disk
    # HTCondor gives each job a /tmp and a /var/tmp of its own (MOUNT_UNDER_SCRATCH), where no copies are.
    assert "tmp" not in str(site.access["disk"].replicas).split("/")
    assert (site.server.host, site.server.via) == ("box.example", "pool")


def test_a_full_disk_leaves_no_file_that_is_in_the_way(tmp_path):
    arguments = argparse.Namespace(file=tmp_path / "mine.toml", url=[], mount=[])
    with full_disk(), pytest.raises(OSError, match="File too large"):
        init_site._init_site(arguments)
    assert list(tmp_path.iterdir()) == []


def test_networks_are_pools_and_servers_take_no_clients(here):
    here(*NODES, mounted=[NFS])
    site = made("--url", "root://door.example//data")
    assert set(site.pools) == {"private", "public"}
    assert {(access.pool, access.protocol) for access in site.access.values()} == {
        (name, protocol) for name in site.pools for protocol in ("file", "xrootd")
    }
    roles = {sampler.host: (sampler.role, sampler.via) for sampler in site.samplers.values()}
    assert roles == {"door.example": ("door", "pool"), "nas.example": ("storage", "ssh")}
    assert site.storage.replicas == "/data/tierbench"


def test_who_exports_a_mount_takes_no_clients_and_is_found_in_the_pool_by_its_short_name(here):
    here(Machine("wn.example", 8, ""), Machine("nas.example", 8, ""), mounted=[NFS._replace(device="nas:/export")])
    site = made("--mount", "/data/")  # as a shell completes it
    assert site.storage.replicas == "/data/tierbench"
    assert [(sampler.host, sampler.via) for sampler in site.samplers.values()] == [("nas.example", "pool")]
    assert [own.requirements for own in site.pools.values()] == ['Machine == "wn.example"']


def test_a_door_before_lustre_is_not_the_storage(here):
    lustre = Mount("10.0.0.1@o2ib:10.0.0.2@o2ib:/fs1", "/lustre", "lustre")
    here(Machine("wn.example", 8, ""), Machine("door.example", 8, ""), mounted=[lustre])
    roles = {own.host: own.role for own in made("--url", "root://door.example//lustre").samplers.values()}
    assert roles == {"door.example": "door", "storage.example": "storage"}
    (to_change,) = [line for line in Path("mine.toml").read_text().splitlines() if "storage.example" in line]
    assert "# CHANGE: the storage server" in to_change


def test_a_mount_is_found_by_a_link_to_it(here, tmp_path):
    here(mounted=[NFS])
    (tmp_path / "store").symlink_to("/data/store")
    assert init_site.mount_at(str(tmp_path / "store")).kind == "nfs4"


def test_machines_without_a_network_are_one_pool_beside_the_server(here):
    here(*(Machine(host, 8, "") for host in ("a.example", "b.example", "door.example")))
    site = made("--url", "https://door.example/store")
    untagged = 'OpSys == "LINUX" && TierbenchNetwork =?= undefined'
    assert site.pools["workers"].requirements == f'{untagged} && Machine != "door.example"'
    text = Path("mine.toml").read_text()
    assert "\"' # a ClassAd expression" in text
    assert "of a redirector name the data servers instead" in text
    assert site.access["http"].path == ("door.example",)  # whose caches hold the files
    assert (site.access["http"].prefix, site.storage.replicas) == ("https://door.example:443/", "/store/tierbench")


def test_a_pool_of_which_half_say_their_network_is_two_pools(here):
    tagged = [Machine(f"t{number}.example", 8, "Public") for number in range(60)]
    here(*tagged, *(Machine(f"{n}.example", 8, "") for n in "ab"))
    site = made("--url", "root://far.example//data")
    requirements = {name: offer.requirements for name, offer in site.pools.items()}
    assert requirements["workers"] == 'OpSys == "LINUX" && TierbenchNetwork =?= undefined'
    assert requirements["workers-2"] == 'TierbenchNetwork == "Public"'
    assert {access.path for access in site.access.values()} == {()}  # it has to join the pool first


def test_without_a_pool_it_says_what_was_not_asked(monkeypatch):
    monkeypatch.setattr(pool, "all_machines", Mock(side_effect=PoolError("no collector answers")))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = f"root://localhost:{listening.getsockname()[1]}//store"
        made("--url", answering, "--url", "root://127.0.0.1:1//store", "--mount", "/no/data", "--mount", "/usr")
    lines = Path("mine.toml").read_text().splitlines()
    asked = [line.split("# ")[1] for line in lines if line.startswith("requirements")]
    assert asked == ["CHANGE: no collector answers"]
    answers = [line.split("# ")[1] for line in lines if line.startswith("prefix")]
    assert answers[0] == "answers from here"
    assert answers[1].startswith("CHANGE: it does not answer from here: ")
    doubts = [line.split("# CHANGE: ")[1] for line in lines if line.startswith('protocol = "file"')]
    assert doubts[:2] == ["do these workers mount it?", "a disk of this host alone? Then on_disk = true, with replicas"]


def test_what_a_machine_calls_its_network_becomes_no_part_of_the_file(monkeypatch):
    hostile = """x"'\ninterface = "lo"\n[submission]\nlines = ['+PreCmd = "y"']\n[pools.y]\nrequirements = 'true'\n#"""
    ads = [{"Machine": "a.example", "TierbenchNetwork": hostile}]
    monkeypatch.setattr(pool, "_startds", lambda *_: ads)
    monkeypatch.setattr(pool, "all_machines", ALL_MACHINES)
    assert not made().submission.lines
    assert "# CHANGE: a.example: TierbenchNetwork must be a name" in Path("mine.toml").read_text()


def test_a_network_without_its_quotes_is_no_pool_of_that_name(monkeypatch):
    ads = [classad2.ClassAd({"Machine": "a.example", "TierbenchNetwork": classad2.ExprTree("public")})]
    monkeypatch.setattr(pool, "_startds", lambda *_: ads)
    monkeypatch.setattr(pool, "all_machines", ALL_MACHINES)
    made()
    assert '# CHANGE: a.example: TierbenchNetwork must be a text in "", not public' in Path("mine.toml").read_text()


def test_a_file_that_cannot_be_read_does_not_stay(here):
    here(Machine("a.example", 8, "bob's rack"))
    assert main(["init-site", "mine.toml"]) == 2
    assert not Path("mine.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["there.toml"], "is there already"),
        (["mine"], "must be called NAME.toml"),
        (["mine.toml", "--url", "ftp://door.example/x"], "must be SCHEME://HOST:PORT/PATH"),
        (["mine.toml", "--url", "roots://door.example//x"], "write root://: a door that wants TLS asks for it"),
        (["mine.toml", "--url", 'root://a"b//x'], "its host must be"),
        (["mine.toml", "--mount", "data"], "--mount"),
    ],
)
def test_what_cannot_be_is_refused(arguments, why, capsys):
    Path("there.toml").write_text("mine")
    assert main(["init-site", *arguments]) == 2
    assert why in capsys.readouterr().err
    assert [path.read_text() for path in Path().glob("*.toml")] == ["mine"]
