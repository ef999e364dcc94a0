"""What a service of the testbed is: what its hosts are given for it, how it starts, and what proves that it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tierbench.errors import HostError
from tierbench.testbed.host import ANSWER_SECONDS, START_SECONDS, RunningHost
from tierbench.testbed.network import QUEUES
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import WAN, Host, Topology

DELAY_LINE = "/usr/local/lib/tierbench/delayline.py"
T = TypeVar("T")


@dataclass(frozen=True)
class Bed:
    """The hosts of a testbed by their names, running or not, and the plan that they follow."""

    topology: Topology
    hosts: Mapping[str, RunningHost]

    def __getitem__(self, name: str) -> RunningHost:
        return self.hosts[name]

    @property
    def settings(self) -> Settings:
        return self.topology.settings

    def where(self, is_meant: Callable[[Host], object]) -> list[RunningHost]:
        return [host for host in self.hosts.values() if is_meant(host.host)]

    @property
    def pool(self) -> list[RunningHost]:
        """The hosts of HTCondor's pool."""
        return self.where(lambda host: host.in_pool)


@dataclass(frozen=True)
class Reply:
    """One thing on one host, whether it is well, and what was seen."""

    host: str
    thing: str
    well: bool
    detail: str


@dataclass(frozen=True)
class Question:
    """Something to find out about a host: `ask` says yes or no, or itself what it saw; or a command that succeeds."""

    host: RunningHost
    thing: str
    ask: Callable[[], bool | str] | tuple[str, ...]
    yes: str = "answers"
    log: str = ""  # of the daemon that answers: with one, its service has started when the answer is yes
    asker: RunningHost | None = None  # where a command runs, if not on the host

    def answer(self) -> bool | str:
        if isinstance(self.ask, tuple):
            return (self.asker or self.host).succeeds(*self.ask)
        return self.ask()

    def wait(self) -> None:
        complaint = f"{self.thing} on {self.host.name} did not answer"
        self.host.wait_until(lambda: bool(self.answer()), complaint, self.log, START_SECONDS)

    def put(self) -> Reply:
        try:
            answer = self.answer()
        except HostError as error:
            return Reply(self.host.name, self.thing, False, str(error).splitlines()[0])
        if isinstance(answer, str):
            return Reply(self.host.name, self.thing, bool(answer), answer)
        return Reply(self.host.name, self.thing, answer, self.yes if answer else "does not answer")


@dataclass(frozen=True, eq=False)
class Service:
    """Declared in a file of services/."""

    name: str  # for the progress of `up`; empty: not shown
    packages: tuple[str, ...] = ()  # Debian's, for all hosts of all testbeds: they share a root file system
    more_packages: tuple[str, ...] = ()  # of testbeds that have it
    wanted: Callable[[Settings], object] = lambda _: True  # whether a testbed has it
    machines: Callable[[Settings], Iterable[Host]] = lambda _: ()  # that are there for it alone
    after: tuple[Service, ...] = ()  # those whose answers it needs when it starts
    stage: Callable[[Bed], None] = lambda _: None  # before the hosts boot: their files
    start: Callable[[Bed], None] = lambda _: None  # its questions with a log are then waited for
    complete: Callable[[Bed], None] = lambda _: None  # when all services have started
    questions: Callable[[Bed], Iterable[Question]] = lambda _: ()  # for `testbed status`

    def bring_up(self, bed: Bed) -> None:
        """Start it; return when what was started answers."""
        self.start(bed)
        for question in self.questions(bed):
            if question.log:
                question.wait()


def listens(host: RunningHost, ports: Sequence[int]) -> bool:
    """Whether somebody listens on each of these ports, which follow one another."""
    port_range = f"sport >= :{ports[0]} and sport <= :{ports[-1]}"
    return len(host.run("ss", "-Hltn", port_range, timeout=ANSWER_SECONDS).stdout.splitlines()) >= len(ports)


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


def delay(bed: Bed) -> str:
    """By how much, and by whom, what goes between the sites is delayed."""
    if not bed.settings.rtt_ms:
        return "no delay configured"
    if not delay_line_listens(bed[WAN], QUEUES.values()):
        raise HostError("the delay line is dead: nothing crosses the WAN")
    return f"{bed.settings.rtt_ms:g} ms RTT by our NFQUEUE delay line"


def at_once(do: Callable[[T], None], things: Iterable[T]) -> None:
    """Do it to all things side by side; the first failure is raised when all have ended."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(do, things))


def waves(services: Iterable[Service]) -> Iterator[list[Service]]:
    """The services that can start side by side, then those that come after them, and so on."""
    waiting = list(services)
    while waiting:
        ready = [service for service in waiting if not set(service.after) & set(waiting)]
        if not ready:
            raise HostError(f"{waiting[0].name}: comes after itself")
        yield ready
        waiting = [service for service in waiting if service not in ready]
