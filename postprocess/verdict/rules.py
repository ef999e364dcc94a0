"""The rules of a trial's verdict and all their thresholds; docs/verdicts.md tells the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """What is looked at, how much of it is too much, and what to do then."""

    name: str
    looks_at: str
    unit: str
    suspect: float | None  # beyond this the trial is SUSPECT; None: never
    invalid: float | None  # beyond this it is INVALID; None: never
    remedy: str


@dataclass(frozen=True)
class Evidence:
    """What was measured for a rule, in the rule's unit and in words."""

    rule: str
    value: float
    words: str


# Rules about the storage's samples and the window of its rate: what is not a rate of bytes does not go by them.
OF_BYTES = frozenset({
    "above the ceiling", "sampler pause", "few samples", "uncertain edges", "clock error", "clock comparison",
    "idle traffic", "idle traffic unknown", "slow beside rest",
})  # fmt: skip

RULES = (
    Rule(
        "incomplete",
        "clients, samples and files that are missing or broken",
        "troubles", None, 0,
        "`tierbench submit` repeats the trial",
    ),
    Rule(
        "missing bytes",
        "what the clients read and the storage servers did not send, by whole sampling intervals around the window",
        "% of what was read", 0.2, 2,
        "a cache was warm, or has what was written, or another interface carries the data: see the flush reports, the"
        " client's fsync and the sampler's interface",
    ),
    Rule(
        "missing at a worker",
        "what the clients of one worker read and its interface did not receive",
        "% of what all read", 0.2, None,
        "a cache of that worker was warm, or another interface of it carries the data: see the flush reports",
    ),
    Rule(
        "excess bytes",
        "what the storage servers sent in the window beyond what is usual (below), where the trial's own hosts received"
        " it or that is not known",
        "% of what was read", 2, None,
        "the way reads ahead what is not used, or data were sent twice after a connection or a server broke: see the"
        " servers' logs, repeat and compare",
    ),
    Rule(
        "foreign bytes",
        "what the storage servers sent and none of the trial's own hosts received; where workers are not sampled, the"
        " excess of clients that read files from end to end, or beside idle traffic",
        "% of what was read", 2, 20,
        "somebody else uses the storage, or much was sent again: see tcp_retrans_per_s and repeat when it is quiet",
    ),
    Rule(
        "other servers",
        "what those storage servers moved in the window that the trial's way does not lead to (`servers`, `on_disk`),"
        " without 0.5 Mb/s a server",
        "% of what was read", 2, 20,
        "its files lie elsewhere than the way says, or somebody else uses those servers: see where its replicas are",
    ),
    Rule(
        "bytes not compared",
        "clients that do not tell what they moved, storage whose bytes around the window are not known, and written"
        " files that nobody has looked at",
        "troubles", 0, None,
        "nothing shows that the data came over the wire",
    ),
    Rule(
        "proxies apart",
        "what the proxies say they sent, away from what the clients read beyond what was broken off and headers",
        "% of what was read", 2, 10,
        "clients went past the proxy, or others use it: see its log and the access's proxy",
    ),
    Rule(
        "origin apart",
        "what the origin sent, away from what the proxies say they fetched",
        "% of what was read", 2, 10,
        "clients, or others, fetched from the origin past the proxy: see the server's log",
    ),
    Rule(
        "hits apart",
        "the share of hits by the proxies' counts of requests, above the one by their bytes",
        "% of all", 5, 20,
        "the proxies' own counters contradict each other: see their version's notes, and repeat",
    ),
    Rule(
        "proxies not compared",
        "whether the way leads through a proxy whose counters are not known",
        "troubles", 0, None,
        "sample the proxy's host (the sampler's --squid says where it listens)",
    ),
    Rule(
        "written late",
        "what reached the storage after the last end, of clients that make sure it is there by then",
        "% of what was written", 2, None,
        "a server or mount on the way said that it was written and had it still: the rate is in part its memory's",
    ),
    Rule(
        "resident pages",
        "bytes of the replicas in the hosts' memory after the flush",
        "% of the replicas", 0.2, 1,
        "see the flush reports for what kept them there",
    ),
    Rule(
        "caches not proven cold",
        "hosts whose caches were not flushed, or whose flush could not measure what is left",
        "hosts", 0, None,
        "let the experiment flush, by a strategy that may look (docs/clients.md)",
    ),
    Rule(
        "cold cache held",
        "what a worker's cache of software held before the trial for which it was to be empty",
        "% of what it held after it", 10, 50,
        "it was not emptied, or the clients' software is not read through it: see the condition's program and `setup`",
    ),
    Rule(
        "warm cache fetched",
        "what a worker's cache of software took in, or lost, in the trial for which it was to be full",
        "% of what it held after it", 0.5, 5,
        "not all that the clients open was in it: see what the condition's program reads, and the cache's quota",
    ),
    Rule(
        "software from elsewhere",
        "clients whose ROOT is not from the folder that the cache is of",
        "clients", None, 0,
        "correct `setup` of the workload: it has to lead to the folder that the condition's program names",
    ),
    Rule(
        "software cache not told",
        "workers with clients that have not told what their cache of software held before and after the trial",
        "workers", 0, None,
        "have the condition's program print it (docs/sites.md), and see why the condition was not undone",
    ),
    Rule(
        "other mount",
        "clients whose files were on another mount than the one that was there when the caches were emptied",
        "clients", None, 0,
        "what was arranged or emptied is not what they used: their jobs began before it was mounted, or it was mounted"
        " anew meanwhile",
    ),
    Rule(
        "counts apart",
        "a client's count of what it took in, above that of its process",
        "% of its process's", 0.5, None,
        "one of the counts is wrong: see bytes_app and bytes_client in jobs.csv",
    ),
    Rule(
        "uncounted bytes",
        "what a client's process took in beyond the client's own count and 1 MB, where both are of its file alone",
        "% of its count", 5, None,
        "one of the counts is wrong: see bytes_app and bytes_client in jobs.csv",
    ),
    Rule(
        "unlike the others",
        "a client's count of what it took in, as a share of its file, away from the other clients' median",
        "% of its file", 2, None,
        "the count is wrong, or the replicas are not alike: see bytes_app and bytes_expected in jobs.csv",
    ),
    Rule(
        "not whole",
        "what a client that moves files from end to end did not move of its file, or beyond it and 1 MB",
        "% of its file", 0.5, 2,
        "the client ends too early, counts wrongly, or has another file: see its record",
    ),
    Rule(
        "failed fetches",
        "readings or copies of a file that failed, of jobs at work for a given time",
        "% of all", 0, 1,
        "see the clients' records for the first messages: a server that is asked by so many may refuse some",
    ),
    Rule(
        "fast client",
        "the fastest client's rate over the median, where all began at one instant",
        "times", 5, None,
        "its replica was in some cache, or others were starved",
    ),
    Rule(
        "host not covered",
        "hosts other than storage whose samples are missing, damaged or do not cover the window",
        "troubles", 0, None,
        "the mean stands without them, but evidence for the bottleneck is missing",
    ),
    Rule(
        "sampler gap",
        "longest time without a sample in the window, of any sampler",
        "periods", 3, None,
        "the host was starved or its sampler paused: peak and volatility miss what happened then",
    ),
    Rule(
        "sampler pause",
        "time of the window in gaps of a storage server's samples",
        "% of the window", None, 25,
        "repeat it when nothing stops the sampler",
    ),
    Rule(
        "late ticks",
        "ticks at which the samplers were late",
        "% of all", 5, None,
        "the host is too busy for this period: take a longer one",
    ),
    Rule(
        "few samples",
        "sampling period, or how often the driver refreshes its counters if that is rarer",
        "% of the window", 10, 50,
        "take a shorter period, or larger replicas",
    ),
    Rule(
        "uncertain edges",
        "most by which the mean may be wrong for what moved near the window's edges (docs/statistics.md)",
        "% of the mean rate", 5, 20,
        "take a shorter period or larger replicas, and see that clocks are compared well",
    ),
    Rule(
        "counter began anew",
        "counters that began anew, of any sampler and at any time while the trial has its conditions",
        "times", 0, None,
        "something restarted a service, an interface or its host: see that it stays up and repeat",
    ),
    Rule(
        "not all active",
        "the window without the time in which all clients with work were at it, where they began together or naturally",
        "% of the window", 67, 90,
        "some clients began late or were served far better than others: see jobs.csv",
    ),
    Rule(
        "not alone",
        "time in which more than one client read, where they take turns",
        "% of the window", 1, 5,
        "a client did not wait for its turn: see begin and end in jobs.csv",
    ),
    Rule(
        "wrong place",
        "clients on other workers than those that the experiment places them on",
        "clients", None, 0,
        "see lists/ and clients.log, and whether two workers of the pool have one name",
    ),
    Rule(
        "not pinned",
        "clients without a core of their own, where each was to be pinned to one",
        "clients", None, 0,
        "place no more clients on a worker than it has cores that jobs may use",
    ),
    Rule(
        "late begin",
        "latest begin after the go time, or after the client's own",
        "ms", 50, None,
        "the worker was busy or its clock is wrong",
    ),
    Rule(
        "empty begin",
        "time from the go, or from each client's own, until the first began, and those beside it had the time to wake",
        "% of the window", 5, 20,
        "the rate is over a window in which nobody was at work: see whether the workers' clocks are all ahead of the"
        " access point's, and what kept them",
    ),
    Rule(
        "early begin",
        "earliest begin or first byte before the go time",
        "ms", None, 1,
        "a client did not wait for the gate, or its clock was set back",
    ),
    Rule(
        "wrong worker",
        "clients on workers of another pool of the run",
        "clients", None, 0,
        "the pool's requirements let them in: correct them in the site file",
    ),
    Rule(
        "new worker",
        "clients on workers that were in no pool of the run when it was planned",
        "clients", 0, None,
        "they were not in the pool when planned, so were not flushed: write the run anew",
    ),
    Rule(
        "shared replica",
        "clients that read a replica which another client of the trial read as well",
        "clients", None, 0,
        "give each client a replica of its own: caches served the second one",
    ),
    Rule(
        "started beside",
        "time in which jobs of the next trial, which are started ahead and wait for their turn, were being started",
        "% of the window", 10, None,
        "their start may have taken time from this trial: let trials last longer, or leave `ahead` out",
    ),
    Rule(
        "stall",
        "longest time, between what the storage sent first and last, in which about nothing moved while clients were"
        " at work",
        "% of the window", 5, 25,
        "something stood still, and the mean is of what is left: see what the path and its servers logged and repeat",
    ),
    Rule(
        "still at an edge",
        "time before anything moved, or after all had, in which clients were active and did not compute",
        "% of the window", 25, None,
        "the mean is of what is left: see what opening and closing files took in jobs.csv, or take larger replicas",
    ),
    Rule(
        "other direction",
        "what the storage servers moved the other way in the window, without what belongs to the trial (below)",
        "% of what they moved", 10, 50,
        "somebody else writes to the storage, or reads where the trial writes: repeat when it is quiet",
    ),
    Rule(
        "idle traffic",
        "storage servers' rate before the go or after the last end, without 0.5 Mb/s a server",
        "% of the mean rate", 1, 10,
        "somebody else uses the storage: repeat when it is quiet",
    ),
    Rule(
        "slow beside rest",
        "storage servers' whole rate before the go or after the last end, whichever is less",
        "% of the mean rate", 2, None,
        "what the storage sends at rest is as much of its mean rate: go by what the clients took in",
    ),
    Rule(
        "idle traffic unknown",
        "of the times before and after the window, neither is sampled for half a second",
        "troubles", 0, None,
        "take a shorter period",
    ),
    Rule(
        "clock offset",
        "proven difference between the wall clocks of two hosts, whatever their roles",
        "periods", 0.5, None,
        "synchronise the clocks (chronyc tracking), or take a longer period",
    ),
    Rule(
        "clock step",
        "how far a host's wall clock was set during the trial",
        "ms", 10, None,
        "have the clock slewed and not stepped",
    ),
    Rule(
        "clock error",
        "the larger of difference and step of the clocks of storage servers and workers that read",
        "% of the window", 0.5, 5,
        "the window's edges are wrong by as much: synchronise the clocks and repeat",
    ),
    Rule(
        "clock not compared",
        "hosts that read or are storage, and have neither compared their clock with the access point's nor share one",
        "hosts", 0, None,
        "sample by jobs of the pool and let jobs use chirp, or see for yourself that the clocks agree",
    ),
    Rule(
        "clock comparison",
        "most by which the clocks of storage servers and workers that read can differ, by what was compared",
        "% of the window", 2, None,
        "the comparison was slow: see that chirp answers fast, or take larger replicas",
    ),
    Rule(
        "above the ceiling",
        "delivered rate above the tightest known ceiling of the way",
        "% of the ceiling", 5, None,
        "the ceiling is wrong, or the data came another way",
    ),
    Rule(
        "unlike its repetitions",
        "how far what the storage sent beyond what was read is from the median of the trial's repetitions (three or"
        " more), without a tenth of that; and how far what was read is",
        "% of what was read", 3, None,
        "a part of a cache was warm, somebody else used the storage, or clients did not do the same: repeat it",
    ),
    Rule(
        "split otherwise",
        "most clients on a worker, or workers with clients, against the usual ones of the run's trials with as many"
        " clients in the same pool",
        "% more or less", 25, None,
        "workers that have more clients serve each more slowly: let the experiment place them, `placement = 'in-turn'`",
    ),
    Rule(
        "other conditions",
        "settings and versions of the trial's hosts that are not those of most of the run's trials with the same"
        " arranged there",
        "settings", 0, None,
        "conditions.json has them all: compare only trials under the same ones",
    ),
)  # fmt: skip
BY_NAME = {rule.name: rule for rule in RULES}

USUAL_BYTES_PER_CLIENT = 65_536  # connecting and opening, however small the file
