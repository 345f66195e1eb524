"""The seven-state star: how the damping decides the end phase."""

from typing import Any

import numpy as np

from gaussbell.experiments.star import NEGLIGIBLE, ROUNDING, SOLVERS
from gaussbell.experiments.study import select
from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours

MEDIAN, SINGLE = "median", "single runs"


def distances(data: Any, command: str) -> Chart:
    """The distance of the weights to their limit by step."""
    return Chart(
        "Distance of the weights to their limit",
        "On a logarithmic axis a straight line is linear convergence, a bend downwards is quadratic. What "
        f"is below {ROUNDING:g} is drawn there: rounding.",
        "Curves over the steps, one colour for each kind of damping. Constant damping falls on a straight "
        "line; no damping and fading damping bend downwards and reach rounding.",
        Axis("step", whole=True),
        Axis("distance (Frobenius norm)", log=True),
        _curves(data, "distance", ROUNDING),
        command,
        controls=(Control("damping", "toggle"), Control("shown", "toggle", (MEDIAN,))),
    )


def errors(data: Any, command: str) -> Chart:
    """The Bellman error by step."""
    return Chart(
        "Bellman error by step",
        f"The NMSBE of the same runs; {NEGLIGIBLE:g} counts as none.",
        "Curves of the Bellman error over the steps, one colour for each kind of damping, falling as the "
        "distances do.",
        Axis("step", whole=True),
        Axis("NMSBE", log=True),
        _curves(data, "msbe", 1e-34),
        command,
        controls=(Control("damping", "toggle"), Control("shown", "toggle", (MEDIAN,))),
    )


def orders(data: Any, command: str) -> Chart:
    """The distance after a step against the distance before it."""
    series = []
    for method, colour in spread_colours(list(SOLVERS)).items():
        for one in _found(data, method):
            rows = [
                row[np.isfinite(row) & (row > low)]
                for row, low in zip(one.distance.values, one.floor.values, strict=True)
            ]
            before = np.concatenate([row[:-1] for row in rows])
            after = np.concatenate([row[1:] for row in rows])
            series.append(Series(method, "points", {"x": before, "y": after}, {"damping": method}, colour))
    for slope, name, dash in ((1, "linear", "dash"), (2, "quadratic", "dot")):
        ends = np.array([10.0 ** (-9 / slope), 10.0])
        columns = {"x": ends, "y": ends**slope}
        series.append(Series(f"slope {slope}: {name}", "line", columns, {}, "ink", dash))
    return Chart(
        "Order of convergence",
        "Each point is a step. Points parallel to the dashed line converge linearly, those parallel to the "
        "dotted one quadratically.",
        "Points of successive distances on logarithmic axes with lines of slope one and two.",
        Axis("distance before a step", log=True),
        Axis("distance after it", log=True),
        series,
        command,
        controls=(Control("damping", "toggle"),),
    )


def _curves(data: Any, field: str, floor: float) -> list[Series]:
    series = []
    for method, colour in spread_colours(list(SOLVERS)).items():
        for one in _found(data, method):
            table, there = np.maximum(one[field].values, floor), one.iteration.values
            table = np.where(np.isfinite(one[field].values), table, np.nan)
            middle = np.median(_held(table), axis=0)
            series.append(
                Series(
                    method, "line", {"x": there, "y": middle}, {"damping": method, "shown": MEDIAN}, colour
                )
            )
            for start, row in enumerate(table):
                seen = np.isfinite(row)
                label = f"{method}, start {start}"
                columns = {"x": there[seen], "y": row[seen]}
                series.append(
                    Series(label, "line", columns, {"damping": method, "shown": SINGLE}, colour, "dot")
                )
    return series


def _held(table: np.ndarray) -> np.ndarray:
    """A run that ended counts with its last number."""
    held = table.copy()
    for row in held:
        seen = np.flatnonzero(np.isfinite(row))
        row[seen[-1] + 1 :] = row[seen[-1]]
    return held


def _found(data: Any, method: str) -> list[Any]:
    """The cell of a method, if it is there."""
    runs = select(data, method=method)
    return [runs.isel(cell=k) for k in range(min(1, runs.sizes["cell"]))]
