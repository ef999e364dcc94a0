"""A client's file, loaded by a child process that is nobody: root runs nothing of it, and asks what it declares.

The child answers as long as it is asked, in Python literals, and ends with its pipe.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
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
    ours, theirs = multiprocessing.Pipe()
    if os.fork() == 0:
        _serve(load, theirs.fileno())
    theirs.close()

    def ask(method: str, argument: Any = None) -> Any:
        try:
            ours.send_bytes(repr((method, argument)).encode())
            if not ours.poll(PATIENCE_S):
                raise ConfigError(f"{path}: has not said within {PATIENCE_S:.0f} s what it declares")
            kind, answer = ast.literal_eval(ours.recv_bytes(MOST_BYTES).decode())
        except (EOFError, OSError):
            raise ConfigError(f"{path}: ended, or said too much, when it was asked what it declares") from None
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


def _serve(load: Callable[[], type[Client]], pipe: int) -> NoReturn:
    """Answer, as nobody and with nothing of root's open, neither its files nor its terminal."""
    try:
        os.setsid()
        os.dup2(pipe, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.chdir("/")
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        client: type[Client] | None = None
        asker = Connection(3)
        while True:
            method, argument = ast.literal_eval(asker.recv_bytes().decode())
            try:
                client = client or load()
                answer = "answer", getattr(client, method)(argument) if method else _declaration(client)
            except UsageError as error:
                answer = "usage", str(error)
            except ValueError as error:
                answer = "value", str(error)
            except Exception as error:  # whatever a user's own program can run into
                answer = "failed", f"{type(error).__name__}: {error}"
            asker.send_bytes(repr(answer).encode())
    finally:
        os._exit(0)


def _declaration(client: type[Client]) -> dict[str, Any]:
    declared = {name: getattr(client, name) for name in DECLARED if isinstance(getattr(client, name), PLAIN)}
    return {**declared, "options": {name: tuple(option) for name, option in client.options.items()}}
