"""What a service of the testbed is: what its hosts are given for it, how it starts, and what proves that it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tierbench.errors import HostError
from tierbench.testbed.host import START_SECONDS, RunningHost
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import Host, Topology

Hosts = dict[str, RunningHost]
T = TypeVar("T")
DELAY_LINE = "/usr/local/lib/tierbench/delayline.py"


@dataclass(frozen=True)
class Reply:
    """One thing on one host, whether it is well, and what was seen."""

    host: str
    thing: str
    well: bool
    seen: str


@dataclass(frozen=True)
class Question:
    """Something to find out about a host: `ask` says yes or no, or itself what it saw."""

    host: RunningHost
    thing: str
    ask: Callable[[], bool | str]
    yes: str = "answers"
    log: str = ""  # of the daemon that answers: with one, its service has started when the answer is yes

    def wait(self) -> None:
        complaint = f"{self.thing} on {self.host.name} did not answer"
        self.host.wait_until(lambda: bool(self.ask()), complaint, self.log, START_SECONDS)

    def put(self) -> Reply:
        try:
            seen = self.ask()
        except HostError as error:
            seen, well = str(error).splitlines()[0], False
        else:
            well = bool(seen)
            seen = seen if isinstance(seen, str) else self.yes if seen else "does not answer"
        return Reply(self.host.name, self.thing, well, seen)


@dataclass(frozen=True)
class Service:
    """Declared in a file of services/."""

    name: str  # for the progress of `up`; empty: not shown
    packages: tuple[str, ...] = ()  # Debian's, for all hosts: they share a root file system
    more_packages: Callable[[Settings], tuple[str, ...]] = lambda _: ()  # that only some suites have
    machines: Callable[[Settings], Iterable[Host]] = lambda _: ()  # that are there for it alone
    after: tuple[Service, ...] = ()  # those whose answers it needs when it starts
    stage: Callable[[Hosts, Topology], None] = lambda *_: None  # before the hosts boot: their files
    start: Callable[[Hosts, Topology], None] = lambda *_: None  # its questions with a log are then waited for
    complete: Callable[[Hosts, Topology], None] = lambda *_: None  # when all services have started
    questions: Callable[[Hosts, Topology], Iterable[Question]] = lambda *_: ()  # for `testbed status`


def in_pool(hosts: Hosts) -> list[RunningHost]:
    """The hosts of HTCondor's pool."""
    return [host for host in hosts.values() if host.host.in_pool]


def wait_for(questions: Iterable[Question]) -> None:
    """Return when what was started answers."""
    for question in questions:
        if question.log:
            question.wait()


def start_delay_line(wan: RunningHost, name: str, rtt_file: str, queues: Iterable[int]) -> None:
    """Have the packets of these netfilter queues delayed by half the round-trip time in a file."""
    numbers = tuple(queues)
    # Real-time priority: under load an ordinary process would be late by milliseconds.
    wan.daemon(name, "chrt", "-f", "20", "python3", DELAY_LINE, rtt_file, *map(str, numbers))
    wan.wait_until(lambda: delay_line_listens(wan, numbers), f"the {name} of the WAN did not start", f"{name}.log")


def delay_line_listens(wan: RunningHost, queues: Iterable[int]) -> bool:
    """Whether somebody takes the packets out of all of these queues."""
    listing = wan.read("/proc/net/netfilter/nfnetlink_queue").decode()
    return {line.split()[0] for line in listing.splitlines()} >= set(map(str, queues))


def at_once(do: Callable[[T], None], things: Iterable[T]) -> None:
    """Do it to all things side by side; the first failure is raised when all have ended."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(do, things))


def waves(services: Iterable[Service]) -> Iterator[list[Service]]:
    """The services that can start side by side, then those that come after them, and so on."""
    left, started = list(services), set[int]()
    while left:
        ready = [service for service in left if all(id(before) in started for before in service.after)]
        if not ready:
            raise HostError(f"{left[0].name}: comes after a service that is not listed, or after itself")
        yield ready
        started |= set(map(id, ready))
        left = [service for service in left if id(service) not in started]
