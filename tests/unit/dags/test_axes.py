"""An experiment's axes: what they may be, the product they make, and what a plan makes of it."""

import dataclasses
import itertools
import re
import sys
from pathlib import Path

import pytest

from tests.unit.quick_plan import POOL, previewed
from tierbench.dags.hosts import ways_to_sample
from tierbench.dags.levels import COMMON
from tierbench.dags.plan import expand
from tierbench.dags.replicas import Entry
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Links
from tierbench.submit.cli import main
from tierbench.submit.planning import OVERHEAD_S, Planned

CACHES = """
name = "caches"
question = "Does ROOT's cache help by the bridge?"
access = ["lan-xrootd"]
batches = [2, 6]
repeats = 2

[workloads.root]
client = "root"
replicas = "trees"

[replicas.trees]
kind = "tree"
count = 12
size_mb = 64

[axes.cache_mb]
values = ["default", 30, "off"]
sets = "workloads.root.options.cache_mb"
"""
LATENCY = (
    CACHES
    + """
[axes.rtt_ms]
values = [0.1, 5, 47]
arranges = "wan-rtt"
label = "round trip [ms]"
"""
)
DATA_SETS = (
    CACHES
    + """
[axes.dataset.values]
small = { "replicas.trees.size_mb" = 0.25, "workloads.root.memory_mb" = 100 }
large = { "replicas.trees.size_mb" = 512 }
"""
)


@pytest.fixture
def planned(load, site):
    return lambda text: expand(site, load(text), {})


def test_every_repetition_holds_the_whole_product_once_and_names_and_factors_tell_the_levels(planned):
    plan = planned(LATENCY)
    points = set(itertools.product((1, 2), (2, 6), ("default", 30, "off"), (0.1, 5, 47)))
    assert {(t.repeat, t.jobs, t.levels["cache_mb"], t.levels["rtt_ms"]) for t in plan.trials} == points
    assert len(plan.trials) == len(points)
    names = {t.id: t.name for t in plan.trials}
    assert names["lan-xrootd.root.cache_mb=off.rtt_ms=0.1.x002.r1"] == "lan-xrootd/root cache_mb=off rtt_ms=0.1 ×2 #1"  # noqa: RUF001
    assert "lan-xrootd/root cache_mb=30 rtt_ms=47" in {c.name for c in plan.configurations}
    factors = plan.factors
    assert [factor.name for factor in factors if factor.arranged] == ["rtt_ms"]
    assert {factor.name: factor.levels for factor in factors} == {
        "access": ("lan-xrootd",), "workload": ("root",), "jobs": (2, 6), "cache_mb": ("default", 30, "off"),
        "rtt_ms": (0.1, 5, 47),
    }  # fmt: skip


def test_a_named_level_sets_several_keys_and_gets_replicas_of_its_own(planned):
    plan = planned(DATA_SETS)
    sizes = {(t.levels["dataset"], plan.replicas[t.replicas].nominal_bytes) for t in plan.trials}
    assert sizes == {("small", 250_000), ("large", 512_000_000)}


def test_what_a_site_arranges_stays_for_a_block_of_trials_in_a_random_order(planned):
    plan = planned(LATENCY)
    for repeat in (1, 2):
        rtts = [t.levels["rtt_ms"] for t in plan.trials if t.repeat == repeat]
        assert len(list(itertools.groupby(rtts))) == 3
    orders = {
        tuple((t.jobs, t.levels["cache_mb"]) for t in block)
        for _, block in itertools.groupby(planned(LATENCY).trials, key=lambda t: (t.repeat, t.levels["rtt_ms"]))
    }
    assert len(orders) == 6


def test_points_that_make_no_sense_are_left_out_and_told_and_not_all_can_be(planned):
    short = '[[except]]\nwhere = { cache_mb = ["default", 30], jobs = 6 }\nbecause = "memory is short"\n'
    plan = planned(LATENCY + short)
    assert plan.left_out == {"memory is short": 6}
    assert {t.levels["cache_mb"] for t in plan.trials if t.jobs == 6} == {"off"}
    with pytest.raises(ConfigError, match="leaves no trial"):
        planned(CACHES + '[[except]]\nwhere = { access = "lan-xrootd" }\nbecause = "none"\n')


def test_a_variant_takes_over_the_axes_that_it_extends(load, variant, site):
    load(CACHES)
    shorter = variant("[axes.cache_mb]\nvalues = [8]", "experiment.toml")
    assert {t.levels["cache_mb"] for t in expand(site, shorter, {}).trials} == {8}


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ("[axes.a]\nvalues = [1]", r"axes\.a: needs either sets, .* or arranges"),
        ('[axes.a]\nvalues = [1]\nsets = "x"\narranges = "y"', r"axes\.a: needs either sets"),
        ('[axes.a]\nvalues = []\nsets = "flush"', r"axes\.a\.values: must not be empty"),
        ('[axes.a]\nvalues = [1, 1.0]\nsets = "flush"', r"axes\.a\.values: has 1 twice"),
        ('[axes.a]\nvalues = ["x/y"]\nsets = "flush"', r"axes\.a\.values: must be numbers"),
        ('[axes.a]\nvalues = [1]\nsets = "sample_perod_s"', r"with a=1: sample_perod_s: unknown key .*sample_period_s"),
        ('[axes.a]\nvalues = [1]\nsets = "workloads.rot.memory_mb"', r'there is no "rot" \(did you mean "root"'),
        ('[axes.a]\nvalues = [9999]\nsets = "workloads.root.options.cache_mb"', r"a=9999: .*cache_mb: must be at most"),
        ('[axes.a]\nvalues = [1]\nsets = "seed"', r"seed is the same for all trials"),
        ('[axes.a]\nvalues = [0.1]\nsets = "scale"', r"scale is the same for all trials"),
        ('[axes.a]\nvalues = [true]\nsets = "flush"\n[axes.b]\nvalues = [true, false]\nsets = "flush"',
         r"axes\.a and axes\.b: both set flush"),
        ('[axes.a]\nvalues = [8]\nsets = "workloads.root.options.cache_mb"\n[axes.b.values]\n'
         'one = { "workloads.root.options" = {} }', r"both set workloads\.root\.options\.cache_mb"),
        ('[axes.a]\nvalues = [1, 2]\nsets = "files_per_job"\n[workloads.own]\nclient = "root"\nreplicas = "trees"\n'
         'files_per_job = 2', r"axes\.a: sets files_per_job, and workloads\.own has its own"),
        ('[axes.a]\nvalues = { x = 5 }', r"axes\.a\.values\.x: must be a table"),
        ('[axes.A]\nvalues = [1]\nsets = "flush"', r"axes\.A: a factor is named by small letters"),
        ('[axes.pair]\nvalues = [1]\nsets = "flush"', r"axes\.pair: stands for an access method with its workload"),
        ('[axes]\na = 5', r"axes\.a: must be a table"),
        ('[[except]]\nwhere = { cash = 5 }\nbecause = "x"', r'except\[0\]\.where: there is no "cash"'),
        ('[[except]]\nwhere = { jobs = 5 }\nbecause = "x"', r'except\[0\]\.where\.jobs: there is no "5"'),
        ('[[except]]\nwhere = { jobs = 5 }', r"except\[0\]\.because: missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said(load, axis, words):
    with pytest.raises(ConfigError, match=words):
        load(CACHES.partition("[axes.")[0] + axis)


def test_the_plan_shows_the_product_and_its_cost(load, site):
    experiment = load(LATENCY + '[[except]]\nwhere = { jobs = 6, rtt_ms = 47 }\nbecause = "too slow"\n')
    text = previewed(site, experiment)
    assert "rtt_ms: 0.1, 5, 47; the site arranges it\n15 points, 2 times each: 30 trials\n" in text
    assert "the report compares cache_mb along jobs, a panel for each workload and rtt_ms\n" in text
    assert "left out: 3 points (too slow)" in text


@pytest.mark.parametrize("typed", ["n\n", "\n", ""], ids=["no", "nothing", "Ctrl-D"])
def test_very_many_trials_are_asked_about(load, tmp_path, capfd, monkeypatch, request, typed):
    load(CACHES.replace("repeats = 2", "repeats = 500"))
    (tmp_path / "typed").write_text(typed)
    asked = (tmp_path / "typed").open()
    request.addfinalizer(asked.close)
    monkeypatch.setattr(asked, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", asked)
    write = ["write", str(tmp_path / "experiment.toml"), "--site", "testbed", "--into", str(tmp_path / "run")]
    assert main(write) == 2
    output, errors = capfd.readouterr()
    assert output == "3000 trials; really? [y/N] " + ("" if typed else "\n")
    assert "has 3000 trials, more than 1000" in errors


def test_the_docs_name_what_no_axis_can_set():
    text = (Path(__file__).parents[3] / "docs/experiments.md").read_text(encoding="utf-8")
    listed = re.search(r"the same for all trials \(([^)]*)\)", text)
    assert listed
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(COMMON) - {"axes", "except", "extends", "without"}


def test_what_is_left_out_is_so_without_axes_too(site, load):
    bare = CACHES.partition("[axes")[0].replace('"lan-xrootd"', '"lan-xrootd", "direct"')
    where = '[[except]]\nwhere = { access = "direct", jobs = 6 }\nbecause = "it is in production"\n'
    plan = expand(site, load(bare + where), POOL)
    points = {(trial.configuration.access, trial.jobs) for trial in plan.trials}
    assert points == {("lan-xrootd", 2), ("lan-xrootd", 6), ("direct", 2)}
    assert plan.left_out == {"it is in production": 1}


def test_a_way_that_does_not_lead_over_the_wan_is_not_planned_at_its_rate(site, load):
    experiment = load(CACHES)

    def seconds(over_wan):
        pools = {name: dataclasses.replace(pool, over_wan=over_wan) for name, pool in site.pools.items()}
        own = dataclasses.replace(site, pools=pools, links=dataclasses.replace(site.links, wan=1.0))
        return reading_s(own, experiment)

    assert seconds(over_wan=False) < seconds(over_wan=True) / 10


def reading_s(site, experiment):
    plan = expand(site, experiment, POOL)
    return Planned(plan, site, experiment, "").trial_s(plan.trials[0]) - OVERHEAD_S


def test_a_directory_that_is_copied_nowhere_is_refused(site, load):
    of_directory = 'workloads.g = { client = "gridftp", replicas = "p", options.directory = true }'
    of_files = 'replicas.p = { kind = "random", count = 8, size_mb = 1 }'
    experiment = load(f'name = "g"\nquestion = "?"\naccess = ["gridftp"]\nbatches = [1]\n{of_directory}\n{of_files}\n')
    with pytest.raises(ConfigError, match=r"directory copies to where access\.gridftp\.to leads"):
        expand(site, experiment, POOL)


def test_a_trial_is_planned_with_what_it_reads_and_with_all_servers_that_send_it(site, load):
    site = dataclasses.replace(site, links=Links(storage=10.0))
    whole, part = (load(CACHES + f"[workloads.root.options]\nbranches = {share}") for share in (1.0, 0.05))
    assert reading_s(site, part) == pytest.approx(reading_s(site, whole) / 20)
    more = {f"oss{n}": dataclasses.replace(site.samplers["oss"], host=f"oss{n}.example") for n in range(3)}
    four = dataclasses.replace(site, samplers={**site.samplers, **more})
    assert reading_s(four, whole) == pytest.approx(reading_s(site, whole) / 4)


def test_an_axis_of_which_one_level_is_left_is_not_what_is_compared(site, load):
    experiment = load(CACHES.replace('["lan-xrootd"]', '["lan-xrootd", "wan-xrootd-private"]'))
    assert expand(site, experiment, POOL).report.lines == "cache_mb"
    assert expand(site, experiment, POOL, only=["*cache_mb=30*"]).report.lines == "access"


def test_files_of_what_is_left_out_need_not_be_there(site, load):
    other = '[workloads.sum]\nclient = "xrdcp"\nreplicas = "plain"\n[replicas.plain]\nkind = "random"\ncount = 12\n'
    experiment = load(CACHES + other + "size_mb = 1")
    (folder,) = (folder for folder, files in experiment.used_sets.items() if files.name == "plain")
    half_made = {folder: {"plain-0001": Entry("plain-0001", 1, "00000001")}}
    with pytest.raises(ConfigError, match=r"replicas\.plain: 12 are needed"):
        expand(site, experiment, POOL, half_made)
    assert list(expand(site, experiment, POOL, half_made, only=["root"]).replicas) != [folder]


def test_a_trial_has_samplers_by_ssh_where_its_own_access_method_does(site, load):
    plan = expand(site, load(CACHES), POOL)
    own, *_ = plan.configurations
    far = dataclasses.replace(next(iter(site.samplers.values())), host="far.example", via="ssh", access=("direct",))
    assert ways_to_sample(dataclasses.replace(site, samplers={**site.samplers, "far": far}), own) == ["pool"]
