"""A nightly's webhook: whoever has its URL can post there, so that stands in a file of its own, for its owner alone.

What others may read, as a monitoring system does, names its host.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from tierbench import names
from tierbench.submit.nightly.definition import Nightly


def keep(nightly: Nightly, url: str) -> None:
    """Keep the URL, or none."""
    place = nightly.directory / names.WEBHOOK
    place.unlink(missing_ok=True)
    if url:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{url}\n")


def url(nightly: Nightly) -> str:
    """Where to post; of a nightly that was added before it stands in nightly.json."""
    webhook = nightly.terms.webhook
    return webhook if _is_url(webhook) else (nightly.directory / names.WEBHOOK).read_text(encoding="utf-8").strip()


def host(webhook: str) -> str:
    if not _is_url(webhook):
        return webhook
    try:
        return urlsplit(webhook).hostname or ""
    except ValueError:
        return ""


def channel(webhook: str) -> str:
    """What it is called as a way to tell somebody."""
    return f"webhook {host(webhook)}".strip()


def shown(way: str) -> str:
    """A way to tell somebody as it may be shown; older records name a webhook by its URL."""
    return channel(way) if _is_url(way) else way


def _is_url(text: str) -> bool:
    return "://" in text
