"""How far a run has come: a live view, a line for each trial; and `tierbench status`, from its directory alone."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

from tierbench import names
from tierbench.checked_text import printable
from tierbench.files import text_of
from tierbench.postprocess.verdict.counting import INVALID, VALID
from tierbench.submit.console import add_command, as_json, coloured, document, fitting, run_directory, show
from tierbench.submit.pool import PoolError
from tierbench.submit.progress import Judged, Run, Stage, TrialProgress, hopeless
from tierbench.submit.trial.disk_reserve import LOW_BYTES, RESERVE_BYTES, free_bytes
from tierbench.submit.trial.trial_monitor import RECEIVED, SENT, SHOWN_SECONDS, counted, last_samples
from tierbench.trials import SKIPPED, read_trial

COLUMNS, LINES = 80, 24  # of a terminal that does not say how many it has
LOOK_SECONDS = 0.5
QUEUE_SECONDS = 5.0
LEFT_SECONDS = 120.0  # a DAG is gone within seconds of its last trial
TABLES_SECONDS = 30.0  # a trial has its tables seconds after its end
NEEDED_BYTES = LOW_BYTES + RESERVE_BYTES  # for a trial to begin
UNANSWERED_SECONDS = 900.0  # for so long the pool may not answer: a restart takes seconds, an upgrade minutes


def watch(
    run: Run, in_queue: Callable[[], bool], view: View | ObjectView, stops: Callable[[str], bool] | None = None
) -> bool:
    """Show the run until its DAG has left the queue; False if it is to be stopped, as `stops` says of why it should."""
    queue = PatientQueue(in_queue, view.tell)
    submission = run.submission
    view.pass_over(list(run.trials()), submission.wall_s if submission else 0.0)
    last_question = last_unfinished = time.monotonic()
    while True:
        trials = list(run.trials())
        view.show(trials)
        if stops and (reason := hopeless(trials)):
            view.clear()
            if stops(reason):
                return False
            stops = None
        if not view.all_finished:
            last_unfinished = time.monotonic()
        if time.monotonic() - last_question > QUEUE_SECONDS or view.all_finished:
            if not queue.holds():
                break
            last_question = time.monotonic()
        if last_question - last_unfinished > LEFT_SECONDS:  # a scheduler killed at the very end starts one that stays
            view.tell(f"all trials have ended, but the DAG stays; `tierbench stop {run.directory}` ends it, too")
            break
        time.sleep(LOOK_SECONDS)
    view.show(list(run.trials()), ended=True)
    view.clear()
    return True


class PatientQueue:
    """Whether a run is in the queue, asked of a pool that may be restarted meanwhile."""

    def __init__(self, in_queue: Callable[[], bool], tell: Callable[[str], None]) -> None:
        self._in_queue, self._tell = in_queue, tell
        self._unanswered: float | None = None

    def holds(self) -> bool:
        """Whether it is there; as long as nobody answers it is taken to be."""
        try:
            answer = self._in_queue()
        except PoolError as error:
            now = time.monotonic()
            if self._unanswered is None:
                self._unanswered = now
                self._tell(f"{error}; asking again for up to {UNANSWERED_SECONDS / 60:.0f} min, the run goes on")
            elif now - self._unanswered > UNANSWERED_SECONDS:
                raise
            return True
        if self._unanswered is not None:
            self._tell(f"HTCondor answers again, after {time.monotonic() - self._unanswered:.0f} s")
            self._unanswered = None
        return answer


def so_far(trials: Sequence[TrialProgress]) -> Iterator[tuple[str, str]]:
    """Of each batch that has a rate its name, and the mean with its 95 % interval, how many trials, their verdicts."""
    batches: dict[str, list[Judged | None]] = {}
    for trial in trials:
        judged = trial.judged if trial.stage is Stage.FINISHED else None
        batches.setdefault(trial.batch, []).append(judged)
    for name, each in batches.items():
        measured = [(judged, judged.rate) for judged in each if judged and judged.rate is not None]
        if not measured:
            continue
        rates = [rate for judged, rate in measured if judged.verdict != INVALID]
        doubted = Counter(judged.verdict for judged, _ in measured if judged.verdict != VALID)
        verdicts = " ".join(f"{number} {verdict}" for verdict, number in doubted.items()) or VALID
        mean = f"{_shown(fmean(rates))}{_half_width(rates)} {measured[0][0].unit}" if rates else "-"
        yield name, f"{mean}  {len(measured)}/{len(each)} {verdicts}"


def _half_width(rates: Sequence[float]) -> str:
    from tierbench.postprocess.stats import mean_interval  # here, as it takes a second

    mean = mean_interval(list(rates))
    return f" ± {_shown((mean.interval[1] - mean.interval[0]) / 2)}" if mean.interval else ""


def _shown(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"


class View:
    """What is on the screen; on a terminal its last lines are written over, elsewhere only lasting lines appear."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._finished_trials: set[Path] = set()
        self._failures: set[tuple[Path, float]] = set()  # tries that have failed, by their outcomes' times
        self._awaited = ""
        self._some_skipped = False
        self._above = 0  # lines above the last one that will be written over
        self._since_s = time.time()
        self._ends: dict[Path, float] = {}  # of trials that have ended since then
        self.all_finished = False

    def pass_over(self, trials: list[TrialProgress], since_s: float) -> None:
        """Count the trials that were done before the run was last submitted, without a line for each."""
        self._since_s = since_s or self._since_s
        finished = (trial.directory for trial in trials if trial.stage is Stage.FINISHED)
        self._finished_trials |= {folder for folder in finished if 0 < _when(folder / names.OUTCOME) < since_s}
        if self._finished_trials:
            self.tell(f"{len(self._finished_trials)} of {len(trials)} trials are done from before")

    def show(self, trials: list[TrialProgress], *, ended: bool = False) -> None:
        """Tell of trials that have finished since, once they have a verdict, and what the one at work is at."""
        skipped = {trial.directory for trial in trials if trial.state == SKIPPED} - self._finished_trials
        self._finished_trials |= skipped
        if skipped and not self._some_skipped:
            self._some_skipped = True
            self.tell("some trials are not needed any more, and are passed over")
        for trial in trials:
            if trial.stage is Stage.FINISHED and trial.directory not in self._finished_trials:
                self._tell_of_end(trial, len(trials), ended)
        self.all_finished = len(self._finished_trials) == len(trials)
        working = next((trial for trial in trials if trial.stage not in (Stage.WAITING, Stage.FINISHED)), None)
        awaited = working.waiting_for.rpartition(", since ")[0] if working else ""
        if working and awaited not in ("", self._awaited):  # a wait that lasts is worth a line of its own, once
            self.tell(f"{working.name}: waits for {working.waiting_for}")
        elif not working and not self.all_finished and lacks_room(trials[0].directory.parent.parent):
            awaited = f"waiting for {NEEDED_BYTES / 1e6:.0f} MB of room on the access point's disk, or of a quota there"
            if awaited != self._awaited:
                self.tell(awaited)
        self._awaited = awaited
        if self._live and not self.all_finished:
            words = _working_line(working) if working else awaited or "waiting for the pool"
            self._draw(trials, f"{len(self._finished_trials)}/{len(trials)}{self._time_left(len(trials))}  {words}")

    def _tell_of_end(self, trial: TrialProgress, trials: int, ended: bool) -> None:
        when = _when(trial.directory / names.OUTCOME)
        if trial.again:
            if when and (trial.directory, when) not in self._failures:
                self._failures.add((trial.directory, when))
                self.tell(f"{_finished_line(trial)}; it is tried again")
            return
        self._ends[trial.directory] = when
        if trial.judged or ended or not trial.well or time.time() - when > TABLES_SECONDS:
            self._finished_trials.add(trial.directory)
            self.tell(f"{len(self._finished_trials)}/{trials}  {_finished_line(trial)}")

    def clear(self) -> None:
        """Leave no line that would be written over."""
        if self._live:
            self._out.write((f"\033[{self._above}A\r\033[J" if self._above else "") + "\r\033[K")
            self._out.flush()
            self._above = 0

    def _draw(self, trials: Sequence[TrialProgress], last: str) -> None:
        try:
            size = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            size = os.terminal_size((0, 0))
        columns, lines = size.columns or COLUMNS, size.lines or LINES
        rates = dict(so_far(trials))
        hidden = max(0, len(rates) - max(0, lines - 2))
        block = []
        for name, rate in [*rates.items()][hidden:]:  # the trials above tell of the others
            room = max(8, min(max(map(len, rates)), columns - len(rate) - 5))
            label = name if len(name) <= room else f"{name[: room // 3]}..{name[room // 3 + 2 - room :]}"
            block.append(f"  {label:<{room}}  {rate}")
        written = [fitting(printable(line), columns - 1, self._out) for line in (*block, last)]
        self.clear()
        self._out.write("".join(f"{coloured(line, self._out)}\n" for line in written[:-1]))
        self._out.write(f"\r\033[K{written[-1]}")
        self._out.flush()
        self._above = len(block)

    def tell(self, line: str) -> None:
        """Write a line that stays; what clients and servers said in it has no power over the terminal."""
        self.clear()
        self._out.write(coloured(printable(line), self._out) + "\n")
        self._out.flush()

    def _time_left(self, trials: int) -> str:
        """As long for each as so far; for one that takes longer, as long again as it does."""
        if not self._ends:
            return ""
        last = max(self._ends.values())
        each, elapsed = max(0.0, last - self._since_s) / len(self._ends), max(0.0, time.time() - last)
        seconds = each * (trials - len(self._finished_trials) - 1) + abs(each - elapsed)
        return f", {seconds / 60:.0f} min left" if seconds >= 60 else f", {seconds:.0f} s left"


class ObjectView:
    """For programs: each change of a trial, and each trouble, as an object of JSON on a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._before: dict[Path, dict[str, Any]] = {}
        self.all_finished = False

    def pass_over(self, trials: list[TrialProgress], since_s: float) -> None:
        """Those that were done before are shown like the others."""

    def show(self, trials: list[TrialProgress], *, ended: bool = False) -> None:  # noqa: ARG002 - as View has it
        """Tell of what has changed since; of a trial that waits for its turn first when it does something."""
        for trial in trials:
            record = trial.as_record()
            is_news = trial.stage is not Stage.WAITING or trial.directory in self._before
            if is_news and record != self._before.get(trial.directory):
                self._before[trial.directory] = record
                self._put(record)
        self.all_finished = all(trial.stage is Stage.FINISHED and not trial.again for trial in trials)

    def tell(self, line: str) -> None:
        self._put({"note": line})

    def clear(self) -> None:
        """Nothing is left on the screen."""

    def _put(self, content: dict[str, Any]) -> None:
        self._out.write(document("watch", {"wall_s": round(time.time(), 3), **content}, indent=None) + "\n")
        self._out.flush()


def lacks_room(run: Path) -> bool:
    """Whether the next trial waits for room. A quota shows by the trial that has the lock and takes up no reserve."""
    holder = run / names.LOCK_HOLDER
    trial = run / names.TRIALS / text_of(holder)
    begins = (trial / names.BEGUN).exists() or (trial / names.RESERVE).exists()
    waits = not begins and 0 < _when(holder) < time.time() - SHOWN_SECONDS
    return waits or free_bytes(run) < NEEDED_BYTES


def _working_line(trial: TrialProgress) -> str:
    if trial.waiting_for:
        return f"{trial.name}: waits for {trial.waiting_for}"
    if trial.stage is Stage.GATHERING:
        return f"{trial.name}: {trial.ready} of {trial.jobs} clients ready"
    if trial.stage is Stage.READING:
        try:
            own = read_trial(trial.directory)
        except (OSError, ValueError):  # which its gate and its tables tell of
            return f"{trial.name}: {trial.done} of {trial.jobs} clients done"
        storage = [trial.directory / names.sample_file(sampler.host) for sampler in own.samplers if sampler.of_storage]
        rate = current_rate_mbps(storage, RECEIVED if own.does == "writes" else SENT)
        does = "receives" if own.does == "writes" else "sends"
        sending = f", storage {does} {rate:.0f} Mb/s" if rate is not None else ""
        return f"{trial.name}: {trial.done} of {trial.jobs} clients done{sending}"
    return f"{trial.name}: {trial.stage.value}"


def _finished_line(trial: TrialProgress) -> str:
    judged = trial.judged if trial.well else None
    state = str(judged or trial.state) if trial.well else "INCOMPLETE"
    reasons = judged.reasons if judged else trial.reasons
    more = f" and {len(reasons) - 2} more" if len(reasons) > 2 else ""
    return f"{trial.name}: {state}" + (f": {'; '.join(reasons[:2])}{more}" if reasons else "")


def _when(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # just put aside
        return 0.0


def current_rate_mbps(files: Sequence[Path], counter: str = SENT) -> float | None:
    """What all the servers sent, or received, between the last two samples of each, if each has two."""
    rates = []
    for samples in files:
        try:
            before, after = last_samples(samples, 2)
            moved = counted(after, counter) - counted(before, counter)
            rates.append(moved * 8e3 / (after["mono_ns"] - before["mono_ns"]))
        except (KeyError, ValueError, ZeroDivisionError):
            return None
    return sum(rates) if rates else None


def register(subcommands: Any) -> None:
    status = add_command(subcommands, "status", _status, "Show how far a run has come, from its directory alone")
    run_directory(status)
    as_json(status)


def _status(arguments: argparse.Namespace) -> int:
    run = Run(arguments.directory)
    trials, own = list(run.trials()), run.submission
    loss = lost(run, trials)
    if arguments.json:
        content = {"run": str(run.directory), "cluster": own.cluster if own else None, "lost": loss}
        print(document("status", {**content, "trials": [trial.as_record() for trial in trials]}))
    else:
        show("\n".join(filter(None, [*_lines(trials), loss])))
    return 0


def lost(run: Run, trials: Sequence[TrialProgress]) -> str:
    """In words, that a run with trials at work is in no queue any more, and what to do; of any other nothing."""
    at_work = [trial.name for trial in trials if trial.stage not in (Stage.FINISHED, Stage.WAITING)]
    own = run.submission
    try:
        if not at_work or own is None or run.copy_of or own.is_elsewhere or run.goes_on:
            return ""
    except PoolError:  # it may be restarted just now
        return ""
    gone = f"job {own.cluster} is in no queue any more, so nobody runs {', '.join(at_work)}"
    return printable(f"{gone}; `tierbench submit {run.directory}` does what is not complete")


def _lines(trials: Sequence[TrialProgress]) -> Iterator[str]:
    numbers = Counter(trial.state if trial.stage is Stage.FINISHED else trial.stage.value for trial in trials)
    yield f"{len(trials)} trials: " + ", ".join(f"{number} {state}" for state, number in numbers.items())
    for trial in trials:
        if trial.stage is Stage.FINISHED and not trial.well:
            yield printable(f"{trial.name}: INCOMPLETE: {'; '.join(trial.reasons)}")
        elif trial.stage not in (Stage.FINISHED, Stage.WAITING):
            waits = f"; waits for {trial.waiting_for}" if trial.waiting_for else ""
            yield printable(f"{trial.name}: {trial.stage.value}, {trial.ready} ready, {trial.done} done{waits}")
