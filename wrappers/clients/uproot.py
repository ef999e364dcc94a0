"""uproot, ROOT files in Python: a share of the branches of every event, as arrays."""

from collections.abc import Mapping
from typing import Any

from tierbench.wrappers.child import Run, run_program
from tierbench.wrappers.client import WAIT_FOR_GO, Client, Option, check_size
from tierbench.wrappers.credentials import path_of

# It is ready when all is imported, which takes seconds.
READ = (
    WAIT_FOR_GO
    + """
import math, signal
import awkward, numpy.ma, uproot
url, tree, share, step, report = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
credentials = dict(zip(("proxy", "token", "certificate"), sys.argv[6:]))

def complain(kind, error, trace):
    sys.__excepthook__(kind, error, trace)
    print(kind.__name__, " ".join(str(error).split()), sep=": ", file=sys.stderr)  # some have several lines

sys.excepthook = complain

class Remote(uproot.source.fsspec.FSSpecSource):
    def _open(self):
        super()._open()
        ask = self._fs._cat_ranges
        async def ranges(**asked):  # fsspec returns errors in place of data, and uproot does not look
            parts = await ask(**asked)
            for part in parts:
                if isinstance(part, Exception):
                    raise part
            return parts
        self._fs._cat_ranges = ranges

how = {"handler": Remote}
if "://" not in url:
    how = {"handler": uproot.source.file.MultithreadedFileSource}  # what is mapped nobody counts
elif url.startswith("root"):
    import fsspec_xrootd
else:
    import aiohttp, encodings.idna, fsspec.implementations.http, ssl
    how.update(ssl=ssl.create_default_context(), proxy=credentials["proxy"] or None)
    how["ssl"].verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # which authorities of grids do not pass
    how["client_kwargs"] = {"timeout": aiohttp.ClientTimeout(total=None)}  # a trial has a limit of its own
    if credentials.get("certificate"):
        how["ssl"].load_cert_chain(credentials["certificate"])
end = {}

def tell():
    if end:
        with open(report, "w") as out:
            json.dump(end, out)

def cut(*_):  # time is over: the steps that it has read count
    tell()
    os._exit(128 + signal.SIGTERM)

wait_for_go()
if credentials.get("token"):  # which may have been renewed meanwhile
    with open(credentials["token"]) as file:
        how["client_kwargs"]["headers"] = {"Authorization": "Bearer " + file.read().strip()}
signal.signal(signal.SIGTERM, cut)
with uproot.open(url, **how) as file:
    trees = [key for key, kind in file.classnames(cycle=False).items() if kind in ("TTree", "ROOT::RNTuple")]
    if not (tree or trees):
        sys.exit(url + ": has no tree")
    entries = file[tree or trees[0]]
    source = file.file.source
    end.update(opened_wall_ns=int(time.time() * 1e9), file_bytes=source.num_bytes, events=0, bytes=0)
    try:
        every = entries.keys(recursive=False)
    except TypeError:  # of an RNTuple, before uproot 5.3
        every = [name for name in entries.keys() if "." not in name and "/" not in name]
    if not every:
        sys.exit(url + ": has no branch")
    names = every[: max(1, math.ceil(share * len(every)))]
    for read in entries.iterate(names, step_size=step):  # which reads a basket of several steps once
        end.setdefault("first_event_wall_ns", int(time.time() * 1e9))
        end.update(events=end["events"] + len(read), bytes=source.num_requested_bytes)
    end.update(bytes=source.num_requested_bytes, requests=source.num_requests, chunks=source.num_requested_chunks)
    end.update(branches=len(names), of_branches=len(every), uproot=uproot.__version__)
tell()
"""
)
LAUNCH = 'eval "$1" >&2 || exit 125; shift; exec python3 -c "$@"'
SPECIFIED = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
REPORT = "report.json"
FURTHER = {"xrootd": "fsspec_xrootd", "http": "aiohttp"}


class Uproot(Client):
    """Reads its share of the branches event by event, a step of them at a time."""

    counts_events = True
    protocols = ("xrootd", "http", "file")
    kinds = ("tree", "rntuple", "higgs", "copies")
    memory_mb = 512
    usual_excess = 0.05
    taken_in = "bytes_app"
    remedy = "pip install uproot fsspec-xrootd aiohttp there, or set options.setup to a line that finds them"
    options = {
        "branches": Option(1.0, 0.0001, 1, meaning="share of the branches that is read, from the first one on"),
        "step_events": Option(10_000, 1, 10_000_000, meaning="events that are in memory at a time"),
        "tree": Option("", kind="Tree", meaning="its name; empty: the first one"),
        "setup": Option("", kind="Shell", meaning="a line of shell after which python3 finds uproot"),
    }

    @classmethod
    def missing(cls, options: "Mapping[str, Any]") -> str:
        absent = _absent("uproot", "awkward", setup=options["setup"])
        return absent or (_absent("uproot.source.fsspec", setup=options["setup"]) and "uproot is older than 5.2")

    @classmethod
    def missing_by(cls, protocol: str) -> str:
        return _absent(FURTHER[protocol]) if protocol in FURTHER and not _absent("uproot") else ""

    def held_command(self) -> "list[str]":
        options = self.job.options
        words = [self.job.path, options["tree"], options["branches"], options["step_events"], self.job.scratch / REPORT]
        proxy = f"http://{options['proxy']}" if options["proxy"] else ""
        kinds = ("token", "proxy") if self.job.url.startswith("https://") else ()
        words += [proxy, *map(path_of, kinds)]
        return ["sh", "-c", LAUNCH, "sh", options["setup"], READ, *map(str, words)]

    def outcome(self, run: Run) -> "dict[str, Any]":
        report = self.job.report(REPORT)
        if not report or (run.exit_status and "branches" not in report):  # which a whole read tells at last
            return {**self.judged(run, report["bytes"] if report else None), "bytes_source": "uproot"}
        expected = None if report["file_bytes"] is None else self.job.expected_bytes
        status, message = check_size(report["file_bytes"], expected, "the file has {} bytes where {} were expected")
        return {
            "status": status, "message": message, "opened_wall_ns": report.pop("opened_wall_ns"),
            "first_byte_wall_ns": report.pop("first_event_wall_ns", None), "events": report.pop("events"),
            "bytes_app": report.pop("bytes"),
            "bytes_client": None,  # its process reads modules of Python as it goes
            "bytes_source": "uproot", "detail": report,
        }  # fmt: skip


def _absent(*modules: str, setup: str = "") -> str:
    """The first of the modules that the workers' Python does not find; "" if there is none."""
    search = run_program("sh", "-c", LAUNCH, "sh", setup, SPECIFIED, *modules)
    return f"python3 finds no {' and '.join(modules)}" if search.status else ""
