"""Finite Markov chains: their closed classes, stationary distribution and discounted sums, exactly.

Small systems are solved densely. Large sparse ones are first tried by BiCGSTAB, which needs a few dozen
products with P and no memory, and whose answer is checked; where it fails (slow mixing, a discount near
one) a sparse LU factorisation takes over.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

DENSE_STATES = 1000
"""Systems up to this size are solved by dense LU."""

SOLVE_TOLERANCE = 1e-13
"""An iterative answer is kept if its residual is below this times the size of the right-hand side."""

BALANCE_TOLERANCE = 1e-8
"""How well an iterative stationary distribution balances each state, beside its probability."""

SparseMatrix = Any
"""A scipy.sparse.csr_array, which comes without types."""


def closed_classes(transition: SparseMatrix) -> list[np.ndarray]:
    """The sets of states that communicate with each other and are never left, largest first."""
    transition = transition.copy()
    transition.eliminate_zeros()  # a stored zero is not a link
    count, label = scipy.sparse.csgraph.connected_components(transition, directed=True, connection="strong")
    links = transition.tocoo()
    leaving = label[links.row] != label[links.col]
    open_labels = np.unique(label[links.row[leaving]])
    closed = np.setdiff1d(np.arange(count), open_labels)
    return sorted((np.flatnonzero(label == k) for k in closed), key=len, reverse=True)


def stationary_distribution(transition: SparseMatrix) -> np.ndarray:
    """The probability vector xi with xi P = xi; zero on states that are left for good.

    It is unique when the chain has one closed class; otherwise this raises ValueError. Periodic chains
    are fine.
    """
    classes = closed_classes(transition)
    if len(classes) > 1:
        listed = "; ".join(_list_states(states) for states in classes[:3])
        more = f"; and {len(classes) - 3} more" if len(classes) > 3 else ""
        raise ValueError(
            f"transition: the chain under this policy is reducible: it has {len(classes)} closed classes "
            f"(states {listed}{more}) and so no unique stationary distribution. Add transitions that "
            "connect them (a restart), or choose how much each state counts: weight=numpy.ones(K)."
        )
    states = classes[0]
    recurrent = transition[states][:, states]
    small = len(states) <= DENSE_STATES
    xi = np.zeros(transition.shape[0])
    xi[states] = _eliminate_states(recurrent.toarray()) if small else _balance(recurrent)
    return xi


def _eliminate_states(transition: np.ndarray) -> np.ndarray:
    """The stationary distribution by Grassmann, Taksar and Heyman's elimination.

    States are censored one by one, from the last; no number is ever subtracted, so every component is
    accurate to rounding, however small.
    """
    p = transition.copy()
    count = len(p)
    for k in range(count - 1, 0, -1):
        p[:k, k] /= p[k, :k].sum()
        p[:k, :k] += np.outer(p[:k, k], p[k, :k])
    xi = np.zeros(count)
    xi[0] = 1.0
    for k in range(1, count):
        xi[k] = xi[:k] @ p[:k, k]
        xi[: k + 1] /= xi[: k + 1].sum()  # keeps long drifts from overflowing
    return xi


def _balance(transition: SparseMatrix) -> np.ndarray:
    """The stationary distribution of a large irreducible chain from its balance equations.

    One component is fixed to one, which leaves a non-singular system for the others. An iterative answer
    is kept if it balances every state, the rarest too; otherwise the system is factorised, with the most
    visited state fixed, so that nothing overflows.
    """
    balance = (scipy.sparse.eye_array(transition.shape[0], format="csr") - transition).T.tocsr()
    xi = _fix_state(balance, transition.shape[0] - 1, _iterate)
    with np.errstate(invalid="ignore"):
        balanced = (xi > 0) & (np.abs(balance @ xi) <= BALANCE_TOLERANCE * xi)
    if not balanced.all():
        visits = np.full(len(xi), 1 / len(xi))
        for _ in range(10 * len(xi)):  # a drift moves less than a state a step
            visits = visits @ transition
        xi = _fix_state(balance, int(visits.argmax()), _factorise)
    xi = np.maximum(xi, 0)  # what is below zero is zero to rounding
    return xi / xi.sum()


def _fix_state(balance: SparseMatrix, state: int, solve: Callable[..., np.ndarray]) -> np.ndarray:
    others = np.delete(np.arange(balance.shape[0]), state)
    xi = np.ones(balance.shape[0])
    with np.errstate(over="ignore", invalid="ignore"):
        xi[others] = solve(balance[others][:, others], -balance[others][:, [state]].toarray()[:, 0])
    return xi


def discounted_sum(transition: SparseMatrix, reward: np.ndarray, discount: float) -> np.ndarray:
    """The solution v of v = reward + discount P v."""
    system = scipy.sparse.eye_array(len(reward), format="csr") - discount * transition
    return solve_sparse(system, reward)


def solve_sparse(matrix: SparseMatrix, right: np.ndarray) -> np.ndarray:
    """Solve a non-singular system with a sparse matrix, to rounding."""
    if len(right) <= DENSE_STATES:
        return np.linalg.solve(matrix.toarray(), right)
    answer = _iterate(matrix, right)
    scale = np.abs(right).max() + np.abs(answer).max()
    if np.abs(matrix @ answer - right).max() <= SOLVE_TOLERANCE * scale:  # false where NaN
        return answer
    return _factorise(matrix, right)


def _iterate(matrix: SparseMatrix, right: np.ndarray) -> np.ndarray:
    # It may miss its own test by rounding and still be as good as a factorisation: callers look.
    return scipy.sparse.linalg.bicgstab(matrix, right, rtol=1e-15, maxiter=1000)[0]


def _factorise(matrix: SparseMatrix, right: np.ndarray) -> np.ndarray:
    return scipy.sparse.linalg.splu(matrix.tocsc()).solve(right)


def _list_states(states: np.ndarray) -> str:
    shown = ", ".join(str(s) for s in states[:4])
    return f"{{{shown}, ...}}" if len(states) > 4 else f"{{{shown}}}"


class MarkovChain:
    """A finite chain with rewards: what a policy makes of a FiniteMDP.

    `transition` (K, K) sparse, `reward` (K,) expected, `discount`. The exact answers are computed on first
    use and kept: `values`, the solution of v = reward + discount P v, and `stationary`, the distribution
    xi with xi P = xi.
    """

    def __init__(self, transition: SparseMatrix, reward: np.ndarray, discount: float):
        self.transition = transition
        self.reward = reward
        self.discount = discount

    def __repr__(self) -> str:
        return f"MarkovChain({self.num_states} states, discount {self.discount:g})"

    @property
    def num_states(self) -> int:
        return len(self.reward)

    @cached_property
    def values(self) -> np.ndarray:
        """The exact value of each state."""
        return discounted_sum(self.transition, self.reward, self.discount)

    @cached_property
    def stationary(self) -> np.ndarray:
        """The stationary distribution; ValueError when the chain has more than one closed class."""
        return stationary_distribution(self.transition)

    def positive_stationary(self) -> np.ndarray:
        """The stationary distribution of an ergodic chain; ValueError when a state is left for good."""
        stationary = self.stationary
        transient = np.setdiff1d(np.arange(self.num_states), closed_classes(self.transition)[0])
        if len(transient):
            raise ValueError(
                f"transition: the chain under this policy is reducible: it leaves {len(transient)} of its "
                f"{self.num_states} states for good (state {transient[0]} among them), so the stationary "
                "distribution gives them no weight and their values would not be learned. Add a restart, "
                "or choose how much each state counts: weight=numpy.ones(K)."
            )
        return stationary

    def residual(self, values: np.ndarray) -> np.ndarray:
        """The Bellman residual v - reward - discount P v of any values (K,)."""
        return values - self.reward - self.discount * (self.transition @ values)
