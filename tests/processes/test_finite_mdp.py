import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse

import gaussbell as gb
from gaussbell.processes import markov_chain as markov
from problems import random_mdp


def test_policy_mixes_rows():
    mdp = random_mdp(states=4, actions=3)
    probabilities = np.random.default_rng(1).dirichlet(np.ones(3), 4)
    mixed = mdp.under(probabilities)
    parts = [mdp.under(np.full(4, a)).transition.toarray() for a in range(3)]
    wanted = sum(probabilities[:, [a]] * parts[a] for a in range(3))
    assert np.allclose(mixed.transition.toarray(), wanted, atol=1e-15)
    assert np.allclose(mixed.reward, (probabilities * mdp.reward).sum(axis=1))


def test_values_against_simulation_of_the_equation():
    mdp = random_mdp(discount=0.8)
    chain = mdp.under([0, 1, 0, 1, 0, 1])
    values = np.zeros(6)
    for _ in range(200):
        values = chain.reward + 0.8 * chain.transition @ values
    assert np.allclose(chain.values, values, atol=1e-12)
    q = mdp.action_values(chain.values)
    assert np.allclose(q[np.arange(6), [0, 1, 0, 1, 0, 1]], chain.values, atol=1e-12)


def test_optimal_policy_against_value_iteration():
    mdp = random_mdp(states=8, actions=4, discount=0.9, seed=3)
    best = mdp.optimal()
    values = np.zeros(8)
    for _ in range(500):
        values = mdp.action_values(values).max(axis=1)
    assert np.allclose(best.values, values, atol=1e-10)
    assert np.array_equal(best.policy, best.action_values.argmax(axis=1))


def test_every_form_of_the_transition_is_the_same_process():
    rng = np.random.default_rng(0)
    dense = rng.dirichlet(np.ones(5), (5, 2))
    reward = rng.normal(size=(5, 2, 5))
    by_action = [scipy.sparse.csr_array(dense[:, a]) for a in range(2)]
    forms = [
        (dense, reward),
        (by_action, [scipy.sparse.csr_matrix(reward[:, a]) for a in range(2)]),
        (scipy.sparse.coo_array(dense.reshape(10, 5)), scipy.sparse.csr_array(reward.reshape(10, 5))),
        (sparse.BCOO.fromdense(jnp.asarray(dense)), sparse.BCOO.fromdense(jnp.asarray(reward))),
        (dense, (dense * reward).sum(axis=2)),
    ]
    policy = [0, 1, 1, 0, 1]
    wanted = gb.FiniteMDP(*forms[0], 0.9).under(policy)
    for transition, rewards in forms[1:]:
        chain = gb.FiniteMDP(transition, rewards, 0.9).under(policy)
        assert np.allclose(chain.transition.toarray(), wanted.transition.toarray(), atol=1e-15)
        assert np.allclose(chain.reward, wanted.reward, atol=1e-15)


def test_stationary_distribution_against_a_power_of_the_matrix():
    chain = random_mdp(states=9).under()
    power = np.linalg.matrix_power(chain.transition.toarray(), 400)
    assert np.allclose(chain.stationary, power[0], atol=1e-14)


def test_periodic_chain_is_fine():
    cycle = gb.FiniteMDP(np.roll(np.eye(3), 1, axis=1)[:, None], np.zeros((3, 1)), 0.9).under()
    assert np.allclose(cycle.stationary, 1 / 3)


def sparse_chain(states, neighbours, seed):
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(states), neighbours + 1)
    columns = rng.integers(0, states, (states, neighbours + 1))
    columns[:, 0] = (np.arange(states) + 1) % states  # a cycle through all makes it irreducible
    probability = rng.dirichlet(np.ones(neighbours + 1), states).ravel()
    return scipy.sparse.csr_array((probability, (rows, columns.ravel())), shape=(states, states))


def test_thousands_of_sparse_states():
    transition = sparse_chain(5000, 8, seed=0)
    mdp = gb.FiniteMDP(transition, np.random.default_rng(1).normal(size=(5000, 1)), 0.99)
    chain = mdp.under()
    xi = chain.stationary
    assert abs(xi.sum() - 1) < 1e-12 and (xi > 0).all()
    assert np.abs(xi @ transition - xi).max() < 1e-15
    assert np.abs(chain.residual(chain.values)).max() < 1e-11


@pytest.mark.parametrize("up", [0.6, 0.505, 0.4])
def test_drifting_sparse_chain_falls_back_to_factorisation(up, monkeypatch):
    """A long random walk with a drift: BiCGSTAB does not balance its rare states, LU does."""
    factorised = []
    splu = scipy.sparse.linalg.splu
    monkeypatch.setattr(scipy.sparse.linalg, "splu", lambda *a, **k: factorised.append(1) or splu(*a, **k))
    states = 1200
    transition = scipy.sparse.diags_array(
        [np.full(states - 1, 1 - up), np.full(states - 1, up)], offsets=[-1, 1], format="lil"
    )
    transition[0, 0], transition[-1, -1] = 1 - up, up
    xi = markov.stationary_distribution(transition.tocsr())
    assert factorised
    ratio = up / (1 - up)
    wanted = ratio ** (np.arange(states) - (states - 1 if up > 0.5 else 0.0))
    wanted /= wanted.sum()
    assert np.allclose(xi, wanted, rtol=1e-6, atol=1e-300)


def test_ill_conditioned_values_fall_back_to_factorisation(monkeypatch):
    monkeypatch.setattr(markov, "_iterate", lambda matrix, right: np.full_like(right, np.nan))
    chain = gb.FiniteMDP(sparse_chain(1500, 3, seed=0), np.ones((1500, 1)), 0.9).under()
    assert np.allclose(chain.values, 10, rtol=1e-12)
    assert np.abs(chain.stationary @ chain.transition - chain.stationary).max() < 1e-15


def test_tiny_probabilities_are_accurate():
    states, down = 200, 0.9
    transition = np.diag(np.full(states - 1, down), -1) + np.diag(np.full(states - 1, 1 - down), 1)
    transition[0, 0], transition[-1, -1] = down, 1 - down
    for matrix, direction in ((transition, 1), (transition[::-1, ::-1], -1)):
        xi = markov.stationary_distribution(scipy.sparse.csr_array(matrix))[::direction]
        assert np.allclose(xi[1:] / xi[:-1], 1 / 9, rtol=1e-12)
        assert xi[-1] < 1e-180


def test_stored_zeros_are_not_links():
    matrix = scipy.sparse.csr_array(np.array([[0.5, 0.5], [1.0, 1.0]]))
    matrix.data[:] = [1.0, 0.0, 0.0, 1.0]
    assert [c.tolist() for c in markov.closed_classes(matrix)] == [[0], [1]]


def test_single_precision_probabilities_are_accepted_and_scaled():
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(6), (6, 2)).astype(np.float32)
    policy = rng.dirichlet(np.ones(2), 6).astype(np.float32)
    chain = gb.FiniteMDP(transition, np.ones((6, 2)), 0.9).under(policy)
    assert np.abs(chain.transition.sum(axis=1) - 1).max() < 1e-15
    assert np.allclose(chain.values, 10)


def test_only_the_proportions_of_weights_count():
    chain = gb.environments.SevenStar().under()
    network, features = gb.MLP((2, 4, 1), key=0), gb.encodings.normal(7, 2, key=0)
    values = np.asarray(network(features))
    for weight in (np.ones(7), np.full(7, 5.0)):
        loss = gb.msbe(network, chain, features=features, weight=weight)
        assert np.isclose(loss, 0.5 * np.mean(chain.residual(values) ** 2), rtol=1e-12)


def test_network_on_a_sparse_chain_has_the_gradient_of_the_dense_one(monkeypatch):
    transition = sparse_chain(40, 3, seed=1)
    reward = np.random.default_rng(0).normal(size=(40, 1))
    chain = gb.FiniteMDP(transition, reward, 0.9).under()
    network, features = gb.MLP((2, 4, 1), key=0), gb.encodings.normal(40, 2, key=0)
    dense = gb.linearise(network, chain, features=features)
    monkeypatch.setattr("gaussbell.bellman.DENSE_CHAIN_STATES", 10)
    sparse_one = gb.linearise(network, chain, features=features)
    assert isinstance(sparse_one.differential.difference.transition, sparse.BCOO)
    assert np.allclose(dense.gradient(), sparse_one.gradient(), rtol=1e-12)
    assert np.allclose(dense.gram(), sparse_one.gram(), rtol=1e-12)
    solution = gb.evaluate(network, chain, features=features, max_steps=5)
    assert np.isfinite(solution.msbe)


def test_star_has_the_papers_probabilities():
    chain = gb.environments.SevenStar().under()
    matrix = chain.transition.toarray()
    assert matrix[0].tolist() == [0.94] + [0.01] * 6
    assert (matrix[1:, 0] == 1).all()
    # Balance: each outer state is entered once for every hundred stays in the centre.
    assert np.allclose(chain.stationary, np.array([100, 1, 1, 1, 1, 1, 1]) / 106)


TWO_ISLANDS = np.kron(np.eye(2), np.full((2, 2), 0.5))[:, None]
ABSORBING = np.array([[0.5, 0.5], [0.0, 1.0]])[:, None]


def test_two_closed_classes():
    chain = gb.FiniteMDP(TWO_ISLANDS, np.zeros((4, 1)), 0.9).under()
    with pytest.raises(ValueError, match=r"reducible: it has 2 closed classes.*\{0, 1\}; \{2, 3\}"):
        _ = chain.stationary
    assert np.allclose(chain.values, 0)  # the value does not need a stationary distribution


def test_transient_state_needs_weights():
    chain = gb.FiniteMDP(ABSORBING, np.array([[1.0], [0.0]]), 0.9).under()
    assert chain.stationary.tolist() == [0.0, 1.0]
    network, features = gb.MLP((2, 5, 1), key=0), gb.encodings.one_hot(2)
    with pytest.raises(ValueError, match=r"leaves 1 of its 2 states for good.*weight"):
        gb.evaluate(network, chain, features=features)
    solution = gb.evaluate(network, chain, features=features, weight=np.ones(2)).raise_if_failed()
    assert np.allclose(solution.network(features), chain.values, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.full((2, 1, 2), 0.4), np.zeros((2, 1)), 0.9), "state 0, action 0 sum to 0.8, not one"),
        ((np.zeros((2, 2)), np.zeros((2, 1)), 0.9), r"transition: shape \(2, 2\)"),
        ((-TWO_ISLANDS, np.zeros((4, 1)), 0.9), "negative"),
        ((TWO_ISLANDS, np.zeros((3, 1)), 0.9), "reward"),
        ((TWO_ISLANDS, np.full((4, 1), np.nan), 0.9), "reward"),
        ((TWO_ISLANDS, np.zeros((4, 1)), 1.0), "discount=1.0"),
    ],
)
def test_mistakes_in_the_process(arguments, message):
    with pytest.raises(ValueError, match=message):
        gb.FiniteMDP(*arguments)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([0, 2], r"action 2.0 in state 1"),
        (0, "policy=0"),
        (lambda s: s, "policy: cannot be read"),
        ([[0.5, 0.5], [1.5, -0.5]], r"row 1 is \[ 1.5 -0.5\]"),
        ([[0.5, 0.4], [1, 0]], "row 0"),
        ([0], "covers 1 states"),
    ],
)
def test_mistakes_in_the_policy(policy, message):
    with pytest.raises(ValueError, match=message):
        random_mdp(states=2, actions=2).under(policy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": np.zeros((6, 2))}, "features: shape"),
        ({"features": np.full((7, 2), np.nan)}, "features: some are NaN"),
        ({"features": np.zeros((7, 2)), "weight": np.zeros(7)}, "weight"),
        ({"features": "one_hot"}, "features: cannot be read"),
        ({"features": np.zeros((7, 2)), "weight": [1, 1, 1, 1, 1, 1, -1]}, "weight: give finite"),
        ({}, "first size is 2; it must be 1"),
    ],
)
def test_mistakes_in_an_evaluation(options, message):
    with pytest.raises(ValueError, match=message):
        gb.evaluate(gb.MLP((2, 3, 1), key=0), gb.environments.SevenStar().under(), **options)
