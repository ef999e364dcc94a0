"""Delay every packet that the kernel puts into the given netfilter queues; the WAN's latency.

usage: delayline.py RTT_FILE QUEUE [QUEUE ...]

Packets stay in the kernel: we are sent their numbers and say, when their time has come, up to
which number to let go. Runs on the testbed's `wan` host, needs
CAP_NET_ADMIN. The file holds the round-trip time in ms; at SIGHUP it is read again. What is in force stands in a file
beside it, RTT_FILE.now. Ends only when killed, and then nothing crosses the WAN any more.
"""

import collections
import errno
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path

NETLINK_NETFILTER, NFNL_SUBSYS_QUEUE = 12, 3
NFQNL_MSG_CONFIG, NFQNL_MSG_VERDICT_BATCH = 2, 3
NFQA_CFG_CMD, NFQA_CFG_PARAMS, NFQA_CFG_QUEUE_MAXLEN, NFQA_CFG_MASK, NFQA_CFG_FLAGS = 1, 2, 3, 4, 5
NFQA_VERDICT_HDR, NFQNL_CFG_CMD_BIND, NFQNL_COPY_META, NFQA_CFG_F_GSO = 2, 1, 1, 4
NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR, NF_ACCEPT = 1, 4, 2, 1
SOL_NETLINK, NETLINK_NO_ENOBUFS = 270, 5
SO_RCVBUFFORCE = 33
QUEUE_LENGTH = 100_000

# nlmsghdr, nfgenmsg and the header of the first attribute, which the kernel always makes the packet's number
PACKET_ID_OFFSET = 16 + 4 + 4


def attribute(kind: int, payload: bytes) -> bytes:
    padding = b"\0" * (-len(payload) % 4)
    return struct.pack("=HH", 4 + len(payload), kind) + payload + padding


def message(kind: int, flags: int, queue: int, attributes: bytes) -> bytes:
    body = struct.pack("=BBH", socket.AF_UNSPEC, 0, socket.htons(queue)) + attributes
    return struct.pack("=IHHII", 16 + len(body), NFNL_SUBSYS_QUEUE << 8 | kind, flags, 0, 0) + body


class Queue:
    """One direction of the line: packets in the order they came, each with the time it is due."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.waiting: collections.deque[tuple[float, int]] = collections.deque()
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)
        self.socket.bind((0, 0))
        self._configure(attribute(NFQA_CFG_CMD, struct.pack("!BxH", NFQNL_CFG_CMD_BIND, socket.AF_INET)))
        self._configure(
            attribute(NFQA_CFG_PARAMS, struct.pack("!IB", 0, NFQNL_COPY_META))
            + attribute(NFQA_CFG_QUEUE_MAXLEN, struct.pack("!I", QUEUE_LENGTH))
            + attribute(NFQA_CFG_FLAGS, struct.pack("!I", NFQA_CFG_F_GSO))
            + attribute(NFQA_CFG_MASK, struct.pack("!I", NFQA_CFG_F_GSO))
        )
        self.socket.setblocking(False)

    def _configure(self, attributes: bytes) -> None:
        self.socket.send(message(NFQNL_MSG_CONFIG, NLM_F_REQUEST | NLM_F_ACK, self.number, attributes))
        reply = self.socket.recv(4096)
        kind, code = struct.unpack_from("=4xH10xi", reply)
        if kind == NLMSG_ERROR and code:
            raise OSError(-code, f"queue {self.number}: {errno.errorcode.get(-code, code)}")

    def take_in(self, delay: float) -> None:
        """Note what has arrived."""
        while True:
            try:
                packet = self.socket.recv(4096)
            except BlockingIOError:
                return
            (number,) = struct.unpack_from("!I", packet, PACKET_ID_OFFSET)
            self.waiting.append((time.monotonic() + delay, number))

    def let_go(self, now: float) -> None:
        """Release all that is due, with a single verdict."""
        last = None
        while self.waiting and self.waiting[0][0] <= now:
            last = self.waiting.popleft()[1]
        if last is not None:
            verdict = attribute(NFQA_VERDICT_HDR, struct.pack("!II", NF_ACCEPT, last))
            self.socket.send(message(NFQNL_MSG_VERDICT_BATCH, NLM_F_REQUEST, self.number, verdict))


class Delay:
    """Half the round-trip time, as the file says."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.read()
        signal.signal(signal.SIGHUP, self.read)

    def read(self, *_: object) -> None:
        rtt_ms = self.file.read_text().strip()
        self.seconds = float(rtt_ms) / 2e3
        self.file.with_name(self.file.name + ".now").write_text(rtt_ms + "\n")


def main(file: Path, numbers: "list[int]") -> None:
    delay, queues = Delay(file), [Queue(number) for number in numbers]
    while True:
        due = min((queue.waiting[0][0] for queue in queues if queue.waiting), default=None)
        timeout = None if due is None else max(0.0, due - time.monotonic())
        select.select([queue.socket for queue in queues], [], [], timeout)
        for queue in queues:
            queue.take_in(delay.seconds)
            queue.let_go(time.monotonic())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]])
