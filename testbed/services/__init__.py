"""The services of the testbed, which the files of this folder declare, and the hosts that there are with them."""

import pkgutil
from importlib import import_module

from tierbench.testbed.service import Service
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import Topology, with_workers

_modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
_declared = [value for module in _modules for value in vars(module).values() if isinstance(value, Service)]
SERVICES = tuple(dict.fromkeys(_declared))  # each once, who else may have imported it


def services(settings: Settings) -> list[Service]:
    """Those of a testbed with such settings."""
    return [service for service in SERVICES if service.wanted(settings)]


def topology(settings: Settings) -> Topology:
    """The hosts of a testbed with such settings."""
    return with_workers(settings, [host for service in services(settings) for host in service.machines(settings)])
