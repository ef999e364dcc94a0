"""Whether clients had their files on the mounts that were there when all was arranged and the caches were emptied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tierbench.postprocess.records.jobs import Place
from tierbench.postprocess.records.trial import TrialData
from tierbench.postprocess.verdict.rules import Evidence
from tierbench.postprocess.wording import abridged
from tierbench.wrappers.mounts import point_of


def findings(data: TrialData) -> Iterator[Evidence]:
    """A flush begins when all is arranged, and has the mounts of then; a client has those of its own begin."""
    others = {
        (job.index, place.point, job.host)
        for job in data.jobs
        for place in (job.end.mounts if job.end else ())
        if is_other(place, data.mounts.get(job.host, {}))
    }
    clients, points, hosts = (sorted(set(column)) for column in zip(*others, strict=True)) if others else ([], [], [])
    words = f"{len(clients)} clients had their files on another mount at {', '.join(points)} than the one that was"
    yield Evidence(
        "other mount", len(clients), f"{words} there when the caches of {', '.join(abridged(hosts))} were emptied"
    )


def is_other(place: Place, points: Mapping[str, str]) -> bool:
    """Whether a file's mount is not that of the flush; what is mounted but on demand, the flush need not have seen.

    What a job's root is says nothing: it may be its own, and no condition makes it anew.
    """
    point = point_of(place.path, points)
    return point > "/" and len(point) >= len(place.point) and points[point] != place.device
