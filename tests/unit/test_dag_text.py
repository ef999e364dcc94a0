"""The run directory: DAGs in DAGMan's language, the trials' files, and all that is shipped with them.

DAGMan of HTCondor 23.9.6 has run what is frozen here: trials in this order, failed ones tried again
with their flush, the others not kept from running.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.shipped import PYTHON
from tierbench.dags import names
from tierbench.dags.experiment import Experiment, find_experiment
from tierbench.dags.graphs import configuration_dag, dagman_config, experiment_dag, trial_dag
from tierbench.dags.hosts import host_lists
from tierbench.dags.nodes import Job
from tierbench.dags.plan import Plan, Trial, expand, from_json
from tierbench.dags.records import ReplicaLists, trial_record
from tierbench.dags.replicas import Entry
from tierbench.dags.shipping import scripts
from tierbench.dags.start import Start
from tierbench.dags.write import write_run
from tierbench.errors import ConfigError
from tierbench.kinds import Prefix
from tierbench.site_configs.site import Kerberos, Site, find_site
from tierbench.submit.trial import dagman, fresh, room, turn

POOL = {"private": ["wn01.private.fiu.test"], "public": ["wn02.fiu.test"]}


@pytest.fixture(scope="module")
def site() -> Site:
    return find_site("testbed")


@pytest.fixture(scope="module")
def quick() -> Experiment:
    return find_experiment("quick")


@pytest.fixture(scope="module")
def plan(site: Site, quick: Experiment) -> Plan:
    return expand(site, quick, POOL)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, plan: Plan, site: Site, quick: Experiment) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "quick"
    write_run(plan, site, quick, directory)
    return directory


def the_trial(plan: Plan, trial_id: str = "lan-xrootd.root.x004.r1") -> Trial:
    return next(trial for trial in plan.trials if trial.id == trial_id)


TRIAL_DAG = r"""
# In this directory: ../../scripts/fresh.py && condor_submit_dag trial.dag
# Each step is there when the trial's turn has come, and goes on when it has what it waits for.
CONFIG ../../trial.config

# flush: caches are emptied on each worker and on the way, and measured to be empty
JOB flush ../../submit/flush.sub
VARS flush {flush} hosts="../../lists/lan-xrootd.root.flush" {waits}
SCRIPT PRE flush ../../scripts/turn.py take

# sampling: counters are read along the way, until the stop
SERVICE sampling ../../submit/sampler.sub
VARS sampling {trial} period="0.2" hosts="../../lists/lan-xrootd.root.samplers-pool" {waits}
SCRIPT PRE sampling ../../scripts/turn.py take

# gate: one go for all clients, when they are ready, caches empty and samplers delivering
JOB gate ../../submit/gate.sub
VARS gate run_limit="9240"
SCRIPT PRE gate ../../scripts/turn.py take
RETRY gate 3
ABORT-DAG-ON gate 3

# clients: one cluster, each with a replica of its own
JOB clients ../../submit/clients.sub
VARS clients {trial} client="root" {places} memory="384" {flags} {pool} {waits}
SCRIPT PRE clients ../../scripts/turn.py take

# stop: when all clients have ended the turn is passed on, and the sampling stopped
JOB stop ../../submit/stop.sub
VARS stop run_limit="9240"
SCRIPT PRE stop ../../scripts/turn.py take
RETRY stop 3
ABORT-DAG-ON stop 3

# tables: last in any case; what has not ended is ended, how it went is told, tables are made
FINAL tables tables.sub NOOP
SCRIPT POST tables ../../scripts/finish.py $DAG_STATUS $FAILED_COUNT
"""
LONG_WORDS = {
    "flags": 'flags="--clients 4 --timeout 7200 --gate go.json --gate-timeout 1860"',
    "waits": 'slot_limit="1200" run_limit="9180"',
    "trial": 'trial="lan-xrootd.root.x004.r1"',
    "flush": 'strategy="fadvise" helper="/usr/local/sbin/tierbench-flush"',
    "places": 'places="../../lists/lan-xrootd.root.x004.places"',
    "pool": r'pool_requirements="TierbenchNetwork == \"private\""',
}


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, ["flush", "sampling", "gate", "clients", "stop", "tables"]),
        ({"start": "natural"}, ["flush", "sampling", "clients", "stop", "tables"]),
        ({"flush": False}, ["sampling", "gate", "clients", "stop", "tables"]),
        ({"conditions": {"wan-rtt": 47}}, ["arrange", "flush", "sampling", "gate", "clients", "stop", "tables"]),
    ],
)
def test_a_trials_dag_tells_its_steps_in_the_order_of_the_mission(
    site: Site, quick: Experiment, plan: Plan, changes: dict[str, Any], steps: list[str]
) -> None:
    text = trial_dag(site, dataclasses.replace(quick, **changes), the_trial(plan)).text()
    assert re.findall(r"^(?:JOB|SERVICE|FINAL) (\S+)", text, re.MULTILINE) == steps
    assert re.findall(r"^# (\w+):", text, re.MULTILINE) == steps  # each below a line that says what it is for


def test_sampling_begins_when_all_is_arranged_which_may_start_services_anew(
    site: Site, quick: Experiment, plan: Plan
) -> None:
    text = trial_dag(site, dataclasses.replace(quick, conditions={"wan-rtt": 47}), the_trial(plan)).text()
    assert re.findall(r"^SCRIPT PRE sampling \S+ (.+)", text, re.MULTILINE) == ["take arranged"]


@pytest.mark.parametrize("start", ["together", "natural"])
def test_clients_begin_when_all_is_arranged_since_a_job_keeps_the_mounts_of_its_begin(
    site: Site, quick: Experiment, plan: Plan, start: Start
) -> None:
    experiment = dataclasses.replace(quick, conditions={"wan-rtt": 47}, start=start)
    [awaited] = re.findall(
        r"^SCRIPT PRE clients \S+ (.+)", trial_dag(site, experiment, the_trial(plan)).text(), re.MULTILINE
    )
    assert awaited.split()[:2] == ["take", "arranged"]


def test_a_trial_samples_the_workers_of_its_own_pool_alone(site: Site, quick: Experiment, plan: Plan) -> None:
    record = trial_record(site, quick, plan, the_trial(plan, "direct.root.x004.r1"))
    assert [sampler["host"] for sampler in record["samplers"] if sampler["role"] == "worker"] == POOL["public"]


def test_when_its_turn_has_come_a_trial_is_flushed_sampled_read_and_finished(
    site: Site, quick: Experiment, plan: Plan
) -> None:
    trial = the_trial(plan)
    assert trial_dag(site, quick, trial).text() == f"# {trial.name}" + TRIAL_DAG.format(**LONG_WORDS)


def test_trials_come_by_priority_each_after_the_one_before_and_are_tried_again_from_fresh(
    plan: Plan, quick: Experiment
) -> None:
    lines = list(experiment_dag(plan, quick).lines())
    nodes, scripts, before = [], [], ""
    for place, trial in enumerate(plan.trials):
        nodes.append(f"SUBDAG EXTERNAL {trial.id} trial.dag DIR trials/{trial.id}")
        nodes.append(f"PRIORITY {trial.id} {len(plan.trials) - place}")
        scripts.append(f"SCRIPT PRE {trial.id} ../../scripts/fresh.py $RETRY $MAX_RETRIES{before}")
        scripts.append(f"PRE_SKIP {trial.id} 3")
        before = f" {trial.id}"
    assert [line for line in lines if not line.startswith("#")] == [
        "CONFIG dagman.config",
        *nodes,
        *scripts,
        "CATEGORY ALL_NODES trials",
        "MAXJOBS trials 3",
        "RETRY ALL_NODES 1",
    ]


def test_no_trial_waits_for_the_success_of_another(plan: Plan, quick: Experiment) -> None:
    assert "PARENT" not in experiment_dag(plan, quick).text()


def test_without_retries_there_is_no_retry(plan: Plan, quick: Experiment) -> None:
    assert "RETRY ALL_NODES" not in experiment_dag(plan, dataclasses.replace(quick, retries=0)).text()


def test_a_configurations_dag_has_its_trials_in_the_plans_order(plan: Plan, quick: Experiment) -> None:
    configuration = plan.configurations[0]
    found = re.findall(r"^SUBDAG EXTERNAL (\S+)", configuration_dag(plan, quick, configuration).text(), re.MULTILINE)
    assert found == [trial.id for trial in plan.trials if trial.configuration == configuration]


def test_a_healthy_trial_survives_dagmans_miscount_of_services() -> None:
    assert "DAGMAN_USE_STRICT = 0\n" in dagman_config()


def test_quotes_and_backslashes_are_escaped() -> None:
    assert list(Job("a", "a.sub", {"x": 'say "a\\b"'}).lines())[1] == r'VARS a x="say \"a\\b\""'


def test_without_a_gate_clients_are_not_told_to_wait(site: Site, quick: Experiment, plan: Plan) -> None:
    text = trial_dag(site, dataclasses.replace(quick, start="natural"), the_trial(plan)).text()
    assert "--gate" not in text


def test_without_a_gate_too_the_trial_is_watched(site: Site, quick: Experiment, plan: Plan) -> None:
    text = trial_dag(site, dataclasses.replace(quick, start="natural"), the_trial(plan)).text()
    assert "JOB gate " not in text
    assert "ABORT-DAG-ON stop " in text


def test_every_node_has_dagman_remove_what_does_not_end(run: Path) -> None:
    submitted = {path.name: path.read_text() for path in (run / names.SUBMIT).glob("*.sub")}
    assert [name for name, text in submitted.items() if "periodic_remove" not in text] == []
    assert [name for name, text in submitted.items() if "$(run_limit)" not in text] == []


def test_without_a_gate_clients_start_after_the_flush(site: Site, quick: Experiment, plan: Plan) -> None:
    text = trial_dag(site, dataclasses.replace(quick, start="natural"), the_trial(plan)).text()
    assert "PARENT flush CHILD clients\n" in text


def test_without_a_gate_clients_wait_for_the_samplers(site: Site, quick: Experiment, plan: Plan) -> None:
    text = trial_dag(site, dataclasses.replace(quick, start="natural"), the_trial(plan)).text()
    assert "SCRIPT PRE clients ../../scripts/turn.py take sampled\n" in text


def test_without_a_flush_clients_start_at_once(site: Site, quick: Experiment, plan: Plan) -> None:
    text = trial_dag(site, dataclasses.replace(quick, flush=False), the_trial(plan)).text()
    assert "flush" not in text
    assert "PARENT" not in text


def lists(site: Site, experiment: Experiment, plan: Plan, configuration: str) -> dict[str, list[str]]:
    """The lines of a configuration's host lists."""
    (chosen,) = (each for each in plan.configurations if each.id == configuration)
    return {name: text.splitlines() for name, text in host_lists(site, experiment, plan, chosen)}


def test_each_sampled_host_is_found_by_its_requirements(site: Site, quick: Experiment, plan: Plan) -> None:
    assert lists(site, quick, plan, "direct.root")["lists/direct.root.samplers-pool"] == [
        'oss.uf.test, eth%, storage, Machine == "oss.uf.test"',
        'dgt.fiu.test, eth0+eth1, gateway, Machine == "dgt.fiu.test"',
        'vmuf.uf.test, eth0, door, Machine == "vmuf.uf.test"',
        'wn02.fiu.test, eth0, worker, Machine == "wn02.fiu.test"',
    ]


def test_a_host_out_of_the_pool_is_sampled_over_ssh(site: Site, quick: Experiment, plan: Plan) -> None:
    oss = dataclasses.replace(site.samplers["oss"], via="ssh")
    mixed = dataclasses.replace(site, samplers={**site.samplers, "oss": oss})
    text = trial_dag(mixed, quick, the_trial(plan)).text()
    assert "SERVICE sampling-ssh ../../submit/sampler-ssh.sub\n" in text
    (by_ssh,) = lists(mixed, quick, plan, "direct.root")["lists/direct.root.samplers-ssh"]
    assert by_ssh.startswith("oss.uf.test, eth%, storage")


def test_clients_are_told_where_their_ticket_comes_from(site: Site, quick: Experiment, plan: Plan) -> None:
    lan = dataclasses.replace(site.access["lan-xrootd"], kerberos=Kerberos("host/{host}@UF.TEST", "/etc/krb5.keytab"))
    kerberized = dataclasses.replace(site, access={**site.access, "lan-xrootd": lan})
    text = trial_dag(kerberized, quick, the_trial(plan)).text()
    assert '--gate-timeout 1860 --principal host/{host}@UF.TEST --keytab /etc/krb5.keytab"' in text


def test_workers_flush_their_own_mount_and_the_gateway_its_own(site: Site) -> None:
    chep = find_experiment("chep-2013")
    plan = expand(site, chep, POOL)
    directory = next(s.directory for s in plan.replicas.values() if s.name == "plain")
    assert lists(site, chep, plan, "lan-xrootdfs.dd")["lists/lan-xrootdfs.dd.flush"] == [
        f"wn01.private.fiu.test, /xrootd-fs{directory}",
        f"dgt.fiu.test, {directory}",
    ]


def test_workers_without_a_mount_have_nothing_of_the_replicas(site: Site, quick: Experiment, plan: Plan) -> None:
    first = lists(site, quick, plan, "lan-xrootd.root")["lists/lan-xrootd.root.flush"][0]
    assert first == "wn01.private.fiu.test, "


def test_each_client_finds_its_replica_in_its_line(site: Site, plan: Plan) -> None:
    trial = next(t for t in plan.trials if t.offset + t.jobs > 24 and t.configuration.access == "wan-xrootd-private")
    lines = ReplicaLists(site, plan).text(trial).splitlines()
    prefix = f"root://vmuf.uf.test:1094/{plan.replicas[trial.replicas].directory}/root-tree-"
    assert lines == [f"{prefix}{(trial.offset + n) % 24 + 1:04d}.root\t" for n in range(trial.jobs)]


def test_each_client_reads_by_a_door_of_its_own_where_a_way_has_several(site: Site, plan: Plan) -> None:
    trial = next(t for t in plan.trials if t.jobs >= 3 and t.configuration.access == "wan-xrootd-private")
    further = tuple(Prefix(f"root://door-{number}.uf.test:1094/") for number in (2, 3))
    several = dataclasses.replace(site.access["wan-xrootd-private"], further=further, writes=None)
    site = dataclasses.replace(site, access={**site.access, "wan-xrootd-private": several})
    lines = ReplicaLists(site, plan).text(trial).splitlines()
    hosts = [line.split("/")[2] for line in lines]
    assert hosts == [several.prefixes[client % 3].split("/")[2] for client in range(trial.jobs)]
    assert len({line.split("/", 3)[3] for line in lines}) == trial.jobs  # each still has a file of its own


def test_sizes_and_checksums_stand_beside_replicas_where_they_are_known(site: Site, quick: Experiment) -> None:
    ((folder, replicas),) = quick.used_replicas.items()
    plan = expand(site, quick, POOL, {folder: {name: Entry(name, 7, "0a1b2c3d") for name in replicas.files}})
    lines = ReplicaLists(site, plan).text(plan.trials[0]).splitlines()
    assert {tuple(line.split("\t")[1:]) for line in lines} == {("7", "0a1b2c3d")}


def test_trial_json_holds_what_runs_and_reads_needs(site: Site, quick: Experiment, plan: Plan) -> None:
    record = trial_record(site, quick, plan, the_trial(plan))
    assert {key: record[key] for key in ("id", "jobs", "client", "start", "workers", "flush", "bytes")} == {
        "id": "lan-xrootd.root.x004.r1",
        "jobs": 4,
        "client": "root",
        "start": {"kind": "together", "every_s": 0.0},
        "workers": ["wn01.private.fiu.test"],
        "flush": {"strategy": "fadvise", "hosts": ["wn01.private.fiu.test", "dgt.fiu.test"]},
        "bytes": None,
    }


def test_a_workloads_environment_reaches_its_clients(site: Site, quick: Experiment, plan: Plan) -> None:
    patient = dataclasses.replace(quick.workloads["root"], environment={"XRD_STREAMTIMEOUT": "30"})
    experiment = dataclasses.replace(quick, workloads={"root": patient})
    options = trial_record(site, experiment, plan, the_trial(plan))["options"]
    assert options["environment"] == {"XRD_STREAMTIMEOUT": "30"}


@pytest.mark.parametrize(("changes", "memory"), [({}, 384), ({"memory_mb": 1000}, 1000)])
def test_a_client_gets_the_memory_that_it_needs(
    site: Site, quick: Experiment, plan: Plan, changes: dict[str, int], memory: int
) -> None:
    workload = dataclasses.replace(quick.workloads["root"], **changes)  # type: ignore[arg-type]
    text = trial_dag(site, dataclasses.replace(quick, workloads={"root": workload}), the_trial(plan)).text()
    assert f' memory="{memory}" ' in text


def test_a_large_cache_needs_memory(quick: Experiment) -> None:
    root = quick.workloads["root"]
    cached = dataclasses.replace(root, options=dataclasses.replace(root.options, cache_mb=1000))
    assert cached.asks_mb() == 1384


def test_a_run_directory_holds_its_plan(run: Path, plan: Plan) -> None:
    assert from_json((run / names.PLAN).read_text()) == plan


def test_a_run_directory_has_a_dag_per_configuration_and_one_for_all(run: Path, plan: Plan) -> None:
    expected = {f"{configuration.id}.dag" for configuration in plan.configurations} | {names.EXPERIMENT_DAG}
    assert {path.name for path in run.glob("*.dag")} == expected


def test_a_run_directory_has_a_directory_per_trial(run: Path, plan: Plan) -> None:
    assert {path.name for path in (run / names.TRIALS).iterdir()} == {trial.id for trial in plan.trials}


def test_every_file_that_a_dag_names_is_there(run: Path, plan: Plan) -> None:
    missing = []
    for trial in plan.trials:
        directory = run / names.trial_directory(trial.id)
        named = re.findall(
            r"^(?:JOB|SERVICE|SCRIPT (?:PRE|POST)) \S+ (\S+)|^CONFIG (\S+)| hosts=\"(\S+)\"",
            (directory / names.TRIAL_DAG).read_text(),
            re.M,
        )
        missing += [name for groups in named for name in groups if name and not (directory / name).is_file()]
    assert missing == []


@pytest.mark.parametrize("kind", ["sampler", "gate", "flush", "clients", "stop"])
def test_a_node_sets_every_macro_of_its_submit_file(run: Path, plan: Plan, kind: str) -> None:
    trial = (run / names.trial_directory(plan.trials[0].id) / names.TRIAL_DAG).read_text()
    (vars_line,) = re.findall(rf"^(?:JOB|SERVICE|FINAL) \S+ \S+/{kind}\.sub\n(?:VARS \S+ (.*))?", trial, re.MULTILINE)[
        :1
    ]
    submit = (run / names.SUBMIT / f"{kind}.sub").read_text()
    used = set(re.findall(r"\$\((\w+)\)", re.sub(r"^#.*", "", submit, flags=re.MULTILINE)))
    queued = re.findall(r"\w+", re.findall(r"^queue (.*) from", submit, re.MULTILINE)[0]) if " from " in submit else []
    assert used - set(re.findall(r"(\w+)=", vars_line)) - {"Process", "Cluster", *queued} == set()


def test_scripts_can_be_executed(run: Path) -> None:
    assert all(path.stat().st_mode & 0o111 for path in (run / names.SCRIPTS).glob("*.py"))


def test_a_run_directory_is_the_same_wherever_it_lies(run: Path) -> None:
    texts = [path.read_text() for path in run.rglob("*") if path.suffix in (".dag", ".config", ".json", ".txt")]
    assert not any(str(run) in text for text in texts)


def test_a_directory_that_is_there_is_left_alone(run: Path, plan: Plan, site: Site, quick: Experiment) -> None:
    with pytest.raises(ConfigError, match=r"is there already"):
        write_run(plan, site, quick, run)


def test_a_run_without_known_workers_is_refused(tmp_path: Path, site: Site, quick: Experiment) -> None:
    with pytest.raises(ConfigError, match=r"pools\.private: no workers are known"):
        write_run(expand(site, quick, {}), site, quick, tmp_path / "run")


def test_a_failure_leaves_nothing_behind(tmp_path: Path, plan: Plan, site: Site, quick: Experiment) -> None:
    broken = dataclasses.replace(site, access={})
    with pytest.raises(KeyError):
        write_run(plan, broken, quick, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# fresh.py, run as DAGMan runs it


@pytest.fixture
def tried(run: Path, tmp_path: Path) -> Path:
    """A trial's directory after a try."""
    directory = tmp_path / "run/trials/trial"
    directory.parent.mkdir(parents=True)
    source = next((run / names.TRIALS).iterdir())
    subprocess.run(["cp", "-r", source, directory], check=True)
    subprocess.run(["cp", "-r", run / names.SCRIPTS, tmp_path / "run"], check=True)
    (directory / "trial.dag.rescue001").write_text("DONE flush")
    (directory / names.GO).write_text("{}")
    (directory / names.CLIENTS).mkdir()
    (directory / names.client_output(0)).write_text("{}")
    return directory


def freshened(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = directory.parent.parent / names.SCRIPTS / names.FRESH
    return subprocess.run([PYTHON, script, *arguments], cwd=directory, capture_output=True, text=True, check=False)


def test_a_trial_is_made_as_it_was_written(tried: Path) -> None:
    assert freshened(tried).returncode == 0
    assert {path.name for path in tried.iterdir()} == {*names.WRITTEN, names.TRIES, names.AFTER}


def test_what_an_earlier_try_has_measured_is_kept(tried: Path) -> None:
    freshened(tried)
    assert (tried / names.TRIES / "1" / names.client_output(0)).read_text() == "{}"


def test_every_try_has_a_folder_of_its_own(tried: Path) -> None:
    freshened(tried)
    (tried / names.OUTCOME).write_text("{}")
    freshened(tried)
    assert {path.name for path in (tried / names.TRIES).iterdir()} == {"1", "2"}


def test_a_fresh_trial_stays_as_it_is(tried: Path) -> None:
    freshened(tried)
    before = sorted(str(path) for path in tried.rglob("*"))
    freshened(tried)
    assert sorted(str(path) for path in tried.rglob("*")) == before


def test_a_trial_that_a_dagman_runs_is_left_alone(tried: Path) -> None:
    with dagman_at_work(tried):
        assert freshened(tried).returncode == 1
    assert (tried / names.client_output(0)).exists()


def test_a_trial_whose_dagmans_number_is_another_process_now_is_made_fresh(tried: Path) -> None:
    with dagman_at_work(tried, begun=1):
        assert freshened(tried).returncode == 0


def test_a_copy_of_a_trial_at_work_is_made_fresh(tried: Path, tmp_path: Path) -> None:
    with dagman_at_work(tried):
        copy = tmp_path / "copy"
        subprocess.run(["cp", "-r", tmp_path / "run", copy], check=True)
        assert freshened(copy / tried.relative_to(tmp_path / "run")).returncode == 0


def test_a_trial_that_is_complete_is_not_done_again_by_another_dag(tried: Path) -> None:
    (tried / names.OUTCOME).write_text('{"state": "complete"}')
    assert freshened(tried, "0", "1").returncode == fresh.DONE
    assert (tried / names.client_output(0)).exists()


def test_by_hand_a_complete_trial_can_be_done_again(tried: Path) -> None:
    (tried / names.OUTCOME).write_text('{"state": "complete"}')
    assert freshened(tried).returncode == 0
    assert not (tried / names.OUTCOME).exists()


def test_a_trial_knows_which_try_it_is(tried: Path) -> None:
    freshened(tried, "1", "2", "another")
    attempt = json.loads((tried / names.ATTEMPT).read_text())
    assert (attempt["retry"], attempt["retries"], (tried / names.AFTER).read_text()) == (1, 2, "another")


def test_a_dag_waits_for_a_trial_that_another_dag_has_and_takes_its_outcome(tried: Path) -> None:
    """The other DAG's DAGMan has it from its script before the trial until its outcome, also before its own begins."""
    command = [PYTHON, str(tried.parent.parent / names.SCRIPTS / names.FRESH), "0", "1"]
    held = subprocess.Popen(  # a DAGMan, whose script has run and which goes on
        ["sh", "-c", 'cd "$1" && shift && "$@"; cd ../..; read -r end', "sh", tried, *command],
        stdin=subprocess.PIPE, cwd=tried,
    )  # fmt: skip
    try:
        wait_until((tried / names.ATTEMPT).exists)
        other = subprocess.Popen(command, cwd=tried)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1.5)
        (tried / names.OUTCOME).write_text('{"state": "complete"}')
        assert other.wait(10) == fresh.DONE
    finally:
        held.communicate(b"\n")


def test_a_trial_that_another_dag_has_given_up_is_tried(tried: Path) -> None:
    freshened(tried, "0", "1")  # by this process, which lives on
    (tried / names.OUTCOME).write_text('{"state": "incomplete", "again": false}')
    assert dagman.claim(tried, 1, given_up=True)


def wait_until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def dagman_at_work(trial: Path, begun: int | None = None) -> Iterator[None]:
    """A process that works in a trial's directory, and its lock file."""
    with subprocess.Popen(["sleep", "60"], cwd=trial) as process:
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        begun = begun or int(stat[19])
        (trial / "trial.dag.lock").write_text(f"PPID = 1\nPID = {process.pid}\nPRECISION = 100\nBDAY = {begun}\n")
        try:
            yield
        finally:
            process.kill()


def test_no_other_directory_is_tidied(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    assert freshened(tmp_path).returncode == 2
    assert (tmp_path / "thesis.tex").exists()


def test_an_earlier_trys_turn_is_given_up(tried: Path) -> None:
    turn = tried.parent.parent / names.TURN
    turn.write_text(tried.name)
    freshened(tried)
    assert not turn.exists()


def test_another_trials_turn_is_left_alone(tried: Path) -> None:
    turn = tried.parent.parent / names.TURN
    turn.write_text("another")
    freshened(tried)
    assert turn.read_text() == "another"


def test_the_scripts_know_the_names_of_a_trials_files() -> None:
    assert (fresh.WRITTEN, fresh.TRIES, fresh.AFTER) == (names.WRITTEN, names.TRIES, names.AFTER)
    assert (fresh.ATTEMPT, dagman.CLAIM, room.RESERVE) == (names.ATTEMPT, names.CLAIM, names.RESERVE)
    assert turn.FILLED == names.FILLED


@pytest.mark.parametrize(
    ("script", "used"),
    [
        ("scripts/gate.py", (names.GO, names.CLIENTS_LOG, names.FLUSH, names.SAMPLES, names.TRIAL)),
        ("scripts/stop.py", (names.GO, names.CLIENTS_LOG, names.FLUSH, names.SAMPLES, names.TRIAL, names.STOP)),
        ("scripts/gate.py", (names.CALLED_OFF, names.WAITING_FOR)),
        ("scripts/turn.py", (names.TURN, names.AFTER, names.SERVED, names.OUTCOME, names.TRIAL)),
        (
            "scripts/finish.py",
            (names.STOP, names.OUTCOME, names.SAMPLES, names.TRIAL, names.CALLED_OFF, names.NO_TABLES),
        ),
        ("scripts/finish.py", (names.ATTEMPT, names.CLIENTS_LOG)),
    ],
)
def test_shipped_scripts_use_the_names_of_a_trials_files(script: str, used: tuple[str, ...]) -> None:
    text = dict(scripts())[script].decode()
    assert [name for name in used if f'"{name}"' not in text] == []


def test_site_and_experiment_are_kept_as_they_were_resolved(run: Path) -> None:
    assert json.loads((run / names.EXPERIMENT).read_text())["replicas"]["root-tree"]["codec"] == "zlib-1"
    assert json.loads((run / names.SITE).read_text())["scale"] == 0.1
