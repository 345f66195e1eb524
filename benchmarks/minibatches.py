"""Minibatches beside full batches on 20,000 rows of Mountain Car: the loss of all rows against seconds.

One network, (2, 50, 50, 1), inputs scaled to [-1, 1], several seeds. Compilation is not counted.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import gaussbell as gb
import mountain_car
from gaussbell import records

ROWS, SIZES = 20_000, (2, 50, 50, 1)
METHODS = {
    "minibatches of 512": (gb.Minibatch(), 12),
    "minibatches of 512, no momentum": (gb.Minibatch(momentum=0.0), 12),
    "Levenberg-Marquardt, all rows": (gb.LevenbergMarquardt(), 12),
    "Adam, all rows": (gb.FirstOrder(optax.adam(0.01)), 300),
}
SHOWN_SECONDS = (3.0, 10.0, 30.0)


def measure(solver: gb.solvers.Solver, steps: int, seed: int) -> dict:
    network, data = gb.MLP(SIZES, key=seed), mountain_car.transitions(seed, ROWS)

    def run(patience: int) -> gb.Solution:
        return gb.evaluate(network, data, solver=solver, max_steps=steps, tolerance=0.0, patience=patience)

    run(patience=1)  # compiles
    started = time.perf_counter()
    solution = run(patience=steps)
    seconds = (time.perf_counter() - started) / int(solution.steps)
    return {"seconds": seconds * np.arange(int(solution.steps) + 1), "loss": solution.history.msbe}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    console, results = Console(width=max(100, Console().width)), {}
    table = Table(title=f"Mountain Car, {ROWS:,} rows, {SIZES}: NMSBE of all rows", title_justify="left")
    table.add_column("method")
    for heading in ("seconds a step", *(f"after {seconds:g} s" for seconds in SHOWN_SECONDS), "at the end"):
        table.add_column(heading, justify="right")
    for name, (solver, steps) in METHODS.items():
        with console.status(name):
            results[name] = [measure(solver, steps, 5000 + k) for k in range(arguments.seeds)]
        losses = [
            [np.min(run["loss"][run["seconds"] <= seconds]) for seconds in SHOWN_SECONDS]
            + [np.min(run["loss"])]
            for run in results[name]
        ]
        pace = np.median([run["seconds"][1] for run in results[name]])
        table.add_row(name, f"{pace:.2f}", *(f"{loss:.1e}" for loss in np.median(losses, axis=0)))
    console.print(table)
    record = {"versions": records.versions(), "rows": ROWS, "sizes": SIZES, "results": results}
    console.print(f"Wrote {records.write(arguments.out / 'minibatches.json', record)}.", highlight=False)


if __name__ == "__main__":
    main()
