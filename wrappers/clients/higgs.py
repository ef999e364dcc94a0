"""A Higgs to four leptons selection, a program in ROOT: bound by what it computes."""

from tierbench.wrappers.client import Option
from tierbench.wrappers.clients.root import Root


class Higgs(Root):
    """More combinatorics make it slower and change nothing else."""

    program = "higgs"
    kinds = ("higgs", "copies")
    usual_excess = 0.03
    ships = ("higgs.C", "replica.h")
    options = {
        "combinatorics": Option(20, 1, 10_000),
        **{name: Root.options[name] for name in ("cache_mb", "tree", "setup")},
    }

    def arguments(self) -> "list[str | float | bool]":
        return [self.job.options["tree"], self.job.options["combinatorics"], self.job.options["cache_mb"]]
