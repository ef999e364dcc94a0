"""What a run directory holds that is not the run's own: submit files, scripts, and what travels with the clients."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

from tierbench import names
from tierbench.dags.clients import ClientFile, as_parts, shipped_clients
from tierbench.dags.experiment import Experiment
from tierbench.dags.submission import submit_files
from tierbench.errors import ConfigError, UnmetNeed
from tierbench.single_file_script import single_file
from tierbench.site_configs.site import Site

SCRIPTS = (
    ("tierbench.monitors", "sampler.py"),
    ("tierbench.wrappers", "flush.py"),
    ("tierbench.submit.trial", "gate.py"),
    ("tierbench.submit.trial", "stop.py"),
    ("tierbench.submit.trial", names.FINISH),
    ("tierbench.submit.trial", names.RESET_TRIAL),
    ("tierbench.submit.trial", names.TURN_TAKING),
    ("tierbench.wrappers", "arrange.py"),
    ("tierbench.wrappers", "outbox.py"),
    ("tierbench.wrappers", names.STARTED_AHEAD),
)


def shipped_files(site: Site, experiment: Experiment) -> Iterator[tuple[str, bytes]]:
    """Where in a run directory each of them goes, and its content."""
    yield from submit_files(site)
    yield from scripts(experiment.client_files)
    shipped: dict[str, Path] = {}
    for name, path in _with_clients(experiment):
        if shipped.setdefault(name, path).read_bytes() != path.read_bytes():
            raise ConfigError(f"{path} and {shipped[name]} would both travel as {name}; call one of them otherwise")
    for name, path in shipped.items():
        yield f"{names.PROGRAMS}/{name}", path.read_bytes()


def _with_clients(experiment: Experiment) -> Iterator[tuple[str, Path]]:
    """What travels with the clients: the name that it has there, and where it is."""
    for client in experiment.client_files:
        for path in client.ships:
            yield path.name, path
    for use in experiment.uses():
        for option in filter(None, use.workload.option_files.values()):
            yield names.option_file(use.name, option), Path(option)


def scripts(clients: Iterable[ClientFile] = ()) -> Iterator[tuple[str, bytes]]:
    """All that runs on hosts and, beside DAGMan, on the access point; with clients of the users' own."""
    yield f"{names.SCRIPTS}/htchirp.py", _htchirp().read_bytes()
    for package, name in SCRIPTS:
        yield f"{names.SCRIPTS}/{name}", single_file(f"{package}.{name.removesuffix('.py')}").encode()
    all_clients = {**shipped_clients(), **{client.name: client for client in clients}}  # the others serve by hand
    yield f"{names.SCRIPTS}/client.py", single_file("tierbench.wrappers.main", as_parts(all_clients.values())).encode()


def _htchirp() -> Path:
    """HTCondor's own client for talking from a job to its access point; it comes with the Python bindings."""
    bindings = importlib.util.find_spec("htcondor2")
    if bindings is None or bindings.origin is None:
        raise UnmetNeed(
            "the HTCondor Python bindings are missing, of which each job takes a file: pip install htcondor"
        )
    return Path(bindings.origin).parent / "htchirp" / "htchirp.py"
