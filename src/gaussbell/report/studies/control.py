"""What policy iteration costs, and what each sweep reached."""

from typing import Any

import numpy as np

from gaussbell.experiments.control import ACROBOT, CAR, CART, SOLVE, solved_of, totals_of
from gaussbell.experiments.study import select
from gaussbell.report.parts import Axis, Chart, Control, Series

PROBLEMS = (CART, CAR, ACROBOT)


def cost(data: Any, command: str) -> Chart:
    """Transitions and seconds until solved, by problem."""
    runs = select(data, question=SOLVE)
    places = np.array([PROBLEMS.index(problem) for problem in runs.problem.values], float)
    columns = {"transitions": totals_of(runs), "seconds": runs.elapsed.values}
    series = [
        Series(name, "box", {"x": places, "y": column}, {"quantity": name})
        for name, column in columns.items()
    ]
    return Chart(
        "Cost of solving control problems",
        f"{solved_of(runs)} runs solved; a point is a seed. Transitions count every simulated step, seconds "
        "include compilation where a process had not done it yet.",
        "Box plots of the cost by problem on a logarithmic axis.",
        Axis("problem", labels=PROBLEMS),
        Axis("transitions, or seconds", log=True),
        series,
        command,
        controls=(Control("quantity", "choose"),),
    )


def scores(data: Any, command: str) -> Chart:
    """The best score so far by sweep, a line a seed."""
    series = []
    for problem in PROBLEMS:
        for run in select(data, question=SOLVE, problem=problem).transpose("cell", ...).best_score.values:
            known = run[~np.isnan(run)]
            columns = {"x": np.arange(1.0, len(known) + 1), "y": known}
            series.append(Series(problem, "steps", columns, {"problem": problem}))
    return Chart(
        "Best score by sweep",
        "The best mean score of roll-outs so far: steps survived, or minus the steps to the goal. A line "
        "is a seed, and ends where the solution was confirmed.",
        "Rising lines of the score by sweep.",
        Axis("sweep", whole=True),
        Axis("best mean score so far"),
        series,
        command,
        controls=(Control("problem", "choose"),),
    )
