"""What can be read on the wire: all that goes by a host is captured while something is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tierbench.testbed.host import RunningHost

CAPTURE = "/run/capture"


def marks_on_the_wire(server: RunningHost, of: str, mark: str, whole: int, read: Callable[[], None]) -> int:
    """How often a mark was in what went by, which was at least so many bytes; `of` is tcpdump's filter."""
    into = ("-B", "65536", "-U", "--immediate-mode", "-s", "0", "-w", CAPTURE)
    server.daemon("tcpdump", "tcpdump", "-i", "eth0", *into, *of.split())
    server.wait_until(lambda: b"listening" in server.read("/var/log/tcpdump.log"), "no capture", "tcpdump.log")
    read()
    taken = partial(server.run, "stat", "-c", "%s", CAPTURE)
    server.wait_until(lambda: int(taken().stdout) > whole, "the capture lacks what was read", "tcpdump.log")
    server.script(["kill -INT $(cat /run/tcpdump.pid)", "while kill -0 $(cat /run/tcpdump.pid); do sleep 0.05; done"])
    marks = server.run("sh", "-c", f"grep -aoF '{mark}' {CAPTURE} | wc -l").stdout
    server.run("rm", CAPTURE, "/var/log/tcpdump.log")
    return int(marks)
