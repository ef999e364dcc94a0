"""A trial over time as a file in its folder, so that a report draws it without reading its samples again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tierbench import json_files, names
from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.measures.over_time import HostSeries, OverTime, TimeSeries

DECIMALS = 3  # of Mb/s, as in the tables


def over_time_record(trial: OverTime) -> dict[str, Any]:
    """The file's content."""
    hosts = [{"host": host.host, "role": host.role, "over_time": _record(host.mbps)} for host in trial.hosts]
    taken_in = _record(trial.taken_in) if trial.taken_in else None
    return {"format": 1, "hosts": hosts, "taken_in": taken_in, "further_hosts": trial.further_hosts}


def read_over_time(run: Path, trial_id: str) -> OverTime:
    """A trial over time; nothing where its file is missing or damaged."""
    try:
        record = json_files.read_table(run / names.trial_directory(trial_id) / names.OVER_TIME)
        hosts = [HostSeries(host["host"], host["role"], _series(host["over_time"])) for host in record["hosts"]]
        taken_in = _series(record["taken_in"]) if record["taken_in"] else None
        return OverTime(hosts, taken_in, int(record["further_hosts"]))
    except (FileNotFoundError, json_files.Damaged, KeyError, ValueError, TypeError):
        return OverTime()


def _record(series: TimeSeries) -> dict[str, Any]:
    begin, after = (float(edge) for edge in series.edges[:2])
    values = [round(value, DECIMALS) if np.isfinite(value) else None for value in series.values.tolist()]
    return {"begin_s": begin, "step_s": after - begin, "mbps": values}


def _series(record: dict[str, Any]) -> TimeSeries:
    values: Numbers = np.array(record["mbps"], dtype=float)
    edges: Numbers = float(record["begin_s"]) + np.arange(len(values) + 1.0) * float(record["step_s"])
    return TimeSeries(edges, values)
