"""What becomes of nights: each is one record and at most one message, whatever has gone wrong; gaps are told, too."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import htcondor2
import pytest

from tests.unit.nights_of_chronicle import LAN, chronicle_of, slower_from
from tests.unit.synthetic_report import Shape, write_run
from tierbench.dags import names
from tierbench.errors import BusyError
from tierbench.postprocess.history.mark import OfNight, leave
from tierbench.postprocess.history.queries import chronicle, messages
from tierbench.postprocess.history.rows import Measured
from tierbench.postprocess.history.store import History
from tierbench.submit import cli, pool
from tierbench.submit.cli import main
from tierbench.submit.nightly import books, message, opening, plugin, record, systemd, webhook
from tierbench.submit.nightly.changes import Change, Rate, changes, suspected
from tierbench.submit.nightly.definition import Nightly, Terms
from tierbench.submit.nightly.lock import alone
from tierbench.submit.nightly.record import Night
from tierbench.submit.nightly.standing import standing
from tierbench.submit.nightly.textfile import leave_textfile
from tierbench.submit.pool import PoolError

NOW = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)
LAST = datetime(2026, 6, 10, 2, 30, tzinfo=UTC)
SHAPE = Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, batches=(8,), samples=False)
SINCE_NS = round((LAST - timedelta(days=1)).timestamp() * 1e9)
WORSE = Change("worse", "WARNING", "Worse: lan-xrootd/root, 152 → 131 Mb/s (−14 %, −17…−11).", "lan", SINCE_NS)  # noqa: RUF001


LATE, LATE_WHY = "direct.root.x008.r1", ("SUSPECT", "the sampler was late")


def silent(_: str) -> None:
    pass


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TIERBENCH_NIGHTS", str(tmp_path / "nights"))
    monkeypatch.setenv("TIERBENCH_HISTORY", str(tmp_path / "history.sqlite"))
    monkeypatch.setattr(message, "PATIENCE_S", 0.5)
    monkeypatch.setattr(books, "_make_report", lambda _: None)  # which takes many seconds, and is tested elsewhere


Define = Callable[..., Nightly]


@pytest.fixture
def define(tmp_path: Path) -> Define:
    """A nightly of two days ago, at 02:30 unless told otherwise."""

    def made(since: datetime = NOW - timedelta(days=2), **terms: object) -> Nightly:
        nightly = Nightly(tmp_path / "nights" / "quick")
        nightly.directory.mkdir(parents=True)
        asked = {"site": "testbed", "at": "02:30", "days": "", "by": "condor", "control": "", **terms}
        nightly.change(Terms(**asked, since_wall_s=since.timestamp()))  # type: ignore[arg-type]
        return nightly

    return made


def measured(nightly: Nightly, planned: datetime = LAST, run: bool = True, **changes: object) -> Night:
    """A night that has ended well, and of which nobody was told yet."""
    night = Night(planned.timestamp(), "measured", counts={"VALID": 6}, ended_wall_s=planned.timestamp() + 600)
    night = record.write(nightly, night.now(**changes))
    if run:
        directory = write_run(record.folder(nightly, night) / names.NIGHT_RUN, SHAPE)
        leave(directory, OfNight("quick", int(planned.timestamp() * 1e9)))
    return night


def close(nightly: Nightly, night: Night) -> Night:
    return books.close(nightly, record.folder(nightly, night), silent)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Change]:
    """What the history says has changed."""
    those: list[Change] = []
    monkeypatch.setattr(books, "changes", lambda _: those)
    return those


# -- receivers ---------------------------------------------------------------------------------------------


class Receiver(HTTPServer):
    """A webhook's end, which keeps what was posted there."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Posted)
        self.bodies: list[dict[str, object]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class _Posted(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def silence() -> Iterator[str]:
    """A webhook that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


@pytest.fixture
def smtp(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A mail server that HTCondor's configuration names, and the lines that were said to it."""
    lines: list[str] = []

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb", buffering=0) as file:
            file.write(b"220 sink\r\n")
            content = False
            for line in file:
                lines.append(line.decode().rstrip())
                verb = "" if content else lines[-1].upper()
                content = verb == "DATA" or (content and lines[-1] != ".")
                if not content or verb == "DATA":
                    file.write({"DATA": b"354 go on\r\n", "QUIT": b"221 bye\r\n"}.get(verb, b"250 ok\r\n"))
                if verb == "QUIT":
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        for setting, value in (
            ("SENDMAIL", "/nowhere"),
            ("MAIL", "/nowhere"),
            ("SMTP_SERVER", f"127.0.0.1:{server.getsockname()[1]}"),
        ):
            monkeypatch.setenv(f"_CONDOR_{setting}", value)
        monkeypatch.setenv("CONDOR_CONFIG", "ONLY_ENV")
        htcondor2.reload_config()
        yield lines
        thread.join(5)


# -- nights, gaps, and one at a time -------------------------------------------------------------------------


def test_nights_that_nothing_began_are_on_record_as_missed_once(define: Define) -> None:
    nightly = define()
    new = opening.take_note(nightly, NOW)
    assert [(night.called, night.outcome) for night in new] == [
        ("2026-06-09 02:30", "missed"),
        ("2026-06-10 02:30", "missed"),
    ]
    assert opening.take_note(nightly, NOW) == []


def test_a_gap_is_in_the_history_as_soon_as_a_night_is_measured(define: Define) -> None:
    nightly = define()
    opening.take_note(nightly, LAST)
    close(nightly, measured(nightly))
    with History() as history:
        assert [night.outcome for night in chronicle(history, "quick").nights] == ["missed", "measured"]


def test_no_night_is_expected_while_it_is_paused(define: Define) -> None:
    assert opening.take_note(define(paused=True), NOW) == []


def test_a_night_begins_once_though_the_scheduler_means_it_twice(
    define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly = define(patience_s=0.0)
    monkeypatch.setattr(opening, "prepared", _fails("the storage cannot be reached"))
    began = [opening.begin(nightly, False, silent) for _ in range(2)]
    assert [night and night.outcome for night in began] == ["failed", None]
    assert len([night for night in record.nights(nightly) if night.outcome == "failed"]) == 1


def test_two_begin_nights_in_turn_and_who_dies_keeps_no_lock(define: Define) -> None:
    nightly = define()
    held = subprocess.Popen(
        ["flock", str(nightly.directory / names.NIGHTLY_LOCK), "sh", "-c", "echo held; exec sleep 60"],
        stdout=subprocess.PIPE,
    )
    assert held.stdout and held.stdout.readline() == b"held\n"
    with pytest.raises(BusyError), alone(nightly, patience_s=0):
        pass
    subprocess.run(["pkill", "-KILL", "-P", str(held.pid)], check=True)  # what it started, by its parent
    held.wait()
    held.stdout.close()
    with alone(nightly, patience_s=60):
        pass


def test_the_night_before_still_at_work_is_a_record_and_no_second_night(
    define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly = define()
    record.write(nightly, Night((LAST - timedelta(days=1)).timestamp(), "running", cluster=7))
    monkeypatch.setattr(pool, "in_queue", lambda cluster: cluster == 7)
    night = opening.begin(nightly, False, silent)
    assert night and night.outcome == "still-running"
    assert "still at work, as job 7" in night.sentences[0]


@pytest.mark.parametrize(
    ("site", "cluster", "queued", "outcome"),
    [
        ("testbed", 7, True, "failed"),  # at work
        ("testbed", 7, False, "running"),  # died
        ("testbed", None, False, "running"),  # died as it began
        ("elsewhere", 7, True, "running"),
    ],
)
def test_no_night_begins_while_another_nightly_measures_at_its_site(
    define: Define, monkeypatch: pytest.MonkeyPatch, site: str, cluster: int | None, queued: bool, outcome: str
) -> None:
    nightly = define(patience_s=0.0)
    other = Nightly(nightly.directory.with_name("other"))
    other.directory.mkdir()
    other.change(dataclasses.replace(nightly.terms, site=site))
    record.write(other, Night(LAST.timestamp(), "running", cluster=cluster))
    monkeypatch.setattr(pool, "in_queue", lambda _: queued)
    monkeypatch.setattr(opening, "prepared", lambda *_: None)
    monkeypatch.setattr(opening, "_submitted", lambda *_: 8)
    night = opening.begin(nightly, False, silent)
    assert night and night.outcome == outcome
    assert outcome == "running" or "the nightly other measures at the same site" in night.reason


def test_a_beginning_that_hangs_is_a_record_of_the_next_night(define: Define, monkeypatch: pytest.MonkeyPatch) -> None:
    nightly = define()
    monkeypatch.setattr(alone.__wrapped__, "__defaults__", (0.0,))  # type: ignore[attr-defined]
    with alone(nightly):
        night = opening.begin(nightly, False, silent)
    assert night and night.outcome == "still-running"
    assert "another `tierbench nightly`" in night.sentences[0]


def test_who_looks_while_a_night_begins_does_not_take_it_for_dead(define: Define) -> None:
    nightly = define()
    night = record.write(nightly, Night(LAST.timestamp(), "running"))  # not submitted yet
    with alone(nightly):
        main(["nightly", "check", "quick"])
    assert record.read(record.folder(nightly, night)).outcome == "running"


def test_a_night_without_room_for_its_record_is_told_all_the_same(
    define: Define, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    nightly = define(webhook=receiver.url)
    monkeypatch.setattr(record, "write", _full)
    opening.begin(nightly, False, silent)
    assert "No space left on device" in str(receiver.bodies[0]["text"])


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_night_that_died_has_its_books_closed_by_whoever_looks_next(
    define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly = define()
    record.write(nightly, Night(LAST.timestamp(), "running", cluster=7))
    monkeypatch.setattr(pool, "in_queue", lambda _: False)
    assert opening.settle(nightly, silent) is None
    (night,) = record.nights(nightly)
    assert (night.outcome, night.reason.split(" before")[0]) == ("failed", "its DAG was gone from the queue")


def test_a_dag_that_stays_in_the_queue_when_its_night_is_over_is_removed(
    define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of DAGMan 23.9.6 does when the scheduler was killed while it was at work."""
    nightly = define()
    removed: list[int] = []
    monkeypatch.setattr(pool, "in_queue", lambda cluster: cluster not in removed)
    monkeypatch.setattr(pool, "forget", removed.append)
    measured(nightly, run=False, cluster=7, told={"nobody": ""})
    running = record.write(nightly, Night((LAST + timedelta(days=1)).timestamp(), "running", cluster=8))
    assert opening.settle(nightly, silent) == running
    assert removed == [7]


def test_a_pool_that_is_down_is_one_record_and_one_message(
    define: Define, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    nightly = define(webhook=receiver.url, patience_s=0.0)
    monkeypatch.setattr(opening, "prepared", _fails("cannot ask the pool for its slots: no collector"))
    opening.begin(nightly, False, silent)
    assert opening.begin(nightly, False, silent) is None
    (body,) = receiver.bodies
    assert body["state"] == "UNKNOWN"
    assert "cannot ask the pool for its slots" in str(body["text"])


def _fails(why: str) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise PoolError(why)

    return fail


def test_a_night_without_a_valid_trial_has_failed_for_the_reason_that_most_of_them_give(
    define: Define, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    nightly = define(webhook=receiver.url, since=LAST - timedelta(minutes=1))
    monkeypatch.setattr(books, "_make_tables", lambda *_: None)  # they are there
    night = record.write(nightly, Night(LAST.timestamp(), "running", cluster=7))
    why = "kinit: Client's credentials have been revoked"
    verdicts = {f"{way}.root.x008.r{n}": ("INVALID", why) for way in SHAPE.rates for n in (1, 2, 3)}
    run = write_run(
        record.folder(nightly, night) / names.NIGHT_RUN,
        dataclasses.replace(SHAPE, verdicts={**verdicts, LATE: LATE_WHY}),
    )
    leave(run, OfNight("quick", int(LAST.timestamp() * 1e9)))
    night = close(nightly, night)
    assert (night.outcome, night.counts) == ("failed", {"INVALID": 5, "SUSPECT": 1})
    assert "site.json is damaged" in night.reason  # the synthetic run's, of which it is told beside
    assert why in night.reason
    (body,) = receiver.bodies
    assert (body["state"], why in str(body["text"])) == ("UNKNOWN", True)


def test_a_damaged_record_of_a_night_is_told_and_hides_no_other(define: Define) -> None:
    nightly = define()
    good, bad = measured(nightly, run=False), measured(nightly, LAST - timedelta(days=1), run=False)
    (record.folder(nightly, bad) / names.NIGHT_RECORD).write_text("{")
    first, last = record.nights(nightly)
    assert (first.planned, first.outcome, last) == (bad.planned, "failed", good)
    assert "damaged" in first.reason


# -- the history is not there --------------------------------------------------------------------------------


def test_a_damaged_history_is_told_of_once_and_the_night_is_kept(
    define: Define, receiver: Receiver, tmp_path: Path
) -> None:
    nightly = define(webhook=receiver.url)
    (tmp_path / "history.sqlite").write_bytes(b"this is no database" * 100)
    night = close(nightly, measured(nightly))
    assert (night.outcome, len(receiver.bodies)) == ("measured", 1)
    assert "history rebuild" in str(receiver.bodies[0]["text"])
    close(nightly, night)
    assert len(receiver.bodies) == 1


def test_a_locked_history_is_waited_for_and_then_told(
    define: Define, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly = define(webhook=receiver.url)
    History().database.close()
    monkeypatch.setattr(History.__init__, "__defaults__", (None, 0.1))
    other = sqlite3.connect(tmp_path / "history.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        night = close(nightly, measured(nightly))
    finally:
        other.close()
    assert night.outcome == "measured"
    assert "another program has been writing to it" in str(receiver.bodies[0]["text"])


# -- what the history says -----------------------------------------------------------------------------------


def feed(nights: int, slower_from_night: int) -> None:
    """Put nights into the history of which one way is slower from a night on."""
    known = chronicle_of(nights, factors={LAN: slower_from(slower_from_night, 0.15)})
    with History() as history:
        for night in known.nights:
            measured = Measured(tuple(known.values[night.id]), tuple(known.verdicts[night.id]))
            history.record(dataclasses.replace(night, nightly="quick"), measured)


def test_one_night_alone_is_suspected_and_no_alarm(define: Define) -> None:
    nightly = define()
    feed(11, slower_from_night=10)
    assert (suspected(nightly), changes(nightly)) == ([LAN], [])


def test_two_nights_are_an_alarm_until_it_is_acknowledged(define: Define) -> None:
    nightly = define()
    feed(12, slower_from_night=10)
    (change,) = changes(nightly)
    assert (change.direction, change.level, change.configuration) == ("worse", "WARNING", LAN)
    assert main(["nightly", "ack", "quick", "--note", "new disks"]) == 0
    assert [change.acknowledged for change in changes(nightly)] == [True]


# -- messages ------------------------------------------------------------------------------------------------


def test_nobody_is_told_of_a_night_in_which_nothing_has_changed(
    define: Define, receiver: Receiver, found: list[Change]
) -> None:
    nightly = define(webhook=receiver.url)
    night = close(nightly, measured(nightly))
    assert (found, receiver.bodies) == ([], [])
    assert night.told == {"nobody": "there was nothing to tell"}


def test_a_change_is_told_once_by_one_message_that_names_number_interval_and_report(
    define: Define, receiver: Receiver, smtp: list[str], found: list[Change]
) -> None:
    found.append(WORSE)
    nightly = define(webhook=receiver.url, mail="admin@site.example", since=LAST - timedelta(minutes=1))
    close(nightly, measured(nightly))
    (body,) = receiver.bodies
    assert (body["state"], body["sentences"]) == ("WARNING", [WORSE.sentence])
    assert Path(str(body["report"])).is_relative_to(nightly.directory)
    said = "\n".join(smtp)
    assert "rcpt TO:<admin@site.example>" in said
    assert "Subject: tierbench nightly quick: WARNING" in said.replace("\n ", " ") or "=?utf-8?" in said
    close(nightly, measured(nightly, LAST + timedelta(days=1)))
    assert len(receiver.bodies) == 1
    with History() as history:
        kept = [(one.channel, one.text, one.delivered) for one in messages(history, "quick")]
    assert kept == [("webhook 127.0.0.1", WORSE.sentence, True), ("admin@site.example", WORSE.sentence, True)]


def test_what_is_acknowledged_is_not_told(define: Define, receiver: Receiver, found: list[Change]) -> None:
    found.append(Change("worse", "WARNING", "Worse.", "lan", SINCE_NS, acknowledged=True))
    nightly = define(webhook=receiver.url)
    close(nightly, measured(nightly))
    assert receiver.bodies == []


def test_a_webhook_that_never_answers_is_given_up_and_told_of_by_the_next_message(
    define: Define, silence: str, receiver: Receiver, found: list[Change]
) -> None:
    found.append(WORSE)
    nightly = define(webhook=silence)
    night = close(nightly, measured(nightly))
    assert night.told == {"webhook 127.0.0.1": "timed out"}
    state = standing(nightly, [], LAST + timedelta(hours=1))
    assert (state.state, "not delivered" in state.summary) == ("WARNING", True)
    nightly.change(Terms(**{**vars(nightly.terms), "webhook": receiver.url}))
    close(nightly, measured(nightly, LAST + timedelta(days=1)))
    assert "did not reach" in str(receiver.bodies[0]["text"])
    assert WORSE.sentence in str(receiver.bodies[0]["text"])


def test_a_webhook_is_told_of_by_its_host_alone(
    define: Define, receiver: Receiver, found: list[Change], tmp_path: Path
) -> None:
    found.append(WORSE)
    nightly = define(webhook="127.0.0.1")
    webhook.keep(nightly, f"{receiver.url}/T000/secret")
    said: list[str] = []
    night = books.close(nightly, record.folder(nightly, measured(nightly)), said.append)
    assert (night.told, len(receiver.bodies)) == ({"webhook 127.0.0.1": "delivered"}, 1)
    assert "told webhook 127.0.0.1: delivered" in said
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and b"T000" in path.read_bytes()]
    assert holding == [nightly.directory / names.WEBHOOK]


def test_an_older_record_that_names_a_webhook_by_its_url_shows_its_host(define: Define) -> None:
    nightly = define()
    before = {"sentences": ["Worse."], "told": {"https://chat.example/T000/secret": "timed out"}}
    measured(nightly, run=False, **before)
    summary = standing(nightly, [], LAST + timedelta(hours=1)).summary
    next_night = Night((LAST + timedelta(days=1)).timestamp(), "measured")
    for text in (summary, message.Message.of(nightly, next_night, [], []).text):
        assert ("webhook chat.example" in text, "T000" in text) == (True, False)


@pytest.fixture
def babble() -> Iterator[str]:
    """A webhook that takes what is posted and answers something that is not HTTP."""

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            if connection.recv(65536):
                connection.sendall(b"220 welcome\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=serve, args=(server,))
        serving.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        socket.create_connection(server.getsockname()).close()  # if nobody else came
        serving.join()


@pytest.mark.parametrize("url", ["https://chat.example:port/hook", "http://chat.example/my hook", "http://[::1/", None])
def test_a_webhook_that_cannot_be_asked_keeps_neither_the_mail_nor_the_record_nor_the_text_file(
    define: Define, url: str | None, babble: str, smtp: list[str], found: list[Change], tmp_path: Path
) -> None:
    found.append(WORSE)
    nightly = define(webhook=url or babble, mail="admin@site.example", textfile=str(tmp_path))
    night = close(nightly, measured(nightly))
    how, mailed = night.told.values()
    assert (how != message.DELIVERED, mailed, "data" in smtp) == (True, message.DELIVERED, True)
    assert record.nights(nightly) == [night]
    assert (tmp_path / "tierbench_nightly_quick.prom").exists()
    assert standing(nightly, [], LAST + timedelta(hours=1)).state == "WARNING"


def test_a_configuration_of_htcondor_that_cannot_be_read_is_told_in_the_nights_record(
    define: Define, monkeypatch: pytest.MonkeyPatch, found: list[Change]
) -> None:
    found.append(WORSE)
    nightly = define(mail="admin@site.example")
    monkeypatch.setattr(pool, "setting", _fails("cannot read the setting MAIL_FROM"))
    night = close(nightly, measured(nightly))
    assert night.told == {"admin@site.example": "cannot read the setting MAIL_FROM"}
    assert record.nights(nightly) == [night]


def test_a_mailer_that_fails_is_told_in_the_nights_record(
    define: Define, monkeypatch: pytest.MonkeyPatch, found: list[Change]
) -> None:
    found.append(WORSE)
    monkeypatch.setenv("_CONDOR_SENDMAIL", "/bin/false")
    monkeypatch.setenv("CONDOR_CONFIG", "ONLY_ENV")
    htcondor2.reload_config()
    nightly = define(mail="admin@site.example")
    assert close(nightly, measured(nightly)).told == {"admin@site.example": "/bin/false ended with 1: "}


# -- monitoring ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "after,outcome,changes,expected",
    [
        (timedelta(hours=1), None, [], "OK"),
        (timedelta(hours=1), None, [WORSE], "WARNING"),
        (timedelta(hours=25), "failed", [], "UNKNOWN"),  # whatever failed, the numbers may be as good as ever
        (timedelta(hours=25), "missed", [], "UNKNOWN"),
        (timedelta(hours=27), None, [], "CRITICAL"),
        (timedelta(hours=27), "failed", [], "CRITICAL"),
    ],
)
def test_the_state(define: Define, after: timedelta, outcome: str | None, changes: list[Change], expected: str) -> None:
    nightly = define()
    measured(nightly, run=False, told={"nobody": ""})
    if outcome:
        night = Night((LAST + timedelta(days=1)).timestamp(), outcome, "all INVALID", counts={"INVALID": 6})
        record.write(nightly, night)
    assert standing(nightly, changes, LAST + timedelta(minutes=10) + after).state == expected


def test_a_nightly_that_has_never_measured_anything_is_critical_after_26_hours(define: Define) -> None:
    nightly = define(since=NOW - timedelta(hours=27))
    assert standing(nightly, [], NOW - timedelta(hours=2)).state == "UNKNOWN"
    assert standing(nightly, [], NOW).state == "CRITICAL"


def test_the_line_is_as_monitoring_plugins_want_it(define: Define) -> None:
    nightly = define()
    measured(nightly, run=False)
    rates = [Rate("it's a|way/root =1", 131.26, "Mb/s")]
    told = plugin.line(nightly, standing(nightly, [WORSE], LAST + timedelta(hours=1)), rates, LAST + timedelta(hours=1))
    text, _, data = told.partition(" | ")
    assert (told.count("\n"), told.count("|"), text.split(" - ")[0]) == (0, 1, "TIERBENCH WARNING")
    number = r"-?\d+(\.\d+)?"
    one = rf"('[^'=]+'|[^ '=]+)={number}(s|%|B|c)?(;({number})?){{0,4}}"
    assert re.fullmatch(rf"{one}( {one})*", data), data
    assert "age=3000s;;93600;0" in data


def test_check_says_one_line_and_unknown_whatever_is_wrong(define: Define, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nightly", "check", "nowhere"]) == 3
    nightly = define()
    (nightly.directory / names.NIGHTLY).write_text("{}")
    assert main(["nightly", "check", "quick"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" - ")[0] for line in lines] == ["TIERBENCH UNKNOWN"] * 2


def test_another_user_is_told_of_the_same_changes(
    define: Define, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    define(since=datetime.now(UTC), history=str(tmp_path / "history.sqlite"))
    feed(12, slower_from_night=10)
    monkeypatch.delenv("TIERBENCH_HISTORY")
    monkeypatch.setenv("HOME", str(tmp_path / "nagios"))
    assert main(["nightly", "check", "quick"]) == 1
    assert LAN in capsys.readouterr().out


def test_prometheus_reads_the_text_file(define: Define, tmp_path: Path) -> None:
    nightly = define(textfile=str(tmp_path))
    night = close(nightly, measured(nightly))
    leave_textfile(nightly, [WORSE])
    text = (tmp_path / "tierbench_nightly_quick.prom").read_text()
    at = f'tierbench_nightly_last_success_timestamp_seconds{{nightly="quick",site="testbed"}} {night.ended_wall_s!r}\n'
    assert at in text
    assert [path.name for path in tmp_path.glob(".*")] == []
    if shutil.which("promtool"):
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_systemd_accepts_the_units(define: Define, tmp_path: Path) -> None:
    nightly = define(by="systemd")
    nightly.starter.write_text("#!/bin/sh\n")
    nightly.starter.chmod(0o755)
    systemd.write(nightly, tmp_path / "units")
    units = [str(path) for path in (tmp_path / "units").iterdir()]
    told = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (told.returncode, [line for line in told.stderr.splitlines() if "tierbench" in line]) == (0, [])
    assert "Persistent=true" in (tmp_path / "units/tierbench-nightly-quick.timer").read_text()


def test_where_there_are_none_the_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["nightly", "list"]) == 0
    assert "`tierbench nightly add` sets one up" in capsys.readouterr().out
