"""What is not as it was in a nightly by its last night: of a way, of the control, or of the environment of all.

A pure function of the nights and of what people said of them. The rules:

1. A night and its rerun are one value. All values are logarithms.
2. The control's changes of level come first (see `changepoints`). One that more than half of the ways went along with
   is the environment's, any other one the control's own.
3. From a way's rate is taken what the environment's changes brought it, and what the control was off its own level
   that night, as far as the two have gone together. What is left is the way's own; a change in it counts if the rate
   went at least half as far.
4. A series is worse or better than its reference: its first level, or a better one that it has had for two weeks. Worse
   lasts until it is back, whatever comes between, and begins where it left the reference.
5. Who acknowledged has seen the level of that night: what goes lower, and other ways, are told. Who accepted made
   it the reference.
6. A night that lies off alone is suspected: it asks for a rerun, and is no alarm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tierbench.postprocess.digits import Numbers
from tierbench.postprocess.history.changepoints import Course, Rule, Segment, Single, course, line, winsorized
from tierbench.postprocess.history.database import Chronicle
from tierbench.postprocess.history.rows import Acknowledgement, Night

BETTER, WORSE = "better", "worse"
STEP, DRIFT, FLOOR, SINGLE, LOST = "step", "drift", "floor", "single night", "lost"
DAY_NS = 86_400 * 10**9
ALONG = 0.5  # of a change has to be in the other series too for both to tell of one thing
BESIDE = 28  # nights on either side of a change that are asked for that
NEAR = 10  # the same of the control's, beside which ways may have changes of their own
LEAST_LOST = 2  # nights without a VALID trial: of one alone its own message tells
LAST = 5  # nights of a drift that tell the most of it
ESTABLISHED = 14  # nights after which a better level is what is expected
SAME_CHANGE = 3  # nights by which changes of several ways may lie apart and be one
ASSUMED = 5.0  # nights' worth of belief that a way and the control have a night in common


@dataclass(frozen=True)
class Watch:
    """What an admin has set of a nightly."""

    rule: Rule = field(default_factory=Rule)
    floors: Mapping[str, float] = field(default_factory=dict)  # the least that a configuration may have


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was before a night, up to the last one."""

    kind: str
    direction: str
    configuration: str  # empty: the environment of all
    since: Night  # the first night that differs
    last: Night  # the last night before it
    before: float  # the level, in the metric's unit
    after: float
    ratio: tuple[float, float, float]  # after over before, with its interval; of what is lost nobody knows
    by_control: bool = False  # the ratio is that to the control, which tells more here than the rate
    is_control: bool = False
    per_night: tuple[float, float, float] | None = None  # of a drift, as factors
    acknowledged: bool = False
    latest: Night | None = None  # the first night of the present level, where it went on changing since
    along: tuple[int, int] = (0, 0)  # of the environment: how many ways went along, and of how many

    @property
    def certain(self) -> bool:
        """Whether it is an alarm, and not a night that stands alone so far."""
        return self.kind != SINGLE


@dataclass(frozen=True)
class Series:
    """The nights in which a configuration has VALID trials, in order, with its rates as logarithms."""

    configuration: str
    nights: Sequence[Night]
    rates: Numbers

    @property
    def planned(self) -> Numbers:
        return np.array([night.planned_ns for night in self.nights], dtype=float)

    @property
    def days(self) -> Numbers:
        """The nights in the calendar, from the first."""
        planned = self.planned
        places: Numbers = (planned - planned[0]) / DAY_NS if len(planned) else planned
        return places

    def __len__(self) -> int:
        return len(self.nights)


def control_of(chronicle: Chronicle) -> str:
    """The reference configuration of the latest night that has one."""
    return next((night.control for night in reversed(chronicle.measured) if night.control), "")


def series(chronicle: Chronicle, configuration: str, begin_ns: int = 0) -> Series:
    """A configuration's rate; a night and its rerun are one value, by their trials."""
    found: dict[int, list[tuple[Night, float, int]]] = {}
    for night in chronicle.measured:
        value = chronicle.value(night, configuration) if night.planned_ns >= begin_ns else None
        if value and value.mean > 0:
            found.setdefault(night.planned_ns, []).append((night, value.mean, value.n))
    rates = [sum(mean * n for _, mean, n in same) / sum(n for *_, n in same) for same in found.values()]
    return Series(configuration, [same[0][0] for same in found.values()], np.log(rates))


def baseline(chronicle: Chronicle, configuration: str) -> Series:
    """The same since what was accepted last."""
    accepted = [
        one.since_ns for one in chronicle.acknowledgements if one.accepted and one.configuration in ("", configuration)
    ]
    return series(chronicle, configuration, max(accepted, default=0))


def findings(chronicle: Chronicle, watch: Watch | None = None) -> list[Finding]:
    """All that is not as it was, the environment first; what all ways share with the control is told once."""
    watch = watch or Watch()
    names, control = _planned(chronicle), control_of(chronicle)
    if not names:
        return []
    last_ns = chronicle.measured[-1].planned_ns
    own = {name: series(chronicle, name) for name in names}
    control = control if control in own else ""
    reference = own.pop(control, None)
    its = course(reference.rates, watch.rule) if reference else None
    shifts = _shifts(reference, own, its) if reference and its else []
    found = list(_of_control(reference, its, own, shifts, chronicle, watch, last_ns)) if reference and its else []
    found += _lost(chronicle, names, control)
    for one in [*filter(None, [reference]), *own.values()]:
        found += _floor(one, chronicle, watch)
        if one is not reference:
            found += _of_way(one, reference, its, shifts, chronicle, watch, last_ns)
    if not control and (shared := _shared(found, own)):
        found = [shared, *(one for one in found if one.kind in (FLOOR, LOST))]
    return found


def history_of(chronicle: Chronicle, configuration: str, watch: Watch) -> list[Finding]:
    """All steps of a configuration's rate since its first night, whatever was accepted, and whoever was to blame."""
    one = series(chronicle, configuration)
    made = course(one.rates, watch.rule)
    pairs = itertools.pairwise(made.segments)
    return [_finding(STEP, one, one.rates, after.level - before.level, made.reach(before, after), before, after)
            for before, after in pairs]  # fmt: skip


def suspected(chronicle: Chronicle, watch: Watch | None = None) -> list[Finding]:
    """What only the last night says so far, which a rerun tells more of."""
    return [one for one in findings(chronicle, watch) if not one.certain]


def _planned(chronicle: Chronicle) -> list[str]:
    """What the last night was to measure; what is planned no longer is nobody's alarm."""
    latest = next((night for night in reversed(chronicle.measured) if not night.rerun), None)
    if latest is None:
        return []
    asked = [row.configuration for row in chronicle.verdicts.get(latest.id, [])]
    return list(dict.fromkeys([*asked, *(row.configuration for row in chronicle.values.get(latest.id, []))]))


# -- the control and the environment -----------------------------------------------------------------------


@dataclass(frozen=True)
class Shift:
    """A change of the control's level, and the ways that went along."""

    at: int  # segment of the control's course that it begins
    planned_ns: int
    difference: float
    along: frozenset[str]
    asked: int

    @property
    def shared(self) -> bool:
        """Whether it is the environment's."""
        return 2 * len(self.along) > self.asked


def _shifts(reference: Series, own: Mapping[str, Series], its: Course) -> list[Shift]:
    parts = its.segments
    made = []
    for at, (before, after) in enumerate(itertools.pairwise(parts), 1):
        begin, turn, end = (reference.nights[index].planned_ns for index in (before.begin, after.begin, after.end - 1))
        moved = {name: _moved(one.planned, one.rates, begin, turn, end, NEAR) for name, one in own.items()}
        there = {name: by for name, by in moved.items() if by is not None}
        difference = after.level - before.level
        along = frozenset(name for name, by in there.items() if by / difference >= ALONG)
        made.append(Shift(at, turn, difference, along, len(there)))
    return made


def _moved(
    planned: Numbers, values: Numbers, begin: float, at: float, end: float, nights: int = BESIDE
) -> float | None:
    """By how much a series' level changed at a night, by the nights on either side of it."""
    before = values[(planned >= begin) & (planned < at)][-nights:]
    after = values[(planned >= at) & (planned <= end)][:nights]
    return float(np.median(after) - np.median(before)) if len(before) and len(after) else None


def _of_control(
    reference: Series,
    made: Course,
    own: Mapping[str, Series],
    shifts: list[Shift],
    known: Chronicle,
    watch: Watch,
    last_ns: int,
) -> Iterator[Finding]:
    """What has become of the environment, and of the control by itself."""
    shared = {shift.at for shift in shifts if shift.shared}
    told = False
    for name, counts in (("", lambda at: at in shared), (reference.configuration, lambda at: at not in shared)):
        found = _present_state(reference, reference.rates, made, counts, _acknowledgements_of(known, name), watch)
        if found:
            told = told or not found.acknowledged
            alike = [shift for shift in shifts if shift.shared and reference.nights[0].planned_ns <= shift.planned_ns]
            along = (len(alike[-1].along), alike[-1].asked) if alike and not name else (0, 0)
            yield replace(found, configuration=name, is_control=bool(name), along=along)
    if made.single and not told and reference.nights[-1].planned_ns == last_ns:
        found = _alone(reference, reference.rates, made, made.single)
        moved = [_moved(one.planned, one.rates, one.planned[0], last_ns, last_ns) for one in own.values() if len(one)]
        there = [by / made.single.difference >= ALONG for by in moved if by is not None]
        along = (sum(there), len(there))
        if 2 * sum(there) > len(there):
            yield replace(found, configuration="", along=along)
        else:
            yield replace(found, is_control=True)


# -- a way by itself -----------------------------------------------------------------------------------------


def _of_way(
    rate: Series,
    reference: Series | None,
    its: Course | None,
    shifts: list[Shift],
    known: Chronicle,
    watch: Watch,
    last_ns: int,
) -> Iterator[Finding]:
    if not len(rate):
        return
    planned, environment = rate.planned, np.zeros(len(rate))
    for shift in shifts:
        if shift.shared and rate.configuration in shift.along:
            environment += shift.difference * (planned >= shift.planned_ns)
    rates = rate.rates - environment
    share, beside = _shared_with_control(rate, reference, its)
    there = ~np.isnan(beside)
    values = rates - share * np.where(there, beside, 0.0)
    made = course(values, watch.rule)

    def its_own(at: int) -> bool:
        before, after = made.segments[at - 1], made.segments[at]
        moved = _moved(planned, rates, planned[before.begin], planned[after.begin], planned[after.end - 1])
        return moved is not None and moved / (after.level - before.level) >= ALONG

    now = rates + environment[-1]  # what earlier nights would have measured in the environment of today
    by_control = reference is not None and share >= ALONG
    said = _acknowledgements_of(known, rate.configuration)
    if reference is None:  # then a change of all ways is told by what they are, and acknowledged for all
        said += _acknowledgements_of(known, "")
    found = _present_state(rate, now, made, its_own, said, watch, values)
    if found:
        yield replace(found, by_control=by_control)
    if (found is None or found.acknowledged) and made.single and planned[-1] == last_ns:
        of_control = reference is not None and bool(there.any())
        if of_control and not there[-1]:  # whatever made the control doubtful may have slowed the way as well
            return
        asked = [rates, rates - beside] if of_control else [rates]
        by = [float(one[-1] - np.nanmedian(one[made.segments[-1].begin : -1][-BESIDE:])) for one in asked]
        if all(moved / made.single.difference >= ALONG for moved in by):
            yield replace(_alone(rate, now, made, made.single), by_control=by_control)


def _shared_with_control(rate: Series, reference: Series | None, its: Course | None) -> tuple[float, Numbers]:
    """How far a way goes along with the control's single nights, and how far the control was off its level in each."""
    off = np.full(len(rate), np.nan)
    if reference is None or its is None or len(reference) == 0:
        return 0.0, off
    levels = np.empty(len(reference))
    for part in its.segments:
        levels[part.begin : part.end] = part.level
    of_night = dict(zip(reference.planned, reference.rates - levels, strict=True))
    off = np.array([of_night.get(planned, np.nan) for planned in rate.planned])
    both = ~np.isnan(off)
    if both.sum() < 3:
        return 1.0, off
    mine, others = winsorized(np.diff(rate.rates[both])), winsorized(np.diff(off[both]))
    belief = ASSUMED * float(others @ others) / len(others)
    share = (float(mine @ others) + belief) / max(float(others @ others) + belief, 1e-12)
    return min(max(share, 0.0), 1.0), off


# -- the present state of a series ---------------------------------------------------------------------------


def _acknowledgements_of(known: Chronicle, configuration: str) -> list[Acknowledgement]:
    return [one for one in known.acknowledgements if one.configuration == configuration]


@dataclass
class _State:
    """Against which level a series is held, and how it stands by it."""

    reference: Segment
    level: float
    direction: str = ""
    since: int = 0  # segment in which it left its reference
    latest: int = 0  # segment in which it last went further
    seen: float | None = None  # the level that was acknowledged

    def enter(self, at: int, part: Segment, before: Segment, size: float) -> None:
        """Another level, which changed by its own; one that has just begun is held against half of the size."""
        gone, went = part.level - self.reference.level, part.level - before.level
        was, sign = self.direction, math.copysign(1.0, gone)
        further = went * sign > 0 and (before.level - self.reference.level) * sign > -size / 2
        direction = (WORSE if gone < 0 else BETTER) if abs(gone) >= (size / 2 if further else size) else ""
        if direction != was:
            self.since, self.seen = at, None
        if direction != was or further:
            self.latest = at
        self.direction = direction

    def after(self, accepted: Sequence[bool], part: Segment) -> _State:
        """What people said of this level."""
        if not accepted or not self.direction:
            return self
        if any(accepted) or self.direction == BETTER:
            return _State(part, part.level)
        self.seen = part.level if self.seen is None else min(part.level, self.seen)
        return self


def _present_state(
    one: Series,
    rates: Numbers,
    made: Course,
    counts: Callable[[int], bool],
    said: Sequence[Acknowledgement],
    watch: Watch,
    values: Numbers | None = None,
) -> Finding | None:
    """How a series stands by those of its changes that count; what the others brought is taken out of it."""
    parts, size, beyond = made.segments, watch.rule.size_of_logarithm, 0.0
    counting = []  # what is one level for those who count, with the segments that it goes over
    for at, part in enumerate(parts):
        if at and not counts(at):
            beyond += part.level - parts[at - 1].level
        counting.append(replace(part, level=part.level - beyond))
    state = _state_after(one, counting, counts, said, size)
    if not state.direction:
        return None
    last = counting[-1]
    difference = last.level - state.reference.level
    acknowledged = state.seen is not None and last.level > state.seen - size
    reach = made.reach(state.reference, last)
    found = _finding(
        STEP, one, rates, difference, reach, state.reference, replace(last, begin=parts[state.since].begin)
    )
    after = math.exp(float(winsorized(rates[last.begin :]).mean()))
    latest = one.nights[parts[state.latest].begin] if state.latest != state.since else None
    found = replace(found, acknowledged=acknowledged, latest=latest, after=after)
    return _as_drift(found, one, rates, values if values is not None else rates, state.reference, parts, watch) or found


def _state_after(
    one: Series, parts: list[Segment], counts: Callable[[int], bool], said: Sequence[Acknowledgement], size: float
) -> _State:
    """After all levels, and what people said in the nights of each."""
    state = _State(parts[0], parts[0].level)
    ends = [*(one.nights[part.begin].planned_ns for part in parts[1:]), math.inf]
    for at, (part, end) in enumerate(zip(parts, ends, strict=True)):
        if at and counts(at):
            state.enter(at, part, parts[at - 1], size)
        begin = one.nights[part.begin].planned_ns if len(one) else 0
        state = state.after([ack.accepted for ack in said if begin <= max(ack.since_ns, ack.at_ns) < end], part)
        if state.direction == BETTER and len(part) >= ESTABLISHED:
            state = _State(part, part.level)
    return state


def _as_drift(
    found: Finding, one: Series, rates: Numbers, values: Numbers, reference: Segment, parts: list[Segment], watch: Watch
) -> Finding | None:
    """The same as a line, where that tells more of it."""
    begin = reference.begin
    slow = line(values[begin:], one.days[begin:], [replace(part, begin=max(part.begin - begin, 0), end=part.end - begin)
                                                   for part in parts if part.end > begin])  # fmt: skip
    if (
        slow is None
        or slow.slope * math.log(found.ratio[0]) <= 0
        or abs(slow.difference) < watch.rule.size_of_logarithm
    ):
        return None
    span = slow.difference / slow.slope
    turn = max(begin + slow.index, 1)
    bounds = sorted(math.exp(slow.difference + sign * slow.reach * span) for sign in (-1, 1))
    per_night = sorted(math.exp(slow.slope + sign * slow.reach) for sign in (-1, 1))
    return replace(
        found,
        kind=DRIFT,
        since=one.nights[turn],
        last=one.nights[turn - 1],
        before=math.exp(float(winsorized(rates[begin:turn]).mean())),
        after=math.exp(float(winsorized(rates[-LAST:]).mean())),
        ratio=(math.exp(slow.difference), bounds[0], bounds[1]),
        per_night=(math.exp(slow.slope), per_night[0], per_night[1]),
    )


def _alone(one: Series, rates: Numbers, made: Course, single: Single) -> Finding:
    """The last night, which stands alone."""
    last = made.segments[-1]
    before = replace(last, end=last.end - 1)
    return _finding(SINGLE, one, rates, single.difference, single.reach, before, replace(last, begin=last.end - 1))


def _finding(
    kind: str, one: Series, rates: Numbers, difference: float, reach: float, before: Segment, after: Segment
) -> Finding:
    """What is said of the rate, whatever has told it."""
    ratio = math.exp(difference), math.exp(difference - reach), math.exp(difference + reach)
    levels = [math.exp(float(winsorized(rates[part.begin : part.end]).mean())) for part in (before, after)]
    index = max(after.begin, 1)
    direction = WORSE if difference < 0 else BETTER
    return Finding(
        kind, direction, one.configuration, one.nights[index], one.nights[index - 1], levels[0], levels[1], ratio
    )


# -- what needs no statistics ------------------------------------------------------------------------------


def _lost(chronicle: Chronicle, names: Sequence[str], control: str) -> Iterator[Finding]:
    """What the last night planned, and has had no VALID trial in it or in the one before."""
    nights = chronicle.measured
    for name in names:
        gone = _without_valid(chronicle, name)
        if len(gone) >= LEAST_LOST:
            last = next((night for night in reversed(nights) if night.planned_ns < gone[0].planned_ns), gone[0])
            ratio = math.nan, math.nan, math.nan
            seen = any(one.since_ns == gone[0].planned_ns for one in _acknowledgements_of(chronicle, name))
            yield Finding(LOST, LOST, name, gone[0], last, math.nan, math.nan, ratio, is_control=name == control,
                          acknowledged=seen)  # fmt: skip


def _without_valid(chronicle: Chronicle, configuration: str) -> list[Night]:
    """The nights that planned it and have no VALID trial of it, up to the last one; its rerun is of the same night."""
    gone: dict[int, Night] = {}
    valid_ns = None
    for night in chronicle.measured:
        for row in chronicle.verdicts.get(night.id, []):
            if row.configuration == configuration and row.valid:
                valid_ns = night.planned_ns
                gone.clear()
            elif row.configuration == configuration and night.planned_ns != valid_ns:
                gone.setdefault(night.planned_ns, night)
    return list(gone.values())


def _floor(one: Series, chronicle: Chronicle, watch: Watch) -> Iterator[Finding]:
    """Whether the last two nights are below what somebody has set."""
    floor = watch.floors.get(one.configuration)
    below = one.rates < math.log(floor) if floor else np.array([])
    if not floor or len(one) < 2 or not below[-2:].all():
        return
    above = [index for index in range(1, len(one)) if not below[index] and not below[index - 1]]
    start = max(above) + 1 if above else 0
    first = start + int(np.argmax(below[start:]))
    rates = np.exp(one.rates[first:])
    size = watch.rule.size_of_logarithm
    seen = False
    for ack in _acknowledgements_of(chronicle, one.configuration):
        until = one.planned <= max(ack.since_ns, ack.at_ns)
        until[:first] = False
        seen |= bool(until.any()) and one.rates[-2:].mean() > np.median(one.rates[until]) - size
    after = float(rates.mean())
    yield Finding(FLOOR, WORSE, one.configuration, one.nights[first], one.nights[max(first - 1, 0)], floor, after,
                  (after / floor, rates.min() / floor, rates.max() / floor), acknowledged=bool(seen))  # fmt: skip


def _shared(found: Sequence[Finding], own: Mapping[str, Series]) -> Finding | None:
    """Without a control: all ways, three at least, that changed at one time in one direction."""
    moved = [one for one in found if one.kind in (STEP, SINGLE)]
    if len(moved) < max(len(own), 3) or len({one.direction for one in moved}) > 1:
        return None
    begins = [one.since.planned_ns for one in moved]
    if max(begins) - min(begins) > SAME_CHANGE * DAY_NS:
        return None
    least = min(moved, key=lambda one: abs(math.log(one.ratio[0])))
    return replace(least, configuration="", acknowledged=all(one.acknowledged for one in moved))
