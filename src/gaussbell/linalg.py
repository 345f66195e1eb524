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
    """A way to compute the damped step (J'J + c I)^-1 J'r."""

    @abc.abstractmethod
    def step(self, at: Linearised, damping: Float[Array, ""]) -> Float[Array, " n"]:
        """The step to subtract from the parameters; not finite when the factorisation failed."""


class ParameterSpace(DampedSolve):
    """Factorise J'J + c I, of size n x n: the cheaper way when there are more rows than parameters."""

    def step(self, at: Linearised, damping: Float[Array, ""]) -> Float[Array, " n"]:
        jacobian = at.jacobian()
        return solve_damped(jacobian.T @ jacobian, damping, jacobian.T @ at.residual)


class SampleSpace(DampedSolve):
    """Factorise JJ' + c I, of size m x m: the cheaper way when there are more parameters than rows."""

    def step(self, at: Linearised, damping: Float[Array, ""]) -> Float[Array, " n"]:
        return at.vjp(solve_damped(at.gram(), damping, at.residual))


class SmallerSpace(DampedSolve):
    """Sample space when m < n, parameter space otherwise: known from the shapes, so decided once."""

    def step(self, at: Linearised, damping: Float[Array, ""]) -> Float[Array, " n"]:
        fewer_rows = at.residual.shape[0] < at.num_parameters
        space = SampleSpace() if fewer_rows else ParameterSpace()
        return space.step(at, damping)


def solve_damped(
    gram: Float[Array, "k k"], damping: Float[Array, ""], right: Float[Array, " k"]
) -> Float[Array, " k"]:
    """Solve (gram + damping I) x = right by Cholesky; NaN where the matrix is not positive definite."""
    shifted = gram + damping * jnp.eye(gram.shape[0], dtype=gram.dtype)
    factor = jnp.linalg.cholesky(shifted, symmetrize_input=False)
    return jax.scipy.linalg.cho_solve((factor, True), right)
