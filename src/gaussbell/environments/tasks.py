"""Tasks: what an episode of a control problem is, how it is scored, and when the problem counts as solved.

A task looks at logged episodes only. `score` gives one number an episode, larger is better; `is_met` says
whether a few roll-outs give reason to confirm, `is_confirmed` whether the fresh ones then say "solved".
"""

import abc
from typing import Any, Protocol

import equinox as eqx
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from gaussbell.data.logs import Log
from gaussbell.numerics.arguments import host_rng, read_count

FEW = 20
"""Episodes before which a mean score refutes nothing."""


def lengths(log: Log) -> np.ndarray:
    """The number of steps of each episode."""
    return np.unique(log.episode, return_counts=True)[1]


def returns(log: Log) -> np.ndarray:
    """The undiscounted sum of rewards of each episode."""
    number = np.unique(log.episode, return_inverse=True)[1]
    return np.bincount(number, weights=log.reward)


def has_ended(log: Log) -> np.ndarray:
    """Did each episode end by itself, rather than by the time limit?"""
    number = np.unique(log.episode, return_inverse=True)[1]
    return np.bincount(number, weights=log.terminated) > 0


class Startable(Protocol):
    """What a task asks of a simulator: where its episodes start."""

    @property
    def nominal_start(self) -> np.ndarray | None: ...


class Task(eqx.Module):
    """Episodes of at most `length` steps, and what they are worth."""

    length: eqx.AbstractVar[int]
    confirmations: eqx.AbstractVar[int]

    def __check_init__(self):
        read_count("length", self.length, 1)
        read_count("confirmations", self.confirmations, 1)

    @property
    def confirming_length(self) -> int:
        """How many steps an episode that is to confirm a policy may take."""
        return self.length

    @abc.abstractmethod
    def score(self, log: Log) -> Float[np.ndarray, " E"]:
        """A number for each episode, the larger the better."""

    @abc.abstractmethod
    def is_met(self, scores: Float[np.ndarray, " E"]) -> bool:
        """Do these roll-outs give reason to confirm?"""

    def is_confirmed(self, scores: Float[np.ndarray, " E"]) -> bool:
        """Do these fresh episodes, all of them, say that the task is solved?"""
        return self.is_met(scores)

    def is_refuted(self, scores: Float[np.ndarray, " E"]) -> bool:
        """Do these fresh episodes already say that it is not, so that no more are needed?"""
        return False

    def starts(self, env: Startable, count: int, key: PRNGKeyArray | int) -> Float[np.ndarray, "E d"] | None:
        """The states that confirming episodes start from; None for the environment's own."""
        return None


def _falls_short(scores: Any, wanted: float) -> bool:
    """Is the mean of twenty or more scores below what is wanted by three standard errors?"""
    scores = np.asarray(scores)
    few = len(scores) < FEW
    return not few and bool(scores.mean() + 3 * scores.std() / np.sqrt(len(scores)) < wanted)


class Survive(Task):
    """Go on for `length` steps without failing.

    Roll-outs start where the environment starts. Confirming episodes go on for `lasting` steps if that is
    given: who drifts away slowly fails in a few long ones, and passes many short ones. If `reach` is given
    and the state can be set, they start anywhere within ± `reach` of where the environment starts.

    Example:
        >>> import gaussbell as gb
        >>> task = gb.tasks.Survive(500, lasting=2000)
        >>> task.is_met([500, 500]), task.is_confirmed([2000, 1400])
        (True, False)
    """

    length: int = 500
    reach: tuple[float, ...] | None = None
    confirmations: int = 8
    lasting: int | None = None

    @property
    def confirming_length(self) -> int:
        return self.lasting or self.length

    def score(self, log: Log) -> Float[np.ndarray, " E"]:
        return lengths(log).astype(float)

    def is_met(self, scores: Any) -> bool:
        return bool((np.asarray(scores) >= self.length).all())

    def is_confirmed(self, scores: Any) -> bool:
        return not self.is_refuted(scores)

    def is_refuted(self, scores: Any) -> bool:
        return bool((np.asarray(scores) < self.confirming_length).any())

    def starts(self, env: Startable, count: int, key: PRNGKeyArray | int) -> Float[np.ndarray, "E d"] | None:
        if self.reach is None or env.nominal_start is None:
            return None
        rng = host_rng(key)
        share = rng.uniform(-1, 1, (count, len(self.reach)))
        return env.nominal_start + share * np.asarray(self.reach)


class Reach(Task):
    """Get to the end of the episode, in `within` steps on average; `length` is the time limit.

    Example:
        >>> import gaussbell as gb
        >>> gb.tasks.Reach(within=110, length=200).is_met([-100.0, -118.0])
        True
    """

    within: float
    length: int = 500
    confirmations: int = 100

    def score(self, log: Log) -> Float[np.ndarray, " E"]:
        return -np.where(has_ended(log), lengths(log), self.length).astype(float)

    def is_met(self, scores: Any) -> bool:
        return bool(np.mean(scores) >= -self.within)

    def is_refuted(self, scores: Any) -> bool:
        return _falls_short(scores, -self.within)


class Earn(Task):
    """A mean return of at least `at_least`: how Gymnasium states its thresholds.

    Example:
        >>> import gaussbell as gb
        >>> gb.tasks.Earn(at_least=475, length=500).is_met([500.0, 440.0])
        False
    """

    at_least: float
    length: int = 500
    confirmations: int = 100

    def score(self, log: Log) -> Float[np.ndarray, " E"]:
        return returns(log)

    def is_met(self, scores: Any) -> bool:
        return bool(np.mean(scores) >= self.at_least)

    def is_refuted(self, scores: Any) -> bool:
        return _falls_short(scores, self.at_least)
