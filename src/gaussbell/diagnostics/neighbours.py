"""Nearest-neighbour averagers: values without a network, a reference from sampled data alone."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float
from scipy.spatial import KDTree

from gaussbell.data.transitions import Transitions

DOUBLINGS = 40
ROUNDS, ROUNDING = 20_000, 1e-10
"""How often an average over neighbours is repeated at most, and the relative change at which it is done."""
RESOLVED = 0.5
"""A successor is told from where it came if the sample that stands for it is nearer than this share of the
way."""

Values = Callable[[Any], np.ndarray]
"""From inputs (K, d) to values (K,)."""


class NeighbourValues(NamedTuple):
    """What chains of nearest neighbours through the data say.

    `value` (N,) of each sample; `distance` (N,) from its successor to the sample that stands for that, 0
    where the process ends, in units of the typical distance between samples; `reaches_reward` (N,), whether
    the chain meets a reward other than the commonest; `reward_grounded` (N,), the share of the value that
    comes from rewards the data show: the chain counts up to the first successor that the data cannot tell
    from where it came, and what lies behind is a guess, whatever the residual.
    """

    value: Float[np.ndarray, " N"]
    distance: Float[np.ndarray, " N"]
    reaches_reward: Bool[np.ndarray, " N"]
    reward_grounded: Float[np.ndarray, " N"]
    tree: Any
    scale: Float[np.ndarray, " d"]

    def nearest(self, inputs: Any) -> np.ndarray:
        """The numbers of the samples nearest to other inputs."""
        return self.tree.query(np.asarray(inputs) / self.scale)[1]

    def at(self, inputs: Any) -> Float[np.ndarray, " K"]:
        """The values of other inputs: those of the samples nearest to them."""
        return self.value[self.nearest(inputs)]


def neighbour_values(data: Transitions) -> NeighbourValues:
    """The solution of v_i = reward_i + discount_i v_j, where sample j is nearest to the successor of i.

    It interpolates nothing and trusts nothing between the data, so where a network disagrees with it by
    much, at least one of them has too little data. With several successors the first is followed.

    Example:
        >>> import gaussbell as gb
        >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[0.9], [1.1]], discount=0.5)
        >>> found = gb.diagnostics.neighbour_values(data)
        >>> found.value.round(6).tolist(), found.reward_grounded.round(6).tolist()
        ([1.0, 0.0], [0.75, 0.5])
    """
    inputs, scale = np.asarray(data.inputs), spread_of(data)
    successors, discount = successors_of(data)
    tree, discount = KDTree(inputs / scale), discount.sum(axis=1)
    distance: Any
    follower: Any
    distance, follower = tree.query(successors[:, 0] / scale)
    way = np.linalg.norm((successors[:, 0] - inputs) / scale, axis=1)
    value = np.asarray(data.reward).astype(float)
    rewards, counts = np.unique(value, return_counts=True)
    differs = value != rewards[np.argmax(counts)]
    told = discount * (distance <= RESOLVED * way)
    return NeighbourValues(
        value=_along_chains(value, discount, follower),
        distance=np.where(discount == 0, 0.0, distance / _spacing(tree)),
        reaches_reward=_along_chains(differs.astype(float), (discount > 0).astype(float), follower) > 0,
        reward_grounded=_along_chains(1 - discount, told, follower),
        tree=tree,
        scale=scale,
    )


def nearest_neighbour_averager(data: Transitions, count: int) -> Values:
    """The values when every successor is the average of the `count` samples nearest to it, nearer ones more.

    Example:
        >>> import gaussbell as gb
        >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[0.9], [1.0]], discount=0.5)
        >>> gb.diagnostics.nearest_neighbour_averager(data, 2)([[0.5]]).round(3).tolist()
        [0.526]
    """
    inputs, scale = np.asarray(data.inputs), spread_of(data)
    successors, discount = successors_of(data)
    tree, rows = KDTree(inputs / scale), len(inputs)
    count = min(count, rows)

    def nearest(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distance, row = tree.query(points / scale, k=count)
        closeness = 1 / (np.reshape(distance, (-1, count)) + 1e-9)
        return np.reshape(row, (-1, count)), closeness / closeness.sum(axis=1, keepdims=True)

    terms = successors.shape[1]
    row, share = nearest(successors.reshape(rows * terms, -1))
    weight = share * discount.reshape(-1, 1)
    start = np.repeat(np.arange(rows), terms * count)
    matrix = scipy.sparse.csr_array((weight.ravel(), (start, row.ravel())), shape=(rows, rows))
    reward = np.asarray(data.reward).astype(float)
    value = reward
    for _ in range(ROUNDS):
        value, before = reward + matrix @ value, value
        if np.abs(value - before).max() <= ROUNDING * np.abs(value).max():
            break

    def values(points: Any) -> np.ndarray:
        row, share = nearest(np.asarray(points))
        return (share * value[row]).sum(axis=1)

    return values


def successors_of(data: Transitions) -> tuple[Float[np.ndarray, "N M d"], Float[np.ndarray, "N M"]]:
    """The successors of each state, and how much each counts; where the process ends, the state and 0."""
    inputs, successors = np.asarray(data.inputs), np.asarray(data.next_inputs)
    counts = np.asarray(data.discount)
    if data.probability is None:
        successors, counts = successors[:, None], counts[:, None]
    else:
        counts = counts * np.asarray(data.probability)
    return np.where((counts == 0)[..., None], inputs[:, None], successors), counts


def spread_of(data: Transitions) -> Float[np.ndarray, " d"]:
    """The units of distances: the standard deviation of each input, 1 where it does not vary."""
    spread = np.asarray(data.inputs).std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _along_chains(own: np.ndarray, ahead: np.ndarray, follower: np.ndarray) -> np.ndarray:
    """The solution of x_i = own_i + ahead_i x_follower(i); each round doubles the length of all chains."""
    total = own
    for _ in range(DOUBLINGS):
        total = total + ahead * total[follower]
        ahead = ahead * ahead[follower]
        follower = follower[follower]
        if ahead.max(initial=0.0) < 1e-12:
            break
    return total


def _spacing(tree: Any) -> float:
    """The typical distance from a sample to the nearest other one."""
    rows = tree.data[:: max(1, len(tree.data) // 1000)]
    between = tree.query(rows, k=min(2, len(tree.data)))[0].reshape(len(rows), -1)[:, -1]
    return float(np.median(between)) or 1.0
