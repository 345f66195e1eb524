"""Time of one step against the BLAS time of the same flops, all in one run.

For each size: our Gauss-Newton step in the smaller space and in the other one, steps of our
Levenberg-Marquardt and dogleg (which bend them and weigh trials as well), a step of optimistix's
Levenberg-Marquardt if it is installed, the paper's recipe (parameter space, Householder QR) in NumPy, and the
floor, one `syrk` and one `potrf` of the smaller space's shapes through SciPy. The machine may be noisy: each
is timed in turns, the fastest turn counts, and the ratios to the floor are what to read.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.linalg

import gaussbell as gb
from gaussbell import records
from gaussbell.bellman import bellman_problem
from gaussbell.numerics.precision import double_throughout

FLOOR = "BLAS floor"
DAMPING, STEP_SIZE = 1e-5, 0.01
Job = Callable[[], int]
"""Takes some steps, and says how many."""


class Size(NamedTuple):
    """A network, the rows it is fitted to, and the steps in one solve."""

    sizes: tuple[int, ...]
    rows: int
    steps: int


class Settings(NamedTuple):
    """What is run."""

    cases: tuple[Size, ...] = (
        Size((2, 10, 10, 1), 100, 500),
        Size((2, 50, 50, 1), 500, 10),
        Size((2, 50, 50, 1), 2000, 4),
    )
    turns: int = 3
    seconds_a_turn: float = 0.3


@double_throughout
def run(settings: Settings, on_progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """All times, as a record: milliseconds a step of each job at each size."""
    told = on_progress or (lambda text: None)
    results = []
    for case in settings.cases:
        network = gb.MLP(case.sizes, key=0)
        told(f"{case.sizes}, {case.rows} rows")
        times = _measure(_list_jobs(network, case), settings)
        results.append(
            {
                "sizes": case.sizes,
                "rows": case.rows,
                "parameters": network.num_parameters,
                "milliseconds": times,
            }
        )
    return {
        "command": "bench",
        "settings": settings._asdict(),
        "versions": records.versions(),
        "results": results,
    }


def _list_jobs(network: gb.MLP, case: Size) -> dict[str, Job]:
    data, damped = _sample(case.rows), gb.GaussNewton(STEP_SIZE, DAMPING)
    ours = {
        "Gauss-Newton": damped,
        "Gauss-Newton, parameter space": gb.GaussNewton(STEP_SIZE, DAMPING, gb.linalg.ParameterSpace()),
        "Levenberg-Marquardt": gb.LevenbergMarquardt(),
        "dogleg": gb.Dogleg(),
    }
    jobs = {name: _our_steps(network, data, solver, case.steps) for name, solver in ours.items()}
    theirs = _optimistix_steps(network, data, min(case.steps, 50))
    if theirs is not None:
        jobs["optimistix Levenberg-Marquardt"] = theirs
    jobs["the paper's recipe, NumPy"] = _paper_step(network, data)
    jobs[FLOOR] = _floor(case.rows, network.num_parameters)
    return jobs


def _sample(rows: int) -> gb.Transitions:
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (rows, 2))
    return gb.Transitions(state, -np.ones(rows), np.clip(state + rng.normal(0, 0.05, state.shape), -1, 1))


def _our_steps(network: gb.MLP, data: gb.Transitions, solver: Any, steps: int) -> Job:
    def job() -> int:
        solution = gb.evaluate(
            network, data, solver=solver, max_steps=steps, tolerance=0.0, patience=steps + 1, diagnose=False
        )
        return int(solution.steps)

    return job


def _optimistix_steps(network: gb.MLP, data: gb.Transitions, steps: int) -> Job | None:
    try:
        optimistix = importlib.import_module("optimistix")  # an extra
    except ImportError:
        return None
    solver = optimistix.LevenbergMarquardt(rtol=0.0, atol=0.0)
    problem = bellman_problem(network, data)
    start = problem.pack(network)

    def job() -> int:
        result = optimistix.least_squares(_residual, solver, start, problem, max_steps=steps, throw=False)
        jax.block_until_ready(result.value)
        return int(result.stats["num_steps"])

    return job


def _residual(x: Any, problem: Any) -> Any:
    return problem.residual(x)


def _paper_step(network: gb.MLP, data: gb.Transitions) -> Job:
    """One step of Algorithm 1 as the paper describes its own implementation."""
    at = gb.linearise(network, data)
    jacobian, residual = np.asarray(at.jacobian()), np.asarray(at.residual)

    def job() -> int:
        hessian = jacobian.T @ jacobian
        gradient = jacobian.T @ residual
        q, r = np.linalg.qr(hessian + DAMPING * np.eye(len(gradient)))
        scipy.linalg.solve_triangular(r, q.T @ gradient)
        return 1

    return job


def _floor(rows: int, parameters: int) -> Job:
    small, large = sorted((rows, parameters))
    matrix = np.asfortranarray(np.random.default_rng(0).normal(size=(small, large)))
    (multiply,) = scipy.linalg.get_blas_funcs(("syrk",), (matrix,))
    (factorise,) = scipy.linalg.get_lapack_funcs(("potrf",), (matrix,))

    def job() -> int:
        gram = multiply(1.0, matrix)
        gram[np.diag_indices(small)] += 1.0
        factorise(gram, overwrite_a=True)
        return 1

    return job


def _measure(jobs: dict[str, Job], settings: Settings) -> dict[str, float]:
    """Milliseconds a step of each job: the fastest run of several turns, taken in rotation."""
    for job in jobs.values():
        job()
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(settings.turns):
        for name, job in jobs.items():
            now = time.perf_counter()
            turn_ends = now + settings.seconds_a_turn
            while now <= turn_ends:
                started, steps = now, job()
                now = time.perf_counter()
                best[name] = min(best[name], 1000 * (now - started) / steps)
    return best
