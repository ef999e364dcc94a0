"""A trial with its gate and its stop at work; and a run that was written, which whoever watches it looks at often."""

import pytest

from tests.unit.gate_process import Gate
from tests.unit.quick_plan import larger_quick, written
from tests.unit.submit.test_lock import Trials
from tierbench.submit import watch as watching
from tierbench.submit.progress import Run


@pytest.fixture
def gate(tmp_path):
    """Makes trials; one that is not at work yet finds all that the test has laid out for it."""
    gates = []

    def make(**asked):
        run = tmp_path / f"run-{len(gates)}"
        run.mkdir()
        gates.append(Gate(run, **asked))
        return gates[-1]

    yield make
    for made in gates:
        made.kill()


@pytest.fixture
def trial(gate):
    return gate()


@pytest.fixture
def trials(tmp_path):
    with Trials(tmp_path) as trials:
        yield trials


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "QUEUE_SECONDS", 0.05)
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.01)
    return Run(written(larger_quick(), tmp_path / "run"))
