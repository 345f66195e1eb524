"""Powell's dogleg: Gauss-Newton within a trust region, bent along the curvature."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.linalg import DampedSolve, SmallerSpace, factorise
from gaussbell.linearisation import LeastSquaresProblem, Linearisation
from gaussbell.solvers.acceleration import geodesic_correction
from gaussbell.solvers.solver import Solver, State, StepInfo, check_positive, check_space, vanishes

LEAST_DAMPING, LARGEST_DAMPING = 1e-15, 1e-5
"""Damping of the Gauss-Newton point, beside the trace: only as much as the factorisation needs."""

GOOD_GAIN, BAD_GAIN = 0.99, 0.01
"""Gain ratios beyond which the region grows or shrinks."""

GROW, SHRINK = 3.5, 0.25


class Region(NamedTuple):
    """What is kept between steps beside the linearisation."""

    matrix: Float[Array, "k k"]
    radius: Float[Array, ""]
    damping: Float[Array, ""]


class Dogleg(Solver):
    """x <- x - p, with p on the path from the steepest-descent point to the Gauss-Newton point.

        minimise |r - J p| over that path, with |p| <= radius

    The Gauss-Newton point is the shortest step that solves the linearised problem, undamped but for what
    its factorisation needs. A step that keeps its promise lets the region grow, one that breaks it lets it
    shrink. Each step is bent by the geodesic correction a = -1/2 (J'J)^-1 J' r_vv, at most `bend` / 2 of
    its length. It follows narrow, curved valleys in far fewer steps than damping does. Near a minimum with
    a large residual the undamped point may overshoot, and LevenbergMarquardt takes fewer.

    Arguments: `least_gain`, the gain ratio above which a step is taken; `bend`, or None for straight steps;
    `space`, where the Gauss-Newton system is solved.

    >>> import gaussbell as gb
    >>> import jax.numpy as jnp
    >>> def rosenbrock(x):
    ...     return jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    >>> solution = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=gb.Dogleg())
    >>> [round(float(x), 6) for x in solution.params]
    [1.0, 1.0]
    """

    least_gain: float | Float[Array, ""] = 1e-4
    bend: float | Float[Array, ""] | None = 0.75
    space: DampedSolve = SmallerSpace()

    def __check_init__(self):
        check_positive("least_gain", self.least_gain)
        if self.bend is not None:
            check_positive("bend", self.bend)
        check_space(self.space)

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        at = problem.linearise(x)
        gradient = at.gradient()
        # The first radius is the length of the steepest-descent step: it has the unit of x.
        radius = jnp.linalg.norm(_steepest_descent(at, gradient))
        damping = jnp.asarray(LEAST_DAMPING, x.dtype)
        return State(x, at, gradient, Region(self.space.matrix(at), radius, damping))

    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        at, region = state.linearisation, state.memory
        damping = region.damping * jnp.trace(region.matrix)
        factor = factorise(region.matrix, damping)
        newton = self.space.step(at, factor, at.residual)
        factorised = jnp.isfinite(newton).all()
        descent = _steepest_descent(at, state.gradient)
        straight = _on_the_path(descent, jnp.where(factorised, newton, descent), region.radius)
        step = self._bend(problem, state, factor, straight)
        trial = state.x - step

        predicted = at.loss - 0.5 * jnp.sum((at.residual - at.jvp(straight)) ** 2)
        decrease = at.loss - problem.loss(trial)
        gain_ratio = decrease / predicted
        # An overflow gives NaN, which is not above anything: rejected.
        accepted = (decrease > self.least_gain * predicted) & (decrease > 0)
        resized = region._replace(
            radius=region.radius
            * jnp.where(gain_ratio > GOOD_GAIN, GROW, jnp.where(gain_ratio > BAD_GAIN, 1.0, SHRINK)),
            damping=jnp.where(factorised, region.damping, jnp.minimum(100 * region.damping, LARGEST_DAMPING)),
        )

        def move() -> State:
            there = problem.linearise(trial)
            return State(trial, there, there.gradient(), resized._replace(matrix=self.space.matrix(there)))

        def stay() -> State:
            return State(state.x, at, state.gradient, resized)

        after = jax.lax.cond(accepted, move, stay)
        info = StepInfo(jnp.linalg.norm(step), damping, gain_ratio, accepted, vanishes(straight, state.x))
        return after, info

    def _bend(self, problem: LeastSquaresProblem, state: State, factor: Any, straight: Any) -> Any:
        """The step with its second-order correction, no longer than `bend` allows."""
        if self.bend is None:
            return straight
        correction = geodesic_correction(problem, state, self.space, factor, straight)
        length, limit = jnp.linalg.norm(correction), 0.5 * self.bend * jnp.linalg.norm(straight)
        share = jnp.where(length > limit, limit / length, 1.0)
        return straight + jnp.where(jnp.isfinite(correction), share * correction, 0.0)


def _steepest_descent(at: Linearisation, gradient: Float[Array, " n"]) -> Float[Array, " n"]:
    """The minimiser of |r - J p| along the gradient."""
    slope = at.jvp(gradient)
    curvature = slope @ slope
    return (
        jnp.where(curvature > 0, gradient @ gradient / jnp.where(curvature > 0, curvature, 1.0), 0.0)
        * gradient
    )


def _on_the_path(
    descent: Float[Array, " n"], newton: Float[Array, " n"], radius: Float[Array, ""]
) -> Float[Array, " n"]:
    """The last point within the radius on the way from zero to `descent` to `newton`."""
    leg = newton - descent
    a, b, c = leg @ leg, descent @ leg, descent @ descent - radius**2
    share = (-b + jnp.sqrt(jnp.maximum(b**2 - a * c, 0.0))) / jnp.where(a > 0, a, 1.0)
    inside = descent + jnp.clip(share, 0.0, 1.0) * leg
    length = jnp.linalg.norm(descent)
    cut = descent * (radius / jnp.where(length > 0, length, 1.0))
    return jnp.where(jnp.linalg.norm(newton) <= radius, newton, jnp.where(length >= radius, cut, inside))
