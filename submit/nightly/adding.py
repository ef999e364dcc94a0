"""How a nightly is set up, changed and taken down."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from tierbench import names
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.history.store import default_place
from tierbench.site_configs.site import find_site
from tierbench.submit.nightly import crontab, systemd, webhook
from tierbench.submit.nightly.calendar import asked_calendar
from tierbench.submit.nightly.control import check_floors, control, variant
from tierbench.submit.nightly.definition import Nightly, Say, Terms, new_nightly
from tierbench.submit.nightly.lock import alone
from tierbench.submit.planning import asked_experiment

SCHEDULERS: dict[str, ModuleType] = {"condor": crontab, "systemd": systemd}
# What a night needs to know of whoever has set it up; HTCondor and systemd start it with next to nothing.
TAKEN_ALONG = (
    "HOME", "PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "CONDOR_CONFIG", "KRB5_CONFIG", "KRB5CCNAME",
    "X509_USER_PROXY", "BEARER_TOKEN_FILE", "TIERBENCH_NIGHTS", "TIERBENCH_HISTORY", "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
)  # fmt: skip


# Those of them that are one file or directory; whoever starts a night does so from another directory.
PLACES = {"CONDOR_CONFIG", "X509_USER_PROXY", "BEARER_TOKEN_FILE", "TIERBENCH_NIGHTS", "TIERBENCH_HISTORY"}
NO_PLACE = ("", "ONLY_ENV")  # the latter is a word of HTCondor's


def add(name: str, experiment: str, asked_control: str, terms: Terms, say: Say) -> Nightly:
    """Set a nightly up, and have it scheduled; nothing is left of one that could not be."""
    _check(terms)
    if "/" in experiment or experiment.endswith(".toml"):
        experiment = str(Path(experiment).resolve())
    if "/" in terms.site or terms.site.endswith(".toml"):
        terms = dataclasses.replace(terms, site=str(Path(terms.site).resolve()))
    if terms.textfile:
        terms = dataclasses.replace(terms, textfile=str(Path(terms.textfile).resolve()))
    site, asked = find_site(terms.site), asked_experiment(experiment)
    chosen = control(site, asked, asked_control)
    check_floors(site, asked, chosen.added, terms.floors)
    nightly = new_nightly(name)
    text = "".join(f"{line}\n" for line in variant(name, experiment, asked, chosen.added))
    nightly.experiment.write_text(text, encoding="utf-8")
    name_of_control = control(site, asked_experiment(str(nightly.experiment)), chosen.asked).name  # as its axes call it
    starter = "".join(f"{line}\n" for line in starter_lines(nightly))
    nightly.starter.write_text(starter, encoding="utf-8")
    nightly.starter.chmod(0o755)
    webhook.keep(nightly, terms.webhook)
    terms = dataclasses.replace(terms, webhook=webhook.host(terms.webhook))
    place = str(default_place().absolute())
    terms = dataclasses.replace(terms, control=name_of_control, history=place, since_wall_s=time.time())
    scheduled = _scheduled(nightly, terms)
    say(f"{nightly.name}: {nightly.calendar}, by {scheduled}; all of it is in {nightly.directory}")
    beside = (
        f"{name_of_control} and the links"
        if name_of_control
        else "the links alone: the site has no other way to compare"
    )
    say(f"its control is {beside}")
    return nightly


def _check(terms: Terms) -> None:
    asked_calendar(terms.at, terms.days)
    if not 0 < terms.size_pct < 100:
        raise ConfigError(f"--size {terms.size_pct:g}: must be a share in percent, such as 5")
    if terms.webhook:
        _check_url(terms.webhook)
    if terms.textfile and not Path(terms.textfile).is_dir():
        raise ConfigError(
            f"--textfile {terms.textfile}: must be a directory, that of node_exporter's textfile collector"
        )


def _check_url(url: str) -> None:
    """Whether something can be posted there, before the first night has something to say."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - refuses what is no number
    except ValueError as error:
        raise ConfigError(f"--webhook {url}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"--webhook {url}: must be an http:// or https:// URL with a host")
    if parts.username is not None:
        raise ConfigError(f"--webhook {url}: must have no user or password before its host: none is sent")
    if not all("!" <= character <= "~" for character in url):
        raise ConfigError(f"--webhook {url!r}: must be without blanks and all that is not ASCII, as in %20")


def _scheduled(nightly: Nightly, terms: Terms) -> str:
    nightly.change(terms)
    try:
        return str(scheduler(nightly).start(nightly))
    except TierbenchError:
        (nightly.directory / names.NIGHTLY).unlink()
        webhook.keep(nightly, "")
        raise


def scheduler(nightly: Nightly) -> ModuleType:
    return SCHEDULERS[nightly.terms.by]


def starter_lines(nightly: Nightly) -> Iterator[str]:
    """What begins a night, and what its DAG runs: this very tierbench, as whoever has added the nightly runs it."""
    yield "#!/bin/sh"
    yield f"# Started by the schedule of the nightly {nightly.name}, and by its nights' DAGs."
    for variable in TAKEN_ALONG:
        if variable in os.environ:
            yield f"export {variable}={shlex.quote(_from_anywhere(variable, os.environ[variable]))}"
    yield f"journal={shlex.quote(str(nightly.directory / names.NIGHTLY_JOURNAL))}"
    yield '( : >>"$journal" ) 2>/dev/null && exec >>"$journal" 2>&1'
    yield f'exec {shlex.quote(sys.executable)} -m tierbench nightly step {nightly.name} "$@"'


def _from_anywhere(variable: str, value: str) -> str:
    """What means the same wherever a night is started."""
    return str(Path(value).absolute()) if variable in PLACES and value not in NO_PLACE else value


def pause(nightly: Nightly) -> None:
    with alone(nightly):
        nightly.change(dataclasses.replace(nightly.terms, paused=True))
    scheduler(nightly).pause(nightly)


def resume(nightly: Nightly) -> None:
    """Go on; the nights of the pause were not expected."""
    with alone(nightly):
        nightly.change(dataclasses.replace(nightly.terms, paused=False, since_wall_s=time.time()))
    scheduler(nightly).resume(nightly)


def remove(nightly: Nightly) -> None:
    """Begin no more nights; what was measured stays."""
    scheduler(nightly).stop(nightly)
    with alone(nightly):
        kept = nightly.directory / f"{names.NIGHTLY}.removed"
        (nightly.directory / names.NIGHTLY).replace(kept)
        webhook.keep(nightly, "")
