#!/usr/bin/env python3
"""A stand-in for HTCondor's credential monitor, which signs and renews tokens as its local one does.

Debian's condor_credmon_oauth needs the library scitokens, which Debian does not have. This one writes the same files:
for each SERVICE.top that a user has stored, a SERVICE.use in JSON, anew when half its lifetime is over; and it tells
the credential daemon by CREDMON_COMPLETE that it has looked.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

FOLDER = Path("/var/lib/condor/oauth_credentials")  # SEC_CREDENTIAL_DIRECTORY_OAUTH
ISSUER = Path("/run/credmon")  # the issuer's key, its program's arguments: claims, and how long a token lasts
SIGN = "/usr/local/sbin/token-issuer"


def renew(use, claims, lasts_s):
    now = int(time.time())
    signed = json.dumps({**claims, "iat": now, "nbf": now, "exp": now + lasts_s})
    token = subprocess.run([SIGN, "sign", ISSUER, signed], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    new = FOLDER / "new"
    new.touch(0o600)
    new.write_text(json.dumps({"access_token": token, "expires_in": lasts_s}))
    new.rename(use)


def main():
    signal.signal(signal.SIGHUP, lambda *_: None)  # look at once
    (FOLDER / "pid").write_text(f"{os.getpid()}\n")
    asked = json.loads((ISSUER / "asked.json").read_text())
    while True:
        for top in FOLDER.glob("*/*.top"):
            use = top.with_suffix(".use")
            if not use.exists() or time.time() - use.stat().st_mtime > asked["lasts_s"] / 2:
                renew(use, asked["claims"], asked["lasts_s"])
        (FOLDER / "CREDMON_COMPLETE").touch()
        time.sleep(1)


main()
