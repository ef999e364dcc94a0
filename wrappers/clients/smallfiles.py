"""Many small files, as a build has them: makes a tree of its own, then stats, opens, reads and follows links in it."""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from tierbench.wrappers.child import Run
from tierbench.wrappers.client import Client, Option

LONGEST_KB = 64
# Says "ready" and waits as any child does; each operation is one or two questions to the file system.
REPLAY = """
import json, os, sys, time
steps = json.load(open(sys.argv[1]))
ready = os.dup(1)
os.write(ready, b"ready\\n")
if not os.read(0, 1):
    sys.exit(125)
told = {"operations": 0, "read": 0, "seconds": {}}

def opened(path):
    os.close(os.open(path, os.O_RDONLY))

def read(path):
    with open(path, "rb") as file:
        told["read"] += len(file.read())

do = {"stat": os.stat, "lstat": os.lstat, "readlink": os.readlink, "open": opened, "read": read}
try:
    for what, path in steps:
        begin = time.perf_counter()
        do[what](path)
        told["seconds"][what] = told["seconds"].get(what, 0.0) + time.perf_counter() - begin
        told["operations"] += 1
except OSError as error:
    sys.exit("{}: {}".format(path, error.strerror))
finally:
    with open(sys.argv[2], "w") as file:
        json.dump(told, file)
"""


class SmallFiles(Client):
    """The tree is made before the go; what counts are the operations on it, in an order that its seed says.

    The numbers are a hundredth of those of the ExTENCI paper's SCRAM build of CMSSW.
    """

    does = "metadata"
    protocols = ("file",)
    kinds = ("written",)
    taken_in = "bytes_app"
    options = {
        "directories": Option(207, 1, 1_000_000),
        "files": Option(1829, 1, 10_000_000),
        "links": Option(15, 1, 1_000_000),
        "opens": Option(120, 0, 10_000_000),
        "reads": Option(120, 0, 10_000_000),  # opened and read
        "stats": Option(240, 0, 10_000_000),
        "lstats": Option(360, 0, 10_000_000),
        "readlinks": Option(15, 0, 10_000_000),
        "seed": Option(1, 0, 2**31),
    }

    def prepare(self) -> None:
        chance = random.Random(self.job.options["seed"])  # noqa: S311
        root = Path(self.job.path + ".tree")
        self.tree = Tree(root, self.job.options, chance)
        self.tree.make(self.job.expected_bytes or 0)
        (self.job.scratch / "steps").write_text(json.dumps(self.tree.steps()))

    def held_command(self) -> "list[str]":
        steps, self.report = (str(self.job.scratch / name) for name in ("steps", "told"))
        return [sys.executable or "python3", "-c", REPLAY, steps, self.report]

    def outcome(self, run: Run) -> "dict[str, Any]":
        try:
            told = json.loads(Path(self.report).read_text())
        except (OSError, ValueError):
            return {**self.judged(run, 0 if run.exit_status else None), "operations": None}
        planned = len(self.tree.steps())
        well = not run.exit_status and told["operations"] == planned
        message = "" if well else f"did {told['operations']} of {planned} operations: {run.last_words}"
        seconds = {f"{what}_s": round(value, 6) for what, value in sorted(told["seconds"].items())}
        return {
            "status": "ok" if well else "failed", "message": message, "operations": told["operations"],
            "bytes_app": told["read"], "bytes_client": run.read_bytes, "bytes_source": "proc-io", "detail": seconds,
        }  # fmt: skip


class Tree:
    """Directories within directories, files in all of them, and links to some."""

    def __init__(self, root: Path, shape: "dict[str, Any]", chance: random.Random) -> None:
        self.shape, self.chance = shape, chance
        self.folders = [root]
        for number in range(1, shape["directories"]):
            self.folders.append(chance.choice(self.folders[-50:]) / f"d{number}")
        self.files = [str(chance.choice(self.folders) / f"f{number}") for number in range(shape["files"])]
        self.links = [f"{root}/l{number}" for number in range(shape["links"])]

    def make(self, size: int) -> None:
        """All of it, with so many bytes in its files together."""
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
        each = min(LONGEST_KB * 1024, size // len(self.files))
        for path in self.files:
            Path(path).write_bytes(os.urandom(each))
        for number, link in enumerate(self.links):
            Path(link).symlink_to(self.files[number % len(self.files)])

    def steps(self) -> "list[tuple[str, str]]":
        """The operations in their order."""
        chance = random.Random(self.shape["seed"] + 1)  # noqa: S311
        of_files = {"open": "opens", "read": "reads", "stat": "stats", "lstat": "lstats"}
        steps = [(what, chance.choice(self.files)) for what, key in of_files.items() for _ in range(self.shape[key])]
        steps += [("readlink", chance.choice(self.links)) for _ in range(self.shape["readlinks"])]
        chance.shuffle(steps)
        return steps
