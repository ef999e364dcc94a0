"""The trials of a run, each with its verdict, its bottleneck and a chart, small enough for hundreds on a page."""

from collections.abc import Iterator, Sequence

import numpy as np

from tierbench.dags.levels import BUILT_IN, WORKLOAD
from tierbench.postprocess.arrays import Numbers
from tierbench.postprocess.measures.over_time import HostSeries, OverTime, TimeSeries, read_over_time
from tierbench.postprocess.plots.canvas import looks_of
from tierbench.postprocess.report.markup import Frame, Markup, definitions, element, joined, svg
from tierbench.postprocess.schema.rows import TrialRow, trial_column
from tierbench.postprocess.tables.factors import level_of
from tierbench.postprocess.tables.load_run import Results, why
from tierbench.postprocess.verdict.counting import values_of, verdict
from tierbench.postprocess.wording import counted, figures, moment, percent, worded

STEPS, SPARK_STEPS = 160, 66
FULLY, FEWEST = 200, 32  # so many trials have charts of all these steps; of more each has fewer, so that a page loads
FACTS = {
    "window_s": "window", "wall_time_s": "wall time", "delivered_mbps": "delivered throughput",
    "client_mbps": "of each job", "summed_mbps": "each while at work, summed", "mean_mbps": "storage throughput",
    "mean_error_mbps": "its error at most", "amplification": "amplification",
    "volatility_mbps": "volatility of the storage", "peak_mbps": "peak of the storage",
    "steady_delivered_mbps": "steady, delivered", "steady_mbps": "steady, storage",
    "all_active_delivered_mbps": "all active, delivered", "all_active_mbps": "all active, storage",
    "ceiling_mbps": "ceiling", "start_skew_ms": "start skew", "natural_skew_ms": "natural skew",
    "idle_before_mbps": "idle before", "idle_after_mbps": "idle after", "clock_offset_ms": "clock offset",
    "reads": "read calls", "bytes_per_read": "each read call", "events_per_s": "events",
    "operations_per_s": "operations",
}  # fmt: skip
SHARES = {
    "efficiency": "efficiency", "all_active_share": "all active for", "cpu_efficiency": "CPU of the clients",
}  # fmt: skip
TEXTS = {
    "started": "started", "placed": "placed", "looked_at": "looked at afterwards", "left_behind": "left behind",
}  # fmt: skip
SPARK = (132, 26)
CHART = (640, 150)
LEFT, RIGHT, TOP, BASE = 52, 632, 10, 128  # the chart's frame
DASHES = ("5 3", "1.5 2.5", "8 2 2 2")


def trial_list(results: Results) -> Iterator[Markup]:
    """All trials in the order in which they ran."""
    looks, steps, tops = looks_of(results), steps_of(len(results.trials)), {}
    for workload in results.factors[WORKLOAD].texts:
        tops[workload] = max(values_of(results.trials_at({WORKLOAD: workload}), "peak_mbps"), default=1.0)
    for trial in results.trials:
        look = looks[level_of(trial, results.layout.lines)]
        yield _trial(results, trial, look.variable, tops[trial.workload], steps)


def steps_of(trials: int) -> int:
    """How many steps a trial's chart has, so that all of them together stay about as large."""
    return max(FEWEST, min(STEPS, STEPS * FULLY // trials)) if trials else STEPS


def badge(word: str) -> Markup:
    """A verdict, shown by more than its colour."""
    return element("span", word, class_=f"badge {word.lower().replace(' ', '-')}")


def _trial(results: Results, trial: TrialRow, color: str, top: float, steps: int) -> Markup:
    course = read_over_time(results.directory, trial.trial_id)
    whole = course.taken_in or course.storage
    short = whole.thinned(min(steps, SPARK_STEPS)) if whole else None
    word, reasons, limit = verdict(trial), why(trial), trial.limit.bottleneck
    head = element(
        "summary",
        badge(word),
        element("span", trial.trial, class_="name"),
        element("span", figures(trial[results.rate], results.unit), class_="rate"),
        spark(short, top, color) if short and np.isfinite(short.values).any() else element("span", class_="spark"),
        element("span", limit, class_="bottleneck", title="bottleneck") if limit else None,
        element("span", "; ".join(reasons), class_="reasons") if reasons else None,
    )
    body = joined(_trial_body(results, trial, course.thinned(steps), color))
    anchor = f"trial-{trial.trial_id or trial.position}"
    return element("details", head, body, id=anchor, class_=f"trial {word.lower()}")


def _trial_body(results: Results, trial: TrialRow, course: OverTime, color: str) -> Iterator[Markup]:
    if trial.limit.bottleneck_evidence:
        yield element("p", element("b", trial.limit.bottleneck or "bottleneck"), ": ", trial.limit.bottleneck_evidence)
    if course.hosts:
        yield chart(course, trial, color)
        if course.further_hosts:
            yield element("p", f"Not drawn: {counted(course.further_hosts, 'host')} that moved less.", class_="note")
    elif trial.window_s:
        yield element("p", "No readable samples, so nothing to draw over time.", class_="note")
    facts = [(name, level_of(trial, name)) for name in results.factors if name not in BUILT_IN]
    facts += [
        (worded(name, [trial.direction]), figures(trial[column], trial_column(column).unit.removeprefix("1")))
        for column, name in FACTS.items()
        if trial[column] is not None
    ]
    facts += [(name, percent(trial[column])) for column, name in SHARES.items() if trial[column] is not None]
    facts += [(name, trial[column]) for column, name in TEXTS.items() if trial[column]]
    facts.append(("jobs ok", f"{trial.jobs_ok or 0} of {trial.jobs}"))
    if trial.limit.ceiling_from:
        facts.append(("ceiling from", trial.limit.ceiling_from))
    if trial.go_wall_ns:
        facts.append(("began", moment(trial.go_wall_ns)))
    if trial.trial_id:
        facts.append(("folder", f"trials/{trial.trial_id}"))
    yield definitions(facts)


def spark(rate: TimeSeries, top: float, color: str) -> Markup:
    """A trial's course in one line of text."""
    width, height = SPARK
    x = (rate.edges - rate.edges[0]) / (rate.edges[-1] - rate.edges[0]) * width
    y = height - 1 - rate.values / (top or 1.0) * (height - 2)
    line = element("path", d=_steps(x, y), style=f"stroke:var({color})")
    return svg(line, width=width, height=height, class_="spark")


def chart(course: OverTime, trial: TrialRow, color: str) -> Markup:
    """A trial over time: delivered throughput, what hosts sent, the window, and the steady state."""
    delivered = course.taken_in
    hosts = sorted(course.hosts, key=lambda host: (host.role != "storage", host.host))
    series = [*(host.mbps for host in hosts), *([delivered] if delivered else [])]
    highest = max((float(np.nanmax(line.values, initial=0)) for line in series), default=0.0) or 1.0
    edges = series[0].edges
    frame = Frame(LEFT, RIGHT, TOP, BASE, float(edges[0]), float(edges[-1]), 0.0, highest)
    parts: list[Markup] = []
    begin, end = trial.slices.steady_begin_s, trial.slices.steady_end_s
    if begin is not None and end is not None:
        width = round(frame.x(end) - frame.x(begin), 1)
        parts.append(element("rect", x=frame.x(begin), y=TOP, width=width, height=BASE - TOP, class_="steady"))
    parts += frame.scale(figures(highest), "Mb/s", "0")
    for word, edge in (("0", 0.0), (figures(trial.window_s, "s"), trial.window_s or 0.0)):
        parts.append(element("path", d=f"M{frame.x(edge)} {TOP}V{BASE}", class_="edge"))
        parts.append(element("text", word, x=frame.x(edge), y=CHART[1] - 5, text_anchor="middle"))
    for number, host in reversed(list(enumerate(hosts))):
        path = _steps(frame.x(host.mbps.edges), frame.y(host.mbps.values))
        parts.append(element("path", d=path, **_stroke(number, host, color)))
    if delivered:
        path = _steps(frame.x(delivered.edges), frame.y(delivered.values))
        parts.append(element("path", d=path, style="stroke:var(--ink)"))
    drawing = svg(*parts, width=CHART[0], height=CHART[1], class_="chart")
    key = _key(hosts, delivered is not None, color, trial.direction)
    return element("figure", drawing, element("figcaption", *key))


def _key(hosts: Sequence[HostSeries], delivered: bool, color: str, direction: str) -> Iterator[Markup]:
    if delivered:
        yield element("span", _key_line(style="stroke:var(--ink)"), " delivered throughput", class_="item")
    yield Markup(worded("Sent by ", [direction]) if all(host.role == "storage" for host in hosts) else "On its way at ")
    for number, host in enumerate(hosts):
        line = _key_line(**_stroke(number, host, color))
        yield element("span", line, f" {host.host} ({host.role})", class_="item")
    yield Markup("Upright lines: the window’s begin and end.")


def _key_line(**stroke: str | None) -> Markup:
    return svg(element("path", d="M0 4H22", **stroke), width=22, height=8, class_="key")


def _stroke(number: int, host: HostSeries, color: str) -> dict[str, str | None]:
    """The storage in the trial's colour; the others grey, and dashed so that they can be told from each other."""
    if host.role == "storage":
        return {"style": f"stroke:var({color})", "stroke_dasharray": None}
    return {"style": "stroke:var(--muted)", "stroke_dasharray": DASHES[(number - 1) % len(DASHES)]}


def _steps(x: Numbers, y: Numbers) -> str:
    """A path of steps between edges, with a gap where the value is not known; as short as it can be written."""
    path, level = [], ""
    for number, value in enumerate(y):
        before, level = level, _short(value) if np.isfinite(value) else ""
        if level and level != before:
            path.append(f"V{level}" if before else f"M{_short(x[number])} {level}")
        if level:
            if level == before:
                path.pop()
            path.append(f"H{_short(x[number + 1])}")
    return "".join(path)


def _short(place: float) -> str:
    return f"{place:.1f}".removesuffix(".0")
