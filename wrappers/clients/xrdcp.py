"""xrdcp, XRootD's own copy command, copies to nowhere."""

import contextlib
from typing import Any

from tierbench.wrappers.checksum import CHECKSUM, FIRST_BLOCK, SummedClient
from tierbench.wrappers.child import Run
from tierbench.wrappers.client import Option
from tierbench.wrappers.failure import Failure
from tierbench.wrappers.patience import run_program

HOUSEKEEPING = 64 * 1024  # it writes some hundred bytes to its own event descriptors
LIBRARIES = 128 * 1024  # it reads some ten kilobytes of them, and of its configuration, before it connects


class Xrdcp(SummedClient):
    """Copies to /dev/null. It fails by itself if less comes than the server has said the file holds."""

    protocols = ("xrootd",)
    reads_whole = True
    usual_excess = 0.01
    programs = ("xrdcp",)
    remedy = "install xrootd-client there"
    options = {"streams": Option(1, 1, 15), **CHECKSUM}
    version: "str | None" = None

    def prepare(self) -> None:
        if not self.job.remote:
            raise Failure("wrong-protocol", f"xrdcp is to read by XRootD, not {self.job.url}")
        with contextlib.suppress(OSError):
            self.version = run_program("xrdcp", "--version").output.strip() or None

    def command(self) -> "list[str]":
        streams = self.job.options["streams"]
        several = ["--streams", str(streams)] if streams > 1 else []
        return ["xrdcp", "-f", "--nopbar", *several, self.job.url, "-" if self.job.options["checksum"] else "/dev/null"]

    def has_begun(self, read: int, written: int) -> bool:
        return read > (FIRST_BLOCK if self.job.options["checksum"] else LIBRARIES)

    def outcome(self, run: Run) -> "dict[str, Any]":
        if self.job.options["checksum"]:
            end = self.summed(run)
            end.setdefault("detail", {}).update(streams=self.job.options["streams"], xrootd_version=self.version)
            return {"bytes_source": "adler32", **end}
        written = None if run.written_bytes is None else run.written_bytes - run.stderr_bytes
        return {
            **self.judged(run, written, HOUSEKEEPING),
            "bytes_source": "proc-io",
            "bytes_client": run.read_bytes,
            "detail": {"streams": self.job.options["streams"], "xrootd_version": self.version},
        }
