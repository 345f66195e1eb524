"""Damped least-squares steps: in parameter space, in sample space, or without any matrix.

All of these compute the same vector, with J the (m, n) Jacobian and r the (m,) residual,

    step = (J'J + c I_n)^-1 J'r  =  J' (J J' + c I_m)^-1 r.

The first form factorises a matrix of size n, the second one of size m, and conjugate gradients need only
products with J and J'. `ByShape` picks among the three.
"""

import abc
from typing import Any, ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gaussbell.numerics.arguments import read_count
from gaussbell.numerics.conjugate_gradients import conjugate_gradients
from gaussbell.numerics.triangles import cholesky, spectral_factor


class Linearised(Protocol):
    """What a step needs to know: a residual and products with its derivative J."""

    @property
    def residual(self) -> Float[Array, " m"]: ...

    @property
    def num_parameters(self) -> int: ...

    def gram_triangle(self) -> Float[Array, "m m"]: ...

    def normal_triangle(self) -> Float[Array, "n n"]: ...

    def jvp(self, h: Float[Array, " n"]) -> Float[Array, " m"]: ...

    def vjp(self, u: Float[Array, " m"]) -> Float[Array, " n"]: ...

    def take(self, rows: Int[Array, " s"]) -> "Linearised": ...


class LinearSolve(eqx.Module):
    """How damped steps are computed, for problems of any shape."""

    @abc.abstractmethod
    def for_shape(self, num_rows: int, num_parameters: int) -> "DampedSolve":
        """The way to solve a problem with this many rows and parameters."""


class DampedSolve(LinearSolve):
    """A way to compute damped steps (J'J + c I)^-1 J'r, in parts that can be used again.

    The system belongs to the linearisation, its factor to a damping, a step to a residual: a rejected step
    needs a new factor only, a second right-hand side a new step only.
    """

    least_damping: ClassVar[float]
    """The smallest damping, beside the square norm of J, that is told apart from rounding."""

    def for_shape(self, num_rows: int, num_parameters: int) -> "DampedSolve":
        return self

    @abc.abstractmethod
    def system(self, at: Linearised) -> Any:
        """What all dampings share."""

    @abc.abstractmethod
    def square_norm(self, system: Any) -> Float[Array, ""]:
        """The sum of squares of J's entries, or an estimate of it: the unit of damping."""

    @abc.abstractmethod
    def factorise(self, system: Any, damping: Float[Array, ""]) -> Any:
        """What all right-hand sides share. Its steps are NaN if rounding has cost it its definiteness."""

    @abc.abstractmethod
    def factorise_anyway(self, system: Any, damping: Float[Array, ""]) -> Any:
        """The same, at any price: where `factorise` fails, directions lost in rounding get no step."""

    @abc.abstractmethod
    def step(self, at: Linearised, factor: Any, residual: Float[Array, " m"]) -> Float[Array, " n"]:
        """(J'J + c I)^-1 J' residual, with the factor of the damped system."""


class DenseSolve(DampedSolve):
    """A damped solve by the Cholesky factor of J'J + c I or JJ' + c I, of which the lower triangle counts."""

    least_damping: ClassVar[float] = 1e-16

    def square_norm(self, system: Float[Array, "k k"]) -> Float[Array, ""]:
        return jnp.trace(system)

    def factorise(self, system: Float[Array, "k k"], damping: Float[Array, ""]) -> Float[Array, "k k"]:
        return cholesky(system, damping)

    def factorise_anyway(self, system: Float[Array, "k k"], damping: Float[Array, ""]) -> Float[Array, "k k"]:
        def eigenvalues(_):
            return spectral_factor(system, damping), jnp.asarray(False)

        factor = cholesky(system, damping)
        # A loop of at most one turn: under vmap, a conditional would compute the eigenvalues in any case.
        failed = ~jnp.isfinite(factor[0, 0])
        return jax.lax.while_loop(lambda carry: carry[1], eigenvalues, (factor, failed))[0]


class ParameterSpace(DenseSolve):
    """Factorise J'J + c I, of size n x n: the cheaper way when there are more rows than parameters."""

    def system(self, at: Linearised) -> Float[Array, "n n"]:
        return at.normal_triangle()

    def step(
        self, at: Linearised, factor: Float[Array, "n n"], residual: Float[Array, " m"]
    ) -> Float[Array, " n"]:
        return jax.scipy.linalg.cho_solve((factor, True), at.vjp(residual))


class SampleSpace(DenseSolve):
    """Factorise JJ' + c I, of size m x m: the cheaper way when there are more parameters than rows."""

    def system(self, at: Linearised) -> Float[Array, "m m"]:
        return at.gram_triangle()

    def step(
        self, at: Linearised, factor: Float[Array, "m m"], residual: Float[Array, " m"]
    ) -> Float[Array, " n"]:
        return at.vjp(jax.scipy.linalg.cho_solve((factor, True), residual))


class Sketch(NamedTuple):
    """Some rows of a linearisation, which stand for all of them."""

    rows: Linearised
    gram: Float[Array, "s s"]
    share: Float[Array, ""]
    """The number of these rows over the number of all."""


class Preconditioner(NamedTuple):
    """The inverse of c I + J_s'J_s / share, through the factor of J_s J_s' + share c I."""

    sketch: Sketch
    factor: Float[Array, "s s"]
    damping: Float[Array, ""]

    def __call__(self, v: Float[Array, " n"]) -> Float[Array, " n"]:
        rows, factor = self.sketch.rows, self.factor
        return (v - rows.vjp(jax.scipy.linalg.cho_solve((factor, True), rows.jvp(v)))) / self.damping


class MatrixFree(DampedSolve):
    """Conjugate gradients on J'J + c I, by products with J and J' alone: nothing of size m or n squared.

    Some rows, evenly spread, precondition: their own damped system is inverted exactly, and as nearby rows
    have nearly the same derivatives it stands for that of all.

    Args:
        rows: How many precondition (a matrix of that size is factorised for each damping).
        tolerance: How exact a step is, in the norm of the preconditioner, if `max_iterations` allow.

    Example:
        >>> import gaussbell as gb
        >>> gb.LevenbergMarquardt(space=gb.linalg.MatrixFree(rows=500)).space.rows
        500
    """

    rows: int = eqx.field(static=True, default=4000)
    tolerance: float = eqx.field(static=True, default=1e-3)
    max_iterations: int = eqx.field(static=True, default=200)

    least_damping: ClassVar[float] = 1e-10

    def __check_init__(self):
        read_count("rows", self.rows, 1)
        read_count("max_iterations", self.max_iterations, 1)
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance!r}: give a number between 0 and 1.")

    def system(self, at: Linearised) -> Sketch:
        size = at.residual.shape[0]
        chosen = np.unique(np.linspace(0, size - 1, min(size, self.rows)).astype(np.int32))
        rows = at.take(jnp.asarray(chosen))
        return Sketch(rows, rows.gram_triangle(), jnp.asarray(len(chosen) / size, at.residual.dtype))

    def square_norm(self, system: Sketch) -> Float[Array, ""]:
        return jnp.trace(system.gram) / system.share

    def factorise(self, system: Sketch, damping: Float[Array, ""]) -> Preconditioner:
        least = self.least_damping * self.square_norm(system)
        damping = jnp.maximum(damping, least)
        return Preconditioner(system, cholesky(system.gram, system.share * damping), damping)

    def factorise_anyway(self, system: Sketch, damping: Float[Array, ""]) -> Preconditioner:
        return self.factorise(system, damping)  # the least damping suffices

    def step(
        self, at: Linearised, factor: Preconditioner, residual: Float[Array, " m"]
    ) -> Float[Array, " n"]:
        def damped(v: Float[Array, " n"]) -> Float[Array, " n"]:
            return at.vjp(at.jvp(v)) + factor.damping * v

        return conjugate_gradients(damped, at.vjp(residual), factor, self.tolerance, self.max_iterations)


class ByShape(LinearSolve):
    """Sample space when m < n, parameter space otherwise, and no matrix where the smaller one is too large.

    It is known from the shapes, so it is decided once. A dense solve holds about three matrices of the
    smaller size k = min(m, n); they may take `memory` bytes in all, 2 GiB by default, or k up to 9,459. That
    is also about where conjugate gradients become the faster way (DESIGN.md has the measurements).

    Example:
        >>> import gaussbell as gb
        >>> gb.linalg.ByShape().for_shape(num_rows=100, num_parameters=151)
        SampleSpace()
    """

    memory: float = eqx.field(static=True, default=2 * 2.0**30)

    def __check_init__(self):
        if not self.memory > 0:
            raise ValueError(f"memory={self.memory!r}: give a number of bytes above 0.")

    def for_shape(self, num_rows: int, num_parameters: int) -> DampedSolve:
        if 3 * 8 * min(num_rows, num_parameters) ** 2 > self.memory:
            return MatrixFree()
        return SampleSpace() if num_rows < num_parameters else ParameterSpace()


def damped_step(space: LinearSolve, at: Linearised, damping: Float[Array, ""]) -> Float[Array, " n"]:
    """The step from `at`, all parts at once; directions lost in rounding get none."""
    chosen = space.for_shape(at.residual.shape[0], at.num_parameters)
    return chosen.step(at, chosen.factorise_anyway(chosen.system(at), damping), at.residual)
