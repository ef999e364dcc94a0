"""When nights are due by this machine's clock, and who starts them: HTCondor's crontab job or a systemd timer."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tierbench import names
from tierbench.errors import ConfigError, TierbenchError
from tierbench.spec import unknown_name
from tierbench.submit import pool

if TYPE_CHECKING:
    from tierbench.submit.nightly.record import Nightly

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = timedelta(days=1)
SUMMER_TIME = timedelta(minutes=70)  # a scheduler may be early by an hour in the night that summer time begins
LEAST_WINDOW = timedelta(minutes=1)


@dataclass(frozen=True)
class Calendar:
    """At a time of some days of the week, or every so many minutes of each hour."""

    hour: int = 2
    minute: int = 30
    days: tuple[int, ...] = tuple(range(7))  # 0 is Monday
    every_min: int | None = None

    def due(self, after: datetime, until: datetime, zone: tzinfo) -> Iterator[datetime]:
        """All times after the one and not after the other, in UTC; each day has its time once.

        A time that the clock leaps over is taken as if it did not, so an hour later by the new one; of a time
        that comes twice the first counts.
        """
        day = after.astimezone(zone).date() - DAY
        while day <= until.astimezone(zone).date():
            yield from (moment for moment in self._of(day, zone) if after < moment <= until)
            day += DAY

    def _of(self, day: date, zone: tzinfo) -> Iterator[datetime]:
        if self.every_min is not None:
            begin, end = (datetime.combine(each, time(), zone).astimezone(UTC) for each in (day, day + DAY))
            while begin < end:
                yield begin
                begin += timedelta(minutes=self.every_min)
        elif day.weekday() in self.days:
            yield datetime.combine(day, time(self.hour, self.minute), zone).astimezone(UTC)

    @property
    def longest_gap(self) -> timedelta:
        """From one night to the next, where that is longest."""
        if self.every_min is not None:
            return timedelta(minutes=self.every_min)
        following = [*self.days[1:], self.days[0] + 7]
        return max(later - day for day, later in zip(self.days, following, strict=True)) * DAY

    def until_next(self, planned: datetime, zone: tzinfo) -> timedelta:
        """From a night to the one after it."""
        return min(self.due(planned, planned + self.longest_gap + DAY, zone)) - planned

    @property
    def window(self) -> timedelta:
        """How late a night may begin: two hours, where they come daily."""
        return max(LEAST_WINDOW, min(self.longest_gap, DAY) / 12)

    @property
    def patience(self) -> timedelta:
        """After so long without a result something is wrong: 26 hours, where nights come daily."""
        return self.longest_gap + self.window

    def meant(self, now: datetime, zone: tzinfo) -> datetime | None:
        """The night that a scheduler means which starts one now; it may be a little early."""
        early = min(SUMMER_TIME, self.longest_gap / 4)
        return max(self.due(now - self.longest_gap - DAY, now + early, zone), default=None)

    @property
    def crontab(self) -> dict[str, str]:
        """As HTCondor's submit commands."""
        if self.every_min is not None:
            return {"cron_minute": f"*/{self.every_min}"}
        days = "*" if len(self.days) == len(DAYS) else ",".join(str((day + 1) % 7) for day in self.days)
        return {"cron_minute": str(self.minute), "cron_hour": str(self.hour), "cron_day_of_week": days}

    @property
    def on_calendar(self) -> str:
        if self.every_min is not None:
            return f"*:0/{self.every_min}"
        days = "" if len(self.days) == len(DAYS) else ",".join(DAYS[day].capitalize() for day in self.days) + " "
        return f"{days}*-*-* {self.hour:02d}:{self.minute:02d}:00"

    def __str__(self) -> str:
        if self.every_min is not None:
            return f"every {self.every_min} min"
        days = "every day" if len(self.days) == len(DAYS) else " ".join(DAYS[day] for day in self.days)
        return f"{self.hour:02d}:{self.minute:02d} {days}"


def parse_calendar(at: str, days: str, strict: bool = False) -> Calendar:
    """As asked for: a time of day or "*/MINUTES", and days of the week or nothing; earlier versions let a zone pass."""
    if at.startswith("*/"):
        step = at.removeprefix("*/")
        if not (step.isascii() and step.isdigit()) or int(step) == 0 or 60 % int(step):
            raise ConfigError(f"--at {at}: minutes must divide the hour, as in */5")
        if days:
            raise ConfigError("--days: is for a time of day, and not for every so many minutes")
        return Calendar(every_min=int(step))
    try:
        when = time.fromisoformat(at)
    except ValueError:
        raise ConfigError(f"--at {at}: must be a time of day, as 02:30, or */MINUTES to try things out") from None
    if strict and (when.tzinfo or when.second or when.microsecond):
        raise ConfigError(f"--at {at}: must be a whole minute by this machine's clock, without a zone, as {when:%H:%M}")
    chosen = [day.strip().lower() for day in days.split(",")] if days else list(DAYS)
    for day in chosen:
        if day not in DAYS:
            raise ConfigError(unknown_name("--days", day, DAYS))
    return Calendar(when.hour, when.minute, tuple(sorted({DAYS.index(day) for day in chosen})))


def local_zone(named: str = "") -> tzinfo:
    """This machine's time zone, with its past and future changes, or the one that is named."""
    local = Path("/etc/localtime")
    for name in (named, os.environ.get("TZ", "").lstrip(":"), str(local.resolve()).partition("zoneinfo/")[2]):
        with contextlib.suppress(ZoneInfoNotFoundError, ValueError):  # the latter of ""
            return ZoneInfo(name)
    if local.is_file():
        with local.open("rb") as file:
            return ZoneInfo.from_file(file)
    return UTC


BY_USER = 1  # HTCondor's code for "held by somebody"
RELEASED_S = 60  # after it was held for anything else
SYSTEMCTL_S = 30


class CondorCrontab:
    """A local job on the access point that stays in the queue, and starts each night."""

    def text(self, nightly: Nightly) -> str:
        """The submit file. The job is in HTCondor's queue, so it survives restarts of the scheduler and the machine."""
        crontab = "\n".join(f"{key:<17} = {value}" for key, value in nightly.calendar.crontab.items())
        return f"""\
# Starts the nights of {nightly.name}: {nightly.calendar}. `tierbench nightly add` submits it.
universe          = local
executable        = {nightly.starter}
arguments         = begin
initialdir        = {nightly.directory}
output            = {names.SCHEDULE}.out
error             = {names.SCHEDULE}.err
log               = {names.SCHEDULE}.log
on_exit_remove    = false
{crontab}
# Or a late one, as after a restart of the scheduler, would be held and never run again.
cron_window       = {nightly.calendar.window.total_seconds():.0f}
periodic_release  = HoldReasonCode =!= {BY_USER} && time() - EnteredCurrentStatus > {RELEASED_S}
My.TierbenchNightly = "{nightly.name}"
batch_name        = "tierbench nightly {nightly.name}"
queue
"""

    def start(self, nightly: Nightly) -> str:
        """Submit the job; what it is called."""
        text = self.text(nightly)
        (nightly.directory / f"{names.SCHEDULE}.sub").write_text(text, encoding="utf-8")
        return f"job {pool.submit(text)}"

    def change(self, nightly: Nightly, verb: str) -> None:
        action = {"pause": "Hold", "resume": "Release", "remove": "Remove"}[verb]
        pool.act(action, self._job(nightly), f"tierbench nightly {verb}")

    def problem(self, nightly: Nightly) -> str:
        """Why no night will start, or nothing."""
        jobs = pool.jobs(self._job(nightly), ["JobStatus", "HoldReason", "HoldReasonCode"])
        if not jobs:
            submit = f"condor_submit {nightly.directory}/{names.SCHEDULE}.sub"
            return f"its job is not in the queue; `{submit}` puts it there"
        if jobs[0].get("JobStatus") == 5 and not nightly.terms.paused:
            return f"its job is held: {jobs[0].get('HoldReason', '')}"
        return ""

    def _job(self, nightly: Nightly) -> str:
        folder = json.dumps(str(nightly.directory), ensure_ascii=False)  # a ClassAd's text escapes as JSON's
        return f'TierbenchNightly == "{nightly.name}" && Iwd == {folder}'


class SystemdTimer:
    """A service that starts a night and a timer for it, of this user or, for root, of the machine."""

    def units(self, nightly: Nightly) -> dict[str, str]:
        """Both units' texts by their file names."""
        directory = str(nightly.directory).replace("%", "%%")
        service = f"""\
[Unit]
Description=A night of tierbench nightly {nightly.name}

[Service]
Type=oneshot
WorkingDirectory={directory}
ExecStart=/bin/sh {names.NIGHTLY_STARTER} begin
"""
        timer = f"""\
[Unit]
Description=tierbench nightly {nightly.name}, {nightly.calendar}

[Timer]
OnCalendar={nightly.calendar.on_calendar}
# A night that the machine has slept through starts when it is up again.
Persistent=true
AccuracySec=1s

[Install]
WantedBy=timers.target
"""
        return {f"{self._unit(nightly)}.service": service, f"{self._unit(nightly)}.timer": timer}

    def start(self, nightly: Nightly) -> str:
        self._folder().mkdir(parents=True, exist_ok=True)
        for name, text in self.units(nightly).items():
            (self._folder() / name).write_text(text, encoding="utf-8")
        _systemctl("daemon-reload")
        self.change(nightly, "resume")
        lingers = "" if os.geteuid() == 0 else "; `loginctl enable-linger` keeps it when you log out"
        return f"timer {self._unit(nightly)}{lingers}"

    def change(self, nightly: Nightly, verb: str) -> None:
        _systemctl("enable" if verb == "resume" else "disable", "--now", f"{self._unit(nightly)}.timer")
        if verb == "remove":
            for name in self.units(nightly):
                (self._folder() / name).unlink(missing_ok=True)
            _systemctl("daemon-reload")

    def problem(self, nightly: Nightly) -> str:
        """Why no night will start, or nothing."""
        try:
            _systemctl("is-active", "--quiet", f"{self._unit(nightly)}.timer")
        except TierbenchError as error:
            return "" if nightly.terms.paused else f"its timer is not active: {error}"
        return ""

    def _unit(self, nightly: Nightly) -> str:
        return f"tierbench-nightly-{nightly.name}"

    def _folder(self) -> Path:
        """Where this user's units are."""
        if os.geteuid() == 0:
            return Path("/etc/systemd/system")
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"


def _systemctl(*words: str) -> None:
    command = ["systemctl", *(() if os.geteuid() == 0 else ("--user",)), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SYSTEMCTL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TierbenchError(f"{' '.join(command)}: {error}; --by condor needs no systemd") from None
    if done.returncode:
        raise TierbenchError(f"{' '.join(command)}: {done.stderr.strip() or f'exit status {done.returncode}'}")


SCHEDULERS: dict[str, CondorCrontab | SystemdTimer] = {"condor": CondorCrontab(), "systemd": SystemdTimer()}
