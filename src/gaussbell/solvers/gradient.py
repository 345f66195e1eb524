"""First-order descent along the complete gradient or along the semi-gradient."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.linearisation import LeastSquaresProblem, Linearisation
from gaussbell.solvers.solver import Direction, FixedStep, State, check_positive


class ResidualGradient(FixedStep):
    """Gradient descent on the loss: x <- x - step_size J'r.

    Safe for small step sizes and slow always: the Jacobian of a Bellman residual is ill-conditioned, since
    states and successors nearly cancel. Use LevenbergMarquardt unless you study first-order methods.

    >>> import gaussbell as gb
    >>> gb.ResidualGradient(step_size=0.01)
    ResidualGradient(step_size=0.01)
    """

    step_size: float | Float[Array, ""] = 0.01

    def __check_init__(self):
        check_positive("step_size", self.step_size)

    def linearise(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> Linearisation:
        return problem.linearise(x)

    def direction(self, state: State) -> Direction:
        return _along_gradient(state, self.step_size)

    @property
    def reported_damping(self) -> float:
        return 0.0


class SemiGradient(FixedStep):
    """Descent with the target held fixed: x <- x - step_size G'r, the usual temporal-difference update.

    It is the gradient of no function and may diverge, even with linear networks.

    >>> import gaussbell as gb
    >>> gb.SemiGradient(step_size=0.01)
    SemiGradient(step_size=0.01)
    """

    step_size: float | Float[Array, ""] = 0.01

    def __check_init__(self):
        check_positive("step_size", self.step_size)

    def linearise(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> Linearisation:
        return problem.linearise_held(x)

    def direction(self, state: State) -> Direction:
        return _along_gradient(state, self.step_size)

    @property
    def reported_damping(self) -> float:
        return 0.0


def _along_gradient(state: State, step_size: float | Float[Array, ""]) -> Direction:
    step = step_size * state.gradient
    return Direction(step, predicted_decrease=jnp.vdot(step, state.gradient))
