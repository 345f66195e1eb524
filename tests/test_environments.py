"""Environments against Gymnasium's own."""

import gymnasium
import jax
import numpy as np

import gaussbell as gb


def test_mountain_car_moves_like_gymnasiums():
    car = gb.environments.MountainCar()
    states = np.array(car.sample_states(3000, key=0))
    actions = np.random.default_rng(0).integers(0, 3, len(states))
    states[:50, 0], states[:50, 1] = -1.2, -0.03  # against the left wall
    moved = np.asarray(jax.jit(jax.vmap(car.move))(states, actions))
    env = gymnasium.make("MountainCar-v0").unwrapped
    env.reset(seed=0)
    for state, action, wanted in zip(states, actions, moved, strict=True):
        env.state = state
        env.step(int(action))
        assert np.abs(np.asarray(env.state, float) - wanted).max() <= 1e-15
    env.close()


def test_mountain_car_never_ends():
    car = gb.environments.MountainCar()
    beyond, before = np.array([0.49, 0.06]), np.array([0.3, 0.0])
    assert car.transition(beyond, 2).tolist() == [-0.5, 0.0] and float(car.reward(beyond, 2)) == 0
    assert (
        np.array_equal(car.transition(before, 2), car.move(before, 2)) and float(car.reward(before, 2)) == -1
    )


def test_mountain_car_known_trip():
    """From the bottom, along the velocity: 124 steps to the goal, and a value of -99.592."""
    car = gb.environments.MountainCar()

    def step(state, _):
        action = car.along_velocity(state)
        return car.transition(state, action), car.reward(state, action)

    rewards = np.asarray(jax.jit(lambda s: jax.lax.scan(step, s, length=4000)[1])(car.initial()))
    assert int(np.argmax(rewards == 0)) + 1 == 124
    assert np.isclose(np.sum(0.99 ** np.arange(4000) * rewards), -99.592, atol=1e-3)


def test_scaling_covers_the_box():
    car = gb.environments.MountainCar()
    assert np.allclose(car.scale(np.stack([car.low, car.high])), [[-1, -1], [1, 1]])
