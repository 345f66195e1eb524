"""Policy iteration on Cart Pole: steps survived by sweep."""

from typing import Any

import numpy as np

from gaussbell.experiments.methods import GAUSS_NEWTON
from gaussbell.experiments.policy_iteration import PERSISTENT
from gaussbell.experiments.study import select, settings
from gaussbell.report import looks
from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours

FULL = 500.0


def bands(data: Any, command: str) -> Chart:
    """Mean steps by sweep with the range of the roll-outs, by samples, evaluation steps and weights."""
    paper = select(data, method=GAUSS_NEWTON)
    evaluations = [f"{steps:g}" for steps in settings(paper, "evaluation_steps")]
    colours = spread_colours(evaluations)
    series = [_full_episode(data)]
    for weights in settings(paper, "weights"):
        for n in settings(paper, "samples"):
            for steps in evaluations:
                runs = select(paper, weights=weights, samples=n, evaluation_steps=float(steps))
                if not runs.sizes["cell"]:
                    continue
                mean = runs.mean("cell")
                columns = {
                    "x": mean.sweep.values,
                    "y": mean.steps_mean.values,
                    "low": mean.steps_least.values,
                    "high": mean.steps_most.values,
                }
                facets = {"weights": weights, "samples": f"{n:g}", "evaluation steps": steps}
                label = f"{n:g} samples, {steps} evaluation steps, {weights}"
                series.append(Series(label, "band", columns, facets, colours[steps]))
    return Chart(
        "Steps survived by sweep",
        "Mean of ten roll-outs after each sweep, averaged over repetitions; shaded, their smallest and "
        "largest, averaged as in the paper. What one sweep gains the next may lose.",
        "Bands of steps survived over the sweeps of policy iteration, one colour for each number of "
        "evaluation steps, below a line at 500.",
        Axis("sweep", whole=True),
        Axis("steps survived", low=0, high=520),
        series,
        command,
        controls=(
            Control("weights", "choose", (PERSISTENT,)),
            Control("samples", "slide"),
            Control("evaluation steps", "toggle"),
        ),
    )


def runs(data: Any, command: str) -> Chart:
    """Single repetitions, by method."""
    series = [_full_episode(data)]
    for method, colour in looks.METHODS.items():
        found = select(data, method=method)
        if method == GAUSS_NEWTON and found.sizes["cell"]:
            most = settings(found, "evaluation_steps")[-1]
            found = select(found, weights=PERSISTENT, samples=181, evaluation_steps=most)
        for k in range(found.sizes["cell"]):
            run = found.isel(cell=k)
            seen = np.isfinite(run.steps_mean.values)
            columns = {"x": run.sweep.values[seen], "y": run.steps_mean.values[seen]}
            label = f"{method}, repetition {int(run.repetition)}"
            series.append(Series(label, "line", columns, {"method": method}, colour))
    return Chart(
        "Single runs",
        "Each line is a repetition: Algorithm 2 with 181 samples, persistent weights and the most evaluation "
        "steps, the other methods in the same loop, and ours with default settings, which stops when fresh "
        "episodes confirm a policy.",
        "Lines of steps survived over the sweeps, one colour a method.",
        Axis("sweep", whole=True),
        Axis("steps survived", low=0, high=520),
        series,
        command,
        controls=(Control("method", "toggle"),),
    )


def _full_episode(data: Any) -> Series:
    ends = np.array([float(data.sweep.min()), float(data.sweep.max())])
    return Series("a full episode", "line", {"x": ends, "y": np.full(2, FULL)}, {}, "grey", "dash")
