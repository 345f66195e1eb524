"""Off-policy evaluation: the value of a policy from logged steps of another."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from gaussbell.data.logs import MISSING_ACTIONS, Log
from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.assessment import BROKEN, Assessment, Reference, judge
from gaussbell.diagnostics.checks import FAR, Checks, neighbour_checks, out_of_range, value_range
from gaussbell.evaluation.from_data import evaluate
from gaussbell.networks import features as input_features
from gaussbell.networks.mlp import MLP
from gaussbell.networks.value_function import FeatureNetwork, num_parameters, redrawn, values_at
from gaussbell.numerics.arguments import as_key, host_rng, read_count
from gaussbell.numerics.precision import in_double
from gaussbell.optimise.solution import Solution
from gaussbell.optimise.solve import Progress
from gaussbell.optimise.solvers import LevenbergMarquardt, Solver
from gaussbell.processes.policies import Policy, choose_all, is_noisy, read_policy
from gaussbell.simulation.monte_carlo import effective_horizon

HIDDEN = (20, 20)
LEVEL, QUANTILE = 0.9, 1.645
"""The nominal coverage of the confidence interval, and the normal distribution's quantile for it."""


class OfflineEvaluation(eqx.Module):
    """The value of a policy at the start states, estimated from logged data of another (a direct method).

    `value`, the estimate; `interval`, its confidence interval at `level` by a bootstrap over episodes, None
    without one; `bootstrap`, the estimates of the refits; `solution`, the fit of the Q-factors;
    `transitions`, what was fitted, of `num_logged` in the log; `assessment`, how far to trust it.
    """

    value: float
    interval: tuple[float, float] | None
    bootstrap: Float[np.ndarray, " B"]
    solution: Solution
    assessment: Assessment
    transitions: Transitions
    num_logged: int = eqx.field(static=True)
    level: float = eqx.field(static=True, default=LEVEL)

    @property
    def network(self) -> Any:
        """The fitted Q-factors."""
        return self.solution.network

    @property
    def status(self) -> Any:
        """How the fit ended."""
        return self.solution.status

    @property
    def succeeded(self) -> bool:
        """Did the fit end well enough to be used? It stops at a fixed number of steps on purpose."""
        return self.status not in BROKEN

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why not to trust it, in sentences."""
        return self.assessment.warnings

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain data."""
        return {
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "level": self.level,
            "bootstrap": self.bootstrap,
            "num_logged": self.num_logged,
            "num_transitions": len(self.transitions),
            "warnings": list(self.warnings),
            "assessment": self.assessment.to_dict(),
            "solution": self.solution.to_dict(),
        }

    def __str__(self) -> str:
        told = f"value {self.value:.4g}"
        if self.interval is not None:
            low, high = self.interval
            told += f", {self.level:.0%} confidence interval {low:.4g} to {high:.4g}"
        if len(self.transitions) < self.num_logged:
            told += (
                f"; fitted to {len(self.transitions):,} of {self.num_logged:,} transitions (max_transitions)"
            )
        return f"{told}. Assessment: {self.assessment}"


@in_double
def evaluate_offline(
    log: Log,
    policy: Policy,
    network: Any = None,
    *,
    discount: float = 0.99,
    start: Any = None,
    n_step: int | None = None,
    num_bootstrap: int = 8,
    max_transitions: int = 4000,
    key: PRNGKeyArray | int = 0,
    solver: Solver | None = None,
    max_steps: int = 60,
    on_progress: Callable[[Progress], None] | None = None,
) -> OfflineEvaluation:
    """Off-policy evaluation: the value of `policy` at the start, from steps that another policy logged.

    A direct method: Q-factors are fitted to Q(s, a) = R + discount^n Q(s', policy(s')), where the path from s
    goes on for as long as the log does what the policy would do, at most `n_step`. Nothing is assumed about
    the policy that was logged. The bootstrap resamples whole episodes and starts from fresh weights, so its
    interval holds the chance in the data and in the fit; it knows nothing of states that the log never
    visited. That is what the assessment is for.

    Args:
        log: With its `actions`.
        policy: Any callable, or a Stable-Baselines3 model.
        network: By default two layers of 20 units behind the scaled state and action and the policy's action;
            `discount`.
        start: (K, d), the states whose mean value is wanted, by default the episodes' first.
        n_step: By default so many that a tenth of the discount is left.
        num_bootstrap: Refits for the interval, fewer than 2 for none.
        max_transitions: Of a fit: of a longer log so many are drawn.
        solver: By default LevenbergMarquardt(); the rest as in `evaluate`.

    Example:
        >>> import gaussbell as gb
        >>> pole = gb.environments.CartPole()
        >>> balance = lambda s: (s[2] + 0.3 * s[3] + 0.05 * s[1] > 0).astype(int)
        >>> mixed = gb.policies.EpsilonGreedy(balance, 2, epsilon=0.3)
        >>> log = pole.record(mixed, episodes=20, length=50)
        >>> found = gb.evaluate_offline(log, balance, num_bootstrap=0, max_steps=20)
        >>> found.assessment.checks.action_match_rate > 0.7, found.interval is None
        (True, True)
    """
    if not isinstance(log, Log):
        raise ValueError(
            f"log: got {type(log).__name__}; give a gaussbell.Log, such as "
            "gaussbell.datasets.from_frame(frame, actions=...)."
        )
    if not 0 < discount < 1:
        raise ValueError(f"discount={discount!r}: give a number between 0 and 1.")
    if log.actions is None:
        raise ValueError(MISSING_ACTIONS)
    num_bootstrap = read_count("num_bootstrap", num_bootstrap, 0)
    max_transitions = read_count("max_transitions", max_transitions, 1)
    fit_key, refit_key, draw_key = jax.random.split(as_key(key), 3)
    n_step = effective_horizon(discount, 0.1) if n_step is None else n_step
    policy = read_policy(policy, log.state.shape[1], log.actions)
    data = log.transitions(discount=discount, n_step=1 if is_noisy(policy) else n_step, policy=policy)
    kept = _thin(len(data), max_transitions, draw_key)
    data, episode = data.take(kept), log.episode[kept]
    start = log.starts if start is None else np.asarray(start, float)
    queries = _queries(policy, start, draw_key)
    draw = _network_maker(network, log, policy)

    def fit(network: Any, data: Transitions) -> Solution:
        return evaluate(
            network,
            data,
            solver=solver or LevenbergMarquardt(),
            scale_output=True,
            max_steps=max_steps,
            on_progress=on_progress,
            diagnose=False,
        )

    solution = fit(draw(fit_key) if network is None else network, data)
    estimates = np.empty(num_bootstrap)
    rng = host_rng(refit_key)
    episodes, number = np.unique(episode, return_inverse=True)
    for k in range(num_bootstrap):
        drawn = np.bincount(rng.integers(0, len(episodes), len(episodes)), minlength=len(episodes))
        weight = drawn[number].astype(float)
        refit = fit(draw(jax.random.fold_in(refit_key, k)), data.reweighted(weight / weight.sum()))
        estimates[k] = _mean_value(refit.network, queries)
    value = _mean_value(solution.network, queries)
    interval = None
    if num_bootstrap > 1:
        centre, spread = estimates.mean(), QUANTILE * estimates.std(ddof=1)
        interval = (min(value, centre - spread), max(value, centre + spread))
    checks = _check(log, data, policy, discount, solution, queries, value, draw_key)
    assessment = judge(checks, status=solution.status, reference=Reference.DATA)
    return OfflineEvaluation(value, interval, estimates, solution, assessment, data, len(log))


def _thin(count: int, most: int, key: Any) -> np.ndarray:
    """All transitions, or `most` of them, drawn without replacement."""
    if count <= most:
        return np.arange(count)
    return np.sort(host_rng(key).choice(count, most, replace=False))


def _queries(policy: Policy, start: np.ndarray, key: Any) -> tuple[np.ndarray, np.ndarray]:
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
    """What draws a network with fresh weights: like the one that was given, or the default."""
    if network is not None:
        return lambda key: redrawn(network, key)
    assert log.actions is not None
    low, high = log.state.min(axis=0), log.state.max(axis=0)
    high = np.where(high > low, high, low + 1)
    inputs = input_features.Scale(np.append(low, log.actions.low), np.append(high, log.actions.high))
    if not is_noisy(policy):
        inputs = input_features.Concatenate(
            inputs, input_features.PolicyAction(policy, log.actions, log.state.shape[1])
        )
    width = input_features.width(inputs, len(low) + len(log.actions.low))
    return lambda key: FeatureNetwork(inputs, MLP((width, *HIDDEN, 1), key=key))


def _check(
    log: Log,
    data: Transitions,
    policy: Policy,
    discount: float,
    solution: Solution,
    queries: tuple[np.ndarray, np.ndarray],
    value: float,
    key: Any,
) -> Checks:
    seen, chains = neighbour_checks(data)
    by_neighbours = float(chains.at(queries[0]) @ queries[1])
    spread = float(chains.value.std())
    ahead = np.where(log.terminated, 0.0, discount)
    fitted = values_at(solution.network, data.inputs)
    chosen = choose_all(policy, log.state, key).reshape(len(log), -1)
    matches = np.isclose(chosen, log.action.reshape(len(log), -1), atol=1e-3).all(axis=1)
    spanned = np.asarray(data.discount).reshape(len(data), -1)[:, 0]
    lengths = np.log(spanned[spanned > 0]) / np.log(discount) if (spanned > 0).any() else np.zeros(1)
    return Checks(
        num_transitions=len(data),
        num_parameters=num_parameters(solution.network),
        out_of_range=out_of_range(fitted, value_range(log.reward, ahead)),
        **seen,
        duplicates=data.count_duplicates(),
        out_of_support=float((chains.distance > FAR).mean()),
        action_match_rate=float(matches.mean()),
        mean_n_step=float(lengths.mean()),
        neighbour_value=by_neighbours,
        disagreement=abs(value - by_neighbours) / spread if spread > 0 else np.inf,
    )
