"""The first section of a report: the verdicts on all claims, and ways to the rest."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussbell.experiments.study import count_verdicts
from gaussbell.report import sweeps
from gaussbell.report.parts import Axis, Badge, Chart, Colour, Item, Link, Section, Series, Table, Words


def describe_all(
    sections: Sequence[Section], swept: Sequence[sweeps.SweepReport], trouble: Sequence[str]
) -> Section:
    """The first section: what could not be read, verdicts, and what else is there."""
    items: list[Item] = [Words(line, "bad") for line in trouble]
    claims = [(report, *pair) for report in swept for pair in report.claims]
    if claims:
        items.append(Words(count_verdicts([finding.verdict for _, _, finding in claims])))
        items.append(_count_verdicts([report for report in swept if report.claims]))
        rows = [
            [
                Link(report.name, report.section.anchor),
                claim.says,
                finding.measured,
                sweeps.verdict_badge(str(finding.verdict)),
            ]
            for report, claim, finding in claims
        ]
        items.append(Table("Verdicts", ("experiment", "claim", "measured", "verdict"), rows))
    others = [
        section
        for section in sections
        if not any(report.section is section and report.claims for report in swept)
    ]
    if others:
        rows = [[Link(section.title, section.anchor), _state(section, swept)] for section in others]
        items.append(Table("Also here", ("section", "state"), rows))
    return Section("overview", "Overview", items)


def _count_verdicts(swept: Sequence[sweeps.SweepReport]) -> Chart:
    """How many claims of each experiment got which verdict."""
    colours: dict[str, Colour] = {"holds": "green", "holds in part": "orange", "does not hold": "vermilion"}
    places = np.arange(float(len(swept)))
    mixed = len({one.scale for one in swept}) > 1
    names = [f"{one.name} ({one.scale})" if mixed and one.scale else one.name for one in swept]
    verdicts = [[str(finding.verdict) for _, finding in one.claims] for one in swept]
    series = [
        Series(
            name, "bar", {"x": places, "y": np.array([float(v.count(name)) for v in verdicts])}, {}, colour
        )
        for name, colour in colours.items()
    ]
    return Chart(
        "Verdicts by experiment",
        "How many claims hold, hold in part, or do not, as measured here; the table below has each.",
        "Stacked bars of the number of claims by verdict, one bar for each experiment.",
        Axis("experiment", labels=names),
        Axis("claims"),
        series,
        "gaussbell check",
        stacked=True,
    )


def _state(section: Section, swept: Sequence[sweeps.SweepReport]) -> Any:
    for report in swept:
        if report.section is section:
            total = "" if report.total is None else f" of {report.total}"
            return f"{report.cells}{total} cells"
    tones = [item.tone for item in section.items if isinstance(item, Words)]
    said = (Badge("see what it says", "bad"), Badge("with a remark", "fair"), Badge("fine", "good"))
    return next((badge for badge in said if badge.tone in tones), "")
