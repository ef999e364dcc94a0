"""What it takes to plan and write a run, beside what HTCondor's own DAG writer takes for as many nodes.

    python benchmarks/plan_and_write.py [CLIENTS]          (default 100000; needs: pip install htcondor)

Each is measured in a process of its own, several times in turn; the fastest of each and the largest memory
are compared. Two plans are written: one trial of all the clients, and a ladder of batches, repeated until
it has as many: 912 trials of a folder with three files each, whose making is the file system's time ("system").
"""

import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
LADDER = (32, 64, 96, 128, 160, 192)
ACCESSES = ("lan-xrootd", "wan-xrootd-private", "wan-xrootd-public", "direct")


def tierbench_run(clients, directory, access, batches):
    from tierbench.dags.experiment import find_experiment
    from tierbench.dags.plan import expand
    from tierbench.dags.write import write_run
    from tierbench.site_configs.site import find_site

    site, quick = find_site("testbed"), find_experiment("quick")
    trees = dataclasses.replace(quick.replicas["root-tree"], count=max(batches))
    experiment = dataclasses.replace(
        quick, access=access, batches=batches, replicas={"root-tree": trees},
        repeats=-(-clients // (sum(batches) * len(access))),
    )  # fmt: skip
    pool = {"private": ("wn01.private.fiu.test",), "public": ("wn03.fiu.test",)}

    def work():
        plan = expand(site, experiment, pool)
        write_run(plan, site, experiment, directory / "run")
        return sum(trial.jobs for trial in plan.trials)

    return work


def htcondor_layer(clients, directory):
    import htcondor2 as htcondor
    from htcondor2 import dags

    def work():
        dag = dags.DAG()
        submit = htcondor.Submit({"executable": "/bin/cat", "arguments": "$(url)"})
        dag.layer(name="clients", submit_description=submit, vars=[{"url": f"/f/{n:06d}"} for n in range(clients)])
        dags.write_dag(dag, directory)
        return clients

    return work


WRITERS = {
    "htcondor2.dags": htcondor_layer,
    "tierbench, one trial": lambda clients, directory: tierbench_run(clients, directory, ("direct",), (clients,)),
    "tierbench, ladder": lambda clients, directory: tierbench_run(clients, directory, ACCESSES, LADDER),
}


def measure(writer, clients):
    """Do it once, in this process, and print what it took."""
    with tempfile.TemporaryDirectory() as directory:
        work = WRITERS[writer](clients, Path(directory))
        before, start = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        nodes = work()
        seconds = time.perf_counter() - before
    used = resource.getrusage(resource.RUSAGE_SELF)
    result = {"seconds": seconds, "user": used.ru_utime - start.ru_utime, "system": used.ru_stime - start.ru_stime}
    print(json.dumps({**result, "peak_mb": used.ru_maxrss / 1024, "nodes": nodes}))


def compare(clients):
    results = {writer: [] for writer in WRITERS}
    for _ in range(ROUNDS):
        for writer, measured in results.items():
            command = [sys.executable, __file__, str(clients), writer]
            measured.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    best = {writer: min(measured, key=lambda result: result["seconds"]) for writer, measured in results.items()}
    print(f"{'':22} {'clients':>9} {'seconds':>8} {'user':>7} {'system':>7} {'peak MB':>8} {'ratio':>6}")
    for writer, result in best.items():
        peak = max(other["peak_mb"] for other in results[writer])
        ratio = result["seconds"] / best["htcondor2.dags"]["seconds"]
        print(
            f"{writer:22} {result['nodes']:9} {result['seconds']:8.3f} {result['user']:7.3f} {result['system']:7.3f}"
            f" {peak:8.1f} {ratio:6.2f}"
        )


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    if len(sys.argv) > 2:
        measure(sys.argv[2], number)
    else:
        compare(number)
