"""What diagnostics cost, and how exact the matrix-free ones are.

The time of `evaluate` with its checks over the time without, pair by pair on the same problem; eigenvalues by
Lanczos and products with the Hessian beside the dense matrix; and all diagnostics on a network of 67,329
parameters with 2,000 samples, with their seconds and the peak of memory.

python benchmarks/diagnostics.py --out runs/bench
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

import gaussbell as gb
from gaussbell import diagnostics, records
from gaussbell.diagnostics import hessians
from gaussbell.numerics.precision import double_throughout

CASES = (
    {"samples": 100, "steps": 1, "sizes": (2, 10, 10, 1), "solver_steps": 300},
    {"samples": 500, "steps": 50, "sizes": (2, 10, 10, 1), "solver_steps": 100},
    {"samples": 2000, "steps": 50, "sizes": (2, 20, 20, 1), "solver_steps": 50},
    {"samples": 100, "steps": 1, "sizes": (2, 50, 50, 1), "solver_steps": 100},
)
PAIRS = 7
LARGE = (4, 256, 256, 1)
CAR = gb.environments.MountainCar()


def evaluate(case, key, diagnose):
    data = gb.sample_transitions(CAR, CAR.along_velocity, case["samples"], key=0, n_step=case["steps"])
    network = gb.MLP(case["sizes"], key=key)
    started = time.perf_counter()
    fit = gb.evaluate(network, data, max_steps=case["solver_steps"], diagnose=diagnose)
    return time.perf_counter() - started, int(fit.steps)


def overhead(case):
    """Warm: the median ratio of pairs; the steps that the solver took."""
    for diagnose in (False, True):
        evaluate(case, 0, diagnose)
    pairs = [(evaluate(case, key, False), evaluate(case, key, True)) for key in range(1, PAIRS + 1)]
    ratios = [on / off for (off, _), (on, _) in pairs]
    return {
        **case,
        "ratio": float(np.median(ratios)),
        "seconds": float(np.median([off for (off, _), _ in pairs])),
        "steps_taken": float(np.median([steps for (_, steps), _ in pairs])),
        "cold": {name: cold(case, name) for name in ("without", "with")},
    }


def cold(case, name):
    """The seconds of a first evaluation in a process of its own."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import diagnostics as d; "
        f"print(d.evaluate({case!r}, 0, {name == 'with'})[0])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(told.stdout.split()[-1])


@double_throughout
def exactness():
    """Relative to the largest eigenvalue: products with random vectors, and three eigenvalues at each end."""
    data = gb.sample_transitions(CAR, CAR.along_velocity, 300, key=1, n_step=20)
    network = gb.FeatureNetwork(gb.features.Scale(CAR.low, CAR.high), gb.MLP((2, 25, 20, 1), key=2))
    dense = diagnostics.hessian_terms(network, data).hessian
    exact = np.linalg.eigvalsh(dense)[::-1]
    vectors = np.random.default_rng(0).normal(size=(5, len(dense)))
    product = diagnostics.hessian_product(network, data)
    products = max(
        np.linalg.norm(np.asarray(product(h)) - dense @ h) / np.linalg.norm(h) / exact[0] for h in vectors
    )
    kept, hessians.DENSE_PARAMETERS = hessians.DENSE_PARAMETERS, 0
    found = diagnostics.curvature(network, data, count=3)
    hessians.DENSE_PARAMETERS = kept
    return {
        "parameters": len(dense),
        "products": float(products),
        "largest": float(np.abs(found.largest - exact[:3]).max() / exact[0]),
        "smallest": float(np.abs(found.smallest - exact[-3:]).max() / exact[0]),
        "floor": found.floor / exact[0],
    }


def large():
    """All diagnostics on a large network."""
    pole = gb.environments.CartPole()

    def policy(state):
        return (state @ jax.numpy.array([0.02, 0.05, 1.0, 0.3]) > 0).astype(int)

    data = gb.sample_transitions(pole, policy, 2000, key=0, n_step=100)
    network = gb.FeatureNetwork(pole.scaling(), gb.MLP(LARGE, key=0).scaled(0.01))
    jobs = {
        "checks": lambda: diagnostics.check(network, data),
        "spectra": lambda: diagnostics.spectra(network, data),
        "curvature": lambda: diagnostics.curvature(network, data),
        "assessment by data alone": lambda: diagnostics.assess(network, data),
        "assessment by simulator": lambda: diagnostics.assess(network, data, env=pole, policy=policy),
        "landscape, 10 steps of 5 methods": lambda: diagnostics.landscape(
            network, data, max_steps=10, points=21
        ),
    }
    seconds = {}
    for name, job in jobs.items():
        started = time.perf_counter()
        job()
        seconds[name] = round(time.perf_counter() - started, 1)
        print(f"{name}: {seconds[name]} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"parameters": network.network.num_parameters, "seconds": seconds, "peak_gib": round(peak, 2)}


def summary(record):
    """The record as Markdown."""
    lines = [
        "| samples, network | steps taken | evaluate | with checks, warm | first in a process |",
        "|---|---|---|---|---|",
    ]
    for case in record["overhead"]:
        first = case["cold"]["with"] / case["cold"]["without"]
        lines.append(
            f"| {case['samples']}, {tuple(case['sizes'])} | {case['steps_taken']:.0f} | "
            f"{case['seconds']:.3f} s | {case['ratio'] - 1:+.1%} | {first - 1:+.1%} |"
        )
    exact, big = record["exactness"], record["large"]
    lines += [
        "",
        f"{exact['parameters']} parameters, errors relative to the largest eigenvalue: products with the "
        f"Hessian {exact['products']:.0e}, largest eigenvalues by Lanczos {exact['largest']:.0e}, smallest "
        f"{exact['smallest']:.0e}.",
        "",
        f"{big['parameters']:,} parameters, 2,000 samples: "
        + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in big["seconds"].items())
        + f"; peak of memory {big['peak_gib']:.1f} GiB.",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    out = parser.parse_args().out
    record = {
        "versions": records.versions(),
        "overhead": [overhead(case) for case in CASES],
        "exactness": exactness(),
        "large": large(),
    }
    records.write(out / "diagnostics.json", record)
    record = records.read(out / "diagnostics.json")
    records.write_text(out / "diagnostics.md", summary(record))
    print(summary(record))


if __name__ == "__main__":
    main()
