"""CMSSW's FrameworkJobReport.xml."""

import math
import xml.etree.ElementTree
from pathlib import Path


class JobReport:
    """What CMSSW's FrameworkJobReport.xml says of the reading."""

    OPEN_ERRORS = (8020, 8028)  # FileOpenError, FallbackFileOpenError
    READ_ERRORS = (8021, 8022)  # FileReadError, FatalRootError
    STORAGE = "Timing-{}-totalMegabytes"
    WANTED = (
        ("Timing", "TotalJobCPU", "total_job_cpu_s"),
        ("Timing", "TotalJobTime", "total_job_time_s"),
        ("Timing", "EventThroughput", "event_throughput_hz"),
        ("ApplicationMemory", "PeakValueRss", "peak_rss_mb"),
    )

    def __init__(self, path: Path) -> None:
        self.root = xml.etree.ElementTree.parse(str(path)).getroot()  # noqa: S314 - by our own cmsRun
        inputs = self.root.findall("InputFile")
        self.files = [file.findtext("PFN", "").strip() for file in inputs]
        counts = [number(file.findtext("EventsRead")) for file in inputs]
        self.events = None if None in counts else int(sum(count or 0 for count in counts))
        values = [(metric, self._metric(summary, name)) for summary, name, metric in self.WANTED]
        self.detail = {metric: value for metric, value in values if value is not None}

    @property
    def bytes_read(self) -> "int | None":
        """What was read from storage; the metric's megabytes are MiB, and its plain read leaves vector reads out."""
        actual = self._storage("tstoragefile-readActual")
        if actual is None:
            parts = [self._storage(part) for part in ("root-read", "root-readv")]
            known = [part for part in parts if part is not None]
            actual = sum(known) if known else None
        return None if actual is None else round(actual * 2**20)

    def failure(self, last_words: str) -> "tuple[str, str]":
        """Status and message of a cmsRun that failed."""
        error = self.root.find("FrameworkError")
        if error is None:
            return "failed", last_words
        code = int(number(error.get("ExitStatus")) or 0)
        status = "open-failed" if code in self.OPEN_ERRORS else "short-read" if code in self.READ_ERRORS else "failed"
        return status, f"{error.get('Type')} ({code}): {' '.join((error.text or '').split())[:500]}"

    def _storage(self, operation: str) -> "float | None":
        return self._metric("StorageStatistics", self.STORAGE.format(operation))

    def _metric(self, summary: str, name: str) -> "float | None":
        found = self.root.find(f"PerformanceReport/PerformanceSummary[@Metric='{summary}']/Metric[@Name='{name}']")
        return None if found is None else number(found.get("Value"))


def number(text: "str | None") -> "float | None":
    """A number of the report; None where it has been left out, or is none."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
