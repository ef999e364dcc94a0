"""What is brought home from a testbed has its name when it is whole."""

import pytest

from tierbench.errors import HostError
from tierbench.testbed.copying import bring_home

WHOLE = ["tar", "-C", "{}", "-cf", "-", "."]
CUT = ["sh", "-c", "tar -C {} -cf - . | head -c 2000; exit 2"]


class Host:
    """As a running host is to who copies from it: something with commands."""

    name = "ce"

    def __init__(self, command):
        self.sends = command

    def command(self, _, __):
        return self.sends


@pytest.fixture
def there(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "first").write_text("whole")
    (folder / "second").write_bytes(b"x" * 100_000)
    return folder


def brought(command, there, into):
    host = Host([word.format(there) for word in command])
    return bring_home(host, str(there), into, "bench")


def test_what_comes_home_is_all_of_it(there, tmp_path):
    assert brought(WHOLE, there, tmp_path / "runs" / "run") == []
    assert [path.name for path in tmp_path.glob("runs/*")] == ["run"]
    assert sorted(path.name for path in tmp_path.glob("runs/run/*")) == ["first", "second"]


def test_of_what_was_broken_off_nothing_is_taken_for_the_run(there, tmp_path):
    with pytest.raises(HostError):
        brought(CUT, there, tmp_path / "runs" / "run")
    assert list(tmp_path.glob("runs/*")) == []
