"""Tables become dataclasses, and everything that is wrong with them is said at once, by its key."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from tierbench.errors import ConfigError
from tierbench.spec import QUOTES, bounded, build, read_toml


@dataclass(frozen=True)
class Wheel:
    inches: float = bounded(26.0, 10, 40)


@dataclass(frozen=True)
class Bicycle:
    owner: str
    kind: Literal["city", "race"] = "city"
    gears: int = bounded(7, 1)
    bells: tuple[str, ...] = ()
    wheels: dict[str, Wheel] = field(default_factory=dict)
    lamp: bool | None = None

    def __post_init__(self) -> None:
        if self.kind == "race" and self.bells:
            raise ValueError("bells: a racing bicycle has none")


def complaint(**table: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        build(Bicycle, table, "garage.toml")
    return str(caught.value)


def test_a_table_becomes_a_dataclass() -> None:
    table = {"owner": "Ada", "bells": ["brass"], "wheels": {"front": {"inches": 28}}}
    assert build(Bicycle, table, "garage.toml") == Bicycle("Ada", bells=("brass",), wheels={"front": Wheel(28.0)})


def test_a_missing_key_says_what_is_needed() -> None:
    assert complaint() == "garage.toml: owner: missing; a text in quotes is needed"


def test_an_unknown_key_comes_with_a_guess() -> None:
    assert complaint(owner="Ada", gaers=3) == 'garage.toml: gaers: unknown key (did you mean "gears"?)'


def test_a_choice_comes_with_a_guess() -> None:
    assert 'kind: must be one of "city", "race", not "rase" (did you mean "race"?)' in complaint(owner="A", kind="rase")


def test_true_is_no_number() -> None:
    assert "gears: must be a whole number, not true" in complaint(owner="Ada", gears=True)


def test_bounds_are_told() -> None:
    assert "gears: must be at least 1, not 0" in complaint(owner="Ada", gears=0)


def test_a_key_deep_down_is_named_in_full() -> None:
    table = {"front": {"inches": 99}}
    assert "wheels.front.inches: must be in 10 … 40, not 99.0" in complaint(owner="Ada", wheels=table)


def test_an_element_of_a_list_is_named_by_its_place() -> None:
    assert "bells[1]: must be a text in quotes, not 2" in complaint(owner="Ada", bells=["brass", 2])


def test_a_dataclass_own_check_is_reported() -> None:
    assert complaint(owner="A", kind="race", bells=["x"]) == "garage.toml: bells: a racing bicycle has none"


def test_all_problems_are_reported_at_once() -> None:
    assert len(complaint(gaers=3, gears=0).splitlines()) == 3


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such file"):
        read_toml(tmp_path / "none.toml")


@pytest.mark.parametrize("line", ["interface = eth0", 'requirements = "TierbenchNetwork == "public""', 'name = "small'])
def test_a_line_that_lacks_its_quotes_is_shown(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f'a = "b"\n{line}\nc = 1\n', encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        read_toml(path)
    told = str(refused.value)
    assert "(at line 2, column " in told
    assert told.endswith(f": {line}; {QUOTES}")


def test_of_another_mistake_no_quotes_are_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("a = 1\na = 2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Cannot overwrite a value \(at line 2, column 6\): a = 2$"):
        read_toml(path)


def test_what_an_editor_marks_as_unicode_is_read(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_text("a = 1\n", encoding="utf-8-sig")
    assert read_toml(path) == {"a": 1}


def test_another_encoding_is_told_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_text('a = "M\u00fcnchen"\n', encoding="latin-1")
    with pytest.raises(ConfigError, match=r"latin\.toml: cannot be read: .*; save it as UTF-8"):
        read_toml(path)


def test_bad_toml_is_located(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("a = \n")
    with pytest.raises(ConfigError, match=r"bad\.toml: cannot be read: .*line 1"):
        read_toml(path)
