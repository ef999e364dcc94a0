"""A core of a client's own, of those that its job may use: no other client of the host has it while this one lives."""

import os
import socket

from tierbench.wrappers.failure import Failure

CLAIM = "\0tierbench-core-{}"  # a socket without a file: one process of the host can have it, and it goes with that


def take_core(index: int) -> socket.socket:
    """Pin this process, and whatever it starts, to a core that nobody has claimed; the claim lasts until it is closed.

    Clients begin to look at different cores, so that those of hosts that share a machine seldom meet.
    """
    allowed = sorted(os.sched_getaffinity(0))
    for place in range(len(allowed)):
        core = allowed[(index + place) % len(allowed)]
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(CLAIM.format(core))
        except OSError:
            claim.close()
            continue
        os.sched_setaffinity(0, {core})
        return claim
    raise Failure("not-pinned", f"each of the {len(allowed)} cores that this job may use has a client already")


def core_of(pid: int) -> "int | None":
    """The one core that a process may run on, if there is but one."""
    try:
        cores = os.sched_getaffinity(pid)
    except OSError:
        return None
    return next(iter(cores)) if len(cores) == 1 else None
