"""How far the mean rate of a window lies from the truth, for traffic that begins and stops at the window's edges.

usage: python benchmarks/edge_bias.py [--trials 400]

Each line is for so many samples a window: the mean's deviation from the truth and its standard deviation, in per cent,
by interpolation between samples and as tierbench tells it. The sampler's phase is random, everything else is known
exactly. The figures are in docs/statistics.md. Takes some seconds.
"""

import numpy as np
from frame import options

from tierbench.postprocess.measures.traffic import Counted
from tierbench.postprocess.records.increments import intervals
from tierbench.postprocess.records.samples import Header, SampledColumn, Samples
from tierbench.postprocess.records.trial import Sampled

WINDOW_S, MARGIN_S, MBPS = 20.0, 4.0, 800.0
COUNTS = (10, 20, 50, 200)


def sharp(time):
    """One rate from edge to edge: bytes sent by a time since the window began, as of all shapes."""
    return MBPS / 8 * 1e6 * np.clip(time, 0, WINDOW_S)


def soft(time):
    """A fifth of the window up, and a fifth down."""
    ramp = WINDOW_S / 5
    up, down = np.clip(time, 0, ramp), np.clip(time - WINDOW_S + ramp, 0, ramp)
    level = np.clip(time - ramp, 0, WINDOW_S - 2 * ramp)
    return MBPS / 8 * 1e6 * (up**2 / 2 / ramp + level + down - down**2 / 2 / ramp)


def bursts(time):
    """Full rate in three quarters of each 0.4 s, nothing in between."""
    inside = np.clip(time, 0, WINDOW_S)
    return MBPS / 8 * 1e6 * (np.floor(inside / 0.4) * 0.3 + np.minimum(inside % 0.4, 0.3))


def background(time):
    """The sharp one, and 5 % of its rate before, in and after it."""
    return sharp(time) + 0.05 * MBPS / 8 * 1e6 * (time + MARGIN_S)


def late(time):
    """The sharp one, and a quarter of its rate for 0.6 s after it."""
    return sharp(time) + MBPS / 4 / 8 * 1e6 * np.clip(time - WINDOW_S, 0, 0.6)


def sampled(total, period_s, phase):
    """What a sampler that is never late sees of it."""
    times = np.arange(-MARGIN_S + phase * period_s, WINDOW_S + MARGIN_S, period_s)
    mono_ns = np.round((times + MARGIN_S) * 1e9).astype(np.int64)
    columns = {"mono_ns": mono_ns, "tx_bytes": total(times).astype(np.int64)}
    header = Header("h", "storage", "eth0", period_s, 0, 0, [SampledColumn(name, 19) for name in columns], 0)
    samples = Samples(header, columns, None, None)
    return Sampled(samples, intervals(samples))


def deviations(total, count, trials, seed=1):
    """Of so many trials: by how many per cent interpolation and tierbench are off."""
    phases = np.random.default_rng(seed).random(trials)
    window = (round(MARGIN_S * 1e9), round((MARGIN_S + WINDOW_S) * 1e9))
    edges = total(np.array([0.0, WINDOW_S]))
    truth = (edges[1] - edges[0]) * 8 / 1e6 / WINDOW_S
    servers = [[sampled(total, WINDOW_S / count, phase)] for phase in phases]
    means = np.array([[Counted(server, "tx_bytes", known).traffic(*window).mean_mbps for known in (None, window)]
                      for server in servers])  # fmt: skip
    off = 100 * (means / truth - 1)
    return off[:, 0], off[:, 1]


def main():
    trials = options(__doc__, trials=400).trials
    print(f"{'':12} {'samples':>8} {'interpolated':>16} {'tierbench':>16}")
    for shape in (sharp, soft, bursts, background, late):
        for count in COUNTS:
            cells = [f"{off.mean():+.2f} ± {off.std():.2f}" for off in deviations(shape, count, trials)]
            print(f"{shape.__name__:12} {count:8} {cells[0]:>16} {cells[1]:>16}")


if __name__ == "__main__":
    main()
