"""Writes run directories of known truth, for tests; everything in them says that it is synthetic."""

import csv
import json

from tierbench.dags.levels import named_levels

GO_NS = 1_800_000_000_000_000_000
MONO_NS = 5_000_000_000_000  # the monotonic clock at go
OSS, GATEWAY, WORKER = "oss.uf.test", "dgt.fiu.test", "wn01.private.fiu.test"
WIDTHS = {
    "mono_ns": 18, "wall_ns": 19, "rx_bytes": 19, "tx_bytes": 19, "rx_packets": 16, "tx_packets": 16,
    "rx_dropped": 14, "tx_dropped": 14, "tcp_retrans": 14, "tcp_in_segs": 16, "tcp_out_segs": 16,
    "cpu_user": 14, "cpu_nice": 14, "cpu_system": 14, "cpu_idle": 14, "cpu_iowait": 14, "cpu_irq": 14,
    "cpu_softirq": 14, "cpu_steal": 14, "cpu_busiest": 5, "cpu_busiest_busy_pct": 4, "softirq_busiest_pct": 4,
    "mem_cached_kb": 12, "disk_read_bytes": 19, "disk_written_bytes": 19,
    "disk_own_read_bytes": 19, "disk_own_written_bytes": 19,
}  # fmt: skip
COUNTED = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped")  # of an interface
FURTHER_WIDTH = 19  # of a column that a test adds


def rows(path):
    """A table's lines."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def steady(mbps):
    """A counter that rises at one rate; its argument is seconds since go."""
    return lambda time: 10**9 + round((time + 100) * mbps * 1e6 / 8)


def during(mbps, seconds):
    """A counter that rises at one rate from go on for so long, and stands still before and after."""
    return lambda time: 10**9 + round(min(max(time, 0), seconds) * mbps * 1e6 / 8)


def ramps(mbps, up_s, level_s, down_s):
    """A counter whose rate rises from go, stays and falls again, each linearly."""

    def total(time):
        rising = min(max(time, 0), up_s)
        level = min(max(time - up_s, 0), level_s)
        falling = min(max(time - up_s - level_s, 0), down_s)
        area = rising**2 / (2 * up_s) + level + falling - falling**2 / (2 * down_s)
        return 10**9 + round(area * mbps * 1e6 / 8)

    return total


def ticks(begin, end, period=1.0):
    """The times of a sampler that is never late."""
    return [begin + period * number for number in range(round((end - begin) / period) + 1)]


def record_bytes(widths):
    return sum(widths.values()) + len(widths) + 1


RECORD_BYTES = record_bytes(WIDTHS)


def header(widths=WIDTHS, **changes):
    """The first line of a sample file."""
    columns = [{"name": name, "width": width, "unit": "1"} for name, width in widths.items()]
    return {
        "tierbench": "samples", "format": 1, "synthetic": True, "host": OSS, "role": "storage",
        "boot_id": "synthetic", "interface": "eth0", "period_s": 1.0, "clock_wall_ns": GO_NS, "clock_mono_ns": MONO_NS,
        "columns": columns, "record_bytes": record_bytes(widths), "kernel": "synthetic", "ncpu": 2, "tuning": {},
        "link_speed_mbps": 10_000, **changes,
    }  # fmt: skip


def record(time, widths=WIDTHS, **values):
    """One sample, as it stands in a file."""
    numbers = record_values(time, **values)
    return ("".join(f" {numbers.get(name, 0):{width}d}" for name, width in widths.items()) + "\n").encode()


def record_values(time, **values):
    """One sample, at so many seconds since go; a host half busy for the first 20 s, with what is given."""
    since_ns = round(time * 1e9)
    busy = round((min(max(time, 0), 20) + 1000) * 100)
    defaults = {
        "mono_ns": MONO_NS + since_ns, "wall_ns": GO_NS + since_ns,
        "cpu_user": busy, "cpu_idle": round((time + 2000) * 200) - busy,
        "cpu_busiest": 1, "cpu_busiest_busy_pct": 60, "disk_read_bytes": -1, "disk_written_bytes": -1,
        "disk_own_read_bytes": -1, "disk_own_written_bytes": -1,
    }  # fmt: skip
    return {**dict.fromkeys(WIDTHS, 0), **defaults, **values}


def clock(ahead_ms=0.0):
    """What a host says of its wall clock against the access point's uptime, which is the monotonic clock here."""
    ahead_ns = GO_NS - MONO_NS + round(ahead_ms * 1e6)
    return {"low_ns": ahead_ns - 2_000_000, "high_ns": ahead_ns + 2_000_000}


def trailer(records, late_ticks=0, ahead_ms=0.0):
    """The last line of a sampler that was told to stop."""
    line = {"tierbench": "end", "reason": "stop", "records": records, "late_ticks": late_ticks, "wall_ns": GO_NS}
    line["clocks"] = [clock(ahead_ms)]
    return json.dumps(line).encode() + b"\n"


def sample_file(times, counters, widths=WIDTHS, end=None, **head):
    """The lines of a sampler's file: its header, a record of the counters for each time, and its trailer."""
    yield json.dumps(header(widths, **head)).encode() + b"\n"
    for time in times:
        yield record(time, widths, **{name: count(time) for name, count in counters.items()})
    yield json.dumps({**json.loads(trailer(len(times))), **(end or {})}).encode() + b"\n"


def write_samples(path, times, tx_bytes, *, cut=False, **changes):
    """A sampler's file; cut off in its last record, as of a killed sampler, if so asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = list(sample_file(times, {"tx_bytes": tx_bytes}, **changes))
    path.write_bytes(b"".join(lines[:-1])[:-50] if cut else b"".join(lines))


def write_host(
    folder, host = OSS, role = "storage", *, period = 1.0, begin = -2, until = 23, times = None,
    head = None, end = None, **counters,
):  # fmt: skip
    """A host's samples of a trial, of counters by their names, which may be others than all hosts have."""
    widths = {**dict.fromkeys([*WIDTHS, *counters], FURTHER_WIDTH), **WIDTHS}
    times = ticks(begin, until, period) if times is None else times
    head = {"host": host, "role": role, "period_s": period, **(head or {})}
    (folder / f"samples/{host}.samples").write_bytes(b"".join(sample_file(times, counters, widths, end, **head)))


def write_interfaces(path, times, tx_bytes, counters=None, **changes):
    """A sampler's file of one or several interfaces, each of which sends in its own way, and counters of their host."""
    suffixes = {interface: f".{interface}" if len(tx_bytes) > 1 else "" for interface in tx_bytes}
    widths = {name: width for name, width in WIDTHS.items() if name not in COUNTED}
    widths |= {f"{name}{suffix}": WIDTHS[name] for suffix in suffixes.values() for name in COUNTED}
    cards = [{"name": interface, "link_speed_mbps": 10_000, "link_speed_real": False} for interface in tx_bytes]
    head = {"host": path.stem, "interface": "+".join(tx_bytes), "interfaces": cards, **changes}
    counters = {**(counters or {}), **{f"tx_bytes{suffixes[name]}": total for name, total in tx_bytes.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(sample_file(times, counters, widths, **head)))


def times(time):
    """A record's times, at so many seconds since go."""
    return {"wall_ns": GO_NS + round(time * 1e9), "mono_ns": MONO_NS + round(time * 1e9)}


def write_client(path, *, begin_s, end_s, size, host=WORKER, **end):
    """A client that read its file between these times since go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    index = int(path.stem)
    events = [
        (min(-4 + index, -1, begin_s), {
            "event": "start", "format": 1, "index": index, "host": host,
            "slot": f"slot1_{index}", "pid": 1, "boot_id": "synthetic", "client": "root",
            "url": f"root://synthetic/{index}", "expected_bytes": size, "python": "3.13.5",
        }),
        (min(-1, begin_s), {"event": "ready"}),
        (begin_s, {"event": "go", "go_wall_ns": GO_NS}),
        (end_s, {
            "event": "end", "status": "ok", "message": "", "opened_wall_ns": GO_NS + round((begin_s + 0.1) * 1e9),
            "first_byte_wall_ns": GO_NS + round((begin_s + 0.2) * 1e9), "bytes_app": size, "bytes_client": size,
            "bytes_source": "TFile", "events": 1000, "cpu_user_s": 1.0, "cpu_system_s": 1.0, "exit_status": 0,
            "detail": {}, **end,
        }),
    ]  # fmt: skip
    lines = [json.dumps({**event, **times(time)}) for time, event in events]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_clients(folder, **record):
    """The records of all clients anew, which are alike."""
    for path in (folder / "clients").iterdir():
        write_client(path, **record)


def edit_json(path, /, **changes):
    """Other values for some keys of a file, which need not be there yet."""
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **changes}))
    return path


def edit_events(path, event, change):
    """A client's record in which the events of a kind are what becomes of them."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(change(each) if each["event"] == event else each) + "\n" for each in events))


def edit_clients(folder, event, **changes):
    for path in (folder / "clients").iterdir():
        edit_events(path, event, lambda record: {**record, **changes})


def samplers(roles):
    """A definition's samplers of these hosts."""
    return [{"host": host, "interface": "eth0", "role": role, "via": "pool"} for host, role in roles.items()]


def write_trial(
    run, *, mbps=400.0, jobs=4, repeat=1, index=0, access="lan-xrootd", workload="root", levels=None, **changes
):
    """A trial of 20 s in which the storage server sends at one rate, 2 % of it being protocol."""
    on_axes = named_levels(levels or {})
    configuration = " ".join([f"{access}/{workload}", *on_axes])
    name = ".".join([access, workload, *on_axes, f"x{jobs:03d}", f"r{repeat}"])
    folder = run / "trials" / name
    folder.mkdir(parents=True)
    size = round(mbps * 1e6 / 8 * 20 / 1.02 / jobs)
    trial = {
        "format": 1, "synthetic": True, "id": name, "name": f"{configuration} \N{MULTIPLICATION SIGN}{jobs} #{repeat}",
        "configuration": configuration, "access": access, "workload": workload, "client": "root", "jobs": jobs,
        "levels": {"access": access, "workload": workload, "jobs": jobs, **(levels or {})},
        "repeat": repeat, "index": index, "pool": "private", "requirements": "synthetic", "protocol": "xrootd",
        "workers": [WORKER], "flush": {"strategy": "fadvise", "hosts": []}, "samplers": samplers({OSS: "storage"}),
        "sample_period_s": 1.0, "start": {"kind": "together", "every_s": 0.0},
        "placement": {"asked": "as-matched"},
        "options": {}, "bytes": size * jobs, **changes,
    }  # fmt: skip
    (folder / "trial.json").write_text(json.dumps(trial), encoding="utf-8")
    (folder / "go.json").write_text(json.dumps({"format": 1, "go_wall_ns": GO_NS}), encoding="utf-8")
    (folder / "clients.log").write_text(
        "000 (007.000.000) 2027-01-15 03:59:50.500 Job submitted from host: <10.0.0.1:9618>\n...\n"
        "001 (007.000.000) 2027-01-15 03:59:56.200 Job executing on host: <10.0.0.2:9618>\n...\n",
        encoding="utf-8",
    )
    (folder / "clock.json").write_text(json.dumps(clock()), encoding="utf-8")
    for client in range(jobs):
        write_client(folder / f"clients/{client}.jsonl", begin_s=client * 1e-3, end_s=20 - client, size=size)
    write_samples(folder / f"samples/{OSS}.samples", ticks(-2, 23), during(mbps, 20))
    return folder
