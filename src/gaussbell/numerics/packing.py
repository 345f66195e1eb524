"""A pytree of parameters as one flat vector, and back."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gaussbell.numerics.precision import is_floating


class Packing(eqx.Module):
    """How a pytree's floating-point leaves lie in one float64 vector.

    The vector lists the leaves in pytree order, each row by row. Everything else in the tree (sizes,
    functions, integers) is carried along unchanged in `rest`. Shapes and dtypes are static, so two
    packings of like trees compare equal and share compiled programs.
    """

    rest: Any
    treedef: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    dtypes: tuple[np.dtype, ...] = eqx.field(static=True)

    def __init__(self, tree: Any):
        parameters, self.rest = eqx.partition(tree, is_floating)
        leaves, self.treedef = jax.tree.flatten(parameters)
        self.shapes = tuple(np.shape(leaf) for leaf in leaves)
        self.dtypes = tuple(np.dtype(leaf.dtype) for leaf in leaves)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    def pack(self, tree: Any) -> Float[Array, " n"]:
        """The parameters of `tree` as one float64 vector."""
        leaves = jax.tree.leaves(eqx.filter(tree, is_floating))
        if not leaves:
            return jnp.zeros(0, jnp.float64)
        return jnp.concatenate([jnp.asarray(leaf, jnp.float64).ravel() for leaf in leaves])

    def unpack(self, x: Float[Array, " n"]) -> Any:
        """The tree whose parameters are `x`, all in float64."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        pieces = jnp.split(x, ends) if self.shapes else []
        leaves = [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        return eqx.combine(jax.tree.unflatten(self.treedef, leaves), self.rest)

    def restore(self, x: Float[Array, " n"]) -> Any:
        """The tree whose parameters are `x`, each in the precision it came with."""
        parameters, rest = eqx.partition(self.unpack(x), is_floating)
        leaves, treedef = jax.tree.flatten(parameters)
        leaves = [leaf.astype(dtype) for leaf, dtype in zip(leaves, self.dtypes, strict=True)]
        return eqx.combine(jax.tree.unflatten(treedef, leaves), rest)
