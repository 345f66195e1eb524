"""A study: its claims, its cells at each scale, how a cell is measured, checked and drawn."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussbell.experiments.scale import Scale
from gaussbell.figures import Figure
from gaussbell.records.cells import Cell, xarray
from gaussbell.sweeps.sweep import Sweep

Data = xarray.Dataset


class Verdict(enum.StrEnum):
    """What our measurement says about a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"


def count_verdicts(verdicts: Sequence[str]) -> str:
    """How many claims got which verdict, in words."""
    plural = {Verdict.HOLDS: "hold", Verdict.IN_PART: "hold in part", Verdict.FAILS: "do not hold"}
    counts = {verdict: list(verdicts).count(verdict) for verdict in Verdict}
    told = [f"{count} {verdict if count == 1 else plural[verdict]}" for verdict, count in counts.items()]
    return f"{len(verdicts)} claims: {', '.join(told)}."


class Claim(NamedTuple):
    """What the paper says, in our words, and where; or what we say, beyond it."""

    name: str
    where: str
    says: str


class Finding(NamedTuple):
    """What was measured about a claim."""

    measured: str
    verdict: Verdict


BEYOND = "beyond the paper"
"""Where a claim of our own stands."""


class Study(NamedTuple):
    """An experiment, of the paper or of our own; the file that defines it says what each part is.

    Attributes:
        name, title: What it is called on the command line, and on pages.
        claims: What it is to show.
        cells: The settings of every run at a scale.
        measure: Runs a cell.
        group, cost: What decides which programs are compiled, and about the seconds of a cell.
        check: What each claim comes to.
        tabulate, draw: The cells as a Markdown table, and as figures.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    cells: Callable[[Scale], list[Cell]]
    measure: Callable[[Cell], Data]
    group: Callable[[Cell], Any]
    cost: Callable[[Cell], float]
    check: Callable[[Data], Mapping[str, Finding]]
    tabulate: Callable[[Data], str]
    draw: Callable[[Data], Mapping[str, Figure]]

    def sweep(self, scale: Scale) -> Sweep:
        """The study as a sweep; every file says what it is for."""
        about = {
            "experiment": self.name,
            "title": self.title,
            "scale": str(scale),
            "claims": {claim.name: claim.says for claim in self.claims},
        }
        return Sweep(self.cells(scale), self.measure, name_of, self.group, self.cost, about)

    def findings(self, data: Data) -> list[tuple[Claim, Finding]]:
        """Every claim with what was measured."""
        found = self.check(data)
        return [(claim, found[claim.name]) for claim in self.claims]


def name_of(cell: Cell) -> str:
    """A cell's file, after its settings."""
    return "_".join(
        f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "-") for value in cell.values()
    )


def select(data: Data, **wanted: Any) -> Data:
    """The cells with these settings."""
    keep = np.ones(data.sizes["cell"], bool)
    for name, value in wanted.items():
        keep &= np.asarray(data[name] == value)
    return data.isel(cell=np.flatnonzero(keep))


def settings(data: Data, name: str, **wanted: Any) -> list[Any]:
    """The values that a setting takes among the cells, in rising order."""
    found = np.unique(select(data, **wanted)[name])
    return [value for value in found.tolist() if not _is_missing(value)]


def _is_missing(value: Any) -> bool:
    return value == "" or (isinstance(value, float) and np.isnan(value))


def by_share(share: float) -> Verdict:
    """How a claim that something happens always is judged by how often it did."""
    if share >= 0.95:
        return Verdict.HOLDS
    return Verdict.IN_PART if share > 0.05 else Verdict.FAILS


def all_of(*parts: bool | np.bool) -> Verdict:
    """A claim of several parts holds if all do, and in part if some do."""
    assert parts
    if all(parts):
        return Verdict.HOLDS
    return Verdict.IN_PART if any(parts) else Verdict.FAILS
