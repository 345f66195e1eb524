"""How many steps a transition spans: n-step targets and the lambda-return."""

import math
from typing import Any

import equinox as eqx
import numpy as np

from gaussbell.numerics.arguments import read_count


class LambdaReturn(eqx.Module):
    """The lambda-return: n-step equations of all n, each with a share (1 - lambda) lambda^(n-1).

    The sum is thinned to `terms` numbers of steps with equal shares, at the quantiles of that distribution;
    each residual then has `terms` successors, and still holds for the true value.

    Args:
        lambda_: Between 0 and 1: the mean number of steps is 1 / (1 - lambda_).
        terms: How many numbers of steps stand for all.

    Example:
        >>> import gaussbell as gb
        >>> gb.LambdaReturn(0.9, terms=4).horizons().tolist()
        [2, 5, 10, 20]
    """

    lambda_: float = 0.98
    terms: int = 8

    def __check_init__(self):
        if not 0 <= self.lambda_ < 1:
            raise ValueError(f"lambda_={self.lambda_!r}: give a number from 0 up to, but not including, 1.")
        read_count("terms", self.terms, 1)

    def horizons(self) -> np.ndarray:
        """The numbers of steps, in rising order."""
        if self.lambda_ == 0:
            return np.ones(1, int)
        middles = (np.arange(self.terms) + 0.5) / self.terms
        return np.maximum(1, np.ceil(np.log1p(-middles) / math.log(self.lambda_))).astype(int)


def read_horizons(n_step: Any) -> np.ndarray:
    """The numbers of steps that `n_step` stands for: one, or those of a LambdaReturn."""
    if isinstance(n_step, LambdaReturn):
        return n_step.horizons()
    return np.array([read_count("n_step", n_step, 1, 10**6)])
