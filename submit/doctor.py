"""`tierbench doctor`: is all there that a site's file promises and an experiment needs?"""

import argparse
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tierbench.dags.clients import ClientFile
from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import expand
from tierbench.dags.shipping import submission_problems
from tierbench.errors import ConfigError
from tierbench.postprocess.history.database import default_place, doubt_of_place
from tierbench.site_configs.site import Site, Submission, find_site
from tierbench.spec import NAMED
from tierbench.submit import catalogue, planning, pool, probes
from tierbench.submit.catalogue import Catalogue
from tierbench.submit.console import add_command, as_json, document, say, show
from tierbench.submit.links import links
from tierbench.submit.planning import STATES, Finding, Planned, asked_experiment, matching_slots, table
from tierbench.submit.pool import PoolError, Slots
from tierbench.submit.probes import Report
from tierbench.submit.progress import measuring
from tierbench.submit.questions import Visit, contents, pinned, pools_of, used_accesses, visits

KEYS = ("state", "thing", "seen", "remedy", "host")  # of a finding, as JSON
HELD_S = 3600  # a wait on hold that is common where trials are long
COARSE_S = 1.0  # a comparison of clocks that resolves no more than this says little
UNREACHED = {
    "ssh": "let the user who submits log in there with a key, without a password",
    "pool": "does the START expression there let jobs with TierbenchService = True in, and is a core free? Raise"
    " --patience on a busy pool",
    "local": "gate and stop of each trial are such jobs: does START_LOCAL_UNIVERSE, which counts those of all users,"
    " let them start?",
}
REACHED = {"ssh": "ssh", "pool": "slot", "local": "local universe"}
HERE = Visit("the access point", "True", "local")
LET_IN = "where a pool does not let you in, above all one older than the bindings, `condor_token_fetch` helps"


def register(subcommands: Any) -> None:
    text = "Check all that a site file promises, from here and by a small job on each host"
    parser = add_command(subcommands, "doctor", _doctor, text, f"{text}. Exit status 1 if anything is bad.")
    parser.add_argument("--site", required=True, help=NAMED)
    parser.add_argument("--experiment", help=f"check what this one needs, and no more: {NAMED}")
    as_json(parser)
    parser.add_argument("--quick", action="store_true", help="measure no links, read no replicas")
    patience = "how long a job may take to answer (%(default)s)"
    parser.add_argument("--patience", type=float, default=120, metavar="SECONDS", help=patience)


def _doctor(arguments: argparse.Namespace) -> int:
    if not 0 < arguments.patience < math.inf:
        raise ConfigError(f"--patience {arguments.patience:g}: must be a number of seconds above 0")
    site = find_site(arguments.site)
    experiment = asked_experiment(arguments.experiment) if arguments.experiment else None
    if experiment:
        expand(site, experiment, {})  # an experiment that the site cannot serve at all is refused here
    findings: list[Finding] = []
    call = f"{arguments.experiment} --site {arguments.site}"
    for section in _sections(site, experiment, call, arguments.quick, arguments.patience):
        section = list(dict.fromkeys(section))  # a client by two access methods lacks the same thing once
        findings += section
        for line in table(section) if not arguments.json else ():
            show(line)
    states = Counter(finding.state for finding in findings)
    if arguments.json:
        records = [{key: getattr(finding, key) for key in KEYS} for finding in findings]
        content = {"site": site.name, "findings": records, "states": {state: states[state] for state in STATES}}
        print(document("doctor", content))
    else:
        show(f"{states['good']} good, {states['doubtful']} doubtful, {states['bad']} bad")
    return 1 if states["bad"] else 0


def _sections(
    site: Site, experiment: Experiment | None, call: str, quick: bool, patience: float
) -> Iterator[list[Finding]]:
    """The findings, part by part, each as soon as it is known."""
    yield list(_scheduler())
    accesses = used_accesses(site, experiment)
    used = sorted({name for access in accesses for name in pools_of(site, experiment, access)})
    slots = matching_slots(site, used)
    workers = {} if isinstance(slots, str) else {name: own.machines for name, own in slots.items()}
    catalogues = {folder: catalogue.fetch(site, folder) for folder in experiment.used_replicas} if experiment else {}
    entries = {folder: files.entries for folder, files in catalogues.items() if files}
    if experiment:
        yield list(_replicas(site, experiment, call, catalogues))
        needed = {folder: {*replicas.files} for folder, replicas in experiment.used_replicas.items()}
        whole = {folder: listed for folder, listed in entries.items() if listed.keys() >= needed[folder]}
        plan = expand(site, experiment, workers, whole)
        yield list(planning.checks(Planned(plan, site, experiment, slots)))
    else:
        yield [Finding("bad", "the site's file", problem) for problem in submission_problems(site)]
        yield list(planning.credentials(accesses, 0.0))
    beside = "this empties caches, sets conditions and measures links meanwhile"
    remedy = "ask again when it has ended"
    yield [
        Finding("doubtful", "another run", f"{there} measures ({job}): {beside}", remedy) for there, job in measuring()
    ]
    place = default_place()
    if place.exists() and (doubt := doubt_of_place(place)):
        yield [Finding("doubtful", "nightly", doubt)]
    yield [*clocks_not_compared(site, experiment), *caches_not_emptied(site, experiment)]
    if isinstance(slots, str):
        yield [Finding("bad", "pool", slots, f"run this where `condor_status` answers; {LET_IN}")]
        return
    yield [finding for name in slots for finding in _workers(site, name, slots[name])]
    by_host = visits(site, experiment, workers)
    if experiment and not quick:
        for host, question in contents(site, experiment, entries, workers):
            by_host[host].ask(question)
    there, absent = _present(by_host, slots)
    yield absent
    try:
        reports = _ask(there, patience, site.submission, experiment.client_files if experiment else [])
    except PoolError as error:
        yield [Finding("bad", "jobs", str(error), f"may you submit here? {LET_IN}")]
        return
    yield [finding for visit in (HERE, *there) for finding in findings_of(visit, reports[visit.host])]
    yield list(clocks({visit.host: clock for visit in there if (clock := reports[visit.host].clock)}))
    if not quick:
        yield list(links(site, workers, by_host, reports, patience))


def _scheduler() -> Iterator[Finding]:
    thing = "HTCondor"
    try:
        bindings, scheduler = pool.versions()
    except PoolError as error:
        missing = "bindings are missing" in str(error)
        remedy = pool.HOW_TO_GET_BINDINGS if missing else f"run this on the access point; {LET_IN}"
        yield Finding("bad", thing, str(error), remedy)
        return
    newer = int(bindings.partition(".")[0]) > int(scheduler.partition(".")[0])
    note = ", an older series; where that refuses you, a token helps" if newer else ""
    yield Finding("good", thing, f"the bindings are {bindings}, the scheduler is {scheduler}{note}")
    host = pool.setting("SCHEDD_HOST").rpartition("@")[2]
    if host and pool.is_elsewhere(host):
        seen = f"jobs go to the scheduler on {host} (SCHEDD_HOST), where a run's scripts and local jobs then work"
        yield Finding("doubtful", thing, seen, "run tierbench there")
    waiting = {
        "JobStatus": 5,
        "HoldReasonCode": 15,
        "NumJobStarts": 0,
        "EnteredCurrentStatus": round(time.time()) - HELD_S,
    }
    for name in ("SYSTEM_PERIODIC_RELEASE", "SYSTEM_PERIODIC_REMOVE"):
        rule = pool.setting(name)
        if rule and pool.is_true_of(rule, waiting):
            seen = f"{name} is true of jobs that wait on hold for their trial's turn, as all but the first trial's do"
            yield Finding("doubtful", thing, seen, "have it leave those with HoldReasonCode == 15 alone")


def _workers(site: Site, name: str, slots: Slots) -> Iterator[Finding]:
    """What the pool has of the workers that the site's file promises."""
    offer, thing = site.pools[name], f"pool {name}"
    if slots.total:
        seen = f"{slots.total} cores on {len(slots.machines)} machines match {offer.requirements}"
        yield Finding("good", thing, seen)
    else:
        remedy = "install site-configs/htcondor/50-tierbench-worker.conf on the workers, or correct pools.requirements"
        yield Finding("bad", thing, f"no slot matches {offer.requirements}", remedy)
    listed: set[str] = set(offer.workers)
    for host in sorted(listed.difference(slots.machines)):
        yield Finding("bad", thing, "in the site's list, but not in the pool", "is its startd up?", host)
    for host in sorted(set(slots.machines) - listed) if listed else ():
        remedy = "list it, or its caches are not flushed; or narrow the requirements"
        yield Finding("doubtful", thing, "matches, but is not in the site's list", remedy, host)


def _replicas(
    site: Site, experiment: Experiment, call: str, catalogues: Mapping[str, Catalogue | None]
) -> Iterator[Finding]:
    for folder, replicas in experiment.used_replicas.items():
        thing, make = f"replicas {folder}", f"`tierbench replicas {call}`"
        where = f"{site.storage.replicas}/{folder}"
        listed = catalogues[folder]
        if listed is None:
            remedy = f"{make} makes them, where the storage is mounted"
            yield Finding("bad", thing, f"no catalogue in {where} can be read from here by any access", remedy)
            continue
        count = sum(name in listed.entries for name in replicas.files)
        if listed.damaged_lines:
            seen = f"{listed.damaged_lines} lines of the catalogue in {where} are damaged"
            yield Finding("doubtful", thing, seen, f"{make} makes what they were about anew")
        if count < replicas.count:
            yield Finding("bad", thing, f"{count} of {replicas.count} files are catalogued", f"{make} makes more")
        else:
            yield Finding("good", thing, f"{count} files in the catalogue, in {where}")


def _present(by_host: Mapping[str, Visit], slots: Mapping[str, Slots]) -> tuple[list[Visit], list[Finding]]:
    """The hosts to be visited, and complaints of those that are not in the pool, where no job can go."""
    of_workers = {pinned(host) for own in slots.values() for host, cores in own.cores.items() if cores}
    there, absent = [], []
    for visit in by_host.values():
        if visit.via == "ssh" or visit.requirements in of_workers or pool.matching_slots(visit.requirements).total:
            there.append(visit)
        else:
            remedy = "let it join (site-configs/htcondor/50-tierbench-server.conf)"
            if any(question.kind == "interface" for question in visit.questions):
                remedy += ', or sample it with via = "ssh"'
            absent.append(Finding("bad", "slot", f"none matches {visit.requirements}", remedy, visit.host))
    return there, absent


def _ask(
    there: Sequence[Visit], patience: float, submission: Submission, clients: Sequence[ClientFile]
) -> dict[str, Report]:
    by_job = [visit for visit in there if visit.via == "pool"]
    by_ssh = [visit for visit in there if visit.via == "ssh"]
    with ExitStack() as stack:
        # Where runs would lie, which HTCondor's services may reach or not; the others where the clock is this host's.
        where = Path.cwd() if os.access(".", os.W_OK) else None
        queued = [stack.enter_context(probes.submitted([HERE], Submission(), patience, universe="local", where=where))]
        queued += [stack.enter_context(probes.submitted(by_job, submission, patience, clients))] if by_job else []
        reports = probes.over_ssh(by_ssh, patience, clients)
        for jobs in queued:
            reports |= jobs.wait(patience, say)
        return reports


def findings_of(visit: Visit, report: Report) -> Iterator[Finding]:
    if report.trouble:
        yield Finding("bad", REACHED[visit.via], report.trouble, UNREACHED[visit.via], visit.host)
        return
    if report.host not in ("", visit.host) and any(question.kind == "interface" for question in visit.questions):
        seen = f"calls itself {report.host}: no trial would take its samples for {visit.host}'s"
        yield Finding("bad", "host", seen, f'say host = "{report.host}" in the site\'s file', visit.host)
    if visit.via != "ssh":
        yield Finding("good", REACHED[visit.via], "takes service jobs", host=visit.host)
    for question, answer in zip(visit.questions, report.answers, strict=True):
        if question.kind != "iperf3":  # no trial needs it; the links' findings have it
            remedy = question.remedy(answer["why"])
            yield Finding(answer["state"], question.thing, answer["seen"], remedy, visit.host)


def clocks_not_compared(site: Site, experiment: Experiment | None) -> Iterator[Finding]:
    """Storage servers, and those that are copied to, whose clocks no trial can compare with its workers'."""
    accesses = used_accesses(site, experiment)
    copied_to = {access.to.host for access in accesses.values() if access.to}
    for name, sampler in site.samplers.items():
        dates = sampler.role == "storage" or sampler.host in copied_to
        if dates and sampler.via == "ssh" and sampler.is_of(accesses):
            seen = "is sampled over ssh, so its clock is not compared: no trial will be VALID"
            remedy = 'let it join the pool (site-configs/htcondor/50-tierbench-server.conf), and say via = "pool"'
            yield Finding("doubtful", f"sampler {name}", seen, remedy, sampler.host)


def caches_not_emptied(site: Site, experiment: Experiment | None) -> Iterator[Finding]:
    """Access methods of which nothing is known that would keep the files in memory, though something will."""
    for name, access in used_accesses(site, experiment).items():
        emptied = access.path or access.protocol in ("file", "iperf3")
        if not emptied and site.flush.strategy != "none" and (experiment is None or experiment.flushes):
            seen = "has no path, so no cache is emptied: its trials will be SUSPECT"
            remedy = "list the doors and servers that hold the files in `path`"
            yield Finding("doubtful", f"access {name}", seen, remedy)


def clocks(compared: Mapping[str, probes.Clock]) -> Iterator[Finding]:
    """How the hosts' clocks stand to ours, as far as it can be measured."""
    thing = "clock"
    remedy = "have chrony or ntpd set it: the common start of a trial's clients goes by the clocks"
    for host, clock in compared.items():
        if not clock.agrees:
            ahead = clock.least > 0
            low, high = sorted((abs(clock.least), abs(clock.most)))
            words = f"{'ahead of' if ahead else 'behind'} the access point's by {low:.3f} to {high:.3f} s"
            yield Finding("bad", thing, words, remedy, host)
        elif clock.resolution > COARSE_S:
            words = f"may be off by up to {clock.resolution:.1f} s: its job took that long between our two looks"
            yield Finding("doubtful", thing, words, "repeat this on an idle pool", host)
    well = [clock.resolution for clock in compared.values() if clock.agrees and clock.resolution <= COARSE_S]
    if well:
        seen = f"{len(well)} hosts agree with the access point: an offset of {max(well):.2f} s would have shown"
        why = "each read its clock after HTCondor had sent its questions and before its answer arrived"
        yield Finding("good", thing, f"{seen} (on the best, {min(well):.2f} s), since {why}")
