"""The conditions of trials: kernel, tuning and versions of all hosts, and which trials of a run had other ones."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tierbench.postprocess.records.trial import TrialData

FORMAT = 1
FROM_START = ("kernel", "python", "condor")
FROM_DETAIL = ("root_version", "xrootd_version", "program")
FROM_HEADER = ("interface", "link_speed_mbps", "kernel", "python", "ncpu")

Settings = dict[str, Any]
Hosts = dict[str, Settings]
Group = TypeVar("Group")


def host_settings(data: TrialData) -> dict[str, Any]:
    """What a trial's conditions.json says."""
    hosts = _settings(data)
    boots = {sampled.samples.host: sampled.samples.header.boot_id for sampled in data.sampled}
    boots |= {job.host: job.start.boot_id for job in data.jobs if job.start}
    return {
        "format": FORMAT,
        "digest": digest(hosts),
        "hosts": hosts,
        "boot_ids": boots,
        "arranged": {host: sorted(conditions) for host, conditions in data.arranged_on.items()},
    }


def _settings(data: TrialData) -> Hosts:
    hosts: Hosts = defaultdict(dict)
    for job in data.jobs:
        if job.start:
            settings = hosts[job.host]
            settings["role"] = "worker"
            settings.update({f"client.{name}": value for name in FROM_START if (value := getattr(job.start, name))})
            settings.update({f"client.{name}": job.detail[name] for name in FROM_DETAIL if job.detail.get(name)})
    for sampled in data.sampled:
        header = sampled.samples.header
        settings = hosts[sampled.samples.host]
        settings["role"] = sampled.samples.role
        settings.update({name: value for name in FROM_HEADER if (value := getattr(header, name)) is not None})
        settings.update({name: value for name, value in (header.tuning or {}).items() if value is not None})
        for kind, stated in (("package", header.packages), ("mount", header.mounts)):
            settings.update({f"{kind} {name}": value for name, value in (stated or {}).items()})
    return {  # that can be counted and compared: what is made of parts as one text
        host: {name: value if isinstance(value, (int, float)) else _text(value) for name, value in settings.items()}
        for host, settings in hosts.items()
    }


def digest(hosts: Mapping[str, Settings]) -> str:
    """Eight letters that are the same for the same conditions."""
    return hashlib.sha256(json.dumps(hosts, sort_keys=True).encode()).hexdigest()[:8] if hosts else ""


def differences(trials: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """In words, for each trial, what was not as in most of the run's trials; the first ones decide where as many.

    Where a trial has something arranged on a host, those count that have the same arranged there: it changes settings.
    """
    usual = _usual(trials, _as_arranged)
    return {
        name: [
            f"{host} had {setting} {_text(value)} and not {_text(usual[_as_arranged(trial, host)][setting])}"
            for host, settings in trial["hosts"].items()
            for setting, value in settings.items()
            if value != usual[_as_arranged(trial, host)][setting]
        ]
        for name, trial in trials.items()
    }


def _as_arranged(trial: Mapping[str, Any], host: str) -> tuple[str, ...]:
    """A host, what it is sampled as, and what the site was asked to change there for the trial."""
    role = str(trial["hosts"][host].get("role", ""))
    return (host, role, *trial.get("arranged", {}).get(host, ()))  # which older tables do not tell


def of_run(trials: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a run's conditions.json says: each host's usual settings, and the trials with other ones."""
    hosts = _usual(trials, lambda _, host: host)
    boots: dict[str, list[str]] = defaultdict(list)
    for trial in trials.values():
        for host, boot in trial["boot_ids"].items():
            if boot and boot not in boots[host]:
                boots[host].append(boot)
    return {
        "format": FORMAT,
        "hosts": hosts,
        "boot_ids": boots,
        "unlike": _unlike(hosts),
        "trials": {name: trial["digest"] for name, trial in trials.items()},
        "differences": {name: words for name, words in differences(trials).items() if words},
    }


def _usual(
    trials: Mapping[str, Mapping[str, Any]], group: Callable[[Mapping[str, Any], str], Group]
) -> dict[Group, Settings]:
    """The settings of each group of hosts in trials, as most of them had them."""
    values: dict[Group, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials.values():
        for host, settings in trial["hosts"].items():
            for name, value in settings.items():
                values[group(trial, host)][name].append(value)
    return {
        hosts: {name: Counter(of_trials).most_common(1)[0][0] for name, of_trials in settings.items()}
        for hosts, settings in values.items()
    }


def _unlike(hosts: Hosts) -> dict[str, dict[str, Any]]:
    """The clients' versions and settings in which workers are not alike, by worker."""
    workers = {host: settings for host, settings in hosts.items() if settings.get("role") == "worker"}
    names = sorted({name for settings in workers.values() for name in settings})
    unlike = {}
    for name in names:
        by_worker = {host: settings[name] for host, settings in workers.items() if name in settings}
        if len(set(map(_text, by_worker.values()))) > 1:
            unlike[name] = by_worker
    return unlike


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
