"""What the clients declare."""

import pytest

from tierbench.dags.clients import shipped_clients
from tierbench.dags.replicas import KINDS

CLIENTS = shipped_clients()


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_it_reads_replicas_that_can_be_made_and_its_files_and_the_meanings_of_its_options_are_there(name):
    file = CLIENTS[name]
    assert set(file.client.kinds or ()) <= set(KINDS)
    assert [path.name for path in file.ships if not path.is_file()] == []
    assert [key for key, option in file.client.options.items() if not option.meaning] == []
