"""The tables of a trial, column by column: its samples, its jobs, itself and the resources along its path."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tierbench import names
from tierbench.postprocess.schema.columns import (
    Column,
    Row,
    always,
    columns_of,
    count,
    factor_levels,
    number,
    part,
    places,
    rate,
    tables_of,
    text,
    texts,
)

# The rate that comparisons, ladders and answers speak of, and the one that the thesis measured.
RATE, SENT = "delivered_mbps", "mean_mbps"
# Where clients take turns: what they would receive together if none was in another's way.
SUMMED = "summed_mbps"
# What an experiment may ask to have compared instead of bytes, by its `measure`.
EVENTS, OPERATIONS = "events_per_s", "operations_per_s"
RATE_OF = {"bytes": RATE, "events": EVENTS, "operations": OPERATIONS}

CONFIGURATION = "access/workload, and the level of each axis"

Count = int | None
Amount = float | None


@dataclass(frozen=True, kw_only=True)
class OfTrial(Row):
    """What the rows of all tables of a trial begin with."""

    trial: str = text("human name of the trial")
    configuration: str = text(CONFIGURATION)
    levels: Mapping[str, Any] = factor_levels()
    repeat: int = always("number of the repetition")


@dataclass(frozen=True, kw_only=True)
class SampleRow(OfTrial):
    """What an interface and its host counted between two samples; these are made by the thousand, as arrays."""

    file, per = names.SAMPLES_CSV, "host, interface and sample"
    host: str = text("sampled host")
    role: str = text("what the host does on the path: storage, gateway, door, worker, metadata")
    interface: str = text("network interface whose counters are given")
    wall_ns: Count = count("sampler's wall clock, since 1970 UTC", "ns")
    time_s: Amount = number("s", "time since the window began", 6)
    interval_s: Amount = number("s", "since the previous sample; the rates are over it", 6)
    rx_bytes: Count = count("the kernel's counter of received bytes", "B")
    tx_bytes: Count = count("the kernel's counter of sent bytes", "B")
    rx_mbps: Amount = rate("received")
    tx_mbps: Amount = rate("sent")
    rx_packets_per_s: Amount = number("1/s", "packets received", 1)
    tx_packets_per_s: Amount = number("1/s", "packets sent", 1)
    rx_dropped_per_s: Amount = number("1/s", "received packets dropped", 1)
    tx_dropped_per_s: Amount = number("1/s", "packets to be sent dropped", 1)
    tcp_retrans_per_s: Amount = number("1/s", "TCP segments sent again, by the whole host", 1)
    tcp_out_segs_per_s: Amount = number("1/s", "TCP segments sent, by the whole host", 1)
    cpu_busy_pct: Amount = number("%", "CPU time not idle and not waiting for I/O, of all cores", 1)
    cpu_iowait_pct: Amount = number("%", "CPU time idle but waiting for I/O, of all cores", 1)
    cpu_softirq_pct: Amount = number("%", "CPU time in softirq (the network's share), of all cores", 1)
    cpu_busiest: Count = count("number of the busiest core")
    cpu_busiest_busy_pct: Count = count("how busy that core was", "%")
    softirq_busiest_pct: Count = count("share of softirq on the core which had most of it", "%")
    mem_cached_kb: Count = count("page cache", "KiB")
    disk_read_mbps: Amount = rate("read from disks")
    disk_written_mbps: Amount = rate("written to disks")
    flag: str = text(
        "gap: a sample is missing before this one; wrap: a 32-bit counter wrapped, corrected; "
        "reset: a counter began anew, its rates are unknown"
    )


@dataclass(frozen=True, kw_only=True)
class Fetches:
    """The readings of files by jobs that do many; empty where each job reads a file once."""

    fetches: Count = count("reads of a file that went well")
    fetch_failures: Count = count("reads of a file that failed")
    fetches_cut: Count = count("readings under way when the time was over")
    fetches_overdue: Count = count("readings due by the timetable that had not begun")
    fetches_per_s: Amount = number("1/s", "fetches over run_s; of a trial over window_s", compared="more")
    latency_p50_s: Amount = number(
        "s",
        "median time of a fetch from when it was due; overdue ones count as slowest, cut ones as slower than so far",
        6,
        compared="less",
    )
    latency_p95_s: Amount = number("s", "95th percentile of that time", 6, better="less")
    latency_p99_s: Amount = number("s", "99th percentile of that time", 6, compared="less")
    latency_max_s: Amount = number("s", "longest time of a fetch", 6)


@dataclass(frozen=True, kw_only=True)
class JobRow(OfTrial):
    """A client."""

    file, per = names.JOBS_CSV, "client"
    client: int = always("number of the client in its trial, from 0")
    host: str = text("worker it ran on")
    slot: str = text("HTCondor slot it ran in")
    core: Count = count("core of its own, where it was pinned to one")
    program: str = text("kind of client")
    status: str = text("ok; what it said went wrong; lost: it began and never ended; never-started")
    message: str = text("the client's own words about the status")
    url: str = text("what it read, or wrote")
    starts: Count = count("how often it was started; the row is of the last start")
    start_wall_ns: Count = count("process started, since 1970 UTC", "ns")
    begin_wall_ns: Count = count("began to work, after the gate if there was one", "ns")
    opened_wall_ns: Count = count("had opened its file", "ns")
    first_byte_wall_ns: Count = count("had its first byte", "ns")
    end_wall_ns: Count = count("ended", "ns")
    begin_after_go_ms: Amount = number("ms", "begin relative to its own start time")
    open_s: Amount = number("s", "begin to opened, by the wall clock", 6)
    first_byte_s: Amount = number("s", "begin to first byte, by the wall clock", 6)
    run_s: Amount = number("s", "begin to end, by the monotonic clock", 6)
    bytes_expected: Count = count("size of its files", "B")
    bytes_app: Count = count("bytes the application read, or wrote", "B")
    bytes_client: Count = count("bytes the process or the client library read, or wrote", "B")
    bytes_source: str = text("who counted bytes_app, or bytes_client")
    bytes_disk: Count = count("of what its process read, fetched from a disk by the worker's kernel", "B")
    rate_mbps: Amount = rate("bytes_app over run_s")
    processes: Count = count("processes at once; empty for a job that reads one file once, as are the next ones")
    files: Count = count("files that were read whole, each counted once")
    last_begin_after_go_ms: Amount = number("ms", "begin of the last of its processes relative to its own start time")
    fetched: Fetches = part(Fetches)
    reads: Count = count("read calls: how often it asked for data, where it counts them")
    bytes_per_read: Amount = number("B", "bytes_client over reads", 0)
    events: Count = count("events read")
    events_per_s: Amount = number("1/s", "events over run_s")
    operations: Count = count("operations done on files, by a client that counts them")
    operations_per_s: Amount = number("1/s", "operations over run_s")
    cpu_user_s: Amount = number("s", "CPU time in user mode")
    cpu_system_s: Amount = number("s", "CPU time in the kernel")
    cpu_efficiency: Amount = number("1", "time in which it computed over run_s", 4)
    exit_status: Count = count("exit status of what the wrapper ran")
    detail: str = text("what only this kind of client records, as JSON")


@dataclass(frozen=True, kw_only=True)
class Slices:
    """The parts of a window that are looked at by themselves."""

    steady_begin_s: Amount = number("s", "begin of the steady slice, since the window began; empty: none")
    steady_end_s: Amount = number("s", "end of the steady slice")
    steady_from: str = text("rates in which the slice was found: delivered, sent or received")
    steady_delivered_mbps: Amount = rate(
        "delivered throughput in the steady slice", compared="more", label="delivered throughput"
    )
    steady_mbps: Amount = rate("storage throughput in the steady slice", compared="more")
    steady_volatility_mbps: Amount = rate(
        "sample standard deviation of that rate, of its single samples", better="less"
    )
    all_active_s: Amount = number("s", "last begin to first end; 0: never all active")
    all_active_share: Amount = number("1", "all_active_s over window_s", 4, better="more")
    all_active_delivered_mbps: Amount = rate("delivered throughput in it, without its first tenth", better="more")
    all_active_mbps: Amount = rate("storage throughput in it, without its first tenth", compared="more")
    all_active_volatility_pct: Amount = number(
        "%", "sample standard deviation of that rate, of its single samples, against its mean", compared="less"
    )


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How well a trial was sampled."""

    samples: Count = count("samples of the storage servers in the window")
    late_ticks: Count = count("ticks at which a sampler was late, as the samplers themselves say")
    gaps: Count = count("intervals of the storage servers' samplers in the window with a sample missing")
    longest_gap_s: Amount = number("s", "longest interval between two samples of a storage server in the window")
    wraps: Count = count("wraps of 32-bit counters in all the trial's samples, corrected")
    resets: Count = count("counters that began anew, in all the trial's samples")
    samplers_cut: Count = count("samplers that ended without their last line (killed)")


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What limited a trial."""

    bottleneck: str = text("what limited the trial (docs/bottlenecks.md)")
    bottleneck_evidence: str = text("why, with the numbers")
    ceiling_mbps: Amount = rate("tightest known ceiling on the trial's path")
    ceiling_from: str = text("what has that ceiling, and whether it was measured or stated")
    efficiency: Amount = number("1", "delivered_mbps over ceiling_mbps", 4, better="more")


@dataclass(frozen=True, kw_only=True)
class MainRow(OfTrial):
    """What most want to know of a trial."""

    file, per = names.TRIALS_CSV, "trial"
    trial_id: str = text("name of the trial's folder")
    position: int = always("place of the trial in the plan's order")
    state: str = text("complete; incomplete: a client was not ok, or samples or files are missing; running: not ended")
    verdict: str = text("VALID, SUSPECT or INVALID (docs/verdicts.md); or running")
    verdict_reasons: tuple[str, ...] = texts("why it is not VALID, separated by semicolons")
    reasons: tuple[str, ...] = texts("why it is incomplete, in words, separated by semicolons")
    # what came out
    delivered_mbps: Amount = rate(
        "delivered throughput: moved by the jobs over the window", compared="more", label="delivered throughput"
    )
    mean_mbps: Amount = rate(
        "storage throughput over the window, the thesis' measure", compared="more", label="sent by the storage"
    )
    amplification: Amount = number(
        "1",
        "read amplification: bytes_server over what the jobs moved",
        4,
        better="less",
        label="sent by the storage / delivered",
    )
    limit: Limit = part(Limit)
    window_s: Amount = number(
        "s", "the window: first begin to last end", compared="less", label="first begin to last end"
    )
    wall_time_s: Amount = number(
        "s",
        "submission (or release from hold) to last end, the thesis' wall time",
        compared="less",
        label="submission to last end",
    )
    jobs_ok: Count = count("clients that ended ok")
    jobs_failed: Count = count("clients that did not, for whatever reason")
    # what was done
    pool: str = text("pool of workers")
    protocol: str = text("protocol by which the clients read or write")
    direction: str = text("sent or received: what the storage does with the trial's bytes")
    program: str = text("kind of client")
    started: str = text("start: together, natural, every so many seconds, or in-turn")
    placed: str = text("placement of the clients, and whether each was pinned to a core")
    clients_by_worker: str = text("how many clients ran on each worker, as JSON")
    servers: str = text("storage servers of the access method; empty: all, or the workers' own disks")
    counted_by: str = text("what counts them: interfaces; disks of the workers' machines; own disks")
    arranged: tuple[str, ...] = texts("conditions set for the trial, by host, as read back")
    # rates, closer
    client_mbps: Amount = rate("rate of a client over its own run time, mean over clients", better="more")
    summed_mbps: Amount = rate("the sum of the clients' own rates", compared="more", label="each while at work, summed")
    peak_mbps: Amount = rate("highest rate carried in a single sample in the window", better="more")
    volatility_mbps: Amount = rate(
        "sample standard deviation of that rate, of single samples in the window",
        better="less",
        label="within a trial, sent by the storage",
    )
    volatility_5s_mbps: Amount = rate(
        "the same of the rates over 5 s each, as in the thesis",
        better="less",
        label="within a trial, sent by the storage",
    )
    # work of the clients
    events: Count = count("events read by all clients")
    events_per_s: Amount = number("events/s", "events over the window", compared="more", label="events of all jobs")
    operations: Count = count("operations done on files by all clients")
    operations_per_s: Amount = number(
        "operations/s", "operations over the window", compared="more", label="operations of all jobs"
    )
    cpu_s: Amount = number("s", "CPU time of all clients")
    cpu_efficiency: Amount = number(
        "1", "time in which the clients computed over the sum of their run times", 4, better="more"
    )
    server_cpu_s_per_gb: Amount = number(
        "s/GB",
        "CPU time of the servers that the data passed, whatever they worked on, over what the jobs moved",
        compared="less",
        label="CPU time of the servers",
    )
    reads: Count = count("read calls of all clients, where they count them")
    bytes_per_read: Amount = number("B", "bytes_client over reads", 0)
    # bytes
    bytes_expected: Count = count("sizes of all replicas", "B")
    bytes_app: Count = count("moved by the applications", "B")
    bytes_client: Count = count("moved by the processes or client libraries", "B")
    bytes_server: Count = count("carried by the storage servers' interfaces over the window", "B")
    bytes_by_server: str = text("what each storage server (or disk) carried in the window, as JSON")
    closure: Amount = number("1", "excess: bytes_server over what the clients moved, less 1", 5)
    # times
    submit_wall_ns: Count = count("clients submitted, or released from hold, since 1970 UTC", "ns")
    go_wall_ns: Count = count("the window begins, with the first client", "ns")
    end_wall_ns: Count = count("the window ends: last client's end", "ns")
    natural_skew_ms: Amount = number("ms", "first to last client's process start", better="less")
    start_skew_ms: Amount = number("ms", "first to last begin, each from its own start time", better="less")
    round_trip_s: Amount = number("s", "round-trip time between storage and workers, where that is known", 6)


@dataclass(frozen=True, kw_only=True)
class SlicesRow(OfTrial):
    """A trial by parts of its window."""

    file, per = names.SLICES_CSV, "trial: its parts"
    slices: Slices = part(Slices)


@dataclass(frozen=True, kw_only=True)
class SamplingRow(OfTrial):
    """How well a trial was measured."""

    file, per = names.SAMPLING_CSV, "trial: how well it was measured"
    mean_error_mbps: Amount = rate("most by which mean_mbps may be wrong for what moved near the window's edges")
    wall_time_error_s: Amount = number(
        "s", "by how much wall_time_s may be wrong, for the log's stamps and the clocks", 4
    )
    sample_period_s: Amount = number("s", "period of the samplers")
    resolution_s: Amount = number("s", "the period, or how often the driver refreshes its counters")
    sampling: Sampling = part(Sampling)
    resident_bytes: Count = count("bytes of the replicas still in the hosts' page caches after the flush", "B")
    idle_before_mbps: Amount = rate(
        "carried by the storage servers before the window, while the samplers ran, or in the last 10 s if that is more"
    )
    idle_after_mbps: Amount = rate("carried by the storage servers after the window, while the samplers ran")
    clock_offset_ms: Amount = number("ms", "largest measured offset of a host's clock from the access point's")
    conditions: str = text("digest of tuning and versions of all hosts; conditions.json has them")


@dataclass(frozen=True, kw_only=True)
class WorkRow(OfTrial):
    """What the jobs of a trial did with files, where that is more than to read one each; and caches."""

    file, per = names.WORK_CSV, "trial: its fetches, operations and writes, and caches"
    job_files: Count = count("files of each job, which are its own")
    job_processes: Count = count("processes of each job")
    job_for_s: Amount = number("s", "how long each job repeats its files; empty: once")
    job_order: str = text("order of a job's files: listed or shuffled")
    job_fetch_every_s: Amount = number(
        "s", "interval between file starts of a process; empty: as soon as the one before ends"
    )
    fetched: Fetches = part(Fetches)
    fetch_s: Amount = number(
        "s", "time of a file, with its share of logging in; empty if a slower one was cut", 4, compared="less"
    )
    round_trips_per_fetch: Amount = number(
        "1", "fetch_s over the round-trip time, where that is known", 2, better="less"
    )
    cached_share: Amount = number("1", "share of what caches were to serve that the storage did not send", 4)
    hit_share: Amount = number("1", "share of requests that Squid served from its cache", 4)
    bytes_per_server_read: Amount = number(
        "B",
        "sent by XRootD's servers over the reads, vector reads included, that they were asked for; by their reports",
        0,
    )
    software_bytes: Count = count("fetched during the trial by the caches of software on the clients' workers", "B")
    # operations on files
    operation_s: Amount = number(
        "s", "time of an operation, by the clients' own clocks, mean over all", 6, better="less"
    )
    round_trips_per_operation: Amount = number(
        "1", "operation_s over round_trip_s, so with all else that it takes", 2, better="less"
    )
    # writing
    bytes_late: Count = count("of what was written or copied, received after the last end, at the least", "B")
    looked_at: str = text("what of the written files was compared after the trial")
    left_behind: tuple[str, ...] = texts("what the trial wrote and could not be removed")


@dataclass(frozen=True, kw_only=True)
class TrialRow(WorkRow, SamplingRow, SlicesRow, MainRow):
    """A trial: the columns of its tables, in their order."""


def trial_column(name: str) -> Column:
    """A column of a trial, with its unit, its label and which of two values is the better one."""
    return places(TrialRow)[name]


TRIAL_FILES = [table.file for table in tables_of(TrialRow)]
SUMMARISED = tuple(column.name for column in columns_of(TrialRow) if column.better)
COMPARED = tuple(column.name for column in columns_of(TrialRow) if column.compared)


@dataclass(frozen=True, kw_only=True)
class ResourceRow(OfTrial):
    """A resource along a trial's path."""

    file, per = names.RESOURCES_CSV, "trial and resource along its path"
    host: str = text("its host; empty for links, clients and shared machines")
    role: str = text("what the host does on the path; or wan, client, machine")
    resource: str = text("what was used")
    interface: str = text("its interface, if it is an interface's")
    value: Amount = number(
        "", "mean use while all clients were at work, in turn one; where that is short, in the window's middle", 4
    )
    unit: str = text("unit of value and ceiling")
    ceiling: Amount = number("", "the most there is", 4)
    utilisation: Amount = number("1", "value over ceiling", 4)
    ceiling_from: str = text("measured by iperf3, stated in [links], by the card, a CPU quota …")
    on_the_way: str = text("yes: the trial's data passed there; or no")
