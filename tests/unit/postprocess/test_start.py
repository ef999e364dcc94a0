"""The kinds of start: how they are asked for, what a trial's tables and verdict make of them, what the report says."""

import dataclasses
import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import edit_client
from tests.unit.synthetic_start import EACH_S, GAP_S, every, in_turn
from tierbench import names
from tierbench.dags.experiment import find_experiment
from tierbench.dags.graphs import trial_dag
from tierbench.dags.levels import Factor, Report, layout
from tierbench.dags.plan import expand
from tierbench.dags.trial_settings import Every
from tierbench.errors import ConfigError
from tierbench.postprocess.measures.stalls import stalled
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.report.answer import answer
from tierbench.postprocess.stats import Interval
from tierbench.postprocess.tables.load_run import read_results
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.tables.terminal import as_text
from tierbench.postprocess.tables.write import tables
from tierbench.postprocess.verdict import client_rules
from tierbench.postprocess.verdict.judge import INVALID, evidence
from tierbench.site_configs.site import find_site
from tierbench.starts import Go


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", "together"),
        ('start = "natural"', "natural"),
        ('start = "in-turn"', "in-turn"),
        ("start = { every_s = 5 }", Every(every_s=5.0)),
    ],
)
def test_each_kind_of_start_can_be_asked_for(variant, text, start):
    assert variant(text).start == start


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('start = "in_turn"', 'did you mean "in-turn"'),
        ("start = {}", "every_s: missing"),
        ("start = { every_s = 0 }", r"every_s: must be in 0\.05"),
        ("start = true", 'one of "together", "natural", "in-turn" or a table, not true'),
        ("gate = false", "gate: unknown key"),
        ('start = "in-turn"\nmeasure = "events"', "summed in bytes, not in events"),
    ],
)
def test_another_is_refused_with_what_is_possible(variant, text, told):
    with pytest.raises(ConfigError, match=told):
        variant(text)


@pytest.mark.parametrize(
    ("go", "together"), [({}, True), ({"step_ns": 0}, True), ({"step_ns": 5}, False), ({"turns_wall_ns": [1]}, False)]
)
def test_only_who_begins_with_others_waits_for_them_to_wake(go, together):
    assert Go(1, **go).together == together


def test_an_axis_has_clients_begin_together_and_in_turn_or_at_several_distances(variant):
    experiment = variant('[axes.start]\nvalues = ["together", "in-turn"]\nsets = "start"')
    plan = expand(find_site("testbed"), experiment, {})
    starts = {experiment.at(trial.configuration.levels).start for trial in plan.trials}
    assert starts == {"together", "in-turn"}
    assert "direct.root.start=in-turn.x004.r1" in {trial.id for trial in plan.trials}
    experiment = variant('[axes.apart_s]\nvalues = [1, 5]\nsets = "start.every_s"')
    assert [point.experiment.start for point in experiment.points] == [Every(every_s=1.0), Every(every_s=5.0)]


def test_a_dag_waits_for_clients_in_turn_as_long_as_they_may_take():
    site, quick = find_site("testbed"), find_experiment("quick")
    plan = expand(site, quick, {})
    trial = plan.trials[0]
    text = trial_dag(site, dataclasses.replace(quick, start="in-turn"), trial).text()
    assert "# gate: a go for each client when the one before has ended" in text
    assert f"--gate-timeout {1860 + (trial.jobs - 1) * 7260}" in text


@pytest.mark.parametrize(
    ("content", "damaged"), [('{"format": 1, "called_off": "a worker is lost"}', False), ("{}", True)]
)
def test_a_trial_that_was_called_off_before_the_go_has_no_damaged_go(folder, content, damaged):
    (folder / names.GO).write_text(content)
    assert any("go.json is damaged" in trouble for trouble in read_trial(folder).troubles) == damaged


@pytest.fixture
def turns(tmp_path):
    return in_turn(synthetic.write_trial(tmp_path))


def test_clients_in_turn_are_summed_by_their_own_rates_and_looked_at_one_by_one(turns, tmp_path):
    row, each = trial_row(read_trial(turns)), json.loads((turns / "trial.json").read_text())["bytes"] / 4
    assert row["summed_mbps"] == pytest.approx(4 * each * 8e-6 / EACH_S)
    assert row["summed_mbps"] > 4 * row["delivered_mbps"]  # of which a quarter of the time is each client's
    together = trial_row(read_trial(synthetic.write_trial(tmp_path / "together")))
    assert together["summed_mbps"] == pytest.approx(together["delivered_mbps"], rel=0.1)
    row = trial_row(read_trial(turns))
    assert row["started"] == "in-turn"
    assert {row["steady_begin_s"], row["all_active_share"], row["efficiency"]} == {None}
    assert row["bottleneck_evidence"].startswith("while client ")
    assert stalled(read_trial(turns), 0.0) is None  # between two of them nothing has to move


@pytest.mark.parametrize("start", [in_turn, lambda folder: every(folder, 3.0)], ids=["in turn", "every 3 s"])
def test_the_skew_is_against_when_each_was_to_begin(tmp_path, start):
    row = trial_row(read_trial(start(synthetic.write_trial(tmp_path))))
    assert row["start_skew_ms"] == pytest.approx(0, abs=0.01)
    assert row["state"] == "complete"


def test_in_a_turn_only_the_worker_of_its_client_counts(tmp_path):
    """Each client alone fills the link of a worker of its own, 14 ms away."""
    folder = in_turn(synthetic.write_trial(tmp_path, mbps=75))
    (tmp_path / names.SITE).write_text(json.dumps({"links": {"storage": 800, "worker": 100, "rtt_ms": 14.0}}))
    sent = 75 / 4 * 20 / EACH_S  # while it is at work
    for client in range(4):
        worker = f"wn0{client + 2}.fiu.test"
        edit_client(folder, client, "start", host=worker)
        edit_client(folder, client, "end", cpu_user_s=0.1, cpu_system_s=0.1)  # it waits
        received, begin = synthetic.during(sent, EACH_S), client * (EACH_S + GAP_S)
        synthetic.write_host(
            folder, worker, "worker", period=0.2, until=30, head={"boot_id": worker},
            rx_bytes=lambda time, received=received, begin=begin: received(time - begin),
        )  # fmt: skip
    row = trial_row(read_trial(folder))
    assert row["bottleneck"] == "worker NIC"
    assert "workers wn0" in row["bottleneck_evidence"]
    assert "received 93.8 of 100.0 Mb/s (94 %)" in row["bottleneck_evidence"]


def test_in_a_turn_only_its_own_client_computes(turns):
    """The longest turn's client waits; that others compute is no matter of it."""
    for client in range(4):
        edit_client(turns, client, "end", cpu_user_s=0.0 if client == 0 else 3.9)
    end = json.loads((turns / "clients/0.jsonl").read_text().splitlines()[-1])
    edit_client(turns, 0, "end", **{clock: end[clock] + 10**8 for clock in ("wall_ns", "mono_ns")})  # the longest
    assert "the clients used 24 % of a core each" in trial_row(read_trial(turns))["bottleneck_evidence"]


def rules(folder):
    data = read_trial(folder)
    found = evidence(data, trial_row(data))
    return {finding.rule.name: finding.verdict for finding in found if finding.rule in vars(client_rules).values()}


def test_the_kind_of_start_says_which_rules_apply(tmp_path):
    of = {
        "together": rules(synthetic.write_trial(tmp_path / "1")),
        "every": rules(every(synthetic.write_trial(tmp_path / "2"), 3.0)),
        "in-turn": rules(in_turn(synthetic.write_trial(tmp_path / "3"))),
    }
    assert set(of["together"]) >= {"not all active", "late begin", "early begin", "fast client"}
    assert not set(of["every"]) & {"not all active", "fast client", "not alone"}
    assert not set(of["in-turn"]) & {"not all active", "fast client"}
    assert {verdict for found in of.values() for verdict in found.values()} == {"VALID"}
    hasty = in_turn(synthetic.write_trial(tmp_path / "4"), gap_s=-2.0)
    assert rules(hasty)["not alone"] == INVALID


def test_a_go_that_was_anothers_is_told(turns):
    go = json.loads((turns / names.GO).read_text())
    go["turns_wall_ns"][2] += 10**9
    (turns / names.GO).write_text(json.dumps(go))
    assert "the gate and the clients report 2 different go times" in trial_row(read_trial(turns))["reasons"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Three repetitions of clients that get together about 0.6 of what they get alone, summed."""
    run = tmp_path_factory.mktemp("run")
    for repeat in (1, 2, 3):
        mbps = 400 + repeat
        synthetic.write_trial(run, repeat=repeat, index=2 * repeat, mbps=mbps, levels={"start": "together"})
        alone = synthetic.write_trial(run, repeat=repeat, index=2 * repeat + 1, levels={"start": "in-turn"})
        in_turn(alone, each_s=12.0)
    levels = {"access": ("lan-xrootd",), "workload": ("root",), "jobs": (4,), "start": ("together", "in-turn")}
    factors = [Factor(name, values) for name, values in levels.items()]
    plan = {"factors": list(map(dataclasses.asdict, factors)), "report": vars(layout(Report(), factors))}
    (run / names.PLAN).write_text(json.dumps({"format": 3, "trials": [], "configurations": [], **plan}))
    tables(run)
    return read_results(run, print)


def test_the_answer_is_what_they_get_together_of_what_they_get_alone_drawn_and_tabulated_by_the_sum(compared):
    (panel,) = compared.panels
    found = answer(compared, panel)
    row = next(
        row
        for row in compared.ratios
        if (row["factor"], row["start"], row["metric"]) == ("start", "together", "summed_mbps")
    )
    assert found.clear
    interval = f"95\N{NO-BREAK SPACE}% CI {row['low']:.2f}\N{EN DASH}{row['high']:.2f}"
    assert f"together they get {row['ratio']:.2f} ({interval}) of what they get alone, summed: " in found.sentence
    assert found.sentence.startswith("With 4 jobs of root by lan-xrootd, ")
    assert compared.rate == "summed_mbps"
    row = next(row for row in compared.summary if row["start"] == "in-turn")
    assert row["summed_mbps_low"] <= row["summed_mbps"] <= row["summed_mbps_high"]
    assert "summed" in as_text(compared.directory).splitlines()[0]


def test_what_suspect_trials_alone_say_of_turns_is_not_clear(compared):
    doubted = [dataclasses.replace(row, valid_pairs=0, by_valid=Interval()) for row in compared.ratios]
    found = answer(dataclasses.replace(compared, ratios=doubted), compared.panels[0])
    assert not found.clear
    assert "Without the SUSPECT trials that is not so of start=together." in found.sentence
