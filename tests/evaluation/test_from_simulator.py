"""The one call for people with a simulator."""

import gymnasium
import numpy as np
import pytest

import gaussbell as gb

PENDULUM = gb.environments.Pendulum(discount=0.9)


def brake(state):
    return -state[1:] / 8


def truth_error(found, env, policy, count=300):
    state = env.sample_states(count, key=77)
    truth = gb.monte_carlo.returns(env, policy, state)
    return np.sqrt(np.mean((np.asarray(found.network(state)) - truth) ** 2)), truth.std()


def test_it_chooses_steps_and_knows_its_error(monkeypatch):
    monkeypatch.setattr(
        "gaussbell.evaluation.from_simulator.LADDER", (1, 10, 40)
    )  # each number compiles anew
    found = gb.evaluate_policy(PENDULUM, brake, gb.MLP((2, 12, 1), key=3), budget=40_000, key=5, max_steps=60)
    error, spread = truth_error(found, PENDULUM, brake)
    assert error < 0.25 * spread
    assert 0.5 < found.value_error / error < 2
    assert found.relative_error == pytest.approx(found.value_error / spread, rel=0.2)
    assert found.n_step in [candidate.n_step for candidate in found.tried] and len(found.tried) >= 3
    best = min(found.tried, key=lambda candidate: candidate.value_error)
    assert best.n_step == found.n_step
    fitted = sum(candidate.n_step * candidate.num_transitions for candidate in found.tried)
    assert fitted < found.simulated <= 40_000
    start = gb.monte_carlo.returns(PENDULUM, brake, PENDULUM.reset_states(2000, key=9)).mean()
    assert (
        found.start.interval[0] < start < found.start.interval[1] and found.start_value == found.start.value
    )
    assert found.status in (gb.Status.EARLY_STOPPED, gb.Status.OUT_OF_STEPS)
    assert len(found.history.msbe) == found.steps + 1
    state = PENDULUM.sample_states(50, key=1)
    truth = gb.monte_carlo.returns(PENDULUM, brake, state)
    ahead = found.value(state, look_ahead=20)
    assert np.abs(ahead - truth).mean() < np.abs(np.asarray(found.value(state)) - truth).mean()


@pytest.mark.slow
def test_noise_does_not_count_as_error():
    """A return differs from the value by noise; pairs of paths keep that out of the estimate."""
    car = gb.environments.MountainCar(discount=0.9, noise=0.02)
    found = gb.evaluate_policy(car, car.along_velocity, budget=40_000, n_step=10, key=2, max_steps=20)
    state = car.sample_states(200, key=3)
    truth = gb.monte_carlo.returns(car, car.along_velocity, state, samples=200, key=4)
    error = np.sqrt(np.mean((np.asarray(found.network(state)) - truth) ** 2))
    assert found.transitions.num_successors == 8
    assert found.value_error < 3 * error + 0.05 * truth.std()


def test_validation_stops_a_fit_early():
    data = gb.sample_transitions(PENDULUM, brake, 60, key=0, n_step=5)
    seen = []

    def check(network):
        seen.append(float(np.asarray(network(np.zeros(2)))))
        return 1.0 + len(seen)  # always worse than the first look

    fit = gb.evaluate(gb.MLP((2, 12, 1), key=0), data, validation=check, max_steps=1000)
    assert fit.status is gb.Status.EARLY_STOPPED and fit.succeeded and len(seen) == 9 and fit.steps == 20
    assert float(np.asarray(fit.network(np.zeros(2)))) == pytest.approx(seen[0])


def test_messages():
    with pytest.raises(ValueError, match="n_step='most': give 'auto'"):
        gb.evaluate_policy(PENDULUM, brake, n_step="most", key=0)
    with pytest.raises(ValueError, match="max_transitions"):
        gb.evaluate_policy(PENDULUM, brake, max_transitions=0, key=0)
    with pytest.raises(ValueError, match="budget=10: one transition of 100 simulated steps does not fit"):
        gb.evaluate_policy(PENDULUM, brake, budget=10, n_step=100, key=0)


def test_max_steps_is_the_most_that_is_taken():
    found = gb.evaluate_policy(
        PENDULUM, brake, gb.MLP((2, 12, 1), key=3), budget=6000, n_step=10, key=5, max_steps=30
    )
    assert found.steps <= 30 and len(found.history.loss) == found.steps + 1
    damping = found.history.damping[1:]
    alone = gb.evaluate(
        gb.FeatureNetwork(PENDULUM.scaling(), gb.MLP((2, 12, 1), key=3)),
        found.transitions,
        solver=gb.LevenbergMarquardt(),
        scale_output=True,
        max_steps=int(found.steps),
    )
    np.testing.assert_allclose(damping, alone.history.damping[1:], rtol=1e-6)


class Drifting(gymnasium.Env):
    """A walk whose steps draw from the environment's own random numbers; its state cannot be set."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, noise=0.1):
        self.noise = noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-1, 1, 1)
        return self._place.astype(np.float32), {}

    def step(self, action):
        self._place = np.clip(0.9 * self._place + self.noise * self.np_random.normal(size=1), -5, 5)
        return self._place.astype(np.float32), float(-(self._place[0] ** 2)), False, False, {}


def test_random_steps_are_noticed_in_gymnasium():
    def still(state):
        return 0

    noisy, certain = (gb.environments.from_gymnasium(Drifting(noise), discount=0.8) for noise in (0.1, 0.0))
    assert noisy.is_stochastic and not certain.is_stochastic
    assert not gb.environments.from_gymnasium(Drifting(), stochastic=False).is_stochastic
    found = gb.evaluate_policy(noisy, still, budget=300, n_step=5, max_steps=5)
    assert found.assessment.checks.double_sampling and found.transitions.num_successors == 1
    assert found.simulated <= 300
    assert not gb.evaluate_policy(
        certain, still, budget=300, n_step=5, max_steps=5
    ).assessment.checks.double_sampling
    pole = gb.environments.from_gymnasium("CartPole-v1", num_envs=4, low=[-0.1] * 4, high=[0.1] * 4)
    random = gb.policies.EpsilonGreedy(still, 2, 0.5)
    drawn = gb.evaluate_policy(pole, random, budget=12_000, n_step=2, max_steps=3)
    assert drawn.transitions.num_successors == 8, "a stochastic policy gets several successors by default"
    with pytest.raises(ValueError, match="cannot be set"):
        found.value([[0.5]], look_ahead=3)
