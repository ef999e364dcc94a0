"""What an answer says where the trials behind it are doubted, or missing: the sentence itself, wherever it is read."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from tests.unit.report_page import results_of
from tests.unit.synthetic_report import Shape
from tierbench.dags.claims import NOT_TESTED
from tierbench.dags.levels import Factor, Layout, Scaling
from tierbench.postprocess.compare import judgement
from tierbench.postprocess.compare.claims import findings
from tierbench.postprocess.compare.judgement import EQUIVALENT, INCONCLUSIVE, SLOWER, changes, compare_runs
from tierbench.postprocess.compare.points import points
from tierbench.postprocess.report.answer import answers
from tierbench.postprocess.report.compare import comparison_page
from tierbench.postprocess.report.grid import grid_rows
from tierbench.postprocess.report.notes import round_trips
from tierbench.postprocess.schema.rows import RATE, TrialRow
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.load_run import Results
from tierbench.postprocess.tables.run_tables import ratio_rows, saturation_rows, scaling_rows, summary_rows

REPEATS = (0.99, 1.0, 1.01)
NBSP = "\N{NO-BREAK SPACE}"
HALVED = (0.5, 1.0, 1.01)  # in its first repetition everything was slow


def results(rates, verdicts, along="", repeats=REPEATS):
    """Repetitions of each access method and number of jobs, all or each with a verdict, and the tables that follow."""
    rows = [
        TrialRow(
            trial=f"{access} {jobs} {repeat}", configuration=f"{access}/root", repeat=repeat, position=repeat,
            levels={"access": access, "workload": "root", "jobs": jobs}, delivered_mbps=rate * factor,
            started="together", state="complete", direction="sent", jobs_ok=jobs,
            verdict=verdicts.get(f"{access} {jobs} {repeat}", verdicts.get(f"{access} {jobs}", "VALID")),
        )
        for (access, jobs), rate in rates.items()
        for repeat, factor in enumerate(repeats, 1)
    ]  # fmt: skip
    accesses, batches = (tuple(dict.fromkeys(levels)) for levels in zip(*rates, strict=True))
    factors = [Factor("access", accesses), Factor("workload", ("root",)), Factor("jobs", batches)]
    summary, ratios = summary_rows(rows), ratio_rows(rows)
    asked = Scaling(along=along) if along else None
    return Results(
        directory=Path(), plan={}, site={}, experiment={}, schema_version=None, trials=rows, summary=summary,
        ratios=ratios, scaling=scaling_rows(asked, summary, ratios), saturations=[], resources=[],
        ceilings={}, factors={factor.name: factor for factor in factors},
        layout=Layout("access", "jobs", ("workload",), "", ""),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ({"lan 8": "SUSPECT"}, "That rests on SUSPECT trials. By VALID trials alone: direct against lan not compared"
                               " (no repetition has both VALID)."),
        ({"direct 8": "INVALID"}, "No usable trial of direct: 3 trials INVALID."),
        ({"direct 8": "INVALID"}, "lan is the fastest access method with usable trials"),
    ],
)  # fmt: skip
def test_an_answer_that_rests_on_suspect_trials_or_lacks_a_method_says_so_itself(verdicts, words):
    [said] = answers(results({("direct", 8): 100.0, ("lan", 8): 80.0, ("wan", 8): 60.0}, verdicts))
    assert not said.clear
    assert words in said.sentence


def test_points_of_which_nothing_is_usable_are_no_points_of_a_clear_answer():
    rates = {(access, jobs): rate for jobs in (4, 8, 16) for access, rate in (("direct", 100.0), ("lan", 80.0))}
    overall = {bad: answers(results(rates, {bad: "INVALID"} if bad else {}))[0] for bad in ("", "lan 16")}
    assert [said.clear for said in overall.values()] == [True, False]
    assert "fastest access method at all 3 points: " in overall[""].sentence
    assert "fastest access method at all 2 points with usable trials of several: " in overall["lan 16"].sentence


def test_a_method_that_was_not_planned_at_that_batch_is_not_missing():
    rates = {("direct", 4): 90.0, ("direct", 8): 100.0, ("lan", 4): 70.0, ("lan", 8): 80.0, ("wan", 4): 60.0}
    assert not any("No usable trial" in said.sentence for said in answers(results(rates, {})))


def test_of_many_points_that_rest_on_suspect_trials_none_is_left_unsaid():
    jobs = (1, 2, 4, 8, 16)
    rates = {(way, number): 90.0 + (way == "direct") for number in jobs for way in ("direct", "lan")}
    overall, *_ = answers(results(rates, {f"lan {number}": "SUSPECT" for number in jobs}))
    assert re.search(r"Some results at .* and 2 more points rest on SUSPECT trials", overall.sentence)


@pytest.mark.parametrize("suspect", [False, True])
def test_equivalence_that_suspect_trials_alone_show_is_said_to_be_theirs(suspect):
    verdicts = {"lan 4": "SUSPECT", "lan 8": "SUSPECT"} if suspect else {}
    made = results({("direct", 4): 90.0, ("lan", 4): 89.0, ("direct", 8): 100.0, ("lan", 8): 99.0}, verdicts)
    overall, said = answers(made)
    assert f"equivalent within 5{NBSP}% to lan" in said.sentence
    alone = "By VALID trials alone: direct against lan not compared (no repetition has both VALID)."
    assert (f"That rests on SUSPECT trials. {alone}" in said.sentence) is suspect
    assert overall.sentence.startswith(f"All are equivalent within 5{NBSP}% at all 2 points.") is not suspect
    assert ("Some results at 4 jobs and 8 jobs rest on SUSPECT trials" in overall.sentence) is suspect
    assert {cell["rests_on_suspect_trials"] for cell in grid_rows(made, points(made))} == {False, suspect}


@pytest.mark.parametrize("suspect", [False, True])
def test_a_saturation_point_says_how_many_of_its_ladders_trials_are_suspect(suspect):
    """They are not those of the point that the answer is about."""
    rates = {("direct", jobs): 50.0 * min(jobs, 4) for jobs in (1, 2, 4, 8)}
    made = results(rates, {"direct 1": "SUSPECT", "direct 2": "SUSPECT"} if suspect else {})
    made = dataclasses.replace(made, saturations=saturation_rows(made.trials, made.summary))
    [note] = [note for said in answers(made) for note in said.notes if note.startswith("Saturation point: direct with")]
    assert ("(6 of the 12 trials behind that are SUSPECT)" in note) is suspect


@pytest.mark.parametrize("suspect", [False, True])
def test_a_change_along_an_axis_that_suspect_trials_alone_show_is_said_to_be_theirs(suspect):
    made = results({("direct", 1): 100.0, ("direct", 8): 50.0}, {"direct 8": "SUSPECT"} if suspect else {})
    rows = [dataclasses.replace(row, levels={**row.levels, "jobs": 1, "rtt_ms": str(row.jobs)}) for row in made.trials]
    axes = [Factor("rtt_ms", (1, 8))]
    factors = {**made.factors, "jobs": Factor("jobs", (1,)), "rtt_ms": axes[0]}
    made = dataclasses.replace(
        made, trials=rows, summary=summary_rows(rows, axes), ratios=ratio_rows(rows, axes), factors=factors,
        layout=Layout("access", "rtt_ms", ("workload",), "", ""),
    )  # fmt: skip
    [note] = [note for said in answers(made) for note in said.notes if note.startswith("From rtt_ms=1 to 8")]
    assert ("Without the SUSPECT trials that is not so of direct." in note) is suspect


@pytest.mark.parametrize(
    ("of_lan", "pool", "apart"),
    [
        (["wn03", "wn04"], "public", True),
        (["wn02", "wn03"], "public", False),
        (["wn01"], "public", False),
        ([], "public", False),
        (["wn03", "wn04"], "private", False),  # which have other workers anyway
    ],
)
def test_methods_whose_jobs_ran_on_other_workers_of_one_pool_may_differ_by_those(of_lan, pool, apart):
    made = results({("direct", 8): 100.0, ("lan", 8): 80.0}, {})
    places = {"direct": ("public", ["wn01", "wn02"]), "lan": (pool, of_lan)}
    rows = [
        dataclasses.replace(row, pool=own_pool, clients_by_worker=json.dumps(dict.fromkeys(workers, 4)))
        for row in made.trials
        for own_pool, workers in [places[row.levels["access"]]]
    ]
    [said] = answers(dataclasses.replace(made, trials=rows))
    words = "direct and lan had no worker of the pool public in common: what differs may be the workers."
    assert (words in said.notes) is apart


@pytest.mark.parametrize(
    ("lan", "words"),
    [
        (100.0, "is the fastest by more than 5 %: lan comes first by its ratios (83.7 Mb/s delivered)"),
        (115.0, "lan is the fastest access method: 96.2 Mb/s delivered, 1.15 ("),
    ],
)
def test_who_comes_first_by_ratios_is_not_said_to_have_the_highest_mean(lan, words):
    """The other one lacks the slow repetition, so it has the higher mean in the table."""
    rates = {("direct", 8): 100.0, ("lan", 8): lan}
    [said] = answers(results(rates, {"direct 8 1": "INVALID"}, repeats=HALVED))
    assert words in said.sentence.replace(NBSP, " ")
    assert "direct (100 Mb/s delivered) has the higher mean: ratios go by" in said.sentence.replace(NBSP, " ")
    [said] = answers(results(rates, {}, repeats=HALVED))
    assert "higher mean" not in said.sentence


def test_where_a_method_is_ahead_of_all_that_can_be_compared_it_is_not_said_to_be_behind_the_others():
    rates = {(way, jobs): rate for way, rate in (("direct", 100.0), ("lan", 80.0), ("wan", 60.0)) for jobs in (4, 8)}
    overall, *_ = answers(results(rates, {"lan 8": "INVALID"}))
    assert "times wan, but not certainly faster than all others." in overall.sentence


@pytest.mark.parametrize(
    ("against", "verdicts", "why"),
    [
        (("lan", 8), {"lan 8": "INVALID"}, "no usable trials of lan/root \N{MULTIPLICATION SIGN}8"),
        (("lan", 8), {"lan 8 1": "INVALID", "lan 8 2": "INVALID", "direct 8 3": "INVALID"},
         "no repetition has usable trials of both"),
        (("lan", 4), {}, "not measured"),
    ],
)  # fmt: skip
def test_a_claim_that_is_not_tested_says_whether_anything_was_measured(against, verdicts, why):
    claim = {"says": "", "kind": "faster", "metric": RATE, "factor": "access", "against": "lan",
             "at": {"access": "direct", "workload": "root", "jobs": 8}}  # fmt: skip
    made = results({("direct", 8): 100.0, against: 80.0}, verdicts)
    [finding] = findings(dataclasses.replace(made, experiment={"claims": [claim]}))
    assert (finding.answer, finding.why) == (NOT_TESTED, why)


@pytest.mark.parametrize("doubted", [False, True])
def test_a_scale_factor_of_suspect_trials_is_not_clear(doubted):
    suspect = {"nics 4": "SUSPECT"} if doubted else {}
    scaled, *_ = answers(results({("nics", 1): 50.0, ("nics", 4): 180.0}, suspect, "jobs"))
    assert scaled.clear is not doubted
    assert scaled.sentence.startswith("With 4 jobs instead of 1, each brings this share of what one alone does: 0.90 (")
    assert ("That rests on SUSPECT trials." in scaled.sentence) is doubted
    assert " at ." not in scaled.sentence


def two_runs(folder, second_rate, doubted):
    """A run whose rate is 400, and another one all of whose trials are SUSPECT if it is doubted."""
    suspect = {f"direct.root.x004.r{repeat}": ("SUSPECT", "late ticks") for repeat in (1, 2, 3)} if doubted else {}
    first = Shape(samples=False, rates={"direct": 400.0}, batches=(4,))
    second = dataclasses.replace(first, rates={"direct": second_rate}, verdicts=suspect)
    return results_of(folder / "a", first), results_of(folder / "b", second)


@pytest.mark.parametrize("doubted", [False, True])
def test_a_change_between_runs_that_suspect_trials_alone_show_is_not_clear(tmp_path, doubted):
    runs = two_runs(tmp_path, 300.0, doubted)
    [change] = changes(*runs, RATE)
    assert change.certain
    assert change.is_doubted is doubted
    page = comparison_page(runs, [], tmp_path / "page.html")
    assert ('class="answer clear"' in page) is not doubted
    assert ("Without the SUSPECT trials that is not so of direct/root" in page) is doubted


def test_lines_without_a_repetition_in_common_have_no_ratio_and_the_answer_says_so():
    invalid = {f"{access} 8 {repeat}": "INVALID" for access, repeat in (("direct", 1), ("direct", 3), ("lan", 2))}
    [said] = answers(
        results({("direct", 8): 100.0, ("lan", 8): 90.0}, {**invalid, "lan 8 4": "INVALID"}, repeats=(1.0,) * 4)
    )
    assert said.sentence.endswith("the run has no ratios of them, which take repetitions with usable trials of both.")


def test_runs_that_valid_trials_alone_call_equivalent_are_not_called_slower():
    """A repetition with a SUSPECT trial that was far slower decides."""
    by_valid, all_of = Interval(0.99, 0.983, 0.997), Interval(0.92, 0.86, 0.985)
    equivalent = Interval(0.98, 0.965, 0.995), Interval(0.98, 0.958, 1.003)
    pairs = ((all_of, by_valid), (all_of, None), equivalent)
    outcomes = [judgement._of_change(judgement.Change({}, (1.0,), (1.0,), *pair), 0.05, RATE) for pair in pairs]
    assert outcomes == [INCONCLUSIVE, SLOWER, EQUIVALENT]


@pytest.mark.parametrize(("doubted", "judged", "status"), [(False, EQUIVALENT, 0), (True, INCONCLUSIVE, 3)])
def test_runs_that_are_equivalent_by_suspect_trials_alone_are_compared_in_vain(tmp_path, doubted, judged, status):
    comparison = compare_runs(*two_runs(tmp_path, 400.0, doubted), 0.5)
    assert ([each.judgement for each in comparison.judged], comparison.exit_status) == ([judged], status)
    why = "equivalent by SUSPECT trials alone"
    told = judgement.as_junit(comparison), "\n".join(judgement.lines(comparison))
    assert [f"inconclusive ({why})" in text for text in told] == [doubted, doubted]


def test_methods_at_different_distances_are_not_on_one_line_and_a_line_that_is_bent_takes_no_time_below_nothing():
    """Each has its own server behind it: what an operation takes is not by the distance alone."""
    far = results({("near", 1): 1.0, ("far", 1): 1.0}, {})
    rows = [with_operations(row, *((1, 0.2) if row.levels["access"] == "near" else (3, 14.0))) for row in far.trials]
    assert list(round_trips(dataclasses.replace(far, trials=rows), points(far)[0])) == []
    of_distances = results({("direct", 1): 1.0}, {})
    rows = [
        with_operations(dataclasses.replace(row, levels={**row.levels, "rtt_ms": rtt_ms}), trips, rtt_ms)
        for trips, rtt_ms in ((2, 5.0), (2.6, 47.0), (2.9, 60.0))
        for row in of_distances.trials
    ]
    factors = {**of_distances.factors, "rtt_ms": Factor("rtt_ms", (5.0, 47.0, 60.0))}
    bent = dataclasses.replace(of_distances, trials=rows, factors=factors)
    [sentence] = round_trips(bent, points(of_distances)[0])
    assert "round trips (95" in sentence
    assert ", fewer if near: a straight line" in sentence


def with_operations(row, trips, rtt_ms):
    return dataclasses.replace(row, round_trip_s=rtt_ms / 1e3, operation_s=trips * rtt_ms / 1e3)
