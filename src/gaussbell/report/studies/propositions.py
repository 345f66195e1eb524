"""The propositions by numbers: where starts end, and what longer paths do."""

from typing import Any

import numpy as np

from gaussbell.experiments.critical_points import ACTIVATIONS, BENT, CAR, MANY, MINIMA, SIZES, STEPS
from gaussbell.experiments.study import select, settings
from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours

ROUNDING = 1e-32


def ends(data: Any, command: str) -> Chart:
    """The final loss of every start, sorted, by problem and size."""
    wanted = {f"{problem}, {size}": (problem, size, BENT) for problem, size in SIZES}
    return _sorted_losses(
        data,
        command,
        wanted,
        "problem",
        "Where starts end",
        "With more parameters than samples nearly all starts end at zero, the lowest level being rounding; "
        "with fewer they end at several levels: suboptimal minima.",
    )


def activations(data: Any, command: str) -> Chart:
    """The same on Mountain Car with more parameters, by activation."""
    wanted = {name: (CAR, MANY, name) for name in ACTIVATIONS}
    return _sorted_losses(
        data,
        command,
        wanted,
        "activation",
        "Where starts end, by activation",
        "Mountain Car with more parameters than samples. Networks whose units lose their slope get stuck.",
    )


def amplification(data: Any, command: str) -> Chart:
    """How much larger an error of the values can be than the residual it leaves, by n_step."""
    lengths = settings(data, "n_step", part=STEPS)
    places, found = [], []
    for k, n_step in enumerate(lengths):
        column = select(data, part=STEPS, n_step=n_step).isel(cell=0).amplification.values
        column = column[np.isfinite(column)]
        places.append(np.full(len(column), float(k)))
        found.append(column)
    columns = {"x": np.concatenate(places), "y": np.concatenate(found)}
    return Chart(
        "Amplification by n_step",
        "Random networks on transitions of Mountain Car: how much larger an error of the values at the "
        "samples can be than the residual that it leaves. More steps make it small.",
        "Box plots on a logarithmic axis that fall with the number of steps.",
        Axis("n_step", labels=[f"{n:g}" for n in lengths]),
        Axis("error of values / residual, at most", log=True),
        (Series("amplification", "box", columns),),
        command,
    )


def _sorted_losses(
    data: Any, command: str, wanted: dict[str, tuple[str, str, str]], facet: str, title: str, caption: str
) -> Chart:
    series = []
    for name, colour in spread_colours(list(wanted)).items():
        problem, size, activation = wanted[name]
        runs = select(data, part=MINIMA, problem=problem, size=size, activation=activation)
        if runs.sizes["cell"]:
            losses = np.sort(np.maximum(runs.isel(cell=0).loss.values, ROUNDING))
            losses = losses[np.isfinite(losses)]
            columns = {"x": np.linspace(0, 1, len(losses)), "y": losses}
            series.append(Series(name, "line", columns, {facet: name}, colour))
    return Chart(
        title,
        caption,
        "Sorted final losses over the share of starts on a logarithmic axis, one colour each.",
        Axis("share of starts"),
        Axis("loss / that of zero", log=True),
        series,
        command,
        controls=(Control(facet, "toggle"),),
    )
