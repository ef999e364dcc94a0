"""What is not as it was in a nightly by its last night: of a method, of the control, or of the environment.

A pure function of the nights and of what people said of them. The rules:

1. A night and its rerun are one value. All values are logarithms.
2. The control's changes of level come first (see `changepoints`). If more than half of the methods went along, it is
   the environment's, else the control's own.
3. From a method's rate is taken what the environment's changes brought it, and what the control was off its own level
   that night, as far as the two have gone together. What is left is the method's own; a change in it counts if the rate
   went at least half as far.
4. A series is worse or better than its reference: its first level, or a better one that it has had for two weeks. Worse
   lasts until it is back, whatever comes between, and begins where it left the reference.
5. Who acknowledged has seen the last level that showed by then: what goes lower, and other methods, are reported. Who
   accepted made it the reference.
6. A night that lies off alone is suspected: it asks for a rerun, and is no alarm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.history.changepoints import (
    LEAST_IN_ALL,
    Course,
    Rule,
    Segment,
    Single,
    course,
    line,
    winsorized,
)  # fmt: skip
from tierbench.postprocess.history.database import Chronicle
from tierbench.postprocess.history.rows import Acknowledgement, Night
from tierbench.postprocess.history.series import ALONG, BESIDE, DAY_NS, Series, series

BETTER, WORSE = "better", "worse"
STEP, DRIFT, FLOOR, SINGLE, LOST = "step", "drift", "floor", "single night", "lost"
NEAR = 10  # the same of the control's, beside which methods may have changes of their own
LEAST_LOST = 2  # nights without a VALID trial: of one alone its own message tells
LAST = 5  # nights of a drift that tell the most of it
ESTABLISHED = 14  # nights after which a better level is what is expected
SAME_CHANGE = 3  # nights by which changes of several methods may lie apart and be one
ASSUMED = 5.0  # nights' worth of belief that a method and the control have a night in common


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
    least: str = ""  # of the environment without a control: the configuration that changed least, whose rates these are
    along: tuple[int, int] = (0, 0)  # of the environment: how many methods went along, and of how many

    @property
    def certain(self) -> bool:
        """Whether it is an alarm, and not a night that stands alone so far."""
        return self.kind != SINGLE


def few_nights(chronicle: Chronicle) -> list[str]:
    """The configurations with values of too few nights for a change to be told."""
    counted = chronicle.counts(chronicle.latest) if chronicle.latest else ()
    return [name for name in counted if len(series(chronicle, name)) < LEAST_IN_ALL]


def findings(chronicle: Chronicle, watch: Watch | None = None) -> list[Finding]:
    """All that is not as it was, the environment first; what all methods share with the control is reported once."""
    return _Nightly(chronicle, watch or Watch()).findings()


def history_of(chronicle: Chronicle, configuration: str, watch: Watch) -> list[Finding]:
    """All steps of a configuration's rate since its first night, whatever was accepted, and whoever was to blame."""
    rate = series(chronicle, configuration)
    levels = course(rate.rates, watch.rule)
    return [
        _finding(STEP, rate, after.level - before.level, levels.reach(before, after), before, after)
        for before, after in itertools.pairwise(levels.segments)
    ]


@dataclass(frozen=True)
class Shift:
    """A change of the control's level, and the access methods that went along."""

    at: int  # segment of the control's course that it begins
    planned_ns: int
    difference: float
    along: frozenset[str]
    methods: int  # that have nights before and after

    @property
    def shared(self) -> bool:
        """Whether it is the environment's."""
        return 2 * len(self.along) > self.methods


class _Nightly:
    """The series of a nightly, and what its control says of the environment."""

    def __init__(self, chronicle: Chronicle, watch: Watch) -> None:
        self.chronicle, self.watch, self.size = chronicle, watch, watch.rule.size_of_logarithm
        # What the last night was to measure; what is planned no longer is nobody's alarm.
        latest = chronicle.latest.id if chronicle.latest else 0
        judged = [row.configuration for row in chronicle.verdicts.get(latest, [])]
        self.names = list(dict.fromkeys([*judged, *(row.configuration for row in chronicle.values.get(latest, []))]))
        self.last_ns = chronicle.measured[-1].planned_ns if chronicle.measured else 0
        self.methods = {name: series(chronicle, name) for name in self.names}
        self.control_name = chronicle.control if chronicle.control in self.methods else ""
        self.control = self.methods.pop(self.control_name, None) or None  # an empty series is none
        self.control_levels = course(self.control.rates if self.control else np.array([]), watch.rule)
        self.shifts = list(self._shifts(self.control)) if self.control else []

    def findings(self) -> list[Finding]:
        all_findings = [*self._of_control(self.control)] if self.control else []
        all_findings += self._lost()
        all_findings += self._floor(self.control) if self.control else []
        for rate in filter(None, self.methods.values()):
            all_findings += [*self._floor(rate), *self._of_method(rate)]
        return all_findings if self.control_name else _merged(all_findings, self.methods, self.size)

    def _shifts(self, control: Series) -> Iterator[Shift]:
        for at, (before, after) in enumerate(itertools.pairwise(self.control_levels.segments), 1):
            edges = (before.begin, after.begin, after.end - 1)
            begin, turn, end = (control.nights[index].planned_ns for index in edges)
            difference = after.level - before.level
            along = self._along(difference, begin, turn, end, NEAR)
            yield Shift(at, turn, difference, frozenset(name for name, goes in along.items() if goes), len(along))

    def _along(self, difference: float, begin: float, at: float, end: float, nights: int = BESIDE) -> dict[str, bool]:
        """Whether each method changed its level with the control, of those that have nights before and after."""
        every = {name: own.goes_along(difference, begin, at, end, nights) for name, own in self.methods.items()}
        return {name: goes for name, goes in every.items() if goes is not None}

    def _of_control(self, control: Series) -> Iterator[Finding]:
        """What has become of the environment, and of the control by itself."""
        levels, single = self.control_levels, self.control_levels.single
        shared = [shift for shift in self.shifts if shift.shared]
        its_own = [shift for shift in self.shifts if not shift.shared]
        alarm = False
        for name, shifts, others in (("", shared, its_own), (control.configuration, its_own, shared)):
            acknowledgements = self.chronicle.acknowledgements_of(name)
            changes = {shift.at for shift in shifts}
            # What earlier nights would have measured after the others' changes.
            later = [shift.difference * (control.planned < shift.planned_ns) for shift in others]
            rate = replace(control, rates=control.rates + np.sum(later, axis=0))
            finding = _Judgement(rate, control.rates, levels, changes, acknowledgements, self.size).present_state()
            if finding:
                alarm |= not finding.acknowledged
                along = (len(shared[-1].along), shared[-1].methods) if shared and not name else (0, 0)
                yield replace(finding, configuration=name, is_control=bool(name), along=along)
        if single and not alarm and control.nights[-1].planned_ns == self.last_ns:
            finding = _alone(control, levels, single)
            goes = self._along(single.difference, -math.inf, self.last_ns, self.last_ns).values()
            if 2 * sum(goes) > len(goes):
                yield replace(finding, configuration="", along=(sum(goes), len(goes)))
            else:
                yield replace(finding, is_control=True)

    def _of_method(self, rate: Series) -> Iterator[Finding]:
        """What has become of an access method by itself."""
        planned, environment = rate.planned, np.zeros(len(rate))
        for shift in self.shifts:
            if shift.shared and rate.configuration in shift.along:
                environment += shift.difference * (planned >= shift.planned_ns)
        rates = rate.rates - environment
        share, control_off = self._shared_with_control(rate)
        beside = ~np.isnan(control_off)
        values = rates - share * np.where(beside, control_off, 0.0)
        levels = course(values, self.watch.rule)
        # What earlier nights would have measured in the environment of today.
        now = replace(rate, rates=rates + environment[-1])
        its_own = {
            at for at, (before, after) in enumerate(itertools.pairwise(levels.segments), 1)
            if now.goes_along(after.level - before.level, *planned[[before.begin, after.begin, after.end - 1]])
        }  # fmt: skip
        by_control = share >= ALONG
        # Without a control a change of all is reported for each, and acknowledged for all.
        names = [rate.configuration] if self.control_name else [rate.configuration, ""]
        acknowledgements = self.chronicle.acknowledgements_of(*names)
        finding = _Judgement(now, values, levels, its_own, acknowledgements, self.size).present_state()
        if finding:
            yield replace(finding, by_control=by_control)
        if (finding is None or finding.acknowledged) and levels.single and planned[-1] == self.last_ns:
            if beside.any() and not beside[-1]:  # whatever made the control doubtful may have slowed the method as well
                return
            views = [rates, rates - control_off] if beside.any() else [rates]
            begin = levels.segments[-1].begin
            differences = [float(view[-1] - np.nanmedian(view[begin:-1][-BESIDE:])) for view in views]
            if all(difference / levels.single.difference >= ALONG for difference in differences):
                yield replace(_alone(now, levels, levels.single), by_control=by_control)

    def _shared_with_control(self, rate: Series) -> tuple[float, Numbers]:
        """How far a method goes along with the control's single nights, and how far that was off its level in each."""
        if self.control is None:
            return 0.0, np.full(len(rate), np.nan)
        levels = np.empty(len(self.control))
        for part in self.control_levels.segments:
            levels[part.begin : part.end] = part.level
        of_night = dict(zip(self.control.planned, self.control.rates - levels, strict=True))
        off = np.array([of_night.get(planned, np.nan) for planned in rate.planned])
        both = ~np.isnan(off)
        if both.sum() < 3:
            return 1.0, off
        mine, others = winsorized(np.diff(rate.rates[both])), winsorized(np.diff(off[both]))
        belief = ASSUMED * float(others @ others) / len(others)
        share = (float(mine @ others) + belief) / max(float(others @ others) + belief, 1e-12)
        return min(max(share, 0.0), 1.0), off

    def _lost(self) -> Iterator[Finding]:
        """What the last night planned, or has a floor, and has had no VALID trial in it or in the one before."""
        nan, floors = math.nan, self.watch.floors  # of what its experiment plans no longer, too
        control = self.chronicle.control
        for name in dict.fromkeys([*self.names, *floors, *filter(None, [control])]):
            nights = _without_valid(self.chronicle, name, name in floors or name == control)
            if len(nights) >= LEAST_LOST:
                first, before = nights[0], self.chronicle.before(nights[0]) or nights[0]
                acknowledged = any(ack.since_ns == first.planned_ns for ack in self.chronicle.acknowledgements_of(name))
                yield Finding(LOST, LOST, name, first, before, nan, nan, (nan, nan, nan),
                              acknowledged=acknowledged, is_control=name == control)  # fmt: skip

    def _floor(self, rate: Series) -> Iterator[Finding]:
        """Whether the last two nights are below what somebody has set."""
        floor = self.watch.floors.get(rate.configuration)
        below = rate.rates < math.log(floor) if floor else np.array([])
        if not floor or len(rate) < 2 or not below[-2:].all():
            return
        above = [index for index in range(1, len(rate)) if not below[index] and not below[index - 1]]
        start = max(above) + 1 if above else 0
        first = start + int(np.argmax(below[start:]))
        rates = np.exp(rate.rates[first:][below[first:]])
        acknowledged = False
        for ack in self.chronicle.acknowledgements_of(rate.configuration):
            until = rate.rates[first:][rate.planned[first:] <= max(ack.since_ns, ack.at_ns)]
            acknowledged |= len(until) > 0 and bool(rate.rates[-2:].mean() > np.median(until) - self.size)
        after, ratio = float(rates.mean()), (float(rates.mean()) / floor, rates.min() / floor, rates.max() / floor)
        nights = rate.nights[first], rate.nights[max(first - 1, 0)]
        yield Finding(FLOOR, WORSE, rate.configuration, *nights, floor, after, ratio, acknowledged=acknowledged)


@dataclass
class _State:
    """Against which level a series is held, and how it stands by it."""

    reference: Segment
    level: float
    direction: str = ""
    since: int = 0  # segment in which it left its reference
    latest: int = 0  # segment in which it last went further
    acknowledged: float | None = None  # level

    def enter(self, at: int, part: Segment, before: Segment, size: float) -> None:
        """Another level, which changed by its own; one that has just begun is held against half of the size."""
        gone, went = part.level - self.reference.level, part.level - before.level
        was, sign = self.direction, math.copysign(1.0, gone)
        further = went * sign > 0 and (before.level - self.reference.level) * sign > -size / 2
        direction = (WORSE if gone < 0 else BETTER) if abs(gone) >= (size / 2 if further else size) else ""
        if direction != was:
            self.since, self.acknowledged = at, None
        if direction != was or further:
            self.latest = at
        self.direction = direction

    def after(self, accepted: Sequence[bool], part: Segment) -> _State:
        """What people said of this level."""
        if not accepted or not self.direction:
            return self
        if any(accepted) or self.direction == BETTER:
            return _State(part, part.level)
        self.acknowledged = part.level if self.acknowledged is None else min(part.level, self.acknowledged)
        return self


@dataclass(frozen=True)
class _Judgement:
    """Of a series, by those of its changes that count; what the others brought is taken out of it."""

    rate: Series  # as it is reported
    values: Numbers  # that its levels are of
    levels: Course
    changes: Collection[int]  # that count, by the segments that they begin
    acknowledgements: Sequence[Acknowledgement]
    size: float

    def present_state(self) -> Finding | None:
        """How the series stands by its reference."""
        parts, beyond = self.levels.segments, 0.0
        counting = []  # what is one level for those who count, with the segments that it goes over
        for at, part in enumerate(parts):
            if at and at not in self.changes:
                beyond += part.level - parts[at - 1].level
            counting.append(replace(part, level=part.level - beyond))
        state = self._state_after(counting)
        if not state.direction:
            return None
        last, nights = counting[-1], self.rate.nights
        difference, reach = last.level - state.reference.level, self.levels.reach(state.reference, last)
        whole = replace(last, begin=parts[state.since].begin)
        step = replace(
            _finding(STEP, self.rate, difference, reach, state.reference, whole),
            acknowledged=state.acknowledged is not None and last.level > state.acknowledged - self.size,
            latest=nights[parts[state.latest].begin] if state.latest != state.since else None,
            after=self.rate.mean(last.begin),
        )
        return self._as_drift(step, state.reference.begin) or step

    def _state_after(self, parts: list[Segment]) -> _State:
        """After all levels, and what people said in the nights of each."""
        state = _State(parts[0], parts[0].level)
        nights = self.rate.planned
        last_levels = [
            sum(nights[part.begin] <= ack.since_ns or nights[part.detection] <= ack.at_ns for part in parts) - 1
            for ack in self.acknowledgements
        ]
        for at, part in enumerate(parts):
            if at in self.changes:
                state.enter(at, part, parts[at - 1], self.size)
            accepted = [
                ack.accepted for ack, last in zip(self.acknowledgements, last_levels, strict=True) if last == at
            ]
            state = state.after(accepted, part)
            if state.direction == BETTER and len(part) >= ESTABLISHED:
                state = _State(part, part.level)
        return state

    def _as_drift(self, step: Finding, begin: int) -> Finding | None:
        """The same as a line since the reference began, where that tells more of it."""
        rate = self.rate
        later = [
            replace(part, begin=max(part.begin - begin, 0), end=part.end - begin)
            for part in self.levels.segments if part.end > begin
        ]  # fmt: skip
        slow = line(self.values[begin:], rate.planned[begin:] / DAY_NS, later)
        if slow is None or slow.slope * math.log(step.ratio[0]) <= 0 or abs(slow.difference) < self.size:
            return None
        turn = begin + max(slow.index, 1)
        since, last = rate.turn(turn)
        return replace(
            step,
            kind=DRIFT,
            since=since,
            last=last,
            before=rate.mean(begin, turn),
            after=rate.mean(-LAST),
            ratio=_bounded(slow.difference, slow.reach * abs(slow.difference / slow.slope)),
            per_night=_bounded(slow.slope, slow.reach),
        )


def _bounded(difference: float, reach: float) -> tuple[float, float, float]:
    """A difference of logarithms as a ratio, with its interval."""
    return math.exp(difference), math.exp(difference - reach), math.exp(difference + reach)


def _alone(rate: Series, levels: Course, single: Single) -> Finding:
    """The last night, which stands alone."""
    last = levels.segments[-1]
    before = replace(last, end=last.end - 1)
    return _finding(SINGLE, rate, single.difference, single.reach, before, replace(last, begin=last.end - 1))


def _finding(kind: str, rate: Series, difference: float, reach: float, before: Segment, after: Segment) -> Finding:
    """What is said of the rate, whatever has measured it."""
    means = rate.mean(before.begin, before.end), rate.mean(after.begin, after.end)
    direction = WORSE if difference < 0 else BETTER
    return Finding(kind, direction, rate.configuration, *rate.turn(after.begin), *means, _bounded(difference, reach))


def _without_valid(chronicle: Chronicle, configuration: str, expected: bool) -> list[Night]:
    """The nights that planned or expected it and have no VALID trial of it, up to the last; a rerun is of its night."""
    nights: dict[int, Night] = {}
    valid_ns, had_rows = None, False
    for night in chronicle.measured:
        row, value = chronicle.counts(night).get(configuration), chronicle.value(night, configuration)
        had_rows |= row is not None or value is not None
        if row.valid if row else value:
            valid_ns = night.planned_ns
            nights.clear()
        elif (row or (expected and had_rows)) and night.planned_ns != valid_ns:
            nights.setdefault(night.planned_ns, night)
    return list(nights.values())


def _merged(findings: list[Finding], own: Mapping[str, Series], size: float) -> list[Finding]:
    """Without a control: a change of all methods, three at least, at one time in one direction is reported once.

    Its size is that of the method that changed least, so those that changed by more are reported, too.
    """
    moved = [finding for finding in findings if finding.kind in (STEP, SINGLE)]
    if len(moved) < max(len(own), 3) or len({(finding.kind, finding.direction) for finding in moved}) > 1:
        return findings
    begins = [finding.since.planned_ns for finding in moved]
    if max(begins) - min(begins) > SAME_CHANGE * DAY_NS:
        return findings
    change = {id(finding): abs(math.log(finding.ratio[0])) for finding in moved}
    least = min(moved, key=lambda finding: change[id(finding)])
    acknowledged = all(finding.acknowledged for finding in moved)
    shared = replace(least, configuration="", least=least.configuration, acknowledged=acknowledged)
    alike = [finding for finding in moved if change[id(finding)] <= change[id(least)] + size]
    return [shared, *(finding for finding in findings if finding not in alike)]
