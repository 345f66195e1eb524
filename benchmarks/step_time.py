"""Time of one step against the BLAS time of the same flops, all in one run.

For each size: our Gauss-Newton step in the smaller space and in the other one, steps of our
Levenberg-Marquardt and dogleg (which bend them and weigh trials as well), a step of optimistix's
Levenberg-Marquardt, the paper's recipe (parameter space, Householder QR) in NumPy, and the floor, one `syrk`
and one `potrf` of the smaller space's shapes through SciPy. The machine may be noisy: each is timed in turns,
the fastest turn counts, and the ratios to the floor are what to read.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np
import optimistix
import scipy.linalg
from rich.console import Console
from rich.table import Table

import gaussbell as gb
from gaussbell import records
from gaussbell.residuals import bellman_problem

SIZES = [((2, 10, 10, 1), 100, 500), ((2, 50, 50, 1), 500, 10), ((2, 50, 50, 1), 2000, 4)]
"""Architecture, rows, and steps in one solve."""

TURNS = 3


def sampled(rows: int) -> gb.Transitions:
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (rows, 2))
    return gb.Transitions(state, -np.ones(rows), np.clip(state + rng.normal(0, 0.05, state.shape), -1, 1))


def our_steps(network, data, solver, steps: int):
    def run():
        solution = gb.evaluate(
            network, data, solver=solver, max_steps=steps, tolerance=0.0, patience=steps + 1
        )
        return int(solution.steps)

    return run


def optimistix_steps(network, data, steps: int):
    solver = optimistix.LevenbergMarquardt(rtol=0.0, atol=0.0)
    problem = bellman_problem(network, data)
    start = problem.pack(network)

    def run():
        result = optimistix.least_squares(_residual, solver, start, problem, max_steps=steps, throw=False)
        jax.block_until_ready(result.value)
        return int(result.stats["num_steps"])

    return run


def _residual(x, problem):
    return problem.residual(x)


def paper_step(network, data):
    """One step of Algorithm 1 as the paper describes its own implementation."""
    at = gb.linearise(network, data)
    jacobian, residual = np.asarray(at.jacobian()), np.asarray(at.residual)

    def run():
        hessian = jacobian.T @ jacobian
        gradient = jacobian.T @ residual
        q, r = np.linalg.qr(hessian + 1e-5 * np.eye(len(gradient)))
        scipy.linalg.solve_triangular(r, q.T @ gradient)
        return 1

    return run


def floor(rows: int, parameters: int):
    small, large = sorted((rows, parameters))
    matrix = np.asfortranarray(np.random.default_rng(0).normal(size=(small, large)))

    def run():
        gram = scipy.linalg.blas.dsyrk(1.0, matrix)
        gram[np.diag_indices(small)] += 1.0
        scipy.linalg.lapack.dpotrf(gram, overwrite_a=True)
        return 1

    return run


def measure(jobs: dict) -> dict[str, float]:
    """Milliseconds a step of each job: the fastest run of several turns, taken in rotation."""
    for run in jobs.values():
        run()
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(TURNS):
        for name, run in jobs.items():
            turn_ends = time.perf_counter() + 0.3
            while time.perf_counter() < turn_ends:
                started = time.perf_counter()
                steps = run()
                best[name] = min(best[name], 1000 * (time.perf_counter() - started) / steps)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    console, results = Console(), []
    for sizes, rows, steps in SIZES:
        network, data = gb.MLP(sizes, key=0), sampled(rows)
        times = measure(
            {
                "Gauss-Newton": our_steps(network, data, gb.GaussNewton(0.01, 1e-5), steps),
                "Gauss-Newton, parameter space": our_steps(
                    network, data, gb.GaussNewton(0.01, 1e-5, gb.linalg.ParameterSpace()), steps
                ),
                "Levenberg-Marquardt": our_steps(network, data, gb.LevenbergMarquardt(), steps),
                "dogleg": our_steps(network, data, gb.Dogleg(), steps),
                "optimistix Levenberg-Marquardt": optimistix_steps(network, data, min(steps, 50)),
                "the paper's recipe, NumPy": paper_step(network, data),
                "BLAS floor": floor(rows, network.num_parameters),
            }
        )
        table = Table(
            title=f"{sizes}, {network.num_parameters} parameters, {rows} rows", title_justify="left"
        )
        for heading in ("one step", "ms", "times the floor"):
            table.add_column(heading, justify="left" if heading == "one step" else "right")
        for name, milliseconds in times.items():
            table.add_row(name, f"{milliseconds:.3f}", f"{milliseconds / times['BLAS floor']:.1f}")
        console.print(table)
        results.append(
            {"sizes": sizes, "rows": rows, "parameters": network.num_parameters, "milliseconds": times}
        )
    path = records.write(
        arguments.out / "step_time.json", {"versions": records.versions(), "results": results}
    )
    console.print(f"Wrote {path}.", highlight=False)


if __name__ == "__main__":
    main()
