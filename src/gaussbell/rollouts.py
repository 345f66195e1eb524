"""The value of a policy by simulation: the truth to measure others by."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.logs import Log
from gaussbell.policies import Policy, check_actions, choose, is_noisy, read_policy
from gaussbell.precision import as_key, host_rng, in_double, on_host, read_concrete, read_count

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


def steps_for(discount: float, tolerance: float) -> int:
    """How many steps leave at most `tolerance` of the discounted sum of a constant reward.

    >>> import gaussbell as gb
    >>> gb.rollouts.steps_for(0.99, 1e-6)
    1375
    """
    if not 0 < discount < 1:
        raise ValueError(f"discount={discount!r}: give steps=..., since only a discount in (0, 1) sets one.")
    return max(1, math.ceil(math.log(tolerance) / math.log(discount)))


@in_double
def returns(
    env: Any,
    policy: Policy,
    state: Any,
    *,
    steps: int | None = None,
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

    Arguments: `state` (N, d), any number of them: memory is bounded; `steps`, how many to simulate, instead
    of `tolerance`; `action`, the first actions, for Q-factors; `on_progress`, called with the number of
    states done and N.

    >>> import gaussbell as gb
    >>> car = gb.environments.MountainCar()
    >>> gb.rollouts.returns(car, car.along_velocity, [[-0.5, 0.0]]).round(3).tolist()
    [-99.592]
    """
    state = read_concrete("state", state)
    samples = read_count("samples", samples, 1)
    steps = steps_for(env.discount, tolerance) if steps is None else read_count("steps", steps, 1)
    chunk = max(1, CHUNK // samples)
    key, total = as_key(key), np.empty(len(state))
    for number, start in enumerate(range(0, len(state), chunk)):
        rows = slice(start, start + chunk)
        first = None if action is None else np.repeat(np.asarray(action)[rows], samples, axis=0)
        paths = env.simulate(
            policy,
            np.repeat(state[rows], samples, axis=0),
            [steps],
            action=first,
            key=jax.random.fold_in(key, number),
        )
        total[rows] = np.asarray(paths.reward[0]).reshape(-1, samples).mean(axis=1)
        if on_progress is not None:
            on_progress(min(start + chunk, len(state)), len(state))
    return total


@in_double
def value_on_grid(env: Any, policy: Policy, shape: Sequence[int] = (500, 500), **options: Any) -> Grid:
    """The value of a policy on a grid over the environment's box; options as in `returns`.

    >>> import gaussbell as gb
    >>> car = gb.environments.MountainCar()
    >>> grid = gb.rollouts.value_on_grid(car, car.along_velocity, (4, 3))
    >>> grid.state.shape, grid.table().shape
    ((12, 2), (4, 3))
    """
    if len(shape) != len(env.low):
        raise ValueError(f"shape={tuple(shape)}: states have {len(env.low)} numbers; give as many counts.")
    axes = tuple(np.linspace(low, high, n) for low, high, n in zip(env.low, env.high, shape, strict=True))
    state = np.stack([points.ravel() for points in np.meshgrid(*axes, indexing="ij")], axis=1)
    return Grid(axes, state, returns(env, policy, state, **options))


@in_double
def look_ahead(
    network: Any, env: Any, policy: Policy, state: Any, steps: int, *, key: PRNGKeyArray | int = 0
) -> Float[Array, " N"]:
    """Values at query time: simulate a few steps, then ask the network.

        value(state) = reward of the steps + discount * network(state reached)

    The network's error counts only with the discount, and errors near a jump of the value average out.

    >>> import gaussbell as gb
    >>> car = gb.environments.MountainCar()
    >>> network = gb.FeatureNetwork(car.features(), gb.MLP((6, 10, 1), key=0))
    >>> gb.rollouts.look_ahead(network, car, car.along_velocity, car.sample_states(5, key=1), 50).shape
    (5,)
    """
    paths = env.simulate(policy, state, [read_count("steps", steps, 0)], key=key)
    return on_host(paths.reward[0] + paths.discount[0] * jnp.asarray(network(paths.next_state[0])))


@in_double
def log_episodes(
    env: Any,
    policy: Policy,
    *,
    episodes: int,
    length: int,
    key: PRNGKeyArray | int,
    start: Any = None,
) -> Log:
    """Run `policy` and keep every step: `episodes` of at most `length` steps, then truncated.

    Arguments: `start` (episodes, d), by default states that the environment starts in.

    >>> import gaussbell as gb
    >>> car = gb.environments.MountainCar()
    >>> log = gb.rollouts.log_episodes(car, car.along_velocity, episodes=3, length=50, key=0)
    >>> len(log), log.starts.shape
    (150, (3, 2))
    """
    episodes, length = read_count("episodes", episodes, 1), read_count("length", length, 1)
    policy = read_policy(policy, env.width, env.actions)
    start_key, steps_key = jax.random.split(as_key(key))
    if start is None:
        start = jax.vmap(env.initial)(jax.random.split(start_key, episodes))
    rows = on_host(_record(env, policy, jnp.asarray(start, jnp.float64), length, steps_key))
    state, action, reward, reached, ended = (np.moveaxis(rows[k], 0, 1) for k in range(5))  # (E, L, ...)
    check_actions(env.actions, action.reshape(-1, *action.shape[2:]), state.reshape(-1, env.width))
    over = np.cumsum(ended, axis=1)
    kept = (over - ended) == 0  # up to and with the step that ends the process
    number = np.broadcast_to(np.arange(episodes)[:, None], kept.shape)
    return Log(
        state[kept],
        action[kept],
        reward[kept],
        reached[kept],
        terminated=ended[kept],
        episode=number[kept],
        actions=env.actions,
    )


@in_double
def play(
    env: Any,
    policy: Policy,
    *,
    episodes: int,
    length: int,
    key: PRNGKeyArray | int,
    start: Any = None,
) -> Log:
    """Whole episodes of a policy, as the environment plays them: with an end, from its own starts.

    For an environment of ours that never ends these are episodes of `env.episodic`; for a Gymnasium
    environment its own. Arguments as in `log_episodes`.

    >>> import gaussbell as gb
    >>> pole = gb.environments.CartPole()
    >>> log = gb.rollouts.play(pole, gb.policies.Constant(1), episodes=2, length=500, key=0)
    >>> bool(log.terminated.sum() == 2 and len(log) < 30)
    True
    """
    if hasattr(env, "play"):  # an environment on the host has its own way
        return env.play(policy, episodes=episodes, length=length, key=key, start=start)
    return log_episodes(env.episodic, policy, episodes=episodes, length=length, key=key, start=start)


def mixed_states(
    env: Any, policy: Policy, reach: Any, *, length: int = 500
) -> Callable[[int, Any], np.ndarray]:
    """A function that draws states: half uniform, a quarter visited by the policy, a quarter near the start.

    For `evaluate_policy(..., states=...)`. Uniform states alone say little about where a good policy keeps
    the process, and nothing about the state that it restarts from. Arguments: `reach`, how far from the
    start "near" is, in every number; `length`, of the episodes whose states are drawn.

    >>> import gaussbell as gb
    >>> pole = gb.environments.CartPole()
    >>> draw = gb.rollouts.mixed_states(pole, gb.policies.Constant(0), (1.0, 0.5, 0.1, 0.5))
    >>> draw(100, 0).shape
    (100, 4)
    """

    def draw(count: int, key: Any) -> np.ndarray:
        quarter, rng = count // 4, host_rng(key)
        log = play(env, policy, episodes=VISITING, length=length, key=key)
        visited = log.state[rng.integers(0, len(log), quarter)]
        near = np.asarray(env.initial()) + rng.uniform(-1, 1, (quarter, env.width)) * np.asarray(reach)
        return np.concatenate([np.asarray(env.sample_states(count - 2 * quarter, key=key)), visited, near])

    return draw


@eqx.filter_jit
def _record(env: Any, policy: Policy, start: Float[Array, "E d"], length: int, key: Any):
    noisy = env.noisy or is_noisy(policy)

    def advance(state, step):
        now = jax.random.fold_in(key, step)
        keys = jax.random.split(now, 2 * len(state)).reshape(2, -1) if noisy else (None, None)
        action = jax.vmap(lambda s, k: choose(policy, s, k))(state, keys[0])
        reached, reward, ended = jax.vmap(env.step)(state, action, keys[1])
        return reached, (state, action, reward, reached, ended)

    return jax.lax.scan(advance, start, jnp.arange(length))[1]
