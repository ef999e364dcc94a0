"""globus-url-copy fetches files from a GridFTP server, or has one server send them to another (third party)."""

import collections
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tierbench.host import own_name
from tierbench.wrappers.child import Failure, Run, total
from tierbench.wrappers.client import Client, Option, check_size

MOST_FILES = 2000  # that one process is given
SCHEMES = ("ftp://", "gsiftp://")
OTHERS = 1  # files beside the replicas in their directory: the catalogue
# How the data are protected, as globus-url-copy has it; by ftp:// nothing but the first is possible.
PROTECTION = {
    "nodcau": ["-nodcau"],  # not at all: who sends them is not even asked who he is
    "authenticated": [],  # both ends of each data connection prove who they are
    "safe": ["-dcsafe"],  # and nobody can change what goes by
    "private": ["-dcpriv"],  # nor read it
}
# What -dbg tells: on which file's URL, and what was said.
SENT = re.compile(r"^debug: sending command to \S+:\n([A-Z]+)", re.MULTILINE)
WHOLE = re.compile(r"^debug: response from (\S+):\n226 ", re.MULTILINE)
MARKER = re.compile(
    r"^debug: response from (\S+):\n112-.*\n(?: .*\n)*? Stripe Index: (\d+)\n Stripe Bytes Transferred: (\d+)",
    re.MULTILINE,
)
RECEIVED = re.compile(r"^debug: data callback, no error, .*\blength (\d+),", re.MULTILINE)
COMPLAINT = re.compile(r"^error: (.*(?:\n.+)*)", re.MULTILINE)


class Gridftp(Client):
    """All files of a process by one globus-url-copy: fetched to nowhere, or copied where the access method leads to."""

    protocols = ("gridftp",)
    third_party = True
    reads_whole = True
    usual_excess = 0.01
    taken_in = "bytes_app"  # what goes from server to server its process never sees
    memory_mb = 64
    programs = ("globus-url-copy",)
    remedy = "install globus-gass-copy-progs there"
    options = {
        "streams": Option(1, 1, 64, meaning="-p: TCP connections for a file's data"),
        "sessions": Option(1, 1, 64, meaning="-cc: control connections, each at a file of its own"),
        "pipelining": Option(False, meaning="-pp: commands for the next files are sent ahead"),
        "directory": Option(False, meaning="asks for the files' directory, which must hold no others"),
        "together": Option(True, meaning="one globus-url-copy for all files; else one for each"),
        "fast": Option(True, meaning="-fast: keeps the data connection for the next file"),
        "protection": Option(
            "nodcau", choices=tuple(PROTECTION), meaning="of the data: nodcau, authenticated, safe or private"
        ),
        "tcp_buffer_kb": Option(0, 0, 1_048_576, meaning="-tcp-bs; 0: the kernel decides"),
    }

    @classmethod
    def several(cls, options: "Mapping[str, Any]") -> int:
        return MOST_FILES if options["together"] else 1

    @classmethod
    def at_once(cls, options: "Mapping[str, Any]") -> int:
        return int(options.get("sessions", 1)) if options.get("together", True) else 1

    @classmethod
    def check(cls, options: "Mapping[str, Any]") -> None:
        if options["directory"] and not options["together"]:
            raise ValueError("directory: is asked for as a whole, which together = false rules out")

    def prepare(self) -> None:
        if not self.job.url.startswith(SCHEMES):
            raise Failure("wrong-protocol", f"globus-url-copy is to fetch by GridFTP, not {self.job.url}")
        if self.job.options["directory"] and not self.job.options["to"]:
            raise Failure("failed", "directory: is copied where [access.NAME.to] leads; this one leads nowhere")

    def command(self) -> "list[str]":
        options = self.job.options
        # It looks its own name up, and may not find it.
        copy = ["env", f"GLOBUS_HOSTNAME={own_name()}", "globus-url-copy", "-dbg"]
        copy += PROTECTION[options["protection"]]
        copy += ["-p", str(options["streams"]), "-cc", str(options["sessions"])]
        copy += ["-fast"] if options["fast"] else []
        copy += ["-pp"] if options["pipelining"] else []
        copy += ["-tcp-bs", str(1024 * options["tcp_buffer_kb"])] if options["tcp_buffer_kb"] else []
        if options["directory"]:
            folder = self.job.url.rpartition("/")[0]
            return [*copy, "-r", "-cd", f"{folder}/", f"{self._into(folder)}/"]
        pairs = self.job.scratch / "pairs"
        pairs.write_text("".join(f"{url} {self._target(url)}\n" for url, _ in self.job.files))
        return [*copy, "-f", str(pairs)]

    def outcome(self, run: Run) -> "dict[str, Any]":
        log = (self.job.scratch / "stderr").read_text(errors="replace")  # all of it, where `run` has its end
        fetches = list(self._fetches(log))
        whole = sum(fetch["bytes"] for fetch in fetches)
        received = None if self.job.options["to"] else sum(map(int, RECEIVED.findall(log)))
        moved = whole if received is None else received
        counts = collections.Counter(SENT.findall(log))
        status, message = self._judged(run, fetches, moved, log, counts["RETR"])
        return {
            "status": status, "message": message, "bytes_app": moved, "bytes_client": received,
            "bytes_source": "globus-url-copy", "fetches": fetches, "detail": {"counts": dict(counts)},
        }  # fmt: skip

    def _judged(
        self, run: Run, fetches: "list[dict[str, Any]]", moved: int, log: str, retrieved: int
    ) -> "tuple[str, str]":
        files = self.job.files
        complaint = COMPLAINT.search(log)
        words = " ".join(complaint.group(1).split()) if complaint else run.last_words
        if run.exit_status:
            judged = self.judged(run._replace(stderr=words), moved)
            return judged["status"], judged["message"]
        wrong = next((fetch for fetch in fetches if fetch["status"] != "ok"), None)
        if wrong:
            return wrong["status"], wrong["message"]
        if len(fetches) < len(files):
            return "short-read", f"{len(fetches)} of {len(files)} files are reported whole"
        if self.job.options["directory"] and retrieved > len(files) + OTHERS:
            too_many = f"the directory has {retrieved} files, and {len(files)} were planned: let one job have them all"
            return "failed", too_many
        return check_size(moved, total(size for _, size in files))

    def _fetches(self, log: str) -> "Iterator[dict[str, Any]]":
        """The files that are reported whole, with the bytes that the receiving server has reported of each."""
        whole = collections.Counter(WHOLE.findall(log))
        marked = collections.defaultdict(dict)  # type: dict[str, dict[str, int]]
        for url, stripe, count in MARKER.findall(log):
            marked[url][stripe] = int(count)  # the last one counts
        for number, (url, expected) in enumerate(self.job.files):
            at = self._target(url) if self.job.options["to"] else url
            if not whole[at]:
                continue
            whole[at] -= 1
            size = sum(marked[at].values()) if at in marked else (expected or 0)
            status, message = check_size(size, expected, at + " has {} of {} bytes")
            yield {"file": number, "status": status, "message": message, "bytes": size, "seconds": None}

    def _target(self, url: str) -> str:
        folder, _, name = url.rpartition("/")
        if self.job.options["directory"]:
            return f"{self._into(folder)}/{name}"
        to = self.job.options["to"]
        return f"{to}/{name}" if to else "file:///dev/null"

    def _into(self, folder: str) -> str:
        return f"{self.job.options['to']}/{folder.rpartition('/')[2]}"
