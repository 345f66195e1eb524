"""Transitions: sampled steps of a process, one a row."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.precision import in_double, is_traced, read_numbers


class Transitions(eqx.Module):
    """N steps of a process under a policy: from `state`, with `reward`, to `next_state`.

        residual_i = f(state_i) - reward_i - discount_i f(next_state_i)

    For Q-factors give `action` and `next_action`, the policy's choice in `next_state`; they are appended
    to the states as further inputs of the network. The successor must be certain: with a noisy process a
    single sampled successor biases the fit towards smooth values.

    Arguments: `state` and `next_state` (N, d), `reward` (N,); `discount` a number or (N,), 0 where the
    process ends (truncation is not an end); `weight` (N,) how much each row counts, by default the same,
    scaled to sum to one; `action` and `next_action` (N,) or (N, k). Where `discount` is 0, `next_state` and
    `next_action` are not read and may be NaN.

    >>> import gaussbell as gb
    >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[1.0], [0.0]], discount=0.9)
    >>> len(data), data.weight.tolist()
    (2, [0.5, 0.5])
    """

    state: Float[Array, "N d"]
    reward: Float[Array, " N"]
    next_state: Float[Array, "N d"]
    discount: Float[Array, " N"]
    weight: Float[Array, " N"]
    action: Float[Array, "N k"] | None
    next_action: Float[Array, "N k"] | None

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
    ):
        self.state = _rows("state", state)
        count = len(self.state)
        self.next_state = _rows("next_state", next_state)
        if self.next_state.shape != self.state.shape:
            raise ValueError(
                f"next_state: shape {self.next_state.shape} differs from state's {self.state.shape}; give "
                "one successor for each state."
            )
        self.reward = _column("reward", reward, count)
        self.discount = _column("discount", discount, count)
        weight = _column("weight", 1.0 if weight is None else weight, count)
        self.weight = weight / weight.sum()
        if (action is None) != (next_action is None):
            raise ValueError(
                "action and next_action go together: give both for Q-factors, neither for state values."
            )
        self.action = None if action is None else _actions("action", action, count)
        self.next_action = None if next_action is None else _actions("next_action", next_action, count)
        if self.inputs.shape != self.next_inputs.shape:
            raise ValueError("next_action: its width differs from action's; give both the same form.")
        if not is_traced((self, weight)):
            self._check_numbers(weight)

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def inputs(self) -> Float[Array, "N d_and_k"]:
        """The network's inputs before the step: the state, with the action for Q-factors."""
        return self.state if self.action is None else _beside(self.state, self.action)

    @property
    def next_inputs(self) -> Float[Array, "N d_and_k"]:
        """The network's inputs after the step."""
        if self.next_action is None:
            return self.next_state
        return _beside(self.next_state, self.next_action)

    def _check_numbers(self, weight: Float[Array, " N"]) -> None:
        for name in ("state", "reward", "action"):
            if getattr(self, name) is not None:
                _check_finite(name, getattr(self, name))
        if not bool(((self.discount >= 0) & (self.discount <= 1)).all()):
            raise ValueError("discount: some lie outside [0, 1]; use 0 where the process ends.")
        ended = self.discount[:, None] == 0
        for name in ("next_state", "next_action"):
            if getattr(self, name) is not None:
                _check_finite(name, jnp.where(ended, 0.0, getattr(self, name)))
        if not bool((weight >= 0).all() & jnp.isfinite(weight).all() & (weight.sum() > 0)):
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


def _actions(name: str, array: Any, count: int) -> Float[Array, "N k"]:
    array = read_numbers(name, array)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != count:
        raise ValueError(
            f"{name}: shape {array.shape}; there are {count} states, so give shape ({count},) or "
            f"({count}, k)."
        )
    return array


def _beside(state: Float[Array, "N d"], action: Float[Array, "N k"]) -> Float[Array, "N d_and_k"]:
    return jnp.concatenate([state, action], axis=1)


def _check_finite(name: str, array: Array) -> None:
    bad = ~jnp.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if bool(bad.any()):
        raise ValueError(
            f"{name}: {int(bad.sum())} of {len(bad)} rows hold NaN or infinity (the first is row "
            f"{int(jnp.argmax(bad))}); remove or repair them."
        )
