"""What a proxy says that it sent and fetched must agree with its clients and the origin, or its trial is not VALID."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit import synthetic_run as synthetic
from tierbench import names
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.metrics import trial_row
from tierbench.postprocess.tables.write import trial_tables
from tierbench.postprocess.verdict import cache_rules
from tierbench.postprocess.verdict.judge import evidence
from tierbench.postprocess.verdict.rules import Evidence

READ = 200_000_000  # by the four clients of the trial, ten times what the storage sent
FILE = 500_000
FETCHED = 20_000_000


def counters(path: Path, risen: dict[str, float], **changes: Any) -> None:
    """A host's samples, whose counters rise so much in the window, and some of it only afterwards."""
    widths = {**synthetic.WIDTHS, **{name: 16 for name in risen if name not in synthetic.WIDTHS}}
    columns = [{"name": name, "width": width, "unit": "1"} for name, width in widths.items()]
    several = {"host": path.stem, "columns": columns, "record_bytes": sum(widths.values()) + len(widths) + 1, **changes}
    lines = [json.dumps(synthetic.header(**several)).encode() + b"\n"]
    times = synthetic.ticks(-2, 23)
    for time in times:
        share = min(max(time, 0), 21) / 21
        numbers = synthetic.record_values(time, **{name: 1000 + round(share * rise) for name, rise in risen.items()})
        lines.append(("".join(f" {numbers.get(name, 0):{width}d}" for name, width in widths.items()) + "\n").encode())
    path.write_bytes(b"".join(lines) + synthetic.trailer(len(times)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = synthetic.write_trial(tmp_path, mbps=8.0)
    path = folder / names.TRIAL
    trial = json.loads(path.read_text())
    hosts = [
        {"host": host, "interface": "eth0", "role": role, "via": "pool"}
        for host, role in ((synthetic.OSS, "storage"), ("dgt.fiu.test", "gateway"), ("vmuf.uf.test", "door"))
    ]
    more = {"options": {"proxy": "dgt.private.fiu.test:3128"}, "work": {"for_s": 20}, "samplers": hosts}
    path.write_text(json.dumps({**trial, **more, "protocol": "http", "client": "http"}))
    for path in (folder / "clients").glob("*.jsonl"):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        for event in events:
            if event["event"] == "end":
                event["bytes_app"] = event["bytes_client"] = READ // 4
                event["work"] = {
                    "processes": 2, "files": 1, "fetches": 100, "failed": 0, "cut": 2, "failures": {},
                    "bytes_once": FILE, "latency_s": dict.fromkeys(("p50", "p95", "p99", "max"), 0.1),
                    "latency_classes": {"581": 100},
                    "first_begin_wall_ns": 0, "last_begin_wall_ns": 0,
                }  # fmt: skip
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return folder


def of_proxies(folder: Path) -> list[Evidence]:
    data = read_trial(folder)
    rules = (
        cache_rules.proxies_apart, cache_rules.origin_apart, cache_rules.hits_apart, cache_rules.proxies_not_compared
    )  # fmt: skip
    return [finding for finding in evidence(data, trial_row(data)) if finding.rule in rules]


def told(folder: Path, **changes: float) -> dict[str, float]:
    """What the rules see of a proxy with a hit for nine requests of ten, changed so."""
    squid = {"requests": 400, "hits": 360, "sent": READ + 8 * FILE / 2, "fetched": FETCHED, "origin": 1.03 * FETCHED}
    squid |= changes
    counters(
        folder / "samples/dgt.fiu.test.samples",
        {
            "squid_requests": squid["requests"], "squid_hits": squid["hits"],
            "squid_sent_kb": squid["sent"] / 1024, "squid_fetched_kb": squid["fetched"] / 1024,
        },
        role="gateway",
    )  # fmt: skip
    counters(folder / "samples/vmuf.uf.test.samples", {"tx_bytes": squid["origin"]}, role="door")
    return {finding.rule.name: finding.value for finding in of_proxies(folder)}


def test_a_sound_proxy_agrees_with_its_clients_and_the_origin(folder: Path) -> None:
    assert max(told(folder).values()) < 1


@pytest.mark.parametrize(
    ("changes", "rule", "more_than"),
    [
        ({"sent": 0.7 * READ}, "proxies apart", 10),  # a third of the clients went past it
        ({"sent": 1.5 * READ}, "proxies apart", 10),  # somebody else fetches through it
        ({"origin": FETCHED + 0.3 * READ}, "origin apart", 10),  # and that third was served by the origin
        ({"fetched": 0.5 * READ, "hits": 360}, "hits apart", 20),
        ({"fetched": 0.5 * READ}, "origin apart", 10),  # which sent less than what it says
    ],
)
def test_what_does_not_agree_is_seen(folder: Path, changes: dict[str, float], rule: str, more_than: float) -> None:
    assert told(folder, **changes)[rule] > more_than


def test_a_trial_whose_clients_went_past_the_proxy_is_invalid(folder: Path) -> None:
    told(folder, sent=0.5 * READ, origin=FETCHED + 0.5 * READ)
    row = trial_tables(folder)
    assert row.verdict == "INVALID"
    assert "the proxy says that it sent 100.00 MB of 200.00 MB that the clients read" in row["verdict_reasons"]


def test_a_proxy_that_nobody_asked_is_told(folder: Path) -> None:
    counters(folder / "samples/dgt.fiu.test.samples", {"squid_requests": 0}, role="gateway")
    assert {finding.rule.name for finding in of_proxies(folder)} == {"proxies not compared"}
