"""Any Gymnasium environment, with or without a state that can be set."""

import gymnasium
import numpy as np
import pytest

import gaussbell as gb
import gaussbell.environments.registered


class Drift(gymnasium.Env):
    """A number that drifts up by the action and ends beyond 3; its state is hidden."""

    observation_space = gymnasium.spaces.Box(-1.0, 10.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = 0.0
        return np.array([0.0], np.float32), {}

    def step(self, action):
        assert action in (1, 2)
        self._place += float(action)
        return np.array([self._place], np.float32), self._place, self._place > 3, False, {}


def along_velocity(state):
    return 2 * (state[1] >= 0).astype(int)


def test_set_states_give_the_transitions_of_our_own():
    theirs = gb.environments.from_gymnasium("MountainCar-v0", num_envs=4)
    assert theirs.can_set_state and theirs.low is not None and not theirs.starts_anywhere
    data = gb.sample_transitions(theirs, along_velocity, 20, key=0, n_step=3)
    ours = gb.environments.MountainCar(ending="end")
    paths = ours.simulate(along_velocity, np.asarray(data.state), [3])
    before = paths.next_state[0][:, 0] < 0.45
    assert before.sum() > 10
    assert np.abs(np.asarray(data.next_state) - paths.next_state[0])[before].max() < 1e-6  # float32 there
    assert np.allclose(data.discount[before], 0.99**3)
    theirs.close()


def test_ours_through_gymnasium_are_ours():
    ours = gb.environments.Pendulum()
    theirs = gb.environments.from_gymnasium("gaussbell/Pendulum-v0", low=ours.low, high=ours.high, num_envs=2)
    data = gb.sample_transitions(theirs, lambda seen: -seen[2:] / 8, 6, key=0, n_step=4)
    angle = np.arctan2(data.state[:, 1], data.state[:, 0])
    state = np.column_stack([angle, data.state[:, 2]])
    paths = ours.simulate(lambda state: -state[1:] / 8, state, [4])
    assert np.allclose(paths.reward[0], data.reward, atol=1e-4)  # observations are float32


def test_hidden_states_are_visited():
    env = gb.environments.from_gymnasium(Drift(), discount=0.5)
    assert not env.can_set_state and env.low is None
    data = gb.sample_transitions(env, lambda state: 1, 6, key=0, n_step=2)
    # With steps of two: 0 -> 2 -> 4, the end. Rewards 2, then 4.
    triples = zip(data.state[:, 0], data.reward, data.discount, strict=True)
    rows = {float(s): (float(r), float(d)) for s, r, d in triples}
    assert rows == {0.0: (2 + 0.5 * 4, 0.0), 2.0: (4.0, 0.0)}
    restart = gb.environments.from_gymnasium(Drift(), discount=0.5, ending="restart")
    data = gb.sample_transitions(restart, lambda state: 1, 6, key=0, n_step=1)
    ended = np.asarray(data.state)[:, 0] == 2
    assert (np.asarray(data.next_state)[ended] == 0).all() and np.allclose(data.discount, 0.5)


def test_truncation_is_no_end():
    env = gb.environments.from_gymnasium("Pendulum-v1", num_envs=2, max_episode_steps=5)
    log = env.log(lambda state: -0.1 * state[2:], 40, key=0)
    assert log.truncated.sum() == 8 and not log.terminated.any()
    data = log.transitions(discount=0.9, n_step=10)
    assert float(data.discount.min()) == pytest.approx(0.9**5) and float(
        data.discount.max()
    ) == pytest.approx(0.9)


def test_a_time_limit_cuts_a_simulated_path():
    env = gb.environments.from_gymnasium("MountainCar-v0", num_envs=2, max_episode_steps=5)
    data = gb.sample_transitions(env, along_velocity, 4, key=1, n_step=10)
    going = np.asarray(data.discount) > 0  # not at the goal
    assert going.any() and np.allclose(data.discount[going], 0.99**5)
    assert np.allclose(data.reward[going], -(1 - 0.99**5) / 0.01)


def test_q_factors_of_visited_states():
    env = gb.environments.from_gymnasium("CartPole-v1", num_envs=4)
    data = gb.sample_transitions(env, lambda s: (s[2] + s[3] > 0).astype(int), 60, key=0, n_step=3, q=True)
    assert data.inputs.shape == (60, 5) and set(np.unique(data.action)) == {0.0, 1.0}


def test_messages():
    with pytest.raises(ValueError, match="env='NoSuchThing-v0': Gymnasium cannot make it"):
        gb.environments.from_gymnasium("NoSuchThing-v0")
    with pytest.raises(ValueError, match=r"shows arrays of shape .* such as images"):
        image = gymnasium.Env()
        image.observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
        image.action_space = gymnasium.spaces.Discrete(2)
        gb.environments.from_gymnasium(image)
    with pytest.raises(ValueError, match="the state of Drift cannot be set"):
        gb.environments.from_gymnasium(Drift()).simulate(lambda s: 0, [[0.0]], [1])
    with pytest.raises(ValueError, match="policy: it chose 7"):
        gb.sample_transitions(gb.environments.from_gymnasium(Drift()), lambda s: 7, 3, key=0)
    with pytest.raises(ValueError, match="ending='stop'"):
        gb.environments.from_gymnasium("CartPole-v1", ending="stop")


def test_observations_are_not_taken_for_states():
    env = gb.environments.from_gymnasium("Pendulum-v1", num_envs=1)  # observes three numbers, has two
    with pytest.raises(ValueError, match=r"give \(N, 2\), since a state of Pendulum-v1.*observed has 3"):
        gb.monte_carlo.look_ahead(lambda s: s[:, 0], env, lambda s: np.zeros(1), np.zeros((4, 3)), 5)
