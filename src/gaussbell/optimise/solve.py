"""The only loop: repeat a method's step until a reason to stop."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gaussbell.numerics.arguments import read_count, read_numbers
from gaussbell.numerics.compilation import compiled_in_haste
from gaussbell.numerics.interrupts import Interrupts
from gaussbell.numerics.precision import as_double, callers_dtype, in_double, is_traced, numbers_as_arrays
from gaussbell.optimise.problem import LeastSquaresProblem
from gaussbell.optimise.solution import History, Solution, SolveInterrupted, Status
from gaussbell.optimise.solvers.solver import Solver, State, StepInfo

CHUNK = 256
"""Compiled steps at most between two chances for Ctrl-C; the size of the buffer that holds their history."""

LONGEST_CHUNK = 0.5
"""Seconds after which compiled steps should hand over, so that Ctrl-C is heard soon."""

PROGRESS_CALLS = 100
"""About how often progress is reported in a solve that uses all its steps."""

LEAST_PROGRESS = 1e-6
"""Relative fall of the best loss that counts as progress."""

SMALL_COSINE = 1e-6
"""A gradient this small beside |J| |r| belongs to a critical point."""

POWER_ITERATIONS = 5
"""Enough to know the norm of J to a digit."""

STEPS_BETWEEN_VALIDATIONS = 5
"""But each of the first few steps, which are the longest, is validated."""

VALIDATION_PATIENCE = 20
"""A solve stops early that many steps after validation's notably smallest error, or as many as led there."""

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


class Run(eqx.Module):
    """All that the loop carries: where it is, the best so far, what it saw since step `since`."""

    state: State
    best_x: Float[Array, " n"]
    best_loss: Float[Array, ""]
    first_loss: Float[Array, ""]
    milestone: Float[Array, ""]
    milestone_step: Int[Array, ""]
    step: Int[Array, ""]
    status: Int[Array, ""]
    since: Int[Array, ""]
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
    validation: Callable[[Any], float] | None = None,
    keep_parameters: bool = False,
) -> Solution:
    """Repeat `solver.step` until the loss is at most `tolerance` or there is another reason to stop.

    Under jit and vmap it is one compiled loop. Otherwise the same compiled loop runs in chunks, between
    which `on_progress` is called and Ctrl-C is heard: it raises SolveInterrupted, a KeyboardInterrupt that
    holds the best parameters seen.

    With `validation`, a function from parameters to an error on data of their own, the best parameters are
    those with the smallest error there, asked for every few steps; the solve stops early once it has stopped
    falling.
    """
    max_steps = read_count("max_steps", max_steps, 0, MOST_STEPS)
    solving = Solving(
        problem,
        x,
        solver,
        tolerance=tolerance,
        patience=patience,
        on_progress=on_progress,
        validation=validation,
        keep_parameters=keep_parameters,
    )
    if not solving.is_traced:
        return solving.run_to(max_steps).solution()
    if validation is not None:
        raise ValueError("validation: it happens between compiled steps; leave it out under jit and vmap.")
    problem, solver, x, limits = _read(problem, solver, x, tolerance, patience)
    run, first = _start(problem, solver, x, limits, max_steps, keep_parameters)
    run = _advance(problem, solver, limits, run, jnp.asarray(max_steps, jnp.int32))
    run = _name_vanishing(run)
    status = jnp.where(run.status == Status.RUNNING.code, Status.OUT_OF_STEPS.code, run.status)
    # In the caller's precision: JAX cannot compute with float64 where 64-bit types are off.
    log, trail, start, loss = jax.tree.map(
        lambda leaf: leaf.astype(callers_dtype()),
        (jnp.concatenate([first[None], run.log]), run.trail, x, run.best_loss),
    )
    trail = None if trail is None else jnp.concatenate([start[None], trail])
    return Solution(problem.restore(run.best_x), loss, status, run.step, _history(log, trail))


class Solving:
    """A solve under way, which can go on: damping, patience and validation carry over."""

    @in_double
    def __init__(
        self,
        problem: LeastSquaresProblem,
        x: Float[Array, " n"],
        solver: Solver,
        *,
        tolerance: Any,
        patience: int,
        on_progress: Callable[[Progress], None] | None = None,
        validation: Callable[[Any], float] | None = None,
        keep_parameters: bool = False,
    ):
        if on_progress is not None and not callable(on_progress):
            raise ValueError(f"on_progress={on_progress!r}: give a function of a Progress.")
        self._problem, self._solver, x, self._limits = _read(problem, solver, x, tolerance, patience)
        self._on_progress = on_progress
        self._run, first = _start(self._problem, self._solver, x, self._limits, CHUNK, keep_parameters)
        self.is_traced = is_traced((self._run, self._problem, self._solver, self._limits))
        self._logs = [] if self.is_traced else [np.asarray(first)[None]]
        self._trails = [np.asarray(x)[None]] if keep_parameters and not self.is_traced else None
        self._validated = None if validation is None else _Validated(self._problem, validation)

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return int(self._run.step)

    @property
    def is_running(self) -> bool:
        """Is there no reason to stop yet?"""
        return int(self._run.status) == Status.RUNNING.code

    @in_double
    def run_to(self, max_steps: int, *, stop: Callable[[], bool] | None = None) -> "Solving":
        """Take steps until there are `max_steps` in all, or a reason to stop; Ctrl-C is heard on the way.

        Args:
            stop: Asked between compiled steps, every half second or so; True ends the solve as out of time.
        """
        most, chunk = CHUNK, 1
        if self._on_progress is not None:
            most = min(most, max(1, max_steps // PROGRESS_CALLS))
        try:
            with Interrupts() as interrupts:
                if self._validated is not None and self.steps == 0 and self.is_running:
                    self._run = self._validated.validate(self._run)
                while self.is_running and self.steps < max_steps:
                    interrupts.raise_if_heard()
                    stop_at = min(self.steps + chunk, max_steps)
                    if self._validated is not None:
                        stop_at = min(stop_at, _next_validation(self.steps))
                    started = time.perf_counter()
                    limit = jnp.asarray(stop_at, jnp.int32)
                    self._run = _advance(self._problem, self._solver, self._limits, self._run, limit)
                    self._collect(validating=stop_at in (_next_validation(stop_at - 1), max_steps))
                    quick = time.perf_counter() - started < LONGEST_CHUNK / 2
                    chunk = min(most, 2 * chunk) if quick else max(1, chunk // 2)
                    if self._on_progress is not None:
                        loss, best = float(self._logs[-1][-1, 0]), float(self._run.best_loss)
                        self._on_progress(Progress(self.steps, max_steps, loss, best))
                    if stop is not None and self.is_running and stop():
                        self._run = _with_status(self._run, Status.OUT_OF_TIME)
        except KeyboardInterrupt:
            raise SolveInterrupted(self.solution(Status.INTERRUPTED)) from None
        return self

    def _collect(self, *, validating: bool) -> None:
        """Take what the last chunk saw off the run, and judge how it ended."""
        run = self._run
        seen = int(run.step) - int(run.since)
        self._logs.append(np.asarray(run.log)[:seen])
        if self._trails is not None:
            self._trails.append(np.asarray(run.trail)[:seen])
        run = eqx.tree_at(lambda run: run.since, run, run.step)
        if int(run.status) == Status.STATIONARY.code and run.state.linearisation is not None:
            run = _compiled_name_vanishing(run)
        if self._validated is not None and (validating or int(run.status) != Status.RUNNING.code):
            run = self._validated.validate(run)
        self._run = run

    @in_double
    def solution(self, status: Status | None = None) -> Solution:
        """The best parameters seen so far, and how it went."""
        if status is None:
            status = Status.OUT_OF_STEPS if self.is_running else list(Status)[int(self._run.status)]
        run = self._run if self._validated is None else self._validated.best(self._run)
        trail = None if self._trails is None else np.concatenate(self._trails)
        # NumPy numbers, so that arithmetic on them outside is neither truncated nor warned about.
        return Solution(
            _restore(self._problem, run.best_x),
            np.float64(run.best_loss),
            np.int32(status.code),
            np.int32(run.step),
            _history(np.concatenate(self._logs), trail),
        )


def _next_validation(step: int) -> int:
    """The step after this one that validation is asked at."""
    if step < STEPS_BETWEEN_VALIDATIONS:
        return step + 1
    return (step // STEPS_BETWEEN_VALIDATIONS + 1) * STEPS_BETWEEN_VALIDATIONS


class _Validated:
    """Validates now and then, and remembers where the error was smallest."""

    def __init__(self, problem: LeastSquaresProblem, validation: Callable[[Any], float]):
        self._problem, self._validation = problem, validation
        self._smallest, self._notable, self._notable_step = np.inf, np.inf, 0
        self._x = self._loss = None

    def validate(self, run: Run) -> Run:
        """Ask for the error of the best parameters so far; the run has a status if it should stop."""
        error = float(self._validation(_restore(self._problem, run.best_x)))
        step = int(run.step)
        if error < NOTABLY_BETTER * self._notable:
            self._notable, self._notable_step = error, step
        if error < self._smallest or self._x is None:
            self._smallest, self._x, self._loss = error, run.best_x, run.best_loss
        patience = max(VALIDATION_PATIENCE, self._notable_step)
        if step < self._notable_step + patience or int(run.status) != Status.RUNNING.code:
            return run
        return _with_status(run, Status.EARLY_STOPPED)

    def best(self, run: Run) -> Run:
        """The run with the parameters of the smallest validation error as its best, if there was any."""
        if self._x is None:
            return run
        return eqx.tree_at(lambda run: (run.best_x, run.best_loss), run, (self._x, self._loss))


def _with_status(run: Run, status: Status) -> Run:
    return eqx.tree_at(lambda run: run.status, run, jnp.asarray(status.code, jnp.int32))


def _read(problem: LeastSquaresProblem, solver: Any, x: Any, tolerance: Any, patience: Any):
    """The arguments of a solve as arrays, checked."""
    if not isinstance(solver, Solver):
        raise ValueError(f"solver={solver!r}: give an object such as gaussbell.LevenbergMarquardt().")
    patience = read_count("patience", patience, 1)
    limits = Limits(_read_tolerance(tolerance), jnp.asarray(patience, jnp.int32))
    return *as_double((problem, numbers_as_arrays(solver), x)), limits


@compiled_in_haste
def _start(problem, solver, x, limits: Limits, capacity: int, keep_parameters: bool):
    """The run before its first step, and the first entry of its history."""
    state = solver.init(problem, x)
    loss, zero = state.loss, jnp.zeros((), jnp.int32)
    nothing, yes = jnp.asarray(jnp.nan), jnp.asarray(True)
    start = StepInfo(jnp.zeros(()), nothing, nothing, accepted=yes, vanished=~yes)
    status = _first_reason(
        (~_all_finite(state), Status.NOT_FINITE_AT_START),
        (loss <= limits.tolerance, Status.CONVERGED),
    )
    log = jnp.full((capacity, 6), jnp.nan)
    trail = jnp.full((capacity, len(x)), jnp.nan) if keep_parameters else None
    run = Run(state, x, loss, loss, loss, zero, zero, status, zero, log, trail)
    return run, _log_row(state, start)


@eqx.filter_jit
def _advance(problem, solver, limits: Limits, run: Run, stop_at) -> Run:
    """Step until there is a status, or until step `stop_at`."""
    divergence = DIVERGENCE * jnp.maximum(run.first_loss, jnp.finfo(jnp.float64).tiny)

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
            (~finite | (loss > divergence), Status.DIVERGED),
            (info.vanished, Status.STATIONARY),
            (step - milestone_step >= limits.patience, Status.STAGNATED),
        )
        place = run.step - run.since
        return Run(
            state=state,
            best_x=jnp.where(better, state.x, run.best_x),
            best_loss=best_loss,
            first_loss=run.first_loss,
            milestone=jnp.where(progressed, best_loss, run.milestone),
            milestone_step=milestone_step,
            step=step,
            status=status,
            since=run.since,
            log=run.log.at[place].set(_log_row(state, info)),
            trail=None if run.trail is None else run.trail.at[place].set(state.x),
        )

    return jax.lax.while_loop(goes_on, body, run)


def _name_vanishing(run: Run) -> Run:
    """The run, whose steps have vanished, with a status that says whether that is a critical point."""
    if run.state.linearisation is None:
        return run
    misnamed = (run.status == Status.STATIONARY.code) & ~_is_critical(run.state)
    status = jnp.where(misnamed, jnp.asarray(Status.STAGNATED.code, jnp.int32), run.status)
    return eqx.tree_at(lambda run: run.status, run, status)


_compiled_name_vanishing = eqx.filter_jit(_name_vanishing)


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


@compiled_in_haste
def _restore(problem: LeastSquaresProblem, x: Float[Array, " n"]):
    return problem.restore(x)


def _history(log, trail) -> History:
    loss, gradient_norm, step_norm, damping, gain_ratio, accepted = (log[..., k] for k in range(6))
    return History(loss, gradient_norm, step_norm, damping, gain_ratio, accepted == 1, trail)


def _read_tolerance(tolerance) -> Float[Array, ""]:
    number = read_numbers("tolerance", tolerance)
    if number.shape != () or not (is_traced(number) or bool(number >= 0)):
        raise ValueError(f"tolerance={tolerance!r}: give a number from 0 up.")
    return number
