"""Every field of text that a definition has, found by walking the dataclasses of a site and of an experiment.

The tables of both are an example that has a value in as many of them as can be.
"""

import dataclasses
import types
import typing
from typing import Any

from tierbench.dags import levels
from tierbench.dags.clients import shipped_clients, workload_class
from tierbench.dags.experiment import Experiment
from tierbench.dags.levels import Level
from tierbench.dags.replicas import KINDS
from tierbench.site_configs.site import Site

CLIENTS = {name: workload_class(file) for name, file in shipped_clients().items()}
ACCESS = {
    "bridge": {
        "protocol": "xrootd", "prefix": "root://door.example:1094/",
        "kerberos": {"principal": "host/{host}@EXAMPLE", "keytab": "/etc/krb5.keytab"},
    },
    "mount": {"protocol": "file", "prefix": "/mnt", "writes": "/data/writes"},
    "web": {"protocol": "http", "prefix": "http://door.example:8080/"},
    "copies": {
        "protocol": "http", "prefix": "https://door.example:8443/",
        "to": {
            "prefix": "https://far.example:8443/", "folder": "/copies", "host": "far.example",
            "token": {"condor": "scitokens"},
        },
    },
    "ftp": {"protocol": "gridftp", "prefix": "ftp://door.example:2811/", "token": {"condor": "scitokens"}},
    "service": {"protocol": "globus", "prefix": "globus://aa752cea-8222/", "token": {"condor": "scitokens"}},
    "network": {"protocol": "iperf3", "prefix": "iperf3://oss.example:5201/"},
}  # fmt: skip
SITE = {
    "name": "small",
    "pools": {"all": {"requirements": "true", "workers": ["wn1.example"], "interface": "eth0"}},
    "access": {name: {"pool": "all", "path": ["door.example"], **own} for name, own in ACCESS.items()},
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


def needed_options(folder="/"):
    """Options of the clients that have no default for all of them; the files lie in a folder, if anywhere."""
    return {
        "cmssw": {"pset": f"{folder}/pset.py", "release": "CMSSW_10_6_30", "binds": ["/data"]},
        "command": {"command": "cat /f"},
        "replay": {"record": f"{folder}/record.csv"},
    }


def experiment_tables(folder):
    options = needed_options(folder)
    reads = {
        "dd": ("mount", "files"), "fio": ("mount", "files"), "xrdcp": ("bridge", "files"), "http": ("web", "files"),
        "davix": ("web", "files"),
        "httptpc": ("copies", "files"), "gridftp": ("ftp", "doubling"), "globus": ("service", "files"),
        "writer": ("mount", "written"), "iperf3": ("network", "streamed"), "command": ("network", "streamed"),
    }  # fmt: skip
    workloads = {}  # smallfiles counts operations, which no experiment mixes with bytes
    for client in sorted(CLIENTS.keys() - {"smallfiles"}):
        access, replicas = reads.get(client, ("bridge", "copies"))
        workloads[client] = {
            "client": client, "replicas": replicas, "access": [access], "options": options.get(client, {}),
            "environment": {"SOME": "value"},
        }  # fmt: skip
    sources = {"copies": {"source": "/data/*.root"}, "doubling": {"up_to_mb": 4}}
    sources["rntuple"] = {"events": 100, "cluster_events": 10}
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
        "expects": [{"where": {"rtt_ms": 2}, "bottleneck": ["latency"]}],
        "except": [{"where": {"rtt_ms": 2}, "because": "too far"}],
    }  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TextField:
    """A place for text in a definition: the keys that lead there, and of which type it is."""

    definition: type
    keys: tuple[str | int, ...]
    hint: Any

    def __str__(self):
        return ".".join(map(str, (self.definition.__name__, *self.keys)))


def text_fields(definition, tables):
    """All of them, whether the tables have them or not."""
    yield from _walk(definition, definition, tables, ())


def _walk(definition, hint, value, keys):
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


def _tagged(table):
    """The class that a workload's client or a replica set's kind chooses."""
    if not isinstance(table, dict):
        return None
    return CLIENTS.get(table.get("client", "")) or KINDS.get(table.get("kind", ""))


def axis_fields(tables):
    """An experiment's axes are read by a module of their own."""
    yield from _walk(Experiment, levels._Written, tables["axes"]["rtt_ms"], ("axes", "rtt_ms"))
    yield from _walk(Experiment, levels.LeftOut, tables["except"][0], ("except", 0))
    yield TextField(Experiment, ("axes", "flavour", "values", 0), Level)
    yield TextField(Experiment, ("conditions", "other"), Level)


EXAMPLE = experiment_tables("/")
FIELDS = [*text_fields(Site, SITE), *text_fields(Experiment, EXAMPLE), *axis_fields(EXAMPLE)]
