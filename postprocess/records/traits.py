"""What those who judge a trial must know of its client, as the client declares it."""

from __future__ import annotations

from dataclasses import dataclass

from tierbench import json_files
from tierbench.dags.clients import shipped_clients
from tierbench.wrappers.client import Client


@dataclass(frozen=True)
class Traits:
    """The declaration, as trial.json has it."""

    does: str
    reads_whole: bool
    usual_excess: float
    taken_in: str
    settles: bool = True
    at_once: int = 1


def declared_now(client: str) -> Traits:
    """What a client declares now, for trials that were written before they had it."""
    file = shipped_clients().get(client)
    return json_files.typed(Traits, (file.client if file else Client).traits(), client)
