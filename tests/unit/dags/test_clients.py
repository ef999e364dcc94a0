"""What the clients declare."""

from __future__ import annotations

import pytest

from tierbench.dags.clients import shipped_clients
from tierbench.dags.replicas import KINDS

CLIENTS = shipped_clients()


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_it_reads_replicas_that_can_be_made(name: str) -> None:
    assert set(CLIENTS[name].client.kinds or ()) <= set(KINDS)


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_what_it_ships_is_there(name: str) -> None:
    assert [path.name for path in CLIENTS[name].ships if not path.is_file()] == []


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_each_option_says_what_it_means(name: str) -> None:
    assert [key for key, option in CLIENTS[name].client.options.items() if not option.meaning] == []
