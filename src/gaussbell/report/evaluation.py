"""The sections of one evaluation: its record, and its diagnosis if there is one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussbell.optimise.solution import Status
from gaussbell.report import diagnosis as diagnosis_parts
from gaussbell.report.parts import COLOURS, Axis, Chart, Control, Facts, Item, Series, Words

NAMES = {"msbe": "NMSBE", "simulated": "simulated steps", "spread": "standard deviation of the value"}
"""What results are called, where their key does not say it."""


def describe(
    record: Mapping[str, Any] | None, diagnosis: Mapping[str, Any] | None, command: str
) -> list[Item]:
    """How it ended, whether to trust it, the pictures, and what was asked."""
    verdicts = [] if diagnosis is None else diagnosis_parts.describe_verdicts(diagnosis)
    if record is None:
        items: list[Item] = verdicts
    else:
        items = [*_outcome(record), *verdicts, _result(record)]
        items += _estimate(record, command) + _truth(record, command)
    if diagnosis is not None:
        items += diagnosis_parts.describe_maps(diagnosis.get("maps"), command)
        items.append(diagnosis_parts.describe_checks(diagnosis))
    known = {} if record is None else record.get("history", {})
    if not known and diagnosis is not None:
        known = {"msbe": diagnosis["fit"].get("losses")}
    items += _convergence(known, command)
    if diagnosis is not None:
        items += diagnosis_parts.describe_spectra(diagnosis, command)
        items += diagnosis_parts.describe_landscape(diagnosis.get("landscape"), command)
    if record is not None:
        settings = {name.replace("_", " "): _text(value) for name, value in record["settings"].items()}
        items.append(Facts(settings, "Settings"))
    return items


def _outcome(record: Mapping[str, Any]) -> list[Item]:
    result = record["result"]
    status = Status[result["status"]]
    failed = status in (Status.DIVERGED, Status.NOT_FINITE_AT_START)
    tone = "good" if status.succeeded else "bad" if failed else "fair"
    items: list[Item] = [Words(result.get("message") or status.value, tone)]
    return items + [Words(warning, "bad") for warning in result.get("warnings", ())]


def _result(record: Mapping[str, Any]) -> Facts:
    rows = {}
    for key, value in record["result"].items():
        if _is_short(value) and key not in ("message", "status"):
            rows[NAMES.get(key) or key.replace("_", " ")] = _number(value)
    return Facts(rows, "Result")


def _convergence(history: Mapping[str, Any] | None, command: str) -> list[Item]:
    if not history or not history.get("msbe"):
        return []
    names = {"msbe": "NMSBE", "gradient_norm": "norm of its gradient", "step_norm": "norm of the step"}
    names |= {"damping": "damping"}
    series = []
    for name, colour in zip(names, COLOURS, strict=False):
        curve = np.array(history.get(name) or [], float)
        if np.any(curve > 0):
            columns = {"x": np.arange(len(curve), dtype=float), "y": np.where(curve > 0, curve, np.nan)}
            series.append(Series(names[name], "steps", columns, {"curve": names[name]}, colour))
    shown = [one.label for one in series[:2]]
    return [
        Chart(
            "Convergence",
            "On the logarithmic axis a straight line is linear convergence, a bend downwards is quadratic.",
            "Falling curves over the steps of the solver on a logarithmic axis.",
            Axis("step of the solver", whole=True),
            Axis("NMSBE, norms", log=True),
            series,
            command,
            controls=(Control("curve", "toggle", shown),),
        )
    ]


def _estimate(record: Mapping[str, Any], command: str) -> list[Item]:
    """The estimate from logged data, with its bootstrap."""
    result, seen = record["result"], record.get("assessment", {}).get("checks")
    if seen is None or "bootstrap" not in result:
        return []
    bootstrap = np.array(result["bootstrap"], float)
    low, high = result["interval"] or (np.nan, np.nan)

    def points(*values: float) -> np.ndarray:
        return np.array(values, float)

    series = (
        Series(
            "refits to resampled episodes",
            "points",
            {"x": bootstrap, "y": np.full(len(bootstrap), 2.0)},
        ),
        Series("confidence interval", "line", {"x": points(low, high), "y": points(1, 1)}, {}, "blue"),
        Series("estimate", "points", {"x": points(result["value"]), "y": points(1)}, {}, "vermilion"),
        Series(
            "nearest neighbours", "points", {"x": points(seen["neighbour_value"]), "y": points(0)}, {}, "grey"
        ),
    )
    return [
        Chart(
            "Value of the policy at the start",
            "The estimate with its interval, each refit, and a reference without a network.",
            f"The estimate {result['value']:.4g}, and where there is one its interval from {low:.4g} to "
            f"{high:.4g}.",
            Axis("value (discounted reward)"),
            Axis("", labels=("neighbours", "estimate", "bootstrap"), low=-0.5, high=2.5),
            series,
            command,
        )
    ]


def _truth(record: Mapping[str, Any], command: str) -> list[Item]:
    """True and learned value side by side, where a record has both."""
    if "values" in record:
        values = record["values"]
        states = np.arange(len(values["exact"]), dtype=float)
        pairs: tuple[tuple[str, Any, Any], ...] = (
            ("exact", "rings", "ink"),
            ("learned", "points", "vermilion"),
        )
        series = [
            Series(name, kind, {"x": states, "y": np.array(values[name], float)}, {}, colour)
            for name, kind, colour in pairs
        ]
        return [
            Chart(
                "Value by state",
                f"Learned beside exact values; the largest error is {record['result']['value_error']:.1e}.",
                "Points of learned and exact values by state, which coincide where the fit is right.",
                Axis("state", whole=True),
                Axis("value (discounted reward)"),
                series,
                command,
            )
        ]
    if "true" not in record:
        return []
    x, y = (np.array(axis, float) for axis in record["axes"])
    true, learned = (np.array(record[name], np.float32).T for name in ("true", "learned"))
    tables = {"learned value": learned, "true value, by simulation": true}
    series = [
        Series(name, "map", {"x": x, "y": y, "z": table}, {"shown": name}) for name, table in tables.items()
    ]
    off = learned - true
    far = float(np.quantile(np.abs(off), 0.995))
    error = record["result"]["relative_error"]
    return [
        Chart(
            "Value by state",
            "The value jumps along curves: on one side the car still makes it over the hill, on the other it "
            f"needs another swing. Root mean squared error {error:.3f} standard deviations of the value.",
            "The learned or the true value by position and velocity.",
            Axis("position"),
            Axis("velocity per step"),
            series,
            command,
            shade=Axis("value", low=float(true.min()), high=float(true.max())),
            controls=(Control("shown", "choose"),),
            solid=True,
        ),
        Chart(
            "Difference of learned and true value",
            "What remains lies along the jumps; colours end at the largest 0.5 %.",
            "The difference by position and velocity, mostly near zero.",
            Axis("position"),
            Axis("velocity per step"),
            (Series("learned - true", "map", {"x": x, "y": y, "z": off}),),
            command,
            shade=Axis("learned - true", low=-far, high=far),
            palette="diverging",
        ),
    ]


def _is_short(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _number(value: Any) -> str:
    return f"{value:,}" if type(value) is int else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)
