"""The answer on a report's page: it claims what the trials can bear, and tells what it rests on."""

import json
import re
from dataclasses import replace

import pytest

from tests.unit.report_page import BARE, ONE_BATCH, SMALL, Page, results_of, silent
from tests.unit.synthetic_report import Shape, edit_csv, write_run
from tierbench.errors import ConfigError
from tierbench.postprocess.compare.points import more_repetitions, points
from tierbench.postprocess.report.answer import answer, answers
from tierbench.postprocess.report.grid import grid_rows, grid_table, grid_text
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.tables.run_tables import ratio_rows, summary_rows
from tierbench.postprocess.verdict.counting import HAS_NOT_RUN, RUNNING
from tierbench.postprocess.wording import bounds, figures, limit_percent, listed
from tierbench.submit.planning import OF_POINTS

NBSP = "\N{NO-BREAK SPACE}"
LOST = {"direct.root.x008.r1": ("INVALID", "2 clients lost")}
FULL = "the WAN link carried 990.0 of 1000.0 Mb/s (99 %), stated; next: oss: CPU, all cores 20 %"
CPU = "client's own CPU"
OPEN = Shape(rates={"direct": 203.0, "lan-xrootd": 200.0}, batches=(8,), samples=False, interval=0.3)
AXIS = '[axes.cache_mb]\nvalues = [20, 30]\nsets = "workloads.root.options.cache_mb"\n'


def first_answer(results):
    return answer(results, results.panels[0])


def answer_of(run, shape):
    return first_answer(results_of(run, replace(shape, samples=False)))


def test_trials_that_are_still_to_come_are_not_invalid(tmp_path):
    results = results_of(tmp_path / "run", BARE)
    to_come = [
        replace(trial, state="incomplete", verdict="INVALID", reasons=(HAS_NOT_RUN,)) if trial.repeat == 3 else trial
        for trial in results.trials
    ]
    rows = {"trials": to_come, "summary": summary_rows(to_come), "ratios": ratio_rows(to_come)}
    notes = first_answer(replace(results, **rows)).notes
    assert [note for note in notes if "INVALID" in note] == []
    assert any("planned trials of it have not ended." in note for note in notes)


@pytest.mark.parametrize(
    ("shape", "clear", "words"),
    [
        (SMALL, True, ["With 8 jobs of root, direct is the fastest access method: ",
                       f"delivered, 2.00 (95{NBSP}% CI 1.97–2.03) times lan-xrootd."]),
        (Shape(rates={"direct": 203.0, "lan-xrootd": 200.0, "slow": 100.0}), False,
         ["no access method is distinguishably the fastest: direct has the highest mean",
          f"not distinguishable from lan-xrootd (ratio 1.01, 95{NBSP}% CI 0.97–1.06)",
          f"It is faster than slow (ratio 2.03, 95{NBSP}% CI "]),
        (Shape(rates={"direct": 207.0, "lan-xrootd": 200.0}, interval=0.001, repeats=6), False,
         ["no access method is the fastest by more than 5"]),
        (replace(SMALL, repeats=1), False, ["A single repetition gives no interval, so this may be chance"]),
        (Shape(rates={"direct": 400.0}), False,
         ["no other access method has usable trials to compare it with"]),
    ],
    ids=["a clear winner", "an interval that includes 1", "equivalent", "one repetition", "one access method"],
)  # fmt: skip
def test_the_sentence_claims_what_the_intervals_bear(tmp_path, shape, clear, words):
    result = answer_of(tmp_path / "run", shape)
    assert result.clear == clear
    assert [part for part in words if part not in result.sentence] == []


def test_ratios_below_a_tenth_keep_their_figures(tmp_path):
    shape = Shape(rates={"direct": 400.0, "slow": 1.0}, batches=(4, 8))
    assert f"400 (95{NBSP}% CI 400–400) times slow" in answer_of(tmp_path / "run", shape).sentence
    shape = Shape(rates={"slow": 400.0}, batches=(8,), axes={"rtt_ms": {1: 1, 50: 0.0034}}, interval=0.0001,
                  report={"x": "rtt_ms"})  # fmt: skip
    (note,) = [note for note in answer_of(tmp_path / "small", shape).notes if note.startswith("From rtt_ms=1 to 50")]
    assert note.endswith(f"slow 0.0034 (95{NBSP}% CI 0.0033–0.0035).")


@pytest.mark.parametrize(
    ("changes", "notes", "without"),
    [
        ({}, ["3 repetitions: intervals are wide."], "SUSPECT"),
        ({"repeats": 5}, [], "intervals are wide"),
        ({"verdicts": {**LOST, "lan-xrootd.root.x008.r2": ("SUSPECT", "2 gaps")}},
         ["1 of the 5 trials behind it is SUSPECT: 2 gaps", "1 of 12 trials INVALID and left out"], "clients lost"),
        ({"verdicts": LOST, "plain": True}, ["1 of 12 trials INVALID"], "SUSPECT"),  # incomplete, without a verdict
    ],
)  # fmt: skip
def test_what_weakens_an_answer_is_noted_with_it(tmp_path, changes, notes, without):
    noted = " ".join(answer_of(tmp_path / "run", replace(SMALL, **changes)).notes)
    assert [note for note in notes if note not in noted] == []
    assert without not in noted


def all_invalid(reason):
    """The verdicts of a small run all of whose trials are INVALID, for a reason that may name the repetition."""
    trials = {(access, jobs, n) for access in SMALL.rates for jobs in SMALL.batches for n in (1, 2, 3)}
    return {f"{access}.root.x00{jobs}.r{n}": ("INVALID", reason.format(n)) for access, jobs, n in trials}


def test_invalid_trials_give_no_answer_but_reasons(tmp_path):
    results = results_of(tmp_path / "run", replace(BARE, verdicts=all_invalid("warm cache")))
    [only] = answers(results)
    assert not only.clear
    assert only.sentence == "No answer for root: all 12 of its trials are INVALID."
    assert only.notes == ("warm cache (in 12 trials).",)


def test_reasons_with_one_remedy_are_said_once(tmp_path):
    verdicts = all_invalid("a gap of {} s (at most 1 s): see its log")
    verdicts |= {"direct.root.x004.r1": ("INVALID", "warm cache: flush it")}
    first, second = answer_of(tmp_path / "run", replace(SMALL, verdicts=verdicts)).notes
    assert first.endswith(" s (at most 1 s): see its log (the like in 11 trials).")
    assert second == "warm cache: flush it."


def test_limits_are_told_as_they_are_and_small_numbers_are_no_zero_and_what_has_commas_is_parted_by_semicolons():
    assert [limit_percent(limit) for limit in (0.05, 0.025, 0.001)] == ["5\xa0%", "2.5\xa0%", "0.1\xa0%"]
    assert [figures(value) for value in (0.0, 0.0042, 0.05, 0.5, 50.0)] == ["0.00", "0.0042", "0.05", "0.50", "50.0"]
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a, b", "c", "d"]) == "a, b; c; and d"
    assert [listed([]), listed(["a, b"])] == ["", "a, b"]


def test_a_trial_that_is_being_measured_is_not_called_invalid(tmp_path):
    results = results_of(tmp_path / "run", BARE)
    running = replace(results, trials=[replace(results.trials[0], verdict=RUNNING)], summary=[], ratios=[])
    assert first_answer(running).sentence == "No answer for root: its first trial is being measured."


def test_what_compares_is_said_before_what_has_nothing_to_compare(tmp_path):
    verdicts = {f"direct.cms.x00{jobs}.r{n}": ("INVALID", "warm cache") for jobs in SMALL.batches for n in (1, 2, 3)}
    shape = replace(BARE, workloads=("cms", "root"), verdicts=verdicts)
    _, first, second = answers(results_of(tmp_path / "run", shape))
    assert "jobs of root, direct is the fastest" in first.sentence
    assert "jobs of cms, lan-xrootd" in second.sentence
    assert "no other access method has usable trials to compare it with" in second.sentence


def two_leaders(run):
    """A run in which direct is faster with 8 jobs, and lan-xrootd with 4."""
    turned = {"lan-xrootd": (2.2, 2.1, 2.3), "direct": (0.45, 0.43, 0.47)}

    def change(row):
        here = (row["jobs"], row["factor"]) == ("4", "access")
        return zip(("ratio", "low", "high"), turned[row["access"]], strict=True) if here else {}

    edit_csv(write_run(run, BARE) / "ratios.csv", lambda row: dict(change(row)))
    return read_results(run, silent)


def test_the_first_sentence_is_about_all_points(tmp_path):
    first, second = answers(two_leaders(tmp_path / "run"))
    assert not first.clear
    assert "lan-xrootd is the fastest access method at 4 jobs: 2.20 (95" in first.sentence
    assert "direct is the fastest access method at 8 jobs: 2.00 (95" in first.sentence
    assert second.sentence.startswith("With 8 jobs of root, direct")
    overall, _ = answers(results_of(tmp_path / "one", BARE))
    assert overall.clear
    assert overall.sentence.startswith("direct is the fastest access method at all 2 points: 2.00 times the next.")


def test_the_grid_has_each_point_with_its_fastest(tmp_path):
    results = two_leaders(tmp_path / "run")
    of_run = points(results)
    heads, direct, lan, legend = grid_text(results, of_run).splitlines()
    assert heads.split() == ["4", "jobs", "8", "jobs"]
    assert "▼ 0.45 (0.43–0.49)" in direct
    assert "▲" in direct
    assert lan.split()[1] == "▲"
    assert lan.endswith("▼ 0.50 (0.49–0.51)")
    assert legend.startswith("▲ fastest · ▼ slower; ratios to the fastest of the point")
    assert "(0.43–0.49)" in Page(grid_table(results, of_run)).text
    of_programs = list(grid_rows(results, of_run))
    assert [row["result"] for row in of_programs] == ["", "slower", "", "slower"]
    assert [row["jobs"] for row in of_programs] == [4, 4, 8, 8]  # as in the summary, that both can be joined
    assert of_programs[0].keys() - {"access", "workload", "jobs"} == OF_POINTS


def limited(run, label, rates, jobs=8, **changes):
    """The answer of a run all of whose trials are limited by one thing, behind a link of 500 Mb/s."""
    of_trials = {column: changes.pop(column, "") for column in ("bottleneck_evidence", "pool")}
    of_trials |= {"bottleneck": label, "clients_by_worker": json.dumps({"wn01.private.fiu.test": jobs})}
    results = results_of(run, Shape(rates=rates, batches=(jobs,), samples=False, **changes), **of_trials)
    plan = {**results.plan, "pools": {of_trials["pool"]: ["wn01"]}}
    site = {**results.site, "links": {"wan": 1000, "storage": 800}}
    return first_answer(replace(results, plan=plan, site=site)).sentence


def test_of_many_lines_a_sentence_names_the_nearest_and_how_many_more_there_are(tmp_path):
    rates = {f"door{number:02d}": 400.0 - 20 * number for number in range(12)}
    sentence = answer_of(tmp_path / "run", replace(ONE_BATCH, rates=rates, interval=0.001)).sentence
    assert " times door08 and 3 more. The storage limits" in sentence
    alike = {**rates, "door01": 400.0}
    sentence = answer_of(tmp_path / "alike", replace(ONE_BATCH, rates=alike, interval=0.001)).sentence
    assert re.search(r"equivalent within .* to door01 .*\. It is faster than door02 .*; and 2 more\.", sentence)


def test_a_share_of_the_ceiling_below_a_percent_is_not_none(tmp_path):
    results = results_of(tmp_path / "run", OPEN, bottleneck="latency", efficiency="0.0034", ceiling_mbps="10000")
    assert f"the jobs received 0.3{NBSP}% of 10000{NBSP}Mb/s" in first_answer(results).sentence


def test_what_limits_all_is_not_taken_for_the_methods_ceiling(tmp_path):
    sentence = limited(tmp_path / "run", "latency", {"direct": 203.0, "lan-xrootd": 200.0})
    assert "Latency limits both: the jobs received " in sentence
    assert f"% of 500{NBSP}Mb/s, the path's tightest known ceiling. To compare them" in sentence
    assert "use more jobs (batches), or clients that ask for larger pieces." in sentence
    sentence = limited(tmp_path / "clear", "latency", BARE.rates)
    assert "Latency limits both" in sentence
    assert "To compare them" not in sentence
    sentence = limited(tmp_path / "one", "client's own CPU", {"direct": 203.0})
    assert sentence.endswith("What limited: direct by the client's own CPU.")


@pytest.mark.parametrize(
    ("label", "evidence", "pool", "jobs", "end"),
    [
        ("WAN link", FULL, "private", 8, r"use a faster WAN, or fewer jobs \(batches\): `.*testbed down && "
         r"tierbench testbed run \S+\.toml --set rates_mbps\.wan=2000`\."),
        ("WAN link", FULL, "private", 1, r"use a faster WAN: `.*wan=2000`\."),
        ("storage", "oss: CPU, all cores 97 %; next: NIC 20 Mb/s", "private", 8, r"fewer jobs \(batches\)\."),
        ("worker NIC", FULL, "private", 8, r"more or faster workers: `.*private_workers=8 --set public_workers=8`\."),
        ("worker NIC", FULL, "private", 1, r"use more or faster workers\."),
        ("worker NIC", FULL, "virtual", 8, r"use more or faster workers\."),
    ],
)  # fmt: skip
def test_what_raises_a_common_limit_on_a_testbed_is_a_command(tmp_path, label, evidence, pool, jobs, end):
    """Where it would: rates that are known, and workers of which more can be had and used."""
    rates, of = {"direct": 203.0, "lan-xrootd": 200.0}, {"bottleneck_evidence": evidence, "pool": pool}
    assert re.search(f"{end}$", limited(tmp_path / "run", label, rates, jobs, site="testbed", **of))


@pytest.mark.parametrize(
    ("of_direct", "of_lan", "words"),
    [
        (("storage",) * 3, ("storage",) * 3, "The storage limits both: the jobs received "),
        (("latency", "storage", "storage"), ("storage",) * 3,
         "The storage limits both in 15 of 18 trials: the jobs received "),
        ((CPU,) * 3, ("storage",) * 3, "What limited: direct by the client's own CPU; lan-xrootd by the storage."),
        ((CPU,) * 3, ("storage", "storage", "latency"),
         "What limited: direct by the client's own CPU; lan-xrootd (6 of 9 trials) by the storage."),
    ],
)  # fmt: skip
def test_what_limits_most_trials_is_not_said_of_all(tmp_path, of_direct, of_lan, words):
    """Where the number of jobs decides what limits, the sentence about all points says of how many trials it speaks."""
    shape = Shape(rates={"direct": 400.0, "lan-xrootd": 400.0}, batches=(2, 4, 8), samples=False)
    limits = {"direct": of_direct, "lan-xrootd": of_lan}
    at = {"2": 0, "4": 1, "8": 2}
    results = results_of(tmp_path / "run", shape, lambda row: {"bottleneck": limits[row["access"]][at[row["jobs"]]]})
    assert words in answers(results)[0].sentence


@pytest.mark.parametrize(
    ("share_of_lan", "when"), [("0.65", " while all jobs are at work: over whole windows"), ("0.88", ":")]
)
def test_what_limits_all_while_they_work_is_not_said_to_make_their_difference(tmp_path, share_of_lan, when):
    shape = Shape(rates={"direct": 400.0, "lan-xrootd": 300.0}, batches=(8,), samples=False)
    evidence = "while all clients were at work, 6.0 s: storage server oss.uf.test sent 278.9 of 287.0 Mb/s (97 %)"
    shares = {"direct": "0.9", "lan-xrootd": share_of_lan}
    results = results_of(
        tmp_path / "run", shape, lambda row: {"efficiency": shares[row["access"]]},
        bottleneck="storage", bottleneck_evidence=evidence, ceiling_mbps="287",
    )  # fmt: skip
    assert f"The storage limits both{when} the jobs received " in answers(results)[0].sentence


@pytest.mark.parametrize(
    ("scatter", "words"),
    [
        (1.05, r"\d+ more repetitions?.* would resolve 5.*: `tierbench run --more "),
        (2.0, r"Repetitions alone will not resolve 5.* \(\d+ more needed, 20 more would resolve [1-9]\d.%\)"),
    ],
)
def test_an_open_comparison_says_how_many_repetitions_it_takes(tmp_path, scatter, words):
    def scattered(row):
        return {"delivered_mbps": float(row["delivered_mbps"]) * (scatter if int(row["position"]) % 3 else 1)}

    results = results_of(tmp_path / "run", OPEN, scattered, bottleneck="")
    assert re.search(words, first_answer(results).sentence)
    to_come = replace(results.trials[0], repeat=9, state="incomplete", verdict="INVALID", reasons=(HAS_NOT_RUN,))
    going_on = first_answer(replace(results, trials=[*results.trials, to_come])).sentence
    assert not re.search(words, going_on)  # the planned ones may do


def test_repetitions_are_told_of_the_points_that_a_sentence_is_about(tmp_path):
    def open_with_8_jobs(row):
        better = 1.5 if (row["jobs"], row["access"]) == ("4", "direct") else 1.0
        stray = 1.05 if row["jobs"] == "8" and int(row["position"]) % 3 else 1.0
        return {"delivered_mbps": 200 * better * stray}

    results = results_of(tmp_path / "run", replace(OPEN, batches=(4, 8)), open_with_8_jobs, bottleneck="")
    clear, still_open = sorted(points(results), key=lambda point: int(point.x))
    assert more_repetitions(results, [clear]) == ([], 0)
    assert more_repetitions(results, [still_open])[0]


def test_what_has_hardly_a_usable_trial_is_not_among_what_repetitions_would_resolve(tmp_path):
    def hardly_usable(row):
        stray = 1.05 if (row["repeat"], row["access"]) == ("2", "direct") else 1
        invalid = row["access"] == "wan-xrootd-public" and row["repeat"] != "1"
        return {"delivered_mbps": float(row["delivered_mbps"]) * stray, **({"verdict": "INVALID"} if invalid else {})}

    shape = replace(OPEN, rates={**OPEN.rates, "wan-xrootd-public": 200.0})
    sentence = first_answer(results_of(tmp_path / "run", shape, hardly_usable, bottleneck="")).sentence
    assert re.search(r"would resolve 5.*if the scatter stays \(2 of 3 open comparisons cannot be foretold\)", sentence)


SHAPE = Shape(
    rates={"gridftp": 100.0}, batches=(1,), axes={"session": {"one": 1.0, "each": 0.1}},
    report={"lines": "session", "x": "access"}, samples=False,
)  # fmt: skip
SECONDS = {"one": (0.140, 0.150, 0.160), "each": (1.140, 1.140, 1.170)}  # by repetition


@pytest.fixture
def results(tmp_path):
    """Three repetitions of both, with the time that a file took."""
    results = results_of(tmp_path / "run", SHAPE)
    trials = [
        replace(trial, job_files=36, fetch_s=seconds, round_trips_per_fetch=seconds / 0.05)
        for trial in results.trials
        for seconds in [SECONDS[str(trial.levels["session"])][trial.repeat - 1]]
    ]
    axes = [results.factors["session"]]
    return replace(results, trials=trials, summary=summary_rows(trials, axes), ratios=ratio_rows(trials, axes))


def test_a_files_time_differs_by_the_mean_over_pairs_which_the_report_says_in_round_trips_too(results):
    (row,) = (row for row in results.ratios if row.metric == "fetch_s" and row.against == "one")
    assert row.more.value == pytest.approx(1.0)  # of 1.000, 0.990 and 1.010
    assert row.more.interval == pytest.approx((1 - 0.0248, 1 + 0.0248), abs=1e-3)  # t of two degrees of freedom
    (note,) = (note for note in first_answer(results).notes if note.startswith("The time of a file"))
    words = note.replace(NBSP, " ")
    assert "session=one 150 ms or 3.00 round trips; session=each 1150 ms or 23.0 round trips" in words
    assert "1000 ms (95 % interval 975 ms to 1025 ms) more" in words
    single = replace(results, trials=[replace(trial, job_files=1) for trial in results.trials])
    assert not [note for note in first_answer(single).notes if note.startswith("The time of a file")]


def test_that_a_replays_time_is_not_a_jobs_is_a_caveat(results):
    words = "root (replay): times are the network's and the storage's alone"
    replay = replace(results, experiment={**results.experiment, "workloads": {"root": {"client": "replay"}}})
    caveats = [[note for note in first_answer(each).notes if words in note] for each in (results, replay)]
    assert [len(notes) for notes in caveats] == [0, 1]


FLAVOURS = Shape(
    rates={"near": 400.0}, batches=(1,), axes={"flavour": {"none": 1, "krb5": 1.01, "krb5i": 0.6, "krb5p": 0.2}},
    report={"lines": "flavour", "baseline": "none"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "clear", "words"),
    [
        ({}, True, [f"flavour=krb5i 0.60 (95{NBSP}% CI 0.59–0.61) and flavour=krb5p 0.20 (95{NBSP}% CI 0.20–0.20) of",
                    f"equivalent within 5{NBSP}%: flavour=krb5 1.01 (95{NBSP}% CI 0.98–1.04)"]),
        ({"interval": 0.2}, False, [f"not distinguishable: flavour=krb5 1.01 (95{NBSP}% CI 0.75–1.45)"]),
        ({"repeats": 1}, False, [": no interval, too few repetitions: flavour=krb5 1.01, flavour=krb5i 0.60 and"]),
    ],
    ids=["apart and equivalent", "near, but not known well", "without an interval"],
)  # fmt: skip
def test_each_level_is_compared_with_the_baseline(tmp_path, changes, clear, words):
    result = answer_of(tmp_path / "run", replace(FLAVOURS, **changes))
    assert result.clear == clear
    assert result.sentence.startswith("With 1 job of root by near, against flavour=none (")
    assert [part for part in words if part not in result.sentence] == []


@pytest.mark.parametrize("report", ['lines = "cache_mb"\nbaseline = 31', 'baseline = "0"'])
def test_a_baseline_is_a_level_of_what_is_compared(variant, report):
    with pytest.raises(ConfigError, match=r"baseline: .* is no level of report\.lines"):
        variant(f"{AXIS}[report]\n{report}")


def test_of_single_repetitions_nobody_is_said_not_to_be_faster(tmp_path):
    overall = answers(results_of(tmp_path / "run", replace(BARE, repeats=1)))[0].sentence
    what = "No access method is distinguishably the fastest at any of 2 points"
    assert overall.startswith(f"{what} (there is no interval, which takes two repetitions).")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.902, 0.9996, "0.90–0.9996"),
        (1.002, 1.06, "1.002–1.06"),
        (0.998, 1.06, "0.998–1.06"),
        (1.0, 1.00001, "1.00–1.00"),
    ],
)
def test_an_interval_that_leaves_1_out_by_little_does_not_end_at_1(low, high, words):
    assert bounds(Interval(1.0, low, high)) == words
