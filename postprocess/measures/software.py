"""Where the clients' software came from: what its caches took in, and from where the clients have loaded it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from tierbench.postprocess.records.caches import COLD, SoftwareCache
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.verdict.rules import Evidence
from tierbench.postprocess.wording import abridged

LOADED = "root_library"  # in a client's detail: the file that ROOT was loaded from


def software_bytes(data: TrialData) -> int | None:
    """What the caches of the hosts that clients ran on took in; None where there is none, or not all have told."""
    fetched = [cache.fetched for cache in _of_clients(data)]
    known = [amount for amount in fetched if amount is not None]
    return sum(known) if fetched and len(known) == len(fetched) else None


def findings(data: TrialData) -> Iterator[Evidence]:
    """A cold cache has to have been filled by the trial, a warm one not, and the software has to be from there."""
    caches = _of_clients(data)
    silent = [cache.host for cache in caches if cache.fetched is None]
    yield Evidence("software cache not told", len(silent), f"what the cache held of {', '.join(abridged(silent))}")
    for cache in caches:
        before, after = cache.bytes_before, cache.bytes_after
        if before is None or after is None:
            continue
        amounts = f"{before / 1e6:.1f} MB before the trial and {after / 1e6:.1f} MB after it"
        held = f"the cache of software on {cache.host} held {amounts}"
        if cache.value == COLD:
            yield Evidence("cold cache held", 100 * min(1.0, before / after) if after else 100, held)
        else:
            yield Evidence("warm cache fetched", 100 * abs(after - before) / after if after else 100, held)
    yield from _elsewhere(data, {cache.host: cache.folder for cache in caches if cache.folder})


def _elsewhere(data: TrialData, folders: dict[str, str]) -> Iterator[Evidence]:
    loaded = [(job, str(job.detail[LOADED])) for job in data.jobs if job.detail.get(LOADED) and job.host in folders]
    others = [path for job, path in loaded if not PurePath(path).is_relative_to(folders[job.host])]
    words = f"{len(others)} clients loaded {', '.join(sorted(set(others))[:2])}, which the cache has nothing to do with"
    yield Evidence("software from elsewhere", len(others), words)


def _of_clients(data: TrialData) -> list[SoftwareCache]:
    return [cache for cache in data.software_caches if cache.host in data.client_hosts]
