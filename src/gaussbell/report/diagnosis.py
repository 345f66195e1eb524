"""What the diagnosis of a fit adds to its report: verdicts, maps, spectra and the landscape."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussbell.report import looks
from gaussbell.report.parts import Axis, Chart, Control, Facts, Item, Series, Table, Words, spread_colours

SPECTRA = {"states": "G, the states", "successors": "G', the successors", "bellman": "G - discount G'"}


def describe_verdicts(diagnosis: Mapping[str, Any]) -> list[Item]:
    """What each reference says of the value."""
    return [
        Words(f"By {name}: {_after(one['sentence'])}", "good" if one["trusted"] else "bad")
        for name, one in diagnosis["assessments"].items()
    ]


def describe_checks(diagnosis: Mapping[str, Any]) -> Facts:
    """What the data and the Jacobian say about it."""
    checks, bellman = diagnosis["checks"], diagnosis["spectra"]["bellman"]
    enough = checks["num_parameters"] >= checks["num_transitions"]
    full = bellman["rank"] == bellman["rows"]
    minima = (
        "every critical point like this has zero residual: no bad minima"
        if enough and full
        else "bad minima can exist"
    )
    facts = {
        "over-parametrisation": f"{checks['num_parameters']} parameters for "
        f"{checks['num_transitions']} samples, {'' if full else 'not '}of full rank: {minima}",
        "curvature": f"largest eigenvalue of the Hessian {diagnosis['curvature']['largest'][0]:.3g}, most "
        f"negative share {diagnosis['curvature']['negative_share']:.1g}",
    }
    if checks.get("reward_grounded") is not None:
        facts["rewards"] = (
            f"{checks['reward_grounded']:.0%} of the transitions are reward-grounded, "
            f"{checks['reward_coverage']:.0%} reach a second reward"
        )
    if checks.get("sup_norm_bound") is not None:
        facts["sup-norm bound"] = f"no value is off by more than {checks['sup_norm_bound']:.3g}"
    return Facts(facts, "Behind the assessment")


def describe_maps(maps: Mapping[str, Any] | None, command: str) -> list[Item]:
    """The value, the residual and the estimated error over the states."""
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
        return found | {"action": _action(one)} if several else found

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
            "The fitted value over the states that the samples cover.",
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
    through = "" if len(names) == 2 else " Slices go through the median state of the samples."
    if not several and len(slices[0]["action"]):
        through += f" The action is {_action(slices[0])}."
    return Chart(
        "Value map",
        f"The network's value where the samples are (their middle 99 % along each axis).{through}",
        "The fitted value by two parts of the state, as colours or as a surface.",
        Axis("first of the slice" if len(names) > 2 else names[0]),
        Axis("second of the slice" if len(names) > 2 else names[1]),
        series,
        command,
        shade=Axis("value", low=low, high=high),
        controls=controls,
        solid=True,
    )


def _action(one: Mapping[str, Any]) -> str:
    return ", ".join(f"{part:g}" for part in one["action"])


def _rows(maps: Mapping[str, Any], names: list[str], command: str) -> list[Chart]:
    rows = maps["rows"]
    states = np.array(rows["state"], float)
    pairs = [(0, 0)] if len(names) == 1 else [tuple(one["axes"]) for one in maps["slices"]]
    pairs = list(dict.fromkeys(pairs))
    charts = []
    for name, title, caption in (
        (
            "residual",
            "Residual map",
            "A point is a transition, its colour the size of the Bellman residual.",
        ),
        (
            "error",
            "Estimated error",
            "A point is a transition, its colour the estimated error of the value.",
        ),
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
                "Points at the transitions' states, coloured on a logarithmic scale.",
                Axis("first of the slice" if len(names) > 2 else names[0]),
                Axis("second of the slice" if len(names) > 2 else names[-1]),
                series,
                command,
                shade=Axis(what, low=low, high=max(high, low + 1e-3)),
                controls=[Control("slice", "choose")] if len(names) > 2 else [],
            )
        )
    return charts


def describe_spectra(diagnosis: Mapping[str, Any], command: str) -> list[Item]:
    """Singular values of the Jacobians, and their ranks."""
    series = []
    for name, colour in spread_colours(list(SPECTRA)).items():
        values = np.array(diagnosis["spectra"][name]["values"], float)
        values = np.where(values > 1e-17 * values.max(initial=0), values, np.nan)
        label = SPECTRA[name]
        columns = {"x": np.arange(1.0, len(values) + 1), "y": values}
        dash = "dash" if name == "bellman" else "solid"  # it often runs along the first
        series.append(Series(label, "line", columns, {"Jacobian": label}, colour, dash))
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
            "With as many parameters as transitions and full rank every critical point has zero residual; "
            "a steep fall says that transitions nearly repeat each other, and below 1e-16 of the largest "
            "all is rounding.",
            "Falling singular values of three Jacobians on a logarithmic axis.",
            Axis("number, in falling order", whole=True),
            Axis("singular value", log=True),
            series,
            command,
            controls=(Control("Jacobian", "toggle"),),
        ),
        Table("Ranks", ("Jacobian of", "rank", "rows", "parameters", "condition", "effective rank"), rows),
    ]


def describe_landscape(seen: Mapping[str, Any] | None, command: str) -> list[Item]:
    """The loss on a slice, with the paths of methods."""
    if not seen:
        return []
    loss = np.log10(np.maximum(np.array(seen["loss"], float), 1e-30)).astype(np.float32)
    first, second = np.array(seen["first"], float), np.array(seen["second"], float)
    low, high = (float(end) for end in np.quantile(loss, [0.001, 0.97]))
    series = [Series("log10 NMSBE", "map", {"x": first, "y": second, "z": loss})]
    for name, colour in (spread_colours(list(seen["paths"])) | looks.METHODS).items():
        if name not in seen["paths"]:
            continue
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


def _after(sentence: str) -> str:
    """The sentence without the reference that it names once more."""
    head, _, rest = sentence.partition(": ")
    _, _, after = rest.partition(", ")
    return f"{head}; {after}"
