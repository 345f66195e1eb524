"""Levenberg-Marquardt: Gauss-Newton whose damping is steered by how well its model predicts."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.numerics.arguments import check_positive, read_count
from gaussbell.numerics.linalg import ByShape, DampedSolve, LinearSolve
from gaussbell.optimise.problem import LeastSquaresProblem
from gaussbell.optimise.solvers.acceleration import geodesic_correction
from gaussbell.optimise.solvers.solver import Solver, State, StepInfo, check_space, solve_for, vanishes

LEAST_FACTOR, LARGEST_FACTOR = 1e-20, 1e100
"""Bounds on the damping factor: below, damping no longer matters; above, there is no step."""


class Memory(NamedTuple):
    """What is kept between steps beside the linearisation."""

    system: Any
    """What the dampings of the current linearisation share: a rejected step needs it again."""
    factor: Float[Array, ""]
    growth: Float[Array, ""]
    """What the next rejection multiplies the factor by."""
    unit: Float[Array, ""]
    """Damping for factor one and a residual of norm one."""
    recent: Float[Array, " lookback"]
    """The last losses."""


class LevenbergMarquardt(Solver):
    """x <- x - (J'J + c I)^-1 J'r, bent along the curvature, and taken only if the loss falls.

        c = factor * (|J_0|^2 / min(m, n)) * |r| / |r_0|

    The gain ratio, actual over predicted decrease, steers `factor` by Nielsen's rule: a good step shrinks
    it smoothly, a rejected one doubles it, then fourfold, eightfold. The damping has the unit of J'J, so
    the scale of the residual does not matter; it is proportional to the residual, so where that can reach
    zero the damping vanishes on the way and the end phase is quadratic. Elsewhere it is linear.

    Geodesic acceleration: the step v gains a second-order correction a = -1/2 (J'J + c I)^-1 J' r_vv, with
    r_vv the second derivative of the residual along v, from the same factorisation. It follows curved valleys
    that stall plain steps; a step whose correction is too large, 2 |a| > `max_acceleration` |v|, is rejected.

    Args:
        initial_factor: The first factor.
        min_reduction_ratio: The gain ratio above which a step is taken.
        max_acceleration: Or None for steps without acceleration.
        lookback: Against how many of the last losses the loss must fall (one is monotone).
        space: Where the damped system is solved.

    Example:
        >>> import gaussbell as gb
        >>> import jax.numpy as jnp
        >>> def rosenbrock(x):
        ...     return jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])
        >>> solution = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=gb.LevenbergMarquardt())
        >>> [round(float(x), 6) for x in solution.params]
        [1.0, 1.0]
    """

    initial_factor: float | Float[Array, ""] = 1e-2
    min_reduction_ratio: float | Float[Array, ""] = 1e-4
    max_acceleration: float | Float[Array, ""] | None = 0.75
    lookback: int = eqx.field(static=True, default=1)
    space: LinearSolve = ByShape()

    def __check_init__(self):
        check_positive("initial_factor", self.initial_factor)
        check_positive("min_reduction_ratio", self.min_reduction_ratio)
        if self.max_acceleration is not None:
            check_positive("max_acceleration", self.max_acceleration)
        read_count("lookback", self.lookback, 1)
        check_space(self.space)

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        at = problem.linearise(x)
        space = solve_for(self.space, at)
        system = space.system(at)
        size = space.square_norm(system) / min(len(at.residual), len(x))
        norm = jnp.linalg.norm(at.residual)
        memory = Memory(
            system=system,
            factor=jnp.asarray(self.initial_factor, x.dtype),
            growth=jnp.asarray(2.0, x.dtype),
            unit=jnp.where(norm > 0, size / norm, 1.0),
            recent=jnp.full(self.lookback, at.loss),
        )
        return State(x, at.loss, at, at.gradient(), memory)

    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        at, memory = state.linearisation, state.memory
        space = solve_for(self.space, at)
        damping = memory.factor * memory.unit * jnp.linalg.norm(at.residual)
        factor = space.factorise(memory.system, damping)
        straight = space.step(at, factor, at.residual)
        step, too_far = self._accelerate(problem, state, space, factor, straight)
        trial = state.x - step

        predicted = 0.5 * (jnp.vdot(state.gradient, straight) + damping * jnp.vdot(straight, straight))
        loss = problem.loss(trial)
        gain_ratio = (state.loss - loss) / predicted
        # A failed factorisation or an overflow gives NaN, which is not above anything: rejected.
        decrease = jnp.max(memory.recent) - loss
        accepted = (decrease > self.min_reduction_ratio * predicted) & (decrease > 0) & ~too_far

        def move() -> State:
            there = problem.linearise(trial)
            shrink = jnp.maximum(1 / 3, 1 - (2 * gain_ratio - 1) ** 3)
            shrink = jnp.minimum(shrink, 2.0)  # a step that only a look back allowed has a negative gain
            lowered = memory._replace(
                system=space.system(there),
                factor=jnp.maximum(memory.factor * shrink, LEAST_FACTOR),
                growth=jnp.full_like(memory.growth, 2.0),
                recent=jnp.append(memory.recent[1:], loss),
            )
            return State(trial, there.loss, there, there.gradient(), lowered)

        def stay() -> State:
            raised = memory._replace(
                factor=jnp.minimum(memory.factor * memory.growth, LARGEST_FACTOR),
                growth=jnp.minimum(memory.growth * 2, LARGEST_FACTOR),
            )
            return State(state.x, state.loss, at, state.gradient, raised)

        after = jax.lax.cond(accepted, move, stay)
        return after, StepInfo(jnp.linalg.norm(step), damping, gain_ratio, accepted, vanishes(step, state.x))

    def _accelerate(
        self, problem: LeastSquaresProblem, state: State, space: DampedSolve, factor: Any, straight: Any
    ) -> Any:
        """The step with its second-order correction, and whether that is too large to be believed."""
        if self.max_acceleration is None:
            return straight, jnp.asarray(False)
        correction = geodesic_correction(problem, state, space, factor, straight)
        too_far = 2 * jnp.linalg.norm(correction) > self.max_acceleration * jnp.linalg.norm(straight)
        return straight + correction, too_far
