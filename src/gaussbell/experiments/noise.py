"""Noise: a single drawn successor biases the fit; several, or all of them, do not.

With M independent successors the expected square of a residual is the square of its mean plus the variance
of the successors' values divided by M. Minimising it flattens the values, by an amount that falls as 1 / M.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

import gaussbell as gb
from gaussbell import figures, records
from gaussbell.numerics.precision import double_throughout


class Settings(NamedTuple):
    """What is run."""

    successors: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    seeds: tuple[int, ...] = (700, 701, 702, 703, 704)
    states: int = 10
    rows: int = 5000
    car_noise: float = 0.005
    car_successors: tuple[int, ...] = (1, 2, 4, 8, 16)
    car_seeds: tuple[int, ...] = (700, 701, 702)
    car_rows: int = 1000
    car_steps: int = 20
    grid: int = 40
    samples: int = 200


@double_throughout
def run(settings: Settings, on_progress: Any = None) -> dict[str, Any]:
    """All fits, as a record."""
    told = on_progress or (lambda text: None)
    chain_rows = []
    for seed in settings.seeds:
        for count in settings.successors:
            told(f"finite process, seed {seed}, {count} successors")
            chain_rows.append(
                {"seed": seed, "successors": count, "error": _finite_error(settings, seed, count)}
            )
    car = gb.environments.MountainCar(noise=settings.car_noise)
    told("noisy Mountain Car: truth by simulation")
    truth = gb.monte_carlo.value_on_grid(
        car, car.along_velocity, (settings.grid, settings.grid), samples=settings.samples, key=1
    )
    car_rows = []
    for seed in settings.car_seeds:
        for steps in (1, settings.car_steps):
            for count in settings.car_successors:
                told(f"noisy Mountain Car, seed {seed}, {steps} steps, {count} successors")
                error = _car_error(settings, car, truth, seed, steps, count)
                car_rows.append({"seed": seed, "steps": steps, "successors": count, "error": error})
    return {
        "experiment": "noise",
        "settings": settings._asdict(),
        "versions": records.versions(),
        "finite": chain_rows,
        "exact": [_exact_error(settings, seed) for seed in settings.seeds],
        "frozen_lake": _frozen_lake_error(),
        "mountain_car": car_rows,
        "slope": _slope(chain_rows, settings),
    }


def summarise(record: dict[str, Any]) -> str:
    """The record as a table for people."""
    settings = record["settings"]
    short, long = 1, settings["car_steps"]
    lines = [
        f"| successors | finite process | Mountain Car, {short} step | Mountain Car, {long} steps |",
        "|---|---|---|---|",
    ]
    for count in settings["successors"]:
        finite = _median(record["finite"], successors=count)
        cars = ["", ""]
        if count in settings["car_successors"]:
            cars = [
                f"{_median(record['mountain_car'], successors=count, steps=steps):.3g}"
                for steps in (short, long)
            ]
        lines.append(f"| {count} | {finite:.3g} | {cars[0]} | {cars[1]} |")
    lines += [
        f"| all, with probabilities | {max(record['exact']):.1e} | | |",
        "",
        "Root mean squared error of the value over its standard deviation, medians of "
        f"{len(settings['seeds'])} and {len(settings['car_seeds'])} seeds. In the finite process the "
        "error of the last four falls as successors to the power "
        f"{record['slope']:.2f}, with fewer more slowly. "
        "Slippery FrozenLake with all successors: largest error "
        f"{record['frozen_lake']:.1e}.",
    ]
    return "\n".join(lines) + "\n"


def draw(record: dict[str, Any]) -> figures.Figure:
    """The bias against the number of successors."""
    settings = record["settings"]
    counts = np.array(settings["successors"])
    caption = (
        "Left: values of all states of a random finite process, each fitted freely, from rows with so "
        "many drawn "
        f"successors. The bias falls towards slope -1 (measured over the last four: "
        f"{record['slope']:.2f}); with all "
        f"successors and their probabilities the error is {max(record['exact']):.0e}. Right: a "
        f"Mountain Car with "
        "random pushes and a network. With one step and one successor, the usual residual gradient, "
        "the value is "
        "worse than a constant (grey), and more successors do not help; with more steps they do."
    )
    with figures.panels(2, title="A single drawn successor biases the fit", caption=caption) as (
        figure,
        axes,
    ):
        left, right = axes
        for seed in settings["seeds"]:
            rows = [row["error"] for row in record["finite"] if row["seed"] == seed]
            left.loglog(counts, rows, color=figures.BLUE, alpha=0.35, lw=0.8)
        medians = np.array([_median(record["finite"], successors=count) for count in counts])
        left.loglog(counts, medians, "o-", color=figures.BLUE, label="several drawn successors, median")
        left.loglog(counts, medians[0] / counts, ":", color=figures.GREY, label="1 / successors")
        left.loglog(
            counts[:1], medians[:1], "s", ms=9, mfc="none", color=figures.VERMILION, label="single sample"
        )
        left.set(title="Finite process", xlabel="successors a row", ylabel="error of the value / its sd")
        left.legend(fontsize=7)
        for steps, colour, marker in (
            (1, figures.VERMILION, "s"),
            (settings["car_steps"], figures.BLUE, "o"),
        ):
            few = settings["car_successors"]
            medians = [_median(record["mountain_car"], successors=count, steps=steps) for count in few]
            label = f"{steps} step{'s' if steps > 1 else ''}"
            right.loglog(few, medians, f"{marker}-", color=colour, label=label)
        right.axhline(1.0, color=figures.GREY, lw=1, label="best constant")
        right.set(title="Noisy Mountain Car", xlabel="successors a row", ylabel="error of the value / its sd")
        right.legend(fontsize=7)
        for axis, shown in ((left, counts), (right, settings["car_successors"])):
            axis.set_xticks(shown, [str(count) for count in shown])
            levels = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]
            axis.set_yticks(levels, [str(level) for level in levels])
            low, high = axis.get_ylim()
            axis.set_ylim(low, 1.3 * high)
            axis.minorticks_off()
    return figure


def _process(settings: Settings, seed: int) -> gb.FiniteMDP:
    return gb.environments.RandomMDP(settings.states, 1, branches=3, discount=0.7, seed=seed)


def _table(states: int) -> Any:
    """A value for each state, free of the others."""
    return gb.FeatureNetwork(
        gb.features.OneHot(states), gb.ValueFunction(np.zeros(states), lambda table, row: table @ row)
    )


def _finite_error(settings: Settings, seed: int, successors: int) -> float:
    process = _process(settings, seed)
    env = gb.environments.FiniteEnvironment(process)
    state = np.tile(np.arange(settings.states, dtype=float), settings.rows // settings.states + 1)
    state = state[: settings.rows, None]
    key = jax.random.fold_in(jax.random.key(seed), successors)
    always = gb.policies.Constant(0)
    data = gb.sample_transitions(env, always, len(state), key=key, successors=successors, state=state)
    fit = gb.evaluate(_table(settings.states), data, max_steps=20)
    truth = process.under().values
    learned = np.asarray(fit.network(np.arange(settings.states, dtype=float)[:, None]))
    return float(np.sqrt(np.mean((learned - truth) ** 2)) / truth.std())


def _exact_error(settings: Settings, seed: int) -> float:
    process = _process(settings, seed)
    fit = gb.evaluate(
        _table(settings.states), gb.environments.exact_transitions(process), max_steps=50, tolerance=1e-30
    )
    truth = process.under().values
    learned = np.asarray(fit.network(np.arange(settings.states, dtype=float)[:, None]))
    return float(np.abs(learned - truth).max() / truth.std())


def _frozen_lake_error() -> float:
    """The largest error of the values of slippery FrozenLake under the uniform policy."""
    lake: Any = gb.environments.from_gymnasium("FrozenLake-v1", is_slippery=True)
    data = gb.environments.exact_transitions(lake)
    fit = gb.evaluate(_table(lake.num_states), data, max_steps=50, tolerance=1e-30)
    learned = np.asarray(fit.network(np.arange(lake.num_states, dtype=float)[:, None]))
    return float(np.abs(learned - lake.under().values).max())


def _car_error(settings: Settings, car: Any, truth: Any, seed: int, steps: int, successors: int) -> float:
    data = gb.sample_transitions(
        car, car.along_velocity, settings.car_rows, key=seed, n_step=steps, successors=successors
    )
    network = gb.FeatureNetwork(car.features(car.along_velocity), gb.MLP((7, 10, 10, 1), key=seed))
    fit = gb.evaluate(network, data, solver=gb.LevenbergMarquardt(), max_steps=100, scale_output=True)
    error = np.asarray(fit.network(truth.state)) - truth.value
    return float(np.sqrt(np.mean(error**2)) / truth.value.std())


def _slope(rows: list[dict[str, Any]], settings: Settings) -> float:
    """The exponent of a power law through the last four medians: with few successors the bias saturates."""
    counts = settings.successors[-4:]
    medians = [_median(rows, successors=count) for count in counts]
    return float(np.polyfit(np.log(counts), np.log(medians), 1)[0])


def _median(rows: list[dict[str, Any]], **wanted: Any) -> float:
    chosen = [row["error"] for row in rows if all(row[name] == value for name, value in wanted.items())]
    return float(np.median(chosen))
