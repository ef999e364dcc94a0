"""curl fetches over HTTP, to nowhere."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tierbench import files
from tierbench.wrappers.child import Failure, Run, run_program
from tierbench.wrappers.client import Client, Option, check_size
from tierbench.wrappers.credentials import path_of

AT_ONCE = 100  # files that one process fetches over its connection, before another one is started
OLDEST = (7, 63)  # can write of each fetch as it ends
FETCHED = re.compile(r"^fetched (\d+) (\d+) ([\d.]+)$")
SECURED = "https://"
TROUBLE = re.compile(r"^curl: (\(\d+\) .*)$")


class Http(Client):
    """Fetches whole files, by one connection after the other or by one that is kept."""

    protocols = ("http",)
    reads_whole = True
    usual_excess = 0.01
    memory_mb = 64
    programs = ("curl",)
    remedy = "install curl there"
    options = {"reuse": Option(True, meaning="keeps the connection for the next files")}

    @classmethod
    def further_memory(cls, options: "Mapping[str, Any]") -> float:
        return 8.0

    @classmethod
    def several(cls, options: "Mapping[str, Any]") -> int:
        return AT_ONCE if options["reuse"] else 1

    @classmethod
    def missing(cls, options: "Mapping[str, Any]") -> str:
        absent = super().missing(options)
        version = None if absent else re.match(r"curl (\d+)\.(\d+)", run_program("curl", "--version").output)
        if version and tuple(map(int, version.groups())) < OLDEST:
            return f"curl is {version.group(0)[5:]}, older than {OLDEST[0]}.{OLDEST[1]}"
        return absent

    def prepare(self) -> None:
        if not self.job.url.startswith(("http://", SECURED)):
            raise Failure("wrong-protocol", f"curl is to fetch by HTTP, not {self.job.url}")

    def renew(self) -> None:
        self._credentials()

    def command(self) -> "list[str]":
        proxy = self.job.options["proxy"]
        # Whatever the worker's no_proxy says.
        through = ["--proxy", f"http://{proxy}", "--noproxy", ""] if proxy else ["--noproxy", "*"]
        form = "%{stderr}fetched %{http_code} %{size_download} %{time_total}\\n"
        targets = [word for url, _ in self.job.files for word in ("-o", "/dev/null", url)]
        flags = ["-q", "--silent", "--show-error", "--fail", "--globoff", "--location"]
        return ["curl", *flags, *through, *self._credentials(), "-w", form, *targets]

    def _credentials(self) -> "list[str]":
        """What it shows the server so as to be let in; not on its command line, which all on the host can see."""
        if not self.job.url.startswith(SECURED):
            return []
        token, proxy = path_of("token"), path_of("proxy")
        flags = ["--cert", proxy] if proxy else []
        if token:
            header = self.job.scratch / "authorization"
            files.replace(header, "Authorization: Bearer " + Path(token).read_text().strip() + "\n", 0o600)
            flags += ["--header", f"@{header}"]
        return flags

    def has_begun(self, read: int, written: int) -> bool:
        return written > 0

    def outcome(self, run: Run) -> "dict[str, Any]":
        fetches = list(self._fetches(run.stderr))
        written = run.written_beside_words
        end: dict[str, Any] = {"bytes_source": "curl", "bytes_client": written, "fetches": fetches}
        if run.exit_status < 0 or not fetches:
            return {**end, **self.judged(run, written), "bytes_source": "curl"}
        worst = next((fetch for fetch in fetches if fetch["status"] != "ok"), fetches[-1])
        if worst["status"] == "ok" and len(fetches) < len(self.job.files):
            counts = f"{len(fetches)} of {len(self.job.files)} files"
            worst = {"status": "failed", "message": f"curl tells of {counts}, with exit status {run.exit_status}"}
        read = sum(fetch["bytes"] for fetch in fetches)
        return {**end, "status": worst["status"], "message": worst["message"], "bytes_app": read}

    def _fetches(self, log: str) -> "Iterator[dict[str, Any]]":
        """Each fetch that has ended: what curl complained of stands before it."""
        expectations, trouble = iter(self.job.files), ""
        for line in log.splitlines():
            complaint, match = TROUBLE.match(line), FETCHED.match(line)
            trouble = complaint.group(1) if complaint else trouble
            if match:
                _, expected = next(expectations)
                code, size, seconds = int(match.group(1)), int(match.group(2)), float(match.group(3))
                status, message = check_size(size, expected)
                if trouble or code != 200:
                    status = "short-read" if trouble and size else "open-failed"
                    message = trouble or f"the server answered {code}"
                yield {"status": status, "message": message, "bytes": size, "seconds": seconds}
                trouble = ""
