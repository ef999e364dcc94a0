"""Writes what the code declares into the pages beside it: `make docs`. A test tells when a page is stale.

A page marks the place by `<!-- generated: NAME -->` and `<!-- end -->`. `--record RUN …` notes what runs of the papers'
experiments have found in papers-measured.toml, from which papers.md's tables are made.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierbench.dags.clients import shipped_clients
from tierbench.postprocess.tables.schema import schema
from tierbench.postprocess.verdict.rules import RULES

PAGES = Path(__file__).parent
PART = re.compile(r"(?<=<!-- generated: )(.+?)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
LEVELS = ("trial", "configuration", "access", "workload", "jobs", "repeat")  # what rows begin with
AVERAGED = ("", "_sd", "_low", "_high")


def table(heads: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def columns(file: str) -> str:
    """A table's columns; an interval's ends stand beside its value, and what begins each row is told once."""
    declared = [column for column in schema()["files"][file]["columns"] if column["name"] not in LEVELS]
    names = [column["name"] for column in declared]
    averaged = [name for name in names if all(f"{name}{end}" in names for end in AVERAGED)]
    parts = {f"{name}{end}" for name in averaged for end in AVERAGED}
    rows: list[tuple[str, str, str]] = []
    for column in declared:
        if column["name"] in parts:
            continue
        if column["meaning"].startswith("95 % interval") and rows:
            name, unit, meaning = rows.pop()
            rows.append((f"{name} `{column['name']}`", unit, meaning))
        else:
            rows.append(
                (f"`{column['name']}`", column["unit"].replace("1", "", column["unit"] == "1"), column["meaning"])
            )
    told = table(("column", "unit", "meaning"), iter(rows))
    if averaged:
        listed = ", ".join(f"`{name}`" for name in averaged)
        told += (
            f"\nOf these columns of trials.csv the mean over the trials, with `_sd`, `_low` and `_high`: {listed}.\n"
        )
    return told


def levels(_: str) -> str:
    first = {c["name"]: c for file in schema()["files"].values() for c in file["columns"]}
    return table(("column", "meaning"), ((f"`{name}`", first[name]["meaning"]) for name in LEVELS))


def rules(_: str) -> str:
    """The verdict's rules with their thresholds, and what to do."""

    def limit(value: float | None, unit: str) -> str:
        return "–" if value is None else f"{value:g} {unit}"

    rows = ((r.name, r.looks_at, limit(r.suspect, r.unit), limit(r.invalid, r.unit), r.remedy) for r in RULES)
    return table(("rule", "looks at", "SUSPECT beyond", "INVALID beyond", "what to do"), rows)


def clients(_: str) -> str:
    """What each client declares of itself."""
    rows = (
        (
            f"`{name}`", ", ".join(of.protocols), ", ".join(of.kinds or ["any"]), of.memory_mb,
            f"{of.usual_excess:.0%}", "yes" if of.reads_whole else "no",
        )
        for name, of in ((name, file.client) for name, file in shipped_clients().items())
    )  # fmt: skip
    return table(("client", "protocols", "replicas", "memory, MB", "usual excess", "whole files"), rows)


def options(name: str) -> str:
    """A client's options."""
    rows = (
        (f"`{key}`", "needed" if o.needed else _shown(o.default), o.meaning)
        for key, o in shipped_clients()[name].client.options.items()
    )
    return table(("option", "default", "meaning"), rows)


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, (int, float)) else str(default or "")


GENERATED = {"columns": columns, "levels": levels, "rules": rules, "clients": clients, "options": options}


def renewed(page: str) -> str:
    """A page with its generated parts as the code has them now."""

    def part(found: re.Match[str]) -> str:
        kind, _, of = found[1].partition(" ")
        return f"{found[1]}{found[2]}\n{GENERATED[kind](of)}\n"

    return PART.sub(part, page)


def stale() -> list[Path]:
    """The pages that say other than the code."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.md"))}
    return [path for path, text in texts.items() if renewed(text) != text]


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for path in stale():
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"{path.name} is new")


if __name__ == "__main__":
    main()
