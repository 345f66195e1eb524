"""Offline evaluation: the value of a policy from logged steps of another."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from gaussbell import features as input_features
from gaussbell.evaluation import evaluate
from gaussbell.logs import Log, choose_all
from gaussbell.neighbours import NeighbourValues, neighbour_values
from gaussbell.networks import MLP, FeatureNetwork
from gaussbell.policies import Policy, is_noisy, read_policy
from gaussbell.precision import as_key, host_rng, in_double, read_count
from gaussbell.rollouts import steps_for
from gaussbell.solution import Solution
from gaussbell.solve import Progress
from gaussbell.solvers import LevenbergMarquardt, Solver
from gaussbell.transitions import Transitions

MOST_ROWS = 4000
HIDDEN = (20, 20)
QUANTILE = 1.645
"""Of the normal distribution: the interval should cover 90 of 100 cases."""


class OfflineDiagnostics(NamedTuple):
    """What the data say about the estimate; `OfflineEvaluation.warnings` puts the bad news into words.

    `rows`, `duplicates`: how many rows were fitted, how many repeat another; `agreement`: the share of
    logged actions that are the policy's; `mean_steps`: how long the paths are before the log leaves the
    policy; `uncovered`: the share of successors farther than three times the usual distance from any logged
    pair; `reaching`: the share of rows from which a chain of neighbours meets a reward that differs from
    the commonest; `neighbour_value`: the start value by nearest neighbours, without a network;
    `disagreement`: its difference from the estimate in standard deviations of the neighbours' values;
    `outside`: the share of fitted values beyond what any sequence of logged rewards could give.
    """

    rows: int
    duplicates: int
    agreement: float
    mean_steps: float
    uncovered: float
    reaching: float
    neighbour_value: float
    disagreement: float
    outside: float


class OfflineEvaluation(NamedTuple):
    """The value of a policy at the start states, estimated from logged data.

    `value`, the estimate; `interval`, 90 % by refits to resampled episodes with fresh weights; `refits`,
    their estimates; `solution`, the fit of the Q-factors to all data; `warnings`, why not to trust it, in
    sentences; `rows`, what was fitted.
    """

    value: float
    interval: tuple[float, float]
    refits: Float[np.ndarray, " R"]
    solution: Solution
    diagnostics: OfflineDiagnostics
    warnings: tuple[str, ...]
    rows: Transitions

    @property
    def is_trusted(self) -> bool:
        """Did no diagnostic raise a warning?"""
        return not self.warnings

    def __str__(self) -> str:
        low, high = self.interval
        verdict = "no warnings" if self.is_trusted else " ".join(self.warnings)
        return f"value {self.value:.4g}, 90 % interval {low:.4g} to {high:.4g}; {verdict}"


@in_double
def evaluate_offline(
    log: Log,
    policy: Policy,
    network: Any = None,
    *,
    discount: float = 0.99,
    start: Any = None,
    steps: int | None = None,
    refits: int = 8,
    key: PRNGKeyArray | int = 0,
    solver: Solver | None = None,
    max_steps: int = 60,
    on_progress: Callable[[Progress], None] | None = None,
) -> OfflineEvaluation:
    """Fit the Q-factors of `policy` to steps that another policy logged, and read off its value at the start.

    Rows are Q(s, a) = R + discount^n Q(s', policy(s')), where the path from s goes on for as long as the
    log does what the policy would do, at most `steps`. Nothing is assumed about the policy that was logged.
    The refits resample whole episodes and start from fresh weights, so the interval holds the chance in the
    data and in the fit; it knows nothing of states that the log never visited. That is what the diagnostics
    are for.

    Arguments: `log`, with its `actions`; `network`, by default two layers of 20 units behind the scaled
    state and action and the policy's action; `start` (K, d), the states whose mean value is wanted, by
    default the episodes' first; `steps`, by default so many that a tenth of the discount is left; `refits`,
    0 for no interval; `solver`, by default LevenbergMarquardt(); the rest as in `evaluate`.

    >>> import gaussbell as gb
    >>> pole = gb.environments.CartPole()
    >>> balance = lambda s: (s[2] + 0.3 * s[3] + 0.05 * s[1] > 0).astype(int)
    >>> mixed = gb.policies.EpsilonGreedy(balance, 2, epsilon=0.3)
    >>> log = gb.rollouts.log_episodes(pole, mixed, episodes=20, length=50, key=0)
    >>> found = gb.evaluate_offline(log, balance, refits=0, max_steps=20)
    >>> found.diagnostics.agreement > 0.7
    True
    """
    if not 0 < discount < 1:
        raise ValueError(f"discount={discount!r}: give a number between 0 and 1.")
    fit_key, refit_key, rows_key = jax.random.split(as_key(key), 3)
    steps = steps_for(discount, 0.1) if steps is None else steps
    refits = read_count("refits", refits, 0)
    policy = policy if log.actions is None else read_policy(policy, log.state.shape[1], log.actions)
    data = log.transitions(discount=discount, steps=1 if is_noisy(policy) else steps, policy=policy)
    kept = _thin(len(data), rows_key)
    data, episode = data.take(kept), log.episode[kept]
    start = log.starts if start is None else np.asarray(start, float)
    queries = _queries(policy, start, log, rows_key)
    new_network = _network_maker(network, log, policy)

    def fit(key: Any, rows: Transitions) -> Solution:
        return evaluate(
            new_network(key),
            rows,
            solver=solver or LevenbergMarquardt(),
            scale_output=True,
            max_steps=max_steps,
            on_progress=on_progress,
            diagnose=False,
        )

    solution = fit(fit_key, data)
    estimates = np.empty(refits)
    rng = host_rng(refit_key)
    episodes, number = np.unique(episode, return_inverse=True)
    for k in range(refits):
        drawn = np.bincount(rng.integers(0, len(episodes), len(episodes)), minlength=len(episodes))
        weight = drawn[number].astype(float)
        refit = fit(jax.random.fold_in(refit_key, k), data.reweighted(weight / weight.sum()))
        estimates[k] = _mean_value(refit.network, queries)
    value = _mean_value(solution.network, queries)
    spread = QUANTILE * estimates.std(ddof=1) if refits > 1 else np.nan
    centre = estimates.mean() if refits > 1 else value
    interval = (min(value, centre - spread), max(value, centre + spread))
    diagnostics = _diagnose(log, data, policy, discount, solution, queries, value, rows_key)
    return OfflineEvaluation(
        value, interval, estimates, solution, diagnostics, _warnings(diagnostics, solution), data
    )


def _thin(count: int, key: Any) -> np.ndarray:
    """All rows, or as many as a fit should have, drawn without replacement."""
    if count <= MOST_ROWS:
        return np.arange(count)
    rng = host_rng(key)
    return np.sort(rng.choice(count, MOST_ROWS, replace=False))


def _queries(policy: Policy, start: np.ndarray, log: Log, key: Any) -> tuple[np.ndarray, np.ndarray]:
    """The pairs whose Q-factors make the value at the start, and how much each counts."""
    if is_noisy(policy):
        probability = np.asarray(jax.vmap(policy.probabilities)(start))  # type: ignore[attr-defined]
        count = probability.shape[1]
        pairs = np.concatenate(
            [np.repeat(start, count, axis=0), np.tile(np.arange(count), len(start))[:, None]], 1
        )
        return pairs, probability.ravel() / len(start)
    action = choose_all(policy, start, key).reshape(len(start), -1)
    return np.concatenate([start, action], axis=1), np.full(len(start), 1 / len(start))


def _mean_value(network: Any, queries: tuple[np.ndarray, np.ndarray]) -> float:
    pairs, weight = queries
    return float(np.asarray(network(pairs)) @ weight)


def _network_maker(network: Any, log: Log, policy: Policy) -> Callable[[Any], Any]:
    """What makes a network with fresh weights. One that is given is kept for every fit."""
    if network is not None:
        return lambda key: network
    assert log.actions is not None
    low, high = log.state.min(axis=0), log.state.max(axis=0)
    high = np.where(high > low, high, low + 1)
    inputs = input_features.Scale(np.append(low, log.actions.low), np.append(high, log.actions.high))
    if not is_noisy(policy):
        inputs = input_features.Beside(
            inputs, input_features.PolicyAction(policy, log.actions, log.state.shape[1])
        )
    width = input_features.width(inputs, len(low) + len(log.actions.low))
    return lambda key: FeatureNetwork(inputs, MLP((width, *HIDDEN, 1), key=key))


def _diagnose(
    log: Log,
    data: Transitions,
    policy: Policy,
    discount: float,
    solution: Solution,
    queries: tuple[np.ndarray, np.ndarray],
    value: float,
    key: Any,
) -> OfflineDiagnostics:
    near: NeighbourValues = neighbour_values(data)
    by_neighbours = float(near.at(queries[0]) @ queries[1])
    spread = float(near.value.std())
    fitted = np.asarray(solution.network(data.inputs))
    bounds = np.array([log.reward.min(), log.reward.max()]) / (1 - discount)
    if log.terminated.any():
        bounds = np.array([min(bounds[0], log.reward.min()), max(bounds[1], log.reward.max())])
    slack = 0.05 * (bounds[1] - bounds[0])
    chosen = choose_all(policy, log.state, key).reshape(len(log), -1)
    agrees = np.isclose(chosen, log.action.reshape(len(log), -1), atol=1e-3).all(axis=1)
    ahead = np.asarray(data.discount).reshape(len(data), -1)[:, 0]
    lengths = np.log(ahead[ahead > 0]) / np.log(discount) if (ahead > 0).any() else np.zeros(1)
    return OfflineDiagnostics(
        rows=len(data),
        duplicates=data.count_duplicates(),
        agreement=float(agrees.mean()),
        mean_steps=float(lengths.mean()),
        uncovered=float((near.distance > 3).mean()),
        reaching=float(near.reaches.mean()),
        neighbour_value=by_neighbours,
        disagreement=abs(value - by_neighbours) / spread if spread > 0 else np.inf,
        outside=float(((fitted < bounds[0] - slack) | (fitted > bounds[1] + slack)).mean()),
    )


def _warnings(found: OfflineDiagnostics, solution: Solution) -> tuple[str, ...]:
    said = []
    if str(solution.status) in ("diverged", "not finite at start"):
        said.append(f"The fit {solution.status}: {solution.status.value}")
    if found.reaching == 0:
        said.append("No chain of logged steps reaches a reward that differs: the value cannot be known.")
    if found.uncovered > 0.2:
        said.append(
            f"{found.uncovered:.0%} of the successors lie far from any logged pair of state and action."
        )
    if found.agreement < 0.05:
        said.append(f"Only {found.agreement:.1%} of the logged actions are what the policy would do.")
    if found.outside > 0.01:
        said.append(f"{found.outside:.0%} of the fitted values are beyond what the rewards can add up to.")
    if found.disagreement > 1:
        said.append(
            f"Nearest neighbours put the value at {found.neighbour_value:.4g}, "
            f"{found.disagreement:.1f} standard "
            "deviations away."
        )
    return tuple(said)
