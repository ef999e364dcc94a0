"""Why a run has its answer: what limited the lines, and what to change where that hides how they compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tierbench.dags.experiment import SHIPPED, shipped_experiments
from tierbench.dags.levels import JOBS
from tierbench.postprocess.compare.points import MOST_MORE, RunPoint, minutes_a_repetition, more_repetitions, within
from tierbench.postprocess.measures.bottleneck import LATENCY
from tierbench.postprocess.schema.rows import TrialRow
from tierbench.postprocess.tables.factors import level_name, level_of
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.wording import counted, figures, listed, percent

WORKERS = "--set private_workers=8 --set public_workers=8"
REMEDIES = {  # of what limits all lines: what would raise it, and the setting of a testbed that does
    "worker NIC": ("more or faster workers", WORKERS),
    "worker CPU": ("more workers, or ones with more cores", WORKERS),
    "client's own CPU": ("faster cores, or clients that compute less", ""),
    "storage": ("faster storage, or fewer jobs (batches)", "--set rates_mbps.storage=2000"),
    "WAN link": ("a faster WAN, or fewer jobs (batches)", "--set rates_mbps.wan=2000"),
    "latency": ("more jobs (batches), or clients that ask for larger pieces", ""),
    "door NIC": ("a faster door, or more doors", "--set rates_mbps.server=2000"),
    "door CPU": ("a door with more cores, or more doors", ""),
    "gateway NIC": ("a faster gateway", "--set rates_mbps.gateway=2000"),
    "gateway CPU": ("a gateway with more cores", ""),
}
TESTBED = "testbed"  # the name of its site


def limit_of_lines(results: Results, trials: Sequence[TrialRow], lines: Iterable[str]) -> dict[str, list[str]]:
    """By what limited most trials of each line, the lines; nothing for those that no one thing limited."""
    limits: dict[str, list[str]] = {}
    for line in lines:
        labels = [trial.limit.bottleneck for trial in trials if level_of(trial, results.layout.lines) == line]
        label = max(REMEDIES, key=labels.count)
        limits.setdefault(label if labels.count(label) > len(labels) / 2 else "", []).append(line)
    return limits


def causes(results: Results, trials: Sequence[TrialRow], lines: Sequence[str]) -> list[str]:
    """What limited each side, in a sentence; none where that is unknown."""
    limits = limit_of_lines(results, trials, lines)
    factor = results.layout.lines
    if len(limits) > 1 or len(lines) == 1:
        names = {label: listed([level_name(factor, line) for line in those]) for label, those in limits.items()}
        named = [f"{those} by {_the(label)}" for label, those in names.items() if label]
        return [f"What limited: {'; '.join(named)}."] if named else []
    (label,) = limits
    if not label:
        return []
    of_label = [trial.limit for trial in trials if trial.limit.bottleneck == label]
    used = [100 * limit.efficiency for limit in of_label if limit.efficiency is not None]
    ceilings = {figures(limit.ceiling_mbps, "Mb/s") for limit in of_label if limit.ceiling_mbps}
    share = ""
    if used and len(ceilings) == 1:
        # The ceiling is that of the way: it may be another resource's than what limits, as behind latency.
        ends = "–".join(dict.fromkeys(f"{end:.0f}" for end in (min(used), max(used))))
        share = f": the jobs received {ends}\N{NO-BREAK SPACE}% of {ceilings.pop()}, the path's tightest known ceiling"
    words = _the(label)
    return [f"{words[0].upper()}{words[1:]} limits {'both' if len(lines) == 2 else f'all {len(lines)}'}{share}."]


def next_step(results: Results, points: Sequence[RunPoint], trials: Sequence[TrialRow]) -> list[str]:
    """What to change where a comparison is open: the common limit, or the number of repetitions, as a command."""
    lines = list(dict.fromkeys(standing.line for point in points for standing in point.standings))
    limits = limit_of_lines(results, trials, lines)
    label = next(iter(limits)) if len(limits) == 1 else ""
    if any(other.result in ("slower", "faster") for point in points for other in point.others):
        label = ""  # what differs is not hidden by one limit
    elif label:
        return _raise_limit(results, label)
    more = more_repetitions(results)
    if not more:
        return []
    if more > MOST_MORE:
        alone = f"Repetitions alone will not resolve {percent(within(results))} ({more} more needed)"
        return [f"{alone}: read longer (size_mb), or at a quiet time."]
    each = minutes_a_repetition(results)
    minutes = f" (about {max(round(more * each), 1)} min)" if each else ""
    emulated = results.plan.get("site") == TESTBED
    command = (
        f"testbed run --more {more} runs/{results.directory.name}"
        if emulated
        else f"run --more {more} {results.directory}"
    )
    return [
        f"{counted(more, 'more repetition')}{minutes} would resolve {percent(within(results))}, if the scatter stays:"
        f" `tierbench {command}`."
    ]


def _raise_limit(results: Results, label: str) -> list[str]:
    words, setting = REMEDIES[label]
    ways = [way for way in words.split(", or ") if results.layout.lines != JOBS or "jobs" not in way]
    if not ways:
        return []
    sentence = f"To compare them by themselves, use {', or '.join(ways)}"
    if setting and results.plan.get("site") == TESTBED:
        up = f"tierbench testbed down && tierbench testbed up {setting}"
        name = str(results.plan.get("experiment"))
        if (SHIPPED / f"{name}.testbed.toml").is_file():  # `testbed run` holds a testbed to it
            changes = setting.replace("--set ", "").replace(" ", " and ")
            return [f"{sentence}: extend {name} in a file NAME.toml, with {changes} in NAME.testbed.toml beside it."]
        file = name if name in shipped_experiments() else f"{name}.toml"
        return [f"{sentence}: `{up} && tierbench testbed run {file}`."]
    return [f"{sentence}."]


def _the(label: str) -> str:
    """What limits, with its article."""
    return label if label == LATENCY else f"the {label}"
