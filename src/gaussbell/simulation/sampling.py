"""Transitions from a simulator: states from its box, simulated on for one or many steps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.data.horizons import LambdaReturn, read_horizons
from gaussbell.data.transitions import Transitions
from gaussbell.environments.simulator import Simulator, read_simulator
from gaussbell.numerics.arguments import as_key, host_rng, read_count, read_numbers
from gaussbell.numerics.precision import in_double, is_traced, on_host
from gaussbell.processes.policies import Policy, choose_all, read_policy
from gaussbell.simulation.episodes import visit


@in_double
def sample_transitions(
    env: Simulator,
    policy: Policy,
    n: int,
    *,
    key: PRNGKeyArray | int = 0,
    n_step: int | LambdaReturn = 1,
    q: bool = False,
    successors: int = 1,
    state: Any = None,
    action: Any = None,
) -> Transitions:
    """`n` transitions of a policy in a simulator, from states drawn uniformly from its box.

    With an `n_step` above one the reward is the discounted sum on the way and the discount is that of the
    whole way, 0 where the process has ended. A Bellman error is amplified by up to 1 / (1 - discount) in the
    value; over n steps the discount is smaller by a power of n, and so is this factor. The price is n times
    the simulation. Since the policy itself is simulated, no correction is needed.

    Where there is no box to draw states from, whole episodes are played from the environment's own starts,
    and transitions are drawn from all their states.

    Args:
        n_step: A whole number or a LambdaReturn.
        q: Whether the first action is drawn uniformly instead, for Q-factors.
        successors: How many independent simulations each transition averages: more than one where the process
            is stochastic and its state can be set.
        state: (n, s), to start from other states.
        action: (n,), to start with these actions.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> data = gb.sample_transitions(car, car.along_velocity, 100, n_step=20)
        >>> data.state.shape, round(float(data.discount[0]), 3)
        ((100, 2), 0.818)
    """
    env = read_simulator(env)
    n = read_count("n", n, 1)
    successors = read_count("successors", successors, 1)
    horizons = read_horizons(n_step)
    if state is None and env.low is None:
        return _visited(env, policy, n, n_step, q, successors, key)
    states_key, actions_key, paths_key = jax.random.split(as_key(key), 3)
    state = env.sample_states(n, key=states_key) if state is None else on_host(read_numbers("state", state))
    if len(state) != n:
        raise ValueError(f"state: {len(state)} given; give {n}, one for each transition, or leave it out.")
    if action is None and q:
        action = env.actions.sample(n, key=actions_key)
    if action is not None and (not q or len(action) != n):
        raise ValueError(f"action: give one for each of {n} transitions, and only with q=True.")

    host = np if not is_traced((state, action)) else jnp  # in JAX each of these small operations is compiled
    many = state if successors == 1 else host.repeat(state, successors, axis=0)
    first = action if action is None or successors == 1 else host.repeat(action, successors, axis=0)
    follow_key, next_key = jax.random.split(paths_key)
    paths = env.simulate(policy, many, horizons, action=first, key=follow_key)
    terms = len(horizons) * successors
    reward = _by_state(paths.reward, n, terms)
    discount = _by_state(paths.discount, n, terms)
    next_state = _by_state(paths.next_state, n, terms)
    seen = paths.state[::successors]
    next_action = None
    if q:
        flat = next_state.reshape(n * terms, -1)
        following = jax.random.fold_in(jax.random.fold_in(next_key, 1), 0)
        chosen = choose_all(read_policy(policy, env.width, env.actions), flat, following)
        next_action = chosen.reshape(n, terms, -1)
    if terms == 1:
        return Transitions(
            seen,
            reward[:, 0],
            next_state[:, 0],
            discount[:, 0],
            action=action,
            next_action=None if next_action is None else next_action[:, 0],
        )
    return Transitions(seen, reward, next_state, discount, action=action, next_action=next_action)


def _visited(
    env: Simulator, policy: Policy, n: int, n_step: Any, q: bool, successors: int, key: Any
) -> Transitions:
    """Transitions from states that the policy itself visits, drawn without replacement."""
    if successors != 1 or (q and isinstance(n_step, LambdaReturn)):
        raise ValueError(
            "successors, n_step: without a box of states transitions lie along episodes, with one successor; "
            "give successors=1 and, for Q-factors, a whole number n_step, or from_gymnasium(..., low=..., "
            "high=...) where the state can be set."
        )
    key, rng = as_key(key), host_rng(key)
    if q:
        horizon = int(read_horizons(n_step)[0])
        log = env.log(policy, max(n + horizon, 2 * n), key=key, explore=1 / (2 * horizon))
        chosen: dict[str, Any] = {"policy": policy, "key": key}
    else:
        log, chosen = visit(env, policy, n, key=key), {}
    rows = np.sort(rng.choice(len(log), n, replace=False))
    return log.transitions(discount=env.discount, n_step=n_step, rows=rows, **chosen)


def _by_state(paths: Float[Array, "H NM *d"], n: int, terms: int) -> Float[Array, "N terms *d"]:
    """What was simulated, as one line for each of n states."""
    split = paths.reshape(paths.shape[0], n, -1, *paths.shape[2:])  # (H, N, M, ...)
    return split.swapaxes(0, 1).reshape(n, terms, *paths.shape[2:])
