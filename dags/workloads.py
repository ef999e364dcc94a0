"""Workloads: a client at work on replicas. What a client can be told is declared in its own file, and only there."""

from __future__ import annotations

import dataclasses
import math
import types
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, ClassVar, Literal

from tierbench import checked_text
from tierbench.checked_text import Key, Kind, LocalFile, Value, VariableName
from tierbench.dags.clients import ClientFile
from tierbench.dags.credentials import Secret
from tierbench.dags.trial_settings import WorkKeys
from tierbench.errors import ConfigError
from tierbench.spec import bounded
from tierbench.wrappers.client import Client, Option


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

    def asks_mb(self, processes: int = 1) -> int:
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
        file.client.check(dataclasses.asdict(options))

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
    elif option.words:
        type_ = Literal[option.words] | float
    elif isinstance(default, str):
        type_, default = kind, None if option.needed else kind(default)
    low, high = (-math.inf if option.low is None else option.low), (math.inf if option.high is None else option.high)
    return type_, bounded(dataclasses.MISSING if option.needed else default, low, high)
