#!/usr/bin/env python3
"""Answers questions about the host it runs on, for `tierbench doctor`.

Shipped to a worker or server as one file. The questions are a JSON list of {"ask": KIND, ...}. Needs Python 3.6;
whatever else it would use and does not find is an answer too. It changes nothing on the host for longer than it takes
to look whether a condition of the site can be arranged there, and restored, or a folder made where trials write, and
removed. Standard output is one
JSON object: format, host, begin_wall_ns (when it had the questions), the answers in the questions' order, end_wall_ns
(when it had them all). An answer is {"state": "good" | "doubtful" | "bad", "why": a word for what to do about it,
"seen": words}. The question "serve" has a line of its own before: {"ports": [...]}, when they listen.

Exit codes:
    0  every question has an answer, whatever it is
    2  called wrongly, or the questions cannot be read or understood; nothing was reported
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tierbench.condition_state import is_near
from tierbench.files import poll
from tierbench.host import NICE, NoInterface, as_root, find_interfaces, in_job, machine, mount_of, read_text
from tierbench.wrappers.child import PATIENCE_S, run_program
from tierbench.wrappers.client import find_client
from tierbench.wrappers.credentials import KINDS as CREDENTIALS
from tierbench.wrappers.credentials import environment_with, hours, judged, ticket_expires

FORMAT = 1
LISTEN_S = 5
LOCAL = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs")  # file systems of a host
ROUND_TRIPS = 5
LINK_STREAMS = 4  # one alone may not fill a fast link that is far away
SLICE_S = 0.5  # of what hosts measure at once only the time counts that they have in common
FLUSH_S = 300  # as in a trial
HELPER_S = 60  # what root's helper gives a word's program that does not ask for more
UNUSED_PORT = 1  # tcpmux, which nobody offers
PORTS = {"root": 1094, "roots": 1094, "http": 80, "https": 443, "ftp": 21, "gsiftp": 2811}  # where a URL has none


class Answer(Exception):
    """What was found out; raised, so that the first thing in the way is the answer."""

    def __init__(self, state: str, seen: str, why: str = "", **more: Any) -> None:
        super().__init__(seen)
        self.content = {"state": state, "seen": seen, "why": why, **more}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", metavar="QUESTIONS", help="the JSON itself, or - for standard input")
    arguments = parser.parse_args()
    try:
        questions = json.loads(sys.stdin.read() if arguments.questions == "-" else arguments.questions)
        begin = int(time.time() * 1e9)
        calls = [(KINDS[question["ask"]], question) for question in questions]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"probe: the questions cannot be used: {error!r}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(XRD_CONNECTIONWINDOW="5", XRD_CONNECTIONRETRY="1", XRD_REQUESTTIMEOUT=str(PATIENCE_S))
        tickets = sorted({question.get("ticket", "") for _, question in calls})
        answers = []
        for ask, question in calls:
            os.environ["KRB5CCNAME"] = f"FILE:{scratch}/ticket-{tickets.index(question.get('ticket', ''))}"
            answers.append(answer(ask, question))
    end = int(time.time() * 1e9)
    report = {"format": FORMAT, "host": machine()[0], "begin_wall_ns": begin, "answers": answers, "end_wall_ns": end}
    print(json.dumps(report), flush=True)
    return 0


def answer(ask: Any, question: "dict[str, Any]") -> "dict[str, Any]":
    """The answer; while a server is asked its programs find what they have to show it."""
    credentials = {variable: str(Path.cwd() / name) for variable, name in question.get("shown", {}).items()}
    try:
        with environment_with(credentials):
            ask(question)
    except Answer as raised:
        return raised.content
    except (OSError, ValueError) as error:
        return {"state": "bad", "seen": str(error), "why": "error"}
    raise AssertionError(question)


def need(program: str, purpose: str = "") -> None:
    if not shutil.which(program):
        raise Answer("bad", f"there is no {program}{purpose}", f"no-{program}")


def connect(server: str, host: str, port: str) -> None:
    """Whether a server takes connections."""
    try:
        socket.create_connection((host, int(port)), PATIENCE_S).close()
    except OSError as error:
        raise Answer("bad", f"{server}: {error.strerror or error}", "unreachable") from None


# -- what can be asked -----------------------------------------------------------------------------------


def ask_interface(question: "dict[str, Any]") -> None:
    try:
        interfaces = find_interfaces(question["name"])
    except (NoInterface, OSError) as error:
        raise Answer("bad", str(error), "absent") from None
    if "lo" in interfaces:
        raise Answer("bad", "lo carries no host's traffic, and counts each byte as sent and as received", "loopback")
    raise Answer("good", "{} {} there".format(" and ".join(interfaces), "is" if len(interfaces) == 1 else "are"))


def ask_files(question: "dict[str, Any]") -> None:
    words, unmeasured = "", ""
    for path, count in question["paths"]:
        listing = run_program("ls", "-A", path)
        if listing.status is None:
            raise Answer("bad", f"{path}: {listing.last_words}", "hangs")
        _, point, kind = mount_of(path)  # listed before: it does not hang
        if listing.status:
            cache_only, alone = question.get("cache_only"), point == "/"
            words = f"{point} is mounted ({kind}), but {listing.last_words}"
            words = f"there is no {path}, and no mount above it" if alone else words
            raise Answer("doubtful" if cache_only else "bad", words, "no-mount" if cache_only or alone else "absent")
        mounted = "no mount" if point == "/" else f"{kind} mounted"
        if question.get("by_network") and kind in LOCAL:
            raise Answer("bad", f"{path} is on this host's own disk ({kind})", "local")
        if question.get("own_disks") and kind not in LOCAL:
            words = (
                f"{path} comes from elsewhere ({kind} mounted), and the site file says that this host is the storage"
            )
            raise Answer("doubtful", words, "elsewhere")
        files, number = replicas_among(listing.output.splitlines(), path, count)
        words = f"{path} is visible, {mounted}{number}"
        unmeasured = unmeasured or (not_ours(path, files) if question.get("flushed") else "")
    raise Answer("doubtful", unmeasured, "not-ours") if unmeasured else Answer("good", words)


def replicas_among(names: "list[str]", path: str, count: int) -> "tuple[list[str], str]":
    """Which of these names in a folder are replicas, and in words how many; an answer by itself if too few."""
    files = [name for name in names if name[:1] != "." and not name.endswith(".jsonl")]
    if len(files) < count:
        raise Answer("bad", f"{path} holds {len(files)} of {count} files", "few")
    return files, f", {len(files)} files" if count else ""


def not_ours(path: str, files: "list[str]") -> str:
    """In words, that the first file is one of which the kernel does not tell us what is in memory."""
    first = next((file for file in (Path(path) / name for name in files) if file.is_file()), None)
    if first is None or os.geteuid() in (0, first.stat().st_uid) or os.access(str(first), os.W_OK):
        return ""
    return f"{first} is user {first.stat().st_uid}'s and jobs run as user {os.geteuid()}, so no flush can be measured"


def ask_contents(question: "dict[str, Any]") -> None:
    """Whether replicas hold what the catalogue says, of as many as can be read in the time given."""
    deadline = time.monotonic() + question["seconds"]
    read = 0
    for url, size, checksum in question["files"]:
        content = contents(url, max(0.1, deadline - time.monotonic()))
        if content is None:
            break
        if content != (size, checksum):
            words = f"{url} has {content[0]} bytes with checksum {content[1]}, not {size} with {checksum}"
            raise Answer("bad", words, "changed")
        read += 1
    summary = "{} of {} files were read in {:g} s".format(read, question["of"], question["seconds"])
    if read:
        raise Answer("good", summary + ", and are as in the catalogue")
    raise Answer("doubtful", summary, "unread")


def contents(url: str, seconds: float) -> "tuple[int, str] | None":
    """A file's size and adler32 as read by a program that can be killed; None where it was not done in time."""
    command = ["cat", url] if url.startswith("/") else ["xrdcp", "--silent", url, "-"]
    size, value = 0, 1
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        patience = threading.Timer(seconds, program.kill)
        patience.start()
        assert program.stdout is not None  # noqa: S101 - it is a pipe
        for block in iter(lambda: program.stdout.read(1 << 20), b""):  # type: ignore[union-attr]
            size, value = size + len(block), zlib.adler32(block, value)
        words = program.communicate()[1].decode(errors="replace").strip()
        patience.cancel()
    if program.returncode == -signal.SIGKILL:
        return None
    if program.returncode:
        raise Answer("bad", "{}: {}".format(url, words or f"exit status {program.returncode}"), "unreadable")
    return size, f"{value:08x}"


def ask_xrootd(question: "dict[str, Any]") -> None:
    door = question["door"]
    host, _, port = (door if re.search(r":\d+$", door) else f"{door}:1094").rpartition(":")
    connect(door, host.strip("[]"), port)
    if not shutil.which("xrdfs"):
        raise Answer("doubtful", f"{door} listens, but there is no xrdfs to ask it with", "no-xrdfs")
    words = ""
    for path, count in question["paths"]:
        stat = run_program("xrdfs", door, "stat", path)
        if stat.status != 0:
            denied = any(word in stat.output for word in ("Auth", "authoriz", "credential", "permission denied"))
            why = "denied" if denied else "absent" if "3011" in stat.output else "failed"
            raise Answer("bad", f"{door}: stat {path}: {stat.last_words}", why)
        paths = run_program("xrdfs", door, "ls", path).output.splitlines() if count else []
        words = f"{door} shows {path}" + replicas_among([name.rpartition("/")[2] for name in paths], path, count)[1]
    raise Answer("good", words)


def ask_server(question: "dict[str, Any]") -> None:
    """What else a server is to do only its clients know."""
    url = urlsplit(question["url"])
    connect(question["url"], url.hostname or "", str(url.port or PORTS.get(url.scheme, 0)))
    raise Answer("good", question["url"] + " listens" + question.get("caveat", ""))


def ask_flush(question: "dict[str, Any]") -> None:
    strategy, helper = question["strategy"], question["helper"]
    if strategy == "fadvise":
        if not hasattr(os, "posix_fadvise"):
            raise Answer("bad", "this host's Python has no posix_fadvise", "no-fadvise")
        raise Answer("good", "fadvise needs nothing")
    if not Path(helper).exists():
        raise Answer("bad", f"there is no {helper}", "no-helper")
    if os.geteuid() != 0:
        need("sudo")
    flushed = run_program(*as_root(helper, strategy), patience_s=FLUSH_S)  # what sudo lists it may not do unasked
    if flushed.status != 0:
        why = "slow" if flushed.status is None else "refused"
        raise Answer("bad", f"`{helper} {strategy}`: {flushed.last_words}", why)
    raise Answer("good", f"{helper} {strategy} empties the caches")


def ask_condition(question: "dict[str, Any]") -> None:
    """Whether each value that is asked for can be set, and is restored; only read where a change may take minutes."""
    word, possible = question["word"], []
    if not Path(question["helper"]).exists():
        raise Answer("bad", "there is no {}".format(question["helper"]), "no-helper")
    value_and_pace = [line for line in call_helper(question, "get", word).splitlines() if not line.startswith("sudo: ")]
    before, slow = [*value_and_pace, "", ""][:2]
    if slow:
        raise Answer("good", f"{word} is {before}; not changed to try it, since that {slow}")
    for value in question["values"]:
        lines = call_helper(question, "hold", word, value).splitlines()
        records = [json.loads(line) for line in lines if line[:1] == "{"]
        # Without what an older helper tells only here.
        arranged, restored = (record for record in records if "within_s" not in record)
        if restored["restored"] != arranged["before"]:
            raise Answer("bad", f"{word} was {arranged['before']}, and is {restored['restored']} now", "not-restored")
        if value != "warm" and not is_near(arranged["now"], value, question.get("tolerance_pct", 0)):  # by which files?
            raise Answer("bad", f"{word} is {arranged['now']} where {value} was asked for", "not-set")
        possible.append(f"{value} gives {arranged['now']}" if arranged["now"] != value else value)
    raise Answer("good", f"{word} can be {', '.join(possible)}; it is {before} again")


def call_helper(question: "dict[str, Any]", *arguments: str) -> str:
    """What root's helper says."""
    command = [question["helper"], *arguments]
    result = run_program(*as_root(*command), patience_s=HELPER_S)
    if result.status != 0:
        why = "no-sudo" if "sudo:" in result.last_words else "refused"
        raise Answer("bad", f"`{' '.join(command)}`: {result.last_words}", why)
    return result.output.strip()


def ask_kerberos(question: "dict[str, Any]") -> None:
    keytab, principal = question["keytab"], question["principal"].replace("{host}", machine()[0])
    try:
        Path(keytab).open("rb").close()
    except OSError as error:
        raise Answer("bad", f"{keytab}: {error.strerror}", "keytab") from None
    need("kinit")
    ticket = run_program("kinit", "-k", "-t", keytab, principal)
    if ticket.status != 0:
        raise Answer("bad", f"kinit as {principal}: {ticket.last_words}", "refused")
    expires = ticket_expires(Path(os.environ["KRB5CCNAME"].partition(":")[2]))
    left_s = None if expires is None else expires - time.time()
    if left_s is not None and left_s < question.get("needed_s", 0):
        raise Answer("doubtful", f"{keytab} gives a ticket for {left_s:.0f} s only", "short")
    raise Answer("good", f"{keytab} gives a ticket" + ("" if left_s is None else f" for {hours(left_s)}"))


def ask_credential(question: "dict[str, Any]") -> None:
    """Whether a token or a grid proxy is there that lets somebody in, and will be for a while."""
    ambient = os.environ.get(CREDENTIALS[question["ask"]].variable) or f"/tmp/x509up_u{os.getuid()}"  # noqa: S108 - Globus' own place
    raise Answer(*judged(question["ask"], Path(question["path"] or ambient), question["needed_s"]))


def ask_writes(question: "dict[str, Any]") -> None:
    """Whether a folder can be made where trials write, and removed."""
    url = "{}/tierbench-doctor-{}-{}".format(question["url"], machine()[0], os.getpid())
    if url.startswith("/"):
        try:
            Path(url).mkdir()
            Path(url).rmdir()
        except OSError as error:
            raise Answer("bad", f"{url}: {error.strerror}", "refused") from None
    else:
        need("xrdfs", ", by which what trials write is removed")
        door, _, path = url.partition("://")[2].partition("/")
        for step in ("mkdir", "rmdir"):
            result = run_program("xrdfs", door, step, path)
            if result.status != 0:
                raise Answer("bad", f"{door}: {step} {path}: {result.last_words}", "refused")
    raise Answer("good", "folders can be made in {}, and removed".format(question["url"]))


def ask_program(question: "dict[str, Any]") -> None:
    """Whether a client finds what it runs, which it knows itself."""
    client = find_client(question["client"])
    missing = client.missing(question["options"]) or client.missing_by(question["protocol"])
    raise Answer("bad", missing, "absent") if missing else Answer("good", "is there")


def ask_priority(_: "dict[str, Any]") -> None:
    """Whether a sampler may go before all other processes of this host."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    except OSError:
        words = "the same as others': nice {} is refused, which matters with 100 clients or more to a core beside it"
        raise Answer("good", words.format(NICE)) from None
    os.setpriority(os.PRIO_PROCESS, 0, before)
    raise Answer("good", "it goes before all others")


def ask_chirp(_: "dict[str, Any]") -> None:
    """Whether HTCondor lets the jobs of this host speak with the access point while they run."""
    if not in_job():
        raise Answer("bad", "HTCondor offers none", "none")
    raise Answer("good", "offered")


# -- the link --------------------------------------------------------------------------------------------


def ask_iperf3(_: "dict[str, Any]") -> None:
    raise Answer("good", "is there") if shutil.which("iperf3") else Answer("doubtful", "there is no iperf3", "absent")


def ask_serve(question: "dict[str, Any]") -> None:
    """Serve so many measurements, each on a port of its own, and end with the last, or when time is over."""
    deadline = time.monotonic() + question["seconds"]
    ports = [free_port() for _ in range(question["count"])]
    servers = [
        subprocess.Popen(["iperf3", "-s", "-1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for port in ports
    ]
    try:
        if not poll(lambda: all(map(listens, ports)), LISTEN_S, 0.05):
            raise Answer("doubtful", "iperf3 -s does not begin to listen", "failed")
        print(json.dumps({"ports": ports}), flush=True)
        poll(lambda: all(server.poll() is not None for server in servers), deadline - time.monotonic())
        raise Answer("good", "served")
    finally:
        for server in servers:
            server.kill()
            server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether a port is listened at; to connect would use up the one measurement."""
    lines = (read_text("/proc/net/tcp") + read_text("/proc/net/tcp6")).splitlines()
    return any(columns[1].endswith(f":{port:04X}") and columns[3] == "0A" for columns in map(str.split, lines))


def ask_link(question: "dict[str, Any]") -> None:
    """What this host receives from the server, as its clients' data would come, and how far away that is."""
    rtt_ms = round_trip_ms(question["host"])
    result = run_program(
        "iperf3", "-c", question["host"], "-p", str(question["port"]), "-R", "-J",
        "-O", "1", "-t", str(question["seconds"]), "-P", str(LINK_STREAMS), "-i", str(SLICE_S),
        "--connect-timeout", "5000",
    )  # fmt: skip
    ended_s = time.time()
    measured: dict[str, Any] = {}
    try:
        measured = json.loads(result.output)
        rate = measured["end"]["sum_received"]["bits_per_second"] / 1e6
        sums = [interval["sum"] for interval in measured["intervals"] if not interval["sum"].get("omitted")]
        began_s = ended_s - sums[-1]["end"]
        slices = [(began_s + each["start"], began_s + each["end"], each["bits_per_second"] / 1e6) for each in sums]
    except (ValueError, KeyError, IndexError):
        raise Answer("doubtful", measured.get("error", result.last_words), "failed") from None
    raise Answer("good", f"{rate:.0f} Mb/s", mbps=rate, rtt_ms=rtt_ms, slices=slices)


def round_trip_ms(host: str) -> "float | None":
    """The shortest of some round trips: a connection is refused, or made, after just one."""
    times = []
    with contextlib.suppress(OSError):  # no answer at all: a firewall takes it
        for _ in range(ROUND_TRIPS):
            address = str(socket.getaddrinfo(host, None)[0][4][0])
            begin = time.monotonic()
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((address, UNUSED_PORT), 1).close()
            times.append(time.monotonic() - begin)
    return round(1000 * min(times), 3) if len(times) == ROUND_TRIPS else None


KINDS = {name[len("ask_") :]: ask for name, ask in list(vars().items()) if name.startswith("ask_")}
KINDS.update(dict.fromkeys(CREDENTIALS, ask_credential))


if __name__ == "__main__":
    sys.exit(main())
