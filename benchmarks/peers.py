"""Seconds to a given NMSBE on Mountain Car: ours beside other solvers, all in one run.

The problem is the paper's: 100 sampled transitions, an MLP (2, 10, 10, 1), the policy that pushes along the
velocity; inputs are scaled to [-1, 1]. Every method gets the same weights and the same residual, compiled by
JAX in double precision, and starts there; only our default first scales the network's output to the rewards,
which is part of its recipe. Compilation is not counted. Peers: optimistix (Levenberg-Marquardt,
dogleg, Gauss-Newton), SciPy's trf with JAX's Jacobian, Algorithm 1 with its fixed step sizes, Gauss-Newton
with backtracking, and Adam. Ours run once more on raw inputs, as the paper's do.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix
import scipy.optimize
from rich.console import Console
from rich.table import Table

import gaussbell as gb
import mountain_car
from gaussbell import records
from gaussbell.bellman import bellman_problem

TARGETS = (1e-5, 1e-8, 1e-12)
MAX_STEPS = 2000


def ours(solver: gb.solvers.Solver | None, max_steps: int = MAX_STEPS) -> Callable:
    """Losses by step, and seconds a step, of one of our methods."""

    def run(network: gb.MLP, data: gb.Transitions) -> tuple[np.ndarray, float]:
        started = time.perf_counter()
        solution = gb.evaluate(
            network, data, solver=solver, max_steps=max_steps, tolerance=min(TARGETS), patience=max_steps
        )
        seconds = time.perf_counter() - started
        return solution.history.msbe, seconds / max(1, int(solution.steps))

    return run


def by_optimistix(solver) -> Callable:
    def run(network: gb.MLP, data: gb.Transitions) -> tuple[np.ndarray, float]:
        problem = bellman_problem(network, data)
        state = _optimistix_start(solver, problem, problem.pack(network))
        dynamic, static = eqx.partition(state, eqx.is_array)
        started = time.perf_counter()
        losses = np.asarray(_optimistix_steps(solver, problem, problem.pack(network), dynamic, static))
        seconds = (time.perf_counter() - started) / len(losses)
        return np.minimum.accumulate(np.where(np.isfinite(losses), losses, np.inf)), seconds

    return run


def _residual(x, problem):
    return problem.residual(x), None


def _optimistix_start(solver, problem, x):
    out = jax.eval_shape(problem.residual, x)
    return solver.init(_residual, x, problem, {}, out, None, frozenset())


@eqx.filter_jit
def _optimistix_steps(solver, problem, x, dynamic, static):
    def body(carry, _):
        x, dynamic = carry
        x, state, _ = solver.step(_residual, x, problem, {}, eqx.combine(dynamic, static), frozenset())
        return (x, eqx.filter(state, eqx.is_array)), problem.loss(x)

    return jax.lax.scan(body, (x, dynamic), length=MAX_STEPS)[1]


def by_scipy(network: gb.MLP, data: gb.Transitions) -> tuple[np.ndarray, float]:
    problem = bellman_problem(network, data)
    start = np.asarray(problem.pack(network))
    residual = jax.jit(lambda x: problem.residual(x))  # noqa: PLW0108 - a bound method cannot be hashed
    jacobian = jax.jit(lambda x: problem.linearise(x).jacobian())
    residual(start), jacobian(start)
    losses = [float(problem.loss(jnp.asarray(start)))]
    started = time.perf_counter()
    scipy.optimize.least_squares(
        lambda x: np.asarray(residual(x)),
        start,
        jac=lambda x: np.asarray(jacobian(x)),
        method="trf",
        ftol=None,
        xtol=None,
        gtol=1e-15,
        max_nfev=MAX_STEPS,
        callback=lambda intermediate_result: losses.append(float(intermediate_result.cost)),
    )
    return np.array(losses), (time.perf_counter() - started) / len(losses)


METHODS: dict[str, Callable] = {
    "gaussbell, default": ours(None),
    "gaussbell dogleg": ours(gb.Dogleg()),
    "gaussbell Levenberg-Marquardt": ours(gb.LevenbergMarquardt()),
    "optimistix Levenberg-Marquardt": by_optimistix(optimistix.LevenbergMarquardt(rtol=1e-15, atol=1e-15)),
    "optimistix dogleg": by_optimistix(optimistix.Dogleg(rtol=1e-15, atol=1e-15)),
    "optimistix Gauss-Newton": by_optimistix(optimistix.GaussNewton(rtol=1e-15, atol=1e-15)),
    "SciPy trf": by_scipy,
    "Gauss-Newton with backtracking": ours(gb.BacktrackingGaussNewton()),
    "Algorithm 1, step 1": ours(gb.GaussNewton(1.0, 1e-5), 10_000),
    "Algorithm 1, step 0.1": ours(gb.GaussNewton(0.1, 1e-5), 10_000),
    "Algorithm 1, step 0.01": ours(gb.GaussNewton(0.01, 1e-5), 10_000),
    "Adam, 0.01": ours(gb.FirstOrder(optax.adam(0.01)), 10_000),
}
ON_RAW_INPUTS = ("gaussbell, default", "gaussbell dogleg", "gaussbell Levenberg-Marquardt")


def measure(run: Callable, seeds: range, *, scaled: bool) -> dict:
    """Seeds that reach each target, medians of their seconds and steps, and the median loss by seconds."""
    cases = [
        (gb.MLP((2, 10, 10, 1), key=seed), mountain_car.transitions(seed, scaled=scaled)) for seed in seeds
    ]
    run(*cases[0])  # compiles
    runs = [run(*case) for case in cases]
    by_target = {}
    for target in TARGETS:
        steps = [int(np.argmax(losses <= target)) if (losses <= target).any() else None for losses, _ in runs]
        there = [(s, s * seconds) for s, (_, seconds) in zip(steps, runs, strict=True) if s is not None]
        by_target[f"{target:g}"] = {
            "reached": len(there),
            "median_steps": float(np.median([s for s, _ in there])) if there else None,
            "median_seconds": float(np.median([t for _, t in there])) if there else None,
        }
    best = [np.minimum.accumulate(np.nan_to_num(losses, nan=np.inf)) for losses, _ in runs]
    longest = max(map(len, best))
    table = np.stack([np.append(curve, np.full(longest - len(curve), curve[-1])) for curve in best])
    seconds_a_step = float(np.median([seconds for _, seconds in runs]))
    shown = np.unique(np.geomspace(1, longest, 120).astype(int) - 1)
    return {
        "milliseconds_a_step": 1000 * seconds_a_step,
        "targets": by_target,
        "seconds": seconds_a_step * shown,
        "median_loss": np.median(table, axis=0)[shown],
    }


def show(console: Console, results: dict, title: str) -> None:
    table = Table(title=title, title_justify="left")
    for heading in ("method", "ms a step", *(f"to {target:g}" for target in TARGETS)):
        table.add_column(heading, no_wrap=True)
    for name, result in results.items():
        cells = [f"{result['milliseconds_a_step']:.2f}"]
        for target in result["targets"].values():
            seconds = target["median_seconds"]
            cells.append(f"{target['reached']}" + ("" if seconds is None else f", {seconds:.3f} s"))
        table.add_row(name, *cells)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=9100)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    jax.config.update("jax_enable_x64", True)
    console, results = Console(width=max(110, Console().width)), {}
    for inputs, names in (("scaled", METHODS), ("raw", ON_RAW_INPUTS)):
        results[inputs] = {}
        for name in names:
            with console.status(f"{name}, {inputs} inputs"):
                results[inputs][name] = measure(METHODS[name], seeds, scaled=inputs == "scaled")
            jax.clear_caches()
        show(console, results[inputs], f"Mountain Car, 100 rows, {inputs} inputs, {len(seeds)} seeds")
    console.print("Each cell: seeds that got there, and the median seconds of those.", highlight=False)
    record = {"versions": records.versions(), "seeds": list(seeds), "max_steps": MAX_STEPS, **results}
    console.print(f"Wrote {records.write(arguments.out / 'peers.json', record)}.", highlight=False)


if __name__ == "__main__":
    main()
