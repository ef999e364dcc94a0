"""Programs that are run, and what stands in for some: scripts, web servers, a full disk, hosts and root's helper."""

import resource
import subprocess
import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

from tierbench import site_configs
from tierbench.testbed.host import RunningHost

HELPER = Path(site_configs.__file__).parent / "tierbench-arrange"
WORD = """#!/bin/sh
# takes: 0 2000
case $1 in
get) cat {value} ;;
set) [ "$2" != 13 ] || {{ echo "not on a Friday" >&2; exit 1; }}; echo "$2" >{value} ;;
esac
"""


def run(*command, **more):
    """What a program says, and its exit status."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **more)


def script(path, *lines):
    """Lines that can be executed, by the shell unless the first one says otherwise."""
    path.write_text("\n".join([*([] if lines[0].startswith("#!") else ["#!/bin/sh"]), *lines, ""]))
    path.chmod(0o755)
    return path


@contextmanager
def full_disk():
    """No file of this process gets longer than some letters."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def serving(handler, **more):
    """The URL of a server whose answers are such a handler's, made with these arguments; it logs nothing."""

    class Quiet(handler):
        def __init__(self, *arguments):
            super().__init__(*arguments, **more)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class HereHost(RunningHost):
    """A testbed's host whose commands are run here."""

    def command(self, argv, _=None):
        return argv


class RootsHelper:
    """A host's helper that changes conditions, with one word, `rtt`, whose value is in a file."""

    def __init__(self, folder):
        self.words, self.state, self.value = folder / "arrange.d", folder / "state", folder / "value"
        self.words.mkdir()
        self.value.write_text("14\n")
        text = HELPER.read_text().replace("/etc/tierbench/arrange.d", str(self.words))
        assert "/var/lib/tierbench-arrange" in text
        self.helper = script(folder / "tierbench-arrange", text.replace("/var/lib/tierbench-arrange", str(self.state)))
        self.program = script(self.words / "rtt", WORD.format(value=self.value))

    def call(self, *arguments, given=""):
        return run(self.helper, *arguments, input=given)
