"""Reads all that a trial left in its folder; what is missing or broken is told in words, not raised."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tierbench.dags import names
from tierbench.dags.repeats import SKIPPED
from tierbench.errors import TierbenchError
from tierbench.postprocess.ceilings import Ceilings, read_ceilings
from tierbench.postprocess.counters import Intervals, intervals
from tierbench.postprocess.jobs import Job, read_jobs
from tierbench.postprocess.samples import Samples, UnreadableSamples, read_samples

NEEDED = frozenset({
    "id", "name", "index", "configuration", "access", "workload", "client", "jobs", "repeat", "pool", "protocol",
    "workers", "flush", "samplers", "sample_period_s", "gate", "bytes",
})  # fmt: skip
QUARTER_HOUR_S = 900
LOG_EVENT = re.compile(r"^(000|001) \((\d+)\.\d+\.\d+\) (\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?)", re.MULTILINE)
SUBMITTED, EXECUTING = "000", "001"


@dataclass(frozen=True)
class Sampled:
    """A host's samples and the differences between them."""

    samples: Samples
    intervals: Intervals


@dataclass(frozen=True)
class TrialData:
    """A trial's definition and what it left behind."""

    trial: dict[str, Any]
    jobs: list[Job]
    sampled: list[Sampled]
    go_wall_ns: int | None
    submit_wall_ns: int | None
    resident_bytes: int | None
    outcome: list[str]  # what the trial itself said went wrong
    troubles: list[str]  # what is missing or broken in its folder
    lacking: list[str] = field(default_factory=list)  # the same, of samples that enter no mean
    other_pools: dict[str, str] = field(default_factory=dict)  # of workers that are not in its own: theirs
    clock: dict[str, Any] | None = None  # the access point's wall clock against its uptime
    ceilings: Ceilings = field(default_factory=Ceilings)  # what the links on its way can carry

    @property
    def all_active_ns(self) -> tuple[int, int] | None:
        """From the last client's begin to the first one's end; not known unless all of them told both."""
        begins = [job.go["wall_ns"] for job in self.jobs if job.go]
        ends = [job.end["wall_ns"] for job in self.jobs if job.end]
        if not self.jobs or not len(begins) == len(ends) == len(self.jobs):
            return None
        return max(begins), min(ends)

    @property
    def storage(self) -> list[Sampled]:
        return [sampled for sampled in self.sampled if sampled.samples.role == "storage"]

    @property
    def begin_ns(self) -> int | None:
        """The window begins at the go time, or where there is none with the first client's begin."""
        begins: list[int] = [job.go["wall_ns"] for job in self.jobs if job.go]
        return self.go_wall_ns or min(begins, default=None)

    @property
    def end_ns(self) -> int | None:
        """The window ends with the last client that told its end; one that ends before it began is no window."""
        ends: list[int] = [job.end["wall_ns"] for job in self.jobs if job.end]
        last, begin = max(ends, default=None), self.begin_ns
        return None if last is None or (begin is not None and last <= begin) else last

    @property
    def window_ns(self) -> tuple[int, int] | None:
        begin, end = self.begin_ns, self.end_ns
        return None if begin is None or end is None else (begin, end)


def read_trial(folder: Path) -> TrialData:
    """All that is in a trial's folder."""
    trial = _definition(folder / names.TRIAL)
    troubles: list[str] = []
    jobs = read_jobs(folder, trial["jobs"])
    lacking: list[str] = []
    sampled = _read_all_samples(folder / names.SAMPLES, trial, troubles, lacking)
    go = _json(folder / names.GO, troubles) or {}
    outcome = _json(folder / names.OUTCOME, troubles) or {}
    told: list[int] = [job.go["go_wall_ns"] for job in jobs if job.go.get("go_wall_ns")]
    return TrialData(
        trial,
        jobs,
        sampled,
        go_wall_ns=go.get("go_wall_ns") or min(told, default=None),
        submit_wall_ns=_submission(folder / names.CLIENTS_LOG, jobs),
        resident_bytes=_resident_bytes(folder, trial, troubles),
        outcome=_outcome_reasons(outcome),
        troubles=troubles,
        lacking=lacking,
        other_pools=_other_pools(folder, trial, jobs),
        clock=_json(folder / names.CLOCK, troubles),
        ceilings=read_ceilings(folder.absolute().parents[1], trial["pool"]),
    )


def was_skipped(folder: Path) -> bool:
    """Whether a trial was not needed, since the repetitions before it were enough."""
    return (_json(folder / names.OUTCOME, []) or {}).get("state") == SKIPPED


def _outcome_reasons(outcome: dict[str, Any]) -> list[str]:
    """What the trial's last step said; but the clients one by one are left to the tables, which count them."""
    state, reasons = outcome.get("state", "complete"), outcome.get("reasons", [])
    if state != "complete" and not reasons:
        return [f"its last step called it {state}"]
    return [reason for reason in reasons if not reason.startswith("client ")]


def _definition(path: Path) -> dict[str, Any]:
    try:
        trial: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TierbenchError(f"{path}: no such file; is {path.parent} a trial's folder of a run directory?") from None
    except (OSError, ValueError) as error:
        raise TierbenchError(f"{path}: cannot be read: {error}") from None
    missing = sorted(NEEDED - trial.keys()) if isinstance(trial, dict) else ["an object"]
    if missing:
        raise TierbenchError(
            f"{path}: lacks {', '.join(missing)}; `tierbench write` makes it anew in another directory"
        )
    return trial


def _json(path: Path, troubles: list[str]) -> dict[str, Any] | None:
    """A JSON object that may not be there."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        troubles.append(f"{path.name} is not what it should be")
        return None
    return content


def _other_pools(folder: Path, trial: dict[str, Any], jobs: list[Job]) -> dict[str, str]:
    """The pools, by the run's other trials, of workers where clients ran that are not in the trial's own."""
    strangers = {str(job.start.get("host")) for job in jobs if job.start} - set(trial["workers"])
    found: dict[str, str] = {}
    if not strangers or not trial["workers"]:
        return found
    for path in sorted(folder.absolute().parent.glob(f"*/{names.TRIAL}")):
        other = _json(path, []) or {}
        if other.get("pool") not in (None, trial["pool"]):
            found |= dict.fromkeys(strangers & set(other.get("workers") or ()), str(other["pool"]))
    return found


def _read_all_samples(folder: Path, trial: dict[str, Any], troubles: list[str], lacking: list[str]) -> list[Sampled]:
    """All hosts' samples; what is wrong with a storage server's is a trouble, with another's it is lacking."""
    sampled = []
    roles = {sampler["host"]: sampler["role"] for sampler in trial["samplers"]}

    def tell(host: str, words: str) -> None:
        (troubles if roles.get(host, "storage") == "storage" else lacking).append(words)

    paths = {path.name.removesuffix(".samples"): path for path in sorted(folder.glob("*.samples"))}
    for host in roles:
        if host not in paths:
            tell(host, f"no samples from {host} ({roles[host]})")
    for host, path in paths.items():
        try:
            samples = read_samples(path)
        except UnreadableSamples as error:
            tell(host, str(error))
            continue
        sampled.append(Sampled(samples, intervals(samples)))
        if samples.damage and not samples.cut:  # whether what is left covers the window is looked at for itself
            tell(host, f"samples of {samples.host}: {samples.damage}")
    return sampled


def _resident_bytes(folder: Path, trial: dict[str, Any], troubles: list[str]) -> int | None:
    """What the flush left in all the workers' page caches; not known unless each of them told."""
    reports = [_json(folder / names.flush_report(host), troubles) or {} for host in trial["flush"]["hosts"]]
    told = [report["resident_after_bytes"] for report in reports if "resident_after_bytes" in report]
    return sum(told) if told and len(told) == len(reports) else None


def _submission(log: Path, jobs: list[Job]) -> int | None:
    """When the clients were submitted, by HTCondor's job event log.

    The log has the access point's local time without a zone. The zone is found by what both the log
    and the clients know, when the first of them began; zones differ by quarters of an hour.
    """
    try:
        events = LOG_EVENT.findall(log.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None
    last_cluster = max((int(cluster) for _, cluster, _, _ in events), default=0)
    first: dict[str, float] = {}
    for kind, cluster, day, time in events:
        if int(cluster) == last_cluster:
            first.setdefault(kind, datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC).timestamp())
    starts: list[int] = [job.start["wall_ns"] for job in jobs if job.start]
    if not starts or not first.keys() >= {SUBMITTED, EXECUTING}:
        return None
    zone_s = round((min(starts) / 1e9 - first[EXECUTING]) / QUARTER_HOUR_S) * QUARTER_HOUR_S
    return round((first[SUBMITTED] + zone_s) * 1e9)
