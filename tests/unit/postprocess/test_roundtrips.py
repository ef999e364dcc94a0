"""How many round trips an operation waits for is the slope of its time over the distance."""

import numpy as np
import pytest

from tierbench.postprocess.stats import round_trips as fitted

FAR = [0.0001, 0.005, 0.047, 0.060]
OWN_S = 0.0004


def operations(trips, noise=0.0):
    """What a known sequence takes: so many round trips for each operation, and the time that it takes itself."""
    chance = np.random.default_rng(1)
    return [(far, (OWN_S + trips * far) * (1 + chance.normal(0, noise))) for far in FAR for _ in range(2)]


@pytest.mark.parametrize("trips", [0, 1, 2, 7.5])
def test_a_known_sequence_is_found_again(trips):
    found = fitted(operations(trips))
    assert found.each.value == pytest.approx(trips, abs=1e-9)
    assert found.beside_s == pytest.approx(OWN_S)


def test_the_interval_holds_it_where_trials_scatter():
    found = fitted(operations(2, noise=0.05)).each
    assert found.low < 2 < found.high
    assert found.high - found.low < 0.5


@pytest.mark.parametrize("trials", [[], operations(2)[:1], [(0.005, 0.01)] * 4])
def test_one_distance_says_nothing(trials):
    assert fitted(trials) is None
