"""The notes below an answer, and the sentences against a baseline, or against jobs that run alone."""

from collections.abc import Iterator, Sequence

from tierbench.dags.clients import shipped_clients
from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, PAIR, WORKLOAD
from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER
from tierbench.postprocess.compare.points import RunPoint, within
from tierbench.postprocess.compare.sequential import outcome
from tierbench.postprocess.measures.saturation import FLAT, FULL, RISING
from tierbench.postprocess.schema.rows import OPERATIONS, RATE, SENT, SUMMED
from tierbench.postprocess.schema.run_rows import MEASURED, RatioRow, SaturationRow, ScalingRow, SummaryRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.stats import round_trips as fitted
from tierbench.postprocess.tables.factors import level_name, level_of, rows_at
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import SUSPECT, counts, verdict
from tierbench.postprocess.wording import (
    CI,
    INTERVAL,
    TIMES,
    bounds,
    enumerated,
    figures,
    limit_percent,
    listed,
    with_interval,
)
from tierbench.starts import IN_TURN, NATURAL, TOGETHER

STARTED = {TOGETHER: "together they get", NATURAL: "started by HTCondor they get"}
EACH, ROUND_TRIPS, WALL_TIME = "fetch_s", "round_trips_per_fetch", "wall_time_s"
AMPLIFICATION = "amplification"
MUCH = 1.1  # sent over delivered: headers and what is usual (docs/verdicts.md) explain less than this
CACHE = "cache_mb"  # a client's option, by which it asks for more in one piece
LARGER_CACHE = f"a read cache of several clusters (option {CACHE} = 30), which asks for larger pieces in their order"
ELSE = "a smaller read-ahead or smaller cache blocks on the way, or a client that asks for larger pieces in their order"

Sentence = tuple[bool, str]  # whether an answer is clear, and its words


def shares_of_baseline(results: Results, point: RunPoint, where: str) -> Sentence | None:
    """The sentence that compares each level with the baseline; None where there is none."""
    reference = point.reference
    if reference.line != results.layout.baseline or not point.others:
        return None
    kinds: dict[str, list[str]] = {}
    for other in point.others:
        kind = "apart" if other.result in (FASTER, SLOWER) else other.result
        kinds.setdefault(kind, []).append(f"{other.name} {with_interval(other.ratio, CI)}")
    words = {
        "apart": "{} of it", EQUIVALENT: f"equivalent within {limit_percent(within(results))}: {{}}",
        INCONCLUSIVE: "not distinguishable: {}", "": "no interval, too few repetitions: {}",
    }  # fmt: skip
    parts = [part.format(listed(kinds[kind])) for kind, part in words.items() if kind in kinds]
    doubtful = [other.name for other in point.others if other.by_valid]
    rate = figures(reference.row.means[results.rate].value, results.unit)
    sentence = f"{where}, against {reference.name} ({rate}): {'; '.join(parts)}.{without_suspects(doubtful)}"
    return not ({INCONCLUSIVE, ""} & kinds.keys() or doubtful), sentence


def without_suspects(doubtful: Sequence[str]) -> str:
    """A further sentence: of which levels the VALID trials alone do not say the same."""
    return f" Without the SUSPECT trials that is not so of {listed(doubtful)}." if doubtful else ""


def _is_by_suspects(row: RatioRow) -> bool:
    """Whether a ratio's result is another one by its VALID trials alone."""
    return row.is_doubted and outcome(row.by_valid, 0) != outcome(row.ratio, 0)


def shares_of_alone(results: Results, point: RunPoint, where: str) -> Sentence | None:
    """The sentence about what jobs get beside others; None unless one line of them took turns."""
    starts: dict[str, str] = {}
    for standing in point.standings:
        started = {trial.started for trial in results.trials_at(standing.row.point)}
        starts[standing.line] = started.pop() if len(started) == 1 else ""
    alone = [standing for standing in point.standings if starts[standing.line] == IN_TURN]
    others = [standing for standing in point.standings if starts[standing.line] != IN_TURN]
    if len(alone) != 1 or not others:
        return None
    shares, clear, doubtful = [], True, []
    for other in others:
        compared = results.compared_with(other.row, alone[0].line, SUMMED)
        if compared is None or compared.ratio.value is None:
            return None
        start = starts[other.line]
        clear = clear and compared.ratio.interval is not None
        shares.append(f"{STARTED.get(start, f'started {start} they get')} {with_interval(compared.ratio, CI)}")
        if _is_by_suspects(compared):
            doubtful.append(other.name)
    rates = listed([figures(other.row.means[SUMMED].value, "Mb/s") for other in others])
    return clear and not doubtful, (
        f"{where}, {listed(shares)} of what they get alone, summed: {rates} where each alone adds up to"
        f" {figures(alone[0].row.means[SUMMED].value, 'Mb/s')}.{without_suspects(doubtful)}"
    )


def each_files_time(results: Results, point: RunPoint) -> Iterator[str]:
    """A note for each place along x at which jobs had lists of files to work through once."""
    for x in results.ladder(point.panel):
        place = results.at(point.panel, x=x)
        trials = filter(counts, results.trials_at(place))
        if not any((trial.job_files or 0) > 1 and trial.job_for_s is None for trial in trials):
            continue
        rows = [row for row in results.summaries_at(place) if row.trials and row.means[EACH].value is not None]
        times: list[str] = []
        before: SummaryRow | None = None
        for row in sorted(rows, key=lambda row: row.means[EACH].value or 0.0):
            trips = row.means[ROUND_TRIPS].value
            words = f"{results.line_name(row)} {_ms(row.means[EACH].value)}"
            words += f" or {figures(trips)} round trips" if trips else ""
            longer = results.compared_with(row, level_of(before, results.layout.lines), EACH) if before else None
            if longer and longer.more.value is not None:
                ends = " to ".join(map(_ms, longer.more.interval or ()))
                words += f", {_ms(longer.more.value)}{f' ({INTERVAL}{ends})' if ends else ''} more"
            times.append(words)
            before = row
        if times:
            where = level_name(results.layout.x, x)
            yield f"The time of a file, with its share of logging in, at {where}: {'; '.join(times)}."


def _ms(seconds: float | None) -> str:
    return figures(None if seconds is None else 1000 * seconds, "ms")


def round_trips(results: Results, point: RunPoint) -> Iterator[str]:
    """A sentence for each group of a panel's trials that differ in nothing but their distance."""
    trials = [trial for trial in results.trials_at(point.panel.levels) if counts(trial) and trial.operation_s]
    alike = [name for name in results.factors if not _is_distance(results, name)]
    groups: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for trial in trials:
        if trial.round_trip_s is not None and trial.operation_s is not None:
            key = tuple(level_name(name, level_of(trial, name)) for name in alike)
            groups.setdefault(key, []).append((trial.round_trip_s, trial.operation_s))
    for levels, times in groups.items():
        fit = fitted(times)
        if fit is None:
            continue
        apart = [level for place, level in enumerate(levels) if len({other[place] for other in groups}) > 1]
        interval = f" ({INTERVAL}{bounds(fit.each)})" if fit.each.interval else ""
        # A line that begins below nothing is bent: what is near waits for less.
        beside = (
            f" and takes {figures(1e3 * fit.beside_s, 'ms')} beside them" if fit.beside_s >= 0 else ", fewer if near"
        )
        trips = round(fit.each.value or 0.0, 2) + 0.0
        yield (
            f"An operation{' with ' if apart else ''}{', '.join(apart)} waits for {trips:.2f}"
            f" round trips{interval}{beside}: a straight line through {len(times)} trials."
        )


def _is_distance(results: Results, factor: str) -> bool:
    """Whether it is an axis of numbers by which alone the trials' round-trip times differ.

    Two access methods, or two pools, that are not equally far differ in more than that.
    """
    if factor in BUILT_IN or not results.factors[factor].numeric:
        return False
    times: dict[str, set[float | None]] = {}
    for trial in results.trials:
        times.setdefault(level_of(trial, factor), set()).add(trial.round_trip_s)
    return all(len(those) == 1 for those in times.values()) and len(set().union(*times.values())) > 1


def amplification_notes(results: Results, point: RunPoint) -> Iterator[str]:
    """Notes on read amplification, by the means of all lines at the place that decides."""
    wasteful = [each for each in point.standings if (each.row.means[AMPLIFICATION].value or 0.0) > MUCH]
    reads = results.worded("sent") == "sent"
    if not wasteful or not reads or results.rate == OPERATIONS:  # whose answers are no bytes that somebody read
        return

    def times(number: float | None) -> str:
        return f"{number:.2f}{TIMES}"

    each = [
        f"{standing.name} {with_interval(standing.row.means[AMPLIFICATION], CI, times)}"
        f" ({figures(standing.row.means[SENT].value, 'Mb/s')})"
        for standing in wasteful
    ]
    workload = (results.experiment.get("workloads") or {}).get(wasteful[0].row.workload) or {}
    cache = {**(workload.get("options") or {}), **wasteful[0].row.levels}.get(CACHE)
    yield (
        "Read amplification: the storage sent more than was delivered"
        f" {'over' if results.layout.lines == ACCESS else 'with'} {listed(each)}. The rest was read ahead"
        " in vain, sent again, or background traffic. What may avoid it:"
        f" {LARGER_CACHE if cache in ('default', 'off') else ELSE}."
    )
    first, delivers = (max(point.standings, key=lambda each: each.row.means[of].value or 0.0) for of in (SENT, RATE))
    if results.rate == RATE and first != delivers:  # between two turns nothing is sent
        yield (
            f"By what the storage sent, the thesis’ measure, {first.name} would come first"
            f" ({figures(first.row.means[SENT].value, 'Mb/s')},"
            f" {figures(first.row.means[RATE].value, 'Mb/s')} of it delivered)."
        )


def saturation_notes(results: Results, point: RunPoint) -> list[str]:
    """From how many jobs on more bring nothing, by the lines of a panel; and why that is unknown of others."""
    if results.rate == OPERATIONS:  # a ladder is fitted to bytes
        return []
    points: list[str] = []
    unknown: dict[str, list[str]] = {}
    lines = results.layout.lines
    of_line = {JOBS, lines, *((ACCESS, WORKLOAD) if lines == PAIR else ())}
    apart = [name for name, factor in results.factors.items() if factor.several and name not in of_line]

    def bounded(interval: Interval, unit: str = "Mb/s") -> str:
        return with_interval(interval, INTERVAL, figures, unit)

    def ladder(row: SaturationRow) -> str:
        """Its line, unless that is one of numbers of jobs, and what else is not the same in the whole panel."""
        others = [level_name(name, level_of(row, name)) for name in apart if name not in point.panel.levels]
        return ", ".join([*([] if lines == JOBS else [results.line_name(row)]), *others]) or str(level_of(row, ACCESS))

    for row in rows_at(results.saturations, point.panel.without(JOBS).levels):
        plateau = f"a plateau of {bounded(row.plateau)}"
        last = f"; over the ladder’s last step, one further brings {bounded(row.further)}"
        further = last if row.further.value is not None else ""
        sentences = {
            FULL: f"with {bounded(row.full_with, 'jobs')}, {plateau}; each job before brings"
            f" {figures(row.each.value, 'Mb/s')}{further}",
            FLAT: f"with fewer than {figures(row.full_with.high, 'jobs')}, {plateau}{further}",
            RISING: f"with more than {figures(row.full_with.low, 'jobs')}, how many more the ladder does not show; each"
            f" job brings {bounded(row.each)}",
        }
        if row.state in sentences:
            points.append(f"{ladder(row)} {sentences[row.state]}{_suspect_of(results, row)}")
        else:
            unknown.setdefault(row.why, []).append(ladder(row))
    notes = [f"Saturation point: {'; '.join(points)}."] if points else []
    return [*notes, *(f"Saturation point of {listed(lines)}: unknown ({why})." for why, lines in unknown.items())]


def _suspect_of(results: Results, row: SaturationRow) -> str:
    """How many of a ladder's trials are SUSPECT, which are not those of one point alone."""
    ladder = {factor: text for factor, text in row.point.items() if factor != JOBS}
    trials = list(filter(counts, results.trials_at(ladder)))
    suspect = sum(verdict(trial) == SUSPECT for trial in trials)
    are = "is" if suspect == 1 else "are"
    return f" ({suspect} of the {len(trials)} trials behind that {are} SUSPECT)" if suspect else ""


def changes_along_x(results: Results, point: RunPoint) -> list[str]:
    """By which factor each line changes from the least level along x to the largest, where these are numbers."""
    x, panel, ladder = results.layout.x, point.panel, results.ladder(point.panel)
    if x == JOBS or len(ladder) < 2 or not results.factors[x].numeric:
        return []
    least, largest = ladder[0], ladder[-1]
    changes = [
        (results.line_name(line), results.together(row))
        for line in results.lines(panel)
        for row in rows_at(results.ratios, results.at(panel, line, largest))
        if (row.factor, row.against, row.metric) == (x, least, results.rate) and row.ratio.value
    ]
    if not changes:
        return []
    factors = [f"{name} {with_interval(row.ratio, CI)}" for name, row in changes]
    doubtful = without_suspects([name for name, row in changes if _is_by_suspects(row)])
    return [f"From {level_name(x, least)} to {largest} the rate changes by {'; '.join(factors)}.{doubtful}"]


def wall_times(results: Results, point: RunPoint) -> list[str]:
    times = [(time, each.name) for each in point.standings if (time := each.row.means[WALL_TIME].value) is not None]
    if results.rate != RATE or len(times) < 2:
        return []
    named = enumerated([f"{name} {figures(time, 's')}" for time, name in sorted(times, key=lambda pair: pair[0])])
    return [f"Wall time, from submission to the last end: {named}."]


def client_caveats(results: Results, point: RunPoint) -> Iterator[str]:
    """What has to be read with the rates of clients that come with tierbench, as they declare it."""
    workloads = results.experiment.get("workloads") or {}
    for name in dict.fromkeys(standing.row.workload for standing in point.standings):
        file = shipped_clients().get((workloads.get(name) or {}).get("client", ""))
        if file and file.client.caveat:
            yield f"{name} ({file.name}): {file.client.caveat}."


NOTES = (
    round_trips, each_files_time, amplification_notes, changes_along_x, saturation_notes, wall_times, client_caveats,
)  # fmt: skip


def scaling_of(results: Results) -> Sentence | None:
    """The scale factor at the largest level that was measured, for each line, and whether that is clear.

    Nothing where it was not asked for.
    """
    measured = [row for row in results.scaling if row.kind == MEASURED and row.scale.value is not None]
    if not measured:
        return None
    along = measured[0].factor
    most = max(float(level_of(row, along)) for row in measured)
    points = [row for row in measured if float(level_of(row, along)) == most]
    several = [name for name, factor in results.factors.items() if name != along and factor.several]
    compared = [(row, results.compared_with(row, row.against, RATE, along)) for row in points]
    # As ratios are: with the looks that were taken, and all that is compared.
    scales = [
        ratio.ratio.over(float(level_of(row, along)) / float(row.against)) if ratio else row.scale
        for row, ratio in compared
    ]

    def where(rows: Sequence[ScalingRow]) -> str:
        """Where some points are, if they differ from others in anything else."""
        places = [", ".join(level_name(name, level_of(row, name)) for name in several) for row in rows]
        return f" at {'; '.join(places)}" if any(places) else ""

    sentences = []
    for least in dict.fromkeys(row.against for row in points):
        rows = [(row, scale) for row, scale in zip(points, scales, strict=True) if row.against == least]
        shares = [f"{with_interval(scale, INTERVAL)}{where([row])}" for row, scale in rows]
        named, few = level_name(along, level_of(rows[0][0], along)), "one alone" if least == "1" else f"each of {least}"
        sentences.append(
            f"With {named} instead of {least}, each brings this share of what {few} does: {'; '.join(shares)}."
        )
    # Where some of the pairs behind a scale factor have a SUSPECT trial.
    doubted = [row for row, ratio in compared if ratio and ratio.is_doubted]
    if doubted:
        sentences.append(f"That rests on SUSPECT trials{where(doubted) if len(doubted) < len(points) else ''}.")
    return all(scale.interval for scale in scales) and not doubted, " ".join(sentences)
