"""A trial with a cold or warm cache, of software or of its files, proves it, or its verdict says what is wrong."""

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import arranged
from tierbench import names
from tierbench.postprocess.measures.stalls import longest_at_an_edge
from tierbench.postprocess.records.load_trial import read_trial
from tierbench.postprocess.tables.write import trial_tables
from tierbench.postprocess.verdict.counting import INVALID, SUSPECT, VALID

FOLDER = "/cvmfs/sft.cern.ch"
SOFTWARE = 300_000_000
DOOR = "root://synthetic/"
READ = 400e6 / 8 * 20 / 1.02  # by the clients of a synthetic trial


def judged(folder, value, before, after, library="", **of_data):
    """The verdict, and its reasons, of a trial with a cache that held so much.

    It is of software, on the worker of all its clients; of data it is on a host of its own.
    """
    host = "cache.fiu.test" if of_data else next(iter(read_trial(folder).client_hosts))
    records = {"event": "arranged", "before": "cold", "now": value}, {"event": "restored", "now": "cold"}
    for record, held in zip(records, (before, after), strict=True):
        if held is not None:
            record["cache"] = {"bytes": held, "folder": FOLDER, **of_data.get("cache", {})}
    arranged(folder, "software-cache", value, *records, host=host)
    if library:
        synthetic.edit_clients(folder, "end", detail={"root_library": library})
    row = trial_tables(folder)
    return row.verdict, row["verdict_reasons"]


@pytest.mark.parametrize(
    ("value", "before", "after", "library", "verdict", "words"),
    [
        ("cold", 1_000_000, SOFTWARE, f"{FOLDER}/lib/libCore.so", VALID, ""),
        ("warm", SOFTWARE, SOFTWARE, f"{FOLDER}/lib/libCore.so", VALID, ""),
        ("cold", 0, 0, "", INVALID, "held 0.0 MB before the trial and 0.0 MB after it"),
        ("cold", SOFTWARE, SOFTWARE, "", INVALID, "held 300.0 MB before"),
        ("cold", SOFTWARE // 5, SOFTWARE, "", SUSPECT, "held 60.0 MB before"),
        ("warm", SOFTWARE * 99 // 100, SOFTWARE, "", SUSPECT, "held 297.0 MB before"),
        ("warm", 0, SOFTWARE, "", INVALID, "held 0.0 MB before"),
        ("warm", SOFTWARE, SOFTWARE, "/opt/root/lib/libCore.so", INVALID, "/opt/root/lib/libCore.so"),
        ("warm", SOFTWARE, None, "", SUSPECT, "what the cache held of"),
    ],
)
def test_what_the_cache_held_decides(folder, value, before, after, library, verdict, words):
    said, reasons = judged(folder, value, before, after, library)
    assert said == verdict, reasons
    assert words in reasons


@pytest.mark.parametrize(
    ("value", "before", "after", "sent_mbps", "trouble", "verdict", "words"),
    [
        ("cold", 0, READ, 400, "", VALID, ""),
        ("cold", 0, READ, 0.01, "", INVALID, "that the clients read"),
        ("cold", READ, READ, 400, "", INVALID, "held 980.4 MB before"),
        ("cold", 0, READ, 400, "write error -28", INVALID, "says: write error -28"),
        ("warm", READ, READ, 0.01, "", VALID, ""),
        ("warm", READ, READ, 12, "", SUSPECT, "from a warm cache"),
        ("warm", READ, READ, 400, "", INVALID, "from a warm cache"),
        ("warm", READ / 2, READ, 0.01, "", INVALID, "held 490.2 MB before"),
        ("warm", READ, None, 0.01, "", SUSPECT, "what the cache held of cache.fiu.test"),
    ],
)
def test_a_cache_of_data_is_proven_by_what_the_storage_sent_and_by_what_it_held(
    folder, value, before, after, sent_mbps, trouble, verdict, words
):
    sent = synthetic.during(sent_mbps, 20)
    synthetic.write_samples(folder / f"samples/{synthetic.OSS}.samples", synthetic.ticks(-2, 23), sent)
    held_after = None if after is None else int(after)
    said, reasons = judged(folder, value, int(before), held_after, cache={"folder": DOOR, "trouble": trouble})
    assert said == verdict, reasons
    assert words in reasons


def test_what_the_caches_took_in_is_in_the_table(folder):
    judged(folder, "cold", 1_000_000, SOFTWARE)
    assert trial_tables(folder).software_bytes == SOFTWARE - 1_000_000


@pytest.mark.parametrize(("opened_s", "waited_s"), [(0.1, 9.9), (9.0, 1.0)])
def test_what_starting_took_is_no_waiting_after_all_has_come(tmp_path, opened_s, waited_s):
    """A client that computes for ten of its twenty seconds waits for the rest, but not where it was starting then."""
    folder = synthetic.write_trial(tmp_path, jobs=1, protocol="file")
    opened_ns = synthetic.GO_NS + round(opened_s * 1e9)
    client = {"opened_wall_ns": opened_ns, "detail": {"computed_s": 10.0}}
    synthetic.write_client(folder / names.client_output(0), begin_s=0, end_s=20, size=500_000_000, **client)
    samples = folder / f"samples/{synthetic.OSS}.samples"
    synthetic.write_samples(samples, synthetic.ticks(-2, 23), synthetic.during(400, 10))
    pause = longest_at_an_edge(read_trial(folder), 0.0)
    assert pause is not None
    assert pause.seconds == pytest.approx(waited_s, abs=0.3)
