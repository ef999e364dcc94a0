"""What all tests take: that their own clients are read without a question."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _allows_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    allowed = tmp_path_factory.mktemp("allowed") / "allowed"
    allowed.write_text("/\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIERBENCH_ALLOWED", str(allowed))
        yield
