"""Architectures on Mountain Car: depth, width and number of samples, and the line "parameters = samples".

The paper names few of its widths; these span its range, up to about 1,000 parameters at each depth. The
errors depend on the number of iterations, which the paper does not state.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from scipy.stats import rankdata

from gaussbell import figures
from gaussbell.experiments import fits
from gaussbell.experiments.methods import GAUSS_NEWTON, OURS
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Claim, Data, Finding, Study, all_of, by_share, select
from gaussbell.records.cells import Cell

STEP_SIZE, OUR_N_STEP, OUR_ITERATIONS = 0.01, 50, 200
PAPER_LEVELS = (-4.994, -4.697)
"""log10 of the training error that the paper reads off along the line, for two and three hidden layers."""
EXACT = -6.0
"""log10 of a training error that counts as an exact fit."""
WHERE = "Section 5.3.2"

TITLE = "Architectures and numbers of samples on Mountain Car"
CLAIMS = (
    Claim(
        "isolines",
        WHERE,
        "Equal training error follows parameters = samples: what counts is their ratio.",
    ),
    Claim(
        "level",
        WHERE,
        "Along that line, with two and three hidden layers, log10 of the training error is -4.994 to -4.697.",
    ),
    Claim("exact-above", WHERE, "Exact fits happen only with more parameters than samples."),
    Claim("best-near-line", WHERE, "For large networks the smallest test errors reach up to that line."),
    Claim("more-data", WHERE, "For every network more data give a smaller test error."),
    Claim("largest-worst", WHERE, "With 50 samples the largest networks have the largest test error."),
    Claim("small-networks", WHERE, "Small networks need as many samples as large ones for their best error."),
)


def cells(scale: Scale) -> list[Cell]:
    """The paper's fits, and ours."""
    widths, counts, repetitions, iterations, grid = {
        Scale.SMOKE: ({1: (2, 6), 2: (2, 6), 3: (2, 4)}, (50, 100), 1, 5, 20),
        Scale.QUICK: (
            {1: (12, 40, 120), 2: (5, 10, 20), 3: (4, 8, 14)},
            (50, 100, 200, 500, 1000),
            2,
            1000,
            250,
        ),
        Scale.PAPER: (
            {
                1: (6, 12, 25, 50, 75, 125, 175, 250),
                2: (4, 6, 8, 10, 14, 18, 22, 28),
                3: (4, 6, 8, 10, 12, 15, 18, 20),
            },
            (50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000),
            10,
            10_000,
            500,
        ),
    }[scale]

    def every(method: str, repetitions: int, **options) -> Iterator[Cell]:
        for depth, choices in widths.items():
            for width in choices:
                for n in counts:
                    for k in range(repetitions):
                        sizes = (2, *[width] * depth, 1)
                        yield fits.cell_of(method, n, k, sizes=sizes, grid=grid, **options)

    few = min(iterations, OUR_ITERATIONS)
    return [
        *every(GAUSS_NEWTON, repetitions, iterations=iterations, step_size=STEP_SIZE),
        *every(OURS, max(1, repetitions // 2), iterations=few, n_step=OUR_N_STEP),
    ]


def table(data: Data, method: str, depth: int, field: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log10 of the mean error over repetitions by (network, samples), with parameters and samples."""
    runs = select(data, method=method)
    runs = runs.isel(cell=np.flatnonzero([text.count("-") == depth + 1 for text in runs.network.values]))
    parameters, counts = np.unique(runs.parameters), np.unique(runs.samples)
    means = [
        [float(np.log10(select(runs, parameters=p, samples=n)[field].mean())) for n in counts]
        for p in parameters
    ]
    return np.array(means), parameters, counts


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to here."""
    ranks, levels, exact, near, more, argmin, worst = {}, {}, [], [], [], [], []
    for depth in (1, 2, 3):
        training, parameters, counts = table(data, GAUSS_NEWTON, depth, "training")
        test = table(data, GAUSS_NEWTON, depth, "test")[0]
        ratio = np.log(parameters[:, None] / counts)
        ranks[depth] = _rank_correlation(ratio, training)
        levels[depth] = [
            float(np.interp(np.log(p), np.log(counts), row))
            for p, row in zip(parameters, training, strict=True)
            if counts[0] <= p <= counts[-1]
        ]
        exact += [bool(r > 0) for r in ratio[training <= EXACT]]
        at_line = np.interp(np.log(parameters[-1]), np.log(counts), test[-1])
        near.append(at_line - test[-1].min())
        more += (test[:, -1] < test[:, 0]).tolist()
        worst.append(test[-1, 0] >= test[:, 0].max())
        argmin.append((counts[test[0].argmin()], counts[test[-1].argmin()]))
    deep = [level for depth in (2, 3) for level in levels[depth]] or [np.nan]
    low, high = min(deep), max(deep)
    said = ", ".join(f"{rho:.2f} ({depth})" for depth, rho in ranks.items())
    excess = ", ".join(f"{10**factor:.1f} ({depth})" for depth, factor in zip((1, 2, 3), near, strict=True))
    best = ", ".join(
        f"{small} against {large} ({depth})" for depth, (small, large) in zip((1, 2, 3), argmin, strict=True)
    )
    return {
        "isolines": Finding(
            f"rank correlation of training error and parameters / samples, by hidden layers: {said}",
            all_of(*(rho < -0.8 for rho in ranks.values())),
        ),
        "level": Finding(
            f"log10 from {low:.2f} to {high:.2f}",
            all_of(high - low < 0.6, abs((low + high) / 2 - np.mean(PAPER_LEVELS)) < 0.5),
        ),
        "exact-above": Finding(
            f"{sum(exact)} of {len(exact)} networks with log10 below {EXACT:g} have more parameters than "
            "samples",
            by_share(float(np.mean(exact)) if exact else 0.0),
        ),
        "best-near-line": Finding(
            f"test error on the line over the smallest, largest network, by hidden layers: {excess}",
            all_of(*(factor < np.log10(3) for factor in near)),
        ),
        "more-data": Finding(
            f"with the most samples below that with the fewest for {sum(more)} of {len(more)} networks",
            by_share(float(np.mean(more))),
        ),
        "largest-worst": Finding(f"so for {sum(worst)} of 3 depths", all_of(*worst)),
        "small-networks": Finding(
            f"best number of samples of the smallest and the largest network, by hidden layers: {best}",
            all_of(*(small >= large / 2 for small, large in argmin)),
        ),
    }


def tabulate(data: Data) -> str:
    """log10 of the training and test error by network and samples, as a Markdown table."""
    counts = table(data, GAUSS_NEWTON, 1, "training")[2]
    lines = [
        "| hidden layers, parameters | " + " | ".join(f"N = {n:g}" for n in counts) + " |",
        "|---|" + "---|" * len(counts),
    ]
    for depth in (1, 2, 3):
        training, parameters, _ = table(data, GAUSS_NEWTON, depth, "training")
        test = table(data, GAUSS_NEWTON, depth, "test")[0]
        for p, errors, tests in zip(parameters, training, test, strict=True):
            entries = [f"{a:.2f}, {b:.2f}" for a, b in zip(errors, tests, strict=True)]
            lines.append(f"| {depth}, {p:g} | {' | '.join(entries)} |")
    return "\n".join([*lines, "", "log10 of the mean training and test NMSBE.", ""])


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """Contours of training and test error for the paper's fits, and the error of the value for both."""
    caption = (
        "log10 of the mean error; dots are what was run, the line is where parameters equal samples. "
        "Training errors follow the line, exact fits lie above it, and test errors fall with more samples. "
        "Third column: the error of the value (RMSE over its standard deviation; a constant has 0) hardly "
        f"falls with transitions of one step. Last column: ours, transitions of {OUR_N_STEP} steps."
    )
    title = "Mountain Car: architectures"
    columns = (
        (GAUSS_NEWTON, "training", "training NMSBE"),
        (GAUSS_NEWTON, "test", "test NMSBE"),
        (GAUSS_NEWTON, "value_error", "value error"),
        (OURS, "value_error", "value error, ours"),
    )
    with figures.panels(4, rows=3, size=(3.3, 2.7), title=title, caption=caption) as (figure, axes):
        for column, (method, field, name) in enumerate(columns):
            tables = [table(data, method, depth, field) for depth in (3, 2, 1)]
            shared = tables
            if field == "value_error":
                shared = [table(data, m, depth, field) for m in (GAUSS_NEWTON, OURS) for depth in (1, 2, 3)]
            levels = figures.contour_levels([found[0] for found in shared])
            for row, (depth, (height, parameters, counts)) in enumerate(zip((3, 2, 1), tables, strict=True)):
                panel = axes[4 * row + column]
                drawn = figures.contours(panel, counts, parameters, height, levels)
                low, high = counts[0], counts[-1]
                panel.plot([low, high], [low, high], color="black", lw=1.5)
                panel.set(xlim=(low, high), ylim=(parameters[0], parameters[-1]))
                panel.set(title=f"{name}, depth {depth}")
                panel.set(xlabel="samples", ylabel="parameters")
                figure.colorbar(drawn, ax=panel, label="log10", ticks=levels[::2], format="%.1f")
    return {"architectures": figure}


def _rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


STUDY = Study(
    "architectures", TITLE, CLAIMS, cells, fits.measure, fits.group, fits.cost, check, tabulate, draw
)
