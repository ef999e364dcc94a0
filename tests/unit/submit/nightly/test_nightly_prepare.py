"""What a night measures, in its order, and what a nightly is set up with, wherever that was asked for."""

import contextlib
import dataclasses
import json
import subprocess
from pathlib import Path

import pytest

from tests.unit.stand_ins import full_disk
from tests.unit.submit.nightly.conftest import SHAPE
from tests.unit.synthetic_report import write_run
from tierbench import json_files, names
from tierbench.dags.experiment import find_experiment, load_experiment
from tierbench.dags.graphs import night_dag, repetition_dags
from tierbench.dags.plan import expand
from tierbench.errors import ConfigError
from tierbench.postprocess.history.database import History
from tierbench.postprocess.history.rows import Night as NightRow
from tierbench.postprocess.history.rows import NightMark
from tierbench.site_configs.site import find_site
from tierbench.submit import cli, links, pool
from tierbench.submit.links import with_rounds_before
from tierbench.submit.nightly import messages, setup
from tierbench.submit.nightly.record import Terms
from tierbench.submit.nightly.setup import choose_control, variant
from tierbench.submit.nightly.steps import of_a_night
from tierbench.submit.planning import asked_experiment
from tierbench.submit.pool import PoolError

SITE = find_site("testbed")
QUICK = find_experiment("quick")
NO_PLACES = {"X509_USER_PROXY": "", "CONDOR_CONFIG": "ONLY_ENV"}  # the latter is HTCondor's word for no file


def only(way):
    return dataclasses.replace(QUICK, access=(way,))


def test_the_control_is_what_is_asked_for_or_the_access_method_with_the_fewest_servers():
    for asked, access in (("", "direct"), ("lan-xrootd", "lan-xrootd")):
        assert choose_control(SITE, QUICK, asked).name == f"{access}/root \N{MULTIPLICATION SIGN}4"
    with pytest.raises(ConfigError, match="--control"):
        choose_control(SITE, QUICK, "lan-xrotd")


def test_an_experiment_of_one_way_is_measured_beside_another_one(tmp_path):
    chosen = choose_control(SITE, only("lan-xrootd"), "")
    assert chosen.added and chosen.added != ("lan-xrootd",)
    (tmp_path / "base.toml").write_text('extends = "quick"\nname = "base"\naccess = ["lan-xrootd"]\n')
    lines = variant("mine", str(tmp_path / "base.toml"), only("lan-xrootd"), chosen.added)
    (tmp_path / "experiment.toml").write_text("\n".join(lines) + "\n")
    written = load_experiment(tmp_path / "experiment.toml")
    assert {trial.configuration.access for trial in expand(SITE, written, {}).trials} == {"lan-xrootd", *chosen.added}


def test_links_are_looked_at_before_each_repetition_and_all_trials_are_in_one_of_their_dags():
    night = of_a_night(QUICK, 7)  # which would go on until its question is answered
    plan = expand(SITE, night, {})
    lines = night_dag(plan).text().splitlines()
    assert [line.split()[2] for line in lines if "links" in line] == ["repetition-1", "repetition-2", "repetition-3"]
    assert "PARENT repetition-3 CHILD again" in lines
    texts = [text for _, text in repetition_dags(plan, night)]
    assert all(sum(f"EXTERNAL {trial.id} " in text for text in texts) == 1 for trial in plan.trials)


def test_a_host_that_does_not_answer_is_waited_for_once(tmp_path, monkeypatch):
    waited = []

    def received(_, visits, *rest):
        waited.append((visits[0].host, rest[3]))
        if visits[0].host == "vmuf.uf.test":
            raise PoolError("vmuf.uf.test: its probe did not begin")
        return {visits[0].host: links.Received(90.0, 1.0)}

    monkeypatch.setattr(links, "serving", lambda *_: contextlib.nullcontext(list(range(99))))
    monkeypatch.setattr(links, "received", received)
    plan = expand(SITE, QUICK, {"public": ("wn03.fiu.test",)})
    for _ in range(2):
        links.leave_ceilings(SITE, plan, tmp_path, lambda _: None)
    assert [patience for host, patience in waited if host == "vmuf.uf.test"] == [links.PATIENCE_S, links.SILENT_S]
    assert {patience for host, patience in waited if host != "vmuf.uf.test"} == {links.PATIENCE_S}


def test_of_several_looks_at_a_link_the_median_counts(tmp_path):
    for mbps in (900.0, 100.0, 880.0):
        line = {"to": "pool public", "role": "worker", "pool": "public", "mbps": mbps, "rtt_ms": 14.0, "hosts": {}}
        content = {"began_wall_ns": 1, "measured": [line], "not_measured": {"x": "why"}}
        before = json_files.read_or({}, tmp_path / names.CEILINGS)
        (tmp_path / names.CEILINGS).write_text(json.dumps(with_rounds_before(content, before)))
    (told,) = json.loads((tmp_path / names.CEILINGS).read_text())["measured"]
    assert (told["mbps"], told["rounds"]) == (880.0, [900.0, 100.0, 880.0])


@pytest.mark.parametrize(
    ("before", "median"),
    [({"measured": [{"to": "a", "mbps": 500.0}]}, 700.0), ({"measured": 5}, 900.0), ({"measured": ["a"]}, 900.0)],
)
def test_a_look_of_an_earlier_version_counts_and_a_damaged_one_does_not(before, median):
    now = {"began_wall_ns": 1, "measured": [{"to": "a", "mbps": 900.0}], "not_measured": {}}
    assert [line["mbps"] for line in with_rounds_before(now, before)["measured"]] == [median]


def terms(**asked):
    return Terms(site="testbed", at="02:30", days="", by="condor", control="", since_wall_s=0.0, **asked)


URL = "https://hooks.slack.com/services/T000/secret"
BAD_URLS = (
    "https://chat.example:port/hook", "https://chat.example:99999/", "http://chat.example/my hook", "http:///hook",
    "http://chat.example/\n", "http://[::1/", "ftp://chat.example/", "chat.example/hook", "http://chat.example/h\u00f6k",
    "https://me:secret@chat.example/",
)  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_webhook_to_which_nothing_can_be_posted_is_refused(url):
    with pytest.raises(ConfigError, match="--webhook"):
        setup.add("nights", "quick", "", terms(webhook=url), print)


@pytest.mark.parametrize(("server", "told"), [("", True), ("mail.site.example", False)])
def test_that_no_mail_can_be_sent_is_told_at_once(monkeypatch, server, told):
    monkeypatch.setattr(pool, "submit", lambda _: 7)
    monkeypatch.setattr(pool, "setting", lambda name: server if name == "SMTP_SERVER" else "")
    said: list[str] = []
    setup.add("nights", "quick", "", terms(mail="admin@site.example"), said.append)
    assert any("no message can be sent from here" in line for line in said) is told


def test_two_of_one_name_are_not_one_series(tmp_path):
    with History() as history:
        history.record(NightRow("nights", 1, "measured", run="run", directory=str(tmp_path / "elsewhere/nights/1/run")))
    with pytest.raises(ConfigError, match=r"has nights of another of that name, as .*elsewhere/nights/1/run"):
        setup.add("nights", "quick", "", terms(), print)


def test_a_nightly_whose_folder_was_moved_is_added_again_as_the_refusal_says(monkeypatch, tmp_path):
    monkeypatch.setattr(pool, "submit", lambda _: 7)
    mark, elsewhere = NightMark("nights", 5, control="direct"), str(tmp_path / "elsewhere" / "nights" / "1" / "run")
    run = write_run(tmp_path / "nights" / "nights" / "nights" / "1" / "run", SHAPE)
    json_files.write(run / names.NIGHT, mark)
    with History() as history:
        history.record(NightRow("nights", 5, "measured", run="run", directory=elsewhere))
    with pytest.raises(ConfigError, match="if its folder was moved") as refused:
        setup.add("nights", "quick", "", terms(), print)
    words = str(refused.value).split("`")[1].split()
    assert cli.main(words[1:]) == 0
    assert setup.add("nights", "quick", "", terms(), print).name == "nights"


@pytest.fixture
def added(monkeypatch, tmp_path):
    """A nightly that was added from a directory to which everything was named relatively."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "collected").mkdir()
    for variable, value in {**dict.fromkeys(setup.PATHS, "there"), **NO_PLACES, "XRD_REQUESTTIMEOUT": "60"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(pool, "submit", lambda _: 7)
    monkeypatch.setattr(pool, "act", lambda *_: None)
    return setup.add("nights", "quick", "", terms(textfile="collected", webhook=URL), print)


def exported(nightly):
    """The variables that its nights are started with, as the shell has them."""
    lines = [line for line in nightly.starter.read_text().splitlines() if line.startswith("export ")]
    shell = ["/bin/sh", "-c", "\n".join([*lines, "/usr/bin/env -0"])]
    text = subprocess.run(shell, env={}, cwd="/", capture_output=True, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in text.split("\0") if line)


def test_a_night_finds_its_places_and_has_what_xrootd_was_told_and_a_webhooks_url_is_its_owners_alone(added, tmp_path):
    variables = exported(added)
    assert variables["XRD_REQUESTTIMEOUT"] == "60"
    places = {name: value for name, value in variables.items() if name in setup.PATHS}
    assert places == {**dict.fromkeys(setup.PATHS, str(tmp_path / "there")), **NO_PLACES}
    assert {"TIERBENCH_ALLOWED", "X509_CERT_DIR"} <= places.keys()
    assert added.directory == tmp_path / "there" / "nights"
    assert added.terms.textfile == str(tmp_path / "collected")
    (place,) = [path for path in added.directory.iterdir() if "T000" in path.read_text()]
    assert (place.name, place.stat().st_mode & 0o777) == (names.WEBHOOK, 0o600)
    assert (messages.webhook_url(added), added.terms.webhook) == (URL, "hooks.slack.com")


def test_an_experiment_that_was_edited_is_kept_when_its_nightly_is_added_anew(added):
    edited = f"{added.experiment.read_text()}# mine\n"
    added.experiment.write_text(edited)
    setup.change(added, "remove")
    said: list[str] = []
    again = setup.add("nights", "quick", "", terms(), said.append)
    kept = again.experiment.with_name(f"{again.experiment.name}.before")
    assert (kept.read_text(), any(kept.name in line for line in said)) == (edited, True)


def test_what_was_edited_is_there_still_when_the_disk_is_full_as_its_nightly_is_added_anew(added):
    added.experiment.write_text(f"{added.experiment.read_text()}# mine\n")
    setup.change(added, "remove")
    with full_disk(), pytest.raises(OSError, match="File too large"):
        setup.add("nights", "quick", "", terms(), print)
    assert "# mine" in added.experiment.read_text()


def test_a_starter_is_never_for_others_to_read(monkeypatch, added):
    setup.change(added, "remove")
    added.starter.unlink()
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # by then somebody may have opened it
    again = setup.add("nights", "quick", "", terms(), print)
    assert again.starter.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("added")
def test_an_experiment_of_any_name_is_extended(tmp_path):
    mine = tmp_path / "\N{GRINNING FACE}.toml"
    mine.write_text('extends = "quick"\nname = "mine"\n')
    assert asked_experiment(str(setup.add("smiling", str(mine), "", terms(), print).experiment)).name == "smiling"


@pytest.mark.parametrize("verb", ["pause", "remove"])
def test_prometheus_hears_of_no_nights_that_nobody_expects_and_the_webhooks_url_goes_with_its_nightly(added, verb):
    text = Path(added.terms.textfile, "tierbench_nightly_nights.prom")
    text.touch()
    setup.change(added, verb)
    assert not text.exists()
    assert (added.directory / names.WEBHOOK).exists() is (verb == "pause")
