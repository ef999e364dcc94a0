"""What a nightly is set up with: what cannot be is refused, and nothing depends on where it was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierbench.errors import ConfigError
from tierbench.submit.nightly import adding
from tierbench.submit.nightly.definition import Terms


@pytest.fixture(autouse=True)
def of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIERBENCH_NIGHTS", str(tmp_path / "nights"))


def terms(**asked: object) -> Terms:
    return Terms(site="testbed", at="02:30", days="", by="condor", control="", since_wall_s=0.0, **asked)  # type: ignore[arg-type]


BAD_URLS = (
    "https://chat.example:port/hook", "https://chat.example:99999/", "http://chat.example/my hook", "http:///hook",
    "http://chat.example/\n", "http://[::1/", "ftp://chat.example/", "chat.example/hook", "http://chat.example/h\u00f6k",
    "https://me:secret@chat.example/",
)  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_webhook_to_which_nothing_can_be_posted_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--webhook"):
        adding.add("nights", "quick", "", terms(webhook=url), print)
