"""A line of shell that writes what it reads to its standard output, where it is counted (`tierbench try`)."""

import re
from typing import Any

from tierbench.wrappers.child import Run
from tierbench.wrappers.client import FIRST_BLOCK, Option, SummedClient

NUMBER = re.compile(r"(\d+)\D*$")


class Command(SummedClient):
    """Runs anything; how many bytes it ought to read is not known, so only none at all is too few."""

    protocols = None
    kinds = ("streamed",)
    options = {"command": Option("", needed=True, kind="Shell", meaning="{n} in it is the client's number, from 1")}

    def command(self) -> "list[str]":
        number = NUMBER.search(self.job.url)
        return ["sh", "-c", self.job.options["command"].replace("{n}", str(int(number.group(1))) if number else "1")]

    def held_command(self) -> "list[str] | None":
        return self.counting(compared=False)

    def has_begun(self, read: int, written: int) -> bool:
        return read > FIRST_BLOCK

    def outcome(self, run: Run) -> "dict[str, Any]":
        end = {"bytes_source": "standard output", **self.summed(run, compared=False)}
        if end["status"] == "ok" and not end["bytes_app"]:
            nothing = "wrote nothing to its standard output, where what it reads is counted: let it write there"
            end.update(status="failed", message=nothing)
        return end
