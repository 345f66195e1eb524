"""Geodesic acceleration: the second-order correction to a step."""

from typing import Any

import jax
from jaxtyping import Array, Float

from gaussbell.numerics.linalg import DampedSolve
from gaussbell.optimise.problem import LeastSquaresProblem
from gaussbell.optimise.solvers.solver import State


def geodesic_correction(
    problem: LeastSquaresProblem,
    state: State,
    space: DampedSolve,
    factor: Any,
    straight: Float[Array, " n"],
) -> Float[Array, " n"]:
    """What to add to the step v = `straight`: 1/2 (J'J + c I)^-1 J' r_vv, to be subtracted with it.

    r_vv is the second derivative of the residual along v; the factorisation is that of v itself. The
    path x - t v - t^2 a then follows the solution of the linearised problem to second order.
    """

    def slope(x: Float[Array, " n"]) -> Float[Array, " m"]:
        return jax.jvp(problem.residual, (x,), (straight,))[1]

    second_derivative = jax.jvp(slope, (state.x,), (straight,))[1]
    return 0.5 * space.step(state.linearisation, factor, second_derivative)
