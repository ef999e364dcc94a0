"""The jobs of the trial that waits for its turn: which of them were started while this one measured.

A job that waits costs about nothing; that one is being started may be seen in this trial's rate. Shipped to the run
directory; stdlib only, Python 3.6 or newer.
"""

import json
import time
from pathlib import Path

from tierbench.submit.trial.joblog import Cluster

AHEAD = "ahead"  # in the run's directory: names that trial
BESIDE = "beside.json"
LOGS = ("clients.log", "flush.log", "samplers.log")


class Beside:
    """Notes when such jobs were started, from the go of the trial here on; looked at again and again."""

    def __init__(self, trial: Path) -> None:
        self.trial = trial.absolute()
        self.clusters = {}  # type: dict[str, list[Cluster]]
        self.count = self._started()  # those that were started before the go are no matter
        try:
            self.noted = json.loads((trial / BESIDE).read_text())
        except (OSError, ValueError):
            self.noted = {}

    def look(self) -> None:
        before, self.count = self.count, self._started()
        if self.count > before:
            now = round(time.time(), 3)
            jobs = self.noted.get("jobs", 0) + self.count - before
            first = self.noted.get("first_wall_s", now)
            self.noted = {"format": 1, "jobs": jobs, "first_wall_s": first, "last_wall_s": now}
            unfinished = self.trial / (BESIDE + ".new")
            unfinished.write_text(json.dumps(self.noted) + "\n")
            unfinished.rename(self.trial / BESIDE)

    def _started(self) -> int:
        """How often jobs of trials that wait, or waited, have been started."""
        try:
            name = (self.trial.parent.parent / AHEAD).read_text()
        except FileNotFoundError:
            name = ""
        if name not in ("", self.trial.name, *self.clusters):
            self.clusters[name] = [Cluster(self.trial.parent / name / log) for log in LOGS]
        clusters = [cluster for trial in self.clusters.values() for cluster in trial]
        for cluster in clusters:
            cluster.read_on()
        return sum(sum(cluster.starts.values()) for cluster in clusters)
