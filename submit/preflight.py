"""What is looked at before a run is written: each check is a function that yields findings, and `preflight` is all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from tierbench.dags.credentials import by_kind
from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import sampled_hosts, slot_problems
from tierbench.dags.levels import PAIR
from tierbench.dags.plan import Plan
from tierbench.errors import UnmetNeed
from tierbench.site_configs.site import Access, Site
from tierbench.submit.planning import OVERHEAD_S, run_bytes, run_s, trial_s
from tierbench.submit.pool import Slots
from tierbench.submit.questions import REMEDIES, used_accesses
from tierbench.submit.trial.disk_reserve import free_bytes
from tierbench.wrappers.client import CHECKSUM
from tierbench.wrappers.credentials import judged

State = Literal["good", "doubtful", "bad"]
STATES = get_args(State)
HOSTS_SHOWN = 4
CLIENTS_PER_CORE = 100  # beside a sampler of the usual priority
SECRET_NAME = re.compile(r"(?i)(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_KEY)$")
JSON_WEB_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.")


@dataclass(frozen=True)
class Finding:
    """One thing, on one host or at the site as a whole, what was seen of it, and what to do about it."""

    state: State
    thing: str
    seen: str
    remedy: str = ""
    host: str = ""
    indispensable: bool = False  # nothing can be run without it, whoever wants it all the same

    @property
    def line(self) -> str:
        state = "missing" if self.state == "bad" else self.state
        return f"{state}: {self.thing}: {self.seen}" + (f"; {self.remedy}" if self.remedy else "")


def table(findings: Iterable[Finding]) -> Iterator[str]:
    """A line for each, and one more for what to do; what is the same on several hosts is said once."""
    hosts: dict[Finding, list[str]] = {}
    for finding in findings:
        alike = Finding(finding.state, finding.thing, finding.seen, finding.remedy)
        hosts.setdefault(alike, []).extend([finding.host] if finding.host else [])
    for finding, where in hosts.items():
        # All the hosts that need something done are named; of many that are well some will do.
        named = where if finding.state == "bad" or len(where) <= HOSTS_SHOWN else where[: HOSTS_SHOWN - 1]
        more = f" and {len(where) - len(named)} more" if len(named) < len(where) else ""
        place = f" ({', '.join(named)}{more})" if where else ""
        yield f"{finding.state:<8}  {finding.thing}{place}: {finding.seen}"
        if finding.remedy and finding.state != "good":
            yield f"{'':<8}  → {finding.remedy}"


def preflight(
    plan: Plan, site: Site, experiment: Experiment, slots: dict[str, Slots] | str, given: str,
    directory: Path = Path("runs"),
) -> list[Finding]:  # fmt: skip
    """All that is not good; `slots` are the live pool's, or why it was not asked; `given` is what the user typed."""
    findings = (*replicas_there(plan, given), *checks(plan, site, experiment, slots, directory))
    return [finding for finding in findings if finding.state != "good"]


def checks(
    plan: Plan, site: Site, experiment: Experiment, slots: dict[str, Slots] | str, directory: Path = Path("runs")
) -> Iterator[Finding]:
    """What is looked at before a run, and by the doctor."""
    yield from enough_slots(plan, site, experiment, slots)
    yield from long_enough(plan, site, experiment)
    yield from samplers_in_time(plan, site, slots)
    yield from comparison(plan)
    yield from checksums(plan, experiment)
    yield from credentials(used_accesses(site, experiment), run_s(plan, site, experiment))
    yield from open_secrets(site, experiment)
    yield disk_space(run_bytes(plan, site, experiment), directory)


def refuse(findings: Sequence[Finding], anyway: bool = False, tell: Callable[[str], None] | None = None) -> None:
    """UnmetNeed where something is missing; `anyway`, where it is indispensable. Who wants it is told of the others."""
    stops = [finding for finding in findings if finding.state == "bad" and (finding.indispensable or not anyway)]
    for finding in findings:
        if tell and finding not in stops:
            tell(finding.line)
    if stops:
        hint = "; nothing was submitted, --anyway does where it can be done" if tell and not anyway else ""
        raise UnmetNeed("; ".join(finding.line for finding in stops) + hint)


# -- the checks --------------------------------------------------------------------------------------------


def enough_slots(plan: Plan, site: Site, experiment: Experiment, slots: dict[str, Slots] | str) -> Iterator[Finding]:
    if isinstance(slots, str):
        yield Finding("doubtful", "the live pool", f"was not asked: {slots}")
        return
    cores = {name: slots[name].cores for name in plan.pools}
    remedy = "make the batches smaller, or have the workers advertise more (NUM_CPUS)"
    yield from (Finding("bad", "slots", problem, remedy) for problem in slot_problems(site, experiment, plan, cores))


def samplers_in_time(plan: Plan, site: Site, slots: dict[str, Slots] | str) -> Iterator[Finding]:
    """Machines where a sampler may wait for its core, since so many clients run beside it."""
    if isinstance(slots, str):
        return
    crowds: dict[str, tuple[int, int]] = {}
    for trial in plan.trials:
        pool = trial.configuration.pool
        for host in {sampler.host for sampler in sampled_hosts(site, plan, trial.configuration)} & {*plan.pools[pool]}:
            clients, cores = math.ceil(trial.jobs / len(plan.pools[pool])), slots[pool].detected.get(host, 0)
            if cores and clients > CLIENTS_PER_CORE * cores:
                crowds[host] = max(crowds.get(host, (0, 0)), (clients, cores))
    for machine, (clients, cores) in crowds.items():
        yield Finding(
            "doubtful", "sampler",
            f"{clients} clients run beside it on {cores} cores, so it may get no core for seconds"
            " (96 a core were sampled in time, 500 were not)",
            "give HTCondor's unit there LimitNICE=-10 (`systemctl edit condor`), which lets it go first, or take"
            " fewer clients or more workers", machine,
        )  # fmt: skip


def long_enough(plan: Plan, site: Site, experiment: Experiment) -> Iterator[Finding]:
    """Trials that, as far as the links tell, are over before enough samples are taken.

    Of a scale model the links do not tell it: there clients wait more for other things.
    """
    # Here and not above: it loads numpy, which takes a while and which other commands do not need.
    from tierbench.postprocess.verdict.sampling_rules import few_samples

    limit = few_samples.limits.suspect
    if plan.scale != 1 or experiment.measure == "operations" or limit is None:
        return
    shares = []
    for trial in plan.trials:
        reading_s = trial_s(plan, site, experiment, trial) - OVERHEAD_S
        period_s = experiment.at(trial.configuration.levels).sample_period_s
        if 0 < reading_s < 100 * period_s / limit:
            shares.append((100 * period_s / reading_s, reading_s, period_s))
    if shares:
        share, reading_s, period_s = max(shares)
        yield Finding(
            "doubtful", "length of trials",
            f"at the links' full rate {len(shares)} trials are too short: the shortest reads for {reading_s:.1f} s,"
            f" of which a sampling period of {period_s:g} s is {share:.0f} %"
            f" (verdict: {few_samples.name}, {limit:g} %)",
            f"make size_mb {math.ceil(share / limit)} times as large, or sample_period_s shorter",
        )  # fmt: skip


def comparison(plan: Plan) -> Iterator[Finding]:
    """That no trial has another one to be compared with."""
    lines, panels = plan.report.lines, (*plan.report.panels, plan.report.x)
    seen: dict[tuple[object, ...], set[object]] = {}
    for trial in plan.trials:
        levels: dict[str, object] = {**trial.levels, PAIR: (trial.configuration.access, trial.configuration.workload)}
        seen.setdefault(tuple(levels[name] for name in panels), set()).add(levels[lines])
    if all(len(compared) == 1 for compared in seen.values()):
        yield Finding(
            "doubtful", "comparison", f"nothing will be compared: nowhere do trials differ in {lines} alone",
            "give the experiment another access, or say in [report] what the lines are",
        )  # fmt: skip


def replicas_there(plan: Plan, given: str) -> Iterator[Finding]:
    for name, replicas in plan.replicas.items():
        if replicas.sizes is None and replicas.lies_ready:
            making = f"where the storage is mounted, `tierbench replicas {given}` makes the {replicas.count} files"
            yield Finding("bad", f"the catalogue of replicas {name}", f"not in {replicas.directory}", making)


def checksums(plan: Plan, experiment: Experiment) -> Iterator[Finding]:
    """Workloads that compare what they read with a catalogue that is not at hand: each trial of theirs would fail."""
    (option,) = CHECKSUM
    for folder, replicas in plan.replicas.items():
        uses = [use for use in experiment.uses() if use.replicas.folder == folder]
        asking = sorted({use.name for use in uses if getattr(use.workload.options, option, False)})
        if asking and replicas.checksums is None and replicas.lies_ready:
            yield Finding(
                "bad", f"workloads.{', '.join(asking)}",
                f"{option} = true compares with the catalogue of replicas {folder}, which is not at hand here",
                "make them first, or leave it out", indispensable=True,
            )  # fmt: skip


def credentials(accesses: Mapping[str, Access], needed_s: float) -> Iterator[Finding]:
    """Of the tokens and proxies that clients are to show: are they there, nobody else's to read, and lasting?"""
    for name, access in accesses.items():
        for kind, path in by_kind(access).items():
            state, seen, why = judged(kind, Path(path), needed_s)
            yield Finding(cast("State", state), f"access {name}, its {kind}", seen, REMEDIES.get(f"{kind} {why}", ""))
        if access.token and access.token.condor:
            seen = f"comes from HTCondor's credential daemons ({access.token.condor}), which are not asked here"
            remedy = "store it before (`condor_store_cred`, `condor_vault_storer`); a client that has none says so"
            yield Finding("doubtful", f"access {name}, its token", seen, remedy)


def open_secrets(site: Site, experiment: Experiment) -> Iterator[Finding]:
    """Variables whose values look like secrets and would be in the run directory."""
    environments: dict[str, Mapping[str, object]] = {}
    for use in experiment.uses():
        environments[f"workloads.{use.name}"] = use.workload.environment
        environments[f"access.{use.access}"] = site.access[use.access].environment
    for place, environment in environments.items():
        # Only an experiment's variables may be secret ones; an access method has tokens by name.
        instead = '{name} = {{ from_file = "/a/path" }}' if place[0] == "w" else 'token = {{ file = "/a/path" }}'
        for name, value in environment.items():
            if isinstance(value, str) and (SECRET_NAME.search(name) or JSON_WEB_TOKEN.match(value)):
                yield Finding(
                    "doubtful", f"{place}.environment.{name}",
                    "is a secret by its looks, and its value would be in the run directory for all to read",
                    f"say where it is instead: {instead.format(name=name)}",
                )  # fmt: skip


def disk_space(needed: int, directory: Path) -> Finding:
    """Whether a run fits on the disk of a directory that is to be made."""
    there = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    free = free_bytes(there)
    if free >= needed:
        return Finding("good", "disk", f"there is room for a run directory of up to {needed / 1e6:.0f} MB")
    seen = f"the run takes up to {needed / 1e6:.0f} MB and {free / 1e6:.0f} MB are free for {directory}"
    return Finding("bad", "disk", seen, "make room, or run it on another disk (--into)", indispensable=True)
