#!/usr/bin/env python3
"""Set one condition on this host for as long as a trial lasts: change it, say what it is then, restore it.

Shipped to the host that can change it, with htchirp.py (HTCondor's) beside it. Needs Python 3.6, and root's helper,
which an admin installs with one line for sudo. The helper restores what was when this process is gone, however that
came about.
Standard output is JSON lines: arranged (with the values before and now), restored; or failed, with the reason. Of a
cache both say what it held: when the value was read back, and when the trial was over; and of what hosts have a number
of, which each had.

Exit codes:
    0  what happened is reported, whatever it was: it is for the gate and the verdict to judge
    2  called wrongly
"""

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from tierbench.host import AccessPoint, NoChirp, as_root, in_job, machine, now

HELPER = "/usr/local/sbin/tierbench-arrange"
HELPER_S = 90  # the one before may still be restoring; a helper that needs more says so
POLL_S = 0.5


class NotSet(Exception):
    """Why the condition is not set."""


class Stopped(Exception):
    """A signal has come."""


def main() -> int:
    arguments = command_line()
    about = {"condition": arguments.condition, "host": machine()[0], "word": arguments.word, "asked": arguments.value}
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_stop)
    try:
        helper = Helper(arguments.helper, arguments.word, arguments.value, arguments.replicas)
        with helper, contextlib.suppress(Stopped):
            answer = helper.answer()
            slow = {"within_s": helper.patience_s} if helper.patience_s > HELPER_S else {}
            tell("arranged", answer, **about, before=answer.get("before"), now=answer.get("now"), **slow)
            wait_for(arguments.stop_file, helper)
        now_, undoing = helper.restored.get("restored"), helper.undoing_mono_ns
        tell("restored", helper.restored, **about, now=now_, undoing_mono_ns=undoing)
    except (NotSet, Stopped, OSError, ValueError) as error:
        tell("failed", {}, **about, message=str(error) or "stopped before anything was changed")
    return 0


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--condition", required=True, help="its name at the site, for the record")
    parser.add_argument("--word", required=True, help="what the helper of this host changes")
    parser.add_argument("--value", required=True, help="to what")
    parser.add_argument("--helper", default=HELPER, help="root's helper, called through sudo (default %(default)s)")
    parser.add_argument("--replicas", type=Path, metavar="FILE", help="the trial's files: URL TAB BYTES, a line each")
    parser.add_argument("--stop-file", metavar="NAME", help="restore it when this exists, beside the job or here")
    return parser.parse_args()


class Helper:
    """Root's helper, which holds the change for as long as it has our end of a pipe."""

    def __init__(self, helper: str, word: str, value: str, replicas: "Path | None") -> None:
        if not Path(helper).exists():
            raise NotSet(f"there is no {helper} here; site-configs/tierbench-arrange is what an admin installs")
        lines = replicas.read_text().splitlines() if replicas else []
        # The files of the trial, each once, as they are called on the storage.
        paths = dict.fromkeys("/" + urlsplit(line.partition("\t")[0]).path.lstrip("/") for line in lines)
        self.command = as_root(helper, "hold", word, value)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        pipes: Any = (self.process.stdin, self.process.stdout, self.process.stderr)
        self.stdin, self.stdout, self.stderr = pipes
        with contextlib.suppress(BrokenPipeError):  # it says itself why it has ended
            self.stdin.write("".join(f"{path}\n" for path in [*paths, ""]).encode())
        self.patience_s = HELPER_S
        self.restored = {}  # type: dict[str, Any]
        self.undoing_mono_ns: int | None = None  # since when what was arranged is no more

    def __enter__(self) -> "Helper":
        return self

    def __exit__(self, *_: Any) -> None:
        """Whatever happens, the helper is let go, and waited for."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self.undoing_mono_ns = now()[1]
        if self.process.poll() is None:
            try:
                self.stdin.close()
                self.restored = self.answer()
            finally:
                self.process.wait()

    def answer(self) -> "dict[str, Any]":
        """The helper's next line; that it has none is a trouble, in the helper's own words."""
        if not select.select([self.stdout], [], [], self.patience_s)[0]:
            raise NotSet(f"{' '.join(self.command)}: no answer within {self.patience_s} s")
        line = self.stdout.readline()
        if line:
            answer = dict(json.loads(line.decode()))
            if "within_s" not in answer:
                return answer
            self.patience_s = HELPER_S + int(answer["within_s"])
            return self.answer()
        complaint = self.stderr.read().decode(errors="replace").strip()
        status = self.process.wait()
        raise NotSet(complaint or f"{' '.join(self.command)}: ended with status {status}")


def wait_for(stop_file: "str | None", helper: Helper) -> None:
    """Return when the trial is over, by the stop file, or our parent is gone."""
    parent, access_point = os.getppid(), None
    while os.getppid() == parent:
        if helper.process.poll() is not None:
            helper.answer()
        if stop_file and not in_job() and Path(stop_file).exists():
            return
        if stop_file and in_job():
            try:
                access_point = access_point or AccessPoint()
                if access_point.fetch(stop_file):
                    return
            except (NoChirp, OSError) as error:
                print(f"arrange: {error}; trying on", file=sys.stderr)
        time.sleep(POLL_S)


def tell(event: str, answer: "dict[str, Any]", **content: Any) -> None:
    """An event, with what a cache held, and what number each host has, where the helper has said it."""
    content.update({kind: answer[kind] for kind in ("cache", "each", "at_end") if kind in answer})
    wall, mono = now()
    print(json.dumps({"event": event, "wall_ns": wall, "mono_ns": mono, **content}), flush=True)


def on_stop(_: int, __: "FrameType | None") -> None:
    raise Stopped


if __name__ == "__main__":
    sys.exit(main())
