"""What a site asks of every job, and that it cannot change what a trial depends on."""

import dataclasses
import re
from contextlib import nullcontext
from pathlib import Path

import htcondor2
import pytest

from tests.unit.quick_plan import WORKERS, written
from tierbench import names, submit
from tierbench.checked_text import Requirements
from tierbench.dags.experiment import find_experiment
from tierbench.dags.nodes import item
from tierbench.dags.plan import expand
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Submission, find_site
from tierbench.submit import pool
from tierbench.submit.probes import submit_file


def asking(*lines):
    site = find_site("fiu-uf-2014")
    return dataclasses.replace(site, submission=Submission(tuple(lines)))  # type: ignore[arg-type] # as read from TOML


def test_jobs_that_go_to_workers_have_the_sites_lines_and_those_of_the_doctor_and_the_links(tmp_path):
    site = asking("accounting_group = group_cms.tier3", '+ProjectName = "storage"')
    written(find_experiment("quick"), tmp_path / "run", WORKERS, site)
    for kind in ("clients", "flush", "sampler", "outbox", "arrange"):
        text = (tmp_path / "run" / names.SUBMIT / f"{kind}.sub").read_text()
        described, queue, _ = text.partition("\nqueue")
        assert queue
        assert described.endswith('\naccounting_group = group_cms.tier3\n+ProjectName = "storage"'), kind
    assert "accounting_group" not in (tmp_path / "run" / names.SUBMIT / "gate.sub").read_text()
    asked = asking("accounting_group = group_cms.tier3", '+ProjectName = "storage"', "executable = /bin/sh")
    described = htcondor2.Submit(submit_file(tmp_path, asked.submission, "vanilla", 120))
    assert described["accounting_group"] == "group_cms.tier3"
    assert described["My.ProjectName"] == '"storage"'
    assert described["executable"] == str(tmp_path / "probe.py")


def test_htcondor_does_not_sleep_before_a_job_that_names_what_comes_back():
    """Else it does, for a second (FileTransfer::Reaper), after it has sent the files."""
    texts = [path.read_text() for path in Path(submit.__file__).parent.glob("*.sub")]
    remote = [text for text in texts if "should_transfer_files" in text]
    assert len(remote) == 5
    assert all('transfer_output_files   = ""\n' in text for text in remote)


def test_what_jobs_ask_for_has_a_unit(tmp_path):
    """With SUBMIT_REQUEST_MISSING_UNITS = error HTCondor takes no job that asks for memory or disk without."""
    texts = [path.read_text() for path in Path(submit.__file__).parent.glob("*.sub")]
    texts.append(submit_file(tmp_path, Submission(), "vanilla", 120))
    asked = re.findall(r"^request_(?:memory|disk) *= *(.+)", "\n".join(texts), re.MULTILINE)
    assert len(asked) == 12
    assert [quantity for quantity in asked if not re.search(r"[\d)][KM]$", quantity)] == []


@pytest.mark.parametrize(("ad", "denied"), [({"TotalPermissionDenied": 2}, True), ({"TotalSuccess": 1}, False)])
def test_what_htcondor_did_not_do_is_not_called_done(monkeypatch, ad, denied):
    class Schedd:
        def act(self, *_, **__):
            return ad

    monkeypatch.setattr(htcondor2, "Schedd", Schedd)
    with pytest.raises(pool.PoolError, match="another user's") if denied else nullcontext():
        pool.remove(7, "stop")


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("place", "left"), [("run/trials/one", [7]), ("run", [7]), ("run2", []), ("another", [])])
def test_a_job_of_a_runs_number_that_is_elsewhere_is_not_the_runs(monkeypatch, tmp_path, place, left, moved):
    """As when a queue was made anew, and counts anew; where a run at work was moved, and a link is in its place."""
    if moved:
        (tmp_path / "larger-disk").mkdir()
        (tmp_path / "run").symlink_to(tmp_path / "larger-disk")
    acted = []
    ads = [{"ClusterId": 7, "Iwd": str(tmp_path / place)}]
    monkeypatch.setattr(pool, "jobs", lambda constraint, _: ads if "ClusterId == 7" in constraint else [])
    monkeypatch.setattr(pool, "act", lambda action, *_: acted.append(action))
    assert pool.in_queue(7, tmp_path / "run") == bool(left)
    assert pool.forget(7, tmp_path / "run") == left
    assert acted == (["Remove", "RemoveX"] if left else [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *((line, "") for line in ("executable = /bin/sh", "MY.WantIOProxy = false", "+wantioproxy=false", "queue = 7")),
        ("Requirements = true", r".*pools\.NAME\.requirements$"),
    ],
)
def test_what_a_trial_depends_on_is_not_the_sites_to_say(line, said):
    message = rf"^the file of site fiu-uf-2014: submission\.lines: .* tierbench's own{said}"
    with pytest.raises(ConfigError, match=message):
        expand(asking(line), find_experiment("quick"), WORKERS)


@pytest.mark.parametrize("line", ["queue", "include : /etc/passwd", "a = b\nqueue 5", "a = \\", "= 5", ""])
def test_a_line_is_one_setting(line, tmp_path):
    text = (Path(__file__).parents[3] / "site-configs/fiu-uf-2014.toml").read_text()
    path = tmp_path / "site.toml"
    quoted = line.replace("\\", "\\\\").replace("\n", "\\n")
    path.write_text(f'{text}\n[submission]\nlines = ["{quoted}"]\n')
    with pytest.raises(ConfigError, match="submission"):
        find_site(str(path))


@pytest.mark.parametrize(
    ("refused", "because"),
    [
        (
            ["true) || (true", "true // ", "true /* ", "true ;", "a = 1", "a; b", "a, b", "1 +", "(", ""],
            "must be one ClassAd expression",
        ),
        (
            [f'Machine == "{macro}"' for macro in ("$(id)", "$$(Name)", "$$([1])", "$ENV(HOME)")],
            "without HTCondor's macros",
        ),
        ([r'"x\\" == ") || (true) || (" ', r'"\"" == "x"', "'odd name' == 1"], "without backslashes"),
    ],
)
def test_requirements_are_one_expression_that_htcondors_parsers_read_alike(refused, because):
    for expression in refused:
        with pytest.raises(ValueError, match=because):
            Requirements(expression)


def test_an_anchored_pattern_is_no_macro_and_the_last_word_of_a_list_may_have_commas(tmp_path):
    expression = 'regexp("^wn[0-9]+[.]x$", Machine)'
    assert Requirements(expression) == expression
    expression = 'regexp("^wn", Machine) || Machine == "a,b"'
    (tmp_path / "list").write_text(item("wn1.example", "eth0", "worker", expression))
    text = f"queue host, interface, role, host_requirements from {tmp_path / 'list'}\n"
    (found,) = htcondor2.Submit(text).itemdata()
    assert found["host_requirements"].strip() == expression


@pytest.mark.parametrize("kind", ["clients", "sampler"])
def test_requirements_stand_in_parentheses(kind):
    text = (Path(pool.__file__).parent / f"{kind}.sub").read_text(encoding="utf-8")
    (line,) = re.findall(r"^requirements *= (.*)$", text, re.MULTILINE)
    assert re.fullmatch(r"\(\$\(\w+\)\)( && \(\$\(\w+\)\))?", line)
