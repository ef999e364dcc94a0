"""When the repetitions of a run are enough: what is answered, what more of them would bring, and what they cannot."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.postprocess.test_uncertainty import trial
from tierbench.dags.claims import Claim, Expected
from tierbench.postprocess.compare.claims import Ceiling, missed_ceilings
from tierbench.postprocess.compare.judgement import EQUIVALENT, FASTER, INCONCLUSIVE, SLOWER
from tierbench.postprocess.compare.sequential import Question, look_at, question_of
from tierbench.postprocess.verdict.counting import looks

QUESTION = Question("access", "jobs", looks=looks(3, 10))
AT = {"access": "direct", "workload": "root", "jobs": 8}
DIRECT, WAN = "direct/root \N{MULTIPLICATION SIGN}8", "wan/root \N{MULTIPLICATION SIGN}8"


def claim(kind="faster", **of):
    """A claim, about direct over wan unless it says otherwise."""
    against = {} if "values" in of or "factor" in of else {"factor": "access", "against": "wan"}
    return Claim(**{"says": "", "kind": kind, "metric": "delivered_mbps", "at": AT, **against, **of})


def asked(*claims, **more):
    """A question about claims alone."""
    return Question("workload", "jobs", claims=claims, looks=(4,), **more)


def trials(rates, repeats=4, scatter=0.01, seed=1, **changes):
    chance = np.random.default_rng(seed)
    noise = np.exp(chance.normal(0, scatter, (len(rates), repeats)))
    return [
        trial(access, repeat, mbps * noise[line, repeat], **changes)
        for line, (access, mbps) in enumerate(rates.items())
        for repeat in range(repeats)
    ]


def test_a_claim_between_points_that_differ_in_more_than_its_factor_is_no_question():
    of = claim(at={"access": "direct", "jobs": 8})
    rows = [*trials({"direct": 400}), *trials({"wan": 200}, workload="dd")]
    assert look_at(rows, asked(of)).comparisons == ()


def test_looks_are_few_and_each_a_third_later():
    assert looks(3, 10) == (3, 4, 6, 8, 10)
    assert looks(3, 3) == (3,)
    assert len(looks(3, 1000)) < 25


def test_a_run_asks_by_its_plan_and_experiment():
    plan = {"report": {"lines": "access", "x": "jobs"}, "trials": [{"repeat": repeat} for repeat in range(1, 7)]}
    of_run = question_of(plan, {"repeats": {"until": "answered"}, "report": {"same_within": 0.1}})
    assert of_run == Question("access", "jobs", same_within=0.1, claims=[], expects=[], looks=(3, 4, 6))
    of_events = question_of(plan, {"repeats": 3, "measure": "events"})
    assert of_events == Question("access", "jobs", "events_per_s", claims=[], expects=[])


def test_what_is_far_apart_or_alike_is_answered():
    look = look_at(trials({"direct": 400, "lan": 404, "wan": 200}, repeats=6), QUESTION)
    assert [each.result for each in look.comparisons] == [EQUIVALENT, FASTER, FASTER]
    assert (look.is_enough, look.needed, look.sentences) == (True, set(), [])
    slower = look_at(trials({"wan": 200, "direct": 400}), QUESTION)
    assert [each.result for each in slower.comparisons] == [SLOWER]


def test_where_clients_took_turns_the_sums_of_their_own_rates_are_compared_as_in_the_report():
    """Of seven in turn, each alone gets all: what they deliver over the whole window says nothing of that."""
    rows = trials({"together": 400}, repeats=6) + trials({"alone": 57}, repeats=6, seed=2, started="in-turn")
    rows = [replace(row, summed_mbps=(row.delivered_mbps or 0) * (7 if row.started else 1)) for row in rows]
    assert [each.result for each in look_at(rows, QUESTION).comparisons] == [EQUIVALENT]


def test_two_repetitions_answer_nothing():
    look = look_at(trials({"direct": 400, "wan": 200}, repeats=2, scatter=0.001), QUESTION)
    assert [each.result for each in look.comparisons] == [INCONCLUSIVE]
    assert not look.is_enough


def test_what_scatters_is_open_and_says_what_it_takes():
    rows = trials({"direct": 400, "wan": 404, "slow": 40}, scatter=0.08)
    look = look_at(rows, QUESTION)
    assert look.needed == {DIRECT, WAN}  # the slow one is not run again
    [each] = look.open
    assert each.sentence.startswith("direct and wan, 8 jobs, root: not distinguishable (ratio ")
    assert each.sentence.endswith(f"; {each.more} more repetitions would resolve 5\N{NO-BREAK SPACE}%.")
    again = look_at(trials({"direct": 400, "wan": 404, "slow": 40}, 4 + each.more, scatter=0.08), QUESTION)
    width = np.log(again.comparisons[0].ratio.high / again.comparisons[0].ratio.low) / 2
    assert np.exp(width) - 1 == pytest.approx(0.05, abs=0.02)


def test_what_it_takes_counts_the_look_that_is_added(monkeypatch):
    """Repetitions that are added are looked at once more, so that each interval is wider."""
    rows = trials({"direct": 400, "wan": 404}, scatter=0.08)
    [wide] = look_at(rows, QUESTION).open
    monkeypatch.setattr(Question, "later", 1.0)
    [narrow] = look_at(rows, QUESTION).open
    assert wide.ratio == narrow.ratio
    assert wide.more > narrow.more


LINK = {"bottleneck": "worker NIC", "ceiling_mbps": 190.0}


@pytest.mark.parametrize(
    ("first", "second", "is_enough"),
    [
        (LINK, LINK, True),
        (LINK, {**LINK, "ceiling_mbps": 380.0}, False),  # workers of another pool
        (LINK, {"bottleneck": "storage"}, False),
        ({"bottleneck": "storage"}, {"bottleneck": "storage"}, True),
        ({"bottleneck": "latency"}, {"bottleneck": "latency"}, False),
        ({}, {}, False),
    ],
)
def test_who_is_at_one_ceiling_is_told_apart_by_no_repetition(first, second, is_enough):
    rows = trials({"direct": 400}, scatter=0.08, **first) + trials({"wan": 404}, seed=2, scatter=0.08, **second)
    look = look_at(rows, QUESTION)
    assert look.is_enough == is_enough
    assert ("more repetitions will not tell them apart" in look.sentences[0]) == is_enough


def test_trials_that_are_not_usable_answer_nothing():
    rows = trials({"direct": 400, "wan": 200}, verdict="INVALID")
    look = look_at(rows, QUESTION)
    assert look.needed == {DIRECT, WAN}
    assert look.sentences == [
        "direct and wan, 8 jobs, root: inconclusive, too few repetitions have usable trials of both."
    ]


@pytest.mark.parametrize(
    ("repeats", "suspect", "most", "needs", "words"),
    [
        (4, {1, 2}, 10, {DIRECT, WAN}, "inconclusive."),  # 5 of 10 will be VALID
        (4, {0}, 10, set(), ""),  # three VALID trials say the same
        (4, {0, 1, 2, 3}, 10, set(), "inconclusive, and too few trials are VALID."),
        (3, {2}, 4, {DIRECT, WAN}, "inconclusive."),  # the fourth may well be the third that is VALID
        (3, {1, 2}, 4, set(), "inconclusive, and too few trials are VALID."),
    ],
)
def test_an_answer_by_suspect_trials_alone_takes_more_repetitions_unless_these_would_be_suspect_too(
    repeats, suspect, most, needs, words
):
    rows = trials({"direct": 400, "wan": 200}, repeats)
    rows = [replace(row, verdict="SUSPECT") if row.repeat in suspect else row for row in rows]
    look = look_at(rows, replace(QUESTION, looks=looks(3, most)))
    assert [each.result for each in look.comparisons] == [FASTER]
    assert (look.needed, look.is_enough) == (needs, not needs)
    assert [sentence.partition("by VALID trials alone ")[2] for sentence in look.sentences] == [words] * bool(words)


def test_a_claim_that_suspect_trials_alone_answer_is_open_too():
    rows = [replace(row, verdict="SUSPECT" if row.repeat else "VALID") for row in trials({"direct": 400, "wan": 200})]
    look = look_at(rows, replace(asked(claim()), looks=(4, 12)))
    assert [(each.result, each.by_valid) for each in look.comparisons] == [("reproduced", INCONCLUSIVE)]
    assert look.needed == {DIRECT, WAN}


def test_each_place_of_the_ladder_is_compared():
    rows = trials({"direct": 400, "wan": 200}) + trials({"direct": 100, "wan": 101}, scatter=0.1, jobs=2)
    look = look_at(rows, QUESTION)
    assert [each.name for each in look.comparisons] == ["direct and wan, 8 jobs, root", "direct and wan, 2 jobs, root"]
    assert look.needed == {"direct/root \N{MULTIPLICATION SIGN}2", "wan/root \N{MULTIPLICATION SIGN}2"}


@pytest.mark.parametrize(("kind", "result"), [("faster", "reproduced"), ("slower", "contradicted")])
def test_a_claim_is_answered_by_its_own_points(kind, result):
    rows = trials({"direct": 100, "wan": 101}, jobs=2) + trials({"direct": 400, "wan": 200})
    [said] = look_at(rows, asked(claim(kind, says="direct is faster", at={**AT, "jobs": "most"}))).comparisons
    assert (said.name, said.result) == ("direct is faster", result)


def test_each_claim_and_the_answer_has_the_interval_that_it_has_alone():
    claims = [claim(), claim("value", values=(400,), within_pct=8)]
    rows = trials({"direct": 400, "wan": 404})
    alone = [look_at(rows, replace(QUESTION, claims=claims[n : n + 1])).comparisons for n in range(3)]
    answer, *said = look_at(rows, replace(QUESTION, claims=claims)).comparisons
    assert [answer, *said] == [alone[2][0], alone[0][1], alone[1][1]]


@pytest.mark.parametrize(("value", "result"), [(400, "reproduced"), (300, "contradicted"), (370, "inconclusive")])
def test_a_claim_about_a_value_is_answered_by_its_mean(value, result):
    look = look_at(trials({"direct": 400}), asked(claim("value", values=(value,), within_pct=8)))
    assert [each.result for each in look.comparisons] == [result]
    assert look.needed == ({DIRECT} if result == "inconclusive" else set())


def test_a_claim_of_a_pair_is_of_the_point_with_that_access_and_workload():
    rows = [each for name in ("a", "b") for each in trials({name: 100}, workload="w")]
    [said] = look_at(rows, asked(claim(factor="pair", at={"pair": "a/w"}, against="b/w"))).comparisons
    assert [dict(point)["access"] for point in (said.first, said.second)] == ["a", "b"]


@pytest.mark.parametrize(
    ("bottleneck", "is_enough", "words"),
    [
        ("latency", False, "inconclusive"),
        ("worker NIC", True, f"not tested; {WAN} was limited by worker NIC, not by storage or latency"),
    ],
)
def test_a_claim_at_another_ceiling_than_expected_is_repeated_no_more(bottleneck, is_enough, words):
    expected = Expected(where={"access": ["direct", "wan"], "jobs": "most"}, bottleneck=("storage", "latency"))
    rows = trials({"direct": 400}, scatter=0.08, bottleneck="storage")
    rows += trials({"wan": 404}, seed=2, scatter=0.08, bottleneck=bottleneck)
    look = look_at(rows, asked(claim(), expects=[expected]))
    assert (look.is_enough, look.open[0].result) == (is_enough, words.partition(";")[0])
    assert words in look.sentences[0] or not is_enough


@pytest.mark.parametrize("of", [{"factor": "access", "against": "wan", "values": (2, 1)}, {"values": (400,)}])
def test_a_claim_is_repeated_though_one_thing_limits_all(of):
    """A growth or a value gets narrower with each repetition, whatever limits it."""
    rows = trials({"direct": 400, "wan": 200}, scatter=0.08, bottleneck="worker NIC")
    look = look_at(rows, asked(claim("value", within_pct=2, **of)))
    assert [each.result for each in look.comparisons] == ["inconclusive"]
    assert look.needed
    assert not look.is_enough


def test_points_at_one_ceiling_are_told_of_together_and_those_that_hit_theirs_not_at_all():
    expected = Expected(where={}, bottleneck=("latency",))
    ceilings = [
        Ceiling({"access": access, "workload": "root", "jobs": 8}, expected, Counter([label]))
        for access, label in (("direct", "storage"), ("wan", "storage"), ("lan", "latency"))
    ]
    assert missed_ceilings(ceilings) == f"{DIRECT} and {WAN} were limited by storage, not by latency"
