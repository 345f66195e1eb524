"""Local convergence on the seven-state star: what the damping does to the end phase.

The paper shows one run of Algorithm 1 (step size 1) and calls its end phase quadratic. With the damping
held at 1e-5, as Algorithm 1 says, the end phase can only be linear. It is quadratic without damping, which
this small problem allows, and with a damping that fades with the residual, which any problem allows.
"""

from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np

from gaussbell import encodings, figures
from gaussbell.diagnostics import order_of_convergence
from gaussbell.environments import SevenStar
from gaussbell.evaluation import evaluate
from gaussbell.networks import MLP
from gaussbell.records import versions
from gaussbell.solution import Solution
from gaussbell.solvers import GaussNewton, LevenbergMarquardt, Solver

ROUNDING = 1e-15
"""Where distances of zero are drawn."""

CONSTANT = "constant damping (Algorithm 1)"
NONE = "no damping (Gauss-Newton)"
FADING = "fading damping (Levenberg-Marquardt)"


@dataclass(frozen=True)
class Settings:
    """How the star is run; the defaults are the paper's, over many seeds."""

    seed: int = 20
    num_seeds: int = 20
    sizes: tuple[int, ...] = (2, 7, 1)
    step_size: float = 1.0
    damping: float = 1e-5
    max_steps: int = 200
    tolerance: float = 1e-20
    limit_steps: int = 2000
    """How long a run goes on to find the limit from which distances are measured."""
    floor: float = 1e-10
    """Distances below this fraction of the limit's norm are left out of the order: undamped steps wander by
    rounding at up to this level."""


def run(settings: Settings) -> dict[str, Any]:
    """Evaluate the star with each method from the same starts; the record of it."""
    methods = {
        CONSTANT: GaussNewton(settings.step_size, settings.damping),
        NONE: GaussNewton(settings.step_size, damping=0.0),
        FADING: LevenbergMarquardt(),
    }
    return {
        "experiment": "star",
        "settings": asdict(settings),
        "versions": versions(),
        "methods": {name: _measure(_solve(solver, settings), settings) for name, solver in methods.items()},
    }


def _solve(solver: Solver, settings: Settings) -> Solution:
    """All seeds at once; a seed fixes the features and the initial weights."""
    chain = SevenStar().under()

    def one(key):
        features_key, weights_key = jax.random.split(key)
        return evaluate(
            MLP(settings.sizes, key=weights_key),
            chain,
            features=encodings.normal(chain.num_states, settings.sizes[0], key=features_key),
            solver=solver,
            tolerance=0.0,
            max_steps=settings.limit_steps,
            keep_parameters=True,
        )

    with jax.enable_x64(True):  # histories in double precision: the end phase is below single
        return jax.vmap(one)(jax.random.split(jax.random.key(settings.seed), settings.num_seeds))


def _measure(solution: Solution, settings: Settings) -> dict[str, Any]:
    shown = settings.max_steps + 1
    runs = []
    losses, trails = np.asarray(solution.history.loss), np.asarray(solution.history.parameters)
    for loss, trail, steps in zip(losses, trails, np.asarray(solution.steps), strict=True):
        limit = trail[steps]
        distance = np.linalg.norm(trail[: steps + 1] - limit, axis=1)
        floor = settings.floor * float(np.linalg.norm(limit))
        runs.append(
            {
                "msbe": _rounded(loss[: steps + 1][:shown]),
                "distance": _rounded(distance[:shown]),
                "best_msbe": float(np.nanmin(loss[:shown])),
                "floor": floor,
                "order": order_of_convergence(distance[:shown], floor=floor),
            }
        )
    best = np.array([r["best_msbe"] for r in runs])
    orders = np.array([r["order"] for r in runs])
    return {
        "runs": runs,
        "reached": int((best <= settings.tolerance).sum()),
        "median_best_msbe": float(np.median(best)),
        "worst_best_msbe": float(best.max()),
        "order_quartiles": np.nanquantile(orders, [0.25, 0.5, 0.75]).tolist(),
        "median_steps": float(np.median([_first_below(r["msbe"], settings.tolerance) for r in runs])),
    }


def _first_below(losses: list[float], tolerance: float) -> float:
    below = np.flatnonzero(np.asarray(losses) <= tolerance)
    return float(below[0]) if len(below) else float("inf")


def _rounded(numbers: np.ndarray) -> list[float]:
    """Four digits: enough for a curve, and a quarter of the file."""
    return [float(f"{x:.4g}") for x in numbers]


def summarise(record: dict[str, Any]) -> str:
    """The record's figures as a Markdown table."""
    settings, methods = record["settings"], record["methods"]
    lines = [
        f"| {settings['num_seeds']} seeds, {settings['max_steps']} steps | runs with NMSBE <= "
        f"{settings['tolerance']:g} | median steps to it | worst NMSBE | order of convergence (quartiles) |",
        "|---|---|---|---|---|",
    ]
    for name, method in methods.items():
        low, middle, high = method["order_quartiles"]
        steps = method["median_steps"]
        shown_steps = "not reached" if steps is None or steps == float("inf") else f"{steps:g}"
        lines.append(
            f"| {name} | {method['reached']} of {settings['num_seeds']} | {shown_steps} "
            f"| {method['worst_best_msbe']:.1e} | {middle:.2f} ({low:.2f} to {high:.2f}) |"
        )
    return "\n".join(lines) + "\n"


def draw(record: dict[str, Any]) -> figures.Figure:
    """Distance to the limit, NMSBE, and successive distances, every method in each panel."""
    settings = record["settings"]
    caption = (
        f"{settings['num_seeds']} seeds, thin, and their median, bold; the levels at the bottom are "
        "rounding. Left and middle: on a logarithmic axis a straight line is linear convergence and a bend "
        "downwards is quadratic. Right: the distance after a step against the distance before it, down to "
        "rounding: points parallel to the dashed line converge linearly, those parallel to the dotted one "
        "quadratically."
    )
    title = "Seven-state star: the damping decides the end phase"
    looks = ((figures.ORANGE, "o"), (figures.GREEN, "s"), (figures.BLUE, "D"))
    with figures.panels(3, title=title, caption=caption) as (figure, (left, middle, right)):
        for (name, method), (colour, marker) in zip(record["methods"].items(), looks, strict=True):
            runs = method["runs"]
            distances = [np.maximum(run["distance"], ROUNDING) for run in runs]
            figures.falling_curves(left, distances, label=name, colour=colour)
            figures.falling_curves(middle, [run["msbe"] for run in runs], label=name, colour=colour)
            above = [[d for d in run["distance"] if d > run["floor"]] for run in runs]
            figures.successive_errors(right, above, label=name, colour=colour, marker=marker)
        reference = np.array([1e-6, 3.0])
        right.loglog(reference, reference, color=figures.GREY, ls="--", lw=1, label="slope 1: linear")
        right.loglog(reference, reference**2, color=figures.GREY, ls=":", lw=1.4, label="slope 2: quadratic")
        left.set(title="Distance of the weights to their limit", xlabel="step", ylabel="Frobenius norm")
        middle.set(title="Bellman error", xlabel="step", ylabel="NMSBE")
        middle.axhline(settings["tolerance"], color=figures.GREY, lw=0.8, ls="--")
        middle.legend(loc="upper right")
        right.set(title="Order of convergence", xlabel="distance before a step", ylabel="distance after it")
        right.legend(loc="upper left", fontsize=7.5)
    return figure
