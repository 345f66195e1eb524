"""Transitions: sampled steps of a process."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gaussbell.numerics.arguments import read_numbers
from gaussbell.numerics.precision import in_double, is_traced

PROBABILITY_TOLERANCE = 1e-5
"""How far from one probabilities may sum, as they do in float32; they are then scaled."""


class Transitions(eqx.Module):
    """N steps of a process under a policy: from `state`, with `reward`, to `next_state`.

        residual_i = f(state_i) - reward_i - sum_m probability_im discount_im f(next_state_im)

    For Q-factors give `action` and `next_action`, the policy's choice in `next_state`; they are appended to
    the states as further inputs of the network. If the process or the policy is stochastic, a single drawn
    successor has double-sampling bias towards smooth values: give several, drawn independently from the same
    state, or all of them with their probabilities.

    Args:
        state: (N, d), `reward` (N,), `next_state` (N, d), or (N, M, d) for M successors; `discount` a number,
            (N,) or (N, M), 0 where the process ends (truncation is not an end).
        weight: (N,) how much each transition counts, by default the same, scaled to sum to one.
        action: (N,) or (N, k) and `next_action` likewise, or (N, M) or (N, M, k).
        probability: (N, M) of the successors, by default equal. With M successors `reward` may be (N, M) too:
            what counts is its mean. Where `discount` is 0, `next_state` and `next_action` are not read and
            may be NaN.

    Example:
        >>> import gaussbell as gb
        >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[1.0], [0.0]], discount=0.9)
        >>> len(data), data.weight.tolist()
        (2, [0.5, 0.5])
    """

    state: Float[Array, "N d"]
    reward: Float[Array, " N"]
    next_state: Float[Array, "N *M d"]
    discount: Float[Array, "N *M"]
    weight: Float[Array, " N"]
    action: Float[Array, "N k"] | None
    next_action: Float[Array, "N *M k"] | None
    probability: Float[Array, "N M"] | None

    @in_double
    def __init__(
        self,
        state: Any,
        reward: Any,
        next_state: Any,
        discount: Any = 0.99,
        weight: Any = None,
        action: Any = None,
        next_action: Any = None,
        probability: Any = None,
    ):
        self.state = _rows("state", state)
        count, width = self.state.shape
        self.next_state = _successors(next_state, count, width)
        successors = self.next_state.shape[:-1]  # (N,) or (N, M)
        self.probability = self._probability(probability, successors)
        reward = read_numbers("reward", reward)
        if self.probability is not None and reward.shape == successors:
            reward = (self.probability * reward).sum(axis=1)
        self.reward = _column("reward", reward, count)
        self.discount = self._discount(discount, successors)
        weight = _column("weight", 1.0 if weight is None else weight, count)
        self.weight = weight / weight.sum()
        if (action is None) != (next_action is None):
            raise ValueError(
                "action and next_action go together: give both for Q-factors, neither for state values."
            )
        self.action = None if action is None else _actions("action", action, (count,))
        self.next_action = None if next_action is None else _actions("next_action", next_action, successors)
        if self.inputs.shape[-1] != self.next_inputs.shape[-1]:
            raise ValueError("next_action: its width differs from action's; give both the same form.")
        if not is_traced((self, weight)):
            self._check_numbers(weight)

    @property
    def num_successors(self) -> int:
        """How many successors each state has."""
        return 1 if self.probability is None else self.probability.shape[1]

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def inputs(self) -> Float[Array, "N d_and_k"]:
        """The network's inputs before the step: the state, with the action for Q-factors."""
        return self.state if self.action is None else _beside(self.state, self.action)

    @property
    def next_inputs(self) -> Float[Array, "N *M d_and_k"]:
        """The network's inputs after the step."""
        if self.next_action is None:
            return self.next_state
        return _beside(self.next_state, self.next_action)

    def take(self, rows: Any) -> "Transitions":
        """Some of the transitions, by their numbers.

        Example:
            >>> import gaussbell as gb
            >>> gb.Transitions([[0.0], [1.0]], [1.0, 2.0], [[1.0], [0.0]]).take([1]).reward.tolist()
            [2.0]
        """
        given = {name: value for name, value in vars(self).items() if value is not None}
        return Transitions(**{name: np.asarray(value)[np.asarray(rows)] for name, value in given.items()})

    @staticmethod
    def join(*parts: "Transitions") -> "Transitions":
        """The transitions of all parts, each counting the same; those with fewer successors get improbable
        ones.

        Example:
            >>> import gaussbell as gb
            >>> one = gb.Transitions([[0.0]], [1.0], [[1.0]])
            >>> two = gb.Transitions([[0.0]], [1.0], [[[1.0], [2.0]]])
            >>> gb.Transitions.join(one, two).probability.tolist()
            [[1.0, 0.0], [0.5, 0.5]]
        """
        count = max(part.num_successors for part in parts)
        wide = [part._widened(count) for part in parts]
        return Transitions(
            **{
                name: np.concatenate([np.asarray(fields[name]) for fields in wide])
                for name, value in wide[0].items()
                if value is not None
            }
        )

    def _widened(self, count: int) -> dict[str, Any]:
        """All fields but the weights, with `count` successors each, the added ones of probability zero."""
        fields = {name: value for name, value in vars(self).items() if name != "weight"}
        if count == 1:
            return fields
        rows, have = len(self), self.num_successors
        for name in ("next_state", "discount", "next_action"):
            if (value := fields[name]) is not None:
                value = np.asarray(value).reshape(rows, have, *value.shape[self.next_state.ndim - 1 :])
                fields[name] = np.concatenate([value] + [value[:, -1:]] * (count - have), axis=1)
        known = np.ones((rows, 1)) if self.probability is None else np.asarray(self.probability)
        fields["probability"] = np.pad(known, [(0, 0), (0, count - have)])
        return fields

    def reweighted(self, weight: Any) -> "Transitions":
        """The same transitions, each counting as `weight` (N,) says."""
        return eqx.tree_at(lambda data: data.weight, self, _column("weight", weight, len(self)))

    def count_duplicates(self) -> int:
        """How many transitions repeat the inputs of an earlier one.

        Example:
            >>> import gaussbell as gb
            >>> gb.Transitions([[0.0], [0.0], [1.0]], [1, 1, 0], [[1.0], [1.0], [0.0]]).count_duplicates()
            1
        """
        return len(self) - len(np.unique(np.asarray(self.inputs), axis=0))

    def _probability(self, probability: Any, shape: tuple[int, ...]) -> Float[Array, "N M"] | None:
        if len(shape) == 1:
            if probability is not None:
                raise ValueError(
                    "probability: each state has one successor; give next_state of shape (N, M, d) for M."
                )
            return None
        if probability is None:
            return jnp.full(shape, 1 / shape[1])
        probability = read_numbers("probability", probability)
        if probability.shape != shape:
            raise ValueError(
                f"probability: shape {probability.shape}; give {shape}, one number for each successor."
            )
        sums = probability.sum(axis=1, keepdims=True)
        if not is_traced(probability):
            right = (probability >= 0).all(axis=1) & (jnp.abs(sums[:, 0] - 1) <= PROBABILITY_TOLERANCE)
            if not bool(right.all()):
                worst = int(jnp.argmin(right))
                raise ValueError(
                    f"probability: row {worst} is {probability[worst]}; give numbers from 0 up that sum to "
                    "one."
                )
        return probability / sums

    def _discount(self, discount: Any, shape: Any) -> Float[Array, "N *M"]:
        discount = read_numbers("discount", discount)
        if len(shape) > 1 and discount.shape == (shape[0],):
            discount = discount[:, None]  # one for all successors of a row
        if discount.shape not in ((), shape, (shape[0], 1)):
            raise ValueError(
                f"discount: shape {discount.shape}; give one number, or one for each of {shape[0]} "
                "transitions."
            )
        return jnp.broadcast_to(discount, shape)

    def _check_numbers(self, weight: Float[Array, " N"]) -> None:
        # In NumPy: in JAX each small operation would be compiled anew for every number of transitions.
        given = {name: np.asarray(value) for name, value in vars(self).items() if value is not None}
        discount, counts = given["discount"], np.asarray(weight)
        for name in ("state", "reward", "action"):
            if name in given:
                check_finite(name, given[name])
        if not ((discount >= 0) & (discount <= 1)).all():
            raise ValueError("discount: some lie outside [0, 1]; use 0 where the process ends.")
        for name in ("next_state", "next_action"):
            if name in given:
                check_finite(name, np.where(discount[..., None] == 0, 0.0, given[name]))
        if not ((counts >= 0).all() and np.isfinite(counts).all() and counts.sum() > 0):
            raise ValueError("weight: give finite numbers from 0 up, not all zero.")


def _rows(name: str, array: Any) -> Float[Array, "N d"]:
    array = read_numbers(name, array)
    if array.ndim == 1 and len(array):
        raise ValueError(
            f"{name}: shape {array.shape}; give one row for each sample. For one-dimensional states use "
            f"{name}[:, None]."
        )
    if array.size == 0:
        raise ValueError(f"{name}: shape {array.shape} holds no numbers; give at least one transition.")
    if array.ndim != 2:
        raise ValueError(f"{name}: shape {array.shape}; give an array of shape (N, d).")
    return array


def _column(name: str, array: Any, count: int) -> Float[Array, " N"]:
    array = read_numbers(name, array)
    if array.shape not in ((), (count,)):
        raise ValueError(f"{name}: shape {array.shape}; there are {count} states, so give shape ({count},).")
    return jnp.broadcast_to(array, (count,))


def _successors(array: Any, count: int, width: int) -> Float[Array, "N *M d"]:
    array = read_numbers("next_state", array)
    if array.shape == (count, width) or (array.ndim == 3 and array.shape[::2] == (count, width)):
        return array
    raise ValueError(
        f"next_state: shape {array.shape} differs from state's {(count, width)}; give one successor for each "
        f"state, or several as ({count}, M, {width})."
    )


def _actions(name: str, array: Any, shape: tuple[int, ...]) -> Float[Array, "N *M k"]:
    array = read_numbers(name, array)
    if array.shape == shape:
        array = array[..., None]
    if array.shape[:-1] != shape:
        given = ", ".join(map(str, shape))
        raise ValueError(f"{name}: shape {array.shape}; give shape ({given},) or ({given}, k).")
    return array


def _beside(state: Float[Array, "*rows d"], action: Float[Array, "*rows k"]) -> Float[Array, "*rows d_and_k"]:
    host: Any = np if isinstance(state, np.ndarray) else jnp
    return host.concatenate([state, action], axis=-1)


def check_finite(name: str, array: np.ndarray) -> None:
    bad = np.asarray(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
    if bad.any():
        raise ValueError(
            f"{name}: {int(bad.sum())} of {len(bad)} hold NaN or infinity (the first is number "
            f"{int(np.argmax(bad))}); remove or repair them."
        )
