"""The double-sampling bias by the number of drawn successors."""

from typing import Any

from gaussbell.experiments.noise import CAR, FINITE, LONG, slope_of
from gaussbell.experiments.study import select
from gaussbell.report.parts import Axis, Chart, Colour, Series
from gaussbell.report.studies.medians import bands

X = Axis("successors of a transition", log=True)
Y = Axis("error of the value / its sd", log=True)


def finite_process(data: Any, command: str) -> Chart:
    """The error of a free value for each state by the number of drawn successors."""
    columns = bands(select(data, problem=FINITE), "successors", "error")
    return Chart(
        "A single drawn successor biases the fit",
        "A random finite process, each state's value fitted freely: median and range over seeds. The bias "
        f"falls with more successors, in the end as their number to the power {slope_of(data):.2f}.",
        "A falling line of the error by number of successors on logarithmic axes.",
        X,
        Y,
        [Series("finite process", "band", columns, {}, "blue")],
        command,
    )


def mountain_car(data: Any, command: str) -> Chart:
    """The error of a network in Mountain Car with random pushes by the number of drawn successors."""
    colours: dict[int, Colour] = {1: "vermilion", LONG: "blue"}
    series = [
        Series(
            f"n_step {n_step}",
            "band",
            bands(select(data, problem=CAR, n_step=n_step), "successors", "error"),
            {},
            colour,
        )
        for n_step, colour in colours.items()
    ]
    return Chart(
        "Mountain Car with random pushes",
        "A network: median and range over seeds. More successors help on longer paths; with single steps "
        "the value stays worse than a constant (1).",
        "Two lines of the error by number of successors on logarithmic axes; only the lower one falls.",
        X,
        Y,
        series,
        command,
    )
