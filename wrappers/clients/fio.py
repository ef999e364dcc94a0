"""Reads or writes a file from end to end by fio or iozone, with fsync and close in its time or not."""

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tierbench.wrappers.child import Failure, Run
from tierbench.wrappers.client import FIRST_BLOCK, Client, Option, absent

PAGE = 4096
FIO, IOZONE = "fio", "iozone"
# fio is started before the go, since that takes it a while: when all is ready it runs this script, and then begins.
SHELL = 'exec 4<&0 3>&1 >&2; exec "$@"'
HOLD = "echo ready >&3; read -r go <&4 || exit 125; date +%s%N >begun\n"


class Fio(Client):
    """iozone's patterns, one stream on one file; what it moves is a whole number of blocks."""

    tells_adler32 = False
    protocols = ("file",)
    reads_whole = True
    usual_excess = 0.02
    taken_in = "bytes_app"
    options = {
        "write": Option(False, meaning="writes, in place of reading"),
        "program": Option(FIO, choices=(FIO, IOZONE), meaning="fio, or iozone where a site has it"),
        "block_kb": Option(1024, 4, 1_048_576, meaning="at most: the largest of which the file is a multiple"),
        "fsync": Option(True, meaning="of what is written; its time counts"),
        "close": Option(True, meaning="the time of close counts"),
        "direct": Option(False, meaning="past the page cache"),
    }

    @classmethod
    def doing(cls, options: "Mapping[str, Any]") -> str:
        return "writes" if options.get("write") else "reads"

    @classmethod
    def settles(cls, options: "Mapping[str, Any]") -> bool:
        return not options.get("write") or bool(options.get("fsync", True))

    @classmethod
    def missing(cls, options: "Mapping[str, Any]") -> str:
        return absent(options.get("program", FIO))

    def prepare(self) -> None:
        if self.job.offset:
            raise Failure("failed", 'parts of one file are not written by fio; let its set have pattern = "multifile"')
        if not self.block:
            blocks = f"blocks of {PAGE} to {self.job.options['block_kb'] * 1024} bytes"
            raise Failure("failed", f"{self.job.path}: {self.job.expected_bytes} bytes are no whole number of {blocks}")
        if self.job.options["direct"] and self.block % PAGE:
            why = f"past the page cache goes what is a whole number of {PAGE} bytes, as size_mb = 104.8576"
            raise Failure("failed", f"{self.job.path}: blocks of {self.block} bytes: {why}")

    @property
    def block(self) -> int:
        """The size of a read or write of this file."""
        return block_of(self.job.expected_bytes or 0, self.job.options["block_kb"] * 1024)

    @property
    def report(self) -> Path:
        return self.job.scratch / "fio.json"

    def held_command(self) -> "list[str] | None":
        if self.job.options["program"] == IOZONE:
            return None
        (self.job.scratch / "hold").write_text(HOLD)
        return ["sh", "-c", SHELL, "sh", *self.command(), f"--exec_prerun=sh {self.job.scratch}/hold"]

    def command(self) -> "list[str]":
        return self._iozone() if self.job.options["program"] == IOZONE else self._fio()

    def _fio(self) -> "list[str]":
        options, writes = self.job.options, self.job.options["write"]
        flags = {
            "name": "tierbench", "filename": self.job.path.replace(":", r"\:"), "rw": "write" if writes else "read",
            "bs": self.block, "size": self.job.expected_bytes, "ioengine": "psync", "direct": int(options["direct"]),
            "thread": 1, "output-format": "json", "output": self.report,
        }  # fmt: skip
        if writes:
            flags.update(fallocate="none", refill_buffers=1, end_fsync=int(options["fsync"]), create_on_open=1)
        command = ["fio", *(f"--{name}={value}" for name, value in flags.items())]
        return command if writes else [*command, "--readonly"]

    def _iozone(self) -> "list[str]":
        options = self.job.options
        size, block = f"{(self.job.expected_bytes or 0) // 1024}k", f"{self.block // 1024}k"
        flags = {"-e": options["fsync"], "-c": options["close"], "-I": options["direct"]}
        what = ["-i", "0"] if options["write"] else ["-i", "1", "-+E"]  # not its own, and no pattern in it
        command = ["iozone", *what, "-+n", "-w", "-s", size, "-r", block, "-f", self.job.path]
        return [*command, *(flag for flag, wanted in flags.items() if wanted)]

    def has_begun(self, read: int, written: int) -> bool:
        return (written if self.job.options["write"] else read) > FIRST_BLOCK + self.block

    def outcome(self, run: Run) -> "dict[str, Any]":
        writes, program = self.job.options["write"], self.job.options["program"]
        moved, own_s, ended = self._iozone_counts(run) if program == IOZONE else self._fio_counts()
        rate = moved * 8e-6 / own_s if moved and own_s else None
        return {
            **self.judged(run, moved if moved is not None or run.exit_status <= 0 else 0),
            "bytes_source": program,
            "bytes_client": run.written_bytes if writes else run.read_bytes,
            "detail": {"block_bytes": self.block, "own_s": own_s, "own_mbps": rate and round(rate, 3)},
            **({} if ended is None else {"ended": (ended, run.end_mono_ns - run.end_wall_ns + ended)}),
        }

    def _fio_counts(self) -> "tuple[int | None, float | None, int | None]":
        """The bytes and seconds that it counted; and when those were over, if closing is not to count."""
        try:
            text = self.report.read_text()
            result = json.loads(text[text.index("{") :])["jobs"][0]  # a complaint may come first
            moved = result["write" if self.job.options["write"] else "read"]
            own_ms = moved["runtime"]
            begun_ns = None if self.job.options["close"] else int((self.job.scratch / "begun").read_text())
            return moved["io_bytes"], own_ms / 1e3, begun_ns and begun_ns + own_ms * 10**6
        except (OSError, ValueError, KeyError, IndexError, TypeError):  # it was ended before it could tell
            return None, None, None

    def _iozone_counts(self, run: Run) -> "tuple[int | None, float | None, int | None]":
        """The same: its table has the file and the record in kB, and then kB/s."""
        size = self.job.expected_bytes or 0
        row = re.search(rf"^\s*{size // 1024}\s+{self.block // 1024}\s+(\d+)", run.stderr, re.MULTILINE)
        if not row or not int(row.group(1)):
            return None, None, None
        return size, size / 1024 / int(row.group(1)), None


@functools.lru_cache(maxsize=None)  # noqa: UP033 - Python 3.6
def block_of(size: int, most: int) -> int:
    """The largest block, of whole pages where that can be, of which the file is a multiple; 0 if it would be tiny."""
    counts = range(max(1, -(-size // most)), size // PAGE + 1)
    blocks = [size // count for count in counts if size % count == 0]
    return next((block for block in blocks if block % PAGE == 0), blocks[0] if blocks else 0)
