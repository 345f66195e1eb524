"""A value without a network: average over nearest neighbours. A second opinion on logged data."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import KDTree

from gaussbell.transitions import Transitions

DOUBLINGS = 40


class NeighbourValues(NamedTuple):
    """What chains of nearest neighbours through the data say.

    `value` (N,) of each row; `distance` (N,) from each row's successor to the row that stands for it, 0
    where the process ends, in units of the typical distance between rows; `reaches` (N,), whether the row's
    chain meets a reward other than the commonest.
    """

    value: Float[np.ndarray, " N"]
    distance: Float[np.ndarray, " N"]
    reaches: Bool[np.ndarray, " N"]
    tree: Any
    scale: Float[np.ndarray, " d"]

    def at(self, inputs: Any) -> Float[np.ndarray, " K"]:
        """The values of other inputs: those of the rows nearest to them."""
        return self.value[self.tree.query(np.asarray(inputs) / self.scale)[1]]


def neighbour_values(data: Transitions) -> NeighbourValues:
    """The solution of v_i = reward_i + discount_i v_j, where row j is nearest to the successor of row i.

    It interpolates nothing and trusts nothing between the data, so where a network disagrees with it by
    much, at least one of them has too little data. With several successors the first is followed.

    >>> import gaussbell as gb
    >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[0.9], [1.1]], discount=0.5)
    >>> gb.neighbours.neighbour_values(data).value.round(6).tolist()
    [1.0, 0.0]
    """
    inputs, successors = np.asarray(data.inputs), np.asarray(data.next_inputs)
    discount = np.asarray(data.discount)
    if successors.ndim == 3:
        successors, discount = successors[:, 0], discount.mean(axis=1)
    scale = np.where(inputs.std(axis=0) > 0, inputs.std(axis=0), 1.0)
    tree = KDTree(inputs / scale)
    ended = discount == 0
    distance: Any
    follower: Any
    distance, follower = tree.query(np.where(ended[:, None], inputs, successors) / scale)
    value, ahead = np.asarray(data.reward).astype(float), discount.astype(float)
    rewards, counts = np.unique(value, return_counts=True)
    reaches = value != rewards[np.argmax(counts)]
    for _ in range(DOUBLINGS):  # each round doubles the length of all chains
        value = value + ahead * value[follower]
        reaches = reaches | ((ahead > 0) & reaches[follower])
        ahead = ahead * ahead[follower]
        follower = follower[follower]
        if ahead.max(initial=0.0) < 1e-12:
            break
    return NeighbourValues(value, np.where(ended, 0.0, distance / _spacing(tree)), reaches, tree, scale)


def _spacing(tree: Any) -> float:
    """The typical distance from a row to the nearest other one."""
    rows = tree.data[:: max(1, len(tree.data) // 1000)]
    between = tree.query(rows, k=min(2, len(tree.data)))[0].reshape(len(rows), -1)[:, -1]
    return float(np.median(between)) or 1.0
