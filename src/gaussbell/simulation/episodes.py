"""Whole episodes of a policy, as many as a number of steps pays for, and the returns along them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.signal import lfilter

from gaussbell.data.logs import Log
from gaussbell.environments.simulator import Simulator
from gaussbell.numerics.arguments import as_key, host_rng
from gaussbell.processes.policies import Policy

NEARLY_ALL = 0.9
"""No further episodes are begun once this share of the steps is taken."""
VISITED_EPISODES = 16
UNLIMITED = 5.0
"""An episode without a time limit is cut after this many times 1 / (1 - discount) steps."""
LONGEST = 1000
"""Where nothing is discounted either."""


def gather_episodes(
    env: Simulator,
    policy: Policy,
    budget: int,
    *,
    length: int,
    key: PRNGKeyArray | int = 0,
    past_limit: bool = False,
    on_progress: Callable[[int], Any] | None = None,
) -> Log:
    """Complete episodes from the environment's starts, of at most `budget` steps in all.

    They are played in rounds, each of as many episodes as fit however long they are: none is cut short by
    the budget (but for a single one that is longer than all of it).

    Args:
        length: The most steps of an episode.
        past_limit: Whether an episode goes on past a time limit, up to `length`.
        on_progress: Called with the steps so far; if it answers True nothing more is simulated.
    """
    key, logs, taken, stopped = as_key(key), [], 0, False

    def tell(steps: int) -> bool:
        nonlocal stopped
        stopped = on_progress is not None and bool(on_progress(taken + steps))
        return stopped

    if env.ending != "end":  # the process has no episodes: what is cut are pieces of one long path
        return env.log(policy, budget, key=key)
    while not stopped and taken < NEARLY_ALL * budget and (fit := (budget - taken) // length or not logs):
        episodes = 2 ** int(np.log2(fit))  # compiled simulators need a program for each number
        log = env.play(
            policy,
            episodes=episodes,
            length=min(length, budget),
            key=jax.random.fold_in(key, len(logs)),
            past_limit=past_limit,
            on_progress=tell,
        )
        logs.append(log)
        taken += len(log)
    return Log.join(*logs)


def episode_length(env: Simulator) -> int:
    """The most steps of an episode: up to the time limit, or until little of the discount is left."""
    if env.time_limit is not None:
        return env.time_limit
    return math.ceil(UNLIMITED / (1 - env.discount)) if env.discount < 1 else LONGEST


def visit(env: Simulator, policy: Policy, count: int, *, key: PRNGKeyArray | int = 0) -> Log:
    """At least `count` steps in complete episodes, and at least 16 episodes."""
    key, logs, length = as_key(key), [], episode_length(env)
    if env.ending != "end":
        return env.log(policy, 2 * count, key=key)
    while sum(map(len, logs)) < count:
        episodes = VISITED_EPISODES * 2 ** len(logs)
        logs.append(
            env.play(policy, episodes=episodes, length=length, key=jax.random.fold_in(key, len(logs)))
        )
    return Log.join(*logs)


class Twins(NamedTuple):
    """Second continuations of steps of a log: `log` has an episode for each of `rows`."""

    rows: np.ndarray
    log: Log


def gather_twins(
    env: Simulator,
    policy: Policy,
    log: Log,
    budget: int,
    *,
    rows: np.ndarray,
    length: int,
    key: PRNGKeyArray | int = 0,
    keep_action: bool = False,
    on_progress: Callable[[int], Any] | None = None,
) -> Twins | None:
    """Second continuations from steps of a log, as many as `budget` pays for; None where there are none.

    Args:
        rows: Steps to choose from.
        length: The most steps of a continuation.
    """
    key, found, taken = as_key(key), [], 0
    rows = host_rng(key).permutation(rows)

    def tell(steps: int) -> bool:
        if on_progress is not None:
            on_progress(taken + steps)
        return False  # a round is played to its end

    while len(rows) and not (found and on_progress is not None and on_progress(taken)):
        # What comes before a step is played again.
        fit = int(np.searchsorted(np.cumsum(log.age[rows] + length), budget - taken, side="right"))
        if fit == 0:
            break
        chosen, rows = rows[:fit], rows[fit:]
        branches = env.branch(
            policy,
            log,
            chosen,
            length=length,
            key=jax.random.fold_in(key, len(found)),
            keep_action=keep_action,
            on_progress=tell,
        )
        if branches is None:
            return None
        taken += len(branches) + int(log.age[chosen].sum())
        found.append((chosen, branches))
    if not found:
        return None
    chosen, branches = zip(*found, strict=True)
    return Twins(np.concatenate(chosen), Log.join(*branches))


def discounted_ahead(log: Log, numbers: Any, discount: float) -> Float[np.ndarray, " N"]:
    """The discounted sum of `numbers` (N,) from each step to the end of its episode."""
    numbers, sums = np.asarray(numbers, float), np.empty(len(log))
    ends = np.flatnonzero(np.append(log.episode[1:] != log.episode[:-1], True)) + 1
    for start, end in zip(np.append(0, ends[:-1]), ends, strict=True):
        sums[start:end] = lfilter([1.0], [1.0, -discount], numbers[start:end][::-1])[::-1]
    return sums
