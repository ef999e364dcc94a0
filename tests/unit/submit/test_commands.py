"""What the commands refuse, what they say at the end, and how shells complete them."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig

import pytest

from tierbench.dags.experiment import shipped_experiments
from tierbench.submit import cli, pool
from tierbench.submit.pool import Slots

WORDS = [word for words in cli.PARTS.values() for word in words]


@pytest.fixture
def no_slots(monkeypatch):
    monkeypatch.setattr(pool, "matching_slots", lambda _: Slots({}))
    monkeypatch.setattr(pool, "submit_dag", lambda _: pytest.fail("submitted"))


@pytest.mark.usefixtures("no_slots")
def test_nothing_is_run_where_something_is_missing(tmp_path, capsys):
    status = cli.main(["run", "quick", "--site", "testbed", "--into", str(tmp_path / "run")])
    output = capsys.readouterr().err
    assert status == 3
    assert "missing: slots: pool private has 0 cores" in output
    assert "--anyway" in output
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("no_slots")
def test_a_plan_says_where_its_dags_would_make_no_tables(monkeypatch, capsys):
    installed = sysconfig.get_path("scripts")
    for scripts, said in (("/nowhere", True), (installed, False)):
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.setattr(sysconfig, "get_path", lambda _, scripts=scripts: scripts)
        assert cli.main(["plan", "quick", "--site", "testbed"]) == 0
        assert ("`tierbench tables RUN` does" in capsys.readouterr().out) == said


def test_show_says_what_is_varied_and_without_a_command_there_is_help(capsys):
    assert cli.main([]) == 0
    assert "usage: tierbench" in capsys.readouterr().out
    cli.main(["show", "extenci-stacked-scaled"])
    shown = capsys.readouterr().out
    assert "  start: together, in-turn\n" in shown
    assert "  workload: root (root), write (writer)\n" in shown
    assert "  in all trials: worker-rtts 5-14-47-60\n" in shown
    cli.main(["show", "kaganas-2014-bridge"])
    assert "in all trials" not in capsys.readouterr().out  # its levels differ in every condition


def test_each_command_is_found_in_the_module_that_adds_it():
    found = {word: {leaf.prog.split()[1] for leaf in cli.leaves(cli.command_line(word))} for word in WORDS}
    assert all(word in commands for word, commands in found.items())
    assert {leaf.prog.split()[1] for leaf in cli.leaves(cli.command_line())} == {*WORDS, "completion"}


@pytest.mark.parametrize("mistaken", [["pln"], ["testbed", "attatch"], ["completion", "bsh"]])
def test_a_mistaken_word_is_answered_with_what_was_meant(mistaken, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(mistaken)
    meant = {"pln": "plan", "attatch": "attach", "bsh": "bash"}[mistaken[-1]]
    assert f'there is no "{mistaken[-1]}" (did you mean "{meant}"?)' in capsys.readouterr().err


INTERRUPTED = """
import os, runpy, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "tierbench.submit.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
runpy.run_module("tierbench", run_name="__main__")
"""


def test_an_interrupt_while_modules_are_loaded_leaves_no_traceback():
    asked = ["env", "--default-signal", sys.executable, "-c", INTERRUPTED]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_tables_end_with_the_answer(real_run, capsys):
    assert cli.main(["tables", str(real_run)]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("With ")


def test_list_names_every_experiment_and_site_and_what_each_is_about(capsys):
    assert cli.main(["list"]) == 0
    listed = capsys.readouterr().out
    shipped = shipped_experiments()
    for name in shipped:
        if name.removesuffix("-scaled") == name or name.removesuffix("-scaled") not in shipped:
            mark = r" \[-scaled\]" if f"{name}-scaled" in shipped else ""
            assert re.search(rf"^  {name}{mark}  ", listed, re.MULTILINE), name
    assert "Do I/O-bound jobs read" in listed
    assert re.search(r"^  testbed +Two emulated sites", listed, re.MULTILINE)


@pytest.mark.parametrize("name", shipped_experiments())
def test_show_tells_where_each_experiment_can_run(name, capsys):
    assert cli.main(["show", name]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{name}\n")
    offering = re.search(r"sites that offer it: (.*)", shown)
    assert offering
    assert "none" not in offering[1]
    if name.endswith("-scaled"):
        assert "testbed" in offering[1]


# What is typed, and what real shells make of it by the script of `tierbench completion`.
TYPED = {
    "tierbench doc": "doctor",
    "tierbench nightly pau": "pause",
    "tierbench plan quick --sit": "--site",
    "tierbench plan extenci-flavours-s": "extenci-flavours-scaled",
    "tierbench plan quick --site testb": "testbed",
    "tierbench plan my-": "my-experiment.toml",
    "tierbench watch mon": "runs/monday-1",
    "tierbench watch runs/mon": "runs/monday-1",
    "tierbench completion z": "zsh",
}


@pytest.fixture(scope="module")
def shells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    (folder / "runs/monday-1").mkdir(parents=True)
    (folder / "my-experiment.toml").touch()
    for shell in ("bash", "zsh"):
        with pytest.MonkeyPatch.context() as patch, (folder / shell).open("w") as file:
            patch.setattr("sys.stdout", file)
            assert cli.main(["completion", shell]) == 0
    return folder


@pytest.fixture(scope="module")
def completed(shells):
    lines = ["source ./bash"]
    for typed in TYPED:
        words = typed.split()
        lines.append(f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; COMPREPLY=(); _shtab_tierbench")
        lines.append('echo "${COMPREPLY[@]}"')
    command = ["bash", "--norc", "--noprofile", "-c", "\n".join(lines)]
    shell = subprocess.run(command, cwd=shells, capture_output=True, text=True, check=True)
    return dict(zip(TYPED, shell.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("typed", TYPED)
def test_what_is_typed_is_completed(completed, typed):
    assert completed[typed] == TYPED[typed]


def test_zsh_takes_its_script(shells):
    assert "_tierbench_run" in (shells / "zsh").read_text()
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n", str(shells / "zsh")], check=True)
