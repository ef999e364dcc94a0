"""What a job shows the storage so as to be let in: a Kerberos ticket, a bearer token, a grid proxy, secret variables.

A token or a proxy is a file: it came with the job, or is among what HTCondor's credential daemons give it. Its path
alone goes on, to the reading process; nothing here tells what is in it.
"""

import argparse
import base64
import calendar
import contextlib
import json
import os
import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tierbench import files
from tierbench.host import machine
from tierbench.wrappers.child import Failure, run_program

CREDENTIALS = "_CONDOR_CREDS"  # the variable with the folder in which HTCondor keeps a job's
TICKET_S = 60
OTHERS = 0o077  # what nobody else may do with such a file


class Unusable(Exception):
    """Why a token or proxy lets nobody in, in a word and in words."""

    def __init__(self, why: str, message: str) -> None:
        super().__init__(message)
        self.why = why


def read_token(path: Path) -> str:
    """A token alone in its file, or as HTCondor's own credential monitors write it: JSON, with its lifetime."""
    try:
        text = path.read_text().strip()
    except (OSError, ValueError) as error:
        raise Unusable("absent", f"{path}: {getattr(error, 'strerror', '') or 'holds no text'}") from None
    try:
        return str(json.loads(text)["access_token"]) if text.startswith("{") else text
    except (ValueError, KeyError):
        raise Unusable("no-token", f"{path}: holds JSON without an access_token") from None


def token_expires(path: Path) -> "float | None":
    """When it does, as a JSON web token says; of another kind of token nobody but its server knows."""
    token = read_token(path)
    if not token or len(token.split()) > 1:
        raise Unusable("no-token", f"{path}: holds no token")
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)).decode())
        return float(claims["exp"]) if "exp" in claims else None
    except (ValueError, TypeError):
        raise Unusable("no-token", f"{path}: holds no token: its claims cannot be read") from None


def proxy_expires(path: Path) -> "float | None":
    """When it does, as its certificate says; None where no openssl can be asked."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise Unusable("absent", f"{path}: {error.strerror}") from None
    try:
        openssl = run_program("openssl", "x509", "-in", str(path), "-noout", "-enddate")
    except OSError:
        return None
    if openssl.status not in (0, 1):  # it cannot run, as with libraries of the job's that are not its own
        return None
    ends = re.search(r"notAfter=(.*) GMT", openssl.output)  # it may have warned of its configuration first
    if openssl.status != 0 or not ends:
        raise Unusable("no-certificate", f"{path}: holds no certificate")
    return float(calendar.timegm(time.strptime(ends.group(1), "%b %d %H:%M:%S %Y")))


def ticket_expires(path: Path) -> "float | None":
    """When the first ticket in a Kerberos cache (version 4 of its format) does; None where it cannot be read."""
    try:
        cache = path.read_bytes()
        (header,) = struct.unpack_from(">H", cache, 2)
        place = _after_principal(cache, 4 + header)
        while True:
            place = _after_principal(cache, _after_principal(cache, place))
            place = _after_text(cache, place + 2)  # the key, which has its kind before it
            _, _, end, _ = struct.unpack_from(">4I", cache, place)
            if end:  # what the library notes there for itself never ends
                return float(end)
            place += 21  # times, whether it is a session key, flags
            for _ in ("addresses", "authorization data"):
                (count,) = struct.unpack_from(">I", cache, place)
                place += 4
                for _ in range(count):
                    place = _after_text(cache, place + 2)
            for _ in ("ticket", "second ticket"):
                place = _after_text(cache, place)
    except (OSError, struct.error):
        return None


def _after_principal(cache: bytes, place: int) -> int:
    _, components = struct.unpack_from(">2I", cache, place)
    place += 8
    for _ in range(1 + components):  # the realm first
        place = _after_text(cache, place)
    return place


def _after_text(cache: bytes, place: int) -> int:
    (length,) = struct.unpack_from(">I", cache, place)
    return int(place + 4 + length)


class Kind(NamedTuple):
    """A token, a proxy or a ticket: what it is called, which variable tells programs where it is, when it expires."""

    name: str
    variable: str
    expires: "Callable[[Path], float | None]"


KINDS = {
    "token": Kind("token", "BEARER_TOKEN_FILE", token_expires),
    "destination-token": Kind("token", "TIERBENCH_DESTINATION_TOKEN_FILE", token_expires),
    "proxy": Kind("proxy", "X509_USER_PROXY", proxy_expires),
    "ticket": Kind("ticket", "KRB5CCNAME", ticket_expires),
}
ANEW = {
    "token": "get it anew (`htgettoken`, `oidc-token`)",
    "proxy": "make it anew (`grid-proxy-init`, `voms-proxy-init`)",
    "ticket": "see what lifetime the KDC gives",
}
LONGER = {  # where one expires while a client is at work
    "token": "use one that outlasts the trial, or one that HTCondor renews (token.condor in the site's file)",
    "proxy": "make one that outlasts the trial",
    "ticket": "let the KDC give tickets that outlast the trial (max_life, `modprinc -maxlife`)",
}


def path_of(kind: str) -> str:
    """Where the environment says that a token or a proxy is; nothing where there is none."""
    return os.environ.get(KINDS[kind].variable, "")


def expiry_after(kind: Kind, path: Path, until: float) -> "float | None":
    """When it expires, if that is known and not before then; it must be nobody else's to read."""
    expires = kind.expires(path)
    if path.stat().st_mode & OTHERS:
        raise Unusable("open", f"{path}: others may read it")
    if expires is not None and expires <= until:
        raise Unusable("expired", f"{path}: expired at {moment(expires)}")
    return expires


def moment(wall_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall_s))


def judged(name: str, path: Path, needed_s: float) -> "tuple[str, str, str]":
    """Good, doubtful or bad, what was seen, and a word for what to do about it; it is needed for so many seconds."""
    try:
        expires = expiry_after(KINDS[name], path, time.time())
    except Unusable as trouble:
        return "bad", str(trouble), trouble.why
    if expires is None and name == "proxy":
        return "doubtful", f"{path} is there, but no openssl to ask when it expires", "no-openssl"
    if expires is None:
        return "good", f"{path} is there; when it expires only its server knows", ""
    left_s = expires - time.time()
    words = f"{path} expires in {hours(left_s)}"
    if left_s > needed_s:
        return "good", words, ""
    return "doubtful", f"{words}, and is needed for at least {hours(needed_s)}", "expires"


def hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Who a job is to the storage, on its command line."""
    parser.add_argument("--keytab", type=Path, help="get a Kerberos ticket of one's own from this")
    parser.add_argument("--principal", help="for whom; {host} stands for this host's full name")
    parser.add_argument("--token", metavar="FILE", help="a bearer token, which came with the job")
    parser.add_argument("--credential", metavar="NAME", help="the bearer token of this name of HTCondor's credentials")
    parser.add_argument("--destination-token", metavar="FILE", help="the same for where files are copied to")
    parser.add_argument("--destination-credential", metavar="NAME", help="likewise")
    parser.add_argument("--x509", metavar="FILE", help="a grid proxy, which came with the job")


class Credentials:
    """What the command line says of them; `where` is the folder with what came with the job."""

    def __init__(self, arguments: argparse.Namespace, where: Path) -> None:
        self.keytab, self.principal = arguments.keytab, arguments.principal
        self.files = {}  # type: dict[str, Path]
        self.copies = {}  # type: dict[Path, tuple[Path, int]]  # of tokens alone, and when their sources were changed
        tokens = {
            "token": (arguments.token, arguments.credential),
            "destination-token": (arguments.destination_token, arguments.destination_credential),
        }
        for kind, (file, name) in tokens.items():
            if file:
                self.files[kind] = where / file
            if name:
                self.files[kind] = Path(os.environ.get(CREDENTIALS, f"/no-{CREDENTIALS}"), f"{name}.use")
        if arguments.x509:
            self.files["proxy"] = where / arguments.x509

    def obtain(self, scratch: Path) -> "dict[str, str]":
        """The variables by which programs find them, when they are there and let somebody in."""
        variables = {}
        if self.keytab:
            variables["KRB5CCNAME"] = f"FILE:{scratch}/krb5cc"
            command = ["kinit", "-k", "-t", str(self.keytab), self.principal.replace("{host}", machine()[0])]
            try:
                kinit = run_program(*command, env={**os.environ, **variables}, patience_s=TICKET_S)
            except OSError as error:
                raise Failure("no-ticket", str(error)) from None
            if kinit.status != 0:
                raise Failure("no-ticket", f"{' '.join(command)}: {kinit.last_words}")
            if (scratch / "krb5cc").exists():  # else where it is only the system's configuration knows
                self.files["ticket"] = scratch / "krb5cc"
        for name, path in self.files.items():
            with contextlib.suppress(OSError):  # as HTCondor has made it is another's at the worst
                path.chmod(path.stat().st_mode & ~OTHERS)
            variables[KINDS[name].variable] = str(path)
        if "token" in self.files:
            os.environ.pop("BEARER_TOKEN", None)  # one of the worker's, which programs would take before a file's
        self.check(time.time())
        for name, path in self.files.items():
            if KINDS[name].name == "token" and path.read_text().lstrip().startswith("{"):
                self.copies[path] = scratch / name, 0
                variables[KINDS[name].variable] = str(scratch / name)
        self.renew()
        return variables

    def renew(self) -> int:
        """Have a token that programs cannot read as HTCondor writes it once more, alone, when HTCondor has renewed it.

        The bytes that were written.
        """
        written = 0
        for source, (copy, copied_ns) in self.copies.items():
            with contextlib.suppress(OSError, Unusable):  # it is being replaced; what was there is used on
                changed_ns = source.stat().st_mtime_ns
                if changed_ns != copied_ns:
                    token = read_token(source) + "\n"
                    files.replace(copy, token, 0o600)
                    written += len(token)
                    self.copies[source] = copy, changed_ns
        return written

    def expired(self, start_wall_s: float) -> "dict[str, str]":
        """The status and message of a client that failed after one of them had expired; nothing if none has."""
        for kind, path in self.files.items():
            name = KINDS[kind].name
            with contextlib.suppress(OSError, Unusable):
                expires = KINDS[kind].expires(path)
                if expires is not None and expires <= time.time():
                    after_s = f"{expires - start_wall_s:.0f} s after the start"
                    message = f"its {name} expired at {moment(expires)}, {after_s}; {LONGER[name]}"
                    return {"status": f"expired-{name}", "message": message}
        return {}

    def check(self, until: float) -> None:
        """That none expires before then; what HTCondor renews meanwhile is seen anew."""
        for kind, path in self.files.items():
            name = KINDS[kind].name
            try:
                expiry_after(KINDS[kind], path, until)
            except Unusable as trouble:
                if trouble.why == "expired":
                    raise Failure(f"expired-{name}", f"{trouble}, before the start; {ANEW[name]}") from None
                raise Failure(f"no-{name}", str(trouble)) from None
            except OSError as error:
                raise Failure(f"no-{name}", f"{path}: {error.strerror}") from None


@contextlib.contextmanager
def environment_with(more: "Mapping[str, str]") -> "Iterator[None]":
    """For what is asked beside a client's process with its variables; credentials are judged without them."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def variables(declared: "Mapping[str, Any]") -> "dict[str, str]":
    """The values; one that is secret stands in a file that came with the job, or in the job's own environment."""
    return {name: _secret(name, value) if isinstance(value, dict) else str(value) for name, value in declared.items()}


def _secret(name: str, place: "Mapping[str, str]") -> str:
    if "from_file" in place:
        try:
            return Path(place["from_file"]).read_text().rstrip("\n")
        except (OSError, ValueError) as error:
            raise Failure("failed", f"variable {name}: {place['from_file']}: {type(error).__name__}") from None
    if place.get("from_env") not in os.environ:
        raise Failure("failed", f"variable {name}: jobs here have no {place.get('from_env')} in their environment")
    return os.environ[place["from_env"]]
