"""What has changed is told once it is certain, of whom it is; what is chance, or a night alone, is no alarm."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.nights_of_chronicle import CONTROL, DAY_NS, FIRST_NS, LAN, WAN, chronicle_of, slower_from
from tierbench.postprocess.history import alarms
from tierbench.postprocess.history.alarms import BETTER, DRIFT, FLOOR, LOST, SINGLE, STEP, WORSE, Watch, findings
from tierbench.postprocess.history.changepoints import Rule, course
from tierbench.postprocess.history.rows import Acknowledgement, Verdicts
from tierbench.postprocess.history.sentences import sentence, unmeasured
from tierbench.postprocess.history.series import series

ENVIRONMENT = "the environment, since all access methods changed together with the control"
FALLEN_TWICE = {LAN: lambda n: 1.0 if n < 40 else 0.85 if n < 55 else 0.7}
ALL_SLOWER = {"factors": {"": slower_from(40, 0.2)}, "control": ""}


def said(chronicle, **watch):
    return [(found.kind, found.direction, found.configuration) for found in findings(chronicle, Watch(**watch))]


def spike(number):
    return 0.5 if number == 40 else 1.0


GAP = (50, 51, 52)
ACCEPTED = Acknowledgement("n", LAN, FIRST_NS + 40 * DAY_NS, "admin", 0, accepted=True)
RAISED_AGAIN = {LAN: lambda n: 1.0 if n < 40 else 0.85 if n < 60 else 1.0}
NOISELESS = {"noise": 0.003, "factors": {LAN: slower_from(40, 0.03)}}
ONE_CHANGE = [
    # nights, what happens, what is watched for, and what is said
    *((f"a spike, {after} nights later", 41 + after, {"factors": {LAN: spike}}, {}, []) for after in (1, 2, 3, 5, 20)),
    ("a spike hides no later change", 42,
     {"factors": {LAN: lambda n: 0.4 if n == 20 else 0.9 if n >= 40 else 1.0}}, {}, [(STEP, WORSE, LAN)]),
    ("all alike, without a control", 45, {"factors": {"": slower_from(40, 0.2)}, "control": ""}, {},
     [(STEP, WORSE, "")]),
    ("a single night of one hides no change of the others, without a control", 60,
     {"factors": {LAN: slower_from(57, 0.4), WAN: slower_from(57, 0.4), CONTROL: slower_from(59, 0.1)}, "control": ""},
     {}, [(SINGLE, WORSE, CONTROL), (STEP, WORSE, LAN), (STEP, WORSE, WAN)]),
    ("and who changed by more is told beside all", 60,
     {"factors": {LAN: slower_from(50, 0.2), WAN: slower_from(52, 0.5), CONTROL: slower_from(51, 0.1)}, "control": ""},
     {}, [(STEP, WORSE, ""), (STEP, WORSE, LAN), (STEP, WORSE, WAN)]),
    ("a slow night of all", 41, {"factors": {"": spike}}, {}, [(SINGLE, WORSE, "")]),
    ("a slow night of all, a night later", 42, {"factors": {"": spike}}, {}, []),
    ("a gap alarms nobody", 60, {"missed": GAP}, {}, []),
    ("a gap hides nothing", 54, {"missed": GAP, "factors": {LAN: slower_from(49, 0.15)}}, {}, [(STEP, WORSE, LAN)]),
    ("what was accepted begins the baseline anew", 58, {"factors": RAISED_AGAIN, "acks": [ACCEPTED]}, {}, []),
    ("and what differs from it is told", 63, {"factors": RAISED_AGAIN, "acks": [ACCEPTED]}, {}, [(STEP, BETTER, LAN)]),
    ("it went back", 60, {"factors": {LAN: lambda n: 0.8 if 40 <= n < 46 else 1.0}}, {}, []),
    ("a night far worse soon after a change hides it not", 43,
     {"factors": {LAN: lambda n: 1.0 if n < 40 else 0.9 if n < 42 else 0.5}}, {}, [(STEP, WORSE, LAN)]),
    ("a night alone soon after it went back", 46,
     {"factors": {LAN: lambda n: 0.7 if n in (40, 41, 45) else 1.0}}, {}, []),
    ("below its floor", 3, {}, {"floors": {LAN: 160.0}}, [(FLOOR, WORSE, LAN)]),
    ("above its floor", 3, {}, {"floors": {LAN: 100.0}}, []),
    ("the control below its floor", 3, {}, {"floors": {CONTROL: 180.0}}, [(FLOOR, WORSE, CONTROL)]),
    ("certain but small", 80, NOISELESS, {}, []),
    ("small, and asked for", 80, NOISELESS, {"rule": Rule(size=0.02)}, [(STEP, WORSE, LAN)]),
    ("few nights", 6, {"factors": {LAN: slower_from(3, 0.5)}}, {}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nights", "happens", "watch", "expected"), [pytest.param(*row[1:], id=row[0]) for row in ONE_CHANGE]
)
def test_one_change(nights, happens, watch, expected):
    assert said(chronicle_of(nights, **happens), **watch) == expected


def newer_xrootd_from(night):
    return lambda number: {("dgt.fiu.test", "package xrootd-server"): "5.8.1" if number < night else "5.8.4"}


def test_a_method_that_falls_is_named_after_two_nights_with_what_else_changed():
    known = chronicle_of(42, factors={LAN: slower_from(40, 0.14)}, environment=newer_xrootd_from(40))
    (only,) = findings(known)
    assert (only.kind, only.direction, only.configuration) == (STEP, WORSE, LAN)
    assert (only.since.planned_ns - FIRST_NS) // DAY_NS == 40
    low, high = only.ratio[1:]
    assert low < 0.86 < high
    words = sentence(only, known)
    assert words.startswith(f"Worse since the night of the 6th: {LAN}, 150 → 1")
    assert words.endswith("; that night xrootd-server went from 5.8.1 to 5.8.4 on dgt.")


@pytest.mark.parametrize("night", [3, 4])
def test_what_breaks_in_the_first_week_is_told_and_hides_no_later_change(night):
    once, twice = slower_from(night, 0.5), at_levels((night, 0.5), (50, 0.4))
    assert said(chronicle_of(60, factors={LAN: once})) == [(STEP, WORSE, LAN)]
    (found, *_) = findings(chronicle_of(60, factors={LAN: twice}))
    assert found.ratio[0] < 0.85


def unplanned(known, configuration, since):
    """The same chronicle, of which no night since this one has planned a configuration."""
    for night in known.nights[since:]:
        for rows in (known.values, known.verdicts):
            rows[night.id] = [row for row in rows[night.id] if row.configuration != configuration]
    return known


def test_a_control_that_is_not_measured_any_more_is_told():
    known = unplanned(chronicle_of(20), CONTROL, 15)
    (lost,) = (finding for finding in findings(known) if finding.kind == LOST)
    assert f"of {CONTROL}, which is the control and is not measured any more" in sentence(lost, known)


def test_a_change_within_nights_that_measured_nothing_is_dated_to_none_of_them():
    fallen = {"factors": {LAN: slower_from(36, 0.15)}, "environment": newer_xrootd_from(33)}
    known = chronicle_of(60, missed=range(30, 50), **fallen)
    (only,) = findings(known)
    words = sentence(only, known)
    assert " or some night after that of " in words
    assert "; since the night of " in words
    assert "that night" not in words


def test_what_changed_a_night_later_is_not_said_of_that_night():
    (only,) = findings(
        known := chronicle_of(45, factors={LAN: slower_from(40, 0.2)}, environment=newer_xrootd_from(41))
    )
    assert sentence(only, known).endswith("; within a night of it xrootd-server went from 5.8.1 to 5.8.4 on dgt.")


def test_of_many_changes_beside_a_change_three_are_named_and_the_others_counted():
    settings = [("dgt.fiu.test", f"setting {number}") for number in range(5)]
    fallen = {"factors": {LAN: slower_from(40, 0.2)}}
    known = chronicle_of(45, **fallen, environment=lambda night: dict.fromkeys(settings, str(night >= 40)))
    (only,) = findings(known)
    assert sentence(only, known).endswith(", and 2 more things changed.")


@pytest.mark.parametrize("reruns", [(), (40,)])
def test_one_night_alone_is_suspected_and_no_alarm_though_its_rerun_is_like_it(reruns):
    known = chronicle_of(41, factors={LAN: slower_from(40, 0.12)}, reruns=reruns)
    (only,) = findings(known)
    assert (only.kind, only.configuration, only.certain) == (SINGLE, LAN, False)
    assert "no change until the next night confirms it" in sentence(only, known)


@pytest.mark.parametrize(
    ("slower", "control", "words"), [("", False, ENVIRONMENT), (CONTROL, True, "the control direct/root")]
)
def test_what_the_control_shares_is_the_environments_and_what_it_does_alone_blames_no_method(slower, control, words):
    known = chronicle_of(45, factors={slower: slower_from(40, 0.2)})
    (only,) = findings(known)
    assert (only.kind, only.configuration, only.is_control) == (STEP, slower, control)
    assert words in sentence(only, known)


def test_a_method_is_seen_through_an_environment_that_goes_up_and_down():
    chance = np.random.default_rng(5).normal(0, 0.15, 60)
    factors = {"": lambda n: float(np.exp(chance[n])), LAN: slower_from(40, 0.15)}
    (only,) = findings(chronicle_of(48, factors=factors))
    assert (only.configuration, only.by_control) == (LAN, True)


def test_the_rates_before_and_after_are_those_that_the_percentage_is_of():
    """The control's where the environment fell, and then the control by itself."""
    both = findings(chronicle_of(60, factors={"": slower_from(48, -0.1), CONTROL: slower_from(54, 0.2)}))
    assert [(found.direction, found.is_control) for found in both] == [(BETTER, False), (WORSE, True)]
    for found in both:
        assert found.after / found.before == pytest.approx(found.ratio[0], rel=0.01)


def test_a_slow_drift_is_told_as_a_drift_and_has_a_level_before():
    known = chronicle_of(75, factors={WAN: lambda n: 0.997 ** max(n - 30, 0)})
    (only,) = findings(known)
    assert (only.kind, only.direction, only.configuration) == (DRIFT, WORSE, WAN)
    assert only.per_night[1] < 0.997 < only.per_night[2]
    assert "a night" in sentence(only, known)
    accepted = replace(ACCEPTED, since_ns=FIRST_NS + 30 * DAY_NS)
    factors = {LAN: lambda n: 1.0 if n < 30 else 1.2 * 0.996 ** (n - 30)}
    (only,) = findings(chronicle_of(80, noise=0.0, factors=factors, acks=[accepted]))
    assert (only.kind, only.before) == (DRIFT, pytest.approx(180, rel=0.02))


def test_what_has_too_few_values_is_not_called_unchanged():
    assert alarms.few_nights(without(chronicle_of(20), LAN, lambda number, _: number < 16)) == [LAN]


def test_what_changed_in_nights_without_a_value_is_not_told_of_the_night_that_shows_it():
    fell, kernel = {LAN: slower_from(20, 0.3)}, {("dgt.fiu.test", "kernel"): "6.6"}
    for since, words in ((10, "; since the night of "), (20, "; that night ")):
        known = chronicle_of(22, factors=fell, environment=lambda n, at=since: kernel if n >= min(at + 2, 20) else {})
        (only,) = findings(without(known, LAN, lambda n, _, at=since: at <= n < 20))
        assert words in sentence(only, known)


def test_each_night_that_was_not_measured_is_named():
    assert len(unmeasured(chronicle_of(53, missed=GAP))) == 3


def seen(night, configuration=LAN):
    return Acknowledgement("n", configuration, FIRST_NS + night * DAY_NS, "admin", 0)


@pytest.mark.parametrize(
    ("nights", "happens", "acknowledgement", "expected"),
    [
        (50, {"factors": FALLEN_TWICE}, seen(41), True),
        (60, {"factors": FALLEN_TWICE}, seen(41), False),  # by what came later
        (45, ALL_SLOWER, seen(40, ""), True),  # what all share, without a control
        (45, ALL_SLOWER, seen(40), False),
    ],
)
def test_what_was_acknowledged_stays_so_and_nothing_else(nights, happens, acknowledgement, expected):
    found = findings(chronicle_of(nights, acks=[acknowledgement], **happens))
    assert [one.acknowledged for one in found] == [expected]


def without(known, configuration, gone):
    """The same chronicle, whose trials of a configuration are SUSPECT in the nights and reruns that `gone` names."""
    for night in known.measured:
        if gone((night.planned_ns - FIRST_NS) // DAY_NS, night.rerun):
            of_night = known.values[night.id], known.verdicts[night.id]
            known.values[night.id] = [one for one in of_night[0] if one.configuration != configuration]
            known.verdicts[night.id] = [
                Verdicts(configuration, 0, 3, 0) if one.configuration == configuration else one for one in of_night[1]
            ]
    return known


def from_40(number, _):
    return number >= 40


def test_a_method_that_falls_while_its_control_is_not_valid_shows_by_its_rate_and_its_floor():
    fallen = chronicle_of(60, factors={LAN: slower_from(40, 0.5)})
    assert said(fallen, floors={LAN: 120.0}) == [(FLOOR, WORSE, LAN), (STEP, WORSE, LAN)]
    known = without(fallen, CONTROL, from_40)
    assert said(known, floors={LAN: 120.0}) == [(LOST, LOST, CONTROL), (FLOOR, WORSE, LAN), (STEP, WORSE, LAN)]


SLOW = {"factors": {LAN: slower_from(40, 0.5)}}
DOUBTFUL = [
    # nights, what happens, what has no VALID trial and when, and what is said
    ("one night", 41, {}, LAN, from_40, []),
    ("a night and its rerun", 41, {"reruns": (40,)}, CONTROL, from_40, []),
    ("its rerun is valid", 42, {"reruns": (41,)}, CONTROL, lambda number, rerun: number >= 40 and not rerun, []),
    ("valid again", 60, {}, LAN, lambda number, _: 40 <= number < 59, []),
    ("never valid", 3, {}, WAN, lambda *_: True, [(LOST, LOST, WAN)]),
    ("the control, while another is slow", 41, SLOW, CONTROL, from_40, []),
    ("the control and its rerun", 41, {**SLOW, "reruns": (40,)}, CONTROL, from_40, []),
    ("the control, two nights", 42, SLOW, CONTROL, from_40, [(LOST, LOST, CONTROL), (STEP, WORSE, LAN)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nights", "happens", "name", "gone", "expected"), [pytest.param(*row[1:], id=row[0]) for row in DOUBTFUL]
)
def test_nights_without_a_valid_trial(nights, happens, name, gone, expected):
    assert said(without(chronicle_of(nights, **happens), name, gone)) == expected


def test_what_has_no_valid_trial_any_more_is_told_from_its_second_night_on():
    known = without(chronicle_of(42), LAN, from_40)
    (only,) = findings(known)
    assert (only.kind, only.configuration, only.certain) == (LOST, LAN, True)
    assert (only.since.planned_ns - FIRST_NS) // DAY_NS == 40
    words = f"No VALID trial since the night of the 6th: of {LAN}; that night of {LAN} 0 of 3 trials were VALID"
    assert sentence(only, known).startswith(words)


@pytest.mark.parametrize(("night", "acknowledged"), [(39, False), (40, True)])
def test_what_is_lost_is_acknowledged_by_itself(night, acknowledged):
    """Whoever has seen a method fall the night before has not seen that it is gone."""
    found = findings(without(chronicle_of(42, acks=[seen(night)]), LAN, from_40))
    assert [one.acknowledged for one in found] == [acknowledged]


def test_a_night_before_its_last_is_not_suspected_again_and_again():
    """A method that was slow in its last night that counted asks for no rerun in those that follow."""
    slow_last = {LAN: lambda number: 0.7 if number == 40 else 1.0}
    known = without(chronicle_of(45, factors=slow_last), LAN, lambda number, _: number > 40)
    assert all(one.certain for one in findings(known))


def test_nights_that_went_by_another_metric_are_held_against_later_ones_by_the_same():
    """Jobs that took turns from the 40th night on, so that the sum of their own rates is watched."""
    known = chronicle_of(60)
    for place, night in enumerate(known.nights):
        known.nights[place] = replace(night, metric="summed_mbps" if place >= 40 else night.metric)
        own = known.values[night.id]
        known.values[night.id] = own + [replace(one, metric="summed_mbps", mean=5 * one.mean) for one in own]
    assert said(known) == []
    assert np.exp(series(known, LAN).rates) == pytest.approx(5 * 150.0, rel=0.1)


def test_steps_up_and_down_are_all_found():
    chance = np.random.default_rng(2)
    levels = np.repeat([0.0, -0.2, 0.1], 30)
    found = course(levels + chance.normal(0, 0.02, 90), Rule())
    assert [part.begin for part in found.segments] == [0, 30, 60]


def at_levels(*pieces):
    """A factor by night: (40, 0.8) is 0.8 from night 40 on."""
    return lambda number: next((share for since, share in reversed(pieces) if number >= since), 1.0)


FALLS_AND_COMES_BACK = at_levels((50, 0.8), (80, 1.0), (110, 0.9))
WITH_ANOTHER = {name: at_levels((50, 0.8)) for name in (CONTROL, WAN)} | {LAN: at_levels((50, 0.8), (70, 0.48))}
IN_TIME, TOO_SOON = (replace(seen(50), at_ns=FIRST_NS + 54 * DAY_NS + hours * 3600 * 10**9) for hours in (30, 6))
SEEN_50 = replace(seen(50), at_ns=FIRST_NS + 52 * DAY_NS)
ENVIRONMENT_50 = replace(SEEN_50, configuration="")
COURSES = [
    # what happens, who has said what, and who is alarming after how many nights
    ("an episode that ended hides no later change", {LAN: FALLS_AND_COMES_BACK}, [],
     {60: {LAN}, 95: set(), 115: {LAN}}),
    ("three episodes", {LAN: at_levels((40, 0.85), (50, 1.0), (90, 0.85), (96, 1.0), (110, 0.85))}, [],
     {45: {LAN}, 60: set(), 94: {LAN}, 104: set(), 114: {LAN}}),
    ("half of the way back is still worse", {LAN: at_levels((50, 0.7), (70, 0.77))}, [], {60: {LAN}, 80: {LAN}}),
    ("further down is the same", {LAN: at_levels((50, 0.6), (70, 0.55))}, [], {60: {LAN}, 80: {LAN}}),
    ("the control by itself, then a method", {CONTROL: at_levels((50, 0.8)), LAN: at_levels((60, 0.8))}, [],
     {55: {CONTROL}, 64: {CONTROL, LAN}, 100: {CONTROL, LAN}}),
    ("the environment, then a method", WITH_ANOTHER, [], {60: {""}, 75: {"", LAN}, 100: {"", LAN}}),
    ("a better level that has lasted is what is expected", {LAN: at_levels((40, 1.2), (80, 1.0))}, [],
     {60: set(), 85: {LAN}}),
    ("an acknowledged level, and a lower one", {LAN: at_levels((50, 0.9), (54, 0.5))}, [SEEN_50],
     {53: set(), 57: {LAN}}),
    ("what went back after it was acknowledged, and fell again", {LAN: at_levels((50, 0.8), (60, 1.0), (90, 0.8))},
     [SEEN_50], {55: set(), 70: set(), 95: {LAN}}),
    ("a lower level that had shown by then", {LAN: at_levels((50, 0.9), (54, 0.5))}, [IN_TIME], {57: set()}),
    ("one whose first night alone was there then", {LAN: at_levels((50, 0.9), (54, 0.5))}, [TOO_SOON], {57: {LAN}}),
    ("an acknowledged environment covers no method",
     {name: at_levels((50, 0.8)) for name in (CONTROL, WAN)} | {LAN: at_levels((50, 0.4))}, [ENVIRONMENT_50],
     {56: {LAN}}),
    ("an old acknowledgement covers no drift", {LAN: lambda n: at_levels((50, 0.9))(n) * 0.995 ** max(n - 60, 0)},
     [SEEN_50], {58: set(), 110: {LAN}}),
]  # fmt: skip


@pytest.mark.parametrize(("factors", "acks", "expected"), [pytest.param(*row[1:], id=row[0]) for row in COURSES])
def test_several_changes_one_after_another(factors, acks, expected):
    known = chronicle_of(max(expected), factors=factors, acks=acks)

    def alarming(nights):
        found = findings(replace(known, nights=known.nights[:nights]))
        return {by.configuration for by in found if by.certain and by.direction != BETTER and not by.acknowledged}

    assert {nights: alarming(nights) for nights in expected} == expected


@pytest.mark.parametrize("known", [chronicle_of(60, factors={LAN: slower_from(50, 0.4)}),
                                   without(chronicle_of(42), LAN, from_40)], ids=["slower", "lost"])  # fmt: skip
def test_what_is_planned_no_longer_is_no_alarm(known):
    assert said(unplanned(known, LAN, -1)) == []


def test_what_has_a_floor_and_is_planned_no_longer_is_lost():
    known = unplanned(chronicle_of(42), LAN, 40)
    (only,) = findings(known, Watch(floors={LAN: 100.0}))
    assert (only.kind, only.configuration, only.since) == (LOST, LAN, known.nights[40])
    assert "which has a floor and is not measured any more" in sentence(only, known)
    assert findings(chronicle_of(12), Watch(floors={"new/root": 100.0})) == []  # it was never measured yet


def test_a_rerun_of_some_changes_neither_what_is_watched_nor_how_many_nights_there_were():
    """Nor is it a night without a number, where none of its trials is VALID."""
    known = chronicle_of(42, reruns=(41,))
    assert (known.nights[-1].rerun, known.count) == (True, 42)
    known.nights[-1] = replace(known.nights[-1], metric="summed_mbps", unit="other")
    assert (known.metric, known.unit) == ("delivered_mbps", "Mb/s")
    known.nights[-1] = replace(known.nights[-1], outcome="failed")
    assert unmeasured(known) == []


def test_what_is_below_its_floor_has_a_rate_below_it_and_is_told_again_where_it_falls_further():
    factors = {LAN: lambda n: 0.9 if n in (10, 12, 13) else 1.2}
    found = findings(chronicle_of(14, factors=factors), Watch(floors={LAN: 140.0}))
    (only,) = (finding for finding in found if finding.kind == FLOOR)
    assert only.after == pytest.approx(135, rel=0.02)
    acks = [replace(seen(0), at_ns=FIRST_NS + 3 * DAY_NS)]
    for factor, acknowledged in (({}, True), ({LAN: slower_from(4, 0.3)}, False)):
        (only,) = findings(chronicle_of(6, factors=factor, acks=acks), Watch(floors={LAN: 160.0}))
        assert only.acknowledged is acknowledged


@pytest.mark.parametrize("alike", [0.0, 0.7])
def test_a_year_of_noise_changes_its_level_less_than_twice(alike):
    chance, years = np.random.default_rng(3), 6
    changes = 0
    for _ in range(years):
        noise = chance.normal(0, 0.05 * np.sqrt(1 - alike**2), 365)
        for night in range(1, 365):
            noise[night] += alike * noise[night - 1]
        changes += len(course(noise, Rule()).segments) - 1
    assert changes / years < 2
