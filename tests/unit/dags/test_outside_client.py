"""A client that a user adds: one file beside the experiment, and nothing of the package is touched."""

import io
import json
import os
import shutil
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from unittest.mock import Mock

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.client_process import as_a_job
from tests.unit.quick_plan import POOL, written
from tests.unit.shipped import PYTHON
from tests.unit.stand_ins import run
from tierbench.dags import shipping
from tierbench.dags.clients import digest_of, find_client_file
from tierbench.dags.experiment import load_experiment
from tierbench.dags.plan import expand
from tierbench.dags.shipping import bundle
from tierbench.errors import ConfigError
from tierbench.postprocess.tables.write import trial_tables
from tierbench.site_configs.site import find_site
from tierbench.submit.planning import Planned
from tierbench.submit.probes import script
from tierbench.submit.questions import visits

CLIENT = '''
"""Reads the last bytes of a file."""

from tierbench.wrappers.client import Client, Option


class Tail(Client):
    protocols = ("file",)
    kinds = ("random",)
    memory_mb = 33
    usual_excess = 0.5
    programs = ("tail", "no-such-program")
    remedy = "write it"
    ships = ("tailed.h",)
    options = {"bytes": Option(10, 1, 1000), "list": Option("", file=True), "branches": Option("pt,eta"),
               "directory": Option("spool")}

    def command(self):
        return ["tail", "-c", str(self.job.options["bytes"]), self.job.path]

    def outcome(self, run):
        status = "ok" if run.exit_status == 0 else "failed"
        return {"status": status, "message": run.last_words, "bytes_app": self.job.options["bytes"]}
'''
EXPERIMENT = """
name = "tailed"
question = "How fast does it end?"
access = ["direct"]
batches = [1]
repeats = 1

[workloads.own]
client = "./tail_of.py"
replicas = "plain"
options = { bytes = 7, list = "list.txt" }

[replicas.plain]
kind = "random"
count = 2
size_mb = 1
"""
REFERENCE = """
paper = "Somebody"

[[claims]]
says = "more jobs end faster"
source = "Table 1"
kind = "faster"
metric = "delivered_mbps"
unit = "Mb/s"
factor = "jobs"
at = { access = "direct", jobs = 2 }
against = 1
values = [2.0, 1.0]
"""


@dataclass
class Users:
    """A user's folder."""

    folder: Path

    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def experiment(self):
        return load_experiment(self.folder / "tailed.toml")

    def run(self):
        """A run directory of the experiment."""
        return written(self.experiment(), self.folder / "run", POOL)


@pytest.fixture
def users(tmp_path):
    users = Users(tmp_path)
    users.put("tail_of.py", CLIENT)
    users.put("tailed.h", "// beside it")
    users.put("list.txt", "a list")
    users.put("tailed.toml", EXPERIMENT)
    return users


@pytest.mark.parametrize(
    ("name", "text", "trouble"),
    [
        ("tail_of.py", "import nowhere_to_be_found\n", "cannot be loaded: ModuleNotFoundError"),
        ("tail_of.py", "x = 1\n", "defines 0 clients"),
        ("tail_of.py", CLIENT.replace("def command(", "def commands("), "Tail has no method command"),
        ("tail_of.py", CLIENT.replace("def outcome(", "def outcomes("), "Tail has no method outcome"),
        ("tail_of.py", CLIENT.replace("usual_excess = 0.5", "usual_excess = 5"), "a share in 0 … 1, as 0.05 .* not 5"),
        ("tail_of.py", CLIENT.replace("usual_excess = 0.5", 'usual_excess = "5 %"'), "usual_excess: must be a float"),
        ("tail_of.py", CLIENT.replace("memory_mb = 33", 'does = "read"'), "does: must be one of reads, "),
        ("tail_of.py", CLIENT.replace('("file",)', '["file"]'), "protocols: must be a tuple"),
        ("tail_of.py", CLIENT.replace("memory_mb = 33", 'taken_in = "bytes"'), "taken_in: must be bytes_client or"),
        ("tail_of.py", CLIENT.replace("Option(10, 1, 1000)", "10"), "option 'bytes': must be an Option.*, not '?10"),
        ("tail_of.py", CLIENT.replace("Option(10, 1, 1000)", "Option([10])"), "bytes.: its default must be bool"),
        ("tail_of.py", CLIENT.replace("Option(10, 1, 1000)", "Option(0, 1, 9)"), "default does not fit: .* in 1 to 9"),
        ("tail_of.py", CLIENT.replace("Option(10, 1, 1000)", "Option(10, '1')"), "its default does not fit: '<'"),
        ("tail_of.py", CLIENT.replace('"directory"', '"class"'), "option 'class': .* no keyword of Python"),
        ("tail_of.py", CLIENT.replace('"directory"', '"scale"'), "option 'scale': each client gets one of this name"),
        ("tail_of.py", CLIENT.replace("tailed.h", "absent.h"), "ships absent.h, which is not beside it"),
        ("tail_of.py", CLIENT.replace('("",', '("", kind="Odd",'), "there is no kind of text 'Odd'"),
        ("tailed.toml", EXPERIMENT.replace("./tail_of.py", "./other.py"), "no such file"),
        ("tailed.toml", EXPERIMENT.replace("list.txt", "other.txt"), "options.list: .*other.txt: no such file"),
        ("tailed.toml", EXPERIMENT.replace("bytes = 7", "byte = 7"),
         r'workloads.own.options.byte: unknown key \(did you mean "bytes"'),
        ("tailed.toml", EXPERIMENT.replace('"random"', '"tree"'),
         'client "tail_of" cannot read replicas of kind "tree"'),
        ("tailed.toml", EXPERIMENT.replace('"direct"', '"lan-xrootd"'),
         'client "tail_of" cannot read by access "lan-xrootd"'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_it_is_told(users, name, text, trouble):
    users.put(name, text)
    with pytest.raises(ConfigError, match=trouble):
        expand(find_site("testbed"), users.experiment(), POOL)


@pytest.mark.parametrize("user", [0, 1000])
@pytest.mark.parametrize(
    ("method", "answer", "trouble"),
    [
        ("doing", "'read'", "doing() must return one of reads, writes, copies, metadata, not 'read'"),
        ("settles", "None", "settles() must return True or False, not None"),
        ("several", "0", "several() must return a number, at least 1, not 0"),
        ("memory", "'512'", "memory() must return a number, at least 1, not '512'"),
        ("entries", "options['absent']", "KeyError: 'absent'"),
    ],
)
def test_what_its_methods_answer_is_looked_at_before_anything_is_measured(
    users, monkeypatch, user, method, answer, trouble
):
    monkeypatch.setattr(os, "geteuid", lambda: user if os.getuid() == 0 else os.getuid())
    own = f"    @classmethod\n    def {method}(cls, options):\n        return {answer}\n"
    users.put("tail_of.py", CLIENT + "\n" + own)
    with pytest.raises(ConfigError) as refused:
        users.experiment()
    assert trouble in str(refused.value)


def test_it_may_not_be_called_like_one_that_is_shipped(users):
    users.put("dd.py", CLIENT)
    users.put("tailed.toml", EXPERIMENT.replace("tail_of", "dd"))
    with pytest.raises(ConfigError, match='a client "dd" comes with tierbench'):
        users.experiment()


def test_a_variant_elsewhere_finds_it(users):
    variant = users.put("elsewhere/more.toml", 'extends = "../tailed.toml"\nname = "more"\nrepeats = 2\n')
    assert load_experiment(variant).workloads["own"].client == "tail_of"


@pytest.mark.parametrize("absolute", [False, True])
def test_all_that_it_brings_goes_along_to_another_machine(users, tmp_path_factory, absolute):
    here = f"{users.folder}/" if absolute else ""
    own = EXPERIMENT.replace("./tail_of.py", f"{here or './'}tail_of.py").replace('"list.txt"', f'"{here}list.txt"')
    users.put("tailed.toml", own)
    users.put("tailed.reference.toml", REFERENCE)
    variant = users.put("elsewhere/more.toml", f'extends = "{here or "../"}tailed.toml"\nname = "more"\n')
    before, there = load_experiment(variant), tmp_path_factory.mktemp("there")
    copies = bundle(variant, PurePosixPath(there))
    for place, content in copies.items():
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_bytes(content)
    shutil.rmtree(users.folder)
    after = load_experiment(Path(next(iter(copies))))
    assert (after.name, after.claims) == ("more", before.claims)
    assert len(after.claims) == 1
    assert [str(file.path) for file in after.client_files] == [f"{there}/tail_of.py"]
    beside = {"tailed.toml", "tailed.reference.toml", "tail_of.py", "tailed.h", "list.txt"}
    assert {str(place.relative_to(there)) for place in copies} == {"elsewhere/more.toml", *beside}


def test_two_files_of_one_name_do_not_travel_as_one(tmp_path, monkeypatch):
    for name in ("submit_files", "scripts"):
        monkeypatch.setattr(shipping, name, lambda _: ())
    clients = [Mock(ships=[tmp_path / folder / "tailed.h"]) for folder in ("a", "b")]
    for client in clients:
        client.ships[0].parent.mkdir()
        client.ships[0].write_text(f"// of {client.ships[0]}")
    with pytest.raises(ConfigError, match=r"would both travel as tailed\.h"):
        list(shipping.shipped_files(Mock(), Mock(client_files=clients, uses=list)))


def test_its_options_mean_what_it_says_whatever_they_are_called_and_its_memory_is_asked_for(users):
    experiment, site = users.experiment(), find_site("testbed")
    plan = expand(site, experiment, POOL)
    assert Planned(plan, site, experiment, "").trial_s(plan.trials[0]) > 0
    dag = (users.run() / "trials/direct.own.x001.r1/trial.dag").read_text()
    assert 'client="tail_of"' in dag
    assert 'memory="33"' in dag


def test_what_it_needs_is_asked_of_the_workers(users):
    experiment = users.experiment()
    visit = visits(find_site("testbed"), experiment, POOL)["wn03.fiu.test"]
    question = next(question for question in visit.questions if question.kind == "program")
    probe = run(PYTHON, "-I", "-", json.dumps([question.to_json()]), input=script(experiment.client_files))
    (answer,) = json.loads(probe.stdout)["answers"]
    assert (answer["state"], answer["seen"]) == ("bad", "there is no no-such-program")
    assert question.remedy(answer["why"]) == "write it"


def test_it_runs_as_a_job_with_what_travels_with_it(users):
    sandbox = users.folder / "sandbox"
    start, *_, end = as_a_job(users.run(), sandbox, "tail_of", users.put("replica", "one two three"), 13)
    assert (start["client"], end["status"], end["bytes_app"]) == ("tail_of", "ok", 7)
    assert (sandbox / "tailed.h").read_text() == "// beside it"
    options = json.loads((sandbox / "trial.json").read_text())["options"]
    assert (sandbox / options["list"]).read_text() == "a list"


@pytest.mark.parametrize(
    ("mistaken", "message"),
    [("{}['status']", "KeyError: 'status'"), ("{3}", "TypeError: ")],  # and in words of each Python's own
)
def test_its_own_mistake_is_in_its_record(users, mistaken, message):
    users.put("tail_of.py", CLIENT.replace('"message": run.last_words', f'"message": {mistaken}'))
    *_, end = as_a_job(users.run(), users.folder / "sandbox", "tail_of", users.put("replica", "one"), 3)
    assert (end["status"], end["message"].startswith(f"in the client's program: {message}")) == ("failed", True), end


@pytest.mark.parametrize("work", ["", "for_s = 1"])
def test_a_command_that_is_a_text_is_its_mistake_too(users, work):
    users.put("tail_of.py", CLIENT.replace('return ["tail", ', 'return "tail " #'))
    users.put("tailed.toml", EXPERIMENT.replace("repeats = 1", f"repeats = 1\n{work}"))
    *_, end = as_a_job(users.run(), users.folder / "sandbox", "tail_of", users.put("replica", "one"), 3)
    assert (end["status"], "command() must return a list of words, not 'tail '" in end["message"]) == (
        "failed",
        True,
    ), end


def test_it_is_judged_by_what_it_declares(users, tmp_path):
    """The storage sends 40 % more than it reads: too much for any client of tierbench's own, not for this one."""
    traits = json.loads((users.run() / "trials/direct.own.x001.r1/trial.json").read_text())["traits"]
    own = synthetic.write_trial(tmp_path / "synthetic", client="tail_of", traits=traits)
    other = synthetic.write_trial(tmp_path / "other")
    for folder in (own, other):
        read = json.loads((folder / "clients/0.jsonl").read_text().splitlines()[-1])["bytes_app"]
        synthetic.edit_clients(folder, "end", bytes_app=round(read / 1.4), bytes_client=round(read / 1.4))
    assert "beyond what was read" in trial_tables(other)["verdict_reasons"]
    assert "beyond what was read" not in trial_tables(own)["verdict_reasons"]


IS_OPEN = """
def is_open(number):
    try:
        return bool(os.fstat(number))
    except OSError:
        return False
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up its rights")
def test_nothing_of_a_client_of_ones_own_runs_as_root(tmp_path):
    """And what it declares is the same, checked and asked as if it ran here."""
    path = tmp_path / "tail_of.py"
    checks = "assert os.geteuid() == os.getegid() == 65534 and not os.getgroups()"
    checks += " and not any(map(is_open, range(5, 99)))"  # what is before leads to us, or nowhere
    path.write_text(f"import os\n{IS_OPEN}\n{checks}\n{CLIENT}")
    (tmp_path / "tailed.h").touch()
    groups = os.getgroups()
    os.setgroups([0])
    try:
        client = find_client_file(str(path)).client
    finally:
        os.setgroups(groups)
    path.write_text(path.read_text().replace("65534", "0"))
    with pytest.raises(ConfigError, match="cannot be loaded: AssertionError"):
        find_client_file(str(path))
    assert (client.protocols, client.options["bytes"].low) == (("file",), 1)
    assert client.does == "reads" == client.doing({})


def test_a_received_client_runs_only_when_it_was_allowed(tmp_path, monkeypatch):
    """And what was allowed is the text that was read, no later one, and no compiled other beside it."""
    path, allowed, ran = tmp_path / "tail_of.py", tmp_path / "allowed", tmp_path / "ran"
    path.write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n{CLIENT}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # who may write where this test does
    monkeypatch.setenv("TIERBENCH_ALLOWED", str(allowed))
    (tmp_path / "tailed.h").touch()
    for refused in (True, False, True):
        if refused:
            with pytest.raises(ConfigError, match="has not been allowed yet"):
                find_client_file(str(path))
        else:
            allowed.write_text(digest_of(path.read_bytes()) + "\n")
            assert find_client_file(str(path)).name == "tail_of"
        assert ran.exists() != refused
        ran.unlink(missing_ok=True)
        path.write_text(path.read_text() + ("# changed\n" if not refused else ""))


@pytest.mark.parametrize(("said", "allows"), [("\n", False), ("n\n", False), ("y\n", True)])
def test_at_a_terminal_it_is_asked_about_and_only_a_yes_allows_it(tmp_path, monkeypatch, said, allows):
    path, allowed = tmp_path / "tail_of.py", tmp_path / "allowed"
    path.write_text(CLIENT)
    (tmp_path / "tailed.h").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("TIERBENCH_ALLOWED", str(allowed))
    for name, text in (("stdin", said), ("stderr", "")):
        terminal = io.StringIO(text)
        terminal.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, name, terminal)
    with nullcontext() if allows else pytest.raises(ConfigError, match="was not allowed"):
        assert find_client_file(str(path)).name == "tail_of"
    assert allowed.exists() is allows
    if allows:
        assert find_client_file(str(path)).name == "tail_of"  # and asks no more
