"""Gauss-Newton with a line search: shorten the step until the loss falls enough."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.numerics.arguments import check_positive
from gaussbell.numerics.linalg import ByShape, LinearSolve, damped_step
from gaussbell.optimise.problem import LeastSquaresProblem
from gaussbell.optimise.solvers.solver import Solver, State, StepInfo, check_space, vanishes

SUFFICIENT = 1e-4
"""The share of the decrease promised by the slope that a step must bring (Armijo)."""

MOST_HALVINGS = 40
"""After this many a step is as good as none."""


class BacktrackingGaussNewton(Solver):
    """x <- x - t (J'J + damping I)^-1 J'r, with t = 1, 1/2, 1/4, ... until the loss falls enough.

    The textbook remedy for Algorithm 1's fixed step size, here to be compared with: it never diverges, but
    where the Jacobian is near-singular its steps become tiny. `damping` is constant, as in Algorithm 1.

    Example:
        >>> import gaussbell as gb
        >>> import jax.numpy as jnp
        >>> def rosenbrock(x):
        ...     return jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])
        >>> solution = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=gb.BacktrackingGaussNewton())
        >>> [round(float(x), 6) for x in solution.params]
        [1.0, 1.0]
    """

    damping: float | Float[Array, ""] = 1e-5
    space: LinearSolve = ByShape()

    def __check_init__(self):
        check_positive("damping", self.damping, zero_allowed=True)
        check_space(self.space)

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        at = problem.linearise(x)
        return State(x, at.loss, at, at.gradient())

    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        damping = jnp.asarray(self.damping, state.x.dtype)
        newton = damped_step(self.space, state.linearisation, damping)
        slope = jnp.vdot(state.gradient, newton)

        def too_long(carry):
            share, loss, halvings = carry
            enough = state.loss - loss >= SUFFICIENT * share * slope
            return ~enough & (halvings < MOST_HALVINGS)

        def halve(carry):
            share, _, halvings = carry
            return 0.5 * share, problem.loss(state.x - 0.5 * share * newton), halvings + 1

        first = (jnp.ones(()), problem.loss(state.x - newton), jnp.zeros((), jnp.int32))
        share, loss, _ = jax.lax.while_loop(too_long, halve, first)
        accepted = loss < state.loss
        # A step that is not finite is left to the loop, which ends as diverged.
        step = jnp.where(accepted | ~jnp.isfinite(slope), share * newton, 0.0)
        curvature = slope - damping * jnp.vdot(newton, newton)
        predicted = share * slope - 0.5 * share**2 * curvature
        info = StepInfo(
            step_norm=jnp.linalg.norm(step),
            damping=damping,
            gain_ratio=(state.loss - loss) / predicted,
            accepted=accepted,
            vanished=vanishes(step, state.x),
        )
        return self.init(problem, state.x - step), info
