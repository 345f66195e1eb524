"""First-order descent along the complete gradient or along the semi-gradient."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.numerics.arguments import check_positive, check_share
from gaussbell.optimise.problem import LeastSquaresProblem, Linearisation
from gaussbell.optimise.solvers.solver import Direction, FixedStep, State


class ResidualGradient(FixedStep):
    """Gradient descent on the loss: x <- x - step_size J'r.

    Safe for small step sizes and slow always: the Jacobian of a Bellman residual is ill-conditioned, since
    states and successors nearly cancel. Use LevenbergMarquardt unless you study first-order methods.

    Example:
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

    Example:
        >>> import gaussbell as gb
        >>> gb.SemiGradient(step_size=0.01)
        SemiGradient(step_size=0.01)
    """

    step_size: float | Float[Array, ""] = 0.01

    def __check_init__(self):
        check_positive("step_size", self.step_size)

    def linearise(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> Linearisation:
        return problem.linearise_semi_gradient(x)

    def direction(self, state: State) -> Direction:
        return _along_gradient(state, self.step_size)

    @property
    def reported_damping(self) -> float:
        return 0.0


class ResidualAlgorithm(FixedStep):
    """Baird's residual algorithm: descent along a mean of the complete gradient and the semi-gradient.

        x <- x - step_size (weight J'r + (1 - weight) G'r)

    With weight 1 it is ResidualGradient, with weight 0 SemiGradient. Between them lies a weight above which
    it cannot diverge; it depends on the problem, so it is one more number to tune. Here to be compared with.

    Example:
        >>> import gaussbell as gb
        >>> gb.ResidualAlgorithm(step_size=0.01, weight=0.5)
        ResidualAlgorithm(step_size=0.01, weight=0.5)
    """

    step_size: float | Float[Array, ""] = 0.01
    weight: float | Float[Array, ""] = 0.5

    def __check_init__(self):
        check_positive("step_size", self.step_size)
        check_share("weight", self.weight)

    def linearise(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> Linearisation:
        return problem.linearise(x)

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        at = self.linearise(problem, x)
        semi_gradient = problem.linearise_semi_gradient(x).gradient()
        return State(x, at.loss, at, self.weight * at.gradient() + (1 - self.weight) * semi_gradient)

    def direction(self, state: State) -> Direction:
        return _along_gradient(state, self.step_size)

    @property
    def reported_damping(self) -> float:
        return 0.0


def _along_gradient(state: State, step_size: float | Float[Array, ""]) -> Direction:
    step = step_size * state.gradient
    return Direction(step, predicted_decrease=jnp.vdot(step, state.gradient))
