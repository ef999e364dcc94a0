"""How often 95 % intervals hold the truth: those of tierbench, and the plain bootstraps that it does not use.

usage: python benchmarks/interval_coverage.py [--trials 1500]

Each line is for so many repetitions, drawn from one kind of distribution: the share of intervals that
cover the true mean, and in brackets their median width over the mean in per cent. The figures are in
docs/statistics.md. Takes a minute.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy import stats

from tierbench.postprocess.measures.uncertainty import mean_interval

COUNTS = (2, 3, 4, 5, 6, 8, 10, 15, 20)
RESAMPLES = 999


def draw(kind, rng, size):
    """Values, and the mean of what they were drawn from."""
    if kind == "normal":
        return rng.normal(100, 5, size), 100.0
    if kind == "below a ceiling":
        return 100 - rng.exponential(5, size), 95.0
    if kind == "two states":
        return rng.normal(100, 1, size) - 10 * (rng.random(size) < 0.5), 95.0
    return rng.normal(100, 2, size) - 30 * (rng.random(size) < 0.1), 97.0


def coverage(low, high, truth):
    return f"{np.mean((low <= truth) & (truth <= high)):6.3f} ({100 * np.median((high - low) / truth):5.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1500)
    trials = parser.parse_args().trials
    warnings.simplefilter("ignore")  # BCa warns of each degenerate set of resamples
    rng = np.random.default_rng(1)
    print(f"{'':25} {'tierbench':>15} {'percentile':>15} {'BCa':>15}")
    for kind in ("normal", "below a ceiling", "two states", "one in ten slow"):
        for count in COUNTS:
            values, truth = draw(kind, rng, (trials, count))
            found = [mean_interval(row.tolist()) for row in values]
            cells = [coverage(np.array([f.low for f in found]), np.array([f.high for f in found]), truth)]
            for method in ("percentile", "BCa"):
                plain = stats.bootstrap(
                    (values,), np.mean, axis=1, n_resamples=RESAMPLES, method=method, batch=50, random_state=rng
                ).confidence_interval
                cells.append(coverage(plain.low, plain.high, truth))
            print(f"{kind:20} {count:4} {' '.join(f'{cell:>15}' for cell in cells)}", flush=True)


if __name__ == "__main__":
    main()
