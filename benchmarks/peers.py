"""Seconds to a given NMSBE on Mountain Car: ours beside other solvers, all in one run.

The problem is the paper's: 100 sampled transitions, an MLP (2, 10, 10, 1), the policy that pushes along the
velocity; inputs are scaled to [-1, 1]. Every method gets the same weights and the same residual, compiled by
JAX in double precision, and starts there; only our default first scales the network's output to the rewards,
which is part of its recipe. Compilation is not counted. Peers: optimistix (Levenberg-Marquardt,
dogleg, Gauss-Newton), SciPy's trf with JAX's Jacobian, and Algorithm 1 with its fixed step sizes.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import scipy.optimize
from rich.console import Console
from rich.table import Table

import gaussbell as gb
from gaussbell import records
from gaussbell.residuals import bellman_problem

TARGETS = (1e-5, 1e-8, 1e-12)
MAX_STEPS = 2000


def mountain_car(seed: int, rows: int = 100) -> gb.Transitions:
    car = gb.environments.MountainCar()
    state = car.sample_states(rows, key=seed)
    action = jax.vmap(car.along_velocity)(state)
    reward = jax.vmap(car.reward)(state, action)
    following = jax.vmap(car.transition)(state, action)
    return gb.Transitions(car.scale(state), reward, car.scale(following), car.discount)


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
    "gaussbell Levenberg-Marquardt": ours(None),
    "gaussbell dogleg": ours(gb.Dogleg()),
    "optimistix Levenberg-Marquardt": by_optimistix(optimistix.LevenbergMarquardt(rtol=1e-15, atol=1e-15)),
    "optimistix dogleg": by_optimistix(optimistix.Dogleg(rtol=1e-15, atol=1e-15)),
    "optimistix Gauss-Newton": by_optimistix(optimistix.GaussNewton(rtol=1e-15, atol=1e-15)),
    "SciPy trf": by_scipy,
    "Algorithm 1, step 1": ours(gb.GaussNewton(1.0, 1e-5), 10_000),
    "Algorithm 1, step 0.1": ours(gb.GaussNewton(0.1, 1e-5), 10_000),
    "Algorithm 1, step 0.01": ours(gb.GaussNewton(0.01, 1e-5), 10_000),
}


def measure(run: Callable, seeds: range) -> dict:
    """For each target: how many seeds reach it, and the median seconds and steps of those that do."""
    seconds_a_step, steps = [], []
    run(gb.MLP((2, 10, 10, 1), key=seeds[0]), mountain_car(seeds[0]))  # compiles
    for seed in seeds:
        losses, seconds = run(gb.MLP((2, 10, 10, 1), key=seed), mountain_car(seed))
        seconds_a_step.append(seconds)
        reached = [losses <= target for target in TARGETS]
        steps.append([int(np.argmax(r)) if r.any() else None for r in reached])
    by_target = {}
    for k, target in enumerate(TARGETS):
        there = [(s[k], t * s[k]) for s, t in zip(steps, seconds_a_step, strict=True) if s[k] is not None]
        by_target[f"{target:g}"] = {
            "reached": len(there),
            "median_steps": float(np.median([s for s, _ in there])) if there else None,
            "median_seconds": float(np.median([t for _, t in there])) if there else None,
        }
    return {"milliseconds_a_step": 1000 * float(np.median(seconds_a_step)), "targets": by_target}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=9000)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    jax.config.update("jax_enable_x64", True)
    console, results = Console(width=max(110, Console().width)), {}
    table = Table(title=f"Mountain Car, 100 rows, (2, 10, 10, 1), {len(seeds)} seeds", title_justify="left")
    for heading in ("method", "ms a step", *(f"to {target:g}" for target in TARGETS)):
        table.add_column(heading, no_wrap=True)
    for name, run in METHODS.items():
        with console.status(name):
            results[name] = measure(run, seeds)
        cells = [f"{results[name]['milliseconds_a_step']:.2f}"]
        for target in results[name]["targets"].values():
            seconds = target["median_seconds"]
            cells.append(f"{target['reached']}" + ("" if seconds is None else f", {seconds:.3f} s"))
        table.add_row(name, *cells)
    console.print(table)
    console.print("Each cell: seeds that got there, and the median seconds of those.", highlight=False)
    record = {
        "versions": records.versions(),
        "seeds": list(seeds),
        "max_steps": MAX_STEPS,
        "results": results,
    }
    console.print(f"Wrote {records.write(arguments.out / 'peers.json', record)}.", highlight=False)


if __name__ == "__main__":
    main()
