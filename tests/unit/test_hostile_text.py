"""Text of a site, of an experiment or of the pool never becomes more than text: it is refused, or it is only itself.

Every field of text that a definition has is found by walking its dataclasses, and given what would be a command
elsewhere: in a DAG, a submit file, a shell, a URL, a path, a page.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import random
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import htcondor2
import pytest

from tierbench.dags import axes, names
from tierbench.dags.clients import shipped_clients
from tierbench.dags.experiment import Experiment, load_experiment
from tierbench.dags.language import comment, item, quoted, rows, word
from tierbench.dags.levels import Level, is_level
from tierbench.dags.plan import expand
from tierbench.dags.replicas import KINDS
from tierbench.dags.workloads import workload_class
from tierbench.dags.write import write_run
from tierbench.errors import ConfigError
from tierbench.kinds import Kind, Requirements
from tierbench.site_configs.site import Site, load_site
from tierbench.submit import pool
from tierbench.submit.pool import PoolError

CLIENTS = {name: workload_class(file) for name, file in shipped_clients().items()}
PLANTED = "NODE_STATUS_FILE /tmp/planted"
HOSTILE = (
    f"x\n{PLANTED}",
    f'x"\r\n{PLANTED}\n#',
    "x\u2028y",
    "x\x1b[2Jy",
    "x\0y",
    "../../../../tmp/zzz",
    "/data/../../etc",
    "eth0,storage,true||$(id)",
    "eth0;touch /tmp/planted",
    "`touch /tmp/planted`",
    "$(touch /tmp/planted)",
    "$(trial)",
    "$$([1])",
    "$ENV(HOME)",
    "$F(x)",
    "--role",
    "-oProxyCommand=touch",
    "-c/tmp/x",
    ".hidden",
    "x' y",
    'x" y="z',
    "x y",
    " x ",
    "x\ty",
    "x,y",
    "# x",
    "x\\",
    "x) || (true",
    "true /* ",
    "true // x",
    "true, x",
    "<script>alert(1)</script>",
    "root://-oProxyCommand=x/",
    "root://door.example:1094/ --evil",
    "/mnt/x\n/y",
    "//",
    "é",
    "{0.__class__}",
    "%s%n",
    "$x^2$",
    "",
    "x" * 5000,
)
PIECES = "\n\r\t\"'`$(){}[]<>;|&,#\\ -./:@=%~x0é\x1b\u202e"

SITE: dict[str, Any] = {
    "name": "small",
    "pools": {"all": {"requirements": "true", "workers": ["wn1.example"], "interface": "eth0"}},
    "access": {
        "bridge": {
            "pool": "all", "protocol": "xrootd", "prefix": "root://door.example:1094/", "path": ["door.example"],
            "kerberos": {"principal": "host/{host}@EXAMPLE", "keytab": "/etc/krb5.keytab"},
        },
        "mount": {
            "pool": "all", "protocol": "file", "path": ["door.example"], "prefix": "/mnt", "writes": "/data/writes",
        },
        "web": {"pool": "all", "protocol": "http", "path": ["door.example"], "prefix": "http://door.example:8080/"},
        "ftp": {
            "pool": "all", "protocol": "gridftp", "path": ["door.example"], "prefix": "ftp://door.example:2811/",
            "token": {"condor": "scitokens"},
        },
        "service": {
            "pool": "all", "protocol": "globus", "path": ["door.example"], "prefix": "globus://aa752cea-8222/",
            "token": {"condor": "scitokens"},
        },
        "network": {
            "pool": "all", "protocol": "iperf3", "path": ["door.example"], "prefix": "iperf3://oss.example:5201/",
        },
    },
    "storage": {"replicas": "/data/replicas", "sampled": "oss.example"},
    "samplers": {
        "oss": {"host": "oss.example", "interface": "eth0", "role": "storage", "requirements": "true"},
        "far": {"host": "far.example", "interface": "eth0", "role": "gateway", "via": "ssh"},
    },
    "flush": {"helper": "/usr/local/sbin/tierbench-flush"},
    "conditions": {
        "wan-rtt": {
            "hosts": ["router.example"], "pool": "all", "word": "rtt", "unit": "ms",
            "helper": "/usr/local/sbin/tierbench-arrange", "description": "the round trip",
        },
        **{word: {"hosts": ["router.example"], "word": word} for word in ("other", "flavour", "f0", "f1", "f2", "f3")},
    },
}  # fmt: skip


def experiment_tables(pset: Path) -> dict[str, Any]:
    options: dict[str, Any] = {"cmssw": {"pset": str(pset), "release": "CMSSW_10_6_30", "binds": ["/data"]}}
    reads = {"dd": ("mount", "files"), "xrdcp": ("bridge", "files"), "http": ("web", "files")}
    reads |= {
        "gridftp": ("ftp", "doubling"),
        "globus": ("service", "files"),
        "writer": ("mount", "written"),
        "fio": ("mount", "files"),
        "iperf3": ("network", "streamed"),
    }  # smallfiles counts operations, which no experiment mixes with bytes
    workloads = {}
    for client in sorted(CLIENTS.keys() - {"smallfiles"}):
        access, replicas = reads.get(client, ("bridge", "copies"))
        workloads[client] = {
            "client": client, "replicas": replicas, "access": [access], "options": options.get(client, {}),
            "environment": {"SOME": "value"},
        }  # fmt: skip
    sources: dict[str, Any] = {"copies": {"source": "/data/*.root"}, "doubling": {"up_to_mb": 4}}
    replicas = {
        {"random": "files"}.get(kind, kind): {"kind": kind, "count": 2, "size_mb": 1, **sources.get(kind, {})}
        for kind in KINDS
    }
    # All sets are read, so that what is wrong in one of them would show.
    workloads["root"]["replicas"], workloads["higgs"]["replicas"] = "tree", "higgs"
    return {
        "name": "small", "question": "Which?", "access": ["bridge"], "batches": [1], "repeats": 1,
        "placement": {"hosts": ["wn1.example"]},
        "workloads": workloads, "replicas": replicas, "conditions": {"other": "plain"},
        "axes": {
            "rtt_ms": {"values": [1, 2], "arranges": "wan-rtt", "label": "RTT"},
            "flavour": {"values": ["plain"], "arranges": "flavour"},
        },
        "except": [{"where": {"rtt_ms": 2}, "because": "too far"}],
    }  # fmt: skip


# -- finding every field -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TextField:
    """A place for text in a definition: the keys that lead there, and of which type it is."""

    definition: type
    keys: tuple[str | int, ...]
    hint: Any

    def __str__(self) -> str:
        return ".".join(map(str, (self.definition.__name__, *self.keys)))


def text_fields(definition: type, tables: dict[str, Any]) -> Iterator[TextField]:
    """All of them, whether the tables have them or not."""
    yield from _walk(definition, definition, tables, ())


def _walk(definition: type, hint: Any, value: Any, keys: tuple[str | int, ...]) -> Iterator[TextField]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for argument in arguments:
            yield from _walk(definition, argument, value, keys)
    elif dataclasses.is_dataclass(hint):
        hints, table = typing.get_type_hints(hint), value if isinstance(value, dict) else {}
        for field in (field for field in dataclasses.fields(hint) if not field.metadata.get("derived")):
            yield from _walk(definition, hints[field.name], table.get(field.name), (*keys, field.name))
    elif origin is tuple:
        for argument in arguments[:1]:
            yield from _walk(definition, argument, value[0] if value else None, (*keys, 0))
    elif origin is dict:
        for name, inner in (value or {"NAME": None}).items():
            yield from _walk(definition, _tagged(inner) or arguments[1], inner, (*keys, name))
    elif isinstance(hint, type) and issubclass(hint, str):
        yield TextField(definition, keys, hint)


def _tagged(table: Any) -> type | None:
    """The class that a workload's client or a replica set's kind chooses."""
    if not isinstance(table, dict):
        return None
    return CLIENTS.get(table.get("client", "")) or KINDS.get(table.get("kind", ""))


def axis_fields(tables: dict[str, Any]) -> Iterator[TextField]:
    """An experiment's axes are read by a module of their own."""
    yield from _walk(Experiment, axes._Written, tables["axes"]["rtt_ms"], ("axes", "rtt_ms"))
    yield from _walk(Experiment, axes.LeftOut, tables["except"][0], ("except", 0))
    yield TextField(Experiment, ("axes", "flavour", "values", 0), Level)
    yield TextField(Experiment, ("conditions", "other"), Level)


EXAMPLE = experiment_tables(Path("/pset.py"))
FIELDS = [*text_fields(Site, SITE), *text_fields(Experiment, EXAMPLE), *axis_fields(EXAMPLE)]


def test_every_text_of_a_definition_is_of_a_kind() -> None:
    assert [str(field) for field in FIELDS if field.hint is not Level and not issubclass(field.hint, Kind)] == []


def test_the_walk_finds_what_was_open_once() -> None:
    found = {str(field) for field in FIELDS}
    assert found >= {
        "Site.name", "Site.samplers.oss.interface", "Site.access.bridge.kerberos.principal", "Experiment.name",
        "Site.pools.all.requirements", "Site.access.bridge.path.0", "Experiment.workloads.cmssw.options.binds.0",
        "Experiment.workloads.root.options.setup", "Experiment.workloads.dd.environment.SOME",
        "Experiment.replicas.copies.source", "Experiment.placement.hosts.0",
    }  # fmt: skip


# -- what is written with it ---------------------------------------------------------------------------


def toml(tables: dict[str, Any]) -> str:
    """Inline tables all the way down; JSON's texts, lists and numbers are TOML's, too."""
    return "".join(f"{json.dumps(key)} = {_inline(value)}\n" for key, value in tables.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def with_text(tables: dict[str, Any], keys: tuple[str | int, ...], text: str) -> dict[str, Any]:
    changed = copy.deepcopy(tables)
    place: Any = changed
    for key, following in itertools.pairwise(keys):
        empty: Any = [None] if following == 0 else {}
        if isinstance(place, dict) and not isinstance(place.get(key), (dict, list)):
            place[key] = empty
        place = place[key]
    place[keys[-1]] = text
    return changed


def loaded(folder: Path, definition: type, tables: dict[str, Any]) -> Any:
    path = folder / f"{definition.__name__}.toml"
    path.write_text(toml(tables), encoding="utf-8")
    return load_site(path) if definition is Site else load_experiment(path)


def written(run: Path, site: Site, experiment: Experiment) -> Path:
    write_run(expand(site, experiment, {"all": ["wn1.example"]}), site, experiment, run)
    return run


def commands(dag: Path) -> Iterator[tuple[str, ...]]:
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


Shape = list[Any]


def shape(run: Path) -> Shape:
    """How many lines and words of which kind a run's DAGs and lists have, in the order of the files' names."""
    dags = [[(line[0], len(line)) for line in commands(dag)] for dag in sorted(run.glob("**/*.dag"))]
    kinds = {
        ".samplers-pool": "sampler",
        ".samplers-ssh": "sampler-ssh",
        ".flush": "flush",
        ".arrange": "arrange",
        ".places": "clients",
    }
    lists = [
        queued(run / names.SUBMIT / f"{kinds[path.suffix]}.sub", path) for path in sorted((run / names.LISTS).iterdir())
    ]
    replicas = [
        [len(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(run.glob(f"{names.TRIALS}/*/{names.REPLICAS}"))
    ]
    return [dags, lists, replicas]


def queued(submit: Path, path: Path) -> list[tuple[str, ...]]:
    """The names of the variables that HTCondor itself finds in each line of a list."""
    text = submit.read_text(encoding="utf-8").replace("$(hosts)", str(path)).replace("$(places)", str(path))
    return [tuple(sorted(row)) for row in htcondor2.Submit(text).itemdata()]


@dataclasses.dataclass(frozen=True)
class Harmless:
    """Definitions in which nothing is wrong, and the shape of what is written from them."""

    tables: dict[type, dict[str, Any]]
    loaded: dict[type, Any]
    shape: Shape


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Harmless:
    folder = tmp_path_factory.mktemp("harmless")
    (folder / "pset.py").write_text("process = None\n")
    tables = {Site: SITE, Experiment: experiment_tables(folder / "pset.py")}
    definitions = {definition: loaded(folder, definition, table) for definition, table in tables.items()}
    return Harmless(tables, definitions, shape(written(folder / "run", definitions[Site], definitions[Experiment])))


WRITTEN = 3  # texts that are accepted by a field and written: each takes some 20 ms, and the fields take turns


@pytest.mark.parametrize("number", range(len(FIELDS)), ids=lambda number: str(FIELDS[number]))
def test_hostile_text_is_refused_or_only_itself(number: int, harmless: Harmless, tmp_path: Path) -> None:
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


def fits(field: TextField, text: str) -> bool:
    return is_level(text) if field.hint is Level else bool(field.hint.fits(text))


def contents(run: Path) -> set[str]:
    """Every text in the JSON that says what the run was made from."""
    found: set[str] = set()
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


# -- what does not come from a definition ----------------------------------------------------------------


@pytest.mark.parametrize("machine", ["wn1\nqueue", 'x" || true || "', "-oProxyCommand=x", "a,b", "$(id)", ""])
def test_a_machine_of_the_pool_that_is_no_host_is_refused(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(htcondor2.Collector, "query", lambda *_: [{"Machine": machine, "Cpus": 1}])
    monkeypatch.setattr(htcondor2.Collector, "__init__", lambda _: None)
    with pytest.raises(PoolError, match="must be a host name"):
        pool.matching_slots("true")


@pytest.mark.parametrize("text", [text for text in HOSTILE if not text.isprintable()])
@pytest.mark.parametrize("exit_", [word, quoted, comment, item, lambda text: rows([text])])
def test_no_exit_lets_another_line_through(exit_: Any, text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be written for HTCondor"):
        exit_(text)


def test_a_files_table_with_a_hostile_name_is_refused(tmp_path: Path) -> None:
    for key, table in (("pools", {"requirements": "true"}), ("access", {"pool": "all", "protocol": "file"})):
        for name in HOSTILE:
            tables = {**SITE, key: {**SITE[key], name: table}}
            with pytest.raises(ConfigError, match="must be a name"):
                loaded(tmp_path, Site, tables)


# -- ClassAd expressions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression", ["true) || (true", "true // ", "true /* ", "a = 1", "a; b", "a, b", "1 +", "(", ""]
)
def test_requirements_are_one_expression(expression: str) -> None:
    with pytest.raises(ValueError, match="must be one ClassAd expression"):
        Requirements(expression)


@pytest.mark.parametrize("macro", ["$(id)", "$$(Name)", "$$([1])", "$ENV(HOME)"])
def test_requirements_hold_no_macros(macro: str) -> None:
    with pytest.raises(ValueError, match="without HTCondor's macros"):
        Requirements(f'Machine == "{macro}"')


def test_an_anchored_pattern_is_no_macro() -> None:
    expression = 'regexp("^wn[0-9]+[.]x$", Machine)'
    assert Requirements(expression) == expression


@pytest.mark.parametrize("expression", [r'"x\\" == ") || (true) || (" ', r'"\"" == "x"', "'odd name' == 1"])
def test_requirements_hold_nothing_that_htcondors_parsers_read_differently(expression: str) -> None:
    with pytest.raises(ValueError, match="without backslashes"):
        Requirements(expression)


@pytest.mark.parametrize("kind", ["clients", "sampler"])
def test_requirements_stand_in_parentheses(kind: str) -> None:
    text = (Path(pool.__file__).parent / f"{kind}.sub").read_text(encoding="utf-8")
    (line,) = re.findall(r"^requirements *= (.*)$", text, re.MULTILINE)
    assert re.fullmatch(r"\(\$\(\w+\)\)( && \(\$\(\w+\)\))?", line)


def test_the_last_word_of_a_list_may_have_commas(tmp_path: Path) -> None:
    expression = 'regexp("^wn", Machine) || Machine == "a,b"'
    (tmp_path / "list").write_text(item("wn1.example", "eth0", "worker", expression))
    text = f"queue host, interface, role, host_requirements from {tmp_path / 'list'}\n"
    (found,) = htcondor2.Submit(text).itemdata()
    assert found["host_requirements"].strip() == expression


def test_names_too_long_for_a_folder_are_refused(harmless: Harmless, tmp_path: Path) -> None:
    levels = {f"factor_{number}": {"values": ["x" * 60], "arranges": f"f{number}"} for number in range(4)}
    experiment = loaded(tmp_path, Experiment, {**harmless.tables[Experiment], "axes": levels, "except": []})
    with pytest.raises(ConfigError, match="too long a name"):
        expand(harmless.loaded[Site], experiment, {})
