"""How a nightly is added, paused and removed, and how its control is chosen."""

import dataclasses
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tierbench import files, names
from tierbench.checked_text import shown
from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Trial, expand
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.history import database
from tierbench.postprocess.history.database import History, default_place, doubt_of_place
from tierbench.site_configs.site import Site, find_site
from tierbench.spec import resolved, unknown_name
from tierbench.submit.nightly.messages import doubt_of_mail, write_webhook
from tierbench.submit.nightly.monitoring import drop_textfile
from tierbench.submit.nightly.record import Nightly, Say, Terms, locked, new_nightly
from tierbench.submit.nightly.schedule import SCHEDULERS, local_zone, parse_calendar
from tierbench.submit.nightly.steps import point
from tierbench.submit.planning import asked_experiment

# What a night needs to know of whoever has set it up; HTCondor and systemd start it with next to nothing.
EXPORTED = (
    "HOME", "PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "CONDOR_CONFIG", "KRB5_CONFIG", "KRB5CCNAME",
    "X509_USER_PROXY", "BEARER_TOKEN_FILE", "TIERBENCH_NIGHTS", "TIERBENCH_HISTORY", "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "X509_CERT_DIR", "LD_LIBRARY_PATH", "TIERBENCH_ALLOWED",
)  # fmt: skip
# Those of them that are one file or directory; whoever starts a night does so from another directory.
PATHS = {"CONDOR_CONFIG", "X509_USER_PROXY", "BEARER_TOKEN_FILE", "TIERBENCH_NIGHTS", "TIERBENCH_HISTORY"}
PATHS |= {"TIERBENCH_ALLOWED", "X509_CERT_DIR"}
NO_PATH = ("", "ONLY_ENV")  # the latter is a word of HTCondor's


def add(name: str, experiment: str, control: str, terms: Terms, say: Say) -> Nightly:
    """Set a nightly up, and have it scheduled; nothing is left of one that could not be."""
    _check(terms)
    experiment = resolved(experiment)
    terms = dataclasses.replace(terms, site=resolved(terms.site))
    site, base = find_site(terms.site), asked_experiment(experiment)
    choice = choose_control(site, base, control)
    check_floors(site, base, choice.added, terms.floors)
    nightly = new_nightly(name)
    _refuse_namesake(nightly, default_place())
    before = nightly.experiment.read_text(encoding="utf-8") if nightly.experiment.exists() else ""
    text = "".join(f"{line}\n" for line in variant(name, experiment, base, choice.added))
    if before not in ("", text):  # kept first: the disk may be full
        backup = nightly.experiment.with_name(f"{nightly.experiment.name}.before")
        files.replace(backup, before)
        say(f"{nightly.experiment} was another one, which is {backup.name} now: take over what was edited in it")
    files.replace(nightly.experiment, text)
    # A proxy in it may have a password; and a shell that runs the one before reads that to its end.
    files.replace(nightly.starter, "".join(f"{line}\n" for line in starter_lines(nightly)), 0o700)
    write_webhook(nightly, terms.webhook)
    control = choose_control(site, asked_experiment(str(nightly.experiment)), choice.key).name  # as its axes call it
    textfile = str(Path(terms.textfile).resolve()) if terms.textfile else ""
    terms = dataclasses.replace(
        terms, control=control, textfile=textfile, webhook=urlsplit(terms.webhook).hostname or "",
        history=str(default_place().absolute()), since_wall_s=time.time(), zone=str(getattr(local_zone(), "key", "")),
    )  # fmt: skip
    nightly.change(terms)
    try:
        scheduled = SCHEDULERS[terms.by].start(nightly)
    except TierbenchError:
        (nightly.directory / names.NIGHTLY).unlink()
        write_webhook(nightly, "")
        raise
    say(f"{nightly.name}: {nightly.calendar}, by {scheduled}; all of it is in {nightly.directory}")
    alone = "the links alone: the site has no other access method to compare"
    say(f"its control is {f'{control} and the links' if control else alone}")
    if terms.mail and (why := doubt_of_mail()):
        say(f"--mail {terms.mail}: no message can be sent from here: {why}")
    if doubt := doubt_of_place(Path(terms.history)):
        say(doubt)
    return nightly


def _refuse_namesake(nightly: Nightly, place: Path) -> None:
    """Two of one name would be one series."""
    if place.is_file():
        with History(place) as history:
            runs = [Path(night.directory) for night in database.nights(history, nightly.name) if night.directory]
        if others := [run for run in runs if not run.is_relative_to(nightly.directory.resolve())]:
            moved = f"if its folder was moved, `tierbench history rebuild {shlex.quote(str(nightly.directory))}` first"
            remedy = f"{moved}; else give this one another name, or a history of its own (TIERBENCH_HISTORY)"
            raise ConfigError(f"{nightly.name}: {place} has nights of another of that name, as {others[-1]}; {remedy}")


def _check(terms: Terms) -> None:
    parse_calendar(terms.at, terms.days, strict=True)
    if not 0 < terms.size_pct < 100:
        raise ConfigError(f"--size {terms.size_pct:g}: must be a share in percent, such as 5")
    if terms.webhook:
        _check_url(terms.webhook)
    if terms.textfile and not Path(terms.textfile).is_dir():
        raise ConfigError(f"--textfile {terms.textfile}: must be a directory, that of node_exporter's collector")


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
        raise ConfigError(f"--webhook {shown(url)}: must be without blanks and all that is not ASCII, as in %20")


def starter_lines(nightly: Nightly) -> Iterator[str]:
    """What starts a night, and what its DAG runs: this very tierbench, as whoever has added the nightly runs it."""
    yield "#!/bin/sh"
    yield f"# Started by the schedule of the nightly {nightly.name}, and by its nights' DAGs."
    for variable in (*EXPORTED, *sorted(name for name in os.environ if name.startswith("XRD_"))):
        if (value := os.environ.get(variable)) is not None:
            if variable in PATHS and value not in NO_PATH:
                value = str(Path(value).absolute())
            yield f"export {variable}={shlex.quote(value)}"
    yield f"journal={shlex.quote(str(nightly.directory / names.NIGHTLY_JOURNAL))}"
    yield '( : >>"$journal" ) 2>/dev/null && exec >>"$journal" 2>&1'
    yield f'exec {shlex.quote(sys.executable)} -m tierbench nightly step {nightly.name} "$@"'


def change(nightly: Nightly, verb: str) -> None:
    """Pause, resume or remove it; the nights of a pause were not expected, and what was measured stays."""
    scheduler = SCHEDULERS[nightly.terms.by]
    if verb == "remove":
        scheduler.change(nightly, verb)
    with locked(nightly.directory):
        if verb != "resume":
            drop_textfile(nightly)
        if verb == "remove":
            (nightly.directory / names.NIGHTLY).replace(nightly.directory / f"{names.NIGHTLY}.removed")
            write_webhook(nightly, "")
            return
        since_wall_s = nightly.terms.since_wall_s if verb == "pause" else time.time()
        nightly.change(dataclasses.replace(nightly.terms, paused=verb == "pause", since_wall_s=since_wall_s))
    scheduler.change(nightly, verb)


@dataclasses.dataclass(frozen=True)
class Control:
    """The configuration by its name, and the access methods that the experiment gets for it."""

    name: str
    key: str  # by which it is found again
    added: tuple[str, ...] = ()


def choose_control(site: Site, experiment: Experiment, key: str) -> Control:
    """The one with this name or access method; without a key, the access method with the fewest servers.

    Where the experiment has but one, another one of the site's is measured with it, if there is one.
    """
    points = _points(site, experiment)
    if key in points:
        return Control(key, key)
    accesses = {trial.configuration.access for trial in points.values()}
    if key and key not in site.access:
        raise ConfigError(unknown_name("--control", key, [*points, *site.access]))
    candidates = accesses if len(accesses) > 1 else set(site.access) - accesses

    def distance(name: str) -> tuple[int, str]:
        access = site.access[name]
        return len(access.path) + (access.proxy != "") + (access.to is not None), name

    for access in [key] if key else sorted(candidates, key=distance):
        if access in accesses:
            return Control(_first(points, access), access)
        try:
            return Control(_first(_points(site, with_access(experiment, access)), access), access, (access,))
        except ConfigError as error:
            if key:
                raise ConfigError(f"--control {key}: {error}") from None  # not every client can use every method
    first = next(iter(points)) if len(points) > 1 else ""
    return Control(first, first)


def with_access(experiment: Experiment, access: str) -> Experiment:
    """The experiment with another access method for its first workload, as `variant` writes it."""
    first, *_ = experiment.workloads
    own = experiment.workloads[first]
    wider = dataclasses.replace(own, access=(*experiment.access_of(first), access))  # type: ignore[arg-type]
    points = [
        dataclasses.replace(each, experiment=with_access(each.experiment, access)) for each in experiment.variants
    ]
    return dataclasses.replace(experiment, workloads={**experiment.workloads, first: wider}, variants=tuple(points))


def variant(name: str, extended: str, experiment: Experiment, added: tuple[str, ...]) -> Iterator[str]:
    """The nightly's own experiment, in the few lines by which it differs from the one that it extends."""
    yield "# What is measured every night; `tierbench nightly add` wrote it, and it may be edited."
    yield f"extends = {json.dumps(extended, ensure_ascii=False)}"  # TOML has no \\u of a pair
    yield f'name = "{name}"'
    if added:
        first, *_ = experiment.workloads
        yield f"[workloads.{first}]"
        yield f"access = {json.dumps([*experiment.access_of(first), *added])}  # with the control's"


def check_floors(site: Site, experiment: Experiment, added: Sequence[str], floors: Mapping[str, float]) -> None:
    """Refuse a floor of what is not measured, which nobody would ever fall below."""
    for access in added:
        experiment = with_access(experiment, access)
    points = _points(site, experiment)
    for name in floors.keys() - points.keys():
        raise ConfigError(unknown_name("--floor", name, points))


def _points(site: Site, experiment: Experiment) -> dict[str, Trial]:
    """Its trials by what the history calls their configurations."""
    return {point(trial): trial for trial in expand(site, experiment, {}).trials}


def _first(points: dict[str, Trial], access: str) -> str:
    """The largest batch of this access method, which is measured best."""
    own = {name: trial for name, trial in points.items() if trial.configuration.access == access}
    return max(own, key=lambda name: own[name].jobs)
