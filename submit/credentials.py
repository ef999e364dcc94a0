"""The tokens and proxies that clients are to show: are they there, nobody else's to read, and lasting long enough?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from tierbench.dags.credentials import by_kind
from tierbench.dags.experiment import Experiment
from tierbench.dags.plan import Plan
from tierbench.site_configs.site import Access, Site
from tierbench.submit.findings import Finding, State
from tierbench.submit.preview import estimate_s
from tierbench.submit.questions import REMEDIES, used_accesses
from tierbench.wrappers.credentials import judged


def findings(accesses: Mapping[str, Access], needed_s: float) -> Iterator[Finding]:
    """What is to be said of those of these ways, on the access point."""
    for name, access in accesses.items():
        for kind, path in by_kind(access).items():
            state, seen, why = judged(kind, Path(path), needed_s)
            yield Finding(cast("State", state), f"access {name}, its {kind}", seen, REMEDIES.get(f"{kind} {why}", ""))
        if access.token and access.token.condor:
            seen = f"comes from HTCondor's credential daemons ({access.token.condor}), which are not asked here"
            remedy = "store it before (`condor_store_cred`, `condor_vault_storer`); a client that has none says so"
            yield Finding("doubtful", f"access {name}, its token", seen, remedy)


def doubts(plan: Plan, site: Site, experiment: Experiment) -> Iterator[str]:
    """What is missing, or will be before the run has ended, as it is told before a run."""
    for finding in findings(used_accesses(site, experiment), needed_s(plan, site, experiment)):
        if finding.state != "good":
            state = "missing" if finding.state == "bad" else "doubtful"
            yield f"{state}: {finding.thing}: {finding.seen}; {finding.remedy}"


def needed_s(plan: Plan, site: Site, experiment: Experiment) -> float:
    """So long the plan's trials take at the least."""
    return sum(estimate_s(plan, site, experiment, trial) for trial in plan.trials)
