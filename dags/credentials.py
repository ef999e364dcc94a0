"""Who clients are to the storage, and variables of secret value: what jobs know of it, and what travels with them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tierbench.checked_text import AbsolutePath, Variable
from tierbench.site_configs.site import Access
from tierbench.spec import Checked
from tierbench.trials import Credentials
from tierbench.wrappers.credentials import KINDS


def of(access: Access) -> Credentials:
    """What jobs get (wrappers/credentials.py), what comes with them, and whose token HTCondor gives to each."""
    flags, services = [], []
    if access.kerberos:
        flags.append(f"--principal {access.kerberos.principal} --keytab {access.kerberos.keytab}")
    for kind, token in access.tokens.items():
        if token.file:
            flags.append(f"--{kind} {PurePath(token.file).name}")
        if token.condor:
            services.append(str(token.condor))
            flags.append(f"--{kind.replace('token', 'credential')} {token.condor}")
    if access.x509:
        flags.append(f"--x509 {PurePath(access.x509.proxy).name}")
    return Credentials(" ".join(flags), list(access.secrets.values()), ",".join(dict.fromkeys(services)))


def variables(access: Access) -> dict[str, str]:
    """By which a program on the access point itself finds the files of secrets."""
    return {KINDS[kind].variable: path for kind, path in access.secrets.items()}


@dataclass(frozen=True)
class Secret(Checked):
    """Where a value is: in a file on the access point, which travels with each job, or in the job's environment."""

    from_file: AbsolutePath | None = None
    from_env: Variable | None = None

    def problems(self) -> Iterator[str]:
        if bool(self.from_file) == bool(self.from_env):
            yield "needs either from_file, a file on the access point, or from_env, a variable that jobs have already"

    @property
    def record(self) -> dict[str, str]:
        """What trial.json tells the client: the file by the name that it has beside it."""
        return {"from_file": PurePath(self.from_file).name} if self.from_file else {"from_env": str(self.from_env)}


def secret_files(environment: Mapping[str, Any]) -> list[str]:
    return [str(value.from_file) for value in environment.values() if isinstance(value, Secret) and value.from_file]


def problems(paths: Iterable[str], other_names: Iterable[str]) -> Iterator[str]:
    """What keeps files of secrets from travelling beside others of these names."""
    names = set(other_names)
    for path in dict.fromkeys(paths):
        name = PurePath(path).name
        if name in names:
            yield f"{path}: another file that travels with the clients is called {name} too; call this one otherwise"
        names.add(name)
        if not os.access(path, os.R_OK):
            yield f"{path}: is not there to be read, but a trial's clients need it; write the run where it is"
