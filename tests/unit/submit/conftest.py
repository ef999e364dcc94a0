"""A trial with its gate and its stop at work."""

import pytest

from tests.unit.gate_process import Gate


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
