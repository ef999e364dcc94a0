"""A small service on this machine that answers globus-cli as Globus documents its Transfer API, and copies nothing."""

import json
import threading
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = {
    "access_token": "a", "scope": "urn:globus:auth:scope:transfer.api.globus.org:all", "expires_in": 172800,
    "token_type": "Bearer", "resource_server": "transfer.api.globus.org", "other_tokens": [],
}  # fmt: skip


class Service:
    """What it was asked, and what becomes of each task."""

    def __init__(self, **of_task):
        self.submitted = []
        self.cancelled = []
        self.of_task = of_task
        self.answers_after_s = 0.0  # what it has accepted
        self.ended = threading.Event()
        self.url = ""

    def answer(self, method, path, body):
        if path.endswith("/oauth2/token"):
            return TOKEN
        if path.endswith("/submission_id"):
            return {"DATA_TYPE": "submission_id", "value": str(uuid.uuid4())}
        if method == "POST" and path.endswith("/transfer"):
            self.submitted.append(json.loads(body))
            self.ended.wait(self.answers_after_s)
            told = {"DATA_TYPE": "transfer_result", "code": "Accepted", "message": "accepted", "request_id": "r"}
            return {**told, "task_id": str(uuid.uuid4()), "submission_id": self.submitted[-1].get("submission_id", "")}
        task = path.split("/task/")[1].split("/")[0].split("?")[0]
        if path.endswith("/cancel"):
            self.cancelled.append(task)
            return {"DATA_TYPE": "result", "code": "Canceled", "message": "cancelled", "request_id": "r"}
        files = len(self.submitted[-1]["DATA"])
        return {"DATA_TYPE": "task", "task_id": task, "type": "TRANSFER", "status": "SUCCEEDED", "files": files,
                "files_transferred": files, "faults": 0, "directories": 0, "label": "tierbench", "is_paused": False,
                "request_time": "2026-01-01T00:00:00+00:00", "completion_time": "2026-01-01T00:00:09+00:00",
                "source_endpoint_display_name": "a", "destination_endpoint_display_name": "b",
                **self.of_task}  # fmt: skip


@contextmanager
def serving(service):
    """The service behind a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            said = json.dumps(service.answer(self.command, self.path, body)).encode()
            self.send_response(202 if self.path.endswith("/transfer") else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.ended.set()
        server.shutdown()
        server.server_close()
