"""Where an experiment places its clients: asked for, planned, written for HTCondor, looked at by the verdict."""

import json
import re

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.quick_plan import changed
from tierbench import names
from tierbench.dags.hosts import flushed_hosts, place_lists
from tierbench.dags.plan import expand
from tierbench.dags.records import trial_record
from tierbench.dags.trial_settings import Dealt, place_lines, places
from tierbench.dags.write import write_run
from tierbench.errors import ConfigError
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.verdict.judge import INVALID, VALID, evidence
from tierbench.submit.planning import Planned, enough_slots
from tierbench.submit.pool import Slots

WORKERS = ("wn1.example", "wn2.example", "wn3.example")
POOL = {"private": ["a.example", "b.example"], "public": list(WORKERS)}
HOST = "wn01.private.fiu.test"


@pytest.fixture
def load(variant):
    return lambda text: variant(f'access = ["direct"]\n{"" if "batches" in text else "batches = [4]"}\n{text}')


@pytest.fixture
def planned(site):
    return lambda experiment, cores=None: expand(site, experiment, POOL, cores=cores)


@pytest.fixture
def written(tmp_path, site, load, planned):
    """A run directory of the experiment, and its trials."""

    def written(text, cores=None):
        experiment, run = load(text), tmp_path / "run"
        write_run(planned(experiment, cores), site, experiment, run)
        return run, [*(run / names.TRIALS).iterdir()]

    return written


@pytest.mark.parametrize(
    ("placement", "hosts"),
    [
        ("evenly", []),
        ("as-matched", []),
        ("one-worker", [1, 1, 1, 1]),
        ("in-turn", [1, 2, 3, 1]),
        (Dealt(per_worker=3), [1, 1, 1, 2]),
        (Dealt(per_worker=2), [1, 1, 2, 2]),
        (Dealt(hosts=("wn3.example", "wn1.example")), [3, 1, 3, 1]),
    ],
)
def test_clients_are_dealt_to_workers(placement, hosts):
    assert places(placement, WORKERS, 4) == [f"wn{number}.example" for number in hosts]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('placement = "one-host"', 'one of "evenly", "as-matched"'),
        ("placement = {}", "needs per_worker, a number, or hosts"),
        ('placement = { per_worker = 1, hosts = ["wn1.example"] }', "and not both"),
        ("placement = { per_worker = 0 }", "must be in 1 … 100000"),
        ('placement = { hosts = ["wn1.example", "wn1.example"] }', "none twice"),
        ("placement = { hosts = [] }", "at least one worker"),
        ('placement = { hosts = ["$(trial)"] }', "must be a host name"),
        ('cores = "own"', 'one of "free", "pinned"'),
        # Of pools that cannot hold it.
        ("placement = { per_worker = 1 }", "1 on each of the 3 workers of pool public are too few for a batch of 4"),
        ('placement = { hosts = ["wn9.example"] }', r"wn9\.example is no worker of pool public \(wn1\.example, "),
    ],
)
def test_another_placement_is_refused_before_anything_runs(load, planned, text, told):
    with pytest.raises(ConfigError, match=told):
        planned(load(text))


@pytest.mark.parametrize(
    ("text", "cores", "problem"),
    [
        ('placement = "one-worker"', 4, "wn1.example has 4 cores for the 4 clients that are placed there beside 1"),
        ("", 2, "pool public has 6 cores for a batch of 4 beside 3 jobs that sample or set conditions"),
        ("batches = [1]", 1, "wn1.example has 1 cores for its flush beside 1 jobs that sample or set conditions"),
        ("", 3, ""),
        ("flush = false\nbatches = [1]", 2, ""),
    ],
)
def test_slots_that_a_trial_would_wait_for_in_vain_are_missing(site, load, planned, text, cores, problem):
    experiment = load(text)
    slots = {"public": Slots(dict.fromkeys(WORKERS, cores))}
    lines = [finding.seen for finding in enough_slots(Planned(planned(experiment), site, experiment, slots))]
    assert [line for line in lines if "cores for" in line and problem in line] or not problem
    assert problem or not [line for line in lines if "cores for" in line]


def test_pinned_clients_take_no_more_slots_than_there_are_cores(site, load, planned):
    experiment = load('placement = "one-worker"\ncores = "pinned"')
    for cores, missing in ((3, True), (4, False)):  # the sampler beside them needs a slot alone
        slots = {"public": Slots(dict.fromkeys(WORKERS, 16), dict.fromkeys(WORKERS, cores))}
        found = enough_slots(Planned(planned(experiment), site, experiment, slots))
        few = [finding for finding in found if "cores for the 4 clients that are placed there" in finding.seen]
        assert bool(few) == missing
        assert all("a core of its own" in finding.remedy for finding in few)


@pytest.mark.parametrize(
    ("cores", "step"),
    [
        ({}, "release slots"),  # nobody knows how many there are
        (dict.fromkeys(WORKERS, 4 + 1 + 1), "release slots"),
        (dict.fromkeys(WORKERS, 4 + 1 + 2), "release"),
    ],
)
def test_clients_that_could_take_every_slot_come_after_flush_and_samplers(written, cores, step):
    _, (trial, *_) = written("", cores)
    assert f"SCRIPT PRE release ../../scripts/lock.py {step}\n" in (trial / names.TRIAL_DAG).read_text()


@pytest.mark.parametrize(("cores", "memory_mb", "problems"), [(97, 4 * 600, 0), (97, 2 * 600, 1), (2, 2 * 600, 0)])
def test_a_batch_for_which_the_pool_has_cores_and_no_memory_is_bad(load, planned, site, cores, memory_mb, problems):
    asked = load("batches = [4]\nworkloads.root.memory_mb = 600")
    slots = {"public": Slots(dict.fromkeys(WORKERS[:1], cores), {}, dict.fromkeys(WORKERS[:1], memory_mb))}
    found = [each for each in enough_slots(Planned(planned(asked), site, asked, slots)) if "memory" in each.seen]
    assert len(found) == problems
    assert all("has memory for 2 clients, which ask for 600 MB each, and not for 4" in one.seen for one in found)


@pytest.mark.parametrize(
    ("batch", "cores", "lines"),
    [
        (6, {}, [1, 2, 3, 1, 2, 3]),  # where the pool was not asked they are dealt, too
        (6, dict.fromkeys(WORKERS, 3), [1, 2, 3, 1, 2, 3]),
        (6, {**dict.fromkeys(WORKERS, 8), WORKERS[1]: 2}, []),
        (4, dict.fromkeys(WORKERS, 8), []),
    ],
)
def test_clients_are_dealt_evenly_where_they_divide_and_fit(site, load, planned, batch, cores, lines):
    experiment = load(f"batches = [{batch}]\nreplicas.root-tree.count = 6")
    plan = planned(experiment, cores)
    ((_, text),) = place_lists(site, experiment, plan, plan.configurations[0])
    meant = [f'Machine == "wn{number}.example" || time() - QDate > 120' for number in lines]
    assert text.splitlines() == (meant or ["true"] * batch)
    assert trial_record(site, experiment, plan, plan.trials[0])["placement"]["hosts"] == []


def test_where_workers_are_not_known_nobody_can_be_placed(tmp_path, site, load):
    experiment = load('placement = "one-worker"\nflush = false')
    with pytest.raises(ConfigError, match="no workers are known, so clients cannot be placed"):
        write_run(expand(site, experiment, {}), site, experiment, tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["true"] * 4),
        ("placement = { per_worker = 3 }", ['Machine == "wn1.example"'] * 3 + ['Machine == "wn2.example"']),
    ],
)
def test_each_client_has_its_worker_in_a_line_of_the_list_that_its_trial_is_queued_from(written, text, lines):
    run, (trial, *_) = written(text)
    (macro,) = re.findall(r'places="(\S+)"', (trial / names.TRIAL_DAG).read_text())
    assert (trial / macro).read_text().splitlines() == lines
    assert "queue place from $(places)" in (run / names.SUBMIT / "clients.sub").read_text()


def test_trials_that_differ_in_their_repetition_share_their_list_of_places(written):
    run, trials = written("repeats = 3")
    assert (len(list((run / names.LISTS).glob("*.places"))), len(trials)) == (1, 3)
    assert all({path.name for path in trial.iterdir()} == set(names.WRITTEN) for trial in trials)


def test_what_could_be_more_than_a_hosts_name_is_not_written():
    with pytest.raises(ConfigError, match="cannot be written for HTCondor"):
        place_lines(["wn1\n$(trial)"], 1)


def test_an_axis_places_clients_in_several_ways(site, load, planned):
    experiment = load('[axes.per_worker]\nvalues = [2, 4]\nsets = "placement.per_worker"')
    plan, found = planned(experiment), {}
    for trial in plan.trials:
        own = experiment.at(trial.configuration.levels)
        record = trial_record(site, own, plan, trial)["placement"]
        found[record["asked"]] = len(set(record["hosts"]))
    assert found == {"2 per worker": 2, "4 per worker": 1}


def test_caches_are_emptied_on_all_workers_and_a_server_that_is_one_is_flushed_once_or_not_at_all(site, load, planned):
    experiment = load('placement = "one-worker"')
    plan = planned(experiment)
    flushed = {host.host for host in flushed_hosts(site, experiment, plan, plan.configurations[0])}
    assert flushed >= set(WORKERS)
    (own,) = plan.configurations
    own_path = changed(site, "access", "direct", path=(WORKERS[0],))
    assert len(flushed_hosts(own_path, experiment, plan, own)) == len(WORKERS)
    elsewhere = changed(own_path, "access", "direct", prefix="/mnt")
    with pytest.raises(ConfigError, match=rf"path: {WORKERS[0]} is a worker of pools\.public, too"):
        flushed_hosts(elsewhere, experiment, plan, own)


@pytest.mark.parametrize(
    ("others", "servers", "emptied"),
    [(["storage-xrootd"], (), True), ([], (), False), (["storage-xrootd"], ("osf.fnal.test",), False)],
)
def test_a_storage_server_that_one_way_empties_is_emptied_for_others(site, variant, planned, others, servers, emptied):
    """A file server that is XRootD's door and exports the files by NFS has in memory what either way has read."""
    experiment = variant(f"access = {json.dumps(['direct', *others])}")
    site = changed(site, "access", "direct", servers=servers)
    plan = planned(experiment)
    own = next(each for each in plan.configurations if each.access == "direct")
    (place,) = {host.directory for host in flushed_hosts(site, experiment, plan, own) if host.host in WORKERS}
    assert (("oss.uf.test", place) in flushed_hosts(site, experiment, plan, own)) is emptied


def test_such_a_server_that_is_a_worker_too_is_flushed_as_one(site, variant):
    site = changed(site, "access", "direct", prefix="/mnt")
    experiment = variant('access = ["direct", "storage-xrootd"]')
    plan = expand(site, experiment, {"public": [*WORKERS, "oss.uf.test"], "private": WORKERS})
    own = next(each for each in plan.configurations if each.access == "direct")
    assert [host.host for host in flushed_hosts(site, experiment, plan, own)] == list(plan.pools["public"])


def judged(folder, rule):
    data = read_trial(folder)
    (found,) = (finding for finding in evidence(data, trial_row(data)) if finding.rule.name == rule)
    return found.verdict, found.words


@pytest.mark.parametrize(("meant", "verdict"), [(HOST, VALID), ("wn02.private.fiu.test", INVALID)])
def test_clients_that_ran_elsewhere_than_planned_are_told(tmp_path, meant, verdict):
    placement = {"asked": "on two", "hosts": [HOST, HOST, HOST, meant], "pinned": False}
    folder = synthetic.write_trial(tmp_path, placement=placement)
    found, words = judged(folder, "wrong place")
    assert found == verdict
    assert f"client 3 on {HOST}, not {meant}" in words or verdict == VALID


@pytest.mark.parametrize(
    ("cores", "verdict"), [((0, 1, 2, 3), VALID), ((0, 1, 2, 2), INVALID), ((0, 1, 2, None), INVALID)]
)
def test_clients_that_had_no_core_of_their_own_are_told(tmp_path, cores, verdict):
    placement = {"asked": "as-matched", "hosts": [], "pinned": True}
    folder = synthetic.write_trial(tmp_path, placement=placement)
    for client, core in enumerate(cores):
        path = folder / names.client_output(client)
        path.write_text(path.read_text().replace('"event": "go"', f'"event": "go", "core": {json.dumps(core)}'))
    found, words = judged(folder, "not pinned")
    assert (found, words.endswith((": 3", "2, 3")) or verdict == VALID) == (verdict, True)
    assert trial_row(read_trial(folder))["placed"] == "as-matched, pinned"
