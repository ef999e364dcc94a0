"""The DAG of a night: links and trials in turn, what confirms a change, and last in any case the night's books."""

from __future__ import annotations

from collections.abc import Iterator

from tierbench import names
from tierbench.dags.experiment import Experiment
from tierbench.dags.graphs import repetition_dag
from tierbench.dags.nodes import After, Before, Dag, Edge, Final, Part, SkipIf, SubDag
from tierbench.dags.plan import Plan

STARTER = f"../../{names.NIGHTLY_STARTER}"  # from a night's directory
NOTHING_TO_CONFIRM = 3
DONE = "/bin/true"


def night_dag(plan: Plan) -> Dag:
    """Each repetition's trials with a look at the links before it, and one after the last.

    A repetition with a trial that is not complete fails, and the night goes on all the same.
    """
    usage = [
        f"A night of {plan.experiment} at site {plan.site}.",
        f"`tierbench nightly` submits it, once; the trials' own DAGs are in {names.NIGHT_RUN}.",
    ]
    return Dag(usage, f"{names.NIGHT_RUN}/{names.DAGMAN_CONFIG}", list(_parts(plan)))


def repetitions(plan: Plan) -> list[int]:
    return sorted({trial.repeat for trial in plan.trials})


def repetition_dags(plan: Plan, experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The run's files that a night's DAG names."""
    for repeat in repetitions(plan):
        yield names.repetition_dag(repeat), repetition_dag(plan, experiment, repeat).text()


def _parts(plan: Plan) -> Iterator[Part]:
    nodes = [f"repetition-{repeat}" for repeat in repetitions(plan)]
    for repeat, node in zip(repetitions(plan), nodes, strict=True):
        yield SubDag(node, names.repetition_dag(repeat), names.NIGHT_RUN, priority=0)
        yield Before(node, f"../{STARTER}", ["links", ".."])
        yield After(node, DONE)
    yield SubDag("again", names.EXPERIMENT_DAG, names.NIGHT_AGAIN, priority=0)
    yield Before("again", f"../{STARTER}", ["judge", ".."])
    yield SkipIf("again", NOTHING_TO_CONFIRM)
    yield After("again", DONE)
    for before, after in zip(nodes, [*nodes[1:], "again"], strict=True):
        yield Edge([before], [after])
    yield Final("books", STARTER, ("close", "."))
