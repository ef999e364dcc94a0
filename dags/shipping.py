"""What a run directory holds that is not its own, as submit files and scripts; an experiment for another machine."""

import importlib.util
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath

from tierbench import names
from tierbench.dags.claims import reference_of
from tierbench.dags.clients import ClientFile, as_parts, shipped_clients
from tierbench.dags.experiment import SHIPPED, Experiment, lineage, load_experiment
from tierbench.errors import ConfigError, UnmetNeed
from tierbench.single_file_script import single_file
from tierbench.site_configs.site import Site

SCRIPTS = (
    "monitors.sampler", "wrappers.flush", "wrappers.arrange", "wrappers.write_area",
    "submit.trial.gate", "submit.trial.stop", "submit.trial.finish", "submit.trial.reset_trial", "submit.trial.lock",
)  # fmt: skip
SETTING = re.compile(r"^\s*([+\w.]+)\s*=", re.MULTILINE)
ON_THE_ACCESS_POINT = re.compile(r"^universe\s*=\s*local$", re.MULTILINE)
LAST = re.compile(r"^queue\b", re.MULTILINE)
ABSOLUTE = re.compile(r"""(?<=["'])/[^"'\n]+(?=["'])""")


def shipped_files(site: Site, experiment: Experiment) -> Iterator[tuple[str, bytes]]:
    """Where in a run directory each of them goes, and its content."""
    yield from submit_files(site)
    yield from scripts(experiment.client_files)
    with_clients = [(path.name, path) for client in experiment.client_files for path in client.ships]
    for use in experiment.uses():
        options = filter(None, use.workload.option_files.values())
        with_clients += [(names.option_file(use.name, option), Path(option)) for option in options]
    shipped: dict[str, Path] = {}
    for name, path in with_clients:
        if shipped.setdefault(name, path).read_bytes() != path.read_bytes():
            raise ConfigError(f"{path} and {shipped[name]} would both travel as {name}; call one of them otherwise")
    for name, path in shipped.items():
        yield f"{names.PROGRAMS}/{name}", path.read_bytes()


def scripts(clients: Iterable[ClientFile] = ()) -> Iterator[tuple[str, bytes]]:
    """All that runs on hosts and, beside DAGMan, on the access point; with clients of the users' own."""
    bindings = importlib.util.find_spec("htcondor2")  # with which HTCondor's client of its access points comes
    if bindings is None or bindings.origin is None:
        raise UnmetNeed("each job takes a file of HTCondor's Python bindings, which are missing: pip install htcondor")
    yield f"{names.SCRIPTS}/htchirp.py", (Path(bindings.origin).parent / "htchirp" / "htchirp.py").read_bytes()
    for module in SCRIPTS:
        yield f"{names.SCRIPTS}/{module.rpartition('.')[2]}.py", _script(f"tierbench.{module}")
    all_clients = {**shipped_clients(), **{client.name: client for client in clients}}  # the others serve by hand
    yield f"{names.SCRIPTS}/client.py", _script("tierbench.wrappers.main", *as_parts(all_clients.values()).items())


@cache
def _script(module: str, *more: tuple[str, str]) -> bytes:
    return single_file(module, dict(more)).encode()


def submit_files(site: Site) -> Iterator[tuple[str, bytes]]:
    """A submit description per kind of node; the site's own lines are in those of the jobs that go to workers."""
    added = "".join(f"{line}\n" for line in site.submission.lines)
    for name, text in _shipped().items():
        whole = text if ON_THE_ACCESS_POINT.search(text) else LAST.sub(lambda match: added + match[0], text, count=1)
        yield f"{names.SUBMIT}/{name}", whole.encode()


def submission_problems(site: Site) -> Iterator[str]:
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


def bundle(definition: Path, there: PurePosixPath) -> dict[PurePosixPath, bytes]:
    """The files of an experiment as they are to lie below a folder there, its own first; paths in them lead there."""
    files = definition_files(definition)
    root = Path(os.path.commonpath([file.parent for file in files]))
    places = {file: there / file.relative_to(root).as_posix() for file in files}

    def moved(path: re.Match[str]) -> str:
        return str(places.get(Path(path[0]).resolve(), path[0]))

    def content(file: Path) -> bytes:
        return ABSOLUTE.sub(moved, file.read_text("utf-8")).encode() if file.suffix == ".toml" else file.read_bytes()

    return {place: content(file) for file, place in places.items()}


def definition_files(path: Path) -> list[Path]:
    """All that it is made of: its file, the user's that it extends, what papers found, its clients and theirs."""
    experiment = load_experiment(path)
    definitions = [path, *(file for file in lineage(path) if file.parent != SHIPPED)]
    files = [*definitions, *(reference for reference in map(reference_of, definitions) if reference.is_file())]
    for client in experiment.client_files:
        if client.name not in shipped_clients():
            files += [client.path, *client.ships]
    files += [Path(file) for use in experiment.uses() for file in use.workload.option_files.values() if file]
    return list(dict.fromkeys(file.resolve() for file in files))
