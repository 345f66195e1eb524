"""A residual and its derivative at one point: the object that passes from a problem to a step."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.differential import DifferentialMap
from gaussbell.precision import in_double


class RowMap(eqx.Module):
    """A linear map A from the K values of a network to the m rows of a residual.

    It acts on the first axis of an array, whatever the others: on values, on rows of G, on a kernel.
    """

    @abc.abstractmethod
    def __call__(self, values: Float[Array, "K *rest"]) -> Float[Array, "m *rest"]:
        """A v."""

    @abc.abstractmethod
    def transpose(self, u: Float[Array, " m"]) -> Float[Array, " K"]:
        """A' u."""

    def gram(self, kernel: Float[Array, "K K"]) -> Float[Array, "m m"]:
        """A kernel A', for a symmetric kernel."""
        return self(self(kernel).T)


class SameRows(RowMap):
    """The identity: one row of the residual for each value."""

    def __call__(self, values: Float[Array, "K *rest"]) -> Float[Array, "K *rest"]:
        return values

    def transpose(self, u: Float[Array, " m"]) -> Float[Array, " m"]:
        return u


class Linearisation(eqx.Module):
    """A residual r (m,) and its Jacobian J = A G (m, n), G in factors and A a map of rows.

    The loss is r'r / 2, its gradient J'r, its Gauss-Newton Hessian J'J. For an MLP nothing larger than the
    layer factors is stored, so it is cheap to carry from step to step.
    """

    residual: Float[Array, " m"]
    differential: DifferentialMap
    row_map: RowMap

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
        return self.row_map(self.differential.rows())

    @in_double
    def jvp(self, h: Float[Array, " n"]) -> Float[Array, " m"]:
        """J h."""
        return self.row_map(self.differential.apply(h))

    @in_double
    def vjp(self, u: Float[Array, " m"]) -> Float[Array, " n"]:
        """J' u."""
        return self.differential.transpose(self.row_map.transpose(u))

    @in_double
    def gram(self) -> Float[Array, "m m"]:
        """J J', from the factors or from dense rows, whichever is cheaper for these shapes."""
        if self.differential.gram_from_rows_is_cheaper:
            jacobian = self.jacobian()
            return jacobian @ jacobian.T
        return self.row_map.gram(self.differential.gram())

    @in_double
    def gradient(self) -> Float[Array, " n"]:
        """J' r, the gradient of the loss when J is the complete derivative."""
        return self.vjp(self.residual)

    @in_double
    def hessian(self) -> Float[Array, "n n"]:
        """J'J, the Gauss-Newton Hessian: exact where the residual is zero."""
        jacobian = self.jacobian()
        return jacobian.T @ jacobian


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
    def linearise_held(self, x: Float[Array, " n"]) -> Linearisation:
        """The same residual, with the derivative taken as if its target did not depend on x."""

    def loss(self, x: Float[Array, " n"]) -> Float[Array, ""]:
        """Half the sum of squares of the residual."""
        residual = self.residual(x)
        return 0.5 * jnp.vdot(residual, residual)
