"""The one message of a night: what is said in it, and the ways that it goes."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import smtplib
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import EmailMessage

from tierbench import names
from tierbench.errors import ConfigError
from tierbench.submit import pool
from tierbench.submit.nightly import record, webhook
from tierbench.submit.nightly.changes import Change
from tierbench.submit.nightly.definition import Nightly
from tierbench.submit.nightly.record import Night, Said

SAME_CHANGE = 3  # nights
PATIENCE_S = 15.0  # for each answer of whoever is told, and twice that for all of it
QUOTED = "The message of the night of"
MOST_QUOTED = 5
DELIVERED, NOBODY = "delivered", "nobody"


@dataclass(frozen=True)
class Message:
    """What a night has to say to its admin, or nothing."""

    nightly: str
    site: str
    night: Night
    changes: list[Change]
    sentences: list[str]
    report: str

    @classmethod
    def of(cls, nightly: Nightly, night: Night, found: list[Change], troubles: list[str]) -> Message:
        """What is new: nights without a number, changes of which nobody was told yet, and what went wrong beside."""
        others = [one for one in record.nights(nightly) if one.planned_wall_s != night.planned_wall_s]
        new = [
            change
            for change in found
            if not change.acknowledged and not _was_said(change, others, nightly.terms.size_pct / 100)
        ]
        page = record.folder(nightly, night) / names.NIGHT_RUN / "report.html"
        report = str(page) if page.exists() else str(record.folder(nightly, night))
        sentences = [change.sentence for change in new]
        if night.outcome != "measured":
            sentences.insert(
                0, f"Nothing was measured in the night of {night.called} ({night.outcome}): {night.reason}."
            )
        elif night.reason and _why(night) not in [_why(one) for one in others[-1:]]:
            sentences.append(f"The night of {night.called} is not whole: {night.reason}.")
        sentences += [f"The night of {one.called} was missed: {one.reason}" for one in _untold_gaps(others)]
        sentences += list(_undelivered(others))[:MOST_QUOTED]
        sentences += [f"Beside that, {trouble}" for trouble in troubles]
        return cls(nightly.name, nightly.terms.site, night, new, sentences, report)

    @property
    def state(self) -> str:
        if any(change.level == "CRITICAL" for change in self.changes):
            return "CRITICAL"
        if any(change.level == "WARNING" for change in self.changes):
            return "WARNING"
        if self.night.outcome != "measured":
            return "UNKNOWN"
        return "OK" if len(self.changes) == len(self.sentences) else "WARNING"

    @property
    def subject(self) -> str:
        more = f" (and {len(self.sentences) - 1} more)" if len(self.sentences) > 1 else ""
        first = self.sentences[0] if len(self.sentences[0]) <= 120 else f"{self.sentences[0][:119]}…"
        return f"tierbench nightly {self.nightly}: {self.state}: {first}{more}"

    @property
    def text(self) -> str:
        return "\n".join(
            [
                *self.sentences,
                "",
                f"Report: {self.report}",
                f"`tierbench nightly ack {self.nightly}` ends reminders.",
                "",
            ]
        )

    @property
    def all_sentences(self) -> str:
        return "\n".join(self.sentences)

    @property
    def content(self) -> dict[str, object]:
        return {
            "format": 1,
            "nightly": self.nightly,
            "site": self.site,
            "night": self.night.planned.isoformat(),
            "outcome": self.night.outcome,
            "state": self.state,
            "text": self.all_sentences,
            "sentences": self.sentences,
            "changes": [change.content for change in self.changes],
            "report": self.report,
            "host": socket.getfqdn(),
        }


def _was_said(change: Change, nights: list[Night], size: float) -> bool:
    """Whether a message has told of it, as it is now: not where it has gone further since, or become critical.

    As more nights come the first that differs may turn out another one.
    """
    planned = [round(night.planned_wall_s * 1e9) for night in nights]

    def covers(said: Said, at_ns: int) -> bool:
        near = sum(min(said.since_ns, change.since_ns) <= at < max(said.since_ns, change.since_ns) for at in planned)
        same = at_ns >= change.since_ns or near <= SAME_CHANGE
        further = change.latest_ns > at_ns and 0 < change.ratio < said.ratio * (1 - size)
        more = (said.level, change.level) == ("WARNING", "CRITICAL") or further
        return (said.direction, said.configuration) == (change.direction, change.configuration) and same and not more

    return any(covers(said, at_ns) for night, at_ns in zip(nights, planned, strict=True) for said in night.said)


def _undelivered(others: list[Night]) -> Iterator[str]:
    """What did not arrive since a message last did, each in its own words: no quotation of a quotation."""
    for one in reversed(others):
        failed = [(channel, how) for channel, how in one.told.items() if undelivered(channel, how)]
        if one.sentences and not failed:
            return
        own = [words for words in one.sentences if not words.startswith(QUOTED)]
        for channel, how in failed if own else ():
            yield f"{QUOTED} {one.called} did not reach {webhook.shown(channel)} ({how}): {own[0]}"


def _untold_gaps(others: list[Night]) -> list[Night]:
    """The missed nights since the last one of which there was word."""
    gaps = []
    for night in reversed(others):
        if night.outcome != "missed":
            break
        gaps.append(night)
    return list(reversed(gaps))


def undelivered(channel: str, how: str) -> bool:
    return channel != NOBODY and how != DELIVERED


def deliver(nightly: Nightly, message: Message) -> dict[str, str]:
    """Send it every way that was asked for; how each went. None waits for long, and none keeps another one."""
    terms = nightly.terms
    ways: dict[str, Callable[[], None]] = {}
    if terms.webhook:
        ways[webhook.channel(terms.webhook)] = lambda: _post(webhook.url(nightly), message)
    if terms.mail:
        ways[terms.mail] = lambda: _mail(terms.mail, message)
    return {way: _tried(send) for way, send in ways.items()} or {NOBODY: "no webhook or mail address is set"}


def _why(night: Night) -> str:
    """Its reason without the numbers in front, which differ from night to night."""
    return night.reason.split(": ", 1)[-1]


def _tried(send: Callable[[], None]) -> str:
    """How it went; who answers byte by byte keeps no night from ending, since the thread dies with its process."""
    went: list[str] = []
    thread = threading.Thread(target=lambda: went.append(_sent(send)), daemon=True)
    thread.start()
    thread.join(2 * PATIENCE_S)
    return went[0] if went else f"it took longer than {2 * PATIENCE_S:.0f} s"


def _sent(send: Callable[[], None]) -> str:
    try:
        send()
    except subprocess.TimeoutExpired:
        return f"the mailer did not end within {PATIENCE_S:.0f} s"
    except subprocess.CalledProcessError as error:
        said = (error.stderr or b"").decode(errors="replace").strip()[:200]
        return f"{error.cmd[0]} ended with {error.returncode}: {said}"
    except Exception as error:  # whatever a library makes of an odd address or answer: the night has to be closed
        return str(getattr(error, "reason", "") or error) or type(error).__name__
    return DELIVERED


def _post(url: str, message: Message) -> None:
    body = json.dumps(message.content, ensure_ascii=False).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - checked at `add`
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S):  # noqa: S310
            pass
    except http.client.InvalidURL:  # whose text has the URL in it
        raise ConfigError("its URL is none that can be asked; `tierbench nightly add` it anew") from None
    except http.client.HTTPException as error:
        raise ConnectionError(f"its answer is not HTTP ({type(error).__name__})") from None


def _mail(address: str, message: Message) -> None:
    """By the pool's own mailer, whichever of its settings says which that is."""
    mail = EmailMessage()
    mail["Subject"], mail["To"] = " ".join(message.subject.split()), address
    mail["From"] = pool.setting("MAIL_FROM") or f"tierbench@{socket.getfqdn()}"
    mail.set_content(message.text)
    sendmail, mailer, server = _program("SENDMAIL"), _program("MAIL"), pool.setting("SMTP_SERVER")
    if sendmail:
        _run([sendmail, "-i", "-t"], mail.as_bytes())
    elif mailer:
        _run([mailer, "-s", str(mail["Subject"]), address], message.text.encode())
    elif server:
        host, _, port = server.partition(":")
        with smtplib.SMTP(host, int(port or 25), timeout=PATIENCE_S) as connection:
            connection.send_message(mail)
    else:
        raise OSError("what HTCondor's SENDMAIL and MAIL name is not here, and it has no SMTP_SERVER")


def _program(setting: str) -> str | None:
    """The program that a setting of HTCondor's names, where it is installed."""
    return shutil.which(pool.setting(setting), path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/lib")


def _run(command: list[str], text: bytes) -> None:
    subprocess.run(command, input=text, check=True, capture_output=True, timeout=PATIENCE_S)
