"""Writes the report of a run, or of several (the figures as files, then the page), and the index of a folder."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from tierbench import files, names
from tierbench.checked_text import Setting
from tierbench.dags.levels import PAIR, Report, layout, report_problems
from tierbench.errors import ConfigError, TierbenchError
from tierbench.postprocess.compare.claims import findings
from tierbench.postprocess.compare.judgement import check_common, run_names
from tierbench.postprocess.plots.canvas import Missing, Picture, save, style
from tierbench.postprocess.plots.gallery import comparison_pictures, pictures
from tierbench.postprocess.report.answer import answers
from tierbench.postprocess.report.compare import comparison_page
from tierbench.postprocess.report.markup import element, joined, table, unbroken
from tierbench.postprocess.report.page import PAGE, began_at, document, plots_beside, relative, run_page, verdicts_of
from tierbench.postprocess.report.papers import papers_picture
from tierbench.postprocess.tables.load_run import Results, Say, read_results
from tierbench.postprocess.wording import counted
from tierbench.spec import unknown_name

INDEX = "index.html"


def run_report(run: Path, page: Path | None, say: Say, lines: str = "", x: str = "") -> Path:
    """Write a run's page and figures, compared and drawn along other factors if asked; return where the page is."""
    results = read_results(run, say)
    name = PAGE
    if lines or x:
        results = with_layout(results, lines, x)
        name = f"report-{results.layout.lines}-by-{results.layout.x}.html".replace("/", "-")
    target = page or run / name
    with writing(target), style():
        drawn = _save_all(chain(pictures(results), papers_picture(results)), target, say)
        say(f"writing the page, {len(results.trials)} trials")
        files.replace(target, run_page(results, drawn, target))
    return target


def with_layout(results: Results, lines: str, x: str) -> Results:
    """The same results, with another factor compared, or another one along x."""
    was = results.layout
    levels = {name: factor.levels for name, factor in results.factors.items()}
    if was.lines == PAIR:  # only then the tables have its ratios
        levels[PAIR] = results.compared.levels
    for option, name in (("--lines", lines), ("--x", x)):
        if name and name not in levels:
            raise ConfigError(unknown_name(option, name, list(levels)))
    compared = lines or (was.lines if was.lines != x else was.x)
    along = x or (was.x if was.x != lines else "" if was.lines == PAIR else was.lines)
    report = Report(Setting(compared), Setting(along) if along else None)
    if problems := [*report_problems(report, levels)]:
        raise ConfigError("; ".join(problems))
    new = layout(report, [*results.factors.values()])
    baseline = was.baseline if new.lines == was.lines else ""
    return replace(results, layout=replace(new, counterpart=was.counterpart, baseline=baseline))


def comparison(directories: Sequence[Path], page: Path | None, say: Say) -> Path:
    """Write the page that compares several runs with the first; return where it is."""
    runs = [read_results(directory, say) for directory in directories]
    name = "-against-".join(run_names(runs)[:2]) + ("-and-others" if len(runs) > 2 else "")
    check_common(runs)
    target = page or directories[0].resolve().parent / f"{name.replace('/', '.')}.html"
    with writing(target), style():
        drawn = _save_all(comparison_pictures(runs), target, say)
        files.replace(target, comparison_page(runs, drawn, target))
    return target


def check_folder(page: Path | None, option: str = "--output") -> None:
    """A page goes into a folder that is there: one made from a mistyped name would hide it."""
    if page and page.is_dir():
        raise ConfigError(f"{option} {page}: is a folder; name the page, as {page / PAGE}")
    if page and not page.parent.exists():
        raise ConfigError(f"{option} {page}: there is no folder {page.parent}; make it first, or correct the name")


def _save_all(drawn: Iterable[Picture | Missing], page: Path, say: Say) -> list[Picture | Missing]:
    figures: list[Picture | Missing] = []
    for picture in drawn:
        if isinstance(picture, Picture):
            say(f"drawing {picture.name}")
            figures.append(save(picture, plots_beside(page)))
        else:
            figures.append(picture)
    return figures


def write_index(folder: Path, page: Path | None, say: Say) -> Path:
    """Write the page over a folder's runs, the latest first; return where it is."""
    target = page or folder / INDEX
    rows = []
    for run in sorted(path.parent for path in folder.glob(f"*/{names.PLAN}")):
        say(f"reading {run.name}")
        rows.append(_index_row(run, target, say))
    rows.sort(key=lambda row: row[0], reverse=True)
    title = f"{counted(len(rows), 'run')} in {folder.resolve().name}"
    cells = table(["run", "question and answer", "trials and claims"], [cells for _, cells in rows], words=3)
    files.replace(target, document(title, [element("h1", title), cells]))
    return target


def _index_row(run: Path, page: Path, say: Say) -> tuple[str, Sequence[Any]]:
    """When it began, and its cells: a link to its own page, question and answer, verdicts and claims."""
    own = run / PAGE
    link = element("a", run.name, href=relative(own if own.is_file() else run, page))
    try:
        results = read_results(run, say)
        answer, claims = answers(results)[0].sentence, Counter(finding.answer for finding in findings(results))
    except (TierbenchError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        why = error if isinstance(error, TierbenchError | OSError) else f"its files are damaged ({error!r})"
        return "", [link, element("span", f"No answer: {why}", class_="finding"), ""]
    question = element("b", str(results.plan.get("question") or ""))
    date = began_at(results)[:16]
    claim_counts = [f"{number} {answer}" for answer, number in claims.most_common()]
    return date, [
        joined([link, date], element("br")),
        element("span", question, " ", unbroken(answer), class_="finding"),
        joined([*verdicts_of(results), *claim_counts], element("br")),
    ]


@contextmanager
def writing(page: Path) -> Iterator[None]:
    """Tells a user what cannot be written, and how to put it elsewhere."""
    try:
        yield
    except OSError as error:
        raise TierbenchError(
            f"{error.filename or page}: cannot be written: {error.strerror or error};"
            " --output FILE puts the page and its figures elsewhere"
        ) from None
