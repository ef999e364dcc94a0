"""`testbed run FILE` on all hosts that need it; `--more RUN` of a run whose testbed is gone, on one like it."""

import json

import pytest

from tests.unit.stand_ins import HereHost
from tierbench import json_files, names
from tierbench.errors import BusyError, ConfigError
from tierbench.testbed import run as running
from tierbench.testbed.services import topology
from tierbench.testbed.settings import Rates, Settings, recorded

SUBMITTED = '{"cluster": 7}'
SETTINGS = Settings(rtt_ms=53, tcp_buffer_mb=4, rates_mbps=Rates(wan=320))


class Testbed:
    """One that is not up before somebody has it brought up, or has other settings."""

    name = "gone"
    topology = topology(SETTINGS)

    def __init__(self, folder, settings):
        self.folder, self.settings = folder, settings

    @property
    def exists(self):
        return self.settings is not None

    def check_up(self):
        pass

    def up(self, settings, _):
        self.settings = settings

    def host(self, name):
        return HereHost(self.topology.host(name), self.folder / "bed/hosts" / name)


@pytest.fixture
def home(tmp_path):
    """A run that came home."""
    folder = tmp_path / "runs/quick-1"
    (folder / "trials/one").mkdir(parents=True)
    for name, text in {names.PLAN: '{"trials": [{"id": "one"}]}', names.SUBMITTED: SUBMITTED}.items():
        (folder / name).write_text(text)
    (folder / names.trial_directory("one") / names.OUTCOME).write_text("{}")
    return folder


@pytest.fixture
def there(tmp_path, monkeypatch):
    """Where the run is to lie on the access point."""
    monkeypatch.setattr(running, "HOME", str(tmp_path / "home"))
    return tmp_path / "home/runs/quick-1"


@pytest.fixture
def did(there, monkeypatch):
    """What is done with the testbed; its tierbench submits, and does no more."""
    done = []

    def inside(_, *command):
        done.append(command)
        if command[0] == "run":
            assert not (there / names.SUBMITTED).exists()  # whose job is in no queue there
            (there / names.SUBMITTED).write_text('{"cluster": 1}')
        return 0

    monkeypatch.setattr(running, "_inside", inside)
    monkeypatch.setattr(running, "check_experiment", lambda *_: None)
    return done


def test_each_host_that_makes_copies_for_an_experiment_of_ones_own_is_given_it(tmp_path, monkeypatch):
    given, makes = [], []
    own = tmp_path / "own.toml"
    own.write_text('extends = "extenci-local-input-scaled"\nname = "own"\nrepeats = 1\n')
    monkeypatch.setattr(running, "_take_along", lambda _, *hosts: given.extend(host.name for host in hosts) or "own")
    monkeypatch.setattr(running, "_inside", lambda host, *what: makes.append(host.name) or int(what[0] == "run"))
    assert running.run(Testbed(tmp_path, None), str(own), tmp_path / "run", lambda _: None) == 1
    assert set(makes) <= set(given)
    assert {"wn03", "ce"} <= set(given)


def came_from(home, experiment):
    (home / names.ASKED).write_text(json.dumps({"experiment": experiment, "site": "testbed"}))
    json_files.write(home / names.TESTBED, SETTINGS)


def more(home, tmp_path, number=2, settings=None):
    testbed = Testbed(tmp_path, settings)
    return running.more(testbed, number, home, lambda _: None), testbed.settings


@pytest.mark.parametrize("settings", [None, SETTINGS], ids=["brought up", "up"])
def test_a_run_whose_testbed_is_gone_goes_to_one_like_it_with_its_replicas(home, there, did, tmp_path, settings):
    came_from(home, "quick")
    assert more(home, tmp_path, settings=settings) == (0, SETTINGS)
    assert did == [("replicas", "quick", "--site", "testbed"), ("run", "--more", "2", str(there))]
    assert (there / names.trial_directory("one") / names.OUTCOME).exists()
    assert json.loads((home / names.SUBMITTED).read_text()) == {"cluster": 1}  # as it has come home
    assert recorded(home / names.TESTBED) == SETTINGS


def test_another_testbed_is_not_taken_for_it(home, did, tmp_path):
    came_from(home, "quick")
    with pytest.raises(BusyError, match="is not like the one of"):
        more(home, tmp_path, settings=Settings(tcp_buffer_mb=5))
    assert did == []


@pytest.mark.usefixtures("did")
def test_a_run_that_could_not_be_gone_on_with_stays_as_it_came_home(home, tmp_path, monkeypatch):
    came_from(home, "quick")
    monkeypatch.setattr(running, "_inside", lambda _, *command: 2 if command[0] == "run" else 0)
    assert more(home, tmp_path)[0] == 2
    assert (home / names.SUBMITTED).read_text() == SUBMITTED


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (lambda home: came_from(home, "/home/bench/mine/mine.toml"), "was a file of yours"),
        (lambda home: came_from(home, "columns-and-distance"), "its RNTuples have gone"),
        (lambda home: (home / names.TESTBED).unlink(), "nothing tells the settings of its testbed"),
        (lambda home: home.rename(home.with_name("other")), "there is no such run"),
    ],
    ids=["own file", "RNTuples", "elsewhere", "gone"],
)
def test_what_cannot_be_gone_on_with_is_said_before_anything_is_done(home, did, tmp_path, happens, says):
    came_from(home, "quick")
    happens(home)
    with pytest.raises(ConfigError, match=says):
        more(home, tmp_path)
    with pytest.raises(ConfigError, match="must be 1 or more"):
        more(home, tmp_path, number=0)
    assert did == []
