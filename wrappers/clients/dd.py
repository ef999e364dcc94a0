"""dd reads through a mount, block by block."""

import re
from typing import Any

from tierbench.wrappers.child import Failure, Run
from tierbench.wrappers.client import CHECKSUM, FIRST_BLOCK, Option, SummedClient


class Dd(SummedClient):
    """The CHEP paper's dd."""

    protocols = ("file",)
    reads_whole = True
    usual_excess = 0.01
    programs = ("dd",)
    remedy = "install coreutils there"
    options = {"block_kb": Option(1024, 1, 1_048_576, meaning="size of a read"), **CHECKSUM}

    def prepare(self) -> None:
        if self.job.remote:
            raise Failure("wrong-protocol", f"dd reads files, not {self.job.url}")

    def command(self) -> "list[str]":
        into = [] if self.job.options["checksum"] else ["of=/dev/null"]
        return ["dd", f"if={self.job.path}", *into, f"bs={self.job.options['block_kb']}K"]

    def has_begun(self, read: int, written: int) -> bool:
        return read > FIRST_BLOCK if self.job.options["checksum"] else written > 0  # a block has gone to /dev/null

    def outcome(self, run: Run) -> "dict[str, Any]":
        if self.job.options["checksum"]:
            return {"bytes_source": "adler32", **self.summed(run)}
        counts = re.search(r"^(\d+) bytes", run.stderr, re.MULTILINE)
        complaint = re.search(r"^dd: .*", run.stderr, re.MULTILINE)  # its counts come after it
        run = run._replace(stderr=complaint.group()) if complaint else run
        return {
            **self.judged(run, int(counts.group(1)) if counts else None), "bytes_source": "dd",
            "bytes_client": run.written_beside_words, "detail": {"block_kb": self.job.options["block_kb"]},
        }  # fmt: skip
