"""Derivatives of a batch of numbers by the parameters: a Jacobian G that need not be a matrix.

A step needs products with G, with its transpose, and one of the matrices G G' and G'G. Which of them are
cheap depends on what is known of the function, so each way to hold G is a class: dense rows here, the
factors of an MLP in `layer_factors`, or nothing but the function, differentiated on demand.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gaussbell.numerics.precision import in_double
from gaussbell.numerics.triangles import mirror, product_triangle

MOST_DENSE_NUMBERS = 2**25
"""Jacobians with more entries than this (256 MiB) are not formed unless they must be."""


class DifferentialMap(eqx.Module):
    """The values F (N,) of a function of n parameters, and G (N, n), their derivatives."""

    value: eqx.AbstractVar[Float[Array, " N"]]

    @property
    @abc.abstractmethod
    def num_parameters(self) -> int: ...

    @abc.abstractmethod
    def rows(self) -> Float[Array, "N n"]:
        """G as a dense matrix."""

    @abc.abstractmethod
    def apply(self, h: Float[Array, " n"]) -> Float[Array, " N"]:
        """G h."""

    @abc.abstractmethod
    def transpose(self, u: Float[Array, " N"]) -> Float[Array, " n"]:
        """G' u."""

    def combined(self, coefficients: Float[Array, "T m"]) -> "DifferentialMap":
        """The map of m = N / T sums: row i is the sum over t of coefficients[t, i] times row t m + i."""
        return DenseRows(self.value, self.rows()).combined(coefficients)

    def gram_triangle(self) -> Float[Array, "N N"]:
        """G G' on and below the diagonal; above it anything."""
        return product_triangle(self.rows())

    @in_double
    def gram(self) -> Float[Array, "N N"]:
        """G G'."""
        return mirror(self.gram_triangle())

    def normal_triangle(self) -> Float[Array, "n n"]:
        """G'G on and below the diagonal; above it anything."""
        return product_triangle(self.rows().T)

    def take(self, rows: Int[Array, " s"]) -> "DifferentialMap":
        """The map of some of the rows: by default one product with G' for each."""

        def row(i: Int[Array, ""]) -> Float[Array, " n"]:
            return self.transpose(jnp.zeros_like(self.value).at[i].set(1.0))

        return DenseRows(self.value[rows], jax.lax.map(row, rows))


class DenseRows(DifferentialMap):
    """G as a dense matrix: for functions of which nothing is known, and few enough rows."""

    value: Float[Array, " N"]
    matrix: Float[Array, "N n"]

    @property
    def num_parameters(self) -> int:
        return self.matrix.shape[1]

    @in_double
    def rows(self) -> Float[Array, "N n"]:
        return self.matrix

    @in_double
    def apply(self, h: Float[Array, " n"]) -> Float[Array, " N"]:
        return self.matrix @ h

    @in_double
    def transpose(self, u: Float[Array, " N"]) -> Float[Array, " n"]:
        return u @ self.matrix

    def combined(self, coefficients: Float[Array, "T m"]) -> "DenseRows":
        stacks = self.matrix.reshape(*coefficients.shape, -1)
        return DenseRows(
            combine(coefficients, self.value), jnp.sum(coefficients[:, :, None] * stacks, axis=0)
        )

    def take(self, rows: Int[Array, " s"]) -> "DenseRows":
        return DenseRows(self.value[rows], self.matrix[rows])


class OnDemand(DifferentialMap):
    """G as the derivative of a function at x, taken anew for each product: for what does not fit in memory.

    `function` is a pytree, such as an equinox module or a method of one, so that its data are arguments of
    compiled programs and not constants in them. Loops carry arrays only, so what is no array in it (an
    activation, say) is kept apart.
    """

    value: Float[Array, " N"]
    x: Float[Array, " n"]
    arrays: tuple[Any, ...]
    others: tuple[Any, ...] = eqx.field(static=True)
    tree: Any = eqx.field(static=True)

    def __init__(
        self,
        value: Float[Array, " N"],
        x: Float[Array, " n"],
        function: Callable[[Float[Array, " n"]], Float[Array, " N"]],
    ):
        self.value, self.x = value, x
        leaves, self.tree = jax.tree.flatten(function)
        self.arrays = tuple(leaf if eqx.is_array(leaf) else None for leaf in leaves)
        self.others = tuple(None if eqx.is_array(leaf) else leaf for leaf in leaves)

    @property
    def function(self) -> Callable[[Float[Array, " n"]], Float[Array, " N"]]:
        pairs = zip(self.arrays, self.others, strict=True)
        leaves = [other if array is None else array for array, other in pairs]
        return jax.tree.unflatten(self.tree, leaves)

    @property
    def num_parameters(self) -> int:
        return self.x.shape[0]

    @in_double
    def rows(self) -> Float[Array, "N n"]:
        return self.take(jnp.arange(len(self.value))).rows()

    @in_double
    def apply(self, h: Float[Array, " n"]) -> Float[Array, " N"]:
        return jax.jvp(self.function, (self.x,), (h,))[1]

    @in_double
    def transpose(self, u: Float[Array, " N"]) -> Float[Array, " n"]:
        return jax.vjp(self.function, self.x)[1](u)[0]

    def combined(self, coefficients: Float[Array, "T m"]) -> "OnDemand":
        function = _Combined(self.function, coefficients)
        return OnDemand(combine(coefficients, self.value), self.x, function)


class _Combined(eqx.Module):
    function: Callable[[Float[Array, " n"]], Float[Array, " N"]]
    coefficients: Float[Array, "T m"]

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " m"]:
        return combine(self.coefficients, self.function(x))


def combine(coefficients: Float[Array, "T m"], values: Float[Array, " N"]) -> Float[Array, " m"]:
    """Sums of T stacks of m values each, with a coefficient for each value."""
    return jnp.sum(coefficients * values.reshape(coefficients.shape), axis=0)
