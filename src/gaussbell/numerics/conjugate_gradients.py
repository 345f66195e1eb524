"""Preconditioned conjugate gradients inside compiled programs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def conjugate_gradients(
    product: Callable[[Float[Array, " n"]], Float[Array, " n"]],
    right: Float[Array, " n"],
    precondition: Callable[[Float[Array, " n"]], Float[Array, " n"]],
    tolerance: float,
    max_iterations: int,
) -> Float[Array, " n"]:
    """The solution x of product(x) = right, until the residual is `tolerance` of its first size.

    Residuals are measured in the norm of the preconditioner, which sees small eigenvalues as well as large.
    """

    def goes_on(carry):
        *_, size, count = carry
        return (size > tolerance**2 * first_size) & (count < max_iterations)

    def improve(carry):
        x, residual, direction, size, count = carry
        image = product(direction)
        length = size / jnp.vdot(direction, image)
        x, residual = x + length * direction, residual - length * image
        preconditioned = precondition(residual)
        new_size = jnp.vdot(residual, preconditioned)
        return x, residual, preconditioned + (new_size / size) * direction, new_size, count + 1

    direction = precondition(right)
    first_size = jnp.vdot(right, direction)
    start = (jnp.zeros_like(right), right, direction, first_size, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(goes_on, improve, start)[0]
