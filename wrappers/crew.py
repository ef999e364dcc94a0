"""The processes of a job that works through several files: one program holds, releases, counts and ends them all.

It is started and held as any client's process. All that it starts is in its process group, so what ends that leaves
nothing behind; and if the wrapper is gone, which it notices by its standard input, it ends the group itself.
"""

import collections
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from tierbench.host import now
from tierbench.starts import settling
from tierbench.wrappers.child import IO, Failure, Run, io_of
from tierbench.wrappers.client import Client, Job, find_client
from tierbench.wrappers.startline import StartLine
from tierbench.wrappers.work import CREW_FLAG, Fetch, Replica, Tally, Work, shares

TASK, RESULT, DONE = "crew.json", "crew-result.json", "crew-done"
ROUNDING = 1e-6  # of a quotient of times
REST_S = 0.2  # after a failure, before a process goes on: a server that refuses would be asked without a pause
POLL_S = 0.002
SIGNALS = (signal.SIGALRM, signal.SIGTERM)


class Crew(Client):
    """To the wrapper, a client like any other, but that it is told of the go ahead of it."""

    keeps_time = True

    def __init__(
        self,
        kind: "type[Client]",
        name: str,
        files: "list[Replica]",
        work: Work,
        job: Job,
        index: int = 0,
        jobs: int = 1,
    ) -> None:
        super().__init__(job)
        self.kind, self.work, self.files = kind, work, files
        self.task = {"client": name, "options": job.options, "files": files, "work": work, "index": index, "jobs": jobs}

    def prepare(self) -> None:
        self.kind(self.job).prepare()  # what it complains of is told by its own status

    def held_command(self) -> "list[str]":
        task = self.job.scratch / TASK
        task.write_text(json.dumps(self.task))
        return [sys.executable or "python3", str(Path(sys.argv[0]).resolve()), CREW_FLAG, str(task)]

    def progress(self) -> int:
        """Fetches that have ended: a proxy may serve them all while the storage rests."""
        try:
            return (self.job.scratch / DONE).stat().st_size
        except FileNotFoundError:
            return 0

    def paths(self, outcome: "Mapping[str, Any]") -> "list[str]":
        jobs = [self.job._replace(url=file.url) for file in self.files]
        return [path for job in jobs for path in self.kind(job).paths(outcome)]

    def outcome(self, run: Run) -> "dict[str, Any]":
        try:
            told = json.loads((self.job.scratch / RESULT).read_text())
        except (OSError, ValueError):  # it was ended, or has ended itself, before it could tell
            return {"status": "killed" if run.exit_status < 0 else "failed", "message": run.last_words}
        status, message = "ok", ""
        if told["failed"] and (self.work.for_s is None or not told["fetches"]):
            (status, message), count = told["first_failure"], sum(told[key] for key in ("fetches", "failed", "cut"))
            message = f"{told['failed']} of {count} fetches failed, at first: {message}"
        if told["stopped"]:
            status, message = "killed", f"{told['cut']} fetches were broken off"
        others = ("first_failure", "bytes", "bytes_client", "end", "stopped", "counts")
        work = {key: told[key] for key in told if key not in others}
        return {
            "status": status, "message": message, "ended": told["end"], "work": work,
            "bytes_app": told["bytes"], "bytes_client": told["bytes_client"], "bytes_source": "fetches",
            "detail": {"counts": told["counts"]} if told["counts"] else {},
        }  # fmt: skip


def lead(task: str) -> int:
    """Hold the processes, and when the go comes see them through their work."""
    with contextlib.suppress(ValueError, OSError):  # three files open for each process
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    path = Path(task)
    crew = _Leader(json.loads(path.read_text()), path.parent)
    try:
        crew.hold()
    except (Failure, OSError) as failure:
        print(failure, file=sys.stderr)
        return 1
    print("ready", flush=True)
    line = os.read(0, 64)
    if not line.strip():
        return 125
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # which the thread takes over: they are for us
    threading.Thread(target=_end_all_when_left, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    crew.release(int(line))
    crew.work_on()
    (path.parent / RESULT).write_text(json.dumps(crew.told()))
    return 0


def _end_all_when_left() -> None:
    while os.read(0, 64):
        pass
    os.killpg(0, signal.SIGKILL)


class _Hand:
    """One of the processes that work side by side, or rather those that follow one another in its place."""

    def __init__(
        self, client: Client, folder: Path, files: "Iterator[tuple[int, Replica]]", every_s: "float | None", turn: float
    ) -> None:
        self.client, self.files = client, files
        self.stderr = folder / "stderr"
        self.every_s = every_s
        self.turn_s = turn * (every_s or 0.0)  # after the first of all that keep the timetable
        self.at_once = client.several(client.job.options) if every_s is None else 1
        self.process: Any = None
        self.waits_itself = False  # until it gets a line
        self.due = 0.0  # when the next file is meant to begin, by the timetable
        self.begun = self.rested = 0.0  # by the monotonic clock; begun: when it was meant to, where that is known
        self.taken: list[int] = []
        self.before = IO(0, 0, 0)
        self.was_cut, self.cut_s = False, 0.0  # whether, and when by the monotonic clock
        self.at_cut: IO | None = None  # its counts when time was over

    def start(self, line: "StartLine | None") -> bool:
        """Have the next files read, at once or from the start line; whether there were any."""
        batch = list(islice(self.files, self.at_once))
        if not batch:
            return False
        self.taken = [place for place, _ in batch]
        first, *others = (replica for _, replica in batch)
        self.client.job = self.client.job._replace(
            url=first.url, expected_bytes=first.bytes, expected_adler32=first.adler32, others=tuple(others)
        )
        own = self.client.held_command()  # of a program that can wait by itself
        self.before = IO(0, 0, 0)
        self.waits_itself = bool(own)
        if line and not own:
            self.process = line.stand(self.client.command(), self.stderr)
            return True
        with self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                own or self.client.command(), stdin=subprocess.PIPE if own else subprocess.DEVNULL, bufsize=0,
                stdout=subprocess.PIPE if line else subprocess.DEVNULL if own else stderr,
                stderr=stderr, cwd=str(self.stderr.parent),
            )  # fmt: skip
        if own and not line:
            self.release()
        return True

    def wait_until_ready(self) -> None:
        if self.waits_itself:
            if not any(line == b"ready\n" for line in iter(self.process.stdout.readline, b"")):
                words = self.stderr.read_text(errors="replace").strip().splitlines()
                raise Failure("failed", words[-1] if words else f"exit status {self.process.wait()}")
            self.process.stdout.close()
            self.schedule("SCHED_BATCH")
        self.before = io_of(str(self.process.pid))

    def schedule(self, policy: str) -> None:
        """One of a batch does not take the processor from who wakes it, as the first would before the last line."""
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(self.process.pid, getattr(os, policy), os.sched_param(0))

    def release(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has died, which its end will tell
            self.process.stdin.write(b"\n")
        self.process.stdin.close()

    def go_from(self, begun: float) -> None:
        """All go together; by the timetable they begin their next files one after the other."""
        self.begun, self.due = begun, begun + self.turn_s + (self.every_s or 0.0)

    def go_on(self, ended: float) -> None:
        """Its next file is meant to begin now, or by its timetable, however late the one before has ended."""
        self.begun = ended if self.every_s is None else self.due
        self.rested, self.due = self.begun, self.due + (self.every_s or 0.0)

    def overdue(self, end: float) -> int:
        """How many by its timetable were to begin before the end, and have not; with it, none was."""
        return 0 if self.every_s is None else max(0, int((end - self.due) / self.every_s + 1 - ROUNDING))

    def too_late(self, run: Run) -> int:
        """What it has moved since time was over: one that is ended politely may finish what it is at."""
        if self.at_cut is None or run.read_bytes is None or run.written_bytes is None:
            return 0
        read = self.before.read + run.read_bytes - self.at_cut.read
        return max(0, read, self.before.written + run.written_bytes - self.at_cut.written)

    def under_way_s(self, fetches: "list[Fetch]", ended: float) -> "float | None":
        """The time of its files, but of one that was cut; None where nobody knows when that one began."""
        if not self.was_cut:
            return (ended - self.begun) * min(self.client.at_once(self.client.job.options), len(self.taken))
        whole = [one for one in fetches if one.status != "cut"]
        times = [one.seconds for one in whole if one.seconds is not None]
        return sum(times) if len(times) == len(whole) else None

    def fetches(self, end: "dict[str, Any]", ended: float, late: int) -> "Iterator[Fetch]":
        """What became of the files that it took: as it tells of each, or of the one it was at, but what came late."""
        each = end.get("fetches", [])
        told = {one.pop("file", number): one for number, one in enumerate(each)}
        read = taken_in(end)
        rest = None if read is None else max(0, read - sum(one["bytes"] for one in each) - late)
        # What came before the first one began, as it was told when the last one ended, is time of the first one.
        told_at = ended + self.stderr.stat().st_mtime - time.time() if each else ended
        before = max(0.0, told_at - self.begun - sum(one["seconds"] or 0.0 for one in each))
        is_cut, timed = self.was_cut, all(one["seconds"] is not None for one in each)
        under_way = max(0.0, self.cut_s - (told_at if each else self.begun)) if timed else None
        for number, one in told.items():
            seconds = None if one["seconds"] is None else one["seconds"] + before
            yield Fetch(self.taken[number], **{**one, "seconds": seconds})
            before = 0.0
        for place in [place for number, place in enumerate(self.taken) if number not in told]:
            if is_cut:
                yield Fetch(place, "cut", end["message"], rest, under_way)
                return
            yield Fetch(place, end["status"], end["message"], rest, ended - self.begun)
            rest = 0


def taken_in(end: "dict[str, Any]") -> "int | None":
    """By the application's count, or else its process's."""
    app: int | None = end.get("bytes_app")
    process: int | None = end.get("bytes_client")
    return process if app is None else app


class _Leader:
    """All of a job's processes."""

    def __init__(self, task: "dict[str, Any]", scratch: Path) -> None:
        work, kind = Work(*task["work"]), find_client(task["client"])
        self.for_s, self.grace_s = work.for_s, kind.grace_s
        files = [Replica(*file) for file in task["files"]]
        self.hands = []
        for number, share in enumerate(shares(list(enumerate(files)), work.processes, self.for_s is not None)):
            folder = scratch / f"process{number}"
            folder.mkdir()
            job = Job(*files[0], task["options"], folder)
            turn = (task["index"] + task["jobs"] * number) / (task["jobs"] * work.processes)
            self.hands.append(_Hand(kind(job), folder, share, work.fetch_every_s, turn))
        self.tally = Tally()
        self.counts: collections.Counter[str] = collections.Counter()
        self.bytes_client: int | None = 0
        self.under_way_s: float | None = 0.0
        self.running: dict[int, _Hand] = {}
        self.resting: list[_Hand] = []
        self.over = self.stopped = False
        self.overdue = 0
        self.looked = 0  # the bytes of others' counts that we have read, which are among our own
        self.due_s = 0.0  # by the monotonic clock, when time will be over
        self.end = (0, 0)
        self.done = (scratch / DONE).open("wb", buffering=0)  # a byte for each fetch
        self.line = StartLine(len(self.hands), settling(len(self.hands) * task["jobs"]))
        # The first and the last of those that wait by themselves, as if they were let go at the go.
        self.own_begins: list[int] = []

    def hold(self) -> None:
        """Have them all there, so that each needs but to know when, or those that wait by themselves a line."""
        for hand in self.hands:
            hand.client.prepare()
            self._start(hand, self.line)
        self.line.wait_until_ready()
        for hand in self.hands:
            hand.wait_until_ready()

    def release(self, go_wall_ns: int) -> None:
        signal.signal(signal.SIGALRM, self._on_time_over)
        signal.signal(signal.SIGTERM, self._on_stop)
        self.line.tell(go_wall_ns)
        begin_wall_ns = go_wall_ns + self.line.settling_ns
        time.sleep(max(0.0, begin_wall_ns / 1e9 - time.time()))
        wall, mono = now()
        lines = [hand for hand in self.hands if hand.waits_itself]
        for hand in lines:
            hand.release()
        self.own_begins = [at - self.line.settling_ns for at in (wall, now()[0])] if lines else []
        for hand in self.hands:
            hand.go_from((mono - wall + begin_wall_ns) / 1e9)
        self.due_s = (mono - wall + begin_wall_ns) / 1e9 + (self.for_s or 0.0)
        for hand in lines:
            hand.schedule("SCHED_OTHER")
        if self.for_s is not None:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, begin_wall_ns / 1e9 + self.for_s - time.time()))

    def work_on(self) -> None:
        """Until the files are read or time is over: who has ended is given the next ones."""
        while self.running or (self.resting and not self.over):
            for hand in [hand for hand in self.resting if hand.rested <= time.monotonic()]:
                self.resting.remove(hand)
                self._start(hand)
            ended = self._ended()
            if ended is None:
                time.sleep(POLL_S)
            elif not self._count(ended):
                self._rest(ended)
            elif ended.rested > time.monotonic():
                self.resting.append(ended)
            else:
                self._start(ended)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ended(self) -> "_Hand | None":
        """One whose process has ended, but is not forgotten yet; none is waited for while others rest."""
        if not self.running:
            return None
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | (os.WNOHANG if self.resting else 0))
        return self.running.pop(ended.si_pid) if ended else None

    def told(self) -> "dict[str, Any]":
        begins = [*self.line.begins(self.end[0]), *self.own_begins] or [0]
        return {
            **self.tally.told(self.overdue), "first_failure": self.tally.first_failure, "processes": len(self.hands),
            "bytes": self.tally.bytes, "bytes_client": self.bytes_client, "end": self.end, "stopped": self.stopped,
            "counts": dict(self.counts),
            "under_way_s": None if self.under_way_s is None else round(self.under_way_s, 6),
            "first_begin_wall_ns": min(begins), "last_begin_wall_ns": max(begins),
        }  # fmt: skip

    def _start(self, hand: _Hand, line: "StartLine | None" = None) -> None:
        try:
            if self.over or not hand.start(line):
                return
        except OSError as error:
            if line:
                raise
            self.tally.add(Fetch(hand.taken[0], "failed", f"could not be started: {error}", None, 0.0))
            self._rest(hand)
            return
        self.running[hand.process.pid] = hand
        if self.over:  # meanwhile
            self._cut(hand)

    def _rest(self, hand: _Hand) -> None:
        hand.rested = max(hand.rested, time.monotonic() + REST_S)
        hand.begun = hand.rested if hand.every_s is None else hand.begun
        self.resting.append(hand)

    def _reap(self, hand: _Hand) -> Run:
        """Its counts, which the kernel adds to our own when it is forgotten."""
        before, looked = io_of("self"), self.looked
        _, status, usage = os.wait4(hand.process.pid, 0)
        after, (wall, mono) = io_of("self"), now()
        exit_status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        hand.process.returncode = exit_status
        read = after.read - before.read - before.text_bytes - (self.looked - looked)
        return Run(
            exit_status=exit_status, end_wall_ns=wall, end_mono_ns=mono, first_byte_wall_ns=None,
            read_bytes=read - hand.before.read if before.text_bytes else None,
            written_bytes=after.written - before.written - hand.before.written if before.text_bytes else None,
            cpu_user_s=usage.ru_utime, cpu_system_s=usage.ru_stime, peak_rss_kb=usage.ru_maxrss,
            stderr=hand.stderr.read_text(errors="replace"), stderr_bytes=hand.stderr.stat().st_size,
        )  # fmt: skip

    def _count(self, hand: _Hand) -> bool:
        """Add what it has done; whether that went well."""
        run = self._reap(hand)
        failed, ended, end = self.tally.failed, time.monotonic(), hand.client.outcome(run)
        late = hand.too_late(run)
        fetches = list(hand.fetches(end, ended, late))
        under_way_s = hand.under_way_s(fetches, ended)
        if self.under_way_s is not None:
            self.under_way_s = None if under_way_s is None else self.under_way_s + under_way_s
        for fetch in fetches:
            self.tally.add(fetch)
            self.done.write(b".")
        self.counts.update(end.get("detail", {}).get("counts", {}))
        process = end.get("bytes_client")
        if process is None or self.bytes_client is None:
            self.bytes_client = None
        else:
            self.bytes_client += max(0, process - late)
        hand.go_on(ended)
        if not self.over:
            self.end = (run.end_wall_ns, run.end_mono_ns)
        return self.tally.failed == failed

    def _on_time_over(self, *_: Any) -> None:
        if self.over:
            for hand in self.running.values():
                _end(hand, signal.SIGKILL)
            return
        self.over, self.end = True, now()
        due = min(self.end[1] / 1e9, self.due_s)  # a busy worker looks at the clock too late
        self.overdue = sum(hand.overdue(due) for hand in self.hands)
        for hand in list(self.running.values()):
            self._cut(hand)
        signal.setitimer(signal.ITIMER_REAL, self.grace_s, self.grace_s)

    def _on_stop(self, *_: Any) -> None:
        self.stopped = True
        if not self.over:
            self._on_time_over()

    def _cut(self, hand: _Hand) -> None:
        """End what is under way; a program that then ends as if all was well has read no file in time."""
        hand.was_cut = os.waitid(os.P_PID, hand.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None
        hand.cut_s = time.monotonic()
        counts = io_of(str(hand.process.pid))
        self.looked += counts.text_bytes
        hand.at_cut = counts if hand.was_cut and counts.text_bytes else None
        _end(hand, signal.SIGTERM)


def _end(hand: _Hand, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # Popen's own would have it forgotten, and its counts
        os.kill(hand.process.pid, how)
