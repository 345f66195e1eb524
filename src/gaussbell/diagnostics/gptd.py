"""Gaussian-process TD (GPTD): the smooth value that explains the data, with its own uncertainty.

A Gaussian process over value functions, conditioned on what transitions say of them: that
v(s) - discount v(s') is the reward. Unlike chains of neighbours it needs no sample near each successor,
since it uses how values change from s to s'. How smooth it is, the likelihood of the rewards decides.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Float
from scipy.spatial.distance import cdist

from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.neighbours import spread_of, successors_of

MOST_POINTS = 2000
"""Inputs and successors together; of more transitions some are drawn."""
LENGTHS = (0.3, 1.0, 3.0)
"""How far values keep their shape, in standard deviations of the inputs."""
NOISES = (1e-8, 1e-2)
"""The part of a reward that no value explains, as a share of its variance."""
LEVEL = 100.0
"""The prior variance of the level of values, where that of their shape is 1: levels are free."""


class GPTDValue(NamedTuple):
    """A posterior over values: call it with inputs (K, d) for the means and standard deviations there."""

    points: Float[np.ndarray, "M d"]
    coefficients: Any  # sparse (n, M)
    level: Float[np.ndarray, " n"]
    factor: Float[np.ndarray, "n n"]
    solution: Float[np.ndarray, " n"]
    variance: float
    length: float
    scale: Float[np.ndarray, " d"]

    def __call__(self, inputs: Any) -> tuple[np.ndarray, np.ndarray]:
        between = _kernel(self.points, np.asarray(inputs) / self.scale, self.length)
        cross = (self.coefficients @ between).T + LEVEL * self.level
        explained = scipy.linalg.solve_triangular(self.factor, cross.T, lower=True)
        left = np.maximum(1 + LEVEL - (explained**2).sum(axis=0), 0.0)
        return cross @ self.solution, np.sqrt(self.variance * left)


def gptd(data: Transitions) -> GPTDValue:
    """The posterior over values given the transitions.

    Example:
        >>> import gaussbell as gb, numpy
        >>> s = numpy.linspace(0, 1, 20)[:, None]
        >>> data = gb.Transitions(s, 1 - 0.9 * s[:, 0] / 2 - s[:, 0] * 0.1, s / 2, discount=0.9)
        >>> mean, doubt = gb.diagnostics.gptd(data)([[0.25], [3.0]])
        >>> bool(doubt[0] < 0.1 < doubt[1])
        True
    """
    scale = spread_of(data)
    rows = _some(len(data), MOST_POINTS // (1 + data.num_successors))
    inputs, (successors, weights) = np.asarray(data.inputs)[rows], successors_of(data)
    successors, weights, reward = successors[rows], weights[rows], np.asarray(data.reward)[rows]
    count, terms = weights.shape
    points = np.concatenate([inputs, successors.reshape(count * terms, -1)]) / scale
    own = np.repeat(np.arange(count), terms)
    which = (np.r_[np.arange(count), own], np.arange(len(points)))
    coefficients = scipy.sparse.csr_array((np.r_[np.ones(count), -weights.ravel()], which))
    level = 1 - weights.sum(axis=1)
    best: tuple[float, Any] = (-np.inf, None)
    for length in LENGTHS:
        shape = coefficients @ (coefficients @ _kernel(points, points, length)).T
        shape = shape + LEVEL * np.outer(level, level)
        for noise in NOISES:
            added = noise * np.mean(np.diag(shape)) * np.eye(count)
            try:
                factor = scipy.linalg.cholesky(shape + added, lower=True)
            except np.linalg.LinAlgError:
                continue
            solution = scipy.linalg.cho_solve((factor, True), reward)
            variance = max(float(reward @ solution) / count, np.finfo(float).tiny)
            likelihood = -0.5 * count * np.log(variance) - np.log(np.diag(factor)).sum()
            if likelihood > best[0]:
                found = GPTDValue(points, coefficients, level, factor, solution, variance, length, scale)
                best = (likelihood, found)
    return best[1]


def _kernel(a: np.ndarray, b: np.ndarray, length: float) -> np.ndarray:
    """Matérn's covariance of values that are differentiable once."""
    distance = np.sqrt(3) * cdist(a, b) / length
    return (1 + distance) * np.exp(-distance)


def _some(count: int, most: int) -> np.ndarray:
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))
