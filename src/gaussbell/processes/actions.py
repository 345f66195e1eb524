"""Sets of actions: a number of choices, or a box of numbers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from gaussbell.numerics.arguments import as_key, read_count
from gaussbell.numerics.precision import in_double, on_host


class DiscreteActions(eqx.Module):
    """The whole numbers from 0 to `count` - 1.

    Example:
        >>> import gaussbell as gb
        >>> gb.actions.DiscreteActions(3).list_all().tolist()
        [0, 1, 2]
    """

    count: int = eqx.field(static=True)

    def __init__(self, count: int):
        self.count = read_count("count", count, 1)

    def __str__(self) -> str:
        return f"whole numbers from 0 to {self.count - 1}"

    @property
    def low(self) -> Float[np.ndarray, " 1"]:
        return np.zeros(1)

    @property
    def high(self) -> Float[np.ndarray, " 1"]:
        return np.array([self.count - 1.0])

    def list_all(self) -> Array:
        """Every action."""
        return jnp.arange(self.count, dtype=jnp.int32)

    def sample(self, count: int, *, key: PRNGKeyArray | int = 0) -> Array:
        """Actions drawn uniformly."""
        return on_host(jax.random.randint(as_key(key), (count,), 0, self.count, jnp.int32))

    def contains(self, action: Shaped[Array, "*batch"]) -> Bool[Array, "*batch"]:
        """Which of a batch of actions are legal?"""
        host = jnp if isinstance(action, jax.Array) else np  # NumPy's numbers are asked for at every step
        action = host.asarray(action)
        return (action == host.floor(action)) & (action >= 0) & (action < self.count)


class BoxActions(eqx.Module):
    """Vectors of numbers between `low` and `high`, of shape (k,) each.

    Example:
        >>> import gaussbell as gb
        >>> gb.actions.BoxActions([-1.0], [1.0]).contains([[0.5], [2.0]]).tolist()
        [True, False]
    """

    low: Float[np.ndarray, " k"]
    high: Float[np.ndarray, " k"]

    def __init__(self, low: Any, high: Any):
        self.low, self.high = np.asarray(low, float), np.asarray(high, float)
        if self.low.ndim != 1 or self.low.shape != self.high.shape or not (self.low < self.high).all():
            raise ValueError("low and high: give two vectors of one length, low below high everywhere.")

    def __str__(self) -> str:
        return f"vectors of {len(self.low)} numbers between {self.low.tolist()} and {self.high.tolist()}"

    @in_double
    def sample(self, count: int, *, key: PRNGKeyArray | int = 0) -> Float[Array, "count k"]:
        """Actions drawn uniformly."""
        share = jax.random.uniform(as_key(key), (count, len(self.low)), jnp.float32).astype(jnp.float64)
        return on_host(self.low + share * (self.high - self.low))

    @in_double
    def contains(self, action: Float[Array, "*batch k"]) -> Bool[Array, "*batch"]:
        """Which of a batch of actions are legal?"""
        taken: Any = action if isinstance(action, jax.Array) else np.asarray(action)
        slack = 1e-6 * (self.high - self.low)  # single precision may round the bounds themselves
        return ((taken >= self.low - slack) & (taken <= self.high + slack)).all(axis=-1)


Actions = DiscreteActions | BoxActions


def read_actions(space: Any) -> tuple[Actions, int]:
    """The set of actions of a Gymnasium space, and the number of its first one."""
    kind = type(space).__name__
    if kind == "Discrete":
        return DiscreteActions(int(space.n)), int(space.start)
    if kind == "Box" and len(space.shape) == 1:
        return BoxActions(space.low, space.high), 0
    raise ValueError(
        f"actions: the space is {space}; gaussbell knows Discrete and one-dimensional Box spaces."
    )
