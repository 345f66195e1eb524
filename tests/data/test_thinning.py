"""Fewer rows that stand for all."""

import numpy as np
import pytest

from gaussbell.data.thinning import Thinning, leverage


@pytest.fixture
def states() -> np.ndarray:
    """Mostly one kind of state, and a few far from them."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.standard_normal((2000, 3)), 10 + rng.standard_normal((20, 3))])


def test_leverage_is_the_diagonal_of_the_projection(states):
    with_constant = np.column_stack([states, np.ones(len(states))])
    projection = np.einsum("ij,ji->i", with_constant, np.linalg.pinv(with_constant))
    np.testing.assert_allclose(leverage(states), projection, rtol=1e-8)
    repeated = np.column_stack([states, states[:, 0]])  # no new direction
    np.testing.assert_allclose(leverage(repeated), projection, rtol=1e-6)


def test_weighted_sums_have_the_sums_over_all_rows_as_their_mean(states):
    quantity = states[:, 0] ** 2 + 1
    sums = []
    for seed in range(200):
        rows, weight = Thinning(states, seed=seed)(100)
        sums.append(weight @ quantity[rows])
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - quantity.sum()) < 3 * error
    uniform = [
        quantity[np.random.default_rng(seed).choice(len(states), 100)].mean() * len(states)
        for seed in range(200)
    ]
    assert np.std(sums) < 0.5 * np.std(uniform)


def test_rare_rows_are_kept_and_fewer_are_among_more(states):
    thinning = Thinning(states, seed=1)
    few, many = thinning(100)[0], thinning(400)[0]
    assert np.isin(few, many).all() and (np.diff(many) > 0).all()
    assert (many >= 2000).sum() > 15
    rows, weight = thinning(5000)
    assert len(rows) == len(states) and (weight == 1).all()
