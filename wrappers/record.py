"""The record of a client: JSON lines on standard output."""

import json
import os
import platform
import sys
from typing import Any

from tierbench.host import condor_version, machine, now, read_text
from tierbench.wrappers.child import Run

FORMAT = 1


class Record:
    """The JSON lines on standard output."""

    def write(self, event: str, wall_ns: int, mono_ns: int, **content: Any) -> int:
        line = json.dumps({"event": event, "wall_ns": wall_ns, "mono_ns": mono_ns, **content}) + "\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        return len(line)

    def start(self, trial: str, index: int, client: str, url: str, size: "int | None") -> None:
        host, slot = machine()
        self.write(
            "start", *now(), format=FORMAT, trial=trial, index=index, host=host, slot=slot,
            pid=os.getpid(), boot_id=read_text("/proc/sys/kernel/random/boot_id").strip(), client=client,
            url=url, expected_bytes=size, python=platform.python_version(), kernel=platform.release(),
            condor=condor_version(),
        )  # fmt: skip

    def end(self, outcome: "dict[str, Any]", run: "Run | None") -> None:
        unknown = (
            "opened_wall_ns", "first_byte_wall_ns", "bytes_app", "bytes_client", "bytes_source",
            "bytes_disk", "events", "cpu_user_s", "cpu_system_s", "exit_status",
        )  # fmt: skip
        content: dict[str, Any] = {"status": None, "message": None, **dict.fromkeys(unknown), "detail": {}}
        if run:
            content.update(
                first_byte_wall_ns=run.first_byte_wall_ns, cpu_user_s=round(run.cpu_user_s, 6),
                cpu_system_s=round(run.cpu_system_s, 6), exit_status=run.exit_status, bytes_disk=run.disk_bytes,
                detail={"peak_rss_kb": run.peak_rss_kb},
            )  # fmt: skip
            content["detail"].update(outcome.pop("detail", {}))
            sys.stderr.write(run.stderr)
        content.update(outcome)
        wall, mono = content.pop("ended", None) or ((run.end_wall_ns, run.end_mono_ns) if run else now())
        self.write("end", wall, mono, **content)
