"""Monte-Carlo estimates: the value of a policy by simulation, the ground truth to measure others by."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.environments.simulator import Simulator, read_simulator
from gaussbell.numerics.arguments import as_key, host_rng, read_concrete, read_count
from gaussbell.numerics.precision import in_double, on_host
from gaussbell.processes.policies import Policy

CHUNK = 2**16
"""States simulated at once: enough to keep all cores busy, few enough to stay in memory anywhere."""


VISITING = 16
"""Episodes that visited states are drawn from."""


class Grid(NamedTuple):
    """Values on a grid: `axes` lists each axis' points, `state` (K, d) all of them, first axis slowest."""

    axes: tuple[np.ndarray, ...]
    state: Float[np.ndarray, "K d"]
    value: Float[np.ndarray, " K"]

    def table(self, values: Any = None) -> np.ndarray:
        """The values, or others for the same states, in the grid's shape."""
        values = self.value if values is None else np.asarray(values)
        return values.reshape([len(axis) for axis in self.axes])


def effective_horizon(discount: float, tolerance: float) -> int:
    """How many steps leave at most `tolerance` of the discounted sum of a constant reward.

    Example:
        >>> import gaussbell as gb
        >>> gb.monte_carlo.effective_horizon(0.99, 1e-6)
        1375
    """
    if not 0 < discount < 1:
        raise ValueError(f"discount={discount!r}: give a number between 0 and 1, or the horizon itself.")
    return max(1, math.ceil(math.log(tolerance) / math.log(discount)))


@in_double
def returns(
    env: Simulator,
    policy: Policy,
    state: Any,
    *,
    horizon: int | None = None,
    tolerance: float = 1e-6,
    samples: int = 1,
    action: Any = None,
    key: PRNGKeyArray | int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Float[np.ndarray, " N"]:
    """The discounted return of `policy` from each of N states, by simulation.

    What is left out is at most `tolerance` of the largest possible value, max |reward| / (1 - discount). With
    a random process or policy a return is one draw; `samples` of them are averaged, and their standard
    error is that of the mean.

    Args:
        state: (N, d), any number of them: memory is bounded.
        horizon: How many steps to simulate, instead of `tolerance`.
        action: The first actions, for Q-factors.
        on_progress: Called with the number of states done and N.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> gb.monte_carlo.returns(car, car.along_velocity, [[-0.5, 0.0]]).round(3).tolist()
        [-99.592]
    """
    state = read_concrete("state", state)
    samples = read_count("samples", samples, 1)
    if horizon is None:
        horizon = effective_horizon(env.discount, tolerance)
    horizon = read_count("horizon", horizon, 1)
    chunk = max(1, CHUNK // samples)
    key, total = as_key(key), np.empty(len(state))
    for number, start in enumerate(range(0, len(state), chunk)):
        rows = slice(start, start + chunk)
        first = None if action is None else np.repeat(np.asarray(action)[rows], samples, axis=0)
        paths = env.simulate(
            policy,
            np.repeat(state[rows], samples, axis=0),
            [horizon],
            action=first,
            key=jax.random.fold_in(key, number),
        )
        total[rows] = np.asarray(paths.reward[0]).reshape(-1, samples).mean(axis=1)
        if on_progress is not None:
            on_progress(min(start + chunk, len(state)), len(state))
    return total


@in_double
def value_on_grid(env: Simulator, policy: Policy, shape: Sequence[int] = (500, 500), **options: Any) -> Grid:
    """The value of a policy on a grid over the environment's box; options as in `returns`.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> grid = gb.monte_carlo.value_on_grid(car, car.along_velocity, (4, 3))
        >>> grid.state.shape, grid.table().shape
        ((12, 2), (4, 3))
    """
    if env.low is None or env.high is None:
        raise ValueError(f"env: {env!r} has no box of states to lay a grid over; use `returns` at states.")
    if len(shape) != len(env.low):
        raise ValueError(f"shape={tuple(shape)}: states have {len(env.low)} numbers; give as many counts.")
    axes = tuple(np.linspace(low, high, n) for low, high, n in zip(env.low, env.high, shape, strict=True))
    state = np.stack([points.ravel() for points in np.meshgrid(*axes, indexing="ij")], axis=1)
    return Grid(axes, state, returns(env, policy, state, **options))


@in_double
def look_ahead(
    network: Any, env: Simulator, policy: Policy, state: Any, n_step: int, *, key: PRNGKeyArray | int = 0
) -> Float[Array, " N"]:
    """Values at query time: simulate a few steps, then ask the network.

        value(state) = reward of the steps + discount * network(state reached)

    The network's error counts only with the discount, and errors near a jump of the value average out.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> network = gb.FeatureNetwork(car.features(), gb.MLP((6, 10, 1), key=0))
        >>> gb.monte_carlo.look_ahead(network, car, car.along_velocity, car.sample_states(5, key=1), 50).shape
        (5,)
    """
    env = read_simulator(env)
    if not env.can_set_state:
        raise ValueError(
            f"env: the state of {env!r} cannot be set, so nothing can be simulated from a state that is "
            "asked for; use the network's own values."
        )
    paths = env.simulate(policy, state, [read_count("n_step", n_step, 0)], key=key)
    return on_host(paths.reward[0] + paths.discount[0] * jnp.asarray(network(paths.next_state[0])))


def mixed_states(
    env: Simulator, policy: Policy, reach: Any, *, length: int = 500
) -> Callable[[int, Any], np.ndarray]:
    """A function that draws states: half uniform, a quarter visited by the policy, a quarter near the start.

    For `evaluate_policy(..., states=...)`. Uniform states alone say little about where a good policy keeps
    the process, and nothing about the state that it restarts from.

    Args:
        reach: How far from the start "near" is, in every number.
        length: Of the episodes whose states are drawn.

    Example:
        >>> import gaussbell as gb
        >>> pole = gb.environments.CartPole()
        >>> draw = gb.monte_carlo.mixed_states(pole, gb.policies.Constant(0), (1.0, 0.5, 0.1, 0.5))
        >>> draw(100, 0).shape
        (100, 4)
    """

    start = read_simulator(env).nominal_start
    if start is None:
        raise ValueError(f"env: where {env!r} starts is not known; draw states of your own.")

    def draw(count: int, key: Any) -> np.ndarray:
        quarter, rng = count // 4, host_rng(key)
        log = env.play(policy, episodes=VISITING, length=length, key=key)
        visited = log.state[rng.integers(0, len(log), quarter)]
        near = start + rng.uniform(-1, 1, (quarter, env.width)) * np.asarray(reach)
        return np.concatenate([np.asarray(env.sample_states(count - 2 * quarter, key=key)), visited, near])

    return draw
