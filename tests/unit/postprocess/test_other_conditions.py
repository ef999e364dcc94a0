"""Trials of a run that were measured under other conditions than the rest: which are, and what is told of them."""

import json

import pytest

from tests.unit import synthetic_run as synthetic
from tests.unit.doctored_trial import OSS, arranged, edit_client, sampled
from tierbench.postprocess.tables.terminal import as_text
from tierbench.postprocess.tables.write import tables
from tierbench.postprocess.verdict.judge import SUSPECT, VALID

ALIKE = [("rw,sec=krb5", "krb5"), ("rw,sec=krb5p", "krb5p"), ("rw,sec=krb5", "krb5")]
UNLIKE = [("rw,sec=krb5", "krb5"), ("ro,sec=krb5", "krb5"), ("rw,sec=krb5", "krb5")]
RO = "oss.uf.test had mount /extenci nfs4 ro,sec=krb5 and not nfs4 rw,sec=krb5"


@pytest.fixture
def run(tmp_path):
    for repeat in (1, 2, 3):
        synthetic.write_trial(tmp_path / "run", repeat=repeat, index=repeat)
    return tmp_path / "run"


def tuned(run, repeat, **changes):
    sampled(run / f"trials/lan-xrootd.root.x004.r{repeat}", **changes)


def test_a_trial_under_other_conditions_is_suspect_and_says_which(run):
    tuned(run, 2, kernel="6.1-other", tuning={"net.ipv4.tcp_congestion_control": "reno"})
    for repeat in (1, 3):
        tuned(run, repeat, tuning={"net.ipv4.tcp_congestion_control": "cubic"})
    rows = tables(run)
    assert [row["verdict"] for row in rows] == [VALID, SUSPECT, VALID]
    assert "oss.uf.test had kernel 6.1-other and not synthetic" in rows[1]["verdict_reasons"]
    assert "had net.ipv4.tcp_congestion_control reno and not cubic" in rows[1]["verdict_reasons"]
    assert rows[0]["conditions"] == rows[2]["conditions"] != rows[1]["conditions"]


@pytest.mark.parametrize(("mounts", "verdict", "words"), [(ALIKE, VALID, ""), (UNLIKE, SUSPECT, RO)])
def test_what_differs_is_another_condition_unless_it_was_arranged(run, mounts, verdict, words):
    for repeat, (options, flavour) in enumerate(mounts, 1):
        tuned(run, repeat, mounts={"/extenci": f"nfs4 {options}"})
        records = ({"event": event, "now": flavour} for event in ("arranged", "restored"))
        arranged(run / f"trials/lan-xrootd.root.x004.r{repeat}", "flavour", flavour, *records)
    rows = tables(run)
    assert [row["verdict"] for row in rows] == [VALID, verdict, VALID]
    assert words in rows[1]["verdict_reasons"]


def test_a_host_that_is_sampled_in_another_role_is_no_other_condition(run):
    for repeat, role in ((1, "door"), (2, "worker"), (3, "door")):
        synthetic.write_host(
            run / f"trials/lan-xrootd.root.x004.r{repeat}", "both.uf.test", role, begin=-2.3, until=22.7
        )
    assert "had role" not in " ".join(row["verdict_reasons"] for row in tables(run))


def test_a_reboot_alone_is_no_other_condition(run):
    assert len({row["conditions"] for row in tables(run)}) == 1
    tuned(run, 2, boot_id="rebooted")
    for index in range(4):
        edit_client(run / "trials/lan-xrootd.root.x004.r2", index, "start", boot_id="rebooted")
    assert [row["verdict"] for row in tables(run)] == [VALID] * 3


def test_the_runs_conditions_name_hosts_boots_and_differences(run):
    tuned(run, 2, kernel="6.1-other")
    tables(run)
    told = json.loads((run / "conditions.json").read_text(encoding="utf-8"))
    assert told["hosts"][OSS]["kernel"] == "synthetic"
    assert told["boot_ids"][OSS] == ["synthetic"]
    assert list(told["differences"].values()) == [["oss.uf.test had kernel 6.1-other and not synthetic"]]
    assert "SUSPECT" in as_text(run)
    assert "had kernel 6.1-other" in as_text(run)
    assert "6.1-other" not in (run / "trials/lan-xrootd.root.x004.r2/trials.csv").read_text(encoding="utf-8")
