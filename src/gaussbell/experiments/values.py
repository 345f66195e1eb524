"""Mountain Car: how good is the value? A small residual is not enough; the number of steps decides.

Two questions. With 2,000 samples, how far does each number of steps get, beside a supervised fit of the
same network to the true values? And with a budget of simulated steps, how close does `steps="auto"` come to
the best number of steps, which nobody knows beforehand? Every cell is a file, so a run can be interrupted
and goes on where it stopped.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import gaussbell as gb
from gaussbell import figures, records
from gaussbell.experiments.cells import run_cells, select
from gaussbell.numerics.precision import double_throughout

LAMBDA, SUPERVISED, AUTO = "lambda", "supervised", "auto"
PLAIN, FEATURED = "(2, 20, 20, 1)", "(7, 20, 20, 1), features"


class Settings(NamedTuple):
    """What is run."""

    samples: int = 2000
    steps: tuple[Any, ...] = (1, 5, 20, 50, 100, 200, LAMBDA, SUPERVISED)
    networks: tuple[str, ...] = (PLAIN, FEATURED)
    seeds: tuple[int, ...] = (900, 901, 902, 903, 904)
    lambda_: float = 0.99
    look_ahead: int = 50
    max_steps: int = 200
    grid: int = 500
    budgets: tuple[int, ...] = (5_000, 20_000, 100_000)
    budget_steps: tuple[Any, ...] = (1, 2, 5, 10, 20, 50, 100, 200, AUTO)
    budget_seeds: tuple[int, ...] = (910, 911, 912, 913, 914)


@double_throughout
def run(settings: Settings, folder: Path, on_progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """All cells that are not in `folder` yet, and then the whole record."""
    told = on_progress or (lambda text: None)
    car = gb.environments.MountainCar()

    @functools.cache
    def truth() -> Any:
        told("truth by simulation")
        return gb.monte_carlo.value_on_grid(car, car.along_velocity, (settings.grid, settings.grid))

    rows = run_cells(
        list_cells(settings),
        folder,
        lambda cell: _measure(settings, car, truth(), cell),
        name=_name,
        shape=_shape,
        told=told,
    )
    return {
        "experiment": "values",
        "settings": settings._asdict(),
        "versions": records.versions(),
        "cells": rows,
    }


def list_cells(settings: Settings) -> list[dict[str, Any]]:
    """Every fit: a network, a number of steps, a seed, and a number of samples or a budget."""
    by_samples = [
        {"network": network, "steps": steps, "seed": seed, "budget": None}
        for network in settings.networks
        for steps in settings.steps
        for seed in settings.seeds
    ]
    by_budget = [
        {"network": PLAIN, "steps": steps, "seed": seed, "budget": budget}
        for budget in settings.budgets
        for steps in settings.budget_steps
        for seed in settings.budget_seeds
    ]
    return by_samples + by_budget


def summarise(record: dict[str, Any]) -> str:
    """The record as tables for people."""
    settings, cells = record["settings"], record["cells"]
    ahead = settings["look_ahead"]
    lines = [
        f"| steps, {settings['samples']:,} samples | "
        + " | ".join(f"{network} | look-ahead {ahead}" for network in settings["networks"])
        + " |",
        "|---|" + "---|---|" * len(settings["networks"]),
    ]
    for steps in settings["steps"]:
        entries = []
        for network in settings["networks"]:
            found = select(cells, network=network, steps=steps, budget=None)
            entries += [_spread(found, "error"), _spread(found, "error_ahead")]
        lines.append(f"| {steps} | " + " | ".join(entries) + " |")
    lines += [
        "",
        "| budget | auto | best fixed steps, by seed | auto over best | estimated over true error |",
    ]
    lines += ["|---|---|---|---|---|"]
    for budget in settings["budgets"]:
        auto = select(cells, budget=budget, steps=AUTO)
        ratios, best = compare_auto(cells, budget)
        honest = np.array([cell["estimate"] / cell["error"] for cell in auto])
        lines.append(
            f"| {budget:,} | {_spread(auto, 'error')}, n = "
            f"{', '.join(str(cell['chosen']) for cell in auto)} | "
            f"{np.median(best):.3f} | {np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | "
            f"{np.median(honest):.2f} ({honest.min():.2f} to {honest.max():.2f}) |"
        )
    lines += [
        "",
        "Root mean squared error over the grid divided by the standard deviation of the true value: median",
    ]
    lines[-1] += " (smallest to largest) of five seeds."
    return "\n".join(lines) + "\n"


def compare_auto(cells: list[dict[str, Any]], budget: int) -> tuple[list[float], list[float]]:
    """For each seed the error of "auto" over that of the best fixed number of steps, and the latter."""
    ratios, best = [], []
    for cell in select(cells, budget=budget, steps=AUTO):
        fixed = [
            other["error"]
            for other in select(cells, budget=budget, seed=cell["seed"])
            if other["steps"] != AUTO
        ]
        best.append(min(fixed))
        ratios.append(cell["error"] / min(fixed))
    return ratios, best


def draw(record: dict[str, Any]) -> figures.Figure:
    """The error against the number of steps, by samples and by budget."""
    settings, cells = record["settings"], record["cells"]
    caption = (
        f"Left: {settings['samples']:,} samples. One step leaves the value as bad as a constant (1) or "
        f"worse; with 50 "
        "to 200 steps the fit is about as good as a supervised one to the true values (dashed), and "
        "simulating "
        f"{settings['look_ahead']} steps at query time divides the error by three or more (open "
        f"marks). Right: with a "
        "budget of simulated steps longer paths mean fewer rows, so the best number moves; squares are what "
        '"auto" reached by held-out paths, at the number it chose. Medians of five seeds; bars span all.'
    )
    with figures.panels(2, title="Mountain Car: the error of the value", caption=caption) as (
        figure,
        (left, right),
    ):
        numbers = [steps for steps in settings["steps"] if not isinstance(steps, str)]
        colours = (figures.BLUE, figures.VERMILION)
        for network, colour in zip(settings["networks"], colours, strict=True):
            found = [select(cells, network=network, steps=steps, budget=None) for steps in numbers]
            _bars(left, numbers, found, "error", colour, "o", network)
            _bars(
                left,
                numbers,
                found,
                "error_ahead",
                colour,
                "o",
                f"the same, look-ahead {settings['look_ahead']}",
            )
            floor = np.median(
                [c["error"] for c in select(cells, network=network, steps=SUPERVISED, budget=None)]
            )
            left.axhline(floor, color=colour, ls="--", lw=1)
        left.set(title="By number of steps", xlabel="steps of a transition", ylabel="RMSE / sd of the value")
        left.legend(fontsize=7)
        palette = (figures.ORANGE, figures.GREEN, figures.BLUE)
        for budget, colour in zip(settings["budgets"], palette, strict=True):
            numbers = [steps for steps in settings["budget_steps"] if steps != AUTO]
            found = [select(cells, budget=budget, steps=steps) for steps in numbers]
            _bars(right, numbers, found, "error", colour, "o", f"{budget:,} simulated steps")
            auto = select(cells, budget=budget, steps=AUTO)
            right.loglog(
                [c["chosen"] for c in auto], [c["error"] for c in auto], "s", ms=8, mfc="none", color=colour
            )
        right.set(title="By budget", xlabel="steps of a transition", ylabel="RMSE / sd of the value")
        right.legend(fontsize=7)
        for axes in (left, right):
            axes.axhline(1.0, color=figures.GREY, lw=0.8)
            ticks = [1, 2, 5, 10, 20, 50, 100, 200]
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
            levels = [0.03, 0.1, 0.3, 1, 3]
            axes.set_yticks(levels, [str(level) for level in levels])
    return figure


def _measure(settings: Settings, car: Any, truth: Any, cell: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    seed, steps = cell["seed"], cell["steps"]
    network = _network(car, cell["network"], seed)
    if steps == SUPERVISED:
        learned, extra = _supervised(settings, car, network, seed)
    else:
        horizon = gb.LambdaReturn(settings.lambda_) if steps == LAMBDA else steps
        budget = cell["budget"]
        if budget is None:
            longest = int(horizon.horizons()[-1]) if steps == LAMBDA else steps
            budget = settings.samples * longest
        found = gb.evaluate_policy(
            car,
            car.along_velocity,
            network,
            budget=budget,
            n_step=horizon,
            key=seed,
            max_steps=settings.max_steps,
        )
        learned = found.network
        spread = truth.value.std()
        extra = {
            "estimate": found.value_error / spread,
            "chosen": found.n_step if steps == AUTO else steps,
            "rows": len(found.transitions),
            "simulated": found.simulated,
            "status": found.status.name,
            "solver_steps": int(found.steps),
        }
    seconds = time.perf_counter() - started
    few = slice(None, None, 25)  # look-ahead on every 25th point of the grid
    ahead = gb.monte_carlo.look_ahead(learned, car, car.along_velocity, truth.state[few], settings.look_ahead)
    return {
        "error": _relative(np.asarray(learned(truth.state)), truth.value),
        "error_ahead": float(np.sqrt(np.mean((ahead - truth.value[few]) ** 2)) / truth.value.std()),
        "seconds": round(seconds, 2),
        **extra,
    }


def _supervised(settings: Settings, car: Any, network: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """A fit to true values at as many states, stopped by the error at others: the floor of this network."""
    keys = jax.random.split(jax.random.key(seed))
    states = [
        car.sample_states(count, key=key) for count, key in zip((settings.samples, 1024), keys, strict=True)
    ]
    values = [gb.monte_carlo.returns(car, car.along_velocity, state) for state in states]
    data = gb.Transitions(states[0], values[0], states[0], discount=0.0)
    if type(network) is gb.MLP:
        network = gb.FeatureNetwork(gb.features.Scale(car.low, car.high), network)
    fit = gb.evaluate(
        network,
        data,
        solver=gb.LevenbergMarquardt(),
        scale_output=True,
        max_steps=settings.max_steps,
        validation=lambda learned: _relative(np.asarray(learned(states[1])), values[1]),
    )
    return fit.network, {"status": fit.status.name, "solver_steps": int(fit.steps)}


def _network(car: Any, kind: str, seed: int) -> Any:
    if kind == PLAIN:
        return gb.MLP((2, 20, 20, 1), key=seed)
    return gb.FeatureNetwork(car.features(car.along_velocity), gb.MLP((7, 20, 20, 1), key=seed))


def _relative(learned: np.ndarray, value: np.ndarray) -> float:
    return float(np.sqrt(np.mean((learned - value) ** 2)) / value.std())


def _bars(axes, numbers, found, field, colour, marker, label) -> None:
    errors = np.array([[cell[field] for cell in cells] for cells in found])
    middle = np.median(errors, axis=1)
    around = np.abs(np.stack([errors.min(axis=1), errors.max(axis=1)]) - middle)
    fill = "none" if field == "error_ahead" else colour
    line = ":" if field == "error_ahead" else "-"
    axes.errorbar(
        numbers, middle, around, color=colour, marker=marker, mfc=fill, ls=line, ms=5, capsize=2, label=label
    )
    axes.set(xscale="log", yscale="log")


def _spread(cells: list[dict[str, Any]], field: str) -> str:
    errors = [cell[field] for cell in cells]
    return f"{np.median(errors):.3f} ({min(errors):.3f} to {max(errors):.3f})"


def _shape(cell: dict[str, Any]) -> tuple[Any, ...]:
    return cell["network"], cell["steps"], cell["budget"]


def _name(cell: dict[str, Any]) -> str:
    size = "plain" if cell["network"] == PLAIN else "featured"
    budget = f"budget{cell['budget']}" if cell["budget"] else "samples"
    return f"{size}-{budget}-{cell['steps']}-{cell['seed']}"
