"""A Kerberos ticket of the job's own."""

import subprocess
from pathlib import Path

from tierbench.wrappers.condor import machine
from tierbench.wrappers.failure import Failure


def get_ticket(keytab: Path, principal: str, environment: "dict[str, str]") -> None:
    """Put a ticket into this job's own cache, which goes with the scratch directory."""
    name = principal.replace("{host}", machine()[0])
    command = ["kinit", "-k", "-t", str(keytab), name]
    try:
        kinit = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure("no-ticket", str(error)) from None
    if kinit.returncode:
        raise Failure("no-ticket", f"{' '.join(command)}: {kinit.stderr.decode(errors='replace').strip()}")
