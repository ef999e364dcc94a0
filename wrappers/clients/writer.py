"""Writes as many bytes as its option says: into a file of a mount or disk, or through xrdcp to an xrootd server."""

from collections.abc import Mapping
from typing import Any

from tierbench.wrappers.child import Run
from tierbench.wrappers.client import Client, Option, absent, python

# The bytes are random and repeat after 16 MiB, so that nothing on the way can compress them; no page is like another.
# What it has written it tells in a file, also where it could not write all of it.
WRITE = """
import subprocess, zlib
report, target, offset, size, block, fsync = sys.argv[1:3] + [int(word) for word in sys.argv[3:]]
data = bytearray(os.urandom(max(block, 1 << 24)))
wait_for_go()
record = {"written": 0, "adler32": 1, "write_s": 0.0, "fsync_s": 0.0, "close_s": 0.0}

def timed(what, action, *arguments):
    begin = time.time()
    try:
        return action(*arguments)
    finally:
        record[what] += time.time() - begin

def whole(file, left):
    while left:
        left = left[os.write(file, left):]

program, status = None, 0
try:
    if not size:  # another client writes for all
        pass
    elif "://" in target:
        command = ["xrdcp", "--nopbar", "-", target]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        file = program.stdin.fileno()
    else:
        try:
            file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except FileExistsError:  # another client has made it since the file system looked
            file = os.open(target, os.O_WRONLY | os.O_NOFOLLOW)
        os.lseek(file, offset, os.SEEK_SET)
    if size:
        record["opened_wall_ns"] = int(time.time() * 1e9)
    while record["written"] < size:
        count = min(block, size - record["written"])
        at = record["written"] % (len(data) - block + 1)
        for page in range(0, count, 4096):
            data[at + page:at + page + 8] = (offset + record["written"] + page).to_bytes(8, "big")
        piece = memoryview(data)[at:at + count]
        timed("write_s", whole, file, piece)
        record.setdefault("first_wall_ns", int(time.time() * 1e9))
        record["written"] += count
        record["adler32"] = zlib.adler32(piece, record["adler32"])
    if program:
        timed("close_s", program.stdin.close)
        status = timed("close_s", program.wait)
    elif size:
        if fsync:
            timed("fsync_s", os.fsync, file)
        timed("close_s", os.close, file)
except (OSError, ValueError) as error:
    sys.stderr.write("{}: {}\\n".format(target, error))
    status = (program.wait() if program else 0) or 1
finally:
    record["adler32"] = "{:08x}".format(record["adler32"])
    with open(report, "w") as file:
        json.dump(record, file)
sys.exit(status if status >= 0 else 128 - status)
"""


class Writer(Client):
    """What it writes is on the storage when it ends, if it may make sure of that (fsync, or xrdcp's own close)."""

    does = "writes"
    kinds = ("written",)
    reads_whole = True
    usual_excess = 0.02
    taken_in = "bytes_app"  # through xrdcp its processes hand every byte on twice
    remedy = "install xrootd-client there"
    options = {
        "block_kb": Option(1024, 1, 1_048_576, meaning="size of a write"),
        "fsync": Option(True, meaning="its time counts; mounts only"),
    }

    @classmethod
    def missing_by(cls, protocol: str) -> str:
        return absent("xrdcp") if protocol == "xrootd" else ""

    @classmethod
    def settles(cls, options: "Mapping[str, Any]") -> bool:
        return bool(options.get("fsync", True))

    def held_command(self) -> "list[str]":
        job, options = self.job, self.job.options
        numbers = [job.offset, job.expected_bytes or 0, options["block_kb"] * 1024, int(options["fsync"])]
        return python(WRITE, job.scratch / "written", job.path, *numbers)

    def outcome(self, run: Run) -> "dict[str, Any]":
        result = self.job.report("written")
        if not result:
            return self.judged(run, 0 if run.exit_status else None)
        return {
            **self.judged(run, result.pop("written")),
            "opened_wall_ns": result.pop("opened_wall_ns", None),
            "first_byte_wall_ns": result.pop("first_wall_ns", None),
            "bytes_source": "its own count",
            "bytes_client": run.read_bytes if self.job.remote else run.written_bytes,
            "detail": {name: round(value, 6) if isinstance(value, float) else value for name, value in result.items()},
        }
