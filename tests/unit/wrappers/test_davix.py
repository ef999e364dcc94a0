"""What the client makes of words of davix-get, recorded with XRootD 5.8.1, nginx, broken servers; and what it asks."""

import pytest

from tests.unit.client_process import client_of, run_of
from tierbench.wrappers.child import Failure
from tierbench.wrappers.clients.davix import REQUESTS, Davix

URL, SIZE = "https://vmuf.uf.test:8445/extenci/f1.dat", 32_000_000
BROKEN = "(Davix::HttpRequest) Error: Result Invalid read in request after 1 attempts"
ABSENT = "(Davix::HttpRequest) Error: Result HTTP 404 : File not found  after 1 attempts"
REFUSED = "(Davix::HttpRequest) Error: HTTP 403 : Permission refused "


def client(folder, url=URL, **options):
    return client_of(Davix, folder, url, SIZE, **options)


@pytest.mark.parametrize(
    ("end", "written", "status", "message"),
    [
        ((), SIZE + 1864, "ok", ""),  # what it wrote beside it were words to the server
        ((BROKEN, 255), SIZE // 2, "short-read", BROKEN),
        ((), SIZE // 2, "short-read", f"read {SIZE // 2} of {SIZE} bytes"),
        ((), 27, "short-read", f"read 27 of {SIZE} bytes"),  # of a page in place of the file
        ((), SIZE + REQUESTS + 1, "failed", "another file"),
        ((ABSENT, 255), 1900, "open-failed", ABSENT),
        ((REFUSED, 255), 2600, "open-failed", REFUSED.strip()),
        (("", -9), SIZE // 2, "killed", "signal"),
    ],
    ids=["whole", "broken off", "short", "a page", "longer", "absent", "refused", "killed"],
)
def test_a_file_counts_as_its_process_tells(tmp_path, end, written, status, message):
    end = client(tmp_path).outcome(run_of(*end, written=written))
    assert end["status"] == status, end
    assert message in end["message"]


def test_a_token_is_shown_to_a_secured_server_only(tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text("secret\n")
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(token))
    monkeypatch.setenv("SSL_CERT_DIR", "/authorities")
    assert {str(token), "/authorities"} <= {*client(tmp_path).command()}
    assert str(token) not in client(tmp_path, URL.replace("https", "http")).command()


@pytest.mark.parametrize(("url", "options"), [("root://vmuf.uf.test//f", {}), (URL, {"proxy": "squid:3128"})])
def test_it_reads_by_http_alone_and_through_no_proxy(tmp_path, url, options):
    with pytest.raises(Failure, match=r"is to fetch by HTTP|asks no HTTP proxy"):
        client(tmp_path, url, **options).prepare()
