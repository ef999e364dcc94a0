"""A trial over time as its folder keeps it, so that a report draws it without reading its samples again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from tierbench import json_files, names
from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.measures.over_time import HostSeries, OverTime, TimeSeries

DECIMALS = 3  # of Mb/s, as in the tables


class _Series(TypedDict):
    begin_s: float
    step_s: float
    mbps: list  # type: ignore[type-arg]  # of numbers, and nulls where it is not known: numpy looks at each


class _Host(TypedDict):
    host: str
    role: str
    over_time: _Series


class _Kept(TypedDict):
    """What is in the file."""

    hosts: list[_Host]
    taken_in: _Series | None
    further_hosts: int


def kept_as(course: OverTime) -> dict[str, Any]:
    """The file's content."""
    hosts = [{"host": host.host, "role": host.role, "over_time": _series(host.mbps)} for host in course.hosts]
    taken_in = _series(course.taken_in) if course.taken_in else None
    return {"format": 1, "hosts": hosts, "taken_in": taken_in, "further_hosts": course.further_hosts}


def read_over_time(run: Path, trial_id: str) -> OverTime:
    """A trial over time; nothing where its tables did not tell it."""
    path = run / names.trial_directory(trial_id) / names.OVER_TIME
    try:
        stored = json_files.read_as(_Kept, path)
        hosts = [HostSeries(host["host"], host["role"], _read(host["over_time"])) for host in stored["hosts"]]
        taken_in = _read(stored["taken_in"]) if stored["taken_in"] else None
        return OverTime(hosts, taken_in, stored["further_hosts"])
    except (FileNotFoundError, json_files.Damaged, ValueError, TypeError):
        return OverTime()


def _series(series: TimeSeries) -> dict[str, Any]:
    begin, after = (float(edge) for edge in series.edges[:2])
    values = [round(value, DECIMALS) if np.isfinite(value) else None for value in series.values.tolist()]
    return {"begin_s": begin, "step_s": after - begin, "mbps": values}


def _read(stored: _Series) -> TimeSeries:
    values: Numbers = np.array(stored["mbps"], dtype=float)
    edges: Numbers = stored["begin_s"] + np.arange(len(values) + 1.0) * stored["step_s"]
    return TimeSeries(edges, values)
