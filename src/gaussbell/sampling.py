"""Transitions from a simulator: states from its box, simulated on for one or many steps."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.policies import Policy
from gaussbell.precision import as_key, in_double, is_traced, on_host, read_count, read_numbers
from gaussbell.transitions import Transitions


class LambdaReturn(eqx.Module):
    """The lambda-return: n-step equations of all n, each with a share (1 - lambda) lambda^(n-1).

    The sum is thinned to `terms` numbers of steps with equal shares, at the quantiles of that distribution;
    each row of the residual then has `terms` successors, and still holds for the true value.

    Arguments: `weight`, the lambda, between 0 and 1: the mean number of steps is 1 / (1 - weight).

    >>> import gaussbell as gb
    >>> gb.LambdaReturn(0.9, terms=4).horizons().tolist()
    [2, 5, 10, 20]
    """

    weight: float = 0.98
    terms: int = 8

    def __check_init__(self):
        if not 0 <= self.weight < 1:
            raise ValueError(f"weight={self.weight!r}: give a number from 0 up to, but not including, 1.")
        read_count("terms", self.terms, 1)

    def horizons(self) -> np.ndarray:
        """The numbers of steps, in rising order."""
        if self.weight == 0:
            return np.ones(1, int)
        middles = (np.arange(self.terms) + 0.5) / self.terms
        return np.maximum(1, np.ceil(np.log1p(-middles) / math.log(self.weight))).astype(int)


def read_horizons(steps: Any) -> np.ndarray:
    """The numbers of steps that `steps` stands for: one, or those of a LambdaReturn."""
    if isinstance(steps, LambdaReturn):
        return steps.horizons()
    return np.array([read_count("steps", steps, 1, 10**6)])


@in_double
def sample_transitions(
    env: Any,
    policy: Policy,
    n: int,
    *,
    key: PRNGKeyArray | int,
    steps: int | LambdaReturn = 1,
    q: bool = False,
    successors: int = 1,
    state: Any = None,
    action: Any = None,
) -> Transitions:
    """`n` transitions of a policy in a simulator, from states drawn uniformly from its box.

    With several `steps` the reward is the discounted sum on the way and the discount is that of the whole
    way, 0 where the process has ended. A Bellman error is amplified by up to 1 / (1 - discount) in the value;
    over n steps the discount is smaller by a power of n, and so is this factor. The price is n times the
    simulation. Since the policy itself is simulated, no correction is needed.

    Arguments: `steps`, a whole number or a LambdaReturn; `q`, whether the first action is drawn uniformly
    instead, for Q-factors; `successors`, how many independent simulations each row averages: more than one
    where the process is random; `state` (n, d), to start from other states; `action` (n,), to start with
    these actions.

    >>> import gaussbell as gb
    >>> car = gb.environments.MountainCar()
    >>> data = gb.sample_transitions(car, car.along_velocity, 100, key=0, steps=20)
    >>> data.state.shape, round(float(data.discount[0]), 3)
    ((100, 2), 0.818)
    """
    n = read_count("n", n, 1)
    successors = read_count("successors", successors, 1)
    if not hasattr(env, "simulate"):
        raise ValueError(
            f"env: got {type(env).__name__}, which cannot be simulated; give a gaussbell environment, "
            "environments.from_gymnasium(...), or environments.FiniteEnvironment(mdp)."
        )
    if hasattr(env, "sample_transitions"):  # an environment on the host has its own way
        return env.sample_transitions(
            policy, n, key=key, steps=steps, q=q, successors=successors, state=state, action=action
        )
    horizons = read_horizons(steps)
    states_key, actions_key, paths_key = jax.random.split(as_key(key), 3)
    state = env.sample_states(n, key=states_key) if state is None else on_host(read_numbers("state", state))
    if len(state) != n:
        raise ValueError(f"state: {len(state)} rows; give {n}, one for each transition, or leave it out.")
    if action is None and q:
        action = env.actions.sample(n, key=actions_key)
    if action is not None and (not q or len(action) != n):
        raise ValueError(f"action: give one for each of {n} rows, and only with q=True.")

    host = np if not is_traced((state, action)) else jnp  # in JAX each of these small operations is compiled
    many = state if successors == 1 else host.repeat(state, successors, axis=0)
    first = action if action is None or successors == 1 else host.repeat(action, successors, axis=0)
    follow_key, next_key = jax.random.split(paths_key)
    paths = env.simulate(policy, many, horizons, action=first, key=follow_key)
    terms = len(horizons) * successors
    reward = _by_row(paths.reward, n, terms)
    discount = _by_row(paths.discount, n, terms)
    next_state = _by_row(paths.next_state, n, terms)
    next_action = None
    if q:
        flat = next_state.reshape(n * terms, -1)
        next_action = env.simulate(policy, flat, [0], key=next_key).action.reshape(n, terms, -1)
    if terms == 1:
        return Transitions(
            state,
            reward[:, 0],
            next_state[:, 0],
            discount[:, 0],
            action=action,
            next_action=None if next_action is None else next_action[:, 0],
        )
    return Transitions(state, reward, next_state, discount, action=action, next_action=next_action)


def _by_row(paths: Float[Array, "H NM *d"], n: int, terms: int) -> Float[Array, "N terms *d"]:
    """What was simulated, as one line for each of n states."""
    split = paths.reshape(paths.shape[0], n, -1, *paths.shape[2:])  # (H, N, M, ...)
    return split.swapaxes(0, 1).reshape(n, terms, *paths.shape[2:])
