"""A trial's rows of jobs.csv and trials.csv.

Windows. The *window* of a trial goes from the first client's begin to the last client's end, of those that
have work. The thesis' *wall time* goes from the submission of the clients to the same end. The storage servers'
samples are dated by their sampler's wall clock at its start carried on by its monotonic clock; so the window's
edges are as good as the hosts' clocks agree.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tierbench.dags.levels import ACCESS, JOBS, WORKLOAD
from tierbench.postprocess.arrays import Booleans
from tierbench.postprocess.measures.bottleneck import limit_of
from tierbench.postprocess.measures.closure import HEADERS, moved_around
from tierbench.postprocess.measures.delivered import cached_share, delivered, each_s, of_job, of_jobs
from tierbench.postprocess.measures.resources import server_cpu_s
from tierbench.postprocess.measures.server_reports import bytes_per_server_read, hit_share, software_bytes
from tierbench.postprocess.measures.steady import slices
from tierbench.postprocess.measures.traffic import Counted, by_storage, bytes_late, mean_error_mbps
from tierbench.postprocess.records import clocks
from tierbench.postprocess.records.definition import Definition
from tierbench.postprocess.records.increments import Intervals
from tierbench.postprocess.records.jobs import Job
from tierbench.postprocess.records.trial import Sampled, TrialData, by_host
from tierbench.postprocess.schema.rows import JobRow, Sampling, TrialRow
from tierbench.postprocess.tables.factors import levels_on_axes
from tierbench.postprocess.verdict.counting import HAS_NOT_RUN, RUNNING
from tierbench.postprocess.verdict.sampling_rules import uncovered
from tierbench.trials import COMPLETE, INCOMPLETE

CLIENTS_NAMED = 8


def leading(trial: Definition) -> dict[str, Any]:
    """What the rows of all tables of a trial begin with, as what they are made with."""
    levels = {ACCESS: trial.access, WORKLOAD: trial.workload, JOBS: trial.jobs, **levels_on_axes(trial.levels)}
    return {"trial": trial.name, "configuration": trial.configuration, "levels": levels, "repeat": trial.repeat}


def job_row(trial: Definition, job: Job) -> JobRow:
    """A client's row of jobs.csv: what it and its records have under a column's name, and what follows from that."""
    recorded = {
        name: value
        for record in (job.start, job.go, job.end, job.work) if record
        for name, value in vars(record).items() if name in JobRow.__dataclass_fields__ and value is not None
    }  # fmt: skip
    values = {
        **leading(trial),
        **{name: getattr(job, name) for name in ("status", "starts", "begin_wall_ns", "run_s", "reads")},
        **recorded,
        "client": job.index,
        "program": (job.start and job.start.client) or trial.client,
        "fetched": of_job(job),
        "start_wall_ns": job.start and job.start.wall_ns,
        "end_wall_ns": job.end and job.end.wall_ns,
        "begin_after_go_ms": _times(1e-6, job.late_ns),
        "last_begin_after_go_ms": _times(1e-6, job.last_late_ns) if job.work else None,
        "open_s": _times(1e-9, _difference(recorded.get("opened_wall_ns"), job.begin_wall_ns)),
        "first_byte_s": _times(1e-9, _difference(recorded.get("first_byte_wall_ns"), job.begin_wall_ns)),
        "bytes_expected": job.expected_bytes,
        "rate_mbps": _times(8e-6, _ratio(job.bytes_app, job.run_s)),
        "bytes_per_read": _ratio(job.bytes_client, job.reads),
        "events_per_s": _ratio(recorded.get("events"), job.run_s),
        "operations_per_s": _ratio(recorded.get("operations"), job.run_s),
        "cpu_efficiency": _ratio(job.computing_s, job.run_s),
        "detail": json.dumps(job.detail, sort_keys=True) if job.detail else "",
    }
    return JobRow(**values)


def trial_row(data: TrialData) -> TrialRow:
    """The trial's row of trials.csv, before its verdict."""
    trial, jobs = data.trial, data.jobs
    begin, end = data.begin_ns, data.end_ns
    traffic = by_storage(data).traffic(begin, end)
    delivery = delivered(data)
    limit = limit_of(data, delivery.mbps)
    window_s = _times(1e-9, _difference(end, begin))
    reasons = _reasons(data)
    ok = sum(job.ok for job in jobs)
    wire_count = data.trial.declared.taken_in  # what its client declares to be right to compare the wire with
    compared = _sum(jobs, lambda job: job.on_the_wire(getattr(job.end, wire_count, None)))
    reads = _sum(jobs, lambda job: job.reads)
    by_reads = _sum(jobs, lambda job: job.bytes_client if job.reads else None)
    events = _sum(jobs, lambda job: job.end and job.end.events)
    operations = _sum(jobs, lambda job: job.end and job.end.operations)
    fetch_s = each_s(data)
    operation_s = _ratio(_sum(jobs, lambda job: job.end and job.end.operations_s), operations)
    round_trip_s = _times(1e-3, data.ceilings.rtt_ms)
    wall_time_s, wall_time_error_s = clocks.wall_time(data)
    return TrialRow(
        **leading(trial),
        trial_id=trial.id,
        position=trial.index,
        state=RUNNING if data.at_work else INCOMPLETE if reasons else COMPLETE,
        reasons=tuple(reasons),
        pool=trial.pool,
        protocol=trial.protocol,
        direction=data.measure.direction,
        counted_by=data.measure.by,
        servers=", ".join(data.trial.servers),
        program=trial.client,
        arranged=tuple(data.arranged),
        started=str(data.trial.start),
        placed=str(trial.placement),
        clients_by_worker=json.dumps(Counter(job.host for job in jobs if job.start), sort_keys=True),
        jobs_ok=ok,
        jobs_failed=len(jobs) - ok,
        submit_wall_ns=data.submit_wall_ns,
        go_wall_ns=begin,
        end_wall_ns=end,
        window_s=window_s,
        wall_time_s=wall_time_s,
        wall_time_error_s=wall_time_error_s,
        natural_skew_ms=_spread_ms(job.start.wall_ns for job in jobs if job.start),
        start_skew_ms=_spread_ms(job.late_ns if data.trial.start.gated else job.begin_wall_ns for job in jobs),
        delivered_mbps=delivery.mbps,
        client_mbps=delivery.client_mbps,
        summed_mbps=delivery.summed_mbps,
        mean_mbps=traffic.mean_mbps,
        mean_error_mbps=mean_error_mbps(data, _plus(-(compared or 0), traffic.bytes)),
        amplification=_ratio(traffic.bytes, delivery.bytes),
        volatility_mbps=traffic.volatility_mbps,
        volatility_5s_mbps=traffic.volatility_5s_mbps,
        peak_mbps=traffic.peak_mbps,
        slices=slices(data, delivery, limit.ceiling_mbps),
        bytes_expected=trial.bytes or _sum(jobs, lambda job: job.expected_bytes),
        bytes_app=_sum(jobs, lambda job: job.bytes_app),
        bytes_client=_sum(jobs, lambda job: job.bytes_client),
        bytes_server=None if traffic.bytes is None else round(traffic.bytes),
        bytes_by_server=_by_server(data),
        closure=_plus(-1, _ratio(traffic.bytes, compared)),
        job_files=trial.work.files_per_job,
        job_processes=trial.work.processes,
        job_for_s=trial.work.for_s,
        job_order=trial.work.order,
        job_fetch_every_s=trial.work.fetch_every_s,
        fetched=of_jobs(jobs, window_s),
        fetch_s=fetch_s,
        round_trips_per_fetch=_ratio(fetch_s, round_trip_s),
        cached_share=cached_share(data, traffic.bytes and _times(_payload(data), traffic.bytes), delivery.bytes),
        hit_share=hit_share(data),
        bytes_per_server_read=bytes_per_server_read(data),
        software_bytes=software_bytes(data),
        reads=reads,
        bytes_per_read=_ratio(by_reads, reads),
        events=events,
        events_per_s=_ratio(events, window_s),
        operations=operations,
        operations_per_s=_ratio(operations, window_s),
        operation_s=operation_s,
        round_trip_s=round_trip_s,
        round_trips_per_operation=_ratio(operation_s, round_trip_s),
        cpu_s=_sum(jobs, lambda job: job.cpu_s),
        cpu_efficiency=_ratio(_sum(jobs, lambda job: job.computing_s), _sum(jobs, lambda job: job.run_s)),
        server_cpu_s_per_gb=_ratio(server_cpu_s(data), _times(1e-9, delivery.bytes)),
        sample_period_s=trial.sample_period_s,
        resolution_s=by_storage(data).resolution_s if data.storage else None,
        sampling=_sampling(data),
        resident_bytes=data.resident_bytes,
        bytes_late=None if (late := bytes_late(data)) is None else round(late),
        looked_at=data.verified,
        left_behind=tuple(data.left),
        limit=limit,
    )


def _payload(data: TrialData) -> float:
    """What of each byte that the storage moved was no header."""
    around = moved_around(data)
    return around.payload(HEADERS) / around.bytes if around and around.bytes else 1.0


def _by_server(data: TrialData) -> str:
    """What each storage server moved over the window, as JSON; also those that its way does not lead to."""
    moved = {}
    for interfaces in by_host([*data.storage, *data.other_servers]):
        measure = data.measure if interfaces[0] in data.storage else replace(data.measure, by="interfaces")
        rise = Counted(interfaces, measure.counter, data.window_ns).traffic(data.begin_ns, data.end_ns).bytes
        moved[interfaces[0].samples.host] = None if rise is None else round(rise)
    return json.dumps(moved, sort_keys=True) if moved else ""


def _sampling(data: TrialData) -> Sampling:
    hosts = by_host(data.sampled)
    trailers = [interfaces[0].samples.trailer for interfaces in hosts]
    late = [trailer.late_ticks for trailer in trailers if trailer and trailer.late_ticks is not None]
    sampling = Sampling(
        late_ticks=sum(late) if late else None,
        wraps=sum(_intervals_with(interfaces, lambda interface: interface.wrap) for interfaces in hosts),
        resets=sum(_intervals_with(interfaces, lambda interface: interface.reset) for interfaces in hosts),
        samplers_cut=trailers.count(None),
    )
    if data.window_ns is None or not data.storage:
        return sampling
    begin, end = data.window_ns
    samples, gaps, longest = 0, 0, 0.0
    for server, *_ in by_host(data.storage):
        times = server.samples.time_ns
        samples += int(((times >= begin) & (times <= end)).sum())
        touching = server.touching(begin, end)
        gaps += int(server.intervals.gap[1:][touching].sum())
        longest = max(longest, float(server.intervals.seconds[1:][touching].max(initial=0)))
    return replace(sampling, samples=samples, gaps=gaps, longest_gap_s=longest or None)


def _intervals_with(interfaces: Iterable[Sampled], which: Callable[[Intervals], Booleans]) -> int:
    """How many of a host's intervals have something, on whichever of its interfaces."""
    return int(np.any([which(interface.intervals) for interface in interfaces], axis=0).sum())


def _reasons(data: TrialData) -> list[str]:
    """Why a trial is not complete."""
    if data.at_work:
        return ["has not ended"]
    if not data.sampled and data.go_wall_ns is None and not any(job.starts for job in data.jobs):
        return data.outcome or [HAS_NOT_RUN]
    reasons = [*data.outcome, *data.troubles]
    failed = sorted((job.status, job.index) for job in data.jobs if not job.ok)
    for status, group in itertools.groupby(failed, key=lambda pair: pair[0]):
        clients = [str(index) for _, index in group]
        named = ", ".join(clients[:CLIENTS_NAMED]) + (", …" if len(clients) > CLIENTS_NAMED else "")
        reasons.append(f"{len(clients)} of {len(data.jobs)} clients {status} ({named})")
    reasons += [f"client {job.index} was started {job.starts} times" for job in data.jobs if job.starts > 1]
    if data.trial.start.gated and data.go_wall_ns is None:
        reasons.append("the gate never opened")
    if data.end_ns is None and any(job.end for job in data.working):
        reasons.append("the last client ended before the window began, or more than a week after")
    if data.measure.of != "bytes":
        return reasons  # operations are counted by the clients
    if not data.storage and data.trial.on_disk:
        reasons.append("the workers that clients ran on were not all sampled, so what their disks read is unknown")
    elif not data.storage and not any(
        role == "storage" and host in (data.trial.servers or [host]) for host, role in data.trial.roles.items()
    ):
        reasons.append("no storage server of its access method was sampled")
    for server in by_host(data.storage):
        reasons += uncovered(server, data.window_ns, data.measure)
    return reasons


def _sum(jobs: Iterable[Job], what: Callable[[Job], Any]) -> Any:
    """The sum over the clients; None where none knows, or one does not that ended well: without it the sum is less."""
    values = [(job, what(job)) for job in jobs]
    if any(value is None and job.ok and job.has_work for job, value in values):
        return None
    numbers = [value for _, value in values if value is not None]
    return sum(numbers) if numbers else None


def _spread_ms(wall_ns: Iterable[int | None]) -> float | None:
    times = [time for time in wall_ns if time is not None]
    return (max(times) - min(times)) / 1e6 if times else None


def _difference(later: int | None, earlier: int | None) -> int | None:
    return None if later is None or earlier is None else later - earlier


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _plus(term: float, value: float | None) -> float | None:
    return None if value is None else value + term
