"""How often 95 % intervals of ratios hold the truth, how wide they are, and how often equal points are called unequal.

usage: python benchmarks/interval_coverage.py [--runs 400]

Each line of the first table is for one kind of scatter: for so many repetitions of eight points the share of intervals
that hold the true ratio, and their median width over that of Student's t from pairs. The second is of two workloads
with a scatter of their own, four points each: that share for each, and the width over that of one model for both. The
third is of access methods with scatters of their own, three points each. The next has the share of runs in which
nothing differs and something is said to: by the answer, and by `compare`; after it that of the answer about lines whose
scatters differ. The last is of runs that end when they are answered: one of so many lines is better by a true ratio,
and 5 % are no difference.
"""

import functools
import itertools

import numpy as np
from frame import options

from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, SLOWER
from tierbench.postprocess.compare.sequential import Question, look_at
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.stats import ApartBlocks, blocks, changes, simultaneous, student, tukey
from tierbench.postprocess.verdict.counting import looks

KINDS = (
    "equal", "variances 1 and 16", "heavy tails (t3)", "hours twice the scatter", "one point 80 times the others",
    "variances 1 and 400",
)  # fmt: skip


def draw(chance, kind, points, repeats):
    scatter = np.full(points, 0.05)
    if kind == KINDS[1]:
        scatter[::2] /= 4
    if kind == KINDS[4]:
        scatter[1:] /= 80
    if kind == KINDS[5]:
        scatter[::2] /= 20
    noise = chance.standard_t(3, (points, repeats)) if kind == KINDS[2] else chance.normal(0, 1, (points, repeats))
    hours = chance.normal(0, 0.1, repeats) if kind == KINDS[3] else np.zeros(repeats)
    rates = np.exp(scatter[:, None] * noise + hours)
    return {(point, repeat): float(rates[point, repeat]) for point in range(points) for repeat in range(repeats)}


def coverage(chance, kind, repeats, runs, points=8):
    hits, our_widths, paired_widths = [], [], []
    for _ in range(runs):
        values = draw(chance, kind, points, repeats)
        model = ApartBlocks(values, lambda _: None)
        for first, second in itertools.combinations(range(points), 2):
            ratio = model.ratio(first, second).ratio
            hits.append(ratio.low <= 1 <= ratio.high)
            our_widths.append(np.log(ratio.high / ratio.low))
            logs = [np.log(values[first, repeat] / values[second, repeat]) for repeat in range(repeats)]
            paired_widths.append(2 * student(repeats - 1) * np.std(logs, ddof=1) / repeats**0.5)
    return f"{np.mean(hits):.3f} ({np.median(our_widths) / np.median(paired_widths):.2f})"


def workloads(chance, scatters, repeats, runs, points=4):
    hits, widths = np.zeros(2), [([], []), ([], [])]
    pairs = list(itertools.combinations(range(points), 2))
    for _ in range(runs):
        rates = np.exp(chance.normal(0, np.array(scatters)[:, None, None], (2, points, repeats)))
        values = {((at[0], at[1]), at[2]): float(rate) for at, rate in np.ndenumerate(rates)}
        models = ApartBlocks(values, lambda point: point[0]), blocks(values)[0]
        for workload, (first, second) in itertools.product((0, 1), pairs):
            ratios = [model.ratio((workload, first), (workload, second)).ratio for model in models]
            hits[workload] += ratios[0].low <= 1 <= ratios[0].high
            for of, ratio in zip(widths[workload], ratios, strict=True):
                of.append(np.log(ratio.high / ratio.low))
    shares = hits / (runs * len(pairs))
    of_both = (np.median(ours) / np.median(joint) for ours, joint in widths)
    return "; ".join(f"{share:.3f} ({width:.2f})" for share, width in zip(shares, of_both, strict=True))


def within(chance, scatters, repeats, runs, points=3):
    """Of access methods that scatter so: coverage within one and across, and the width over that without `within`."""
    hits, widths = {True: [], False: []}, {True: [], False: []}
    places = list(itertools.product(range(len(scatters)), range(points)))
    for _ in range(runs):
        values = {
            (at, repeat): float(np.exp(chance.normal(0, scatters[at[0]]))) for at in places for repeat in range(repeats)
        }
        models = ApartBlocks(values, lambda _: None, lambda point: point[0]), ApartBlocks(values, lambda _: None)
        for first, second in itertools.combinations(places, 2):
            ratio, joint = (model.ratio(first, second).ratio for model in models)
            hits[first[0] == second[0]].append(ratio.low <= 1 <= ratio.high)
            widths[first[0] == second[0]].append(np.log(ratio.high / ratio.low) / np.log(joint.high / joint.low))
    return "; ".join(f"{np.mean(hits[same]):.3f} ({np.median(widths[same]):.2f})" for same in (True, False))


def false_answer(chance, kind, points, panels, repeats, runs):
    wrong = 0
    for _ in range(runs):
        values = draw(chance, kind, points * panels, repeats)
        model, _ = blocks(values)
        is_wrong = False
        for panel in range(panels):
            level = {point: model.means[model.points[point]] for point in range(panel * points, (panel + 1) * points)}
            for other in level:
                comparison = model.ratio(best := max(level, key=level.get), other)
                is_wrong |= other != best and comparison.at(functools.partial(tukey, points, together=panels)).low > 1
        wrong += is_wrong
    return f"{100 * wrong / runs:.1f} %"


def false_look(chance, scatters, repeats, runs):
    wrong = 0
    for _ in range(runs):
        rates = 400 * np.exp(chance.normal(0, np.array(scatters)[:, None], (len(scatters), repeats)))
        rows = [trial(f"way{line}", repeat, float(rate)) for (line, repeat), rate in np.ndenumerate(rates)]
        comparisons = look_at(rows, Question("access", "jobs")).comparisons
        wrong += any(each.result in (FASTER, SLOWER) for each in comparisons)
    return f"{100 * wrong / runs:.1f} %"


def false_change(chance, kind, points, repeats, runs):
    wrong = 0
    for _ in range(runs):
        made = changes(*(draw(chance, kind, points, repeats) for _ in range(2)))
        wrong += any(not ratio.low <= 1 <= ratio.high for ratio in simultaneous(made).values())
    return f"{100 * wrong / runs:.1f} %"


def until_answered(chance, lines, ratio, scatter, at_most, runs):
    """The share of wrong answers, of open comparisons, and how many repetitions it took."""
    question = Question("access", "jobs", looks=looks(3, at_most))
    wrong, still_open, repeats = 0, [], []
    for _ in range(runs):
        rates = 400 * np.exp(chance.normal(0, scatter, (lines, at_most)) + chance.normal(0, 0.05, at_most))
        rates[0] *= ratio
        places = itertools.product(range(at_most), range(lines))
        rows = [trial(f"way{line}", repeat, float(rates[line, repeat])) for repeat, line in places]
        for number in question.looks:
            look = look_at([row for row in rows if row.repeat < number], question)
            if look.is_enough:
                break
        right = {FASTER} if ratio > 1 else {EQUIVALENT}
        judged = [({EQUIVALENT} if ("access", "way0") not in each.first else right, each) for each in look.comparisons]
        wrong += any(not each.is_open and each.result not in allowed for allowed, each in judged)
        still_open.append(len(look.open) / len(look.comparisons))
        repeats.append(number)
    return f"{100 * wrong / runs:.1f} % | {100 * np.mean(still_open):.0f} % | {np.mean(repeats):.1f}"


def trial(access, repeat, mbps):
    levels = {"access": access, "workload": "root", "jobs": 8}
    name, place = f"{access} #{repeat}", {"repeat": repeat, "position": repeat}
    return TrialRow(trial=name, levels=levels, **place, state="complete", delivered_mbps=mbps)


def main():
    runs = options(__doc__, runs=400).runs
    chance = np.random.default_rng(1)
    print("| scatter | n = 2 | 3 | 5 | 10 |\n|---|---|---|---|---|")
    for kind in KINDS:
        print(f"| {kind} |", " | ".join(coverage(chance, kind, n, runs) for n in (2, 3, 5, 10)), "|", flush=True)
    print("\n| scatter of two workloads | n = 2 | 3 | 5 |\n|---|---|---|---|")
    for scatters in ((0.05, 0.05), (0.02, 0.05), (0.02, 0.08), (0.01, 0.2)):
        cells = (workloads(chance, scatters, n, runs) for n in (2, 3, 5))
        print(f"| {' and '.join(f'{each:.0%}' for each in scatters)} |", " | ".join(cells), "|", flush=True)
    print("\n| scatter of access methods: within one; across | n = 3 | 5 |\n|---|---|---|")
    for scatters in ((0.05,) * 4, (0.02, 0.05, 0.05, 0.05), (0.01, 0.01, 0.2, 0.2)):
        cells = (within(chance, scatters, n, runs) for n in (3, 5))
        print(f"| {', '.join(f'{each:.0%}' for each in scatters)} |", " | ".join(cells), "|", flush=True)
    print("\n| equal points | panels | scatter | answer | compare |\n|---|---|---|---|---|")
    equal = ((points, 1, KINDS[0]) for points in (2, 4, 12, 24))
    for points, panels, kind in (*equal, (4, 4, KINDS[0]), (4, 1, KINDS[1]), (4, 1, KINDS[3])):
        answer = false_answer(chance, kind, points, panels, 3, runs)
        change = false_change(chance, kind, points, 3, runs)
        print(f"| {points} | {panels} | {kind} | {answer} | {change} |", flush=True)
    print("\n| scatter of equal lines | n = 3 | 4 | 5 |\n|---|---|---|---|")
    unlike = (0.01, 0.01, 0.05), (0.01, 0.01, 0.1), (0.01, 0.01, 0.16, 0.16), (0.005,) * 5 + (0.1,)
    for scatters in ((0.01,) * 3, *unlike, (0.01,) * 7 + (0.16,)):
        cells = (false_look(chance, scatters, n, runs) for n in (3, 4, 5))
        print(f"| {', '.join(f'{each:.1%}' for each in scatters)} |", " | ".join(cells), "|", flush=True)
    print("\n| lines | true ratio | scatter | wrong | open | repetitions |\n|---|---|---|---|---|---|")
    for lines, ratio, scatter in itertools.product((2, 4, 8), (1.0, 1.05, 1.2), (0.02, 0.05)):
        cells = until_answered(chance, lines, ratio, scatter, 10, runs)
        print(f"| {lines} | {ratio:g} | {scatter:.0%} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
