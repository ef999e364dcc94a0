"""DAGs in DAGMan's language.

DAGMan of HTCondor 23.9.6 has run what is frozen here: trials in this order, failed ones tried again
with their flush, the others not kept from running.
"""

import dataclasses
import itertools
import re

import pytest

from tests.unit.quick_plan import changed, the_trial
from tierbench.dags.experiment import find_experiment
from tierbench.dags.graphs import configuration_dag, dagman_config, experiment_dag, trial_dag
from tierbench.dags.limits import limits
from tierbench.dags.nodes import Job
from tierbench.dags.trial_settings import Every
from tierbench.site_configs.site import Kerberos

TRIAL_DAG = r"""
# In this directory: ../../scripts/reset_trial.py && condor_submit_dag trial.dag
# Each step is there when the trial's turn has come, and goes on when it has what it waits for.
CONFIG ../../trial.config

# flush: caches are emptied on each worker and on the way, and measured to be empty
JOB flush ../../submit/flush.sub
VARS flush {flush} hosts="../../lists/lan-xrootd.root.flush" {waits} on_hold="True"

# sampling: counters are read along the way, until the stop
SERVICE sampling ../../submit/sampler.sub
VARS sampling {trial} period="0.2" hosts="../../lists/lan-xrootd.root.samplers-pool" {waits} on_hold="True"

# gate: one go for all clients, when they are ready, caches empty and samplers delivering
JOB gate ../../submit/gate.sub
VARS gate slot_limit="300" run_limit="9240"
SCRIPT PRE gate ../../scripts/lock.py take
RETRY gate 3
ABORT-DAG-ON gate 3

# clients: one cluster, each with a replica of its own
JOB clients ../../submit/clients.sub
VARS clients {trial} client="root" {places} memory="384" {flags} {pool} {waits} on_hold="True"

# release: a script lets the jobs go that were submitted on hold
JOB release release.sub NOOP
SCRIPT PRE release ../../scripts/lock.py release
RETRY release 3
ABORT-DAG-ON release 3

# stop: when all clients have ended the measurement lock is given on, and the sampling stopped
JOB stop ../../submit/stop.sub
VARS stop slot_limit="300" run_limit="9240"
SCRIPT PRE stop ../../scripts/lock.py take
RETRY stop 3
ABORT-DAG-ON stop 3

# tables: last in any case; ends what has not ended, records how it went, makes the tables
FINAL tables tables.sub NOOP
SCRIPT POST tables ../../scripts/finish.py $DAG_STATUS $FAILED_COUNT
SET_JOB_ATTR PeriodicRemove = {over}
SET_JOB_ATTR OnExitRemove = {leaves}
"""
LONG_WORDS = {
    "over": "DAG_NodesTotal =?= DAG_NodesDone + DAG_NodesFailed + DAG_NodesFutile && time() - DAG_AdUpdateTime > 20",
    "leaves": "ExitSignal =?= 11 || (ExitCode =!= undefined && ExitCode >= 0 && ExitCode <= 2)"
    " || (ExitCode =?= 4 && NumJobStarts > 20)",
    "flags": 'flags="--clients 4 --timeout 7200 --gate go.json --gate-timeout 1860"',
    "waits": 'slot_limit="1200" run_limit="9180"',
    "trial": 'trial="lan-xrootd.root.x004.r1"',
    "flush": 'strategy="fadvise" helper="/usr/local/sbin/tierbench-flush"',
    "places": 'places="../../lists/lan-xrootd.root.x004.places"',
    "pool": r'pool_requirements="TierbenchNetwork == \"private\""',
}
CONDITION = {"conditions": {"wan-rtt": 47}}
NATURAL = {"start": "natural"}


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, ["flush", "sampling", "gate", "clients", "release", "stop", "tables"]),
        ({"start": "natural"}, ["flush", "sampling", "clients", "stop", "tables"]),
        ({"flush": False}, ["sampling", "gate", "clients", "release", "stop", "tables"]),
        (CONDITION, ["arrange", "flush", "sampling", "gate", "clients", "release", "stop", "tables"]),
    ],
)
def test_a_trials_dag_tells_its_steps_in_the_order_of_the_mission(site, quick, plan, changes, steps):
    text = trial_dag(site, dataclasses.replace(quick, **changes), the_trial(plan)).text()
    assert re.findall(r"^(?:JOB|SERVICE|FINAL) (\S+)", text, re.MULTILINE) == steps
    assert re.findall(r"^# (\w+):", text, re.MULTILINE) == steps  # each below a line that says what it is for


@pytest.mark.parametrize(
    ("changes", "text", "is_there"),
    [
        (CONDITION, "SCRIPT PRE release ../../scripts/lock.py release arranged\n", True),  # may start services anew
        ({}, "SCRIPT PRE clients", False),  # they are on hold until then
        (NATURAL, 'on_hold="True"', False),
        ({**CONDITION, **NATURAL}, "SCRIPT PRE clients ../../scripts/lock.py take arranged", True),
        (NATURAL, "--gate", False),
        (NATURAL, "ABORT-DAG-ON stop ", True),  # so it is watched all the same
        (NATURAL, "PARENT flush CHILD clients\n", True),
        (NATURAL, "SCRIPT PRE clients ../../scripts/lock.py take sampled\n", True),
        ({"flush": False}, "PARENT", False),
        ({"cores": "pinned"}, "--pin", True),
    ],
)
def test_what_a_trials_dag_says_follows_from_its_experiment(site, quick, plan, changes, text, is_there):
    assert (text in trial_dag(site, dataclasses.replace(quick, **changes), the_trial(plan)).text()) == is_there


def test_when_its_turn_has_come_a_trial_is_flushed_sampled_read_and_finished(site, quick, plan):
    trial = the_trial(plan)
    assert trial_dag(site, quick, trial).text() == f"# {trial.name}" + TRIAL_DAG.format(**LONG_WORDS)


def test_trials_come_by_priority_each_after_the_one_before_and_are_tried_again_from_the_beginning(plan, quick):
    lines = list(experiment_dag(plan, quick).lines())
    nodes, scripts, before = [], [], ""
    for place, trial in enumerate(plan.trials):
        nodes.append(f"SUBDAG EXTERNAL {trial.id} trial.dag DIR trials/{trial.id}")
        nodes.append(f"PRIORITY {trial.id} {len(plan.trials) - place}")
        scripts.append(f"SCRIPT PRE {trial.id} ../../scripts/reset_trial.py $RETRY $MAX_RETRIES{before}")
        scripts.append(f"PRE_SKIP {trial.id} 3")
        before = f" {trial.id}"
    of_all = ["CATEGORY ALL_NODES trials", "MAXJOBS trials 3", "RETRY ALL_NODES 1"]
    assert [line for line in lines if not line.startswith("#")] == ["CONFIG dagman.config", *nodes, *scripts, *of_all]


def test_no_trial_waits_for_the_success_of_another_and_without_retries_there_is_no_retry(plan, quick):
    text = experiment_dag(plan, dataclasses.replace(quick, retries=0)).text()
    assert "PARENT" not in text
    assert "RETRY ALL_NODES" not in text


def test_a_configurations_dag_has_its_trials_in_the_plans_order(plan, quick):
    configuration = plan.configurations[0]
    found = re.findall(r"^SUBDAG EXTERNAL (\S+)", configuration_dag(plan, quick, configuration).text(), re.MULTILINE)
    assert found == [trial.id for trial in plan.trials if trial.configuration == configuration]


def test_dagman_survives_its_miscount_of_services_and_a_job_that_runs_again_after_its_end():
    """The second comes of a killed schedd: bit 4 of the events; the others are HTCondor's default."""
    assert "DAGMAN_USE_STRICT = 0\n" in dagman_config()
    assert "DAGMAN_ALLOW_EVENTS = 118\n" in dagman_config()


def test_quotes_and_backslashes_are_escaped():
    assert list(Job("a", "a.sub", {"x": 'say "a\\b"'}).lines())[1] == r'VARS a x="say \"a\\b\""'


def test_clients_are_told_where_their_ticket_comes_from(site, quick, plan):
    kerberos = Kerberos("host/{host}@UF.TEST", "/etc/krb5.keytab")
    kerberized = changed(site, "access", "lan-xrootd", kerberos=kerberos)
    text = trial_dag(kerberized, quick, the_trial(plan)).text()
    assert '--gate-timeout 1860 --principal host/{host}@UF.TEST --keytab /etc/krb5.keytab"' in text


@pytest.mark.parametrize(
    ("changes", "options", "memory"), [({}, {}, 384), ({"memory_mb": 1000}, {}, 1000), ({}, {"cache_mb": 1000}, 1384)]
)
def test_a_client_gets_the_memory_that_it_needs(site, quick, plan, changes, options, memory):
    root = quick.workloads["root"]
    root = dataclasses.replace(root, options=dataclasses.replace(root.options, **options), **changes)
    text = trial_dag(site, dataclasses.replace(quick, workloads={"root": root}), the_trial(plan)).text()
    assert f' memory="{memory}" ' in text


def of(jobs=4, **changes):
    return limits(dataclasses.replace(find_experiment("quick"), **changes), jobs)


ALL = [
    of(slot_limit_s=slot, time_limit_s=read, stall_limit_s=stall, start=start)
    for slot, read, stall, start in itertools.product(
        (10, 1200, 86_400), (1, 7200, 604_800), (5, 300), ("together", Every(every_s=7), "in-turn")
    )
]


@pytest.mark.parametrize("limit", ALL, ids=str)
def test_what_stands_outside_is_more_patient_than_what_stands_inside_which_knows_the_reason(limit):
    assert limit.slot_s < limit.ready_s < limit.go_s
    assert limit.read_s < limit.end_s
    assert limit.ready_s + limit.end_s < limit.job_s < limit.gate_s
    assert limit.lock_s > limit.gate_s + 3 * limit.stop_s  # until the gate and the last step have ended


def test_clients_that_do_not_begin_together_are_waited_for_until_the_last_can_have_read():
    together, in_turn = of(8), of(8, start="in-turn")
    assert in_turn.end_s >= 8 * together.read_s
    assert in_turn.go_s >= together.go_s + 7 * together.read_s  # the last one waits for all others
    assert of(8, start=Every(every_s=10)).end_s == of(8).end_s + 70
