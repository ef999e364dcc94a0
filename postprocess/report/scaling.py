"""How the rate scales along a factor: measured values, and those that are extrapolated from them, told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierbench.dags.levels import ACCESS, BUILT_IN, JOBS, WORKLOAD
from tierbench.postprocess.report.markup import Markup, element, table
from tierbench.postprocess.report.words import NOTHING, between, factor, figures, span
from tierbench.postprocess.schema.rows import RATE
from tierbench.postprocess.tables.across import EXTRAPOLATED, MEASURED, ScalingRow
from tierbench.postprocess.tables.points import level_name, level_of, rows_at
from tierbench.postprocess.tables.results import Results

CAPTION = (
    "Rate taken in by the jobs, and the scale factor: the rate over that at the least {along}, over the one {along}"
    " over the other; 1 where twice as many bring twice as much. In italics, after ≈: extrapolated, nothing of it was"
    " measured."
)


def scaling_of(results: Results) -> tuple[bool, str] | None:
    """The scale factor at the largest level that was measured, for each line, and whether that is clear.

    Nothing where it was not asked for.
    """
    found = [row for row in results.scaling if row.kind == MEASURED and row.scale.value is not None]
    if not found:
        return None
    along = found[0].factor
    most = max(float(level_of(row, along)) for row in found)
    by_least: dict[str, list[ScalingRow]] = {}
    for row in (row for row in found if float(level_of(row, along)) == most):
        by_least.setdefault(row.against, []).append(row)
    told = [_of_least(results, along, least, rows) for least, rows in by_least.items()]
    points = [row for rows in by_least.values() for row in rows]
    doubted = [row for row in points if _is_doubted(results, row)]
    if doubted:
        told.append(f"That rests on SUSPECT trials{_at(results, doubted) if len(doubted) < len(points) else ''}.")
    return all(row.scale.interval for row in points) and not doubted, " ".join(told)


def _is_doubted(results: Results, row: ScalingRow) -> bool:
    """Whether some of the pairs by which its scale factor was found have a SUSPECT trial."""
    rows = rows_at(results.ratios, {name: level_of(row, name) for name in results.factors})
    found = [one for one in rows if (one.factor, one.against, one.metric) == (row.factor, row.against, RATE)]
    return any(one.is_doubted for one in found)


def _at(results: Results, rows: Sequence[ScalingRow]) -> str:
    """Where some points are, if they differ from others in anything else."""
    places = [", ".join(_others(results, row)) for row in rows]
    return f" at {'; '.join(places)}" if any(places) else ""


def _of_least(results: Results, along: str, least: str, rows: list[ScalingRow]) -> str:
    """The sentence about points that are held against the same least level."""
    told = []
    for row in rows:
        interval = f" (95 % interval {between(*row.scale.interval)})" if row.scale.interval else ""
        told.append(f"{factor(row.scale.value)}{interval}{_at(results, [row])}")
    named, few = level_name(along, level_of(rows[0], along)), "one alone" if least == "1" else f"each of {least}"
    return f"With {named} instead of {least}, each brings this share of what {few} does: {'; '.join(told)}."


def _others(results: Results, row: ScalingRow) -> list[str]:
    """The levels in which a point differs from others, but for the one along which it is scaled."""
    several = [name for name in results.factors if name != row.factor and results.factors[name].several]
    return [level_name(name, level_of(row, name)) for name in several]


def scaling_table(results: Results) -> Iterator[Markup]:
    """Each point along the factor, measured or extrapolated."""
    if not results.scaling:
        return
    along = results.scaling[0].factor
    axes = [name for name in results.factors if name not in BUILT_IN]
    columns = [ACCESS, WORKLOAD, *axes, JOBS]
    columns = [name for name in columns if name != along and results.factors[name].several]
    rows = []
    for row in sorted(results.scaling, key=lambda row: [_place(results, row, name) for name in (*columns, along)]):
        guessed = row.kind == EXTRAPOLATED
        cells = [figures(row.delivered.value), span(row.delivered) or NOTHING]
        cells += [factor(row.scale.value), between(*row.scale.interval) if row.scale.interval else NOTHING]
        marked = [element("i", f"≈ {cell}") if guessed and cell != NOTHING else cell for cell in cells]
        how = element("i", f"extrapolated by {row.by}") if guessed else row.kind
        rows.append([*(level_of(row, name) for name in columns), level_of(row, along), how, *marked])
    heads = [*columns, along, "", "Mb/s", "95 % interval", "scale factor", "95 % interval"]
    yield table(heads, rows, words=len(columns) + 2, caption=CAPTION.format(along=along))


def _place(results: Results, row: ScalingRow, name: str) -> int:
    return results.factors[name].in_order.texts.index(level_of(row, name))
