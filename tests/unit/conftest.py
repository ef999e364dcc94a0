"""What several files of tests take: the plan of quick at the testbed, a client in a job, and the sampler."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.client_process import Job
from tests.unit.quick_plan import POOL, larger_quick
from tests.unit.sampler_process import Start
from tests.unit.shipped import PYTHON, ship
from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Plan, expand
from tierbench.postprocess.plots import canvas
from tierbench.site_configs.site import Site, find_site


def pytest_report_header() -> str:
    return f"what is shipped runs on {PYTHON}"


@pytest.fixture(scope="session", autouse=True)
def _coarse_pictures() -> Iterator[None]:
    """Of figures that are written, tests look at the files and at the SVG, and at no pixel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canvas, "DPI", 20)
        yield


@pytest.fixture(scope="session", autouse=True)
def _allows_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests' own clients are read without a question."""
    allowed = tmp_path_factory.mktemp("allowed") / "allowed"
    allowed.write_text("/\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIERBENCH_ALLOWED", str(allowed))
        yield


@pytest.fixture(autouse=True)
def _ends_its_threads() -> Iterator[None]:
    """A thread that outlives its test fails in another one, and that one is blamed."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)  # of a busy machine's
        assert not thread.is_alive(), f"{thread} goes on after the test"


@pytest.fixture(scope="module")
def site() -> Site:
    return find_site("testbed")


@pytest.fixture(scope="module")
def quick() -> Experiment:
    return larger_quick()


@pytest.fixture(scope="module")
def plan(site: Site, quick: Experiment) -> Plan:
    return expand(site, quick, POOL)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "host.samples"


@pytest.fixture
def start(tmp_path: Path, out: Path) -> Iterator[Start]:
    """Starts the sampler in an empty folder, on loopback at 50 Hz unless told otherwise."""
    started: list[subprocess.Popen[bytes]] = []
    folder = tmp_path / "job"
    folder.mkdir()

    def start(*options: str, stdout: int | None = None, script: Path | None = None) -> subprocess.Popen[bytes]:
        usual = ["--trial", "t", "--role", "storage", "--interface", "lo", "--period", "0.02"]
        command = [PYTHON, str(script or ship(tmp_path, "sampler.py")), *usual, *options]
        with out.open("wb") as file:
            process = subprocess.Popen(command, cwd=folder, stdout=stdout or file, stderr=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
