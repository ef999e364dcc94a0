"""Measures between two steps of one's own, and waits for the end; usage: workflow.py RUN FOLDER."""

import os
import shutil
import sys
from pathlib import Path

import htcondor2
from htcondor2 import dags

run, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()  # RUN: made by `tierbench write`
folder.mkdir()


def step(name, program, *arguments):
    """A node of one's own: a program on the access point, by a submit file."""
    file = folder / f"{name}.sub"
    file.write_text(
        f"universe = local\nexecutable = {program}\narguments = {' '.join(arguments)}\n"
        f"output = {name}.out\nerror = {name}.err\nlog = steps.log\nqueue\n"
    )
    return {"name": name, "submit_description": file}


workflow = dags.DAG()
prepare = workflow.layer(**step("prepare", "/bin/date"))
for dag in sorted(run.glob("*.*.dag")):  # one for each configuration; or experiment.dag, which holds all trials
    prepare.child_subdag(name=dag.stem, dag_file=dag.name, dir=run, retries=1)
measured = workflow.select(lambda node: isinstance(node, dags.SubDAG))
measured.child_layer(**step("tables", shutil.which("tierbench"), "tables", str(run)))

dag_file = dags.write_dag(workflow, folder, "workflow.dag")
os.chdir(folder)  # its logs are written where it is submitted
job = htcondor2.Schedd().submit(htcondor2.Submit.from_dag(dag_file.name))
for event in htcondor2.JobEventLog(f"{dag_file}.dagman.log").events(stop_after=None):
    if event.type == htcondor2.JobEventType.JOB_ABORTED:
        sys.exit(f"{dag_file} was removed")
    if event.type == htcondor2.JobEventType.JOB_TERMINATED:
        sys.exit(event["ReturnValue"])  # 0: all trials are complete, and the steps have succeeded
