"""Differences of cumulative counters, without wraps and resets.

A counter that falls has wrapped at 2³², if three things hold; else it began anew (the host or its
interface was restarted), and the interval is not known:
- it never read 2³² or more in this file, as a 64-bit counter sooner or later does;
- the difference over the wrap is what the interface can carry in the interval, and that over two is
  more, where its speed is known; where it is not, the difference is less than half the counter's range;
- no other counter of the same source fell with it.
A reset makes the interval unknown for all counters of its source: those that did not fall have begun
anew as well. CPU times may fall by a tick (proc(5) says so of iowait); that is no reset, and counts as 0.
"""

from dataclasses import dataclass

import numpy as np

from tierbench.postprocess.arrays import Booleans, Integers, Numbers
from tierbench.postprocess.records.samples import Samples, counters, ticks

FEWEST_REFRESHES = 3  # distances between refreshes; of fewer it cannot be said that they are alike
SLOWER = 1.3  # periods: a distance that is shorter is the sampler's own
ALIKE = 0.9  # of the distances, so many are within a period of their mean
AT_REST = 20_000  # bytes a second: on an interface that carries less it is others' frames that come in time
BUSY = 0.1  # of the usual rate: refreshes that carry less are those of a server at rest
ALIVE = 0.5  # of the samples without news, so many have TCP at work, where it is counted


def refresh_distance_s(
    times: Numbers, period_s: float, news: Booleans, byte_rises: Numbers, segments: Integers | None
) -> float | None:
    """How far apart a driver's refreshes are, if that is more than the samples are; from the samples with news.

    Such a driver shows as counters that stand still and jump, again and again at one distance, while data flow. What is
    really quiet for a moment looks otherwise: its pauses differ, and TCP, which the kernel counts, rests in them too.
    """
    at = np.flatnonzero(news)
    distances, carried = np.diff(times[at]), byte_rises[at[1:]]
    if len(at) <= FEWEST_REFRESHES or not carried.sum() > AT_REST * (times[at[-1]] - times[at[0]]):
        return None
    rates = carried / distances
    busy = rates > BUSY * (rates * carried).sum() / carried.sum()
    between = distances[busy][1:]  # the first may have begun in a pause
    if len(between) < FEWEST_REFRESHES:
        return None
    alike = np.abs(between - np.median(between)) <= 1.01 * period_s
    if alike.mean() < ALIKE:
        return None
    distance = float(between[alike].mean())
    if distance < SLOWER * period_s:
        return None
    if segments is not None:  # TCP is counted: did it rest in most of the samples without news?
        flowing = slice(at[:-1][busy][0], at[1:][busy][-1] + 1)
        sent, still = np.diff(segments[flowing]) > 0, ~news[flowing][1:]
        if sent.any() and still.any() and sent[still].mean() < ALIVE:
            return None
    return distance


RANGE = 2**32
SLACK = 1.25  # the speed is the wire's, and an interval's edges are not exact
INTERFACE = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
CPU = ("cpu_user", "cpu_nice", "cpu_system", "cpu_idle", "cpu_iowait", "cpu_irq", "cpu_softirq", "cpu_steal")
SMALLEST_FRAME = 60


@dataclass(frozen=True, eq=False)  # arrays are not equal as a whole
class Intervals:
    """What happened between each sample and the one before it; NaN where that is not known, as for the first."""

    seconds: Numbers
    differences: dict[str, Numbers]
    gap: Booleans
    wrap: Booleans
    reset: Booleans
    anew: dict[str, int]  # how often the counters of a source began anew, where they did
    fresh: dict[str, Booleans]  # by direction, whether the interface's driver had something new to say
    resolution: dict[str, float]  # and how finely that is known: the period, or a driver's longer one
    period_s: float

    def resolution_s(self, counter: str) -> float:
        """How finely a counter is known."""
        return self.resolution.get(counter[:2], self.period_s)


def intervals(samples: Samples) -> Intervals:
    """The differences of all the counters of a host, and of one of its interfaces."""
    count = len(samples)
    seconds = np.append(np.nan, np.diff(samples.columns["mono_ns"]) / 1e9)[:count]
    differences: dict[str, Numbers] = {}
    wraps, resets = np.zeros(count, bool), np.zeros(count, bool)
    in_ticks = ticks(samples.header)
    anew: dict[str, int] = {}
    for source, names in counters(samples.header).items():
        present = [name for name in names if name in samples.columns]
        wrap, reset = _source(samples, [name for name in present if name not in in_ticks], seconds, differences)
        wraps |= wrap
        resets |= reset
        if reset.any():
            anew[source] = int(reset.sum())
        for name in in_ticks.intersection(present):
            differences[name] = np.maximum(_difference(samples.columns[name]), 0)
    gap = seconds > 1.5 * samples.period_s
    fresh, resolution = {}, {}
    for direction in ("rx", "tx"):
        fresh[direction], resolution[direction] = _freshness(samples, differences, direction)
    return Intervals(seconds, differences, gap, wraps, resets, anew, fresh, resolution, samples.period_s)


def _freshness(samples: Samples, differences: dict[str, Numbers], direction: str) -> tuple[Booleans, float]:
    """Which samples have news of what the interface moves this way, and how far apart these are.

    Where nobody knows whether TCP rests in a pause of one way, news of the other way tell that the driver does not.
    """
    segments = samples.columns.get("tcp_out_segs" if direction == "tx" else "tcp_in_segs")
    directions = (direction,) if segments is not None and len(segments) and np.ptp(segments) else ("rx", "tx")
    counters = [samples.columns[name] for name in INTERFACE if name[:2] in directions and name in samples.columns]
    every = np.ones(len(samples), bool)
    news = every.copy()
    if len(samples):
        news[1:] = np.any([np.diff(counter) != 0 for counter in counters], axis=0)
    if news.all():
        return every, samples.period_s
    times = (samples.columns["mono_ns"] - samples.columns["mono_ns"][0]) / 1e9
    rises = np.nan_to_num(differences.get(f"{direction}_bytes", np.zeros(len(samples))))
    distance = refresh_distance_s(times, samples.period_s, news, rises, segments)
    if distance is None:
        return every, samples.period_s
    latest = np.maximum.accumulate(np.where(news, np.arange(len(times)), 0))
    waited: Booleans = times - times[latest] > SLOWER * distance  # a pause too long for a refresh to be awaited
    return news | waited, distance


def _source(
    samples: Samples, names: list[str], seconds: Numbers, differences: dict[str, Numbers]
) -> tuple[Booleans, Booleans]:
    """Add the differences of counters that can only begin anew together; say where they wrapped and did so."""
    raw = {name: _difference(samples.columns[name]) for name in names}
    fallen = {name: difference < 0 for name, difference in raw.items()}
    together = sum((f.astype(int) for f in fallen.values()), np.zeros(len(samples), int))
    wraps, resets = np.zeros(len(samples), bool), together > 1
    for name, fell in fallen.items():
        if fell.any():
            limit = _limit(samples, name, seconds)
            once = (raw[name] + RANGE < limit) & (raw[name] + 2 * RANGE >= limit)
            wrap = fell & (together == 1) & once & (samples.columns[name].max() < RANGE)
            raw[name][wrap] += RANGE
            wraps |= wrap
            resets |= fell & ~wrap
    for name, difference in raw.items():
        difference[resets] = np.nan
        differences[name] = difference
    return wraps, resets


def _limit(samples: Samples, name: str, seconds: Numbers) -> Numbers:
    """The most by which a counter can rise in each interval."""
    half = np.full(len(samples), RANGE / 2)
    speed = samples.card and samples.card.link_speed_mbps
    if not speed or speed < 0 or name not in INTERFACE:
        return half
    carried: Numbers = SLACK * speed * 1e6 / 8 * seconds
    return carried if name.endswith("_bytes") else carried / SMALLEST_FRAME


def _difference(counter: Integers) -> Numbers:
    """Each value less the one before it; NaN where the kernel had no such counter."""
    difference = np.append(np.nan, np.diff(counter))[: len(counter)]
    difference[1:][(counter[1:] < 0) | (counter[:-1] < 0)] = np.nan
    return difference
