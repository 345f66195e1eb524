"""Transitions over several steps, with several successors, and the truth by simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gaussbell as gb
from problems import relative_error

CAR = gb.environments.MountainCar()


def step_by_step(env, policy, state, count):
    """What `count` steps give, in plain Python."""
    total, discount = 0.0, 1.0
    for _ in range(count):
        action = policy(state)
        total += discount * float(env.reward(state, action))
        state = env.transition(state, action)
        discount *= 0.0 if bool(env.terminal(state)) else env.discount
        if discount == 0:
            break
    return total, discount, np.asarray(state)


@pytest.mark.parametrize("ending", ["restart", "end"])
def test_several_steps_are_steps_one_after_the_other(ending):
    car = gb.environments.MountainCar(ending=ending)
    data = gb.sample_transitions(car, car.along_velocity, 8, key=4, n_step=40)
    for k in range(8):
        total, discount, state = step_by_step(car, car.along_velocity, jnp.asarray(data.state[k]), 40)
        assert np.isclose(total, data.reward[k]) and np.isclose(discount, data.discount[k])
        assert discount == 0 or np.allclose(state, data.next_state[k])


def test_true_values_solve_every_horizon():
    """For any number of steps, and for the lambda-return, the truth has no residual."""
    for steps in (1, 7, gb.LambdaReturn(0.9, terms=3)):
        data = gb.sample_transitions(CAR, CAR.along_velocity, 20, key=1, n_step=steps)
        value = gb.monte_carlo.returns(CAR, CAR.along_velocity, data.state, tolerance=1e-12)
        after = np.asarray(data.next_state).reshape(-1, 2)
        ahead = gb.monte_carlo.returns(CAR, CAR.along_velocity, after, tolerance=1e-12).reshape(
            data.discount.shape
        )
        expected = np.asarray(data.discount) * ahead
        expected = expected if data.probability is None else (data.probability * expected).sum(axis=1)
        assert np.abs(value - data.reward - expected).max() < 1e-9


def test_lambda_returns_tend_to_the_full_sum():
    """The thinned horizons have the mean of the whole geometric distribution."""
    horizons = gb.LambdaReturn(0.95, terms=2000).horizons()
    assert abs(horizons.mean() - 20) < 0.6 and horizons[0] == 1
    assert gb.LambdaReturn(0.0).horizons().tolist() == [1]
    with pytest.raises(ValueError, match=r"lambda_=1.0: give a number from 0"):
        gb.LambdaReturn(1.0)


def test_mean_over_successors_is_in_the_residual():
    rng = np.random.default_rng(0)
    state, after = rng.normal(size=(5, 2)), rng.normal(size=(5, 3, 2))
    probability = rng.dirichlet(np.ones(3), 5)
    reward, discount = rng.normal(size=(5, 3)), rng.uniform(0, 1, (5, 3))
    discount[0, 0] = 0.0
    after[0, 0] = np.nan  # an end: never read
    network = gb.MLP((2, 4, 1), key=0)
    data = gb.Transitions(state, reward, after, discount, probability=probability)
    values = np.nan_to_num(np.asarray(network(np.nan_to_num(after.reshape(-1, 2)))).reshape(5, 3))
    by_hand = np.asarray(network(state)) - (probability * (reward + discount * values)).sum(axis=1)
    at = gb.linearise(network, data)
    assert np.allclose(at.residual, by_hand / np.sqrt(5))
    # Its derivative against autodiff, through the same solver as any other.
    flat, restore = jax.flatten_util.ravel_pytree(network)

    def loss(weights):
        learned = restore(weights)
        mean = (probability * discount * learned(jnp.nan_to_num(after.reshape(-1, 2))).reshape(5, 3)).sum(
            axis=1
        )
        rewards = (probability * reward).sum(axis=1)
        return 0.5 * jnp.mean((learned(state) - rewards - mean) ** 2)

    assert relative_error(at.gradient(), jax.grad(loss)(flat)) < 1e-12


def test_equal_successors_are_one():
    one = gb.sample_transitions(CAR, CAR.along_velocity, 30, key=2, n_step=3)
    many = gb.sample_transitions(CAR, CAR.along_velocity, 30, key=2, n_step=3, successors=4)
    network = gb.FeatureNetwork(CAR.features(), gb.MLP((6, 5, 1), key=0))
    assert many.num_successors == 4
    assert np.isclose(gb.msbe(network, one), gb.msbe(network, many))


@pytest.mark.slow
def test_more_successors_mean_less_bias():
    process = gb.environments.RandomMDP(6, 1, branches=3, discount=0.8, seed=4)
    env, truth = gb.environments.FiniteEnvironment(process), process.under().values
    state = np.tile(np.arange(6.0), 500)[:, None]
    errors = []
    for count in (1, 16):
        data = gb.sample_transitions(
            env, gb.policies.Constant(0), len(state), key=count, successors=count, state=state
        )
        table = gb.FeatureNetwork(
            gb.features.OneHot(6), gb.ValueFunction(np.zeros(6), lambda weights, row: weights @ row)
        )
        fit = gb.evaluate(table, data, max_steps=20)
        errors.append(np.abs(np.asarray(fit.network(np.arange(6.0)[:, None])) - truth).max())
    assert errors[1] < 0.3 * errors[0]


def test_q_factors_start_with_any_action():
    data = gb.sample_transitions(CAR, CAR.along_velocity, 200, key=5, n_step=3, q=True)
    assert set(np.unique(data.action)) == {0, 1, 2}
    wanted = gb.monte_carlo.returns(
        CAR, CAR.along_velocity, data.state[:5], action=np.asarray(data.action)[:5, 0].astype(int), horizon=3
    )
    assert np.allclose(wanted, data.reward[:5])
    chosen = jax.vmap(CAR.along_velocity)(data.next_state)
    assert np.array_equal(data.next_action[:, 0], chosen)


def test_known_trip():
    """From the bottom, along the velocity: 124 steps to the goal, and a value of -99.592."""
    paths = CAR.simulate(CAR.along_velocity, [[-0.5, 0.0]], [123, 124])
    assert paths.next_state[0, 0, 0] > 0.4 and paths.next_state[1].tolist() == [[-0.5, 0.0]]
    value = gb.monte_carlo.returns(CAR, CAR.along_velocity, [[-0.5, 0.0]])
    assert np.isclose(value[0], -99.592, atol=1e-3)


def test_truth_is_chunked_and_told(monkeypatch):
    whole = gb.monte_carlo.value_on_grid(CAR, CAR.along_velocity, (7, 5))
    monkeypatch.setattr(gb.monte_carlo, "CHUNK", 16)
    told = []
    parts = gb.monte_carlo.value_on_grid(
        CAR, CAR.along_velocity, (7, 5), on_progress=lambda done, of: told.append((done, of))
    )
    assert np.array_equal(whole.value, parts.value) and told == [(16, 35), (32, 35), (35, 35)]
    # What the tolerance leaves out is at most that share of the largest value, 100.
    longer = gb.monte_carlo.returns(CAR, CAR.along_velocity, whole.state, tolerance=1e-12)
    assert np.abs(longer - whole.value).max() < 1e-6 * 100
    with pytest.raises(ValueError, match=r"shape=\(5,\): states have 2 numbers"):
        gb.monte_carlo.value_on_grid(CAR, CAR.along_velocity, (5,))


def test_look_ahead_with_the_truth_is_the_truth():
    state = np.asarray(CAR.sample_states(10, key=0))
    truth = gb.monte_carlo.returns(CAR, CAR.along_velocity, state, tolerance=1e-12)

    def oracle(states):
        return gb.monte_carlo.returns(CAR, CAR.along_velocity, states, tolerance=1e-12)

    assert np.abs(gb.monte_carlo.look_ahead(oracle, CAR, CAR.along_velocity, state, 30) - truth).max() < 1e-9


def test_messages():
    with pytest.raises(ValueError, match=r"env: the values of SevenStar.* are exact"):
        gb.sample_transitions(gb.environments.SevenStar(), CAR.along_velocity, 5, key=0)
    with pytest.raises(ValueError, match="n=0: give a whole number"):
        gb.sample_transitions(CAR, CAR.along_velocity, 0, key=0)
    with pytest.raises(ValueError, match=r"n_step='many': give a whole number"):
        gb.sample_transitions(CAR, CAR.along_velocity, 5, key=0, n_step="many")
    with pytest.raises(ValueError, match="state: 2 given; give 3"):
        gb.sample_transitions(CAR, CAR.along_velocity, 3, key=0, state=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="probability: row 1 is"):
        gb.Transitions(
            np.zeros((2, 1)), np.zeros(2), np.zeros((2, 2, 1)), probability=[[0.5, 0.5], [0.5, 0.4]]
        )
    with pytest.raises(ValueError, match=r"next_state: shape \(2, 2, 3\) differs"):
        gb.Transitions(np.zeros((2, 1)), np.zeros(2), np.zeros((2, 2, 3)))
