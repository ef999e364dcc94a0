"""What each link on a trial's path can carry: as iperf3 has measured it, else as the site's file or the card states.

A measurement goes over several links and is limited by one of them. Which one, follows from what the others carried in
other measurements, and where that leaves a choice, from what the site's file states.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from tierbench import json_files, names
from tierbench.json_files import Damaged
from tierbench.postprocess.records.definition import read_or_report

if TYPE_CHECKING:
    from tierbench.postprocess.records.samples import Card  # which loads numpy; the doctor does without

# A line that carries less than this of what it should is limited by something else: TCP itself takes a few per cent.
AGREES = 0.85
# The links that the storage server's data crosses to each role; whether to the workers by the gateway, is not known.
LINKS = {
    "door": ("storage", "door"),
    "gateway": ("wan", "storage", "gateway"),
    "worker": ("worker", "wan", "storage", "gateway"),
    "near": ("worker", "storage"),  # workers whose way does not lead over the WAN
}
MEASURED, STATED, DRIVER = "measured by iperf3", "stated in [links]", "stated by the card"
ARRANGED = "arranged for the trial"


@dataclass(frozen=True)
class Ceiling:
    """The most that something can carry in Mb/s, and who says so."""

    mbps: float
    source: str


@dataclass(frozen=True)
class Ceilings:
    """What is known of the links between the storage server and a trial's pool."""

    links: Mapping[str, Ceiling] = field(default_factory=dict)  # by "wan" and the roles
    hosts: Mapping[str, Ceiling] = field(default_factory=dict)  # of workers as measured, of others that the site names
    rtt_ms: float | None = None
    rtt_source: str = ""
    rtt_from: str = ""  # the storage server that is so far away
    over_wan: bool = True  # whether the pool's way to that server leads over it
    rtts_ms: Mapping[str, float] | None = None  # of the hosts, where each has one of its own, as far as they are known
    stated: Mapping[str, Ceiling] = field(default_factory=dict)  # of the links, whatever was measured

    def to(self, servers: Collection[str]) -> Ceilings:
        """The same of a way to these storage servers alone: how far another one is, or what it sends, says nothing."""
        if not servers or not self.rtt_from or self.rtt_from in servers:
            return self
        rtts_ms: Mapping[str, float] | None = None if self.rtts_ms is None else {}
        stated = {link: ceiling for link, ceiling in self.stated.items() if link == "storage" and link in self.links}
        own = {link: known for link, known in self.links.items() if link != "storage" or known.source != MEASURED}
        links = {**stated, **own}
        return dataclasses.replace(self, links=links, rtt_ms=None, rtt_source="", over_wan=True, rtts_ms=rtts_ms)

    def on_the_way(self) -> Ceilings:
        """Without the WAN, where the way does not lead over it."""
        links = {link: ceiling for link, ceiling in self.links.items() if link != "wan" or self.over_wan}
        return dataclasses.replace(self, links=links)

    def under(self, arranged: Mapping[str, float | None], of_hosts: Mapping[str, float] | None = None) -> Ceilings:
        """What is known when some of it was changed for a trial; of what is no number then, nothing.

        Where the round-trip time is no number, each host may have one of its own.
        """
        unchanged = {link: ceiling for link, ceiling in self.links.items() if link not in arranged}
        links = {link: Ceiling(to, ARRANGED) for link, to in arranged.items() if link != "rtt_ms" and to is not None}
        changed = dataclasses.replace(self, links={**unchanged, **links})
        if "rtt_ms" not in arranged:
            return changed
        rtt_ms = arranged["rtt_ms"]
        rtts_ms = (of_hosts or {}) if rtt_ms is None else None
        return dataclasses.replace(changed, rtt_ms=rtt_ms, rtt_source=ARRANGED, rtts_ms=rtts_ms)

    def towards_storage(self) -> Ceilings:
        """The same of what goes there: iperf3 measures the way back, and a worker may send more than it takes in."""
        stated = {host: ceiling for host, ceiling in self.hosts.items() if ceiling.source != MEASURED}
        return dataclasses.replace(self, hosts=stated)

    def nic(self, host: str, role: str, card: Card | None = None) -> Ceiling | None:
        """The ceiling of an interface: as measured, else the lower of what is stated and what a real card can do."""
        speed = card.link_speed_mbps if card and card.link_speed_real else None
        own = Ceiling(float(speed), DRIVER) if speed else None
        link = self.links.get(role)
        changed = link is not None and link.source == ARRANGED  # after the hosts were measured
        of_host = self.hosts.get(host)
        if changed and of_host is not None and of_host.source == MEASURED:
            of_host = None
        limit = of_host or link
        # What another host's measurement has shown this one's card need not be able to do.
        other = limit is not None and limit is not of_host and limit.source != ARRANGED
        if own and (limit is None or ((other or limit.source == STATED) and own.mbps < limit.mbps)):
            return own
        return limit


class Carried(TypedDict):
    """What a worker took part in a measurement with."""

    mbps: float


class Measured(TypedDict):
    """A line of ceilings.json: what was carried to a role, of which pool, by which hosts."""

    role: str
    pool: str | None
    mbps: float
    rtt_ms: float | None
    hosts: dict[str, Carried]


# ceilings.json: the lines, and the storage server that they are measured from.
Lines = TypedDict("Lines", {"measured": NotRequired[list[Any]], "from": NotRequired[str]})


class Stated(TypedDict):
    """What of site.json is needed here."""

    links: NotRequired[dict[str, float | None] | None]
    samplers: NotRequired[dict[str, dict[str, Any]]]
    pools: NotRequired[dict[str, dict[str, Any]]]
    storage: NotRequired[dict[str, Any]]


def read_ceilings(run: Path, pool: str, tell: Callable[[str], None]) -> Ceilings:
    """The ceilings for a pool from a run directory; what is not there is unknown, what is damaged is reported."""
    site = read_or_report(Stated, run / names.SITE, tell) or Stated()
    content = read_or_report(Lines, run / names.CEILINGS, tell) or Lines()
    stated = dict(site.get("links") or {})
    of_site = site.get("pools", {}).get(pool, {})
    if own_link := of_site.get("link"):
        stated["worker"] = stated.get(own_link)
    over_wan = bool(of_site.get("over_wan", True))
    of_pool = ceilings(stated, content.get("measured", []), pool, over_wan)
    own = {
        str(sampler.get("host")): Ceiling(rate, STATED)
        for sampler in site.get("samplers", {}).values()
        if (rate := stated.get(sampler.get("link") or ""))
    }
    measured_from = content.get("from", str(site.get("storage", {}).get("sampled") or ""))
    return dataclasses.replace(of_pool, over_wan=over_wan, hosts={**own, **of_pool.hosts}, rtt_from=measured_from)


def ceilings(
    stated: Mapping[str, float | None], lines: list[dict[str, Any]], pool: str, over_wan: bool = True
) -> Ceilings:
    """The ceilings from a site's [links] and the lines of ceilings.json."""
    lines = [line for line in _understood(lines) if line["pool"] in (None, pool)]
    if not over_wan:
        lines = [{**line, "role": "near"} if line["role"] == "worker" else line for line in lines]
    of_site = {link: Ceiling(rate, STATED) for link, rate in stated.items() if rate and link != "rtt_ms"}
    links = dict(of_site)
    hosts: dict[str, Ceiling] = {}
    for line in lines:
        link = limiting_link(line, lines, stated)
        if link == "worker":
            rates = {host: carried["mbps"] for host, carried in line["hosts"].items()}
            hosts |= {host: Ceiling(rate, MEASURED) for host, rate in rates.items() if rate > 0}
        elif link and (link not in links or links[link].source == STATED or line["mbps"] > links[link].mbps):
            links[link] = Ceiling(line["mbps"], MEASURED)
    rtts_ms = [line["rtt_ms"] for line in lines if line["pool"] == pool and line["rtt_ms"] is not None]
    rtt_ms, source = (min(rtts_ms), "measured") if rtts_ms else (stated.get("rtt_ms"), "stated")
    return Ceilings(links, hosts, rtt_ms, source if rtt_ms is not None else "", stated=of_site)


def limiting_link(
    line: Mapping[str, Any], lines: Collection[Mapping[str, Any]], stated: Mapping[str, float | None]
) -> str | None:
    """Which of a measured line's links its rate is the ceiling of; None where that is unknown.

    It cannot where every link has carried more in another measurement, so that TCP itself was the limit, or where
    several have not and nothing is stated of them.
    """

    def capacity(link: str) -> float:
        return (stated.get(link) or float("inf")) * (len(line["hosts"]) if link == "worker" else 1)

    def suspects(slow: Mapping[str, Any]) -> list[str]:
        """Those that have not carried clearly more in another measurement."""
        faster = [other for other in lines if slow["mbps"] < AGREES * other["mbps"]]
        cleared = {link for other in faster for link in LINKS[other["role"]]} - {"worker"}
        return [link for link in LINKS[slow["role"]] if link not in cleared]

    candidates = suspects(line)
    expected = min(map(capacity, LINKS[line["role"]]))
    if line["mbps"] < AGREES * expected:  # one carries less than stated: the same one that holds up other lines
        for other in lines:
            if other is not line and AGREES < other["mbps"] / line["mbps"] < 1 / AGREES:
                common = [link for link in candidates if link in suspects(other)]
                candidates = common or candidates
    narrowest = min(candidates, key=capacity, default=None)
    unstated = [link for link in candidates if capacity(link) == float("inf")]
    # What together carries less than is stated of it may be held up by one of the unstated links.
    may_share = (narrowest != "worker" or len(line["hosts"]) > 1) and line["mbps"] < AGREES * expected
    if narrowest and len(candidates) > 1 and (narrowest in unstated or (unstated and may_share)):
        return None
    return narrowest


def measured_links(content: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Rate and round-trip time of each line of ceilings.json, by where the line went."""
    return {
        f"to {line.get('to', line['role'])}": {"mbps": line["mbps"], "rtt_ms": line["rtt_ms"]}
        for line in measured_lines(content)
    }


def measured_lines(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of ceilings.json, without those that are damaged."""
    lines = content.get("measured")
    return list(_understood(lines if isinstance(lines, list) else []))


def _understood(lines: list[Any]) -> Iterator[dict[str, Any]]:
    """The lines, by the roles of this version; a later one may measure what this one does not know."""
    for line in lines:
        with contextlib.suppress(Damaged):
            understood = json_files.typed(Measured, line, "a line")
            if understood["role"] in LINKS and understood["mbps"] > 0:
                yield line
