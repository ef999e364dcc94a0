"""Ninety nights by the whole way of the data, again and again: what is found, what is missed, what cries for nothing.

usage: python benchmarks/nights.py [--seeds 20] [--nights 90] [--busy]

In what is told first, each night is a run directory with sample files and job records, made into tables and verdicts,
taken into a history and asked for what has changed, as `tierbench nightly` does. The rates after that, over many times
90 nights, are of rows with the same noise: run directories of all of them would take hours. What a trial scatters is
drawn from real trials of the testbed: of a quiet machine (3 %), or with --busy of one whose two cores other work shared
(13 %). That all trials of a night share another 5 % is assumed. The figures are in docs/nightly.md. Takes some minutes.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.unit import synthetic_run as synthetic
from tierbench import json_files, names
from tierbench.postprocess.history.alarms import findings
from tierbench.postprocess.history.database import Chronicle, History, chronicle
from tierbench.postprocess.history.rows import MEASURED, MISSED, Night, NightMark, Value
from tierbench.postprocess.history.runs import add_run
from tierbench.postprocess.history.sentences import sentence, unmeasured
from tierbench.postprocess.schema.rows import RATE

# Logarithms of single VALID trials' rates over the mean of those like them, each run's own means taken out.
QUIET = (-0.086, 0.037, 0.049, 0.002, 0.005, -0.007, -0.014, 0.008, 0.006, 0.008, -0.008)
BUSY = (
    -0.115, 0.115, 0.05, 0.021, -0.071, 0.299, -0.033, -0.266, 0.184, 0.14, -0.324,
    -0.003, 0.05, -0.047, 0.074, -0.074, -0.032, 0.032, -0.12, 0.12,
    0.103, -0.103, -0.208, 0.208, -0.111, 0.111, -0.021, 0.021, 0.149, -0.149, -0.029, 0.029,
    -0.072, 0.072, 0.081, -0.081, -0.047, 0.047, 0.212, -0.212, -0.189, 0.189, 0.036, -0.036,
)  # fmt: skip
OF_A_NIGHT = 0.05  # by how much all trials of a night differ from those of another, assumed

CONTROL, WATCHED = "direct", ("lan-xrootd", "wan-xrootd-public", "wan-xrootd-private")
RATES = dict(zip((CONTROL, *WATCHED), (172.0, 168.0, 180.0, 158.0), strict=True))
JOBS, REPEATS = 4, 3
BATCH = f"root \N{MULTIPLICATION SIGN}{JOBS}"
LAN = f"lan-xrootd/{BATCH}"
DAY_NS = 86_400 * 10**9
FIRST_NS = 20_600 * DAY_NS + 9_000 * 10**9
FALL = 40
KINDS = ("ar0.0", "ar0.3", "ar0.5", "ar0.7", "weekday", "outliers", "variance", "bimodal", "seasonal")
SHARES = (0.03, 0.05, 0.10, 0.20)


def write_night(run, number, factor, noise, chance, newer):
    """A night's run directory, as the real one would be, but for who moved the bytes; `newer`, xrootd's first night."""
    run.mkdir(parents=True)
    shared, index = chance.normal(0, OF_A_NIGHT), 0
    for repeat in range(1, REPEATS + 1):
        for access, rate in RATES.items():
            mbps = rate * factor(access, number) * float(np.exp(shared + chance.choice(noise)))
            synthetic.write_trial(run, mbps=mbps, jobs=JOBS, repeat=repeat, index=index, access=access)
            index += 1
    version = "5.8.1" if number < newer else "5.8.4"
    for path in run.glob(f"{names.TRIALS}/*/{names.SAMPLES}/*.samples"):
        head, rest = path.read_bytes().split(b"\n", 1)
        header = {**json.loads(head), "packages": {"xrootd-server": version}}
        path.write_bytes(json.dumps(header).encode() + b"\n" + rest)
    plan = {"format": 1, "synthetic": True, "site": "synthetic", "experiment": "nights", "question": "", "seed": 1}
    plan |= {"pools": {"private": ["wn01.private.fiu.test"]}, "factors": [
        {"name": "access", "levels": list(RATES)}, {"name": "workload", "levels": ["root"]},
        {"name": "jobs", "levels": [JOBS]},
    ]}  # fmt: skip
    for name, content in ((names.PLAN, plan), (names.SITE, {"name": "synthetic"}), (names.EXPERIMENT, {})):
        (run / name).write_text(json.dumps(content), encoding="utf-8")
    json_files.write(run / names.NIGHT, NightMark("nights", FIRST_NS + number * DAY_NS, control=f"{CONTROL}/{BATCH}"))


def measured(nights, factor, noise, seed, missed=(), newer=FALL):
    """That many nights, through run directories, tables, verdicts and the database."""
    chance = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, History(Path(folder) / "history.sqlite") as history:
        for number in range(nights):
            if number in missed:
                history.record(Night("nights", FIRST_NS + number * DAY_NS, MISSED, reason="the machine was off"))
                continue
            run = Path(folder) / f"night-{number:03d}"
            write_night(run, number, factor, noise, chance, newer)
            add_run(history, run, lambda _: None)
        return chronicle(history, "nights")


def drawn(nights, noise, seed):
    """Clean nights as rows, as `measured` has them after the whole way; night FALL has a rerun, last of all rows."""
    chance = np.random.default_rng(seed)
    rows, values = [], {}
    for number in (*range(nights), FALL):
        name, rerun = len(rows) + 1, len(rows) == nights
        rows.append(
            Night("nights", FIRST_NS + number * DAY_NS, MEASURED, run=str(name), id=name, rerun=rerun,
                  control=f"{CONTROL}/{BATCH}", metric=RATE, unit="Mb/s")
        )  # fmt: skip
        shared = chance.normal(0, OF_A_NIGHT)
        values[name] = [
            Value(f"{access}/{BATCH}", RATE, rate * float(np.exp(shared + chance.choice(noise, REPEATS)).mean()),
                  None, None, REPEATS)
            for access, rate in RATES.items()
        ]  # fmt: skip
    return Chronicle("nights", rows, values, {}, {}, {}, [])


def until(history, count):
    """What was known after so many nights, had there been no rerun."""
    return replace(history, nights=[night for night in history.nights if _number(night) < count and not night.rerun])


def rerun(history):
    """What was known after night FALL and its rerun, if that night asked for one."""
    before = until(history, FALL + 1)
    wants_rerun = any(found.configuration == LAN and not found.certain for found in findings(before))
    return replace(before, nights=[*before.nights, history.nights[-1]]) if wants_rerun else before


def slower(history, way, share, since):
    """The same nights, had a way been slower."""
    late = {night.id for night in history.nights if _number(night) >= since}
    values = {
        number: [
            replace(value, mean=value.mean * (1 - share)) if number in late and value.configuration == way else value
            for value in rows
        ]
        for number, rows in history.values.items()
    }
    return replace(history, values=values)


def _number(night):
    return (night.planned_ns - FIRST_NS) // DAY_NS


def alarms(history):
    return [found for found in findings(history) if found.certain]


def tell(title, history):
    """Each sentence in the night in which it was first said, and how it stood in the end."""
    print(f"\n{title}")
    first_said = set()
    for count in range(1, len(history.nights) + 1):
        now = until(history, count)
        for words in unmeasured(now):
            print(f"  night {count - 1}: {words}")
        for found in findings(now):
            key = f"{found.kind} {found.direction} {found.configuration} {found.since.day if not found.certain else ''}"
            if key not in first_said:
                print(f"  night {count - 1}: {sentence(found, now)}")
                first_said.add(key)
    for found in alarms(history):
        print(f"  in the end: {sentence(found, history)}")


def scenarios(nights, noise):
    def only(way, change):
        return lambda access, night: change(night) if way in (access, "") else 1.0

    cases = {
        f"10 % less on one way from night {FALL} on, xrootd newer that night": (
            only("lan-xrootd", lambda night: 0.9 if night >= FALL else 1.0), ()),
        "night 60 slower by 30 % for all": (only("", lambda night: 0.7 if night == 60 else 1.0), ()),
        "one way at half its rate in night 60 alone": (
            only("wan-xrootd-public", lambda night: 0.5 if night == 60 else 1.0), ()),
        "0.3 % less a night on one way from night 30 on": (
            only("wan-xrootd-private", lambda night: 0.997 ** max(night - 30, 0)), ()),
        "no nights 50 to 52": (only("", lambda _: 1.0), (50, 51, 52)),
    }  # fmt: skip
    for title, (factor, missed) in cases.items():
        tell(title, measured(nights, factor, noise, 1, missed))


def rates(nights, seeds, noise):
    """False alarms of clean nights, and how soon a fall of each size is named."""
    clean = [drawn(nights, noise, 100 + seed) for seed in range(seeds)]
    cried = [[count for count in range(1, nights + 1) if alarms(until(history, count))] for history in clean]
    for seed, counts in enumerate(cried):
        if counts:
            print(f"  seed {seed}: {sentence(alarms(until(clean[seed], counts[0]))[0], until(clean[seed], counts[0]))}")
    wrong = sum(bool(counts) for counts in cried)
    print(f"\nclean: an alarm in {wrong} of {seeds} times {nights} nights of {len(WATCHED)} ways")
    print(f"{'fall':>6} {'1 and rerun':>12} {'2 nights':>9} {'3':>6} {'5':>6} {'10':>6} {'30':>6}")
    for share in SHARES:
        fallen = [slower(history, LAN, share, FALL) for history in clean]
        hits = [np.mean([_named(until(history, FALL + more)) for history in fallen]) for more in (2, 3, 5, 10, 30)]
        at_once = np.mean([_named(rerun(history)) for history in fallen])
        print(
            f"{share:>6.0%} {at_once:>12.0%} {hits[0]:>9.0%} " + " ".join(f"{hit:>6.0%}" for hit in hits[1:]),
            flush=True,
        )


def noise_of(kind, nights, chance):
    """Logarithms of a year's rates by way, for one kind of noise."""
    white = {way: chance.normal(0, 0.02, nights) for way in RATES}
    day, shared = np.arange(nights), chance.normal(0, OF_A_NIGHT, nights)
    for way, own in white.items():
        if kind.startswith("ar"):  # marginal scatter of 5 %
            own[:] = chance.normal(0, 0.05 * np.sqrt(1 - float(kind[2:]) ** 2), nights)
            for night in range(1, nights):
                own[night] += float(kind[2:]) * own[night - 1]
        elif kind == "weekday" and way != CONTROL:
            own -= 0.1 * (day % 7 >= 5)
        elif kind == "outliers":
            own -= (chance.random(nights) < 0.05) * chance.uniform(0.1, 0.9, nights)
        elif kind == "variance":
            own *= np.where(day // 90 % 2 == 1, 4.0, 1.0)
        elif kind == "bimodal":
            own -= 0.15 * (chance.random(nights) < 0.3)
        elif kind == "seasonal" and way != CONTROL:
            own += 0.08 * np.sin(2 * np.pi * day / 365)
        own += shared
    return white


def false_alarms(seeds, kinds, nights=365, every=12):
    """By kind of noise: alarms that begin in a year in which nothing changes, and nights that are not OK."""
    for kind in kinds or KINDS:
        begun, bad, looks = 0, 0, 0
        for seed in range(seeds):
            logs = noise_of(kind, nights, np.random.default_rng(1000 + seed))
            clean = drawn(nights, (0.0,), seed)
            values = {
                place: [replace(value, mean=float(100 * np.exp(logs[value.configuration.split("/")[0]][place - 1])))
                        for value in rows]
                for place, rows in clean.values.items() if place <= nights
            }  # fmt: skip
            before = set()
            for count in range(every, nights + 1, every):
                found = alarms(until(replace(clean, values=values), count))
                now = {alarm.configuration for alarm in found if alarm.direction == "worse"}
                begun, bad, looks, before = begun + len(now - before), bad + bool(now), looks + 1, now
        print(
            f"{kind:10} {begun / seeds:5.2f} alarms begin in a year, {bad / looks:6.1%} of nights are not OK",
            flush=True,
        )


def _named(history):
    """Whether the way that fell is named as that."""
    return any(found.configuration == LAN and found.direction == "worse" for found in alarms(history))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--nights", type=int, default=90)
    parser.add_argument("--rates", action="store_true", help="the rates alone")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, help="false alarms by kind of noise alone (default: each)")
    parser.add_argument("--busy", action="store_true", help="noise of a machine that other work shared")
    arguments = parser.parse_args()
    if arguments.kinds is not None:
        false_alarms(arguments.seeds, arguments.kinds)
        return
    noise = BUSY if arguments.busy else QUIET
    print(f"single trials scatter by {np.std(noise):.1%}, nights by {OF_A_NIGHT:.0%} together")
    if not arguments.rates:
        scenarios(arguments.nights, noise)
    rates(arguments.nights, arguments.seeds, noise)


if __name__ == "__main__":
    main()
