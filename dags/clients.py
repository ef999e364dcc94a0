"""Clients' files, those that come with tierbench and the users' own, and workloads: a client at work on replicas.

A client's options are declared in its file, and only there.
For root a child process that is nobody loads a user's file: root runs nothing of it, and asks what it declares. The
child answers as long as it is asked, in Python literals, and ends with its pipe.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import hashlib
import importlib.util
import keyword
import math
import multiprocessing
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

import tierbench.wrappers.clients
from tierbench import checked_text, files
from tierbench.checked_text import Key, Kind, LocalFile, Value, VariableName, printable, shown
from tierbench.dags.credentials import Secret
from tierbench.dags.measure import MEASURES
from tierbench.dags.trial_settings import WorkKeys
from tierbench.errors import ConfigError, refuse
from tierbench.spec import bounded
from tierbench.wrappers.child import UsageError
from tierbench.wrappers.client import PACKAGE, Client, Option, check_value, client_in

FOLDER = Path(tierbench.wrappers.clients.__file__).parent
NAME = re.compile(r"[a-z][a-z0-9_]*")

NOBODY = 65534
PATIENCE_S = 30.0
MOST_BYTES = 1 << 20
REFUSALS: dict[str, type[Exception]] = {"usage": UsageError, "value": ValueError}
PLAIN = (str, int, float, tuple, type(None))
OPTIONS = (bool, int, float, str, tuple)  # what their values may be
DECLARED = [name for name, value in vars(Client).items() if name[0] != "_" and isinstance(value, PLAIN)]
ASKED = [name for name, value in vars(Client).items() if isinstance(value, classmethod)]
ASKED = [name for name in ASKED if name not in ("traits", "with_defaults")]  # which ask the others
LEAST = {"entries": 0, "memory": 1, "further_memory": 0, "several": 1, "at_once": 1}  # that those of ASKED may answer


@dataclass(frozen=True)
class ClientFile:
    """A client's file, and what it declares."""

    name: str
    path: Path
    client: type[Client]

    @property
    def module(self) -> str:
        return f"{PACKAGE}.{self.name}"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def ships(self) -> list[Path]:
        return [self.path.parent / name for name in self.client.ships]


@cache
def shipped_clients() -> dict[str, ClientFile]:
    return {path.stem: _loaded(path) for path in sorted(FOLDER.glob("[a-z]*.py"))}


def is_path(client: str) -> bool:
    return "/" in client or client.endswith(".py")


def find_client_file(name_or_path: str) -> ClientFile:
    """The client that an experiment names, or that lies where it says."""
    shipped = shipped_clients()
    if not LocalFile.fits(name_or_path):
        raise ConfigError(f"a client must be a name or {LocalFile.must_be}, not {shown(name_or_path)}")
    if not is_path(name_or_path):
        return shipped[name_or_path]
    path = Path(name_or_path)
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; a client of your own is a Python file (docs/clients.md)")
    if not NAME.fullmatch(path.stem) or path.suffix != ".py":
        raise ConfigError(f"{path}: a client's file is called by small letters, digits and _, like my_client.py")
    if path.stem in shipped:
        raise ConfigError(f'{path}: a client "{path.stem}" comes with tierbench; call this one otherwise')
    file = _loaded(path)
    absent = [shipped for shipped in file.ships if not shipped.is_file() or shipped.parent != path.parent]
    if absent:
        raise ConfigError(f"{path}: ships {absent[0].name}, which is not beside it")
    return file


def as_parts(files: Iterable[ClientFile]) -> dict[str, str]:
    return {file.module: file.text for file in files}


def allowed() -> Path:
    """The file that lists the clients which this user has allowed, by their digests, and folders of clients."""
    return Path(os.environ.get("TIERBENCH_ALLOWED") or Path.home() / ".config/tierbench/allowed")


def digest_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _ask_about(path: Path, text: bytes) -> None:
    """A client is a program, which runs here when it is read: one that nobody has allowed yet is asked about."""
    digest, lines, lists = digest_of(text), [], allowed()
    with contextlib.suppress(FileNotFoundError):
        lines = files.read_text(lists).split("\n")
    folders = map(str, path.resolve().parents)
    if digest in (line.partition(" ")[0] for line in lines) or any(folder in lines for folder in folders):
        return
    who = "nobody" if os.geteuid() == 0 else "you"
    program = printable(str(path))
    warning = f"{program}: is a program that has not been allowed yet, and would run here as {who} when read"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(f"{warning}; read it, then allow it at a terminal, or by a line in {lists}: {digest}")
    print(f"{warning}. Allow it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError(f"{path}: was not allowed, so nothing was read of it")
    lists.parent.mkdir(parents=True, exist_ok=True)
    files.replace(lists, "\n".join([*filter(None, lines), f"{digest} {program}", ""]), 0o600)


def _loaded(path: Path) -> ClientFile:
    name = f"{PACKAGE}.{path.stem}"
    if path.parent == FOLDER:
        return ClientFile(path.stem, path, client_in(importlib.import_module(name)))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: S101 - of a file called .py there is one
    module = importlib.util.module_from_spec(spec)
    text = files.read_bytes(path)
    _ask_about(path, text)

    def load() -> type[Client]:
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - what was allowed, and no cached other
        return client_in(module)

    try:
        client = load_as_nobody(load, path) if os.geteuid() == 0 else load()
        refuse(_misdeclared(client), str(path))
        return ClientFile(path.stem, path, client)
    except ConfigError:
        raise
    except UsageError as error:
        raise ConfigError(str(error)) from None
    except Exception as error:  # whatever a user's own program can run into
        raise ConfigError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from None


def _misdeclared(client: type[Client]) -> Iterator[str]:
    """What would be found out only when a trial is judged, or not at all."""
    for name in DECLARED:
        usual, own = getattr(Client, name), getattr(client, name)
        kind: Any = tuple if name in ("protocols", "kinds") else type(usual)
        possible = (int, float) if kind in (int, float) else kind
        if name != "has_begun" and own is not usual and not isinstance(own, possible):
            yield f"{name}: must be a {kind.__name__}, not {own!r}"
    if isinstance(client.usual_excess, int | float) and not 0 <= client.usual_excess <= 1:
        yield f"usual_excess: must be a share in 0 … 1, as 0.05 for 5 %, not {client.usual_excess}"
    if client.does not in MEASURES:
        yield f"does: must be one of {', '.join(MEASURES)}, not {client.does!r}"
    if client.taken_in not in ("bytes_client", "bytes_app"):
        yield f"taken_in: must be bytes_client or bytes_app, not {client.taken_in!r}"
    for name, option in client.options.items():
        for problem in _wrong_option(name, option):
            yield f"option {name!r}: {problem}"


def _wrong_option(name: str, option: Any) -> Iterator[str]:
    if not name.isidentifier() or keyword.iskeyword(name):
        yield "a name has letters, digits and _, and is no keyword of Python"
    if name in Client.FOR_ALL:
        yield "each client gets one of this name from the site or its workload; call it otherwise"
    if not isinstance(option, Option):
        yield f"must be an Option(default, least, most), not {option!r}"
    elif type(option.default) not in OPTIONS:
        yield f"its default must be {', '.join(kind.__name__ for kind in OPTIONS)}, not {option.default!r}"
    elif not option.needed:
        try:
            check_value(name, option.default, option)
        except (UsageError, TypeError) as error:
            yield f"its default does not fit: {error}"


def _wrong_answers(client: type[Client], options: dict[str, Any]) -> Iterator[str]:
    """What its methods answer that nobody can count with: found out when the plan is made, not after the run."""
    if (does := client.doing(options)) not in MEASURES:
        yield f"doing() must return one of {', '.join(MEASURES)}, not {does!r}"
    if not isinstance(settles := client.settles(options), bool):
        yield f"settles() must return True or False, not {settles!r}"
    for name, least in LEAST.items():
        answer = getattr(client, name)(options)
        if not isinstance(answer, int | float) or not least <= answer < math.inf:
            yield f"{name}() must return a number, at least {least}, not {answer!r}"


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
    fields_of = declared.pop("options").items()
    options = {name: Option(*fields) if isinstance(fields, tuple) else fields for name, fields in fields_of}
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
                if not method:
                    named = ((name, getattr(client, name)) for name in DECLARED)
                    declared: dict[str, Any] = {
                        name: value for name, value in named if isinstance(value, (*PLAIN, list))
                    }
                    declared["options"] = {
                        name: tuple(option) if isinstance(option, Option) else repr(option)
                        for name, option in client.options.items()
                    }
                answer = "answer", getattr(client, method)(argument) if method else declared
            except UsageError as error:
                answer = "usage", str(error)
            except ValueError as error:
                answer = "value", str(error)
            except Exception as error:  # whatever a user's own program can run into
                answer = "failed", f"{type(error).__name__}: {error}"
            asker.send_bytes(repr(answer).encode())
    finally:
        os._exit(0)


@dataclass(frozen=True, kw_only=True)
class Workload(WorkKeys):
    """A client and the replicas that it reads; its own ladder and accesses where they differ.

    `environment` holds variables for the reading process, like XRD_STREAMTIMEOUT, or where their values are.
    """

    client: LocalFile
    replicas: Key
    batches: tuple[int, ...] | None = None
    access: tuple[Key, ...] | None = None
    options: Any
    environment: dict[VariableName, Value | Secret] = field(default_factory=dict)
    memory_mb: int | None = bounded(None, 16, 1_048_576)
    file: ClassVar[ClientFile]

    @property
    def declared(self) -> type[Client]:
        return self.file.client

    @property
    def does(self) -> str:
        return self.declared.doing(dataclasses.asdict(self.options))

    @property
    def entries(self) -> int:
        return self.declared.entries(dataclasses.asdict(self.options))

    def asks_mb(self, processes: int) -> int:
        """The memory that HTCondor is asked for, for each job of so many processes."""
        options = dataclasses.asdict(self.options)
        further = (processes - 1) * self.declared.further_memory(options)
        return self.memory_mb or math.ceil(self.declared.memory(options) + further)

    @property
    def option_files(self) -> dict[str, str]:
        return {name: getattr(self.options, name) for name, option in self.declared.options.items() if option.file}


@cache
def workload_class(file: ClientFile) -> type[Workload]:
    """The class of workloads with this client; its options are a dataclass, which a TOML table is checked against."""

    def check(options: Any) -> None:
        chosen = dataclasses.asdict(options)
        try:
            file.client.check(chosen)
            refuse(_wrong_answers(file.client, chosen), str(file.path))
        except (ConfigError, ValueError):
            raise
        except Exception as error:  # whatever a user's own program can run into
            raise ConfigError(f"{file.path}: {type(error).__name__}: {error}") from None

    name = file.client.__name__
    fields = [(key, *_declared_field(file, key, option)) for key, option in file.client.options.items()]
    frozen = partial(dataclasses.make_dataclass, frozen=True, kw_only=True)
    options = frozen(f"{name}Options", fields, namespace={"__post_init__": check})
    needs = any(option.needed for option in file.client.options.values())
    own = [("options", options, field() if needs else field(default_factory=options))]
    return frozen(f"{name}Workload", own, bases=(Workload,), namespace={"file": file})


def _declared_field(file: ClientFile, name: str, option: Option) -> tuple[Any, Any]:
    """An option's type, which for a text is its kind, and the field that holds its default and bounds."""
    kind: Any = getattr(checked_text, option.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, Kind)):
        where = "in tierbench/checked_text.py"
        raise ConfigError(f"{file.path}: option {name}: there is no kind of text {option.kind!r} {where}")
    kind = LocalFile if option.file else kind
    default = option.default
    type_: Any = type(default)
    if isinstance(default, tuple):
        type_, default = types.GenericAlias(tuple, (kind, ...)), tuple(map(kind, default))
    elif option.choices:
        type_ = Literal[option.choices]
    elif option.words:
        type_ = Literal[option.words] | float
    elif isinstance(default, str):
        type_, default = kind, None if option.needed else kind(default)
    low, high = (-math.inf if option.low is None else option.low), (math.inf if option.high is None else option.high)
    return type_, bounded(dataclasses.MISSING if option.needed else default, low, high)
