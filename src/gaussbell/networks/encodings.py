"""Inputs for the states of a finite process: one row of numbers for each state."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.numerics.arguments import as_key
from gaussbell.numerics.precision import in_double, is_traced


def number(num_states: int) -> Float[np.ndarray, "K 1"]:
    """The state's number, 1 to K, as a single input: the paper's simplest choice.

    Example:
        >>> import gaussbell as gb
        >>> gb.encodings.number(3)[:, 0].tolist()
        [1.0, 2.0, 3.0]
    """
    return np.arange(1.0, num_states + 1)[:, None]


def one_hot(num_states: int) -> Float[np.ndarray, "K K"]:
    """One input for each state: the network can then represent any values.

    Example:
        >>> import gaussbell as gb
        >>> gb.encodings.one_hot(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(num_states)


@in_double
def normal(
    num_states: int, width: int, *, key: PRNGKeyArray | int = 0
) -> Float[Array | np.ndarray, "K width"]:
    """Independent standard normal features, fixed by the key: the paper's choice for the star.

    Example:
        >>> import gaussbell as gb
        >>> gb.encodings.normal(7, 2, key=0).shape
        (7, 2)
    """
    features: Any = jax.random.normal(as_key(key), (num_states, width), jnp.float32).astype(jnp.float64)
    return features if is_traced(features) else np.asarray(features)
