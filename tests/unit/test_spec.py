"""Tables become dataclasses, and everything that is wrong with them is said at once, by its key."""

import math
from dataclasses import dataclass, field
from typing import Literal

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
    weight_kg: float = 10.0

    def __post_init__(self):
        if self.kind == "race" and self.bells:
            raise ValueError("bells: a racing bicycle has none")


def complaint(**table):
    with pytest.raises(ConfigError) as caught:
        build(Bicycle, table, "garage.toml")
    return str(caught.value)


def test_a_table_becomes_a_dataclass_and_all_problems_are_reported_at_once():
    table = {"owner": "Ada", "bells": ["brass"], "wheels": {"front": {"inches": 40}}}
    assert build(Bicycle, table, "garage.toml") == Bicycle("Ada", bells=("brass",), wheels={"front": Wheel(40.0)})
    assert len(complaint(gaers=3, gears=0).splitlines()) == 3


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"owner": None}, "owner: missing; a text in quotes is needed"),
        ({"gaers": 3}, 'gaers: unknown key (did you mean "gears"?)'),
        ({"kind": "rase"}, 'kind: must be one of "city", "race", not "rase" (did you mean "race"?)'),
        ({"gears": True}, "gears: must be a whole number, not true"),
        ({"gears": 0}, "gears: must be at least 1, not 0"),
        ({"wheels": {"front": {"inches": 99}}}, "wheels.front.inches: must be in 10 … 40, not 99.0"),
        ({"wheels": {"front": {"inches": True}}}, "wheels.front.inches: must be a number, not true"),
        ({"wheels": {"front": {"inches": math.inf}}}, "wheels.front.inches: must be a number, not Infinity"),
        ({"weight_kg": -math.inf}, "weight_kg: must be a number, not -Infinity"),
        ({"weight_kg": 10**309}, f"weight_kg: must be a number, not 1{'0' * 199}…"),
        ({"bells": ["brass", 2]}, "bells[1]: must be a text in quotes, not 2"),
        ({"kind": "race", "bells": ["x"]}, "bells: a racing bicycle has none"),
    ],
)
def test_what_is_wrong_is_told_by_its_key_with_a_guess_at_what_was_meant(table, words):
    whole = {key: value for key, value in {"owner": "Ada", **table}.items() if value is not None}
    assert complaint(**whole) == f"garage.toml: {words}"


@pytest.mark.parametrize("line", ["interface = eth0", 'requirements = "TierbenchNetwork == "public""', 'name = "small'])
def test_a_line_that_lacks_its_quotes_is_shown(tmp_path, line):
    path = tmp_path / "bad.toml"
    path.write_text(f'a = "b"\n{line}\nc = 1\n', encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        read_toml(path)
    told = str(refused.value)
    assert "(at line 2, column " in told
    assert told.endswith(f": {line}; {QUOTES}")


def test_what_an_editor_marks_as_unicode_is_read(tmp_path):
    path = tmp_path / "marked.toml"
    path.write_text("a = 1\n", encoding="utf-8-sig")
    assert read_toml(path) == {"a": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, r"bad\.toml: no such file"),
        ('town = "München"\n'.encode("latin-1"), r"bad\.toml: cannot be read: .*; save it as UTF-8"),
        (b"a = \n", r"bad\.toml: cannot be read: .*line 1"),
        (b"a = 1\na = 2\n", r"Cannot overwrite a value \(at line 2, column 6\): a = 2$"),  # quotes are no remedy
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_is_wrong(tmp_path, content, words):
    path = tmp_path / "bad.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        read_toml(path)
