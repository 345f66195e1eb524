"""The sections of one evaluation: its record, and its diagnosis if there is one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussbell.report.parts import (
    COLOURS,
    Axis,
    Chart,
    Control,
    Facts,
    Item,
    Series,
    Table,
    Words,
    spread_colours,
)

SPECTRA = {"states": "G, the states", "successors": "G', the successors", "bellman": "G - discount G'"}


def describe(
    record: Mapping[str, Any] | None, diagnosis: Mapping[str, Any] | None, command: str
) -> list[Item]:
    """What was asked, what came out, and the pictures of it."""
    items: list[Item] = []
    if record is not None:
        items += _outcome(record)
    if diagnosis is not None:
        items += _trust(diagnosis)
    if record is not None:
        items += _estimate(record, command) + _convergence(record.get("history"), command)
        items += _truth(record, command)
    if diagnosis is not None:
        if record is None or "history" not in record:
            items += _convergence({"msbe": diagnosis["fit"].get("losses")}, command)
        items += _maps(diagnosis.get("maps"), command)
        items += _spectra(diagnosis, command)
        items += _landscape(diagnosis.get("landscape"), command)
    return items


def _outcome(record: Mapping[str, Any]) -> list[Item]:
    result = record["result"]
    good = result.get("status") in ("CONVERGED", "HELD_OUT", "STALLED")
    told = {name.replace("_", " "): _text(value) for name, value in result.items() if _is_short(value)}
    items: list[Item] = [Words(result["message"], "good" if good else "fair")] if "message" in result else []
    items += [Words(warning, "bad") for warning in result.get("warnings", ())]
    settings = {name.replace("_", " "): _text(value) for name, value in record["settings"].items()}
    return [
        *items,
        Facts({k: v for k, v in told.items() if k != "message"}, "Result"),
        Facts(settings, "Settings"),
    ]


def _trust(diagnosis: Mapping[str, Any]) -> list[Item]:
    items: list[Item] = []
    for name, one in diagnosis["trust"].items():
        items.append(Words(f"By {name}: {_after(one['sentence'])}", "good" if one["trusted"] else "bad"))
    checks, bellman = diagnosis["checks"], diagnosis["spectra"]["bellman"]
    enough = checks["parameters"] >= checks["rows"]
    full = bellman["rank"] == bellman["rows"]
    minima = (
        "every critical point like this has zero residual: no bad minima"
        if enough and full
        else "bad minima can exist"
    )
    facts = {
        "over-parametrisation": f"{checks['parameters']} parameters for {checks['rows']} rows, "
        f"{'' if full else 'not '}of full rank: {minima}",
        "curvature": f"largest eigenvalue of the Hessian {diagnosis['curvature']['largest'][0]:.3g}, most "
        f"negative share {diagnosis['curvature']['negative_share']:.1g}",
    }
    if checks.get("floating") is not None:
        facts["rows"] = (
            f"{checks['floating']:.0%} not tied to any reward, {checks['reaching']:.0%} reach a second one"
        )
    if checks.get("certificate") is not None:
        facts["certificate"] = f"no value is off by more than {checks['certificate']:.3g}"
    return [*items, Facts(facts, "Can the value be trusted?")]


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
    """The estimate from logged data, with its refits."""
    result, seen = record["result"], record.get("diagnostics")
    if seen is None or "interval" not in result:
        return []
    refits = np.array(result["refits"], float)
    low, high = (np.nan if end is None else end for end in result["interval"])

    def points(*values: float) -> np.ndarray:
        return np.array(values, float)

    series = (
        Series("refits to resampled episodes", "points", {"x": refits, "y": np.full(len(refits), 2.0)}),
        Series("90 % interval", "line", {"x": points(low, high), "y": points(1, 1)}, {}, "blue"),
        Series("estimate", "points", {"x": points(result["value"]), "y": points(1)}, {}, "vermilion"),
        Series(
            "nearest neighbours", "points", {"x": points(seen["neighbour_value"]), "y": points(0)}, {}, "grey"
        ),
    )
    return [
        Chart(
            "Value of the policy at the start",
            "The estimate with its interval, each refit, and a second opinion without a network.",
            f"The estimate {result['value']:.4g} between {low:.4g} and {high:.4g}.",
            Axis("value (discounted reward)"),
            Axis("", labels=("neighbours", "estimate", "refits"), low=-0.5, high=2.5),
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


def _maps(maps: Mapping[str, Any] | None, command: str) -> list[Item]:
    if not maps:
        return []
    if "exact" in maps:
        states = np.arange(len(maps["value"]), dtype=float)
        residual = np.abs(np.array(maps["residual"], float))
        return [
            Chart(
                "Residual by state",
                "How far each state's value is from what its Bellman equation says.",
                "Points of absolute residuals by state on a logarithmic axis.",
                Axis("state", whole=True),
                Axis("|residual|", log=True),
                (Series("|residual|", "points", {"x": states, "y": np.maximum(residual, 1e-18)}),),
                command,
            )
        ]
    names = maps["names"]
    return [_slices(maps, names, command), *_rows(maps, names, command)]


def _slices(maps: Mapping[str, Any], names: list[str], command: str) -> Chart:
    slices = maps["slices"]
    numbers = np.concatenate([np.ravel(one["value"]) for one in slices])
    low, high = (float(end) for end in np.quantile(numbers, [0.005, 0.995]))
    several = len({tuple(one["action"]) for one in slices}) > 1

    def facets(one: Mapping[str, Any]) -> dict[str, str]:
        found = {"slice": " and ".join(names[k] for k in one["axes"])}
        return found | {"action": ", ".join(f"{part:g}" for part in one["action"])} if several else found

    controls = [Control("slice", "choose")] if len(names) > 2 else []
    controls += [Control("action", "choose")] if several else []
    if len(names) == 1:
        series = [
            Series(
                f"value {facets(one).get('action', '')}".strip(),
                "line",
                {"x": np.array(one["x"]), "y": np.array(one["value"])},
                facets(one),
            )
            for one in slices
        ]
        return Chart(
            "Value",
            "The fitted value over the states that the rows cover.",
            "The fitted value as a line.",
            Axis(names[0]),
            Axis("value"),
            series,
            command,
            controls=controls,
        )
    series = [
        Series(
            ", ".join(facets(one).values()),
            "map",
            {"x": np.array(one["x"]), "y": np.array(one["y"]), "z": np.array(one["value"], np.float32)},
            facets(one),
            axes=(names[one["axes"][0]], names[one["axes"][1]]),
        )
        for one in slices
    ]
    through = "" if len(names) == 2 else " Slices go through the median state of the rows."
    return Chart(
        "Value map",
        f"The network's value where the rows are (their middle 99 % along each axis).{through}",
        "The fitted value by two parts of the state, as colours or as a surface.",
        Axis("first of the slice" if len(names) > 2 else names[0]),
        Axis("second of the slice" if len(names) > 2 else names[1]),
        series,
        command,
        shade=Axis("value", low=low, high=high),
        controls=controls,
        solid=True,
    )


def _rows(maps: Mapping[str, Any], names: list[str], command: str) -> list[Chart]:
    rows = maps["rows"]
    states = np.array(rows["state"], float)
    pairs = [(0, 0)] if len(names) == 1 else [tuple(one["axes"]) for one in maps["slices"]]
    pairs = list(dict.fromkeys(pairs))
    charts = []
    for name, title, caption in (
        ("residual", "Residual map", "Each point is a row, coloured by the size of its Bellman residual."),
        ("error", "Estimated error", "Each point is a row, coloured by the estimated error of its value."),
    ):
        found = np.array([np.nan if value is None else value for value in rows[name]], float)
        shade = np.log10(np.maximum(np.abs(found), 1e-16))
        series = [
            Series(
                " and ".join(names[k] for k in dict.fromkeys(pair)),
                "points",
                {"x": states[:, pair[0]], "y": states[:, pair[1]], "shade": shade},
                {"slice": " and ".join(names[k] for k in pair)},
                axes=(names[pair[0]], names[pair[1]]),
            )
            for pair in pairs
        ]
        low, high = (float(end) for end in np.nanquantile(shade, [0.02, 0.98]))
        what = "log10 |residual|" if name == "residual" else "log10 of the error"
        charts.append(
            Chart(
                title,
                caption,
                "Points at the rows' states, coloured on a logarithmic scale.",
                Axis("first of the slice" if len(names) > 2 else names[0]),
                Axis("second of the slice" if len(names) > 2 else names[-1]),
                series,
                command,
                shade=Axis(what, low=low, high=max(high, low + 1e-3)),
                controls=[Control("slice", "choose")] if len(names) > 2 else [],
            )
        )
    return charts


def _spectra(diagnosis: Mapping[str, Any], command: str) -> list[Item]:
    series = []
    for name, colour in spread_colours(list(SPECTRA)).items():
        values = np.array(diagnosis["spectra"][name]["values"], float)
        values = np.where(values > 1e-17 * values.max(initial=0), values, np.nan)
        label = SPECTRA[name]
        columns = {"x": np.arange(1.0, len(values) + 1), "y": values}
        series.append(Series(label, "line", columns, {"Jacobian": label}, colour))
    rows = [
        [
            SPECTRA[name],
            str(one["rank"]),
            str(one["rows"]),
            str(one["parameters"]),
            "infinite" if one["condition"] is None else f"{one['condition']:.1e}",
            f"{one['effective_rank']:.1f}",
        ]
        for name, one in diagnosis["spectra"].items()
    ]
    return [
        Chart(
            "Spectrum of the Jacobians",
            "With as many parameters as rows and full rank every critical point has zero residual; a steep "
            "fall says that rows nearly repeat each other, and below 1e-16 of the largest all is rounding.",
            "Falling singular values of three Jacobians on a logarithmic axis.",
            Axis("number, in falling order", whole=True),
            Axis("singular value", log=True),
            series,
            command,
            controls=(Control("Jacobian", "toggle"),),
        ),
        Table("Ranks", ("Jacobian of", "rank", "rows", "parameters", "condition", "effective rank"), rows),
    ]


def _landscape(seen: Mapping[str, Any] | None, command: str) -> list[Item]:
    if not seen:
        return []
    loss = np.log10(np.maximum(np.array(seen["loss"], float), 1e-30)).astype(np.float32)
    first, second = np.array(seen["first"], float), np.array(seen["second"], float)
    low, high = (float(end) for end in np.quantile(loss, [0.001, 0.97]))
    series = [Series("log10 NMSBE", "map", {"x": first, "y": second, "z": loss})]
    for name, colour in spread_colours(list(seen["paths"])).items():
        path = np.array(seen["paths"][name], float).reshape(-1, 2)
        columns = {"x": path[:, 0], "y": path[:, 1]}
        series.append(Series(name, "line", columns, {"path": name}, colour))
    return [
        Chart(
            "Loss around the solution",
            "All methods start from the same weights. The slice goes through the solution of the first, "
            f"along the two directions in which its path goes furthest, {seen['kept']:.0%} of its squared "
            "extent; the other paths are seen from above.",
            "The loss on a plane of weights as colours, with the paths of methods.",
            Axis("along the first direction (weights)", low=float(first[0]), high=float(first[-1])),
            Axis("along the second", low=float(second[0]), high=float(second[-1])),
            series,
            command,
            shade=Axis("log10 NMSBE", low=low, high=high),
            palette="greys",
            controls=(Control("path", "toggle"),),
        )
    ]


def _is_short(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)


def _after(sentence: str) -> str:
    """The sentence without the witness that it names once more."""
    head, _, rest = sentence.partition(": ")
    _, _, after = rest.partition(", ")
    return f"{head}; {after}"
