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
    ("refused", "because"),
    [
        (
            ["true) || (true", "true // ", "true /* ", "a = 1", "a; b", "a, b", "1 +", "(", ""],
            "must be one ClassAd expression",
        ),
        (
            [f'Machine == "{macro}"' for macro in ("$(id)", "$$(Name)", "$$([1])", "$ENV(HOME)")],
            "without HTCondor's macros",
        ),
        ([r'"x\\" == ") || (true) || (" ', r'"\"" == "x"', "'odd name' == 1"], "without backslashes"),
    ],
)
def test_requirements_are_one_expression_that_htcondors_parsers_read_alike(refused: list[str], because: str) -> None:
    for expression in refused:
        with pytest.raises(ValueError, match=because):
            Requirements(expression)


def test_an_anchored_pattern_is_no_macro() -> None:
    expression = 'regexp("^wn[0-9]+[.]x$", Machine)'
    assert Requirements(expression) == expression


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
