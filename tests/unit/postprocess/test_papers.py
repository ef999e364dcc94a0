"""What papers found lies beside their experiments, and stands in the report beside what was measured here."""

import dataclasses
import json
from pathlib import Path

import pytest

from tests.unit.report_page import Page
from tests.unit.synthetic_report import Shape, read_csv, write_csv, write_run
from tierbench.dags.claims import Claim, reference_of
from tierbench.dags.experiment import SHIPPED, find_experiment, load_experiment, shipped_experiments
from tierbench.errors import ConfigError
from tierbench.postprocess.plots import canvas
from tierbench.postprocess.report.papers import judged, papers_picture, papers_table
from tierbench.postprocess.schema.rows import COMPARED
from tierbench.postprocess.tables.load_run import read_results

REFERENCES = [name for name in shipped_experiments() if reference_of(SHIPPED / f"{name}.toml").is_file()]
BASE: dict[str, object] = {
    "says": "it is so", "source": "Table 1", "metric": "delivered_mbps", "unit": "Mb/s", "paper": "A paper",
    "at": {"workload": "root", "jobs": "most", "access": "direct"}, "factor": "access", "against": "lan-xrootd",
    "values": [800.0, 200.0],
}  # fmt: skip


def silent(_words: str) -> None:
    pass


def told(run: Path, shape: Shape, **changes: object) -> str:
    write_run(run, shape)
    path = run / "experiment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "claims": [{**BASE, **changes}]}))
    page = Page("".join(papers_table(read_results(run, silent))))
    assert page.open == []
    return page.text


SHAPE = Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, batches=(4, 8), samples=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "holds here"),
        ({"values": [200.0, 800.0]}, "does not hold here"),
        ({"at": {**BASE["at"], "jobs": 64}}, "not measured"),  # type: ignore[dict-item]
        ({"metric": "wall_time_s"}, "not measured"),
        ({"factor": "jobs", "against": "least"}, "holds here"),
    ],
)
def test_a_finding_holds_if_our_interval_is_on_its_side(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    text = told(tmp_path / "run", SHAPE, **changes)
    assert words in text
    assert "A paper" in text


def test_a_papers_shape_stands_beside_ours(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", SHAPE)
    path = run / "experiment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "claims": [BASE]}))
    with canvas.style():
        [picture] = papers_picture(read_results(run, silent))
    axes = picture.figure.axes[0]
    [theirs] = [line for line in axes.lines if line.get_gid() == "paper"]
    [ours] = axes.containers
    assert (theirs.get_xdata()[0], ours.lines[0].get_xdata()[0]) == (4.0, pytest.approx(2.0, rel=0.01))
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize(
    ("by_valid", "verdict", "words"),
    [
        ({"valid_ratio": 1.9, "valid_low": 1.7, "valid_high": 2.1, "valid_pairs": 2}, "holds here", "1.90 (1.70–2.10)"),
        (
            {"valid_ratio": 1.9, "valid_low": 0.7, "valid_high": 5.1, "valid_pairs": 2},
            "cannot tell",
            "1.90 (0.70–5.10)",
        ),
        ({"valid_ratio": 1.9, "valid_pairs": 1}, "cannot tell", "1.90, a single pair"),
        ({"valid_pairs": 0}, "cannot tell", "no pair of VALID trials"),
        ({"valid_pairs": 3}, "holds here", "2.00"),
    ],
)
def test_what_rests_on_suspect_trials_holds_only_if_the_valid_ones_say_so_too(
    tmp_path: Path, by_valid: dict[str, float], verdict: str, words: str
) -> None:
    run = write_run(tmp_path / "run", SHAPE)
    path = run / "experiment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "claims": [BASE]}))
    write_csv(run / "ratios.csv", [{**row, **by_valid} for row in read_csv(run / "ratios.csv")])
    [row] = list(Page("".join(papers_table(read_results(run, silent)))).text.split("Table 1"))[1:]
    assert verdict in row
    assert words in row


def test_an_interval_around_one_cannot_tell(tmp_path: Path) -> None:
    text = told(tmp_path / "run", dataclasses.replace(SHAPE, rates={"direct": 201.0, "lan-xrootd": 200.0}))
    assert "cannot tell" in text
    assert "0.99–1.02" in text or "0.98–1.03" in text or "0.99–1.03" in text


def test_the_page_has_no_such_part_where_there_is_no_paper(tmp_path: Path) -> None:
    assert list(papers_table(read_results(write_run(tmp_path / "run", SHAPE), silent))) == []


@pytest.mark.parametrize("name", REFERENCES)
def test_what_ships_is_about_what_is_compared_in_its_experiment(name: str) -> None:
    experiment = find_experiment(name)
    for claim in experiment.claims:
        assert claim.metric in COMPARED
        assert claim.at["workload"] in experiment.workloads
        ways = experiment.access_of(claim.at["workload"])
        assert claim.at["access"] in ways
        assert claim.factor != "access" or claim.against in ways


def test_there_are_references_for_the_papers_whose_experiments_ship() -> None:
    papers = {
        "chep-2013",
        "kaganas-2014",
        "extenci-instances",
        "extenci-stacked",
        "extenci-flavours",
        "extenci-local-input",
        "extenci-pools",
        "ani-gridftp",
        "ani-globus",
        "ani-srm",
        "ani-srm-redirector",
    }
    assert set(REFERENCES) >= papers


def test_a_variant_with_findings_of_its_own_is_held_to_those_alone() -> None:
    claims = find_experiment("extenci-flavours-scaled").claims
    assert {claim.at["access"] for claim in claims} == {"nfs", "nfs-near"}


def test_equality_is_not_decided_by_the_last_bit():
    assert judged(Claim(**{**BASE, "values": (0.6, 0.2), "levels": (6.0, 2.0)}), 0.97, 1.02) == "holds here"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.95, 1.04, "holds here"),
        (0.85, 0.97, "cannot tell"),
        (0.95, 1.4, "cannot tell"),
        (0.4, 0.8, "does not hold here"),
    ],
)
def test_where_the_paper_saw_no_difference_there_must_be_none_to_speak_of(
    low: float, high: float, verdict: str
) -> None:
    assert judged(Claim(**{**BASE, "values": (1, 1)}), low, high) == verdict


def test_a_variant_is_held_to_the_paper_of_what_it_extends(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "kaganas-2014-scaled"\nname = "mine"\n')
    assert load_experiment(path).claims == find_experiment("kaganas-2014").claims != ()


def test_a_claim_of_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "quick"\nname = "mine"\n')
    lines = [f"{key} = {json.dumps(value)}" for key, value in BASE.items() if key not in ("at", "paper", "values")]
    text = "\n".join(['paper = "p"', "[[claims]]", *lines, 'at = { workload = "root" }', "values = [1, 2]"])
    reference_of(path).write_text(text)
    with pytest.raises(ConfigError, match=r"mine\.reference\.toml: claims\[0\]: needs its factor"):
        load_experiment(path)


def test_a_claim_keeps_all_that_it_says() -> None:
    first = find_experiment("kaganas-2014").claims[0]
    assert isinstance(first, Claim)
    assert (first.values, first.unit, first.at["jobs"]) == ((4582, 772), "Mb/s", "most")
    assert "Kaganas" in first.paper
