"""The submit descriptions of a run: those that come with tierbench, and what a site asks of every job beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

from tierbench import names
from tierbench.site_configs.site import Site

SETTING = re.compile(r"^\s*([+\w.]+)\s*=", re.MULTILINE)
ON_THE_ACCESS_POINT = re.compile(r"^universe\s*=\s*local$", re.MULTILINE)
LAST = re.compile(r"^queue\b", re.MULTILINE)


def submit_files(site: Site) -> Iterator[tuple[str, bytes]]:
    """A submit description per kind of node; the site's own lines are in those of the jobs that go to workers."""
    added = "".join(f"{line}\n" for line in site.submission.lines)
    for name, text in _shipped().items():
        whole = text if ON_THE_ACCESS_POINT.search(text) else LAST.sub(lambda found: added + found[0], text, count=1)
        yield f"{names.SUBMIT}/{name}", whole.encode()


def problems(site: Site) -> Iterator[str]:
    """What is wrong with the lines that a site adds: they must not say what a trial's jobs depend on."""
    own = {"queue", *(key.lower() for text in _shipped().values() for key in SETTING.findall(text))}
    for line in site.submission.lines:
        key = line.partition("=")[0].strip()
        if re.sub(r"^my\.", "+", key.lower()) in own:
            instead = "put it into pools.NAME.requirements" if key.lower() == "requirements" else "leave it out"
            yield f"submission.lines: {key}: is tierbench's own to say, in submit/*.sub; {instead}"


@cache
def _shipped() -> dict[str, str]:
    files = sorted(resources.files("tierbench.submit").iterdir(), key=lambda file: file.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files if file.name.endswith(".sub")}
