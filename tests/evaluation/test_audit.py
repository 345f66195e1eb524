"""Audits of critics whose errors are known, and the fixed point of the last layer by hand."""

import contextlib
import sys
import types

import gymnasium
import numpy as np
import pytest

import gaussbell as gb
from gaussbell.processes.critics import read_critic

DISCOUNT = 0.9


class Decay(gymnasium.Env):
    """x' = x / 2 with reward x: the value is x / (1 - discount / 2). It has no end."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-1, 1, 1)
        return self._place.astype(np.float32), {}

    def step(self, action):
        reward, self._place = float(self._place[0]), self._place / 2
        return self._place.astype(np.float32), reward, False, False, {}


gymnasium.register("Decay-v0", Decay, max_episode_steps=10)


def still(state):
    return 0


def truth(states):
    return states[:, 0] / (1 - DISCOUNT / 2)


def audit(critic, **options):
    env = gb.environments.from_gymnasium("Decay-v0", discount=DISCOUNT, num_envs=4)
    return gb.audit_critic(critic, env, still, budget=3000, **options)


@pytest.mark.parametrize(("offset", "factor"), [(0.5, 1.0), (-2.0, 1.0), (0.0, 2.0)])
def test_the_error_of_a_critic_is_found(offset, factor):
    found = audit(lambda states: factor * truth(states) + offset, ours=False)
    assert found.bias == pytest.approx(offset, abs=0.05)
    assert found.bias_interval[0] <= found.bias <= found.bias_interval[1]
    assert found.scale == pytest.approx(1 / factor, rel=0.05)
    expected = abs(offset) if factor == 1 else found.assessment.spread
    assert found.assessment.value_error == pytest.approx(expected, rel=0.05)
    assert found.assessment.trusted is False and "held-out episodes" in str(found)
    assert sum(group.states for group in found.by_age) == sum(group.states for group in found.by_value)


def test_a_right_critic_is_trusted_and_ours_stands_beside_it():
    found = audit(truth, max_steps=20, n_step=5, network=gb.MLP((1, 6, 1)))
    assert found.assessment.trusted and not found.warnings and found.simulated <= 3000
    assert found.our_assessment.relative_error < 0.2 and found.ours.start is not None
    low, high = found.monte_carlo_interval
    assert low <= found.start <= high
    plain = found.to_dict()
    assert (
        len(plain["sample"]["ours"]) == len(plain["sample"]["value"]) and plain["our_assessment"]["trusted"]
    )


class Spied:
    def __init__(self, function, discount=None):
        self.function = function
        self.config = type("Config", (), {"gamma": discount})

    def predict_value(self, states, actions):
        assert states.dtype == np.float32 and (np.asarray(actions) == 0).all()
        return self.function(states)


def test_critics_of_other_libraries():
    found = audit(Spied(truth, discount=0.5), ours=False)
    assert found.assessment.trusted and "made for a discount of 0.5" in found.warnings[0]
    with pytest.raises(ValueError, match="critic=3"):
        audit(3)
    with pytest.raises(ValueError, match="returned 1 numbers"):
        audit(lambda states: 0.0)


class Distribution:
    """What Stable-Baselines3's VecNormalize knows of returns."""

    var = 4.0


class Normaliser:
    norm_reward, epsilon, ret_rms = True, 0.0, Distribution

    def normalize_obs(self, observations):
        return observations


class Tensor(np.ndarray):
    """As much of a tensor as a critic needs."""

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)


def test_values_come_back_in_the_unit_of_the_rewards(monkeypatch):
    torch = types.SimpleNamespace(no_grad=contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Policy:
        def obs_to_tensor(self, seen):
            return seen.view(Tensor), True

        def predict_values(self, seen):
            return seen[:, :1]

    class Model:
        policy, gamma = Policy(), 0.9
        predict = get_vec_normalize_env = staticmethod(lambda *_: Normaliser())

    critic = read_critic(Model, still)
    assert critic(np.ones((3, 1))).tolist() == [2.0] * 3 and critic.discount == 0.9


def test_the_fixed_point_solves_the_projected_equation():
    rng = np.random.default_rng(0)
    state = rng.normal(size=(50, 2))
    data = gb.Transitions(state, rng.normal(size=50), rng.normal(size=(50, 2)), 0.8)
    network = gb.FeatureNetwork(gb.features.Standardise.of(state), gb.MLP((2, 5, 1), key=1))
    found = gb.fixed_point(network, data)
    inner = found.network

    def units(states):
        made = np.asarray(network.features(np.asarray(states)))
        hidden = np.asarray(inner.activation(made @ inner.weights[0][:-1] + inner.weights[0][-1]))
        return np.column_stack([hidden, np.ones(50)])

    phi, ahead = units(state), units(data.next_state)
    theta = np.asarray(inner.weights[-1])[:, 0]
    residual = phi.T @ (np.asarray(data.reward) + 0.8 * ahead @ theta - phi @ theta)
    assert np.abs(residual).max() < 1e-2 * np.abs(phi.T @ np.asarray(data.reward)).max()
    assert np.array_equal(inner.weights[0], network.network.weights[0])
    with pytest.raises(ValueError, match="no last layer"):
        gb.fixed_point(gb.ValueFunction(np.zeros(2), lambda w, s: w @ s), data)


def test_a_single_successor_biases_the_residual_and_not_the_fixed_point():
    """x' is +-1 by a coin, and so is the reward's noise: the value is -/+ by the state alone."""
    rng = np.random.default_rng(1)
    chain = rng.choice([-1.0, 1.0], size=20_001)
    flips = rng.random(20_000) < 0.3
    for t in range(20_000):  # stays with probability 0.7
        chain[t + 1] = -chain[t] if flips[t] else chain[t]
    data = gb.Transitions(chain[:-1, None], chain[:-1], chain[1:, None], 0.9)
    value = 1 / (1 - 0.9 * 0.4)
    network = gb.MLP((1, 3, 1), key=2)
    biased, right = (
        float(gb.evaluate(network, data, fixed_point=on, max_steps=50, diagnose=False).network([1.0]))
        for on in (False, True)
    )
    assert abs(right - value) < 0.1 < abs(biased - value)
    with pytest.raises(ValueError, match="fixed_point"):
        gb.evaluate(network, gb.environments.ChainWalk(3).under(), fixed_point=True)
