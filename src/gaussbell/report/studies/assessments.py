"""Estimated against true errors: does the assessment predict them?"""

from typing import Any

import numpy as np

from gaussbell.diagnostics.assessment import TOLERABLE
from gaussbell.experiments.assessments import NAMES, REFERENCES
from gaussbell.experiments.study import select
from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours

DRAWN = (0.02, 40.0)


def fits(data: Any, command: str) -> Chart:
    """Every fit: its true error against the error that was estimated."""
    ends = np.array(DRAWN)
    series = [
        Series("they agree", "line", {"x": ends, "y": ends}, {}, "grey", "dash"),
        Series(
            f"{TOLERABLE:g}: still good", "line", {"x": ends, "y": np.full(2, TOLERABLE)}, {}, "grey", "dot"
        ),
    ]
    for reference, words in REFERENCES.items():
        for name, colour in spread_colours(list(NAMES.values())).items():
            found = _of(data, name)
            columns = {
                "x": found[f"{reference}_estimate"].values / found.spread.values,
                "y": found.rmse.values / found.spread.values,
            }
            facets = {"reference": words, "problem": name}
            series.append(Series(f"{name}, {words}", "points", columns, facets, colour))
    return Chart(
        "Estimated and true error of fits",
        "Both in standard deviations of the true value. A point in the upper left is a bad fit that would "
        "have been trusted.",
        "Points of true against estimated error on logarithmic axes, mostly along the diagonal.",
        Axis("estimated error / sd", log=True, low=DRAWN[0], high=DRAWN[1]),
        Axis("true error / sd", log=True, low=DRAWN[0], high=DRAWN[1]),
        series,
        command,
        controls=(Control("reference", "choose"), Control("problem", "toggle")),
    )


def scores(data: Any, command: str) -> Chart:
    """How well the score ranks states, by problem."""
    names = list(NAMES.values())
    series = []
    for (reference, words), colour in zip(REFERENCES.items(), ("blue", "orange"), strict=True):
        columns: dict[str, list[np.ndarray]] = {"x": [], "y": []}
        for place, name in enumerate(names):
            found = _of(data, name)[f"{reference}_rank_correlation"].values
            columns["x"].append(np.full(len(found), float(place)))
            columns["y"].append(found)
        joined = {role: np.concatenate(parts) for role, parts in columns.items()}
        series.append(Series(words, "box", joined, {"reference": words}, colour))
    return Chart(
        "Do scores rank states by their error?",
        "Rank correlation of the score of a state with its true error, a point for each fit; 1 is perfect.",
        "Box plots of rank correlations by problem, two colours for two references.",
        Axis("problem", labels=names),
        Axis("rank correlation", low=-1, high=1.05),
        series,
        command,
        controls=(Control("reference", "toggle"),),
    )


def _of(data: Any, name: str) -> Any:
    problem = next(problem for problem, known in NAMES.items() if known == name)
    return select(data, problem=problem)
