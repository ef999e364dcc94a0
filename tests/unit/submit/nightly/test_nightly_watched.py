"""What an admin sets of a nightly, floors and the size of a change, is what decides of whom anybody hears."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.quick_plan import larger_quick
from tierbench.errors import ConfigError
from tierbench.postprocess.history.database import History
from tierbench.postprocess.history.rows import MEASURED, Measured, Night, Value, Verdicts
from tierbench.site_configs.site import find_site
from tierbench.submit import cli
from tierbench.submit.nightly import record
from tierbench.submit.nightly.monitoring import Health, changes
from tierbench.submit.nightly.record import Nightly, Terms
from tierbench.submit.nightly.setup import check_floors

WAY = "direct/root ×4"  # noqa: RUF001 -- as trials are named
DAY_NS = 86_400 * 10**9


def nightly_of(tmp_path, rates, size_pct=5.0, floors=()):
    place = tmp_path / "history.sqlite"
    with History(place) as history:
        for day, rate in enumerate(rates, 20_000):
            value = Value(WAY, "delivered_mbps", rate * (1 + 0.001 * (day % 3)), None, None, 3)
            night = Night("quick", day * DAY_NS, MEASURED, run=f"run-{day}", metric="delivered_mbps", unit="Mb/s")
            history.record(night, Measured((value,)))
    nightly = Nightly(tmp_path / "nights" / "quick")
    nightly.directory.mkdir(parents=True)
    terms = Terms("testbed", "02:30", "", "condor", "", 0.0, history=str(place), size_pct=size_pct, floors=dict(floors))
    nightly.change(terms)
    return Nightly(nightly.directory)


def test_a_way_below_its_floor_is_critical_though_nothing_has_changed(tmp_path):
    [change] = changes(nightly_of(tmp_path, [100.0] * 9, floors={WAY: 120.0}))
    assert (change.configuration, change.level) == (WAY, "CRITICAL")


def without_valid_trials(nightly, days):
    """The nightly, after nights in which its control is well and all of the way's trials are INVALID."""
    with History(Path(nightly.terms.history)) as history:
        for day in days:
            night = Night("quick", day * DAY_NS, MEASURED, run=f"run-{day}", metric="delivered_mbps", unit="Mb/s")
            control = Value("lan/root ×4", "delivered_mbps", 100.0, None, None, 3)  # noqa: RUF001 -- as trials are named
            verdicts = Verdicts(control.configuration, 3, 0, 0), Verdicts(WAY, 0, 0, 3)
            history.record(night, Measured((control,), verdicts))
    return nightly


@pytest.mark.parametrize(("floors", "state"), [({}, "WARNING"), ({WAY: 90.0}, "CRITICAL")])
def test_a_way_without_a_valid_trial_is_an_alarm_though_its_nights_have_measured_something(tmp_path, floors, state):
    nightly = without_valid_trials(nightly_of(tmp_path, [100.0] * 9, floors=floors), range(20_009, 20_012))
    planned = datetime.fromtimestamp(20_011 * 86_400, UTC)
    record.write(nightly, record.Night(planned.timestamp(), "measured", ended_wall_s=planned.timestamp() + 60))
    found = Health(nightly, changes(nightly), planned + timedelta(hours=1))
    assert found.state == state
    assert "No VALID trial since the night of " in found.summary


def test_a_way_above_its_floor_is_not_told(tmp_path):
    assert changes(nightly_of(tmp_path, [100.0] * 9, floors={WAY: 90.0})) == []


@pytest.mark.parametrize(("size_pct", "told"), [(5.0, 1), (30.0, 0)])
def test_a_change_is_told_from_the_size_that_was_asked_for(tmp_path, size_pct, told):
    assert len(changes(nightly_of(tmp_path, [100.0] * 12 + [80.0] * 6, size_pct))) == told


@pytest.mark.parametrize(("floor", "named"), [(120.0, True), (90.0, False)])
def test_what_is_drawn_goes_by_the_same_floors(tmp_path, capsys, monkeypatch, floor, named):
    monkeypatch.setenv("TIERBENCH_NIGHTS", str(tmp_path / "nights"))
    nightly = nightly_of(tmp_path, [100.0] * 9, floors={WAY: floor})
    history = ["history", "--history", nightly.terms.history]
    page = tmp_path / "page.html"
    assert cli.main([*history, "list"]) == 0
    assert cli.main([*history, "page", "quick", "--output", str(page)]) == 0
    assert ["floor" in text for text in (capsys.readouterr().out, page.read_text())] == [named, named]


def test_a_floor_of_what_is_not_measured_is_refused():
    site, quick = find_site("testbed"), larger_quick()
    check_floors(site, quick, (), {WAY: 1.0})
    with pytest.raises(ConfigError, match="--floor: there is no"):
        check_floors(site, quick, (), {"direct/rot ×4": 1.0})  # noqa: RUF001 -- as trials are named


@pytest.mark.parametrize("text", ["direct", "=5", "direct=fast", "direct=0"])
def test_a_floor_that_is_none_is_refused(text, capsys):
    with pytest.raises(SystemExit) as refused:
        cli.main(["nightly", "add", "quick", "--site", "testbed", "--at", "02:30", "--floor", text])
    assert refused.value.code == 2
    assert "--floor" in capsys.readouterr().err
