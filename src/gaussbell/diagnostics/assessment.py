"""How far can a value be trusted? One Assessment for every kind of evaluation, from the best reference.

A small residual is no answer: values between the samples, and of samples that no chain of others ties to a
reward, are free. Other references know more, the better the earlier: the model of a finite process, a
simulator, held-out data, and the data themselves, asked without the network.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.checks import Checks, check
from gaussbell.diagnostics.gptd import gptd
from gaussbell.diagnostics.held_out import (
    NOISY_PATHS,
    TAIL,
    ErrorEstimate,
    HeldOutPaths,
    error_at,
    error_estimate,
    long_targets,
)
from gaussbell.diagnostics.held_out_episodes import hold_out_episodes
from gaussbell.diagnostics.neighbours import nearest_neighbour_averager, neighbour_values, successors_of
from gaussbell.environments.simulator import Simulator, is_random, read_simulator
from gaussbell.networks import encodings
from gaussbell.networks.value_function import values_at
from gaussbell.numerics.arguments import as_key, host_rng, read_concrete
from gaussbell.numerics.precision import double_throughout
from gaussbell.optimise.solution import Solution, Status
from gaussbell.processes.markov_chain import MarkovChain, discounted_sum
from gaussbell.processes.policies import Policy
from gaussbell.simulation.episodes import episode_length
from gaussbell.simulation.monte_carlo import effective_horizon

TOLERABLE = 0.3
"""An error of this share of the value's standard deviation is the largest that is trusted."""
NEGLIGIBLE = 1e-3
"""An error of this share of the value itself is trusted too, however little the value varies."""
REMEDY = "Add samples, a longer n_step, solver steps, or a larger network."
HELD_OUT_STATES, HELD_OUT_EPISODES = 512, 50
NEIGHBOURS = (1, 2, 4, 8)
"""Averages over so many nearest samples are the references of the data alone."""
BETWEEN = 4
"""Queries lie halfway between a sample and one of this many nearest to it."""
MOST_QUERIES = 2000
BROKEN = (Status.DIVERGED, Status.NOT_FINITE_AT_START)


class Reference(enum.StrEnum):
    """What an error was measured against."""

    MODEL = "the model"
    SIMULATOR = "a simulator"
    HELD_OUT = "held-out data"
    DATA = "the data alone"
    NONE = "nothing but checks"


@dataclasses.dataclass(frozen=True)
class Assessment:
    """A judgement of a fitted value, with reasons.

    Attributes:
        trusted: True, False, or None where the reference cannot tell.
        reasons: What speaks against the value, in sentences with a remedy; none if it is trusted.
        reference: What was asked.
        checks: The checks of the data behind the fit.
        value_error: The estimated root mean squared error of the value; None if only checks were made.
        interval: The 95 % confidence interval of that; from the data alone, the smallest and the largest of
            several estimates.
        spread: The standard deviation of the value over the same states.
        over: Which states these are.
    """

    trusted: bool | None
    reasons: tuple[str, ...]
    reference: Reference
    checks: Checks
    value_error: float | None = None
    interval: tuple[float, float] | None = None
    spread: float | None = None
    over: str | None = None
    scorer: Callable[[np.ndarray], np.ndarray] | None = dataclasses.field(default=None, repr=False)

    @property
    def relative_error(self) -> float | None:
        """The error in standard deviations of the value: 1 is no better than a constant."""
        if self.value_error is None or self.spread is None:
            return None
        if self.value_error == 0:
            return 0.0
        return self.value_error / self.spread if self.spread > 0 else np.inf

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should read before using the value: the reasons against it."""
        return self.reasons

    @double_throughout
    def per_state(self, states: Any) -> Float[np.ndarray, " K"]:
        """The estimated absolute error of the value at states (K, d); for Q-factors with the action appended.

        With a model the state's numbers (K,) are enough, and the error is exact.
        """
        if self.scorer is None:
            raise ValueError(
                "states: this assessment made checks only; gaussbell.assess(solution, data) estimates errors."
            )
        return self.scorer(read_concrete("states", states))

    def to_dict(self) -> dict[str, Any]:
        """The assessment as plain data."""
        return {
            "trusted": self.trusted,
            "reasons": list(self.reasons),
            "reference": str(self.reference),
            "value_error": self.value_error,
            "interval": None if self.interval is None else list(self.interval),
            "spread": self.spread,
            "over": self.over,
            "relative_error": self.relative_error,
            "sentence": str(self),
            "checks": self.checks.to_dict(),
        }

    @staticmethod
    def from_dict(plain: dict[str, Any]) -> "Assessment":
        """The assessment that `to_dict` described, without its scores of single states."""
        known = {field.name for field in dataclasses.fields(Checks)}
        checks = {name: value for name, value in plain["checks"].items() if name in known}
        interval = plain.get("interval")
        return Assessment(
            plain["trusted"],
            tuple(plain["reasons"]),
            Reference(plain["reference"]),
            Checks(**checks),
            plain.get("value_error"),
            None if interval is None else (interval[0], interval[1]),
            plain.get("spread"),
            plain.get("over"),
        )

    def __str__(self) -> str:
        words = {True: "trusted", False: "not trusted", None: "cannot tell"}[self.trusted]
        said = [f"{words}:"]
        if self.value_error is not None and self.interval is not None:
            low, high = self.interval
            said.append(
                f"by {self.reference}, over {self.over or 'unnamed states'}, the value is off by "
                f"{self.value_error:.2g} ({low:.2g} to {high:.2g}), "
                f"{self.relative_error:.2g} of its standard deviation."
            )
        elif self.checks.sup_norm_bound is not None:
            said.append(bound_sentence(self.checks.sup_norm_bound))
        elif not self.reasons:
            said.append("no check speaks against the value; no error was estimated.")
        return " ".join([*said, *self.reasons])


def bound_sentence(bound: float) -> str:
    """What is certain about the values of a finite process."""
    return f"No value is off by more than {bound:.2g}."


def judge(
    checks: Checks,
    *,
    status: Any = None,
    reference: Reference = Reference.NONE,
    estimate: ErrorEstimate | None = None,
    scorer: Callable[[np.ndarray], np.ndarray] | None = None,
    remedy: str | None = None,
) -> Assessment:
    """The assessment that checks and an estimated error amount to; `remedy` says what a fit would need."""
    said = [f"The fit is {status}."] if status in BROKEN else []
    if estimate is None:
        reasons = (*said, *checks.warnings)
        return Assessment(False if reasons else None, reasons, reference, checks)
    if not estimate.error <= max(TOLERABLE * estimate.spread, NEGLIGIBLE * estimate.size):
        said.append(
            f"The error is estimated at more than {TOLERABLE:g} standard deviations of the value itself. "
            f"{remedy or REMEDY}"
        )
    # What a model or a simulator has measured to be right is right, whatever the data look like.
    unseen = reference is Reference.DATA and checks.reward_coverage == 0
    reasons = (*said, *checks.warnings) if said or unseen else ()
    caveats = () if estimate.caveat is None else (estimate.caveat,)
    return Assessment(
        False if reasons else None if caveats else True,
        reasons + caveats,
        reference,
        checks,
        estimate.error,
        (estimate.low, estimate.high),
        estimate.spread,
        estimate.over,
        scorer,
    )


def judge_chain(checks: Checks, values: np.ndarray, status: Any) -> Assessment:
    """The assessment of a fit to a finite chain: trusted where the bound of its errors alone is small."""
    found = dataclasses.replace(judge(checks, status=status), reference=Reference.MODEL)
    small = checks.sup_norm_bound is not None and checks.sup_norm_bound <= TOLERABLE * float(np.std(values))
    return dataclasses.replace(found, trusted=True) if small and not found.reasons else found


@double_throughout
def assess(
    solution: Any,
    data: Transitions | MarkovChain,
    *,
    env: Simulator | None = None,
    policy: Policy | None = None,
    held_out: Transitions | None = None,
    features: Any = None,
    states: Callable[[int, Any], Any] | None = None,
    key: PRNGKeyArray | int = 0,
) -> Assessment:
    """Ask the best reference at hand how far a fitted value is off, state by state and as a whole.

    On a finite process, `data` is its chain, and the answer is exact. With a simulator, paths are followed
    from fresh states until a tenth of the discount is left: their residual is an error of the value. With
    `held_out` transitions of many steps, the same is done for them. From the data alone there are two
    references: nearest-neighbour averagers, believed as far as values are reward-grounded, and
    Gaussian-process TD (GPTD) where they are not. What neither can see are rewards that no transition has
    met.

    Args:
        solution: Or its network.
        data: What it was fitted to.
        env, policy: A simulator.
        held_out: Transitions that no fit has seen.
        features: (K, d), the inputs of a chain's states.
        states: A function of a number and a key that draws the states that count, by default uniformly from
            the environment's box, or from between the samples.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> data = gb.sample_transitions(car, car.along_velocity, 50)
        >>> network = gb.MLP((2, 10, 10, 1))  # or what `evaluate` returned
        >>> by_data = gb.assess(network, data)
        >>> by_simulator = gb.assess(network, data, env=car, policy=car.along_velocity)
        >>> by_data.trusted, by_simulator.trusted, by_data.per_state(data.state[:3]).shape
        (False, False, (3,))
    """
    network = solution.network if isinstance(solution, Solution) else solution
    status = solution.status if isinstance(solution, Solution) else None
    if (env is None) != (policy is None):
        raise ValueError("env and policy go together: a simulator needs to know what to do.")
    if features is not None and not isinstance(data, MarkovChain):
        raise ValueError("features: they belong to the states of a finite chain; leave them out.")
    checks = check(network, data, features=features)
    if isinstance(data, MarkovChain):
        reference, estimate, scorer = Reference.MODEL, *_by_model(network, data, features)
    elif env is not None and policy is not None:
        reference = Reference.SIMULATOR
        estimate, scorer = _by_simulator(network, data, read_simulator(env), policy, states, key)
    else:
        alone = _DataAlone(network, data)
        if held_out is not None:
            reference, estimate, scorer = Reference.HELD_OUT, _by_held_out(network, held_out), alone
        else:
            reference, estimate, scorer = Reference.DATA, alone.estimate(states, key), alone
    return judge(checks, status=status, reference=reference, estimate=estimate, scorer=scorer)


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

    return ErrorEstimate(error, error, error, float(chain.values.std()), "all states alike"), score


def _by_simulator(
    network: Any, data: Transitions, env: Simulator, policy: Policy, states: Any, key: Any
) -> tuple[ErrorEstimate, Callable[[np.ndarray], np.ndarray]]:
    q = data.action is not None
    if states is None and not env.starts_anywhere and not q:
        budget = HELD_OUT_EPISODES * (episode_length(env) + effective_horizon(env.discount, TAIL))
        episodes, _ = hold_out_episodes(env, policy, budget, key=key)
        return episodes.estimate(network), lambda inputs: episodes.error_at(network, inputs)
    many = NOISY_PATHS // 8 if is_random(env, policy) else 1
    paths = HeldOutPaths(env, policy, HELD_OUT_STATES, key=key, q=q, states=states, paths=many)
    return paths.estimate(network), lambda inputs: error_at(network, env, policy, inputs, key=key, q=q)


def _by_held_out(network: Any, data: Transitions) -> ErrorEstimate:
    """The residual on data that no fit has seen, as an error of the value.

    Single steps say little: their residual is divided by 1 - discount.
    """
    remaining = successors_of(data)[1].sum(axis=1)
    errors = (values_at(network, data.inputs) - long_targets(network, data)) / (1 - remaining)
    return error_estimate(errors**2, float(long_targets(network, data).std()), "the held-out transitions")


class _DataAlone:
    """What the data themselves say about the value: references that need no network."""

    def __init__(self, network: Any, data: Transitions):
        self._network, self._data = network, data
        self._chains = neighbour_values(data)
        self._averages = [nearest_neighbour_averager(data, count) for count in NEIGHBOURS]
        self._smooth = gptd(data)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        by_averages, by_smooth, grounded = self._opinions(inputs)
        return np.sqrt(grounded * (by_averages**2).mean(axis=0) + (1 - grounded) * by_smooth**2)

    def _opinions(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How far off the network is by each average, and by the smooth value; and how far averages count."""
        values = values_at(self._network, inputs)
        averages = np.stack([values - average(inputs) for average in self._averages])
        mean, doubt = self._smooth(inputs)
        grounded = self._chains.reward_grounded[self._chains.nearest(inputs)]
        return averages, np.hypot(values - mean, doubt), grounded

    def estimate(self, states: Any, key: Any) -> ErrorEstimate:
        inputs = self._between(key) if states is None else np.asarray(states(MOST_QUERIES, as_key(key)))
        by_averages, by_smooth, grounded = self._opinions(inputs)
        opinions = [
            float(np.sqrt(np.mean(grounded * one**2 + (1 - grounded) * by_smooth**2))) for one in by_averages
        ]
        error = float(np.sqrt(np.mean(self(inputs) ** 2)))
        spread = float(values_at(self._network, inputs).std())
        over = "points between the samples" if states is None else "the states that were drawn"
        return ErrorEstimate(error, min(opinions), max(opinions), spread, over)

    def _between(self, key: Any) -> np.ndarray:
        """Points halfway between samples that are near each other, where values are free to be anything."""
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
