"""Generalisation on Mountain Car: one network, from 25 to 2,000 samples, tested on a grid it has not seen.

The paper judges by the Bellman error on the grid. The error of the value itself is recorded beside it: the
two disagree, since a Bellman error is amplified by up to 1 / (1 - discount) = 100. Ours, beside it, fits
transitions of 50 steps.
"""

from collections.abc import Mapping

import numpy as np

from gaussbell import figures
from gaussbell.experiments import fits
from gaussbell.experiments.methods import GAUSS_NEWTON, OURS
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Claim, Data, Finding, Study, all_of, select, settings
from gaussbell.numerics.precision import double_throughout
from gaussbell.records.cells import Cell

TRUTH = "truth"
STEP_SIZE, OUR_N_STEP, OUR_ITERATIONS = 0.01, 50, 200
FLOOR = -100.0
"""The value if no sample ever saw a reward: -1 / (1 - discount)."""
CLEARLY = 0.6
"""A spread this much smaller than another is so by more than chance, with eight repetitions or more."""
WHERE = "Section 5.3.1"

TITLE = "Generalisation by number of samples on Mountain Car"
CLAIMS = (
    Claim("many-samples", WHERE, "With 2,000 samples every run ends well, with almost no variance."),
    Claim("fewer-samples", WHERE, "Down to 300 samples the error grows slightly and varies more."),
    Claim("few-samples", WHERE, "With 25 samples the fit is exact and the test error poor."),
    Claim("test-variance-dip", WHERE, "The test error varies less at 150 samples than just below and above."),
    Claim("training-variance", WHERE, "From 125 samples on the training error varies much less."),
    Claim("plateau", WHERE, "The best fit to 25 samples is a plateau near -100."),
    Claim("fifty-samples", WHERE, "From 50 samples on the fit takes the shape of the true value."),
)


def cells(scale: Scale) -> list[Cell]:
    """The paper's fits, ours, and the truth."""
    counts, repetitions, iterations, grid = {
        Scale.SMOKE: ((25, 50, 125, 150, 175, 300, 2000), 2, 5, 20),
        Scale.QUICK: ((25, 50, 100, 125, 150, 175, 300, 500, 2000), 8, 3000, 250),
        Scale.PAPER: ((25, 50, 75, 100, 125, 150, 175, 200, 300, 500, 1000, 2000), 25, 10_000, 500),
    }[scale]
    paper = [
        fits.cell_of(GAUSS_NEWTON, n, k, iterations=iterations, step_size=STEP_SIZE, grid=grid)
        for n in counts
        for k in range(repetitions)
    ]
    few = min(iterations, OUR_ITERATIONS)
    ours = [
        fits.cell_of(OURS, n, k, iterations=few, n_step=OUR_N_STEP, grid=grid)
        for n in counts
        for k in range(repetitions)
    ]
    return [*paper, *ours, fits.cell_of(TRUTH, 0, 0, iterations=1, grid=grid)]


@double_throughout
def measure(cell: Cell) -> Data:
    """A fit, or the truth."""
    return fits.measure_truth() if cell["method"] == TRUTH else fits.measure(cell)


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to here."""
    runs = {n: select(data, method=GAUSS_NEWTON, samples=n) for n in _counts(data)}
    test = {n: np.log10(found.test.values) for n, found in runs.items()}
    training = {n: np.log10(found.training.values) for n, found in runs.items()}
    middle = {n: 10 ** float(np.median(values)) for n, values in test.items()}
    spread = {n: float(values.std()) for n, values in test.items()}
    wide = {n: float(values.std()) for n, values in training.items()}
    few, many = [np.mean([wide[n] for n in wide if (n < 125) == below]) for below in (True, False)]
    exact = 10 ** float(np.median(training[25]))
    levels = np.median(runs[25].surface.values, axis=(1, 2))
    level = float(np.median(_best(runs[25]).surface))
    flat = np.abs(levels - FLOOR) < 0.2
    shaped = {n: float(_best(runs[n]).value_error) for n in runs if n >= 50}
    errors = ", ".join(f"{n}: {error:.2f}" for n, error in shaped.items())
    return {
        "many-samples": Finding(
            f"test NMSBE {middle[2000]:.1e}, log10 varies by {spread[2000]:.2f}", all_of(spread[2000] < 0.15)
        ),
        "fewer-samples": Finding(
            f"test NMSBE {middle[300]:.1e} with 300 against {middle[2000]:.1e}, log10 varies by "
            f"{spread[300]:.2f} against {spread[2000]:.2f}",
            all_of(middle[300] > middle[2000], spread[300] > spread[2000]),
        ),
        "few-samples": Finding(
            f"NMSBE {exact:.1e} in training, {middle[25]:.1e} in the test",
            all_of(exact < 1e-4, middle[25] > 10 * middle[2000]),
        ),
        "test-variance-dip": Finding(
            f"log10 varies by {spread[125]:.2f}, {spread[150]:.2f}, {spread[175]:.2f} with 125, 150, 175",
            all_of(*(spread[150] < share * min(spread[125], spread[175]) for share in (1, CLEARLY))),
        ),
        "training-variance": Finding(
            f"log10 varies by {many:.2f} on average from 125 on, {few:.2f} below", all_of(many < 0.5 * few)
        ),
        "plateau": Finding(
            f"the fit with the smallest test error has its median at {level:.2f}; {flat.sum()} of "
            f"{len(flat)} fits have theirs within 0.2 of -100",
            all_of(abs(level - FLOOR) < 0.2, bool(flat.any())),
        ),
        "fifty-samples": Finding(
            f"RMSE over the standard deviation of the value, best run (a constant has 1): {errors}",
            all_of(*(error < 0.9 for error in shaped.values())),
        ),
    }


def tabulate(data: Data) -> str:
    """Median errors by number of samples, as a Markdown table."""
    lines = [
        "| samples | training NMSBE | test NMSBE | error of the value | ours: test NMSBE | ours: error of "
        "the value |",
        "|---|---|---|---|---|---|",
    ]
    for n in _counts(data):
        paper, ours = (select(data, method=method, samples=n) for method in (GAUSS_NEWTON, OURS))
        columns = [f"{np.median(found):.1e}" for found in (paper.training, paper.test)]
        columns += [f"{np.median(paper.value_error):.2f}", f"{np.median(ours.test):.1e}"]
        lines.append(f"| {n} | {' | '.join(columns)} | {np.median(ours.value_error):.2f} |")
    note = "Medians; the error of the value is its RMSE over the standard deviation of the true one."
    return "\n".join([*lines, "", note, ""])


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """Box plots of the errors, and value surfaces of the best runs."""
    return {"errors": _draw_errors(data), "surfaces": _draw_surfaces(data)}


def _draw_errors(data: Data) -> figures.Figure:
    counts = _counts(data)
    caption = (
        f"Boxes over {len(settings(data, 'repetition'))} repetitions. With more samples the paper's method "
        "fits them less exactly (left), and the Bellman error elsewhere falls (middle). But the error of the "
        "value itself only falls to about 1, that of the best constant (line, right). Transitions of "
        f"{OUR_N_STEP} steps have larger Bellman errors, and values several times better."
    )
    title = "Mountain Car, network (2, 10, 10, 1), 151 parameters: error by number of samples"
    with figures.panels(3, size=(4.6, 3.8), title=title, caption=caption) as (figure, axes):
        panels = (
            ("training", "Training error", "NMSBE"),
            ("test", "Test error, on a grid", "NMSBE"),
            ("value_error", "Error of the value", "RMSE / sd of the value"),
        )
        for panel, (field, name, label) in zip(axes, panels, strict=True):
            for method, colour, shift, text in (
                (GAUSS_NEWTON, figures.BLUE, -0.18, "the paper's method, 1 step"),
                (OURS, figures.PURPLE, 0.18, f"ours, {OUR_N_STEP} steps"),
            ):
                columns = [select(data, method=method, samples=n)[field].values for n in counts]
                figures.boxes(panel, columns, np.arange(len(counts)) + shift, colour, text)
            panel.set_xticks(range(len(counts)), [str(n) for n in counts], rotation=45)
            panel.set(yscale="log", title=name, xlabel="samples", ylabel=label)
        figures.plain_log_ticks(axes[2])
        axes[2].axhline(1.0, color=figures.GREY, lw=0.8)
        axes[0].legend(fontsize=7)
    return figure


def _draw_surfaces(data: Data) -> figures.Figure:
    shown = [n for n in (25, 50, 100, 500, 2000) if n in _counts(data)]
    truth = select(data, method=TRUTH).isel(cell=0)
    low, high = float(truth.surface.min()), float(truth.surface.max())
    caption = (
        "The run with the smallest test error for each number of samples, all on the scale of the true "
        f"value ({low:.2f} to {high:.2f}); darkest and brightest are also what lies beyond. Transitions of "
        f"one step get the range right, not the shape; transitions of {OUR_N_STEP} steps find the jump "
        "along which the car just makes it."
    )
    title = "Mountain Car: value by position and velocity"
    with figures.panels(1 + len(shown), rows=2, size=(2.5, 2.4), title=title, caption=caption) as (
        figure,
        axes,
    ):
        for row, (method, name) in enumerate(((GAUSS_NEWTON, "paper"), (OURS, "ours"))):
            first, *rest = axes[row * (1 + len(shown)) : (row + 1) * (1 + len(shown))]
            tables = [("true value", truth)] + [
                (f"{name}, N = {n}", _best(select(data, method=method, samples=n))) for n in shown
            ]
            for panel, (label, found) in zip([first, *rest], tables, strict=True):
                figures.heat(panel, found.position, found.velocity, found.surface, low, high)
                panel.set(title=label)
            first.set(xlabel="position", ylabel="velocity")
        figure.colorbar(axes[0].collections[0], ax=axes, label="value", shrink=0.6)
    return figure


def _counts(data: Data) -> list[int]:
    return [int(n) for n in settings(data, "samples", method=GAUSS_NEWTON)]


def _best(runs: Data) -> Data:
    return runs.isel(cell=int(np.argmin(runs.test.values)))


STUDY = Study("generalisation", TITLE, CLAIMS, cells, measure, fits.group, fits.cost, check, tabulate, draw)
