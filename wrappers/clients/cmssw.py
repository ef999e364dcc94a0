"""cmsRun with the user's PSet, in a release from CVMFS or a release area, bare or in an Apptainer image."""

import math
import os
import shlex
import shutil
import xml.etree.ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tierbench.wrappers.child import HOLD, Failure, Run
from tierbench.wrappers.client import Client, Option
from tierbench.wrappers.credentials import KINDS, path_of


class Cmssw(Client):
    """cmsRun with a given PSet, in a release from CVMFS or a given area, bare or within Apptainer."""

    counts_events = True
    kinds = ("copies",)
    memory_mb = 2500
    taken_in = "bytes_app"  # its process takes in much that is not of its file
    remedy = "see that CVMFS is mounted, or correct the workload's options"
    options = {
        "pset": Option("", needed=True, file=True, meaning="your PSet, the path of a file beside the experiment"),
        "release": Option("", kind="Release", meaning="a release from CVMFS, as CMSSW_14_0_0; this or area"),
        "area": Option("", kind="OptionalPath", meaning="a project area that is there"),
        "arch": Option("", kind="Release", meaning="SCRAM_ARCH"),
        "cvmfs": Option("/cvmfs/cms.cern.ch", kind="AbsolutePath", meaning="where CMS' software is mounted"),
        "image": Option("", kind="Image", meaning="an Apptainer image to run in"),
        "binds": Option((), kind="Bind", meaning="further folders that are visible in it"),
    }

    @classmethod
    def check(cls, options: "Mapping[str, Any]") -> None:
        if bool(options["release"]) == bool(options["area"]):
            raise ValueError('either release, like "CMSSW_10_6_30", or area, a release area on the workers, is needed')

    @classmethod
    def missing(cls, options: "Mapping[str, Any]") -> str:
        if options["image"]:
            if not (shutil.which("apptainer") or shutil.which("singularity")):
                return "there is no apptainer for the image"
            if not os.path.exists(options["image"]):  # noqa: PTH110 - Path raises for what may not be looked at
                return "there is no image {}".format(options["image"])
        elif options["area"]:
            return "" if os.path.isdir(options["area"]) else "there is no {}".format(options["area"])  # noqa: PTH112
        setup = options["cvmfs"] + "/cmsset_default.sh"
        return "" if os.path.exists(setup) else f"there is no {setup}"  # noqa: PTH110

    def prepare(self) -> None:
        pset = Path(self.job.options["pset"])
        if not pset.is_file():
            raise Failure("failed", f"there is no PSet {pset}")
        (self.job.scratch / "user_pset.py").write_bytes(pset.read_bytes())
        (self.job.scratch / "run.sh").write_text("\n".join(self._script()) + "\n")

    def held_command(self) -> "list[str]":
        (self.job.scratch / "pset.py").write_text("\n".join(self._pset()) + "\n")  # of a job's each file
        script = ["sh", str(self.job.scratch / "run.sh")]
        if not self.job.options["image"]:
            return script
        binds = [str(self.job.scratch), *self.job.options["binds"]]
        if not self.job.remote:
            binds.append(str(Path(self.job.path).parent))
        credentials = [path_of(name) for name in KINDS if name != "ticket"]
        binds += sorted({str(Path(file).parent) for file in credentials if file})
        if Path("/cvmfs").is_dir():
            binds.append("/cvmfs")
        apptainer = shutil.which("apptainer") or "singularity"
        return [apptainer, "exec", "--bind", ",".join(binds), self.job.options["image"], *script]

    def outcome(self, run: Run) -> "dict[str, Any]":
        try:
            report = JobReport(self.job.scratch / "FrameworkJobReport.xml")
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            end = {**self.judged(run, None), "bytes_client": run.read_bytes}
            return {**end, "status": "failed", "message": f"no job report: {error}"} if not run.exit_status else end
        status, message = "ok", ""
        if run.exit_status:
            status, message = report.failure(run.last_words)
        elif not all(self._is_own(name) for name in report.files):
            status, message = "wrong-protocol", f"cmsRun opened {', '.join(report.files)}"
        elif not report.files:
            status, message = "short-read", "cmsRun opened no file"
        return {
            "status": status, "message": message, "events": report.events, "bytes_app": report.bytes_read,
            "bytes_client": run.read_bytes, "bytes_source": "StorageStatistics", "detail": report.detail,
        }  # fmt: skip

    def _is_own(self, opened: str) -> bool:
        """Whether it is this job's replica, by the protocol that was asked for."""
        return opened.startswith(self.job.url) if self.job.remote else opened.endswith(self.job.path)

    def _pset(self) -> "Iterator[str]":
        """Takes the user's PSet and has it read all of this job's replica; for Python 2 and 3, as CMSSW may have."""
        url = self.job.url if self.job.remote else f"file:{self.job.path}"
        yield f"exec(open({str(self.job.scratch / 'user_pset.py')!r}).read())"
        yield "import FWCore.ParameterSet.Config as cms"
        yield f"process.source.fileNames = cms.untracked.vstring({url!r})"
        yield "process.maxEvents = cms.untracked.PSet(input=cms.untracked.int32(-1))"
        yield "if hasattr(process, 'options'):  # a slot has one core"
        yield "    process.options.numberOfThreads = process.options.numberOfStreams = cms.untracked.uint32(1)"
        yield "if not hasattr(process, 'Timing'):  # it puts the CPU times into the job report"
        yield "    process.Timing = cms.Service('Timing', summaryOnly=cms.untracked.bool(True))"

    def _script(self) -> "Iterator[str]":
        """Sets CMSSW up, then waits to be let go."""
        quote, area = shlex.quote, self.job.options["area"]
        if self.job.options["arch"]:
            yield f"export SCRAM_ARCH={quote(self.job.options['arch'])}"
        yield f". {quote(self.job.options['cvmfs'] + '/cmsset_default.sh')} >&2 || exit 125"
        yield f"cd {quote(str(self.job.scratch))} || exit 125"
        if not area:
            area = self.job.options["release"]
            yield f"scramv1 project CMSSW {quote(area)} >&2 || exit 125"
        yield f'cd {quote(area + "/src")} && eval "$(scramv1 runtime -sh)" || exit 125'
        yield f"cd {quote(str(self.job.scratch))} || exit 125"
        yield f"set -- cmsRun -j {quote(str(self.job.scratch / 'FrameworkJobReport.xml'))} pset.py"
        yield HOLD


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
            counts = [part for part in parts if part is not None]
            actual = sum(counts) if counts else None
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
        metric = self.root.find(f"PerformanceReport/PerformanceSummary[@Metric='{summary}']/Metric[@Name='{name}']")
        return None if metric is None else number(metric.get("Value"))


def number(text: "str | None") -> "float | None":
    """A number of the report; None where it has been left out, or is none."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
