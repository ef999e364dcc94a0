"""The conditions of trials: kernel, tuning and versions of all hosts, and which trials of a run had other ones."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from tierbench.postprocess.trial import TrialData

FORMAT = 1
FROM_START = ("kernel", "python", "condor")
FROM_DETAIL = ("root_version", "xrootd_version", "program")
FROM_HEADER = ("interface", "link_speed_mbps", "kernel", "python", "ncpu")

Settings = dict[str, Any]
Hosts = dict[str, Settings]


def conditions(data: TrialData) -> dict[str, Any]:
    """What a trial's conditions.json says."""
    hosts = _settings(data)
    boots = {sampled.samples.host: sampled.samples.header.get("boot_id") for sampled in data.sampled}
    boots |= {str(job.start["host"]): job.start.get("boot_id") for job in data.jobs if job.start}
    return {"format": FORMAT, "digest": digest(hosts), "hosts": hosts, "boot_ids": boots}


def _settings(data: TrialData) -> Hosts:
    hosts: Hosts = defaultdict(dict)
    for job in data.jobs:
        if job.start:
            mine = hosts[str(job.start["host"])]
            mine["role"] = "worker"
            mine.update({f"client.{name}": job.start[name] for name in FROM_START if job.start.get(name)})
            detail = job.end.get("detail") or {}
            mine.update({f"client.{name}": detail[name] for name in FROM_DETAIL if detail.get(name)})
    for sampled in data.sampled:
        header = sampled.samples.header
        mine = hosts[sampled.samples.host]
        mine["role"] = sampled.samples.role
        mine.update({name: header[name] for name in FROM_HEADER if header.get(name) is not None})
        mine.update({name: value for name, value in (header.get("tuning") or {}).items() if value is not None})
    return dict(hosts)


def digest(hosts: Mapping[str, Settings]) -> str:
    """Eight letters that are the same for the same conditions."""
    return hashlib.sha256(json.dumps(hosts, sort_keys=True).encode()).hexdigest()[:8] if hosts else ""


def differences(trials: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """In words, for each trial, what was not as in most of the run's trials; the first ones decide where as many."""
    values: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for trial in trials.values():
        for host, settings in trial["hosts"].items():
            values |= {(host, name): values[host, name] + Counter([_text(settings[name])]) for name in settings}
    usual = {key: counter.most_common(1)[0][0] for key, counter in values.items()}
    found: dict[str, list[str]] = {}
    for name, trial in trials.items():
        found[name] = [
            f"{host} had {setting} {_text(value)} and not {usual[host, setting]}"
            for host, settings in trial["hosts"].items()
            for setting, value in settings.items()
            if _text(value) != usual[host, setting]
        ]
    return found


def of_run(trials: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a run's conditions.json says: each host's usual settings, and the trials with other ones."""
    hosts: Hosts = {}
    values: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    kept: dict[tuple[str, str, str], Any] = {}
    boots: dict[str, list[str]] = defaultdict(list)
    for trial in trials.values():
        for host, settings in trial["hosts"].items():
            for name, value in settings.items():
                values[host, name][_text(value)] += 1
                kept[host, name, _text(value)] = value
        for host, boot in trial["boot_ids"].items():
            if boot and boot not in boots[host]:
                boots[host].append(boot)
    for (host, name), counter in values.items():
        hosts.setdefault(host, {})[name] = kept[host, name, counter.most_common(1)[0][0]]
    return {
        "format": FORMAT,
        "hosts": hosts,
        "boot_ids": boots,
        "unlike": _unlike(hosts),
        "trials": {name: trial["digest"] for name, trial in trials.items()},
        "differences": {name: words for name, words in differences(trials).items() if words},
    }


def _unlike(hosts: Hosts) -> dict[str, dict[str, Any]]:
    """The clients' versions and settings in which workers are not alike, by worker."""
    workers = {host: settings for host, settings in hosts.items() if settings.get("role") == "worker"}
    names = sorted({name for settings in workers.values() for name in settings})
    found = {}
    for name in names:
        by_worker = {host: settings[name] for host, settings in workers.items() if name in settings}
        if len(set(map(_text, by_worker.values()))) > 1:
            found[name] = by_worker
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
