"""The scripts of a run directory, as they are shipped to the access point."""

from __future__ import annotations

from pathlib import Path

from tierbench.dags import names
from tierbench.dags.shipping import scripts as shipped_scripts


def ship(scripts: Path) -> None:
    """Lay out what runs on the access point."""
    for target, content in shipped_scripts():
        copy = scripts / Path(target).relative_to(names.SCRIPTS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        copy.chmod(0o755)
