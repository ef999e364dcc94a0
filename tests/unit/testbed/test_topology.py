"""The topology is data that can be reasoned about without a machine."""

import re

import classad2
import htcondor2  # noqa: F401 - without it ClassAds know none of HTCondor's functions
import pytest

from tierbench.testbed.network import host_lines, links, wan_lines
from tierbench.testbed.rootfs import recipe
from tierbench.testbed.services import topology
from tierbench.testbed.services.htcondor import admin_fragment
from tierbench.testbed.settings import Rates, Settings
from tierbench.testbed.topology import BEHIND, PRIVATE, UF


@pytest.fixture
def small():
    return topology(Settings(private_workers=2, public_workers=1))


def test_every_address_is_given_once_and_every_link_is_capped_at_both_ends():
    largest = topology(Settings(private_workers=99, public_workers=50))
    addresses = [nic.address for host in largest.hosts for nic in host.nics]
    assert len(addresses) == len(set(addresses))
    assert all(int(address.rpartition(".")[2]) < 255 for address in addresses)
    plan = topology(Settings(private_workers=1, public_workers=0, rates_mbps=Rates(worker=77)))
    (worker,) = plan.workers
    lines = [*wan_lines(plan), *host_lines(worker, plan)]
    assert sum("rate 77mbit" in line for line in lines) == 2


def test_private_workers_come_first_and_only_hosts_with_public_names_mount_and_every_interface_is_plugged_in(small):
    assert [host.fqdn for host in small.workers] == ["wn01.private.fiu.test", "wn02.private.fiu.test", "wn03.fiu.test"]
    assert [host.name for host in small.hosts if host.mounts] == ["vmuf", "dgt", "wn03"]
    pids = {host.name: number for number, host in enumerate(small.hosts)}
    assert len(list(links(small, pids))) == sum(len(host.nics) for host in small.hosts)


def test_virtual_workers_are_as_wide_as_what_is_beside_them_and_usually_neither_they_nor_their_packages_are_there():
    plan = topology(Settings(virtual_workers=1, rates_mbps=Rates(worker=77, server=999)))
    near, far = (host for host in plan.workers if host.is_virtual)
    assert [host.fqdn for host in (near, far)] == ["vwuf.uf.test", "vwfiu.fiu.test"]
    assert [nic.rate_mbps for host in (near, far) for nic in host.nics] == [999, 77]
    assert [host.network_kind for host in (near, far)] == ["virtual-near", "virtual"]
    assert not any(host.is_virtual for host in topology(Settings()).hosts)
    for package, there in (("nfs-ganesha", {"virtual_workers": 1}), ("slirp4netns", {"near_workers": 1})):
        assert package in recipe(Settings(**there)).debian_packages
        assert package not in recipe(Settings()).debian_packages


def test_workers_beside_the_storage_are_of_kinds_of_their_own():
    plan = topology(Settings(near_workers=1, virtual_workers=1, rates_mbps=Rates(server=999, metadata=111)))
    near = {host.network_kind: host for host in plan.workers if host.nic_on(UF)}
    assert near.keys() == {"near", "near-user-network", "virtual-near"}
    assert {nic.rate_mbps for host in near.values() for nic in host.nics} == {999}
    assert [nic.rate_mbps for nic in plan.host("mds").nics] == [111]
    behind = near["near-user-network"]
    assert (behind.address, behind.own_address) == ("198.18.1.53", BEHIND)
    assert near["near"].own_address == near["near"].address


@pytest.mark.parametrize(
    ("user", "service", "let_in"),
    [
        ("bench@tierbench.test", "True", True),
        ("bench@tierbench.test", "False", False),
        ("other@tierbench.test", "True", False),
        ("bench@elsewhere.example", "True", False),  # who has flocked here
    ],
)
def test_servers_take_service_jobs_of_the_users_that_they_name_with_their_domain(small, user, service, let_in):
    settings = dict(re.findall(r"(?m)^(\w+) = (.*)", admin_fragment(small.host("oss"))))
    start = settings["START"].replace("$(TierbenchUsers)", settings["TierbenchUsers"])
    job = classad2.ClassAd(f'[Owner = "bench"; User = "{user}"; TierbenchService = {service}]')
    assert job.matches(classad2.ClassAd(f"[Requirements = {start}]")) == let_in


def test_private_workers_reach_the_access_point_without_nat_and_only_the_gateway_translates_addresses(small):
    (worker, *_), access_point = small.workers, small.host("ce")
    by_its_leg = f"via {access_point.nic_on(PRIVATE).address}"
    assert any(f"{access_point.address} " in line and by_its_leg in line for line in host_lines(worker, small))
    translating = [host.name for host in small.sited_hosts if any("MASQUERADE" in x for x in host_lines(host, small))]
    assert translating == ["dgt"]


def test_a_storage_server_with_several_interfaces_answers_by_the_one_that_was_asked():
    plan = topology(Settings(storage_nics=3, rates_mbps=Rates(storage=101)))
    storage = plan.host("oss")
    assert list(storage.names.values()) == ["oss", "oss-2", "oss-3"]
    lines = list(host_lines(storage, plan))
    for nic in storage.nics[1:]:
        (table,) = {line.split()[-1] for line in lines if line.startswith(f"ip rule add from {nic.address} ")}
        assert any(f"route replace default dev {nic.device} " in line and f" table {table} " in line for line in lines)
    assert sum("rate 101mbit" in line for line in [*lines, *wan_lines(plan)]) == 6
    assert any(line.split()[1:] == ["oss-3.uf.test"] for line in plan.etc_hosts())
