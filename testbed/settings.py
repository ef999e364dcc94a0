"""What a user can choose about a testbed, the [testbed] table of a site file, and what an experiment asks of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tierbench import json_files
from tierbench.dags.experiment import SHIPPED as EXPERIMENTS
from tierbench.dags.experiment import lineage
from tierbench.errors import BusyError, ConfigError
from tierbench.spec import bounded, build, find_definition, merge_tables, read_toml

SUFFIX = ".testbed.toml"  # what an experiment NAME demands lies beside it in NAME.testbed.toml
MOST_WORKERS = 150  # the addresses that a site's network has for them


@dataclass(frozen=True)
class Rates:
    """Line rates in Mb/s, in both directions."""

    wan: int = bounded(1000, 1, 100_000)
    storage: int = bounded(800, 1, 100_000)
    server: int = bounded(1000, 1, 100_000)
    gateway: int = bounded(1000, 1, 100_000)
    metadata: int = bounded(1000, 1, 100_000)
    worker: int = bounded(100, 1, 100_000)
    disk: int = bounded(0, 0, 100_000)  # what a worker reads from its own; 0: as fast as this machine's is


@dataclass(frozen=True)
class Settings:
    """One testbed; two with equal settings are alike."""

    private_workers: int = bounded(2, 0, 99)
    public_workers: int = bounded(2, 0, 99)
    virtual_workers: int = bounded(0, 0, 1)  # at each of the two sites
    near_workers: int = bounded(0, 0, 1)  # beside the storage: a plain one, and one behind a user's network
    far_workers: int = bounded(0, 0, 9)  # at a third site, with an object server
    proxies: int = bounded(0, 0, 4)  # at each of the two sites, and as many workers beside the storage
    proxy_core: float = bounded(0.0, 0, 16)  # CPU of a proxy, in cores for each process of its Squid; 0: no limit
    redirector: int = bounded(0, 0, 1)  # of XRootD, before the server beside the storage
    software_mounts: int = bounded(0, 0, 1)  # on the public workers, of ROOT by HTTP
    token_door: int = bounded(0, 0, 1)  # doors of XRootD with TLS, open and for tokens, and their issuer
    xrootd_copies: int = bounded(0, 0, 1)  # doors of XRootD on vmuf and dgt, by which files go from server to server
    slots_per_worker: int = bounded(96, 1, 1000)
    suite: Literal["trixie", "forky"] = "trixie"
    rtt_ms: float = bounded(14.0, 0, 2000)
    rates_mbps: Rates = field(default_factory=Rates)
    congestion_control: Literal["cubic", "reno", "bbr"] = "cubic"
    tcp_buffer_mb: int = bounded(64, 1, 1024)
    read_ahead_kb: int = bounded(16384, 4, 65536)
    storage_nics: int = bounded(1, 1, 8)
    storage_gb: int = bounded(10, 1, 10_000)
    squid_workers: int = bounded(1, 1, 16)

    def __post_init__(self) -> None:
        if self.private_workers + self.public_workers > MOST_WORKERS:
            raise ValueError(f"private_workers and public_workers: together at most {MOST_WORKERS}")
        if self.software_mounts and self.suite == "forky":
            raise ValueError("software_mounts: Debian forky has no rclone, which mounts them; take trixie")

    @property
    def has_xrootdfs(self) -> bool:
        """Whether the suite's XRootD still has its FUSE client, which XRootD 6 gave up."""
        return self.suite == "trixie"


def load(path: Path, overrides: list[str]) -> Settings:
    """The [testbed] table of a site file, with `key=value` overrides from the command line."""
    tables = read_toml(path)
    if "testbed" not in tables:
        raise ConfigError(f"{path}: has no [testbed] table, so it does not describe a testbed")
    table = tables["testbed"]
    for override in overrides if isinstance(table, dict) else ():
        _override(table, override)
    source = f"{path} with --set {' '.join(overrides)}" if overrides else str(path)
    return build(Settings, table, source, "testbed")


def recorded(path: Path) -> Settings:
    """The settings that were left with a run."""
    table = json_files.read_table(path)
    return build(Settings, {key: value for key, value in table.items() if key != "format"}, str(path))


def _override(table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"--set {override}: must be KEY=VALUE, for example rtt_ms=53")
    *parents, name = key.strip().split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override}: {parent} is not a table")
    table[name] = _literal(text.strip())


def _literal(text: str) -> Any:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def demands(experiment: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """What an experiment, or the nearest one that it extends, demands; with `key=value` overrides."""
    above = lineage(find_definition("experiment", EXPERIMENTS, experiment))
    files = (path.with_name(f"{path.stem}{SUFFIX}") for path in above)
    file = next(filter(Path.is_file, files), None)
    needed = read_toml(file) if file else {}
    build(Settings, needed, str(file))
    for override in overrides:
        _override(needed, override)
    return needed


def with_demands(settings: Settings, needed: Mapping[str, Any], source: str) -> Settings:
    """The settings with what is demanded."""
    return build(Settings, merge_tables(asdict(settings), needed), source, "testbed")


def check_demands(settings: Settings, needed: Mapping[str, Any], name: str) -> None:
    """Raise unless a testbed that is up is what is demanded."""
    if with_demands(settings, needed, name) != settings:
        options = " ".join(_options(needed))
        raise BusyError(
            f"testbed {name!r} is up, and is not what this experiment needs ({options}); give --name another one, which"
            f" is brought up so, or take it down first"
        )


def _options(table: Mapping[str, Any], prefix: str = "--set ") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _options(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={value}"
