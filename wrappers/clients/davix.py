"""davix-get, of the library by which gfal and others read HTTP, fetches to nowhere."""

import os
from typing import Any

from tierbench.wrappers.child import Failure, Run
from tierbench.wrappers.client import CHECKSUM, FIRST_BLOCK, SummedClient
from tierbench.wrappers.credentials import path_of

REQUESTS = 32 * 1024  # at most what it writes to a server besides: hellos, a request, a proxy's certificates
SECURED = "https://"
# It takes a token from its command line only, as it is then: it may be renewed before the start.
WITH_HEADER = 'token=$(cat "$1") && shift && exec "$@" --header "Authorization: Bearer $token"'


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
        command = ["davix-get", "--retry", "1", "--metalink", "no"]
        if not self.job.url.startswith(SECURED):
            return [*command, self.job.url, *into]
        authorities = os.environ.get("SSL_CERT_DIR")
        token, proxy = path_of("token"), path_of("proxy")
        command += ["--capath", authorities] if authorities else []
        command += ["--cert", proxy] if proxy else []
        launch = ["sh", "-c", WITH_HEADER, "sh", token] if token else []
        return [*launch, *command, self.job.url, *into]

    def has_begun(self, read: int, written: int) -> bool:
        return (read if self.job.options["checksum"] else written) > FIRST_BLOCK

    def outcome(self, run: Run) -> "dict[str, Any]":
        if self.job.options["checksum"]:
            return {"bytes_source": "adler32", **self.summed(run)}
        written = run.written_beside_words
        return {**self.judged(run, written, REQUESTS), "bytes_source": "proc-io", "bytes_client": written}
