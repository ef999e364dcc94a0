"""The root routine, a program in ROOT: every event in full, all branches or a share of them."""

import importlib.util
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tierbench.wrappers.child import Run, run_program, signal_of
from tierbench.wrappers.client import Client, Option, check_size

HERE = Path(__file__).resolve().parent  # the programs lie beside, whether in the package or in a job
# The paths are the ones in the command; a program that cannot find ROOT's libraries here gives way to its macro.
ROOT_LAUNCH = """
setup=$1 program=$2 root=$3 macro=$4
shift 4
export ROOT_HIST=0  # no history file in the home directory
eval "$setup" >&2 || exit 125
if [ -x "$program" ] && ! LD_TRACE_LOADED_OBJECTS=1 "$program" 2>&1 | grep -q "not found"; then
    exec "$program" "$@"
fi
exec "$root" -l -b -q "$macro"
"""

REPORT = "report.json"
SPECIFIED = "import importlib.util as u; print(getattr(u.find_spec('ROOT'), 'origin', None) or '')"


class Root(Client):
    """The thesis' root routine: reads every event in full."""

    counts_events = True
    program = "root_read"
    unable: "ClassVar[Mapping[str, str]]" = {
        "http": "CERN's wheel of ROOT reads no https, as it has neither Davix nor libRCurlHttp; http does"
    }
    kinds: "tuple[str, ...] | None" = ("tree", "rntuple", "higgs", "copies")
    memory_mb = 384
    usual_excess = 0.05
    remedy = "install ROOT there, or set options.setup of the workload to the line that makes it available"
    ships: "tuple[str, ...]" = ("root_read.C", "replica.h", "ntuple.h")
    options = {
        "cache_mb": Option(
            "default",
            high=4096,
            words=("off", "default"),
            meaning="TTreeCache: off, default (one cluster) or its size; off: no cluster cache of an RNTuple either",
        ),
        "clusters": Option(1, 1, 1000, meaning="RNTuple clusters fetched at once"),
        "learn": Option(False, meaning="the cache learns the branches, instead of being told them"),
        "cpu_share": Option(1.0, 0.001, 1, meaning="of a core that counts as a whole one, in a scale model"),
        "branches": Option(1.0, 0.001, 1, meaning="share of the branches that is read, evenly spread"),
        "tree": Option("", kind="Tree", meaning="its name; empty: the first one"),
        "starting": Option(False, meaning="the time that ROOT needs to start counts"),
        "setup": Option("", kind="Shell", meaning="a line of shell that puts ROOT onto the PATH"),
    }

    @classmethod
    def memory(cls, options: "Mapping[str, Any]") -> float:
        return cls.memory_mb + max(0.0, cache_mb(options))

    @classmethod
    def check(cls, options: "Mapping[str, Any]") -> None:
        value = options["cache_mb"]
        if not isinstance(value, str) and value <= 0:
            instead = ', "default" for what 0 was' if value == 0 else ', "off" for what -1 was' if value == -1 else ""
            raise ValueError(f'cache_mb: must be "off", "default" or megabytes above 0, not {value:g}{instead}')

    @classmethod
    def missing(cls, options: "Mapping[str, Any]") -> str:
        setup = options["setup"] or os.environ.get("TIERBENCH_ROOT_SETUP", "")
        if run_program("sh", "-c", f"{setup}\ncommand -v root.exe").status == 0 if setup else find_root_executable():
            return ""
        return "there is no ROOT" + (f", after `{setup}`" if setup else " on the PATH")

    def arguments(self) -> "list[str | float | bool]":
        """The program's own, between the file to read and how it is to begin and report."""
        options = self.job.options
        clusters = 0 if options["cache_mb"] == "off" else options["clusters"]
        return [
            options["tree"], cache_mb(options), options["learn"], options["cpu_share"], options["branches"], clusters,
        ]  # fmt: skip

    def held_command(self) -> "list[str] | None":
        return None if self.job.options["starting"] else self.command()

    def command(self) -> "list[str]":
        waits = not self.job.options["starting"]
        arguments = [self.job.path, *self.arguments(), waits, str(self.job.scratch / REPORT)]
        macro = f"{HERE / self.program}.C({','.join(map(json.dumps, arguments))})"
        setup = self.job.options["setup"] or os.environ.get("TIERBENCH_ROOT_SETUP", "")
        words = [str(int(word) if isinstance(word, bool) else word) for word in arguments]
        root = "root.exe" if setup else find_root_executable() or "root.exe"
        return ["sh", "-c", ROOT_LAUNCH, "sh", setup, str(HERE / self.program), root, macro, *words]

    def paths(self, outcome: "Mapping[str, Any]") -> "list[str]":
        """Its software may come by a mount as well."""
        library = outcome.get("detail", {}).get("root_library")
        return [*super().paths(outcome), *([library] if library else [])]

    def outcome(self, run: Run) -> "dict[str, Any]":
        report = self.job.report(REPORT)
        run = run._replace(exit_status={128: 135, 129: 139}.get(run.exit_status, run.exit_status))  # ROOT's own numbers
        if signal_of(run.exit_status) or not report:
            return {**self.judged(run, None), "bytes_client": run.read_bytes}
        status, message = report.pop("status"), report.pop("message")
        if status == "ok" and run.exit_status:
            status, message = "failed", run.last_words
        elif status == "ok":
            words = "the file has {} bytes where {} were expected"
            status, message = check_size(report["file_bytes"], self.job.expected_bytes, words)
        return {
            "status": status, "message": message, "opened_wall_ns": report.pop("opened_wall_ns"),
            "first_byte_wall_ns": report.pop("first_event_wall_ns"), "events": report.pop("events"),
            "bytes_app": report.pop("bytes"), "bytes_client": report.pop("process_read_bytes"),
            "bytes_source": "TFile", "detail": report,
        }  # fmt: skip


def cache_mb(options: "Mapping[str, Any]") -> float:
    """As the programs take it: -1 is no cache, 0 is ROOT's default."""
    return float({"off": -1, "default": 0}.get(options["cache_mb"], options["cache_mb"]))


def find_root_executable() -> str:
    """ROOT's own executable, or "": of Python's package ROOT, here or in the system's Python, or any on the PATH.

    The package is not imported for it. Workers run the system's Python, the access point mostly another one.
    """
    package = importlib.util.find_spec("ROOT")
    here = _of_package(package.origin if package else None)
    if here or shutil.which("root.exe"):
        return here or str(shutil.which("root.exe"))
    python = shutil.which("python3", path=os.defpath)
    answer = run_program(python, "-c", SPECIFIED) if python else None
    return _of_package(answer.output.strip()) if answer and answer.status == 0 else ""


def _of_package(origin: "str | None") -> str:
    wheel = Path(origin or "").parent / "bin/root.exe"
    return str(wheel) if origin and wheel.exists() else ""
