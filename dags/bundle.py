"""An experiment of a user's with all of its files, for another machine."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from tierbench.dags.claims import reference_of
from tierbench.dags.clients import shipped_clients
from tierbench.dags.experiment import SHIPPED, lineage, load_experiment

ABSOLUTE = re.compile(r"""(?<=["'])/[^"'\n]+(?=["'])""")


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
