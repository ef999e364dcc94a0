"""How often the intervals of a ladder's saturation hold the truth, and how often it cannot be told.

usage: python benchmarks/saturation_coverage.py [--runs 400]

A run is a ladder of batches, repeated: its rates are those of a known curve, with a scatter that a whole repetition
has in common and one of each trial. The curves are a sharp bend; a closed queue, whose clients wait for one server and
do something else in between (the exact solution, by mean value analysis); a hyperbola, the softest there is; a way that
the ladder does not fill; one that is full from the beginning; and one that falls again. The true saturation point is
where the line through nothing meets the plateau.

exit status: 0 each interval that was given holds the truth in 90 % of the runs or more; 1 one does not
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from frame import options

from tierbench.postprocess.measures.saturation import FLAT, FULL, OPEN, RISING, Rung, next_rung, saturation

LEAST = 0.9
PLATEAU, EACH = 800.0, 50.0  # so the saturation is at 16 clients

Curve = Callable[[int], float]


def sharp(clients):
    return min(EACH * clients, PLATEAU)


def hyperbola(clients):
    return EACH * clients / (1 + clients * EACH / PLATEAU)


def queue(clients):
    """One server that does 800 a second, for clients that alone come to 50: exact mean value analysis."""
    service = 1 / PLATEAU
    thinking, waiting, rate = 1 / EACH - service, 0.0, 0.0
    for number in range(1, clients + 1):
        response = service * (1 + waiting)
        rate = number / (thinking + response)
        waiting = rate * response
    return rate


def falling(clients):
    return sharp(clients) * (1 if clients <= 16 else (16 / clients) ** 0.4)


@dataclass(frozen=True)
class Case:
    name: str
    curve: Curve
    ladder: Sequence[int]
    full: bool  # whether the saturation is inside the ladder


CASES = (
    Case("sharp", sharp, (4, 8, 16, 32, 64), True),
    Case("sharp, three batches", sharp, (8, 16, 64), True),
    Case("queue", queue, (4, 8, 16, 32, 64), True),
    Case("hyperbola", hyperbola, (4, 8, 16, 32, 64, 128), True),
    Case("not filled", sharp, (2, 4, 8, 12), False),
    Case("full at once", sharp, (32, 64, 128, 192), False),
    Case("falls again", falling, (4, 8, 16, 32, 64), False),
)


def main():
    runs = options(__doc__, runs=400).runs
    print("curve | n | scatter | full | at once | not full | cannot | saturation | width | plateau | each | next")
    worst = 1.0
    for case in CASES:
        for repeats, scatter in ((3, 0.02), (5, 0.02), (3, 0.05)):
            shares = coverage(case, repeats, scatter, runs)
            worst = min([worst, *shares])
    if worst < LEAST:
        sys.exit(f"an interval holds the truth in {worst:.2f} of the runs only")


def coverage(case, repeats, scatter, runs):
    """Print how the runs of a case came out; return how often each interval held the truth."""
    random = np.random.default_rng(7)
    states = Counter()
    hits = {"saturation": [], "plateau": [], "each": [], "next": []}
    widths = []
    for _ in range(runs):
        answer = saturation(_ladder(case, repeats, scatter, random))
        states[answer.state] += 1
        if answer.method and case.name != "falls again":
            hits["saturation"].append(_holds(answer.full_with, PLATEAU / EACH))
            hits["plateau"].append(_holds(answer.plateau, PLATEAU))
            hits["each"].append(_holds(answer.each, EACH))
        if answer.state == FULL and answer.full_with.low and answer.full_with.high:
            widths.append(answer.full_with.high / answer.full_with.low)
        if answer.method:
            later = next_rung(case.ladder)
            fresh = _ladder(Case("", case.curve, (later,), False), repeats, scatter, random)
            hits["next"].append(_holds(answer.predicted, float(np.mean([rung.rate for rung in fresh]))))
    hit_rates = {name: f"{np.mean(of):.3f}" if len(of) > runs / 20 else "" for name, of in hits.items()}
    state_shares = [f"{states[state] / runs:.2f}" for state in (FULL, FLAT, RISING, OPEN)]
    width = f"{np.median(widths):.2f}" if len(widths) > runs / 20 else ""
    cells = [case.name, str(repeats), f"{scatter:.0%}", *state_shares, hit_rates["saturation"], width]
    print(" | ".join([*cells, hit_rates["plateau"], hit_rates["each"], hit_rates["next"]]), flush=True)
    return [float(np.mean(of)) for of in hits.values() if len(of) > runs / 20 and case.name != "falls again"]


def _ladder(case, repeats, scatter, random):
    common = random.normal(0, scatter, repeats)
    return [
        Rung(repeat, clients, case.curve(clients) * float(np.exp(common[repeat] + random.normal(0, scatter))))
        for repeat in range(repeats)
        for clients in case.ladder
    ]


def _holds(interval, truth):
    return interval is not None and (interval.low or 0.0) <= truth <= (interval.high or float("inf"))


if __name__ == "__main__":
    main()
