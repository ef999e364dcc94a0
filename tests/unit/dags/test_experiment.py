"""An experiment file says what is required; a variant is the few lines that differ."""

import dataclasses
import json

import pytest

from tests.unit.quick_plan import written
from tests.unit.text_fields import needed_options
from tierbench.dags.clients import shipped_clients, workload_class
from tierbench.dags.experiment import load_experiment
from tierbench.dags.replicas import KINDS, TreeReplicas
from tierbench.errors import ConfigError
from tierbench.spec import build
from tierbench.submit.cli import main
from tierbench.wrappers.client import find_client

EXPERIMENT = """
name = "small"
question = "Is it fast?"
access = ["bridge", "mount"]
batches = [1, 2]

[workloads.read]
client = "root"
replicas = "trees"
options = { cache_mb = 8 }

[replicas.trees]
kind = "tree"
count = 4
size_mb = 10
branches = 3
"""
CLIENTS = shipped_clients()


@pytest.fixture
def load(load):
    """Read the small experiment with one piece of its text replaced."""
    return lambda old="", new="": load(EXPERIMENT, (old, new), name="small")


@pytest.fixture
def extend(load, variant):
    """Read a variant of the small experiment."""
    load()
    return lambda text: variant(text, "./small.toml")


def test_a_workload_has_its_clients_own_options_and_a_set_of_replicas_its_kinds_own_keys(load):
    workload, replicas = load().workloads["read"], load().replicas["trees"]
    assert (workload.client, workload.options.cache_mb) == ("root", 8)
    assert isinstance(replicas, TreeReplicas)
    assert replicas.branches == 3


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('client = "root"', 'client = "rot"', r'workloads\.read\.client: there is no "rot" \(did you mean "root"\?\)'),
        ('client = "root"', "", r'workloads\.read\.client: missing; one of "cmssw"'),
        ("cache_mb = 8", "streams = 8", r"workloads\.read\.options\.streams: unknown key"),
        ("cache_mb = 8", "cache_mb = 5000", r"workloads\.read\.options\.cache_mb: must be at most 4096, not 5000"),
        ("cache_mb = 8", 'cache_mb = "of"', r'cache_mb: must be one of "off", "default" or a number, not "of"'),
        ("cache_mb = 8", "cache_mb = 0", r'cache_mb: must be "off", .* not 0, "default" for what 0 was'),
        ("cache_mb = 8", "cache_mb = -1", r'cache_mb: must be "off", .* not -1, "off" for what -1 was'),
        ('replicas = "trees"', 'replicas = "tree"', r'workloads\.read\.replicas: there is no "tree" \(did you mean'),
        ("batches = [1, 2]", "batches = [1, 5]", r"replicas\.trees\.count: 4 replicas are too few for the 5 clients"),
        ("batches = [1, 2]", "batches = [1, 2]\nfiles_per_job = 3", "2 clients .* reads 3 of its own; make it 6"),
        ("batches = [1, 2]", "batches = [1, 2]\nprocesses = 2", r"workloads\.read\.processes: 2 processes .* 1 files"),
        ("batches = [1, 2]", "batches = [1, 2]\nfor_s = 7200", r"workloads\.read\.for_s: must be less than"),
        ("batches = [1, 2]", 'batches = [1, 2]\norder = "sorted"', r'order: must be one of "listed", "shuffled"'),
        ("batches = [1, 2]", 'batches = [1]\nmeasure = "events"\nfiles_per_job = 2', '"root" .* no events in such'),
        ("batches = [1, 2]", "batches = [0]", r"batches: a batch has at least 1 client, not 0"),
        ("batches = [1, 2]", "batches = [2, 2]", r"batches: names 2 twice"),
        ("batches = [1, 2]", "batches = []", r"batches: must not be empty"),
        ('client = "root"', 'client = "higgs"', 'client "higgs" cannot read replicas of kind "tree"'),
        ("branches = 3", 'source = "/x/*"', r"replicas\.trees\.source: unknown key"),
        ('kind = "tree"', 'kind = "rntuple"\nevents = 9', r"replicas\.trees\.cluster_events: missing"),
        ('kind = "tree"', 'kind = "trees"', r'replicas\.trees\.kind: there is no "trees"'),
        ("batches = [1, 2]", "batches = [1]\nsample_period_s = 0.01", r"sample_period_s: must be in 0\.05"),
        ("[workloads.read]", 'workloads = ["read"]\n[elsewhere]', r"workloads: \['read'\] is no table; at least one"),
        ("[workloads.read]", "[workloads.Read]", r"workloads\.Read: must be a name of small letters"),
    ],
)
def test_what_is_wrong_is_named(load, old, new, complaint):
    with pytest.raises(ConfigError, match=complaint):
        load(old, new)


def test_wrong_things_in_several_tables_are_reported_at_once(load):
    with pytest.raises(ConfigError) as caught:
        load('client = "root"', 'client = "rot"\n[replicas.more]\nkind = "tar"\n[elsewhere]')
    assert len(str(caught.value).splitlines()) == 3


def test_a_variant_says_only_what_differs_and_has_a_name_of_its_own(extend, load, tmp_path):
    larger = extend("batches = [4]\n[replicas.trees]\nsize_mb = 20\n")
    trees = dataclasses.replace(load().replicas["trees"], size_mb=20.0)
    assert larger == dataclasses.replace(load(), name="mine", batches=(4,), replicas={"trees": trees})
    (tmp_path / "nameless.toml").write_text('extends = "./small.toml"')
    with pytest.raises(ConfigError, match=r"nameless\.toml: name: missing"):
        load_experiment(tmp_path / "nameless.toml")


def test_going_round_in_circles_is_noticed(tmp_path):
    for name, base in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.toml").write_text(f'extends = "./{base}.toml"\nname = "{name}"\n')
    with pytest.raises(ConfigError, match=r"extends this one in turn"):
        load_experiment(tmp_path / "a.toml")


def test_on_the_testbed_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for base in ('"./a.toml"', "5"):
        (tmp_path / "a.toml").write_text(f'extends = {base}\nname = "a"\n')
        assert main(["testbed", "run", str(tmp_path / "a.toml"), "--name", "none-of-that-name"]) == 2


@pytest.mark.parametrize(
    ("base", "own"),
    [
        ("[workloads]\nroot = 5", '[workloads.root]\nclient = "dd"'),
        ("", 'workloads = 5\n[axes.n]\nvalues = ["off"]\nsets = "workloads.root.options.cache_mb"'),
    ],
)
def test_what_should_be_a_table_and_is_none_is_a_mistake_in_the_file(tmp_path, base, own):
    (tmp_path / "base.toml").write_text(f'name = "base"\n{base}\n')
    (tmp_path / "own.toml").write_text(f'name = "own"\nextends = "./base.toml"\n{own}\n')
    with pytest.raises(ConfigError):
        load_experiment(tmp_path / "own.toml")


@pytest.mark.parametrize(("key", "shared"), [("count = 9", True), ("size_mb = 20", False)])
def test_replicas_of_one_recipe_share_their_folder_however_many(extend, load, key, shared):
    other = extend(f"[replicas.trees]\n{key}").replicas["trees"]
    assert (other.folder == load().replicas["trees"].folder) == shared


def test_inherited_replicas_that_nobody_reads_are_not_used(extend):
    more = '[workloads.read]\nreplicas = "others"\n[replicas.others]\nkind = "tree"\ncount = 2\nsize_mb = 1\n'
    used = extend(more).used_replicas
    assert [replicas.name for replicas in used.values()] == ["others"]


@pytest.fixture
def cms(tmp_path):
    """An experiment of two workloads whose PSets have one name, each in a folder of its own."""
    replicas = '[replicas.trees]\nkind = "copies"\ncount = 4\nsize_mb = 10\nsource = "/store/*.root"\n'
    text = EXPERIMENT[: EXPERIMENT.index("[workloads")] + replicas
    for number in (1, 2):
        (tmp_path / f"analysis-{number}").mkdir()
        (tmp_path / f"analysis-{number}/cfg.py").write_text(f"# {number}\n")
        options = f'{{ release = "CMSSW_10_6_30", pset = "analysis-{number}/cfg.py" }}'
        text += f'[workloads.w{number}]\nclient = "cmssw"\nreplicas = "trees"\noptions = {options}\n'
    path = tmp_path / "cms.toml"
    path.write_text(text)
    return path


def psets(experiment):
    return [workload.options.pset for workload in experiment.workloads.values()]


def test_a_pset_is_found_beside_the_file_that_names_it_also_by_a_variant_elsewhere_or_missed(cms):
    assert psets(load_experiment(cms)) == [str(cms.parent / f"analysis-{number}/cfg.py") for number in (1, 2)]
    variant = cms.parent / "elsewhere" / "variant.toml"
    variant.parent.mkdir()
    variant.write_text('name = "variant"\nextends = "../cms.toml"\n')
    assert psets(load_experiment(variant)) == psets(load_experiment(cms))
    (cms.parent / "analysis-2/cfg.py").unlink()
    with pytest.raises(ConfigError, match=r"cms\.toml: workloads\.w2\.options\.pset: .*analysis-2/cfg\.py: no such"):
        load_experiment(cms)


def test_psets_of_one_name_do_not_take_each_others_place(cms, tmp_path):
    run = written(dataclasses.replace(load_experiment(cms), access=("direct",)), tmp_path / "run")
    trials = [json.loads(path.read_text()) for path in sorted(run.glob("trials/*/trial.json"))]
    shipped = {trial["workload"]: (run / "scripts/programs" / trial["options"]["pset"]).read_text() for trial in trials}
    assert shipped == {"w1": "# 1\n", "w2": "# 2\n"}


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_the_worker_takes_the_options_that_a_workload_has(name):
    table = {"client": name, "replicas": "r", "options": needed_options().get(name, {})}
    options = dataclasses.asdict(build(workload_class(CLIENTS[name]), table, "test").options)
    as_read = json.loads(json.dumps(options))
    of_every_client = {"environment": {}, "scale": 1.0, "core": 1.0, "proxy": "", "to": ""}
    assert find_client(name).with_defaults(as_read) == {**as_read, **of_every_client}


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_it_reads_replicas_that_can_be_made_and_its_files_and_the_meanings_of_its_options_are_there(name):
    file = CLIENTS[name]
    assert set(file.client.kinds or ()) <= set(KINDS)
    assert [path.name for path in file.ships if not path.is_file()] == []
    assert [key for key, option in file.client.options.items() if not option.meaning] == []


def test_a_claim_about_access_methods_without_a_workload_in_common_is_one_about_pairs(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\nquestion = "?"\naccess = ["door", "mount"]\nbatches = [4]\nrepeats = 3\n'
        '[workloads.copy]\nclient = "xrdcp"\nreplicas = "files"\naccess = ["door"]\n'
        '[workloads.read]\nclient = "dd"\nreplicas = "files"\naccess = ["mount"]\n'
        '[replicas.files]\nkind = "random"\nsize_mb = 8\ncount = 4\n'
    )
    claim = '[[claims]]\nsays = "first"\nkind = "faster"\nmetric = "delivered_mbps"\n'
    beside = path.with_suffix(".reference.toml")
    beside.write_text(f'{claim}at = {{ access = "door", jobs = 4 }}\nfactor = "access"\nagainst = "mount"\n')
    with pytest.raises(ConfigError, match=r'say at\.pair = "door/copy", factor = "pair", against = "mount/read"'):
        load_experiment(path)
    beside.write_text(f'{claim}at = {{ pair = "door/copy", jobs = 4 }}\nfactor = "pair"\nagainst = "mount/read"\n')
    assert load_experiment(path).claims[0].factor == "pair"
