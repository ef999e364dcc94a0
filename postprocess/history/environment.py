"""What a night ran in: its hosts’ versions, settings and mounts, site and workers; and what changed in it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from tierbench import files, names
from tierbench.postprocess.history.rows import Environment, Link
from tierbench.postprocess.report.differences import NOISE, alike
from tierbench.postprocess.report.provenance import conditions
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.wording import NOTHING, listed

SITE, WORKERS, BOOT = "site file", "workers of pool ", "boot"
EXPERIMENT = "experiment: "  # and one of its keys
UNMEASURED = {"name", "question", "seed", "report", "scaling", "claims"}  # keys that no rate goes by
PACKAGE = "package "  # what hosts say of their software: package xrootd-server


def environment(results: Results) -> Environment:
    """What a run has recorded of what it ran in."""
    found = {("", SITE): digest_of_site(results)}
    for key in results.experiment.keys() - UNMEASURED:
        found["", f"{EXPERIMENT}{key}"] = _digest(json.dumps(results.experiment[key], sort_keys=True).encode())
    for pool, workers in (results.plan.get("pools") or {}).items():
        found["", f"{WORKERS}{pool}"] = ", ".join(workers)
    recorded = conditions(results)
    recorded = recorded if isinstance(recorded, dict) else {}
    for host, settings in (recorded.get("hosts") or {}).items():
        found |= {(host, name): str(value) for name, value in settings.items()}
    for host, boots in (recorded.get("boot_ids") or {}).items():
        found[host, BOOT] = ", ".join(boots) if isinstance(boots, list) else str(boots)
    return found


def digest_of_site(results: Results) -> str:
    """Eight letters that are the same for the same site file."""
    path = results.directory / names.SITE
    return _digest(files.read_bytes(path)) if path.is_file() else ""


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:8]


@dataclass(frozen=True)
class Altered:
    """A setting that was not as before, on one or several hosts."""

    setting: str
    before: str
    after: str
    hosts: tuple[str, ...]

    @property
    def words(self) -> str:
        where = f" on {listed([host.split('.')[0] for host in self.hosts])}" if any(self.hosts) else ""
        if self.setting == BOOT:
            return f"{listed([host.split('.')[0] for host in self.hosts])} had been booted"
        if self.setting == SITE:
            return "the site file was another one"
        if self.setting.startswith(EXPERIMENT):
            return f"the experiment had been edited ({self.setting.removeprefix(EXPERIMENT)})"
        name = self.setting.removeprefix(PACKAGE).removeprefix("client.").replace("_version", "")
        if self.before == NOTHING:
            return f"{name} had become {self.after}{where}"
        return f"{name} went from {self.before} to {self.after}{where}"


def altered(before: Environment, after: Environment) -> list[Altered]:
    """What of the second is not as in the first, hosts that changed alike together; hosts of one alone do not count.

    Nor do an experiment's keys of one alone: a newer tierbench has more of them.
    """
    hosts = {host for host, _ in before} & {host for host, _ in after}
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for host, setting in dict.fromkeys([*before, *after]):
        if host in hosts:
            change = before.get((host, setting), NOTHING), after.get((host, setting), NOTHING)
            if change[0] != change[1] and not (setting.startswith(EXPERIMENT) and NOTHING in change):
                found[setting, *change].append(host)
    changes = [Altered(setting, one, other, tuple(sorted(on))) for (setting, one, other), on in found.items()]
    return sorted(changes, key=_weight)


def _weight(change: Altered) -> tuple[int, str]:
    """The experiment first, then software, then what is set, then what was only booted."""
    if change.setting.startswith(EXPERIMENT):
        return -1, change.setting
    if change.setting.startswith((PACKAGE, "client.")):
        return 0, change.setting
    return (3 if change.setting == BOOT else 1 if change.setting in ("kernel", SITE) else 2), change.setting


def altered_links(before: Sequence[Link], after: Sequence[Link]) -> Iterator[str]:
    """In words, what iperf3 found otherwise by more than two measurements of one link differ."""
    earlier = {link.line: link for link in before}
    for link in after:
        was = earlier.get(link.line)
        if was and not alike(was.rtt_ms, link.rtt_ms, *NOISE["rtt_ms"]):
            yield f"the round trip to {link.line} went from {_ms(was.rtt_ms)} to {_ms(link.rtt_ms)}"
        if was and not alike(was.mbps, link.mbps, *NOISE["mbps"]):
            yield f"the link to {link.line} went from {_mbps(was.mbps)} to {_mbps(link.mbps)}"


def _ms(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f} ms"


def _mbps(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0f} Mb/s"
