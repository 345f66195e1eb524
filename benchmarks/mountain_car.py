"""The problem that most benchmarks share: Mountain Car under the policy that pushes along the velocity."""

import jax

import gaussbell as gb


def transitions(seed: int, rows: int = 100, *, scaled: bool = True) -> gb.Transitions:
    """Uniform samples of the box and their successors, with inputs scaled to [-1, 1] or raw."""
    car = gb.environments.MountainCar()
    state = car.sample_states(rows, key=seed)
    action = jax.vmap(car.along_velocity)(state)
    reward = jax.vmap(car.reward)(state, action)
    following = jax.vmap(car.transition)(state, action)
    if scaled:
        state, following = car.scale(state), car.scale(following)
    return gb.Transitions(state, reward, following, car.discount)
