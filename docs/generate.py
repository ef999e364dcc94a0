"""Writes what the code declares into the pages beside it: `make docs`. A test tells when a page is stale.

A page marks the place by `<!-- generated: NAME -->` and `<!-- end -->`. `contents` lists the page's own headings.
`--record RUN …` notes what runs of the papers' experiments have found in papers-measured.toml, from which papers.md's
tables are made.
"""

import argparse
import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tierbench.dags.claims import ANSWERS, read_claims, reference_of
from tierbench.dags.clients import shipped_clients
from tierbench.dags.experiment import SHIPPED, load_experiment
from tierbench.monitors.sources import SOURCES
from tierbench.postprocess.compare.claims import findings as findings_of
from tierbench.postprocess.measures.bottleneck import LABELS
from tierbench.postprocess.report.papers import ours, theirs
from tierbench.postprocess.schema.run_rows import schema
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.verdict.judge import RULES
from tierbench.postprocess.verdict.rules import Rule
from tierbench.wrappers.client import Client

PAGES = Path(__file__).parent
PART = re.compile(r"(?<=<!-- generated: )(.+?)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
LEVELS = ("trial", "configuration", "access", "workload", "jobs", "repeat")  # what rows begin with
NOT_MEASURED = "not measured"
LABEL = f"(?:{'|'.join(map(re.escape, LABELS))})"
EXPECTED = re.compile(f", not by {LABEL}(?: or {LABEL})*")  # which the experiment says
AVERAGED = ("", "_sd", "_low", "_high")
MEASURED = PAGES / "papers-measured.toml"
HEAD = (
    "# What runs of the papers' experiments have found: docs/generate.py --record RUN writes it, make docs shows it.\n"
)


def table(heads: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def contents(page: str) -> str:
    """A line for each section of the page, with its subsections."""
    lines: list[str] = []
    for depth, head in re.findall(r"^##(#?) (.+)$", page, re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
        link = f"[{head}](#{anchor})"
        if depth:
            lines[-1] += (", " if ": [" in lines[-1] else ": ") + link
        else:
            lines.append(link)
    return " ·\n".join(lines) + "\n"


def columns(file: str) -> str:
    """A table's columns; an interval's ends stand beside its value, and what begins each row stands once."""
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
            unit = "" if column["unit"] == "1" else column["unit"]
            rows.append((f"`{column['name']}`", unit, column["meaning"]))
    text = table(("column", "unit", "meaning"), rows)
    if averaged:
        listed = ", ".join(f"`{name}`" for name in averaged)
        text += f"\nOf these columns of trials the mean over the trials, with `_sd`, `_low` and `_high`: {listed}.\n"
    return text


def levels(_: str) -> str:
    first = {c["name"]: c for file in schema()["files"].values() for c in file["columns"]}
    return table(("column", "meaning"), ((f"`{name}`", first[name]["meaning"]) for name in LEVELS))


def samples(_: str) -> str:
    """The columns of a sample file, of a host with one interface."""
    rows = ((f"`{c.name}`", c.width, c.unit, c.kind, c.scope) for source in SOURCES for c in source.columns)
    return table(("column", "width", "unit", "kind", "scope"), rows)


def rules(_: str) -> str:
    """The verdict's rules with their thresholds, and what to do."""

    def row(rule: Rule) -> tuple[str, ...]:
        limits = (rule.limits.suspect, rule.limits.invalid)
        shown = ("–" if value is None else f"{value:g} {rule.limits.unit}" for value in limits)
        return rule.name, rule.looks_at, *shown, rule.remedy

    return table(("rule", "looks at", "SUSPECT beyond", "INVALID beyond", "what to do"), map(row, RULES))


def clients(_: str) -> str:
    """What each client declares of itself."""

    def row(name: str, of: type[Client]) -> tuple[Any, ...]:
        protocols, kinds = (", ".join(choice or ["any"]) for choice in (of.protocols, of.kinds))
        return f"`{name}`", protocols, kinds, of.memory_mb, f"{of.usual_excess:.0%}", "yes" if of.reads_whole else "no"

    rows = (row(name, file.client) for name, file in shipped_clients().items())
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


def findings(experiment: str) -> str:
    """What a paper has found, and what was measured of it here."""
    entry = tomllib.loads(MEASURED.read_text(encoding="utf-8")).get(experiment, {})
    measured = {
        says: (ratio, NOT_MEASURED if ratio.startswith(NOT_MEASURED) else answer)
        for says, ratio, answer in entry.get("findings", ())
    }
    claims = read_claims([SHIPPED / f"{experiment}.toml"])
    without_claim = set(measured) - {str(claim.says) for claim in claims}
    if without_claim:
        raise SystemExit(f"{MEASURED.name}: {experiment} has no claim {without_claim.pop()!r}")
    rows = ((c.says, c.source, theirs(c), *measured.get(str(c.says), ("–", NOT_MEASURED))) for c in claims)
    text = table(("finding", "source", "paper", "here (95 % interval)", "answer"), rows)
    return text + (f"\nMeasured by {entry['run']} on {entry['date']}: {entry['trials']}.\n" if entry else "")


def answers(page: str) -> str:
    """How many findings of each experiment on the page have which answer."""
    rows = []
    for experiment in re.findall(r"generated: findings (\S+)", page):
        lines = findings(experiment).split("\n\n")[0].splitlines()[2:]
        column = [line.rsplit("|", 2)[1].strip() for line in lines]
        rows.append((experiment, len(column), *(column.count(answer) or "" for answer in (*ANSWERS, NOT_MEASURED))))
    sums = ("all", *(sum(row[i] or 0 for row in rows) for i in range(1, 7)))
    return table(("experiment", "findings", *ANSWERS, NOT_MEASURED), [*rows, sums])


def record(run: Path) -> None:
    """Note what a run of a paper's experiment has found in place of what was noted before."""
    records = tomllib.loads(MEASURED.read_text(encoding="utf-8"))
    results = read_results(run, print)
    name = str(results.experiment["name"])
    now = load_experiment(SHIPPED / f"{name}.toml")  # what is claimed and expected now, of whichever run
    claims_now = {"claims": [asdict(claim) for claim in now.claims], "expects": [asdict(one) for one in now.expects]}
    results = replace(results, experiment={**results.experiment, **json.loads(json.dumps(claims_now))})
    stems = (name, name.removesuffix("-scaled"))
    experiment = next((stem for stem in stems if reference_of(SHIPPED / f"{stem}.toml").is_file()), None)
    if experiment is None:
        raise SystemExit(f"{run}: {name} repeats no paper")
    verdicts = [trial.verdict for trial in results.trials]
    ended = max(trial.end_wall_ns or 0 for trial in results.trials)
    records[experiment] = {
        "run": name,
        "date": f"{datetime.fromtimestamp(ended / 1e9, UTC):%Y-%m-%d}",
        "trials": ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(sorted(verdicts))),
        "findings": [
            [str(finding.claim.says), EXPECTED.sub("", ours(results, finding)), finding.answer]
            for finding in findings_of(results)
        ],
    }
    MEASURED.write_text(HEAD + "".join(_as_toml(*item) for item in records.items()), encoding="utf-8")


def _as_toml(experiment: str, content: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    lines = [f"{key} = {text(content[key])}" for key in ("run", "date", "trials")]
    listed = "".join(f"    {text(finding)},\n" for finding in content["findings"])
    return "\n" + "\n".join([f"[{experiment}]", *lines, f"findings = [\n{listed}]\n"])


KINDS = (contents, columns, levels, samples, rules, clients, options, findings, answers)
GENERATED = {kind.__name__: kind for kind in KINDS}


def renewed(page: str) -> str:
    """A page with its generated parts as the code has them now."""

    def part(found: re.Match[str]) -> str:
        kind, _, of = found[1].partition(" ")
        return f"{found[1]}{found[2]}\n{GENERATED[kind](of or page)}\n"

    return PART.sub(part, page)


def stale() -> list[Path]:
    """The pages that say other than the code."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.md"))}
    return [path for path, text in texts.items() if renewed(text) != text]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", metavar="RUN", type=Path, action="append", default=[], help="a run directory")
    for run in parser.parse_args().record:
        record(run)
    for path in stale():
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"{path.name} is new")


if __name__ == "__main__":
    main()
