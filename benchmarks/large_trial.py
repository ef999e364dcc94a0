"""One trial of very many clients: what each part of it costs on the access point, and how that grows.

usage: python benchmarks/large_trial.py [--clients 1000,3000,10000] [--folder DIR]

The trial has 500 workers and 50 storage servers, all sampled for two minutes. Its data is synthetic: the job event log
is a recorded one, repeated for each client. Each part is measured in a process of its own, whose memory it is.

exit status: 0 no part grows faster than linearly, as its CPU time tells; 1 one does
"""

import csv
import json
import math
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from frame import options

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "tests/unit/data/direct-trial.tar.gz"
WORKERS = [f"wn{number:03}.private.fiu.test" for number in range(1, 501)]
SERVERS = [f"oss{number:02}.uf.test" for number in range(1, 51)]
MBPS, END = 20_000.0, 120.0
LINEAR = 1.25  # exponents scatter by so much where others compute too
LEAST_S = 0.2  # of CPU: shorter parts tell no exponent


# What each is given, and what is measured; in the trial's folder, whose run is `run`.
READ = "from tierbench.postprocess.records.load_trial import read_trial; here = Path()\n"
PARTS = {
    "job event log": (
        "from tierbench.submit.trial.joblog import Cluster; cluster = Cluster(Path('clients.log'))",
        "cluster.read_on()",
    ),
    "a look of the gate": (  # as while all read
        "from tierbench.submit.trial.trial_monitor import TrialMonitor; from tierbench.trials import read_trial\n"
        "monitor = TrialMonitor(read_trial(Path())); monitor.read_on()\n"
        "monitor.records.ended.clear(); monitor.cluster.ended.clear()",
        "monitor.look(); monitor.unready(); monitor.unsampled()",
    ),
    "who failed": ("from tierbench.submit.trial.joblog import client_reasons", "client_reasons(clients)"),
    "a look of watch": ("from tierbench.submit.progress import progress", "progress(Path(), '', clients)"),
    "reading its records": (READ, "read_trial(here)"),
    "verdict": (
        READ + "from tierbench.postprocess.tables.metrics import trial_row\n"
        "from tierbench.postprocess.verdict.judge import judge; data = read_trial(here)",
        "judge(data, trial_row(data))",
    ),
    "tables": ("from tierbench.postprocess.tables import write", "write.tables(run)"),
    "report": ("from tierbench.postprocess.report.write import run_report", "run_report(run, None, lambda _: None)"),
}


PROGRAM = """
import json, resource, time; from pathlib import Path
run, clients = Path.cwd().parents[1], {clients}
{setup}
before = time.process_time()
{part}
used = time.process_time() - before
print(json.dumps([used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def main():
    arguments = options(__doc__, clients="1000,3000,10000", folder=Path(tempfile.gettempdir()))
    sizes, costs = [int(number) for number in arguments.clients.split(",")], {}
    for clients in sizes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            run = Path(folder) / "run"
            trial = write(run, clients)
            for name, (setup, part) in PARTS.items():
                program = PROGRAM.format(clients=clients, setup=setup, part=part)
                done = subprocess.run([sys.executable, "-c", program], cwd=trial, stdout=subprocess.PIPE, check=True)
                costs[name, clients] = json.loads(done.stdout)
            with (run / "trials.csv").open(encoding="utf-8", newline="") as file:
                verdict = next(csv.DictReader(file))["verdict"]
            page, log = (path.stat().st_size / 1e6 for path in (run / "report.html", trial / "clients.log"))
            print(f"{clients} clients: {verdict}; event log {log:.1f} MB, report.html {page:.1f} MB", flush=True)
    print(f"{'CPU s, MB peak':20}" + "".join(f"{clients:>14}" for clients in sizes) + "   grows by clients to the")
    steep = []
    for name in PARTS:
        seconds = [costs[name, clients][0] for clients in sizes]
        exponent = math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])
        steep += [name] if exponent > LINEAR and seconds[-1] > LEAST_S else []
        cells = (f"{costs[name, clients][0]:8.2f}{costs[name, clients][1]:6.0f}" for clients in sizes)
        print(f"{name:20}" + "".join(cells) + f"{exponent:8.2f}")
    if steep:
        sys.exit(f"faster than linearly: {', '.join(steep)}")


def write(run, clients):
    """A run of this one trial; its directory."""
    sys.path.insert(0, str(ROOT))
    from tests.unit import synthetic_run
    from tests.unit.gate_process import LIMITS

    samplers = [{"host": host, "interface": "eth0", "role": "storage", "via": "pool"} for host in SERVERS]
    samplers += [{"host": host, "interface": "eth0", "role": "worker", "via": "pool"} for host in WORKERS]
    size = round(MBPS * 1e6 / 8 * END / 1.02 / clients)
    trial = synthetic_run.write_trial(
        run, jobs=clients, workers=WORKERS, samplers=samplers, bytes=size * clients, limits=LIMITS, conditions=[]
    )
    for client in range(clients):
        path, host = trial / f"clients/{client}.jsonl", WORKERS[client % len(WORKERS)]
        begin_s = client * 1e-5
        synthetic_run.write_client(path, begin_s=begin_s, end_s=END - client / clients, size=size, host=host)
    (trial / f"samples/{synthetic_run.OSS}.samples").unlink()
    for role, hosts, counter in (("storage", SERVERS, "tx_bytes"), ("worker", WORKERS, "rx_bytes")):
        moved = {counter: synthetic_run.during(MBPS / len(hosts), END)}
        for host in hosts:
            synthetic_run.write_host(trial, host, role, until=END + 3, **moved)
    (trial / "clients.log").write_text("".join(f"{event}\n...\n" for event in events(clients)), encoding="utf-8")
    starts = {str(client): 1 for client in range(clients)}
    synthetic_run.edit_json(trial / "go.json", starts=starts)
    plan = {"format": 1, "site": "synthetic", "experiment": "synthetic", "question": "How large?", "factors": []}
    line = {"to": "pool private", "role": "worker", "pool": "private", "mbps": 1.2 * MBPS, "rtt_ms": 14.2}
    line["hosts"] = {host: {"mbps": 1.2 * MBPS / len(WORKERS), "rtt_ms": 14.2} for host in WORKERS}
    ceilings = {"format": 1, "from": SERVERS[0], "measured": [line]}
    named = {"name": "synthetic"}
    for name, content in {"plan": plan, "site": named, "experiment": named, "ceilings": ceilings}.items():
        (run / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return trial


def events(clients):
    """What HTCondor has logged of a real client, of each of so many, one kind after the other."""
    with tarfile.open(RECORDED) as archive:
        member = next(name for name in archive.getnames() if name.endswith("clients.log"))
        log = archive.extractfile(member).read().decode()
    for event in (event for event in log.split("\n...\n") if " (011.000.000) " in event):
        before = event.startswith("000")
        event = re.sub(r"\d{4}-\d\d-\d\d [\d:]{8}", f"2027-01-15 {'03:59:50' if before else '03:59:56'}", event)
        for client in range(clients):
            own = event.replace("(011.000.", f"(011.{client:03}.").replace("READY 0", f"READY {client}")
            yield own.replace("wn03.fiu.test", WORKERS[client % len(WORKERS)])


if __name__ == "__main__":
    main()
