"""The section of policy iteration: returns by sweep, what was simulated, and the policy at work."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussbell.report.parts import (
    Axis,
    Badge,
    Chart,
    Control,
    Facts,
    Item,
    Scene,
    Series,
    Table,
    Words,
    spread_colours,
)

QUANTITIES = {"returns": "return of an episode", "steps": "steps of an episode"}


def describe(record: Mapping[str, Any], command: str) -> list[Item]:
    """Verdicts, the sweeps, the transitions, and an episode."""
    runs = record["runs"]
    solved = sum(run["status"] == "SOLVED" for run in runs)
    items: list[Item] = [
        Words(f"{solved} of {len(runs)} runs solved.", "good" if solved == len(runs) else "bad"),
        _verdicts(runs),
        _sweeps(record, command),
        _fits(runs, command),
        _transitions(runs, command),
    ]
    if record.get("episode"):
        items.insert(2, _episode(record["episode"], record["settings"]["problem"], command))
    settings = {name: str(value) for name, value in record["settings"].items()}
    return [*items, Facts(settings, "Settings")]


def _verdicts(runs: list[Any]) -> Table:
    rows = [
        [
            str(run["seed"]),
            Badge(run["status"].lower().replace("_", " "), "good" if run["status"] == "SOLVED" else "bad"),
            f"{run['score']:.4g}" if run["score"] is not None else "",
            str(run["sweeps"]),
            f"{run['total']:,}",
            f"{run['seconds']:.1f}",
            " ".join(filter(None, [*run["warnings"], run["error"]])),
        ]
        for run in runs
    ]
    headings = ("seed", "verdict", "score", "sweeps", "transitions", "seconds", "warnings")
    return Table("Runs", headings, rows)


def _sweeps(record: Mapping[str, Any], command: str) -> Chart:
    runs, task = record["runs"], record.get("task") or {}
    survived = task.get("length") if task.get("kind") == "Survive" else None
    goal = {"returns": task.get("at_least"), "steps": task.get("within", survived)}
    names = [str(run["seed"]) for run in runs]
    series = []
    for key, quantity in QUANTITIES.items():
        for run, (seed, colour) in zip(runs, spread_colours(names).items(), strict=True):
            table = np.array([sweep[key] for sweep in run["history"]], float).reshape(-1, 3)
            columns = {"x": np.arange(1.0, len(table) + 1), "y": table[:, 0]}
            columns |= {"low": table[:, 1], "high": table[:, 2]}
            facets = {"quantity": quantity, "seed": seed}
            axes = ("sweep", quantity)
            series.append(Series(f"seed {seed}: {quantity}", "band", columns, facets, colour, axes=axes))
        bound = goal[key]
        if bound is not None:
            ends = np.array([1.0, max(2, *(len(run["history"]) for run in runs))])
            columns = {"x": ends, "y": np.full(2, float(bound))}
            series.append(Series("goal", "line", columns, {"quantity": quantity}, "ink", "dash"))
    first = QUANTITIES["returns" if goal["returns"] is not None else "steps"]
    return Chart(
        "Roll-outs after each sweep",
        "Mean of the roll-outs with their range; the dashed line, if there is one, is the goal.",
        "Bands over the sweeps that rise towards the goal where the run is solved.",
        Axis("sweep", whole=True),
        Axis("of an episode"),
        series,
        command,
        controls=(Control("quantity", "choose", (first,)), Control("seed", "toggle")),
    )


def _fits(runs: list[Any], command: str) -> Chart:
    names = [str(run["seed"]) for run in runs]
    series = []
    for run, (seed, colour) in zip(runs, spread_colours(names).items(), strict=True):
        errors = np.array([sweep["msbe"] for sweep in run["history"]], float)
        columns = {"x": np.arange(1.0, len(errors) + 1), "y": np.where(errors > 0, errors, np.nan)}
        series.append(Series(f"seed {seed}", "steps", columns, {"seed": seed}, colour))
    return Chart(
        "Bellman error of each sweep's fit",
        "The NMSBE at the end of each evaluation of Q-factors.",
        "Points over the sweeps on a logarithmic axis.",
        Axis("sweep", whole=True),
        Axis("NMSBE", log=True),
        series,
        command,
        controls=(Control("seed", "toggle"),),
    )


def _transitions(runs: list[Any], command: str) -> Chart:
    seeds = [str(run["seed"]) for run in runs]
    places = np.arange(float(len(runs)))
    series = [
        Series(
            purpose,
            "bar",
            {"x": places, "y": np.array([run["transitions"][purpose] for run in runs], float)},
            {},
            colour,
        )
        for purpose, colour in spread_colours(list(runs[0]["transitions"])).items()
    ]
    return Chart(
        "Simulated steps",
        "Every simulated step, by its purpose.",
        "Stacked bars of transitions by seed.",
        Axis("seed", labels=seeds),
        Axis("transitions"),
        series,
        command,
        stacked=True,
    )


def _episode(episode: Mapping[str, Any], problem: str, command: str) -> Item:
    columns = {name: _column(values) for name, values in episode["columns"].items()}
    length = len(next(iter(columns.values())))
    if episode["drawing"] is not None:
        return Scene(
            "The policy at work",
            f"One episode of {length} steps from a fresh start. Play it, or move along it step by step.",
            f"A drawing of {problem} at a step of the episode, moved by the slider.",
            episode["drawing"],
            columns,
            command,
        )
    numbers = [name for name, column in columns.items() if not isinstance(column, list)]
    series = [
        Series(name, "line", {"x": np.arange(float(length)), "y": columns[name]}, {"part": name}, colour)
        for name, colour in spread_colours(numbers).items()
    ]
    return Chart(
        "The policy at work",
        "One episode from a fresh start: the parts of the state by step.",
        "Lines of the parts of the state over the steps of an episode.",
        Axis("step"),
        Axis("part of the state"),
        series,
        command,
        controls=(Control("part", "toggle", numbers[:4]),),
    )


def _column(values: list[Any]) -> Any:
    return values if values and isinstance(values[0], str) else np.array(values, float)
