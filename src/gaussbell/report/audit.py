"""The sections of an audit: what a critic says beside what was returned."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussbell.report.parts import Axis, Chart, Control, Facts, Item, Series, Words

TONES = {True: "good", False: "bad", None: "fair"}


def describe(record: Mapping[str, Any], command: str) -> list[Item]:
    """The verdict, the pictures, and what was asked."""
    result = record["result"]
    seen = result["assessment"]
    items: list[Item] = [Words(seen["sentence"], TONES[seen["trusted"]])]  # type: ignore[arg-type]
    items += [Words(warning, "fair") for warning in result["warnings"]]
    items.append(Facts(_facts(result), "Result"))
    items += [_by_value(result, command), _by_age(result, command)]
    settings = {name: str(value) for name, value in record["settings"].items() if value is not None}
    return [*items, Facts(settings, "Settings")]


def _facts(result: Mapping[str, Any]) -> dict[str, str]:
    low, high = result["bias_interval"]
    first, last = result["monte_carlo_interval"]
    ours = result["our_assessment"]
    rows = {
        "error of the critic": _error(result["assessment"]),
        "error of our fit": "none was asked for" if ours is None else _error(ours),
        "mean error of the critic": f"{result['bias']:.4g} ({low:.4g} to {high:.4g})",
        "slope of returns on its values": f"{result['scale']:.3g}",
        "start value by the critic": f"{result['start']:.4g}",
        "start value by returns": f"{result['monte_carlo_start']:.4g} ({first:.4g} to {last:.4g})",
        "simulated steps": f"{result['simulated']:,}",
    }
    return rows


def _error(assessment: Mapping[str, Any]) -> str:
    low, high = assessment["interval"]
    return (
        f"{assessment['value_error']:.3g} ({low:.3g} to {high:.3g}), {assessment['relative_error']:.2g} of "
        f"the value's standard deviation, over {assessment['over']}"
    )


def _by_value(result: Mapping[str, Any], command: str) -> Chart:
    sample = {name: np.array(numbers, float) for name, numbers in result["sample"].items()}
    groups = result["by_value"]
    ends = np.array([np.min(sample["returned"]), np.max(sample["returned"])])
    series = [
        Series(
            "critic", "points", {"x": sample["value"], "y": sample["returned"]}, {"whose": "critic"}, "grey"
        )
    ]
    if "ours" in sample:
        columns = {"x": sample["ours"], "y": sample["returned"]}
        series.append(Series("our fit", "points", columns, {"whose": "our fit"}, "sky"))
    means = {name: np.array([group[name] for group in groups], float) for name in ("predicted", "returned")}
    series += [
        Series(
            "critic, tenths of the states",
            "steps",
            {"x": means["predicted"], "y": means["returned"]},
            {},
            "vermilion",
        ),
        Series("right", "line", {"x": ends, "y": ends}, {}, "ink", "dash"),
    ]
    return Chart(
        "What states are said to be worth, and what they returned",
        "Each point is a visited state. A right value lies on the dashed line in the mean: where tenths of "
        "the states lie below it, the critic promises too much.",
        "Points of returns over values, with the means of tenths of the states, beside a diagonal line.",
        Axis("value"),
        Axis("return (discounted reward)"),
        series,
        command,
        controls=(Control("whose", "toggle"),) if "ours" in sample else (),
    )


def _by_age(result: Mapping[str, Any], command: str) -> Chart:
    groups = result["by_age"]
    at = np.array([group["at"] for group in groups], float)
    predicted, returned, error = (
        np.array([group[name] for group in groups], float) for name in ("predicted", "returned", "error")
    )
    error = np.nan_to_num(error, posinf=0.0)
    return Chart(
        "Along the episode",
        "Means over tenths of the visited states, by their age; the band is twice the standard error of the "
        "difference.",
        "The critic's mean value and the mean return over the age of states in their episodes.",
        Axis("steps since the start of the episode"),
        Axis("mean value (discounted reward)"),
        (
            Series(
                "returns",
                "band",
                {"x": at, "y": returned, "low": returned - 2 * error, "high": returned + 2 * error},
            ),
            Series("critic", "steps", {"x": at, "y": predicted}, {}, "vermilion"),
        ),
        command,
    )
