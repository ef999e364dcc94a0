"""When nights are due: times of day by this machine's clock, whatever summer time does to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tierbench.definitions import unknown
from tierbench.errors import ConfigError

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
        """From one night to the next."""
        if self.every_min is not None:
            return timedelta(minutes=self.every_min)
        following = [*self.days[1:], self.days[0] + 7]
        return max(later - day for day, later in zip(self.days, following, strict=True)) * DAY

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
        """As systemd's OnCalendar."""
        if self.every_min is not None:
            return f"*:0/{self.every_min}"
        days = "" if len(self.days) == len(DAYS) else ",".join(DAYS[day].capitalize() for day in self.days) + " "
        return f"{days}*-*-* {self.hour:02d}:{self.minute:02d}:00"

    def __str__(self) -> str:
        if self.every_min is not None:
            return f"every {self.every_min} min"
        days = "every day" if len(self.days) == len(DAYS) else " ".join(DAYS[day] for day in self.days)
        return f"{self.hour:02d}:{self.minute:02d} {days}"


def asked_calendar(at: str, days: str) -> Calendar:
    """From the command line, of which nothing is passed over in silence."""
    asked = calendar(at, days)
    if asked.every_min is None:
        when = time.fromisoformat(at)
        if when.tzinfo:
            raise ConfigError(f"--at {at}: is by this machine's clock, so without a zone, as {when:%H:%M}")
        if when.second or when.microsecond:
            raise ConfigError(f"--at {at}: must be a whole minute, as {when:%H:%M}")
    return asked


def calendar(at: str, days: str) -> Calendar:
    """As asked for: a time of day or "*/MINUTES", and days of the week or nothing."""
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
    chosen = [day.strip().lower() for day in days.split(",")] if days else list(DAYS)
    for day in chosen:
        if day not in DAYS:
            raise ConfigError(unknown("--days", day, DAYS))
    return Calendar(when.hour, when.minute, tuple(sorted({DAYS.index(day) for day in chosen})))


def here() -> tzinfo:
    """This machine's time zone, with its past and future changes."""
    named = os.environ.get("TZ", "").lstrip(":")
    local = Path("/etc/localtime")
    linked = str(local.resolve()).partition("zoneinfo/")[2]
    for name in (named, linked):
        try:
            if name:
                return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            continue
    if local.is_file():
        with local.open("rb") as file:
            return ZoneInfo.from_file(file)
    return UTC
