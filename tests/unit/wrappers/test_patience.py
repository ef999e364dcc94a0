"""A program that does not end is left behind, and that is said."""

import pytest

from tierbench.wrappers.child import run_program


@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")  # even its death may take a busy machine too long
def test_who_was_waited_for_in_vain_is_told_with_the_time():
    said = run_program("sleep", "600", patience_s=2)
    assert (said.status, said.last_words) == (None, "no answer in 2 s")
