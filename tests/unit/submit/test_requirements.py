"""The requirements that a site has of machines: one ClassAd expression, which HTCondor's parsers read alike."""

from __future__ import annotations

import re
from pathlib import Path

import htcondor2
import pytest

from tierbench.checked_text import Requirements
from tierbench.dags.nodes import item
from tierbench.submit import pool


@pytest.mark.parametrize(
    "expression", ["true) || (true", "true // ", "true /* ", "a = 1", "a; b", "a, b", "1 +", "(", ""]
)
def test_requirements_are_one_expression(expression: str) -> None:
    with pytest.raises(ValueError, match="must be one ClassAd expression"):
        Requirements(expression)


@pytest.mark.parametrize("macro", ["$(id)", "$$(Name)", "$$([1])", "$ENV(HOME)"])
def test_requirements_hold_no_macros(macro: str) -> None:
    with pytest.raises(ValueError, match="without HTCondor's macros"):
        Requirements(f'Machine == "{macro}"')


def test_an_anchored_pattern_is_no_macro() -> None:
    expression = 'regexp("^wn[0-9]+[.]x$", Machine)'
    assert Requirements(expression) == expression


@pytest.mark.parametrize("expression", [r'"x\\" == ") || (true) || (" ', r'"\"" == "x"', "'odd name' == 1"])
def test_requirements_hold_nothing_that_htcondors_parsers_read_differently(expression: str) -> None:
    with pytest.raises(ValueError, match="without backslashes"):
        Requirements(expression)


@pytest.mark.parametrize("kind", ["clients", "sampler"])
def test_requirements_stand_in_parentheses(kind: str) -> None:
    text = (Path(pool.__file__).parent / f"{kind}.sub").read_text(encoding="utf-8")
    (line,) = re.findall(r"^requirements *= (.*)$", text, re.MULTILINE)
    assert re.fullmatch(r"\(\$\(\w+\)\)( && \(\$\(\w+\)\))?", line)


def test_the_last_word_of_a_list_may_have_commas(tmp_path: Path) -> None:
    expression = 'regexp("^wn", Machine) || Machine == "a,b"'
    (tmp_path / "list").write_text(item("wn1.example", "eth0", "worker", expression))
    text = f"queue host, interface, role, host_requirements from {tmp_path / 'list'}\n"
    (found,) = htcondor2.Submit(text).itemdata()
    assert found["host_requirements"].strip() == expression
