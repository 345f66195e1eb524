"""Evaluation by whole episodes, in environments whose values are known."""

import gymnasium
import numpy as np
import pytest

import gaussbell as gb
from gaussbell.diagnostics.held_out_episodes import HeldOutEpisodes
from gaussbell.evaluation.experience import combine_starts
from gaussbell.simulation.episodes import discounted_ahead, gather_episodes, gather_twins

DISCOUNT = 0.9


class Walk(gymnasium.Env):
    """x' = 0.9 x + noise, reward -x^2: the value is quadratic. It has no end; its state cannot be set."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, noise=0.3):
        self.noise = noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-1, 1, 1)
        return self._place.astype(np.float32), {}

    def step(self, action):
        reward = -float(self._place[0] ** 2)
        self._place = 0.9 * self._place + self.noise * self.np_random.normal(size=1)
        return self._place.astype(np.float32), reward, False, False, {}


def walk_value(state, noise=0.3):
    curvature = 1 / (1 - DISCOUNT * 0.81)
    return -curvature * (state[..., 0] ** 2 + DISCOUNT * noise**2 / (1 - DISCOUNT))


class Clock(gymnasium.Env):
    """400 steps of which the observation holds the number, then the environment itself truncates."""

    observation_space = gymnasium.spaces.Box(0.0, 400.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._time += 1
        return np.full(1, self._time, np.float32), 1.0, False, self._time >= 400, {}


def still(state):
    return 0


gymnasium.register("Walk-v0", lambda noise=0.3: Walk(noise), max_episode_steps=20)


def test_transitions_lie_along_all_of_the_episodes():
    env = gb.environments.from_gymnasium(Clock())
    data = gb.sample_transitions(env, still, 200, n_step=100)
    times, lengths = data.state[:, 0], np.log(data.discount) / np.log(0.99)
    assert times.min() < 20 and times.max() > 380
    assert np.isclose(lengths.max(), 100) and np.allclose(lengths, np.minimum(100, 400 - times))


def test_returns_and_ages_by_hand():
    log = gb.Log(np.zeros((5, 1)), np.zeros(5), [1, 2, 4, 8, 16], np.zeros((5, 1)), episode=[0, 0, 0, 1, 1])
    assert log.age.tolist() == [0, 1, 2, 0, 1]
    assert discounted_ahead(log, log.reward, 0.5).tolist() == [3, 4, 4, 16, 16]


@pytest.mark.parametrize("budget", [15, 200, 3000])
def test_no_more_steps_than_the_budget(budget):
    env = gb.environments.from_gymnasium("Walk-v0", discount=DISCOUNT, num_envs=4)
    log = gather_episodes(env, still, budget, length=20)
    assert len(log) <= budget and (budget < 20 or len(log) >= 0.8 * budget)
    assert budget < 20 or (np.bincount(log.episode) == 20).all()


def test_held_out_episodes_go_on_past_a_time_limit_but_not_past_an_end():
    env = gb.environments.from_gymnasium("Walk-v0", discount=DISCOUNT, num_envs=4)
    assert env.time_limit == 20
    assert len(env.play(still, episodes=3, past_limit=True, length=50)) == 150
    clock = gb.environments.from_gymnasium(Clock())
    assert clock.time_limit is None and len(clock.play(still, episodes=1, length=500, past_limit=True)) == 400


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_error_is_that_of_the_value_not_of_its_noise(noise):
    env = gb.environments.from_gymnasium("Walk-v0", discount=DISCOUNT, noise=noise, num_envs=8)
    log = gather_episodes(env, still, 20_000, length=60, past_limit=True)
    rows = np.flatnonzero(log.age < 20)
    twins = gather_twins(env, still, log, 40_000, rows=rows, length=40)
    held_out = HeldOutEpisodes(log, DISCOUNT, limit=20, noisy=noise > 0, twins=twins)
    for offset in (0.2, 1.0):
        off = held_out.estimate(lambda state, add=offset: walk_value(state, noise) + add)
        assert off.error == pytest.approx(offset, rel=0.35 if noise else 0.02)
        assert off.low <= offset <= off.high + 0.01
    assert "visited states" in off.over
    spread = np.std(walk_value(log.state[log.age < 20], noise))
    assert off.spread == pytest.approx(spread, rel=0.2)


def test_a_noisy_process_is_evaluated_without_bias():
    env = gb.environments.from_gymnasium("Walk-v0", discount=DISCOUNT, num_envs=8)
    found = gb.evaluate_policy(
        env, still, gb.MLP((1, 8, 1), key=1), budget=20_000, n_step=10, max_steps=40, key=3
    )
    state = np.linspace(-1, 1, 50)[:, None]
    error = np.sqrt(np.mean((np.asarray(found.value(state)) - walk_value(state)) ** 2))
    assert error < 0.5 * walk_value(state).std()
    starts = np.random.default_rng(0).uniform(-1, 1, (100_000, 1))
    low, high = found.start.interval
    assert low < walk_value(starts).mean() < high and high - low < 1
    assert found.simulated <= 20_000 and found.assessment.over in str(found)
    assert found.assessment.per_state(state).shape == (50,)
    again = gb.assess(found, found.transitions, env=env, policy=still)
    assert 0.4 < again.value_error / found.value_error < 2.5


def test_q_factors_along_episodes():
    env = gb.environments.from_gymnasium("Walk-v0", discount=DISCOUNT, num_envs=8)
    found = gb.evaluate_policy(env, still, gb.MLP((2, 6, 1)), budget=2000, n_step=5, max_steps=10, q=True)
    assert np.isfinite(found.value_error) and found.start is None
    assert found.network(np.zeros((3, 2))).shape == (3,)


class Stopping(Walk):
    """Ctrl-C at its step number `stop`."""

    stop = 100

    def step(self, action):
        self.stop -= 1
        if self.stop == 0:
            raise KeyboardInterrupt
        return super().step(action)


def test_interrupts_keep_what_there_is():
    env = gb.environments.from_gymnasium(Stopping(), discount=DISCOUNT)
    with pytest.raises(gb.evaluation.EvaluationInterrupted) as stopped:
        gb.evaluate_policy(env, still, budget=3000)
    assert stopped.value.solution is None
    env, calls = gb.environments.from_gymnasium("Walk-v0", discount=DISCOUNT), []

    def interrupt(progress):
        calls.append(progress)
        if len(calls) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        gb.evaluate_policy(env, still, gb.MLP((1, 8, 1)), budget=1000, on_progress=interrupt)
    assert stopped.value.solution.status is gb.Status.INTERRUPTED


def test_time_runs_out():
    env = gb.environments.from_gymnasium("Walk-v0", discount=DISCOUNT)
    found = gb.evaluate_policy(env, still, gb.MLP((1, 8, 1)), budget=10_000_000, timeout=0.5, max_steps=10**6)
    assert found.simulated < 10_000_000 and found.status is gb.Status.OUT_OF_TIME
    with pytest.raises(ValueError, match="timeout=-1"):
        gb.evaluate_policy(env, still, timeout=-1)


def test_messages():
    env = gb.environments.from_gymnasium("Walk-v0")
    with pytest.raises(ValueError, match="states='box': give 'visited'"):
        gb.evaluate_policy(env, still, states="box")


def test_finite_observations_become_a_table():
    lake = gb.environments.from_gymnasium("FrozenLake-v1", discount=0.9, exact=False)
    mdp = gb.environments.from_gymnasium("FrozenLake-v1", discount=0.9)

    def at_random(states, keys):
        return np.array([np.random.default_rng(key).integers(4) for key in keys])

    found = gb.evaluate_policy(lake, gb.policies.on_host(at_random, noisy=True), budget=20_000)
    log = lake.log(gb.policies.on_host(at_random, noisy=True), 5000, key=9)
    values = np.asarray(mdp.under().values)[log.state[:, 0].astype(int)]
    error = np.sqrt(np.mean((np.asarray(found.network(log.state)) - values) ** 2))
    assert found.network.network.sizes == (16, 1) and found.corrected_by == 1
    assert error < 0.5 * values.std()  # one episode in seventy is rewarded
    assert found.start.interval[0] < np.asarray(mdp.under().values)[0] < found.start.interval[1]


def test_a_table_of_probabilities_is_not_simulated_by_mistake():
    with pytest.raises(ValueError, match=r"env.under\(policy\).values.*exact=False"):
        gb.evaluate_policy(gb.environments.from_gymnasium("FrozenLake-v1"), lambda s: 0)


def test_rare_events_widen_the_interval_of_the_start_value():
    values, rare = np.full(50, -100.0), np.append(np.full(99, -100.0), -500.0)
    surely = combine_starts(values, rare, np.zeros(20))
    assert surely.interval[1] - surely.interval[0] < 1e-9
    start = combine_starts(values, rare, np.zeros(20), least_deviation=rare.std())
    assert start.interval[0] < rare.mean() < start.interval[1]
    assert start.value == rare.mean()
