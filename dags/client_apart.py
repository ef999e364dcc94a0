"""A client's file, loaded by a child process that is nobody: root runs nothing of it, and asks what it declares.

The child answers as long as it is asked, one line of Python literals at a time, and ends with its pipes.
"""

from __future__ import annotations

import ast
import os
import select
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from tierbench.errors import ConfigError
from tierbench.wrappers.child import UsageError
from tierbench.wrappers.client import Client, Option

NOBODY = 65534
PATIENCE_S = 30.0
MOST_BYTES = 1 << 20
REFUSALS: dict[str, type[Exception]] = {"usage": UsageError, "value": ValueError}
PLAIN = (str, int, float, tuple, type(None))
DECLARED = [name for name, value in vars(Client).items() if name[0] != "_" and isinstance(value, PLAIN)]
ASKED = [name for name, value in vars(Client).items() if isinstance(value, classmethod)]
ASKED = [name for name in ASKED if name not in ("traits", "with_defaults")]  # which ask the others


def load_as_nobody(load: Callable[[], type[Client]], path: Path) -> type[Client]:
    """The client that `load` gives in a child process: what it declares, and methods that ask that process."""
    (asked, asks), (replies, tells) = os.pipe(), os.pipe()
    if os.fork() == 0:
        _serve(load, asked, tells)
    os.close(asked)
    os.close(tells)

    def ask(method: str, argument: Any = None) -> Any:
        os.write(asks, f"{(method, argument)!r}\n".encode())
        kind, answer = _read(replies, path)
        if kind in REFUSALS:
            raise REFUSALS[kind](answer)
        if kind != "answer":
            raise ConfigError(f"{path}: cannot be loaded: {answer} (as nobody, since you are root)")
        return answer

    def asking(method: str) -> classmethod[Client, Any, Any]:
        return classmethod(lambda _, argument: ask(method, argument))

    declared = ask("")
    options = {option: Option(*fields) for option, fields in declared.pop("options").items()}
    plain = {key: value for key, value in declared.items() if key in DECLARED}
    return type(path.stem, (Client,), {**plain, "options": options, **{method: asking(method) for method in ASKED}})


def _read(replies: int, path: Path) -> Any:
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([replies], [], [], PATIENCE_S)[0]:
            raise ConfigError(f"{path}: has not said within {PATIENCE_S:.0f} s what it declares")
        part = os.read(replies, 1 << 16)
        if not part or len(line) > MOST_BYTES:
            raise ConfigError(f"{path}: ended, or said too much, when it was asked what it declares")
        line += part
    return ast.literal_eval(line.decode())


def _serve(load: Callable[[], type[Client]], asked: int, tells: int) -> NoReturn:
    """Answer, as nobody and with nothing of root's open, neither its files nor its terminal."""
    try:
        os.setsid()
        os.dup2(asked, 3)
        os.dup2(tells, 4)
        os.closerange(5, os.sysconf("SC_OPEN_MAX"))
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.chdir("/")
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        client: type[Client] | None = None
        with open(3, encoding="utf-8") as questions:
            for question in questions:
                method, argument = ast.literal_eval(question)
                try:
                    client = client or load()
                    answer = "answer", getattr(client, method)(argument) if method else _declaration(client)
                except UsageError as error:
                    answer = "usage", str(error)
                except ValueError as error:
                    answer = "value", str(error)
                except Exception as error:  # whatever a user's own program can run into
                    answer = "failed", f"{type(error).__name__}: {error}"
                os.write(4, f"{answer!r}\n".encode())
    finally:
        os._exit(0)


def _declaration(client: type[Client]) -> dict[str, Any]:
    declared = {name: getattr(client, name) for name in DECLARED if isinstance(getattr(client, name), PLAIN)}
    return {**declared, "options": {name: tuple(option) for name, option in client.options.items()}}
