"""Finite Markov decision processes and the chains they become under a policy."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from jax.experimental import sparse

from gaussbell.numerics.arguments import read_concrete
from gaussbell.numerics.precision import is_traced
from gaussbell.processes.markov_chain import MarkovChain, SparseMatrix

PROBABILITY_TOLERANCE = 1e-5
"""How far from one the probabilities of one row may sum, as they do in float32; they are then scaled."""


class OptimalSolution(NamedTuple):
    """An optimal deterministic policy (S,), its values (S,) and Q-factors (S, A)."""

    policy: np.ndarray
    values: np.ndarray
    action_values: np.ndarray


class FiniteMDP:
    """A Markov decision process with S states and A actions.

    Args:
        transition: The probabilities P[s, a, s'], as an array (S, A, S), a JAX BCOO of that shape, a sequence
            of A sparse (S, S) matrices, or one sparse (S A, S) matrix whose row s A + a belongs to the pair
            (s, a).
        reward: R[s, a] as an array (S, A), or r[s, a, s'] in any of the forms of `transition`; `discount` in
            [0, 1).

    Example:
        >>> import gaussbell as gb
        >>> mdp = gb.FiniteMDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[1.0], [0.0]], discount=0.5)
        >>> chain = mdp.under([0, 0])
        >>> chain.values.round(3).tolist(), chain.stationary.tolist()
        ([1.333, 0.667], [0.5, 0.5])
    """

    def __init__(self, transition: Any, reward: Any, discount: float):
        self._pairs = _pair_matrix("transition", transition)
        self.num_states = self._pairs.shape[1]
        self.num_actions = self._pairs.shape[0] // self.num_states
        self._check_probabilities()
        self.reward = self._expected_reward(reward)
        if not isinstance(discount, int | float | np.generic) or not 0 <= discount < 1:
            raise ValueError(
                f"discount={discount!r}: give a number from 0 up to, but not including, 1; the value of an "
                "endless process is not finite otherwise."
            )
        self.discount = float(discount)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_states} states, {self.num_actions} actions, discount "
            f"{self.discount:g})"
        )

    def under(self, policy: Any = None) -> MarkovChain:
        """The chain that follows `policy`: actions (S,), probabilities (S, A), or None for uniform."""
        choice = self._choice_matrix(policy)
        transition = (choice @ self._pairs).tocsr()
        transition.sum_duplicates()  # and sort
        return MarkovChain(transition, choice @ self.reward.ravel(), self.discount)

    def transition_array(self) -> np.ndarray:
        """The probabilities as a dense array P[s, a, s']."""
        return self._pairs.toarray().reshape(self.num_states, self.num_actions, self.num_states)

    def action_values(self, values: np.ndarray) -> np.ndarray:
        """Q[s, a] = r[s, a] + discount sum_s' P[s, a, s'] v[s'], exact if `values` are.

        `mdp.action_values(mdp.under(policy).values)` are the Q-factors of a policy.
        """
        return self.reward + self.discount * (self._pairs @ values).reshape(self.reward.shape)

    def optimal(self) -> OptimalSolution:
        """An optimal policy by policy iteration with exact evaluation.

        An action is changed only for a strict gain, beyond rounding, so equally good actions do not
        make it cycle.
        """
        policy = np.argmax(self.reward, axis=1)
        while True:
            values = self.under(policy).values
            q = self.action_values(values)
            current = q[np.arange(self.num_states), policy]
            gain = q.max(axis=1) - current
            improves = gain > 1e-10 * (1 + np.abs(q).max())
            if not improves.any():
                return OptimalSolution(policy, values, q)
            policy = np.where(improves, q.argmax(axis=1), policy)

    def _choice_matrix(self, policy: Any) -> SparseMatrix:
        """The (S, S A) matrix that picks, or mixes, each state's pairs."""
        shape = (self.num_states, self.num_actions)
        if policy is None:
            chosen = np.full(shape, 1 / self.num_actions)
        else:
            chosen = _read_policy(policy)
            chosen = self._one_hot(chosen) if chosen.ndim == 1 else chosen
        if chosen.shape != shape:
            raise ValueError(
                f"policy: it covers {len(chosen)} states; give {shape[0]} actions, or probabilities of shape "
                f"{shape}, one row for each state."
            )
        sums = chosen.sum(axis=1)
        right = (np.abs(sums - 1) <= PROBABILITY_TOLERANCE) & (chosen >= 0).all(axis=1)
        if not right.all():
            worst = int(np.argmin(right))
            raise ValueError(
                f"policy: row {worst} is {chosen[worst]}; give probabilities from 0 up that sum to one."
            )
        chosen = chosen / sums[:, None]
        state, action = np.nonzero(chosen)
        column = state * self.num_actions + action
        return scipy.sparse.csr_array(
            (chosen[state, action], (state, column)), shape=(self.num_states, self._pairs.shape[0])
        )

    def _one_hot(self, actions: np.ndarray) -> np.ndarray:
        legal = (actions == actions.astype(int)) & (actions >= 0) & (actions < self.num_actions)
        if not legal.all():
            worst = int(np.argmin(legal))
            raise ValueError(
                f"policy: action {actions[worst]} in state {worst}; actions are whole numbers from 0 to "
                f"{self.num_actions - 1}."
            )
        return np.eye(self.num_actions)[actions.astype(int)]

    def _check_probabilities(self) -> None:
        data = self._pairs.data
        if not np.all(np.isfinite(data)) or np.any(data < 0):
            raise ValueError(
                "transition: some probabilities are negative, NaN or infinite; give numbers from 0 to 1."
            )
        sums = np.asarray(self._pairs.sum(axis=1)).ravel()
        off = np.abs(sums - 1)
        if off.max() > PROBABILITY_TOLERANCE:
            state, action = divmod(int(off.argmax()), self.num_actions)
            raise ValueError(
                f"transition: the probabilities of state {state}, action {action} sum to "
                f"{sums[off.argmax()]:.6g}, not one ({int((off > PROBABILITY_TOLERANCE).sum())} of "
                f"{len(sums)} rows are off). P[s, a, s'] must sum to one over s'; where the process ends, "
                "let the state lead to itself with reward 0."
            )
        self._pairs = (scipy.sparse.diags_array(1 / sums) @ self._pairs).tocsr()

    def _expected_reward(self, reward: Any) -> np.ndarray:
        shape = (self.num_states, self.num_actions)
        reward = (
            reward if _is_sparse(reward) or _is_sparse_sequence(reward) else _read_dense("reward", reward)
        )
        if isinstance(reward, np.ndarray) and reward.shape == shape:
            expected = reward
        else:
            cube = (*shape, shape[0])
            neither = f"reward: it fits neither r[s, a] of shape {shape} nor r[s, a, s'] of shape {cube}"
            try:
                by_successor = _pair_matrix("reward", reward)
            except ValueError as error:
                raise ValueError(f"{neither}.") from error
            if by_successor.shape != self._pairs.shape:
                raise ValueError(f"{neither}; a sparse reward is r[s, a, s'].")
            expected = np.asarray(self._pairs.multiply(by_successor).sum(axis=1)).reshape(shape)
        if not np.all(np.isfinite(expected)):
            raise ValueError("reward: some rewards are NaN or infinite; the value would be, too.")
        return expected


def _is_sparse(array: Any) -> bool:
    return scipy.sparse.issparse(array) or isinstance(array, sparse.BCOO)


def _is_sparse_sequence(array: Any) -> bool:
    return isinstance(array, list | tuple) and any(_is_sparse(item) for item in array)


def _pair_matrix(name: str, array: Any) -> SparseMatrix:
    """Any accepted form of x[s, a, s'] as one sparse matrix with row s A + a for the pair (s, a)."""
    if _is_sparse_sequence(array):
        by_action: list[SparseMatrix] = [_as_csr(matrix) for matrix in array]
        states = by_action[0].shape[0]
        if any(matrix.shape != (states, states) for matrix in by_action):
            raise ValueError(f"{name}: give one sparse (S, S) matrix for each action, all of one size.")
        stacked: SparseMatrix = scipy.sparse.vstack(by_action, format="csr")
        order = np.arange(len(by_action) * states).reshape(len(by_action), states).T.ravel()
        return stacked[order]
    if scipy.sparse.issparse(array):
        matrix: SparseMatrix = scipy.sparse.csr_array(array, dtype=np.float64)
        if matrix.shape[1] == 0 or matrix.shape[0] % matrix.shape[1]:
            raise ValueError(
                f"{name}: a sparse matrix of shape {matrix.shape}; its rows are the pairs (s, a), so their "
                "number must be a multiple of the number of states, its columns."
            )
        return matrix
    if isinstance(array, sparse.BCOO):
        _check_cube(name, array.shape)
        if array.n_batch or array.n_dense:
            raise ValueError(f"{name}: a BCOO with batch or dense dimensions; make it with n_batch=0.")
        states, actions, _ = array.shape
        state, action, successor = np.asarray(array.indices).T
        inside = state < states  # JAX pads sparse arrays with indices out of range
        return scipy.sparse.csr_array(
            (
                np.asarray(array.data, np.float64)[inside],
                ((state * actions + action)[inside], successor[inside]),
            ),
            shape=(states * actions, states),
        )
    dense = _read_dense(name, array)
    _check_cube(name, dense.shape)
    return scipy.sparse.csr_array(dense.reshape(-1, dense.shape[2]))


def _as_csr(matrix: Any) -> SparseMatrix:
    if isinstance(matrix, sparse.BCOO):
        return scipy.sparse.csr_array(np.asarray(matrix.todense(), np.float64))
    return scipy.sparse.csr_array(matrix, dtype=np.float64)


def _read_dense(name: str, array: Any) -> np.ndarray:
    if is_traced(array):
        raise ValueError(f"{name}: a FiniteMDP is built from concrete numbers, outside jit and vmap.")
    return read_concrete(name, array)


def _read_policy(policy: Any) -> np.ndarray:
    chosen = _read_dense("policy", policy)
    if chosen.ndim not in (1, 2):
        raise ValueError(
            f"policy={policy!r}: give one action for each state, or a row of probabilities for each state."
        )
    return chosen


def _check_cube(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 3 or shape[0] != shape[2] or 0 in shape:
        raise ValueError(
            f"{name}: shape {shape}; give x[s, a, s'] of shape (S, A, S), a sparse (S A, S) matrix, or a "
            "sequence of A sparse (S, S) matrices."
        )
