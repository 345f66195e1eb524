"""The only loop: repeat a method's step until a reason to stop."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gaussbell.linearisation import LeastSquaresProblem
from gaussbell.packing import Packing
from gaussbell.precision import as_double, in_double, is_traced
from gaussbell.solution import History, Solution, Status
from gaussbell.solvers.solver import Solver, State, StepInfo

STEPS_BETWEEN_LOOKS = 256
"""Compiled steps between two looks at the clock and the keyboard, when nobody asked for progress."""

PROGRESS_LOOKS = 100
"""About how often progress is reported in a solve that uses all its steps."""

LEAST_PROGRESS = 1e-6
"""Relative fall of the best loss that counts as progress."""

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
    packing: Packing,
    max_steps: int,
    tolerance: float | Float[Array, ""],
    patience: int,
    on_progress: Callable[[Progress], None] | None = None,
    keep_parameters: bool = False,
) -> Solution:
    """Repeat `solver.step` until the loss is at most `tolerance` or there is another reason to stop.

    Under jit and vmap it is one compiled loop. Otherwise the same compiled loop runs in bouts, between
    which `on_progress` is called and Ctrl-C is heard: it ends the solve with the best parameters seen.
    """
    _check_limits(max_steps, patience, tolerance)
    problem, solver, x = as_double((problem, solver, x))
    tolerance = jnp.asarray(tolerance, jnp.float64)
    run, limits = _start(
        problem, solver, x, tolerance, jnp.asarray(patience, jnp.int32), max_steps, keep_parameters
    )
    if is_traced((problem, solver, x, tolerance)):
        run = _advance(problem, solver, limits, run, jnp.asarray(max_steps, jnp.int32))
        return _traced_solution(packing, run)

    bout = max(1, max_steps // PROGRESS_LOOKS) if on_progress else STEPS_BETWEEN_LOOKS
    status = Status.RUNNING
    try:
        while (code := int(run.status)) == Status.RUNNING.code:
            stop_at = jnp.asarray(min(int(run.step) + bout, max_steps), jnp.int32)
            run = _advance(problem, solver, limits, run, stop_at)
            if on_progress:
                on_progress(_progress(run, max_steps))
        status = list(Status)[code]
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return _concrete_solution(packing, run, status)


@eqx.filter_jit
def _start(problem, solver, x, tolerance, patience, max_steps: int, keep_parameters: bool):
    state = solver.init(problem, x)
    loss = state.linearisation.loss
    limits = Limits(
        tolerance,
        patience,
        DIVERGENCE * jnp.maximum(loss, jnp.finfo(jnp.float64).tiny),
    )
    start = StepInfo(jnp.zeros(()), jnp.asarray(jnp.nan), jnp.asarray(jnp.nan), jnp.asarray(True))
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
        step, loss = run.step + 1, state.linearisation.loss
        finite = _all_finite(state)
        better = finite & (loss < run.best_loss)
        best_loss = jnp.where(better, loss, run.best_loss)
        progressed = best_loss < run.milestone * (1 - LEAST_PROGRESS)
        milestone_step = jnp.where(progressed, step, run.milestone_step)
        rounding = jnp.finfo(state.x.dtype).eps * jnp.linalg.norm(state.x)
        status = _first_reason(
            (finite & (loss <= limits.tolerance), Status.CONVERGED),
            (~finite | (loss > limits.divergence), Status.DIVERGED),
            (info.step_norm <= rounding, Status.STATIONARY),
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

    return jax.lax.while_loop(goes_on, body, run)


def _first_reason(*reasons: tuple[Bool[Array, ""], Status]) -> Int[Array, ""]:
    """The code of the first status whose condition holds, or that of RUNNING."""
    code = jnp.asarray(Status.RUNNING.code, jnp.int32)
    for holds, status in reversed(reasons):
        code = jnp.where(holds, jnp.asarray(status.code, jnp.int32), code)
    return code


def _log_row(state: State, info: StepInfo) -> Float[Array, " 6"]:
    return jnp.stack(
        [
            state.linearisation.loss,
            jnp.linalg.norm(state.gradient),
            info.step_norm,
            info.damping,
            info.gain_ratio,
            info.accepted.astype(jnp.float64),
        ]
    )


def _all_finite(state: State):
    return jnp.isfinite(state.linearisation.loss) & jnp.isfinite(state.gradient).all()


def _traced_solution(packing: Packing, run: Run) -> Solution:
    params = packing.restore(run.best_x)
    history = _history(run.log, run.trail)
    return Solution(params, run.best_loss, run.status, run.step, history)


def _concrete_solution(packing: Packing, run: Run, status: Status) -> Solution:
    seen = int(run.step) + 1
    log = np.asarray(run.log)[:seen]
    trail = None if run.trail is None else np.asarray(run.trail)[:seen]
    params = _restore(packing, run.best_x)
    # NumPy numbers, so that arithmetic on them outside is neither truncated nor warned about.
    loss, steps, code = np.float64(run.best_loss), np.int32(run.step), np.int32(status.code)
    return Solution(params, loss, code, steps, _history(log, trail))


_restore = eqx.filter_jit(Packing.restore)


def _history(log, trail) -> History:
    loss, gradient_norm, step_norm, damping, gain_ratio, accepted = (log[..., k] for k in range(6))
    return History(loss, gradient_norm, step_norm, damping, gain_ratio, accepted == 1, trail)


def _progress(run: Run, max_steps: int) -> Progress:
    loss = float(run.log[int(run.step), 0])
    return Progress(int(run.step), max_steps, loss, float(run.best_loss))


def _check_limits(max_steps: int, patience: int, tolerance) -> None:
    if not isinstance(max_steps, int) or max_steps < 0:
        raise ValueError(f"max_steps={max_steps!r}: give a whole number from 0 up.")
    if not isinstance(patience, int) or patience < 1:
        raise ValueError(f"patience={patience!r}: give a whole number of steps from 1 up.")
    if isinstance(tolerance, int | float) and not tolerance >= 0:
        raise ValueError(f"tolerance={tolerance!r}: give a number from 0 up.")
