"""Damped least-squares steps, in parameter space or in sample space.

All of these compute the same vector, with J the (m, n) Jacobian and r the (m,) residual,

    step = (J'J + c I_n)^-1 J'r  =  J' (J J' + c I_m)^-1 r,

and differ in the size of the system they factorise: n for the first form, m for the second.
"""

import abc
from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Linearised(Protocol):
    """What a step needs to know: a residual and its derivative."""

    @property
    def residual(self) -> Float[Array, " m"]: ...

    @property
    def num_parameters(self) -> int: ...

    def jacobian(self) -> Float[Array, "m n"]: ...

    def gram(self) -> Float[Array, "m m"]: ...

    def vjp(self, u: Float[Array, " m"]) -> Float[Array, " n"]: ...


class DampedSolve(eqx.Module):
    """A way to compute damped steps (J'J + c I)^-1 J'r, in parts that can be used again.

    The matrix belongs to the linearisation, its factor to a damping, a step to a residual: a rejected step
    needs a new factor only, a second right-hand side a new step only.
    """

    @abc.abstractmethod
    def matrix(self, at: Linearised) -> Float[Array, "k k"]:
        """The symmetric matrix that the damping is added to; its trace is the square norm of J."""

    @abc.abstractmethod
    def step(
        self, at: Linearised, factor: Float[Array, "k k"], residual: Float[Array, " m"]
    ) -> Float[Array, " n"]:
        """(J'J + c I)^-1 J' residual, with the factor of the damped matrix."""


class ParameterSpace(DampedSolve):
    """Factorise J'J + c I, of size n x n: the cheaper way when there are more rows than parameters."""

    def matrix(self, at: Linearised) -> Float[Array, "n n"]:
        jacobian = at.jacobian()
        return jacobian.T @ jacobian

    def step(
        self, at: Linearised, factor: Float[Array, "n n"], residual: Float[Array, " m"]
    ) -> Float[Array, " n"]:
        return jax.scipy.linalg.cho_solve((factor, True), at.vjp(residual))


class SampleSpace(DampedSolve):
    """Factorise JJ' + c I, of size m x m: the cheaper way when there are more parameters than rows."""

    def matrix(self, at: Linearised) -> Float[Array, "m m"]:
        return at.gram()

    def step(
        self, at: Linearised, factor: Float[Array, "m m"], residual: Float[Array, " m"]
    ) -> Float[Array, " n"]:
        return at.vjp(jax.scipy.linalg.cho_solve((factor, True), residual))


class SmallerSpace(DampedSolve):
    """Sample space when m < n, parameter space otherwise: known from the shapes, so decided once."""

    def matrix(self, at: Linearised) -> Float[Array, "k k"]:
        return _smaller(at).matrix(at)

    def step(
        self, at: Linearised, factor: Float[Array, "k k"], residual: Float[Array, " m"]
    ) -> Float[Array, " n"]:
        return _smaller(at).step(at, factor, residual)


def _smaller(at: Linearised) -> DampedSolve:
    fewer_rows = at.residual.shape[0] < at.num_parameters
    return SampleSpace() if fewer_rows else ParameterSpace()


def factorise(matrix: Float[Array, "k k"], damping: Float[Array, ""]) -> Float[Array, "k k"]:
    """The Cholesky factor of matrix + damping I; NaN where that is not positive definite."""
    shifted = matrix + damping * jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    return jnp.linalg.cholesky(shifted, symmetrize_input=False)


def damped_step(space: DampedSolve, at: Linearised, damping: Float[Array, ""]) -> Float[Array, " n"]:
    """The step from `at`, all parts at once; not finite when the factorisation failed."""
    return space.step(at, factorise(space.matrix(at), damping), at.residual)
