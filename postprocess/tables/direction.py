"""The words for what moves in a run: texts speak of reading, and say otherwise of trials that write, or do both."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tierbench.dags.measure import RECEIVED, SENT

OF_READING = {"sent": "sent", "taken in": "taken in", "took in": "took in"}
OF_WRITING = {"sent": "received", "taken in": "delivered", "took in": "delivered"}  # to a disk, or just to the far end
OF_BOTH = {"sent": "carried", "taken in": "moved", "took in": "moved"}
SPOKEN = re.compile(r"\b(" + "|".join(OF_READING) + r")\b(?! again)", re.IGNORECASE)


def worded(text: str, directions: Iterable[str]) -> str:
    """A text in the words for trials of these directions; of records that say none the trials read."""
    found = {direction or SENT for direction in directions}
    words = OF_READING if found <= {SENT} else OF_WRITING if found == {RECEIVED} else OF_BOTH

    def instead(match: re.Match[str]) -> str:
        word = words[match[0].lower()]
        return word.capitalize() if match[0][0].isupper() else word

    return SPOKEN.sub(instead, text)
