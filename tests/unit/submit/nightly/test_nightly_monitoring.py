"""What monitoring sees of a nightly: its alarms, its state, the plugin's line, the text file and the list."""

import contextlib
import dataclasses
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest

from tests.unit.nights_of_chronicle import LAN, chronicle_of, slower_from
from tests.unit.submit.nightly.conftest import LAST, NOW, WORSE, close, damage, measured
from tierbench import names
from tierbench.errors import TierbenchError
from tierbench.postprocess.history import database
from tierbench.postprocess.history.database import History
from tierbench.postprocess.history.rows import Measured, Value
from tierbench.site_configs.site import SHIPPED
from tierbench.submit import pool
from tierbench.submit.cli import main
from tierbench.submit.nightly import monitoring, record
from tierbench.submit.nightly.monitoring import Health, changes, record_in_history, suspected, write_textfile
from tierbench.submit.nightly.record import Night


def feed(nights, slower_from_night, by=0.15, what=LAN):
    """Put nights into the history of which one way, or all (""), is slower from a night on."""
    known = chronicle_of(nights, factors={what: slower_from(slower_from_night, by)})
    with History() as history:
        for night in known.nights:
            measured = Measured(tuple(known.values[night.id]), tuple(known.verdicts[night.id]))
            history.record(dataclasses.replace(night, nightly="quick"), measured)


def test_one_night_alone_is_suspected_and_no_alarm(define):
    nightly = define()
    feed(11, slower_from_night=10)
    assert (suspected(nightly), changes(nightly)) == ([LAN], [])


def test_a_fall_by_more_than_a_quarter_is_critical(define):
    nightly = define()
    feed(12, slower_from_night=10, by=0.35)
    assert [change.level for change in changes(nightly)] == ["CRITICAL"]


def test_two_nights_are_an_alarm_until_it_is_acknowledged(define):
    nightly = define()
    feed(12, slower_from_night=10)
    (change,) = changes(nightly)
    assert (change.direction, change.level, change.configuration) == ("worse", "WARNING", LAN)
    assert main(["nightly", "ack", "quick", "mistyped"]) == 2
    assert not changes(nightly)[0].acknowledged
    assert main(["nightly", "ack", "quick", "--note", "new disks"]) == 0
    assert [(change.acknowledged, change.acknowledged_ns > 0) for change in changes(nightly)] == [(True, True)]


def test_a_change_of_all_is_acknowledged_by_the_name_that_the_refusal_gives_and_the_text_file_knows(
    define, tmp_path, capsys
):
    nightly = define(textfile=str(tmp_path))
    feed(12, slower_from_night=10, what="")
    assert main(["nightly", "ack", "quick", "all"]) == 2
    name = capsys.readouterr().err.split()[-1]
    write_textfile(nightly, changes(nightly))
    texts = []
    for _ in range(2):
        texts.append((tmp_path / "tierbench_nightly_quick.prom").read_text())
        assert main(["nightly", "ack", "quick", name]) == 0
    unacknowledged = [re.findall(r"^tierbench_nightly_changes{.*} (.*)", text, re.M) for text in texts]
    assert unacknowledged == [["1.0"], ["0.0"]]


@pytest.mark.parametrize(
    "after,outcome,changes,expected",
    [
        (timedelta(hours=1), None, [], "OK"),
        (timedelta(hours=1), None, [WORSE], "WARNING"),
        (timedelta(hours=25), "failed", [], "UNKNOWN"),  # whatever failed, the numbers may be as good as ever
        (timedelta(hours=25), "missed", [], "UNKNOWN"),
        (timedelta(hours=27), None, [], "CRITICAL"),
        (timedelta(hours=27), "failed", [], "CRITICAL"),
    ],
)
def test_the_state(define, after, outcome, changes, expected):
    nightly = define()
    record_in_history(nightly, measured(nightly, deliveries={"nobody": ""}), [])
    if outcome:
        night = Night((LAST + timedelta(days=1)).timestamp(), outcome, "all INVALID", counts={"INVALID": 6})
        record.write(nightly, night)
    assert Health(nightly, changes, LAST + timedelta(minutes=10) + after).state == expected


def test_a_nightly_that_has_never_measured_anything_is_critical_after_26_hours(define):
    nightly = define(since=NOW - timedelta(hours=27))
    assert Health(nightly, [], NOW - timedelta(hours=2)).state == "UNKNOWN"
    assert Health(nightly, [], NOW).state == "CRITICAL"


def test_the_line_is_as_monitoring_plugins_want_it(define, monkeypatch):
    nightly = define()
    measured(nightly, run=False)
    value = Value("it's a|way/root =1", "delivered_mbps", 131.26, None, None, 3)
    monkeypatch.setattr(monitoring, "rates", lambda _: ("Mb/s", [value]))
    line = monitoring.plugin_line(nightly, Health(nightly, [WORSE], LAST + timedelta(hours=1)))
    text, _, data = line.partition(" | ")
    assert (line.count("\n"), line.count("|"), text.split(" - ")[0]) == (0, 1, "TIERBENCH WARNING")
    number = r"-?\d+(\.\d+)?"
    one = rf"('[^'=]+'|[^ '=]+)={number}(s|%|B|c)?(;({number})?){{0,4}}"
    assert re.fullmatch(rf"{one}( {one})*", data), data
    assert "age=3000s;;93600;0" in data


def test_check_says_one_line_and_unknown_whatever_is_wrong(define, capsys):
    assert main(["nightly", "check", "nowhere"]) == 3
    nightly = define()
    (nightly.directory / names.NIGHTLY).write_text("{}")
    assert main(["nightly", "check", "quick"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" - ")[0] for line in lines] == ["TIERBENCH UNKNOWN"] * 2


def test_check_says_unknown_where_nobody_foresaw_what_went_wrong(define, capsys, monkeypatch):
    monkeypatch.setattr(monitoring, "changes", lambda _: {}["changes"])
    nightly = define()
    measured(nightly, run=False)
    assert main(["nightly", "check", nightly.name]) == 3
    assert "UNKNOWN - KeyError: 'changes'" in capsys.readouterr().out


def test_check_loads_little_and_reads_the_last_nights_of_years(define, tmp_path):
    """A monitoring system gives its plugins ten seconds, on a machine that may be busy."""
    nightly = define(since=datetime.now(UTC), history=str(tmp_path / "history.sqlite"))
    feed(12, slower_from_night=10)
    for days in range(400):
        record.write(nightly, Night((LAST - timedelta(days=days)).timestamp(), "measured", ended_wall_s=1.0))
    program = (
        "import sys; sys.modules['scipy.stats'] = sys.modules['matplotlib'] = None\n"
        "from tierbench.submit.nightly import record\n"
        "def counted(*given, read=record.read): sys.stderr.write('read '); return read(*given)\n"
        "record.read = counted\n"
        "from tierbench.submit.cli import main; sys.exit(main(['nightly', 'check', 'quick']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert LAN in done.stdout
    assert done.stderr.count("read") < 40


def test_who_looks_before_the_first_night_makes_no_history_that_its_owner_could_not_write(define, tmp_path, capsys):
    define(since=datetime.now(UTC), history=str(tmp_path / "home" / "history.sqlite"))
    assert main(["nightly", "check", "quick"]) == 3
    assert "no night yet" in capsys.readouterr().out
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("own", [True, False])
def test_root_who_looks_leaves_nothing_of_his_own(define, monkeypatch, own):
    nightly = define()
    measured(nightly, run=False)
    before = set(nightly.directory.iterdir())
    monkeypatch.setattr("os.geteuid", lambda: nightly.directory.stat().st_uid + (0 if own else 1))
    main(["nightly", "check", nightly.name])
    assert (set(nightly.directory.iterdir()) == before) is not own


def test_another_user_is_told_of_the_same_changes(define, monkeypatch, tmp_path, capsys):
    define(since=datetime.now(UTC), history=str(tmp_path / "history.sqlite"))
    feed(12, slower_from_night=10)
    monkeypatch.delenv("TIERBENCH_HISTORY")
    monkeypatch.setenv("HOME", str(tmp_path / "nagios"))
    assert main(["nightly", "check", "quick"]) == 1
    assert LAN in capsys.readouterr().out


def test_check_and_doctor_say_that_the_history_is_on_a_network_file_system(define, monkeypatch, tmp_path, capsys):
    define(since=datetime.now(UTC), history=str(tmp_path / "history.sqlite"))
    feed(8, slower_from_night=9)
    monkeypatch.setattr(database, "network_file_system", lambda _: "nfs4")
    assert main(["nightly", "check", "quick"]) == 3  # no night yet
    assert main(["doctor", "--site", "testbed", "--quick"]) == 1
    assert capsys.readouterr().out.count("is on nfs4, where SQLite's locks may fail") == 2


def test_who_may_only_read_can_open_the_history(define, tmp_path):
    define()
    feed(8, slower_from_night=7)
    place = tmp_path / "history.sqlite"
    assert sorted(path.name for path in tmp_path.glob("history*")) == ["history.sqlite"]
    with contextlib.closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as database:
        assert database.execute("SELECT COUNT(*) FROM night").fetchone() == (8,)


def test_prometheus_reads_the_text_file(define, tmp_path):
    nightly = define(textfile=str(tmp_path))
    night = close(nightly, measured(nightly))
    write_textfile(nightly, [WORSE])
    text = (tmp_path / "tierbench_nightly_quick.prom").read_text()
    at = f'tierbench_nightly_last_success_timestamp_seconds{{nightly="quick",site="testbed"}} {night.ended_wall_s!r}\n'
    assert at in text
    assert [path.name for path in tmp_path.glob(".*")] == []
    if shutil.which("promtool"):
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_what_the_history_lacks_is_recorded_by_the_next_night_and_the_text_file_claims_nothing_yet(define, tmp_path):
    """The history was lost, and then is no database, in which nobody can look for changes."""
    nightly = define(textfile=str(tmp_path), history=str(tmp_path / "history.sqlite"))
    close(nightly, measured(nightly, LAST - timedelta(days=1)))
    (tmp_path / "history.sqlite").unlink()
    close(nightly, measured(nightly))
    with History(tmp_path / "history.sqlite") as history:
        assert [night.outcome for night in database.nights(history, "quick")] == ["measured"] * 2
    text = (tmp_path / "tierbench_nightly_quick.prom").read_text()
    (tmp_path / "history.sqlite").write_bytes(b"no database, and long enough not to be taken for an empty one" * 40)
    close(nightly, measured(nightly, LAST + timedelta(days=1)))
    assert (tmp_path / "tierbench_nightly_quick.prom").read_text() == text


def test_a_paused_nightly_gets_no_text_file_by_an_acknowledgement(define, tmp_path):
    """Its age would be an alarm."""
    define(textfile=str(tmp_path), paused=True)
    feed(12, slower_from_night=10)
    assert main(["nightly", "ack", "quick"]) == 0
    assert [*tmp_path.glob("*.prom")] == []


def test_few_nights_are_no_proof_that_nothing_has_changed(define):
    nightly = define()
    feed(3, slower_from_night=10)
    measured(nightly)
    assert "nothing can be said yet: that takes 7 nights, and there are 3" in Health(nightly, [], NOW).summary


@pytest.mark.parametrize("ahead_s", [1e8, 7200.0])
def test_a_night_that_a_wrong_clock_has_put_ahead_is_none(define, ahead_s):
    nightly = define()
    night = measured(nightly)
    record.write(nightly, Night(datetime.now(UTC).timestamp() + ahead_s, "missed"))
    assert [*record.newest_first(nightly)] == [night]


def test_the_dashboard_asks_for_what_the_text_file_has(define, tmp_path):
    nightly = define(textfile=str(tmp_path), history=str(tmp_path / "history.sqlite"))
    close(nightly, measured(nightly))
    text = (tmp_path / "tierbench_nightly_quick.prom").read_text()
    written = {name: set(re.findall(r"(\w+)=", labels)) for name, labels in re.findall(r"^(\w+)\{(.*)\}", text, re.M)}
    board = json.loads((SHIPPED / "grafana/nightly.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [variable["query"]["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    metrics = {name for query in queries for name in re.findall(r"tierbench_\w+", query)}
    assert metrics == written.keys()
    for panel in board["panels"]:
        legend = set(re.findall(r"\{\{(\w+)\}\}", " ".join(target["legendFormat"] for target in panel["targets"])))
        names = re.findall(r"tierbench_\w+", panel["targets"][0]["expr"])
        assert legend | {"nightly"} <= set.intersection(*(written[name] for name in names))


def test_the_dashboard_is_one_that_grafana_imports():
    """By the required fields of its dashboard schema; no Grafana is at hand here."""
    board = json.loads((SHIPPED / "grafana/nightly.json").read_text())
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time", "annotations"} <= board.keys()
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?(?!__)(\w+)", json.dumps(board))) == variables
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        assert {"type", "title", "gridPos", "fieldConfig", "options", "targets", "datasource"} <= panel.keys()
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken
        taken |= cells
        assert panel["fieldConfig"].keys() == {"defaults", "overrides"}
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None
        assert all({"refId", "expr", "datasource"} <= target.keys() for target in panel["targets"])


def test_where_there_are_none_the_list_says_so(capsys):
    assert main(["nightly", "list"]) == 0
    assert "`tierbench nightly add` sets one up" in capsys.readouterr().out


def test_one_that_is_damaged_hides_no_other_in_the_list(define, monkeypatch, capsys):
    monkeypatch.setattr(pool, "jobs", lambda *_: [{"JobStatus": 1}])
    nightly = define(since=datetime.now(UTC))
    measured(nightly, run=False)
    damage(nightly.directory.with_name("damaged"))
    assert main(["nightly", "list"]) == 0
    first, second, *nights = capsys.readouterr().out.splitlines()
    assert first.startswith("damaged: ")
    assert second.partition("; next ")[0] == "quick: 02:30 every day at testbed, by condor"
    assert nights[-1].endswith("measured: 6 VALID")


def test_the_text_file_has_no_earlier_nights_rates_for_one_that_measured_nothing(define, tmp_path):
    nightly = define(textfile=str(tmp_path))
    close(nightly, measured(nightly, LAST - timedelta(days=1)))
    file = tmp_path / "tierbench_nightly_quick.prom"
    assert "tierbench_nightly_value{" in file.read_text()
    record.write(nightly, Night(LAST.timestamp(), "failed", ended_wall_s=LAST.timestamp() + 60))
    write_textfile(nightly, [])
    assert "tierbench_nightly_value{" not in file.read_text()


def test_a_history_that_lost_all_nights_is_told(define):
    nightly = define()
    measured(nightly, deliveries={"nobody": ""})
    with pytest.raises(TierbenchError, match="has none of its nights: the next one records them again"):
        Health(nightly, [], NOW)


def test_nothing_is_said_of_a_night_that_the_history_lacks_until_the_next_one_records_it(define, monkeypatch, capsys):
    now = datetime.now(UTC)
    nightly = define(since=now - timedelta(hours=8))
    feed(9, slower_from_night=10)
    with monkeypatch.context() as locked:
        locked.setattr(History, "record", Mock(side_effect=TierbenchError("another program has been writing to it")))
        close(nightly, measured(nightly, now - timedelta(hours=3)))
    assert main(["nightly", "check", "quick"]) == 3
    assert "history.sqlite lacks the night of " in capsys.readouterr().out
    close(nightly, measured(nightly, now - timedelta(hours=2)))
    main(["nightly", "check", "quick"])
    assert " lacks " not in capsys.readouterr().out


def test_a_night_that_is_not_whole_is_a_warning(define):
    nightly = define()
    night = measured(nightly, deliveries={"nobody": ""}, reason="6 of 9 trials: a client failed")
    record_in_history(nightly, night, [])
    state = Health(nightly, [], LAST + timedelta(hours=1))
    assert (state.state, "is not whole: 6 of 9 trials" in state.summary) == ("WARNING", True)
