"""Whole episodes that no fit has seen: what the values of visited states are off by."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.spatial import KDTree

from gaussbell.data.logs import Log
from gaussbell.diagnostics.held_out import TAIL, ErrorEstimate, error_estimate
from gaussbell.environments.simulator import Simulator, is_random
from gaussbell.networks.features import Standardise
from gaussbell.networks.value_function import values_at
from gaussbell.numerics.arguments import as_key
from gaussbell.processes.policies import Policy, choose_all, read_policy
from gaussbell.simulation.episodes import (
    Twins,
    discounted_ahead,
    episode_length,
    gather_episodes,
    gather_twins,
)
from gaussbell.simulation.monte_carlo import effective_horizon

MOST_JUDGED = 0.5
"""At least this share of the visited states must have returns that are nearly whole."""
SHORT_RETURNS = (
    "Episodes are cut before their returns are whole, so the error is known at {share:.0%} of the visited "
    "states only. Raise the environment's own time limit, or take a smaller discount."
)
ONE_EPISODE = "Only one held-out episode is long enough to judge by. Give a larger budget."
NOT_REPEATED = (
    "Returns are noisy and no state could be continued twice, so noise and error cannot be told apart: the "
    "interval reaches from one to the other."
)
SMALLEST_SPREAD = 1e-3
"""Of the variance of returns, where noise makes up all of it."""
NEIGHBOURS_ASKED, NEIGHBOURS_AVERAGED = 32, 16
TWIN_SHARE = 0.5
"""Of the steps of held-out episodes, for second continuations, where returns are random."""
TINY = 1e-12


class LoggedReturns:
    """The returns along a log's episodes, and how much of the discount is left where they were cut."""

    def __init__(self, log: Log, discount: float):
        self._next_state = log.next_state
        rows, self._cut = np.arange(len(log)), np.flatnonzero(log.episode[1:] != log.episode[:-1])
        self._cut = np.append(self._cut, len(log) - 1)
        self._episode = np.searchsorted(self._cut, rows)
        ends = self._cut[self._episode]
        self.remaining = np.where(log.terminated[ends], 0.0, discount ** (ends - rows + 1.0))
        self._rewards = discounted_ahead(log, log.reward, discount)

    def __call__(self, network: Any) -> Float[np.ndarray, " N"]:
        """What each step's state is worth: its rewards and, where an episode was cut, the network's value."""
        values = values_at(network, self._next_state[self._cut])
        return self._rewards + self.remaining * values[self._episode]


class JudgedValues(NamedTuple):
    """Visited states, where they stand in which episode, their values by a network, and their returns."""

    state: np.ndarray
    age: np.ndarray
    episode: np.ndarray
    value: np.ndarray
    returned: np.ndarray


class HeldOutEpisodes:
    """Whole episodes that no fit has seen: their returns are what the values of visited states should be.

    A return differs from the value by noise, if the process or the policy is random: the mean square of
    f(s) - G is then too large. With `twins`, second continuations from some of the states, the product of
    the two differences has no noise,

        E[(f(s) - G)(f(s) - G')] = (f(s) - V(s))^2,

    and what the states without a twin say about the mean square makes it surer (a control variate). The
    product with the mean difference at near states of other episodes has no noise either, and is known much
    better, but is too small as far as the error differs between near states. The two are weighted by their
    standard errors, the second one's enlarged by what they differ beyond chance. Where no twins can be had,
    the estimate lies between the second and the mean square: the nearer to that the farther near states are.

    Args:
        limit: States are judged up to this age; what comes later only makes returns whole. None for all.
        noisy: Are returns random?
    """

    def __init__(
        self,
        log: Log,
        discount: float,
        *,
        limit: int | None = None,
        noisy: bool = False,
        twins: Twins | None = None,
    ):
        self.log, self.returns = log, LoggedReturns(log, discount)
        remaining = self.returns.remaining
        visited = np.ones(len(log), bool) if limit is None else log.age < limit
        self._judged = visited & (remaining <= TAIL)
        share = self._judged.sum() / visited.sum()
        self._caveat = SHORT_RETURNS.format(share=share) if share < MOST_JUDGED else None
        if not self._judged.any():
            self._judged = visited & (remaining <= remaining[visited].min())
        self._twins = twins if noisy else None
        self._twin_returns = None if self._twins is None else LoggedReturns(self._twins.log, discount)
        self._near = _Near(log, self._judged) if noisy else None
        episodes = len(np.unique(log.episode[self._judged]))
        self._caveat = ONE_EPISODE if episodes < 2 else self._caveat
        self.over = f"{int(self._judged.sum()):,} visited states of {episodes:,} held-out episodes"

    def validation_error(self, network: Any) -> float:
        """The root mean squared difference from the returns, their noise included: for comparing fits."""
        gaps = self._gaps(network)[0]
        return float(np.sqrt(np.mean(gaps[self._judged] ** 2)))

    def estimate(self, network: Any) -> ErrorEstimate:
        """How far off the network's values are at visited states, noise subtracted."""
        gaps, returns = self._gaps(network)
        judged, clusters = self._judged, self.log.episode[self._judged]
        squares, variance = gaps[judged] ** 2, float(returns[judged].var())
        plain = error_estimate(squares, np.sqrt(variance), self.over, self._caveat, clusters)
        plain = plain._replace(size=float(np.sqrt(np.mean(returns[judged] ** 2))))
        if self._near is None or not np.isfinite(plain.deviation):
            return plain
        products = gaps[judged] * self._near.mean(gaps)[judged]
        smooth = error_estimate(products, plain.spread, self.over, self._caveat, clusters)
        noise = plain.square - smooth.square
        if self._twins is None:
            between = products + self._near.far[judged] / 2 * (squares - products)
            found = error_estimate(between, plain.spread, self.over, self._caveat or NOT_REPEATED, clusters)
            found = found._replace(low=min(found.low, smooth.low), high=max(found.high, plain.high))
        else:
            by_twins, noise = self._by_twins(network, gaps, plain)
            beyond = max((by_twins.square - smooth.square) ** 2 - by_twins.deviation**2, 0.0)
            beyond *= float(np.mean(self._near.far[judged] > 0))  # the same state has the same error
            weights = 1 / np.maximum([by_twins.deviation**2, smooth.deviation**2 + beyond], TINY)
            weights /= weights.sum()
            square = float(weights @ [by_twins.square, smooth.square])
            deviation = float(np.linalg.norm(weights * [by_twins.deviation, smooth.deviation]))
            found = by_twins.with_square(square, deviation)
        spread = float(np.sqrt(max(variance - noise, SMALLEST_SPREAD * variance)))
        return found._replace(spread=spread, size=plain.size)

    def error_at(self, network: Any, inputs: Any) -> Float[np.ndarray, " K"]:
        """The error at states (K, d): the mean over the nearest states that were judged, noise subtracted."""
        scale, states = Standardise.of(self.log.state), self.log.state[self._judged]
        gaps, _ = self._gaps(network)
        squares = gaps[self._judged] ** 2
        if self._near is not None:  # as much of it as is error
            squares = squares * (self.estimate(network).error ** 2 / max(squares.mean(), TINY))
        count = min(NEIGHBOURS_ASKED, len(states))
        near = KDTree(_scaled(scale, states)).query(_scaled(scale, inputs), k=count)[1]
        return np.sqrt(np.maximum(squares[near].reshape(len(inputs), count).mean(axis=1), 0.0))

    def judged_values(self, network: Any) -> "JudgedValues":
        """The states that were judged, with what the network and their returns say they are worth."""
        rows, log, gaps = self._judged, self.log, self._gaps(network)[0]
        values = values_at(network, log.state)[rows]
        # A return that was cut holds some of the network's own value: without that it is as far off as this.
        return JudgedValues(log.state[rows], log.age[rows], log.episode[rows], values, values - gaps[rows])

    def _gaps(self, network: Any) -> tuple[np.ndarray, np.ndarray]:
        """How far the values of all steps are from their returns, and these."""
        returns = self.returns(network)
        return (values_at(network, self.log.state) - returns) / (1 - self.returns.remaining), returns

    def _by_twins(self, network: Any, gaps: np.ndarray, plain: ErrorEstimate) -> tuple[ErrorEstimate, float]:
        """The estimate from states that were continued twice, and the variance of returns from one state."""
        assert self._twins is not None and self._twin_returns is not None
        rows, first = self._twins.rows, self._twins.log.age == 0
        values = values_at(network, self._twins.log.state[first])
        left = self._twin_returns.remaining[first]
        one, two = gaps[rows], (values - self._twin_returns(network)[first]) / (1 - left)
        products, means = one * two, (one**2 + two**2) / 2
        centred = means - means.mean()
        share = np.clip(centred @ products / max(centred @ centred, TINY), 0.0, 1.0)
        # The mean square is known from all states: what those with a twin say of it by chance is taken off.
        found = error_estimate(
            products + share * (plain.square - means),
            plain.spread,
            f"{self.over}, {len(rows):,} of them continued twice",
            self._caveat,
            self.log.episode[rows],
            share * plain.deviation,
        )
        return found, float(np.mean((one - two) ** 2)) / 2


def _scaled(scale: Standardise, states: Any) -> np.ndarray:
    return np.asarray(scale(np.asarray(states, float)))  # type: ignore[arg-type]


class _Groups(NamedTuple):
    """Steps in groups: two for each state, one in each half of the episodes."""

    number: np.ndarray
    counted: np.ndarray

    def sums(self, quantity: np.ndarray) -> np.ndarray:
        """Over the steps of each group that count."""
        size = 2 * (int(self.number.max()) // 2 + 1)
        return np.bincount(self.number[self.counted], quantity[self.counted], minlength=size)


class _Near:
    """Near states in the other half of the episodes: what is true of them, and how far they are.

    Where there is a finite number of states they are all the steps with the same state, else the nearest
    ones. A step that has none is its own neighbour.

    Attributes:
        far: Of each step: 0 the same, 1 far.
    """

    def __init__(self, log: Log, judged: np.ndarray):
        half = log.episode % 2
        states, number = np.unique(log.state, axis=0, return_inverse=True)
        self._group: _Groups | None = None
        if len(states) * NEIGHBOURS_AVERAGED <= len(log):
            self._group = _Groups(2 * number.ravel() + half, judged)
            self.far = 1.0 * (self._group.sums(np.ones(len(log)))[self._group.number ^ 1] == 0)
        else:
            self._rows, distance = _nearest_of_others(log, judged, half)
            scale = Standardise.of(log.state)
            # In units of a step of the process, by the median of its steps: some do not move at all.
            steps = np.linalg.norm(_scaled(scale, log.next_state) - _scaled(scale, log.state), axis=1)
            with np.errstate(invalid="ignore"):
                far = distance / np.maximum(distance + np.median(steps), TINY)
            self.far = np.where(np.isinf(distance), 1.0, far)

    def mean(self, quantity: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """The mean of something over each step's near states."""
        if self._group is None:
            return quantity[self._rows].mean(axis=1)
        other = self._group.number ^ 1
        total, count = self._group.sums(quantity)[other], self._group.sums(np.ones(len(quantity)))[other]
        return np.where(count > 0, total / np.maximum(count, 1), quantity)


def _nearest_of_others(log: Log, judged: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest judged states in the other half of the episodes, and how far they are in the mean."""
    scaled = _scaled(Standardise.of(log.state), log.state)
    candidates = np.flatnonzero(judged)
    fewest = min(np.count_nonzero(half[candidates] == side) for side in (0, 1))
    count = int(np.clip(fewest, 1, NEIGHBOURS_AVERAGED))
    rows = np.repeat(np.arange(len(log))[:, None], count, axis=1)
    distance = np.full(len(log), np.inf)
    for side in (0, 1):
        others, mine = candidates[half[candidates] != side], half == side
        if len(others) >= count and mine.any():
            near, found = KDTree(scaled[others]).query(scaled[mine], k=count)
            rows[mine] = others[found].reshape(-1, count)
            distance[mine] = near.reshape(-1, count).mean(axis=1)
    return rows, distance


def hold_out_episodes(
    env: Simulator,
    policy: Policy,
    budget: int,
    *,
    key: PRNGKeyArray | int = 0,
    q: bool = False,
    twins: bool = True,
    on_progress: Callable[[int], Any] | None = None,
) -> tuple[HeldOutEpisodes, int]:
    """Episodes to judge values by, and how many steps they took.

    They go on past a time limit until little of the discount is left.

    Args:
        q: Whether values are those of pairs of state and action.
        twins: Whether to continue some states twice, if returns are random.
    """
    limit, tail = episode_length(env), effective_horizon(env.discount, TAIL)
    twins = twins and is_random(env, policy) and env.ending == "end"
    log = gather_episodes(
        env,
        policy,
        int((1 - TWIN_SHARE * twins) * budget),
        length=limit + tail,
        key=key,
        past_limit=True,
        on_progress=on_progress,
    )
    steps, again = len(log), None
    if twins:
        again = gather_twins(
            env,
            policy,
            log,
            budget - steps,
            rows=np.flatnonzero(log.age < limit),
            length=tail,
            key=key,
            keep_action=q,
            on_progress=None if on_progress is None else lambda more: on_progress(len(log) + more),
        )
    if again is not None:
        steps += len(again.log) + int(log.age[again.rows].sum())
    if q:
        log = _as_pairs(log, env, policy, key)
        again = None if again is None else Twins(again.rows, _as_pairs(again.log, env, policy, key))
    noisy = is_random(env, policy) and twins
    return HeldOutEpisodes(log, env.discount, limit=limit, noisy=noisy, twins=again), steps


def _as_pairs(log: Log, env: Simulator, policy: Policy, key: Any) -> Log:
    """The log with pairs of state and action as its states, for Q-factors."""
    action = log.action.reshape(len(log), -1)
    following = np.roll(action, -1, axis=0)
    cut = np.flatnonzero(log.truncated)
    chosen = choose_all(read_policy(policy, env.width, env.actions), log.next_state[cut], as_key(key))
    following[cut] = chosen.reshape(len(cut), -1)
    return Log(
        np.column_stack([log.state, action]),
        log.action,
        log.reward,
        np.column_stack([log.next_state, following]),
        log.terminated,
        episode=log.episode,
    )
