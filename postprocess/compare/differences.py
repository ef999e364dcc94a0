"""What keeps two runs from being compared like for like; what a run ran in, and what changed in that."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tierbench import files, json_files, names
from tierbench.json_files import Damaged
from tierbench.postprocess.records.ceilings import measured_links
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
    "path", "environment", "kerberos", "token", "x509",
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
OF_ITSELF = re.compile(r",(?:(?:mount|client)?addr|mountport|fatal_neterrors)=[^,]*")  # of a mount, nobody's choice
PACKAGE, MOUNT = "package ", "mount "  # what hosts say of their software: package xrootd-server; and of their mounts


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
    for path in [results.directory / names.CONDITIONS, *sorted(trials)]:
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


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in two runs; `parts` says that their rates cannot be compared because of it."""

    what: str
    values: tuple[str, str]
    parts: bool

    @property
    def words(self) -> str:
        return f"{self.what}: {self.values[0]} against {self.values[1]}"


@dataclass(frozen=True)
class Fact:
    """Something that a run was made with; it is compared where both runs have its subject, "" being the run."""

    subject: str
    what: str
    value: Any
    parts: bool = True
    absent: Any = None  # its value in the other run, if that has the subject and not this
    noise: tuple[float, float] | None = None  # by how much two measurements of one thing differ


def differences(first: Results, second: Results) -> list[Difference]:
    """All that differs in how two runs were made, what parts them first."""
    points = {batch_name(row.levels) for row in first.trials} & {batch_name(row.levels) for row in second.trials}
    facts = ((*_definitions(run, points), *_files_and_levels(run), *_measurements(run)) for run in (first, second))
    mine, theirs = ({(fact.subject, fact.what): fact for fact in of_run} for of_run in facts)
    common = {subject for subject, _ in mine} & {subject for subject, _ in theirs}
    differing = []
    for key, fact in {**mine, **theirs}.items():
        before, after = (of_run[key].value if key in of_run else fact.absent for of_run in (mine, theirs))
        same = alike(before, after, *fact.noise) if fact.noise else before == after or _word(before) == _word(after)
        if fact.subject in common and not same:
            differing.append(Difference(fact.what, (_word(before), _word(after)), fact.parts))
    return sorted(differing, key=lambda difference: not difference.parts)


def _definitions(run: Results, points: Collection[str]) -> Iterator[Fact]:
    """What site and experiment say; and what the trials of some points were to do, beyond what names them."""
    plan, site, experiment = run.plan, run.site, run.experiment
    yield Fact("", "site", plan.get("site"))
    yield Fact("", "tierbench", plan.get("tierbench"), parts=False)
    yield Fact("", "scale", plan.get("scale"))
    yield Fact("", "sampling period [s]", experiment.get("sample_period_s"))
    yield Fact("", "caches flushed", experiment.get("flush"))
    for column, what in OF_TRIALS.items():
        values = (row[column] for row in run.trials if batch_name(row.levels) in points)
        yield Fact("", what, listed(list(dict.fromkeys(_word(value) for value in values if value not in (None, "")))))
    yield Fact("", "flush strategy", (site.get("flush") or {}).get("strategy"))
    for access in run.accesses:
        stated = (site.get("access") or {}).get(access) or {}
        yield from (Fact(f"access {access}", f"{key} of {access}", stated.get(key) or None) for key in OF_ACCESS)
    for pool, workers in (plan.get("pools") or {}).items():
        yield Fact(f"pool {pool}", f"workers of pool {pool}", listed(list(workers)))
    yield Fact("", "conditions", experiment.get("conditions") or {})
    yield from (Fact("", f"stated {link}", value) for link, value in (site.get("links") or {}).items())
    for workload, asked in (experiment.get("workloads") or {}).items():
        for key in ("client", "replicas", "options", "environment"):
            yield Fact(f"workload {workload}", f"workload {workload}, {key}", asked.get(key))


def _files_and_levels(run: Results) -> Iterator[Fact]:
    """The sets of replicas, of which an axis may make several of one name, and what the axes' levels set."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for replicas in run.plan.get("replicas") or []:
        sets.setdefault(f"replicas {replicas['name']}", []).append(replicas)
    for name, of_name in sets.items():  # the folder's name holds a digest of how a set was made
        for key, what in {"directory": "folder", "nominal_bytes": "size [B]", "suffix": "suffix"}.items():
            yield Fact(name, f"{name}, {what}", listed([_word(each.get(key)) for each in of_name]))
        yield Fact(name, f"{name}, number", listed([_word(each["count"]) for each in of_name]), parts=False)
    for axis in run.experiment.get("axes") or []:
        for level, settings in zip(axis["levels"], axis["settings"], strict=True):
            yield Fact(f"{axis['name']}={level}", f"what {axis['name']}={level} sets", settings)


def _measurements(run: Results) -> Iterator[Fact]:
    """What was measured of links, clients and hosts."""
    for line, link in measured_links(run.ceilings).items():
        yield Fact("", f"links measured {line}", True, parts=False, absent=False)
        for key, what in {"rtt_ms": "round-trip time [ms]", "mbps": "ceiling [Mb/s]"}.items():
            yield Fact(f"link {line}", f"{what} {line}", link[key], noise=NOISE[key])
    recorded = environment(run)
    for key, (what, parts) in CLIENTS.items():  # on any worker
        if versions := sorted({value for (_, setting), value in recorded.items() if setting == key}):
            yield Fact(key, what, listed(versions), parts)
    for (host, setting), value in recorded.items():
        if host and setting.startswith((PACKAGE, MOUNT)):
            what = f"{setting} on {host}"
            yield Fact(what, what, OF_ITSELF.sub("", value), parts=setting.startswith(MOUNT))
    for host, settings in headers(run).items():
        yield Fact("", f"samples of {host}", True, parts=False, absent=False)
        for key, values in settings.items():
            yield Fact(f"host {host}", f"{key} on {host}", " then ".join(values), parts=key not in VERSIONS)


def alike(first: float | None, second: float | None, share: float, least: float) -> bool:
    """Whether two measurements differ by no more than measurements of one thing do."""
    if first is None or second is None:
        return first == second
    return abs(first - second) <= max(share * max(first, second), least)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_word(inner)}" for key, inner in value.items()) or "none"
    return NOTHING if value is None or value == "" else str(value)


def environment(results: Results) -> Environment:
    """What a run has recorded of what it ran in."""
    site = results.directory / names.SITE
    settings_by_host = {("", SITE): _digest(files.read_bytes(site)) if site.is_file() else ""}
    if by := results.plan.get("tierbench"):
        settings_by_host["", f"{PACKAGE}tierbench"] = str(by)
    for key in results.experiment.keys() - UNMEASURED:
        text = json.dumps(results.experiment[key], sort_keys=True)
        settings_by_host["", f"{EXPERIMENT}{key}"] = _digest(text.encode())
    for pool, workers in (results.plan.get("pools") or {}).items():
        settings_by_host["", f"{WORKERS}{pool}"] = ", ".join(workers)
    recorded = conditions(results)
    recorded = recorded if isinstance(recorded, dict) else {}
    for host, settings in (recorded.get("hosts") or {}).items():
        settings_by_host |= {(host, name): str(value) for name, value in settings.items()}
    for host, boots in (recorded.get("boot_ids") or {}).items():
        settings_by_host[host, BOOT] = ", ".join(boots) if isinstance(boots, list) else str(boots)
    return settings_by_host


def _digest(content: bytes) -> str:
    """Eight letters that are the same for the same content."""
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
        hosts = listed([host.split(".")[0] for host in self.hosts])
        where = f" on {hosts}" if hosts else ""
        if self.setting == BOOT:
            return f"{hosts} had been booted"
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
        was = earlier.get(link.line, link)
        for key, what, shown in (("rtt_ms", "round trip", "{:.1f} ms"), ("mbps", "link", "{:.0f} Mb/s")):
            values = getattr(was, key), getattr(link, key)
            if not alike(*values, *NOISE[key]):
                old, new = (NOTHING if value is None else shown.format(value) for value in values)
                yield f"the {what} to {link.line} went from {old} to {new}"
