"""The double-sampling bias by the number of drawn successors."""

from typing import Any

from gaussbell.experiments.noise import CAR, FINITE, LONG, slope_of
from gaussbell.experiments.study import select
from gaussbell.report.parts import Axis, Chart, Colour, Series
from gaussbell.report.studies.medians import bands


def bias(data: Any, command: str) -> Chart:
    """The error of the fit by the number of drawn successors."""
    finite = bands(select(data, problem=FINITE), "successors", "error")
    series = [Series("finite process", "band", finite, {}, "blue")]
    colours: dict[int, Colour] = {1: "vermilion", LONG: "green"}
    for n_step, colour in colours.items():
        columns = bands(select(data, problem=CAR, n_step=n_step), "successors", "error")
        label = f"Mountain Car with random pushes, n_step {n_step}"
        series.append(Series(label, "band", columns, {}, colour, "dash"))
    return Chart(
        "A single drawn successor biases the fit",
        "Median and range over seeds. On a finite process the bias falls with more successors (slope "
        f"{slope_of(data):.2f} in the end). On Mountain Car they help only on longer paths.",
        "Falling lines of the error by number of successors on logarithmic axes.",
        Axis("successors of a transition", log=True),
        Axis("error of the value / its sd", log=True),
        series,
        command,
    )
