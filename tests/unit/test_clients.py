"""What the clients declare, and that docs/clients.md says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierbench.dags.clients import ClientFile, shipped_clients
from tierbench.dags.replicas import KINDS

DOCS = Path(__file__).parents[2] / "docs"
CLIENTS = shipped_clients()


def declared(client: ClientFile) -> str:
    """A client's row of the table in docs/clients.md."""
    of = client.client
    options = ", ".join(f"`{name}` {_shown(option.default)}".strip() for name, option in of.options.items())
    kinds = ", ".join(of.kinds) if of.kinds else "any"
    cells = (f"`{client.name}`", ", ".join(of.protocols), kinds, options, of.memory_mb, f"{of.usual_excess:.0%}")
    return "| " + " | ".join(map(str, cells)) + f" | {'yes' if of.reads_whole else 'no'} |"


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, (int, float)) else str(default or "")


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_its_declaration_is_in_the_docs(name: str) -> None:
    assert declared(CLIENTS[name]) in (DOCS / "clients.md").read_text()


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_it_reads_replicas_that_can_be_made(name: str) -> None:
    assert set(CLIENTS[name].client.kinds or ()) <= set(KINDS)


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_what_it_ships_is_there(name: str) -> None:
    assert [path.name for path in CLIENTS[name].ships if not path.is_file()] == []
