"""What a trial's hosts and its jobs moved over time, in as many steps as a picture of it has at most.

A file in its folder has that, so that a report draws it without reading its samples again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tierbench import json_files, names
from tierbench.dags.measure import COUNTERS, OF_DISKS, OF_OWN_DISKS, OTHER_WAY, SENT
from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.measures.traffic import MEGABITS, Counted, counter_curve, with_window
from tierbench.postprocess.records.trial import Sampled
from tierbench.postprocess.schema.rows import TrialRow

STEPS = 300
DECIMALS = 3  # of Mb/s, as in the tables
LEAD_S, TAIL_S = 1.0, 1.0  # shown before and after the window
OTHERS = 3  # hosts that are shown beside the storage servers
DISKS = {"disks": (OF_DISKS, "boot_id"), "own disks": (OF_OWN_DISKS, "host")}  # what counts, and whose it is


@dataclass(frozen=True)
class TimeSeries:
    """A rate over time: between each two edges, in seconds since the window began, a value or NaN."""

    edges: Numbers
    values: Numbers

    def thinned(self, steps: int) -> TimeSeries:
        """The same rate in fewer, longer steps; a step with an unknown part is unknown."""
        each = max(1, -(-len(self.values) // steps))
        firsts = np.arange(0, len(self.values), each)
        values: Numbers = np.add.reduceat(self.values, firsts) / np.diff([*firsts, len(self.values)])
        return TimeSeries(self.edges[[*firsts, len(self.values)]], values)

    def to_record(self) -> dict[str, Any]:
        begin, after = (float(edge) for edge in self.edges[:2])
        values = [round(value, DECIMALS) if np.isfinite(value) else None for value in self.values.tolist()]
        return {"begin_s": begin, "step_s": after - begin, "mbps": values}

    @staticmethod
    def of_record(record: dict[str, Any]) -> TimeSeries:
        values: Numbers = np.array(record["mbps"], dtype=float)
        edges: Numbers = float(record["begin_s"]) + np.arange(len(values) + 1.0) * float(record["step_s"])
        return TimeSeries(edges, values)


@dataclass(frozen=True)
class HostSeries:
    """What a host's sampled interface moved of a trial; of several interfaces each is named with its host.

    That is what the storage does with the bytes, and what other hosts send on.
    """

    host: str
    role: str
    mbps: TimeSeries


@dataclass(frozen=True)
class OverTime:
    """A trial over time: its storage servers and the busiest other hosts, what its jobs took in, and how many more."""

    hosts: Sequence[HostSeries] = ()
    taken_in: TimeSeries | None = None  # where the trial's tables could tell when that came
    further_hosts: int = 0  # that moved less

    @property
    def storage(self) -> TimeSeries | None:
        """What all storage servers moved together."""
        servers = [host.mbps for host in self.hosts if host.role == "storage"]
        return TimeSeries(servers[0].edges, np.sum([server.values for server in servers], axis=0)) if servers else None

    def thinned(self, steps: int) -> OverTime:
        hosts = [HostSeries(host.host, host.role, host.mbps.thinned(steps)) for host in self.hosts]
        return OverTime(hosts, self.taken_in.thinned(steps) if self.taken_in else None, self.further_hosts)

    def to_record(self) -> dict[str, Any]:
        hosts = [{"host": host.host, "role": host.role, "over_time": host.mbps.to_record()} for host in self.hosts]
        taken_in = self.taken_in.to_record() if self.taken_in else None
        return {"format": 1, "hosts": hosts, "taken_in": taken_in, "further_hosts": self.further_hosts}


def read_over_time(run: Path, trial_id: str) -> OverTime:
    """A trial over time; nothing where its file is missing or damaged."""
    try:
        record = json_files.read_table(run / names.trial_directory(trial_id) / names.OVER_TIME)
        of_record = TimeSeries.of_record
        hosts = [HostSeries(host["host"], host["role"], of_record(host["over_time"])) for host in record["hosts"]]
        taken_in = of_record(record["taken_in"]) if record["taken_in"] else None
        return OverTime(hosts, taken_in, int(record["further_hosts"]))
    except (FileNotFoundError, json_files.Damaged, KeyError, ValueError, TypeError):
        return OverTime()


def over_time(sampled: Sequence[Sampled], trial: TrialRow, workers_tell: bool) -> OverTime:
    """What each sampled host moved while a trial ran; whether the workers' interfaces say what the jobs received."""
    if trial.go_wall_ns is None or not trial.window_s or trial.window_s <= 0:
        return OverTime()
    sampled = [interface for interface in sampled if len(interface.samples) > 1]
    by_disks = trial.counted_by in DISKS
    if by_disks:  # the storage servers have nothing of this trial
        sampled = [interface for interface in sampled if interface.samples.role != "storage"]
    shortest_s = (trial.window_s + LEAD_S + TAIL_S) / STEPS  # of a step, but for the counters' resolution
    hosts = list(_disks(sampled, trial, shortest_s)) if by_disks else []
    at_workers = []
    for interface in sampled:
        # Of one role all have the same edges, so that they can be added up.
        alike = [other for other in sampled if other.samples.role == interface.samples.role]
        step_s = max(shortest_s, *(Counted(alike, counter).resolution_s for counter in COUNTERS.values()))
        role, read_or_written = interface.samples.role, trial.direction or SENT
        counter = COUNTERS[read_or_written if role == "storage" else SENT]
        hosts.append(HostSeries(interface.samples.named, role, _moved(interface, counter, trial, step_s)))
        if role == "worker":
            at_workers.append(_moved(interface, COUNTERS[OTHER_WAY[read_or_written]], trial, step_s))
    drawn = busiest(hosts, OTHERS)
    return OverTime(drawn, _taken_in(at_workers if workers_tell else [], trial), len(hosts) - len(drawn))


def busiest(hosts: Sequence[HostSeries], others: int) -> list[HostSeries]:
    """The storage servers, and of the other hosts those that moved most."""
    rest = [host for host in hosts if host.role != "storage"]
    rest.sort(key=lambda host: float(np.nansum(host.mbps.values)), reverse=True)
    return [host for host in hosts if host.role == "storage"] + rest[:others]


def _disks(sampled: Sequence[Sampled], trial: TrialRow, shortest_s: float) -> Iterator[HostSeries]:
    """What the disks read of each host, or machine, that clients ran on: they are the storage of the trial."""
    counters, same = DISKS[trial.counted_by]
    workers = {getattr(worker.samples.header, same): worker for worker in sampled if worker.samples.role == "worker"}
    for worker in workers.values():
        moved = _moved(worker, counters[SENT], trial, max(worker.samples.period_s, shortest_s))
        yield HostSeries(f"{worker.samples.host} disks", "storage", moved)


def _taken_in(at_workers: Sequence[TimeSeries], trial: TrialRow) -> TimeSeries | None:
    """What the trial's jobs moved: the curve that their workers' interfaces tell, of the rate that they count."""
    rate, window_s = trial.delivered_mbps, trial.window_s
    if not at_workers or not rate or window_s is None:
        return None
    edges = at_workers[0].edges
    moved: Numbers = np.sum([worker.values for worker in at_workers], axis=0)
    inside = (edges[:-1] >= 0) & (edges[1:] <= window_s)
    level = float(np.nanmean(moved[inside])) if np.isfinite(moved[inside]).any() else 0.0
    return TimeSeries(edges, moved * (rate / level)) if level else None


def _moved(sampled: Sampled, counter: str, trial: TrialRow, step_s: float) -> TimeSeries:
    """Means over steps of equal length; no byte is lost by the thinning."""
    window_s = trial.window_s or 0.0
    moved = with_window(counter_curve(sampled, counter, trial.go_wall_ns or 0), 0, window_s)
    lead, tail = np.ceil(LEAD_S / step_s), np.ceil((window_s + TAIL_S) / step_s)
    edges: Numbers = np.arange(-lead, tail + 1) * step_s
    return TimeSeries(edges, moved.rates(edges) * MEGABITS)
