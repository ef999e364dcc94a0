"""What the client makes of words of davix-get, recorded with XRootD 5.8.1, nginx, broken servers; and what it asks."""

import pytest

from tests.unit.client_process import client_of, run_of
from tierbench.wrappers.clients.davix import REQUESTS, Davix

URL, SIZE = "https://vmuf.uf.test:8445/extenci/f1.dat", 32_000_000
BROKEN = "(Davix::HttpRequest) Error: Result Invalid read in request after 1 attempts"
ABSENT = "(Davix::HttpRequest) Error: Result HTTP 404 : File not found  after 1 attempts"
REFUSED = "(Davix::HttpRequest) Error: HTTP 403 : Permission refused "


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
    end = client_of(Davix, tmp_path, URL, SIZE).outcome(run_of(*end, written=written))
    assert end["status"] == status, end
    assert message in end["message"]


def test_a_token_is_shown_to_a_secured_server_only(tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text("secret\n")
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(token))
    monkeypatch.setenv("SSL_CERT_DIR", "/authorities")
    secured, plain = (client_of(Davix, tmp_path, url, SIZE) for url in (URL, URL.replace("https", "http")))
    assert {str(token), "/authorities"} <= {*secured.command()}
    assert str(token) not in plain.command()
