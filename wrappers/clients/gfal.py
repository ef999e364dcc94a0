"""gfal-copy copies files by the protocol of their URLs: SRM, GridFTP, XRootD or WebDAV."""

import re
from typing import Any

from tierbench.host import own_name
from tierbench.wrappers.child import Run, run_program
from tierbench.wrappers.client import Client, Option

PLUGINS = {"srm": "srm", "gridftp": "gridftp", "xrootd": "xrootd", "webdav": "http"}  # gfal2's names for them
HOUSEKEEPING = 256 * 1024  # what it says to the servers counts as written, too: 80 KB by GridFTP
FOR_EVER_S = 10_000_000  # the wrapper has the patience; gfal-copy's own would end after half an hour
COPYING = re.compile(r"^Copying (\d+) bytes ", re.MULTILINE)


class Gfal(Client):
    """Each file by a gfal-copy of its own: to nowhere, or where the access method leads to."""

    protocols = tuple(PLUGINS)
    third_party = True
    reads_whole = True
    usual_excess = 0.02
    taken_in = "bytes_app"  # what goes from server to server its process never sees
    programs = ("gfal-copy",)
    remedy = "install gfal2-util there, and gfal2's plugins of the protocol and of files (gfal2-plugin-srm …)"
    options = {"streams": Option(1, 1, 64, meaning="-n, if the protocol has it")}

    @classmethod
    def missing_by(cls, protocol: str) -> str:
        answer = run_program("gfal-copy", "--version").output
        absent = [plugin for plugin in (PLUGINS[protocol], "file") if f"\t{plugin}-" not in answer]
        return f"gfal2 has no plugin {absent[0]}" if absent else ""

    def prepare(self) -> None:
        if not self._nowhere.is_symlink():
            self._nowhere.symlink_to("/dev/null")

    @property
    def _nowhere(self) -> Any:
        """What gfal2 may remove when a copy fails, which with /dev/null itself it would try."""
        return self.job.scratch / "nowhere"

    def command(self) -> "list[str]":
        target, streams = self.job.target or f"file://{self._nowhere}", str(self.job.options["streams"])
        copy = ["gfal-copy", "-f", "-t", str(FOR_EVER_S), "-n", streams, self.job.url, target]
        return ["env", f"GLOBUS_HOSTNAME={own_name()}", *copy]

    def outcome(self, run: Run) -> "dict[str, Any]":
        """Of what goes past it gfal-copy tells no more than the file's size, and that all went well."""
        answer = COPYING.search(run.stderr)
        size = int(answer.group(1)) if answer and not run.exit_status else None
        written = run.written_beside_words
        if self.job.options["to"]:
            end = self.judged(run, 0 if run.exit_status else size)
            if end["status"] == "ok" and (written or 0) >= max(size or 0, HOUSEKEEPING):
                end.update(
                    status="wrong-protocol", message="gfal2 copied through the worker, not from server to server"
                )
            return {**end, "bytes_source": "gfal-copy", "bytes_client": None}
        if not run.exit_status and self._nowhere.exists() and not self._nowhere.is_symlink():
            end = self.judged(run, written, HOUSEKEEPING)
            end.update(status="failed", message="by this protocol gfal2 writes a file, on the worker's disk")
            return {**end, "bytes_source": "proc-io", "bytes_client": written}
        if size is not None and (written is None or written >= size):
            return {**self.judged(run, size), "bytes_source": "gfal-copy", "bytes_client": written}
        return {**self.judged(run, written, HOUSEKEEPING), "bytes_source": "proc-io", "bytes_client": written}
