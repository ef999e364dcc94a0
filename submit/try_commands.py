"""`tierbench try`: which of some commands reads faster, by the same DAGs, samples and verdicts as of an experiment."""

import argparse
import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from tierbench.checked_text import AbsolutePath, Shell, printable, shown
from tierbench.dags.trial_settings import SPAN
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Site, find_site
from tierbench.spec import NAMED, unknown_name
from tierbench.submit.commands import run
from tierbench.submit.console import add_command, new_run, show

USUAL_PORTS = {"root": 1094, "roots": 1094, "http": 80, "https": 443}
BEFORE_A_FILE = re.compile(r"^[\w-]*[=<]")  # as in if=/mnt/f and </mnt/f
TEXT = "Compare commands that read: which one is faster with so many jobs at once, and what limits it"
MORE = f"""\
{TEXT}.

Each command writes what it reads to its standard output, where it is counted. The site's access method is the one
that leads to the server or mount in the command: its workers run it, and its servers are sampled. Before each trial
caches are emptied of the files in the folder that is read. A file which all jobs read comes from the storage once:
give each job one of its own with {{n}}, which is 1, 2, …
"""
EXAMPLES = """\
  tierbench try --site my-site.toml --jobs 4 'xrdcp root://a.example.org//f{n} -' 'cat /mnt/f{n}'
  tierbench try --site my-site.toml 'curl -s https://a.example.org/f' 'curl -s https://b.example.org/f'
"""


def register(subcommands: Any) -> None:
    parser = add_command(subcommands, "try", _try, TEXT, more=MORE, examples=EXAMPLES)
    parser.add_argument("commands", metavar="COMMAND", nargs="+", help="a line of shell, in quotes")
    parser.add_argument("--site", required=True, help=NAMED)
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="how many run it at once (default: 8)")
    parser.add_argument(
        "--access", metavar="NAME", action="append", default=[],
        help="the site's access method, where it does not follow: one for all, or one for each command in turn",
    )  # fmt: skip
    parser.add_argument("--budget", default="10min", help="begin no repetition that would end later (default: 10min)")
    parser.add_argument("--into", type=Path, metavar="DIR", help="the run directory (default: runs/try-TIME)")
    parser.add_argument("--anyway", action="store_true", help="also where something is missing")


def _try(arguments: argparse.Namespace) -> int:
    directory = arguments.into or new_run("try")
    if directory.exists():
        raise ConfigError(f"{directory}: is there already; a run gets a directory of its own")
    site, jobs = find_site(arguments.site), arguments.jobs
    text = experiment_of(arguments.commands, site, jobs, arguments.access, arguments.budget)
    path = directory.with_name(f"{directory.name}.toml")
    if path.exists() and path.read_bytes() != text.encode():
        raise ConfigError(f"{path}: is there already, and would be written over; give another --into")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    show(f"{text}\nthat is {path}, of which `tierbench run` makes further runs")
    arguments.experiment, arguments.into, arguments.only, arguments.more = str(path), directory, [], None
    arguments.yes = arguments.no_links = False
    return run(arguments)


def experiment_of(commands: Sequence[str], site: Site, jobs: int, access: Sequence[str], budget: str) -> str:
    """The experiment that compares the commands, as TOML."""
    if jobs < 1:
        raise ConfigError(f"--jobs {jobs}: must be at least 1")
    if not SPAN.fullmatch(budget):
        raise ConfigError(f'--budget {budget}: must be a time such as "10min" or "2h"')
    if unknown := [name for name in access if name not in site.access]:
        raise ConfigError(unknown_name("--access", unknown[0], site.access))
    if len(access) not in (0, 1, len(commands)):
        raise ConfigError(f"--access: {len(access)} for {len(commands)} commands; give one for all, or one for each")
    if unusable := [command for command in commands if not Shell.fits(command) or not command.strip()]:
        raise ConfigError(f"{shown(unusable[0])}: must be {Shell.must_be}, of at most {Shell.longest} characters")
    methods = access or [_access(command, site) for command in commands]
    chosen = [methods[number % len(methods)] for number in range(len(commands))]
    return "\n".join(_lines(commands, chosen, site, jobs, budget))


def _lines(commands: Sequence[str], access: Sequence[str], site: Site, jobs: int, budget: str) -> Iterator[str]:
    names: list[str] = []
    for command in commands:
        word = PurePath(command.split()[0]).name.lower()
        program = "".join(letter for letter in word if letter.isascii() and letter.isalnum())[:40] or "command"
        names.append(program if program not in names else f"{program}-{len(names) + 1}")
    yield f"""\
name = "try"
question = "Which reads faster: {" or ".join(names)}?"
access = {json.dumps(list(dict.fromkeys(access)))}
batches = [{jobs}]
repeats = {{ until = "answered", budget = {json.dumps(budget)}, at_most = 6 }}
sample_period_s = 0.2

"""
    for name, command, by in zip(names, commands, access, strict=True):
        folder = _folder(command, site, by)
        reads = f"reads = {json.dumps(folder)}  # caches are emptied of the files in it"
        if not folder:
            reads = "# caches are not emptied: it names no file that this access method leads to"
        yield f"""\
[workloads.{name}]
client = "command"
replicas = "{name}"
access = [{json.dumps(by)}]
options = {{ command = {json.dumps(command, ensure_ascii=False)} }}

[replicas.{name}]
kind = "streamed"
count = {jobs}
{reads}
"""
    if len(set(access)) == 1:
        yield '[report]\nlines = "workload"\n'


def _access(command: str, site: Site) -> str:
    """The access method that leads to the server or the mount which is named in a command."""
    able = [name for name in site.access if any(_leads(site, name, word) for word in _words(command))]
    if len(able) == 1:
        return able[0]
    what = f"by any of {', '.join(able)}" if able else "by none of the site's access methods"
    why = "" if able else f" (site {site.name} must name the server or the mount for its storage to be sampled)"
    possible = ", ".join(able or site.access)
    raise ConfigError(f"{printable(command)}: reads {what}; choose with --access: {possible}{why}")


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command, comments=True)
    except ValueError:  # an apostrophe alone, say
        words = command.split()
    return [BEFORE_A_FILE.sub("", word) for word in words]


def _folder(command: str, site: Site, name: str) -> str:
    """Where the storage has the files that a command reads by an access method."""
    word = next((word for word in _words(command) if _leads(site, name, word)), "")
    path = urlsplit(word).path if "://" in word else word.removeprefix(site.access[name].prefix)
    folder = os.path.normpath("/" + path.lstrip("/")).rpartition("/")[0] if word else ""
    if folder and not AbsolutePath.fits(folder):  # a pattern's own folders cannot be emptied of
        must_be = f"must be {AbsolutePath.must_be}, not {shown(folder)}; {{n}} may stand in the file's name"
        emptied = "before each trial caches are emptied of the files in one folder"
        raise ConfigError(f"{printable(command)}: {emptied}, which {must_be}")
    return folder


def _leads(site: Site, name: str, word: str) -> bool:
    """Whether a word is a file on a server, or below a mount, of an access method."""
    access = site.access[name]
    if "://" in word:
        return (server := _server(word)) is not None and server in map(_server, access.prefixes)
    if access.protocol != "file" or not word.startswith("/"):
        return False
    if access.prefix:
        return PurePath(word).is_relative_to(access.prefix)
    return os.path.commonpath([word, access.replicas or site.storage.replicas]) != "/"


def _server(url: str) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or USUAL_PORTS.get(parts.scheme)
    except ValueError:  # as of a port that is no number
        return None
