"""What a run directory may tell, and to whom: nothing of a secret's value, and all else as the umask says."""

import dataclasses
import os
import re
import stat

import htcondor2
import pytest

from tests.unit.quick_plan import POOL
from tierbench import names
from tierbench.checked_text import AbsolutePath, Variable
from tierbench.dags.credentials import Secret
from tierbench.dags.experiment import find_experiment
from tierbench.dags.plan import expand
from tierbench.dags.write import write_run
from tierbench.errors import ConfigError
from tierbench.site_configs.site import find_site
from tierbench.spec import build
from tierbench.wrappers.child import Failure
from tierbench.wrappers.credentials import variables

VALUE = "not-to-be-told"


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{VALUE}\n")
    return path


@pytest.fixture
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def quick(environment):
    experiment = find_experiment("quick")
    workloads = {name: dataclasses.replace(own, environment=environment) for name, own in experiment.workloads.items()}
    return dataclasses.replace(experiment, workloads=workloads)


def written(run, **environment):
    site, experiment = find_site("testbed"), quick(environment)
    write_run(expand(site, experiment, POOL), site, experiment, run)
    return run


@pytest.mark.parametrize("umask", [0o077, 0o027, 0o022], indirect=True, ids=oct)
def test_a_run_directory_respects_the_umask(umask, tmp_path):
    run = written(tmp_path / "runs" / "run")
    for path in (run.parent, run, *run.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        script = path.parent.name == names.SCRIPTS and path.is_file()
        assert mode == (0o777 if path.is_dir() or script else 0o666) & ~umask, path


def test_a_secrets_file_travels_with_the_clients_and_its_value_is_nowhere_in_a_run_directory(token, tmp_path):
    run = written(tmp_path / "run", TOKEN=Secret(from_file=AbsolutePath(str(token))))
    assert not [path for path in run.rglob("*") if path.is_file() and VALUE.encode() in path.read_bytes()]
    trial = next((run / names.TRIALS).iterdir())
    (told,) = re.findall(r' secrets="([^"]*)"', (trial / names.TRIAL_DAG).read_text())
    submit = htcondor2.Submit((run / names.SUBMIT / "clients.sub").read_text())
    without = submit.expand("transfer_input_files").split(", ")
    submit["secrets"] = told
    assert submit.expand("transfer_input_files").split(", ") == [*without, str(token)]
    assert '"TOKEN": {\n    "from_file": "token"\n   }' in (trial / names.TRIAL).read_text()


def test_a_secret_that_is_not_there_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"workloads\.root\.environment: /no/token: is not there to be read"):
        written(tmp_path / "run", TOKEN=Secret(from_file=AbsolutePath("/no/token")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["trial.json", "replicas.txt", "client.py", "htchirp.py", "root_read.C"])
def test_a_secret_does_not_travel_under_the_name_of_what_is_needed(name, tmp_path):
    (tmp_path / name).write_text(VALUE)
    with pytest.raises(ConfigError, match="call this one otherwise"):
        written(tmp_path / "run", TOKEN=Secret(from_file=AbsolutePath(str(tmp_path / name))))


def test_nor_under_the_name_of_another_secret(tmp_path):
    files = [tmp_path / folder / "token" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text(VALUE)
    one, other = (Secret(from_file=AbsolutePath(str(file))) for file in files)
    with pytest.raises(ConfigError, match="call this one otherwise"):
        written(tmp_path / "run", TOKEN=one, OTHER=other)


@pytest.mark.parametrize("table", [{}, {"from_file": "/a", "from_env": "A"}, {"from_file": "a"}, {"from_env": "A=1"}])
def test_a_secret_is_in_one_place(table):
    with pytest.raises(ConfigError):
        build(Secret, table, "experiment.toml")


def test_a_client_gets_the_values(token, monkeypatch):
    monkeypatch.chdir(token.parent)
    monkeypatch.setenv("GIVEN_BY_THE_POOL", VALUE)
    told = {"A": Secret(from_env=Variable("GIVEN_BY_THE_POOL")).record, "B": {"from_file": "token"}, "C": "plain"}
    assert variables(told) == {"A": VALUE, "B": VALUE, "C": "plain"}


@pytest.mark.parametrize("place", [{"from_file": "absent"}, {"from_env": "ABSENT"}])
def test_a_client_without_a_value_says_which(place):
    with pytest.raises(Failure, match=r"variable TOKEN: .*(absent|ABSENT)"):
        variables({"TOKEN": place})
