"""What stands in for programs and servers: small scripts, and web servers of this process."""

import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


def script(path, *lines):
    """Lines that can be executed, by the shell unless the first one says otherwise."""
    path.write_text("\n".join([*([] if lines[0].startswith("#!") else ["#!/bin/sh"]), *lines, ""]))
    path.chmod(0o755)
    return path


@contextmanager
def serving(handler, **more):
    """The URL of a server whose answers are such a handler's, made with these arguments; it logs nothing."""

    class Quiet(handler):
        def __init__(self, *arguments):
            super().__init__(*arguments, **more)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
