"""iperf3 sends bytes to a server of its own, or has them sent back: the network alone, with no file at either end."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tierbench.wrappers.child import Run
from tierbench.wrappers.client import FIRST_BLOCK, Client, Option

USUAL_PORT = 5201


class Iperf3(Client):
    """As many bytes as its set says, or whatever goes in so many seconds; the count is the receiving end's.

    A server of iperf3 takes one client at a time, so several need as many doors (`further` of their access).
    """

    protocols = ("iperf3",)
    kinds = ("streamed",)
    reads_whole = True
    usual_excess = 0.03  # what was under way when time was over
    taken_in = "bytes_app"
    memory_mb = 64
    programs = ("iperf3",)
    remedy = "install iperf3 there"
    options = {
        "back": Option(False, meaning="from the server to the client"),
        "seconds": Option(10, 1, 86_400, meaning="where the set has no size"),
        "streams": Option(1, 1, 128, meaning="TCP connections"),
        "window_kb": Option(0, 0, 1_048_576, meaning="socket buffers; 0: the kernel decides"),
    }

    @classmethod
    def doing(cls, options: "Mapping[str, Any]") -> str:
        return "reads" if options.get("back") else "writes"

    def command(self) -> "list[str]":
        options, server = self.job.options, urlsplit(self.job.url)
        flags = {
            "--client": server.hostname, "--port": server.port or USUAL_PORT, "--parallel": options["streams"],
            "--logfile": self.job.scratch / "iperf3.json",
        }  # fmt: skip
        if self.job.expected_bytes is None:
            flags["--time"] = options["seconds"]
        else:
            flags["--bytes"] = self.job.expected_bytes
        if options["window_kb"]:
            flags["--window"] = f"{options['window_kb']}K"
        command = ["iperf3", "--json", *(str(word) for flag in flags.items() for word in flag)]
        return [*command, "--reverse"] if options["back"] else command

    def has_begun(self, read: int, written: int) -> bool:
        return (read if self.job.options["back"] else written) > FIRST_BLOCK

    def outcome(self, run: Run) -> "dict[str, Any]":
        report = self.job.report("iperf3.json") or {}  # it was ended before, or is of an age that tells nothing
        ends = report.get("end", {})
        received, sent = (ends.get(name, {}) for name in ("sum_received", "sum_sent"))
        moved = received.get("bytes") if not run.exit_status else received.get("bytes", 0)
        slack = max(0, (moved or 0) - (self.job.expected_bytes or 0))  # whole blocks are sent
        judged = self.judged(run, moved, slack)
        all_sent = not run.exit_status and sent.get("bytes", 0) >= (self.job.expected_bytes or 0)
        if judged["status"] == "short-write" and all_sent:
            judged.update(status="ok", message="")  # its server counts nothing of what is under way when all is sent
        if run.exit_status > 0 and report.get("error"):
            judged["message"] = str(report["error"])[:500]
        seconds = received.get("seconds")
        by_kernel = run.read_bytes if self.job.options["back"] else run.written_bytes
        return {
            **judged,
            "bytes_source": "iperf3",
            # The kernel counts what goes by read and write, and nothing of recv and send, which newer ones use.
            "bytes_client": by_kernel if by_kernel and moved and by_kernel >= moved else None,
            "detail": {
                "own_s": seconds,
                "own_mbps": round(moved * 8e-6 / seconds, 3) if moved and seconds else None,
                "sent_bytes": sent.get("bytes"),
                "retransmits": sent.get("retransmits"),
            },
        }
