"""Powell's dogleg: Gauss-Newton within a trust region, bent along the curvature."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gaussbell.numerics.arguments import check_positive
from gaussbell.numerics.linalg import ByShape, LinearSolve
from gaussbell.optimise.problem import LeastSquaresProblem
from gaussbell.optimise.solvers.acceleration import geodesic_correction
from gaussbell.optimise.solvers.solver import (
    Solver,
    State,
    StepInfo,
    check_space,
    losses,
    solve_for,
    vanishes,
)

ROUNDING, LARGEST_DAMPING = 10.0, 1e-5
"""Damping of the Gauss-Newton point: this many times the least that the solve can tell from rounding, more
after a failed factorisation, at most this much beside the square norm of J."""

RADII = 2.0 ** np.arange(-3, 4)
"""The radii that a step tries, as multiples of the last one taken."""

FAIR_GAIN = 0.5
"""Of the steps that keep at least this share of their promise, the one with the lowest loss is taken."""


class Region(NamedTuple):
    """What is kept between steps beside the linearisation."""

    system: Any
    radius: Float[Array, ""]
    damping: Float[Array, ""]


class Dogleg(Solver):
    """x <- x - p, with p on the path from the steepest-descent point to the Gauss-Newton point.

        minimise |r - J p| over that path, with |p| <= radius

    The Gauss-Newton point is the shortest step that solves the linearised problem, undamped but for what
    its factorisation needs. Steps for several radii, an eighth to eight times the last, are tried at once: a
    loss costs little beside a factorisation. Each step is bent by the geodesic correction
    a = -1/2 (J'J)^-1 J' r_vv, at most `max_acceleration` / 2 of its length.

    An undamped step shrinks all parts of the residual alike, so none is left behind for later: where the
    residual can reach zero this takes far fewer steps than damping does. Near a minimum with a large
    residual the undamped point may overshoot, and LevenbergMarquardt takes fewer.

    Args:
        min_reduction_ratio: The gain ratio above which a step is taken.
        max_acceleration: Or None for straight steps.
        space: Where the Gauss-Newton system is solved.

    Example:
        >>> import gaussbell as gb
        >>> import jax.numpy as jnp
        >>> def rosenbrock(x):
        ...     return jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])
        >>> solution = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=gb.Dogleg())
        >>> [round(float(x), 6) for x in solution.params]
        [1.0, 1.0]
    """

    min_reduction_ratio: float | Float[Array, ""] = 1e-4
    max_acceleration: float | Float[Array, ""] | None = 0.75
    space: LinearSolve = ByShape()

    def __check_init__(self):
        check_positive("min_reduction_ratio", self.min_reduction_ratio)
        if self.max_acceleration is not None:
            check_positive("max_acceleration", self.max_acceleration)
        check_space(self.space)

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        at = problem.linearise(x)
        gradient = at.gradient()
        space = solve_for(self.space, at)
        # The first radius is the length of the steepest-descent step: it has the unit of x.
        radius = jnp.linalg.norm(_steepest_descent(gradient, at.jvp(gradient)) * gradient)
        damping = jnp.asarray(ROUNDING * space.least_damping, x.dtype)
        return State(x, at.loss, at, gradient, Region(space.system(at), radius, damping))

    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        at, region = state.linearisation, state.memory
        space = solve_for(self.space, at)
        damping = region.damping * space.square_norm(region.system)
        factor = space.factorise(region.system, damping)
        newton = space.step(at, factor, at.residual)
        factorised = jnp.isfinite(newton).all()

        # Every point of the path is a g + b v, with g the gradient and v the Gauss-Newton point.
        slope = at.jvp(state.gradient)
        descent = _steepest_descent(state.gradient, slope)
        newton = jnp.where(factorised, newton, descent * state.gradient)
        a, b = _on_the_path(descent * state.gradient, newton, RADII * region.radius)
        straight = (a * descent)[:, None] * state.gradient + b[:, None] * newton
        linear = at.residual - ((a * descent)[:, None] * slope + b[:, None] * at.jvp(newton))
        predicted = state.loss - 0.5 * jnp.sum(linear**2, axis=1)

        steps = straight + self._accelerate(problem, state, space, factor, straight)
        loss = losses(problem, state.x - steps, len(at.residual))
        decrease = state.loss - loss
        # An overflow gives NaN, which is not above anything: rejected.
        gain_ratio = jnp.where(jnp.isnan(loss), -jnp.inf, decrease / predicted)
        fair = gain_ratio > FAIR_GAIN
        merit = jnp.where(fair.any(), jnp.where(fair, decrease, -jnp.inf), gain_ratio)
        # argmax, in words that JAX also compiles for programs that have 64-bit types off
        places = np.arange(len(RADII), dtype=np.int32)
        best = jnp.min(jnp.where(merit == merit.max(), places, places[-1]))
        accepted = (gain_ratio[best] > self.min_reduction_ratio) & (decrease[best] > 0)
        length = jnp.linalg.norm(straight[best])
        resized = region._replace(
            radius=jnp.where(accepted & fair.any(), length, RADII[0] * region.radius),
            damping=jnp.where(factorised, region.damping, jnp.minimum(100 * region.damping, LARGEST_DAMPING)),
        )

        def move() -> State:
            trial = state.x - steps[best]
            there = problem.linearise(trial)
            moved = resized._replace(system=space.system(there))
            return State(trial, there.loss, there, there.gradient(), moved)

        def stay() -> State:
            return State(state.x, state.loss, at, state.gradient, resized)

        after = jax.lax.cond(accepted, move, stay)
        info = StepInfo(
            step_norm=jnp.linalg.norm(steps[best]),
            damping=damping,
            gain_ratio=gain_ratio[best],
            accepted=accepted,
            vanished=vanishes(straight[best], state.x),
        )
        return after, info

    def _accelerate(
        self, problem: LeastSquaresProblem, state: State, space: Any, factor: Any, straight: Any
    ) -> Float[Array, "k n"]:
        """The second-order corrections of steps that lie nearly in one direction, no longer than allowed."""
        if self.max_acceleration is None:
            return jnp.zeros_like(straight)
        middle = straight[len(RADII) // 2]
        correction = geodesic_correction(problem, state, space, factor, middle)
        correction = jnp.where(jnp.isfinite(correction).all(), correction, 0.0)
        # Curvature grows with the square of the length.
        lengths = jnp.linalg.norm(straight, axis=1)
        share = (lengths / jnp.linalg.norm(middle)) ** 2
        bent = share * jnp.linalg.norm(correction)
        limit = 0.5 * self.max_acceleration * lengths
        share = jnp.where(bent > limit, share * limit / jnp.where(bent > 0, bent, 1.0), share)
        return jnp.where(lengths > 0, share, 0.0)[:, None] * correction


def _steepest_descent(gradient: Float[Array, " n"], slope: Float[Array, " m"]) -> Float[Array, ""]:
    """The multiple t of the gradient g that minimises |r - t J g|, with slope = J g."""
    curvature = slope @ slope
    return jnp.where(curvature > 0, gradient @ gradient / jnp.where(curvature > 0, curvature, 1.0), 0.0)


def _on_the_path(
    descent: Float[Array, " n"], newton: Float[Array, " n"], radii: Float[Array, " k"]
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """The last points within the radii on the way from zero to `descent` to `newton`, as shares of both."""
    leg = newton - descent
    a, b, c = leg @ leg, descent @ leg, descent @ descent - radii**2
    share = (-b + jnp.sqrt(jnp.maximum(b**2 - a * c, 0.0))) / jnp.where(a > 0, a, 1.0)
    share = jnp.clip(share, 0.0, 1.0)
    length = jnp.linalg.norm(descent)
    on_first_leg, whole = length >= radii, jnp.linalg.norm(newton) <= radii
    cut = radii / jnp.where(length > 0, length, 1.0)
    of_descent = jnp.where(whole, 0.0, jnp.where(on_first_leg, cut, 1 - share))
    of_newton = jnp.where(whole, 1.0, jnp.where(on_first_leg, 0.0, share))
    return of_descent, of_newton
