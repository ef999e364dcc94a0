"""What a trial's hosts did over time, thinned out to as many steps as a picture shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tierbench.dags import names
from tierbench.dags.measure import COUNTERS, OF_DISKS, OF_OWN_DISKS, OTHER_WAY, SENT
from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.measures.course import course, with_window
from tierbench.postprocess.measures.traffic import MEGABITS, resolution_s
from tierbench.postprocess.records.increments import INTERFACE, intervals
from tierbench.postprocess.records.samples import UnreadableSamples, read_samples
from tierbench.postprocess.records.trial import Sampled
from tierbench.postprocess.tables.rows import TrialRow

LEAD_S, TAIL_S = 1.0, 1.0  # shown before and after the window
DISKS = {"disks": (OF_DISKS, "boot_id"), "own disks": (OF_OWN_DISKS, "host")}  # what counts, and whose it is


@dataclass(frozen=True)
class TimeSeries:
    """A rate over time: between each two edges, in seconds since the window began, a value or NaN."""

    edges: Numbers
    values: Numbers


@dataclass(frozen=True)
class HostSeries:
    """What a host's sampled interface moved of a trial; of several interfaces each is named with its host.

    On its way: what the storage does with the bytes, and what others send on. At the other end: what workers have.
    """

    host: str
    role: str
    on_its_way_mbps: TimeSeries
    other_end_mbps: TimeSeries


def host_series(run: Path, trial: TrialRow, steps: int) -> list[HostSeries]:
    """What each sampled host moved while a trial ran; hosts whose samples are unreadable are left out."""
    begin_ns, window_s = trial.go_wall_ns, trial.window_s
    if begin_ns is None or not window_s or window_s <= 0 or not trial.trial_id:
        return []
    sampled: list[Sampled] = []
    folder = run / names.trial_directory(trial.trial_id) / names.SAMPLES
    for path in sorted(folder.glob("*.samples")):
        try:
            samples = read_samples(path, (*INTERFACE, *OF_DISKS.values(), *OF_OWN_DISKS.values()))
        except (UnreadableSamples, OSError):
            continue
        if len(samples) > 1:
            sampled += [Sampled(one, intervals(one)) for one in samples.by_interface()]
    by_disks = trial.counted_by in DISKS
    found = list(_disks(sampled, trial, steps)) if by_disks else []
    for one in sampled:
        if by_disks and one.samples.role == "storage":  # nothing of this trial
            continue
        # Of one role all have the same edges, so that they can be added up.
        alike = [other for other in sampled if other.samples.role == one.samples.role]
        step_s = max(resolution_s(alike), (window_s + LEAD_S + TAIL_S) / steps)
        direction = trial.direction or SENT
        own = direction if one.samples.role == "storage" else SENT
        moved = {way: _moved(one, COUNTERS[way], begin_ns, window_s, step_s) for way in {own, OTHER_WAY[direction]}}
        found.append(HostSeries(one.samples.named, one.samples.role, moved[own], moved[OTHER_WAY[direction]]))
    return found


def _disks(sampled: list[Sampled], trial: TrialRow, steps: int) -> Iterator[HostSeries]:
    """What the disks read of each host, or machine, that clients ran on: they are the storage of the trial."""
    counters, same = DISKS[trial.counted_by]
    begin_ns, window_s = trial.go_wall_ns or 0, trial.window_s or 0.0
    workers = {str(one.samples.header.get(same)): one for one in sampled if one.samples.role == "worker"}
    for one in workers.values():
        step_s = max(one.samples.period_s, (window_s + LEAD_S + TAIL_S) / steps)
        read, written = (_moved(one, counters[way], begin_ns, window_s, step_s) for way in (SENT, OTHER_WAY[SENT]))
        yield HostSeries(f"{one.samples.host} disks", "storage", read, written)


def busiest(hosts: list[HostSeries], others: int) -> list[HostSeries]:
    """The storage servers, and of the other hosts those that moved most."""
    rest = sorted((host for host in hosts if host.role != "storage"), key=_moved_in_all, reverse=True)
    return [host for host in hosts if host.role == "storage"] + rest[:others]


def thinned(rate: TimeSeries, steps: int) -> TimeSeries:
    """The same rate in fewer, longer steps; a step with an unknown part is unknown."""
    each = max(1, -(-len(rate.values) // steps))
    whole = len(rate.values) // each * each
    values: Numbers = rate.values[:whole].reshape(-1, each).mean(axis=1)
    return TimeSeries(rate.edges[: whole + 1 : each], values)


def _moved_in_all(host: HostSeries) -> float:
    return float(np.nansum(host.on_its_way_mbps.values))


def storage_series(hosts: list[HostSeries]) -> TimeSeries | None:
    """What all storage servers moved together."""
    servers = [host.on_its_way_mbps for host in hosts if host.role == "storage"]
    return TimeSeries(servers[0].edges, np.sum([server.values for server in servers], axis=0)) if servers else None


def delivered_series(hosts: list[HostSeries], trial: TrialRow) -> TimeSeries | None:
    """What the trial's jobs moved, where its tables could tell when that came."""
    workers = [host.other_end_mbps for host in hosts if host.role == "worker"]
    rate, window_s = trial.delivered_mbps, trial.window_s
    if not workers or not rate or window_s is None or trial.slices.all_active_delivered_mbps is None:
        return None
    edges = workers[0].edges
    moved: Numbers = np.sum([worker.values for worker in workers], axis=0)
    inside = (edges[:-1] >= 0) & (edges[1:] <= window_s)
    level = float(np.nanmean(moved[inside])) if np.isfinite(moved[inside]).any() else 0.0
    return TimeSeries(edges, moved * (rate / level)) if level else None


def _moved(sampled: Sampled, counter: str, begin_ns: int, window_s: float, step_s: float) -> TimeSeries:
    """Means over steps of equal length, none shorter than the counters' resolution; no byte is lost by the thinning."""
    moved = with_window(course(sampled, counter, begin_ns), 0, window_s)
    lead, tail = np.ceil(LEAD_S / step_s), np.ceil((window_s + TAIL_S) / step_s)
    edges: Numbers = np.arange(-lead, tail + 1) * step_s
    return TimeSeries(edges, moved.rates(edges) * MEGABITS)
