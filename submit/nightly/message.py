"""The one message of a night: what is said in it, and the ways that it goes."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import smtplib
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage

from tierbench.dags import names
from tierbench.errors import ConfigError
from tierbench.submit import pool
from tierbench.submit.nightly import record, webhook
from tierbench.submit.nightly.changes import Change
from tierbench.submit.nightly.definition import Nightly
from tierbench.submit.nightly.record import Night

SAME_CHANGE = 3  # nights
PATIENCE_S = 15.0  # for whoever is told
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
        new = [change for change in found if not change.acknowledged and not _was_said(change, others)]
        page = record.folder(nightly, night) / names.NIGHT_RUN / "report.html"
        report = str(page) if page.exists() else str(record.folder(nightly, night))
        sentences = [change.sentence for change in new]
        if night.outcome != "measured":
            sentences.insert(
                0, f"Nothing was measured in the night of {night.called} ({night.outcome}): {night.reason}."
            )
        elif night.reason:
            sentences.append(f"The night of {night.called} did not come to its end: {night.reason}.")
        sentences += [f"The night of {one.called} was missed: {one.reason}" for one in _untold_gaps(others)]
        sentences += [
            f"The message of the night of {one.called} did not reach {webhook.shown(channel)} ({how}):"
            f" {one.sentences[0]}"
            for one in others[-1:]
            for channel, how in one.told.items()
            if one.sentences and undelivered(channel, how)
        ]
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


def _was_said(change: Change, nights: list[Night]) -> bool:
    """Whether a message has told of it; as more nights come the first that differs may turn out another one."""
    planned = [round(night.planned_wall_s * 1e9) for night in nights]
    return any(
        (said.direction, said.configuration) == (change.direction, change.configuration)
        and sum(min(said.since_ns, change.since_ns) <= at < max(said.since_ns, change.since_ns) for at in planned)
        <= SAME_CHANGE
        for night in nights
        for said in night.said
    )


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


def _tried(send: Callable[[], None]) -> str:
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
