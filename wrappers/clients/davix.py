"""davix-get, of the library by which gfal and others read HTTP, fetches to nowhere."""

import os
from pathlib import Path
from typing import Any

from tierbench.wrappers.child import Failure, Run
from tierbench.wrappers.client import CHECKSUM, FIRST_BLOCK, SummedClient
from tierbench.wrappers.credentials import KINDS

REQUESTS = 32 * 1024  # at most what it writes to a server besides: hellos, a request, a proxy's certificates
SECURED = "https://"


class Davix(SummedClient):
    """Asks for a whole file. It fails by itself if less comes than the server has said the file holds."""

    protocols = ("http",)
    reads_whole = True
    usual_excess = 0.01
    memory_mb = 64
    programs = ("davix-get",)
    remedy = "install davix there"
    options = CHECKSUM

    def prepare(self) -> None:
        if not self.job.url.startswith(("http://", SECURED)):
            raise Failure("wrong-protocol", f"davix-get is to fetch by HTTP, not {self.job.url}")
        if self.job.options["proxy"]:
            raise Failure("wrong-protocol", f"davix-get asks no HTTP proxy, as {self.job.options['proxy']} is")

    def command(self) -> "list[str]":
        into = [] if self.job.options["checksum"] else ["/dev/null"]
        # What breaks off is not asked for again, and no list of other servers is.
        return ["davix-get", "--retry", "1", "--metalink", "no", *self._shown(), self.job.url, *into]

    def _shown(self) -> "list[str]":
        """What it trusts, and shows the server so as to be let in; it takes a token from its command line only."""
        if not self.job.url.startswith(SECURED):
            return []
        authorities = os.environ.get("SSL_CERT_DIR")
        token, proxy = (os.environ.get(KINDS[kind].variable) for kind in ("token", "proxy"))
        return [
            *(["--capath", authorities] if authorities else []),
            *(["--cert", proxy] if proxy else []),
            *(["--header", "Authorization: Bearer " + Path(token).read_text().strip()] if token else []),
        ]

    def has_begun(self, read: int, written: int) -> bool:
        return (read if self.job.options["checksum"] else written) > FIRST_BLOCK

    def outcome(self, run: Run) -> "dict[str, Any]":
        if self.job.options["checksum"]:
            return {"bytes_source": "adler32", **self.summed(run)}
        written = run.written_beside_words
        return {**self.judged(run, written, REQUESTS), "bytes_source": "proc-io", "bytes_client": written}
