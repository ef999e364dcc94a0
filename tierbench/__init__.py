"""Tierbench turns a question about storage access into HTCondor DAGs, tables and a verdict."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("tierbench")
except PackageNotFoundError:  # run from a bare source tree, as on the testbed's access point
    __version__ = "0+source"
