"""ROOT on the testbed's hosts reads through XRootD even where it could cheat; a tree's numbers as an RNTuple."""

import pytest

from tests.testbed.runs import HOME, outcome
from tierbench import names
from tierbench.submit.trial.joblog import last_record
from tierbench.testbed.services.filesystem import DATA
from tierbench.testbed.topology import USER

MAKE = """
import ROOT
file = ROOT.TFile.Open("{path}", "recreate")
tree = ROOT.TNtuple("events", "", "x:y")
for i in range(1000):
    tree.Fill(i, 1)
tree.Write()
file.Close()
"""
READ = """
import ROOT
file = ROOT.TFile.Open("{url}")
print(file.ClassName(), file.Get("events").GetEntries())
"""
EXPERIMENT = """
access = ["wan-xrootd-private"]
workloads.root = { client = "root", replicas = "numbers", options = { branches = 0.25, clusters = 2 } }
axes.format = { values = ["tree", "rntuple"], sets = "replicas.numbers.kind" }

[replicas.numbers]
kind = "tree"
count = 1
size_mb = 6
branches = 40
leaves = 1
codec = "zstd-5"
events = 40000
cluster_events = 5000
"""
SUM = """
import glob, ROOT
for path in glob.glob("/extenci/tierbench/replicas/numbers-*/*.root"):
    print(ROOT.RDataFrame("tree", path).Define("x", "b3 + b39").Sum("x").GetValue())
"""

HELD = """
import glob, os, subprocess
os.mkfifo("held.report")
path, = [path for path in glob.glob("/extenci/tierbench/replicas/numbers-*/*.root") if "rntuple" not in path]
def libraries(process):
    with open("/proc/%d/maps" % process.pid) as maps:
        return {line.split()[-1] for line in maps if ".so" in line}
command = ["./root_read", path, "", "0", "0", "1", "1", "1", "1", "held.report"]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
    reader.stdout.readline()
    ready = libraries(reader)
    reader.stdin.write(b"go\\n")
    reader.stdin.flush()
    with open("held.report") as report:  # for which the program waits when it has read
        print(*(libraries(reader) - ready))
        assert '"ok"' in report.read()
"""


@pytest.fixture(scope="module")
def root_file(testbed):
    path = f"{DATA}/tree.root"
    testbed.host("vmuf").run("python3", "-c", MAKE.format(path=path), user=USER)
    return path


@pytest.mark.parametrize(
    ("reader", "door"),
    [
        ("wn01", "dgt.private.fiu.test"),
        ("wn03", "vmuf.uf.test"),
        ("dgt", "dgt.fiu.test"),  # here the path exists locally too: ROOT's silent short cut
    ],
)
def test_root_reads_through_xrootd(testbed, root_file, reader, door):
    url = f"root://{door}:1094/{root_file}"
    answer = testbed.host(reader).run("python3", "-c", READ.format(url=url), user=USER).stdout
    assert answer.split() == ["TNetXNGFile", "1000"]


@pytest.fixture(scope="module")
def ends(access_point):
    """How the client of each format ended."""
    run = access_point.measured("formats", EXPERIMENT)
    assert [outcome(trial)["reasons"] for trial in run.trials] == [[], []]
    return {
        end["detail"]["format"]: end for end in (last_record(trial / names.client_output(0)) for trial in run.trials)
    }


def test_trees_and_rntuples_are_the_same_numbers(ends, testbed):
    sums = testbed.host("vmuf").run("python3", "-c", SUM, user=USER).stdout.split()
    assert len(sums) == 2
    assert sums[0] == sums[1]
    assert ends["TTree"]["events"] == ends["RNTuple"]["events"] == 40_000


@pytest.mark.usefixtures("ends")
def test_files_made_anew_are_the_same_bytes(testbed):
    """So that repetitions can be added on another testbed, whose files have the checksums that the run's plan has."""
    anew = f"{HOME}/anew"
    make = f"tierbench replicas {HOME}/formats.toml --site testbed --directory {anew} >&2"
    sums = "cd {}; cat numbers-*/numbers-????.root | cksum"  # an RNTuple was another one each time
    script = f"{make}; ({sums.format(anew)}); {sums.format('/extenci/tierbench/replicas')}; rm -r {anew}"
    anew, before = testbed.host("vmuf").run("sh", "-euc", script, user=USER, timeout=120).stdout.splitlines()
    assert anew == before


@pytest.mark.parametrize(("kind", "vector_reads"), [("TTree", range(1, 9)), ("RNTuple", range(4, 6))])
def test_what_the_chosen_columns_take_is_read_and_counted(ends, kind, vector_reads):
    end = ends[kind]
    detail = end["detail"]
    assert end["bytes_app"] == detail["column_bytes"] + detail["opening_bytes"] + detail.get("gap_bytes", 0)
    assert 0.2 < detail["column_bytes"] / detail["file_bytes"] < 0.3
    assert detail["vector_reads"] in vector_reads


@pytest.mark.usefixtures("ends")
def test_root_has_started_before_the_go_for_files_on_a_mount_too(access_point, testbed):
    """Its interpreter alone takes 0.2 s of CPU, which a client of a mount alone would spend in the trial's time."""
    host, program = testbed.host("vmuf"), access_point.there("formats") / names.PROGRAMS / "root_read"
    host.put("/home/bench/root_read", program.read_bytes(), 0o755, user=USER)
    assert host.run("python3", "-c", HELD, user=USER).stdout.split() == []
