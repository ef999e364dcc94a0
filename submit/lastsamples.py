"""The newest records of a sample file that is being written.

Shipped to the run directory; stdlib only, Python 3.6 or newer.
"""

import json
from pathlib import Path

SENT, RECEIVED = "tx_bytes", "rx_bytes"


def last_samples(path: Path, count: int) -> "list[dict[str, int]]":
    """So many of a sample file's last records, by the names of their columns; fewer where there are no more."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline().decode())
            columns = [column["name"] for column in header["columns"]]
            size, first = header["record_bytes"], file.tell()
            whole = (path.stat().st_size - first) // size
            file.seek(first + max(0, whole - count) * size)
            records = [file.read(size).split() for _ in range(min(count, whole))]
            # zip is not strict: Python 3.6 has no such argument
            return [dict(zip(columns, map(int, record))) for record in records if len(record) == len(columns)]  # noqa: B905
    except (OSError, ValueError, KeyError, TypeError):  # being written, or its trailer
        return []


def counted(record: "dict[str, int]", counter: str) -> int:
    """A counter of a record, of all its interfaces together: tx_bytes, or tx_bytes.eth0 and tx_bytes.eth1."""
    return sum(value for name, value in record.items() if name.partition(".")[0] == counter)
