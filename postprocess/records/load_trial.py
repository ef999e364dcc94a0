"""Reads all that a trial left in its folder; what is missing or broken is said in words, not raised."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tierbench import files, names
from tierbench.condition_state import COLD, WARM, ConditionState, condition_states
from tierbench.dags.measure import RECEIVED
from tierbench.dags.plan import read_plan
from tierbench.dags.records import read_outcome
from tierbench.errors import ConfigError
from tierbench.json_files import Damaged
from tierbench.postprocess.records.ceilings import Ceilings, read_ceilings
from tierbench.postprocess.records.definition import Definition, definition, read_definition, read_or_report
from tierbench.postprocess.records.increments import intervals
from tierbench.postprocess.records.jobs import Job, read_job
from tierbench.postprocess.records.samples import UnreadableSamples, read_samples
from tierbench.postprocess.records.trial import Cache, Sampled, TrialData
from tierbench.starts import Go
from tierbench.trials import SKIPPED, Clock, Outcome

T = TypeVar("T")

QUARTER_HOUR_S = 900
PROOF_S = 1800  # for so long a flush proves that caches are cold: others may read the same files meanwhile
LOG_EVENT = re.compile(
    r"^(000|001|013) \((\d+)\.\d+\.\d+\) (\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?)", re.MULTILINE
)
SUBMITTED, EXECUTING, RELEASED = "000", "001", "013"


REFUSED = ("refused", "no-helper")  # flushes that emptied nothing


@dataclass(frozen=True)
class OfPool:
    """The workers of a trial's pool, of its trial.json."""

    pool: str
    workers: list[str]


@dataclass(frozen=True)
class FlushReport:
    """What a host's flush has left in its page cache, if it could look, and what was mounted there then."""

    status: str = "ok"
    files: int = 0  # that it saw there
    bytes: int | None = None  # of these
    resident_after_bytes: int | None = None
    message: str = ""
    wall_ns: int | None = None
    mounts: dict[str, str] = field(default_factory=dict)  # devices, by where they are mounted


@dataclass(frozen=True)
class PlaceReport:
    """What the job that looked through the files that were written has found."""

    status: str
    checked: int = 0
    check: str = ""


def _flush_doubt(reports: Mapping[str, FlushReport], begin_ns: int | None) -> str:
    """Why what the flushes have measured does not hold for the clients, in words."""
    for host, report in reports.items():
        if report.status in REFUSED:
            return f"the flush on {host} emptied nothing: {report.message or report.status}"
    waited_s = max((begin_ns - each.wall_ns for each in reports.values() if begin_ns and each.wall_ns), default=0) / 1e9
    since = "and others may have read the files since"
    return f"the clients began {waited_s / 60:.0f} min after the flush, {since}" if waited_s > PROOF_S else ""


def _resident_bytes(trial: Definition, reports: Mapping[str, FlushReport], jobs: list[Job]) -> int | None:
    """What the flushes have left in the page caches; None unless all have looked, and at all of the files."""
    # What emptied nothing proves at most that a cache is warm.
    usable = [report for report in reports.values() if report.status not in REFUSED or report.resident_after_bytes]
    resident = [left for report in usable if (left := report.resident_after_bytes) is not None]
    # By fadvise a server forgets but the files that it sees itself, whatever the workers see of its storage.
    by_file = trial.flush.strategy == "fadvise"
    servers = [report for host, report in reports.items() if by_file and host not in trial.workers]
    # What a worker did not see then, its clients may have read from its memory.
    mounted = {job.host for job in jobs if by_file and trial.protocol == "file"}
    if any(not report.files for host, report in reports.items() if host in mounted):
        return None
    with_files = [report for report in servers or usable if report.files]
    # Of several servers each may have some of the files; one that sees none may look in the wrong place.
    enough = len(with_files) >= len(servers) or sum(report.bytes or 0 for report in with_files) >= (trial.bytes or 0)
    return sum(resident) if len(resident) == len(set(trial.flush.hosts)) and with_files and enough else None


def read_trial(folder: Path) -> TrialData:
    try:
        trial = read_definition(folder / names.TRIAL)
    except Damaged as error:
        return _unread(folder, error)
    troubles: list[str] = []
    optional: list[str] = []  # what is missing of samples that enter no mean

    def read(shape: type[T], path: Path) -> T | None:
        return read_or_report(shape, path, troubles.append)

    jobs = [read_job(folder / names.client_output(index), index) for index in range(trial.jobs)]
    troubles += [f"client {job.index}: {words}" for job in jobs for words in job.damage]
    begin_clock = read_or_report(Clock, folder / names.BEGUN, lambda _: None)
    submitted, submit_error_s = _submission(folder / names.CLIENTS_LOG, jobs, begin_clock, optional)
    go = _go(folder / names.GO, troubles)
    troubles += _other_go_times(go, jobs)
    outcome = read_outcome(folder)
    conditions = condition_states(folder, trial.conditions) if any(job.starts for job in jobs) else []
    troubles += [trouble for state in conditions if (trouble := state.trouble() or state.unproven())]
    arranged_on = defaultdict(list)
    for state in conditions:
        arranged_on[state.condition.host].append(f"{state.condition.condition}: {state.condition.value}")
    starts = [job.go_wall_ns for job in jobs if job.go_wall_ns]
    place = read(PlaceReport, folder / names.CLEARED)
    flushes = {host: read(FlushReport, folder / names.flush_report(host)) for host in trial.flush.hosts}
    reports = {host: report for host, report in flushes.items() if report}
    begin_ns = go.go_wall_ns if go else min(starts, default=None)
    return TrialData(
        trial,
        jobs,
        _read_all_samples(folder / names.SAMPLES, trial.roles, _undoing(conditions), troubles, optional),
        go_wall_ns=begin_ns,
        submit_wall_ns=submitted,
        submit_error_s=submit_error_s,
        resident_bytes=_resident_bytes(trial, reports, jobs),
        saw_nothing=frozenset(host for host, report in reports.items() if not report.files),
        flush_doubt=_flush_doubt(reports, min((j.begin_wall_ns for j in jobs if j.begin_wall_ns), default=begin_ns)),
        outcome=_outcome_reasons(outcome or Outcome()),
        at_work=outcome is None and (folder / names.DAGMAN_LOCK).exists(),
        troubles=troubles,
        missing_optional=optional,
        left=(outcome or Outcome()).left,
        verified=f"{place.check} of {place.checked} files" if place and place.status == "ok" and place.checked else "",
        other_pools=_other_pools(folder, trial, jobs),
        clock=read(Clock, folder / names.CLOCK),
        begin_clock=begin_clock,
        ceilings=_ceilings(folder, trial, conditions, optional),
        arranged=[f"{state.name}: {state.now} {state.condition.unit}".strip() for state in conditions],
        arranged_on=arranged_on,
        caches=_caches(conditions),
        mounts={host: report.mounts for host, report in reports.items()},
    )


def _ceilings(folder: Path, trial: Definition, conditions: list[ConditionState], optional: list[str]) -> Ceilings:
    """What the links on its way can carry, as they were arranged; to a worker's own disk there are none."""
    if trial.on_disk:
        return Ceilings()
    ceilings = read_ceilings(folder.absolute().parents[1], trial.pool, optional.append)
    if trial.measure.direction == RECEIVED:
        ceilings = ceilings.towards_storage()
        conditions = [state for state in conditions if not state.condition.reads_only]
    arranged = {state.condition.link: state.number for state in conditions if state.condition.link}
    distances = [state for state in conditions if state.condition.link == "rtt_ms"]
    if len({state.number for state in distances}) > 1:  # who is how far by which of them, nobody says
        arranged["rtt_ms"] = None
    of_hosts = distances[0].each if len(distances) == 1 else None
    ceilings = ceilings.under(arranged, of_hosts).to(trial.servers)
    return ceilings if trial.copied_to else ceilings.on_the_way()


def _unread(folder: Path, damage: Damaged) -> TrialData:
    """A trial whose definition is damaged: what the plan says of it, and nothing that it has measured."""
    run = folder.absolute().parents[1]
    try:
        plan = read_plan(run)
        planned = next(trial for trial in plan["trials"] if trial["id"] == folder.name)
        configuration = next(table for table in plan["configurations"] if table["id"] == planned["configuration"])
    except (ConfigError, Damaged, StopIteration, KeyError):
        raise damage from None
    nothing = {"workers": [], "samplers": [], "sample_period_s": 0.0, "flush": {}}
    trial = {**configuration, **planned, **nothing, "configuration": configuration["name"]}
    as_planned = definition(trial, str(run / names.PLAN))
    return TrialData(as_planned, [], [], None, None, None, outcome=[str(damage)], troubles=[])


def was_skipped(folder: Path) -> bool:
    """Whether a trial was not needed, since the repetitions before it were enough."""
    outcome = read_outcome(folder)
    return outcome is not None and outcome.state == SKIPPED


def _outcome_reasons(outcome: Outcome) -> list[str]:
    """What the trial's last step said, the first cause first; the other clients the tables count by themselves."""
    if outcome.state != "complete" and not outcome.reasons:
        return [f"its last step called it {outcome.state}"]
    return [reason for place, reason in enumerate(outcome.reasons) if not (place and reason.startswith("client "))]


def _go(path: Path, troubles: list[str]) -> Go | None:
    """The clients' start time; None of a trial that was called off before, too."""
    go = read_or_report(Go, path, troubles.append)
    if go and go.go_wall_ns is None and go.called_off is None:
        troubles.append(f"{path.name} is damaged: it lacks go_wall_ns")
    return go if go and go.go_wall_ns is not None else None


def _other_go_times(go: Go | None, jobs: list[Job]) -> list[str]:
    """Clients must all have been given one go time, the gate's, or each the one that is meant for it."""
    of_clients = {job.index: job.go_wall_ns for job in jobs if job.go_wall_ns}
    if go is None:
        given = set(of_clients.values())
    else:
        common = go.go_wall_ns or 0
        given = {common, *(time - (go.begin(client) or common) + common for client, time in of_clients.items())}
    return [f"the gate and the clients report {len(given)} different go times"] if len(given) > 1 else []


def _other_pools(folder: Path, trial: Definition, jobs: list[Job]) -> dict[str, str]:
    """The pools, by the run's other trials, of workers where clients ran that are not in the trial's own."""
    strangers = {job.host for job in jobs if job.start} - set(trial.workers)
    pools: dict[str, str] = {}
    if not strangers or not trial.workers:
        return pools
    for pool, workers in pools_of_run(folder.absolute().parents[1]):
        if pool != trial.pool:
            pools |= dict.fromkeys(strangers & set(workers), pool)
    return pools


def _caches(conditions: Iterable[ConditionState]) -> list[Cache]:
    """Those of a trial's conditions that are about a cache."""
    return [
        Cache(
            state.condition.host,
            state.condition.value,
            str(state.cache_before.get("folder") or ""),
            _number(state.cache_before.get("bytes")),
            _number(state.cache_after.get("bytes")),
            str(state.cache_after.get("trouble") or state.cache_before.get("trouble") or ""),
        )
        for state in conditions
        if state.condition.value in (COLD, WARM)
    ]


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _undoing(conditions: list[ConditionState]) -> dict[str, int]:
    """From when on, by a host's monotonic clock, it undid what was arranged for the trial; the earliest of several."""
    begins: dict[str, int] = {}
    for state in conditions:
        since = state.records.get("restored", {}).get("undoing_mono_ns")
        if isinstance(since, int):
            begins[state.condition.host] = min(since, begins.get(state.condition.host, since))
    return begins


def pools_of_run(run: Path) -> list[tuple[str, list[str]]]:
    """What a trial may take from the others: each pool’s workers, once, in the order in which they count."""
    records = (
        read_or_report(OfPool, path, lambda _: None) for path in sorted((run / names.TRIALS).glob(f"*/{names.TRIAL}"))
    )
    pools = [(record.pool, list(record.workers)) for record in records if record]
    return [pool for place, pool in enumerate(pools) if pool not in pools[place + 1 :]]


def _read_all_samples(
    folder: Path, roles: Mapping[str, str], undoing: Mapping[str, int], troubles: list[str], optional: list[str]
) -> list[Sampled]:
    """All hosts' samples, until a host undid what was arranged there, which may start a service anew.

    What is wrong with a storage server's is a trouble, with another's it costs only evidence.
    """
    sampled: list[Sampled] = []

    def tell(host: str, words: str) -> None:
        (troubles if roles.get(host, "storage") == "storage" else optional).append(words)

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
        if any(each.samples.host == samples.host for each in sampled):
            tell(host, f"samples of {host}: are of {samples.host}, of which there are others: sample each host once")
            continue
        used = samples.until(undoing[host]) if host in undoing else samples
        sampled += [Sampled(interface, intervals(interface)) for interface in used.by_interface()]
        if (samples.host, samples.role) != (host, roles.get(host, samples.role)):
            tell(host, f"samples of {host}: are of {samples.host} as {samples.role} by their header")
        if samples.header.trial not in ("", folder.absolute().parent.name):
            tell(host, f"samples of {host}: are of the trial {samples.header.trial} by their header")
        if samples.damage and not samples.cut:  # whether what is left covers the window is looked at for itself
            tell(host, f"samples of {samples.host}: {samples.damage}")
    return sampled


def _submission(
    log: Path, jobs: list[Job], begin_clock: Clock | None, optional: list[str]
) -> tuple[int | None, float | None]:
    """When the clients were submitted, or released, by HTCondor's job event log, and by how much that may be wrong [s].

    Its stamps are cut off, mostly to whole seconds, so the middle of what one may mean is taken. They are in
    the access point's local time without a zone. The zone is found by what both the log and the clients
    know, when the first of them began; zones differ by quarters of an hour. Summer time may begin or end between the
    two stamps, so the submission must also lie after the trial's begin and before that of its first client.
    """
    try:
        events = LOG_EVENT.findall(files.read_text(log, errors="replace"))
    except FileNotFoundError:
        return None, None
    except OSError as error:
        optional.append(f"{log.name} cannot be read: {error.strerror}")
        return None, None
    last_cluster = max((int(cluster) for _, cluster, _, _ in events), default=0)
    first: dict[str, float] = {}
    errors_s: dict[str, float] = {}
    for kind, cluster, day, time in events:
        if int(cluster) == last_cluster and kind not in first:
            errors_s[kind] = 0.5 * 10.0 ** -len(time.partition(".")[2])
            try:
                stamp = datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC).timestamp()
            except ValueError as error:
                optional.append(f"{log.name} is damaged: {error}")
                return None, None
            first[kind] = stamp + errors_s[kind]
    starts = [job.start.wall_ns for job in jobs if job.start]
    if not starts or not first.keys() >= {SUBMITTED, EXECUTING}:
        return None, None
    zone_s = round((min(starts) / 1e9 - first[EXECUTING]) / QUARTER_HOUR_S) * QUARTER_HOUR_S
    was_released = first.get(RELEASED, math.inf) <= first[EXECUTING]  # they were submitted before the trial's turn
    submitted = RELEASED if was_released else SUBMITTED
    submitted_s = first[submitted] + zone_s
    if begin_clock and begin_clock.uptime_ns is not None:
        early_s = (begin_clock.uptime_ns + begin_clock.ahead_ns) / 1e9 - submitted_s
        submitted_s += max(0, round(early_s / QUARTER_HOUR_S)) * QUARTER_HOUR_S
    submitted_s -= max(0, round((submitted_s - min(starts) / 1e9) / QUARTER_HOUR_S)) * QUARTER_HOUR_S
    return round(submitted_s * 1e9), errors_s[submitted]
