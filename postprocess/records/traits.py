"""What those who judge a trial must know of its client, as the client declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, cast

from tierbench.dags.clients import shipped_clients
from tierbench.wrappers.client import Client


class Traits(TypedDict):
    """The declaration, as trial.json has it."""

    does: str
    reads_whole: bool
    usual_excess: float
    taken_in: str
    settles: NotRequired[bool]


def traits_of(trial: Mapping[str, Any]) -> Traits:
    """From trial.json; of one written before it had them, what its client declares now."""
    if "traits" in trial:
        return cast(Traits, trial["traits"])
    file = shipped_clients().get(trial["client"])
    return cast(Traits, (file.client if file else Client).traits())
