"""A checksum of what a client reads, taken while it reads: a replica whose content has changed is told."""

import json
import sys
from typing import Any

from tierbench.wrappers.child import Run
from tierbench.wrappers.client import Client, Option

CHECKSUM = {"checksum": Option(False, meaning="compares the content with the catalogue's adler32")}
FIRST_BLOCK = 65536  # more than it reads to start the program
# Says "ready" and waits as any child does; then runs the command, whose standard output is the data.
SUM = """
import json, os, subprocess, sys, zlib
ready = os.dup(1)
os.write(ready, b"ready\\n")
if not os.read(0, 1):
    sys.exit(125)
try:
    program = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
except OSError as error:
    sys.exit("{}: {}".format(sys.argv[2], error.strerror))
count, value = 0, 1
for block in iter(lambda: program.stdout.read(1 << 20), b""):
    count, value = count + len(block), zlib.adler32(block, value)
status = program.wait()
with open(sys.argv[1], "w") as report:
    json.dump([count, "{:08x}".format(value)], report)
sys.exit(status if status >= 0 else 128 - status)
"""


class SummedClient(Client):
    """A client whose command writes what it reads to standard output, if it is asked for a checksum."""

    options = CHECKSUM

    def held_command(self) -> "list[str] | None":
        if not self.job.options["checksum"]:
            return super().held_command()
        return [sys.executable or "python3", "-c", SUM, str(self.job.scratch / "checksum"), *self.command()]

    def summed(self, run: Run) -> "dict[str, Any]":
        """The record's end, from what came through the sum."""
        try:
            read, adler32 = json.loads((self.job.scratch / "checksum").read_text())
        except (OSError, ValueError):  # it was ended before it could tell
            return self.judged(run, 0 if run.exit_status else None)
        end = {**self.judged(run, read), "bytes_client": read, "detail": {"adler32": adler32}}
        if end["status"] == "ok" and adler32 != self.job.expected_adler32:
            end["status"], end["message"] = self._mismatch(adler32)
        return end

    def _mismatch(self, adler32: str) -> "tuple[str, str]":
        if self.job.expected_adler32 is None:
            return "failed", "no checksum to compare with: the catalogue was not at hand when the run was written"
        return "damaged", f"its adler32 is {adler32} where {self.job.expected_adler32} is catalogued"
