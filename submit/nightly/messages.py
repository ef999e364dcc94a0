"""The one message of a night: what it says, and how it is sent by webhook and mail.

Whoever has a webhook's URL can post there, so that is in a file of its own, for its owner alone; what others may
read, as a monitoring system does, names its host.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import shutil
import smtplib
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from email.message import EmailMessage

from tierbench import files, names
from tierbench.errors import ConfigError
from tierbench.host import own_name
from tierbench.submit import pool
from tierbench.submit.nightly import record
from tierbench.submit.nightly.record import DELIVERED, NOBODY, Change, Night, Nightly
from tierbench.submit.pool import PoolError

SAME_CHANGE = 3  # nights
PATIENCE_S = 15.0  # for each answer of a receiver
LIMIT_S = 30.0  # for all of it
QUOTED = "The message of the night of"
MOST_QUOTED = 5


@dataclass(frozen=True)
class Message:
    """What a night has to say to its admin, or nothing."""

    nightly: Nightly
    night: Night
    changes: list[Change]
    sentences: list[str]

    @classmethod
    def of(cls, nightly: Nightly, night: Night, changes: list[Change], problems: list[str]) -> Message:
        """What is new: a night without a number, changes that no message has reported, and what else went wrong."""
        others = [other for other in record.nights(nightly) if other.planned_wall_s != night.planned_wall_s]
        size = nightly.terms.size_pct / 100
        new = [change for change in changes if not change.acknowledged and not _was_reported(change, others, size)]
        sentences = [change.sentence for change in new]
        if night.outcome != "measured":
            why = f"Nothing was measured in the night of {nightly.label(night)} ({night.outcome}): {night.reason}."
            sentences.insert(0, why)
        elif night.reason and _cause(night) not in [_cause(other) for other in others[-1:]]:
            sentences.append(f"The night of {nightly.label(night)} is not whole: {night.reason}.")
        # The missed nights since the last one that had a message.
        earlier = (other for other in reversed(others) if other.planned_wall_s < night.planned_wall_s)
        gaps = [*itertools.takewhile(lambda other: other.outcome == "missed", earlier)][::-1]
        if gaps:
            first, last = nightly.label(gaps[0]), nightly.label(gaps[-1])
            which = f"{len(gaps)} nights from {first} to {last} were" if len(gaps) > 1 else f"night of {first} was"
            sentences.append(f"The {which} missed: {gaps[-1].reason}")
        sentences += list(_undelivered(nightly, others))[:MOST_QUOTED]
        sentences += [f"Beside that, {problem}" for problem in problems]
        return cls(nightly, night, new, sentences)

    @property
    def report(self) -> str:
        folder = record.folder(self.nightly, self.night)
        page = folder / names.NIGHT_RUN / "report.html"
        return str(page if page.exists() else folder)

    @property
    def state(self) -> str:
        for level in ("CRITICAL", "WARNING"):
            if any(change.level == level for change in self.changes):
                return level
        if self.night.outcome != "measured":
            return "UNKNOWN"
        return "OK" if len(self.changes) == len(self.sentences) else "WARNING"

    @property
    def subject(self) -> str:
        more = f" (and {len(self.sentences) - 1} more)" if len(self.sentences) > 1 else ""
        first = self.sentences[0] if len(self.sentences[0]) <= 120 else f"{self.sentences[0][:119]}…"
        return f"tierbench nightly {self.nightly.name}: {self.state}: {first}{more}"

    @property
    def text(self) -> str:
        hint = [f"`tierbench nightly ack {self.nightly.name}` acknowledges what has changed."] if self.changes else []
        return "\n".join([*self.sentences, "", f"Report: {self.report}", *hint, ""])

    @property
    def content(self) -> dict[str, object]:
        """As it is posted."""
        changes = [{**asdict(change), "since": change.since.isoformat()} for change in self.changes]
        return {
            "format": 1, "nightly": self.nightly.name, "site": self.nightly.terms.site,
            "night": self.night.planned.isoformat(), "outcome": self.night.outcome, "state": self.state,
            "text": "\n".join(self.sentences), "sentences": self.sentences, "changes": changes,
            "report": self.report, "host": own_name(),
        }  # fmt: skip


def _was_reported(change: Change, nights: list[Night], size: float) -> bool:
    """Whether a message has reported it as it is now: not where it has gone further since, or become critical.

    As more nights come the first that differs may turn out another one.
    """
    planned = [round(night.planned_wall_s * 1e9) for night in nights]
    for at_ns, night in zip(planned, nights, strict=True):
        for earlier in night.reported:
            first, last = sorted((earlier.since_ns, change.since_ns))
            near = sum(first <= at < last for at in planned) <= SAME_CHANGE
            of_same = (earlier.direction, earlier.configuration) == (change.direction, change.configuration)
            further = change.latest_ns > at_ns and 0 < change.ratio < earlier.ratio * (1 - size)
            worse = further or (earlier.level, change.level) == ("WARNING", "CRITICAL")
            worse |= at_ns < change.acknowledged_ns  # and is worse than what was acknowledged
            if of_same and (near or at_ns >= change.since_ns) and not worse:
                return True
    return False


def _undelivered(nightly: Nightly, nights: list[Night]) -> Iterator[str]:
    """What did not arrive since a message last did by some channel, each in its own words: no quotation is quoted."""
    for night in reversed(nights):
        own = [sentence for sentence in night.sentences if not sentence.startswith(QUOTED)]
        for channel, how in night.undelivered.items() if own else ():
            yield f"{QUOTED} {nightly.label(night)} did not reach {channel} ({how}): {' '.join(own)}"
        if night.sentences and (DELIVERED in night.deliveries.values() or not night.undelivered):
            return


def _cause(night: Night) -> str:
    """Its reason without the numbers in front, which differ from night to night."""
    return night.reason.split(": ", 1)[-1]


def deliver(message: Message) -> dict[str, str]:
    """Send it by every channel that was asked for; how each went. None takes long, and none holds up another one."""
    terms = message.nightly.terms
    channels: dict[str, Callable[[], None]] = {}
    if terms.webhook:
        channels[f"webhook {terms.webhook}"] = lambda: _post(webhook_url(message.nightly), message)
    if terms.mail:
        channels[terms.mail] = lambda: _mail(terms.mail, message)
    sent = {channel: _within_limit(send) for channel, send in channels.items()}
    return sent or {NOBODY: "no webhook or mail address is set"}


def _within_limit(send: Callable[[], None]) -> str:
    """How it went; a receiver that answers byte by byte keeps no night open, since the thread dies with its process."""
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(_result(send)), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return results[0] if results else f"it took longer than {LIMIT_S:.0f} s"


def _result(send: Callable[[], None]) -> str:
    try:
        send()
    except subprocess.TimeoutExpired:
        return f"the mailer did not end within {PATIENCE_S:.0f} s"
    except subprocess.CalledProcessError as error:
        output = (error.stderr or b"").decode(errors="replace").strip()[:200]
        return f"{error.cmd[0]} ended with {error.returncode}: {output}"
    except Exception as error:  # whatever a library makes of an odd address or answer: the night has to be finished
        return str(getattr(error, "reason", "") or error) or type(error).__name__
    return DELIVERED


def _post(url: str, message: Message) -> None:
    body = json.dumps(message.content, ensure_ascii=False).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - checked at `add`
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=PATIENCE_S):
            pass
    except urllib.error.HTTPError as error:
        raise ConnectionError(f"it answered {error.code} {error.reason}") from None
    except http.client.InvalidURL:  # whose text has the URL in it
        raise ConfigError("its URL is none that can be asked; `tierbench nightly add` it anew") from None
    except http.client.HTTPException as error:
        raise ConnectionError(f"its answer is not HTTP ({type(error).__name__})") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is posted elsewhere would arrive as a GET, with nothing in it."""

    def redirect_request(self, *_: object) -> None:
        return None


NO_MAILER = "what HTCondor's SENDMAIL and MAIL name is not here, and it has no SMTP_SERVER"


def _mail(address: str, message: Message) -> None:
    """By the pool's own mailer, whichever of its settings says which that is."""
    mail = EmailMessage()
    mail["Subject"], mail["To"] = " ".join(message.subject.split()), address
    mail["From"] = pool.setting("MAIL_FROM") or f"tierbench@{own_name()}"
    mail.set_content(message.text)
    sendmail, mailer, server = mailers()
    if sendmail:
        _run([sendmail, "-i", "-t"], mail.as_bytes())
    elif mailer:
        _run([mailer, "-s", str(mail["Subject"]), address], message.text.encode())
    elif server:
        host, _, port = server.partition(":")
        with smtplib.SMTP(host, int(port or 25), timeout=PATIENCE_S) as connection:
            connection.send_message(mail)
    else:
        raise OSError(NO_MAILER)


def doubt_of_mail() -> str:
    """Why no message can be sent from here, as far as HTCondor's settings say."""
    try:
        return "" if any(mailers()) else NO_MAILER
    except PoolError as error:
        return str(error)


def mailers() -> tuple[str | None, str | None, str]:
    """The pool's programs for mail that are here, and its mail server."""
    return _program("SENDMAIL"), _program("MAIL"), pool.setting("SMTP_SERVER")


def _program(setting: str) -> str | None:
    """The program that a setting of HTCondor's names, where it is installed."""
    return shutil.which(pool.setting(setting), path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/lib")


def _run(command: list[str], text: bytes) -> None:
    subprocess.run(command, input=text, check=True, capture_output=True, timeout=PATIENCE_S)


def write_webhook(nightly: Nightly, url: str) -> None:
    """Leave the URL in a file for its owner alone, or remove the file."""
    path = nightly.directory / names.WEBHOOK
    if url:
        files.replace(path, f"{url}\n", 0o600)
    else:
        path.unlink(missing_ok=True)


def webhook_url(nightly: Nightly) -> str:
    return (nightly.directory / names.WEBHOOK).read_text(encoding="utf-8").strip()
