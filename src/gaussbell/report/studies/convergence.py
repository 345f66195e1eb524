"""Convergence of four methods on Mountain Car, by method and step size."""

from typing import Any

import numpy as np

from gaussbell.experiments.convergence import PAPER_SECONDS, seconds_per_step
from gaussbell.experiments.methods import OURS
from gaussbell.experiments.study import select, settings
from gaussbell.report import looks
from gaussbell.report.parts import Axis, Chart, Control, Series, spread_dashes

MEDIAN, SINGLE = "median and range", "single runs"
NO_STEP_SIZE = "none (ours)"
DRAWN = (1e-13, 1e4)


def curves(data: Any, command: str) -> Chart:
    """The NMSBE over the iterations."""
    sizes = [*(f"{size:g}" for size in sorted(settings(data, "step_size"), reverse=True)), NO_STEP_SIZE]
    dashes = spread_dashes(sizes)
    series = []
    for method, colour in looks.METHODS.items():
        found = select(data, method=method)
        for size in sizes if method != OURS else [NO_STEP_SIZE]:
            runs = found if method == OURS else select(found, step_size=_number(size))
            if not runs.sizes["cell"]:
                continue
            runs = runs.dropna("iteration", how="all")
            facets = {"method": method, "step size": size}
            label = f"{method}, step size {size}" if method != OURS else method
            series.append(
                Series(label, "band", _band(runs), facets | {"shown": MEDIAN}, colour, dashes[size])
            )
            for k, row in enumerate(runs.msbe.values):
                seen = np.isfinite(row)
                columns = {"x": runs.iteration.values[seen], "y": row[seen]}
                name = f"{label}, repetition {runs.repetition.values[k]:g}"
                series.append(Series(name, "line", columns, facets | {"shown": SINGLE}, colour, dashes[size]))
    return Chart(
        "Bellman error by iteration",
        f"Median of {len(settings(data, 'repetition'))} repetitions and the range of those that have not "
        "diverged; a line ends where half of them have. Switch step sizes on and off: semi-gradients "
        "diverge with large ones, first-order methods stall, and residual Gauss-Newton goes on with each.",
        "Curves of the Bellman error over the iterations on logarithmic axes, one colour a method and one "
        "kind of line a step size.",
        Axis("iteration", log=True, low=1, high=float(data.iteration.max())),
        Axis("NMSBE", log=True, low=DRAWN[0], high=DRAWN[1]),
        series,
        command,
        controls=(
            Control("method", "toggle"),
            Control("step size", "toggle", ("0.1" if "0.1" in sizes else sizes[0], NO_STEP_SIZE)),
            Control("shown", "toggle", (MEDIAN,)),
        ),
    )


def seconds(data: Any, command: str) -> Chart:
    """Seconds of 10^4 iterations by method."""
    methods = [method for method in PAPER_SECONDS if select(data, method=method, diverged=0).sizes["cell"]]
    places = np.arange(len(methods))
    ours = np.array([1e4 * seconds_per_step(data, method) for method in methods])
    paper = np.array([PAPER_SECONDS[method] for method in methods])
    run = int(data.iterations.max())
    caption = "Ours on one core, compilation included; the paper states its own for 64 cores."
    if run < 10_000:
        caption += f" Scaled up from {run:,} iterations, compilation too: ours are upper bounds."
    return Chart(
        "Time of 10,000 iterations",
        caption,
        "Bars of seconds by method, ours beside the paper's.",
        Axis("method", labels=methods),
        Axis("seconds"),
        (
            Series("here, one core", "bar", {"x": places, "y": ours}, {}, "blue"),
            Series("the paper, 64 cores", "bar", {"x": places, "y": paper}, {}, "grey"),
        ),
        command,
    )


def _number(size: str) -> float:
    return np.nan if size == NO_STEP_SIZE else float(size)


def _band(runs: Any) -> dict[str, np.ndarray]:
    table = runs.msbe.values
    middle = np.median(np.where(np.isfinite(table), table, np.inf), axis=0)
    return {
        "x": runs.iteration.values,
        "y": np.where(np.isfinite(middle), middle, np.nan),
        "low": np.nanmin(table, axis=0),
        "high": np.nanmax(table, axis=0),
    }
