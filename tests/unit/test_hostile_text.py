"""Text of a site, of an experiment or of the pool never becomes more than text: it is refused, or it is only itself.

Every field of text that a definition has is given what would be a command elsewhere: in a DAG, a submit file, a shell,
a URL, a path, a page.
"""

import copy
import dataclasses
import itertools
import json
import random
import re
from pathlib import Path
from typing import Any

import htcondor2
import pytest

from tests.unit.client_process import record
from tests.unit.text_fields import FIELDS, SITE, experiment_tables
from tierbench import names
from tierbench.checked_text import Kind
from tierbench.dags.experiment import Experiment, load_experiment
from tierbench.dags.levels import Level, is_level
from tierbench.dags.nodes import comment, item, quoted, rows, word
from tierbench.dags.plan import expand
from tierbench.dags.write import write_run
from tierbench.errors import ConfigError
from tierbench.site_configs.site import Site, load_site
from tierbench.submit import pool
from tierbench.submit.cli import main
from tierbench.submit.nightly.record import new_nightly
from tierbench.submit.pool import PoolError

PLANTED = "NODE_STATUS_FILE /tmp/planted"
HOSTILE = (
    f"x\n{PLANTED}", f'x"\r\n{PLANTED}\n#', "x\u2028y", "x\x1b[2Jy", "x\0y", "../../../../tmp/zzz", "/data/../../etc",
    "eth0,storage,true||$(id)", "eth0;touch /tmp/planted", "`touch /tmp/planted`", "$(touch /tmp/planted)", "$(trial)",
    "$$([1])", "$ENV(HOME)", "$F(x)", "--role", "-oProxyCommand=touch", "-c/tmp/x", ".hidden", "x' y", 'x" y="z', "x y",
    " x ", "x\ty", "x,y", "# x", "x\\", "x) || (true", "true /* ", "true // x", "true, x", "<script>alert(1)</script>",
    "root://-oProxyCommand=x/", "root://door.example:1094/ --evil", "/mnt/x\n/y", "//", "é", "{0.__class__}", "%s%n",
    "$x^2$", "", "x" * 5000,
)  # fmt: skip
PIECES = "\n\r\t\"'`$(){}[]<>;|&,#\\ -./:@=%~x0é\x1b\u202e"
WRITTEN = 3  # texts that are accepted by a field and written: each takes some 20 ms, and the fields take turns


def test_every_text_of_a_definition_is_of_a_kind():
    assert [str(field) for field in FIELDS if field.hint is not Level and not issubclass(field.hint, Kind)] == []


def test_the_walk_finds_what_was_open_once():
    found = {str(field) for field in FIELDS}
    assert found >= {
        "Site.name", "Site.samplers.oss.interface", "Site.access.bridge.kerberos.principal", "Experiment.name",
        "Site.pools.all.requirements", "Site.access.bridge.path.0", "Experiment.workloads.cmssw.options.binds.0",
        "Experiment.workloads.root.options.setup", "Experiment.workloads.dd.environment.SOME",
        "Experiment.replicas.copies.source", "Experiment.placement.hosts.0",
    }  # fmt: skip


def toml(tables):
    """Inline tables all the way down; JSON's texts, lists and numbers are TOML's, too."""
    return "".join(f"{json.dumps(key)} = {_inline(value)}\n" for key, value in tables.items())


def _inline(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def with_text(tables, keys, text):
    changed = copy.deepcopy(tables)
    place = changed
    for key, following in itertools.pairwise(keys):
        empty = [None] if following == 0 else {}
        if isinstance(place, dict) and not isinstance(place.get(key), (dict, list)):
            place[key] = empty
        place = place[key]
    place[keys[-1]] = text
    return changed


def loaded(folder, definition, tables):
    path = folder / f"{definition.__name__}.toml"
    path.write_text(toml(tables), encoding="utf-8")
    return load_site(path) if definition is Site else load_experiment(path)


def written(run, site, experiment):
    write_run(expand(site, experiment, {"all": ["wn1.example"]}), site, experiment, run)
    return run


def commands(dag):
    """What DAGMan reads in a file: the words of each line, and of a VARS line the macros."""
    for line in dag.read_text(encoding="utf-8").split("\n"):
        if not line or line.startswith("#"):
            continue
        head, *rest = line.split(" ", 2)
        if head != "VARS":
            yield tuple(line.split(" "))
            continue
        values = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"(?: |$)', rest[1])
        assert rest[1] == " ".join(f'{macro}="{value}"' for macro, value in values)
        yield (head, rest[0], *(macro for macro, _ in values))


def shape(run):
    """How many lines and words of which kind a run's DAGs and lists have, in the order of the files' names."""
    dags = [[(line[0], len(line)) for line in commands(dag)] for dag in sorted(run.glob("**/*.dag"))]
    kinds = {".samplers-pool": "sampler", ".samplers-ssh": "sampler-ssh", ".places": "clients"}
    lists = [
        queued(run / names.SUBMIT / f"{kinds.get(path.suffix, path.suffix[1:])}.sub", path)
        for path in sorted((run / names.LISTS).iterdir())
    ]
    texts = (path.read_text(encoding="utf-8") for path in sorted(run.glob(f"{names.TRIALS}/*/{names.REPLICAS}")))
    return [dags, lists, [[line.count("\t") for line in text.splitlines()] for text in texts]]


def queued(submit, path):
    """The names of the variables that HTCondor itself finds in each line of a list."""
    text = submit.read_text(encoding="utf-8").replace("$(hosts)", str(path)).replace("$(places)", str(path))
    return [tuple(sorted(row)) for row in htcondor2.Submit(text).itemdata()]


@dataclasses.dataclass(frozen=True)
class Harmless:
    """Definitions in which nothing is wrong, and the shape of what is written from them."""

    tables: dict[type, dict[str, Any]]
    loaded: dict[type, Any]
    shape: list[Any]


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    folder = tmp_path_factory.mktemp("harmless")
    (folder / "pset.py").write_text("process = None\n")
    (folder / "record.csv").write_text(record())
    tables = {Site: SITE, Experiment: experiment_tables(folder)}
    definitions = {definition: loaded(folder, definition, table) for definition, table in tables.items()}
    return Harmless(tables, definitions, shape(written(folder / "run", definitions[Site], definitions[Experiment])))


@pytest.mark.parametrize("number", range(len(FIELDS)), ids=lambda number: str(FIELDS[number]))
def test_hostile_text_is_refused_or_only_itself(number, harmless, tmp_path):
    field, chance = FIELDS[number], random.Random(number)  # noqa: S311
    texts = [*HOSTILE, *("".join(chance.choices(PIECES, k=chance.randint(1, 12))) for _ in range(30))]
    refused = [text for text in texts if not fits(field, text)]
    accepted = [text for text in texts if fits(field, text)]
    first = number * WRITTEN % max(1, len(accepted))
    for text in refused[number % len(refused) :][:1]:
        with pytest.raises(ConfigError) as caught:
            loaded(tmp_path, field.definition, with_text(harmless.tables[field.definition], field.keys, text))
        assert all(line.isprintable() for line in str(caught.value).split("\n"))
    for turn, text in enumerate((accepted + accepted)[first : first + min(WRITTEN, len(accepted))]):
        tables = with_text(harmless.tables[field.definition], field.keys, text)
        try:
            changed = {**harmless.loaded, field.definition: loaded(tmp_path, field.definition, tables)}
            run = written(tmp_path / str(turn), changed[Site], changed[Experiment])
        except ConfigError:  # for what it means: a pool that is not there, a file that is not
            continue
        assert shape(run) == harmless.shape, text
        assert text in contents(run), text
    assert not Path("/tmp/planted").exists()  # noqa: S108


def fits(field, text):
    return is_level(text) if field.hint is Level else bool(field.hint.fits(text))


def contents(run):
    """Every text in the JSON that says what the run was made from."""
    found = set()
    waiting = [json.loads((run / name).read_text()) for name in (names.SITE, names.EXPERIMENT, names.PLAN)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            found.add(value)
    return found


@pytest.mark.parametrize("machine", ["wn1\nqueue", 'x" || true || "', "-oProxyCommand=x", "a,b", "$(id)", ""])
def test_a_machine_of_the_pool_that_is_no_host_is_refused(machine, monkeypatch):
    monkeypatch.setattr(htcondor2.Collector, "query", lambda *_: [{"Machine": machine, "Cpus": 1}])
    monkeypatch.setattr(htcondor2.Collector, "__init__", lambda _: None)
    with pytest.raises(PoolError, match="must be a host name"):
        pool.matching_slots("true")


@pytest.mark.parametrize("text", [text for text in HOSTILE if not text.isprintable()])
@pytest.mark.parametrize("exit_", [word, quoted, comment, item, lambda text: rows([text])])
def test_no_exit_lets_another_line_through(exit_, text):
    with pytest.raises(ConfigError, match="cannot be written for HTCondor"):
        exit_(text)


@pytest.mark.parametrize("write", [lambda: item("a,b", "c"), lambda: item("a", " c"), lambda: rows(["a", "b c"])])
def test_no_exit_lets_a_text_be_several_fields(write):
    with pytest.raises(ConfigError, match="cannot be written for HTCondor"):
        write()


def test_a_files_table_with_a_hostile_name_is_refused(tmp_path):
    for key, table in (("pools", {"requirements": "true"}), ("access", {"pool": "all", "protocol": "file"})):
        for name in HOSTILE:
            tables = {**SITE, key: {**SITE[key], name: table}}
            with pytest.raises(ConfigError, match="must be a name"):
                loaded(tmp_path, Site, tables)


def test_names_too_long_for_a_folder_are_refused(harmless, tmp_path):
    axes = {f"factor_{number}": {"values": ["x" * 60], "arranges": f"f{number}"} for number in range(4)}
    tables = {**harmless.tables[Experiment], "axes": axes, "except": [], "expects": []}
    experiment = loaded(tmp_path, Experiment, tables)
    with pytest.raises(ConfigError, match="too long a name"):
        expand(harmless.loaded[Site], experiment, {})


@pytest.mark.parametrize("name", ["$(date)", "$ENV(HOME)", "$$(x)", "a\nb", "\udcff"])
def test_a_folder_whose_name_has_a_macro_gets_no_run_and_no_nightly(harmless, name, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="must be the path of a folder"):
        written(tmp_path / name / "run", harmless.loaded[Site], harmless.loaded[Experiment])
    monkeypatch.setenv("TIERBENCH_NIGHTS", str(tmp_path / name))
    with pytest.raises(ConfigError, match="must be the path of a folder"):
        new_nightly("nights")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_utf_8_is_refused_before_anything_is_written(tmp_path, capsys):
    (tmp_path / "\udcff").mkdir()
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path / "\udcff")])
    assert "is not UTF-8" in capsys.readouterr().err
