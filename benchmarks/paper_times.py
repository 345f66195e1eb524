"""The time of 10,000 iterations of the paper's four methods: ours, and the paper's recipe in plain NumPy.

Mountain Car, 100 samples, network (2, 10, 10, 1). The recipe: per-sample derivatives, the Hessian in
parameter space, Householder QR. Both run here, one after the other, from the same weights on the same data,
and their losses are compared; the paper's own seconds are for a machine with 64 cores.

python benchmarks/paper_times.py --out runs/bench
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np

import gaussbell as gb
from gaussbell import records
from gaussbell.experiments.convergence import PAPER_SECONDS
from gaussbell.experiments.methods import METHODS
from gaussbell.numerics.precision import double_throughout

ITERATIONS, SAMPLES, STEP_SIZE, DAMPING = 10_000, 100, 0.001, 1e-5
COMPARED = 50
"""Iterations after which both must have the same loss."""


class PlainNetwork:
    """An MLP in NumPy: its output and the derivative of each output by all weights."""

    def __init__(self, weights):
        self.weights = [np.array(weight, np.float64) for weight in weights]

    def linearise(self, state):
        inputs, slopes, x = [], [], state
        for number, weight in enumerate(self.weights):
            x = np.column_stack([x, np.ones(len(x))])
            inputs.append(x)
            x = x @ weight
            if number < len(self.weights) - 1:
                root = np.sqrt(x * x + 1)
                slopes.append(x / (2 * root) + 1)
                x = (root - 1) / 2 + x
        behind, blocks = np.ones((len(state), 1)), []
        for number in reversed(range(len(self.weights))):
            blocks.append((inputs[number][:, :, None] * behind[:, None, :]).reshape(len(state), -1))
            if number > 0:
                behind = (behind @ self.weights[number][:-1].T) * slopes[number - 1]
        return x[:, 0], np.hstack(blocks[::-1])

    def move(self, step):
        at = 0
        for weight in self.weights:
            weight[:] += step[at : at + weight.size].reshape(weight.shape)
            at += weight.size


def run_plain(name, weights, data, iterations):
    """The losses of a method, by the paper's recipe."""
    state, next_state = np.asarray(data.state), np.asarray(data.next_state)
    reward, discount = np.asarray(data.reward), np.asarray(data.discount)
    network, losses = PlainNetwork(weights), []
    for _ in range(iterations):
        value, slope = network.linearise(state)
        next_value, next_slope = network.linearise(next_state)
        residual = value - reward - discount * next_value
        losses.append(0.5 * np.mean(residual**2))
        jacobian = slope if name.startswith("semi") else slope - discount[:, None] * next_slope
        direction = jacobian.T @ residual / len(residual)
        if "Newton" in name:
            hessian = jacobian.T @ jacobian / len(residual) + DAMPING * np.eye(len(direction))
            orthogonal, triangular = np.linalg.qr(hessian)
            direction = np.linalg.solve(triangular, orthogonal.T @ direction)
        network.move(-STEP_SIZE * direction)
    return np.array(losses)


@double_throughout
def compare(name):
    """Seconds of both, on the same data from the same weights, and how far their losses are apart."""
    car = gb.environments.MountainCar()
    data_key, weights_key = jax.random.split(jax.random.key(0))
    data = gb.sample_transitions(car, car.along_velocity, SAMPLES, key=data_key)
    network = gb.MLP((2, 10, 10, 1), key=weights_key)

    def ours():
        return gb.evaluate(
            network,
            data,
            solver=METHODS[name](STEP_SIZE),
            max_steps=ITERATIONS,
            tolerance=0.0,
            patience=ITERATIONS,
        )

    ours()
    started = time.perf_counter()
    fit = ours()
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    losses = run_plain(name, network.weights, data, ITERATIONS)
    plain_seconds = time.perf_counter() - started
    apart = np.abs(np.asarray(fit.history.loss)[:COMPARED] / losses[:COMPARED] - 1).max()
    if apart > 1e-6:
        raise ArithmeticError(f"{name}: the two do not do the same, losses differ by {apart:.1e}.")
    return {
        "method": name,
        "steps": int(fit.steps),
        "seconds": round(seconds, 3),
        "plain_seconds": round(plain_seconds, 3),
        "paper_seconds": PAPER_SECONDS[name],
        "largest_difference": float(apart),
    }


def summary(record):
    """The record as a table."""
    lines = [
        "| method, 10^4 iterations | gaussbell | plain NumPy, here | ratio | paper, 64 cores |",
        "|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        ratio = row["plain_seconds"] / row["seconds"]
        lines.append(
            f"| {row['method']} | {row['seconds']:.2f} s | {row['plain_seconds']:.1f} s | {ratio:.0f} | "
            f"{row['paper_seconds']:g} s |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    out = parser.parse_args().out
    rows = [compare(name) for name in METHODS]
    record = {"benchmark": "paper times", "versions": records.versions(), "rows": rows}
    records.write(out / "paper_times.json", record)
    print(summary(record))


if __name__ == "__main__":
    main()
