"""The access point of a job of HTCondor, as far as what is shipped speaks with it, by chirp."""

import contextlib
import socket
import threading
import time

AHEAD_S = 1000.0  # its uptime, over our monotonic clock
ABSENT, BUSY = "-3\n", "-10\n"
DESCRIPTOR = "3\n0 0 33060 1 0 0 0 0 0 0 0 0 0\n"  # and what stat says


class AccessPoint(threading.Thread):
    """Serves the files of a folder to the job in another one, and keeps what it was told."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        (folder / ".chirp.config").write_text(f"127.0.0.1 {self.server.getsockname()[1]} cookie\n")
        self.folder = folder / "access-point"
        self.folder.mkdir()
        self.connections = []
        self.logged = []
        self.looks_s = []  # at what times it was asked for a file
        self.hangs_up = self.is_busy = False  # in place of an answer; at the next look
        self.one_at_a_time = False  # whoever leaves a conversation open waits for ever
        self.has_uptime = True

    def run(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.connections.append(connection)
            conversation = threading.Thread(target=self.converse, args=(connection,), daemon=True)
            conversation.start()
            if self.one_at_a_time:
                conversation.join()

    def converse(self, connection):
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            for line in lines:
                if self.hangs_up:
                    break
                connection.sendall(self.reply(line.decode()).encode())

    def reply(self, line):
        command, _, argument = line.strip().partition(" ")
        if command == "ulog":
            self.logged.append(argument.replace("\\ ", " "))
        if command == "open":
            return DESCRIPTOR if self.has_uptime else ABSENT
        if command == "pread":
            uptime = f"{time.monotonic() + AHEAD_S:.2f} 0.00\n"
            return f"{len(uptime)}\n{uptime}"
        if command == "getfile":
            self.looks_s.append(time.monotonic())
            if self.is_busy:
                self.is_busy = False
                return BUSY
            file = self.folder / argument
            return f"{file.stat().st_size}\n{file.read_text()}" if file.exists() else ABSENT
        return "0\n"

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.join()
        for connection in self.connections:  # which the job keeps
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server.close()


@contextlib.contextmanager
def access_point_of(folder):
    """The job in this folder runs in HTCondor, with an access point to talk to."""
    access_point = AccessPoint(folder)
    access_point.start()
    yield access_point
    access_point.close()
