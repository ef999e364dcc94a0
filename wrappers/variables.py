"""The variables of the reading process: as they were told, or where their values are."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tierbench.wrappers.failure import Failure


def variables(told: "Mapping[str, Any]") -> "dict[str, str]":
    """The values; one that is secret stands in a file that came with the job, or in the job's own environment."""
    return {name: _secret(name, value) if isinstance(value, dict) else str(value) for name, value in told.items()}


def _secret(name: str, place: "Mapping[str, str]") -> str:
    if "from_file" in place:
        try:
            return Path(place["from_file"]).read_text().rstrip("\n")
        except (OSError, ValueError) as error:
            raise Failure("failed", f"variable {name}: {place['from_file']}: {type(error).__name__}") from None
    if place.get("from_env") not in os.environ:
        raise Failure("failed", f"variable {name}: jobs here have no {place.get('from_env')} in their environment")
    return os.environ[place["from_env"]]
