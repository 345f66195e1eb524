"""Can the value be trusted? One verdict for a fit, with reasons, and one score for each state.

A small residual is no answer: values between the samples, and of samples that no chain of others ties to a
reward, are free. Three witnesses know more, the better the earlier: the model of a finite process, a
simulator, and the rows themselves, asked for a second opinion.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from gaussbell import encodings
from gaussbell.diagnostics.checks import Checks, check
from gaussbell.diagnostics.held_out import (
    NOISY_PATHS,
    ErrorEstimate,
    HeldOutPaths,
    error_at,
    is_random,
    long_targets,
)
from gaussbell.diagnostics.smooth import smooth_value
from gaussbell.markov import discounted_sum
from gaussbell.mdp import MarkovChain
from gaussbell.neighbours import averaged_values, neighbour_values, successors_of
from gaussbell.networks import values_at
from gaussbell.policies import Policy
from gaussbell.precision import as_key, double_throughout, host_rng, read_concrete
from gaussbell.solution import Solution, Status
from gaussbell.transitions import Transitions

TOLERABLE = 0.3
"""An error of this share of the value's standard deviation is the largest that is trusted."""
HELD_OUT_STATES = 512
NEIGHBOURS = (1, 2, 4, 8)
"""Averages over so many nearest rows make the second opinion."""
BETWEEN = 4
"""Queries lie halfway between a row and one of this many nearest to it."""
MOST_QUERIES = 2000


class Trust(NamedTuple):
    """A verdict on a fitted value.

    `trusted`; `reasons` against it, in sentences, none if it is; `witness`, what was asked: "the model", "a
    simulator", "held-out rows" or "the rows"; `error`, the estimated root mean squared error of the value,
    `low` and `high`, its 95 % interval, or, from the rows alone, the smallest and largest of several
    opinions; `spread`, the standard deviation of the value; `checks`, as `evaluate` makes them.
    `score(states)` estimates the absolute error at each state.
    """

    reasons: tuple[str, ...]
    witness: str
    error: float
    low: float
    high: float
    spread: float
    checks: Checks
    scorer: Callable[[np.ndarray], np.ndarray]

    @property
    def trusted(self) -> bool:
        """Does nothing speak against the value?"""
        return not self.reasons

    @property
    def relative_error(self) -> float:
        """The error in standard deviations of the value: 1 is no better than a constant."""
        if self.error == 0:
            return 0.0
        return self.error / self.spread if self.spread > 0 else np.inf

    @double_throughout
    def score(self, states: Any) -> Float[np.ndarray, " K"]:
        """The estimated absolute error of the value at states (K, d); for Q-factors with the action appended.

        With a model the state's numbers (K,) are enough, and the error is exact.
        """
        return self.scorer(read_concrete("states", states))

    def __str__(self) -> str:
        verdict = "trusted" if self.trusted else "not trusted"
        estimate = (
            f"by {self.witness}, the value is off by {self.error:.2g} ({self.low:.2g} to {self.high:.2g}), "
            f"{self.relative_error:.2g} of its standard deviation."
        )
        return " ".join([f"{verdict}: {estimate}", *self.reasons])


@double_throughout
def trust(
    solution: Any,
    data: Transitions | MarkovChain,
    *,
    env: Any = None,
    policy: Policy | None = None,
    held_out: Transitions | None = None,
    features: Any = None,
    states: Callable[[int, Any], Any] | None = None,
    key: PRNGKeyArray | int = 0,
) -> Trust:
    """Ask the best witness at hand how far a fitted value is off, state by state and as a whole.

    On a finite process, `data` is its chain, and the answer is exact. With a simulator, paths are followed
    from fresh states until a tenth of the discount is left: their residual is an error of the value. With
    `held_out` rows of many steps, the same is done for them. From the rows alone there are two second
    opinions: averages over nearest rows, believed as far as rows tie the value to rewards they show, and a
    Gaussian process over values where they do not. What neither can see are rewards that no row has met.

    Arguments: `solution`, or its network; `data`, what it was fitted to; `env` and `policy`, a simulator;
    `features` (K, d), the inputs of a chain's states; `states`, a function of a number and a key that draws
    the states that count, by default uniformly from the environment's box, or from between the rows.

    >>> import gaussbell as gb
    >>> car = gb.environments.MountainCar()
    >>> data = gb.sample_transitions(car, car.along_velocity, 50, key=0)
    >>> network = gb.MLP((2, 10, 10, 1), key=0)  # or what `evaluate` returned
    >>> by_rows = gb.diagnostics.trust(network, data)
    >>> by_simulator = gb.diagnostics.trust(network, data, env=car, policy=car.along_velocity)
    >>> by_rows.trusted, by_simulator.trusted, by_rows.score(data.state[:3]).shape
    (False, False, (3,))
    """
    network = solution.network if isinstance(solution, Solution) else solution
    if (env is None) != (policy is None):
        raise ValueError("env and policy go together: a simulator needs to know what to do.")
    if features is not None and not isinstance(data, MarkovChain):
        raise ValueError("features: they belong to the states of a finite chain; leave them out.")
    checks = check(network, data, features=features)
    if isinstance(data, MarkovChain):
        witness, estimate, scorer = "the model", *_by_model(network, data, features)
    else:
        ask = _Rows(network, data)
        if env is not None and policy is not None:
            witness, estimate, scorer = "a simulator", *_by_simulator(network, data, env, policy, states, key)
        elif held_out is not None:
            witness, estimate, scorer = "held-out rows", _by_held_out(network, held_out), ask
        else:
            witness, estimate, scorer = "the rows", ask.estimate(states, key), ask
    reasons = _reasons(solution, estimate, checks, witness)
    return Trust(reasons, witness, *estimate, checks, scorer)


def _reasons(solution: Any, estimate: ErrorEstimate, checks: Checks, witness: str) -> tuple[str, ...]:
    said = []
    broken = (Status.DIVERGED, Status.NOT_FINITE_AT_START)
    if isinstance(solution, Solution) and solution.status in broken:
        said.append(f"The fit is {solution.status}.")
    if not estimate.error <= TOLERABLE * estimate.spread:
        said.append(
            f"The error is estimated at more than {TOLERABLE:g} standard deviations of the value itself."
        )
    if said:
        return (*said, *checks.warnings)
    # What a model or a simulator has measured to be right is right, whatever the rows look like.
    return checks.warnings if witness == "the rows" and checks.reaching == 0 else ()


def _by_model(
    network: Any, chain: MarkovChain, features: Any
) -> tuple[ErrorEstimate, Callable[[np.ndarray], np.ndarray]]:
    """The exact error of each state: the residual, summed up along the chain."""
    inputs = np.asarray(encodings.number(chain.num_states) if features is None else features)
    residual = chain.residual(values_at(network, inputs))
    errors = np.abs(discounted_sum(chain.transition, residual, chain.discount))
    error = float(np.sqrt(np.mean(errors**2)))

    def score(states: np.ndarray) -> np.ndarray:
        if states.ndim == 1:
            return errors[states.astype(int)]
        nearest = np.abs(states[:, None] - inputs[None]).sum(axis=2).argmin(axis=1)
        return errors[nearest]

    return ErrorEstimate(error, error, error, float(chain.values.std())), score


def _by_simulator(
    network: Any, data: Transitions, env: Any, policy: Policy, states: Any, key: Any
) -> tuple[ErrorEstimate, Callable[[np.ndarray], np.ndarray]]:
    q = data.action is not None
    many = NOISY_PATHS // 8 if is_random(env, policy) else 1
    paths = HeldOutPaths(env, policy, HELD_OUT_STATES, key=key, q=q, states=states, paths=many)
    return paths.estimate(network), lambda inputs: error_at(network, env, policy, inputs, key=key, q=q)


def _by_held_out(network: Any, rows: Transitions) -> ErrorEstimate:
    """The residual on rows that no fit has seen, as an error of the value.

    Rows of one step say little: their residual is divided by 1 - discount.
    """
    remaining = successors_of(rows)[1].sum(axis=1)
    errors = (values_at(network, rows.inputs) - long_targets(network, rows)) / (1 - remaining)
    squares = errors**2
    margin = 1.96 * squares.std() / np.sqrt(len(squares))
    mean = squares.mean()
    error, low, high = (float(np.sqrt(max(s, 0.0))) for s in (mean, mean - margin, mean + margin))
    return ErrorEstimate(error, low, high, float(long_targets(network, rows).std()))


class _Rows:
    """What the rows themselves say about the value: opinions that need no network."""

    def __init__(self, network: Any, data: Transitions):
        self._network, self._data = network, data
        self._chains = neighbour_values(data)
        self._averages = [averaged_values(data, count) for count in NEIGHBOURS]
        self._smooth = smooth_value(data)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        by_averages, by_smooth, pinned = self._opinions(inputs)
        return np.sqrt(pinned * (by_averages**2).mean(axis=0) + (1 - pinned) * by_smooth**2)

    def _opinions(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How far off the network is by each average, and by the smooth value; and how far averages count."""
        values = values_at(self._network, inputs)
        averages = np.stack([values - average(inputs) for average in self._averages])
        mean, doubt = self._smooth(inputs)
        pinned = self._chains.pinned[self._chains.nearest(inputs)]
        return averages, np.hypot(values - mean, doubt), pinned

    def estimate(self, states: Any, key: Any) -> ErrorEstimate:
        inputs = self._between(key) if states is None else np.asarray(states(MOST_QUERIES, as_key(key)))
        by_averages, by_smooth, pinned = self._opinions(inputs)
        opinions = [
            float(np.sqrt(np.mean(pinned * one**2 + (1 - pinned) * by_smooth**2))) for one in by_averages
        ]
        error = float(np.sqrt(np.mean(self(inputs) ** 2)))
        spread = float(values_at(self._network, inputs).std())
        return ErrorEstimate(error, min(opinions), max(opinions), spread)

    def _between(self, key: Any) -> np.ndarray:
        """Points halfway between rows that are near each other, where values are free to be anything."""
        rng, inputs = host_rng(key), np.asarray(self._data.inputs)
        rows = rng.permutation(len(inputs))[:MOST_QUERIES]
        near = self._chains.tree.query(inputs[rows] / self._chains.scale, k=min(1 + BETWEEN, len(inputs)))[
            1
        ].reshape(len(rows), -1)
        other = near[np.arange(len(rows)), rng.integers(near.shape[1] > 1, near.shape[1], len(rows))]
        width = self._data.state.shape[1]
        found = inputs[rows].copy()
        found[:, :width] = (found[:, :width] + inputs[other][:, :width]) / 2
        return found
