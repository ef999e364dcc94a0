"""When nights are due, in the two nights of the year in which the clock changes and in all others."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tierbench.errors import ConfigError
from tierbench.submit.nightly.schedule import parse_calendar

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTLY = parse_calendar("02:30", "")


def due(at, after, until, days=""):
    """By the clock on the wall, with its distance from UTC."""
    first, last = (datetime.fromisoformat(text).replace(tzinfo=BERLIN) for text in (after, until))
    return [f"{one.astimezone(BERLIN):%a %d %H:%M%z}" for one in parse_calendar(at, days).due(first, last, BERLIN)]


def test_a_time_that_the_clock_leaps_over_comes_an_hour_later_and_one_that_comes_twice_is_one_night():
    expected = ["Sat 28 02:30+0100", "Sun 29 03:30+0200", "Mon 30 02:30+0200"]
    assert due("02:30", "2026-03-27T12:00", "2026-03-30T12:00") == expected
    expected = ["Sat 24 02:30+0200", "Sun 25 02:30+0200", "Mon 26 02:30+0100"]
    assert due("02:30", "2026-10-23T12:00", "2026-10-26T12:00") == expected


def test_days_of_the_week_which_htcondor_is_told_as_cron_counts_them():
    assert due("23:00", "2026-11-20T00:00", "2026-11-27T00:00", "fri,mon") == ["Fri 20 23:00+0100", "Mon 23 23:00+0100"]
    crontab = parse_calendar("02:05", "sun,mon").crontab
    assert crontab == {"cron_minute": "5", "cron_hour": "2", "cron_day_of_week": "1,0"}


@pytest.mark.parametrize(
    ("started", "night"),
    [
        ("2026-10-25T00:30:05", "2026-10-25T00:30"),  # 2:30 comes twice
        ("2026-10-25T01:30:05", "2026-10-25T00:30"),
        *((f"2026-03-29T{time}:02", "2026-03-29T01:30") for time in ("00:30", "01:00", "01:30")),  # 2:30 never comes
        ("2026-06-02T18:00:00", "2026-06-02T00:30"),  # a late one means the night before
    ],
)
def test_whenever_a_scheduler_starts_a_night_it_is_clear_which_one_it_means(started, night):
    started, night = (datetime.fromisoformat(f"{time}+00:00") for time in (started, night))
    assert NIGHTLY.meant(started, BERLIN) == night


def test_silence_becomes_an_alarm_after_26_hours_or_after_the_longest_gap_of_the_week():
    assert NIGHTLY.patience == timedelta(hours=26)
    assert parse_calendar("02:30", "mon,tue,wed,thu,fri").patience == timedelta(days=3, hours=2)
    assert parse_calendar("02:30", "sun").patience == timedelta(days=7, hours=2)


@pytest.mark.parametrize(
    "at,days",
    [("2.30", ""), ("25:00", ""), ("02:30", "sunday"), ("*/7", ""), ("*/\N{SUPERSCRIPT TWO}", ""), ("*/5", "mon")],
)
def test_what_is_no_time_or_day_is_refused(at, days):
    with pytest.raises(ConfigError, match=r"--(at|days)"):
        parse_calendar(at, days)


@pytest.mark.parametrize("at", ["02:30Z", "02:30+05:00", "02:30:45"])
def test_what_would_be_passed_over_of_a_time_is_refused_when_it_is_asked_for(at):
    with pytest.raises(ConfigError, match=r"--at .* as 02:30"):
        parse_calendar(at, "", strict=True)
    assert parse_calendar(at, "") == NIGHTLY  # of one that was added before, which goes on


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
@pytest.mark.parametrize("at,days", [("02:30", ""), ("23:05", "mon,wed,sun"), ("*/5", "")])
def test_systemd_finds_the_same_next_night(at, days):
    base = datetime(2026, 6, 2, 23, 30, tzinfo=UTC)
    mine = next(parse_calendar(at, days).due(base, base + timedelta(days=9), UTC))
    ask = ["systemd-analyze", "calendar", "--base-time", f"{base:%Y-%m-%d %H:%M:%S} UTC"]
    utc = {"TZ": "UTC", "PATH": "/usr/bin:/bin", "SYSTEMD_COLORS": "0"}
    report = subprocess.run(
        [*ask, parse_calendar(at, days).on_calendar], capture_output=True, text=True, check=True, env=utc
    ).stdout
    assert f"Next elapse: {mine:%a %Y-%m-%d %H:%M:%S} UTC" in report
