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
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tierbench.host import now
from tierbench.starts import settling
from tierbench.trials import Work
from tierbench.wrappers.child import Failure, Run, exit_status_of, io_of, tail_of, total
from tierbench.wrappers.client import Client, Job, find_client
from tierbench.wrappers.pool_process import PoolProcess, StartLine
from tierbench.wrappers.work import POOL_FLAG, Fetch, Replica, Tally, shares

TASK, RESULT, DONE = "pool.json", "pool-result.json", "pool-done"
REST_S = 0.2  # after a failure, before a process goes on: a server that refuses would be asked without a pause
POLL_S = 0.002
SIGNALS = (signal.SIGALRM, signal.SIGTERM)


class ProcessPool(Client):
    """To the wrapper, a client like any other, but that it gets the start time ahead."""

    keeps_time = True

    def __init__(
        self, client: Client, name: str, files: "list[Replica]", work: Work, index: int = 0, jobs: int = 1
    ) -> None:
        super().__init__(client.job)
        self.client, self.work, self.files = client, work, files
        about = {"client": name, "options": client.job.options, "index": index, "jobs": jobs}
        self.task = {**about, "files": files, "work": work}

    def prepare(self) -> None:
        self.client.prepare()  # its own status says what it complains of

    def held_command(self) -> "list[str]":
        task = self.job.scratch / TASK
        task.write_text(json.dumps(self.task))
        return [sys.executable or "python3", str(Path(sys.argv[0]).resolve()), POOL_FLAG, str(task)]

    def progress(self) -> int:
        """Fetches that have ended: a proxy may serve them all while the storage rests."""
        return self.job.size_of(DONE)

    def paths(self, outcome: "Mapping[str, Any]") -> "list[str]":
        jobs = [self.job._replace(url=file.url) for file in self.files]
        return [path for job in jobs for path in type(self.client)(job).paths(outcome)]

    def outcome(self, run: Run) -> "dict[str, Any]":
        result = self.job.report(RESULT)
        if not result:  # it was ended, or has ended itself, before it could tell
            return {"status": "killed" if run.exit_status < 0 else "failed", "message": run.last_words}
        status, message = "ok", ""
        if result["failed"] and (self.work.for_s is None or not result["fetches"]):
            (status, message), count = result["first_failure"], sum(result[key] for key in ("fetches", "failed", "cut"))
            message = f"{result['failed']} of {count} fetches failed, at first: {message}"
        elif self.work.for_s is not None and not (result["failed"] or result["fetches"] or result["bytes"]):
            status, message = "failed", f"nothing was read; {result['cut']} fetches were under way when time was over"
        if result["stopped"]:
            status, message = "killed", f"{result['cut']} fetches were broken off"
        others = ("first_failure", "bytes", "bytes_client", "end", "stopped", "counts")
        work = {key: result[key] for key in result if key not in others}
        return {
            "status": status, "message": message, "ended": result["end"], "work": work,
            "bytes_app": result["bytes"], "bytes_client": result["bytes_client"], "bytes_source": "fetches",
            "detail": {"counts": result["counts"]} if result["counts"] else {},
        }  # fmt: skip


def lead(task: str) -> int:
    """Hold the processes, and when the go comes see them through their work."""
    with contextlib.suppress(ValueError, OSError):  # three files open for each process
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    path = Path(task)
    pool = _Leader(json.loads(path.read_text()), path.parent)
    try:
        pool.hold()
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
    pool.release(int(line))
    pool.work_on()
    (path.parent / RESULT).write_text(json.dumps(pool.to_record()))
    return 0


def _end_all_when_left() -> None:
    while os.read(0, 64):
        pass
    os.killpg(0, signal.SIGKILL)


class _Leader:
    """All of a job's processes."""

    def __init__(self, task: "dict[str, Any]", scratch: Path) -> None:
        work, kind = Work(*task["work"]), find_client(task["client"])
        self.for_s, self.grace_s = work.for_s, kind.grace_s
        files = [Replica(*file) for file in task["files"]]
        self.processes = []
        for number, share in enumerate(shares(list(enumerate(files)), work.processes, self.for_s is not None)):
            folder = scratch / f"process{number}"
            folder.mkdir()
            job = Job(*files[0], task["options"], folder)
            turn = (task["index"] + task["jobs"] * number) / (task["jobs"] * work.processes)
            client = kind(job)
            client.hurried = True
            self.processes.append(PoolProcess(client, share, work.fetch_every_s, turn))
        self.tally = Tally()
        self.counts: collections.Counter[str] = collections.Counter()
        self.bytes_client: int | None = 0
        self.under_way_s: float | None = 0.0
        self.running: dict[int, PoolProcess] = {}
        self.resting: list[PoolProcess] = []
        self.over = self.stopped = False
        self.starting = self.over_then = False  # while a process is being started time is not over, but right after it
        self.overdue = 0
        self.statement_bytes = 0  # of others' counts that we have read, which are among our own
        self.due_s = 0.0  # by the monotonic clock, when time will be over
        self.end = (0, 0)
        self.done = (scratch / DONE).open("wb", buffering=0)  # a byte for each fetch
        self.line = StartLine(len(self.processes), settling(len(self.processes) * task["jobs"]))
        self.own_begins: list[int] = []  # of the first and the last of those that wait by themselves

    def hold(self) -> None:
        """Have them all there, so that each needs but to know when, or those that wait by themselves a line."""
        for process in self.processes:
            process.client.prepare()
            self._start(process, self.line)
        self.line.wait_until_ready()
        for process in self.processes:
            process.wait_until_ready()

    def release(self, go_wall_ns: int) -> None:
        signal.signal(signal.SIGALRM, self._on_time_over)
        signal.signal(signal.SIGTERM, self._on_stop)
        for process in self.processes:
            process.client.renew()
        self.line.tell(go_wall_ns)
        begin_wall_ns = go_wall_ns + self.line.settling_ns
        time.sleep(max(0.0, begin_wall_ns / 1e9 - time.time()))
        wall, mono = now()
        lines = [process for process in self.processes if process.waits_itself]
        for process in lines:
            process.release()
        self.own_begins = [wall, now()[0]] if lines else []
        for process in self.processes:
            process.go_from((mono - wall + begin_wall_ns) / 1e9)
        self.due_s = (mono - wall + begin_wall_ns) / 1e9 + (self.for_s or 0.0)
        for process in lines:
            process.schedule("SCHED_OTHER")
        if self.for_s is not None:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, begin_wall_ns / 1e9 + self.for_s - time.time()))

    def work_on(self) -> None:
        """Until the files are read or time is over: who has ended is given the next ones."""
        while self.running or (self.resting and not self.over):
            for process in [process for process in self.resting if process.rests_until <= time.monotonic()]:
                self.resting.remove(process)
                self._start(process)
            ended = self._ended()
            if ended is None:
                time.sleep(POLL_S)
            elif not self._count(ended):
                self._rest(ended)
            elif ended.rests_until > time.monotonic():
                self.resting.append(ended)
            else:
                self._start(ended)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ended(self) -> "PoolProcess | None":
        """One whose process has ended, but is not forgotten yet; none is waited for while others rest."""
        if not self.running:
            return None
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | (os.WNOHANG if self.resting else 0))
        return self.running.pop(ended.si_pid) if ended else None

    def to_record(self) -> "dict[str, Any]":
        begins = [*self.line.begins(self.end[0]), *self.own_begins] or [0]
        return {
            **self.tally.to_record(self.overdue),
            "first_failure": self.tally.first_failure, "processes": len(self.processes),
            "bytes": self.tally.bytes, "bytes_client": self.bytes_client, "end": self.end, "stopped": self.stopped,
            "counts": dict(self.counts),
            "under_way_s": None if self.under_way_s is None else round(self.under_way_s, 6),
            "first_begin_wall_ns": min(begins), "last_begin_wall_ns": max(begins),
        }  # fmt: skip

    def _start(self, process: PoolProcess, line: "StartLine | None" = None) -> None:
        self.starting = True
        try:
            if not self.over and process.start(line):
                self.running[process.popen.pid] = process
        except OSError as error:
            if line:
                raise
            self.tally.add(Fetch(process.places[0], "failed", f"could not be started: {error}", None, 0.0))
            self._rest(process)
        finally:
            self.starting = False
        if self.over_then:
            self.over_then = False
            self._on_time_over()

    def _rest(self, process: PoolProcess) -> None:
        process.rests_until = max(process.rests_until, time.monotonic() + REST_S)
        process.begin = process.rests_until if process.every_s is None else process.begin
        self.resting.append(process)

    def _reap(self, process: PoolProcess) -> Run:
        """Its counts, which the kernel adds to our own when it is forgotten."""
        before, statement_bytes = io_of("self"), self.statement_bytes
        _, status, usage = os.wait4(process.popen.pid, 0)
        after, (wall, mono) = io_of("self"), now()
        process.popen.returncode = exit_status = exit_status_of(status)
        # One that has failed may have read less than its like did to start.
        statements = before.text_bytes + self.statement_bytes - statement_bytes
        read = max(0, after.read - before.read - statements - process.before.read)
        written = max(0, after.written - before.written - process.before.written)
        return Run(
            exit_status=exit_status, end_wall_ns=wall, end_mono_ns=mono, first_byte_wall_ns=None,
            read_bytes=read if before.text_bytes else None, written_bytes=written if before.text_bytes else None,
            cpu_user_s=usage.ru_utime, cpu_system_s=usage.ru_stime, peak_rss_kb=usage.ru_maxrss,
            stderr=tail_of(process.stderr), stderr_bytes=process.stderr.stat().st_size,
        )  # fmt: skip

    def _count(self, process: PoolProcess) -> bool:
        """Add what it has done; whether that went well."""
        run = self._reap(process)
        failed, ended, end = self.tally.failed, time.monotonic(), process.client.outcome(run)
        late = process.too_late(run)
        fetches = list(process.fetches(end, ended, late))
        under_way_s = process.under_way_s(fetches, ended)
        if self.under_way_s is not None:
            self.under_way_s = None if under_way_s is None else self.under_way_s + under_way_s
        for fetch in fetches:
            self.tally.add(fetch)
            self.done.write(b".")
        self.counts.update(end.get("detail", {}).get("counts", {}))
        own_bytes = end.get("bytes_client")
        self.bytes_client = total([self.bytes_client, None if own_bytes is None else max(0, own_bytes - late)])
        process.go_on(ended)
        if not self.over:
            self.end = (run.end_wall_ns, run.end_mono_ns)
        return self.tally.failed == failed

    def _on_time_over(self, *_: Any) -> None:
        if self.over:
            for process in self.running.values():
                _end(process, signal.SIGKILL)
            return
        if self.starting:
            self.over_then = True
            return
        self.over = True
        for process in list(self.running.values()):  # at one instant: whose turn to be ended came last would read on
            _end(process, signal.SIGSTOP)
        self.end = now()
        due = min(self.end[1] / 1e9, self.due_s)  # a busy worker looks at the clock too late
        self.overdue = sum(process.overdue(due) for process in self.processes)
        for process in list(self.running.values()):
            self._cut(process)
        signal.setitimer(signal.ITIMER_REAL, self.grace_s, self.grace_s)

    def _on_stop(self, *_: Any) -> None:
        self.stopped = True
        if not self.over:
            self._on_time_over()

    def _cut(self, process: PoolProcess) -> None:
        """End what is under way; a program that then ends as if all was well has read no file in time."""
        process.was_cut = os.waitid(os.P_PID, process.popen.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None
        process.cut_s = time.monotonic()
        counts = io_of(str(process.popen.pid))
        self.statement_bytes += counts.text_bytes
        process.at_cut = counts if process.was_cut and counts.text_bytes else None
        _end(process, signal.SIGTERM)
        _end(process, signal.SIGCONT)


def _end(process: PoolProcess, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # Popen's own would have it forgotten, and its counts
        os.kill(process.popen.pid, how)
