"""Checks of a fitted value, each with one formula: cheap ones, from the network and its data alone."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gaussbell.bellman import BellmanProblem, bellman_problem
from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.jacobian_spectra import spectrum_of
from gaussbell.diagnostics.neighbours import NeighbourValues, neighbour_values, successors_of
from gaussbell.networks.value_function import network_values
from gaussbell.numerics.compilation import compiled_in_haste
from gaussbell.numerics.precision import in_double
from gaussbell.processes.markov_chain import MarkovChain

MOST_WORK = 2e8
"""Transitions times parameters times the smaller of both, up to which singular values are computed."""
MOST_FOLLOWED = 20_000
"""Up to so many transitions chains of neighbours are followed; of more, so many are drawn."""
GROUNDED = 0.5
"""A transition of whose value less than this share comes from rewards in the data is not reward-grounded."""
SPARSE = 0.5
"""Rewards are sparse if one of them makes up at least this share: only the others tell values apart."""
MANY = 0.2
"""A share of transitions that is worth a warning."""
FEW_VALUES = 0.01
REWARD_SLACK, ROUNDING_SLACK = 0.5, 1e-3
"""How far values may leave the range that rewards allow: shares of the rewards' range, and of its far end."""
FAR = 3.0
"""A successor is out of support if it is so many times farther from the data than these from each other."""
VAST = 100
"""Standard deviations beyond which a disagreement is not told in figures: the value hardly varies."""
LEAST_MATCH = 0.05
LOW_CORRELATION = 0.3


@dataclasses.dataclass(frozen=True)
class Checks:
    """What a fit's data say about it; None for what was not asked, or makes no sense there.

    Attributes:
        num_transitions: Transitions, or states of a chain, that were fitted.
        num_parameters: Parameters that were fitted to them.
        out_of_range: The share of values beyond what the rewards can add up to.
        rank: Of the Bellman Jacobian; None where that would take long.
        condition: Its condition number.
        effective_rank: Its effective rank.
        sup_norm_bound: Of a finite chain: |residual|_inf / (1 - discount), which bounds every value's error.
        sparse_rewards: Does one reward make up at least half of the data?
        reward_grounded: The share of transitions whose value comes from rewards that the data show, along
            chains of successors that the data can tell from where they came.
        reward_coverage: The share of transitions from which a chain meets a reward other than the commonest.
        duplicates: Transitions that repeat another's state (and action).
        out_of_support: The share of successors far from any state (and action) in the data.
        action_match_rate: The share of logged actions that the evaluated policy would have taken.
        mean_n_step: How many steps a transition spans before the log leaves the policy.
        neighbour_value: The start value by nearest neighbours, without a network.
        disagreement: Its distance from the estimate, in standard deviations of the neighbours' values.
        return_correlation: Of Q-factors with the returns of roll-outs.
        double_sampling: Is the process stochastic, and does each transition have a single successor?
        start_out_of_range: Is the value at a start beyond what the rewards can add up to?
    """

    num_transitions: int
    num_parameters: int
    out_of_range: float
    rank: int | None = None
    condition: float | None = None
    effective_rank: float | None = None
    sup_norm_bound: float | None = None
    sparse_rewards: bool | None = None
    reward_grounded: float | None = None
    reward_coverage: float | None = None
    duplicates: int | None = None
    out_of_support: float | None = None
    action_match_rate: float | None = None
    mean_n_step: float | None = None
    neighbour_value: float | None = None
    disagreement: float | None = None
    return_correlation: float | None = None
    double_sampling: bool | None = None
    start_out_of_range: bool | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against the values, in sentences with a remedy."""
        said = []
        if self.reward_coverage == 0:
            said.append(
                "No chain of transitions reaches a second reward: if there is one, the value cannot be known "
                "from these data. Add samples or a longer n_step."
            )
        elif self.sparse_rewards and self.reward_grounded is not None and self.reward_grounded < 1 - MANY:
            said.append(
                f"{1 - self.reward_grounded:.0%} of the transitions are not reward-grounded, however small "
                "the residual: their successors cannot be told from where they came. Add samples or a longer "
                "n_step."
            )
        if self.out_of_range > FEW_VALUES:
            said.append(
                f"{self.out_of_range:.0%} of the values are beyond what the rewards can add up to. Add "
                "samples or a longer n_step."
            )
        if self.start_out_of_range:
            said.append(
                "The value at the start is beyond what the rewards can add up to: a spike there hides a "
                "wrong value elsewhere. Add start or visited states to the data, or a longer n_step."
            )
        if self.out_of_support is not None and self.out_of_support > MANY:
            said.append(
                f"{self.out_of_support:.0%} of the successors are out of support: far from any logged state "
                "and action. Add data that cover what the policy does."
            )
        if self.action_match_rate is not None and self.action_match_rate < LEAST_MATCH:
            said.append(
                f"Only {self.action_match_rate:.1%} of the logged actions match the policy's. Add data of a "
                "policy nearer to it."
            )
        if self.disagreement is not None and self.disagreement > 1:
            far = f"{self.disagreement:.1f}" if self.disagreement < VAST else f"more than {VAST}"
            said.append(
                f"Nearest neighbours put the value at {self.neighbour_value:.4g}, {far} of their "
                "standard deviations away. Add data, or solver steps."
            )
        if self.double_sampling:
            said.append(
                "The process is stochastic and each transition has one successor: the fit has "
                "double-sampling bias. Draw several (successors=8) where states can be set, or take a "
                "longer n_step."
            )
        if self.return_correlation is not None and self.return_correlation < LOW_CORRELATION:
            said.append(
                f"Q correlates by {self.return_correlation:.2f} with the returns of roll-outs: it ranks "
                "actions at best, it is no value. Evaluate the policy with gaussbell.evaluate_policy."
            )
        return tuple(said)

    @property
    def facts(self) -> tuple[str, ...]:
        """What is known about the fit, in short."""
        said = [f"{self.num_parameters} parameters for {self.num_transitions} transitions"]
        if self.rank is not None and self.effective_rank is not None:
            said.append(f"Jacobian of rank {self.rank}, effectively {self.effective_rank:.0f}")
        return tuple(said)

    def to_dict(self) -> dict[str, Any]:
        """Every check by its name."""
        return dataclasses.asdict(self)


def value_range(reward: Any, discount: Any) -> tuple[float, float]:
    """The smallest and largest value that transitions allow, with some slack for rewards between them.

    If v(s') is at most M then v(s) = reward + discount v(s') is, for every M >= reward / (1 - discount).
    Transitions without discount say nothing.
    """
    reward, discount = np.asarray(reward, float), np.asarray(discount, float)
    told = discount < 1
    if not told.any():
        return -np.inf, np.inf
    ends = reward[told] / (1 - discount[told])
    slack = REWARD_SLACK * np.ptp(reward) + ROUNDING_SLACK * np.abs(ends).max()
    return float(ends.min() - slack), float(ends.max() + slack)


def out_of_range(values: Any, bounds: tuple[float, float]) -> float:
    """The share of values beyond the bounds."""
    values, (low, high) = np.asarray(values), bounds
    return float(((values < low) | (values > high)).mean())


def neighbour_checks(data: Transitions) -> tuple[dict[str, Any], NeighbourValues]:
    """What chains of neighbours through the data say of rewards and support, and the chains themselves."""
    chains = neighbour_values(some_of(data))
    counts = np.unique(np.asarray(data.reward), return_counts=True)[1]
    seen = {
        "sparse_rewards": bool(counts.max() >= SPARSE * len(data)),
        "reward_grounded": float((chains.reward_grounded >= GROUNDED).mean()),
        "reward_coverage": float(chains.reaches_reward.mean()),
    }
    return seen, chains


def some_of(data: Transitions) -> Transitions:
    """The transitions, or as many of them as chains of neighbours are followed through."""
    if len(data) <= MOST_FOLLOWED:
        return data
    return data.take(np.sort(np.random.default_rng(0).choice(len(data), MOST_FOLLOWED, replace=False)))


@in_double
def check(
    network: Any, data: Transitions | MarkovChain, *, features: Any = None, weight: Any = None
) -> Checks:
    """The cheap checks of a network on the data it was fitted to, with the rank of its Jacobian.

    `evaluate` makes all but the rank: to compile a Jacobian takes half a second.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> data = gb.sample_transitions(car, car.along_velocity, 100)
        >>> seen = gb.diagnostics.check(gb.MLP((2, 10, 10, 1)), data)
        >>> seen.num_parameters, seen.num_transitions, seen.reward_grounded < 0.1
        (151, 100, True)
    """
    problem = bellman_problem(network, data, features=features, weight=weight)
    return check_problem(problem, problem.pack(network), data, with_rank=True)


def check_problem(
    problem: BellmanProblem, x: Any, data: Transitions | MarkovChain, *, with_rank: bool
) -> Checks:
    """The cheap checks of parameters, as a problem packs them."""
    size, parameters = len(problem.target), len(x)
    small = with_rank and size * parameters * min(size, parameters) <= MOST_WORK
    values, jacobian = (np.asarray(part) for part in _look(problem, jnp.asarray(x, jnp.float64), small))
    seen: dict[str, Any] = {"num_transitions": size, "num_parameters": parameters}
    if small and np.isfinite(jacobian).all():
        spectrum = spectrum_of(jacobian)
        seen |= {
            "rank": spectrum.rank,
            "condition": spectrum.condition,
            "effective_rank": spectrum.effective_rank,
        }
    if isinstance(data, MarkovChain):
        seen["sup_norm_bound"] = float(np.abs(data.residual(values)).max() / (1 - data.discount))
        bounds = value_range(data.reward, np.full(len(data.reward), data.discount))
    else:
        seen |= neighbour_checks(data)[0]
        values = values[: len(data)]
        bounds = value_range(data.reward, successors_of(data)[1].sum(axis=1))
    return Checks(out_of_range=out_of_range(values, bounds), **seen)


@compiled_in_haste
def _look(
    problem: BellmanProblem, x: Float[Array, " n"], with_jacobian: bool
) -> tuple[Float[Array, " K"], Float[Array, "m n"]]:
    """The values at all inputs, and the Bellman Jacobian, or nothing in its place."""
    values = network_values(problem.network(x), problem.inputs)
    return values, problem.linearise(x).jacobian() if with_jacobian else jnp.zeros((0, 0))
