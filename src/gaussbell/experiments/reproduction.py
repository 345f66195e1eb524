"""Studies together: the paper's, those of when a value is right, and those beyond both.

`summarise` makes one record of what the cells say; the page and the comparison with what is expected need
that record alone.
"""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from gaussbell import records
from gaussbell.experiments import (
    architectures,
    assessments,
    control,
    convergence,
    endings,
    generalisation,
    noise,
    policy_iteration,
    propositions,
    star,
    values,
)
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Study, count_verdicts


class Group(NamedTuple):
    """Studies that are run and told together.

    Attributes:
        page: The file of the page that tells them, without its suffix; also what `make` calls it.
        title, about: The page's title and first words.
    """

    page: str
    title: str
    about: str
    studies: dict[str, Study]


def _named(*modules: Any) -> dict[str, Study]:
    return {module.STUDY.name: module.STUDY for module in modules}


GROUPS = {
    "all": Group(
        "reproduction",
        "The paper's experiments, run again",
        "Every experiment of Gottwald, Gronauer, Shen and Diepold, *Analysis and Optimisation of Bellman "
        "Residual\nErrors with Neural Function Approximation*, with a verdict on what it says, in our words.",
        _named(star, convergence, generalisation, architectures, policy_iteration),
    ),
    "diagnostics": Group(
        "diagnostics",
        "When is a value right?",
        "The paper's propositions checked by numbers, and how well our assessments predict the true error.",
        _named(propositions, assessments),
    ),
    "beyond": Group(
        "beyond",
        "Beyond the paper",
        "How good the value is, what noise does to it, and what policy iteration takes.",
        _named(values, noise, control, endings),
    ),
}
"""By what stands for them on the command line."""
STUDIES = {name: study for group in GROUPS.values() for name, study in group.studies.items()}
EXPECTED = "expected.json"
"""The verdicts that are known, by scale, study and claim: a change of them is news."""


def group_of(name: str) -> Group:
    """The group of a study."""
    return next(group for group in GROUPS.values() if name in group.studies)


def folder_of(out: Path, scale: Scale, name: str) -> Path:
    """Where a study's cells and figures are."""
    return out / scale / name


def summarise(study: Study, scale: Scale, data: Any) -> dict[str, Any]:
    """What a study found, as a record."""
    return {
        "title": study.title,
        "scale": str(scale),
        "cells": int(data.sizes["cell"]),
        "core_minutes": round(float(data.seconds.sum()) / 60, 1),
        "claims": [
            {**claim._asdict(), "measured": finding.measured, "verdict": str(finding.verdict)}
            for claim, finding in study.findings(data)
        ],
        "table": study.tabulate(data),
    }


def verdicts(studies: Mapping[str, Any]) -> dict[str, str]:
    """The verdict on each claim of some studies."""
    return {
        f"{name}/{claim['name']}": claim["verdict"]
        for name, study in studies.items()
        for claim in study["claims"]
    }


def changes(scale: str, found: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Claims whose verdict is not the expected one: what was expected, and what was found.

    Nothing is expected of studies that were not run before at this scale.
    """
    expected = expectations().get(scale, {})
    known = {_study_of(claim) for claim in expected}
    return {
        claim: (expected.get(claim, "nothing"), verdict)
        for claim, verdict in found.items()
        if _study_of(claim) in known and expected.get(claim) != verdict
    }


def _study_of(claim: str) -> str:
    return claim.partition("/")[0]


def expectations() -> dict[str, dict[str, str]]:
    """The verdicts that are known, by scale and claim."""
    text = resources.files("gaussbell.experiments").joinpath(EXPECTED).read_text(encoding="utf-8")
    return json.loads(text)


def expect(scale: str, found: Mapping[str, str]) -> Path:
    """Make these verdicts the expected ones; for who works on gaussbell."""
    known = expectations()
    known[scale] = known.get(scale, {}) | dict(found)
    return records.write(Path(str(resources.files("gaussbell.experiments"))) / EXPECTED, known)


def page(record: Mapping[str, Any], folder: str) -> str:
    """The record of studies of one group as a page of Markdown.

    Args:
        folder: Where its figures are, as seen from the page.
    """
    held = list(verdicts(record["studies"]).values())
    minutes = sum(study["core_minutes"] for study in record["studies"].values())
    group = group_of(next(iter(record["studies"])))
    scale = "" if record["scale"] == Scale.QUICK else f" SCALE={record['scale']}"
    missing = [name for name in group.studies if name not in record["studies"]]
    lines = [
        f"# {group.title}",
        "",
        f"{group.about} Of {count_verdicts(held)}",
        "",
        f"Scale: {record['scale']}, {minutes:.0f} core-minutes. `make {group.page}{scale}` writes this page "
        "anew.",
        "",
        *([f"Not run in full at this scale: {', '.join(missing)}.", ""] if missing else []),
    ]
    for name, study in record["studies"].items():
        lines += [
            f"## {study['title']}",
            "",
            "| claim | where | measured | verdict |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {claim['says']} | {claim['where']} | {claim['measured']} | **{claim['verdict']}** |"
            for claim in study["claims"]
        ]
        lines += ["", study["table"].rstrip("\n"), ""]
        for figure in study["figures"]:
            lines += [f"![{study['title']}: {figure}]({folder}/{name}/{figure}.png)", ""]
    return "\n".join(lines)
