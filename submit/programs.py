"""The ROOT programs: compiled once for the ROOT found here, or run as macros where there is no compiler."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tierbench import wrappers
from tierbench.dags.clients import shipped_clients
from tierbench.dags.experiment import Experiment
from tierbench.errors import UnmetNeed
from tierbench.wrappers.clients.root import find_root_executable

MAKE_TREE = Path(wrappers.__file__).with_name("make_tree.C")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")  # which C++ takes as it is
PROGRAM = ".C"  # what a source is called from which a program is made
LIBRARIES = ("Core", "RIO", "Tree", "TreePlayer", "Net", "Hist", "MathCore", "GenVector", "Thread")
INTERPRETED = "workers will interpret them, which takes several times the CPU"


class NotCompiled(UnmetNeed):
    """The programs cannot be compiled here; the macros do the same, slower."""


@dataclass(frozen=True)
class Root:
    executable: str
    version: str
    flags: tuple[str, ...]


def ship(experiment: Experiment, directory: Path, say: Callable[[str], None]) -> None:
    """Put what the clients have to have compiled into a directory from which jobs take it, if that is possible."""
    built = [sources for file in experiment.client_files if (sources := _with_program(file.ships))]
    if not built:
        return
    try:
        compiled = [
            _compiled(sources) / source.stem for sources in built for source in sources if source.suffix == PROGRAM
        ]
    except NotCompiled as reason:
        say(f"ROOT programs are not compiled ({reason}); {INTERPRETED}")
        return
    for program in compiled:
        shutil.copy2(program, directory)
    say(f"{' and '.join(sorted(program.name for program in compiled))} compiled for ROOT {find_root().version}")


def shipped() -> list[list[Path]]:
    """The sources of each program that comes with tierbench."""
    of_clients = (_with_program(file.ships) for file in shipped_clients().values())
    return [[MAKE_TREE], *(sources for sources in of_clients if sources)]


def compile_shipped() -> None:
    """Compile them all, before a run needs them."""
    for sources in shipped():
        _compiled(sources)


def _with_program(sources: list[Path]) -> list[Path]:
    """The sources of a client, if there is a program among them."""
    return sorted(sources) if any(source.suffix == PROGRAM for source in sources) else []


def command(source: Path, arguments: Sequence[str | float]) -> list[str]:
    """The command line that runs a program here, compiled if that is possible and as a macro if not."""
    try:
        return [str(_compiled([source]) / source.stem), *map(str, arguments)]
    except NotCompiled:
        call = ",".join(text if NUMBER.fullmatch(text) else json.dumps(text) for text in map(str, arguments))
        return [find_root().executable, "-l", "-b", "-q", f"{source}({call})"]


def find_root() -> Root:
    """ROOT where its clients find it too, or as root-config finds it."""
    executable = find_root_executable()
    home = Path(executable).parents[1] if executable else None
    if home and (home / "__init__.py").exists():
        return _wheel(home)
    beside = shutil.which("root-config", path=str(Path(executable).resolve().parent)) if executable else None
    if configuration := beside or shutil.which("root-config"):
        return _installed(configuration)
    if executable:  # which interprets the programs
        return Root(executable, "without root-config", ())
    raise UnmetNeed("there is no ROOT here: install it with root-config on the PATH, or by `pip install --pre ROOT`")


def _wheel(home: Path) -> Root:
    """CERN's wheel: its root-config does not work, and its bundled libraries are found only if told where."""
    library = home / "lib"
    # ROOT's own version, as it writes it; that of the wheel is another.
    header = (home / "include/ROOT/RVersion.hxx").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"#define ROOT_VERSION_(MAJOR|MINOR|PATCH) +(\d+)", header))
    version = f"{numbers['MAJOR']}.{int(numbers['MINOR']):02d}.{int(numbers['PATCH']):02d}"
    flags = (
        "-O2", "-std=c++17", "-pthread", f"-I{home / 'include'}", f"-L{library}",
        f"-Wl,-rpath,{library}", f"-Wl,-rpath-link,{home.parent / 'root.libs'}",
        *(f"-l{name}" for name in LIBRARIES), *_ntuple(library),
    )  # fmt: skip
    return Root(str(home / "bin/root.exe"), version, flags)


def _installed(configuration: str) -> Root:
    def ask(*questions: str) -> str:
        answer = subprocess.run([configuration, *questions], capture_output=True, text=True, check=False)
        if answer.returncode:
            complaint = answer.stderr.strip() or f"exit status {answer.returncode}"
            raise UnmetNeed(f"{configuration} does not work: {complaint}")
        return answer.stdout.strip()

    library = Path(ask("--libdir"))
    further = ("-lTreePlayer", "-lGenVector", *_ntuple(library), f"-Wl,-rpath,{library}")
    flags = ("-O2", *ask("--cflags", "--libs").split(), *further)
    return Root(str(Path(ask("--bindir")) / "root.exe"), ask("--version"), flags)


def _ntuple(library: Path) -> tuple[str, ...]:
    """RNTuple's library, which older ones of ROOT do not have."""
    return ("-lROOTNTuple",) if (library / "libROOTNTuple.so").exists() else ()


def _compiled(sources: Iterable[Path]) -> Path:
    """The directory of the programs as compiled for this ROOT from these sources; compiled now if it is not there."""
    if shutil.which("g++") is None:
        raise NotCompiled("there is no g++ here")
    try:
        root = find_root()
    except UnmetNeed as error:
        raise NotCompiled(str(error)) from None
    texts = {source.name: source.read_text(encoding="utf-8") for source in sources}
    recipe = json.dumps([root.version, root.flags, texts])
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tierbench"
    cache = home / f"programs-{digest}"
    if not cache.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            partial = Path(scratch, "programs")
            partial.mkdir()
            for name, text in texts.items():
                (partial / name).write_text(text, encoding="utf-8")
            for name in texts:
                if name.endswith(PROGRAM):
                    _compile(partial, name, root)
            try:
                partial.rename(cache)
            except OSError:
                if not cache.is_dir():  # else somebody was quicker
                    raise
    return cache


def _compile(directory: Path, source: str, root: Root) -> None:
    command = ["g++", "-x", "c++", source, "-x", "none", "-o", source.removesuffix(PROGRAM), *root.flags]
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if result.returncode:
        complaint = (result.stderr.strip().splitlines() or ["no message"])[0]
        raise NotCompiled(f"{source} does not compile against ROOT {root.version}: {complaint}")
