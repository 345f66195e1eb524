"""What a simulator shows for an evaluation: transitions to fit, and measures of a fit on others.

Two kinds, with the same members. `BoxExperience` starts paths from states all over a box, where the state can
be set. `EpisodeExperience` plays whole episodes from the environment's own starts, which any environment can.
Both keep within a budget of simulated steps, measures included.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from gaussbell.data.horizons import LambdaReturn, read_horizons
from gaussbell.data.thinning import Thinning
from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.held_out import (
    TAIL,
    ErrorEstimate,
    HeldOutPaths,
    error_at,
)
from gaussbell.diagnostics.held_out_episodes import HeldOutEpisodes, hold_out_episodes
from gaussbell.environments.simulator import Simulator, is_random
from gaussbell.networks.features import Concatenate, Features, OneHot, Standardise
from gaussbell.networks.value_function import values_at
from gaussbell.numerics.arguments import host_rng
from gaussbell.processes.policies import Policy
from gaussbell.simulation.episodes import episode_length, gather_episodes
from gaussbell.simulation.monte_carlo import effective_horizon
from gaussbell.simulation.sampling import sample_transitions

CHECKED_SHARE = 0.25
"""Of the budget, for validation; and as much for the error that is returned."""
CHECKED_STATES = (8, 1024)
CHECKS = 250_000
"""Simulated steps of which the checked share is a few hundred paths at a discount of 0.99."""
START_SHARE = 0.05
START_STATES = 500
TRIES = 8
"""A search may try so many numbers of steps, each with the same share of the budget."""
NOISY_SUCCESSORS = 8
WHOLE = 0.01
"""A return is whole if at most this share of the discount is left."""
Q_EXPLORES_EVERY = 0.2
"""For Q-factors an action is drawn at random once in this share of 1 / (1 - discount) steps."""
LEVEL = 0.95
RARE_EVENTS = 2.0
"""How many times farther than the returns of one part of the held-out episodes those of the other may be."""
NO_EVENTS = (
    "All rewards that were met are the same, so an event that is rare would not show. Give a larger budget."
)
FEW_EVENTS = (
    "Rare events decide the error: some held-out episodes show them and others do not. Give a larger budget."
)


class StartValue(NamedTuple):
    """The mean value over the environment's starts, with a 95 % confidence interval.

    Attributes:
        value: Plain Monte-Carlo, or the network's mean corrected by held-out returns, whichever is surer.
        interval: Of that.
        by_network: The network's own mean over starts.
        monte_carlo: The mean return of all episodes.
        monte_carlo_interval: Of that.
        episodes: How many.
    """

    value: float
    interval: tuple[float, float]
    by_network: float
    monte_carlo: float
    monte_carlo_interval: tuple[float, float]
    episodes: int

    def __str__(self) -> str:
        return (
            f"Start value {self.value:.5g} ({self.interval[0]:.5g} to {self.interval[1]:.5g}); by the "
            f"network {self.by_network:.5g}, by {self.episodes:,} returns {self.monte_carlo:.5g} "
            f"({self.monte_carlo_interval[0]:.5g} to {self.monte_carlo_interval[1]:.5g})."
        )


def budget_for(steps: int) -> int:
    """A budget that pays for so many simulated steps of a fit in the box, and for good checks beside them."""
    return 3 * steps + CHECKS


class BoxExperience:
    """Paths from states all over a box, or from states that a function draws."""

    def __init__(
        self,
        env: Simulator,
        policy: Policy,
        budget: int,
        *,
        key: Any,
        q: bool,
        successors: int | None,
        states: Callable[[int, Any], Any] | None,
        max_transitions: int,
        searching: bool,
    ):
        self._env, self._policy, self._q, self._states = env, policy, q, states
        self.noisy = is_random(env, policy)
        self._successors = successors or (NOISY_SUCCESSORS if self.noisy else 1)
        self._fit_key, check_key, final_key, self._start_key = jax.random.split(key, 4)
        horizon, paths = effective_horizon(env.discount, TAIL), 1 + self.noisy
        count = int(np.clip(CHECKED_SHARE * budget // (horizon * paths), *CHECKED_STATES))
        self.validating, self._final = (
            HeldOutPaths(env, policy, count, key=k, q=q, states=states) for k in (check_key, final_key)
        )
        self._max_transitions, self._budget = max_transitions, budget
        self._start_budget = int(START_SHARE * budget)
        left = budget - self.validating.cost - self._final.cost - self._start_budget
        self._share = max(left, budget // 2) // (TRIES if searching else 1)
        self.simulated = self.validating.cost + self._final.cost
        self.double_sampling = self.noisy and self._successors == 1
        self.features: Features | None = None
        self.longest = effective_horizon(env.discount, WHOLE)

    def fits(self, n_step: int | LambdaReturn) -> int:
        """How many transitions of `n_step` a fit may have."""
        cost = int(read_horizons(n_step)[-1]) * self._successors
        spent = self._budget - self.simulated
        return min(self._share // cost, spent // cost, self._max_transitions)

    def transitions(self, n_step: int | LambdaReturn, most: int) -> Transitions:
        """Transitions to fit, at most so many."""
        size, cost = min(most, self.fits(n_step)), int(read_horizons(n_step)[-1]) * self._successors
        if size < 1:
            raise ValueError(
                f"budget={self._budget}: one transition of {cost} simulated steps does not fit, beside the "
                "paths that check the value; give more."
            )
        self.simulated += size * cost
        state = None if self._states is None else self._states(size, self._fit_key)
        return sample_transitions(
            self._env,
            self._policy,
            size,
            key=self._fit_key,
            n_step=n_step,
            q=self._q,
            successors=self._successors,
            state=state,
        )

    def validation_error(self, network: Any) -> float:
        """For choosing among fits."""
        return self.validating.estimate(network).error

    def estimate(self, network: Any) -> ErrorEstimate:
        """The error of a fit, on paths that served for nothing else."""
        return self._final.estimate(network)

    def error_at(self, network: Any, inputs: Any) -> np.ndarray:
        """The error at single states."""
        return error_at(network, self._env, self._policy, inputs, key=self._start_key, q=self._q)

    def start_value(self, network: Any) -> StartValue | None:
        """The value at the starts, by paths from them; None for Q-factors and where starts are not known."""
        horizon = effective_horizon(self._env.discount, WHOLE)
        count = self._start_budget // horizon
        if self._q or self._env.nominal_start is None or count < 2:
            return None
        self.simulated += count * horizon
        start = self._env.reset_states(START_STATES, key=self._start_key)
        paths = self._env.simulate(self._policy, start[:count], [horizon], key=self._start_key)
        ends = values_at(network, np.asarray(paths.next_state[0]))
        returns = np.asarray(paths.reward[0]) + np.asarray(paths.discount[0]) * ends
        values = values_at(network, start)
        return combine_starts(values, returns, values[:count] - returns)


class EpisodeExperience:
    """Whole episodes from the environment's own starts: some to fit, some to validate, some to measure by."""

    def __init__(
        self,
        env: Simulator,
        policy: Policy,
        budget: int,
        *,
        key: Any,
        q: bool,
        max_transitions: int,
        on_progress: Callable[[int], Any] | None = None,
    ):
        self._env, self._policy, self._q = env, policy, q
        self._key = key
        self.noisy = is_random(env, policy)
        keys = jax.random.split(key, 4)
        self._start_key = keys[3]
        self.simulated = 0

        def tell(steps: int) -> bool:
            return on_progress is not None and bool(on_progress(self.simulated + steps))

        held_out = []
        for k, twins in ((keys[0], False), (keys[1], True)):
            episodes, steps = hold_out_episodes(
                env, policy, int(CHECKED_SHARE * budget), key=k, q=q, twins=twins, on_progress=tell
            )
            held_out.append(episodes)
            self.simulated += steps
        self.validating, self._final = held_out
        left = budget - self.simulated
        if q:
            horizon = max(1, int(Q_EXPLORES_EVERY / (1 - env.discount)))
            self.log = env.log(policy, left, key=keys[2], explore=1 / horizon)
        else:
            # Past a time limit as well: values before it depend on what comes after it.
            length = episode_length(env) + effective_horizon(env.discount, TAIL)
            self.log = gather_episodes(
                env, policy, left, length=length, key=keys[2], past_limit=True, on_progress=tell
            )
        self.simulated += len(self.log)
        self.logged = len(self.log)
        self._max_transitions = max_transitions
        inputs = np.column_stack([self.log.state, self.log.action]) if q else self.log.state
        made = env.features(q=q)
        self.features = made if isinstance(made, OneHot | Concatenate) else Standardise.of(inputs)
        made = self.features(jnp.asarray(inputs))
        self._thinning = Thinning(np.asarray(made), seed=host_rng(keys[2]))
        self.double_sampling = self.noisy  # held-out returns tell how much it matters
        self.longest = int(self.log.age.max()) + 1

    def fits(self, n_step: int) -> int:
        """How many transitions a fit may have: as many for every n_step, all along the same episodes."""
        return min(self._max_transitions, self.logged)

    def transitions(self, n_step: int | LambdaReturn, most: int) -> Transitions:
        """Transitions to fit, at most so many, drawn over all steps of all episodes."""
        chosen = {"policy": self._policy, "key": self._key} if self._q else {}
        rows, weight = self._thinning(most)
        data = self.log.transitions(discount=self._env.discount, n_step=n_step, rows=rows, **chosen)
        return data.reweighted(weight / weight.sum())

    def validation_error(self, network: Any) -> float:
        """For choosing among fits."""
        return self.validating.validation_error(network)

    def estimate(self, network: Any) -> ErrorEstimate:
        """The error of a fit, by episodes that served for nothing else.

        Where those that validated are much farther from it, rare events decide, and a few episodes cannot
        tell how large the error is; nor can they where chance rules and all rewards are the same.
        """
        found, seen = self._final.estimate(network), self.validating.validation_error(network)
        rewards = (self._final.log.reward, self.validating.log.reward, self.log.reward)
        if self.noisy and max(map(np.max, rewards)) == min(map(np.min, rewards)):
            return found._replace(caveat=found.caveat or NO_EVENTS)
        if seen <= RARE_EVENTS * self._final.validation_error(network):
            return found
        return found._replace(high=max(found.high, seen), caveat=found.caveat or FEW_EVENTS)

    def error_at(self, network: Any, inputs: Any) -> np.ndarray:
        """The error at single states, by the held-out episodes that came near them."""
        return self._final.error_at(network, inputs)

    def start_value(self, network: Any) -> StartValue | None:
        """The value at the starts of episodes; None for Q-factors and processes without episodes."""
        if self._q or self._env.ending != "end":
            return None
        parts = (self._final, self.validating, HeldOutEpisodes(self.log, self._env.discount))
        returns = [part.returns(network)[part.log.age == 0] for part in parts]
        gaps = [values_at(network, part.log.starts) - own for part, own in zip(parts, returns, strict=True)]
        start = self._env.reset_states(START_STATES, key=self._start_key)
        values = values_at(network, start)
        return combine_starts(values, np.concatenate(returns), gaps[0], np.concatenate(gaps).std(ddof=1))


def combine_starts(
    values: np.ndarray, returns: np.ndarray, gaps: np.ndarray, least_deviation: float = 0.0
) -> StartValue | None:
    """The value at the starts: network's values at many, all returns, its errors on held-out ones.

    Plain Monte-Carlo is unbiased, and so is the network's mean less its mean error on held-out starts. The
    surer one is taken: the latter where starts differ more than returns from one start do. The gaps count as
    deviating at least by `least_deviation`: a few of them may lack a rare event that others show.
    """
    if len(returns) < 2 or len(gaps) < 2:
        return None
    plain, plain_error = returns.mean(), returns.std(ddof=1) / np.sqrt(len(returns))
    corrected = values.mean() - gaps.mean()
    deviation = max(gaps.std(ddof=1), least_deviation)
    corrected_error = np.hypot(values.std(ddof=1) / np.sqrt(len(values)), deviation / np.sqrt(len(gaps)))
    surer = corrected_error < plain_error
    value, error, count = (
        (corrected, corrected_error, len(gaps)) if surer else (plain, plain_error, len(returns))
    )

    def interval(mean: float, deviation: float, count: int) -> tuple[float, float]:
        margin = stats.t.ppf((1 + LEVEL) / 2, count - 1) * deviation
        return float(mean - margin), float(mean + margin)

    return StartValue(
        float(value),
        interval(value, error, count),
        float(values.mean()),
        float(plain),
        interval(plain, plain_error, len(returns)),
        len(returns),
    )
