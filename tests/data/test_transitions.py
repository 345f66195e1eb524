import jax.numpy as jnp
import numpy as np
import pytest

import gaussbell as gb
from gaussbell.bellman import bellman_problem

STATE, REWARD, NEXT = np.zeros((3, 2)), np.zeros(3), np.ones((3, 2))


def test_discount_and_weight_may_be_numbers():
    data = gb.Transitions(STATE, REWARD, NEXT, discount=0.9, weight=5.0)
    assert data.discount.tolist() == [0.9] * 3
    assert np.allclose(data.weight, 1 / 3)


def test_weights_are_shares():
    data = gb.Transitions(STATE, REWARD, NEXT, weight=[1.0, 2.0, 1.0])
    assert data.weight.tolist() == [0.25, 0.5, 0.25]


def test_weight_counts_like_repetition():
    network = gb.MLP((2, 3, 1), key=0)
    rng = np.random.default_rng(0)
    state, reward, following = rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=(3, 2))
    rows = [0, 1, 1, 2]
    repeated = gb.Transitions(state[rows], reward[rows], following[rows])
    weighted = gb.Transitions(state, reward, following, weight=[1, 2, 1])
    assert np.allclose(gb.linearise(network, repeated).gradient(), gb.linearise(network, weighted).gradient())


def test_successor_of_an_end_is_not_read():
    network = gb.MLP((2, 3, 1), key=0)
    following = np.array([[1.0, 1.0], [np.nan, np.inf], [1.0, 1.0]])
    ended = gb.Transitions(STATE, REWARD, following, discount=[0.9, 0.0, 0.9])
    wanted = gb.Transitions(STATE, REWARD, NEXT, discount=[0.9, 0.0, 0.9])
    assert float(gb.msbe(network, ended)) == pytest.approx(float(gb.msbe(network, wanted)), rel=1e-14)
    assert bool(jnp.isfinite(gb.linearise(network, ended).gradient()).all())


def test_joined_rows_have_the_residuals_of_their_parts():
    rng = np.random.default_rng(0)
    single = gb.Transitions(
        rng.normal(size=(4, 2)),
        rng.normal(size=4),
        rng.normal(size=(4, 2)),
        0.9,
        None,
        [0, 1, 0, 1],
        [1, 1, 0, 0],
    )
    double = gb.Transitions(
        rng.normal(size=(3, 2)),
        rng.normal(size=3),
        rng.normal(size=(3, 2, 2)),
        rng.uniform(size=(3, 2)),
        None,
        [0, 1, 0],
        [[0, 1]] * 3,
        [[0.2, 0.8]] * 3,
    )
    network = gb.MLP((3, 4, 1), key=0)
    joined = gb.Transitions.join(single, double)

    def residuals(data):
        problem = bellman_problem(network, data)
        return np.asarray(problem.residual(problem.pack(network))) / np.sqrt(np.asarray(data.weight))

    apart = np.concatenate([residuals(single), residuals(double)])
    np.testing.assert_allclose(residuals(joined), apart, atol=1e-14)
    assert gb.Transitions.join(single, single).probability is None and len(joined) == 7


def test_q_factors_append_the_action():
    data = gb.Transitions(STATE, REWARD, NEXT, action=[0, 1, 0], next_action=[[1], [1], [0]])
    assert data.inputs.shape == data.next_inputs.shape == (3, 3)
    assert data.inputs[:, 2].tolist() == [0, 1, 0]
    assert data.next_inputs[:, 2].tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"state": np.zeros((0, 2)), "next_state": np.zeros((0, 2)), "reward": []}, "state.*no numbers"),
        ({"state": np.zeros(3)}, r"state\[:, None\]"),
        ({"state": np.zeros((3, 2, 2))}, r"shape \(N, d\)"),
        ({"next_state": np.zeros((2, 2))}, "next_state: shape"),
        ({"reward": np.zeros(2)}, "reward: shape"),
        (
            {"reward": [0.0, np.nan, np.nan]},
            r"reward: 2 of 3 hold NaN or infinity \(the first is number 1\)",
        ),
        ({"state": np.full((3, 2), np.inf)}, "state: 3 of 3"),
        ({"next_state": np.full((3, 2), np.nan)}, "next_state: 3 of 3"),
        ({"discount": 1.5}, "discount"),
        ({"discount": [0.9, 0.9]}, "discount: shape"),
        ({"weight": [1.0, -1.0, 1.0]}, "weight"),
        ({"weight": [0.0, 0.0, 0.0]}, "weight"),
        ({"action": np.zeros(3)}, "go together"),
        ({"reward": None}, "reward: shape|reward: cannot be read"),
        ({"reward": ["a", "b", "c"]}, "reward: cannot be read"),
        ({"state": np.zeros((3, 2)) + 1j}, "complex"),
        ({"action": [0, np.nan, 0], "next_action": np.zeros(3)}, "^action: 1 of 3"),
        ({"action": np.zeros(3), "next_action": np.zeros((3, 2))}, "next_action: its width"),
        ({"action": np.zeros(2), "next_action": np.zeros(3)}, "action: shape"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(ValueError, match=message):
        gb.Transitions(**{"state": STATE, "reward": REWARD, "next_state": NEXT, **arguments})


@pytest.mark.parametrize(
    ("network", "data", "message"),
    [
        (gb.MLP((3, 4, 1), key=0), gb.Transitions(STATE, REWARD, NEXT), "its first size is 3; it must be 2"),
        (
            gb.ValueFunction(np.zeros(3), lambda p, s: p @ s),
            gb.Transitions(STATE, REWARD, NEXT),
            "network: it failed on an input of shape",
        ),
        (lambda s: s.sum(), gb.Transitions(STATE, REWARD, NEXT), "no floating-point parameters"),
        ({"w": np.zeros(2)}, gb.Transitions(STATE, REWARD, NEXT), "network: dict cannot be called"),
        (
            gb.ValueFunction(np.zeros(2), lambda p, s: p * s),
            gb.Transitions(STATE, REWARD, NEXT),
            r"network: one input of shape \(2,\) gave an output of shape \(2,\)",
        ),
        (gb.MLP((2, 4, 1), key=0), (STATE, REWARD, NEXT), "data: got tuple"),
    ],
)
def test_mistakes_in_an_evaluation(network, data, message):
    with pytest.raises(ValueError, match=message):
        gb.evaluate(network, data)
