"""What an admin sets of a nightly, floors and the size of a change, is what decides of whom anybody hears."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.quick_plan import larger_quick
from tierbench.errors import ConfigError
from tierbench.postprocess.history.database import History, chronicle
from tierbench.postprocess.history.rows import MEASURED, Measured, Night, Value, Verdicts
from tierbench.postprocess.history.series import baseline
from tierbench.site_configs.site import find_site
from tierbench.submit import cli
from tierbench.submit.nightly import record
from tierbench.submit.nightly.monitoring import Health, changes
from tierbench.submit.nightly.setup import check_floors

WAY = "direct/root ×4"  # noqa: RUF001 -- as trials are named
DAY_NS = 86_400 * 10**9


def measured(day, *values, verdicts=()):
    """Put a night into the history."""
    night = Night("quick", day * DAY_NS, MEASURED, run=f"run-{day}", metric="delivered_mbps", unit="Mb/s")
    with History() as history:
        history.record(night, Measured(values, verdicts))


def value(configuration, mbps):
    return Value(configuration, "delivered_mbps", mbps, None, None, 3)


@pytest.fixture
def nightly_of(define):
    """A nightly whose nights have measured these rates."""

    def nightly_of(rates, **terms):
        for day, rate in enumerate(rates, 20_000):
            measured(day, value(WAY, rate * (1 + 0.001 * (day % 3))))
        return define(since=datetime.fromtimestamp(0, UTC), **terms)

    return nightly_of


@pytest.mark.parametrize(("floor", "told"), [(120.0, [(WAY, "CRITICAL")]), (90.0, [])])
def test_what_is_below_its_floor_is_critical_though_nothing_has_changed(nightly_of, floor, told):
    findings = changes(nightly_of([100.0] * 9, floors={WAY: floor}))
    assert [(change.configuration, change.level) for change in findings] == told


@pytest.mark.parametrize(("floors", "state"), [({}, "WARNING"), ({WAY: 90.0}, "CRITICAL")])
def test_a_way_without_a_valid_trial_is_an_alarm_though_its_nights_have_measured_something(nightly_of, floors, state):
    nightly, control = nightly_of([100.0] * 9, floors=floors), "lan/root ×4"  # noqa: RUF001 -- as trials are named
    for day in range(20_009, 20_012):
        verdicts = Verdicts(control, 3, 0, 0), Verdicts(WAY, 0, 0, 3)
        measured(day, value(control, 100.0), verdicts=verdicts)
    planned = datetime.fromtimestamp(20_011 * 86_400, UTC)
    record.write(nightly, record.Night(planned.timestamp(), "measured", ended_wall_s=planned.timestamp() + 60))
    health = Health(nightly, changes(nightly), planned + timedelta(hours=1))
    assert health.state == state
    assert "No VALID trial since the night of " in health.summary


@pytest.mark.parametrize(("size_pct", "told"), [(5.0, 1), (30.0, 0)])
def test_a_change_is_told_from_the_size_that_was_asked_for(nightly_of, size_pct, told):
    assert len(changes(nightly_of([100.0] * 12 + [80.0] * 6, size_pct=size_pct))) == told


def test_what_is_accepted_after_a_second_fall_is_the_present_level_alone(nightly_of):
    nightly = nightly_of([100.0] * 12 + [85.0] * 8 + [70.0] * 9)
    assert cli.main(["nightly", "ack", "quick", "--accept"]) == 0
    with History() as history:
        accepted = baseline(chronicle(history, "quick"), WAY)
    assert (len(accepted), changes(nightly)) == (9, [])


@pytest.mark.parametrize(("floor", "named"), [(120.0, True), (90.0, False)])
def test_what_is_drawn_goes_by_the_same_floors(nightly_of, tmp_path, capsys, floor, named):
    nightly_of([100.0] * 9, floors={WAY: floor})
    page = tmp_path / "page.html"
    assert cli.main(["history", "list"]) == 0
    assert cli.main(["history", "page", "quick", "--output", str(page)]) == 0
    assert ["floor" in text for text in (capsys.readouterr().out, page.read_text())] == [named, named]


def test_a_floor_of_what_is_not_measured_is_refused():
    site, quick = find_site("testbed"), larger_quick()
    check_floors(site, quick, (), {WAY: 1.0})
    with pytest.raises(ConfigError, match="--floor: there is no"):
        check_floors(site, quick, (), {"direct/rot ×4": 1.0})  # noqa: RUF001 -- as trials are named


def test_a_floor_has_the_levels_of_axes_too(variant):
    experiment = variant('[axes.cache_mb]\nvalues = ["off", 30]\nsets = "workloads.root.options.cache_mb"\n')
    name = "direct/root cache_mb=30 ×4"  # noqa: RUF001 -- as trials are named
    check_floors(find_site("testbed"), experiment, ("lan-xrootd",), {name: 1.0})
    with pytest.raises(ConfigError, match="--floor: there is no"):
        check_floors(find_site("testbed"), experiment, ("lan-xrootd",), {WAY: 1.0})


@pytest.mark.parametrize("text", ["direct", "=5", "direct=fast", "direct=0"])
def test_a_floor_that_is_none_is_refused(text, capsys):
    with pytest.raises(SystemExit) as refused:
        cli.main(["nightly", "add", "quick", "--site", "testbed", "--at", "02:30", "--floor", text])
    assert refused.value.code == 2
    assert "--floor" in capsys.readouterr().err
