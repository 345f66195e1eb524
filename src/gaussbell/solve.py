"""The only loop: repeat a method's step until a reason to stop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gaussbell.linearisation import LeastSquaresProblem
from gaussbell.precision import (
    as_double,
    callers_dtype,
    in_double,
    is_traced,
    numbers_as_arrays,
    read_count,
    read_numbers,
)
from gaussbell.solution import History, Solution, SolveInterrupted, Status
from gaussbell.solvers.solver import Solver, State, StepInfo

STEPS_BETWEEN_LOOKS = 256
"""Compiled steps between two chances for Ctrl-C, when nobody asked for progress."""

PROGRESS_LOOKS = 100
"""About how often progress is reported in a solve that uses all its steps."""

LEAST_PROGRESS = 1e-6
"""Relative fall of the best loss that counts as progress."""

SMALL_COSINE = 1e-6
"""A gradient this small beside |J| |r| belongs to a critical point."""

POWER_ITERATIONS = 5
"""Enough to know the norm of J to a digit."""

STEPS_BETWEEN_CHECKS = 20
"""Steps between two looks at held-out data."""

HELD_OUT_PATIENCE = 3
"""Looks without a notably smaller held-out error after which a solve ends."""

NOTABLY_BETTER = 0.98

MOST_STEPS = 10**7
"""More would not leave room for their history."""

DIVERGENCE = 1e20
"""A loss this many times the first one counts as divergence."""


class Progress(NamedTuple):
    """What a solve tells while it runs."""

    steps: int
    max_steps: int
    loss: float
    best_loss: float


class Limits(NamedTuple):
    """When to stop: reasons that are numbers, so that changing them compiles nothing anew."""

    tolerance: Float[Array, ""]
    patience: Int[Array, ""]
    divergence: Float[Array, ""]


class Run(eqx.Module):
    """All that the loop carries: where it is, the best so far, what it saw."""

    state: State
    best_x: Float[Array, " n"]
    best_loss: Float[Array, ""]
    milestone: Float[Array, ""]
    milestone_step: Int[Array, ""]
    step: Int[Array, ""]
    status: Int[Array, ""]
    log: Float[Array, "T 6"]
    trail: Float[Array, "T n"] | None


@in_double
def solve(
    problem: LeastSquaresProblem,
    x: Float[Array, " n"],
    solver: Solver,
    *,
    max_steps: int,
    tolerance: float | Float[Array, ""],
    patience: int,
    on_progress: Callable[[Progress], None] | None = None,
    held_out: Callable[[Any], float] | None = None,
    keep_parameters: bool = False,
) -> Solution:
    """Repeat `solver.step` until the loss is at most `tolerance` or there is another reason to stop.

    Under jit and vmap it is one compiled loop. Otherwise the same compiled loop runs in bouts, between
    which `on_progress` is called and Ctrl-C is heard: it raises SolveInterrupted, a KeyboardInterrupt that
    holds the best parameters seen.

    With `held_out`, a function from parameters to an error, the best parameters are those with the smallest
    error there, looked at every 20 steps; the solve ends once it has stopped falling.
    """
    max_steps = read_count("max_steps", max_steps, 0, MOST_STEPS)
    patience = read_count("patience", patience, 1)
    tolerance = _read_tolerance(tolerance)
    if not isinstance(solver, Solver):
        raise ValueError(f"solver={solver!r}: give an object such as gaussbell.LevenbergMarquardt().")
    if on_progress is not None and not callable(on_progress):
        raise ValueError(f"on_progress={on_progress!r}: give a function of a Progress.")
    problem, solver, x = as_double((problem, numbers_as_arrays(solver), x))
    run, limits = _start(
        problem, solver, x, tolerance, jnp.asarray(patience, jnp.int32), max_steps, keep_parameters
    )
    if is_traced((problem, solver, x, tolerance, run)):
        if held_out is not None:
            raise ValueError(
                "held_out: it is looked at between compiled steps; leave it out under jit and vmap."
            )
        run = _advance(problem, solver, limits, run, jnp.asarray(max_steps, jnp.int32))
        return _traced_solution(problem, run)

    bout = max(1, max_steps // PROGRESS_LOOKS) if on_progress else STEPS_BETWEEN_LOOKS
    watch = None if held_out is None else _Watch(problem, held_out)
    bout = bout if watch is None else STEPS_BETWEEN_CHECKS
    try:
        while int(run.status) == Status.RUNNING.code:
            stop_at = jnp.asarray(min(int(run.step) + bout, max_steps), jnp.int32)
            run = _advance(problem, solver, limits, run, stop_at)
            if watch is not None:
                run = watch.look(run)
            if on_progress:
                on_progress(_progress(run, max_steps))
    except KeyboardInterrupt:
        raise SolveInterrupted(_concrete_solution(problem, run, Status.INTERRUPTED)) from None
    return _concrete_solution(problem, run, list(Status)[int(run.status)])


class _Watch:
    """Looks at held-out data now and then, and remembers where their error was smallest."""

    def __init__(self, problem: LeastSquaresProblem, held_out: Callable[[Any], float]):
        self._problem, self._held_out = problem, held_out
        self._smallest, self._notable, self._since = np.inf, np.inf, 0
        self._x = self._loss = None

    def look(self, run: Run) -> Run:
        """The run with the best parameters by held-out error, and with a status if it should end."""
        error = float(self._held_out(_restore(self._problem, run.best_x)))
        self._since += 1
        if error < NOTABLY_BETTER * self._notable:
            self._notable, self._since = error, 0
        if error < self._smallest or self._x is None:
            self._smallest, self._x, self._loss = error, run.best_x, run.best_loss
        running = int(run.status) == Status.RUNNING.code
        if running and self._since < HELD_OUT_PATIENCE:
            return run
        status = jnp.asarray(Status.HELD_OUT.code, jnp.int32) if running else run.status
        best = (self._x, self._loss, status)
        return eqx.tree_at(lambda run: (run.best_x, run.best_loss, run.status), run, best)


@eqx.filter_jit
def _start(problem, solver, x, tolerance, patience, max_steps: int, keep_parameters: bool):
    state = solver.init(problem, x)
    loss = state.loss
    limits = Limits(
        tolerance,
        patience,
        DIVERGENCE * jnp.maximum(loss, jnp.finfo(jnp.float64).tiny),
    )
    nothing, yes = jnp.asarray(jnp.nan), jnp.asarray(True)
    start = StepInfo(jnp.zeros(()), nothing, nothing, accepted=yes, vanished=~yes)
    log = jnp.full((max_steps + 1, 6), jnp.nan).at[0].set(_log_row(state, start))
    trail = jnp.full((max_steps + 1, len(x)), jnp.nan).at[0].set(x) if keep_parameters else None
    zero = jnp.zeros((), jnp.int32)
    status = _first_reason(
        (~_all_finite(state), Status.NOT_FINITE_AT_START),
        (loss <= limits.tolerance, Status.CONVERGED),
        (jnp.asarray(max_steps == 0), Status.OUT_OF_STEPS),
    )
    return Run(state, x, loss, loss, zero, zero, status, log, trail), limits


@eqx.filter_jit
def _advance(problem, solver, limits: Limits, run: Run, stop_at) -> Run:
    """Step until there is a status, or until step `stop_at`."""
    max_steps = run.log.shape[0] - 1

    def goes_on(run: Run):
        return (run.status == Status.RUNNING.code) & (run.step < stop_at)

    def body(run: Run) -> Run:
        state, info = solver.step(problem, run.state)
        step, loss = run.step + 1, state.loss
        finite = _all_finite(state)
        better = finite & (loss < run.best_loss)
        best_loss = jnp.where(better, loss, run.best_loss)
        progressed = best_loss < run.milestone * (1 - LEAST_PROGRESS)
        milestone_step = jnp.where(progressed, step, run.milestone_step)
        status = _first_reason(
            (finite & (loss <= limits.tolerance), Status.CONVERGED),
            (~finite | (loss > limits.divergence), Status.DIVERGED),
            (info.vanished, Status.STATIONARY),
            (step - milestone_step >= limits.patience, Status.STAGNATED),
            (step >= max_steps, Status.OUT_OF_STEPS),
        )
        return Run(
            state=state,
            best_x=jnp.where(better, state.x, run.best_x),
            best_loss=best_loss,
            milestone=jnp.where(progressed, best_loss, run.milestone),
            milestone_step=milestone_step,
            step=step,
            status=status,
            log=run.log.at[step].set(_log_row(state, info)),
            trail=None if run.trail is None else run.trail.at[step].set(state.x),
        )

    run = jax.lax.while_loop(goes_on, body, run)
    if run.state.linearisation is None:
        return run
    misnamed = (run.status == Status.STATIONARY.code) & ~_is_critical(run.state)
    status = jnp.where(misnamed, jnp.asarray(Status.STAGNATED.code, jnp.int32), run.status)
    return eqx.tree_at(lambda run: run.status, run, status)


def _is_critical(state: State) -> Bool[Array, ""]:
    """Is there nothing left to gain, where steps have become too small to change the parameters?

    Steps also vanish for worse reasons: a tiny step size, or a damping driven up by rejections. So either
    the gradient J'r must be small beside |J| |r|, or the residual no larger than what the rounding of the
    parameters alone causes.
    """
    at = state.linearisation

    def amplify(_, direction):
        return at.vjp(at.jvp(direction / jnp.linalg.norm(direction)))

    direction = jax.lax.fori_loop(0, POWER_ITERATIONS, amplify, jnp.ones_like(state.x))
    jacobian_norm = jnp.sqrt(jnp.linalg.norm(direction))
    residual_norm = jnp.linalg.norm(at.residual)
    rounding = jnp.finfo(state.x.dtype).eps * jacobian_norm * jnp.linalg.norm(state.x)
    gradient_norm = jnp.linalg.norm(state.gradient)
    flat = gradient_norm <= SMALL_COSINE * jnp.nan_to_num(jacobian_norm) * residual_norm
    return flat | (gradient_norm == 0) | (residual_norm <= 10 * rounding)


def _first_reason(*reasons: tuple[Bool[Array, ""], Status]) -> Int[Array, ""]:
    """The code of the first status whose condition holds, or that of RUNNING."""
    code = jnp.asarray(Status.RUNNING.code, jnp.int32)
    for holds, status in reversed(reasons):
        code = jnp.where(holds, jnp.asarray(status.code, jnp.int32), code)
    return code


def _log_row(state: State, info: StepInfo) -> Float[Array, " 6"]:
    return jnp.stack(
        [
            state.loss,
            jnp.linalg.norm(state.gradient),
            info.step_norm,
            info.damping,
            info.gain_ratio,
            info.accepted.astype(jnp.float64),
        ]
    )


def _all_finite(state: State):
    return jnp.isfinite(state.loss) & jnp.isfinite(state.gradient).all()


def _traced_solution(problem: LeastSquaresProblem, run: Run) -> Solution:
    # In the caller's precision: JAX cannot compute with float64 where 64-bit types are off.
    log, trail, loss = jax.tree.map(
        lambda leaf: leaf.astype(callers_dtype()), (run.log, run.trail, run.best_loss)
    )
    return Solution(problem.restore(run.best_x), loss, run.status, run.step, _history(log, trail))


def _concrete_solution(problem: LeastSquaresProblem, run: Run, status: Status) -> Solution:
    seen = int(run.step) + 1
    log = np.asarray(run.log)[:seen]
    trail = None if run.trail is None else np.asarray(run.trail)[:seen]
    params = _restore(problem, run.best_x)
    # NumPy numbers, so that arithmetic on them outside is neither truncated nor warned about.
    loss, steps, code = np.float64(run.best_loss), np.int32(run.step), np.int32(status.code)
    return Solution(params, loss, code, steps, _history(log, trail))


@eqx.filter_jit
def _restore(problem: LeastSquaresProblem, x: Float[Array, " n"]):
    return problem.restore(x)


def _history(log, trail) -> History:
    loss, gradient_norm, step_norm, damping, gain_ratio, accepted = (log[..., k] for k in range(6))
    return History(loss, gradient_norm, step_norm, damping, gain_ratio, accepted == 1, trail)


def _progress(run: Run, max_steps: int) -> Progress:
    loss = float(run.log[int(run.step), 0])
    return Progress(int(run.step), max_steps, loss, float(run.best_loss))


def _read_tolerance(tolerance) -> Float[Array, ""]:
    number = read_numbers("tolerance", tolerance)
    if number.shape != () or not (is_traced(number) or bool(number >= 0)):
        raise ValueError(f"tolerance={tolerance!r}: give a number from 0 up.")
    return number
