"""What of a trial's trial.json those need that carry it through: its turn, gate, stop and last step.

Stdlib only, Python 3.6 or newer: it is shipped with them.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tierbench import names
from tierbench.starts import NATURAL

ALREADY_COMPLETE = 3  # exit status of reset_trial.py, by which DAGMan skips the trial
UNLIMITED = 10**9  # seconds, for what runs of earlier versions do not limit


class Limits(NamedTuple):
    """Seconds after which what lasts on is ended by the next one up."""

    slot_s: int  # a job waits for a slot
    read_s: int  # a client reads, by its own clock
    stall_s: int  # the storage moves nothing while clients read
    ready_s: int  # the gate waits for all clients to be ready
    go_s: int  # a client that is ready waits for the go
    end_s: int  # the last end is waited for, after the go
    job_s: int  # a client, flush or sampler runs, by HTCondor's clock
    gate_s: int  # the gate itself runs, by HTCondor's clock
    turn_s: int  # a trial keeps the turn from the next one
    samplers_s: int = 60  # the gate waits for samplers of other hosts than storage when all else is ready
    away_s: int = 60  # a client's worker does not answer HTCondor
    stop_s: int = 30  # jobs that were told to end take to do so


class Sampler(NamedTuple):
    """A host that is sampled, and whether by a job of the pool or over ssh."""

    host: str
    role: str
    via: str

    @property
    def of_storage(self) -> bool:
        return self.role == "storage"


class Condition(NamedTuple):
    """What a host changes for the trial."""

    name: str
    condition: str
    host: str
    value: str
    unit: str
    tolerance_pct: float
    link: "str | None" = None  # whose rate it sets


class Start(NamedTuple):
    """How clients begin: the kind of start, and the seconds from one to the next where they begin one by one."""

    kind: str
    every_s: float = 0.0

    @property
    def gated(self) -> bool:
        return self.kind != NATURAL


class Credentials(NamedTuple):
    """Who its jobs are to the storage: what they are told of it, and what HTCondor gives them."""

    flags: str = ""
    files: "tuple[str, ...] | list[str]" = ()
    service: str = ""


class Trial(NamedTuple):
    """A trial as it was planned."""

    jobs: int
    limits: Limits
    samplers: "list[Sampler]"
    conditions: "list[Condition]"
    start: Start
    flushed: "list[str]"  # the hosts whose caches are emptied
    sample_period_s: float
    until_known: bool  # it is repeated until enough is known
    does: str  # what its client does: reads, writes …
    writes: "dict[str, Any] | None"
    requirements: str
    credentials: "Credentials"
    on_disk: bool  # its clients read from their workers' own disks
    ahead: bool  # its jobs are started before its turn, and wait for it

    @property
    def storage_hosts(self) -> "list[str]":
        """The sampled hosts by which it is seen whether anything moves."""
        wanted = "worker" if self.on_disk else "storage"
        return [sampler.host for sampler in self.samplers if sampler.role == wanted]


def read_trial(folder: Path) -> Trial:
    """The trial of this folder; OSError or ValueError where its trial.json cannot be read."""
    content = json.loads((folder / names.TRIAL).read_text(encoding="utf-8"))
    try:
        return Trial(
            jobs=content["jobs"],
            limits=Limits(*[UNLIMITED] * 9)._replace(**content["limits"]),
            samplers=[Sampler(one["host"], one["role"], one["via"]) for one in content["samplers"]],
            conditions=[_condition(one) for one in content.get("conditions", ())],
            start=Start(**content.get("start", {"kind": NATURAL})),
            flushed=content.get("flush", {}).get("hosts", []),
            sample_period_s=content.get("sample_period_s", 0.0),
            until_known=content.get("until_known", False),
            does=content.get("traits", {}).get("does", ""),
            writes=content.get("writes"),
            requirements=content.get("requirements", "true"),
            credentials=Credentials(**content.get("credentials", {})),
            on_disk=content.get("on_disk", False),
            ahead=content.get("ahead", False),
        )
    except (KeyError, TypeError) as error:
        raise ValueError("it lacks or misstates " + str(error)) from None


def _condition(record: "dict[str, Any]") -> Condition:
    return Condition(**{name: record[name] for name in Condition._fields if name in record})
