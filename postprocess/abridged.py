"""As many words of a list as a sentence bears."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 8


def abridged(words: Sequence[str], most: int = SHOWN) -> list[str]:
    """The first words, and how many more there are."""
    return [*words[:most], f"{len(words) - most} more"] if len(words) > most else list(words)
