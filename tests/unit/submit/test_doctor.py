"""The doctor: what it asks where, what the shipped probe answers, and what is made of the answers."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import classad2
import htcondor2
import pytest

from tests.unit.shipped import PYTHON
from tests.unit.stand_ins import run
from tests.unit.stand_ins import script as executable
from tierbench.checked_text import Host, Key, Name, Prefix
from tierbench.dags.clients import shipped_clients
from tierbench.dags.experiment import find_experiment
from tierbench.dags.plan import expand
from tierbench.dags.replicas import Entry
from tierbench.host import mounts
from tierbench.site_configs.site import SHIPPED, Kerberos, Links, Submission, Token, find_site
from tierbench.submit import doctor, pool
from tierbench.submit.cli import main
from tierbench.submit.doctor import (
    _ask,
    _present,
    _scheduler,
    caches_not_emptied,
    clocks,
    clocks_not_compared,
    findings_of,
)
from tierbench.submit.links import judged
from tierbench.submit.planning import Finding, table
from tierbench.submit.pool import PoolError, Slots
from tierbench.submit.probes import Clock, Jobs, Report, clock, read_report, script
from tierbench.submit.questions import Question, Visit, contents, visits
from tierbench.wrappers.probe import LOCAL, UNUSED_PORT

SITE = find_site("testbed")
WORKERS = {"private": ("wn01.private.fiu.test",), "public": ("wn03.fiu.test",)}


PROBE = script(shipped_clients().values())
READ_BY_ROOT = {"client": "root", "options": {"setup": "true"}, "protocol": "file"}
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
PRIVATE, PUBLIC = "wn01.private.fiu.test", "wn03.fiu.test"


def probe(questions, user=None):
    """What the probe says; as another user who may see no Python but the system's."""
    command = [PYTHON] if user is None else [*user, "/usr/bin/python3"]
    return run(*command, "-I", "-", questions, input=PROBE)


def answer(kind, user=None, **about):
    result = probe(json.dumps([{"ask": kind, **about}]), user)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["answers"][0]


@pytest.mark.parametrize("questions", ["no JSON", '[{"ask": "nonsense"}]', "[3]"])
def test_questions_that_make_no_sense_are_refused(questions):
    assert probe(questions).returncode == 2


@pytest.mark.parametrize(
    ("kind", "about", "why", "seen"),
    [
        ("interface", {"name": "lo"}, "loopback", "counts each byte as sent and as received"),
        ("interface", {"name": "eth99"}, "absent", "lo"),
        ("interface", {"name": "lo+eth99"}, "absent", "no interface eth99"),
        ("interface", {"name": "lo+lo"}, "absent", "lo+lo names an interface twice"),
        ("files", {"paths": [["/none", 0]]}, "no-mount", ""),
        ("files", {"paths": [["FOLDER", 2]]}, "", "2 files"),
        ("files", {"paths": [["FOLDER", 3]]}, "few", ""),
        ("files", {"paths": [["FOLDER/.proc/sys", 0]]}, "", "proc mounted"),
        ("xrootd", {"door": "localhost:1", "paths": []}, "unreachable", ""),
        ("xrootd", {"door": f"[::1]:{UNUSED_PORT}", "paths": []}, "unreachable", "Connection refused"),
        ("server", {"url": "gsiftp://localhost/"}, "unreachable", "gsiftp://localhost/: Connection refused"),
        ("flush", {"strategy": "fadvise", "helper": "/none"}, "", ""),
        ("flush", {"strategy": "drop_caches", "helper": "/none"}, "no-helper", ""),
        ("kerberos", {"keytab": "/none", "principal": "host/{host}"}, "keytab", ""),
        ("proxy", {"path": "/none", "needed_s": 0}, "absent", ""),
        ("program", {"client": "dd", "options": {}, "protocol": "file"}, "", ""),
        ("program", READ_BY_ROOT, None, "after `true`"),
    ],
)
def test_what_a_host_answers(tmp_path, kind, about, why, seen):
    for name in ("a.root", "b.root", "catalogue.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / ".proc").symlink_to("/proc")
    result = answer(kind, **json.loads(json.dumps(about).replace("FOLDER", str(tmp_path))))
    assert seen in result["seen"]
    assert why is None or (result["state"], result.get("why", "")) == ("bad" if why else "good", why)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("[FATAL] Auth failed: No protocols left to try", "denied"),
        ("[ERROR] Server responded with an error: [3010] permission denied", "denied"),
        ("[ERROR] Server responded with an error: [3011] Unable to locate /store", "absent"),
        ("[ERROR] Operation expired", "failed"),
    ],
)
def test_a_door_that_does_not_show_the_files_says_why(tmp_path, monkeypatch, said, why):
    executable(tmp_path / "xrdfs", f"echo '{said}'; exit 50")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with socket.create_server(("127.0.0.1", 0)) as door:
        result = answer("xrootd", door=f"127.0.0.1:{door.getsockname()[1]}", paths=[["/store", 1]])
    assert (result["state"], result["why"]) == ("bad", why)


def test_a_link_has_the_rate_of_the_time_that_iperf3_does_not_omit(tmp_path, monkeypatch):
    seconds = [{"start": 0, "end": 1, "bits_per_second": rate, "omitted": rate < 1e8} for rate in (1e6, 9e8)]
    told = {"end": {"sum_received": {"bits_per_second": 9e8}}, "intervals": [{"sum": each} for each in seconds]}
    executable(tmp_path / "iperf3", f"echo '{json.dumps(told)}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = answer("link", host="127.0.0.1", port=5201, seconds=1)
    assert (result["mbps"], [mbps for _, _, mbps in result["slices"]]) == (900, [900])


def test_a_ticket_opens_no_other_access_methods_door(tmp_path, monkeypatch):
    kinit = executable(tmp_path / "kinit", ': > "${KRB5CCNAME#FILE:}"')
    executable(tmp_path / "ls", 'test -e "${KRB5CCNAME#FILE:}" && echo file')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    access = replace(SITE.access["direct"], kerberos=Kerberos("host/x@A", str(kinit)))
    without, other = replace(access, kerberos=None), replace(access, kerberos=Kerberos("host/y@A", str(kinit)))
    asked = visits(replace(SITE, access={"a": access, "b": without}), None, {"public": ("w",)})["w"].questions
    asked += visits(replace(SITE, access={"a": other}), None, {"public": ("w",)})["w"].questions
    kinds = [question for question in asked if question.kind in ("kerberos", "files")]
    assert [question.kind for question in kinds] == ["kerberos", "files", "files", "kerberos", "files"]
    about = [{**question.to_json(), "paths": [["/", 1]], "by_network": False} for question in kinds]
    answers = json.loads(probe(json.dumps([about[place] for place in (0, 1, 2, 4, 3, 4)])).stdout)["answers"]
    assert [result["state"] != "bad" for result in answers] == [True, True, False, False, True, True], answers


def test_an_interface_that_is_there():
    other = next((path.name for path in sorted(Path("/sys/class/net").iterdir()) if path.name != "lo"), None)
    if other is None:
        pytest.skip("this machine has no interface but lo")
    assert answer("interface", name=other)["state"] == "good"


def test_whether_a_sampler_may_go_first_is_known_before():
    assert ("before all others" in answer("priority")["seen"]) == (os.geteuid() == 0)


@pytest.mark.parametrize(("offered", "state"), [(True, "good"), (False, "bad")])
def test_a_host_without_chirp_is_bad(tmp_path, monkeypatch, offered, state):
    monkeypatch.setenv("_CONDOR_CHIRP_CONFIG", str(tmp_path / "config"))
    if offered:
        (tmp_path / "config").touch()
    assert answer("chirp")["state"] == state


def test_files_on_a_hosts_own_disk_that_are_not_declared_so_are_bad(tmp_path):
    bare = replace(SITE, access={"direct": SITE.access["direct"], "local-disk": SITE.access["local-disk"]})
    asked = visits(bare, None, {"public": ("w",), "private": ("w",)})["w"].questions
    (direct, disk) = (question.to_json() for question in asked if question.kind == "files")
    states = {}
    for name, question in (("direct", direct), ("local-disk", disk)):
        result = answer("files", **{**question, "ask": "files", "paths": [[str(tmp_path), 0]]})
        states[name] = result["state"], result["why"]
    assert states == {"direct": ("bad", "local"), "local-disk": ("good", "")}


def test_storage_whose_files_come_from_elsewhere_is_doubtful():
    files = [
        (host, question.about["own_disks"])
        for host, visit in visits(SITE, None, {"public": ("w",)}).items()
        for question in visit.questions
        if question.kind == "files" and "own_disks" in question.about
    ]
    assert dict(files)[SITE.server.host] is True
    assert False in dict(files).values()
    assert answer("files", paths=[["/none", 0]], cache_only=True)["state"] == "doubtful"
    if remote := [mount.point for mount in mounts() if mount.kind not in LOCAL and Path(mount.point).is_dir()]:
        result = answer("files", paths=[[remote[0], 0]], cache_only=True, own_disks=True)
        assert (result["state"], result["why"]) == ("doubtful", "elsewhere")


def test_the_probe_finds_auto_as_the_sampler_does():
    routes = Path("/proc/net/route").read_text().splitlines()[1:]
    by_default = [route.split()[0] for route in routes if route.split()[1] == route.split()[7] == "00000000"]
    result = answer("interface", name="auto")
    assert result["state"] == ("good" if by_default else "bad")
    assert (by_default[0] if by_default else "no default route") in result["seen"]


@pytest.mark.parametrize(
    ("content", "state", "seen"),
    [(b"a replica", "good", "1 of 1 files were read"), (b"a Replica", "bad", "has 9 bytes with checksum"),
     (None, "bad", "No such file")],
)  # fmt: skip
def test_the_contents_of_replicas_are_looked_at(tmp_path, content, state, seen):
    path = tmp_path / "a.dat"
    if content is not None:
        path.write_bytes(content)
    files = [[str(path), 9, f"{zlib.adler32(b'a replica'):08x}"]]
    result = answer("contents", files=files, of=1, seconds=10)
    assert (result["state"], seen in result["seen"]) == (state, True)


def test_a_replica_that_takes_too_long_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "slow")
    result = answer("contents", files=[[str(tmp_path / "slow"), 1, "00000001"]], of=1, seconds=0.5)
    assert (result["state"], result["why"]) == ("doubtful", "unread")


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to read as somebody else")
@pytest.mark.parametrize(("mode", "flushed", "why"), [(0o644, True, "not-ours"), (0o666, True, ""), (0o644, False, "")])
def test_of_others_replicas_no_flush_can_be_measured(mode, flushed, why):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "a.root").touch()
        (Path(folder) / "a.root").chmod(mode)
        result = answer("files", AS_NOBODY, paths=[[folder, 1]], flushed=flushed)
    assert (result["state"], result["why"]) == ("doubtful" if why else "good", why)


def proxy(folder, days=7):
    """A certificate, in a file as a proxy's."""
    key, request, file = folder / "key.pem", folder / "request.pem", folder / "proxy.pem"
    make = ["openssl", "req", "-newkey", "ed25519", "-nodes", "-subj", "/CN=bench", "-keyout", key, "-out", request]
    subprocess.run(make, capture_output=True, check=True)
    sign = ["openssl", "x509", "-req", "-in", request, "-signkey", key, "-days", str(days), "-out", file]
    subprocess.run(sign, capture_output=True, check=True)
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    ("days", "mode", "why", "seen"),
    [
        (7, 0o600, "", "expires in 168.0 hours"), (-1, 0o600, "expired", "expired at 20"),
        (1, 0o600, "expires", ""), (7, 0o644, "open", ""),
    ],
)  # fmt: skip
def test_a_grid_proxy_is_looked_at(tmp_path, days, mode, why, seen):
    proxy(tmp_path, days).chmod(mode)
    result = answer("proxy", path=str(tmp_path / "proxy.pem"), needed_s=48 * 3600)
    assert (result.get("why", ""), seen in result["seen"]) == (why, True)


def test_a_warning_of_openssl_is_no_date(tmp_path, monkeypatch):
    proxy(tmp_path, 7)
    openssl = shutil.which("openssl")
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "bin/openssl", "echo WARNING: no configuration >&2", f'exec {openssl} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert answer("proxy", path=str(tmp_path / "proxy.pem"), needed_s=0)["state"] == "good"


def test_where_trials_write_a_folder_is_made_and_removed(tmp_path):
    assert answer("writes", url=str(tmp_path))["state"] == "good"
    assert not list(tmp_path.iterdir())
    assert answer("writes", url=str(tmp_path / "none"))["why"] == "refused"


def test_a_writer_needs_xrdcp_only_where_it_writes_by_xrootd(monkeypatch):
    monkeypatch.setenv("PATH", "/none")
    assert answer("program", client="writer", options={}, protocol="file")["state"] == "good"
    assert answer("program", client="writer", options={}, protocol="xrootd")["seen"] == "there is no xrdcp"


def asked(host, experiment="", site=SITE):
    return visits(site, find_experiment(experiment) if experiment else None, WORKERS)[host].questions


def by(**access):
    """The site with these accesses alone."""
    return replace(SITE, access=access)


def test_only_the_server_that_the_links_are_measured_from_needs_iperf3_and_every_sampler_is_visited():
    second = replace(SITE.samplers["oss"], host=Host("oss2.uf.test"), access=("direct",))
    site = replace(SITE, samplers={**SITE.samplers, "oss2": second})
    kinds = {host: {question.kind for question in asked(host, "", site)} for host in ("oss.uf.test", "oss2.uf.test")}
    assert "iperf3" in kinds["oss.uf.test"]
    assert kinds["oss2.uf.test"] == {"interface", "priority", "chirp"}


def test_a_worker_is_asked_for_each_access_of_its_pool_and_set_of_replicas_and_the_same_thing_once():
    things = [question.thing for question in asked(PRIVATE)]
    own = {f"access {name}" for name, access in SITE.access.items() if access.pool == "private"}
    assert {thing for thing in things if thing.startswith("access")} == own
    assert len({question.thing for question in asked(PRIVATE, "quick")} & own) < len(own)
    assert sum(question.kind == "flush" for question in asked(PRIVATE)) == 1
    (replicas,) = expand(SITE, find_experiment("quick"), {}).replicas.values()
    (direct,) = (question for question in asked(PUBLIC, "quick") if question.thing == "access direct")
    assert direct.about["paths"] == [(replicas.directory, replicas.count)]


def test_where_a_certificate_is_asked_for_so_is_the_proxy():
    secured = SITE.access["gridftp-secured-servers"]
    assert secured.x509
    there = replace(secured, x509=None, environment={"X509_USER_PROXY": "/on/the/worker"})

    def proxies(access, experiment="ani-gridftp-protection"):
        site = replace(SITE, access={**SITE.access, "gridftp-secured-servers": access})
        return [question for question in asked(PUBLIC, experiment, site) if question.kind == "proxy"]

    assert [question.brings for question in proxies(secured)] == [(secured.x509.proxy,)]
    assert [question.about["path"] for question in proxies(there)] == ["/on/the/worker"]
    assert not proxies(secured, "quick")


def test_of_a_globus_collection_no_server_is_asked_and_where_files_are_copied_to_is_asked_for_too():
    collection = replace(SITE.access["gridftp"], protocol=Key("globus"), prefix=Prefix("globus://aa752cea-8222/"))
    assert "server" not in {question.kind for question in asked(PUBLIC, "", by(collection=collection))}
    access = SITE.access["https-servers"]
    questions = asked(PUBLIC, "", by(access=access))
    (destination,) = (question for question in questions if question.thing.endswith("its destination"))
    assert destination.about == {"url": access.to.prefix}


def test_where_trials_write_it_is_asked_whether_they_may_and_whose_replicas_are_is_asked_where_they_are_flushed():
    every = visits(SITE, find_experiment("extenci-stacked-scaled"), WORKERS).values()
    urls = [question.about["url"] for visit in every for question in visit.questions if question.kind == "writes"]
    assert any(url.endswith(str(SITE.access["direct"].writes)) for url in urls)
    every = visits(SITE, find_experiment("quick"), WORKERS).values()
    flushed = {visit.host for visit in every if any(question.about.get("flushed") for question in visit.questions)}
    assert flushed == {PUBLIC, "dgt.fiu.test", "vmuf.uf.test"}


def listed(experiment):
    sets = experiment.used_replicas.items()
    return {folder: {name: Entry(name, 7, "0000abcd") for name in files.files} for folder, files in sets}


def test_some_replicas_of_each_set_are_read_on_one_worker_by_an_access_that_the_probe_can_read():
    quick, far = find_experiment("quick"), find_experiment("ani-gridftp-scaled")
    (replicas,) = quick.used_replicas.values()
    ((host, question),) = contents(SITE, quick, listed(quick), WORKERS)
    assert host in visits(SITE, quick, WORKERS)
    assert {(size, checksum) for _, size, checksum in question.about["files"]} == {(7, "0000abcd")}
    assert len({url for url, *_ in question.about["files"]}) == replicas.count
    assert not list(contents(SITE, far, listed(far), WORKERS))
    bridge, token = SITE.access["lan-xrootd"], Token(condor=Name("scitokens"))  # which only a trial's jobs get
    assert list(contents(by(**{"lan-xrootd": bridge}), quick, listed(quick), WORKERS))
    assert not list(contents(by(**{"lan-xrootd": replace(bridge, token=token)}), quick, listed(quick), WORKERS))


def test_an_answer_that_is_not_good_comes_with_what_to_do_and_none_is_bad_with_the_probes_last_words():
    visit = Visit("a", "", questions=[Question("interface", "interface eth1")])
    report = Report(({"state": "bad", "why": "absent", "seen": "there is no eth1"},))
    *_, finding = findings_of(visit, report)
    assert (finding.state, bool(finding.remedy)) == ("bad", True)
    (finding,) = findings_of(Visit("a", ""), Report(trouble="was not started"))
    assert (finding.state, "START" in finding.remedy, "--patience" in finding.remedy) == ("bad", True, True)
    assert "No module" in read_report("", "Traceback\nNo module named json\n", 0, 0).trouble


@pytest.mark.parametrize(("called", "said"), [("oss.site", []), ("OSS.site", ["bad"]), ("oss.cluster.local", ["bad"])])
def test_a_sampled_host_has_to_call_itself_as_the_sites_file_does(called, said):
    """Or no trial would take its samples."""
    visit = Visit("oss.site", "", via="ssh", questions=[Question("interface", "interface eth0")])
    report = Report(({"state": "good", "why": "", "seen": "eth0 is there"},), host=called)
    first, *_ = findings_of(visit, report)
    assert [first.state for _ in said] == said
    assert ("calls itself" in first.seen) is bool(said)


def test_sudo_that_lists_the_helper_and_asks_for_a_password_is_no_leave(open_folder, monkeypatch):
    helper = open_folder / "helper"
    helper.touch(0o755)
    executable(open_folder / "sudo", '[ "$2" = -l ] || { echo a password is required >&2; exit 1; }')
    monkeypatch.setenv("PATH", str(open_folder), prepend=":")
    nobody = AS_NOBODY if os.geteuid() == 0 else []
    result = answer("flush", nobody, strategy="drop_caches", helper=str(helper))
    assert (result["state"], "a password is required" in result["seen"]) == ("bad", True)


def test_what_is_the_same_on_several_hosts_is_said_once_and_all_that_need_something_are_named():
    fine = [Finding("good", "flush", "is fine", host=host) for host in "ab"]
    assert list(table(fine)) == ["good      flush (a, b): is fine"]
    line, _ = table([Finding("bad", "flush", "is not", "repair it", host) for host in "abcdefgh"])
    assert "(a, b, c, d, e, f, g, h)" in line


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_patience_that_no_job_can_meet_is_refused_and_not_taken_for_the_pools_fault(capsys, seconds):
    assert main(["doctor", "--site", "testbed", "--patience", seconds]) == 2
    assert "must be a number of seconds above 0" in capsys.readouterr().err


def test_what_a_host_lacks_for_two_access_methods_is_counted_once(monkeypatch, capsys):
    finding = Finding("bad", "client root", "there is no ROOT", host="wn1.example")
    monkeypatch.setattr(doctor, "_sections", lambda *_: [[finding, finding]])
    assert main(["doctor", "--site", "testbed"]) == 1
    shown = ["bad       client root (wn1.example): there is no ROOT", "0 good, 0 doubtful, 1 bad"]
    assert capsys.readouterr().out.splitlines() == shown


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("012 (001.000.000) {} Job was held.\n\tno room\n\tCode 1 Subcode 0\n...\n", "was put on hold: no room"),
        ("009 (001.000.000) {} Job was aborted.\n\tvia condor_rm\n...\n", "was removed: via condor_rm"),
    ],
)
def test_a_probe_that_htcondor_ended_says_how(tmp_path, event, why):
    (tmp_path / "jobs.log").write_text(event.format("2026-01-31 10:00:00"))
    jobs = Jobs(tmp_path, ["a.example"], htcondor2.JobEventLog(str(tmp_path / "jobs.log")))
    assert jobs.wait(60, print)["a.example"].trouble == f"its probe {why}"


def test_clocks_that_agree_bound_the_offset_from_both_sides_and_a_file_systems_clock_is_a_tick_behind():
    result = clock(sent=100.0, begin=100.1, end=100.2, received=100.22)
    assert result.agrees
    assert result.resolution == pytest.approx(0.1)
    assert clock(sent=100.0, begin=100.001, end=100.002, received=99.995).agrees


@pytest.mark.parametrize("offset", [3.0, -3.0])
def test_an_offset_of_a_clock_lies_within_its_bounds(offset):
    result = clock(sent=100.0, begin=100.1 + offset, end=100.2 + offset, received=100.22)
    assert not result.agrees
    assert result.least <= offset <= result.most


@pytest.mark.parametrize(
    ("clock", "state", "seen"),
    [
        (Clock(-3.03, -2.9), "bad", "behind the access point's by 2.900 to 3.030 s"),
        (Clock(-0.1, 8.0), "doubtful", "may be off by up to 8.0 s"),
    ],
)
def test_a_clock_that_is_off_or_not_known_well_is_told(clock, state, seen):
    (result,) = clocks({"a": clock})
    assert (result.state, result.seen[: len(seen)]) == (state, seen)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("[links]", '[submission]\nlines = ["requirements = true"]\n\n[links]'),
         "bad       the site's file: submission.lines: requirements: "),
        (('via = "pool"', 'via = "ssh"'), "no trial will be VALID"),
    ],
    ids=["submission", "ssh"],
)  # fmt: skip
def test_what_the_sites_file_tells_is_told_without_pool_and_experiment(tmp_path, monkeypatch, capsys, change, told):
    monkeypatch.setattr(pool, "matching_slots", Mock(side_effect=PoolError("there is none here")))
    text = (SHIPPED / "fiu-uf-2014.toml").read_text(encoding="utf-8")
    assert change[0] in text
    (tmp_path / "site.toml").write_text(text.replace(*change), encoding="utf-8")
    assert main(["doctor", "--site", str(tmp_path / "site.toml")]) == 1  # for want of a pool
    assert told in capsys.readouterr().out


def test_of_storage_over_ssh_the_clock_is_not_compared_so_no_trial_will_be_valid():
    over_ssh = {name: replace(sampler, via="ssh") for name, sampler in SITE.samplers.items()}
    (finding,) = clocks_not_compared(replace(SITE, samplers=over_ssh), find_experiment("quick"))
    assert (finding.state, finding.host) == ("doubtful", "oss.uf.test")
    assert "no trial will be VALID" in finding.seen
    assert not list(clocks_not_compared(SITE, None))
    assert not list(clocks_not_compared(find_site("fiu-uf-2014"), None))  # which admins copy
    copying = replace(find_experiment("quick"), access=("xrootd-servers",))  # to the gateway
    result = clocks_not_compared(replace(SITE, samplers=over_ssh), copying)
    assert "dgt.fiu.test" in {finding.host for finding in result}


@pytest.mark.parametrize("scope", ["", "TARGET.", "Target."])
def test_requirements_of_a_job_are_asked_of_the_collector_in_its_way_and_each_core_counts_once(monkeypatch, scope):
    machine = "wn1-target.example"
    whole = {"Machine": machine, "Network": "public", "TotalSlotCpus": 8, "PartitionableSlot": True}
    others = {**whole, "PartitionableSlot": False, "DynamicSlot": True}, {**whole, "BackfillSlot": True}

    def query(_collector, _kind, constraint, _attributes):
        ads = [classad2.ClassAd({**ad, "Asked": classad2.ExprTree(constraint)}) for ad in (whole, *others)]
        return [ad for ad in ads if ad.eval("Asked") is True]

    monkeypatch.setattr(htcondor2.Collector, "__init__", lambda _: None)
    monkeypatch.setattr(htcondor2.Collector, "query", query)
    requirements = f'{scope}Machine == "{machine}" && {scope}Network == "public"'
    assert pool.matching_slots(requirements).cores == {machine: 8}


@pytest.mark.parametrize(("host", "states"), [("", ["good"]), ("ap@ap.elsewhere.example", ["good", "doubtful"])])
def test_a_scheduler_on_another_host_is_doubtful(monkeypatch, host, states):
    monkeypatch.setattr(pool, "versions", lambda: ("25.0.14", "25.0.14"))
    monkeypatch.setitem(htcondor2.param, "SCHEDD_HOST", host)
    findings = list(_scheduler())
    assert [finding.state for finding in findings] == states
    assert ("ap.elsewhere.example" in findings[-1].seen) == bool(host)


@pytest.mark.parametrize(
    ("name", "rule", "states"),
    [
        ("SYSTEM_PERIODIC_RELEASE", "NumJobStarts < 3 && time() - EnteredCurrentStatus > 600", ["good", "doubtful"]),
        ("SYSTEM_PERIODIC_RELEASE", "HoldReasonCode == 13 && time() - EnteredCurrentStatus > 600", ["good"]),
        ("SYSTEM_PERIODIC_REMOVE", "JobStatus == 5 && time() - EnteredCurrentStatus > 900", ["good", "doubtful"]),
        ("SYSTEM_PERIODIC_REMOVE", "JobStatus == 5 && time() - EnteredCurrentStatus > 86400", ["good"]),
        ("SYSTEM_PERIODIC_REMOVE", "JobStatus ==", ["good"]),  # which HTCondor passes over, too
    ],
)
def test_a_pool_that_does_not_let_jobs_wait_on_hold_is_doubtful(monkeypatch, name, rule, states):
    monkeypatch.setattr(pool, "versions", lambda: ("25.0.14", "25.0.14"))
    monkeypatch.setitem(htcondor2.param, name, rule)
    findings = list(_scheduler())
    assert [finding.state for finding in findings] == states
    assert (name in findings[-1].seen) == (len(states) > 1)


def test_probes_stay_in_the_queue_for_as_long_as_the_doctor_is_patient(monkeypatch):
    ages = []

    class Schedd:
        def submit(self, description, **_):
            ages.append(int(description["periodic_remove"].rpartition(" > ")[2]))
            raise htcondor2.HTCondorException("enough")

    monkeypatch.setattr(htcondor2, "Schedd", Schedd)
    with pytest.raises(PoolError, match="enough"):
        _ask([], 3600, Submission(), [])
    assert ages[0] >= 3600


def test_the_pool_is_asked_only_for_hosts_that_are_not_known_to_be_in_it(monkeypatch):
    questions = []
    monkeypatch.setattr(pool, "matching_slots", lambda requirements: questions.append(requirements) or Slots({}))
    slots = {name: Slots(dict.fromkeys(hosts, 1)) for name, hosts in WORKERS.items()}
    there, absent = _present(visits(SITE, None, WORKERS), slots)
    assert [visit.host for visit in there] == [host for hosts in WORKERS.values() for host in hosts]
    assert len(questions) == len(absent) > 0


def test_that_nobody_says_where_files_are_in_memory_is_doubted():
    assert not list(caches_not_emptied(SITE, None))
    nowhere = {name: replace(access, path=()) for name, access in SITE.access.items()}
    result = list(caches_not_emptied(replace(SITE, access=nowhere), find_experiment("quick")))
    assert {finding.thing for finding in result} == {"access lan-xrootd", "access wan-xrootd-private"}


@pytest.mark.parametrize(
    ("rates", "state", "seen"),
    [
        ([95] * 2, "good", ""), ([50] * 2, "doubtful", ""), ([150] * 2, "doubtful", ""),
        ([76] * 10, "good", "links.storage"),  # the tightest link that they share
    ],
    ids=str,
)  # fmt: skip
def test_the_rate_of_the_workers_is_held_against_their_links(rates, state, seen):
    result = judged(SITE, "link", "public", dict(zip("abcdefghij", rates, strict=False)))
    assert (result.state, seen in result.seen) == (state, True)
    unknown = judged(replace(SITE, links=Links()), "link", "public", {"a": rates[0]})
    assert (unknown.state, f"{rates[0]} Mb/s" in unknown.seen) == ("doubtful", True)


def test_workers_beside_the_storage_are_not_held_against_the_wan():
    near = {"near": replace(SITE.pools["public"], over_wan=False)}
    result = judged(replace(SITE, pools=near, links=Links(wan=100, storage=800)), "link", "near", {"a": 700})
    assert (result.state, "links.storage" in result.seen) == ("good", True)
