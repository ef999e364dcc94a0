"""How commands speak: JSON, quiet, colour; and what their exit statuses mean, as docs/operations.md has them."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import types
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.submit.test_watch import end
from tests.unit.synthetic_run import edit_json
from tierbench import errors, names
from tierbench.postprocess.report.grid import MARKS
from tierbench.submit import commands, console
from tierbench.submit.cli import command_line, leaves, main
from tierbench.submit.progress import Submission
from tierbench.submit.watch import ObjectView, watch

ROOT = Path(__file__).parents[3]


def documents(capsys, *command):
    main([*command, "--json"])
    made = json.loads(capsys.readouterr().out)
    assert (made["tierbench"], made["format"]) == (command[0], 1)
    return made


def test_a_plan_and_the_doctors_findings_as_json(capsys):
    made = documents(capsys, "plan", "quick", "--site", "testbed")
    assert len(made["trials"]) == 12
    assert {"id", "levels", "bytes", "least_s"} <= made["trials"][0].keys()
    assert any(line.startswith("missing: the catalogue") for line in made["lacking"])
    made = documents(capsys, "doctor", "--site", "testbed", "--quick")
    assert made["states"]["bad"] >= 1  # no pool here
    assert {"state", "thing", "seen", "remedy", "host"} == made["findings"][0].keys()


def test_a_terminal_without_such_characters_gets_others():
    plan = [sys.executable, "-m", "tierbench", "plan", "quick", "--site", "testbed"]
    text, as_json = (
        subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True).stdout
        for command in (plan, [*plan, "--json"])
    )
    assert "/root x4 #1" in text.decode("ascii")
    assert json.loads(as_json.decode("ascii"))["trials"]


def test_marks_of_a_grid_that_differ_do_so_on_a_terminal_without_such_characters():
    ascii_only = types.SimpleNamespace(encoding="ascii")
    written = [console.fitting(mark, 1, ascii_only) for mark in dict.fromkeys(mark for mark, _ in MARKS.values())]
    assert len(set(written)) == len(written)


def test_tables_as_json(real_run, capsys):
    made = documents(capsys, "tables", str(real_run))
    assert made["trials"][0]["delivered_mbps"] == pytest.approx(131.3, abs=0.1)
    assert made["answers"][0].startswith("With ")


def test_a_status_as_json_and_as_text(run, capsys):
    end(run, 0, "complete")
    made = documents(capsys, "status", str(run.directory))
    assert [trial["stage"] for trial in made["trials"][:2]] == ["finished", "waiting"]
    assert main(["status", str(run.directory)]) == 0
    assert "24 trials: 1 complete, 23 waiting" in capsys.readouterr().out


def test_watching_as_json_tells_each_change_once(run):
    end(run, 0, "complete")
    end(run, 1, "incomplete", "the cable was cut")
    out = io.StringIO()
    watch(run, lambda: False, ObjectView(out))  # which looks twice
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["tierbench"], first["state"]) == ("watch", "complete")
    assert second["reasons"] == ["the cable was cut"]


def test_watching_as_json_prints_nothing_else(run, capsys, monkeypatch):
    for trial in range(len(run.trial_directories)):
        end(run, trial, "complete")
    (run.directory / names.ANSWERED).write_text("{}")
    answer = types.SimpleNamespace(sentence="answered after 3 of 6 repetitions")
    monkeypatch.setattr(commands, "decide", lambda _: answer)
    monkeypatch.setattr(commands, "_submitted", lambda _: Submission(7))
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: False)
    main(["watch", str(run.directory), "--json"])
    output = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert output[-1]["note"] == answer.sentence


@pytest.mark.parametrize(("written", "most_s"), [(None, 120), ({"pattern": "multifile"}, 120 + 2 * (120 + 900))])
def test_a_run_that_writes_has_the_time_to_remove_it(run, monkeypatch, written, most_s):
    plan = run.directory / names.PLAN
    edit_json(plan, replicas=[{**json.loads(plan.read_text())["replicas"][0], "written": written}])
    waits = []
    monkeypatch.setattr(commands, "_submitted", lambda _: Submission(7))
    monkeypatch.setattr(commands, "show_tables", lambda _: True)
    monkeypatch.setattr(commands.pool, "in_queue", lambda *_: True)
    monkeypatch.setattr(commands.pool, "remove", lambda *_: None)
    monkeypatch.setattr(commands.files, "poll", lambda _, seconds: waits.append(seconds) or True)
    assert main(["stop", str(run.directory)]) == 0
    assert waits == [most_s]


@pytest.mark.parametrize(
    ("shell", "status"),
    [
        pytest.param("{} completion bash >&-", 0, id="no output"),
        pytest.param("{} show nope 2>&-", 2, id="no errors"),
        pytest.param("{} list | true", 141, id="nobody reads"),
    ],
)
def test_closed_streams_end_no_command_with_a_traceback(shell, status):
    command = shell.format(f"{sys.executable} -c 'import time; time.sleep(0.2); from tierbench.submit.cli import main;"
                           " raise SystemExit(main())'")  # fmt: skip
    ended = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (status, "")


def test_quiet_leaves_troubles_only(capsys):
    assert main(["list", "--quiet"]) == 0
    capsys.readouterr()
    console.say("going on")
    console.warn("missing: a cable")
    assert capsys.readouterr().err == "missing: a cable\n"
    assert main(["list"]) == 0
    console.say("going on")
    assert capsys.readouterr().err == "going on\n"


@pytest.mark.parametrize(("no_color", "expected"), [("", "a \033[31mINVALID\033[0m b"), ("1", "a INVALID b")])
def test_colour_is_for_terminals_that_want_it(monkeypatch, no_color, expected):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        assert console.coloured("a INVALID b", terminal) == expected
    os.close(master)
    assert console.coloured("a INVALID b", io.StringIO()) == "a INVALID b"


# For each command something that is not there, and the exit status.
NOT_THERE = {
    "init-site": ("nope", 2),
    "list": ("--nope", 2), "show": ("nope", 2), "doctor": ("--site nope", 2), "plan": ("nope --site testbed", 2),
    "replicas": ("nope --site testbed", 2), "write": ("nope --site testbed", 2), "run": ("nope --site testbed", 2),
    "submit": ("nope", 2), "watch": ("nope", 2), "stop": ("nope", 2), "tables": ("nope", 2),
    "enough": ("nope r1", 2), "try": ("nope --site testbed", 2),  # of the former 1 would be an answer
    "status": ("nope", 2), "report": ("nope", 2), "clean": ("nope", 2), "compare": ("nope nope", 2),
    "nightly add": ("nope --site testbed --at 02:00", 2), "nightly list": ("--nope", 2), "nightly run": ("nope", 2),
    "nightly pause": ("nope", 2), "nightly resume": ("nope", 2), "nightly remove": ("nope", 2),
    "nightly check": ("nope", 3), "nightly ack": ("nope", 2), "nightly step": ("nope", 2),
    "history list": ("nope", 2), "history show": ("nope", 2), "history page": ("nope", 2),
    "history rebuild": ("nope", 2), "history export": ("nope --csv", 2), "history gc": ("--keep-samples nope", 2),
    "testbed up": ("--set nope=1", 2), "testbed check": ("--name nope", 2), "testbed run": ("nope", 2),
    "testbed attach": ("nope --name nope", 2), "testbed down": ("--nope", 2), "testbed status": ("--name nope", 2),
    "testbed exec": ("--name nope ce -- true", 2), "testbed shell": ("--name nope ce", 2), "completion": ("nope", 2),
}  # fmt: skip


def test_each_command_is_asked_for_what_is_not_there():
    assert {leaf.prog.removeprefix("tierbench ") for leaf in leaves(command_line())} == NOT_THERE.keys()


@pytest.mark.parametrize("command", NOT_THERE)
def test_what_is_not_there_is_a_mistake_in_the_call(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for variable in ("TIERBENCH_NIGHTS", "TIERBENCH_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    arguments, expected = NOT_THERE[command]
    try:
        status = main([*command.split(), *arguments.split()])
    except SystemExit as end_of_parsing:
        status = int(str(end_of_parsing.code))
    assert status == expected
    output = capsys.readouterr()
    assert "Traceback" not in output.err + output.out


def test_what_the_system_refuses_is_told_in_a_line(monkeypatch, capsys):
    refused = PermissionError(13, "Permission denied", "/somebody/else's")
    monkeypatch.setattr("tierbench.submit.watch._status", Mock(side_effect=refused))
    assert main(["status", "run"]) == 1
    assert capsys.readouterr().err == "tierbench: /somebody/else's: Permission denied\n"


def test_the_documented_statuses_are_those_of_the_errors_and_documents_are_described():
    section = (ROOT / "docs/operations.md").read_text(encoding="utf-8").split("## Exit statuses")[1].split("\n## ")[0]
    documented = set(map(int, re.findall(r"^\| (\d+) \|", section, re.MULTILINE)))
    ours = {getattr(kind, "exit_status", 0) for kind in vars(errors).values()}
    assert ours | {0, 130, 143, 129, 141} == documented
    for command in ("compare", "enough", "nightly check"):
        assert f"`{command}`" in section
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    for command in (leaf.prog for leaf in leaves(command_line()) if "--json" in leaf.format_help()):
        assert f"| `{command.removeprefix('tierbench ')}` |" in text
    assert names.SCHEMA in text
