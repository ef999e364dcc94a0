"""What can be told from the access point of the servers that a trial's clients read from.

Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import re
import socket
from pathlib import Path

PATIENCE_SECONDS = 3.0
URL = re.compile(r"^\w+://([\w.-]+|\[[\da-fA-F:]+\])(?::(\d+))?/")
USUAL_PORTS = {"root": 1094, "roots": 1094}


def state_of_servers() -> str:
    """Whether each server of replicas.txt takes connections, in words to follow others; "" where none is named."""
    servers = set()
    for line in Path("replicas.txt").read_text(encoding="utf-8").splitlines():
        url = URL.match(line)
        port = int(url.group(2) or USUAL_PORTS.get(line.partition(":")[0], 0)) if url else 0
        if url and port:
            servers.add((url.group(1).strip("[]"), port))
    return "".join("; " + _state(host, port) for host, port in sorted(servers)[:3])


def _state(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), PATIENCE_SECONDS).close()
    except TimeoutError:
        return f"{host}:{port} does not answer from here"
    except OSError as error:
        return f"{host}:{port} takes no connection from here ({error.strerror or error})"
    return f"{host}:{port} takes connections from here"
