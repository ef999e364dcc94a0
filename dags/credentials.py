"""Who clients are to the storage by a way of access: what their jobs are told of it, and what travels with them."""

from __future__ import annotations

from pathlib import PurePath

from tierbench.site_configs.site import Access
from tierbench.wrappers.credentials import KINDS


def flags(access: Access) -> str:
    """What a job's script is told (wrappers/credentials.py)."""
    told = []
    if access.kerberos:
        told.append(f"--principal {access.kerberos.principal} --keytab {access.kerberos.keytab}")
    if access.token and access.token.file:
        told.append(f"--token {PurePath(access.token.file).name}")
    if access.token and access.token.condor:
        told.append(f"--credential {access.token.condor}")
    if access.x509:
        told.append(f"--x509 {PurePath(access.x509.proxy).name}")
    return " ".join(told)


def by_kind(access: Access) -> dict[str, str]:
    """The files of the access point that come with each job: of a token, of a proxy."""
    token = {"token": str(access.token.file)} if access.token and access.token.file else {}
    return token | ({"proxy": str(access.x509.proxy)} if access.x509 else {})


def files(access: Access) -> list[str]:
    return list(by_kind(access).values())


def variables(access: Access) -> dict[str, str]:
    """By which a program on the access point itself finds them."""
    return {KINDS[kind].variable: path for kind, path in by_kind(access).items()}


def service(access: Access) -> str:
    """The service whose token HTCondor's credential daemons are to give to each job."""
    return str(access.token.condor) if access.token and access.token.condor else ""
