"""Stage-in: the file is copied to the worker's disk, and ROOT reads the copy from there."""

import functools
import json
import os
from pathlib import Path
from typing import Any

from tierbench.wrappers.child import Failure, Run, run_program
from tierbench.wrappers.client import absent, python
from tierbench.wrappers.clients.root import Root
from tierbench.wrappers.credentials import path_of

JOBS_OWN = dict(os.environ)  # without those of the client's process: HTCondor's programs have libraries of theirs
COPY, STAGED = "staged.root", "staged.json"
# ROOT starts, and waits, before the go. The copy leaves the page cache, or reading it would be reading memory.
STAGE = """
import subprocess
local, report, command = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
reader = subprocess.Popen(sys.argv[4:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
if reader.stdout.readline() != b"ready\\n":
    sys.exit(max(1, reader.wait()))
wait_for_go()
begin = time.time()
failed = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=2)
if failed:
    reader.stdin.close()
    reader.wait()
    sys.exit(1 if failed in (126, 127) else failed if failed > 0 else 128 - failed)
copied = time.time()
with open(local, "rb+") as file:
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    end = {"copied_bytes": os.fstat(file.fileno()).st_size}
end.update(copy_s=copied - begin, flush_s=time.time() - copied)
reader.communicate(b"\\n")
with open(report, "w") as out:
    json.dump(end, out)
sys.exit(reader.returncode if reader.returncode >= 0 else 128 - reader.returncode)
"""
# HTCondor's own plugin, called by the job: what HTCondor transfers by itself is there before a job can wait for the go.
# libcurl, by which it copies, would take the worker's http_proxy.
PLUGIN = """
export no_proxy='*'
if [ -n "$SSL_CERT_DIR" ]; then export X509_CERT_DIR="${X509_CERT_DIR:-$SSL_CERT_DIR}"; fi
printf '[ LocalFileName = "%s"; Url = "%s"; ]\\n' "$3" "$2" > "$3.in"
"$1" -infile "$3.in" -outfile "$3.out" && exit
grep -o 'TransferError = "[^"]*"' "$3.out" >&2
exit 1
"""


class Staged(Root):
    """Copies the whole file to the job's scratch directory after the go: by xrdcp, by https with HTCondor's plugin."""

    protocols = ("xrootd", "http")
    unable = {}
    keeps_files = True
    reads_whole = True
    usual_excess = 0.01
    options = {name: option for name, option in Root.options.items() if name != "starting"}

    @classmethod
    def missing_by(cls, protocol: str) -> str:
        if protocol == "xrootd":
            return absent("xrdcp")
        return absent("condor_config_val") or ("" if os.access(_plugin(), os.X_OK) else "HTCondor has no curl_plugin")

    def prepare(self) -> None:
        super().prepare()
        if self.job.options["proxy"]:
            raise Failure("wrong-protocol", f"stage-in asks no HTTP proxy, as {self.job.options['proxy']} is")

    def renew(self) -> None:
        self._copying(self.job.scratch / COPY)

    def held_command(self) -> "list[str]":
        local = self.job.scratch / COPY
        options = {**self.job.options, "starting": False}
        reader = Root(self.job._replace(url=str(local), options=options))
        return python(STAGE, local, self.job.scratch / STAGED, json.dumps(self._copying(local)), *reader.command())

    def _copying(self, local: Path) -> "list[str]":
        if self.job.remote:
            return ["xrdcp", "-f", "--nopbar", self.job.url, str(local)]
        url, token = self.job.url, path_of("token")
        if not token:
            return ["sh", "-c", PLUGIN, "sh", _plugin(), url, str(local)]
        folder = self.job.scratch / "credentials"
        folder.mkdir(mode=0o700, exist_ok=True)  # of the file before
        credential = {"access_token": Path(token).read_text().strip(), "expires_in": 3600}
        (folder / "staged.use").write_text(json.dumps(credential))
        return ["env", f"_CONDOR_CREDS={folder}", "sh", "-c", PLUGIN, "sh", _plugin(), f"staged+{url}", str(local)]

    def outcome(self, run: Run) -> "dict[str, Any]":
        staged = self.job.report(STAGED)
        if not staged:
            size = self.job.size_of(COPY)
            end = self.judged(run, size if run.exit_status else None)
            return {**end, "bytes_client": size, "bytes_source": "copy"}
        end = super().outcome(run)
        local = {"local_bytes": end["bytes_app"], "local_read_bytes": end["bytes_client"]}
        local["local_read_calls"] = end.get("detail", {}).pop("read_calls", None)  # none of which left the worker
        copied = dict.fromkeys(("bytes_app", "bytes_client"), staged["copied_bytes"])
        return {**end, **copied, "bytes_source": "copy", "detail": {**end.get("detail", {}), **staged, **local}}


@functools.lru_cache(maxsize=1)
def _plugin() -> str:
    return run_program("condor_config_val", "LIBEXEC", env=JOBS_OWN).output.strip() + "/curl_plugin"
