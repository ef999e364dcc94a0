"""The sizes of an experiment's replicas, from the catalogues beside them, by whichever way is open from here."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierbench.dags import names
from tierbench.dags.experiment import Experiment
from tierbench.site_configs.site import Site

FETCH_SECONDS = 20


def catalogues(site: Site, experiment: Experiment) -> dict[str, list[int]]:
    """For each set of replicas whose catalogue can be read: its files' sizes, in the order of their names."""
    listed = {folder: entries(site, folder) for folder in experiment.used_replicas}
    return {
        folder: [int(entry["bytes"]) for entry in sorted(files, key=lambda entry: str(entry["name"]))]
        for folder, files in listed.items()
        if files is not None
    }


def entries(site: Site, folder: str) -> list[dict[str, Any]] | None:
    """What the catalogue of one set says of each file, or None where it cannot be read."""
    text = next(_read(site, f"{site.storage.replicas}/{folder}/{names.CATALOGUE}"), None)
    return None if text is None else list(json.loads(text)["files"])


def _read(site: Site, path: str) -> Iterator[str]:
    """The text of a file on the storage, by each way that works from this host."""
    for url in dict.fromkeys(access.url(path) for access in site.access.values()):
        if url.startswith("/"):
            with contextlib.suppress(OSError):  # no such mount here, or not for us
                yield Path(url).read_text(encoding="utf-8")
            continue
        try:
            copy = subprocess.run(
                ["xrdcp", "--silent", url, "-"], capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):  # no xrdcp here, or nobody answers: other ways may do
            continue
        if copy.returncode == 0:
            yield copy.stdout
