"""Levenberg-Marquardt: Gauss-Newton whose damping is steered by how well its model predicts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.linalg import DampedSolve, SmallerSpace
from gaussbell.linearisation import LeastSquaresProblem
from gaussbell.solvers.solver import Solver, State, StepInfo, check_positive


class Damping(NamedTuple):
    """Nielsen's pair: the factor on the damping, and how much the next rejection multiplies it by."""

    factor: Float[Array, ""]
    growth: Float[Array, ""]


class LevenbergMarquardt(Solver):
    """x <- x - (J'J + c I)^-1 J'r, taken only if the loss falls, with c = factor * |r|.

    The gain ratio, actual over predicted decrease, steers `factor` by Nielsen's rule: a good step shrinks
    it smoothly, a rejected one doubles it, then fourfold, eightfold. The damping is proportional to the
    norm of the residual, so where that can reach zero the damping vanishes on the way and the end phase is
    quadratic; elsewhere it is linear. A rejected step keeps the linearisation. It finds a local minimum.

    Arguments: `initial_factor`, the first factor; `least_gain`, the gain ratio above which a step is taken;
    `space`, where the damped system is solved.

    >>> import gaussbell as gb
    >>> import jax.numpy as jnp
    >>> def rosenbrock(x):
    ...     return jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    >>> solution = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=gb.LevenbergMarquardt())
    >>> [round(float(x), 6) for x in solution.params]
    [1.0, 1.0]
    """

    initial_factor: float | Float[Array, ""] = 1.0
    least_gain: float | Float[Array, ""] = 1e-4
    space: DampedSolve = SmallerSpace()

    def __check_init__(self):
        check_positive("initial_factor", self.initial_factor)
        check_positive("least_gain", self.least_gain)

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        linearisation = problem.linearise(x)
        memory = Damping(jnp.asarray(self.initial_factor, x.dtype), jnp.asarray(2.0, x.dtype))
        return State(x, linearisation, linearisation.gradient(), memory)

    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        at, memory = state.linearisation, state.memory
        damping = memory.factor * jnp.linalg.norm(at.residual)
        step = self.space.step(at, damping)
        trial = state.x - step

        predicted = 0.5 * (jnp.vdot(state.gradient, step) + damping * jnp.vdot(step, step))
        gain_ratio = (at.loss - problem.loss(trial)) / predicted
        # A failed factorisation or an overflow gives NaN, which is not above anything: rejected.
        accepted = gain_ratio > self.least_gain

        def move() -> State:
            there = problem.linearise(trial)
            shrink = jnp.maximum(1 / 3, 1 - (2 * gain_ratio - 1) ** 3)
            lowered = Damping(memory.factor * shrink, jnp.full_like(memory.growth, 2.0))
            return State(trial, there, there.gradient(), lowered)

        def stay() -> State:
            raised = Damping(memory.factor * memory.growth, memory.growth * 2)
            return State(state.x, at, state.gradient, raised)

        after = jax.lax.cond(accepted, move, stay)
        return after, StepInfo(jnp.linalg.norm(step), damping, gain_ratio, accepted)
