"""Copies between real servers, by GridFTP, XRootD, HTTP: what a file costs, by which hosts it goes, who can read it."""

import json

import pytest

from tests.testbed.runs import marks_on_the_wire
from tierbench import names
from tierbench.dags.clients import shipped_clients
from tierbench.dags.shipping import scripts
from tierbench.testbed.services import tokens
from tierbench.testbed.services.certificates import PROXY
from tierbench.testbed.services.filesystem import DATA
from tierbench.testbed.services.gridftp import FAR_AWAY, FAR_RTT_MS, servers
from tierbench.testbed.services.kerberos import KDC
from tierbench.testbed.services.xrootd import AUTHORITIES, BESIDE_STORAGE, COPY_HTTPS_PORT, COPY_PORT, TOKEN_HTTPS_PORT
from tierbench.testbed.services.xrootd import COPIES as COPIED
from tierbench.testbed.topology import GATEWAY, USER

pytestmark = pytest.mark.long

FILES, SIZE = 20, 8000
MARK, COPIES = "what everybody on the way could read", 5000
PLAIN, PLAIN_BYTES = "plain.dat", COPIES * (len(MARK) + 1)
FAR_S = FAR_RTT_MS / 1000
WORKER, SET, HERE = "wn03", f"{DATA}/gridftp-test", f"/home/{USER}/gridftp"
TOKENS = f"{HERE}-tokens"  # the user's own
LARGE, LARGE_BYTES = f"{SET}-large.dat", 8_000_000


class Steering:
    """The client, run by hand on a worker."""

    def __init__(self, testbed):
        self.testbed, self.worker = testbed, testbed.host(WORKER)
        make = f"mkdir -p {SET}; cd {SET}; for n in $(seq {FILES}); do head -c {SIZE} /dev/urandom >f$n.dat; done"
        make += f"; head -c {LARGE_BYTES} /dev/urandom >{LARGE}"
        make += f"; yes '{MARK}' | head -n {COPIES} >{PLAIN}"
        testbed.host(BESIDE_STORAGE).run("sh", "-euc", make, user=USER)
        shipped = dict(scripts([shipped_clients()[name] for name in ("gridftp", "gfal")]))
        self.worker.put(f"{HERE}/client.py", shipped[f"{names.SCRIPTS}/client.py"])

    def end(self, far=False, third_party=True, secured=False, **options):
        """The record's end of a job that has them all, with how long it took."""
        source, destination = servers(self.testbed.topology)
        away = self.testbed.host(FAR_AWAY).host.fqdn
        if secured:
            whence, whither = source.secured_url, destination.secured_url
            options.setdefault("environment", {"X509_USER_PROXY": PROXY})
        else:
            whence = f"ftp://{away}:{source.far_port}/" if far else source.url
            whither = f"ftp://{away}:{destination.far_port}{destination.folder}/" if far else destination.url
        door = whence[: whence.index("/", len("gsiftp://"))]
        urls = [f"{door}{SET}/f{number}.dat\t{SIZE}" for number in range(1, FILES + 1)]
        return self.run("gridftp", urls, {**options, "to": whither.rstrip("/") if third_party else ""})

    def run(self, client, urls, options, *flags):
        """What a job of a client says in the end of these files, each a URL and its size."""
        self.worker.put(f"{HERE}/replicas.txt", "".join(f"{url}\n" for url in urls))
        task = {"options": options, "work": {"files_per_job": len(urls)}}
        command = ["python3", f"{HERE}/client.py", "--trial", "t", "--index", "0", "--client", client]
        command += ["--replicas", f"{HERE}/replicas.txt", "--options", json.dumps(task), *flags]
        output = self.worker.run(*command, user=USER, timeout=300).stdout
        events = {event["event"]: event for event in map(json.loads, output.splitlines())}
        end = events["end"]
        end["seconds"] = (end["mono_ns"] - events["go"]["mono_ns"]) / 1e9
        return end

    def received(self, host):
        return int(self.testbed.host(host).read("/sys/class/net/eth0/statistics/rx_bytes"))


@pytest.fixture(scope="module")
def steering(testbed):
    yield Steering(testbed)
    testbed.host(BESIDE_STORAGE).run("rm", "-rf", SET, LARGE, user=USER)


@pytest.fixture(scope="module")
def listed(steering):
    return steering.end()


def test_a_copy_between_servers_takes_the_four_commands_of_the_100g_paper(listed):
    counts = listed["detail"]["counts"]
    assert (listed["status"], listed["bytes_app"]) == ("ok", FILES * SIZE)
    assert [counts[verb] for verb in ("SIZE", "ALLO", "STOR", "RETR")] == [FILES] * 4


def test_each_file_waits_for_round_trips(steering, listed):
    assert listed["seconds"] > FILES * 2 * steering.testbed.settings.rtt_ms / 1000


@pytest.fixture(scope="module")
def pipelined(steering):
    return steering.end(directory=True, pipelining=True)


def test_pipelining_a_directory_asks_for_no_sizes(pipelined):
    assert (pipelined["status"], "SIZE" in pipelined["detail"]["counts"]) == ("ok", False)


@pytest.mark.quiet
def test_pipelining_a_directory_spares_them(pipelined, listed):
    assert pipelined["seconds"] <= listed["seconds"] / 1.5


def test_steered_from_far_away_a_file_takes_its_commands_in_round_trips(steering):
    """The paper's Figures 9 and 11: it waits for SIZE, for ALLO and for the file; pipelined for the file alone."""
    steered = steering.end(far=True)
    assert steered["status"] == "ok"
    assert [steered["detail"]["counts"][verb] for verb in ("SIZE", "ALLO", "STOR", "RETR")] == [FILES] * 4
    assert steered["seconds"] > 3 * FILES * FAR_S
    pipelined = steering.end(far=True, pipelining=True)
    assert (pipelined["status"], pipelined["seconds"] > FILES * FAR_S) == ("ok", True)


@pytest.mark.quiet
def test_steered_from_far_away_pipelining_spares_round_trips(steering):
    assert steering.end(far=True, pipelining=True)["seconds"] < 3 * FILES * FAR_S


def test_a_copy_goes_past_the_worker_and_what_is_fetched_does_not(steering):
    """What else a host receives meanwhile is little beside a file of some size."""
    source, destination = servers(steering.testbed.topology)
    url = f"{source.url.removesuffix(source.folder + '/')}{LARGE}\t{LARGE_BYTES}"
    before = steering.received(WORKER), steering.received(GATEWAY)
    steering.end(sessions=4)
    copied = steering.run("gridftp", [url], {"to": destination.url.rstrip("/"), "sessions": 4})
    after = steering.received(WORKER), steering.received(GATEWAY)
    assert copied["status"] == "ok"
    assert after[1] - before[1] > LARGE_BYTES > 4 * (after[0] - before[0])
    fetched = steering.run("gridftp", [url], {"to": ""})
    assert (fetched["status"], fetched["bytes_client"]) == ("ok", LARGE_BYTES)
    assert steering.received(WORKER) - after[0] > LARGE_BYTES


@pytest.mark.parametrize(
    ("protection", "hidden"), [("nodcau", False), ("authenticated", False), ("safe", True), ("private", True)]
)
def test_only_privacy_hides_the_data_on_the_wire(steering, protection, hidden):
    source, _ = servers(steering.testbed.topology)
    url = f"{source.secured_url.removesuffix(source.folder + '/')}{SET}/{PLAIN}\t{PLAIN_BYTES}"
    options = {"protection": protection, "environment": {"X509_USER_PROXY": PROXY}}

    def read():
        end = steering.run("gridftp", [url], options)
        assert (end["status"], end["bytes_app"]) == ("ok", PLAIN_BYTES)

    of = f"src host {source.host.address} and dst host {steering.worker.host.address}"
    marks = marks_on_the_wire(steering.testbed.host(BESIDE_STORAGE), of, MARK, PLAIN_BYTES, read)
    assert marks == 0 if hidden else marks > 0.5 * COPIES  # a mark may lie across two packets


def test_a_copy_between_servers_is_protected_by_a_proxy_that_both_take(steering):
    end = steering.end(secured=True, protection="private")
    assert (end["status"], end["bytes_app"]) == ("ok", FILES * SIZE)


def test_without_a_proxy_nobody_is_let_in(steering):
    refused = steering.end(secured=True, environment={"X509_USER_PROXY": "/none"})
    assert (refused["status"], refused["bytes_app"]) == ("open-failed", 0)


def test_xrdcp_has_one_server_fetch_from_the_other(steering):
    source, gateway = (steering.testbed.host(name) for name in (BESIDE_STORAGE, GATEWAY))
    before = steering.received(WORKER), steering.received(GATEWAY)
    url = f"root://{source.host.fqdn}:{COPY_PORT}/{SET}/{PLAIN}\t{PLAIN_BYTES}"
    end = steering.run("xrdcp", [url], {"to": f"root://{gateway.host.fqdn}:{COPY_PORT}/{COPIED}"})
    by_worker, by_gateway = steering.received(WORKER) - before[0], steering.received(GATEWAY) - before[1]
    assert (end["status"], end["message"], end["bytes_app"]) == ("ok", "", PLAIN_BYTES)
    assert by_gateway > PLAIN_BYTES > by_worker
    assert gateway.run("cat", f"{COPIED}/{PLAIN}").stdout.count(MARK) == COPIES


class ByHttp:
    """Copies by HTTP between the same two, of which each wants a token of its own."""

    def __init__(self, steering):
        self.steering, bed = steering, steering.testbed
        self.source, self.gateway = bed.host(BESIDE_STORAGE), bed.host(GATEWAY)
        to_write = {"aud": f"root://{self.gateway.host.fqdn}", "scope": f"write:{COPIED}"}
        for name, claims in (("reads", {}), ("writes", to_write)):
            token = tokens.sign_token(bed.host(KDC), tokens.claims(**claims))
            steering.worker.put(f"{TOKENS}/{name}", token, 0o600, USER)

    def end(self, path, size, reads="reads", writes="writes", **options):
        """The record's end of a job that shows these tokens, and what it left at the destination."""
        shown = {"--token": reads, "--destination-token": writes}
        flags = [word for flag, name in shown.items() if name for word in (flag, f"{TOKENS}/{name}")]
        options["to"] = f"https://{self.gateway.host.fqdn}:{COPY_HTTPS_PORT}{COPIED}"
        options["environment"] = {"SSL_CERT_DIR": AUTHORITIES}
        url = f"https://{self.source.host.fqdn}:{TOKEN_HTTPS_PORT}{path}\t{size}"
        end = self.steering.run("httptpc", [url], options, *flags)
        end["left"] = self.gateway.run("sh", "-c", f"ls {COPIED} | grep ^tierbench-", check=False).stdout
        return end


@pytest.fixture(scope="module")
def by_http(steering):
    return ByHttp(steering)


@pytest.mark.parametrize("options", [{}, {"streams": 4}, {"push": True}], ids=["pull", "streams", "push"])
def test_by_http_servers_with_a_token_each_copy_past_the_worker(by_http, options):
    steering = by_http.steering
    before = steering.received(WORKER), steering.received(GATEWAY)
    end = by_http.end(LARGE, LARGE_BYTES, **options)
    by_worker, by_gateway = steering.received(WORKER) - before[0], steering.received(GATEWAY) - before[1]
    assert (end["status"], end["message"], end["bytes_app"]) == ("ok", "", LARGE_BYTES)
    assert end["bytes_source"] == "destination"
    assert by_gateway > LARGE_BYTES > 4 * by_worker
    assert end["left"] == ""


@pytest.mark.parametrize(
    ("path", "shown", "reason"),
    [
        (LARGE, {"reads": ""}, "status code 403 while fetching remote size"),
        (LARGE, {"writes": "", "push": True}, "Remote side failed with status code 403"),  # after HTTP said 201
        (LARGE, {"writes": "reads"}, "permission denied"),  # which is for the other server
        (f"{SET}/none", {}, "status code 404 while fetching remote size"),
    ],
    ids=["source's token", "destination's token", "another server's token", "no such file"],
)
def test_by_http_a_copy_that_failed_says_why(by_http, path, shown, reason):
    end = by_http.end(path, LARGE_BYTES, **shown)
    assert (end["status"], end["bytes_app"], end["left"]) == ("open-failed", 0, ""), end
    assert reason in end["message"]


GFAL_CRASH = "gfal was ended by signal 6 (SIGABRT): free(): invalid pointer"


def test_gfal_copies_by_the_protocol_of_the_url(steering):
    source, destination = servers(steering.testbed.topology)
    by_xrootd = steering.run("gfal", [f"root://{source.host.fqdn}:1094/{SET}/f1.dat\t{SIZE}"], {})
    assert (by_xrootd["status"], by_xrootd["bytes_app"]) == ("ok", SIZE)
    url = f"{source.secured_url.removesuffix(source.folder + '/')}{SET}/f2.dat\t{SIZE}"
    options = {"to": destination.secured_url.rstrip("/"), "environment": {"X509_USER_PROXY": PROXY}}
    by_gridftp = steering.run("gfal", [url], options)
    if by_gridftp["message"] == GFAL_CRASH:
        pytest.skip(f"{GFAL_CRASH}: a defect of gfal2 with GridFTP, seen in 3 of 100 copies on a busy machine")
    assert (by_gridftp["status"], by_gridftp["bytes_app"]) == ("ok", SIZE)
    away = steering.run("gfal", [url.replace("f2", "none")], options)
    assert (away["status"], "No such file" in away["message"]) == ("open-failed", True)
