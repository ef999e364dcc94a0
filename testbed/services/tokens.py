"""An issuer of tokens on kdc, where the settings ask for a door that wants them, and a token for the jobs' user on ce.

It publishes its key by https, with a certificate of an authority of the testbed's own that the servers trust. All is
made anew when a testbed comes up; the signing key stays on kdc, for whoever wants further tokens there.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

from tierbench.testbed.host import RunningHost, verbatim
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.services.filesystem import MOUNT_POINT
from tierbench.testbed.services.htcondor import ACCESS_POINT
from tierbench.testbed.services.kerberos import KDC
from tierbench.testbed.topology import UF, USER

PORT = 8443
URL = f"https://{KDC}.{UF.zone}:{PORT}"
AUDIENCE = f"root://vmuf.{UF.zone}"  # the door's
PROGRAM, FOLDER = "/usr/local/sbin/token-issuer", "/run/issuer"
CERTIFICATE, PRIVATE_KEY = f"{FOLDER}/host.pem", f"{FOLDER}/host.key"
AUTHORITIES = f"{FOLDER}/authorities"
TOKEN = f"/home/{USER}/token"
TOKEN_S = 7 * 24 * 3600


def claims(lasts_s: float = TOKEN_S, **others: Any) -> dict[str, Any]:
    """Of a token by which its bearer may read the data for so long, but for what is said otherwise."""
    now = int(time.time())
    usual = {"sub": USER, "iss": URL, "aud": AUDIENCE, "scope": f"read:{MOUNT_POINT}", "ver": "scitoken:2.0"}
    times = {"iat": now + min(0, int(lasts_s)) - 60, "nbf": now + min(0, int(lasts_s)) - 60, "exp": now + int(lasts_s)}
    return {**usual, **times, **others}


def sign_token(kdc: RunningHost, claims: dict[str, Any], folder: str = FOLDER) -> str:
    """A token with these claims, signed by the key in this folder."""
    return kdc.run(PROGRAM, "sign", folder, json.dumps(claims)).stdout


def start(bed: Bed) -> None:
    """Make its key and certificate, publish, and give the jobs' user a token."""
    kdc = bed[KDC]
    kdc.put(PROGRAM, verbatim("token-issuer"), 0o755)
    kdc.put("/usr/local/sbin/certify", verbatim("certify"), 0o755)
    kdc.run("mkdir", "-p", "-m", "700", FOLDER)
    kdc.run(PROGRAM, "make", FOLDER, URL)
    kdc.run("/usr/local/sbin/certify", kdc.fqdn, CERTIFICATE, PRIVATE_KEY, AUTHORITIES, "root")
    kdc.daemon("token-issuer", PROGRAM, "serve", FOLDER, str(PORT), CERTIFICATE, PRIVATE_KEY)
    bed[ACCESS_POINT].put(TOKEN, sign_token(kdc, claims()), 0o600, USER)


def questions(bed: Bed) -> Iterator[Question]:
    ask = ("curl", "--silent", "--fail", "--output", "/dev/null", "--capath", AUTHORITIES)
    published = f"{URL}/.well-known/openid-configuration"
    yield Question(bed[KDC], "token issuer", (*ask, published), f"answers at {URL}", "token-issuer.log")


ISSUER = Service(
    "", packages=("xrootd-scitokens-plugins",), wanted=lambda settings: settings.token_door, start=start,
    questions=questions,
)  # fmt: skip
