"""Who is told of a night, of what, and once: by mail and by webhook, whatever becomes of either."""

import contextlib
import dataclasses
import socket
import threading
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import htcondor2
import pytest

from tests.unit.submit.nightly.conftest import LAST, SINCE_NS, WORSE, close, measured
from tierbench import names
from tierbench.submit import pool
from tierbench.submit.nightly import messages, record, steps
from tierbench.submit.nightly.monitoring import Health
from tierbench.submit.pool import PoolError


@pytest.fixture(autouse=True)
def changes(monkeypatch):
    """What the history says has changed."""
    changes = [WORSE]
    monkeypatch.setattr(steps, "changes", lambda _: changes)
    return changes


@pytest.fixture
def silence():
    """A webhook that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


@contextmanager
def serving(handle):
    """A server on this machine that handles one connection; its address."""

    def serve(server):
        with contextlib.suppress(OSError):  # nobody came, or who did has gone
            connection, _ = server.accept()
            with connection:
                handle(connection)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def smtp(monkeypatch):
    """A mail server that HTCondor's configuration names, and the lines that were said to it."""
    lines = []

    def answer(connection):
        with connection.makefile("rwb", buffering=0) as file:
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

    with serving(answer) as address:
        configured(monkeypatch, SENDMAIL="/nowhere", MAIL="/nowhere", SMTP_SERVER=address)
        yield lines


def configured(monkeypatch, **settings):
    for setting, value in settings.items():
        monkeypatch.setenv(f"_CONDOR_{setting}", value)
    monkeypatch.setenv("CONDOR_CONFIG", "ONLY_ENV")
    htcondor2.reload_config()


@pytest.mark.parametrize(
    ("days", "words"),
    [(1, "The night of 2026-06-09 02:30 was"), (20, "The 20 nights from 2026-05-21 02:30 to 2026-06-09 02:30 were")],
)
def test_however_many_nights_were_missed_they_are_one_sentence(define, changes, days, words):
    changes.clear()
    nightly = define(since=LAST - timedelta(days=days, minutes=1))
    record.record_missed(nightly, LAST)
    before = measured(nightly, LAST - timedelta(days=days + 1))
    assert close(nightly, before).sentences == []  # who finishes it late says nothing of later nights
    (sentence,) = close(nightly, measured(nightly)).sentences
    assert sentence == f"{words} missed: nothing started it: were HTCondor or the machine down?"


@pytest.mark.parametrize("changed", [[], [dataclasses.replace(WORSE, acknowledged=True)]])
def test_nobody_gets_a_message_of_a_night_in_which_nothing_new_has_changed(define, receiver, changes, changed):
    changes[:] = changed
    nightly = define(webhook=receiver.url)
    night = close(nightly, measured(nightly))
    assert receiver.bodies == []
    assert night.deliveries == {"nobody": "there was nothing to tell"}


@pytest.mark.parametrize("changed", [[], [WORSE]])
def test_a_message_names_ack_where_there_is_something_to_acknowledge(define, changed):
    nightly = define()
    message = messages.Message.of(nightly, measured(nightly, run=False), changed, ["the history: is damaged"])
    assert ("nightly ack" in message.text) is bool(changed)


def test_a_change_is_told_once_by_one_message_that_names_number_interval_and_report(define, receiver, smtp):
    nightly = define(webhook=receiver.url, mail="admin@site.example", since=LAST - timedelta(minutes=1))
    night = close(nightly, measured(nightly))
    assert night.deliveries == {"webhook 127.0.0.1": "delivered", "admin@site.example": "delivered"}
    (body,) = receiver.bodies
    assert (body["state"], body["sentences"]) == ("WARNING", [WORSE.sentence])
    assert Path(str(body["report"])).is_relative_to(nightly.directory)
    said = "\n".join(smtp)
    assert "rcpt to:<admin@site.example>" in said.lower()
    assert "Subject: tierbench nightly quick: WARNING" in said.replace("\n ", " ") or "=?utf-8?" in said
    close(nightly, measured(nightly, LAST + timedelta(days=1)))
    assert len(receiver.bodies) == 1


def test_a_webhook_that_never_answers_is_given_up_and_told_of_next(define, silence, receiver, changes, monkeypatch):
    changes.append(dataclasses.replace(WORSE, configuration="wan", sentence="Worse: another one."))
    nightly = define(webhook=silence)
    with monkeypatch.context() as impatient:
        impatient.setattr(messages, "PATIENCE_S", 0.5)
        night = close(nightly, measured(nightly))
    assert night.deliveries == {"webhook 127.0.0.1": "timed out"}
    state = Health(nightly, [], LAST + timedelta(hours=1))
    assert (state.state, "not delivered" in state.summary) == ("WARNING", True)
    messages.write_webhook(nightly, receiver.url)
    close(nightly, measured(nightly, LAST + timedelta(days=1)))
    assert "did not reach" in str(receiver.bodies[0]["text"])
    assert f"{WORSE.sentence} Worse: another one." in str(receiver.bodies[0]["text"])


def test_a_webhook_is_told_of_by_its_host_alone(define, receiver, tmp_path):
    nightly = define(webhook=f"{receiver.url}/T000/secret")
    lines = []
    nightly.say = lines.append
    night = steps.finish(nightly, record.folder(nightly, measured(nightly)))
    assert (night.deliveries, len(receiver.bodies)) == ({"webhook 127.0.0.1": "delivered"}, 1)
    assert "message to webhook 127.0.0.1: delivered" in lines
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and b"T000" in path.read_bytes()]
    assert holding == [nightly.directory / names.WEBHOOK]


@pytest.fixture
def babble():
    """A webhook that takes what is posted and answers something that is not HTTP."""
    with serving(lambda connection: connection.recv(65536) and connection.sendall(b"220 welcome\r\n\r\n")) as address:
        yield f"http://{address}/"


@pytest.mark.parametrize("url", ["https://chat.example:port/hook", "http://chat.example/my hook", "http://[::1/", None])
def test_a_webhook_that_cannot_be_asked_stops_no_mail_record_or_text_file(define, url, babble, smtp, tmp_path):
    nightly = define(webhook=url or babble, mail="admin@site.example", textfile=str(tmp_path))
    night = close(nightly, measured(nightly))
    how, mailed = night.deliveries.values()
    assert (how != record.DELIVERED, mailed, "data" in smtp) == (True, record.DELIVERED, True)
    assert record.nights(nightly) == [night]
    assert (tmp_path / "tierbench_nightly_quick.prom").exists()
    assert Health(nightly, [], LAST + timedelta(hours=1)).state == "WARNING"


def test_a_mailer_that_fails_or_a_configuration_that_cannot_be_read_is_told_in_the_nights_record(define, monkeypatch):
    configured(monkeypatch, SENDMAIL="/bin/false")
    nightly = define(mail="admin@site.example")
    assert close(nightly, measured(nightly)).deliveries == {"admin@site.example": "/bin/false ended with 1: "}
    monkeypatch.setattr(pool, "setting", Mock(side_effect=PoolError("cannot read the setting MAIL_FROM")))
    night = close(nightly, measured(nightly, LAST + timedelta(days=1)))
    assert night.deliveries == {"admin@site.example": "cannot read the setting MAIL_FROM"}
    assert record.nights(nightly)[-1] == night


def test_what_did_not_arrive_is_quoted_once_however_many_nights_follow(define):
    nightly = define(webhook="http://127.0.0.1:1/")
    for day in range(3):
        night = close(nightly, measured(nightly, LAST + timedelta(days=day)))
    assert [words.count("The message of the night of") for words in night.sentences] == [1]
    assert WORSE.sentence in night.sentences[0]


def test_a_webhook_that_drips_is_given_up_after_a_limit_in_all(define, monkeypatch):
    monkeypatch.setattr(messages, "LIMIT_S", 2.0)
    over = threading.Event()

    def drip(connection):
        while not over.wait(0.2):
            connection.sendall(b"H")

    with serving(drip) as address:
        nightly = define(webhook=f"http://{address}/")
        night = close(nightly, measured(nightly))
        over.set()
    assert night.deliveries == {"webhook 127.0.0.1": "it took longer than 2 s"}


@pytest.mark.parametrize(
    ("ratio", "since_days", "acknowledged_ns", "told"),
    [(0.5, 2, 0, 2), (0.88, 2, 0, 1), (0.5, 0, 0, 1), (0.88, 2, SINCE_NS, 1), (0.88, 2, SINCE_NS + 10**14, 2)],
)
def test_what_has_gone_further_since_it_was_told_is_told_again(
    define, receiver, changes, ratio, since_days, acknowledged_ns, told
):
    """Or beyond what was acknowledged after that, whose level by later nights may be another one."""
    first = dataclasses.replace(WORSE, ratio=0.9, latest_ns=SINCE_NS)
    changes[:] = [first]
    nightly = define(webhook=receiver.url)
    close(nightly, measured(nightly))
    latest_ns = SINCE_NS + since_days * 86_400 * 10**9
    changes[:] = [dataclasses.replace(first, ratio=ratio, latest_ns=latest_ns, acknowledged_ns=acknowledged_ns)]
    close(nightly, measured(nightly, LAST + timedelta(days=1)))
    assert len(receiver.bodies) == told


def test_a_webhook_that_sends_elsewhere_has_got_nothing(define):
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/login\r\nContent-Length: 0\r\n\r\n"
    with serving(lambda connection: connection.recv(65536) and connection.sendall(answer)) as address:
        nightly = define(webhook=f"http://{address}/")
        night = close(nightly, measured(nightly))
    assert night.deliveries == {"webhook 127.0.0.1": "it answered 302 Found"}


def test_what_one_of_two_channels_has_brought_is_quoted_once(define):
    nightly = define(webhook="http://127.0.0.1:1/", mail="admin@site.example")
    sentences = []
    for day in range(3):
        night = record.Night((LAST + timedelta(days=day)).timestamp(), "measured", counts={"VALID": 6})
        message = messages.Message.of(nightly, night, [WORSE], [])
        sentences.append(message.sentences)
        how = {"webhook 127.0.0.1": "refused", "admin@site.example": "delivered"}
        how = how if message.sentences else {"nobody": ""}
        record.write(nightly, night.now(sentences=message.sentences, reported=message.changes, deliveries=how))
    first, second, third = sentences
    assert (first, len(second), third) == ([WORSE.sentence], 1, [])
    assert "did not reach webhook 127.0.0.1 (refused)" in second[0]


@pytest.mark.parametrize("error", [KeyError("place"), MemoryError(), OSError("no space left")])
@pytest.mark.parametrize("step", ["_make_tables", "_make_report", "write"])
def test_whatever_goes_wrong_in_a_night_its_message_is_sent_and_says_so(define, receiver, monkeypatch, step, error):
    nightly = define(webhook=receiver.url)
    night = measured(nightly, outcome="running")
    monkeypatch.setattr(record if step == "write" else steps, step, Mock(side_effect=error))
    night = close(nightly, night)
    (body,) = receiver.bodies
    assert WORSE.sentence in body["sentences"]
    assert any(sentence.startswith("Beside that") and str(error) in sentence for sentence in body["sentences"])
