"""How far is a given critic from the truth, and where? Ours beside it."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import stats

from gaussbell.diagnostics.assessment import Assessment, Reference, judge
from gaussbell.diagnostics.checks import Checks
from gaussbell.diagnostics.held_out_episodes import HeldOutEpisodes, hold_out_episodes
from gaussbell.environments.simulator import Simulator, read_simulator
from gaussbell.evaluation.fits import Watch
from gaussbell.evaluation.from_simulator import PolicyEvaluation, evaluate_policy
from gaussbell.networks.host_values import HostValues
from gaussbell.networks.value_function import values_at
from gaussbell.numerics.arguments import as_key, read_count
from gaussbell.numerics.precision import in_double
from gaussbell.processes.critics import read_critic
from gaussbell.processes.policies import Policy, choose_all, read_policy

AUDITED_SHARE = 0.4
"""Of the budget, for the episodes that judge; the rest is for our own fit."""
GROUPS = 10
"""Groups of states, by the critic's value and by age, whose means are compared."""
SHOWN = 1000
"""States that are kept, for pictures."""
LEVEL = 0.95
REMEDY = "Do not rank states or policies by this critic: fit it anew, or take ours."


class Group(NamedTuple):
    """States with like values, or of like age: what a critic says of them, and what they returned.

    Attributes:
        at: The mean of what they are grouped by.
        predicted: The mean value by the critic.
        returned: The mean return.
        error: The standard error of the difference, by episodes.
        states: How many.
    """

    at: float
    predicted: float
    returned: float
    error: float
    states: int


@dataclasses.dataclass(frozen=True)
class CriticAudit:
    """How far a critic is from the value of a policy, over the states that the policy visits.

    Attributes:
        assessment: The critic's error with its interval, its noise subtracted.
        bias: The mean of value less return, and its 95 % confidence interval.
        bias_interval: As said.
        scale: The slope of returns on values: below 1 the critic exaggerates differences between states.
        start: The critic's mean value at the starts of episodes.
        monte_carlo_start: The mean return there, and its 95 % confidence interval.
        monte_carlo_interval: As said.
        by_value: Groups of states of like value.
        by_age: Groups of states of like age in their episode.
        sample: Some of the states: their values by the critic, their returns and, if there is one, our fit's
            values.
        ours: Our own fit, if one was asked for, and `our_assessment` by the same held-out episodes.
    """

    assessment: Assessment
    bias: float
    bias_interval: tuple[float, float]
    scale: float
    start: float
    monte_carlo_start: float
    monte_carlo_interval: tuple[float, float]
    by_value: tuple[Group, ...]
    by_age: tuple[Group, ...]
    sample: dict[str, np.ndarray]
    simulated: int
    warnings: tuple[str, ...] = ()
    ours: PolicyEvaluation | None = None
    our_assessment: Assessment | None = None

    @property
    def relative_error(self) -> float:
        """The critic's error in standard deviations of the value: 1 is no better than a constant."""
        return self.assessment.relative_error  # type: ignore[return-value]

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data, without our fit's network."""
        names = ("bias", "scale", "start", "monte_carlo_start", "simulated")
        plain: dict[str, Any] = {name: getattr(self, name) for name in names}
        return plain | {
            "bias_interval": list(self.bias_interval),
            "monte_carlo_interval": list(self.monte_carlo_interval),
            "assessment": self.assessment.to_dict(),
            "our_assessment": None if self.our_assessment is None else self.our_assessment.to_dict(),
            "by_value": [group._asdict() for group in self.by_value],
            "by_age": [group._asdict() for group in self.by_age],
            "sample": dict(self.sample),
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        low, high = self.bias_interval
        said = [
            f"The critic: {self.assessment} Its mean error is {self.bias:.3g} ({low:.3g} to {high:.3g}).",
            f"At the starts it says {self.start:.4g}; returns there have a mean of "
            f"{self.monte_carlo_start:.4g} ({self.monte_carlo_interval[0]:.4g} to "
            f"{self.monte_carlo_interval[1]:.4g}).",
        ]
        if self.our_assessment is not None:
            said.append(f"Our fit: {self.our_assessment}")
        return " ".join([*said, *self.warnings])


@in_double
def audit_critic(
    critic: Any,
    env: Simulator,
    policy: Policy,
    *,
    budget: int = 100_000,
    ours: bool = True,
    key: Any = 0,
    timeout: float | None = None,
    progress: bool | None = None,
    **options: Any,
) -> CriticAudit:
    """How far a given value function is from the value of `policy`, and where.

    Whole episodes are played that nothing was fitted to; the critic is compared with their returns, whose
    noise is subtracted (`diagnostics.held_out.HeldOutEpisodes`). Our own fit, of other episodes, is judged by
    the same ones.

    Args:
        critic: A function of a batch of states (N, d) to N values, a Stable-Baselines3 model, or an object
            with d3rlpy's `predict_value` (`processes.critics.read_critic`).
        budget: The most steps to simulate in all: two fifths judge, the rest are for our own fit.
        ours: Whether to fit a value of our own beside it.
        timeout: Seconds after which simulation and fit end.
        progress: Whether to tell what goes on, by default where the error stream is a terminal.
        options: For `evaluate_policy`, for our own fit.

    Example:
        >>> import gaussbell as gb
        >>> pole = gb.environments.from_gymnasium("CartPole-v1", discount=0.9, num_envs=4)
        >>> audit = gb.audit_critic(
        ...     lambda states: 0 * states[:, 0], pole, gb.policies.Constant(0), budget=2000, ours=False
        ... )
        >>> audit.assessment.trusted, audit.bias < 0
        (False, True)
    """
    env, budget = read_simulator(env), read_count("budget", budget, 1)
    chosen = read_policy(policy, env.width, env.actions)
    judge_key, act_key, fit_key = jax.random.split(as_key(key), 3)
    values = read_critic(critic, lambda states: choose_all(chosen, states, act_key))
    values(env.reset_states(2, key=act_key))  # a mistake shows before the work
    with Watch(timeout, progress, budget) as watch:
        share = int(AUDITED_SHARE * budget) if ours else budget
        episodes, steps = hold_out_episodes(env, policy, share, key=judge_key, on_progress=watch.simulated)
    found = None
    if ours:
        left = watch.seconds_left
        found = evaluate_policy(
            env, policy, budget=budget - steps, key=fit_key, timeout=left, progress=progress, **options
        )
        steps += found.simulated
    return _compare(values, episodes, found, env.discount, steps)


def _compare(
    critic: HostValues, episodes: HeldOutEpisodes, ours: PolicyEvaluation | None, discount: float, steps: int
) -> CriticAudit:
    judged = episodes.judged_values(critic)
    gaps = judged.value - judged.returned
    bias, error = _clustered(gaps, judged.episode)
    first = judged.age == 0
    starts = judged.returned[first]
    start, start_error = _clustered(starts, np.arange(len(starts)))
    spread = np.var(judged.value)
    shown = np.linspace(0, len(gaps) - 1, min(SHOWN, len(gaps))).astype(int)
    return CriticAudit(
        assessment=_assess(critic, episodes, REMEDY),
        bias=bias,
        bias_interval=_interval(bias, error, len(np.unique(judged.episode))),
        scale=float(np.cov(judged.value, judged.returned)[0, 1] / spread) if spread > 0 else 0.0,
        start=float(judged.value[first].mean()),
        monte_carlo_start=start,
        monte_carlo_interval=_interval(start, start_error, len(starts)),
        by_value=_groups(judged.value, judged, gaps),
        by_age=_groups(judged.age, judged, gaps),
        sample={
            "value": judged.value[shown],
            "returned": judged.returned[shown],
            **({} if ours is None else {"ours": values_at(ours.network, judged.state[shown])}),
        },
        simulated=steps,
        warnings=_other_discount(critic, discount),
        ours=ours,
        our_assessment=None if ours is None else _assess(ours.network, episodes),
    )


def _assess(network: Any, episodes: HeldOutEpisodes, remedy: str | None = None) -> Assessment:
    return judge(
        Checks(0, 0, 0.0),
        remedy=remedy,
        reference=Reference.SIMULATOR,
        estimate=episodes.estimate(network),
        scorer=lambda inputs: episodes.error_at(network, inputs),
    )


def _other_discount(critic: HostValues, discount: float) -> tuple[str, ...]:
    if critic.discount is None or np.isclose(critic.discount, discount):
        return ()
    return (
        f"The critic was made for a discount of {critic.discount:g}, the environment has {discount:g}: give "
        f"from_gymnasium(..., discount={critic.discount:g}) to judge it by its own.",
    )


def _clustered(numbers: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """The mean, and its standard error where numbers of one cluster belong together."""
    mean, which = float(numbers.mean()), np.unique(clusters, return_inverse=True)[1]
    sums = np.bincount(which, numbers - mean)
    if len(sums) < 2:
        return mean, np.inf
    return mean, float(np.linalg.norm(sums) * np.sqrt(len(sums) / (len(sums) - 1)) / len(numbers))


def _interval(mean: float, error: float, count: int) -> tuple[float, float]:
    margin = float(stats.t.ppf((1 + LEVEL) / 2, max(count - 1, 1)) * error)
    return mean - margin, mean + margin


def _groups(by: np.ndarray, judged: Any, gaps: np.ndarray) -> tuple[Group, ...]:
    """Means over groups of equal size."""
    order = np.argsort(by, kind="stable")
    return tuple(
        Group(
            float(by[rows].mean()),
            float(judged.value[rows].mean()),
            float(judged.returned[rows].mean()),
            _clustered(gaps[rows], judged.episode[rows])[1],
            len(rows),
        )
        for rows in np.array_split(order, min(GROUPS, len(order)))
    )
