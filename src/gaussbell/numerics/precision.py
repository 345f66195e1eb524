"""Double precision inside, the caller's precision outside.

Gauss-Newton steps need float64, but switching `jax_enable_x64` on at import would change the dtypes of
every other JAX program in the process. So the flag is raised only while gaussbell computes.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

P = ParamSpec("P")
T = TypeVar("T")

_caller: ContextVar[Any] = ContextVar("the default precision outside gaussbell", default=None)


def in_double(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with 64-bit types enabled, whatever the caller's setting."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        outside = _caller.set(callers_dtype())
        try:
            with jax.enable_x64(True):
                return function(*args, **kwargs)
        finally:
            _caller.reset(outside)

    return wrapper


def double_throughout(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` as a program of its own that has 64-bit types on: answers to it are float64 too."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapper


def callers_dtype() -> Any:
    """The default floating-point type of the program that called gaussbell."""
    return _caller.get() or jnp.result_type(float)


def has_double() -> bool:
    """Are 64-bit types on?"""
    return jnp.result_type(float) == jnp.float64


def as_double(tree: Any) -> Any:
    """Every floating-point array in `tree` as a float64 JAX array; other leaves stay as they are."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64) if is_floating(leaf) else leaf, tree)


def as_single(tree: Any) -> Any:
    """Every concrete floating-point array as float32 NumPy numbers: for programs without 64 bits."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float32) if is_floating(leaf) and not is_traced(leaf) else leaf, tree
    )


def numbers_as_arrays(tree: Any) -> Any:
    """Python numbers as arrays, so that settings that differ in a number share a compiled program."""

    def is_number(leaf):
        return isinstance(leaf, int | float) and not isinstance(leaf, bool)

    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64) if is_number(leaf) else leaf, tree)


def is_floating(leaf: Any) -> bool:
    """Is `leaf` a NumPy or JAX array of real floating-point numbers?"""
    return isinstance(leaf, np.ndarray | np.generic | jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)


def is_traced(tree: Any) -> bool:
    """Is any leaf of `tree` an abstract value inside jit, vmap or grad?"""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def on_host(tree: Any) -> Any:
    """Concrete JAX arrays in `tree` as NumPy arrays, which keep float64 in any program."""

    def convert(leaf):
        concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer)
        return np.asarray(leaf) if concrete else leaf

    return jax.tree.map(convert, tree)
