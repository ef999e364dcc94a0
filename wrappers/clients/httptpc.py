"""HTTP third-party copy: COPY asks one server to fetch each file from another one, or to write it there."""

import re
import uuid
from typing import Any

from tierbench.wrappers.child import Failure, Run
from tierbench.wrappers.client import Client, Option, check_size, python
from tierbench.wrappers.credentials import path_of

SCHEMES = ("http://", "https://")
REPORT = "copied"
MARKER = re.compile(r"^Stripe Index: *(\d+)\s+Stripe Bytes Transferred: *(\d+)", re.MULTILINE)
# Tokens are read from their files: they are in no list of processes, and go nowhere but by https. The copy's time ends
# with the answer; then its size is asked for. It is removed, also where the job is ended meanwhile.
COPY = """
import http.client, signal, ssl, urllib.parse
report, push, streams, source, source_token, destination, destination_token = sys.argv[1:]
trust = ssl.create_default_context()
trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13's own wish, which authorities of grids may not meet

def shown(url, token):
    if not token or not url.startswith("https://"):
        return {}
    with open(token) as file:
        return {"Authorization": "Bearer " + file.read().strip()}

def ask(method, url, headers, patience_s=None):
    for _ in range(5):  # a cluster's manager sends on to the server that has the file
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(parts.netloc, timeout=patience_s, context=trust)
        else:
            connection = http.client.HTTPConnection(parts.netloc, timeout=patience_s)
            headers = {name: value for name, value in headers.items() if "Authorization" not in name}
        connection.request(method, parts._replace(scheme="", netloc="", fragment="").geturl() or "/", headers=headers)
        answer = connection.getresponse()
        if answer.status not in (301, 302, 303, 307, 308):
            break
        url = urllib.parse.urljoin(url, answer.getheader("Location", url))
    return answer

def ask_there(method):
    with ask(method, destination, there, 15) as answer:
        return answer.status, answer.getheader("Content-Length")

wait_for_go()
here, there = shown(source, source_token), shown(destination, destination_token)
url, active, passive = (source, here, there) if push else (destination, there, here)
headers = dict(active, **{"Destination": destination} if push else {"Source": source})
headers.update(("TransferHeader" + name, value) for name, value in passive.items())
if streams != "1":
    headers["X-Number-Of-Streams"] = streams
end = {"destination": destination, "code": 0, "answer": "", "trouble": "", "size": None, "left": "",
       "looked": "it was ended first"}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
begin = time.monotonic()
try:
    try:
        with ask("COPY", url, headers) as answer:
            end["code"] = answer.status
            for line in answer:
                end["answer"] += line.decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        end["trouble"] = str(error) or type(error).__name__
    end.update(ended=[int(time.time() * 1e9), int(time.monotonic() * 1e9)], seconds=time.monotonic() - begin)
    if 200 <= end["code"] < 300:
        code, size = ask_there("HEAD")
        end.update(size=int(size or 0) if code == 200 else None, looked=code)
except (OSError, http.client.HTTPException) as error:
    end["looked"] = str(error)
finally:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        code, _ = ask_there("DELETE")
        end["left"] = "" if code in (200, 202, 204, 404) else "the server answered {}".format(code)
    except (OSError, http.client.HTTPException) as error:
        end["left"] = str(error)
    with open(report, "w") as file:
        json.dump(end, file)
"""


class HttpTpc(Client):
    """A copy by a name of its own, which is judged by the answer's last line and its size, and removed."""

    protocols = ("http",)
    third_party = True
    reads_whole = True
    usual_excess = 0.01
    taken_in = "bytes_app"  # what goes from server to server its process never sees
    memory_mb = 64
    grace_s = 10  # in which the copy is removed, from far away too
    options = {
        "push": Option(False, meaning="asks the source, which writes; else the destination, which fetches"),
        "streams": Option(1, 1, 100, meaning="TCP connections by which the destination fetches"),
    }

    def prepare(self) -> None:
        for url, what in ((self.job.url, "from"), (self.job.options["to"], "to")):
            if not url.startswith(SCHEMES):
                raise Failure("wrong-protocol", f"HTTP servers are to copy {what} a URL like https://…, not {url!r}")

    def held_command(self) -> "list[str]":
        source, options = self.job.url, self.job.options
        name = f"tierbench-{uuid.uuid4().hex}-{source.rpartition('/')[2]}"
        tokens = path_of("token"), path_of("destination-token")
        flags = ["push" if options["push"] else "", options["streams"]]
        return python(COPY, self.job.scratch / REPORT, *flags, source, tokens[0], f"{options['to']}/{name}", tokens[1])

    def outcome(self, run: Run) -> "dict[str, Any]":
        copied = self.job.report(REPORT)
        if not copied or "ended" not in copied:  # it was ended, or could not even begin
            return {**self.judged(run, 0 if run.exit_status else None), "bytes_source": "none"}
        status, message, moved = judge(copied, self.job.expected_bytes)
        fetch = {"status": status, "message": message, "bytes": moved, "seconds": copied["seconds"]}
        return {
            "status": status, "message": message, "bytes_app": moved, "bytes_client": None, "ended": copied["ended"],
            "bytes_source": "markers" if copied["size"] is None else "destination", "fetches": [fetch],
        }  # fmt: skip


def judge(copied: "dict[str, Any]", expected: "int | None") -> "tuple[str, str, int]":
    """Status, message and bytes: the answer's code came before the copy, so its last line tells how that ended."""
    answer, code, there = copied["answer"], copied["code"], copied["destination"]
    moved = sum(map(int, dict(MARKER.findall(answer)).values()))  # of each stripe its last marker counts
    last = (answer.strip().splitlines() or [""])[-1].strip()[:500]
    word, _, reason = last.partition(":")
    words, wrong = reason.strip() if word.lower() == "failure" else last, ""
    if not 200 <= code < 300:
        wrong = f"the server answered {code}: {words}" if code else copied["trouble"]
    elif word.lower() == "failure":
        wrong = words
    elif word.lower() != "success":
        wrong = f"the answer tells neither success nor failure: {copied['trouble'] or repr(words)}"
    if wrong:
        return "short-read" if moved else "open-failed", wrong, moved
    if copied["size"] is None:
        return "failed", f"the size of {there} is unknown: HEAD gave {copied['looked']}", moved
    status, message = check_size(copied["size"], expected, there + " has {} of {} bytes")
    if status == "ok" and copied["left"]:
        status, message = "failed", f"{there} is whole and could not be removed: {copied['left']}"
    return status, message, copied["size"]
