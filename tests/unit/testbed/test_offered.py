"""A testbed offers the links that it was brought up with; what an experiment demands of it is data beside it."""

import tomllib

import pytest

from tierbench.dags.experiment import SHIPPED as EXPERIMENTS
from tierbench.dags.experiment import find_experiment
from tierbench.errors import BusyError, ConfigError
from tierbench.site_configs import site as sites
from tierbench.site_configs.site import find_site, load_site
from tierbench.testbed.run import missing_access
from tierbench.testbed.settings import SUFFIX, Settings, check_demands, demands, load, with_demands
from tierbench.testbed.testbed import SHIPPED, links, offered

FAR = ["rtt_ms=53", "rates_mbps.wan=500", "rates_mbps.worker=50"]


@pytest.fixture
def text():
    return SHIPPED.read_text(encoding="utf-8")


@pytest.fixture
def site(tmp_path, text):
    """What a testbed with some settings offers."""

    def read(settings):
        path = tmp_path / "site.toml"
        path.write_text(offered(text, settings))
        return load_site(path)

    return read


def test_what_is_set_is_what_the_links_are_said_to_carry(site, text):
    links_there = site(load(SHIPPED, FAR)).links
    assert (links_there.wan, links_there.worker, links_there.storage, links_there.rtt_ms) == (500, 50, 800, 53)
    assert tomllib.loads(offered(text, load(SHIPPED, FAR)))["testbed"]["rates_mbps"]["wan"] == 500


@pytest.mark.parametrize(
    ("name", "overrides", "why"),
    [
        ("quick", [], ""),
        (
            "quick",
            ["private_workers=0"],
            "wan-xrootd-private is for workers of pool private, and such a testbed has none",
        ),
        ("ani-xrootd-scaled", [], ""),
        ("ani-xrootd-scaled", ["storage_nics=1"], "leads to a server that such a testbed lacks"),
    ],
)
def test_what_an_experiment_lacks_on_a_testbed_is_told_before_it_is_up(name, overrides, why):
    settings = with_demands(load(SHIPPED, []), demands(name, overrides), name)
    reasons = "; ".join(missing_access(settings, find_experiment(name)))
    assert why in reasons if why else reasons == ""


def test_the_scale_goes_with_the_rates_and_all_else_stays_as_it_was_written(text):
    as_wide_as_theirs = load(SHIPPED, ["rates_mbps.storage=8000"])
    assert tomllib.loads(offered(text, as_wide_as_theirs))["scale"] == 1
    assert tomllib.loads(offered(text, Settings()))["scale"] == tomllib.loads(text)["scale"]
    every_server = Settings(storage_nics=4, redirector=1, proxies=2, virtual_workers=1, token_door=1, xrootd_copies=1)
    changed = ("testbed", "links", "scale")
    before, after = ({**tomllib.loads(site), **dict.fromkeys(changed)} for site in (text, offered(text, every_server)))
    assert after == before


def test_whatever_a_site_file_may_hold_is_written_so_that_it_is_read_again():
    odd = 'scale = 1\n[conditions."of \'all\'"]\nhosts = []\nwords = [{ a = "\\"\\n\\u00e9" }, { b = [true, 1.5] }]\n'
    assert tomllib.loads(offered(odd, Settings()))["conditions"] == tomllib.loads(odd)["conditions"]


@pytest.mark.parametrize(("nics", "there"), [(1, False), (2, False), (4, True)])
def test_an_access_method_is_offered_where_all_its_servers_are(site, nics, there):
    ways = site(Settings(storage_nics=nics)).access
    assert ("storage-nics" in ways, "wan-xrootd-krb5" in ways, "direct" in ways) == (there, True, True)
    assert ways["wan-xrootd-krb5"].kerberos  # a table of its own below it


@pytest.mark.parametrize(("proxies", "asked"), [(0, 1), (1, 3), (2, 5)])
def test_a_condition_is_arranged_on_those_of_its_hosts_that_are_there(site, proxies, asked):
    offers = site(Settings(proxies=proxies))
    assert len(offers.conditions["squid-processes"].hosts) == asked
    assert ("squids-there" in offers.access, "squ1" in offers.samplers) == (proxies == 2, proxies == 2)


@pytest.mark.parametrize(("door", "copies"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_an_access_method_is_offered_where_all_its_doors_are(site, door, copies):
    methods = site(Settings(token_door=door, xrootd_copies=copies)).access
    expected = {
        **dict.fromkeys(("wan-xrootd-token", "wan-xrootd-x509", "wan-https", "wan-https-token", "wan-nginx"), door),
        "xrootd-servers": copies, "https-servers": door and copies,
    }  # fmt: skip
    assert {name: name in methods for name in expected} == expected


def test_the_shipped_file_states_what_its_own_settings_make():
    assert tomllib.loads(SHIPPED.read_text(encoding="utf-8"))["links"] == links(load(SHIPPED, []))


def test_a_site_that_the_admin_installed_goes_before_the_shipped_one(tmp_path, monkeypatch, text):
    monkeypatch.setattr(sites, "INSTALLED", tmp_path)
    (tmp_path / "testbed.toml").write_text(offered(text, load(SHIPPED, FAR)))
    assert find_site("testbed").links.rtt_ms == 53
    assert find_site("fiu-uf-2014").name == "fiu-uf-2014"


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob(f"*{SUFFIX}")), ids=lambda path: path.name)
def test_what_shipped_experiments_demand_is_a_testbed(path):
    experiment = path.name.removesuffix(SUFFIX)
    assert with_demands(Settings(), demands(experiment), experiment) != Settings()


def test_most_experiments_demand_nothing_and_whoever_extends_one_demands_what_it_does(tmp_path):
    assert demands("ani-srm-scaled") == {}
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "extenci-flavours-scaled"\nname = "mine"\n')
    assert demands(str(mine)) == demands("extenci-flavours-scaled") != {}


def test_what_is_demanded_leaves_all_else_as_it_is_and_a_testbed_that_is_up_otherwise_is_refused():
    needed = {"virtual_workers": 1, "rates_mbps": {"storage": 8000}}
    settings = with_demands(Settings(), needed, "x")
    assert (settings.virtual_workers, settings.rates_mbps.storage, settings.rates_mbps.wan) == (1, 8000, 1000)
    check_demands(settings, needed, "x")
    with pytest.raises(BusyError, match=r"--set virtual_workers=1 --set rates_mbps\.storage=8000"):
        check_demands(Settings(), {"virtual_workers": 1, "rates_mbps": {"storage": 8000}}, "default")


def test_what_the_command_line_sets_comes_before_what_an_experiment_demands():
    demanded, settings = demands("quick"), demands("quick", ["rtt_ms=53", "rates_mbps.gateway=100"])
    assert settings == {**demanded, "rtt_ms": 53, "rates_mbps": {**demanded["rates_mbps"], "gateway": 100}}


def test_a_demand_that_is_no_setting_is_refused(tmp_path):
    (tmp_path / "mine.toml").write_text('extends = "quick"\nname = "mine"\n')
    (tmp_path / f"mine{SUFFIX}").write_text("virtual_worker = 1\n")
    with pytest.raises(ConfigError, match="virtual_worker"):
        demands(str(tmp_path / "mine.toml"))
