"""The one call for people with a simulator."""

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
    found = gb.evaluate_policy(PENDULUM, brake, gb.MLP((2, 12, 1), key=3), budget=3000, key=5, max_steps=60)
    error, spread = truth_error(found, PENDULUM, brake)
    assert error < 0.25 * spread
    assert 0.5 < found.value_error / error < 2
    assert found.relative_error == pytest.approx(found.value_error / spread, rel=0.2)
    assert found.n_step in [candidate.n_step for candidate in found.tried] and len(found.tried) >= 3
    best = min(found.tried, key=lambda candidate: candidate.value_error)
    assert best.n_step == found.n_step
    assert all(candidate.n_step * candidate.num_transitions <= 3000 for candidate in found.tried)
    assert found.simulated > sum(candidate.n_step * candidate.num_transitions for candidate in found.tried)
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
    found = gb.evaluate_policy(car, car.along_velocity, budget=20_000, n_step=10, key=2, max_steps=20)
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
    assert fit.status is gb.Status.EARLY_STOPPED and fit.succeeded and len(seen) == 4 and fit.steps == 80
    assert float(np.asarray(fit.network(np.zeros(2)))) == pytest.approx(seen[0])


def test_messages():
    with pytest.raises(ValueError, match="n_step='most': give 'auto'"):
        gb.evaluate_policy(PENDULUM, brake, n_step="most", key=0)
    with pytest.raises(ValueError, match="max_transitions"):
        gb.evaluate_policy(PENDULUM, brake, max_transitions=0, key=0)
    with pytest.raises(ValueError, match="budget=10: one transition of 100 simulated steps does not fit"):
        gb.evaluate_policy(PENDULUM, brake, budget=10, n_step=100, key=0)
