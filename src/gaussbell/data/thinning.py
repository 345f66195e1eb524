"""Fewer rows that stand for all of them: rare kinds of rows are kept, and weights make up for it."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

UNIFORM_SHARE = 0.5
"""Of the probability, spread evenly: no weight is larger than this makes it."""
TINY = 1e-9


def leverage(rows: Float[np.ndarray, "N k"]) -> Float[np.ndarray, " N"]:
    """How much each row decides of a linear regression on all of them and a constant, from 0 to 1.

    Example:
        >>> import numpy as np
        >>> leverage(np.array([[0.0], [0.0], [0.0], [1.0]])).round(3).tolist()
        [0.333, 0.333, 0.333, 1.0]
    """
    with_constant = np.column_stack([rows, np.ones(len(rows))])
    squares, directions = np.linalg.eigh(with_constant.T @ with_constant)
    kept = squares > TINY * squares[-1]
    return ((with_constant @ (directions[:, kept] / np.sqrt(squares[kept]))) ** 2).sum(axis=1)


class Thinning:
    """Draws rows with probabilities by their leverage, so that a few thousand do for a regression on all.

    Along episodes most states are much alike, and where values differ most (the first steps, a fall) there
    are few. A row that is drawn counts as much as those it stands for, so weighted sums over drawn rows have
    the sums over all rows as their mean. Drawn without replacement (the priority sampling of Duffield, Lund
    and Thorup, 2007), and fewer rows are always among more.

    Example:
        >>> import numpy as np
        >>> states = np.random.default_rng(0).standard_normal((1000, 2))
        >>> rows, weight = Thinning(states, seed=1)(200)
        >>> len(rows), bool(abs(weight.sum() / 1000 - 1) < 0.1)
        (200, True)
    """

    def __init__(self, rows: Float[np.ndarray, "N k"], *, seed: Any):
        share = leverage(np.asarray(rows, float))
        self._share = UNIFORM_SHARE / len(share) + (1 - UNIFORM_SHARE) * share / share.sum()
        self._priority = self._share / (1 - np.random.default_rng(seed).random(len(share)))
        self._order = np.argsort(-self._priority)

    def __call__(self, most: int) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """The numbers of at most so many rows, rising, and how many each stands for."""
        if most >= len(self._order):
            return np.arange(len(self._order)), np.ones(len(self._order))
        drawn = np.sort(self._order[:most])
        threshold = self._priority[self._order[most]]
        return drawn, np.maximum(1.0, threshold / self._share[drawn])
