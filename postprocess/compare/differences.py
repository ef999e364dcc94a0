"""What keeps two runs from being compared like for like; what a run ran in, and what changed in that."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierbench import files, json_files, names
from tierbench.json_files import Damaged
from tierbench.postprocess.records.ceilings import measured_links
from tierbench.postprocess.records.definition import by_role
from tierbench.postprocess.tables.factors import batch_name
from tierbench.postprocess.wording import NOTHING, listed

if TYPE_CHECKING:  # results need numpy, and who only asks where the history is does not
    from tierbench.postprocess.tables.load_run import Results

Environment = Mapping[tuple[str, str], str]  # by host ("" of the run as a whole) and setting
HEADER_BYTES = 65_536  # none is longer
FIXED = ("role", "interface", "kernel", "python", "ncpu", "link_speed_mbps")
Headers = dict[str, dict[str, list[str]]]  # host → what its header says → each value found, mostly one
VERSIONS = ("kernel", "python")
CLIENTS = {  # what clients have recorded, how it is called, and whether it keeps from comparing
    "client.program": ("ROOT programs", True),
    "client.root_version": ("ROOT’s version", True),
    "client.xrootd_version": ("XRootD’s version", True),
    "client.condor": ("HTCondor’s version", False),
    "client.kernel": ("kernel of the clients", False),
    "client.python": ("Python of the clients", False),
}
OF_ACCESS = (
    "protocol", "pool", "prefix", "further", "proxy", "further_proxies", "replicas", "on_disk", "servers", "to",
)  # fmt: skip
OF_TRIALS = {  # columns of trials.csv, and how they are called
    "started": "started", "placed": "placed", "pool": "pool of workers", "job_files": "files of a job",
    "job_processes": "processes of a job", "job_for_s": "time of a job [s]", "job_order": "order of a job’s files",
    "job_fetch_every_s": "time from one fetch to the next [s]",
}  # fmt: skip
NOISE = {"rtt_ms": (0.1, 0.5), "mbps": (0.15, 0.0)}  # by how much a measurement differs from itself: a share, at least
SITE, WORKERS, BOOT = "site file", "workers of pool ", "boot"
EXPERIMENT = "experiment: "  # and one of its keys
UNMEASURED = {"name", "question", "seed", "report", "scaling", "claims", "expects"}  # keys that no rate goes by
PACKAGE = "package "  # what hosts say of their software: package xrootd-server


@dataclass(frozen=True)
class Link:
    """What iperf3 measured of a part of the way before the night's trials: the control that no storage is in."""

    line: str
    mbps: float | None
    rtt_ms: float | None


def headers(results: Results) -> Headers:
    """What the samplers said of their hosts, over all trials."""
    by_host: Headers = {}
    for path in sorted((results.directory / names.TRIALS).glob(f"*/{names.SAMPLES}/*.samples")):
        head = _header(path)
        facts = {key: head.get(key) for key in FIXED} | dict(head.get("tuning") or {})
        host = by_host.setdefault(str(head.get("host") or path.stem), {})
        for key, value in facts.items():
            word = NOTHING if value is None else str(value)
            values = host.setdefault(key, [])
            if word not in values:
                values.append(word)
    return by_host


def conditions(results: Results) -> Any:
    """What the run recorded of tuning and versions beyond the samplers' headers, if it did."""
    trials = (results.directory / names.TRIALS).glob(f"*/{names.CONDITIONS}")
    paths = [results.directory / names.CONDITIONS, *sorted(trials)]
    for path in paths:
        try:
            return json_files.read(path)
        except (FileNotFoundError, Damaged):
            continue
    return None


def _header(path: Path) -> dict[str, Any]:
    try:
        with files.opened(path) as file:
            return json_files.parse_as(dict[str, Any], file.readline(HEADER_BYTES), path.name)
    except (OSError, Damaged):
        return {}


def incomparable(among: Sequence[Difference]) -> list[Difference]:
    """Of what differs, that which parts two runs."""
    return [difference for difference in among if difference.parts]


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in two runs; `parts` says that their rates cannot be compared because of it."""

    what: str
    values: tuple[str, str]
    parts: bool

    @property
    def words(self) -> str:
        return f"{self.what}: {self.values[0]} against {self.values[1]}"


def differences(first: Results, second: Results) -> list[Difference]:
    """All that differs in how two runs were made, what parts them first."""
    differing = [
        *_settings(first, second),
        *_links(first, second),
        *_replicas(first, second),
        *_clients(first, second),
        *_versions(first, second),
        *_hosts(first, second),
    ]
    return sorted(differing, key=lambda difference: not difference.parts)


def _settings(first: Results, second: Results) -> Iterator[Difference]:
    yield from _differ("site", first.plan.get("site"), second.plan.get("site"))
    yield from _differ("scale", first.plan.get("scale"), second.plan.get("scale"))
    for key, what in {
        "sample_period_s": "sampling period [s]",
        "flush": "caches flushed",
    }.items():
        yield from _differ(what, first.experiment.get(key), second.experiment.get(key))
    yield from _told_to_trials(first, second)
    strategies = [(results.site.get("flush") or {}).get("strategy") for results in (first, second)]
    yield from _differ("way of flushing", *strategies)
    for access in (access for access in first.accesses if access in second.accesses):
        mine, theirs = ((results.site.get("access") or {}).get(access) or {} for results in (first, second))
        for key in OF_ACCESS:
            yield from _differ(f"{key} of {access}", mine.get(key) or None, theirs.get(key) or None)
    pools = set(first.plan.get("pools") or {}) & set(second.plan.get("pools") or {})
    for pool in sorted(pools):
        mine, theirs = (listed(list(results.plan["pools"][pool])) for results in (first, second))
        yield from _differ(f"workers of pool {pool}", mine, theirs)
    yield from _differ("conditions", *(results.experiment.get("conditions") or {} for results in (first, second)))
    mine, theirs = (by_role(results.site.get("links") or {}) for results in (first, second))
    for link in dict.fromkeys([*mine, *theirs]):
        yield from _differ(f"stated {link}", mine.get(link), theirs.get(link))


def _told_to_trials(first: Results, second: Results) -> Iterator[Difference]:
    """What the trials of points that both have were told to do, beyond what names them."""
    common = {batch_name(row.levels) for row in first.trials} & {batch_name(row.levels) for row in second.trials}
    for column, what in OF_TRIALS.items():
        both = []
        for results in (first, second):
            there = (row[column] for row in results.trials if batch_name(row.levels) in common)
            both.append(listed(list(dict.fromkeys(_word(value) for value in there if value not in (None, "")))))
        yield from _differ(what, *both)


def _links(first: Results, second: Results) -> Iterator[Difference]:
    """What was measured of the links, where it differs by more than two measurements of one link do."""
    mine, theirs = measured_links(first.ceilings), measured_links(second.ceilings)
    for line in dict.fromkeys([*mine, *theirs]):
        if line not in mine or line not in theirs:
            yield Difference(f"links measured {line}", ("yes", "no") if line in mine else ("no", "yes"), parts=False)
            continue
        for key, what in {"rtt_ms": "round-trip time [ms]", "mbps": "ceiling [Mb/s]"}.items():
            before, after = mine[line][key], theirs[line][key]
            if not alike(before, after, *NOISE[key]):
                yield Difference(f"{what} {line}", (_word(before), _word(after)), parts=True)


def alike(first: float | None, second: float | None, share: float, least: float) -> bool:
    """Whether two measurements differ by no more than measurements of one thing do."""
    if first is None or second is None:
        return first == second
    return abs(first - second) <= max(share * max(first, second), least)


def _replicas(first: Results, second: Results) -> Iterator[Difference]:
    """The folder's name holds a digest of how a set was made."""
    mine, theirs = ({r["name"]: r for r in results.plan.get("replicas") or []} for results in (first, second))
    for name in sorted(mine.keys() & theirs.keys()):
        for key, what in {"directory": "folder", "nominal_bytes": "size [B]", "suffix": "suffix"}.items():
            yield from _differ(f"replicas {name}, {what}", mine[name].get(key), theirs[name].get(key))
        yield from _differ(f"replicas {name}, number", mine[name]["count"], theirs[name]["count"], parts=False)


def _clients(first: Results, second: Results) -> Iterator[Difference]:
    mine, theirs = (results.experiment.get("workloads") or {} for results in (first, second))
    for name in sorted(mine.keys() & theirs.keys()):
        for key in ("client", "replicas", "options", "environment"):
            yield from _differ(f"workload {name}, {key}", mine[name].get(key), theirs[name].get(key))


def _versions(first: Results, second: Results) -> Iterator[Difference]:
    """What the clients ran with, on any worker."""
    mine, theirs = (_of_clients(results) for results in (first, second))
    for key in sorted(mine.keys() & theirs.keys()):
        yield from _differ(CLIENTS[key][0], listed(mine[key]), listed(theirs[key]), parts=CLIENTS[key][1])


def _of_clients(results: Results) -> dict[str, list[str]]:
    recorded = conditions(results)
    hosts = recorded.get("hosts") if isinstance(recorded, dict) else None
    versions: dict[str, set[str]] = {}
    for settings in hosts.values() if isinstance(hosts, dict) else ():
        for key in CLIENTS.keys() & settings.keys():
            versions.setdefault(key, set()).add(str(settings[key]))
    return {key: sorted(values) for key, values in versions.items()}


def _hosts(first: Results, second: Results) -> Iterator[Difference]:
    mine, theirs = headers(first), headers(second)
    for host in sorted(mine.keys() & theirs.keys()):
        for key in dict.fromkeys([*mine[host], *theirs[host]]):
            values = (_all(mine, host, key), _all(theirs, host, key))
            yield from _differ(f"{key} on {host}", *values, parts=key not in VERSIONS)
    for host in sorted(mine.keys() ^ theirs.keys()):
        yield Difference(f"samples of {host}", ("yes", "no") if host in mine else ("no", "yes"), parts=False)


def _all(of_hosts: Headers, host: str, key: str) -> str:
    return " then ".join(of_hosts[host].get(key, [])) or NOTHING


def _differ(what: str, mine: Any, theirs: Any, *, parts: bool = True) -> Iterator[Difference]:
    if mine != theirs:
        yield Difference(what, (_word(mine), _word(theirs)), parts)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_word(inner)}" for key, inner in value.items()) or "none"
    return NOTHING if value is None or value == "" else str(value)


def environment(results: Results) -> Environment:
    """What a run has recorded of what it ran in."""
    settings_by_host = {("", SITE): digest_of_site(results)}
    for key in results.experiment.keys() - UNMEASURED:
        settings_by_host["", f"{EXPERIMENT}{key}"] = _digest(
            json.dumps(results.experiment[key], sort_keys=True).encode()
        )
    for pool, workers in (results.plan.get("pools") or {}).items():
        settings_by_host["", f"{WORKERS}{pool}"] = ", ".join(workers)
    recorded = conditions(results)
    recorded = recorded if isinstance(recorded, dict) else {}
    for host, settings in (recorded.get("hosts") or {}).items():
        settings_by_host |= {(host, name): str(value) for name, value in settings.items()}
    for host, boots in (recorded.get("boot_ids") or {}).items():
        settings_by_host[host, BOOT] = ", ".join(boots) if isinstance(boots, list) else str(boots)
    return settings_by_host


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
    hosts_by_change: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for host, setting in dict.fromkeys([*before, *after]):
        if host in hosts:
            change = before.get((host, setting), NOTHING), after.get((host, setting), NOTHING)
            if change[0] != change[1] and not (setting.startswith(EXPERIMENT) and NOTHING in change):
                hosts_by_change[setting, *change].append(host)
    changes = [Altered(setting, old, new, tuple(sorted(on))) for (setting, old, new), on in hosts_by_change.items()]
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
