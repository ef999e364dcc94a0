#!/usr/bin/env python3
"""Holds a job that was started before its trial had the measurement lock: it waits in its slot, and then begins.

usage: prestart.py FILE SCRIPT [ARGUMENT ...]       (in an HTCondor job, SCRIPT and htchirp.py beside it)

Looks on the access point, by chirp, for a file of the job's directory; when it is there this process becomes the
script. Nothing of the script's own work is done before: what it imports or mounts disturbs no other trial, and its
times begin here. A job that is removed while it waits has left no record. Python 3.6, stdlib only.

exit status: 2 called wrongly, or HTCondor offers this job no chirp; else the script's
"""

import os
import random
import sys
import time
from pathlib import Path

from tierbench.host import AccessPoint, NoChirp, in_job
from tierbench.starts import pause_between_looks

PAUSE_S = 0.3  # at least on average between two looks, each of which has the access point at work
LEAST, MOST = 0.5, 1.5  # times that: jobs are not to look in step


def main(arguments: "list[str]") -> int:
    if len(arguments) < 2 or not Path(arguments[1]).is_file():
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if not in_job():
            raise NoChirp("this is no HTCondor job with WantIOProxy")
        clients = int(arguments[arguments.index("--clients") + 1]) if "--clients" in arguments else 1
        wait_for(arguments[0], AccessPoint(), max(PAUSE_S, pause_between_looks(clients)))
    except NoChirp as error:
        print("prestart: " + str(error), file=sys.stderr)
        return 2
    return 0


def wait_for(file: str, access_point: AccessPoint, pause_s: float) -> None:
    while True:
        try:
            if access_point.fetch(file):
                return
        except OSError:  # the access point is busy, or being restarted; HTCondor ends the job if it stays away
            pass
        time.sleep(pause_s * random.uniform(LEAST, MOST))  # noqa: S311


if __name__ == "__main__":
    status = main(sys.argv[1:])
    if status:
        sys.exit(status)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606
