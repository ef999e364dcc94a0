"""The page holds every trial, claims what the trials can bear, and needs nothing but itself."""

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.report_page import BARE, SMALL, Page, results_of, silent
from tests.unit.synthetic_report import Shape, read_csv, write_run
from tests.unit.synthetic_run import edit_json
from tierbench import names
from tierbench.postprocess.compare.differences import differences
from tierbench.postprocess.measures.over_time import HostSeries, TimeSeries, busiest
from tierbench.postprocess.report.markup import element, table
from tierbench.postprocess.report.page import provenance
from tierbench.postprocess.report.trials import steps_of
from tierbench.postprocess.report.write import run_report
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.wording import abridged

IMAGE = "<img src=x onerror=alert(1)>\"'&$\\frac$_^"
HOSTILE = "<script>alert('&amp;')</script>\"x"


def make(run, shape=SMALL):
    path = run_report(write_run(run, shape), None, silent)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    verdicts = {
        "direct.root.x008.r1": ("INVALID", "background of 12 Mb/s"),
        "direct.root.x004.r2": ("SUSPECT", "2 gaps"),
    }
    folder = tmp_path_factory.mktemp("report") / "run"
    make(folder, replace(SMALL, verdicts=verdicts, workloads=("root", "higgs")))
    return folder


@pytest.fixture(scope="module")
def text(run):
    return (run / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_nothing_is_loaded_from_anywhere_ids_are_unique_and_all_references_lead_somewhere(page, text):
    assert page.loads == []
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert len(set(page.ids)) == len(page.ids)
    assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', text)) <= set(page.ids)


def test_every_trial_is_on_the_page_with_verdict_course_and_bottleneck_and_links_lead_to_files(run, page, text):
    trials = read_csv(run / "trials.csv")
    for words, trial in zip(map(" ".join, page.trials), trials, strict=True):
        assert [part for part in ("trial", "verdict", "verdict_reasons") if trial[part] not in words] == []
    assert text.count('class="chart"') == len(trials)
    assert "that its link carries" in text
    targets = [link for link in page.links if not link.startswith("#")]
    assert {"./trials.csv", "./summary.csv", "./ratios.csv", "plots/rate.all.png", "plots/rate.all.svg"} <= set(targets)
    assert all((run / target).is_file() for target in targets)


def test_the_page_says_where_its_numbers_come_from_where_hosts_alike_share_a_column(page, run):
    facts = ("seed", "7", "sampling period", "schema version", "tierbench", "/synthetic/tree-abcdef")
    assert [fact for fact in (*facts, "A scale model, 1:10.") if fact not in page.text] == []
    assert "Nothing here was ever measured." in page.text.partition("more figures")[0]
    told = "".join(provenance(read_results(run, silent)))
    assert re.search(r"<td[^>]*>kernel</td>", told)
    assert "dgt.<wbr>fiu.<wbr>test" in told


def test_the_first_screen_is_the_answer_most_figures_are_folded_and_no_table_is_wider_than_a_printed_page(text):
    first = text.partition("<nav>")[0]
    order = [first.index(piece) for piece in ("<h1>", 'class="verdicts"', 'class="answer', 'id="figure-rate.all"')]
    assert order == sorted(order)
    assert first.count("<svg") == 1
    shown, _, folded = text.partition('<details class="fold"')
    assert len(re.findall('id="figure-[^"]*"', shown)) <= 4
    assert 'id="figure-amplification.all"' in folded
    assert len(re.findall('id="figure-[^"]*"', text)) < 16
    widest = max(table.count("<th") for table in re.findall("<thead>.*?</thead>", text, flags=re.S))
    assert widest <= 18


def test_a_run_without_samples_has_a_page_and_one_elsewhere_links_back_to_the_run(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/mine.html").symlink_to(tmp_path / "other/old.html")  # whose place it takes
    path = run_report(write_run(tmp_path / "run", BARE), tmp_path / "pages/mine.html", silent)
    page = Page(path.read_text(encoding="utf-8"))
    assert len(page.trials) == 12
    links = [link for link in page.links if not link.startswith("#")]
    assert "mine-plots/rate.root.png" in links
    assert all((path.parent / link).is_file() for link in links)


def test_of_many_hosts_the_busiest_are_drawn_a_long_list_is_cut_and_charts_of_many_trials_have_fewer_steps():
    edges = np.arange(3.0)
    rates = {"oss": ("storage", 1.0), **{f"wn{number}": ("worker", float(number)) for number in range(20)}}
    hosts = [HostSeries(host, role, TimeSeries(edges, np.full(2, rate))) for host, (role, rate) in rates.items()]
    assert [host.host for host in busiest(hosts, 3)] == ["oss", "wn19", "wn18", "wn17"]
    assert abridged([str(number) for number in range(20)], 2) == ["0", "1", "18 more"]
    assert steps_of(24) == steps_of(200) == 160
    assert steps_of(400) == 80
    assert steps_of(1000) == steps_of(5000) == 32


def test_a_hundred_trials_stay_small(tmp_path):
    page = make(tmp_path / "run", Shape(batches=(32, 64, 96, 128, 160, 192), repeats=5))
    assert len(Page(page).trials) == 120
    assert len(page.encode()) < 2_000_000


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (HOSTILE, {"rates": {"direct": 400.0}, "question": HOSTILE, "site": HOSTILE}),
        (IMAGE, {"rates": {IMAGE: 400.0, "direct": 200.0}}),
    ],
)
def test_hostile_names_of_another_run_are_shown_and_do_nothing(tmp_path, name, shape):
    text = make(tmp_path / "run", Shape(batches=(4, 8), repeats=2, **shape))
    page = Page(text)
    assert page.loads == []
    assert name in page.text
    assert "<script" not in text
    assert "<img" not in text


def test_elements_escape_what_is_not_markup_and_show_what_cannot_be_seen():
    assert element("p", "a\x1b[2J\u202eb\n") == "<p>a\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}b\n</p>"
    made = element("p", HOSTILE, title=HOSTILE)
    assert html.unescape(made) == f'<p title="{HOSTILE}">{HOSTILE}</p>'
    assert "<script" not in made
    assert "<script" not in table([HOSTILE], [[HOSTILE]], caption=HOSTILE)


def test_a_run_without_the_newer_columns_has_a_page(tmp_path):
    page = Page(make(tmp_path / "run", replace(SMALL, plain=True)))
    assert len(page.trials) == 12
    assert [word for word in ("not judged", "the run has no ratios") if word not in page.text] == []


def test_a_digest_of_conditions_parts_no_runs(tmp_path):
    run = results_of(tmp_path / "run", BARE)
    changed = [replace(trial, conditions="ffffffff") for trial in run.trials]
    assert differences(run, replace(run, trials=changed)) == []


@pytest.mark.parametrize(("found", "words"), [({}, "No host had other conditions"), ({"t #1": ["mtu"]}, "t #1")])
def test_only_measured_differences_of_conditions_are_told(tmp_path, found, words):
    run = write_run(tmp_path / "run", BARE)
    (run / names.CONDITIONS).write_text(json.dumps({"differences": found}))
    assert words in re.sub("<details>.*?</details>", "", "".join(provenance(read_results(run, silent))), flags=re.S)


def test_the_rule_by_which_trials_were_repeated_is_told_without_what_it_does_not_say(tmp_path):
    run = write_run(tmp_path / "run", BARE)
    edit_json(run / "experiment.json", repeats={"within_pct": None, "until": "answered", "at_least": 3})
    assert "<dd>until answered, at least 3</dd>" in "".join(provenance(read_results(run, silent)))
