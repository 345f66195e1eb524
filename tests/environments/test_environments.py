"""Environments against Gymnasium's own step, and against what is known of them exactly."""

import subprocess
import sys
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import gaussbell as gb
from gaussbell.environments.registered import MAKERS

COUNT = 10_000


def against_gymnasium(env, name, states, actions, to_action, reward_too=True):
    """The largest difference of next states, and of rewards, from Gymnasium's step."""
    moved = getattr(env, "move", env.transition)
    ours = np.asarray(jax.jit(jax.vmap(moved))(states, actions))
    rewards = np.asarray(jax.jit(jax.vmap(env.reward))(states, actions))
    theirs = gymnasium.make(name).unwrapped
    worst = worst_reward = 0.0
    for state, action, wanted, reward in zip(states, actions, ours, rewards, strict=True):
        theirs.reset(seed=0)
        theirs.state = state
        found = theirs.step(to_action(action))
        difference = np.abs(np.asarray(theirs.state, float) - wanted)
        if name == "Pendulum-v1":  # theirs counts turns
            difference[0] = abs((difference[0] + np.pi) % (2 * np.pi) - np.pi)
        worst, worst_reward = max(worst, difference.max()), max(worst_reward, abs(found[1] - float(reward)))
    theirs.close()
    return worst, worst_reward if reward_too else 0.0


def samples(env, seed=0):
    states = np.array(env.sample_states(COUNT, key=seed))
    return states, np.asarray(env.actions.sample(COUNT, key=seed + 1))


def test_mountain_car_moves_like_gymnasiums():
    car = gb.environments.MountainCar()
    states, actions = samples(car)
    states[:50, 0], states[:50, 1] = -1.2, -0.03  # against the left wall
    assert against_gymnasium(car, "MountainCar-v0", states, actions, int, reward_too=False)[0] <= 1e-15


def test_cart_pole_moves_like_gymnasiums():
    pole = gb.environments.CartPole()
    states, actions = samples(pole)
    assert against_gymnasium(pole, "CartPole-v1", states, actions, int, reward_too=False)[0] <= 2e-15


def test_pendulum_moves_like_gymnasiums():
    pendulum = gb.environments.Pendulum()
    states, actions = samples(pendulum)
    state, reward = against_gymnasium(pendulum, "Pendulum-v1", states, actions, lambda action: 2 * action)
    assert state <= 1e-14 and reward <= 1e-13


def test_acrobot_moves_like_gymnasiums():
    acrobot = gb.environments.Acrobot()
    states, actions = samples(acrobot)
    state, reward = against_gymnasium(acrobot, "Acrobot-v1", states, actions, int)
    # Theirs wraps angles by repeated subtraction, and rounding grows with the speed.
    assert state <= 1e-9 and reward == 0


@pytest.mark.parametrize("name", MAKERS)
def test_registered_environments_pass_gymnasiums_check(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(name)
        check_env(env.unwrapped)
        env.close()


def test_registration_is_an_import_and_importing_gaussbell_has_no_side_effects():
    for program in (
        "import gaussbell.environments.registered, gymnasium; gymnasium.make('gaussbell/MountainCar-v0')",
        "import gaussbell, sys; assert 'gymnasium' not in sys.modules and 'matplotlib' not in sys.modules",
        "import sys; before = list(sys.meta_path); import gaussbell; assert sys.meta_path == before",
    ):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_registered_environment_steps_and_can_be_set():
    env = gymnasium.make("gaussbell/MountainCar-v0", goal=0.45).unwrapped
    seen, _ = env.reset(seed=0, options={"state": [0.44, 0.06]})
    assert np.allclose(seen, [0.44, 0.06])
    seen, reward, terminated, truncated, _ = env.step(2)
    assert (reward, terminated, truncated) == (0.0, False, False) and np.allclose(seen, [-0.5, 0.0])
    with pytest.raises(ValueError, match="actions here are whole numbers from 0 to 2"):
        env.step(5)


def test_mountain_car_never_ends():
    car = gb.environments.MountainCar()
    beyond, before = np.array([0.49, 0.06]), np.array([0.3, 0.0])
    assert car.transition(beyond, 2).tolist() == [-0.5, 0.0] and float(car.reward(beyond, 2)) == 0
    assert (
        np.array_equal(car.transition(before, 2), car.move(before, 2)) and float(car.reward(before, 2)) == -1
    )


def test_readings_of_the_ending():
    near = np.array([0.49, 0.06])
    later = gb.environments.MountainCar(ending="restart later")
    seen = later.transition(near, 2)
    assert seen[0] > 0.5 and float(later.reward(near, 2)) == -1
    assert later.transition(seen, 2).tolist() == [-0.5, 0.0] and float(later.reward(seen, 2)) == 0
    end = gb.environments.MountainCar(ending="end")
    assert bool(end.terminal(end.transition(near, 2))) and not bool(end.terminal(near))
    falling = np.array([0.0, 0.0, 0.2, 2.0])
    for ending, reward in (("restart", -1.0), ("restart later", -1.0), ("end", -1.0)):
        assert float(gb.environments.CartPole(ending=ending).reward(falling, 1)) == reward
    with pytest.raises(ValueError, match="ending='never': give one of 'restart'"):
        gb.environments.CartPole(ending="never")


def test_restarts_can_be_random():
    car = gb.environments.MountainCar(spread=0.1)
    starts = jax.vmap(car.initial)(jax.random.split(jax.random.key(0), 200))
    assert float(starts[:, 0].min()) >= -0.6 and float(starts[:, 0].std()) > 0.04 and not starts[:, 1].any()


def test_noise_has_the_size_it_says():
    car = gb.environments.MountainCar(noise=0.005)
    state = np.repeat([[-0.5, 0.0]], 2000, axis=0)
    paths = car.simulate(car.along_velocity, state, [1], key=0)
    speed = paths.next_state[0][:, 1]
    assert abs(speed.std() - 0.005) < 5e-4 and abs(speed.mean() - 0.001 + 0.0025 * np.cos(1.5)) < 5e-4


def test_scaling_covers_the_box():
    car = gb.environments.MountainCar()
    assert np.allclose(car.scale(np.stack([car.low, car.high])), [[-1, -1], [1, 1]])


def test_finite_environment_draws_its_probabilities():
    mdp = gb.environments.RandomMDP(5, 2, branches=3, seed=2)
    env = gb.environments.FiniteEnvironment(mdp)
    paths = env.simulate(gb.policies.Constant(1), np.full((20_000, 1), 3.0), [1], key=0)
    shares = np.bincount(paths.next_state[0][:, 0].astype(int), minlength=5) / 20_000
    assert np.abs(shares - mdp.transition_array()[3, 1]).max() < 0.015
    assert np.allclose(paths.reward, mdp.reward[3, 1])


def test_grid_world_knows_the_way():
    grid = gb.environments.GridWorld(["...", "...", "..."], slip=0.0, discount=0.9)
    # Four steps to the goal, then one back to the start: a cycle of five with one reward, at its fourth step.
    assert np.isclose(grid.optimal().values[0], 0.9**3 / (1 - 0.9**5))


def test_exact_transitions_are_the_chain():
    lake = gb.environments.from_gymnasium("FrozenLake-v1", is_slippery=True)
    table = gb.FeatureNetwork(
        gb.features.OneHot(lake.num_states), gb.ValueFunction(np.zeros(lake.num_states), lambda w, x: w @ x)
    )
    fit = gb.evaluate(table, gb.environments.exact_transitions(lake), max_steps=50, tolerance=1e-30)
    learned = fit.network(jnp.arange(16.0)[:, None])
    assert np.abs(learned - lake.under().values).max() < 1e-12


def test_tables_end_or_restart():
    ends = gb.environments.from_gymnasium("FrozenLake-v1", is_slippery=False)
    goes_on = gb.environments.from_gymnasium("FrozenLake-v1", is_slippery=False, ending="restart")
    straight = ends.optimal().values[0]
    assert np.isclose(straight, 0.99**5)  # six steps, the reward at the last
    assert np.isclose(goes_on.optimal().values[0], 0.99**5 / (1 - 0.99**6))
