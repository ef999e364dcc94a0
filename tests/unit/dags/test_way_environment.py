"""A way may need variables of whoever reads by it; a workload's own go before them."""

import pytest

from tierbench.dags.experiment import find_experiment
from tierbench.dags.plan import expand
from tierbench.dags.records import trial_record
from tierbench.site_configs.site import Access, find_site

POOL = {"virtual-near": ["vwuf.uf.test"]}
WAY = "xrootd-near-tls-control"


def environment_of(experiment, access):
    site = find_site("testbed")
    plan = expand(site, experiment, POOL)
    trial = next(trial for trial in plan.trials if trial.configuration.access == access)
    return trial_record(site, experiment, plan, trial)["options"]["environment"]


def test_a_trial_has_the_variables_of_its_way_and_of_no_other():
    experiment = find_experiment("extenci-flavours-xrootd-scaled")
    assert environment_of(experiment, WAY) == {"XRD_TLSNODATA": "1"}
    assert environment_of(experiment, "xrootd-near-tls") == {}


def test_a_workloads_own_variables_go_before_those_of_its_way(variant):
    own = '[workloads.read]\nenvironment = { XRD_TLSNODATA = "0" }'
    assert environment_of(variant(own, "extenci-flavours-xrootd-scaled"), WAY) == {"XRD_TLSNODATA": "0"}


def test_a_name_that_is_no_variables_is_refused():
    with pytest.raises(ValueError, match="environment: must hold"):
        Access("public", "file", environment={"a b": "1"})
