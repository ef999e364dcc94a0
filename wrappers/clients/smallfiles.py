"""Many small files, as a build has them: makes a tree of its own, then stats, opens, reads and follows links in it."""

import concurrent.futures
import itertools
import json
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tierbench.files import poll
from tierbench.wrappers.child import Failure, Run
from tierbench.wrappers.client import Client, Option, python

LONGEST_KB = 64
BRANCHES = 8  # directories in a directory: 20,000 of them are five deep
WRITE_AREA_S = 600  # the gate waits no longer, usually
MAKERS = 32  # files made at once: each takes several round trips
BESIDE_STORAGE, ON_WORKER = "mount", "local"
# Each operation is one or two questions to the file system. How many it has done is the length of a file, which the
# wrapper looks at.
REPLAY = """
steps = json.load(open(sys.argv[1]))
wait_for_go()
report = {"operations": 0, "read": 0, "seconds": {}, "counts": {}}
done = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT)

def opened(path):
    with open(path, "rb") as file:
        report["read"] += len(file.read())

do = {"stat": os.stat, "lstat": os.lstat, "readlink": os.readlink, "open": opened}
marked = 0.0
try:
    for what, path in steps:
        begin = time.perf_counter()
        do[what](path)
        end = time.perf_counter()
        report["seconds"][what] = report["seconds"].get(what, 0.0) + end - begin
        report["counts"][what] = report["counts"].get(what, 0) + 1
        report["operations"] += 1
        if end > marked + 1:
            marked = end
            os.ftruncate(done, report["operations"])
except OSError as error:
    sys.exit("{}: {}".format(path, error.strerror))
finally:
    with open(sys.argv[2], "w") as file:
        json.dump(report, file)
"""


class SmallFiles(Client):
    """The tree is made before the go; what counts are the operations on it, in an order that its seed says.

    The numbers are those of the ExTENCI paper's SCRAM build of CMSSW, all of them scaled by one.
    """

    does = "metadata"
    protocols = ("file",)
    kinds = ("written",)
    taken_in = "bytes_app"
    options = {
        "share": Option(1.0, 0.00001, 100, meaning="of each of the numbers below"),
        "directories": Option(20_703, 1, 10_000_000, meaning="directories in the tree"),
        "files": Option(182_913, 1, 10_000_000, meaning="files in the tree"),
        "links": Option(1_500, 1, 10_000_000, meaning="symbolic links in the tree"),
        "opens": Option(24_000, 0, 10_000_000, meaning="times a file is opened, read and closed"),
        "stats": Option(24_000, 0, 10_000_000, meaning="calls of stat"),
        "lstats": Option(36_000, 0, 10_000_000, meaning="calls of lstat"),
        "readlinks": Option(1_500, 0, 10_000_000, meaning="calls of readlink"),
        "seed": Option(1, 0, 2**31, meaning="of the operations' order"),
        "where": Option(
            BESIDE_STORAGE, choices=(BESIDE_STORAGE, ON_WORKER), meaning="mount, or local: the worker's own disk"
        ),
    }
    SCALED = ("directories", "files", "links", "opens", "stats", "lstats", "readlinks")

    def prepare(self) -> None:
        on_worker = self.job.options["where"] == ON_WORKER
        root = self.job.scratch / "tree" if on_worker else Path(self.job.path + ".tree")
        # The trial's write area is made by a job of its own, which removes whatever it finds in it.
        if not (on_worker or poll(root.parent.is_dir, WRITE_AREA_S, 0.1)):
            raise Failure("failed", f"{root.parent}: was not made within {WRITE_AREA_S} s")
        self.tree = Tree(root, self.shape(self.job.options))
        self.tree.make(self.job.expected_bytes or 0)
        (self.job.scratch / "steps").write_text(json.dumps(self.tree.steps()))

    @classmethod
    def shape(cls, options: "Mapping[str, Any]") -> "dict[str, int]":
        """The numbers as they come to be by the share; what was asked for does not vanish."""
        share = options["share"]
        scaled = {name: max(min(1, options[name]), round(share * options[name])) for name in cls.SCALED}
        return {**scaled, "seed": options["seed"]}

    @classmethod
    def entries(cls, options: "Mapping[str, Any]") -> int:
        shape = cls.shape(options)
        return 0 if options["where"] == ON_WORKER else shape["directories"] + shape["files"] + shape["links"]

    def held_command(self) -> "list[str]":
        return python(REPLAY, *(self.job.scratch / name for name in ("steps", "report", "done")))

    def progress(self) -> int:
        return self.job.size_of("done")

    def outcome(self, run: Run) -> "dict[str, Any]":
        result = self.job.report("report")
        if not result:
            return {**self.judged(run, 0 if run.exit_status else None), "operations": None}
        planned = len(self.tree.steps())
        well = not run.exit_status and result["operations"] == planned
        message = "" if well else f"did {result['operations']} of {planned} operations: {run.last_words}"
        detail = {f"{what}_s": round(value, 6) for what, value in sorted(result["seconds"].items())}
        return {
            "status": "ok" if well else "failed", "message": message,
            "operations": result["operations"], "operations_s": round(sum(result["seconds"].values()), 6),
            "bytes_app": result["read"], "bytes_client": run.read_bytes, "bytes_source": "proc-io",
            "detail": {**detail, "counts": result["counts"]},
        }  # fmt: skip


class Tree:
    """Directories within directories, files in all of them, and links to some."""

    def __init__(self, root: Path, shape: "dict[str, int]") -> None:
        chance = random.Random(shape["seed"])  # noqa: S311
        self.shape = shape
        self.folders = [root]
        for number in range(1, shape["directories"]):
            self.folders.append(self.folders[(number - 1) // BRANCHES] / f"d{number}")
        self.files = [str(chance.choice(self.folders) / f"f{number}") for number in range(shape["files"])]
        self.links = [f"{root}/l{number}" for number in range(shape["links"])]

    def make(self, size: int) -> None:
        """All of it, with so many bytes in its files together, none of which this host keeps in memory."""
        each = min(LONGEST_KB * 1024, size // len(self.files))
        with concurrent.futures.ThreadPoolExecutor(MAKERS) as makers:
            for _, alike in itertools.groupby(self.folders, key=lambda folder: len(folder.parts)):
                list(makers.map(os.mkdir, map(str, alike)))
            list(makers.map(lambda path: make_file(path, each), self.files))
            list(makers.map(os.symlink, (self.files[n % len(self.files)] for n in range(len(self.links))), self.links))

    def steps(self) -> "list[tuple[str, str]]":
        """The operations in their order."""
        chance = random.Random(self.shape["seed"] + 1)  # noqa: S311
        of_files = {"open": "opens", "stat": "stats", "lstat": "lstats"}
        steps = [(what, chance.choice(self.files)) for what, key in of_files.items() for _ in range(self.shape[key])]
        steps += [("readlink", chance.choice(self.links)) for _ in range(self.shape["readlinks"])]
        chance.shuffle(steps)
        return steps


def make_file(path: str, size: int) -> None:
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())  # else its pages are not let go
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
