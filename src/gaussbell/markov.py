"""Finite Markov chains: their closed classes, stationary distribution and discounted sums, exactly.

Small systems are solved densely. Large sparse ones are first tried by BiCGSTAB, which needs a few dozen
products with P and no memory, and whose answer is checked; where it fails (slow mixing, a discount near
one) a sparse LU factorisation takes over.
"""

from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

DENSE_STATES = 1000
"""Systems up to this size are solved by dense LU."""

SOLVE_TOLERANCE = 1e-13
"""An iterative answer is kept if its residual is below this times the size of the right-hand side."""

SparseMatrix = Any
"""A scipy.sparse.csr_array, which comes without types."""


def closed_classes(transition: SparseMatrix) -> list[np.ndarray]:
    """The sets of states that communicate with each other and are never left, largest first."""
    count, label = scipy.sparse.csgraph.connected_components(transition, directed=True, connection="strong")
    links = transition.tocoo()
    leaving = label[links.row] != label[links.col]
    open_labels = np.unique(label[links.row[leaving & (links.data > 0)]])
    closed = np.setdiff1d(np.arange(count), open_labels)
    return sorted((np.flatnonzero(label == k) for k in closed), key=len, reverse=True)


def stationary_distribution(transition: SparseMatrix) -> np.ndarray:
    """The probability vector xi with xi P = xi; zero on states that are left for good.

    It is unique when the chain has one closed class; otherwise this raises ValueError. Periodic chains
    are fine. One component is fixed to one, which leaves a non-singular system for the others.
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
    balance = (scipy.sparse.eye_array(len(states), format="csr") - recurrent).T.tocsr()
    free = solve_sparse(balance[:-1, :-1], -balance[:-1, [-1]].toarray()[:, 0])
    unnormalised = np.append(free, 1.0)
    xi = np.zeros(transition.shape[0])
    xi[states] = unnormalised / unnormalised.sum()
    return xi


def discounted_sum(transition: SparseMatrix, reward: np.ndarray, discount: float) -> np.ndarray:
    """The solution v of v = reward + discount P v."""
    system = scipy.sparse.eye_array(len(reward), format="csr") - discount * transition
    return solve_sparse(system, reward)


def solve_sparse(matrix: SparseMatrix, right: np.ndarray) -> np.ndarray:
    """Solve a non-singular system with a sparse matrix, to rounding."""
    if len(right) == 0:
        return np.zeros(0)
    if len(right) <= DENSE_STATES:
        return np.linalg.solve(matrix.toarray(), right)
    answer, _ = scipy.sparse.linalg.bicgstab(matrix, right, rtol=1e-15, maxiter=1000)
    scale = np.abs(right).max() + np.abs(answer).max()
    # BiCGSTAB may miss its own test by rounding and still be as good as a factorisation.
    accurate = np.abs(matrix @ answer - right).max() <= SOLVE_TOLERANCE * scale
    if np.isfinite(scale) and accurate:
        return answer
    return scipy.sparse.linalg.splu(matrix.tocsc()).solve(right)


def _list_states(states: np.ndarray) -> str:
    shown = ", ".join(str(s) for s in states[:4])
    return f"{{{shown}, ...}}" if len(states) > 4 else f"{{{shown}}}"
