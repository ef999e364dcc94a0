"""The plan is a pure function of site, experiment, pool and seed."""

import dataclasses
import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.unit.quick_plan import POOL, changed, previewed
from tierbench.checked_text import AbsolutePath, Host, Prefix
from tierbench.dags.clients import shipped_clients, workload_class
from tierbench.dags.experiment import find_experiment, load_experiment
from tierbench.dags.hosts import sampled_hosts
from tierbench.dags.plan import ReplicaSet, expand, from_json, to_json
from tierbench.dags.records import ReplicaLists, trial_record
from tierbench.dags.replicas import Entry
from tierbench.errors import ConfigError
from tierbench.json_files import Damaged
from tierbench.site_configs.site import Destination, load_site
from tierbench.submit.init_site import site_lines
from tierbench.submit.pool import Machine

BY_DD = {"dd": workload_class(shipped_clients()["dd"])(client="dd", replicas="root-tree")}


def catalogue(experiment, sizes):
    """A catalogue of the first files of the experiment's set, in the order in which texts are sorted."""
    ((folder, replicas),) = experiment.used_replicas.items()
    entries = [Entry(name, size, f"{size:08x}") for name, size in zip(replicas.files, sizes, strict=False)]
    return {folder: {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}}


def files_of(plan, index):
    trial = plan.trials[index]
    count = plan.replicas[trial.replicas].count
    return {(trial.offset + n) % count for n in range(trial.jobs)}


def test_repetitions_follow_one_another_and_configurations_are_interleaved_and_trials_are_numbered_in_their_order(plan):
    assert [t.repeat for t in plan.trials] == sorted(t.repeat for t in plan.trials)
    first_round = [t.configuration.id for t in plan.trials if t.repeat == 1]
    assert first_round != sorted(first_round)
    assert [t.index for t in plan.trials] == list(range(len(plan.trials)))


def test_each_second_repetition_has_the_order_of_the_one_before_in_reverse(site, quick):
    """By every fourth seed one of two would come first in all of three, and what drifts would be its difference."""
    plan = expand(site, dataclasses.replace(quick, repeats=4), POOL)
    orders = [[t.configuration.id for t in plan.trials if t.repeat == repeat] for repeat in (1, 2, 3, 4)]
    assert [orders[1], orders[3]] == [orders[0][::-1], orders[2][::-1]]
    assert orders[0] != orders[2]


def test_the_same_seed_gives_the_same_plan_and_another_one_another_order(site, quick, plan):
    assert expand(site, quick, POOL) == plan
    other = expand(site, dataclasses.replace(quick, seed=2), POOL)
    assert [t.id for t in other.trials] != [t.id for t in plan.trials]


def test_consecutive_trials_read_different_files_and_so_do_the_clients_of_one(plan):
    shared = [files_of(plan, i) & files_of(plan, i + 1) for i in range(len(plan.trials) - 1)]
    assert not any(shared)
    assert all(len(files_of(plan, t.index)) == t.jobs for t in plan.trials)


def test_bytes_are_those_of_the_catalogue_also_in_the_plans_file_and_a_short_catalogue_is_refused(site, quick):
    sizes = [1000 + n for n in range(24)]
    plan = expand(site, quick, POOL, catalogue(quick, sizes))
    assert [t.bytes for t in plan.trials] == [sum(sizes[n] for n in files_of(plan, t.index)) for t in plan.trials]
    assert from_json(to_json(plan)) == plan
    with pytest.raises(ConfigError, match=r"replicas\.root-tree: 24 are needed and the catalogue .* lists 3"):
        expand(site, quick, POOL, catalogue(quick, [1, 2, 3]))


def test_from_the_ten_thousandth_replica_on_each_has_its_own_size(site, quick):
    many = {name: dataclasses.replace(replicas, count=10_050) for name, replicas in quick.replicas.items()}
    experiment = dataclasses.replace(quick, replicas=many)
    (replicas,) = expand(site, experiment, POOL, catalogue(experiment, range(10_050))).replicas.values()
    assert replicas.sizes == tuple(range(10_050))
    assert replicas.checksums == tuple(f"{size:08x}" for size in range(10_050))


def test_without_a_catalogue_bytes_are_nominal_only_and_bytes_go_on_at_the_sets_beginning(plan):
    trial = plan.trials[0]
    assert (trial.bytes, trial.nominal_bytes) == (None, trial.jobs * 64_000_000)
    replicas = ReplicaSet("s", "/d", ".root", 3, 0, sizes=(1, 10, 100))
    assert replicas.bytes_of(2, 2) == 101


def test_workers_that_the_site_lists_are_not_asked_for_and_a_plan_needs_no_pool(site, quick):
    own = changed(site, "pools", "private", workers=("wn77.private.fiu.test",))
    assert expand(site, quick, {}).pools == {"private": (), "public": ()}
    assert expand(own, quick, POOL).pools["private"] == ("wn77.private.fiu.test",)


def test_what_a_site_offers_in_place_of_an_experiments_ways_is_told_once(site, quick):
    renamed = {f"our-{name}": way for name, way in site.access.items()}
    with pytest.raises(ConfigError) as refused:
        expand(dataclasses.replace(site, access=renamed), quick, POOL)
    (line,) = str(refused.value).splitlines()
    assert all(f'"{way}" (did you mean "our-{way}"?)' in line for way in quick.access)
    assert f"site testbed has {', '.join(renamed)}: " in line
    assert 'say extends = "quick" and access = [some of these]' in line


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ({"access": ("lan-xrotd",)}, r'quick at site testbed: access: there is no "lan-xrotd" \(did you mean'),
        ({"workloads": BY_DD}, r'client "dd" cannot read by access "lan-xrootd".*"direct", .*"lan-xrootdfs"'),
        ({"access": ("wan-https",)}, r'"root" cannot read by access "wan-https".*ROOT reads no https'),
    ],
)
def test_an_access_that_is_not_offered_or_not_for_the_client_is_refused_with_what_there_is(site, quick, asked, refused):
    with pytest.raises(ConfigError, match=refused):
        expand(site, dataclasses.replace(quick, **asked), POOL)


def test_a_client_that_cannot_have_files_copied_is_kept_from_ways_that_lead_on(site, quick):
    to = Destination(Prefix("root://far.test:1094/"), AbsolutePath("/in"), Host("dgt.fiu.test"))
    access = {name: dataclasses.replace(one, to=to) for name, one in site.access.items()}
    with pytest.raises(ConfigError, match=r'"lan-xrootd" leads from server to server, and client "root" cannot'):
        expand(dataclasses.replace(site, access=access), quick, POOL)


def test_a_workloads_own_accesses_take_the_place_of_the_others(site):
    plan = expand(site, find_experiment("chep-2013"), POOL)
    assert {c.access for c in plan.configurations if c.workload == "dd"} == {"lan-xrootdfs", "direct"}


def test_a_plan_of_another_format_is_refused(plan):
    with pytest.raises(ConfigError, match=r"has format 99; this tierbench reads format 3"):
        from_json(to_json(plan).replace('"format": 3', '"format": 99', 1))


def test_the_thesis_four_ways_are_planned_as_they_were_before_there_were_axes(site):
    fixtures = Path(__file__).parents[1] / "fixtures"
    plan = expand(site, load_experiment(fixtures / "four-ways.toml"), {})
    planned = "".join(f"{trial.id}\t{trial.name}\t{trial.offset}\n" for trial in plan.trials)
    assert planned == (fixtures / "four-ways.tsv").read_text(encoding="utf-8")


def worked(quick, **keys):
    replicas = {name: dataclasses.replace(one, count=100) for name, one in quick.replicas.items()}
    return dataclasses.replace(quick, replicas=replicas, **keys)


def test_each_job_has_files_of_its_own_and_the_next_trial_goes_on_after_all_of_the_one_before(site, quick):
    plan = expand(site, worked(quick, files_per_job=3), POOL)
    trial = plan.trials[0]
    lines = ReplicaLists(site, plan).text(trial).splitlines()
    assert len(lines) == len(set(lines)) == 3 * trial.jobs == trial.files
    assert trial.nominal_bytes == 3 * trial.jobs * plan.replicas[trial.replicas].nominal_bytes
    one, other = expand(site, worked(quick, files_per_job=3), POOL).trials[:2]
    assert other.offset == (one.offset + one.files) % 100


def test_shuffled_files_stay_with_their_job_and_in_one_order(site, quick):
    plan = expand(site, worked(quick, files_per_job=8), POOL)
    shuffled = expand(site, worked(quick, files_per_job=8, order="shuffled"), POOL)
    listed, mixed, again = (
        ReplicaLists(site, one).text(one.trials[0]).splitlines() for one in (plan, shuffled, shuffled)
    )
    assert mixed == again != listed
    assert sorted(mixed[:8]) == sorted(listed[:8])
    orders = [[listed.index(line) - at for line in mixed[at : at + 8]] for at in (0, 8)]
    assert orders[0] != orders[1]  # or all jobs would be at the same place of theirs


def test_the_work_is_in_what_the_clients_are_told(site, quick):
    experiment = worked(quick, files_per_job=4, processes=2, for_s=20.0, fetch_every_s=0.5)
    plan = expand(site, experiment, POOL)
    record = trial_record(site, experiment, plan, plan.trials[0])
    work = {"files_per_job": 4, "processes": 2, "for_s": 20.0, "order": "listed", "fetch_every_s": 0.5}
    assert record["work"] == work
    assert from_json(to_json(plan)) == plan


@pytest.mark.parametrize(
    ("condition", "value", "refused"),
    [
        ("wan-rtt", '"47ms"', 'conditions.wan-rtt: must be a number of ms, not "47ms"'),
        ("wan-rtt", "true", "conditions.wan-rtt: must be a number of ms"),
        ("wan-rtt", "47", ""),
        ("worker-rtts", '"5-14"', 'conditions.worker-rtts: must be a number of ms or "5-14-47-60", not "5-14"'),
        ("worker-rtts", '"5-14-47-60"', ""),
    ],
)
def test_a_condition_is_changed_to_what_the_site_says_it_takes(variant, site, condition, value, refused):
    experiment = variant(f"conditions = {{ {condition} = {value} }}")
    with pytest.raises(ConfigError, match=re.escape(refused)) if refused else nullcontext():
        assert expand(site, experiment, {}).trials


def test_a_variant_can_do_without_what_it_extends(variant):
    asked = variant('without = ["workloads.dd", "workloads.higgs.options.cpu_s_per_mb"]', "chep-2013")
    assert list(asked.workloads) == ["root", "higgs"]
    assert asked.workloads["higgs"].options.cpu_s_per_mb == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('without = ["workloads.ddd"]', 'without: there is no "workloads.ddd" (did you mean "workloads.dd"?)'),
        ('without = ["woorkloads.dd"]', 'without: there is no "woorkloads.dd"'),
        ('without = ["replicas.plain"]', "replicas: there is no"),
    ],
)
def test_what_a_variant_cannot_do_without_is_told(variant, text, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        variant(text, "chep-2013")


@pytest.mark.parametrize("name", ["chep-2013", "extenci-local-input"])
def test_an_experiment_with_cmssw_itself_can_be_planned(site, name):
    asked = find_experiment(f"{name}-cmssw")
    assert asked.workloads.keys() == find_experiment(name).workloads.keys()
    assert any(trial.configuration.client == "cmssw" for trial in expand(site, asked, {}).trials)


def test_a_plan_says_what_room_and_time_its_files_take(site, quick):
    room = r"replicas root-tree-\w+: 24 files, 1\.54 GB of room, about 15 s or more to make"
    assert re.search(room, previewed(site, quick))


@pytest.mark.parametrize(
    ("replicas", "words"),
    [
        ('"doubling", count = 5, size_mb = 1000, up_to_mb = 4000', "5 files, 10.00 GB of room"),
        ('"copies", count = 5, size_mb = 1000, source = "/store/*.dat"', "5 files, as large as those that they copy"),
    ],
)
def test_a_plan_says_what_room_files_of_several_sizes_take(site, variant, replicas, words):
    read = 'without = ["workloads.root"]\naccess = ["direct"]\nworkloads.dd = { client = "dd", replicas = "plain" }'
    asked = variant(f"{read}\nreplicas.plain = {{ kind = {replicas} }}")
    assert words in previewed(site, asked)


def test_a_single_box_measures_its_own_disk(quick, tmp_path):
    """Its sampler is that of a worker: the storage is there, and not on the network."""
    (tmp_path / "box.toml").write_text("\n".join(site_lines("box", [Machine("box.example", 4, "")], "", [], [])))
    box = load_site(tmp_path / "box.toml")
    asked = dataclasses.replace(quick, access=("disk",))
    plan = expand(box, asked, {"workers": ["box.example"]})
    (sampler,) = sampled_hosts(box, plan, plan.configurations[0])
    assert (sampler.host, sampler.role) == ("box.example", "worker")


@pytest.mark.parametrize("key", ["configurations", "replicas", "trials", "pools", "factors", "report"])
def test_a_damaged_plan_says_so(plan, key):
    content = json.loads(to_json(plan))
    for wrong in ({}, {key: 7}, {key: [{"id": 1}]}):
        rest = {name: value for name, value in content.items() if name != key}
        with pytest.raises(Damaged, match=r"plan\.json is damaged"):
            from_json(json.dumps({**rest, **wrong}))
