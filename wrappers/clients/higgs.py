"""A Higgs to four leptons selection, a program in ROOT: bound by what it computes."""

from tierbench.wrappers.client import Option
from tierbench.wrappers.clients.root import Root, cache_mb


class Higgs(Root):
    """More combinatorics make it slower and change nothing else.

    `cpu_s_per_mb` says how slow it is, whatever the processor: as many combinatorics as that takes.
    """

    program = "higgs"
    kinds = ("higgs", "copies")
    ships = ("higgs.C", "replica.h", "ntuple.h")
    options = {
        "combinatorics": Option(20, 1, 10_000, meaning="how often each event's leptons are paired"),
        "cpu_s_per_mb": Option(0.0, 0, 1000, meaning="CPU seconds to spend on a megabyte; 0: combinatorics decides"),
        **{name: Root.options[name] for name in ("cache_mb", "tree", "starting", "setup")},
    }

    def arguments(self) -> "list[str | float | bool]":
        options = self.job.options
        slower = options["core"] / options["scale"]  # where a model's links are slower, so is its computing
        computing = options["cpu_s_per_mb"] * slower
        return [options["tree"], options["combinatorics"], cache_mb(options), computing, options["core"]]
