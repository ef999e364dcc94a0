"""What has changed in a nightly by its last night: a way by itself, the control, or the environment of all.

A way has changed by itself if its rate and its ratio to the control went the same way, and one of them is a step or a
drift by the rule (size, significance, and two nights or a rerun: see `steps`). If the control has stepped and at least
half of each way's change went with it, it is the environment. A single night that lies far off is suspected: it asks
for a rerun, and is told, but is no alarm. What has no VALID trial for two nights is told as that, since it has no rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from tierbench.postprocess.history.drifts import drift
from tierbench.postprocess.history.queries import Chronicle
from tierbench.postprocess.history.rows import Acknowledgement, Night
from tierbench.postprocess.history.series import Series, by_control, control_of, series, ways
from tierbench.postprocess.history.steps import LEAST_IN_ALL, LEAST_SCATTER, LEVEL, Rule, Step, steps, tame

WORSE, BETTER = "worse", "better"
STEP, DRIFT, FLOOR, SINGLE, LOST = "step", "drift", "floor", "single night", "lost"
SUSPICIOUS = 0.01  # of a single night: a rerun for nothing in a hundred is cheap
ALONG = 0.5  # of a change has to be in the other series too for both to tell of one thing
LEAST_LOST = 2  # nights without a VALID trial: of one alone its own message tells
LAST = 5  # nights of a drift that tell the most of it
SAME_CHANGE = 3  # nights by which what was acknowledged may move as more nights come


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

    @property
    def certain(self) -> bool:
        """Whether it is an alarm, and not a night that stands alone so far."""
        return self.kind != SINGLE

    @property
    def key(self) -> str:
        """By which it is known again."""
        return f"{self.kind} {self.direction} {self.configuration or 'environment'} {self.since.day}"


def findings(chronicle: Chronicle, watch: Watch | None = None) -> list[Finding]:
    """All that is not as it was, the environment first; what all ways share with the control is told once."""
    watch = watch or Watch()
    control = control_of(chronicle)
    own = {name: series(chronicle, name) for name in ways(chronicle)}
    reference = series(chronicle, control) if control else None
    moved = _of_control(reference, own, watch) if reference else None
    found = [moved] if moved else []
    found += _lost(chronicle, control)
    found += _floor(reference, watch) if reference else []
    for one in own.values():
        found += _of_way(one, by_control(one, chronicle), watch)
    if not control and (shared := _shared(found, own)):
        found = [shared, *(one for one in found if one.kind in (FLOOR, LOST))]
    return [replace(one, acknowledged=_is_acknowledged(one, chronicle)) for one in found]


def history_of(chronicle: Chronicle, configuration: str, watch: Watch) -> list[Finding]:
    """All steps of a configuration's rate since its first night, whatever was accepted, and whoever was to blame."""
    one = series(replace(chronicle, acknowledgements=[]), configuration)
    found = steps(one.rates, watch.rule)
    begins = [0, *(step.index for step in found)]
    ends = [*begins[2:], len(one)] if found else []
    return [
        _finding(STEP, one, step.index, end, step.ratio, begin)
        for step, begin, end in zip(found, begins, ends, strict=False)
    ]


def suspected(chronicle: Chronicle, watch: Watch | None = None) -> list[Finding]:
    """What only the last night says so far, which a rerun could confirm."""
    return [one for one in findings(chronicle, watch) if not one.certain]


def _of_control(reference: Series, own: Mapping[str, Series], watch: Watch) -> Finding | None:
    """What has become of the control; where the ways went with it, of the environment."""
    made = _changed(reference, watch)
    if made is None:
        return None
    others = [_moved_since(one, made.since) for one in own.values()]
    along = [moved / math.log(made.ratio[0]) >= ALONG for moved in others if moved is not None]
    return replace(made, configuration="", is_control=False) if along and all(along) else replace(made, is_control=True)


def _moved_since(one: Series, since: Night) -> float | None:
    """By how much a series' level changed at a night, whether that means something or not."""
    after = np.array([night.planned_ns >= since.planned_ns for night in one.nights])
    if after.all() or not after.any():
        return None
    return float(np.median(one.rates[after]) - np.median(one.rates[~after]))


def _lost(chronicle: Chronicle, control: str) -> Iterator[Finding]:
    """What the last night planned, and has had no VALID trial in it or in the one before."""
    nights = chronicle.measured
    latest = next((night for night in reversed(nights) if not night.rerun), None)
    for name in [row.configuration for row in chronicle.verdicts.get(latest.id, [])] if latest else []:
        gone = _without_valid(chronicle, name)
        if len(gone) >= LEAST_LOST:
            last = next((night for night in reversed(nights) if night.planned_ns < gone[0].planned_ns), gone[0])
            ratio = math.nan, math.nan, math.nan
            yield Finding(LOST, LOST, name, gone[0], last, math.nan, math.nan, ratio, is_control=name == control)


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


def _floor(one: Series, watch: Watch) -> Iterator[Finding]:
    """Whether the last two nights are below what somebody has set, which needs no statistics."""
    floor = watch.floors.get(one.configuration)
    if floor and len(one) >= 2 and (one.rates[-2:] < math.log(floor)).all():
        yield _below(one, floor)


def _of_way(rate: Series, ratio: Series | None, watch: Watch) -> Iterator[Finding]:
    yield from _floor(rate, watch)
    by_rate, by_ratio = _changed(rate, watch), _changed(ratio, watch) if ratio else None
    there = [by_rate] if by_rate and (ratio is None or _goes_along(by_rate, rate, ratio)) else []
    if by_ratio and ratio and _goes_along(by_ratio, ratio, rate):
        there.append(replace(by_ratio, by_control=True))
    certain = [found for found in there if found.certain] or there
    yield from sorted(certain, key=lambda found: found.ratio[2] / found.ratio[1])[:1]  # which tells the most


def _goes_along(found: Finding, one: Series, other: Series) -> bool:
    """Whether the rate and the ratio to the control tell of one change, and not of the control's own.

    Where the control was VALID on one side of it alone, there is nobody to ask, and what the one tells counts from its
    second night on: what made the control doubtful in a night may have slowed the way as well.
    """
    begin = one.nights[-min(LAST, len(one))] if found.kind == DRIFT else found.since
    after = np.array([night.planned_ns >= begin.planned_ns for night in other.nights])
    before = np.array([night.planned_ns < found.since.planned_ns for night in other.nights])
    if not before.any() or not after.any():
        return found.since.planned_ns < one.until_ns
    moved = float(np.median(other.values[after]) - np.median(other.values[before]))
    return moved / math.log(found.ratio[0]) >= ALONG


def _changed(one: Series, watch: Watch) -> Finding | None:
    """How a series has changed by its last night: by a drift, or a step, or as far as one night can tell."""
    values = one.values
    if len(values) < LEAST_IN_ALL:
        return None
    found = steps(values, watch.rule)
    slow = drift(values, one.places, found, watch.rule)
    if slow:
        factors = tuple(math.exp(slow.slope + sign * slow.reach) for sign in (0, -1, 1))
        span = slow.difference / slow.slope if slow.slope else 0.0
        reach = slow.reach * span
        ratio = (math.exp(slow.difference), math.exp(slow.difference - reach), math.exp(slow.difference + reach))
        made = _finding(DRIFT, one, slow.index, len(one), ratio)
        return replace(made, per_night=(factors[0], factors[1], factors[2]))
    if found and not _is_back(found, watch.rule):
        last = found[-1]
        return _finding(STEP, one, last.index, len(one), last.ratio, found[-2].index if len(found) > 1 else 0)
    return None if one.ends_early else _single(one, found, watch)


def _is_back(found: Sequence[Step], rule: Rule) -> bool:
    """Whether the last step only undid what came before it."""
    return len(found) > 1 and abs(found[-1].after - found[-2].before) < rule.size_of_logarithm


def _single(one: Series, found: Sequence[Step], watch: Watch) -> Finding | None:
    """The last night alone, against the level that it would have left."""
    values = one.values
    begin = found[-1].index if found else 0
    before, last = tame(values[begin:-1]), float(values[-1])
    if len(before) < LEAST_IN_ALL - 2:
        return None
    scatter, free = max(float(before.std(ddof=1)), LEAST_SCATTER), len(before) - 1
    error = scatter * math.sqrt(1 + 1 / len(before))
    difference = last - float(before.mean())
    if abs(difference) < watch.rule.size_of_logarithm or 2 * stats.t.sf(abs(difference) / error, free) > SUSPICIOUS:
        return None
    reach = float(stats.t.ppf((1 + LEVEL) / 2, free)) * error
    ratio = (math.exp(difference), math.exp(difference - reach), math.exp(difference + reach))
    return _finding(SINGLE, one, len(one) - 1, len(one), ratio, begin)


def _finding(
    kind: str, one: Series, index: int, end: int, ratio: tuple[float, float, float], begin: int = 0
) -> Finding:
    """What is said of the rate, whichever series has told it."""
    index = max(index, 1)
    before, after = one.rates[begin:index], one.rates[index:end] if kind != DRIFT else one.rates[-LAST:]
    return Finding(
        kind,
        WORSE if ratio[0] < 1 else BETTER,
        one.configuration,
        one.nights[index],
        one.nights[index - 1],
        math.exp(float(tame(before).mean())),
        math.exp(float(tame(after).mean())),
        ratio,
    )


def _below(one: Series, floor: float) -> Finding:
    rates = np.exp(one.rates)
    first = len(rates) - int(np.argmax(rates[::-1] >= floor)) if (rates >= floor).any() else 0
    after = float(rates[first:].mean())
    return Finding(
        FLOOR,
        WORSE,
        one.configuration,
        one.nights[first],
        one.nights[max(first - 1, 0)],
        floor,
        after,
        (after / floor, rates[first:].min() / floor, rates[first:].max() / floor),
    )


def _shared(found: Sequence[Finding], own: Mapping[str, Series]) -> Finding | None:
    """Without a control: all ways, three at least, that changed at one time in one direction."""
    moved = [one for one in found if one.kind in (STEP, SINGLE)]
    if len(moved) < max(len(own), 3) or len({(one.direction, one.since.planned_ns) for one in moved}) > 1:
        return None
    return replace(min(moved, key=lambda one: abs(math.log(one.ratio[0]))), configuration="")


def _is_acknowledged(found: Finding, chronicle: Chronicle) -> bool:
    """Somebody said that of this change; by how many nights it began otherwise then makes no other one of it."""
    planned = list(dict.fromkeys(night.planned_ns for night in chronicle.measured))
    at = planned.index(found.since.planned_ns)

    def meant(one: Acknowledgement) -> bool:
        near = sum(1 for time in planned if min(one.since_ns, planned[at]) <= time < max(one.since_ns, planned[at]))
        slow = found.kind in (DRIFT, FLOOR) and one.since_ns <= chronicle.measured[-1].planned_ns
        same = one.since_ns == planned[at] if found.kind == LOST else near <= SAME_CHANGE  # which begins where it does
        return one.configuration in ("", found.configuration) and (same or slow)

    return any(meant(one) for one in chronicle.acknowledgements)
