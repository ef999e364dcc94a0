"""The page over all runs of a folder: question, answer, verdicts, claims, date, and a link to each run's own page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tierbench import files, names
from tierbench.errors import TierbenchError
from tierbench.postprocess.compare.claims import findings
from tierbench.postprocess.report.answer import answers
from tierbench.postprocess.report.markup import element, joined, table, unbroken
from tierbench.postprocess.report.page import document, relative, verdicts_of
from tierbench.postprocess.tables.load_run import Say, read_results
from tierbench.postprocess.wording import counted, moment

INDEX, PAGE = "index.html", "report.html"


def runs_in(folder: Path) -> list[Path]:
    """The run directories in a folder."""
    return sorted(path.parent for path in folder.glob(f"*/{names.PLAN}"))


def write_index(folder: Path, page: Path | None, say: Say) -> Path:
    """Write the page over a folder's runs, the latest first; return where it is."""
    target = page or folder / INDEX
    rows = []
    for run in runs_in(folder):
        say(f"reading {run.name}")
        rows.append(_row(run, target, say))
    rows.sort(key=lambda row: row[0], reverse=True)
    heads = ["run", "question and answer", "trials and claims"]
    title = f"{counted(len(rows), 'run')} in {folder.resolve().name}"
    body = [element("h1", title), table(heads, [cells for _, cells in rows], words=len(heads))]
    files.replace(target, document(title, body))
    return target


def _row(run: Path, page: Path, say: Say) -> tuple[str, Sequence[Any]]:
    """When it began, and its cells."""
    own = run / PAGE
    link = element("a", run.name, href=relative(own if own.is_file() else run, page))
    try:
        results = read_results(run, say)
    except (TierbenchError, OSError) as error:
        return "", [link, element("span", f"No answer: {error}", class_="finding"), ""]
    began = [trial.go_wall_ns for trial in results.trials if trial.go_wall_ns]
    question = str(results.plan.get("question") or "")
    said = joined([element("b", question), " ", unbroken(answers(results)[0].sentence)])
    date = moment(min(began))[:16] if began else ""
    claims = Counter(finding.answer for finding in findings(results))
    answered = [f"{number} {answer}" for answer, number in claims.most_common()]
    return date, [
        joined([link, date], element("br")),
        element("span", said, class_="finding"),
        joined([*verdicts_of(results), *answered], element("br")),
    ]
