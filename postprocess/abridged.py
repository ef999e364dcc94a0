"""As many words of a list as a sentence bears."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SHOWN = 8


def abridged(words: Sequence[str], most: int = SHOWN) -> list[str]:
    """The first words, and how many more there are."""
    return [*words[:most], f"{len(words) - most} more"] if len(words) > most else list(words)


def separated(reasons: Iterable[str]) -> str:
    """Reasons as a table has them, separated by semicolons: one that has such in it is one reason still."""
    return "; ".join(reason.replace("; ", ", ") for reason in reasons)
