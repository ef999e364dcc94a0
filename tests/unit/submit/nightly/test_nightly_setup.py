"""What a nightly is set up with: what cannot be is refused, and nothing depends on where it was asked for."""

import subprocess

import pytest

from tierbench import names
from tierbench.errors import ConfigError
from tierbench.submit import pool
from tierbench.submit.nightly import messages, setup
from tierbench.submit.nightly.definition import Terms


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


@pytest.fixture
def added(monkeypatch, tmp_path):
    """A nightly that was added from a directory to which everything was named relatively."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "collected").mkdir()
    for variable, value in {**dict.fromkeys(setup.PATHS, "there"), "X509_USER_PROXY": ""}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(pool, "submit", lambda _: 7)
    return setup.add("nights", "quick", "", terms(textfile="collected", webhook=URL), print)


def exported(nightly):
    """The variables that its nights are started with, as the shell has them."""
    lines = [line for line in nightly.starter.read_text().splitlines() if line.startswith("export ")]
    shell = ["/bin/sh", "-c", "\n".join([*lines, "/usr/bin/env -0"])]
    text = subprocess.run(shell, env={}, cwd="/", capture_output=True, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in text.split("\0") if line)


def test_a_night_finds_its_places_wherever_it_is_started(added, tmp_path):
    places = {name: value for name, value in exported(added).items() if name in setup.PATHS}
    assert places == {**dict.fromkeys(setup.PATHS, str(tmp_path / "there")), "X509_USER_PROXY": ""}
    assert added.directory == tmp_path / "there" / "nights"
    assert added.terms.textfile == str(tmp_path / "collected")


def test_htcondors_word_for_no_configuration_file_is_no_place(monkeypatch, added):
    monkeypatch.setenv("CONDOR_CONFIG", "ONLY_ENV")
    assert "export CONDOR_CONFIG=ONLY_ENV" in setup.starter_lines(added)


def test_the_url_of_a_webhook_is_for_its_owner_alone(added):
    (place,) = [path for path in added.directory.iterdir() if "T000" in path.read_text()]
    assert (place.name, place.stat().st_mode & 0o777) == (names.WEBHOOK, 0o600)
    assert (messages.webhook_url(added), added.terms.webhook) == (URL, "hooks.slack.com")


def test_the_url_of_a_webhook_goes_with_its_nightly(monkeypatch, added):
    monkeypatch.setattr(pool, "act", lambda *_: None)
    setup.change(added, "remove")
    assert not (added.directory / names.WEBHOOK).exists()
