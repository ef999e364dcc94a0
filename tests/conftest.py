"""What all tests take: their own clients are read without a question, and their programs write as others do."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _allows_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    allowed = tmp_path_factory.mktemp("allowed") / "allowed"
    allowed.write_text("/\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIERBENCH_ALLOWED", str(allowed))
        patch.delenv("PYTHONUNBUFFERED", raising=False)  # it would hide that a script forgets to flush a line
        yield
