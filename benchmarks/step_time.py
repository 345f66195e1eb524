"""Time of one Gauss-Newton step against the BLAS time of the same flops, all in one run.

For each size: our step in the smaller space, our step in the other space, the paper's recipe (parameter
space, Householder QR) in NumPy, and the floor, one `syrk` and one `potrf` of the smaller space's shapes
through SciPy. The machine may be noisy: each is timed in turns, the fastest turn counts, and the ratios to
the floor are what to read.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table

import gaussbell as gb
from gaussbell import records

SIZES = [((2, 10, 10, 1), 100, 500), ((2, 50, 50, 1), 500, 10), ((2, 50, 50, 1), 2000, 3)]
"""Architecture, rows, and steps in one solve."""

TURNS = 3


def sampled(rows: int) -> gb.Transitions:
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (rows, 2))
    return gb.Transitions(state, -np.ones(rows), np.clip(state + rng.normal(0, 0.05, state.shape), -1, 1))


def our_steps(network, data, space, steps: int):
    def run():
        solver = gb.GaussNewton(0.01, 1e-5, space)
        solution = gb.evaluate(
            network, data, solver=solver, max_steps=steps, tolerance=0.0, patience=steps + 1
        )
        assert solution.steps == steps, solution
        return steps

    return run


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
    console, results = Console(), []
    for sizes, rows, steps in SIZES:
        network, data = gb.MLP(sizes, key=0), sampled(rows)
        times = measure(
            {
                "ours, sample space": our_steps(network, data, gb.linalg.SampleSpace(), steps),
                "ours, parameter space": our_steps(network, data, gb.linalg.ParameterSpace(), steps),
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
        results.append({"sizes": sizes, "rows": rows, "milliseconds": times})
    path = records.write(
        arguments.out / "step_time.json", {"versions": records.versions(), "results": results}
    )
    console.print(f"Wrote {path}.", highlight=False)


if __name__ == "__main__":
    main()
