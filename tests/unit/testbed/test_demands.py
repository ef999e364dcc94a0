"""What an experiment demands of the testbed is data beside it; a testbed that is up otherwise is not taken for it."""

import pytest

from tierbench.dags.experiment import SHIPPED
from tierbench.errors import BusyError, ConfigError
from tierbench.testbed.settings import SUFFIX, Settings, check_demands, demands, with_demands


@pytest.mark.parametrize("path", sorted(SHIPPED.glob(f"*{SUFFIX}")), ids=lambda path: path.name)
def test_what_shipped_experiments_demand_is_a_testbed(path):
    experiment = path.name.removesuffix(SUFFIX)
    assert with_demands(Settings(), demands(experiment), experiment) != Settings()


def test_most_experiments_demand_nothing():
    assert demands("extenci-lqcd-scaled") == {}


def test_whoever_extends_an_experiment_demands_what_it_does(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "extenci-flavours-scaled"\nname = "mine"\n')
    assert demands(str(mine)) == demands("extenci-flavours-scaled") != {}


def test_what_is_demanded_leaves_all_else_as_it_is():
    needed = {"virtual_workers": 1, "rates_mbps": {"storage": 8000}}
    settings = with_demands(Settings(), needed, "x")
    assert (settings.virtual_workers, settings.rates_mbps.storage, settings.rates_mbps.wan) == (1, 8000, 1000)
    check_demands(settings, needed, "x")


def test_a_testbed_that_is_up_otherwise_is_refused_with_what_it_would_take():
    with pytest.raises(BusyError, match=r"--set virtual_workers=1 --set rates_mbps\.storage=8000"):
        check_demands(Settings(), {"virtual_workers": 1, "rates_mbps": {"storage": 8000}}, "default")


def test_a_demand_that_is_no_setting_is_refused(tmp_path):
    (tmp_path / "mine.toml").write_text('extends = "quick"\nname = "mine"\n')
    (tmp_path / f"mine{SUFFIX}").write_text("virtual_worker = 1\n")
    with pytest.raises(ConfigError, match="virtual_worker"):
        demands(str(tmp_path / "mine.toml"))
