"""Why clients have failed, told in the order of what befell them."""

import json

import pytest

from tierbench import names
from tierbench.submit.trial.joblog import Cluster, client_reasons

BY_DAGMAN = "Node Error: DAG node 'clients' (7.1.0) got 'ULOG_JOB_ABORTED' event. (by user bench)"
WHOLE, FRACTIONS, ISO, OLD = (
    "2026-11-21 18:10:27", "2026-11-21 18:10:27.123", "2026-11-21T18:10:27.123Z", "11/21 18:10:27",
)  # fmt: skip
WHY = "The job attribute PeriodicRemove expression 'JobStatus == 5 || (JobStatus == 1 && …)' evaluated to TRUE"


@pytest.fixture(params=[WHOLE, FRACTIONS, ISO, OLD])
def trial(tmp_path, monkeypatch, request):
    """Client 1 was removed by somebody while all four were reading, so DAGMan has removed the others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / names.CLIENTS).mkdir()
    events = []
    for n in range(4):
        events.append(f"000 (007.00{n}.000) {request.param} Job submitted from host: <198.18.2.11:9618>")
        events.append(f"001 (007.00{n}.000) {request.param} Job executing on host: <>\n\tSlotName: slot1_1@wn0{n}")
        (tmp_path / names.client_output(n)).write_text(end("killed", "ended by SIGTERM"))
    (tmp_path / names.client_output(1)).write_text('{"event": "go"}\n')
    for n, why in ((1, "via condor_rm (by user somebody)"), *((n, BY_DAGMAN) for n in (0, 2, 3))):
        events.append(f"004 (007.00{n}.000) {request.param} Job was evicted.")
        events.append(f"009 (007.00{n}.000) {request.param} Job was aborted.\n\t{why}")
    (tmp_path / names.CLIENTS_LOG).write_text("".join(f"{event}\n...\n" for event in events))
    return tmp_path


def end(status, message=""):
    return json.dumps({"event": "end", "status": status, "message": message}) + "\n"


def test_who_was_removed_comes_before_those_removed_for_it_and_who_failed_by_himself_has_his_reason(trial):
    assert client_reasons(4)[0] == "client 1 lost: it was removed: via condor_rm (by user somebody)"
    assert len(client_reasons(4)) == 4
    (trial / names.client_output(2)).write_text(end("ok"))
    assert not any(reason.startswith("client 2") for reason in client_reasons(4))
    (trial / names.client_output(3)).write_text(end("open-failed", "no such file"))
    assert client_reasons(4)[0].startswith("client 1")
    assert "client 3 open-failed: no such file" in client_reasons(4)


@pytest.mark.parametrize(
    ("events", "said"), [(("010", "011"), True), (("010", "011", "001"), False), (("010", "011", "008"), False)]
)
def test_who_was_suspended_meanwhile_has_not_been_measured(trial, events, said):
    """However briefly; before it was ready, or started anew, it is no matter."""
    (trial / names.client_output(3)).write_text(end("ok"))
    log = trial / names.CLIENTS_LOG
    text = log.read_text().partition("004 (007.003.000)")[0]
    log.write_text(text + "".join(f"{event} (007.003.000) {WHOLE} TIERBENCH READY 3\n...\n" for event in events))
    assert ("client 3 was suspended by its worker while it ran" in client_reasons(4)) == said


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ({"012": "Job was held.\n\tcannot open replicas.txt\n\tCode 12 Subcode 2",
          "009": "Job was aborted.\n\tThe job attribute PeriodicRemove evaluated to TRUE"},
         "never started: it was held: cannot open replicas.txt"),
        ({"009": f"Job was aborted.\n\t{WHY}"}, "never started: it was removed: it found no slot in time"),
        ({"001": "Job executing on host: <>\n\tSlotName: slot1_1@wn03",
          "022": "Job disconnected, attempting to reconnect\n    Socket closed",
          "009": "Job was aborted.\n\tDAG Abort: DAG is exiting and writing rescue file."},
         "lost: it was lost: its slot slot1_1@wn03 does not answer (Socket closed)"),
    ],
    ids=["held", "no slot", "worker lost"],
)  # fmt: skip
def test_a_clients_reason_is_what_befell_it_first_and_no_expression(trial, events, reason):
    with (trial / names.CLIENTS_LOG).open("a") as log:
        for kind, text in {"000": "Job submitted from host: <>", **events}.items():
            log.write(f"{kind} (008.000.000) {WHOLE} {text}\n...\n")
    (trial / names.client_output(0)).unlink()
    if "001" in events:
        (trial / names.client_output(0)).write_text('{"event": "go"}\n')
    assert client_reasons(1) == [f"client 0 {reason}"]


def test_an_event_that_is_being_written_is_read_when_it_is_whole(trial):
    log = Cluster(trial / names.CLIENTS_LOG)
    with (trial / names.CLIENTS_LOG).open("a") as file:
        file.write(f"000 (009.000.000) {WHOLE} Job submi")
        file.flush()
        log.read_on()
        assert log.number == 7
        file.write("tted from host: <>\n...\n")
    log.read_on()
    assert (log.number, log.left) == (9, {0})


@pytest.fixture
def after(tmp_path):
    """A job's state when it was started, was ready, and these events have come."""

    def after(*kinds):
        words = {"008": "TIERBENCH READY 0", "012": "Job was held.\n\tno space"}
        events = (f"{kind} (7.000.000) {WHOLE} {words.get(kind, '')}\n...\n" for kind in ("000", "001", "008", *kinds))
        (tmp_path / names.CLIENTS_LOG).write_text("".join(events))
        cluster = Cluster(tmp_path / names.CLIENTS_LOG)
        assert cluster.had_slots() + len(cluster.away) == 1
        return cluster

    return after


@pytest.mark.parametrize(
    ("kinds", "ready", "may_return"),
    [
        (["022"], {0}, [True]),
        (["022", "023"], {0}, []),
        (["022", "024"], set(), [False]),
        (["004"], set(), [False]),
        (["007"], set(), [False]),
        (["007", "001"], set(), []),
    ],
)
def test_a_job_that_has_lost_its_slot_is_not_ready_and_does_not_return(after, kinds, ready, may_return):
    cluster = after(*kinds)
    assert (cluster.ready, [away.may_return for away in cluster.away.values()]) == (ready, may_return)


def test_a_trouble_that_is_over_is_no_reason(after):
    assert after("022", "023", "012").ended == {0: "was held: no space"}
    assert after("012", "013").left == after("012", "001").left == {0}
