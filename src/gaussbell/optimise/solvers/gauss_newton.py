"""Gauss-Newton with a fixed step size and damping: the paper's Algorithm 1, and its semi-gradient twin."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.numerics.arguments import check_positive
from gaussbell.numerics.linalg import ByShape, LinearSolve, damped_step
from gaussbell.optimise.problem import LeastSquaresProblem, Linearisation
from gaussbell.optimise.solvers.solver import Direction, FixedStep, State, check_space


class GaussNewton(FixedStep):
    """Algorithm 1 of the paper: x <- x - step_size (J'J + damping I)^-1 J'r.

    J is the complete derivative, successors included. The constant damping makes the end phase linear, at
    a rate near damping / (smallest eigenvalue + damping); LevenbergMarquardt's vanishes with the residual and
    its end phase is quadratic. `space` says where the system is solved: by default in parameter space or
    in sample space, whichever is smaller; with damping the iterates are the same.

    Example:
        >>> import gaussbell as gb
        >>> star = gb.environments.SevenStar()
        >>> features = gb.encodings.normal(7, 2, key=1)
        >>> gb.evaluate(gb.MLP((2, 7, 1), key=0), star.under(), features=features,
        ...             solver=gb.GaussNewton(step_size=1.0, damping=1e-5)).status.name
        'CONVERGED'
    """

    step_size: float | Float[Array, ""] = 1.0
    damping: float | Float[Array, ""] = 1e-5
    space: LinearSolve = ByShape()

    def __check_init__(self):
        check_positive("step_size", self.step_size)
        check_positive("damping", self.damping, zero_allowed=True)
        check_space(self.space)

    def linearise(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> Linearisation:
        return problem.linearise(x)

    def direction(self, state: State) -> Direction:
        return _damped_newton(state, self.space, self.step_size, self.damping)

    @property
    def reported_damping(self) -> float | Float[Array, ""]:
        return self.damping


class SemiGaussNewton(FixedStep):
    """Gauss-Newton with the target held fixed: x <- x - step_size (G'G + damping I)^-1 G'r.

    The paper's semi-Hessian. It solves for a target that then moves away, and often diverges; it is here to
    be compared with.

    Example:
        >>> import gaussbell as gb
        >>> gb.SemiGaussNewton(step_size=0.001, damping=1e-5).step_size
        0.001
    """

    step_size: float | Float[Array, ""] = 1.0
    damping: float | Float[Array, ""] = 1e-5
    space: LinearSolve = ByShape()

    def __check_init__(self):
        check_positive("step_size", self.step_size)
        check_positive("damping", self.damping, zero_allowed=True)
        check_space(self.space)

    def linearise(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> Linearisation:
        return problem.linearise_semi_gradient(x)

    def direction(self, state: State) -> Direction:
        return _damped_newton(state, self.space, self.step_size, self.damping)

    @property
    def reported_damping(self) -> float | Float[Array, ""]:
        return self.damping


def _damped_newton(
    state: State,
    space: LinearSolve,
    step_size: float | Float[Array, ""],
    damping: float | Float[Array, ""],
) -> Direction:
    # With (J'J + c I) d = g, the model's decrease along a step a d needs no product with J:
    #   a g'd - a^2/2 d'J'J d,   d'J'J d = g'd - c d'd.
    newton = damped_step(space, state.linearisation, jnp.asarray(damping))
    slope = jnp.vdot(state.gradient, newton)
    curvature = slope - damping * jnp.vdot(newton, newton)
    return Direction(step_size * newton, step_size * slope - 0.5 * step_size**2 * curvature)
