"""What the history says of a nightly: what has changed, its health, and what monitoring systems see of it."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tierbench import files
from tierbench.checked_text import printable
from tierbench.errors import ConfigError, TierbenchError
from tierbench.json_files import Damaged
from tierbench.postprocess.history import alarms, database
from tierbench.postprocess.history.alarms import Finding, Watch
from tierbench.postprocess.history.changepoints import Rule, no_change
from tierbench.postprocess.history.database import Chronicle, History, doubt_of_place
from tierbench.postprocess.history.rows import FAILED, MISSED, Acknowledgement, Value
from tierbench.postprocess.history.rows import Night as NightRow
from tierbench.submit.nightly import record
from tierbench.submit.nightly.record import Change, Night, Nightly, duration

CRITICAL_RATIO = 0.75  # of what an access method had
UNMEASURED = {"failed": FAILED, "missed": MISSED, "still-running": MISSED}
STATUS = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}
VERDICTS = ("VALID", "SUSPECT", "INVALID")
PREFIX = "tierbench_nightly"
ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
IN_A_LABEL = str.maketrans({"'": "", "=": ":", "|": "/"})  # which may hold anything but what ends it


def record_in_history(nightly: Nightly, night: Night, measured: list[Path]) -> None:
    """Put a night into the history, with its runs; and all on record that it does not have, as after it was lost."""
    from tierbench.postprocess.history.runs import night_of  # which loads much

    with History(_place(nightly)) as history:
        for run in measured:
            history.record(*night_of(run, say=nightly.say))
        there = {each.directory for each in database.nights(history, nightly.name)}
        for each in [*record.nights(nightly), night]:
            runs = record.run_directories(record.folder(nightly, each))
            for run in runs if each.outcome != "running" else ():
                if str(run.resolve()) not in there:
                    try:
                        history.record(*night_of(run, say=nightly.say))
                    except (ConfigError, Damaged) as error:  # of an old night, which is no news in each message
                        nightly.say(f"left out: {error}")
            if each.outcome in UNMEASURED and not runs:
                planned = int(each.planned_wall_s * 1e9)
                history.record(NightRow(nightly.name, planned, UNMEASURED[each.outcome], reason=each.reason))


def _place(nightly: Nightly) -> Path:
    """Where its history is, whoever asks: a monitoring system is another user, with a home of its own."""
    return Path(nightly.terms.history or database.default_place())


def watch_of(nightly: Nightly) -> Watch:
    return Watch(Rule(size=nightly.terms.size_pct / 100), nightly.terms.floors)


def suspected(nightly: Nightly) -> list[str]:
    """The configurations that only the last night says have changed; "" stands for all of them."""
    return [finding.configuration for finding in _findings(nightly) if not finding.certain]


def changes(nightly: Nightly) -> list[Change]:
    """What has changed for certain, and is so still."""
    findings = [finding for finding in _findings(nightly) if finding.certain]
    chronicle = _chronicle(nightly) if findings else None  # with all that was otherwise in those nights
    if chronicle is None:
        return []
    from tierbench.postprocess.history.sentences import sentence  # which loads much, and mostly nothing has changed

    watch, changed = watch_of(nightly), []
    for own in findings:
        ratio, latest = 0.0 if math.isnan(own.ratio[0]) else own.ratio[0], own.latest or own.since
        what = own.direction, own.configuration, own.since.planned_ns, _level(own, watch), ratio
        at_ns = max((ack.at_ns for ack in chronicle.acknowledgements_of(own.configuration)), default=0)
        changed.append(Change(*what, sentence(own, chronicle), latest.planned_ns, own.acknowledged, at_ns))
    return changed


def _findings(nightly: Nightly) -> list[Finding]:
    chronicle = _chronicle(nightly, watched=True)
    return alarms.findings(chronicle, watch_of(nightly)) if chronicle else []


def _level(finding: Finding, watch: Watch) -> str:
    """What is better is reported, and is no alarm; what has a floor and measures nothing is below it."""
    if finding.direction == "better":
        return "OK"
    below = finding.kind == "floor" or (finding.kind == "lost" and finding.configuration in watch.floors)
    return "CRITICAL" if below or finding.ratio[0] < CRITICAL_RATIO else "WARNING"


def _chronicle(nightly: Nightly, watched: bool = False) -> Chronicle | None:
    """What the history has of a nightly, once it has measured anything."""
    place, chronicle = _place(nightly), None
    if not _is_absent(place):
        with History(place) as history:
            if nightly.name in database.nightlies(history):
                chronicle = database.chronicle(history, nightly.name, watched)
    newest_ns = chronicle.nights[-1].planned_ns if chronicle else 0
    for night in record.newest_first(nightly):
        if int(night.planned_wall_s * 1e9) <= newest_ns:
            break
        if night.outcome == "measured" and night.deliveries:  # all that a night does is done
            why = f"lacks the night of {nightly.label(night)}: the next one records it again"
            if not chronicle:
                why = "has none of its nights: the next one records them again, but not what was acknowledged"
            raise TierbenchError(f"{place} {why}")
    return chronicle if chronicle and chronicle.measured else None


def _is_absent(place: Path) -> bool:
    """Whoever looks makes no history: its owner could not write to one of root's."""
    try:
        place.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)  # all else is explained by opening it
    return False


def _no_change(nightly: Nightly) -> str:
    chronicle = _chronicle(nightly, watched=True)
    return no_change(chronicle.count, alarms.few_nights(chronicle)) if chronicle else no_change(0, ())


def acknowledge(nightly: Nightly, change: Change, by: str, note: str, accepted: bool) -> None:
    """A change is reported no more; if it was accepted, the baseline begins anew with its present level."""
    with History(_place(nightly)) as history:
        of = nightly.name, change.configuration, max(change.since_ns, change.latest_ns)
        history.acknowledge(Acknowledgement(*of, by, time.time_ns(), note, accepted))


def rates(nightly: Nightly) -> tuple[str, list[Value]]:
    """What the last night measured, and its unit; nothing where the history cannot be read."""
    try:
        chronicle = _chronicle(nightly, watched=True)
    except TierbenchError:
        return "", []
    latest = chronicle and chronicle.latest
    ended = next((night for night in record.newest_first(nightly) if night.outcome != "running"), None)
    if ended and ended.outcome in UNMEASURED:  # the numbers are of an earlier night
        return "", []
    return (latest.unit, chronicle.values.get(latest.id, [])) if chronicle and latest else ("", [])


class Health:
    """A state of a nightly, why, and the nights that it follows from."""

    def __init__(self, nightly: Nightly, changes: list[Change], now: datetime) -> None:
        """What silence, failures and changes come to; an unmeasured night is no alarm until the silence is too long."""
        ended = (night for night in record.newest_first(nightly) if night.outcome != "running")
        self.latest = self.measured = next(ended, None)
        self.unmeasured = 0  # nights without a number since the last that was measured
        while self.measured and self.measured.outcome != "measured":
            self.unmeasured += 1
            self.measured = next(ended, None)
        self.ended_wall_s = (self.measured.ended_wall_s if self.measured else None) or 0.0
        self.state, self.summary = self._state(nightly, changes, now)
        if nightly.terms.history and (doubt := doubt_of_place(Path(nightly.terms.history))):
            self.summary += f"; {doubt}"
        self.age_s = now.timestamp() - self.ended_wall_s
        self.counts = {verdict: (self.latest.counts if self.latest else {}).get(verdict, 0) for verdict in VERDICTS}

    @property
    def status(self) -> int:
        return STATUS[self.state]

    def _state(self, nightly: Nightly, changes: list[Change], now: datetime) -> tuple[str, str]:
        measured, failed = self.measured, self.latest if self.latest is not self.measured else None
        patience = nightly.calendar.patience
        silence = timedelta(seconds=now.timestamp() - max(nightly.terms.since_wall_s, self.ended_wall_s))
        if nightly.terms.paused:
            return "UNKNOWN", "paused"
        if silence > patience:
            why = f"; the night of {nightly.label(failed)}: {failed.outcome}: {failed.reason}" if failed else ""
            lasts, limit = duration(silence.total_seconds()), duration(patience.total_seconds())
            return "CRITICAL", f"no result for {lasts}, more than {limit}{why}"
        alarms = [change for change in changes if change.alarming]
        if alarms:
            state = "CRITICAL" if any(change.level == "CRITICAL" for change in alarms) else "WARNING"
            return state, "; ".join(change.sentence for change in alarms)
        if failed:
            return (
                "UNKNOWN",
                f"nothing was measured in the night of {nightly.label(failed)} ({failed.outcome}): {failed.reason}",
            )
        if measured is None:
            return "UNKNOWN", f"no night yet; {nightly.calendar}"
        if measured.undelivered:
            lost = ", ".join(f"{to} {how}" for to, how in measured.undelivered.items())
            return "WARNING", f"the message of the night of {nightly.label(measured)} was not delivered: {lost}"
        if measured.reason:
            return "WARNING", f"the night of {nightly.label(measured)} is not whole: {measured.reason}"
        summary = f"{len(changes)} changes, of which none is an alarm" if changes else _no_change(nightly)
        return "OK", f"{summary}; last measured {nightly.label(measured)}"


def plugin_line(nightly: Nightly, health: Health) -> str:
    """STATE - summary | 'label'=value;warning;critical ... by the guidelines of monitoring-plugins."""
    summary = printable(" ".join(health.summary.replace("|", "/").split()))
    unit, values = rates(nightly)
    patience = nightly.calendar.patience.total_seconds()
    data = [f"age={health.age_s:.0f}s;;{patience:.0f};0"] if health.measured else []
    data += [f"unmeasured={health.unmeasured};;;0"]
    data += [f"{verdict.lower()}={count};;;0" for verdict, count in health.counts.items()]
    labels = [printable(f"{value.configuration} {unit}".strip()).translate(IN_A_LABEL) for value in values]
    data += [f"'{label}'={value.mean:.4g};;;0" for label, value in zip(labels, values, strict=True)]
    return f"TIERBENCH {health.state} - {nightly.name}: {summary} | {' '.join(data)}"


def write_textfile(nightly: Nightly, changes: list[Change]) -> None:
    """Write the file, if one was asked for and nights are expected, readable by whoever collects it."""
    if nightly.terms.textfile and not nightly.terms.paused:
        text = "".join(f"{line}\n" for line in _metrics(nightly, changes))
        with files.replacing(_textfile(nightly)) as file:  # the collector passes over the unfinished one
            file.write(text.encode())
            os.fchmod(file.fileno(), 0o644)


def drop_textfile(nightly: Nightly) -> None:
    """Of a nightly that is paused or removed: its age would be an alarm."""
    if nightly.terms.textfile:
        _textfile(nightly).unlink(missing_ok=True)


def _textfile(nightly: Nightly) -> Path:
    return Path(nightly.terms.textfile) / f"{PREFIX}_{nightly.name}.prom"


def _metrics(nightly: Nightly, changes: list[Change]) -> Iterator[str]:
    of, health = {"nightly": nightly.name, "site": nightly.terms.site}, Health(nightly, changes, datetime.now(UTC))
    success = "When the last night ended that measured something, or nights were set up or resumed."
    for name, meaning, value in (
        ("last_success_timestamp_seconds", success, max(health.ended_wall_s, nightly.terms.since_wall_s)),
        ("patience_seconds", "How old that may become.", nightly.calendar.patience.total_seconds()),
        ("state", "0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN, at the end of the last night or at `ack`.", health.status),
        ("unmeasured_nights", "Nights without a number since then.", health.unmeasured),
        ("changes", "Changes that nobody has acknowledged.", sum(change.alarming for change in changes)),
    ):
        yield from _gauge(name, meaning, [(of, value)])
    verdicts = [({**of, "verdict": verdict}, count) for verdict, count in health.counts.items()]
    yield from _gauge("trials", "Trials of the last night by their verdicts.", verdicts)
    unit, measured = rates(nightly)
    if measured:
        values = [({**of, "configuration": value.configuration, "unit": unit}, value.mean) for value in measured]
        yield from _gauge("value", "What the last night measured, the mean of its VALID trials.", values)


def _gauge(name: str, meaning: str, values: Sequence[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {meaning}"
    yield f"# TYPE {PREFIX}_{name} gauge"
    for labels, value in values:
        inside = ",".join(f'{label}="{text.translate(ESCAPED)}"' for label, text in labels.items())
        yield f"{PREFIX}_{name}{{{inside}}} {float(value)!r}"
