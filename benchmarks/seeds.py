"""Many seeds on a CPU: evaluations a second by vmap, by a loop, and by processes of one thread each.

25 evaluations of Mountain Car with 100 rows and (2, 10, 10, 1), each with its own samples and weights, to a
NMSBE of 1e-8, and of the star, to 1e-20. Compilation and the start of processes are not counted, but given.
"""

import argparse
import functools
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import gaussbell as gb
import mountain_car
from gaussbell import records

SEEDS = range(7000, 7025)
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def on_mountain_car(network: gb.MLP, data: gb.Transitions) -> gb.Solution:
    return gb.evaluate(network, data, tolerance=1e-8, max_steps=600, patience=600)


def mountain_car_arguments(seed: int):
    return gb.MLP((2, 10, 10, 1), key=seed), mountain_car.transitions(seed)


def on_the_star(network: gb.MLP, features) -> gb.Solution:
    return gb.evaluate(network, STAR, features=features, tolerance=1e-20, max_steps=200)


def star_arguments(seed: int):
    return gb.MLP((2, 7, 1), key=seed), gb.encodings.normal(7, 2, key=seed)


STAR = gb.environments.SevenStar().under()
PROBLEMS: dict[str, tuple[Callable, Callable]] = {
    "Mountain Car": (on_mountain_car, mountain_car_arguments),
    "star": (on_the_star, star_arguments),
}


def one_loss(name: str, seed: int) -> float:
    evaluate, arguments = PROBLEMS[name]
    return float(evaluate(*arguments(seed)).loss)


def timed(run: Callable[[], list[float]]) -> tuple[float, float, int]:
    """Seconds of the first run, of the faster of two more, and how many seeds converged."""
    started = time.perf_counter()
    run()
    first = time.perf_counter() - started
    best = float("inf")
    for _ in range(2):
        started = time.perf_counter()
        losses = run()
        best = min(best, time.perf_counter() - started)
    return first, best, sum(loss <= 1e-8 for loss in losses)


def by_vmap(name: str) -> tuple[float, float, int]:
    evaluate, arguments = PROBLEMS[name]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(arguments(seed) for seed in SEEDS))
    together = jax.jit(jax.vmap(evaluate))

    def run() -> list[float]:
        return together(*stacked).loss.tolist()

    return timed(run)


def by_loop(name: str) -> tuple[float, float, int]:
    evaluate, arguments = PROBLEMS[name]
    prepared = [arguments(seed) for seed in SEEDS]
    return timed(lambda: [float(evaluate(*case).loss) for case in prepared])


def by_processes(name: str) -> tuple[float, float, int]:
    os.environ.update(ONE_THREAD)
    workers = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=jax_in_double) as executor:
        job = functools.partial(one_loss, name)
        return timed(lambda: list(executor.map(job, SEEDS, chunksize=1)))


def jax_in_double() -> None:
    jax.config.update("jax_enable_x64", True)


WAYS = {"one after the other": by_loop, "vmap": by_vmap, "processes of one thread": by_processes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    arguments = parser.parse_args()
    jax_in_double()
    console, results = Console(width=max(100, Console().width)), {}
    for name in PROBLEMS:
        table = Table(title=f"{name}, {len(SEEDS)} seeds, {os.cpu_count()} cores", title_justify="left")
        for heading in ("way", "first run, s", "next run, s", "seeds a second", "converged"):
            table.add_column(heading, justify="left" if heading == "way" else "right")
        results[name] = {}
        for way, run in WAYS.items():
            with console.status(f"{name}: {way}"):
                first, seconds, converged = run(name)
            eqx.clear_caches()
            results[name][way] = {"first": first, "seconds": seconds, "converged": converged}
            table.add_row(
                way, f"{first:.2f}", f"{seconds:.2f}", f"{len(SEEDS) / seconds:.1f}", str(converged)
            )
        console.print(table)
    record = {"versions": records.versions(), "seeds": list(SEEDS), "results": results}
    console.print(f"Wrote {records.write(arguments.out / 'seeds.json', record)}.", highlight=False)


if __name__ == "__main__":
    main()
