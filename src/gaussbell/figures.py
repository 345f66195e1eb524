"""The house style, and the few plots that all figures are made of. Needs matplotlib."""

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussbell.records.files import write_atomically

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
except ImportError as error:
    raise ImportError("Figures need matplotlib: pip install 'gaussbell[figures]'.") from error

# Okabe and Ito's palette, which people with any colour vision can tell apart.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
GREY = "#666666"
PALETTE = (BLUE, ORANGE, GREEN, VERMILION, PURPLE)

STYLE: dict[Any, Any] = {
    "figure.dpi": 150,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
}


@contextlib.contextmanager
def panels(
    count: int, *, title: str, caption: str, rows: int = 1, size: tuple[float, float] = (4.6, 4.2)
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with `rows` rows of `count` panels of a size in inches, a title above and a caption below."""
    with matplotlib.rc_context(STYLE):
        width, height = size[0] * count, size[1] * rows
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        caption = textwrap.fill(caption, width=int(14 * width))
        figure.supxlabel(caption, x=0.01, ha="left", fontsize=8, color=GREY)
        yield figure, list(figure.subplots(rows, count, squeeze=False).ravel())


def falling_curve(axes: Axes, curve: Sequence[float], *, label: str, colour: str, marker: str) -> None:
    """One run on a logarithmic axis, a mark for each step."""
    axes.semilogy(np.arange(len(curve)), curve, color=colour, marker=marker, ms=3, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def falling_curves(axes: Axes, curves: Sequence[Any], *, label: str, colour: str) -> None:
    """Many runs on a logarithmic axis, each thin, and their median bold.

    A run that ended counts in the median with its last positive number.
    """
    table = np.empty((len(curves), max(len(curve) for curve in curves)))
    for row, curve in zip(table, curves, strict=True):
        positive = [y for y in curve if y > 0]
        row[: len(positive)] = positive
        row[len(positive) :] = positive[-1]
        axes.semilogy(positive, color=colour, alpha=0.35, lw=0.7)
    axes.semilogy(np.median(table, axis=0), color=colour, lw=2.2, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def successive_errors(axes: Axes, curves: Sequence[Any], *, label: str, colour: str, marker: str) -> None:
    """Each error against the one before it, on logarithmic axes: the slope is the order of convergence."""
    before = [y for curve in curves for y in curve[:-1]]
    after = [y for curve in curves for y in curve[1:]]
    axes.loglog(before, after, marker, color=colour, ms=3.5, alpha=0.45, mec="none", label=label)


def boxes(axes: Axes, columns: Sequence[Any], places: Any, colour: str, label: str) -> None:
    """A narrow box plot of each column, from the smallest to the largest."""
    drawn = axes.boxplot(
        list(columns),
        positions=places,
        widths=0.3,
        whis=(0, 100),
        patch_artist=True,
        manage_ticks=False,
        medianprops={"color": "black"},
        boxprops={"facecolor": colour, "edgecolor": colour, "alpha": 0.75},
        whiskerprops={"color": colour},
        capprops={"color": colour},
    )
    drawn["boxes"][0].set_label(label)


def heat(axes: Axes, x: Any, y: Any, table: Any, low: float, high: float) -> Any:
    """A table of numbers by x (rows) and y as colours between two bounds."""
    axes.grid(visible=False)
    return axes.pcolormesh(
        np.asarray(x),
        np.asarray(y),
        np.asarray(table).T,
        cmap="cividis",
        vmin=low,
        vmax=high,
        shading="nearest",
        rasterized=True,
    )


def plain_log_ticks(axes: Axes) -> None:
    """A logarithmic y-axis of a decade or so, with numbers as one writes them."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())


def contour_levels(tables: Sequence[np.ndarray], count: int = 9) -> np.ndarray:
    """Levels that span all tables, without their outermost twentieths."""
    numbers = np.concatenate([table.ravel() for table in tables])
    low, high = np.nanquantile(numbers[np.isfinite(numbers)], [0.05, 0.95])
    return np.linspace(low, max(high, low + 1e-3), count)


def contours(axes: Axes, x: Any, y: Any, table: np.ndarray, levels: np.ndarray) -> Any:
    """Filled contours of a table by y (rows) and x on logarithmic axes, with a dot for each number."""
    drawn = axes.contourf(x, y, table, levels=levels, cmap="cividis", extend="both")
    dots = {"color": "white", "ms": 2.6, "mec": "black", "mew": 0.4, "clip_on": False}
    axes.plot(*(np.ravel(part) for part in np.meshgrid(x, y)), "o", **dots)
    axes.set(xscale="log", yscale="log")
    axes.minorticks_off()
    for ticks, numbers in ((axes.set_xticks, x), (axes.set_yticks, y)):
        few = numbers[:: max(1, len(numbers) // 5)]
        ticks(few, [f"{number:g}" for number in few])
    axes.grid(visible=False)
    return drawn


def draw_evaluation(record: dict[str, Any]) -> Figure:
    """The record of an evaluation on a finite chain: convergence, and learned beside exact values."""
    settings, result, values = record["settings"], record["result"], record["values"]
    learned, exact = np.asarray(values["learned"]), np.asarray(values["exact"])
    ended = result["status"].lower().replace("_", " ")
    caption = (
        f"MLP {tuple(settings['sizes'])}, seed {settings['seed']}: {ended} after {result['steps']} steps at "
        f"NMSBE {result['msbe']:.1e}. Left: on the logarithmic axis a straight line is linear convergence, "
        "a bend downwards is quadratic. Right: crosses inside circles are right values (largest error "
        f"{result['value_error']:.1e})."
    )
    title = f"{settings['problem'].capitalize()}: policy evaluation by {settings['solver']}"
    with panels(2, title=title, caption=caption) as (figure, (left, right)):
        history = record["history"]
        falling_curve(left, history["msbe"], label="NMSBE", colour=BLUE, marker="o")
        falling_curve(left, history["gradient_norm"], label="norm of its gradient", colour=ORANGE, marker="s")
        left.set(title="Convergence", xlabel="step", ylabel="NMSBE; gradient norm")
        left.legend()
        states = np.arange(len(exact))
        right.plot(states, exact, "o", ms=11, mfc="none", color=GREY, label="exact")
        right.plot(states, learned, "x", ms=6, color=VERMILION, label="learned")
        right.set(title="Value by state", xlabel="state", ylabel="value (discounted reward)", xticks=states)
        right.legend()
    return figure


def draw_values(record: dict[str, Any]) -> Figure:
    """The record of an evaluation of Mountain Car: the true value, the learned one, and their difference."""
    settings, result = record["settings"], record["result"]
    true, learned = np.asarray(record["true"]), np.asarray(record["learned"])
    position, velocity = (np.asarray(axis) for axis in record["axes"])
    difference = learned - true
    far = max(float(np.quantile(np.abs(difference), 0.995)), 1e-12)
    bounds = float(true.min()), float(true.max())
    by = "the network alone"
    if settings["look_ahead"]:
        by = f"the network after {settings['look_ahead']} simulated steps"
    caption = (
        "The value jumps along curves: on one side the car still makes it over the hill, on the other it "
        f"needs another swing. Middle: {by}, fitted to {settings['samples']:,} transitions with n_step "
        f"{settings['n_step']}, on the same scale as the truth. Right: what remains lies along the jumps "
        f"(colours end at the largest 0.5 %). Root mean squared error {result['relative_error']:.3f} "
        f"standard deviations of the value, {result['relative_error_without_look_ahead']:.3f} without "
        "looking ahead."
    )
    title = "Mountain Car, pushed along its velocity: discounted reward from every state"
    with panels(3, title=title, caption=caption) as (figure, axes):
        shown = (
            (true, "True value, by simulation", "cividis", bounds),
            (learned, "Learned value", "cividis", bounds),
            (difference, "Difference", "PuOr", (-far, far)),
        )
        for panel, (table, name, colours, (low, high)) in zip(axes, shown, strict=True):
            mesh = panel.pcolormesh(
                position,
                velocity,
                table.T,
                cmap=colours,
                vmin=low,
                vmax=high,
                shading="nearest",
                rasterized=True,
            )
            panel.set(title=name, xlabel="position", ylabel="velocity per step")
            panel.grid(visible=False)
            figure.colorbar(
                mesh, ax=panel, label="value" if name != "Difference" else "learned - true", pad=0.02
            )
    return figure


def draw_offline(record: dict[str, Any]) -> Figure:
    """The record of an off-policy evaluation: the estimate with its interval, and how the fit went."""
    result, seen = record["result"], record["assessment"]["checks"]
    verdict = " ".join(result["warnings"]) or "No check speaks against it."
    caption = (
        f"{result['logged_steps']:,} logged steps, of which {seen['action_match_rate']:.0%} do what the "
        "policy would do. Dots are refits to resampled episodes, the bar is the confidence interval. "
        f"{verdict}"
    )
    with panels(2, title="Value of the policy at the start, from logged steps", caption=caption) as (
        figure,
        axes,
    ):
        left, right = axes
        refits = np.asarray(result["bootstrap"], float)
        heights = np.linspace(0.7, 1.3, len(refits))
        left.plot(refits, heights, "o", color=BLUE, alpha=0.6, label="bootstrap")
        if result["interval"] is not None:
            label = f"{result['level']:.0%} confidence interval"
            left.plot(result["interval"], [0.4, 0.4], "-", color=BLUE, lw=3, label=label)
        left.plot([result["value"]], [0.4], "D", color=VERMILION, label="estimate")
        left.plot([seen["neighbour_value"]], [0.1], "s", color=GREY, label="nearest neighbours")
        left.set(title="Estimate", xlabel="value (discounted reward)", yticks=[], ylim=(-0.2, 1.9))
        left.legend(loc="upper left", ncols=2)
        falling_curve(right, record["history"]["msbe"], label="NMSBE", colour=BLUE, marker="o")
        right.set(title="Convergence of the fit", xlabel="step", ylabel="NMSBE")
    return figure


def draw_audit(record: dict[str, Any]) -> Figure:
    """The record of an audit: returns over a critic's values, and both along the episode."""
    result = record["result"]
    caption = (
        f"{result['assessment']['sentence']} Left: visited states, and the means of tenths of them; a right "
        "value lies on the dashed line in the mean. Right: means by age, with twice the standard error."
    )
    title = f"A critic in {record['settings']['problem']}, beside returns"
    with panels(2, title=title, caption=caption) as (figure, axes):
        left, right = axes
        sample, groups, ages = result["sample"], result["by_value"], result["by_age"]
        left.plot(sample["value"], sample["returned"], ".", color=GREY, alpha=0.3, ms=3, label="critic")
        if "ours" in sample:
            left.plot(sample["ours"], sample["returned"], ".", color=BLUE, alpha=0.3, ms=3, label="our fit")
        ends = [min(sample["returned"]), max(sample["returned"])]
        left.plot(ends, ends, "--", color="black", lw=1, label="right")
        predicted, returned = ([group[name] for group in groups] for name in ("predicted", "returned"))
        left.plot(predicted, returned, "o-", color=VERMILION, label="critic, tenths")
        left.set(title="Value and return of states", xlabel="value", ylabel="return (discounted reward)")
        left.legend()
        at, predicted, returned, error = (
            np.array([group[name] for group in ages], float)
            for name in ("at", "predicted", "returned", "error")
        )
        right.errorbar(
            at, returned, 2 * np.nan_to_num(error, posinf=0), color=BLUE, marker="o", label="returns"
        )
        right.plot(at, predicted, "o-", color=VERMILION, label="critic")
        right.set(title="Along the episode", xlabel="steps since the start", ylabel="mean value")
        right.legend()
    return figure


def draw_sweeps(record: dict[str, Any]) -> Figure:
    """The record of policy iteration: the score of each sweep's roll-outs, and where the transitions went."""
    runs, task = record["runs"], record["task"] or {}
    problem, solved = record["settings"]["problem"], sum(run["status"] == "SOLVED" for run in runs)
    goal = task.get("at_least")
    bound = task.get("within", task.get("length")) if goal is None else goal
    key, name = ("returns", "return of an episode") if goal is not None else ("steps", "steps of an episode")
    caption = (
        f"{solved} of {len(runs)} runs solved. Left: mean of the roll-outs after each sweep, with their "
        "range; filled marks are policies that were kept, the dashed line is the goal. Right: every "
        "simulated step, by its purpose."
    )
    with panels(2, title=f"Policy iteration: {problem}", caption=caption) as (figure, (left, right)):
        for run in runs:
            table = np.array([sweep[key] for sweep in run["history"]], float).reshape(-1, 3)
            kept = np.array([sweep["accepted"] for sweep in run["history"]], bool)
            number = np.arange(1, len(table) + 1)
            alone = len(runs) == 1
            if alone:
                left.fill_between(number, table[:, 1], table[:, 2], color=BLUE, alpha=0.2, lw=0)
            left.plot(number, table[:, 0], color=BLUE, alpha=1 if alone else 0.4)
            left.plot(number[kept], table[kept, 0], "o", color=BLUE, ms=4, alpha=1 if alone else 0.4)
            left.plot(number[~kept], table[~kept, 0], "o", color=BLUE, mfc="white", ms=4)
        if bound is not None:
            left.axhline(bound, color=VERMILION, ls="--", lw=1, label=f"goal: {bound:g}")
            left.legend(loc="best")
        left.set(title="Roll-outs", xlabel="sweep", ylabel=name)
        left.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        base, places = np.zeros(len(runs)), np.arange(len(runs))
        for purpose, colour in zip(runs[0]["transitions"], (BLUE, ORANGE, GREEN), strict=True):
            counts = np.array([run["transitions"][purpose] for run in runs], float)
            right.bar(places, counts, bottom=base, color=colour, label=purpose, width=0.7)
            base += counts
        right.set(
            title="Simulated steps", xlabel="seed", ylabel="transitions", ylim=(0, 1.25 * max(1, base.max()))
        )
        right.set_xticks(places, [str(run["seed"]) for run in runs])
        right.legend(loc="upper left", ncols=3)
    return figure


def draw_spectra(record: dict[str, Any]) -> Figure:
    """The record of a diagnosis: singular values of the Jacobians, and the eigenvalues of the Hessian."""
    spectra, checks = record["spectra"], record["checks"]
    bellman = spectra["bellman"]
    caption = (
        f"{checks['num_parameters']} parameters, {checks['num_transitions']} samples; the Bellman Jacobian "
        f"has rank {bellman['rank']}, effectively {bellman['effective_rank']:.1f}. With as many parameters "
        "as samples and full rank every critical point has zero residual; a steep fall says that samples "
        "nearly repeat each other, and below 1e-16 of the largest all is rounding."
    )
    names = {"states": "G, the states", "successors": "G', the successors", "bellman": "G - discount G'"}
    title = "Diagnosis: the Jacobians at the solution"
    with panels(1, title=title, caption=caption, size=(6.4, 4.2)) as (figure, (panel,)):
        for (name, label), colour, style in zip(names.items(), PALETTE, ("-", "--", "-."), strict=False):
            values = np.asarray(spectra[name]["values"])
            panel.semilogy(np.arange(1, len(values) + 1), values, style, color=colour, label=label)
        panel.axvline(checks["num_transitions"], color=GREY, lw=0.8, ls=":")
        panel.set_ylim(bottom=1e-17 * max(one["values"][0] for one in spectra.values()))
        panel.set(title="Singular values", xlabel="number, in falling order", ylabel="singular value")
        panel.legend()
    return figure


def draw_landscape(record: dict[str, Any]) -> Figure:
    """The record of a diagnosis: the loss on a slice through the solution, and the paths of methods."""
    seen = record["landscape"]
    first, second = np.asarray(seen["first"]), np.asarray(seen["second"])
    loss = np.log10(np.maximum(np.asarray(seen["loss"], float), 1e-30))
    caption = (
        "All methods start from the same weights (square). Left: the slice goes through the solution of the "
        f"first (star), along the two directions in which its path goes furthest, {seen['kept']:.0%} of its "
        "squared extent; the other paths are seen from above, cut where they leave the picture. Right: the "
        "loss along each path; curves that leave the picture diverge."
    )
    looks = list(zip(seen["paths"], (*PALETTE, GREY), ("-", "--", "-.", ":", "-"), strict=False))
    with panels(2, title="Loss around the solution", caption=caption, size=(5.2, 4.6)) as (figure, axes):
        left, right = axes
        low, high = np.quantile(loss, [0.001, 0.97])
        levels = np.linspace(low, high, 24)
        drawn = left.contourf(first, second, loss, levels=levels, cmap="Greys", extend="both", alpha=0.85)
        for name, colour, style in looks:
            path = np.asarray(seen["paths"][name], float).reshape(-1, 2)
            left.plot(path[:, 0], path[:, 1], style, color=colour, lw=1.6, label=name)
            losses = np.asarray(seen["losses"][name], float)
            right.plot(np.arange(len(losses)), losses, style, color=colour, label=name)
        start = np.asarray(next(iter(seen["paths"].values())), float)[0]
        left.plot(*start, "s", color="black", ms=7, mfc="white")
        left.plot(0, 0, "*", color="black", ms=12, mfc="white")
        left.set(xlim=(first[0], first[-1]), ylim=(second[0], second[-1]), title="Slice and paths")
        left.set(xlabel="along the first direction (weights)", ylabel="along the second")
        left.grid(visible=False)
        figure.colorbar(drawn, ax=left, label="log10 NMSBE", shrink=0.8, format="%.1f")
        right.set(yscale="log", title="Loss on the way", xlabel="step", ylabel="NMSBE")
        right.set_ylim(top=1e3 * float(next(iter(seen["losses"].values()))[0]))
        right.legend(fontsize=7.5)
    return figure


def save(figure: Figure, path: Path) -> Path:
    """Write a figure; the file appears whole or not at all."""
    path = Path(path)
    return write_atomically(path, lambda file: figure.savefig(file, format=path.suffix[1:]))
