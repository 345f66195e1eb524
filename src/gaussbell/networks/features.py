"""Inputs of a network made from states: small objects that compose.

Each maps an array (..., d) to an array (..., k) and has no parameters to fit. `FeatureNetwork(features,
network)` puts them before a network, which then takes states as they come from the environment.

>>> import gaussbell as gb, numpy
>>> scaled = gb.features.Scale([-1.2, -0.07], [0.6, 0.07])
>>> both = gb.features.Concatenate(scaled, gb.features.Chain(scaled, gb.features.Fourier()))
>>> both(numpy.zeros((5, 2))).shape
(5, 6)
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Features = Any


def to_unit_box(x: Float[Array, "*batch d"], low: Any, high: Any) -> Float[Array, "*batch d"]:
    """Numbers between `low` and `high`, mapped to [-1, 1]."""
    return 2 * (x - low) / (high - low) - 1


class Scale(eqx.Module):
    """Numbers between `low` and `high`, mapped to [-1, 1]."""

    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]

    def __init__(self, low: Any, high: Any):
        self.low, self.high = np.asarray(low, float), np.asarray(high, float)
        if self.low.shape != self.high.shape or not (self.low < self.high).all():
            raise ValueError("low and high: give two vectors of one length, low below high everywhere.")

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        return to_unit_box(x, self.low, self.high)


class Standardise(eqx.Module):
    """Numbers less `centre`, in units of `unit`, cut off at ±`most` units: for inputs without bounds."""

    centre: Float[np.ndarray, " d"]
    unit: Float[np.ndarray, " d"]
    most: float = eqx.field(static=True, default=8.0)

    @staticmethod
    def of(sample: Any) -> "Standardise":
        """By the mean and the standard deviation of a sample (N, d); a constant number keeps its unit.

        Example:
            >>> import gaussbell as gb
            >>> gb.features.Standardise.of([[1.0, 5.0], [3.0, 5.0]])([3.0, 5.0]).tolist()
            [1.0, 0.0]
        """
        sample = np.asarray(sample, float)
        unit = sample.std(axis=0)
        varies = unit > 1e-9 * (1 + np.abs(sample).max(axis=0))
        return Standardise(sample.mean(axis=0), np.where(varies, unit, 1.0))

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        return jnp.clip((jnp.asarray(x) - self.centre) / self.unit, -self.most, self.most)


class Fourier(eqx.Module):
    """sin(pi k x) and cos(pi k x) of every number x, for k = 1 to `count`: give it scaled numbers."""

    count: int = eqx.field(static=True, default=1)

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch k"]:
        angles = jnp.concatenate([jnp.pi * k * x for k in range(1, self.count + 1)], axis=-1)
        return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class Angles(eqx.Module):
    """The numbers in `columns` are angles: each becomes its sine and cosine. Others stay as they are."""

    columns: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch k"]:
        angle = x[..., list(self.columns)]
        rest = jnp.delete(x, np.array(self.columns), axis=-1)
        return jnp.concatenate([jnp.sin(angle), jnp.cos(angle), rest], axis=-1)


class Identity(eqx.Module):
    """The numbers as they are: for a network that should not have them scaled."""

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        return x


class Columns(eqx.Module):
    """A few of the numbers."""

    columns: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch k"]:
        return x[..., list(self.columns)]


class OneHot(eqx.Module):
    """One input for each of `count` states or actions, of which `column` holds the number."""

    count: int = eqx.field(static=True)
    column: int = eqx.field(static=True, default=0)

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch count"]:
        return (x[..., self.column, None] == jnp.arange(self.count)).astype(x.dtype)


def one_hot(states: int, actions: int | None = None) -> Features:
    """One input for each of so many states and, for pairs of state and action, one for each action."""
    return OneHot(states) if actions is None else Concatenate(OneHot(states), OneHot(actions, 1))


class PolicyAction(eqx.Module):
    """What a policy does in the state, the first `width` numbers, scaled to [-1, 1].

    Values are often not smooth where the policy changes its mind; this input lets the network know. The
    policy must be certain and written in JAX, or be wrapped by `policies.on_host`.
    """

    policy: Any
    actions: Any
    width: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch k"]:
        x = jnp.asarray(x)
        states = x[..., : self.width].reshape(-1, self.width)
        chosen = jax.vmap(self.policy)(states).reshape(*x.shape[:-1], -1)
        return to_unit_box(chosen, self.actions.low, self.actions.high)


class Chain(eqx.Module):
    """Features of features: the first part is applied first."""

    parts: tuple[Features, ...]

    def __init__(self, *parts: Features):
        self.parts = parts

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch k"]:
        for part in self.parts:
            x = part(x)
        return x


class Concatenate(eqx.Module):
    """The features of all parts, one after the other."""

    parts: tuple[Features, ...]

    def __init__(self, *parts: Features):
        self.parts = parts

    def __call__(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch k"]:
        return jnp.concatenate([part(x) for part in self.parts], axis=-1)


def width(features: Features, inputs: int) -> int:
    """How many numbers the features make of `inputs` numbers.

    Example:
        >>> import gaussbell as gb
        >>> gb.features.width(gb.features.Angles((0,)), 2)
        3
    """
    return jax.eval_shape(features, jax.ShapeDtypeStruct((inputs,), jnp.float32)).shape[-1]
