"""Architectures on Mountain Car: errors by parameters and samples, and what an iteration costs."""

from typing import Any

import numpy as np

from gaussbell.experiments.architectures import table
from gaussbell.experiments.methods import GAUSS_NEWTON, OURS
from gaussbell.experiments.study import select
from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours

PICTURES = {
    "training NMSBE": (GAUSS_NEWTON, "training"),
    "test NMSBE": (GAUSS_NEWTON, "test"),
    "error of the value": (GAUSS_NEWTON, "value_error"),
    "error of the value, ours": (OURS, "value_error"),
}
DEPTHS = (1, 2, 3)


def contours(data: Any, command: str) -> Chart:
    """log10 of an error by samples and parameters, with the line where they are equal."""
    series, ends = [], set()
    for picture, (method, field) in PICTURES.items():
        for depth in DEPTHS:
            if not _has(data, method, depth):
                continue
            heights, parameters, counts = table(data, method, depth, field)
            columns = {"x": counts.astype(float), "y": parameters.astype(float), "z": heights}
            facets = {"error": picture, "hidden layers": str(depth)}
            series.append(Series(f"{picture}, {depth} hidden layers", "contour", columns, facets))
            ends |= set(counts.tolist())
    line = np.array([min(ends), max(ends)], float)
    series.append(Series("parameters = N", "line", {"x": line, "y": line}, {}, "vermilion"))
    return Chart(
        "Errors by parameters and samples",
        "log10 of the mean error over repetitions; dots are what was run, the line is where parameters equal "
        "samples. Training errors follow the line, and exact fits lie above it.",
        "Filled contours by number of samples and number of parameters on logarithmic axes, with the "
        "diagonal where both are equal.",
        Axis("samples N", log=True, ticks=sorted(ends)),
        Axis("parameters", log=True, ticks=(20, 50, 100, 200, 500, 1000)),
        series,
        command,
        shade=Axis("log10 of the error"),
        controls=(Control("error", "choose"), Control("hidden layers", "slide", ("2",))),
    )


def seconds(data: Any, command: str) -> Chart:
    """The time of an iteration against the size of the problem."""
    runs = select(data, method=GAUSS_NEWTON, diverged=0)
    counts = np.unique(runs.samples.values)
    series = []
    for name, colour in spread_colours([f"{n:g}" for n in counts]).items():
        found = select(runs, samples=float(name))
        sizes = np.unique(found.parameters.values)
        each = 1e3 * found.seconds.values / found.used.values
        best = np.array([np.min(each[found.parameters.values == p]) for p in sizes])
        columns = {"x": sizes.astype(float), "y": best}
        series.append(Series(f"{name} samples", "steps", columns, {"samples": name}, colour))
    return Chart(
        "Time per iteration against size",
        "Milliseconds of a residual Gauss-Newton iteration on one core: a cell's time over its iterations, "
        "its test included; the fastest repetition, so that compilation is not.",
        "Lines of milliseconds by number of parameters, one for each number of samples, on logarithmic axes.",
        Axis("parameters", log=True, ticks=(20, 50, 100, 200, 500, 1000)),
        Axis("milliseconds per iteration", log=True),
        series,
        command,
        controls=(Control("samples", "toggle"),),
    )


def _has(data: Any, method: str, depth: int) -> bool:
    return any(text.count("-") == depth + 1 for text in select(data, method=method).network.values)
