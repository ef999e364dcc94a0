"""Says that sampling has begun, and looks for the stop file."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from tierbench.monitors.refusal import Refusal
from tierbench.monitors.sampling import Sampling, host_name
from tierbench.wrappers.condor import AccessPoint, NoChirp, in_job

STOP_POLL_S = 0.5


class Watch:
    """Says that sampling has begun and looks for the stop file, in a thread, as chirp may be slow."""

    def __init__(self, stop_file: "str | None", sampling: Sampling) -> None:
        try:
            self.access_point = AccessPoint() if in_job() else None
        except NoChirp as error:
            raise Refusal(4, str(error)) from None
        self.stop_file = stop_file
        self.sampling = sampling
        self.complaints: set[str] = set()

    def run(self) -> None:
        self.sampling.first_written.wait()
        duties = [self._announce, self._stop]
        while True:
            duties = [duty for duty in duties if not self._done(duty)]
            if not duties:
                return
            time.sleep(STOP_POLL_S)

    def _announce(self) -> bool:
        if self.access_point:
            self.access_point.announce(f"TIERBENCH SAMPLING {host_name()}")
            self._compare_clocks()
        return True

    def _compare_clocks(self) -> None:
        """Once before and once after the reading; a failure is no harm, and is not waited for again."""
        if not self.access_point:
            return
        try:
            self.sampling.clocks.append(self.access_point.clock())
        except (OSError, ValueError, IndexError) as error:
            print(f"sampler: the access point's clock cannot be read: {error}", file=sys.stderr)

    def _stop(self) -> bool:
        if self.stop_file and self._is_there(self.stop_file):
            if self.sampling.clocks:
                self._compare_clocks()
            self.sampling.end("stop")
        return not self.stop_file or bool(self.sampling.reason)

    def _is_there(self, name: str) -> bool:
        """Whether there is such a file beside the job on the access point, or here where there is no HTCondor."""
        return self.access_point.fetch(name) if self.access_point else Path(name).exists()

    def _done(self, duty: "Callable[[], bool]") -> bool:
        """Whether the duty is over; a trouble is told once, and the duty tried again next time."""
        try:
            return duty()
        except OSError as error:
            complaint = f"{type(error).__name__}: {error}"
            if complaint not in self.complaints:
                self.complaints.add(complaint)
                print(f"sampler: {complaint}; trying on", file=sys.stderr)
            return False
