"""A webhook's end on this machine."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(HTTPServer):
    """A webhook's end, which keeps what was posted there."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Posted)
        self.bodies = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class _Posted(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def receiving():
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()
