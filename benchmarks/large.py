"""One damped step of a large problem: seconds and peak memory, by each way to solve it.

Every case runs in a process of its own, so that peak memory is its own; the libraries themselves take about
0.3 GiB of it. A step is computed twice and the second time counts. A damping of 1e-4 of the mean
eigenvalue is typical of a solve under way. Ways: sample space with the Gram matrix from layer factors; sample
space with dense rows; matrix-free conjugate gradients, to the default tolerance.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import gaussbell as gb
from gaussbell import records
from gaussbell.bellman import bellman_problem
from gaussbell.numerics.differential import DenseRows
from gaussbell.numerics.linalg import DampedSolve, MatrixFree, SampleSpace
from gaussbell.optimise.problem import Linearisation

WIDE, DEEP = (4, 256, 256, 1), (8, 128, 128, 1)
CASES = [
    (way, sizes, rows)
    for sizes, rows, ways in [
        (WIDE, 1_000, ("layer factors", "dense rows", "matrix-free")),
        (WIDE, 2_000, ("layer factors", "dense rows", "matrix-free")),
        (WIDE, 5_000, ("layer factors", "matrix-free")),
        (WIDE, 10_000, ("layer factors", "dense rows", "matrix-free")),
        (DEEP, 100_000, ("matrix-free",)),
    ]
    for way in ways
]


LONG = 60.0
"""A step that takes longer than this, in seconds, is not repeated: compilation is a small part of it."""


def transitions(rows: int, width: int) -> gb.Transitions:
    """A random walk in a box with a reward on one side of it."""
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (rows, width))
    following = np.clip(state + rng.normal(0, 0.05, state.shape), -1, 1)
    return gb.Transitions(state, np.where(state[:, 0] > 0.5, 0.0, -1.0), following, 0.99)


@eqx.filter_jit
def one_step(problem, x, space: DampedSolve, dense: bool):
    at = problem.linearise(x)
    if dense:
        at = Linearisation(at.residual, DenseRows(at.differential.value, at.jacobian()))
        system = jnp.matmul(at.differential.matrix, at.differential.matrix.T)
    else:
        system = space.system(at)
    damping = 1e-4 * space.square_norm(system) / min(len(at.residual), len(x))
    return space.step(at, space.factorise(system, damping), at.residual)


def run_case(number: int) -> dict:
    way, sizes, rows = CASES[number]
    jax.config.update("jax_enable_x64", True)
    network = gb.MLP(sizes, key=0)
    problem = bellman_problem(network, transitions(rows, sizes[0]))
    x = problem.pack(network)
    space = MatrixFree() if way == "matrix-free" else SampleSpace()
    for _ in range(2):
        started = time.perf_counter()
        step = jax.block_until_ready(one_step(problem, x, space, way == "dense rows"))
        seconds = time.perf_counter() - started
        if seconds > LONG:
            break
    assert bool(jnp.isfinite(step).all())
    gibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "way": way,
        "sizes": sizes,
        "rows": rows,
        "parameters": len(x),
        "seconds": seconds,
        "peak_gibibytes": gibibytes,
        "step_norm": float(jnp.linalg.norm(step)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--case", type=int, help="run one case and print it as JSON")
    arguments = parser.parse_args()
    if arguments.case is not None:
        print(json.dumps(run_case(arguments.case)))
        return
    console, results = Console(width=max(100, Console().width)), []
    table = Table(title="One damped step", title_justify="left")
    for heading in ("network", "parameters", "rows", "way", "seconds", "peak memory, GiB"):
        table.add_column(heading, justify="left" if heading in ("network", "way") else "right")
    for number, (way, sizes, rows) in enumerate(CASES):
        with console.status(f"{sizes}, {rows} rows, {way}"):
            command = [sys.executable, __file__, "--case", str(number)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            console.print(f"{sizes}, {rows} rows, {way}: failed (exit {done.returncode}).", highlight=False)
            continue
        case = json.loads(done.stdout.splitlines()[-1])
        results.append(case)
        cells = (f"{case['parameters']:,}", f"{rows:,}", way, f"{case['seconds']:.2f}")
        table.add_row(str(sizes), *cells, f"{case['peak_gibibytes']:.2f}")
    console.print(table)
    record = {"versions": records.versions(), "results": results}
    console.print(f"Wrote {records.write(arguments.out / 'large.json', record)}.", highlight=False)


if __name__ == "__main__":
    main()
