"""Local convergence on the seven-state star: what the damping does to the end phase.

The paper shows one run of Algorithm 1 (step size 1) and calls its end phase quadratic. With the damping
held at 1e-5, as Algorithm 1 says, the end phase can only be linear. It is quadratic without damping, which
this small problem allows, and with a damping that fades with the residual, which any problem allows.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from gaussbell import figures
from gaussbell.diagnostics import order_of_convergence
from gaussbell.environments import SevenStar
from gaussbell.evaluation.from_data import evaluate
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Claim, Data, Finding, Study, all_of, by_share, select
from gaussbell.networks import encodings
from gaussbell.networks.mlp import MLP
from gaussbell.numerics.precision import double_throughout
from gaussbell.optimise.solvers import GaussNewton, LevenbergMarquardt, Solver
from gaussbell.records.cells import Cell, xarray

ROUNDING = 1e-15
"""Where distances of zero are drawn."""
NEGLIGIBLE = 1e-20
"""An NMSBE that counts as none."""
FLOOR = 1e-10
"""Distances below this fraction of the limit's norm are left out of the order: undamped steps wander by
rounding at up to this level."""
SIZES = (2, 7, 1)
WHERE = "Section 4.3"

CONSTANT = "constant damping (Algorithm 1)"
NONE = "no damping (Gauss-Newton)"
FADING = "fading damping (Levenberg-Marquardt)"
SOLVERS: dict[str, Solver] = {
    CONSTANT: GaussNewton(1.0, damping=1e-5),
    NONE: GaussNewton(1.0, damping=0.0),
    FADING: LevenbergMarquardt(),
}

TITLE = "Local convergence on the seven-state star"
CLAIMS = (
    Claim("quadratic", WHERE, "The iterates of Algorithm 1 converge locally quadratically."),
    Claim("negligible", WHERE, "The final NMSBE is negligible: the network fits the values exactly."),
    Claim("no-bad-minima", WHERE, "With more parameters than states no run ends in a suboptimal minimum."),
)


def cells(scale: Scale) -> list[Cell]:
    """Each kind of damping, with all starts at once; the limit is where a run gets in `limit_steps`."""
    starts, shown, limit_steps = {
        Scale.SMOKE: (3, 30, 60),
        Scale.QUICK: (20, 200, 2000),
        Scale.PAPER: (20, 200, 2000),
    }[scale]
    return [
        {"method": method, "starts": starts, "seed": 20, "shown": shown, "limit_steps": limit_steps}
        for method in SOLVERS
    ]


@double_throughout
def measure(cell: Cell) -> Data:
    """All starts at once; a start fixes the features and the initial weights."""
    chain = SevenStar().under()

    def one(key):
        features_key, weights_key = jax.random.split(key)
        return evaluate(
            MLP(SIZES, key=weights_key),
            chain,
            features=encodings.normal(chain.num_states, SIZES[0], key=features_key),
            solver=SOLVERS[cell["method"]],
            tolerance=0.0,
            max_steps=cell["limit_steps"],
            keep_parameters=True,
        )

    found = jax.vmap(one)(jax.random.split(jax.random.key(cell["seed"]), cell["starts"]))
    losses, trails = np.asarray(found.history.loss), np.asarray(found.history.parameters)
    shape = cell["starts"], cell["shown"] + 1
    msbe, distance, floor = np.full(shape, np.nan), np.full(shape, np.nan), np.empty(cell["starts"])
    for k, steps in enumerate(np.asarray(found.steps)):
        limit, seen = trails[k, steps], slice(min(int(steps), cell["shown"]) + 1)
        msbe[k, seen] = losses[k, seen]
        distance[k, seen] = np.linalg.norm(trails[k, seen] - limit, axis=1)
        floor[k] = FLOOR * float(np.linalg.norm(limit))
    order = [order_of_convergence(_there(row), floor=low) for row, low in zip(distance, floor, strict=True)]
    return xarray.Dataset(
        {
            "msbe": (("start", "iteration"), msbe),
            "distance": (("start", "iteration"), distance),
            "floor": ("start", floor),
            "order": ("start", np.array(order)),
        },
        coords={"start": np.arange(cell["starts"]), "iteration": np.arange(shape[1])},
    )


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to here."""
    best = {method: np.nanmin(_one(data, method).msbe, axis=1) for method in SOLVERS}
    reached = {method: int((found <= NEGLIGIBLE).sum()) for method, found in best.items()}
    orders = {method: float(np.nanmedian(_one(data, method).order)) for method in SOLVERS}
    count = len(best[CONSTANT])
    kinds = (("as in Algorithm 1", CONSTANT), ("undamped", NONE), ("fading damping", FADING))
    return {
        "quadratic": Finding(
            "median order of convergence: " + ", ".join(f"{orders[m]:.2f} {name}" for name, m in kinds),
            all_of(orders[CONSTANT] > 1.6, orders[NONE] > 1.6),
        ),
        "negligible": Finding(
            f"NMSBE <= {NEGLIGIBLE:g} of {count} runs: "
            + ", ".join(f"{reached[m]} {name}" for name, m in kinds),
            by_share(reached[CONSTANT] / count),
        ),
        "no-bad-minima": Finding(
            f"largest final NMSBE with Algorithm 1: {best[CONSTANT].max():.1e}",
            all_of(best[CONSTANT].max() < 1e-5),
        ),
    }


def tabulate(data: Data) -> str:
    """The figures of each kind of damping as a Markdown table."""
    first = _one(data, CONSTANT)
    count, shown = first.sizes["start"], first.sizes["iteration"] - 1
    lines = [
        f"| {count} seeds, {shown} steps | runs with NMSBE <= {NEGLIGIBLE:g} | median steps to it | worst "
        "NMSBE | order of convergence (quartiles) |",
        "|---|---|---|---|---|",
    ]
    for method in SOLVERS:
        found = _one(data, method)
        best = np.nanmin(found.msbe, axis=1)
        steps = float(np.median([_first_below(row) for row in found.msbe.values]))
        low, middle, high = np.nanquantile(found.order, [0.25, 0.5, 0.75])
        lines.append(
            f"| {method} | {(best <= NEGLIGIBLE).sum()} of {count} | "
            f"{f'{steps:g}' if np.isfinite(steps) else 'not reached'} | {best.max():.1e} | {middle:.2f} "
            f"({low:.2f} to {high:.2f}) |"
        )
    return "\n".join(lines) + "\n"


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """Distance to the limit, NMSBE, and successive distances, every method in each panel."""
    caption = (
        f"{_one(data, CONSTANT).sizes['start']} seeds, thin, and their median, bold; the levels at the "
        "bottom are rounding. Left and middle: on a logarithmic axis a straight line is linear convergence "
        "and a bend downwards is quadratic. Right: the distance after a step against the distance before "
        "it, down to rounding: points parallel to the dashed line converge linearly, those parallel to the "
        "dotted one quadratically."
    )
    title = "Seven-state star: the damping decides the end phase"
    looks = ((figures.ORANGE, "o"), (figures.GREEN, "s"), (figures.BLUE, "D"))
    with figures.panels(3, title=title, caption=caption) as (figure, (left, middle, right)):
        for name, (colour, marker) in zip(SOLVERS, looks, strict=True):
            found = _one(data, name)
            distances = [_there(row) for row in found.distance.values]
            bounded = [np.maximum(row, ROUNDING) for row in distances]
            figures.falling_curves(left, bounded, label=name, colour=colour)
            figures.falling_curves(
                middle, [_there(row) for row in found.msbe.values], label=name, colour=colour
            )
            above = [row[row > low] for row, low in zip(distances, found.floor.values, strict=True)]
            figures.successive_errors(right, above, label=name, colour=colour, marker=marker)
        reference = np.array([1e-6, 3.0])
        right.loglog(reference, reference, color=figures.GREY, ls="--", lw=1, label="slope 1: linear")
        right.loglog(reference, reference**2, color=figures.GREY, ls=":", lw=1.4, label="slope 2: quadratic")
        left.set(title="Distance of the weights to their limit", xlabel="step", ylabel="Frobenius norm")
        middle.set(title="Bellman error", xlabel="step", ylabel="NMSBE")
        middle.axhline(NEGLIGIBLE, color=figures.GREY, lw=0.8, ls="--")
        middle.legend(loc="upper right")
        right.set(title="Order of convergence", xlabel="distance before a step", ylabel="distance after it")
        right.legend(loc="upper left", fontsize=7.5)
    return {"star": figure}


def _one(data: Data, method: str) -> Data:
    return select(data, method=method).isel(cell=0)


def _there(row: np.ndarray) -> np.ndarray:
    """What was recorded before a run ended."""
    return row[np.isfinite(row)]


def _first_below(losses: np.ndarray) -> float:
    below = np.flatnonzero(losses <= NEGLIGIBLE)
    return float(below[0]) if len(below) else float("inf")


def _group(cell: Cell) -> Any:
    return cell["method"]


def _cost(cell: Cell) -> float:
    return 5.0


STUDY = Study("star", TITLE, CLAIMS, cells, measure, _group, _cost, check, tabulate, draw)
