"""The section of a sweep: its claims and charts if it is a study, else every number by every setting."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gaussbell.experiments import reproduction
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Claim, Finding, Study, Verdict, settings
from gaussbell.report.parts import (
    Axis,
    Badge,
    Bar,
    Chart,
    Control,
    Facts,
    Item,
    Picture,
    Section,
    Series,
    Table,
    Words,
)
from gaussbell.report.studies import CHARTS

MOST_VALUES = 12
"""Values of a setting that are listed."""
MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""What reading a record raises that is not as we write them."""
TONES: dict[str, Any] = {"holds": "good", "holds in part": "fair", "does not hold": "bad"}


class SweepReport(NamedTuple):
    """A section, and the claims with what was measured, if all cells are there."""

    name: str
    section: Section
    claims: Sequence[Any]
    cells: int
    total: int | None
    scale: str


def describe(folder: Path, data: Any, anchor: str, total: int | None) -> SweepReport:
    """What the cells of a sweep say; `total`, how many there will be, where that is known."""
    about = json.loads(data.attrs["about"])
    study = reproduction.STUDIES.get(about.get("experiment", ""))
    scale = _scale(about)
    count = int(data.sizes["cell"])
    total = planned_cells(about) or total
    strange = _strange_cells(folder, study, scale)
    whole = total is not None and count >= total and not strange
    command = _command(folder, study, scale, about)
    claims = study.findings(data) if study is not None and whole else []
    title = str(about.get("title") or about.get("experiment") or folder.name)
    if scale is not None:
        title = f"{title} ({scale})"
    items: list[Item] = []
    if strange:
        listed = ", ".join(strange[:MOST_VALUES])
        items.append(Words(f"Not cells of this study as it is now: {listed}. Remove them.", "bad"))
    if not whole and total is not None:
        items.append(Bar("cells", count, total))
        if study is not None:
            items.append(Words("Verdicts come when all cells are there.", "fair"))
    if claims:
        items.append(_verdicts(claims))
    draws = CHARTS[study.name] if study is not None else (chart_numbers,)
    items += [_drawn(draw, data, command, whole) for draw in draws]
    items.append(_settings(data))
    items.append(_origin(folder, data, command))
    name = str(about.get("experiment") or folder.name)
    return SweepReport(name, Section(anchor, title, items), claims, count, total, str(scale or ""))


def describe_verdicts(
    folder: Path, name: str, scale: str, kept: Mapping[str, Any], anchor: str
) -> SweepReport:
    """A study whose cells are elsewhere: the verdicts and the figures that were made of them."""
    claims = [
        (
            Claim(one["name"], one["where"], one["says"]),
            Finding(one["measured"], Verdict(one["verdict"])),
        )
        for one in kept["claims"]
    ]
    command = f"gaussbell reproduce {name} --scale {scale} --out {folder.parent.parent}"
    items: list[Item] = [
        Words(
            f"The cells are not here, so these are figures as they were drawn; `{command}` makes them anew."
        ),
        _verdicts(claims),
    ]
    for path in (folder / f"{title}.png" for title in kept.get("figures", ())):
        if path.is_file():
            png = base64.b64encode(path.read_bytes()).decode("ascii")
            items.append(Picture(path.stem, f"{kept['title']}: {path.stem}", png))
    facts = {"cells": f"{kept['cells']:,}, {kept['core_minutes']} core-minutes", "made by": command}
    items.append(Facts(facts, "Where it comes from"))
    cells = int(kept["cells"])
    return SweepReport(
        name, Section(anchor, f"{kept['title']} ({scale})", items), claims, cells, cells, scale
    )


def planned_cells(about: dict[str, Any]) -> int | None:
    """How many cells a study has, by what its cells say they are of; None for other sweeps."""
    study, scale = reproduction.STUDIES.get(about.get("experiment", "")), _scale(about)
    return None if study is None or scale is None else len(study.cells(scale))


def _strange_cells(folder: Path, study: Study | None, scale: Scale | None) -> list[str]:
    """Cells that the study does not have: of another version of it."""
    if study is None or scale is None:
        return []
    sweep = study.sweep(scale)
    planned = {sweep.name(cell) for cell in sweep.cells}
    return sorted(path.stem for path in (folder / "cells").glob("*.nc") if path.stem not in planned)


def chart_numbers(data: Any, command: str) -> Chart:
    """Any sweep: every number that was measured, by every setting that varies, as boxes."""
    names = [
        str(name)
        for name, found in data.data_vars.items()
        if found.dims == ("cell",) and found.dtype.kind in "fiub"
    ]
    varied = [name for name in _setting_names(data) if len(np.unique(data[name])) > 1] or _setting_names(
        data
    )[:1]
    series = []
    for name in names:
        for setting in varied:
            values = data[setting].values
            columns = {"x": values, "y": data[name].values.astype(float)}
            label, facets = f"{name} by {setting}", {"number": name, "setting": setting}
            series.append(Series(label, "box", columns, facets, axes=(setting, name)))
    return Chart(
        "Numbers by setting",
        "Every number that the cells hold, by a setting that varies; points are cells.",
        "Box plots of a chosen number by a chosen setting.",
        Axis("setting"),
        Axis("number"),
        series,
        command,
        controls=(Control("number", "choose"), Control("setting", "choose")),
    )


def verdict_badge(verdict: str) -> Badge:
    """A verdict with its colour."""
    return Badge(verdict, TONES.get(verdict, "plain"))


def _drawn(draw: Any, data: Any, command: str, whole: bool) -> Item:
    """A chart, or the words that it cannot be drawn: of a part of the cells, or of damaged ones."""
    try:
        return draw(data, command)
    except MALFORMED as error:
        name = draw.__name__.replace("_", " ")
        if not whole:
            return Words(f"The chart of {name} appears when more cells are there.")
        return Words(f"The chart of {name} cannot be drawn: {type(error).__name__}: {error}", "bad")


def _verdicts(claims: Sequence[Any]) -> Table:
    rows = [
        [claim.says, claim.where, finding.measured, verdict_badge(str(finding.verdict))]
        for claim, finding in claims
    ]
    return Table("Claims", ("claim", "where", "measured", "verdict"), rows)


def _setting_names(data: Any) -> list[str]:
    return [str(name) for name, found in data.coords.items() if found.dims == ("cell",) and name != "seconds"]


def _settings(data: Any) -> Facts:
    rows = {}
    for name in _setting_names(data):
        values = settings(data, name)
        texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        more = f" and {len(texts) - MOST_VALUES} more" if len(texts) > MOST_VALUES else ""
        rows[name.replace("_", " ")] = ", ".join(texts[:MOST_VALUES]) + more
    return Facts(rows, "Settings")


def _origin(folder: Path, data: Any, command: str) -> Facts:
    seconds = float(data.seconds.sum())
    versions = [json.loads(text) for text in data.attrs["versions"]]
    return Facts(
        {
            "cells": f"{data.sizes['cell']:,}, {seconds / 60:.1f} core-minutes",
            "folder": str(folder),
            "made by": command,
            "versions": "; ".join(", ".join(f"{k} {v}" for k, v in one.items()) for one in versions),
        },
        "Where it comes from",
    )


def _scale(about: dict[str, Any]) -> Scale | None:
    try:
        return Scale(about["scale"])
    except (KeyError, ValueError):
        return None


def _command(folder: Path, study: Study | None, scale: Scale | None, about: dict[str, Any]) -> str:
    if study is None or scale is None:
        return str(about.get("command", "gaussbell.sweeps.run_sweep"))
    return f"gaussbell reproduce {study.name} --scale {scale} --out {folder.parent.parent}"
