"""Convergence of policy evaluation on Mountain Car: four methods, four step sizes, the same data for all.

The paper's network (2, 10, 10, 1) has 151 parameters for 100 samples. A repetition draws samples and
weights, which all methods share; the paper repeats one draw and lets the rounding of its threads differ.
"""

from collections.abc import Mapping

import numpy as np

from gaussbell import figures
from gaussbell.experiments import fits
from gaussbell.experiments.methods import (
    GAUSS_NEWTON,
    METHODS,
    OURS,
    RESIDUAL_GRADIENT,
    SEMI_GAUSS_NEWTON,
    SEMI_GRADIENT,
)
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Claim, Data, Finding, Study, all_of, by_share, select, settings
from gaussbell.records.cells import Cell

STEP_SIZES = (1.0, 0.1, 0.01, 0.001)
PAPER_SECONDS = {SEMI_GRADIENT: 8.4, RESIDUAL_GRADIENT: 7.6, SEMI_GAUSS_NEWTON: 22.4, GAUSS_NEWTON: 48.5}
"""What the paper states for 10^4 steps."""
MOSTLY = 0.9
"""A share of the repetitions that counts as all but a few."""
ALIKE = 3.0
"""Errors within this factor count as almost the same."""
WHERE = "Section 5.2"

TITLE = "Convergence of four methods of policy evaluation on Mountain Car"
CLAIMS = (
    Claim("semi-gradient-large-steps", WHERE, "With step size 1 semi-gradient methods always diverge."),
    Claim(
        "semi-gradient-small-steps", WHERE, "First-order semi-gradients converge for steps of 0.1 or less."
    ),
    Claim(
        "semi-gauss-newton-diverges",
        WHERE,
        "Second-order semi-gradients diverge sooner or later with every step size.",
    ),
    Claim(
        "semi-hessian-useless",
        WHERE,
        "At 0.001 second-order semi-gradients end no better than first-order residual gradients.",
    ),
    Claim(
        "first-order-alike",
        WHERE,
        "At 0.1 and 0.01 both first-order methods reach almost the same error.",
    ),
    Claim(
        "semi-gradient-beats-residual-gradient",
        WHERE,
        "At 0.01 and 0.001 first-order semi-gradients end as low as residual gradients, or lower.",
    ),
    Claim(
        "gauss-newton-converges",
        WHERE,
        "Residual Gauss-Newton converges in every repetition with every step size, also with 1.",
    ),
    Claim(
        "gauss-newton-orders-lower",
        WHERE,
        "With every step size its final error is orders of magnitude below that of the other methods.",
    ),
    Claim(
        "gauss-newton-dearer",
        WHERE,
        "A residual Gauss-Newton step costs several times a first-order one (48.5 s against 7.6 s).",
    ),
    Claim(
        "gauss-newton-faster-in-all",
        WHERE,
        "It still gets to the first-order methods' final error in less time.",
    ),
)


def cells(scale: Scale) -> list[Cell]:
    """Every method with every step size, and ours, on the same repetitions."""
    repetitions, iterations, grid = {
        Scale.SMOKE: (1, 30, 20),
        Scale.QUICK: (5, 10_000, 250),
        Scale.PAPER: (25, 10_000, 500),
    }[scale]
    paper = [
        fits.cell_of(method, 100, repetition, iterations=iterations, step_size=step_size, grid=grid)
        for method in METHODS
        for step_size in STEP_SIZES
        for repetition in range(repetitions)
    ]
    few = min(iterations, 2000)
    return paper + [fits.cell_of(OURS, 100, k, iterations=few, grid=grid) for k in range(repetitions)]


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to here."""

    def final(method: str, step_size: float) -> np.ndarray:
        runs = select(data, method=method, step_size=step_size)
        return np.where(_lost(runs), np.inf, _last(runs))

    def diverged(method: str, step_size: float) -> float:
        return float(_lost(select(data, method=method, step_size=step_size)).mean())

    shares = {method: [diverged(method, size) for size in STEP_SIZES] for method in METHODS}
    ends = {method: [float(np.median(final(method, size))) for size in STEP_SIZES] for method in METHODS}
    large = [shares[SEMI_GRADIENT][0], shares[SEMI_GAUSS_NEWTON][0]]
    small = [1 - share for share in shares[SEMI_GRADIENT][1:]]
    first = np.array([ends[SEMI_GRADIENT], ends[RESIDUAL_GRADIENT]])
    alike = [float(pair.max() / pair.min()) for pair in first[:, 1:3].T]
    lower = [float(semi / full) for semi, full in first[:, 2:].T]
    useless = ends[SEMI_GAUSS_NEWTON][3] / ends[RESIDUAL_GRADIENT][3]
    rivals = [min(ends[method][k] for method in METHODS if method != GAUSS_NEWTON) for k in range(4)]
    gains = [rival / own for rival, own in zip(rivals, ends[GAUSS_NEWTON], strict=True)]
    settled = [
        bool(
            (
                final(GAUSS_NEWTON, size) < 0.01 * _first(select(data, method=GAUSS_NEWTON, step_size=size))
            ).all()
        )
        for size in STEP_SIZES
    ]
    second, first_order = seconds_per_step(data, GAUSS_NEWTON), seconds_per_step(data, RESIDUAL_GRADIENT)
    target = float(first.min())
    reach = _steps_to(select(data, method=GAUSS_NEWTON, step_size=0.1), target)
    speed = second * reach / (first_order * settings(data, "iterations", method=RESIDUAL_GRADIENT)[-1])
    return {
        "semi-gradient-large-steps": Finding(
            f"diverged: first order {large[0]:.0%}, second order {large[1]:.0%}", by_share(min(large))
        ),
        "semi-gradient-small-steps": Finding(
            f"converged: {_by_size(small, STEP_SIZES[1:], '.0%')}",
            all_of(*(share > MOSTLY for share in small)),
        ),
        "semi-gauss-newton-diverges": Finding(
            f"diverged: {_by_size(shares[SEMI_GAUSS_NEWTON], STEP_SIZES, '.0%')}",
            all_of(*(share > MOSTLY for share in shares[SEMI_GAUSS_NEWTON])),
        ),
        "semi-hessian-useless": Finding(
            f"its median error is {useless:.2g} times theirs", all_of(useless > 1 / ALIKE)
        ),
        "first-order-alike": Finding(
            f"they differ by a factor of {_by_size(alike, STEP_SIZES[1:3], '.2g')}",
            all_of(*(ratio < ALIKE for ratio in alike)),
        ),
        "semi-gradient-beats-residual-gradient": Finding(
            f"semi-gradient over residual gradient: {_by_size(lower, STEP_SIZES[2:], '.2g')}",
            all_of(*(ratio < ALIKE for ratio in lower)),
        ),
        "gauss-newton-converges": Finding(
            f"median NMSBE in the end: {_by_size(ends[GAUSS_NEWTON], STEP_SIZES, '.1e')}", all_of(*settled)
        ),
        "gauss-newton-orders-lower": Finding(
            f"lower than the next best by a factor of {_by_size(gains, STEP_SIZES, '.2g')}",
            all_of(*(gain > 10 for gain in gains)),
        ),
        "gauss-newton-dearer": Finding(
            f"{second / first_order:.1f} times a residual-gradient step (the paper: 6.4)",
            all_of(second > 2 * first_order),
        ),
        "gauss-newton-faster-in-all": Finding(
            f"at step size 0.1 after {reach:g} steps, in {speed:.2g} of their time",
            all_of(speed < 1),
        ),
    }


def tabulate(data: Data) -> str:
    """Final errors by method and step size, and the time of 10^4 steps, as a Markdown table."""
    lines = [
        "| method | "
        + " | ".join(f"step {size:g}" for size in STEP_SIZES)
        + " | seconds, 10^4 steps | paper |",
        "|---|" + "---|" * (len(STEP_SIZES) + 2),
    ]
    for method, paper in PAPER_SECONDS.items():
        entries = []
        for size in STEP_SIZES:
            runs = select(data, method=method, step_size=size)
            lost, count = int(_lost(runs).sum()), runs.sizes["cell"]
            kept = _last(runs)[~_lost(runs)]
            end = f"{np.median(kept):.1e}" if len(kept) else ""
            entries.append(", ".join([end] * bool(end) + [f"{lost} of {count} diverged"] * bool(lost)))
        seconds = 1e4 * seconds_per_step(data, method)
        lines.append(f"| {method} | {' | '.join(entries)} | {seconds:.2g} | {paper:g} |")
    ours = select(data, method=OURS)
    return "\n".join(
        [
            *lines,
            "",
            "Median NMSBE in the end of the runs that did not diverge. Seconds are ours on one core, the "
            f"paper's on 64. Our default solver gets to {np.median(ours.training):.0e} in "
            f"{np.median(ours.used):.0f} steps (medians).",
            "",
        ]
    )


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """The NMSBE over the iterations, a panel a step size."""
    looks = {
        SEMI_GRADIENT: figures.ORANGE,
        RESIDUAL_GRADIENT: figures.GREEN,
        SEMI_GAUSS_NEWTON: figures.VERMILION,
        GAUSS_NEWTON: figures.BLUE,
    }
    repetitions = len(settings(data, "repetition"))
    caption = (
        f"Median of {repetitions} repetitions, and the range of those that have not diverged; a line ends "
        "where half of them have. Dotted, the same in each panel: our default solver behind scaled inputs, "
        "which has no step size. Semi-gradients diverge with large steps, first-order methods stall, and "
        "residual Gauss-Newton goes on with every step size."
    )
    title = "Mountain Car, 100 samples, network (2, 10, 10, 1): Bellman error by iteration"
    with figures.panels(2, rows=2, size=(5.2, 3.3), title=title, caption=caption) as (figure, axes):
        for panel, step_size in zip(axes, STEP_SIZES, strict=True):
            for method, colour in looks.items():
                _band(panel, select(data, method=method, step_size=step_size), method, colour, "-")
            _band(panel, select(data, method=OURS), "ours, no step size", figures.PURPLE, ":")
            panel.set(xscale="log", yscale="log", ylim=(1e-13, 1e4), xlim=(1, None))
            panel.set(title=f"Step size {step_size:g}", xlabel="iteration", ylabel="NMSBE")
        axes[0].legend(fontsize=7, loc="lower left")
    return {"convergence": figure}


def seconds_per_step(data: Data, method: str) -> float:
    """Warm seconds of one step on one core: the median over the fits that used all their steps."""
    runs = select(data, method=method, diverged=0)
    return float(np.median(runs.seconds / runs.used))


def _band(panel: figures.Axes, runs: Data, label: str, colour: str, line: str) -> None:
    table = np.asarray(runs.dropna("iteration", how="all").msbe)
    there = np.asarray(runs.dropna("iteration", how="all").iteration)
    if not len(there):
        return
    middle = np.median(np.where(np.isfinite(table), table, np.inf), axis=0)
    shown = np.isfinite(middle)
    panel.plot(there[shown], middle[shown], color=colour, ls=line, label=label, lw=1.8)
    low, high = np.nanmin(table, axis=0), np.nanmax(table, axis=0)
    panel.fill_between(there, low, high, color=colour, alpha=0.15, lw=0)


def _lost(runs: Data) -> np.ndarray:
    """Which runs diverged: they left the numbers behind, or ended far above where they began."""
    return (runs.diverged.values == 1) | (_last(runs) > 10 * _first(runs))


def _first(runs: Data) -> np.ndarray:
    return np.asarray(runs.msbe.isel(iteration=0))


def _last(runs: Data) -> np.ndarray:
    """The error at the last recorded iteration of each run."""
    return np.array([row[np.isfinite(row)][-1] for row in np.asarray(runs.msbe)])


def _steps_to(runs: Data, target: float) -> float:
    """The median number of steps to an error; infinite for runs that never get there."""
    table, there = np.asarray(runs.msbe), np.asarray(runs.iteration)
    hit = table <= target
    return float(np.median(np.where(hit.any(axis=1), there[hit.argmax(axis=1)], np.inf)))


def _by_size(numbers: list[float], sizes: tuple[float, ...], form: str) -> str:
    texts = [f"{number:{form}}" if np.isfinite(number) else "infinity" for number in numbers]
    return ", ".join(f"{text} ({size:g})" for text, size in zip(texts, sizes, strict=True))


STUDY = Study("convergence", TITLE, CLAIMS, cells, fits.measure, fits.group, fits.cost, check, tabulate, draw)
