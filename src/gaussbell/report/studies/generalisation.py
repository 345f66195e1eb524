"""Generalisation on Mountain Car: errors and surfaces by the number of samples."""

from typing import Any

import numpy as np

from gaussbell.experiments.generalisation import OUR_N_STEP, TRUTH
from gaussbell.experiments.methods import GAUSS_NEWTON, OURS
from gaussbell.experiments.study import select, settings
from gaussbell.report import looks
from gaussbell.report.parts import Axis, Chart, Control, Series

LABELS = {
    GAUSS_NEWTON: "the paper's method, transitions of 1 step",
    OURS: f"ours, transitions of {OUR_N_STEP} steps",
}
ERRORS = {
    "test": "NMSBE on a grid",
    "training": "NMSBE in training",
    "value_error": "RMSE / sd of the value",
}


def boxes(data: Any, command: str) -> Chart:
    """Each error by the number of samples, as boxes."""
    counts = _counts(data)
    series = []
    for field, name in ERRORS.items():
        for method, label in LABELS.items():
            found = select(data, method=method)
            places = np.array([counts.index(int(n)) for n in found.samples.values])
            columns = {"x": places, "y": found[field].values}
            facets = {"error": name, "method": label}
            series.append(Series(f"{label}: {name}", "box", columns, facets, looks.METHODS[method]))
    return Chart(
        "Errors by number of samples",
        "Boxes are quartiles, points single repetitions. The Bellman error on the grid falls with more "
        "samples, but that of the value itself stays near 1, the error of the best constant, for "
        f"transitions of one step. Transitions of {OUR_N_STEP} steps have larger Bellman errors and much "
        "better values.",
        "Box plots on a logarithmic axis by number of samples, two colours for two methods.",
        Axis("samples", labels=[str(n) for n in counts]),
        Axis("error", log=True),
        series,
        command,
        controls=(Control("error", "choose"), Control("method", "toggle")),
    )


def surfaces(data: Any, command: str) -> Chart:
    """The value surface of the best run for each number of samples, and the true one."""
    counts = _counts(data)
    truth = select(data, method=TRUTH)
    series, low, high = [], -100.0, -20.0
    if truth.sizes["cell"]:
        true = truth.isel(cell=0)
        low, high = float(true.surface.min()), float(true.surface.max())
        series = [Series("true value", "map", _map(true), {"fit": "true value"})]
    for n in counts:
        for method, label in LABELS.items():
            runs = select(data, method=method, samples=n)
            if runs.sizes["cell"]:
                best = runs.isel(cell=int(np.argmin(runs.test.values)))
                facets = {"fit": label, "samples": str(n)}
                series.append(Series(f"{label}, {n} samples", "map", _map(best), facets))
    return Chart(
        "Value surfaces",
        "The run with the smallest test error for each number of samples, on the scale of the true value "
        f"({low:.2f} to {high:.2f}). Slide along the samples; turn the map into a surface.",
        "The value by position and velocity as colours or as a surface, for a chosen fit and number of "
        "samples.",
        Axis("position"),
        Axis("velocity"),
        series,
        command,
        shade=Axis("value", low=low, high=high),
        controls=(
            Control("fit", "choose", (LABELS[OURS],)),
            Control("samples", "slide", (str(counts[-1]),)),
        ),
        solid=True,
    )


def _map(run: Any) -> dict[str, np.ndarray]:
    return {"x": run.position.values, "y": run.velocity.values, "z": run.surface.values.T.astype(np.float32)}


def _counts(data: Any) -> list[int]:
    return [int(n) for n in settings(data, "samples") if n > 0]
