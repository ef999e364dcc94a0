"""The definitions that a user names, as the command line takes them."""

from __future__ import annotations

from tierbench.dags.experiment import Experiment, find_experiment
from tierbench.errors import ConfigError
from tierbench.postprocess.schema.columns import places
from tierbench.postprocess.tables.schema import FILES

TAKEN = {name for _, table in FILES.values() for name in places(table)}


def asked_experiment(name_or_path: str) -> Experiment:
    """An experiment whose axes can be columns of its tables."""
    experiment = find_experiment(name_or_path)
    taken = [axis.name for axis in experiment.axes if axis.name in TAKEN]
    if taken:
        raise ConfigError(
            "\n".join(
                f"{name_or_path}: axes.{name}: the tables have a column of that name already; call the axis otherwise"
                for name in taken
            )
        )
    return experiment
