#!/usr/bin/env python3
"""One client of a trial: does its work on its files, begins at its start time, and records what happened.

Shipped to a worker as one file, together with htchirp.py (HTCondor's, for the start gate) and, for the
clients root and higgs, the ROOT programs. Needs Python 3.6 and whatever the client itself needs. Standard
output is the record, in JSON lines: start, ready, go, end. docs/clients.md tells what they hold.
Whatever is not that work is done before "ready": tickets, setting up ROOT or CMSSW, starting the process.

Exit codes:
    0  the record is complete, whatever its status (DAGMan would remove the whole batch for one failed job)
    1  only with --strict: the record is complete and its status is not "ok"
    2  called wrongly, or the list of replicas or the options cannot be used; nothing was recorded
"""

import argparse
import contextlib
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tierbench import names
from tierbench.host import AccessPoint, NoChirp, boot_id, condor_version, in_job, machine, now, read_text
from tierbench.starts import pause_between_looks, read_go, settling
from tierbench.wrappers.child import HOLD, Child, Failure, Interrupts, Run, UsageError, core_of, take_core, total
from tierbench.wrappers.client import Client, Job, find_client
from tierbench.wrappers.credentials import Credentials, environment_with, variables
from tierbench.wrappers.mounts import places_of
from tierbench.wrappers.work import POOL_FLAG, command_line, read_definition, replicas

FORMAT = 1  # of the record
CLOCK_READS = 4
TO_TELL_S = 2  # what a pool of processes needs to tell how it ended, once its processes have
PAUSE_S = pause_between_looks(1)
LONGEST_PAUSE_S = 5.0  # where many others have their turns before
LAST_SLEEP_S = 0.3  # into which a clock that is being corrected brings no error that counts
RENEWED_AHEAD_NS = 5_000_000_000  # before its own start, by when a credential that expires has been renewed
CHIRP_PATIENCE_S = 20
PROGRESS_S = 10.0  # each line sets HTCondor to work; a trial that stands still is ended after minutes (stall_limit_s)


def main() -> int:
    if sys.argv[1:2] == [POOL_FLAG]:
        from tierbench.wrappers.process_pool import lead  # here, for most clients need none of it

        return lead(sys.argv[2])
    arguments = command_line(__doc__)
    try:
        options, work = read_definition(arguments.options)
        files = replicas(arguments.replicas, arguments.index, work.files_per_job)
        kind = find_client(arguments.client)
        options = kind.with_defaults(options)
        shipped = [name for name, option in kind.options.items() if option.file and options[name]]
        options.update({name: str(Path(options[name]).resolve()) for name in shipped})  # a pool works elsewhere
        proxies = options["proxy"].split(",")
        options["proxy"] = proxies[arguments.index % len(proxies)]
    except UsageError as error:
        print(f"client: {error}", file=sys.stderr)
        return 2
    record, interrupts = Record(), Interrupts()
    interrupts.grace_s = kind.grace_s + TO_TELL_S
    size = total(file.bytes for file in files) if work.for_s is None else None
    record.start(arguments, files[0].url, size)
    credentials = Credentials(arguments, Path.cwd())
    run: Run | None = None
    outcome: dict[str, Any] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="tierbench-", dir=os.environ.get("_CONDOR_SCRATCH_DIR")) as scratch:
            client = kind(Job(*files[0], options, Path(scratch)))
            if not work.is_one_read:
                from tierbench.wrappers.process_pool import ProcessPool

                client = ProcessPool(client, arguments.client, files, work, arguments.index, arguments.clients)
            run = perform(client, arguments, credentials, record, interrupts)
            with environment_with(client.variables):
                outcome = client.outcome(run)
            explain_refusal(outcome, credentials, record.go_wall_ns / 1e9)
            outcome.pop("fetches", None)  # of one file it says no more than the rest
            outcome["mounts"] = [place._asdict() for place in places_of(client.paths(outcome))]
            if outcome["status"] != "ok":  # a signal that came too late has not made it worse
                outcome.update(interrupts.outcome())
            interrupts.ignore()
    except Failure as failure:
        outcome = {"status": failure.status, "message": str(failure)}
    except OSError as error:  # the worker's disk is full, or a program is not there
        outcome = outcome or {"status": "failed", "message": f"on the worker: {error}"}
    except Exception as error:  # of a client of one's own
        outcome = mistake(error)
    interrupts.ignore()
    try:
        record.end(dict(outcome), run)
    except Exception as error:  # what it says of itself is nothing that JSON could hold
        outcome = mistake(error)
        record.end(dict(outcome), None)
    if outcome["status"] == "ok" and in_job() and not interrupts.reason:  # a pause of the machine shows by it
        with contextlib.suppress(OSError):  # the worker's disk is full
            record.clock(names.CLOCK_AFTER, interrupts)
    return 1 if arguments.strict and outcome["status"] != "ok" else 0


def mistake(error: Exception) -> "dict[str, Any]":
    """The outcome where a client's own program is wrong; where in it stands in its errors."""
    traceback.print_exc()
    return {"status": "failed", "message": f"in the client's program: {type(error).__name__}: {error}"}


def explain_refusal(outcome: "dict[str, Any]", credentials: Credentials, start_wall_s: float) -> None:
    """Where something was not read, and what the client shows the server has expired meanwhile, this is why."""
    failures = outcome.get("work", {}).get("failures", {})  # of which a job that reads for a given time is not over
    if outcome["status"] not in ("ok", "killed", "damaged") or failures:
        expired = credentials.expired(start_wall_s)
        first = outcome["message"] or next(iter(failures), "")
        if expired:
            outcome.update(expired, message=f"{expired['message']}; then: {first}")


class Record:
    """The JSON lines on standard output."""

    go_wall_ns = 0

    def write(self, event: str, wall_ns: int, mono_ns: int, **content: Any) -> int:
        if event == "go":
            self.go_wall_ns = wall_ns
        line = json.dumps({"event": event, "wall_ns": wall_ns, "mono_ns": mono_ns, **content}) + "\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        return len(line)

    def start(self, arguments: argparse.Namespace, url: str, size: "int | None") -> None:
        host, slot = machine()
        self.write(
            "start", *now(), format=FORMAT, trial=arguments.trial, index=arguments.index, host=host, slot=slot,
            pid=os.getpid(), boot_id=boot_id(), client=arguments.client, url=url, expected_bytes=size,
            python=platform.python_version(), kernel=platform.release(), condor=condor_version(),
        )  # fmt: skip

    def clock(self, event: str, interrupts: Interrupts) -> None:
        """Record how this wall clock stands to the access point's uptime; to fail in it is no harm."""
        try:
            with interrupts.breakable(CHIRP_PATIENCE_S):
                clock = AccessPoint().clock(CLOCK_READS)
        except (NoChirp, OSError, ValueError, IndexError, AttributeError):
            interrupts.check()
        else:
            self.write(event, *now(), low_ns=clock["low_ns"], high_ns=clock["high_ns"])

    def end(self, outcome: "dict[str, Any]", run: "Run | None") -> None:
        unknown = (
            "opened_wall_ns", "first_byte_wall_ns", "bytes_app", "bytes_client", "bytes_source",
            "bytes_disk", "events", "cpu_user_s", "cpu_system_s", "exit_status",
        )  # fmt: skip
        content: dict[str, Any] = {"status": None, "message": None, **dict.fromkeys(unknown), "detail": {}}
        if run:
            content.update(
                first_byte_wall_ns=run.first_byte_wall_ns, cpu_user_s=round(run.cpu_user_s, 6),
                cpu_system_s=round(run.cpu_system_s, 6), exit_status=run.exit_status, bytes_disk=run.disk_bytes,
                detail={"peak_rss_kb": run.peak_rss_kb},
            )  # fmt: skip
            content["detail"].update(outcome.pop("detail", {}))
        content.update(outcome)
        wall, mono = content.pop("ended", None) or ((run.end_wall_ns, run.end_mono_ns) if run else now())
        self.write("end", wall, mono, **content)
        with contextlib.suppress(OSError, AttributeError):  # it is full, or closed: the record is what counts
            sys.stderr.write(run.stderr[-8000:] if run else "")


def perform(
    client: Client, arguments: argparse.Namespace, credentials: Credentials, record: Record, interrupts: Interrupts
) -> Run:  # fmt: skip
    """Prepare all, wait for the go, let the client read, and tell how it went."""
    scratch = client.job.scratch
    os.environ.update(credentials.obtain(scratch))
    client.variables = variables(client.job.options["environment"])
    # HTCondor may give a job no PATH at all, and then ROOT complains that it finds no compiler.
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **os.environ, "LC_ALL": "C", **client.variables}
    with contextlib.ExitStack() as until_the_end:
        if arguments.pin:
            until_the_end.enter_context(take_core(arguments.index))
        with environment_with(client.variables):
            client.prepare()
            command = client.held_command() or ["sh", "-c", HOLD, "sh", *client.argv()]
        child = until_the_end.enter_context(Child(command, scratch, environment, interrupts))
        child.wait_until_ready(arguments.timeout)
        if in_job():
            record.clock("clock", interrupts)
        go, awake = None, now()
        if arguments.gate:
            gate = Gate(arguments, scratch, record, interrupts)
            go = gate.ask_for_go()
            gate.wait_until(go - RENEWED_AHEAD_NS)  # by when HTCondor has brought what would have expired
            credentials.check(go / 1e9)
            credentials.renew()
            client.renew()
            if client.keeps_time:
                child.release(go)
            awake = gate.wait_until(go)
            waking = arguments.clients if gate.together else 1
            time.sleep(max(0.0, go / 1e9 + settling(waking) - time.time()))
        interrupts.check()
        pinned: dict[str, Any] = {"core": core_of(child.pid)} if arguments.pin else {}
        begin = awake if go is not None and client.keeps_time else child.release(go)

        def tell() -> int:
            return record.write("go", *begin, go_wall_ns=go, **pinned)

        progress = Progress(client, record)
        return child.wait(arguments.timeout, client.has_begun, tell, lambda: progress.tell() + credentials.renew())


class Gate:
    """A client's side of the start gate: says READY to the access point and waits for the common begin."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path, record: Record, interrupts: Interrupts) -> None:
        self.name, self.index, self.patience_s = arguments.gate, arguments.index, arguments.gate_timeout
        self.pause_s = pause_between_looks(arguments.clients)
        self.share = 0.6 + 0.4 * (self.index * 0.618034 % 1)  # the clients are not to do things in step
        self.together = True  # whether others wake for the same instant
        self.copy = scratch / "fetched"
        self.record, self.interrupts = record, interrupts
        if not in_job() and "_CONDOR_SLOT" in os.environ:
            raise Failure("no-gate", "HTCondor offers no chirp here: the worker needs ENABLE_CHIRP and ENABLE_CHIRP_IO")
        try:
            self.access_point = AccessPoint() if in_job() else None
        except NoChirp as error:
            raise Failure("no-gate", str(error)) from None

    def wait_until(self, go_wall_ns: int) -> "tuple[int, int]":
        """Return at this time by the wall clock, with what the clocks show then."""
        while True:
            wall, mono = now()
            left = (go_wall_ns - wall) / 1e9
            if left <= 0:
                return wall, mono
            if left > self.patience_s:
                raise Failure("no-gate", f"the start time is {left:.0f} s ahead of this host's clock")
            self.interrupts.check()
            last = LAST_SLEEP_S * self.share
            time.sleep(left if left <= LAST_SLEEP_S else min(left - last, 1.0))

    def ask_for_go(self) -> int:
        """Say that this client is ready, and return the wall-clock time of the common begin when it is known."""
        deadline, announced, trouble = time.monotonic() + self.patience_s, False, "no start time came"
        pause = self.pause_s
        while time.monotonic() < deadline:
            try:
                with self.interrupts.breakable(CHIRP_PATIENCE_S):
                    if not announced:
                        if self.access_point:
                            self.access_point.announce(f"TIERBENCH READY {self.index}")
                        self.record.write("ready", *now())
                        announced = True
                    if not self.access_point:
                        text = read_text(self.name)
                    else:
                        text = read_text(str(self.copy)) if self.access_point.fetch(self.name, str(self.copy)) else ""
                if text:
                    go = read_go(text)
                    if go.called_off is not None:
                        raise Failure("called-off", go.called_off)
                    begin = go.begin(self.index)
                    if begin is not None:
                        self.together = go.together
                        if self.access_point:
                            self.access_point.close()
                        return begin
                    # It need not look more often than those before it can have ended.
                    away = go.turns_away(self.index)
                    pause = min(PAUSE_S * (1 + away), max(LONGEST_PAUSE_S, self.pause_s))
            except (OSError, ValueError, TypeError) as error:
                trouble = str(error)
            self.interrupts.check()
            time.sleep(pause * self.share)
        raise Failure("no-gate", f"{trouble}, within {self.patience_s:g} s")


class Progress:
    """Tells, now and then, how far a client has come that can say so: the storage's interface may not show it."""

    def __init__(self, client: Client, record: Record) -> None:
        self.client, self.record = client, record
        self.done, self.written_at = None, time.monotonic()  # type: int | None, float

    def tell(self) -> int:
        """The bytes written for it."""
        if time.monotonic() - self.written_at < PROGRESS_S:
            return 0
        self.written_at, before, self.done = time.monotonic(), self.done, self.client.progress()
        return 0 if self.done == before else self.record.write("progress", *now(), done=self.done)


if __name__ == "__main__":
    sys.exit(main())
