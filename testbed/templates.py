"""The configuration files that the testbed's hosts are given; they lie in files/."""

from importlib import resources
from string import Template

FILES = resources.files("tierbench.testbed") / "files"


def verbatim(name: str) -> str:
    """A file as it is."""
    return (FILES / name).read_text(encoding="utf-8")


def filled(name: str, **values: object) -> str:
    """A file with its $names replaced."""
    return Template(verbatim(name)).substitute(values)
