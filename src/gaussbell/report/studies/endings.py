"""Restart or end: what one improvement of a policy leads to."""

from typing import Any

import numpy as np

from gaussbell.experiments.endings import CAR, CART, END, ENDINGS, GAP, RESTART, SWEEPS
from gaussbell.experiments.study import select, settings
from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours

FIELDS = {"after": "mean steps survived", "gap": "correlation of differences of Q"}


def improvements(data: Any, command: str) -> Chart:
    """How long the pole stands after one improvement, and how well Q tells actions apart."""
    runs = select(data, question=GAP)
    n_steps = [int(n) for n in settings(runs, "n_step")]
    series = []
    for field, name in FIELDS.items():
        for ending, colour in spread_colours(list(ENDINGS)).items():
            found = select(runs, ending=ending)
            places = np.array([n_steps.index(int(n)) for n in found.n_step.values], float)
            columns = {"x": places, "y": found[field].values}
            facets = {"number": name, "ending": ending}
            series.append(Series(f"{ending}: {name}", "box", columns, facets, colour))
    return Chart(
        "One improvement of a policy of Cart Pole",
        "By what a failure leads to, and by the length of paths; a point is a seed. Only a restart at the "
        "upright pole ties failing transitions to the states where a good policy stays.",
        "Box plots by n_step, a colour for each ending.",
        Axis("n_step", labels=[str(n) for n in n_steps]),
        Axis("mean steps, or correlation"),
        series,
        command,
        controls=(Control("number", "choose"), Control("ending", "toggle")),
    )


def iterations(data: Any, command: str) -> Chart:
    """What policy iteration reaches in a few sweeps, by ending and length of paths."""
    runs = select(data, question=SWEEPS)
    n_steps = [int(n) for n in settings(runs, "n_step")]
    series = []
    for problem in (CART, CAR):
        for ending, colour in spread_colours([RESTART, END]).items():
            found = select(runs, problem=problem, ending=ending)
            places = np.array([n_steps.index(int(n)) for n in found.n_step.values], float)
            columns = {"x": places, "y": found.score.values}
            series.append(Series(ending, "box", columns, {"problem": problem, "ending": ending}, colour))
    return Chart(
        "Policy iteration with either ending",
        f"The best mean score of {int(runs.sweeps[0])} sweeps: steps survived, or minus the steps to the "
        "goal; a point is a seed.",
        "Box plots by n_step, a colour for each ending.",
        Axis("n_step", labels=[str(n) for n in n_steps]),
        Axis("best mean score"),
        series,
        command,
        controls=(Control("problem", "choose"), Control("ending", "toggle")),
    )
