"""What the doctor asks on which host; a pure function of site, experiment and the pool's machines."""

import dataclasses
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from tierbench.dags import credentials
from tierbench.dags.experiment import Experiment
from tierbench.dags.hosts import condition_hosts
from tierbench.dags.levels import Level, level_text
from tierbench.dags.replicas import Entry
from tierbench.site_configs.site import DOOR, Access, Sampler, Site, together
from tierbench.wrappers.clients.root import Root
from tierbench.wrappers.credentials import ANEW, KINDS, LONGER

CHOSEN = 64  # replicas whose contents are looked at, as far as the time allows
CONTENTS_SECONDS = 10
READABLE = ("file", "xrootd")  # protocols by which the probe itself can read a file
PROXY = KINDS["proxy"].variable
GRID_SCHEMES = ("gsiftp://", "srm://")  # which nobody is let in by without a grid certificate
LEAST_PROXY_S = 12 * 3600.0
LEAST_TICKET_S = 600.0  # each trial's clients get their own

# By the kind of question and the answer's `why`; what to do where the answer is not good.
REMEDIES = {
    "interface absent": "name one of those as the sampler's interface in the site's file",
    "interface loopback": "name the interface by which other hosts reach it; what clients on the same host"
    " read goes by lo, and no trial of it will be VALID",
    "files local": "mount the storage there; or to measure the workers' disks, say on_disk = true and in `replicas`"
    " where the copies are, and give its pool an interface",
    "files elsewhere": "unless its own disks hold them, its role in the site file is door, and that of the servers"
    " whose disks do is storage",
    "files no-mount": "mount the storage there, or correct the access's prefix or storage.replicas in the site's file",
    "files absent": "make the replicas (`tierbench replicas`), or let the user who submits read them there",
    "files few": "`tierbench replicas` makes the missing ones",
    "files not-ours": "let the account that jobs run as own the replicas, or write them: of others' files only root can"
    " see what is in memory, so no trial will be VALID (rule: caches not proven cold)",
    "files hangs": "the file system's server does not answer that host; remount it",
    "files cache": "a redirector has none, and may be taken out of the access's `path`; a server that has the"
    " files by another name keeps them in memory, which no flush empties: let it see them by the storage's own",
    "xrootd unreachable": "is the xrootd server running, and open to that host's address?",
    "xrootd no-xrdfs": "install xrootd-client there to have the door checked",
    "xrootd denied": "give the access its `kerberos`, `token` or `x509` in the site's file, or let the workers in at"
    " the server",
    "xrootd absent": "make the replicas (`tierbench replicas`), or let the server export that directory (all.export)",
    "xrootd failed": "see the xrootd server's log; does the file system below it answer?",
    "xrootd few": "`tierbench replicas` makes the missing ones; or the server shows another file system",
    "server unreachable": "is the server running, and open to that host's address?",
    "proxy absent": "make one (`grid-proxy-init`, `voms-proxy-init`) that the user who submits can read there, and name"
    " it as the access's `x509`, or where it is on the workers as X509_USER_PROXY in its `environment`",
    "proxy open": "`chmod 600` it: Globus takes none that others may read",
    "proxy no-certificate": ANEW["proxy"],
    "proxy no-openssl": "install openssl there",
    "proxy expired": ANEW["proxy"],
    "proxy expires": "make it anew, or a long run outlives it",
    "token absent": "put one there (`htgettoken`, `oidc-token`) that the user who submits can read",
    "token open": "`chmod 600` it: whoever reads it can use it, and XRootD's client takes none that others may read",
    "token no-token": ANEW["token"],
    "token expired": ANEW["token"],
    "token expires": "have it renewed meanwhile: each trial's clients are sent it as it is then",
    "writes refused": "let the user who submits write there, or correct the access's `writes` in the site's file",
    "writes no-xrdfs": "install xrootd-client there",
    "contents changed": "`tierbench replicas --verify` names all of them; remove those, and it makes them again",
    "contents unreadable": "may the user who submits read them there?",
    "contents unread": "`tierbench replicas --verify`, where the storage is mounted, takes its time",
    "flush no-fadvise": "run jobs there with a Python of its own distribution",
    "flush slow": "see what is written to its storage: caches are emptied when that is on disk",
    "flush no-helper": "install site-configs/tierbench-flush there, or set flush.strategy to fadvise",
    "flush no-sudo": "install sudo and site-configs/sudoers.d/tierbench-flush there, or use fadvise",
    "flush refused": "install site-configs/sudoers.d/tierbench-flush there, with this helper and the jobs' account",
    "chirp none": "set ENABLE_CHIRP to True there, its default: gate and samplers need it",
    "condition no-helper": "install site-configs/tierbench-arrange there, with the words of docs/sites.md",
    "condition no-sudo": "install sudo and site-configs/sudoers.d/tierbench-arrange there, for the user who submits",
    "condition refused": "does the word's program in /etc/tierbench/arrange.d there take that value?",
    "condition not-set": "see what the word's program sets, or give the condition a tolerance_pct",
    "condition not-restored": "see to it that the word's program sets the value given, and restore it by hand",
    "kerberos keytab": "put the keytab there, readable by the user who submits",
    "kerberos no-kinit": "install the Kerberos clients (krb5-user, krb5-workstation) there",
    "kerberos short": LONGER["ticket"],
    "kerberos refused": "`klist -k KEYTAB` shows its principals; does the KDC answer from there?",
}
REMEDIES |= {f"destination-{what}": remedy for what, remedy in REMEDIES.items() if what.startswith("token ")}


@dataclass(frozen=True)
class Question:
    """Something to be found out on a host by the shipped probe."""

    kind: str
    thing: str
    about: Mapping[str, Any] = field(default_factory=dict, hash=False)
    advice: str = ""  # what to do, whatever is not good
    brings: tuple[str, ...] = ()  # files of the access point that are shown to a server

    def to_json(self) -> dict[str, Any]:
        return {"ask": self.kind, **self.about}

    def remedy(self, why: str) -> str:
        if self.kind == "files" and self.about.get("cache_only") and why == "no-mount":
            why = "cache"
        return self.advice or REMEDIES.get(f"{self.kind} {why}", "")


@dataclass
class Visit:
    """All that is asked on one host, and how to get there."""

    host: str
    requirements: str
    via: str = "pool"
    questions: list[Question] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(file for question in self.questions for file in question.brings))

    def ask(self, question: Question) -> None:
        if question not in self.questions:
            self.questions.append(question)


def used_accesses(site: Site, experiment: Experiment | None) -> dict[str, Access]:
    """The accesses that are to be looked at: the experiment's, or all that the site offers."""
    if experiment is None:
        return site.access
    used = {use.access for use in experiment.uses()}
    return {name: access for name, access in site.access.items() if name in used}


def pools_of(site: Site, experiment: Experiment | None, name: str) -> list[str]:
    """The pools from which clients use an access method: its own, unless the experiment asks for others."""
    pools = (use.pool_by(site.access) for use in (experiment.uses() if experiment else ()) if use.access == name)
    return [pool for pool in dict.fromkeys(pools) if pool in site.pools] or [site.access[name].pool]


def visits(site: Site, experiment: Experiment | None, workers: Mapping[str, Iterable[str]]) -> dict[str, Visit]:
    """By host, what is asked there; `workers` are those of each pool."""
    by_host: dict[str, Visit] = {}
    used = used_accesses(site, experiment)
    samplers = [sampler for sampler in site.samplers.values() if sampler.is_of(used)]
    for sampler in samplers:
        visit = Visit(sampler.host, sampler.requirements or pinned(sampler.host), sampler.via)
        by_host.setdefault(sampler.host, visit)
    for host, question in (
        *((sampler.host, question) for sampler in samplers for question in _on_sampled(site, sampler)),
        *_by_access(site, experiment, workers),
        *_conditions(site, experiment, workers),
    ):
        by_host.setdefault(host, Visit(host, pinned(host))).ask(question)
    for visit in by_host.values():
        if visit.via == "pool":
            visit.ask(Question("chirp", "chirp"))
    return by_host


def _on_sampled(site: Site, sampler: Sampler) -> Iterator[Question]:
    yield from _sampler(sampler.interfaces)
    if sampler == site.server or sampler.role in ("door", "gateway"):
        yield Question("iperf3", "iperf3")


def _sampler(names: str) -> Iterator[Question]:
    yield Question("interface", f"sampler's interface {names}", {"name": names})
    yield Question("priority", "sampler's priority")


def _by_access(
    site: Site, experiment: Experiment | None, workers: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, Question]]:
    """What is asked on the workers of an access method, and on the hosts along it."""
    flushes = site.flush.strategy != "none" and (experiment is None or experiment.flushes)
    about = {"strategy": site.flush.strategy, "helper": site.flush.helper}
    flush = [Question("flush", f"flush by {site.flush.strategy}", about)] if flushes else []
    for name, access in used_accesses(site, experiment).items():
        directories = _directories(site, experiment, name)
        for pool in pools_of(site, experiment, name):
            interface = site.pools[pool].interface
            own = [
                *_shown_credentials(name, access),
                *_at_the_door(name, access, directories, flushed=flushes),
                *(flush if access.protocol == "file" else []),
                *_by_clients(experiment, name, access),
                Question("iperf3", "iperf3"),
                *(_sampler(together(interface)) if interface else ()),
            ]
            yield from ((host, question) for host in workers.get(pool, ()) for question in own)
        along = {"paths": [(path, 0) for path, _ in directories], "cache_only": True, "flushed": True}
        storage = {sampler.host for sampler in site.samplers.values() if sampler.role == "storage"}
        for host in access.path if flushes else ():
            yield from ((host, question) for question in flush)
            about_host = {**along, "own_disks": host in storage}
            yield host, Question("files", "its mount, which keeps what is read", about_host)


def _conditions(
    site: Site, experiment: Experiment | None, workers: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, Question]]:
    """Whether the hosts that have to set something can do so, and undo it, for all the values that are asked for."""
    values_of: dict[str, dict[Level, None]] = {}
    for point in experiment.points if experiment else ():
        for name, value in point.experiment.conditions.items():
            values_of.setdefault(name, {})[value] = None
    for name, values in values_of.items():
        condition = site.conditions[name]
        about = {
            "helper": condition.helper, "word": condition.word, "values": list(map(level_text, values)),
            "tolerance_pct": condition.tolerance_pct,
        }  # fmt: skip
        for host in condition_hosts(condition, workers):
            yield host, Question("condition", f"condition {name}", about)


def contents(
    site: Site, experiment: Experiment, listed: Mapping[str, Mapping[str, Entry]], workers: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, Question]]:
    """Of each set whose catalogue is known, some files by chance, on a worker that will read them: are they as made?"""
    for folder, entries in listed.items():
        uses = [use for use in experiment.uses() if use.replicas.folder == folder and use.access in site.access]
        readers = [(site.access[use.access], list(workers.get(use.pool_by(site.access), ()))) for use in uses]
        able = [
            (access, hosts)
            for access, hosts in readers
            if access.protocol in READABLE and hosts and not _for_jobs_alone(access)
        ]
        if not able or not entries:
            continue
        access, hosts = able[0]
        chance = random.Random(experiment.seed)  # noqa: S311
        chosen = chance.sample(list(entries.values()), min(CHOSEN, len(entries)))
        directory = access.place(f"{site.storage.replicas}/{folder}")
        files = [(access.url(f"{directory}/{entry.name}"), entry.bytes, entry.adler32) for entry in chosen]
        about = {"files": files, "of": len(entries), "seconds": CONTENTS_SECONDS, **_to_show(access)}
        yield hosts[-1], Question("contents", f"replicas {folder}", about, brings=tuple(access.secrets.values()))


def _for_jobs_alone(access: Access) -> bool:
    """Whether only a trial's jobs get its token."""
    return bool(access.token and access.token.condor)


def pinned(host: str) -> str:
    return f'Machine == "{host}"'


def _shown_credentials(name: str, access: Access) -> Iterator[Question]:
    if access.kerberos:  # first, since what follows shows its ticket
        about = {**dataclasses.asdict(access.kerberos), "needed_s": LEAST_TICKET_S, **_ticket(access)}
        yield Question("kerberos", "Kerberos ticket", about)
    if not access.x509 and (PROXY in access.environment or access.prefix.startswith(GRID_SCHEMES)):
        yield Question("proxy", "grid proxy", {"path": access.environment.get(PROXY, ""), "needed_s": LEAST_PROXY_S})
    for kind, path in access.secrets.items():
        yield Question(kind, f"access {name}, its {kind}", {"path": PurePath(path).name, "needed_s": 0}, brings=(path,))


def _by_clients(experiment: Experiment | None, name: str, access: Access) -> Iterator[Question]:
    for use in experiment.uses() if experiment else ():
        if use.access == name:
            needs = use.workload
            client = {"client": needs.client, "options": dataclasses.asdict(needs.options), "protocol": access.protocol}
            yield Question("program", f"client {needs.client}", client, needs.declared.remedy)
            if access.writes and use.replicas.is_written and not _for_jobs_alone(access):
                area = {"url": access.url(access.writes), **_to_show(access)}
                yield Question("writes", f"access {name}, to write", area, brings=tuple(access.secrets.values()))


def _at_the_door(name: str, access: Access, paths: list[tuple[str, int]], *, flushed: bool) -> Iterator[Question]:
    """Whether what is read there can be seen, or at least its server; a Globus collection's only its service knows."""
    if access.protocol == "xrootd":
        for prefix in access.prefixes:
            door = prefix.removeprefix(DOOR).rstrip("/")
            beside = f" at {door}" if access.further else ""
            about = {"door": door, "paths": paths, **_to_show(access)}
            if _for_jobs_alone(access):
                listens = {"url": f"{DOOR}{door}", "caveat": "; what its token opens only a trial shows"}
                yield Question("server", f"access {name}{beside}", listens)
            else:
                yield Question("xrootd", f"access {name}{beside}", about, brings=tuple(access.secrets.values()))
    elif access.protocol == "file":
        urls = [(access.url(path), count) for path, count in paths]
        about = {"paths": urls, "flushed": flushed, "by_network": not access.on_disk, **_ticket(access)}
        yield Question("files", f"access {name}", about)
    elif access.protocol != "globus":
        for proxy in access.proxies:
            beside = f" at {proxy}" if access.further_proxies else ""
            about = {"url": f"http://{proxy}/" if proxy else access.prefix}
            about |= {"caveat": f"; {Root.unable['http']}"} if access.prefix.startswith("https://") else {}
            yield Question("server", f"access {name}{beside}", about)
    if access.to and access.protocol != "globus":
        yield Question("server", f"access {name}, its destination", {"url": access.to.prefix})


def _to_show(access: Access) -> dict[str, Any]:
    """By which variables a probe's programs find what they have to show, if there is anything."""
    files = {variable: PurePath(path).name for variable, path in credentials.variables(access).items()}
    return {**({"shown": files} if files else {}), **_ticket(access)}


def _ticket(access: Access) -> dict[str, str]:
    """Whose ticket a probe's programs find, if anybody's: none opens another access method's door."""
    return {"ticket": f"{access.kerberos.keytab} {access.kerberos.principal}"} if access.kerberos else {}


def _directories(site: Site, experiment: Experiment | None, access: str) -> list[tuple[str, int]]:
    """The directories on the storage that are read by an access, and how many files each has to hold."""
    if experiment is None:
        return [(site.access[access].replicas or site.storage.replicas, 0)]
    read = {use.replicas.folder for use in experiment.uses() if use.access == access}
    sets = [(folder, replicas) for folder, replicas in experiment.used_replicas.items() if folder in read]
    place = site.access[access].place
    return [(place(f"{site.storage.replicas}/{folder}"), replicas.count) for folder, replicas in sets]
