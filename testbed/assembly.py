"""Put a testbed together: stage files, boot hosts, wire them, start the daemons in their order; ask each how it is."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path

import tierbench
from tierbench.errors import HostError
from tierbench.testbed import network, offered
from tierbench.testbed.cgroups import means
from tierbench.testbed.host import RunningHost
from tierbench.testbed.rootfs import Say
from tierbench.testbed.service import (
    DELAY_LINE,
    Hosts,
    Question,
    Reply,
    Service,
    at_once,
    delay_line_listens,
    start_delay_line,
    wait_for,
    waves,
)  # fmt: skip
from tierbench.testbed.services import SERVICES
from tierbench.testbed.topology import WAN, Topology

SOURCE = "/opt/tierbench"
STAGES = ("dags", "submit", "wrappers", "monitors", "postprocess", "testbed", "site_configs")


def assemble(hosts: Hosts, topology: Topology, site: str, rootfs: Path, say: Say) -> None:
    """Bring all hosts and their daemons up; return when each of them answers."""
    say(f"{len(hosts)} hosts")
    _stage(hosts, topology, site)
    parts = {"root": tierbench, **{stage: import_module(f"tierbench.{stage}") for stage in STAGES}}
    binds = [(Path(part.__file__ or "").parent, f"{SOURCE}/parts/{name}") for name, part in parts.items()]
    for host in hosts.values():
        if host.host.nics:  # not the wan: its delay line needs real-time priority, which only the root group gives
            host.namespaces.cgroup.make()
    if means().lacking:
        say(means().lacking)
    at_once(lambda host: host.namespaces.boot(host.name, rootfs, [*binds, *host.binds]), hosts.values())

    say("networks, and the WAN between the sites")
    _wire(hosts, topology)

    def start(service: Service) -> None:
        service.start(hosts, topology)
        wait_for(service.questions(hosts, topology))

    for wave in waves(SERVICES):
        say(", ".join(service.name for service in wave if service.name))
        at_once(start, wave)

    say("waiting for the pool to be complete")
    at_once(lambda service: service.complete(hosts, topology), SERVICES)


def _stage(hosts: Hosts, topology: Topology, site: str) -> None:
    etc_hosts = "\n".join(topology.etc_hosts()) + "\n"
    for host in hosts.values():
        host.stage("/etc/hosts", etc_hosts)
        host.stage("/etc/hostname", host.name + "\n")
        host.stage(offered.INSTALLED, site)
        _stage_tierbench(host)
    hosts[WAN].stage(DELAY_LINE, Path(__file__).with_name("delayline.py").read_bytes())
    for service in SERVICES:
        service.stage(hosts, topology)


def _stage_tierbench(host: RunningHost) -> None:
    """Make the command `tierbench` of the host run this very package, whose parts are bound to it."""
    command = f'#!/bin/sh\nPYTHONPATH={SOURCE} exec python3 -m tierbench "$@"\n'
    host.stage("/usr/local/bin/tierbench", command, 0o755)
    for file in Path(tierbench.__file__).parent.glob("*.py"):
        host.stage_link(f"{SOURCE}/tierbench/{file.name}", f"../parts/root/{file.name}")
    for stage in STAGES:
        host.stage_link(f"{SOURCE}/tierbench/{stage}", f"../parts/{stage}")


def _wire(hosts: Hosts, topology: Topology) -> None:
    wan, settings = hosts[WAN], topology.settings
    pids = {name: host.pid for name, host in hosts.items()}
    # From inside the wan's network, but with this machine's process numbers.
    subprocess.run(
        ["nsenter", "-t", str(wan.pid), "-n", "ip", "-batch", "-"],
        input="\n".join(network.links(topology, pids)), text=True, check=True,
    )  # fmt: skip
    wan.script([*network.wan_lines(topology), *network.delay_lines(settings)])
    at_once(lambda host: hosts[host.name].wire(topology), topology.sited_hosts)
    if _delay_method(wan) == "delay-line":
        start_delay_line(wan, "delayline", network.RTT_FILE, network.QUEUES.values())


def status(hosts: Hosts, topology: Topology) -> list[Reply]:
    """What each host and daemon replies, host by host in the topology's order."""
    questions = [Question(hosts[WAN], "delay", partial(_delay, hosts[WAN], topology))]
    questions += [Question(host, "host", partial(_running, host)) for host in hosts.values()]
    questions += [question for service in SERVICES for question in service.questions(hosts, topology)]
    with ThreadPoolExecutor(8) as pool:
        return sorted(pool.map(Question.put, questions), key=lambda reply: list(hosts).index(reply.host))


def _running(host: RunningHost) -> str:
    interfaces = ", ".join(f"{nic.address} {nic.rate_mbps} Mb/s" for nic in host.host.nics)
    if not interfaces:
        return f"running as process {host.pid}; switches and the WAN between them"
    cgroup = host.namespaces.cgroup
    cpu = "counted apart, can be limited" if cgroup.limited else "counted apart" if cgroup.account else means().lacking
    return f"running as process {host.pid}; {interfaces}; CPU: {cpu}"


def _delay_method(wan: RunningHost) -> str:
    return wan.read("/run/wan-delay").decode().strip()


def _delay(wan: RunningHost, topology: Topology) -> str:
    method = _delay_method(wan)
    if method == "none":
        return "no delay configured"
    if method == "delay-line" and not delay_line_listens(wan, network.QUEUES.values()):
        raise HostError("the delay line is dead: nothing crosses the WAN")
    return f"{topology.settings.rtt_ms:g} ms RTT by {'netem' if method == 'netem' else 'our NFQUEUE delay line'}"
