"""Arguments read once, with errors that name the argument and the remedy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def read_numbers(name: str, value: Any) -> Any:
    """Anything array-like as a float64 JAX array; ValueError where it holds no real numbers."""
    return jnp.asarray(value if isinstance(value, jax.Array) else read_concrete(name, value), jnp.float64)


def read_concrete(name: str, value: Any) -> np.ndarray:
    """Anything array-like as a float64 NumPy array; ValueError where it holds no real numbers."""
    try:
        if value is None or np.iscomplexobj(value):
            raise TypeError(f"it is {'nothing' if value is None else 'complex'}")
        return np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: cannot be read as an array of real numbers ({str(error).splitlines()[0]})."
        ) from error


def read_count(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """A whole number, NumPy's included, within bounds; ValueError, naming the argument, otherwise."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    raise ValueError(f"{name}={value!r}: give a whole number from {least} to {most}.")


def as_key(key: Any) -> Any:
    """A JAX random key, from a key or from a whole number."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key)
    if isinstance(key, Tracer) and key.ndim == 0:
        return jax.random.key(key)
    return jax.random.key(read_count("key", key, 0))


def host_rng(key: Any) -> np.random.Generator:
    """NumPy's random numbers, from a JAX key or a whole number."""
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))))


def check_positive(name: str, value: Any, *, zero_allowed: bool = False) -> None:
    """Raise ValueError unless a setting is a positive, finite number; traced settings pass."""
    if isinstance(value, Tracer):
        return
    is_number = isinstance(value, int | float | np.generic | np.ndarray | jax.Array)
    # Arrays of several numbers are sweeps: they meet vmap before they meet a step.
    if not is_number or not all(0 <= v < np.inf and (v > 0 or zero_allowed) for v in np.ravel(value)):
        floor = "from 0 up" if zero_allowed else "above 0"
        raise ValueError(f"{name}={value!r}: give a finite number {floor}.")


def check_share(name: str, value: Any) -> None:
    """Raise ValueError unless a setting is a number from 0 to 1; traced settings pass."""
    check_positive(name, value, zero_allowed=True)
    if not isinstance(value, Tracer) and np.any(np.asarray(value) > 1):
        raise ValueError(f"{name}={value!r}: give a number from 0 to 1.")
