"""Held-out paths: what the value is off by, measured where no fit has looked."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.neighbours import successors_of
from gaussbell.environments.simulator import Simulator, is_random
from gaussbell.networks.value_function import values_at
from gaussbell.numerics.arguments import as_key
from gaussbell.processes.actions import BoxActions
from gaussbell.processes.policies import Policy
from gaussbell.simulation.monte_carlo import effective_horizon
from gaussbell.simulation.sampling import sample_transitions

TAIL = 0.1
"""Held-out paths are so long that this share of the discount is left."""
QUANTILE = 1.96
NOISY_PATHS = 128
"""Paths from a state that are averaged where the process or the policy is random."""


class ErrorEstimate(NamedTuple):
    """An estimate of the root mean squared error of a value, its 95 % interval, and the value's spread.

    `over` names the states, and `caveat` says why it may miss an error, if there is a reason. `square` and
    `deviation` are the mean square and its standard error; `size` is the root mean square of the value.
    """

    error: float
    low: float
    high: float
    spread: float
    over: str
    caveat: str | None = None
    square: float = np.nan
    deviation: float = np.nan
    size: float = 0.0

    def with_square(self, square: float, deviation: float) -> "ErrorEstimate":
        """The same with another mean square, which may be negative where noise was subtracted."""
        # What noise hides is not zero: no error below its own standard error is claimed.
        least = min(deviation, abs(square)) if square < 0 else 0.0
        bounds = max(square, least), square - QUANTILE * deviation, square + QUANTILE * deviation
        error, low, high = (float(np.sqrt(max(bound, 0.0))) for bound in bounds)
        return self._replace(error=error, low=low, high=max(high, error), square=square, deviation=deviation)


def error_estimate(
    squares: np.ndarray,
    spread: float,
    over: str,
    caveat: str | None = None,
    clusters: Any = None,
    more: float = 0.0,
) -> ErrorEstimate:
    """The root of the mean of `squares`, which may be negative where noise was subtracted from them.

    Args:
        clusters: Which of them belong together (the number of an episode each), by default none do.
        more: A further standard error of the mean, independent of theirs.
    """
    mean, count = float(squares.mean()), len(squares)
    numbers = np.arange(count) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    groups = int(numbers.max()) + 1
    sums = np.bincount(numbers, squares - mean)
    deviation = float(np.linalg.norm(sums) * np.sqrt(groups / (groups - 1)) / count) if groups > 1 else np.inf
    deviation = float(np.hypot(deviation, more))
    return ErrorEstimate(np.nan, np.nan, np.nan, spread, over, caveat).with_square(mean, deviation)


class HeldOutPaths:
    """Paths from fresh states, so long that their residual is an error of the value, not of one step.

        f(s) - R_h - discount^h f(s_h) = error(s) - discount^h error(s_h)

    If the process or the policy is random, a second, independent path from each state keeps the noise out of
    the mean square.

    Args:
        count: How many states.
        states: A function of a number and a key that draws them, by default uniformly from the environment's
            box.
        paths: How many are averaged on each side.
    """

    def __init__(
        self,
        env: Simulator,
        policy: Policy,
        count: int,
        *,
        key: PRNGKeyArray | int = 0,
        q: bool = False,
        states: Any = None,
        paths: int = 1,
    ):
        key, horizon = as_key(key), effective_horizon(env.discount, TAIL)
        start = None if states is None else states(count, key)
        if start is None and env.low is not None:
            start = env.sample_states(count, key=jax.random.split(key, 3)[0])
        options = {"n_step": horizon, "q": q, "successors": paths, "state": start}
        first = sample_transitions(env, policy, count, key=key, **options)
        self.paths = [first]
        if is_random(env, policy) and start is not None:
            action = None if first.action is None else _as_taken(env, np.asarray(first.action))
            again = {"action": action, "key": jax.random.fold_in(key, 1)}
            self.paths.append(sample_transitions(env, policy, count, **again, **options))
        self.remaining = env.discount**horizon
        self.over = f"the box of states of {env!r}" if states is None else "the states that were drawn"
        self.cost = horizon * count * paths * len(self.paths)

    def estimate(self, network: Any) -> ErrorEstimate:
        """How far off the network's values are."""
        values = values_at(network, self.paths[0].inputs)
        targets = [long_targets(network, path) for path in self.paths]
        squares = (values - targets[0]) * (values - targets[-1]) / (1 - self.remaining) ** 2
        spread = float(np.sqrt(max(np.cov(targets[0], targets[-1])[0, 1], 0.0)))
        return error_estimate(squares, spread, self.over)


def error_at(
    network: Any, env: Simulator, policy: Policy, inputs: Any, *, key: PRNGKeyArray | int = 0, q: bool = False
) -> Float[np.ndarray, " K"]:
    """The estimated absolute error of the value at states (K, d), or at pairs of state and action with `q`.

    Each is simulated as far as the held-out paths, 128 times where that is random; what chance alone would
    make of the difference is taken off.
    """
    inputs, width = np.asarray(inputs, float), env.width
    state, action = inputs[:, :width], _as_taken(env, inputs[:, width:]) if q else None
    horizon = effective_horizon(env.discount, TAIL)
    paths = NOISY_PATHS if is_random(env, policy) else 1
    options: Any = {"action": None if action is None else np.repeat(action, paths, axis=0)} if q else {}
    paths_taken = sample_transitions(
        env,
        policy,
        len(state) * paths,
        key=key,
        n_step=horizon,
        q=q,
        state=np.repeat(state, paths, axis=0),
        **options,
    )
    values = values_at(network, inputs)
    gaps = values[:, None] - long_targets(network, paths_taken).reshape(len(state), paths)
    square = gaps.mean(axis=1) ** 2
    if paths > 1:
        square = np.maximum(square - gaps.var(axis=1, ddof=1) / paths, 0.0)
    return np.sqrt(square) / (1 - env.discount**horizon)


def long_targets(network: Any, path: Transitions) -> np.ndarray:
    """What transitions say the values of their states are, if the network is right about their successors."""
    # Where the process has ended the successor counts for nothing, whatever it is.
    successors, weights = successors_of(path)
    values = values_at(network, successors.reshape(weights.size, -1)).reshape(weights.shape)
    return np.asarray(path.reward) + (weights * values).sum(axis=1)


def _as_taken(env: Simulator, action: np.ndarray) -> np.ndarray:
    """Actions as an environment takes them: whole numbers have no second axis."""
    return action if isinstance(env.actions, BoxActions) else action[:, 0].astype(int)
