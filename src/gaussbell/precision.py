"""Double precision inside, the caller's precision outside.

Gauss-Newton steps need float64, but switching `jax_enable_x64` on at import would change the dtypes of
every other JAX program in the process. So the flag is raised only while gaussbell computes.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

P = ParamSpec("P")
T = TypeVar("T")


def in_double(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with 64-bit types enabled, whatever the caller's setting."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapper


def as_double(tree: Any) -> Any:
    """Every floating-point leaf of `tree`, Python floats included, as a float64 JAX array.

    Leaves of other kinds (integers, booleans, keys, functions) stay as they are. Python floats become
    arrays so that two solvers that differ in a step size share one compiled program.
    """

    def convert(leaf):
        if isinstance(leaf, float):
            return jnp.asarray(leaf, jnp.float64)
        if is_floating(leaf):
            return jnp.asarray(leaf, jnp.float64)
        return leaf

    return jax.tree.map(convert, tree)


def is_floating(leaf: Any) -> bool:
    """Is `leaf` a NumPy or JAX array of real floating-point numbers?"""
    return isinstance(leaf, np.ndarray | np.generic | jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)


def is_traced(tree: Any) -> bool:
    """Is any leaf of `tree` an abstract value inside jit, vmap or grad?"""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def as_key(key: Any) -> Any:
    """A JAX random key, from a key or from a whole number."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return jax.random.key(int(key))
    return key
