"""A nightly by systemd: a service that begins a night and a timer for it, of this user or, for root, of the machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tierbench.errors import TierbenchError
from tierbench.submit.nightly.definition import Nightly

PATIENCE_S = 30


def service(nightly: Nightly) -> Iterator[str]:
    yield "[Unit]"
    yield f"Description=A night of tierbench nightly {nightly.name}"
    yield ""
    yield "[Service]"
    yield "Type=oneshot"
    yield f"WorkingDirectory={nightly.directory}"
    yield f"ExecStart={nightly.starter} begin"


def timer(nightly: Nightly) -> Iterator[str]:
    yield "[Unit]"
    yield f"Description=tierbench nightly {nightly.name}, {nightly.calendar}"
    yield ""
    yield "[Timer]"
    yield f"OnCalendar={nightly.calendar.on_calendar}"
    yield "# A night that the machine has slept through begins when it is up again."
    yield "Persistent=true"
    yield "AccuracySec=1s"
    yield ""
    yield "[Install]"
    yield "WantedBy=timers.target"


def unit(nightly: Nightly) -> str:
    return f"tierbench-nightly-{nightly.name}"


def folder() -> Path:
    """Where this user's units are."""
    if os.geteuid() == 0:
        return Path("/etc/systemd/system")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"


def write(nightly: Nightly, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for kind, lines in (("service", service(nightly)), ("timer", timer(nightly))):
        (into / f"{unit(nightly)}.{kind}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def start(nightly: Nightly) -> str:
    write(nightly, folder())
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", f"{unit(nightly)}.timer")
    return f"timer {unit(nightly)}" + (
        "" if os.geteuid() == 0 else "; `loginctl enable-linger` keeps it when you log out"
    )


def pause(nightly: Nightly) -> None:
    _systemctl("disable", "--now", f"{unit(nightly)}.timer")


def resume(nightly: Nightly) -> None:
    _systemctl("enable", "--now", f"{unit(nightly)}.timer")


def stop(nightly: Nightly) -> None:
    pause(nightly)
    for kind in ("service", "timer"):
        (folder() / f"{unit(nightly)}.{kind}").unlink(missing_ok=True)
    _systemctl("daemon-reload")


def trouble(nightly: Nightly) -> str:
    """Why no night will begin, or nothing."""
    try:
        _systemctl("is-active", "--quiet", f"{unit(nightly)}.timer")
    except TierbenchError as error:
        return "" if nightly.terms.paused else f"its timer is not active: {error}"
    return ""


def _systemctl(*words: str) -> None:
    command = ["systemctl", *(() if os.geteuid() == 0 else ("--user",)), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TierbenchError(f"{' '.join(command)}: {error}; --by condor needs no systemd") from None
    if done.returncode:
        raise TierbenchError(f"{' '.join(command)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
