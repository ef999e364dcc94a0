"""Runs programs that may never end: one that hangs in a dead mount cannot even be killed."""

import subprocess
from typing import Any, NamedTuple

PATIENCE_S = 15  # for one program's answer


class Ended(NamedTuple):
    """How a program ended; no status if it had to be left behind."""

    status: "int | None"
    output: str
    patience_s: int = PATIENCE_S

    @property
    def last_words(self) -> str:
        if self.status is None:
            return f"no answer in {self.patience_s} s"
        lines = self.output.strip().splitlines()
        return lines[-1] if lines else f"exit status {self.status}"


def run_program(*command: str, patience_s: int = PATIENCE_S, **more: Any) -> Ended:
    """Run a program and take all that it says; raises OSError where there is no such program."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more
    )  # fmt: skip
    seconds = patience_s
    while True:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            if seconds == 1:
                return Ended(None, "", patience_s)
            process.kill()
            seconds = 1
        else:
            killed = seconds == 1
            return Ended(None if killed else process.returncode, output.decode(errors="replace"), patience_s)
