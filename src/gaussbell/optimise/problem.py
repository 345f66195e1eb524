"""A residual and its derivative at one point: the object that passes from a problem to a step."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gaussbell.numerics.differential import DifferentialMap
from gaussbell.numerics.precision import in_double
from gaussbell.numerics.triangles import mirror

ROWS_BELONG_TOGETHER = (
    "solver: minibatches need rows that stand alone, as those of gaussbell.Transitions do. Here use "
    "gaussbell.LevenbergMarquardt or Dogleg."
)


class Linearisation(eqx.Module):
    """A residual r (m,) and its Jacobian J (m, n), which need not be a matrix.

    The loss is r'r / 2, its gradient J'r, its Gauss-Newton Hessian J'J. For an MLP nothing larger than the
    layer factors is stored, so it is cheap to carry from step to step.
    """

    residual: Float[Array, " m"]
    differential: DifferentialMap

    @property
    def num_parameters(self) -> int:
        return self.differential.num_parameters

    @property
    @in_double
    def loss(self) -> Float[Array, ""]:
        """Half the sum of squares: the NMSBE of a Bellman residual."""
        return 0.5 * self.residual @ self.residual

    @in_double
    def jacobian(self) -> Float[Array, "m n"]:
        """J as a dense matrix."""
        return self.differential.rows()

    @in_double
    def jvp(self, h: Float[Array, " n"]) -> Float[Array, " m"]:
        """J h."""
        return self.differential.apply(h)

    @in_double
    def vjp(self, u: Float[Array, " m"]) -> Float[Array, " n"]:
        """J' u."""
        return self.differential.transpose(u)

    @in_double
    def gram(self) -> Float[Array, "m m"]:
        """J J'."""
        return self.differential.gram()

    @in_double
    def gradient(self) -> Float[Array, " n"]:
        """J' r, the gradient of the loss when J is the complete derivative."""
        return self.vjp(self.residual)

    @in_double
    def hessian(self) -> Float[Array, "n n"]:
        """J'J, the Gauss-Newton Hessian: exact where the residual is zero."""
        return mirror(self.differential.normal_triangle())

    def gram_triangle(self) -> Float[Array, "m m"]:
        """J J' on and below the diagonal; above it anything."""
        return self.differential.gram_triangle()

    def normal_triangle(self) -> Float[Array, "n n"]:
        """J'J on and below the diagonal; above it anything."""
        return self.differential.normal_triangle()

    def take(self, rows: Int[Array, " s"]) -> "Linearisation":
        """Some of the rows."""
        return Linearisation(self.residual[rows], self.differential.take(rows))


class LeastSquaresProblem(eqx.Module):
    """Minimise half the sum of squares of a residual of a flat parameter vector x (n,)."""

    @abc.abstractmethod
    def residual(self, x: Float[Array, " n"]) -> Float[Array, " m"]:
        """The residual alone."""

    @abc.abstractmethod
    def restore(self, x: Float[Array, " n"]) -> Any:
        """The parameters that x stands for, in the form and precision they were given in."""

    @abc.abstractmethod
    def linearise(self, x: Float[Array, " n"]) -> Linearisation:
        """The residual with its complete derivative."""

    @abc.abstractmethod
    def linearise_semi_gradient(self, x: Float[Array, " n"]) -> Linearisation:
        """The same residual, with the derivative taken as if its target did not depend on x."""

    @property
    def num_rows(self) -> int:
        """The number of rows, where they stand alone."""
        raise ValueError(ROWS_BELONG_TOGETHER)

    def take(self, rows: Int[Array, " s"]) -> "LeastSquaresProblem":
        """Some of the rows, scaled so that their loss estimates the loss of all."""
        raise ValueError(ROWS_BELONG_TOGETHER)

    def loss(self, x: Float[Array, " n"]) -> Float[Array, ""]:
        """Half the sum of squares of the residual."""
        residual = self.residual(x)
        return 0.5 * jnp.vdot(residual, residual)
