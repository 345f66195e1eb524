"""The paper's propositions, checked by numbers: hundreds of starts, and what kind of point each ends at.

A fit runs from many random weights at once until no step lowers the loss. Where it ends, the rank of the
Jacobian, the residual, and the eigenvalues of the true Hessian say what kind of critical point it is. Once
with more parameters than samples and once with fewer; on a random finite process, where the fit is exact, and
on a few samples of Mountain Car. Other cells change the activation, or n_step.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussbell import figures
from gaussbell.experiments.critical_points import (
    ACTIVATIONS,
    BENT,
    CAR,
    FEW,
    FINITE,
    MANY,
    MINIMA,
    RELU,
    SATURATED,
    SIZES,
    STEPS,
    TRANSITIONS,
    measure_minima,
    measure_steps,
)
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Claim, Data, Finding, Study, all_of, by_share, select, settings
from gaussbell.numerics.precision import double_throughout
from gaussbell.records.cells import Cell

NOTHING = 1e-16
"""A loss of this share of that of the zero function counts as none."""
CRITICAL = 1e-5
"""A gradient this small beside |J| |r| belongs to a critical point."""
NEGATIVE = 1e-6
"""An eigenvalue beyond minus this share of the largest is negative."""
WRONG = 0.3
"""A value whose error is more than this share of its standard deviation is wrong."""

TITLE = "The propositions, by numbers"
CLAIMS = (
    Claim(
        "finite", "Proposition 1", "On a finite process, full rank makes every critical point the true value."
    ),
    Claim("sampled", "Proposition 4", "On samples, full rank makes every critical point a zero residual."),
    Claim("few", "Section 3.3", "With fewer parameters than samples suboptimal minima appear."),
    Claim(
        "hessian",
        "Propositions 2, 5",
        "The Hessian is positive semi-definite there, of rank at most the samples.",
    ),
    Claim("bad", "Proposition 3", "Zero residual is no true value: samples leave bad solutions."),
    Claim("activations", "Section 3.3", "Activations with vanishing slope cost rank; Bent-Id keeps it."),
    Claim("steps", "Section 3.4", "Transitions of more steps are better conditioned."),
)


def cells(scale: Scale) -> list[Cell]:
    """Fits by problem, size and activation, all starts of a cell at once; and transitions by n_step."""
    starts, solver_steps = {
        Scale.SMOKE: (8, 40),
        Scale.QUICK: (300, 1000),
        Scale.PAPER: (1000, 3000),
    }[scale]
    common = {"starts": starts, "solver_steps": solver_steps}
    minima = [
        {"part": MINIMA, "problem": problem, "size": size, "activation": activation, **common}
        for problem, size in SIZES
        for activation in (ACTIVATIONS if size == MANY else (BENT,))
    ]
    lengths = [
        {"part": STEPS, "problem": CAR, "n_step": n, "starts": min(starts, 50)} for n in (1, 5, 20, 50, 100)
    ]
    return minima + lengths


@double_throughout
def measure(cell: Cell) -> Data:
    """Where each start ends, or how transitions are conditioned."""
    return measure_minima(cell) if cell["part"] == MINIMA else measure_steps(cell)


def check(data: Data) -> Mapping[str, Finding]:
    """What each proposition comes to."""
    ends = {key: _Ends(_one(data, *key)) for key in SIZES}
    many, few = ([ends[problem, size] for problem in (FINITE, CAR)] for size in (MANY, FEW))
    exact, sampled = many
    rank_after = {
        name: [_Ends(_one(data, problem, MANY, name)) for problem in (FINITE, CAR)] for name in ACTIVATIONS
    }
    full = {name: np.mean([end.full_first for end in found]) for name, found in rank_after.items()}
    first_effective = {
        name: np.mean([end.effective_first for end in found]) for name, found in rank_after.items()
    }
    zero = {name: np.mean([end.zero.mean() for end in found]) for name, found in rank_after.items()}
    lengths = settings(data, "n_step", part=STEPS)
    paths = {n: select(data, part=STEPS, n_step=n).isel(cell=0) for n in lengths}
    condition = {int(n): float(np.nanmedian(found.condition)) for n, found in paths.items()}
    effective = {int(n): float(np.nanmedian(found.effective_rank)) for n, found in paths.items()}
    amplified = {int(n): float(np.nanmedian(found.amplification)) for n, found in paths.items()}
    first, last = min(condition), max(condition)
    curved = exact.psd & exact.thin, sampled.psd & sampled.thin
    wrong = sampled.zero & (sampled.errors > WRONG)
    return {
        "finite": Finding(
            exact.told + f"; largest error of the value there {exact.worst:.1e}", exact.verdict
        ),
        "sampled": Finding(sampled.told, sampled.verdict),
        "few": Finding(
            "; ".join(f"{name}: {end.levels}" for name, end in zip((FINITE, CAR), few, strict=True)),
            all_of(*(end.suboptimal > 0 for end in few)),
        ),
        "hessian": Finding(
            f"of {exact.zero.sum() + sampled.zero.sum()} points with zero residual, "
            f"{sum(int(c[e.zero].sum()) for c, e in zip(curved, many, strict=True))} have both; ranks up to "
            f"{exact.rank_there} for {exact.samples} samples and {sampled.rank_there} for {sampled.samples}",
            by_share(
                sum(c[e.zero].sum() for c, e in zip(curved, many, strict=True))
                / max(1, sum(e.zero.sum() for e in many))
            ),
        ),
        "bad": Finding(
            f"{wrong.sum()} of {sampled.zero.sum()} fits of zero residual to {sampled.samples} samples are "
            f"off by more than {WRONG:g} standard deviations (median {sampled.middle:.1f})",
            all_of(wrong.any()),
        ),
        "activations": Finding(
            "full rank at the start: "
            + ", ".join(f"{name} {share:.0%}" for name, share in full.items())
            + "; effective rank there: "
            + ", ".join(f"{name} {rank:.1f}" for name, rank in first_effective.items())
            + "; zero residual in the end: "
            + ", ".join(f"{name} {share:.0%}" for name, share in zero.items()),
            all_of(
                full[BENT] > 0.95,
                full[RELU] < full[BENT],
                first_effective[SATURATED] < first_effective[BENT],
                zero[RELU] < zero[BENT],
                zero[SATURATED] < zero[BENT],
            ),
        ),
        "steps": Finding(
            f"from {first} to {last} steps a residual is amplified {amplified[last]:.1f} instead of "
            f"{amplified[first]:.0f} times in the values, the effective rank goes from "
            f"{effective[first]:.1f} to {effective[last]:.1f}, the condition from {condition[first]:.0e} to "
            f"{condition[last]:.0e}",
            all_of(
                amplified[last] < 0.1 * amplified[first],
                effective[last] > effective[first],
                condition[last] < condition[first],
            ),
        ),
    }


class _Ends:
    """Where the starts of a cell ended."""

    def __init__(self, found: Data):
        self.samples, self.parameters = int(found.samples), int(found.parameters)
        loss = found.loss.values
        self.errors = found.value_error.values
        self.zero = loss <= NOTHING
        self.critical = self.zero | (found.gradient.values <= CRITICAL)
        self.full = found["rank"].values == self.samples
        self.effective_first = float(np.median(found.first_effective_rank.values))
        self.full_first = float((found.first_rank.values == self.samples).mean())
        self.psd = found.lowest.values >= -NEGATIVE
        self.thin = found.hessian_rank.values <= self.samples
        self._ranks, self._loss = found.hessian_rank.values, loss

    @property
    def rank_there(self) -> int:
        return int(self._ranks[self.zero].max(initial=0))

    @property
    def middle(self) -> float:
        return float(np.median(self.errors[self.zero])) if self.zero.any() else float("inf")

    @property
    def worst(self) -> float:
        return float(self.errors[self.zero].max(initial=0.0))

    @property
    def told(self) -> str:
        good = self.critical & self.full
        return (
            f"{len(self.zero)} starts, {self.parameters} parameters for {self.samples} samples: "
            f"{self.critical.sum()} ended at a critical point, {good.sum()} of full rank, "
            f"{(good & self.zero).sum()} of these with zero residual; {(self.critical & ~self.zero).sum()} "
            "at one that is not zero"
        )

    @property
    def verdict(self) -> Any:
        good = self.critical & self.full
        return by_share(float(self.zero[good].mean()) if good.any() else 0.0)

    @property
    def suboptimal(self) -> int:
        losses = self._loss[self.critical]
        return int((losses > 1.01 * losses.min(initial=np.inf)).sum())

    @property
    def levels(self) -> str:
        losses = self._loss[self.critical & (self._loss > 0)]
        distinct = len({f"{loss:.2e}" for loss in losses})
        return (
            f"{self.parameters} parameters for {self.samples} samples, {len(losses)} critical points of "
            f"{len(self._loss)} starts at {distinct} levels, {self.suboptimal} above the best"
        )


def tabulate(data: Data) -> str:
    """Counts by problem, size and activation as a Markdown table."""
    lines = [
        "| problem | activation | parameters / samples | starts | full rank at first | critical points | of "
        "full rank | zero residual | other levels | true Hessian has no negative eigenvalue |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    found = select(data, part=MINIMA)
    for index in range(found.sizes["cell"]):
        one = found.isel(cell=index)
        end = _Ends(one)
        other = end.critical & ~end.zero
        lines.append(
            f"| {one.problem.item()} | {one.activation.item()} | {end.parameters} / {end.samples} | "
            f"{len(end.zero)} | {end.full_first:.0%} | {end.critical.sum()} | "
            f"{(end.critical & end.full).sum()} | {end.zero.sum()} | {other.sum()} | "
            f"{(end.psd & end.critical).sum()} |"
        )
    note = (
        f"Zero residual: a loss of at most {NOTHING:g} of the zero function's. Critical: the gradient is at "
        f"most {CRITICAL:g} of |J| |r|; starts that ended elsewhere ran out of steps."
    )
    return "\n".join([*lines, "", note, ""])


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """Where starts end, and the conditioning of transitions."""
    caption = (
        "Left: the final loss of every start, sorted. With more parameters than samples nearly all end at "
        "zero (the lowest level is rounding); with fewer, at several levels: suboptimal minima. Middle: "
        "the same with more parameters, by activation. Right: random networks on transitions of Mountain "
        "Car: how much larger an error of the values at the samples can be than the residual that it "
        "leaves. More steps take that from 1 / (1 - discount) = 100 and beyond to a small factor."
    )
    with figures.panels(3, title="The paper's propositions by numbers", caption=caption) as (figure, axes):
        left, middle, right = axes
        for (problem, size), colour in zip(SIZES, figures.PALETTE, strict=False):
            _sorted(left, _one(data, problem, size), f"{problem}, {size}", colour)
        for name, colour in zip(ACTIVATIONS, figures.PALETTE, strict=False):
            _sorted(middle, _one(data, CAR, MANY, name), name, colour)
        left.set(title="Where starts end", xlabel="share of starts", ylabel="loss / that of zero")
        middle.set(
            title="By activation, Mountain Car", xlabel="share of starts", ylabel="loss / that of zero"
        )
        lengths = settings(data, "n_step", part=STEPS)
        columns = [select(data, part=STEPS, n_step=n).isel(cell=0).amplification.values for n in lengths]
        columns = [column[np.isfinite(column)] for column in columns]
        figures.boxes(right, columns, np.arange(len(lengths)), figures.BLUE, "amplification")
        right.set_xticks(range(len(lengths)), [f"{n:g}" for n in lengths])
        right.set(yscale="log", title=f"{TRANSITIONS} transitions of Mountain Car", xlabel="n_step")
        right.set(ylabel="error of values / residual, at most")
        left.legend(fontsize=7)
        middle.legend(fontsize=7)
    return {"propositions": figure}


def _sorted(panel: Any, found: Data, label: str, colour: str) -> None:
    losses = np.sort(np.maximum(found.loss.values, 1e-32))
    panel.semilogy(np.linspace(0, 1, len(losses)), losses, color=colour, label=label)


def _one(data: Data, problem: str, size: str, activation: str = BENT) -> Data:
    return select(data, part=MINIMA, problem=problem, size=size, activation=activation).isel(cell=0)


def _group(cell: Cell) -> Any:
    return [cell["part"], cell["problem"], cell.get("size"), cell.get("activation"), cell.get("n_step")]


def _cost(cell: Cell) -> float:
    return 20.0


STUDY = Study("propositions", TITLE, CLAIMS, cells, measure, _group, _cost, check, tabulate, draw)
