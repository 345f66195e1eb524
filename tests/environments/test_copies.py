"""Copies in this process and in others do the same; episodes branch off where the seed can be repeated."""

import gymnasium
import numpy as np
import pytest

import gaussbell as gb


class Noisy(gymnasium.Env):
    """A random walk; with `elsewhere` it draws from a generator that no seed reaches."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, elsewhere=False):
        self._other = np.random.default_rng() if elsewhere else None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = np.zeros(1)
        return self._place.copy(), {}

    def step(self, action):
        rng = self.np_random if self._other is None else self._other
        self._place = self._place + np.asarray(action, float) + rng.normal(size=1)
        return self._place.copy(), float(self._place[0]), False, False, {}


gymnasium.register("Noisy-v0", Noisy, max_episode_steps=8)


def push(state):
    return state * 0 + 0.5


def test_processes_of_their_own_give_the_same_episodes():
    logs = []
    for how in ("sync", "async"):
        env = gb.environments.from_gymnasium(
            "Pendulum-v1", num_envs=2, vectorization=how, max_episode_steps=6
        )
        logs.append(env.play(lambda state: state[:1], episodes=5, key=3))
        if how == "async":
            assert len(env.play(lambda state: state[:1], episodes=1, length=3)) == 3
        env.close()
    assert len(logs[0]) == 30
    for name in ("state", "action", "reward", "next_state", "episode"):
        assert np.array_equal(getattr(logs[0], name), getattr(logs[1], name)), name
    with pytest.raises(ValueError, match="vectorization='many'"):
        gb.environments.from_gymnasium("Pendulum-v1", vectorization="many")


def test_episodes_branch_off_where_they_are_told_to():
    env = gb.environments.from_gymnasium("Noisy-v0", num_envs=3)
    log = env.play(push, episodes=4, length=12, past_limit=True)
    assert len(log) == 48 and len(np.unique(log.seed)) == 4
    rows = [0, 5, 11, 30]
    twins = env.branch(push, log, rows, length=6, key=1)
    first = np.flatnonzero(twins.age == 0)
    assert np.array_equal(twins.state[first], log.state[rows]) and len(twins) == 24
    assert not np.isclose(twins.next_state[first], log.next_state[rows]).any()
    other = env.branch(push, log, rows, length=6, key=2)
    assert not np.isclose(twins.reward, other.reward).any()
    kept = env.branch(lambda state: -state * 0, log, rows, length=2, keep_action=True)
    assert kept.action[:, 0].tolist() == [0.5, 0.0] * 4, "the logged action first, then the policy's"


def test_what_cannot_be_repeated_does_not_branch():
    env = gb.environments.from_gymnasium(Noisy(elsewhere=True), stochastic=True, discount=0.8)
    log = env.play(push, episodes=2, length=5)
    assert env.branch(push, log, [3], length=2) is None
    found = gb.evaluate_policy(env, push, gb.MLP((1, 4, 1)), budget=3000, n_step=5, max_steps=5)
    assert "no state could be continued twice" in str(found) and found.assessment.trusted is not True
