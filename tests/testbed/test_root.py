"""ROOT on the testbed's hosts reads through XRootD even where it could cheat."""

from __future__ import annotations

import pytest

from tierbench.testbed.services.filesystem import DATA
from tierbench.testbed.testbed import Testbed
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


@pytest.fixture(scope="module")
def root_file(testbed: Testbed) -> str:
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
def test_root_reads_through_xrootd(testbed: Testbed, root_file: str, reader: str, door: str) -> None:
    url = f"root://{door}:1094/{root_file}"
    answer = testbed.host(reader).run("python3", "-c", READ.format(url=url), user=USER).stdout
    assert answer.split() == ["TNetXNGFile", "1000"]


def test_root_reads_through_a_mount(testbed: Testbed, root_file: str) -> None:
    answer = testbed.host("wn03").run("python3", "-c", READ.format(url=root_file), user=USER).stdout
    assert answer.split() == ["TFile", "1000"]
