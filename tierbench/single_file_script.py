"""Joins a script of several parts into one file, which runs wherever there is Python 3.6 or newer.

A trial has hundreds of jobs, so a file more for each is a file too many; and what goes over ssh to `python3 -` can be
but one. The parts keep their names: they import one another as they do in the package, and are found in the file.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tierbench.errors import TierbenchError

QUOTES = "'''"
IMPORT = re.compile(r"^ *from (tierbench(?:\.[\w.]+)?) import (?:\((.*?)\)|([^(\n]*))", re.MULTILINE | re.DOTALL)
LOADER = '''\
import importlib.machinery
import sys

PARTS = {}  # by their names as modules, as they lie in the package


class Parts:
    """Imports the parts out of this file; importlib.abc would take longer to import than they do."""

    def find_spec(self, name, path=None, target=None):
        folder = any(part.startswith(name + ".") for part in PARTS)
        return importlib.machinery.ModuleSpec(name, self, is_package=folder) if folder or name in PARTS else None

    def create_module(self, spec):
        return None  # an ordinary one

    def exec_module(self, module):
        module.__file__ = globals().get("__file__", "-")
        source = PARTS.get(module.__name__, "")
        exec(compile(source, module.__name__.replace(".", "/") + ".py", "exec"), module.__dict__)


sys.meta_path.insert(0, Parts())
'''


def single_file(entry: str, more: Mapping[str, str] | None = None) -> str:
    """The text of a script: a module that runs, more of them with their texts, all that they import of tierbench."""
    parts = _needed(entry, more or {})
    source = parts.pop(entry)
    if not parts:
        return source
    quoted = []
    for name, text in parts.items():
        if QUOTES in text:
            raise TierbenchError(f"{name}: holds {QUOTES}, which the script that it is shipped in uses itself")
        quoted.append(f"PARTS[{name!r}] = r{QUOTES}{text}{QUOTES}\n")
    docstring_end, lines = ast.parse(source).body[0].end_lineno, source.splitlines(keepends=True)
    body = "".join(lines[docstring_end:]).lstrip("\n")
    return "\n".join(["".join(lines[:docstring_end]), LOADER, *quoted, body])


def _needed(entry: str, more: Mapping[str, str]) -> dict[str, str]:
    """The texts of these modules and of all that they import of tierbench, each once."""
    texts: dict[str, str] = {}
    waiting = [entry, *more]
    while waiting:
        name = waiting.pop(0)
        if name not in texts:
            texts[name] = more[name] if name in more else _source(name)
            waiting += _imported(texts[name])
    return texts


def _imported(text: str) -> Iterator[str]:
    """The modules of tierbench that a module imports, or of which it imports something."""
    for package, *lists in IMPORT.findall(text):
        if package == "tierbench":
            yield from (f"tierbench.{name}" for name in re.findall(r"\w+", "".join(lists).partition("#")[0]))
        else:
            yield package


def _source(name: str) -> str:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise TierbenchError(f"{name}: there is no such part of tierbench")
    return Path(spec.origin).read_text(encoding="utf-8")
