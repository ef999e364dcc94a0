"""Writes runs with tables of known content, for tests of figures and pages; all of it says that it is synthetic."""

import csv
import dataclasses
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.unit import synthetic_run as synthetic
from tierbench import names
from tierbench.dags.levels import Factor, Level, Report, layout, level_text, named_levels
from tierbench.postprocess.measures.over_time import over_time
from tierbench.postprocess.records.increments import intervals
from tierbench.postprocess.records.samples import read_samples
from tierbench.postprocess.records.trial import Sampled
from tierbench.postprocess.schema.columns import read_rows
from tierbench.postprocess.schema.rows import TrialRow

RATES = {"direct": 400.0, "lan-xrootd": 200.0, "wan-xrootd-private": 300.0, "wan-xrootd-public": 310.0}
SCATTER = (0.0, 0.03, -0.03, 0.01, -0.01)
METRICS = (
    "delivered_mbps", "mean_mbps", "amplification", "volatility_mbps", "window_s", "wall_time_s",
    "steady_delivered_mbps", "steady_mbps", "steady_volatility_mbps",
)  # fmt: skip
AMPLIFICATION = 1.02
read_csv = synthetic.rows


@dataclass(frozen=True)
class Shape:
    """What a synthetic run is made of."""

    rates: Mapping[str, float] = field(default_factory=lambda: RATES)
    workloads: Sequence[str] = ("root",)
    batches: Sequence[int] = (4, 8, 16)
    repeats: int = 3
    verdicts: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # of trial ids: verdict and reasons
    plain: bool = False  # without what other parts of the post-processing add
    samples: bool = True
    interval: float = 0.02  # half the width of the intervals of ratios
    question: str = "Which synthetic access is fastest?"
    site: str = "synthetic"
    changes: Mapping[str, Any] = field(default_factory=dict)  # to the samplers' headers
    axes: Mapping[str, Mapping[Level, float]] = field(default_factory=dict)  # by level, what becomes of the rate
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def factors(self):
        built_in = {"access": tuple(self.rates), "workload": tuple(self.workloads), "jobs": tuple(self.batches)}
        axes = {name: tuple(levels) for name, levels in self.axes.items()}
        return [Factor(name, levels) for name, levels in {**built_in, **axes}.items()]


def write_run(run, shape):
    """A run's directory: definitions, samples, and tables whose numbers follow from the shape."""
    run.mkdir(parents=True)
    trials = list(_trials(shape))
    _write_definitions(run, shape, trials)
    if shape.samples:
        for trial in trials:
            _write_samples(run, trial, shape)
    summary = list(_summary(trials, shape))
    write_csv(run / "trials.csv", trials)
    _write_over_time(run)
    write_csv(run / "summary.csv", summary)
    write_csv(run / "samples.csv", [])
    write_csv(run / "jobs.csv", [])
    if not shape.plain:
        write_csv(run / "ratios.csv", list(_ratios(summary, shape)))
        write_csv(run / "resources.csv", list(_resources(trials, shape)))
    return run


def write_csv(path, rows):
    rows = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


def edit_csv(path, change=lambda _: {}, **changes):
    """Other values in some columns of a table: the same in all rows, or what `change` says of a row."""
    write_csv(path, [{**row, **changes, **change(row)} for row in read_csv(path)])


def _trials(shape):
    position = 0
    for repeat in range(1, shape.repeats + 1):
        for workload in shape.workloads:
            for access, rate in shape.rates.items():
                for point in itertools.product(*(levels.items() for levels in shape.axes.values())):
                    levels = {axis: level for axis, (level, _) in zip(shape.axes, point, strict=True)}
                    share = math.prod(share for _, share in point)
                    for jobs in shape.batches:
                        yield _trial(shape, access, workload, levels, jobs, repeat, share * rate, position)
                        position += 1


def _trial(shape, access, workload, levels, jobs, repeat, rate, position):
    configuration = " ".join([f"{access}/{workload}", *named_levels(levels)])
    name = ".".join([access, workload, *named_levels(levels), f"x{jobs:03d}", f"r{repeat}"])
    mbps = rate * (1 - 0.6 ** (jobs / shape.batches[0])) * (1 + SCATTER[repeat % len(SCATTER)])
    window_s = round(20 * rate / mbps, 3)
    verdict, reasons = shape.verdicts.get(name, ("VALID", ""))
    row = {
        "trial": f"{configuration} \N{MULTIPLICATION SIGN}{jobs} #{repeat}",
        "configuration": configuration, "access": access, "workload": workload, "jobs": jobs,
        **{axis: level_text(level) for axis, level in levels.items()}, "repeat": repeat,
        "trial_id": name, "position": position,
        "state": "complete", "reasons": "", "pool": "private", "protocol": "xrootd", "program": "root",
        "started": "together", "placed": "as-matched",
        "jobs_ok": jobs, "jobs_failed": 0, "submit_wall_ns": synthetic.GO_NS - 5 * 10**9, "go_wall_ns": synthetic.GO_NS,
        "end_wall_ns": synthetic.GO_NS + round(window_s * 1e9), "window_s": window_s, "wall_time_s": window_s + 5,
        "natural_skew_ms": 100.0 * jobs, "start_skew_ms": 0.01 * jobs,
        "delivered_mbps": round(mbps / AMPLIFICATION, 3), "mean_mbps": round(mbps, 3),
        "volatility_mbps": round(mbps / 5, 3), "peak_mbps": round(mbps * 1.4, 3), "amplification": AMPLIFICATION,
        "closure": 0.02,
        "sample_period_s": 1.0,
    }  # fmt: skip
    if shape.plain:
        return {**row, "state": "complete" if verdict == "VALID" else "incomplete", "reasons": reasons}
    return row | {
        "steady_begin_s": 3.0, "steady_end_s": window_s - 3, "steady_from": "sent",
        "steady_delivered_mbps": round(mbps * 1.08, 3), "steady_mbps": round(mbps * 1.1, 3),
        "steady_volatility_mbps": round(mbps / 20, 3), "bottleneck": "storage",
        "bottleneck_evidence": f"the storage sent {mbps:.0f} Mb/s of the 500 Mb/s that its link carries",
        "ceiling_mbps": 500.0, "ceiling_from": "storage link, measured", "efficiency": round(mbps / 500, 4),
        "verdict": verdict, "verdict_reasons": reasons, "idle_before_mbps": 0.1, "idle_after_mbps": 0.1,
        "clock_offset_ms": 0.2, "conditions": "7889e747" if repeat > 1 else "abcdef",
    }  # fmt: skip


def _summary(trials, shape):
    groups = {}
    for trial in trials:
        groups.setdefault((trial["configuration"], trial["jobs"]), []).append(trial)
    for members in groups.values():
        usable = [each for each in members if each["state"] == "complete" and each.get("verdict") != "INVALID"]
        row = {name: members[0][name] for name in ("configuration", *(factor.name for factor in shape.factors))}
        row |= {"trials": len(usable), "trials_left_out": len(members) - len(usable)}
        for metric in METRICS:
            values = [trial[metric] for trial in usable if metric in trial]
            several, mean = len(values) > 1, statistics.fmean(values) if values else ""
            row |= {metric: mean, f"{metric}_sd": statistics.stdev(values) if several else ""}
            if not shape.plain:
                row |= {f"{metric}_low": 0.9 * mean if several else "", f"{metric}_high": 1.2 * mean if several else ""}
        if not shape.plain and row["delivered_mbps"] and members[0]["jobs"] != shape.batches[0]:
            row |= {"gain_mbps": 50.0, "gain_low": 40.0, "gain_high": 65.0}
            row |= {"growth": 1.5, "growth_low": 1.4, "growth_high": 1.7}
        yield row


def _ratios(summary, shape):
    names = [factor.name for factor in shape.factors]
    for row, other in itertools.permutations(summary, 2):
        differing = [name for name in names if row[name] != other[name]]
        if len(differing) != 1 or not row["delivered_mbps"] or not other["delivered_mbps"]:
            continue
        ratio = row["delivered_mbps"] / other["delivered_mbps"]
        pairs = min(row["trials"], other["trials"])
        low, high = (ratio - shape.interval, ratio + shape.interval) if pairs > 1 else ("", "")
        yield {
            "factor": differing[0], **{name: row[name] for name in names}, "against": other[differing[0]],
            "metric": "delivered_mbps", "ratio": ratio, "low": low, "high": high, "pairs": pairs, "method": "t",
        }  # fmt: skip


def _resources(trials, shape):
    shared = ("trial", "configuration", *(factor.name for factor in shape.factors), "repeat")
    resources = (
        ("storage", "NIC sent", 1.0), ("storage", "CPU", 0.3), ("gateway", "NIC received", 0.5),
        ("gateway", "CPU", 0.7), ("gateway", "softirq", 0.2), ("worker", "NIC received", 0.6),
    )  # fmt: skip
    for trial in trials:
        of_trial = {name: trial[name] for name in shared}
        for role, resource, share in resources:
            yield {
                **of_trial, "host": f"{role}.test", "role": role, "resource": resource,
                "value": share * trial["mean_mbps"], "unit": "Mb/s", "ceiling": 500.0,
                "utilisation": round(share * trial["mean_mbps"] / 500, 4),
            }  # fmt: skip
        yield {
            **of_trial, "host": "storage.test", "role": "storage",
            "resource": "TCP retransmits", "value": 3, "unit": "1/s", "ceiling": "", "utilisation": "",
        }  # fmt: skip


def _write_samples(run, trial, shape):
    folder = run / "trials" / trial["trial_id"] / "samples"
    ramp = synthetic.ramps(trial["mean_mbps"] * 1.15, up_s=2, level_s=max(trial["window_s"] - 5, 1), down_s=3)
    times = synthetic.ticks(-2.3, trial["window_s"] + 2.7)
    gateway = {"host": synthetic.GATEWAY, "role": "gateway"}
    synthetic.write_samples(folder / f"{synthetic.OSS}.samples", times, ramp, **shape.changes)
    synthetic.write_samples(folder / f"{synthetic.GATEWAY}.samples", times, lambda time: ramp(time) // 2, **gateway)


def _write_over_time(run):
    """Of the trials that have samples, as their own tables would tell it."""
    for trial in read_rows(TrialRow, run):
        folder = run / "trials" / trial.trial_id
        files = map(read_samples, sorted(folder.glob("samples/*.samples")))
        sampled = [Sampled(samples, intervals(samples)) for file in files for samples in file.by_interface()]
        series = over_time(sampled, trial, trial.slices.all_active_delivered_mbps is not None)
        if series.hosts:
            (folder / names.OVER_TIME).write_text(json.dumps(series.to_record()), encoding="utf-8")


def _write_definitions(run, shape, trials):
    configurations = [
        {
            "id": f"{access}.{workload}", "name": f"{access}/{workload}", "access": access, "workload": workload,
            "client": "root", "protocol": "xrootd", "pool": "private",
        }
        for workload in shape.workloads
        for access in shape.rates
    ]  # fmt: skip
    plan = {
        "format": 1, "synthetic": True, "site": shape.site, "experiment": "synthetic", "question": shape.question,
        "factors": [dataclasses.asdict(factor) for factor in shape.factors],
        "report": dataclasses.asdict(layout(Report(**shape.report), shape.factors)),
        "scale": 0.1, "seed": 7, "pools": {"private": ["wn01.private.fiu.test"]}, "configurations": configurations,
        "replicas": [{
            "name": "tree", "directory": "/synthetic/tree-abcdef", "suffix": ".root", "count": 24,
            "nominal_bytes": 16_000_000, "sizes": None,
        }],
        "trials": [
            {"id": row["trial_id"], "name": row["trial_id"], "configuration": row["configuration"]}
            | {"jobs": row["jobs"], "repeat": row["repeat"]}
            for row in trials
        ],
    }  # fmt: skip
    site = {
        "name": shape.site, "description": "not a real site", "caveat": "Nothing here was ever measured.",
        "links": {"wan": 1000}, "flush": {"strategy": "fadvise"},
    }  # fmt: skip
    reading = {"client": "root", "replicas": "tree", "options": {"cache_mb": "default"}}
    experiment = {
        "name": "synthetic", "repeats": shape.repeats, "sample_period_s": 1.0, "flush": True,
        "workloads": dict.fromkeys(shape.workloads, reading),
    }  # fmt: skip
    for name, content in {"plan": plan, "site": site, "experiment": experiment}.items():
        (run / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
