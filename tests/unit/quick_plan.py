"""What tests of a plan's texts and of a run directory take: workers, an experiment, and one trial of it."""

import tempfile
from dataclasses import replace
from pathlib import Path

from tierbench.dags.experiment import load_experiment
from tierbench.dags.plan import expand
from tierbench.dags.write import write_run
from tierbench.site_configs.site import find_site
from tierbench.submit.planning import Planned
from tierbench.submit.preview import preview

# What quick asks and how much is chosen for those who try it; tests count on these numbers.
LARGER_QUICK = """
extends = "quick"
name = "larger-quick"
access = ["lan-xrootd", "wan-xrootd-private", "wan-xrootd-public", "direct"]
batches = [4, 8]
repeats = 3
replicas.root-tree = { count = 24, size_mb = 64 }
"""

POOL = {"private": ["wn01.private.fiu.test"], "public": ["wn03.fiu.test"]}
WORKERS = {"private": ["wn01", "wn02"], "public": ["wn03", "wn04"]}


def written(experiment, run, workers=POOL, site=None):
    """The run directory of an experiment, at the testbed unless another site is named."""
    site = site or find_site("testbed")
    write_run(expand(site, experiment, workers), site, experiment, run)
    return run


def previewed(site, experiment):
    """What `tierbench plan` says of an experiment, where it cannot ask the pool."""
    return "\n".join(preview(Planned(expand(site, experiment, {}), site, experiment, "no pool"), []))


def changed(site, table, name, **changes):
    """The site with something about one entry of a table changed, as changed(site, "access", "direct", path=())."""
    entries = getattr(site, table)
    return replace(site, **{table: {**entries, name: replace(entries[name], **changes)}})


def the_trial(plan, trial_id="lan-xrootd.root.x004.r1"):
    return next(trial for trial in plan.trials if trial.id == trial_id)


def larger_quick():
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(LARGER_QUICK)
        file.flush()
        return replace(load_experiment(Path(file.name)), name="quick")
