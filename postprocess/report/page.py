"""The page of one run: question, answer, figures, tables, trials, provenance."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tierbench
from tierbench import names
from tierbench.postprocess.compare.differences import Headers, conditions, headers
from tierbench.postprocess.compare.points import points
from tierbench.postprocess.plots.canvas import FOLDED, LOOKS, PAPERS, SHOWN, Missing, Picture, inline
from tierbench.postprocess.report.answer import Answer, answers
from tierbench.postprocess.report.grid import grid_table
from tierbench.postprocess.report.markup import Markup, definitions, details, element, joined, table, unbroken
from tierbench.postprocess.report.page_tables import run_tables
from tierbench.postprocess.report.papers import papers_table
from tierbench.postprocess.report.trials import badge, trial_list
from tierbench.postprocess.schema.rows import trial_column
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.verdict.counting import INVALID, NOT_RUN, RUNNING, SUSPECT, UNJUDGED, VALID, verdict
from tierbench.postprocess.wording import NOTHING, abridged, counted, listed, moment

PAGE, PLOTS = "report.html", "plots"
KINDS = 5  # columns of hosts beside each other, so that a printed page holds them
FILES = (*names.TABLES, names.SCHEMA, names.PLAN, names.SITE, names.EXPERIMENT)
Drawn = Sequence[Picture | Missing]
Sections = Iterator[tuple[str, str, list[Markup | None]]]  # of a page: anchor, heading, content
FIRST = 3  # answers that stand on the first screen, if there are many more


def plots_beside(page: Path) -> Path:
    """Where a page's figures are: `plots` for a run's own page, else a folder that bears the page's name."""
    return page.with_name(PLOTS if page.name == PAGE else f"{page.stem}-{PLOTS}")


def run_page(results: Results, drawn: Drawn, page: Path) -> str:
    """The whole page, as a file's text: question, verdicts, answer and the figure that shows it; then the rest."""
    question = str(results.plan.get("question") or "")
    lead = next(iter(_at_place(drawn, SHOWN)), None)
    rest = [picture for picture in drawn if picture is not lead]
    all_answers = answers(results)
    top = [element("header", *_head(results, question)), _first_screen(results, all_answers, lead, page)]
    return document(question or results.name, top, _sections(results, all_answers, rest, page))


def _first_screen(results: Results, all_answers: Sequence[Answer], lead: Picture | None, page: Path) -> Markup:
    """The answers' sentences and the grid of all points, beside the one figure that shows them."""
    boxes = [answer_box(answer.sentence, answer.clear) for answer in all_answers]
    if len(boxes) > FIRST + 1:
        fold = details(f"{len(boxes) - FIRST} more answers", *boxes[FIRST:], class_="fold")
        boxes = [*boxes[:FIRST], fold]
    figure = element("div", _figure(lead, page), class_="lead") if lead else None
    grid = grid_table(results, points(results))
    return element("section", boxes[0], figure, grid, *boxes[1:], id="answer", class_="first")


def _sections(results: Results, all_answers: Sequence[Answer], drawn: Drawn, page: Path) -> Sections:
    notes = [_answer_notes(answer, alone=len(all_answers) == 1) for answer in all_answers]
    named = results.layout.counterpart
    counterpart = element("p", element("b", "Counterpart: "), named, class_="note") if named else None
    absence = element("p", results.absence, class_="note") if results.absence else None
    yield "notes", "Caveats", [absence, *notes, *site_notes(results), counterpart]
    yield "figures", "Figures", [gallery(drawn, page)]
    yield "tables", "Tables", list(run_tables(results))
    yield "papers", "Against the papers", [_figures(_at_place(drawn, PAPERS), page), *papers_table(results)]
    yield "trials", "Trials", [*_legend_of_trials(results), *trial_list(results)]
    yield "provenance", "Provenance", list(provenance(results))
    yield "files", "Files", [_files(results.directory, page)]


def _head(results: Results, question: str) -> Iterator[Markup]:
    plan, began = results.plan, began_at(results)
    facts = [f"{plan.get('experiment')} at {plan.get('site')}", counted(len(results.trials), "trial"), began[:10]]
    yield element("p", " · ".join(filter(None, facts)), class_="kicker")
    yield element("h1", question or results.name)
    yield element("p", *verdicts_of(results), class_="verdicts")


def site_notes(results: Results) -> Iterator[Markup]:
    """That a scale model's rates are its own, and what the site says that its numbers cannot be compared with."""
    site, scale = results.plan.get("site"), float(results.plan.get("scale") or 1)
    if scale != 1:
        ratio = f"1:{round(1 / scale, 1):g}" if scale < 1 else f"{scale:g}:1"
        own = results.experiment.get("scale")
        rates = f"For this experiment the rates of site {site} are" if own else f"The site {site} states its rates as"
        words = (
            f" {rates} {scale:g} of those of the sites it stands for: the numbers here are its own, and say nothing"
            " about another site’s."
        )
        yield element("p", element("b", f"A scale model, {ratio}."), words, class_="note")
    if caveat := results.site.get("caveat"):
        yield element("p", element("b", f"Of the site {site}: "), caveat, class_="note")


def began_at(results: Results) -> str:
    """When the first trial's clients were let go; nothing where none was."""
    began = [trial.go_wall_ns for trial in results.trials if trial.go_wall_ns]
    return moment(min(began)) if began else ""


def verdicts_of(results: Results) -> Iterator[Markup]:
    numbers = Counter(verdict(trial) for trial in results.trials)
    for word in (VALID, SUSPECT, INVALID, UNJUDGED, RUNNING, NOT_RUN):
        if numbers[word]:
            yield joined([element("span", numbers[word], class_="number"), " ", badge(word), " "])


def answer_box(sentence: str, clear: bool = False, *more: Any, before: Markup | None = None) -> Markup:
    """A sentence that stands out, coloured if it is clear, between what else there is to say with it."""
    paragraph = element("p", unbroken(sentence), class_="sentence")
    return element("div", before, paragraph, *more, class_="answer" + (" clear" if clear else ""))


def _answer_notes(answer: Answer, alone: bool) -> Markup | None:
    """An answer's caveats, under the words by which it begins if there are others."""
    if not answer.notes:
        return None
    begins = None if alone else element("p", element("b", answer.sentence.partition(",")[0], ":"), class_="of")
    items = (element("li", unbroken(note)) for note in answer.notes)
    return element("div", begins, element("ul", *items), class_="notes")


def gallery(drawn: Drawn, page: Path) -> Markup | None:
    """The figures that explain the answer, side by side where there is room; the others folded; what is not there."""
    parts = [_figures(_at_place(drawn, SHOWN), page)]
    if folded := _at_place(drawn, FOLDED):
        titles = ", ".join(dict.fromkeys(picture.title.partition(",")[0].lower() for picture in folded))
        summary = joined([element("b", counted(len(folded), "more figure")), f": {titles}"])
        parts.append(details(summary, _figures(folded, page), class_="fold"))
    missing = [picture for picture in drawn if isinstance(picture, Missing)]
    lines = [element("li", element("b", picture.title), f": {picture.why}.") for picture in missing]
    parts.append(element("div", "Not drawn:", element("ul", *lines), class_="note") if lines else None)
    return joined(parts, "\n") if any(parts) else None


def _at_place(drawn: Drawn, place: str) -> list[Picture]:
    return [picture for picture in drawn if isinstance(picture, Picture) and picture.place == place]


def _figures(pictures: Sequence[Picture], page: Path) -> Markup | None:
    return element("div", *(_figure(picture, page) for picture in pictures), class_="gallery") if pictures else None


def _figure(picture: Picture, page: Path) -> Markup:
    folder = relative(plots_beside(page), page)
    links = joined([element("a", kind, href=f"{folder}/{picture.name}.{kind.lower()}") for kind in ("PNG", "SVG")], " ")
    caption = element("figcaption", unbroken(picture.caption), " ", element("span", links, class_="links"))
    drawing = element("div", Markup(inline(picture)), class_="plot", role="img", aria_label=picture.title)
    return element("figure", element("h3", picture.title), drawing, caption, id=f"figure-{picture.name}")


def _legend_of_trials(results: Results) -> Iterator[Markup]:
    words = (
        f"In the order in which they ran: verdict, bottleneck, {trial_column(results.rate).label}, and delivered"
        " throughput over time (or, where that is unknown, what the storage sent), each workload’s to one scale."
        " Open a trial for its numbers and a larger chart."
    )
    yield element("p", results.worded(words), class_="note")
    if any(not trial.verdict for trial in results.trials):
        yield element("p", "Some trials have no verdict, only the state of being complete or not.", class_="note")


def _files(run: Path, page: Path) -> Markup:
    items = []
    for path in (run / name for name in FILES if (run / name).is_file()):
        size = path.stat().st_size
        words = f" {size / 1e6:.1f} MB" if size >= 1e6 else f" {max(size / 1e3, 0.1):.1f} kB"
        link = element("a", path.name, href=f"{relative(run, page)}/{path.name}")
        items.append(element("li", link, element("span", words, class_="note")))
    return element("ul", *items, class_="files")


def provenance(results: Results) -> Iterator[Markup]:
    """Where a run's numbers come from: site, hosts, versions, tuning, plan, seed, times."""
    yield definitions(dict(_facts(results)).items())
    yield from _host_tables(headers(results))
    recorded = conditions(results)
    if recorded is not None:
        text = json.dumps(recorded, indent=1, ensure_ascii=False, sort_keys=True)
        yield details("Recorded conditions", element("pre", text))
        yield from _unlike(recorded)
    order = [trial.trial for trial in results.trials]
    yield details(f"{counted(len(order), 'trial')} in the plan's order", element("p", ", ".join(order)))


def _host_tables(of_hosts: Headers) -> Iterator[Markup]:
    """A column for the hosts of a kind, since settings are many; first what all of them have alike."""
    keys = list(dict.fromkeys(key for host in of_hosts.values() for key in host))
    columns: dict[tuple[str, ...], tuple[list[str], list[Markup | str]]] = {}
    for host, settings in of_hosts.items():
        cells = [_value(settings.get(key, [])) for key in keys]
        columns.setdefault(tuple(map(str, cells)), ([], cells))[0].append(host)
    for start in range(0, len(columns), KINDS):
        part = list(columns.values())[start : start + KINDS]
        rows = [[key, *(cells[number] for _, cells in part)] for number, key in enumerate(keys)]
        heads: list[Markup | str] = [""]
        for hosts, _ in part:
            names = (joined(host.split("."), Markup(".<wbr>")) for host in abridged(hosts))
            heads.append(joined(names, ", "))
        caption = (
            "Hosts and tuning, as their samplers found them; “then” parts values that changed between trials. Hosts"
            " alike share a column."
        )
        yield table(heads, rows, words=1 + len(part), caption=caption if not start else None)


def _unlike(recorded: Any) -> Iterator[Markup]:
    """Which trials' hosts were not as in most of the run; that other workers got the clients is no difference."""
    differing = recorded.get("differences") if isinstance(recorded, dict) else None
    if differing is None:
        return
    if not differing:
        yield element("p", "No host had other conditions in one trial than in the others.")
        return
    words = f"{counted(len(differing), 'trial')} had hosts with other conditions than in most trials: "
    yield element("p", words, listed(abridged(list(differing))), ".")


def _facts(results: Results) -> Iterator[tuple[str, Any]]:
    plan, site, experiment = results.plan, results.site, results.experiment
    scale = float(plan.get("scale") or 1)
    yield "site", f"{plan.get('site')}: {site.get('description') or 'no description'}"
    if scale != 1:
        yield "scale", f"{scale:g} of the real site’s rates"
    yield "experiment", plan.get("experiment")
    ended = [trial.end_wall_ns for trial in results.trials if trial.end_wall_ns]
    if (began := began_at(results)) and ended:
        yield "measured", f"{began} to {moment(max(ended))}"
    yield "seed", plan.get("seed")
    repeats = experiment.get("repeats")
    if isinstance(repeats, dict):  # the rule by which it was decided how often
        repeats = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in repeats.items() if value is not None)
    yield "repetitions", NOTHING if repeats is None else repeats
    yield "sampling period", f"{experiment['sample_period_s']:g} s" if "sample_period_s" in experiment else NOTHING
    yield "clients started", listed(results.trials_have("started")) or NOTHING
    yield "clients placed", listed(results.trials_have("placed")) or NOTHING
    strategy = (site.get("flush") or {}).get("strategy", NOTHING)
    yield "caches flushed", f"yes, by {strategy}" if experiment.get("flush") else "no"
    for pool, workers in (plan.get("pools") or {}).items():
        yield f"pool {pool}", listed(list(workers)) or NOTHING
    for replicas in plan.get("replicas") or []:
        size = f"{replicas['nominal_bytes'] / 1e6:g} MB"
        yield f"replicas {replicas['name']}", f"{replicas['count']} files of about {size} in {replicas['directory']}"
    for access, offer in (site.get("access") or {}).items():
        if access in results.accesses:
            by = f"({offer.get('protocol')}, pool {offer.get('pool')})"
            yield f"access {access}", f"{offer.get('description') or ''} {by}"
    yield "tables", f"schema version {results.schema_version or NOTHING}"
    yield "report by", f"tierbench {tierbench.version()}"


def _value(values: list[str]) -> Markup | str:
    if len(values) > 1:
        return element("b", joined(values, " then "))
    return values[0] if values else NOTHING


def relative(target: Path, page: Path) -> str:
    """A link from the page, with what a URL would misunderstand quoted."""
    return quote(os.path.relpath(target.resolve(), page.parent.resolve()))  # a page takes a link's place


def _with_links(parts: Sections) -> Iterator[Markup]:
    """The parts that have content, after a line of links to them."""
    sections = [(name, heading, content) for name, heading, pieces in parts if (content := [*filter(None, pieces)])]
    yield element("nav", *(element("a", heading, href=f"#{name}") for name, heading, _ in sections))
    for name, heading, content in sections:
        yield element("section", element("h2", heading), joined(content, "\n"), id=name)


def document(title: str, top: Sequence[Markup], parts: Sections | None = None) -> str:
    """A page that needs nothing but itself, with the figures' colours for light and for dark."""
    body = [*top, *_with_links(parts)] if parts else top
    style = (resources.files("tierbench.postprocess.report") / "report.css").read_text(encoding="utf-8")
    style = style.replace("/* light */", "".join(f"{look.variable}:{look.color};" for look in LOOKS))
    style = style.replace("/* dark */", "".join(f"{look.variable}:{look.on_dark};" for look in LOOKS))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    )
    page = element("html", head, "\n", element("body", element("main", joined(body, "\n"))), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"
