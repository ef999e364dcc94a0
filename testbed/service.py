"""What a service of the testbed is: what its hosts are given for it, how it starts, and what proves that it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tierbench.errors import HostError
from tierbench.testbed.host import RunningHost
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import Host, Topology

Hosts = dict[str, RunningHost]


@dataclass(frozen=True)
class Reply:
    """One thing on one host, whether it is well, and what was seen."""

    host: str
    thing: str
    well: bool
    seen: str


@dataclass(frozen=True)
class Question:
    """Something to find out about a host: `ask` says yes or no, or itself tells what it saw."""

    host: RunningHost
    thing: str
    ask: Callable[[], bool | str]
    yes: str = "answers"

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

    name: str  # as it is told of while it starts; nothing is told of one without
    packages: tuple[str, ...] = ()  # Debian's, for all hosts: they share a root file system
    more_packages: Callable[[Settings], tuple[str, ...]] = lambda _: ()  # that only some suites have
    machines: Callable[[Settings], tuple[Host, ...]] = lambda _: ()  # that are there for it alone
    after: tuple[Service, ...] = ()  # those whose answers it needs when it starts
    stage: Callable[[Hosts, Topology], None] = lambda *_: None  # before the hosts boot: their files
    start: Callable[[Hosts, Topology], None] = lambda *_: None  # and return when it answers
    complete: Callable[[Hosts, Topology], None] = lambda *_: None  # when all services have started
    questions: Callable[[Hosts, Topology], Iterable[Question]] = lambda *_: ()  # for `testbed status`


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
