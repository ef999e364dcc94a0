"""Chronicles of known truth, for tests of what has changed: no run directories, rows alone."""

import numpy as np

from tierbench.postprocess.compare.differences import Link
from tierbench.postprocess.history.database import Chronicle
from tierbench.postprocess.history.rows import MEASURED, MISSED, Night, Value, Verdicts

DAY_NS = 86_400 * 10**9
FIRST_NS = 20_600 * DAY_NS
CONTROL = "direct/root \N{MULTIPLICATION SIGN}8"
LAN = "lan-xrootd/root \N{MULTIPLICATION SIGN}8"
WAN = "wan-xrootd-public/root \N{MULTIPLICATION SIGN}8"
RATES = {CONTROL: 170.0, LAN: 150.0, WAN: 180.0}


def chronicle_of(
    nights=60, *, seed=1, noise=0.01, factors=None, missed=(), environment=None, reruns=(), control=CONTROL, acks=()
):
    """Nights whose rates are noise times what `factors` (by configuration, or "" for all) say of each night."""
    chance = np.random.default_rng(seed)
    rows, values, verdicts, environments = [], {}, {}, {}
    plan = [(number, False) for number in range(nights)] + [(number, True) for number in reruns]
    for place, (number, rerun) in enumerate(sorted(plan)):
        planned = FIRST_NS + number * DAY_NS
        if number in missed:
            rows.append(Night("n", planned, MISSED, reason="the machine was off", id=place + 1))
            continue
        settings = {("dgt.fiu.test", "kernel"): "6.1", **(environment(number) if environment else {})}
        digest = str(sorted(settings.items()))
        environments[digest] = settings
        night = Night(
            "n", planned, MEASURED, run=f"r{place}", rerun=rerun, control=control, metric="delivered_mbps",
            unit="Mb/s", environment=digest, id=place + 1,
        )  # fmt: skip
        rows.append(night)
        factor = {name: (factors or {}).get(name, lambda _: 1.0)(number) for name in ("", *RATES)}
        noisy = {name: RATES[name] * factor[""] * factor[name] * np.exp(chance.normal(0, noise)) for name in RATES}
        values[night.id] = [Value(name, night.metric, rate, None, None, 3) for name, rate in noisy.items()]
        verdicts[night.id] = [Verdicts(name, 3, 0, 0) for name in RATES]
    links = {row.id: [Link("pool public", 190.0, 14.2)] for row in rows}
    return Chronicle("n", rows, values, verdicts, links, environments, list(acks))


def slower_from(night, share):
    return lambda number: 1 - share if number >= night else 1.0
