"""The charts of experiments beyond the paper and of benchmarks, from their records."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours

SHARE = "RMSE / sd of the value"


def chart_values(record: Mapping[str, Any], command: str) -> list[Chart]:
    """The error of the value by the number of steps, by samples and by budget."""
    settings, cells = record["settings"], record["cells"]
    by_network, by_budget = [], []
    for network, colour in spread_colours(settings["networks"]).items():
        found = [cell for cell in cells if cell["network"] == network and cell["budget"] is None]
        for field, label, dash in (
            ("error", network, "solid"),
            ("error_ahead", f"{network}, looking {settings['look_ahead']} steps ahead", "dash"),
        ):
            columns = _medians(found, "steps", field)
            by_network.append(Series(label, "band", columns, {"network": label}, colour, dash))
    for budget, colour in spread_colours([f"{budget:,}" for budget in settings["budgets"]]).items():
        found = [cell for cell in cells if cell["budget"] == int(budget.replace(",", ""))]
        auto = [cell for cell in found if cell["steps"] == "auto"]
        columns = _medians(found, "steps", "error")
        by_budget.append(Series(f"{budget} simulated steps", "band", columns, {"budget": budget}, colour))
        chosen = {"x": _column(auto, "chosen"), "y": _column(auto, "error")}
        by_budget.append(Series(f'{budget}, "auto"', "points", chosen, {"budget": budget}, colour))
    steps, error = Axis("steps of a row", log=True), Axis(SHARE, log=True)
    return [
        Chart(
            "Error of the value by steps of a row",
            f"{settings['samples']:,} samples, medians and range over seeds. One step leaves the value as "
            "bad as a constant (1) or worse; 50 to 200 steps make it good, and looking ahead better still.",
            "Lines that fall with the number of steps, on logarithmic axes.",
            steps,
            error,
            by_network,
            command,
            controls=(Control("network", "toggle"),),
        ),
        Chart(
            "Error of the value by budget",
            "With a budget of simulated steps longer paths mean fewer rows, so the best number moves; single "
            'points are what steps="auto" reached, at the number it chose.',
            "Lines of the error by number of steps for three budgets, with points near their minima.",
            steps,
            error,
            by_budget,
            command,
            controls=(Control("budget", "toggle"),),
        ),
    ]


def chart_noise(record: Mapping[str, Any], command: str) -> list[Chart]:
    """The bias of the fit by the number of drawn successors."""
    finite = Series("finite process", "band", _medians(record["finite"], "successors", "error"), {}, "blue")
    cars = []
    for steps, colour in spread_colours(
        [str(s) for s in sorted({r["steps"] for r in record["mountain_car"]})]
    ).items():
        rows = [row for row in record["mountain_car"] if str(row["steps"]) == steps]
        label = f"Mountain Car with random pushes, rows of {steps}"
        cars.append(Series(label, "band", _medians(rows, "successors", "error"), {}, colour, "dash"))
    return [
        Chart(
            "A single drawn successor biases the fit",
            "Median and range over seeds. On a finite process the bias falls with more successors (slope "
            f"{record['slope']:.2f} in the end). On Mountain Car they help only with rows of more steps.",
            "Falling lines of the error by number of successors on logarithmic axes.",
            Axis("successors of a row", log=True),
            Axis("error of the value / its sd", log=True),
            [finite, *cars],
            command,
        )
    ]


def chart_control(record: Mapping[str, Any], command: str) -> list[Chart]:
    """Transitions and seconds until solved, by problem, and what each sweep reached."""
    solved = [cell for cell in record["cells"] if cell["study"] == "solve"]
    problems = list(dict.fromkeys(cell["problem"] for cell in solved))
    series = []
    for quantity, field in (("transitions", "total"), ("seconds", "seconds")):
        places = np.array([problems.index(cell["problem"]) for cell in solved], float)
        columns = {"x": places, "y": _column(solved, field)}
        series.append(Series(quantity, "box", columns, {"quantity": quantity}))
    count = sum(cell["status"] == "SOLVED" for cell in solved)
    return [
        Chart(
            "Cost of solving control problems",
            f"{count} of {len(solved)} runs solved; a point is a seed. Transitions count every simulated "
            "step, seconds include compilation for the first seed of a problem.",
            "Box plots of the cost by problem on a logarithmic axis.",
            Axis("problem", labels=problems),
            Axis("transitions, or seconds", log=True),
            series,
            command,
            controls=(Control("quantity", "choose"),),
        )
    ]


def chart_step_time(record: Mapping[str, Any], command: str) -> list[Chart]:
    """Milliseconds of a step by size and method."""
    results = record["results"]
    sizes = [f"{one['parameters']:,} parameters, {one['rows']:,} rows" for one in results]
    series = [
        Series(
            name,
            "steps",
            {
                "x": np.arange(float(len(results))),
                "y": np.array([one["milliseconds"].get(name, np.nan) for one in results]),
            },
            {"method": name},
            colour,
        )
        for name, colour in spread_colours(list(results[0]["milliseconds"])).items()
    ]
    return [
        Chart(
            "Time per iteration against size",
            "Milliseconds of one step, all methods in one run; the BLAS floor is the time of the "
            "multiplications and factorisations alone.",
            "Lines of milliseconds by size of the problem on a logarithmic axis.",
            Axis("size", labels=sizes),
            Axis("milliseconds per step", log=True),
            series,
            command,
            controls=(Control("method", "toggle"),),
        )
    ]


def _medians(cells: Sequence[Mapping[str, Any]], along: str, field: str) -> dict[str, np.ndarray]:
    """Median, smallest and largest of a field for each number of a setting; words are left out."""
    found = [cell for cell in cells if not isinstance(cell[along], str) and cell.get(field) is not None]
    places = sorted({cell[along] for cell in found})
    groups = [_column([cell for cell in found if cell[along] == place], field) for place in places]
    return {
        "x": np.array(places, float),
        "y": np.array([np.median(group) for group in groups]),
        "low": np.array([group.min() for group in groups]),
        "high": np.array([group.max() for group in groups]),
    }


def _column(cells: Sequence[Mapping[str, Any]], field: str) -> np.ndarray:
    return np.array([cell[field] for cell in cells], float)
