"""Trials that are contaminated on purpose get the verdict that they deserve, and clean ones get none.

A clean trial, and those whose contamination is told by their bytes, run alone. The others show courses of events and
run all at once, so the storage's bytes do not fit in them.
"""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import sleep

import pytest

from tests.testbed.runs import Ran, all_read
from tests.testbed.test_conditions import holding
from tierbench import names
from tierbench.testbed.topology import USER

MEANWHILE_S = 6  # from the go, which is given half a second ahead, to well after the end
SMALL_BYTES = 2_000_000
COUNT = 20  # a pair for each trial: one that had been read by another on the same mount would be in its cache
PAUSE_S = 1.0
SLOW_MBPS = 20  # of a worker's card, where something has to be done while clients read
WORKERS = ("wn03", "wn04")  # the public pool
OSS = "oss.uf.test"

EXPERIMENT = """
name = "{name}"
access = ["direct"]
batches = [2]
start = "{start}"
flush = {flush}
workloads.{name} = {{ client = "dd", replicas = "shared" }}
replicas.shared = {{ kind = "random", count = {count}, size_mb = 24 }}
"""


def experiment(name, start="together", flush=True):
    return EXPERIMENT.format(name=name, count=COUNT, start=start, flush=str(flush).lower())


class Contaminated:
    """A trial of two dd on the public workers' mounts, to which something is done."""

    def __init__(self, access_point, testbed, name):
        self.name, self.access_point, self.testbed = f"contaminated-{name}", access_point, testbed
        access_point.define(self.name, experiment(name, CASES[name].start, CASES[name].flush))
        self.run = access_point.write(self.name)
        (self.trial,) = (self.run / names.TRIALS).iterdir()
        first = 3 + 2 * [*CASES].index(name)
        self.edit_replicas(
            lambda lines: [re.sub(r"-\d{4}\.", f"-{number:04d}.", line) for number, line in enumerate(lines, first)]
        )

    def host(self, fqdn):
        return self.testbed.host(fqdn.partition(".")[0])

    def edit(self, path, change):
        path.write_text(change(path.read_text()))

    def edit_replicas(self, change):
        self.edit(self.trial / names.REPLICAS, lambda text: "".join(change(text.splitlines(keepends=True))))

    def replica(self, number):
        return (self.trial / names.REPLICAS).read_text().splitlines()[number].partition("\t")[0]

    def sampler(self):
        """The process number of the storage server's sampler, in its host."""
        return self.host(OSS).run("pgrep", "-f", f"sampler.py.*--trial {self.trial.name} ").stdout.split()[0]

    def submit(self, *meanwhile, from_go=False):
        """Run it; do something to it when all its clients read, or from when they have been given the go."""
        with ThreadPoolExecutor(1) as threads:
            ran = threads.submit(self.access_point.submit, self.name)
            if meanwhile:
                begins = (self.trial / names.GO).exists if from_go else partial(all_read, self.trial, 2)
                self.wait_until(begins, "the clients did not begin")
            for do in meanwhile:
                do(self)
            return ran.result()

    def wait_until(self, holds, complaint):
        self.access_point.wait_until(holds, complaint, self.name)

    def have_ended(self):
        """Whether both clients have told their ends."""
        return all('"event": "end"' in (self.trial / names.client_output(client)).read_text() for client in (0, 1))


# -- what is done to trials ------------------------------------------------------------------------------


def one_replica_in_memory(trial):
    for worker in WORKERS:
        trial.host(worker).run("dd", f"if={trial.replica(1)}", "iflag=nocache", "count=0")  # forgets it
        trial.host(worker).run("dd", f"if={trial.replica(0)}", "of=/dev/null", "bs=1M")
    return trial.submit()


def background(trial):
    """Somebody else has the storage server send half as much again as the two clients can take, all the time."""
    server = trial.host("vmuf")
    server.daemon("background", "iperf3", "-s", "-1", "-p", "5299")
    trial.host(OSS).wait_until(
        lambda: "5299" in server.run("ss", "-ltn").stdout, "iperf3 does not listen", "background.log"
    )
    sends = ["iperf3", "-c", "vmuf.uf.test", "-p", "5299", "-b", "100M", "-t", str(MEANWHILE_S)]
    return trial.submit(lambda t: t.host(OSS).run(*sends), from_go=True)


def cut_off(trial):
    """The workers' links fail for a while when they have begun to read."""

    def cut(trial):
        wan = trial.host("wan")
        for state in ("down", "up"):
            for worker in WORKERS:
                wan.run("ip", "link", "set", f"{worker}-eth0", state)
            sleep(3 * PAUSE_S if state == "down" else 0)

    return trial.submit(cut)


def written_meanwhile(trial):
    """Somebody else writes to the storage from the go to the end, faster than the two clients can read."""
    other = f"{trial.replica(0)}.other"
    writing = f"dd if=/dev/zero of={other} bs=1M count=64 conv=fsync; rm {other}"

    def write(trial):
        while not (trial.trial / names.OUTCOME).exists():
            trial.host("vmuf").run("sh", "-c", writing, user=USER)

    with holding(trial.host("wan"), "worker-rate", SLOW_MBPS):
        return trial.submit(write, from_go=True)


def truncated_replica(trial):
    """The second replica is cut short on the storage: a copy of it, for the other trials read it too."""
    whole, cut = trial.replica(1), trial.replica(1) + ".cut"
    trial.host("vmuf").run("sh", "-c", f"head -c 20000000 {whole} > {cut}", user=USER)
    trial.edit_replicas(lambda lines: [lines[0], lines[1].replace(whole, cut)])
    return trial.submit()


def late_client(trial):
    """Without a gate, the second client's process comes up long after the first has read its file, a small one."""
    for number in range(2):
        whole, small = trial.replica(number), trial.replica(number) + ".small"
        trial.host("vmuf").run("sh", "-c", f"head -c {SMALL_BYTES} {whole} > {small}", user=USER)
    trial.edit_replicas(lambda lines: [f"{line.partition(chr(9))[0]}.small\t{SMALL_BYTES}\n" for line in lines])
    beginning = "    record, interrupts = Record(), Interrupts()\n"
    slow = f"    time.sleep({PAUSE_S} + 12 * arguments.index)\n"
    trial.edit(trial.run / names.SCRIPTS / "client.py", lambda text: text.replace(beginning, slow + beginning))
    return trial.submit()


def killed_client(trial):
    def kill(trial):
        start = json.loads((trial.trial / names.client_output(1)).read_text().splitlines()[0])
        trial.host(start["host"]).run("kill", "-KILL", str(start["pid"]))

    return trial.submit(kill)


def paused_sampler(trial):
    """From when they read until they have ended."""

    def pause(trial):
        sampler = trial.sampler()
        trial.host(OSS).run("kill", "-STOP", sampler)
        trial.wait_until(trial.have_ended, "the clients did not end")
        trial.host(OSS).run("kill", "-CONT", sampler)

    return trial.submit(pause)


def killed_sampler(trial):
    return trial.submit(lambda t: t.host(OSS).run("kill", "-KILL", t.sampler()))


@dataclass(frozen=True)
class Case:
    """What is done to a trial, and what must be among the reasons of its verdict, which is INVALID."""

    contaminate: Callable[[Contaminated], Ran]
    reason: str
    mark: pytest.MarkDecorator | tuple[()] = ()
    alone: bool = False
    start: str = "together"
    flush: bool = True


QUIET = pytest.mark.quiet  # samplers that are kept waiting do not see it
LONG = pytest.mark.long  # there is a unit test, too
CASES = {
    "warm": Case(
        one_replica_in_memory, alone=True, flush=False,
        reason="MB of 48.00 MB that the clients read (at most 0.2 % of what was read): a cache was warm",
    ),
    "background": Case(background, "reached none of the trial's own hosts", QUIET, alone=True),
    # At the links' own rate: what TCP sends again into a cut divides the pause, by half of it at most.
    "cut": Case(cut_off, "while clients were at work", QUIET, alone=True),
    "written": Case(written_meanwhile, "somebody else writes to the storage", alone=True),
    "truncated": Case(truncated_replica, "1 of 2 clients short-read (1)"),
    "late": Case(late_client, "all clients read together for", start="natural"),
    "killed": Case(killed_client, "1 of 2 clients lost (1)", LONG),
    "paused": Case(paused_sampler, "oss.uf.test's sampler had no sample for "),
    "unsampled": Case(killed_sampler, "samples of oss.uf.test end"),
}  # fmt: skip


@pytest.fixture(scope="module")
def clean(access_point):
    """A trial to which nothing is done."""
    return access_point.measured("clean", experiment("clean"))


@pytest.fixture(scope="module")
def contaminated(clean, access_point, testbed, request):
    """What comes of each of the contaminated trials, of which a test wants to know."""
    assert clean
    wanted = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}

    def begin(threads, alone):
        return {
            name: threads.submit(case.contaminate, Contaminated(access_point, testbed, name))
            for name, case in CASES.items() if name in wanted and case.alone is alone
        }  # fmt: skip

    with ThreadPoolExecutor(1) as one_by_one:
        runs = begin(one_by_one, alone=True)
    with holding(testbed.host("wan"), "worker-rate", SLOW_MBPS), ThreadPoolExecutor(len(CASES)) as threads:
        yield {**runs, **begin(threads, alone=False)}


def test_the_time_of_submission_is_known_to_a_millisecond(clean):
    assert {row["wall_time_error_s"] for row in clean.rows(names.TRIALS_CSV)} == {"0.0005"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=case.mark) for name, case in CASES.items()])
def test_a_contamination_is_found_out(contaminated, name):
    (row,) = contaminated[name].result().rows(names.TRIALS_CSV)
    assert (row["verdict"], CASES[name].reason in row["verdict_reasons"]) == ("INVALID", True), row["verdict_reasons"]
