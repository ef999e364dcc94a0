"""A page and a table say received and delivered of trials that write, whatever else they say."""

from __future__ import annotations

import pytest

from tierbench.postprocess.wording import between, figures, worded


@pytest.mark.parametrize(
    ("text", "written", "both"),
    [
        ("sent by the storage [Mb/s]", "received by the storage [Mb/s]", "carried by the storage [Mb/s]"),
        ("sent / delivered", "received / delivered", "carried / delivered"),
        ("Sent by ", "Received by ", "Carried by "),
        ("read ahead in vain, or sent again", "read ahead in vain, or sent again", "read ahead in vain, or sent again"),
        ("absent, presented, consent", "absent, presented, consent", "absent, presented, consent"),
    ],
)
def test_the_words_follow_the_direction(text: str, written: str, both: str) -> None:
    assert worded(text, ["sent", ""]) == text
    assert worded(text, ["received"]) == written
    assert worded(text, ["received", "sent"]) == both


def test_below_nothing_stands_a_minus() -> None:
    assert (figures(-0.5), between(-1.2, 3)) == ("\N{MINUS SIGN}0.50", "\N{MINUS SIGN}1.20–3.00")
