"""Symmetric matrices by their lower triangle: products, Cholesky and spectral factors."""

import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

BLOCK_ROWS = 128
"""Rows of a symmetric product that are formed at once: what a processor's cache holds."""


MOST_BLOCKS = 16
"""Every block is a piece of program to compile."""


LARGEST_COPIED = 2**23
"""Numbers in a matrix (64 MiB) up to which parts of it are copied for speed."""


def cholesky(triangle: Float[Array, "k k"], damping: Float[Array, ""]) -> Float[Array, "k k"]:
    """The Cholesky factor of a symmetric matrix + damping I; NaN where that is not positive definite."""
    shifted = triangle + damping * jnp.eye(triangle.shape[0], dtype=triangle.dtype)
    return jnp.linalg.cholesky(shifted, symmetrize_input=False)


def spectral_factor(triangle: Float[Array, "k k"], damping: Float[Array, ""]) -> Float[Array, "k k"]:
    """A triangular factor whose solves are those of the pseudo-inverse of a symmetric matrix + damping I.

    Eigenvalues that drown in rounding count as infinite: nothing is known of their directions.
    """
    eigenvalues, vectors = jnp.linalg.eigh(mirror(triangle))
    largest = jnp.maximum(jnp.abs(eigenvalues[0]), jnp.abs(eigenvalues[-1]))
    eps = jnp.finfo(triangle.dtype).eps
    shifted = eigenvalues + damping
    known = shifted > len(triangle) * eps * largest
    scale = jnp.sqrt(jnp.where(known, shifted, largest / eps**2))
    upper = jnp.linalg.qr(scale[:, None] * vectors.T, mode="r")
    return upper.T


def product_triangle(matrix: Float[Array, "k q"]) -> Float[Array, "k k"]:
    """matrix @ matrix.T on and below the diagonal, and zeros in most places above it."""
    size = matrix.shape[0]
    # Each block copies its operands: more than a few would not pay, and not at all for a large matrix.
    most = 4 if matrix.size <= LARGEST_COPIED else 1
    blocks = [
        jnp.pad(matrix[start:end] @ matrix[:end].T, ((0, 0), (0, size - end)))
        for start, end in row_blocks(size, most)
    ]
    return blocks[0] if len(blocks) == 1 else jnp.concatenate(blocks)


def row_blocks(size: int, most: int = MOST_BLOCKS) -> list[tuple[int, int]]:
    """The first and last rows of blocks of a triangle that are worth forming separately."""
    count = min(max(1, round(size / BLOCK_ROWS)), most)
    ends = np.linspace(0, size, count + 1).astype(int).tolist()
    return list(itertools.pairwise(ends))


def mirror(triangle: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The symmetric matrix with this lower triangle."""
    return jnp.tril(triangle) + jnp.tril(triangle, -1).T
