"""The errors a user can act upon; the command line prints them without a traceback."""

from __future__ import annotations

from collections.abc import Iterable


class TierbenchError(Exception):
    """Something went wrong that its message explains: what, where, and what to do next."""

    exit_status = 1


class ConfigError(TierbenchError):
    """A configuration file, or a setting given on the command line, cannot be used."""

    exit_status = 2


def refuse(problems: Iterable[str], where: str = "") -> None:
    """Raise one ConfigError that tells all problems, if there are any."""
    lines = [f"{where}: {problem}" if where else problem for problem in problems]
    if lines:
        raise ConfigError("\n".join(lines))


class UnmetNeed(TierbenchError):
    """This machine lacks something without which nothing was started or changed."""

    exit_status = 3


class HostError(TierbenchError):
    """A command failed on a testbed host, or a daemon there did not come up."""


class BusyError(TierbenchError):
    """Somebody else is at work on the same thing."""

    exit_status = 4
