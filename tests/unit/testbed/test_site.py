"""A site file says what is offered; what does not fit together in it is named."""

import pytest

from tierbench.errors import ConfigError
from tierbench.site_configs import site as site_module
from tierbench.site_configs.site import Pool, find_site, load_site
from tierbench.spec import shipped_definitions
from tierbench.testbed.services import topology
from tierbench.testbed.services.xrootd import XROOTDFS_ROOT
from tierbench.testbed.settings import Settings

SITE = """
name = "small"

[pools.all]
requirements = 'TierbenchNetwork == "public"'

[access.bridge]
pool = "all"
protocol = "xrootd"
prefix = "root://door.example:1094/"
path = ["door.example"]

[access.mount]
pool = "all"
protocol = "file"

[storage]
replicas = "/data/replicas"
sampled = "oss.example"

[samplers.oss]
host = "oss.example"
interface = "eth0"
role = "storage"
"""


STORAGE = 'role = "storage"\n'
DOOR = '\n[samplers.door]\nhost = "door.example"\ninterface = "eth1"\nrole = "door"\nvia = "ssh"\n'
AGAIN = '\n[samplers.again]\nhost = "oss.example"\ninterface = "eth1"\nrole = "gateway"\n'
WORKERS = ["wn3", "wn1", "wn2"]


@pytest.fixture
def load(load):
    """Read the small site with one piece of its text replaced."""
    return lambda old="", new="": load(SITE, (old, new), name="small", read=load_site)


@pytest.mark.parametrize("name", shipped_definitions(site_module.SHIPPED))
def test_a_shipped_site_loads_under_its_own_name(name):
    assert find_site(name).name == name


def test_an_unknown_site_comes_with_a_guess():
    with pytest.raises(ConfigError, match=r'there is no site "testbd" \(did you mean "testbed"\?\)'):
        find_site("testbd")


def test_the_url_keeps_the_paths_own_slash_and_clients_are_dealt_to_the_doors_of_a_way_in_turn(load):
    urls = {name: access.url("/data/f") for name, access in load().access.items()}
    assert urls == {"bridge": "root://door.example:1094//data/f", "mount": "/data/f"}
    door = 'prefix = "root://door.example:1094/"'
    access = load(door, f'{door}\nfurther = ["root://other.example:1095/"]').access["bridge"]
    assert [access.url("/f", client) for client in range(3)] == [
        "root://door.example:1094//f", "root://other.example:1095//f", "root://door.example:1094//f",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "[access.bridge]",
            '[conditions.far]\ndescription = "d"\npool = "all"\nword = "rtt"\nunit = "s"\nlink = "rtt_ms"\n'
            "[access.bridge]",
            r'unit: link = "rtt_ms" is in ms, so it must be "ms", not "s"',
        ),
        ('pool = "all"', 'pool = "al"', r'access\.bridge\.pool: there is no "al" \(did you mean "all"\?\)'),
        ('prefix = "root://door.example:1094/"', "", r'access\.bridge: prefix: must be like "root://host:1094/"'),
        ("door.example:1094/", "door.example:1094//store", r"no path after the port: the replica's absolute path"),
        ("root://door", "roots://door", r"prefix: .* write root://: a door that wants TLS asks for it"),
        (
            'protocol = "file"',
            'protocol = "file"\nprefix = "/m/"',
            r'access\.mount\.prefix: must be "root://host:1094/" or another "scheme://host:port/", a mount',
        ),
        ('protocol = "file"', 'protocol = "nfs"', r'prefix: must be a server.s "scheme://host:port/" .* "nfs", not ""'),
        ("[access.mount]", '[access."My Mount"]', r"access\.My Mount: must be a name of small letters"),
        ('role = "storage"', 'role = "gateway"', r'at least one must have role = "storage".* none has'),
        (
            'host = "oss.example"',
            'host = "mds.example"',
            r'storage\.sampled: there is no "oss\.example" .*mds\.example',
        ),
        ('"/data/replicas"', '"data"', r"storage\.replicas: must be an absolute path"),
        ('"/data/replicas"', '"/data/replicas/"', r"storage\.replicas: must be .*without .* a / at its end"),
        (
            "requirements = 'TierbenchNetwork == \"public\"'",
            'requirements = ""',
            r"pools\.all\.requirements: must be one ClassAd",
        ),
        ('== "public"\'', '= "public"\'', r"pools\.all\.requirements: must be one ClassAd expression"),
        ('"public"\'', '"public") || (true\'', r"pools\.all\.requirements: must be one ClassAd expression"),
        ('name = "small"', 'name = "small"\nscale = 0', r"scale: must be"),
        (
            "[storage]",
            '[access.bridge.to]\nprefix = "ftp://far.example:2811/"\nfolder = "/in"\nhost = "far.example"\n[storage]',
            r'access\.bridge\.to\.host: there is no "far\.example"',
        ),
        (STORAGE, STORAGE + DOOR, r'access\.bridge\.path: "door\.example" is flushed by a job'),
        (
            'role = "storage"',
            'role = "storage"\naccess = ["mount"]',
            r"access\.bridge: is in no storage server's samplers",
        ),
        (STORAGE, STORAGE + AGAIN, r'"oss\.example" is sampled by samplers\.oss already'),
        (STORAGE, STORAGE + AGAIN.replace("oss", "OSS"), r'"OSS\.example" is sampled by samplers\.oss already'),
        (  # who is sampled twice writes one file twice
            '== "public"\'',
            '== "public"\'\nworkers = ["wn1.example", "WN1.example"]',
            r"pools\.all: workers: must name none twice",
        ),
        *(
            ('interface = "eth0"', f"interface = {several}", r"samplers\.oss.*interface")
            for several in ('["eth0", "eth0"]', "[]", '["eth0", "no such"]', '["eth0", 1]')
        ),
    ],
)
def test_what_does_not_fit_is_named(load, old, new, complaint):
    with pytest.raises(ConfigError, match=complaint):
        load(old, new)


def test_storage_is_as_many_servers_as_it_is_and_links_are_measured_from_the_first_unless_one_is_named(load):
    more = '\n[samplers.oss2]\nhost = "oss2.example"\ninterface = ["eth0", "ib0"]\nrole = "storage"\n'
    site = load('role = "storage"\n', f'role = "storage"\n{more}')
    assert [site.samplers[name].interfaces for name in ("oss", "oss2")] == ["eth0", "eth0+ib0"]
    assert site.server.host == "oss.example"
    more = '\n[samplers.oss2]\nhost = "oss2.example"\ninterface = "auto"\nrole = "storage"\n'
    assert load('sampled = "oss.example"\n', "").server.host == "oss.example"
    named = SITE.replace('sampled = "oss.example"', 'sampled = "oss2.example"')
    assert load(SITE, named + more).server.host == "oss2.example"


def test_workers_are_sampled_where_their_pool_names_an_interface_and_of_many_only_so_many():
    assert Pool("true").samplers(WORKERS) == []
    for most, expected in ((None, ["wn1", "wn2", "wn3"]), (2, ["wn1", "wn2"])):
        sampled = Pool("true", interface="eth0", **({"sampled_workers": most} if most else {})).samplers(WORKERS)
        assert [(sampler.host, sampler.role) for sampler in sampled] == [(host, "worker") for host in expected]
    with pytest.raises(ValueError, match="needs interface"):
        Pool("true", sampled_workers=2)


def test_the_testbeds_site_names_hosts_of_its_topology_and_mounts_xrootd_where_the_testbed_does():
    site = find_site("testbed")
    named = {sampler.host for sampler in site.samplers.values()}
    named |= {host for access in site.access.values() for host in access.path}
    named |= {host for condition in site.conditions.values() for host in condition.hosts}
    largest = topology(Settings(virtual_workers=1, far_workers=1, redirector=1, proxies=2))
    assert named <= {host.fqdn for host in largest.hosts if host.in_pool}
    assert site.access["lan-xrootdfs"].prefix == XROOTDFS_ROOT
