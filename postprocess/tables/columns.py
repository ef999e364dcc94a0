"""Every column of every CSV: the one source of the headers, of schema.json and of docs/tables.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tierbench.dags import names

SCHEMA_VERSION = 4

# The rate that comparisons, ladders and answers speak of, and the one that the thesis measured.
RATE, SENT = "delivered_mbps", "mean_mbps"
# Where clients take turns: what they would take in together if none was in another's way.
SUMMED = "summed_mbps"


@dataclass(frozen=True)
class Column:
    """One column of a CSV; a field of it is empty where the value is not known."""

    name: str
    type: Literal["text", "integer", "number"]
    unit: str
    meaning: str
    decimals: int = 0


def _text(name: str, meaning: str) -> Column:
    return Column(name, "text", "", meaning)


def _count(name: str, meaning: str, unit: str = "1") -> Column:
    return Column(name, "integer", unit, meaning)


def _number(name: str, unit: str, meaning: str, decimals: int = 3) -> Column:
    return Column(name, "number", unit, meaning, decimals)


CONFIGURATION = (
    _text("configuration", "way of access and workload, as access/workload, and the level of each axis"),
    _text("access", "way of access"),
    _text("workload", "what the clients did"),
    _count("jobs", "clients in the batch"),
)
TRIAL = (
    _text("trial", "human name of the trial"),
    *CONFIGURATION,
    _count("repeat", "which repetition of this configuration and batch"),
)

SAMPLES = (
    *TRIAL,
    _text("host", "sampled host"),
    _text("role", "what the host does on the path: storage, gateway, door, worker, metadata"),
    _text("interface", "network interface whose counters are given"),
    _count("wall_ns", "sampler's wall clock, since 1970 UTC", "ns"),
    _number("time_s", "s", "time since the window began (go, or the first client's begin without a gate)", 6),
    _number("interval_s", "s", "time since the previous sample, by the monotonic clock; the rates are over it", 6),
    _count("rx_bytes", "interface's counter of received bytes, as the kernel gave it", "B"),
    _count("tx_bytes", "interface's counter of sent bytes, as the kernel gave it", "B"),
    _number("rx_mbps", "Mb/s", "received"),
    _number("tx_mbps", "Mb/s", "sent"),
    _number("rx_packets_per_s", "1/s", "packets received", 1),
    _number("tx_packets_per_s", "1/s", "packets sent", 1),
    _number("rx_dropped_per_s", "1/s", "received packets dropped", 1),
    _number("tx_dropped_per_s", "1/s", "packets to be sent dropped", 1),
    _number("tcp_retrans_per_s", "1/s", "TCP segments sent again, by the whole host", 1),
    _number("tcp_out_segs_per_s", "1/s", "TCP segments sent, by the whole host", 1),
    _number("cpu_busy_pct", "%", "CPU time not idle and not waiting for I/O, of all cores", 1),
    _number("cpu_iowait_pct", "%", "CPU time idle but waiting for I/O, of all cores", 1),
    _number("cpu_softirq_pct", "%", "CPU time in softirq (the network's share), of all cores", 1),
    _count("cpu_busiest", "number of the busiest core"),
    _count("cpu_busiest_busy_pct", "how busy that core was", "%"),
    _count("softirq_busiest_pct", "share of softirq on the core which had most of it", "%"),
    _count("mem_cached_kb", "page cache", "KiB"),
    _number("disk_read_mbps", "Mb/s", "read from disks"),
    _number("disk_written_mbps", "Mb/s", "written to disks"),
    _text(
        "flag",
        "gap: a sample is missing before this one; wrap: a 32-bit counter wrapped, corrected; "
        "reset: a counter began anew, its rates are not known",
    ),
)

JOBS = (
    *TRIAL,
    _count("client", "number of the client in its trial, from 0"),
    _text("host", "worker it ran on"),
    _text("slot", "HTCondor slot it ran in"),
    _count("core", "core of its own, where it was pinned to one"),
    _text("program", "kind of client"),
    _text("status", "ok; what it said went wrong; lost: it began and never ended; never-started"),
    _text("message", "the client's own words about the status"),
    _text("url", "what it read"),
    _count("starts", "how often it was started; only the last start is told here"),
    _count("start_wall_ns", "process started, since 1970 UTC", "ns"),
    _count("begin_wall_ns", "began to work, after the gate if there was one", "ns"),
    _count("opened_wall_ns", "had opened its file", "ns"),
    _count("first_byte_wall_ns", "had its first byte", "ns"),
    _count("end_wall_ns", "ended", "ns"),
    _number("begin_after_go_ms", "ms", "begin relative to the go time of the gate"),
    _number("open_s", "s", "begin to opened, by the wall clock", 6),
    _number("first_byte_s", "s", "begin to first byte, by the wall clock", 6),
    _number("run_s", "s", "begin to end, by the monotonic clock", 6),
    _count("bytes_expected", "size of its replica", "B"),
    _count("bytes_app", "bytes the application read, or wrote", "B"),
    _count("bytes_client", "bytes the process or the client library read, or wrote", "B"),
    _text("bytes_source", "who counted bytes_client"),
    _number("rate_mbps", "Mb/s", "bytes_app over run_s"),
    _count("events", "events read"),
    _number("events_per_s", "1/s", "events over run_s"),
    _number("cpu_user_s", "s", "CPU time in user mode"),
    _number("cpu_system_s", "s", "CPU time in the kernel"),
    _number("cpu_efficiency", "1", "time in which it computed over run_s", 4),
    _count("exit_status", "exit status of what the wrapper ran"),
    _text("detail", "what only this kind of client has to tell, as JSON"),
)

SLICES = (
    _number("steady_begin_s", "s", "the steady-state slice begins, since the window began; empty where there is none"),
    _number("steady_end_s", "s", "the steady-state slice ends"),
    _text(
        "steady_from",
        "in which rates the slice was found: delivered, or the storage's direction where no interface tells the others",
    ),
    _number("steady_delivered_mbps", "Mb/s", "moved by the jobs over the steady-state slice"),
    _number("steady_mbps", "Mb/s", "carried by the storage servers over the steady-state slice"),
    _number("steady_volatility_mbps", "Mb/s", "sample standard deviation of that rate, of its single samples"),
    _number("steady_peak_mbps", "Mb/s", "highest rate carried in a single sample in that slice"),
    _number("all_active_s", "s", "last client's begin to first client's end; 0 if they were never all active"),
    _number("all_active_share", "1", "all_active_s over window_s", 4),
    _number("all_active_delivered_mbps", "Mb/s", "moved by the jobs while all clients were active"),
    _number("all_active_mbps", "Mb/s", "carried by the storage servers while all clients were active"),
)

VERDICT = (
    _text("verdict", "VALID, SUSPECT or INVALID, by the rules of docs/verdicts.md; running: not ended yet"),
    _text("verdict_reasons", "why it is not VALID, with what was measured, separated by semicolons"),
    _number("idle_before_mbps", "Mb/s", "carried by the storage servers before the window, while the samplers ran"),
    _number("idle_after_mbps", "Mb/s", "carried by the storage servers after the window, while the samplers ran"),
    _number("clock_offset_ms", "ms", "largest measured offset of a host's clock from the access point's"),
    _text("conditions", "digest of tuning and versions of all hosts; conditions.json has them"),
)

BOTTLENECK = (
    _text("bottleneck", "what limited the trial, by the rules of docs/bottlenecks.md"),
    _text("bottleneck_evidence", "why, with the numbers"),
    _number("ceiling_mbps", "Mb/s", "tightest known ceiling of the trial's way"),
    _text("ceiling_from", "what has that ceiling, and whether it was measured or stated"),
    _number("efficiency", "1", "delivered_mbps over ceiling_mbps", 4),
)

TRIALS = (
    *TRIAL,
    _text("trial_id", "name of the trial's folder"),
    _count("position", "place of the trial in the plan's order"),
    _text("state", "complete; incomplete: a client was not ok, or samples or files are missing; running: not ended"),
    _text("reasons", "why it is incomplete, in words, separated by semicolons"),
    _text("pool", "pool of workers"),
    _text("protocol", "protocol by which the clients read or write"),
    _text("direction", "what the storage's interfaces do with the trial's bytes: sent, or received"),
    _text("program", "kind of client"),
    _text("arranged", "what the site has changed for the trial, on which host, as it was read back"),
    _text("started", "how the clients began: together, natural, every so many seconds, or in-turn"),
    _text("placed", "which workers the clients were meant for, and whether each was pinned to a core"),
    _count("jobs_ok", "clients that ended ok"),
    _count("jobs_failed", "clients that did not, for whatever reason"),
    _count("submit_wall_ns", "clients submitted, by the job event log, since 1970 UTC", "ns"),
    _count("go_wall_ns", "the window begins: go time of the gate (the first one), or the first client's begin", "ns"),
    _count("end_wall_ns", "the window ends: last client's end", "ns"),
    _number("window_s", "s", "the window: go to last end"),
    _number("wall_time_s", "s", "submission to last end, the thesis' wall time"),
    _number("wall_time_error_s", "s", "by how much that may be wrong: half of what the job event log's stamps tell", 4),
    _number("natural_skew_ms", "ms", "first to last client's process start"),
    _number(
        "start_skew_ms",
        "ms",
        "from least to most by which clients began after their go times; without a gate, first to last begin",
    ),
    _number("delivered_mbps", "Mb/s", "moved by the jobs over the window"),
    _number("client_mbps", "Mb/s", "moved by a client over its own run time, mean over the clients"),
    _number("summed_mbps", "Mb/s", "the sum of what each client moved over its own run time"),
    _number("mean_mbps", "Mb/s", "carried by the storage servers over the window, the thesis' measure"),
    _number("mean_error_mbps", "Mb/s", "most by which mean_mbps may be wrong for what moved near the window's edges"),
    _number("amplification", "1", "bytes_server over what the jobs moved", 4),
    _number("volatility_mbps", "Mb/s", "sample standard deviation of that rate, of single samples in the window"),
    _number("volatility_5s_mbps", "Mb/s", "the same of the rates over 5 s each, as in the thesis"),
    _number("peak_mbps", "Mb/s", "highest rate carried in a single sample in the window"),
    *SLICES,
    _count("bytes_expected", "sizes of all replicas", "B"),
    _count("bytes_app", "moved by the applications", "B"),
    _count("bytes_client", "moved by the processes or client libraries", "B"),
    _count("bytes_server", "carried by the storage servers' interfaces over the window", "B"),
    _number(
        "closure",
        "1",
        "bytes_server over what the clients moved (bytes_client, unless their kind says bytes_app), less 1: excess",
        5,
    ),
    _count("events", "events read by all clients"),
    _number("events_per_s", "1/s", "events over the window"),
    _number("cpu_s", "s", "CPU time of all clients"),
    _number("cpu_efficiency", "1", "time in which the clients computed over the sum of their run times", 4),
    _number("sample_period_s", "s", "period of the samplers"),
    _number(
        "resolution_s",
        "s",
        "how finely the storage servers' traffic is known: the period, or how often a driver refreshes its counters",
    ),
    _count("samples", "samples of the storage servers in the window"),
    _count("late_ticks", "ticks at which a sampler was late, as the samplers themselves say"),
    _count("gaps", "intervals of the storage servers' samplers in the window with a sample missing"),
    _number("longest_gap_s", "s", "longest interval between two samples of a storage server in the window"),
    _count("wraps", "wraps of 32-bit counters in all the trial's samples, corrected"),
    _count("resets", "counters that began anew, in all the trial's samples"),
    _count("samplers_cut", "samplers that ended without their last line (killed)"),
    _count("resident_bytes", "bytes of the replicas still in the workers' page caches after the flush", "B"),
    _count(
        "bytes_late", "of what was written, received by the storage after the last end, beyond what it is at rest", "B"
    ),
    _text("looked_at", "what of the files that were written was compared after the trial, and of how many"),
    _text("left_behind", "what the trial wrote and could not be removed; empty where nothing is left"),
    *BOTTLENECK,
    *VERDICT,
)

RESOURCES = (
    *TRIAL,
    _text("host", "host whose it is; empty for a link, the clients and the machine that hosts share"),
    _text("role", "what the host does on the path; or wan, client, machine"),
    _text("resource", "what was used"),
    _text("interface", "interface whose it is, of those of the host; empty for what is no interface's"),
    _number("value", "", "how much of it was used, in the mean, while all clients were at work", 4),
    _text("unit", "unit of value and ceiling"),
    _number("ceiling", "", "the most that there is of it", 4),
    _number("utilisation", "1", "value over ceiling", 4),
    _text("ceiling_from", "who says so: measured by iperf3, stated in [links], stated by the card, a CPU quota …"),
    _text("on_the_way", "yes: the trial's data passed there; no: sampled, but nothing to do with this trial"),
)

# What summary.csv averages.
SUMMARISED = (
    "delivered_mbps", "client_mbps", "summed_mbps", "mean_mbps",
    "amplification", "volatility_mbps", "volatility_5s_mbps", "peak_mbps",
    "steady_delivered_mbps", "steady_mbps", "steady_volatility_mbps", "steady_peak_mbps", "all_active_share",
    "all_active_delivered_mbps", "all_active_mbps", "window_s", "wall_time_s", "start_skew_ms", "natural_skew_ms",
    "events_per_s", "cpu_efficiency", "efficiency",
)  # fmt: skip


def _over_trials(column: Column) -> tuple[Column, ...]:
    def number(suffix: str, meaning: str) -> Column:
        return _number(f"{column.name}{suffix}", column.unit, meaning, column.decimals)

    return (
        number("", f"mean over the trials of {column.name}: {column.meaning}"),
        number("_sd", f"sample standard deviation over the trials of {column.name}"),
        number("_low", f"95 % interval of the mean of {column.name} begins; empty with a single trial"),
        number("_high", f"95 % interval of the mean of {column.name} ends"),
    )


SUMMARY = (
    *CONFIGURATION,
    _count("trials", "trials that count: complete and not INVALID; the rest is taken over them"),
    _count("trials_left_out", "trials that do not count"),
    _count("valid", "trials with the verdict VALID"),
    _count("suspect", "trials with the verdict SUSPECT"),
    _count("invalid", "trials with the verdict INVALID"),
    _text("method", "how the intervals were made: t, or bootstrap"),
    *(column for trial in TRIALS if trial.name in SUMMARISED for column in _over_trials(trial)),
    _number("delivered_valid_mbps", "Mb/s", "delivered_mbps over the VALID trials alone; empty where none is SUSPECT"),
    _number("delivered_valid_low", "Mb/s", "95 % interval of delivered_valid_mbps begins"),
    _number("delivered_valid_high", "Mb/s", "95 % interval of delivered_valid_mbps ends"),
    _number("gain_mbps", "Mb/s", "delivered_mbps less that of the next smaller batch, over the repeats that both have"),
    _number("gain_low", "Mb/s", "95 % interval of gain_mbps begins"),
    _number("gain_high", "Mb/s", "95 % interval of gain_mbps ends"),
    _number("growth", "1", "delivered_mbps over that of the next smaller batch, as the thesis' rate of increase", 4),
    _number("growth_low", "1", "95 % interval of growth begins", 4),
    _number("growth_high", "1", "95 % interval of growth ends", 4),
)

# What ratios.csv compares.
COMPARED = (RATE, SUMMED, "steady_delivered_mbps", SENT, "steady_mbps", "window_s", "wall_time_s", "events_per_s")

RATIOS = (
    _text("factor", "what is compared, all else being equal: access, workload, jobs, or an axis"),
    _text("access", "way of access"),
    _text("workload", "what the clients did"),
    _count("jobs", "clients in the batch"),
    _text("against", "the level of the factor that its level here is compared with"),
    _text("metric", "column of trials.csv that is compared"),
    _number("ratio", "1", "level over against: geometric mean over the pairs of trials of the same repeat", 4),
    _number("low", "1", "95 % interval of the ratio begins; empty with a single pair", 4),
    _number("high", "1", "95 % interval of the ratio ends", 4),
    _count("pairs", "repeats of which both trials count"),
    _number("valid_ratio", "1", "ratio over the pairs of VALID trials alone; empty where all pairs are", 4),
    _number("valid_low", "1", "95 % interval of valid_ratio begins; empty with a single pair", 4),
    _number("valid_high", "1", "95 % interval of valid_ratio ends", 4),
    _count("valid_pairs", "repeats of which both trials are VALID"),
    _text("method", "how the interval was made: t, or bootstrap"),
)

FILES = {
    names.SAMPLES_CSV: ("host, interface and sample", SAMPLES),
    names.JOBS_CSV: ("client", JOBS),
    names.TRIALS_CSV: ("trial", TRIALS),
    names.RESOURCES_CSV: ("trial and resource along its way", RESOURCES),
    names.SUMMARY_CSV: ("configuration and batch size", SUMMARY),
    names.RATIOS_CSV: ("factor, metric and ordered pair of its levels, all else being equal", RATIOS),
}


def with_axes(name: str, axes: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a table of a run: the experiment's axes stand beside the factors that are built in."""
    columns = FILES[name][1]
    place = next(number for number, column in enumerate(columns, 1) if column.name == "jobs")
    return (*columns[:place], *axes, *columns[place:])


def schema(axes: Sequence[Column] = (), further: Sequence[Column] = ()) -> dict[str, Any]:
    """What schema.json says of the CSVs beside it; `further` columns stand at the end of samples.csv."""
    more = {names.SAMPLES_CSV: further}
    files = {
        name: {
            "one_row_per": row,
            "columns": [
                {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning}
                for c in (*with_axes(name, axes), *more.get(name, ()))
            ],
        }
        for name, (row, _) in FILES.items()
    }
    return {"schema_version": SCHEMA_VERSION, "encoding": "utf-8", "missing": "", "files": files}
