"""What papers found lies beside their experiments, and stands in the report beside what was measured here."""

import dataclasses

import pytest

from tests.unit.report_page import BARE, Page, results_of, silent
from tests.unit.synthetic_report import edit_csv, write_run
from tests.unit.synthetic_run import edit_json
from tierbench.dags.claims import Claim, read_claims, reference_of
from tierbench.dags.experiment import SHIPPED, find_experiment, load_experiment, shipped_experiments
from tierbench.errors import ConfigError
from tierbench.postprocess.compare.claims import claims_of, findings
from tierbench.postprocess.plots import canvas
from tierbench.postprocess.report.papers import papers_picture, papers_table
from tierbench.postprocess.schema.rows import COMPARED, SUMMARISED
from tierbench.postprocess.tables.load_run import read_results
from tierbench.submit.planning import asked_experiment

REFERENCES = [name for name in shipped_experiments() if reference_of(SHIPPED / f"{name}.toml").is_file()]
BASE = {
    "says": "it is so", "kind": "faster", "source": "Table 1", "paper": "A paper",
    "metric": "delivered_mbps", "unit": "Mb/s",
    "at": {"workload": "root", "jobs": "most", "access": "direct"}, "factor": "access", "against": "lan-xrootd",
    "values": [800.0, 200.0],
}  # fmt: skip


VALUE = {"factor": None, "against": None}  # a claim about a single value
EXPECTED = {"where": {"access": "direct", "jobs": "most"}, "bottleneck": ["storage", "WAN link"]}


def claiming(run, *claims, **others):
    edit_json(write_run(run, BARE) / "experiment.json", claims=claims, **others)
    return run


def shown(run):
    """What stands on the page against the papers, from a claim's answer on."""
    return Page("".join(papers_table(read_results(run, silent)))).text.partition("it is so")[2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "reproduced"),
        ({"kind": "slower", "values": [200.0, 800.0]}, "contradicted"),
        ({"kind": "at_least", "values": [180.0, 100.0]}, "reproduced"),
        ({"kind": "at_least", "values": [300.0, 100.0]}, "contradicted"),
        ({"kind": "value", "values": [210.0, 100.0], "within_pct": 20}, "reproduced"),
        ({"kind": "value", "values": [300.0, 100.0], "within_pct": 20}, "contradicted"),
        ({"kind": "equal", "values": [210.0, 100.0], "within_pct": 20}, "contradicted"),
        ({"kind": "value", **VALUE, "values": [250.0], "within_pct": 20}, "reproduced"),
        ({"kind": "value", **VALUE, "values": [400.0], "within_pct": 20}, "contradicted"),
        ({"kind": "at_least", **VALUE, "values": [200.0]}, "reproduced"),
        ({"at": {**BASE["at"], "jobs": 64}}, "not tested"),  # type: ignore[dict-item]
        ({"metric": "wall_time_s"}, "not tested"),
        (
            {"kind": "at_least", **VALUE, "values": [200.0], "at": {"access": "direct"}},
            "its point (at) leaves jobs open",
        ),
        ({"at": {"access": "direct"}}, "its point (at) leaves jobs open"),
        ({"factor": "jobs", "against": "least"}, "reproduced"),
        ({"kind": None}, "reproduced"),  # of a run from before claims had kinds
        ({"kind": None, "values": [200.0, 800.0]}, "contradicted"),
        ({"kind": None, "values": [1.0, 1.0]}, "contradicted"),
    ],
)
def test_a_finding_is_answered_by_our_interval(tmp_path, changes, words):
    assert words in shown(claiming(tmp_path / "run", {**BASE, **changes})).split("A paper")[0]


def test_a_claim_has_the_same_interval_beside_others(tmp_path):
    mean = {**BASE, **VALUE, "kind": "at_least", "values": [200.0]}
    both = findings(read_results(claiming(tmp_path / "both", BASE, mean), silent))
    alone = [findings(read_results(claiming(tmp_path / str(n), c), silent)) for n, c in enumerate((BASE, mean))]
    assert [finding.ours for finding in both] == [finding.ours for [finding] in alone]
    assert all(finding.ours.interval for finding in both)


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ({}, "reproduced"),
        ({"bottleneck": ["worker NIC"]}, "not tested"),
        ({"bottleneck": ["worker NIC"], "where": {"access": "lan-xrootd"}}, "not tested"),  # what it is compared with
        ({"bottleneck": ["worker NIC"], "where": {"jobs": "least"}}, "reproduced"),  # another point
    ],
)
def test_a_claim_where_another_ceiling_was_hit_is_not_tested(tmp_path, expected, answer):
    run = claiming(tmp_path / "run", BASE, expects=[{**EXPECTED, **expected}])
    edit_csv(run / "trials.csv", bottleneck="storage")
    text = shown(run)
    assert answer in text
    assert ("was limited by storage, not by worker NIC" in text) == (answer == "not tested")
    assert "What was to limit each point, and what did" in text


def variant_of(name, folder, more=""):
    path = folder / "mine.toml"
    path.write_text(f'extends = "{name}"\nname = "mine"\n{more}')
    return path


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('kind = "faster"\nwithin_pct = 5', "within_pct: kind .faster. has none"),
        ('kind = "equal"', "within_pct: missing"),
        ('kind = "value"\nwithin_pct = 5', "values: must be two numbers above 0"),
        ('kind = "faster"\nat = { workload = "root" }', "needs at.access, and against"),
        ('kind = "fastest"', "did you mean .faster."),
        ('kind = "faster"\nvalues = [100, 400]', "its own values are not faster"),
        ('kind = "faster"\nmetric = "delivered_mpbs"', "did you mean .delivered_mbps."),
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(tmp_path, lines, complaint):
    path = variant_of("quick", tmp_path)
    metric = "" if "metric" in lines else 'metric = "delivered_mbps"'
    at = "" if "\nat =" in lines else 'at = { workload = "root", access = "direct" }\n'
    rest = f'factor = "access"\n{at}against = "lan-xrootd"'
    reference_of(path).write_text(f'[[claims]]\nsays = "s"\n{lines}\n{metric}\n{rest}')
    with pytest.raises(ConfigError, match=complaint):
        asked_experiment(str(path))


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ('where.acces = "direct"', r'expects\[0\]\.where\.acces: there is no "acces" \(did you mean "access"'),
        ('where.access = "dirct"', r'there is no "dirct" \(did you mean "direct"'),
        ('where.jobs = "mosst"', r'there is no "mosst" \(did you mean "most"'),
        ('bottleneck = ["WAN lnk"]', r'expects\[0\]\.bottleneck: there is no "WAN lnk" \(did you mean "WAN link"'),
    ],
)
def test_an_expected_bottleneck_that_cannot_be_is_refused(tmp_path, wrong, complaint):
    rest = 'where.access = ["direct"]' if "bottleneck" in wrong else 'bottleneck = ["storage"]'
    path = variant_of("quick", tmp_path, f"[[expects]]\n{wrong}\n{rest}\n")
    with pytest.raises(ConfigError, match=complaint):
        asked_experiment(str(path))


def test_a_papers_shape_stands_beside_ours(tmp_path):
    with canvas.style():
        [picture] = papers_picture(read_results(claiming(tmp_path / "run", BASE), silent))
    axes = picture.figure.axes[0]
    [theirs] = [line for line in axes.lines if line.get_gid() == "paper"]
    [ours] = axes.containers
    assert (theirs.get_xdata()[0], ours.lines[0].get_xdata()[0]) == (4.0, pytest.approx(2.0, rel=0.01))
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize(
    ("by_valid", "verdict", "words"),
    [
        ({"valid_ratio": 1.9, "valid_low": 1.7, "valid_high": 2.1, "valid_pairs": 2}, "reproduced", "1.90 (1.70–2.10)"),
        ({"valid_ratio": 1.9, "valid_low": 0.7, "valid_high": 5, "valid_pairs": 2}, "inconclusive", "1.90 (0.70–5.00)"),
        ({"valid_ratio": 1.9, "valid_pairs": 1}, "inconclusive", "1.90, a single one"),
        ({"valid_pairs": 0}, "inconclusive", "no VALID trials to pair"),
        ({"valid_pairs": 3}, "reproduced", "2.00 (1.98–2.02)"),
    ],
)
def test_what_rests_on_suspect_trials_holds_only_if_the_valid_ones_say_so_too(tmp_path, by_valid, verdict, words):
    run = claiming(tmp_path / "run", BASE)
    edit_csv(run / "ratios.csv", **by_valid)
    row = shown(run)
    assert verdict in row
    assert words in row


def test_the_page_has_no_such_part_where_there_is_no_paper(tmp_path):
    assert list(papers_table(results_of(tmp_path / "run", BARE))) == []


@pytest.mark.parametrize("name", REFERENCES)
def test_what_ships_is_about_what_is_compared_in_its_experiment(name):
    experiment = find_experiment(name)
    for claim in experiment.claims:
        assert claim.metric in (COMPARED if claim.factor else SUMMARISED)
        if claim.factor == "pair":
            assert {claim.at["pair"], claim.against} <= {f"{use.access}/{use.name}" for use in experiment.uses()}
            continue
        workload = claim.at.get("workload", next(iter(experiment.workloads)))
        accesses = experiment.access_of(workload)
        assert claim.at["access"] in accesses
        assert claim.factor != "access" or claim.against in accesses


def test_there_are_references_for_the_papers_whose_experiments_ship_and_variants_have_their_own():
    extenci = ("instances", "stacked", "flavours", "local-input", "pools")
    ani = ("gridftp", "globus", "srm", "srm-redirector")
    papers = {"chep-2013", "kaganas-2014", *(f"extenci-{name}" for name in extenci), *(f"ani-{name}" for name in ani)}
    assert set(REFERENCES) >= papers
    claims = find_experiment("extenci-flavours-scaled").claims
    assert {claim.at["access"] for claim in claims} == {"nfs", "nfs-near"}


def test_equality_in_older_runs_is_not_decided_by_the_last_bit():
    older = {**BASE, "kind": None, "values": [0.6, 0.2], "levels": [6, 2]}
    [claim] = claims_of({"claims": [older]})
    assert claim.kind == "equal"


@pytest.mark.parametrize(
    ("kind", "values", "low", "high", "verdict"),
    [
        ("equal", (1.1, 1), 0.95, 1.04, "reproduced"),  # where the paper saw none, there is no difference to speak of
        ("equal", (1.1, 1), 0.85, 0.97, "inconclusive"),
        ("equal", (1.1, 1), 0.95, 1.4, "inconclusive"),
        ("equal", (1.1, 1), 0.4, 0.8, "contradicted"),
        ("faster", (2, 1), 0.9, 1.04, "contradicted"),
        ("faster", (2, 1), 0.9, 1.06, "inconclusive"),
        ("faster", (), 0.9, 1.04, "contradicted"),
        ("faster", (1.04, 1), 0.9, 1.01, "contradicted"),
        ("faster", (1.04, 1), 0.9, 1.03, "inconclusive"),
        ("faster", (2, 1), 1.01, 1.04, "contradicted"),
        ("faster", (2, 1), 1.01, 1.06, "reproduced"),
        ("faster", (1.04, 1), 1.01, 1.03, "reproduced"),
        ("slower", (1, 2), 0.96, 1.3, "contradicted"),
        ("slower", (1, 2), 0.94, 1.3, "inconclusive"),
        ("slower", (), 0.9, 0.99, "reproduced"),
        ("slower", (1, 2), 0.0, 0.9, "reproduced"),
        ("at_least", (2, 1), 2.0, 2.1, "reproduced"),
        ("at_least", (2, 1), 1.9, 2.1, "inconclusive"),
    ],
)
def test_a_direction_is_contradicted_by_what_leaves_nothing_to_speak_of_too(kind, values, low, high, verdict):
    claim = Claim(**{**BASE, "kind": kind, "values": values, "within_pct": 10 if kind == "equal" else None})  # type: ignore[arg-type]
    less = {"faster": "slower", "slower": "faster"}.get(kind, kind)
    assert claim.result(low, high) == dataclasses.replace(claim, kind=less).result(low, high, "less") == verdict


def test_a_variant_is_held_to_the_paper_of_what_it_extends_and_a_claim_keeps_all_that_it_says(tmp_path):
    path = variant_of("kaganas-2014-scaled", tmp_path)
    assert load_experiment(path).claims == find_experiment("kaganas-2014").claims != ()
    first = find_experiment("kaganas-2014").claims[0]
    assert isinstance(first, Claim)
    assert (first.values, first.unit, first.at["jobs"]) == ((4582, 772), "Mb/s", "most")
    assert "Kaganas" in first.paper


def test_a_claim_says_only_what_differs_from_the_defaults_and_what_is_wrong_there_is_named(tmp_path):
    path = tmp_path / "mine.toml"
    beside = path.with_suffix(".reference.toml")
    defaults = (
        '[defaults]\nkind = "faster"\nmetric = "delivered_mbps"\nfactor = "a"\nagainst = 1\nat = { a = 2, b = 3 }\n'
    )
    beside.write_text(
        f'{defaults}[[claims]]\nsays = "first"\n[[claims]]\nsays = "second"\nkind = "slower"\nat = {{ b = 4 }}\n'
    )
    first, second = read_claims([path])
    assert (first.kind, first.at, second.kind, second.at) == ("faster", {"a": 2, "b": 3}, "slower", {"a": 2, "b": 4})
    beside.write_text(f'{defaults}[[claims]]\nsays = "by {{a}}, {{b}}"\nat = {{ a = [true, 0.5], b = [3, "c"] }}\n')
    assert [(claim.says, *claim.at.values()) for claim in read_claims([path])] == [
        ("by yes, 3", True, 3), ("by yes, c", True, "c"), ("by 0.5, 3", 0.5, 3), ("by 0.5, c", 0.5, "c"),
    ]  # fmt: skip
    for at, says in (("a = [1, 2]", "of {b}"), ("a = []", "of {a}")):
        beside.write_text(f'{defaults}[[claims]]\nsays = "{says}"\nat = {{ {at} }}\n')
        with pytest.raises(ConfigError, match=r"claims\[0\]\.says: needs {a}, for each level of at\.a is a claim"):
            read_claims([path])
    beside.write_text(f"claims = [7]\n{defaults.replace('metric', 'metrics')}")
    with pytest.raises(ConfigError, match=r"claims\[0\]: must be a table, not 7"):
        read_claims([path])
    beside.write_text(f'{defaults.replace("metric", "metrics")}[[claims]]\nsays = "first"\n')
    with pytest.raises(ConfigError, match=r"claims\[0\].metrics: unknown key.*metric"):
        read_claims([path])
