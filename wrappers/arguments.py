"""What a client's command line says, and the files that it names."""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from tierbench.wrappers.credentials import add_arguments
from tierbench.wrappers.failure import UsageError
from tierbench.wrappers.work import Work

CREW_FLAG = "--crew"  # with which the script starts itself again, where a job is more than one read


def command_line(description: "str | None") -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trial", required=True, help="id of the trial, for the record")
    parser.add_argument("--index", required=True, type=int, metavar="N", help="which client this is, from 0")
    parser.add_argument("--clients", type=int, default=1, metavar="N", help="of how many (default 1)")
    parser.add_argument("--client", required=True, metavar="NAME", help="what reads: dd, xrdcp, root …")
    parser.add_argument("--replicas", required=True, type=Path, help="the clients' files in turn: URL TAB BYTES")
    parser.add_argument("--gate", metavar="FILE", help="begin at the time that this file of the access point gives")
    parser.add_argument("--gate-timeout", type=float, default=900, metavar="S", help="give up after this (default 900)")
    parser.add_argument("--timeout", type=int, default=7200, metavar="S", help="end the read after this (default 7200)")
    parser.add_argument(
        "--options", default="{}", help='the client\'s own: JSON, or a JSON file with "options" and "work"'
    )
    add_arguments(parser)
    parser.add_argument("--pin", action="store_true", help="keep to one core, which no other client of the host has")
    parser.add_argument("--strict", action="store_true", help="exit with 1 unless the status is ok")
    arguments = parser.parse_args()
    if bool(arguments.keytab) != bool(arguments.principal):
        parser.error("--keytab and --principal need each other")
    return arguments


class Replica(NamedTuple):
    """What is to be read, or written, and what is known of it."""

    url: str
    bytes: "int | None"
    adler32: "str | None"
    offset: int = 0  # of what is written into a file that others write as well


def replicas(path: Path, index: int, each: int) -> "list[Replica]":
    """A client's replicas: so many lines of the list, after those of the clients before it."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"the list of replicas cannot be read: {error}") from None
    first, last = index * each, (index + 1) * each
    if index < 0 or last > len(lines):
        raise UsageError(f"{path}: has no line for client {index}, only {len(lines)} lines")
    return [_replica(path, number, lines[number]) for number in range(first, last)]


def _replica(path: Path, number: int, line: str) -> Replica:
    url, size, adler32, offset = [*line.split("\t"), "", "", ""][:4]
    if not url or not all(text.isdigit() for text in (size, offset) if text):
        raise UsageError(f"{path}: line {number + 1} is not URL TAB BYTES TAB ADLER32 TAB OFFSET: {line!r}")
    return Replica(url, int(size) if size else None, adler32 or None, int(offset or 0))


def read_definition(text: str) -> "tuple[dict[str, Any], Work]":
    """The client's own options and its work, given as JSON or as a file of it, for example trial.json."""
    try:
        table = json.loads(text if text.startswith("{") else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--options {text}: {error}") from None
    options = table.get("options", table) if isinstance(table, dict) else None
    if not isinstance(options, dict):
        raise UsageError(f"--options {text}: is no JSON object")
    try:
        return options, Work(**table.get("work", {}) if "options" in table else {})
    except TypeError as error:
        raise UsageError(f"--options {text}: work: {error}") from None
