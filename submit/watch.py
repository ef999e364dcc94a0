"""A live view of a run: a line for each trial that has finished, and one for the trial at work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from tierbench import stored
from tierbench.dags import names
from tierbench.stored import Damaged
from tierbench.submit.progress import Run, Stage, TrialProgress

LOOK_SECONDS = 0.5
QUEUE_SECONDS = 5.0


def watch(run: Run, in_queue: Callable[[], bool], out: TextIO = sys.stderr) -> None:
    """Show the run until its DAG has left the queue."""
    view = View(out)
    asked = time.monotonic()
    while True:
        view.show(list(run.trials()), run)
        if time.monotonic() - asked > QUEUE_SECONDS or view.all_finished:
            if not in_queue():
                break
            asked = time.monotonic()
        time.sleep(LOOK_SECONDS)
    view.show(list(run.trials()), run)
    view.close()


class View:
    """What is on the screen; on a terminal its last line is written over, elsewhere only lasting lines appear."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._told: set[Path] = set()
        self._durations: dict[Path, float] = {}
        self.all_finished = False

    def show(self, trials: list[TrialProgress], run: Run) -> None:
        """Tell of trials that have finished since, and what the one at work is at."""
        self._told -= {trial.directory for trial in trials if trial.stage is not Stage.FINISHED}  # tried again
        for trial in trials:
            if trial.stage is Stage.FINISHED and trial.directory not in self._told:
                self._told.add(trial.directory)
                self._durations[trial.directory] = _duration(trial.directory)
                self._lasting(_finished_line(trial, len(self._told), len(trials)))
        self.all_finished = len(self._told) == len(trials)
        if self._live and not self.all_finished:
            working = next((trial for trial in trials if trial.stage not in (Stage.WAITING, Stage.FINISHED)), None)
            words = self._working_line(working, run) if working else "waiting for the pool"
            self._out.write(f"\r\033[K{len(self._told)}/{len(trials)}  {words}{self._time_left(len(trials))}")
            self._out.flush()

    def close(self) -> None:
        if self._live:
            self._out.write("\r\033[K")

    def _lasting(self, line: str) -> None:
        self._out.write(("\r\033[K" if self._live else "") + line + "\n")
        self._out.flush()

    def _working_line(self, trial: TrialProgress, run: Run) -> str:
        if trial.stage is Stage.GATHERING:
            return f"{trial.name}: {trial.ready} of {trial.jobs} clients ready"
        if trial.stage is Stage.READING:
            rate = current_rate_mbps(trial.directory / names.sample_file(run.sampled_host))
            sending = f", storage sends {rate:.0f} Mb/s" if rate is not None else ""
            return f"{trial.name}: {trial.done} of {trial.jobs} clients done{sending}"
        return f"{trial.name}: {trial.stage.value}"

    def _time_left(self, trials: int) -> str:
        if not self._durations:
            return ""
        seconds = sum(self._durations.values()) / len(self._durations) * (trials - len(self._told))
        return f"; about {seconds / 60:.0f} min left" if seconds >= 60 else f"; about {seconds:.0f} s left"


def _finished_line(trial: TrialProgress, number: int, count: int) -> str:
    if trial.well:
        return f"{number}/{count}  {trial.name}: {trial.state}"
    reasons = "; ".join(trial.reasons[:2])
    more = f" and {len(trial.reasons) - 2} more" if len(trial.reasons) > 2 else ""
    return f"{number}/{count}  {trial.name}: INCOMPLETE: {reasons}{more}"


def _duration(directory: Path) -> float:
    """Seconds from the trial's first trace to its outcome."""
    try:
        traces = [path.stat().st_mtime for path in (directory / names.FLUSH).glob("*")]
        ended = (directory / names.OUTCOME).stat().st_mtime
    except FileNotFoundError:  # just put aside for another try
        return 0.0
    return max(0.0, ended - min(traces, default=ended))


def current_rate_mbps(samples: Path) -> float | None:
    """What the interface sent between its last two samples, if there are two."""
    try:
        with samples.open("rb") as file:
            header = stored.parse_as(dict[str, Any], file.readline(), samples.name)
            size, first = header["record_bytes"], file.tell()
            whole = (samples.stat().st_size - first) // size
            if whole < 2:
                return None
            file.seek(first + (whole - 2) * size)
            records = [file.read(size).split() for _ in range(2)]
            columns = [column["name"] for column in header["columns"]]
            before, after = (dict(zip(columns, map(int, record), strict=True)) for record in records)
            rate: float = (after["tx_bytes"] - before["tx_bytes"]) * 8e3 / (after["mono_ns"] - before["mono_ns"])
            return rate
    except (OSError, ValueError, TypeError, KeyError, ZeroDivisionError, Damaged):  # being written, or its trailer
        return None
