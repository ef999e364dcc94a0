"""What becomes of a run: its tables, its page, and whether it is faster or slower than others."""

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierbench import names
from tierbench.dags.levels import SAME_WITHIN
from tierbench.errors import ConfigError, TierbenchError, missing_library
from tierbench.submit.console import add_command, as_json, document, run_directory, say, show, warn
from tierbench.submit.progress import check_run
from tierbench.submit.repetitions import decide

QUIET_SECONDS = 2.0

REPORT = """\
Write one self-contained HTML page about a run: the question, the answer with its interval, figures
that correspond to those of the papers, tables, each trial with its verdict and its course over time,
and where the numbers come from. It works offline and prints well. The figures are written beside it,
as PNG and SVG. Tables that are missing, or older than a trial, are made first; nothing else of the run
is changed.

With several runs the page compares them with the first: how much each rate changed, with an interval,
and what else differs. Runs that were made differently are marked as not comparable, and why.

Of a folder of runs it is an index: question, answer, verdicts and claims of each, the latest first.

With --check it also holds the run against the claims of its experiment; the exit status then is 0 if all
are reproduced, 1 if one is contradicted, 3 if one is inconclusive or not tested, 2 after an error.
"""

REPORT_EXAMPLES = """\
  tierbench report runs/quick-20260101-120000          writes report.html and plots/ into the run
  tierbench report RUN --output ~/public_html/q.html   figures then are in q-plots/ beside it
  tierbench report runs/monday runs/tuesday            writes runs/monday-against-tuesday.html
  tierbench report runs                                writes runs/index.html over all runs in it
  tierbench report RUN --check                         and says whether its claims hold
  tierbench report RUN --lines cache_mb --x rtt_ms     compared and drawn along other factors
"""


COMPARE = """\
Compare a run with an earlier one, or with the nights of a nightly since its baseline began: for each
configuration the ratio with its 95 % interval, and faster, slower, equivalent or inconclusive; then
what differs in how the two were made. Runs that were made differently are refused, and why. A trial
far off all others is left out and named; where that decides, the result is inconclusive.

With --sites, runs of one experiment at several sites: the ratios within each site side by side, and
whether any two sites differ by --size or more, all agree within it, or neither is certain.

exit status: 0 equivalent or faster, 1 something is slower, 2 an error, 3 inconclusive;
with --sites 0 all ratios agree, 1 some differ
"""

COMPARE_EXAMPLES = """\
  tierbench compare runs/monday runs/tuesday
  tierbench compare runs/tuesday --baseline quick      with the nights of the nightly quick
  tierbench compare A B --junit compare.xml            for a build server
  tierbench compare --sites uf/quick-1 fiu/quick-1     the same experiment at two access points
"""


def register(subcommands: Any) -> None:
    text = "Turn samples and job records into CSVs, and show them; can be repeated"
    tables = add_command(subcommands, "tables", _tables, text)
    run_directory(tables)
    as_json(tables, "show trials, summary, ratios and the answer as JSON")
    tables.add_argument("--parquet", action="store_true", help="also write each table as Parquet, beside its CSV")
    tables.add_argument("--trial", action="store_true", help="RUN is the directory of a single trial")

    text = "Whether a trial is not needed any more: exit status 0 it is not, 1 it is, 2 an error"
    needed = add_command(subcommands, "enough", _enough, text)
    run_directory(needed)
    needed.add_argument(
        "trial", metavar="TRIAL_ID", nargs="?", help="the name of the trial's folder; without it: list all trials that"
        " are not needed (of a run with until = \"answered\")",
    )  # fmt: skip

    text = "Write a page with a run's answer, figures, tables and trials; of several runs, compare them"
    parser = add_command(subcommands, "report", _report, text, REPORT, REPORT_EXAMPLES)
    parser.add_argument("directories", metavar="RUN", nargs="+", type=Path, help="a run directory, or a folder of runs")
    parser.add_argument("--check", action="store_true", help="the exit status says whether the claims are reproduced")
    output = "the page (default: RUN/report.html, or A-against-B.html beside A)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=output)
    text = "compare the levels of this factor (default: as [report] of the experiment says)"
    parser.add_argument("--lines", metavar="FACTOR", default="", help=text)
    text = "draw along this one; the page then is RUN/report-LINES-by-X.html"
    parser.add_argument("--x", metavar="FACTOR", default="", help=text)
    text = "Whether a run is faster or slower than another, or than a nightly's baseline; its exit status says so"
    parser = add_command(subcommands, "compare", _compare, text, COMPARE, COMPARE_EXAMPLES)
    parser.add_argument("first", metavar="A", type=Path, nargs="?", help="a run directory")
    parser.add_argument("second", metavar="B", type=Path, nargs="?", help="the later run, which is judged")
    parser.add_argument("--baseline", metavar="NAME", help="judge A against the nights of this nightly")
    parser.add_argument("--history", type=Path, metavar="FILE", help="where those are, if not at the usual place")
    text = "runs of one experiment at several sites, whose ratios are compared"
    parser.add_argument("--sites", metavar="RUN", type=Path, nargs="+", help=text)
    text = "a column of summary.csv (default: the rate of the experiment)"
    parser.add_argument("--metric", default="", help=text)
    text = "smaller differences are equivalent (%(default)s)"
    parser.add_argument("--size", type=float, default=100 * SAME_WITHIN, metavar="PERCENT", help=text)
    parser.add_argument("--anyway", action="store_true", help="also where they were made differently")
    as_json(parser)
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also as JUnit XML, into this file")


def _tables(arguments: argparse.Namespace) -> int:
    folder = arguments.directory
    if arguments.trial:
        if not (folder / names.TRIAL).is_file() and not (folder.absolute().parent.parent / names.PLAN).is_file():
            raise ConfigError(f"{folder}: is not a trial's folder (it has no {names.TRIAL}, and lies in no run)")
        from tierbench.postprocess.tables.write import trial_tables

        trial_tables(folder)
        return 0
    check_run(folder, names.TRIALS)
    if arguments.parquet:
        from tierbench.postprocess.tables.write import arrow, write_parquet

        arrow("use the CSVs")  # before the work of making them
    show_tables(folder, as_json=arguments.json)
    for path in write_parquet(folder) if arguments.parquet else ():
        say(f"wrote {path}")
    return 0


def show_tables(directory: Path, *, as_json: bool = False) -> bool:
    """Make and show them; whether any trial is usable."""
    from tierbench.postprocess.compare.points import points
    from tierbench.postprocess.report.answer import answers
    from tierbench.postprocess.report.grid import grid_rows, grid_text
    from tierbench.postprocess.tables.load_run import read_results
    from tierbench.postprocess.tables.terminal import as_text, tables_content
    from tierbench.postprocess.tables.write import tables
    from tierbench.postprocess.verdict.counting import counts

    trials = tables(directory)
    if not as_json:
        show(as_text(directory))
    sentences: list[str] = []
    grid: dict[str, Any] = {}
    try:
        results = read_results(directory, say)
        if results.absence:
            warn(f"{directory}: {results.absence}")
        sentences, of_run = [answer.sentence for answer in answers(results)], points(results)
        grid = {"text": grid_text(results, of_run), "rows": list(grid_rows(results, of_run))}
    except TierbenchError as error:  # its plan may be damaged, which costs no table
        warn(f"no answer: {error}")
    if as_json:
        rows = grid.get("rows", [])
        print(document("tables", {**tables_content(directory), "answers": sentences, "points": rows}))
    elif sentences:
        show("\n".join(["", *filter(None, [*sentences[:1], grid["text"], *sentences[1:]])]))
    return any(map(counts, trials))


@contextlib.contextmanager
def _statuses_of_its_own() -> Iterator[None]:
    """Of a command whose exit status says something else than that of an error, but for that of a mistaken call."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (TierbenchError, OSError, ImportError) as error:
        raise ConfigError(missing_library(error) if isinstance(error, ImportError) else str(error)) from None


@_statuses_of_its_own()
def _enough(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.verdict.counting import enough_without

    check_run(arguments.directory)
    if arguments.trial is None:
        print("\n".join(decide(arguments.directory).spared))
        return 0
    unneeded = enough_without(arguments.directory, arguments.trial)
    print(f"{arguments.trial}: {'not needed any more' if unneeded else 'needed'}")
    return 0 if unneeded else 1


def _report(arguments: argparse.Namespace) -> int:
    with _statuses_of_its_own() if arguments.check else contextlib.nullcontext():
        return _reported(arguments)


def _reported(arguments: argparse.Namespace) -> int:
    runs, progress = arguments.directories, Progress()
    of_folder = len(runs) == 1 and not (runs[0] / names.PLAN).exists() and any(runs[0].glob(f"*/{names.PLAN}"))
    for directory in () if of_folder else runs:
        check_run(directory)
    if arguments.check and (of_folder or len(runs) > 1):
        raise ConfigError("--check: needs one run")
    if (arguments.lines or arguments.x) and (of_folder or len(runs) > 1):
        raise ConfigError("--lines, --x: need one run")
    from tierbench.postprocess.report.write import check_folder, comparison, run_report, write_index

    check_folder(arguments.output)
    if of_folder:
        page = write_index(runs[0], arguments.output, progress)
    elif len(runs) > 1:
        page = comparison(runs, arguments.output, progress)
    else:
        page = run_report(runs[0], arguments.output, progress, arguments.lines, arguments.x)
    show(str(page))
    return _check(runs[0]) if arguments.check else 0


def _check(run: Path) -> int:
    """Show what became of each claim of a run; the exit status says whether all hold."""
    from tierbench.dags.claims import CONTRADICTED, REPRODUCED
    from tierbench.postprocess.compare.claims import findings
    from tierbench.postprocess.report.papers import ours, theirs
    from tierbench.postprocess.tables.load_run import read_results

    results = read_results(run, say)
    claims = findings(results)
    if not claims:
        raise ConfigError(f"{run}: its experiment has no claims; NAME.reference.toml beside its file states them")
    for finding in claims:
        show(f"{finding.answer}: {finding.claim.says} (claimed {theirs(finding.claim)}, here {ours(results, finding)})")
    answers = {finding.answer for finding in claims}
    return 1 if CONTRADICTED in answers else 0 if answers == {REPRODUCED} else 3


class Progress:
    """Tells what is going on, at most every other second, so that what is quick stays silent."""

    def __init__(self) -> None:
        self.spoke = time.monotonic()

    def __call__(self, words: str) -> None:
        if time.monotonic() - self.spoke >= QUIET_SECONDS:
            say(words)
            self.spoke = time.monotonic()


@_statuses_of_its_own()
def _compare(arguments: argparse.Namespace) -> int:
    for directory in filter(None, (arguments.first, arguments.second, *(arguments.sites or ()))):
        check_run(directory)
    from tierbench.postprocess.compare import judgement as compare
    from tierbench.postprocess.history.database import History, chronicle
    from tierbench.postprocess.history.runs import compare_with_baseline
    from tierbench.postprocess.report.write import check_folder
    from tierbench.postprocess.schema.rows import SUMMARISED
    from tierbench.postprocess.tables.load_run import read_results

    if not 0 < arguments.size < 100:
        raise ConfigError(f"--size {arguments.size:g}: must be between 0 and 100 per cent")
    if arguments.sites:
        return _sites(arguments)
    if not arguments.first or bool(arguments.second) == bool(arguments.baseline):
        raise ConfigError("compare needs a second run, or --baseline NAME, and not both")
    if arguments.metric and arguments.baseline:
        raise ConfigError("--metric: a nightly's nights are watched by their own rate, so --baseline has no other")
    if arguments.metric and arguments.metric not in SUMMARISED:  # of which it is known whether more is better
        raise ConfigError(f"--metric {arguments.metric}: must be one of {', '.join(sorted(SUMMARISED))}")
    check_folder(arguments.junit, "--junit")
    size = arguments.size / 100
    first = read_results(arguments.first, say)
    if arguments.second:
        second = read_results(arguments.second, say)
        made = compare.compare_runs(first, second, size, arguments.metric, arguments.anyway)
    else:
        with History(arguments.history) as history:
            nights = chronicle(history, arguments.baseline)
        made = compare_with_baseline(first, nights, size, say, arguments.anyway)
    print(compare.as_json(made) if arguments.json else "\n".join([*compare.lines(made), compare.summary(made)]))
    if arguments.junit:
        arguments.junit.write_text(compare.as_junit(made), encoding="utf-8")
    return made.exit_status


def _sites(arguments: argparse.Namespace) -> int:
    from tierbench.postprocess.compare.sites import across_sites, lines
    from tierbench.postprocess.schema.rows import COMPARED
    from tierbench.postprocess.tables.load_run import read_results

    others = ("first", "second", "baseline", "history", "anyway", "junit")
    if useless := [name for name in others if getattr(arguments, name)]:
        raise ConfigError(f"--sites: takes the runs, --metric, --size and --json, not {', '.join(useless)}")
    if len(arguments.sites) < 2:
        raise ConfigError("--sites: needs two runs or more, of one experiment at several sites")
    if arguments.metric and arguments.metric not in COMPARED:
        raise ConfigError(f"--metric {arguments.metric}: must be one of {', '.join(sorted(COMPARED))}")
    made = across_sites([read_results(run, say) for run in arguments.sites], arguments.size / 100, arguments.metric)
    print(document("sites", dataclasses.asdict(made)) if arguments.json else "\n".join(lines(made)))
    return made.exit_status
