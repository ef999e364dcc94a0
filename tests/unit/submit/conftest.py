"""A trial with its gate and its stop at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.gate_process import Gate


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Callable[..., Gate]]:
    """Makes trials; one that is not at work yet finds all that the test has laid out for it."""
    gates: list[Gate] = []

    def make(**asked: object) -> Gate:
        run = tmp_path / f"run-{len(gates)}"
        run.mkdir()
        gates.append(Gate(run, **asked))  # type: ignore[arg-type]
        return gates[-1]

    yield make
    for made in gates:
        made.kill()


@pytest.fixture
def trial(gate: Callable[..., Gate]) -> Gate:
    return gate()
