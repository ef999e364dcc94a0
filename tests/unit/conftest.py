"""What several files of tests take: the plan of quick at the testbed, a client in a job, and the sampler."""

import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.client_process import Job
from tests.unit.quick_plan import POOL, larger_quick
from tests.unit.sampler_process import finish, read, records_in, until
from tests.unit.shipped import PYTHON, ship
from tierbench.dags.experiment import load_experiment
from tierbench.dags.plan import expand
from tierbench.postprocess.plots import canvas
from tierbench.postprocess.report import write
from tierbench.site_configs.site import find_site


def pytest_report_header():
    return f"what is shipped runs on {PYTHON}"


@pytest.fixture(scope="session", autouse=True)
def _coarse_pictures():
    """Of figures that are written, tests look at the files and at the SVG, and at no pixel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canvas, "DPI", 20)
        yield


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without their figures, which take a second or more, and are on those of other tests."""
    for pictures in ("pictures", "comparison_pictures"):
        monkeypatch.setattr(write, pictures, lambda _: iter(()))


@pytest.fixture(autouse=True)
def _ends_its_threads():
    """A thread that outlives its test fails in another one, and that one is blamed."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)  # of a busy machine's
        assert not thread.is_alive(), f"{thread} goes on after the test"


@pytest.fixture(scope="module")
def site():
    return find_site("testbed")


@pytest.fixture(scope="module")
def quick():
    return larger_quick()


@pytest.fixture(scope="module")
def plan(site, quick):
    return expand(site, quick, POOL)


def read_text(folder, name, text, read=load_experiment):
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return read(path)


@pytest.fixture
def folder(tmp_path):
    """A synthetic trial: four clients that read 400 Mb/s for 20 s."""
    return synthetic.write_trial(tmp_path)


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """The run directory of a testbed's trial: direct, four root clients, two workers. Tests change copies of it."""
    folder = tmp_path_factory.mktemp("real")
    shutil.unpack_archive(Path(__file__).parent / "data/direct-trial.tar.gz", folder, filter="data")
    return folder / "run"


@pytest.fixture
def real_run(real, tmp_path):
    return Path(shutil.copytree(real, tmp_path / "run"))


@pytest.fixture
def load(tmp_path):
    """Reads an experiment or what `read` reads from its text, with pieces of it replaced."""

    def load(text, *changes, name="experiment", read=load_experiment):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        return read_text(tmp_path, name, text, read)

    return load


@pytest.fixture
def variant(tmp_path):
    """Reads an experiment that extends a shipped one, or another."""
    return lambda text, base="quick": read_text(tmp_path, "mine", f'extends = "{base}"\nname = "mine"\n{text}\n')


@pytest.fixture
def open_folder():
    """A folder that others may look into, as they may not into those of tests."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "host.samples"


@pytest.fixture
def start(tmp_path, out):
    """Starts the sampler in an empty folder, on loopback at 50 Hz unless told otherwise."""
    started = []
    folder = tmp_path / "job"
    folder.mkdir()

    def start(*options, stdout=None, script=None):
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


@pytest.fixture
def sampled(start, out):
    """What the sampler writes within so many seconds, or until it is ended after what happens meanwhile."""

    def sampled(*options, seconds=0.05, meanwhile=None):
        process = start(*options, *([] if meanwhile else ["--max-seconds", str(seconds)]))
        if meanwhile:
            until(records_in(out, 2))
            meanwhile()
            process.terminate()
        assert finish(process)[0] == 0
        return read(out)

    return sampled
