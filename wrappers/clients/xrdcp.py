"""xrdcp, XRootD's own copy command, copies to nowhere, or has one server fetch from another (third party)."""

import contextlib
import re
from typing import Any

from tierbench.wrappers.child import Failure, Run, run_program
from tierbench.wrappers.client import CHECKSUM, FIRST_BLOCK, Option, SummedClient

HOUSEKEEPING = 64 * 1024  # it writes some hundred bytes to its own event descriptors
REQUESTS = 50_000  # by TLS it writes its requests too: some 50 bytes for each 8 MiB
SIZE = re.compile(r"^Size: +(\d+)$", re.MULTILINE)
LIBRARIES = 128 * 1024  # it reads some ten kilobytes of them, and of its configuration, before it connects


class Xrdcp(SummedClient):
    """Copies to /dev/null. It fails by itself if less comes than the server has said the file holds."""

    protocols = ("xrootd",)
    third_party = True
    reads_whole = True
    usual_excess = 0.01
    programs = ("xrdcp",)
    remedy = "install xrootd-client there"
    options = {"streams": Option(1, 1, 15, meaning="TCP connections"), **CHECKSUM}
    version: "str | None" = None

    def prepare(self) -> None:
        if not self.job.remote:
            raise Failure("wrong-protocol", f"xrdcp is to read by XRootD, not {self.job.url}")
        if self.job.target and self.job.options["checksum"]:
            raise Failure("failed", "what goes from server to server is read by nobody here who could make a checksum")
        with contextlib.suppress(OSError):
            self.version = run_program("xrdcp", "--version").output.strip() or None

    def command(self) -> "list[str]":
        streams = self.job.options["streams"]
        several = ["--streams", str(streams)] if streams > 1 else []
        into = self.job.target or ("-" if self.job.options["checksum"] else "/dev/null")
        third_party = ["--tpc", "only"] if self.job.target else []  # it would else fall back on copying by itself
        return ["xrdcp", "-f", "--nopbar", *several, *third_party, self.job.url, into]

    def has_begun(self, read: int, written: int) -> bool:
        return read > (FIRST_BLOCK if self.job.options["checksum"] else LIBRARIES)

    def outcome(self, run: Run) -> "dict[str, Any]":
        end: dict[str, Any] = {"bytes_source": "adler32", "detail": {}}
        if self.job.options["checksum"]:
            end.update(self.summed(run))
        elif self.job.target:
            moved = 0 if run.exit_status else self._size()
            end.update(self.judged(run, moved), bytes_source="xrdfs", bytes_client=None)
        else:
            moved = self._moved(run)
            end.update(self.judged(run, moved, max(HOUSEKEEPING, (moved or 0) // REQUESTS)))
            end.update(bytes_source="proc-io", bytes_client=run.read_bytes)
        end["detail"].update(streams=self.job.options["streams"], xrootd_version=self.version)
        return end

    def _moved(self, run: Run) -> "int | None":
        """What it has written; of a file that was cut what it has read, as it writes no less than 8 MB at once."""
        if run.exit_status >= 0 or run.read_bytes is None:
            return run.written_beside_words
        return max(run.written_beside_words or 0, run.read_bytes - LIBRARIES)

    def _size(self) -> "int | None":
        """What the server that has taken the file says of its size; in a hurry what xrdcp's success stands for."""
        if self.hurried and self.job.expected_bytes is not None:
            return self.job.expected_bytes
        scheme, _, rest = self.job.target.partition("://")
        door, _, path = rest.partition("/")
        with contextlib.suppress(OSError):
            match = SIZE.search(run_program("xrdfs", f"{scheme}://{door}", "stat", "/" + path.lstrip("/")).output)
            return int(match.group(1)) if match else None
        return None
