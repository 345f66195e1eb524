"""Double-sampling bias: a single drawn successor biases the fit; several, or all of them, do not.

With M independent successors the expected square of a residual is the square of its mean plus the variance
of the successors' values divided by M. Minimising it flattens the values, by an amount that falls as 1 / M.
"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import gaussbell as gb
from gaussbell import figures
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import BEYOND, Claim, Data, Finding, Study, all_of, select, settings
from gaussbell.numerics.precision import double_throughout
from gaussbell.records.cells import Cell, xarray

FINITE, EXACT, LAKE, CAR = "finite", "exact", "frozen-lake", "mountain-car"
"""A random finite process with drawn successors or with all of them, and two environments."""
STATES = 10
PUSHES, CAR_SAMPLES, LONG = 0.005, 1000, 20
"""How strong Mountain Car's random pushes are; the transitions of a fit, and the longer of the two n_step."""
FIRST_SEED = 700

TITLE = "Random processes: one successor, several, or all of them"
CLAIMS = (
    Claim(
        "falls", BEYOND, "The bias falls in proportion to the number of successors, once there are several."
    ),
    Claim("all", BEYOND, "With all successors and their probabilities the fit is exact."),
    Claim(
        "single-steps",
        BEYOND,
        "On Mountain Car several successors help with long paths, not with single steps.",
    ),
)


def cells(scale: Scale) -> list[Cell]:
    """Fits by number of successors, and with all of them."""
    several, samples, car_several, seeds, car_seeds, grid, draws = {
        Scale.SMOKE: ((1, 4, 16, 64), 500, (1, 4), 2, 1, 8, 10),
    }.get(scale, ((1, 2, 4, 8, 16, 32, 64), 5000, (1, 2, 4, 8, 16), 5, 3, 40, 200))
    finite = [
        {"problem": FINITE, "successors": count, "samples": samples, "seed": FIRST_SEED + k}
        for count in several
        for k in range(seeds)
    ]
    exact = [{"problem": EXACT, "seed": FIRST_SEED + k} for k in range(seeds)]
    car = [
        {
            "problem": CAR,
            "n_step": n,
            "successors": count,
            "grid": grid,
            "draws": draws,
            "seed": FIRST_SEED + k,
        }
        for n in (1, LONG)
        for count in car_several
        for k in range(car_seeds)
    ]
    return [*finite, *exact, {"problem": LAKE}, *car]


@double_throughout
def measure(cell: Cell) -> Data:
    """The error of the value, in standard deviations of the true one."""
    errors = {FINITE: _finite_error, EXACT: _exact_error, LAKE: _lake_error, CAR: _car_error}
    return xarray.Dataset({"error": errors[cell["problem"]](cell)})


def _process(cell: Cell) -> gb.FiniteMDP:
    return gb.environments.RandomMDP(STATES, 1, branches=3, discount=0.7, seed=cell["seed"])


def _table(states: int) -> Any:
    """A value for each state, free of the others."""
    return gb.FeatureNetwork(
        gb.features.OneHot(states), gb.ValueFunction(np.zeros(states), lambda table, row: table @ row)
    )


def _finite_error(cell: Cell) -> float:
    process = _process(cell)
    env = gb.environments.FiniteEnvironment(process)
    state = np.resize(np.arange(STATES, dtype=float), cell["samples"])[:, None]
    successors = cell["successors"]
    key = jax.random.fold_in(jax.random.key(cell["seed"]), successors)
    always = gb.policies.Constant(0)
    data = gb.sample_transitions(env, always, len(state), key=key, successors=successors, state=state)
    fit = gb.evaluate(_table(STATES), data, max_steps=20)
    truth = process.under().values
    return float(np.sqrt(np.mean((_of_all_states(fit, STATES) - truth) ** 2)) / truth.std())


def _exact_error(cell: Cell) -> float:
    return _largest_error(_process(cell))


def _lake_error(cell: Cell) -> float:
    """Slippery FrozenLake under the uniform policy."""
    lake: Any = gb.environments.from_gymnasium("FrozenLake-v1", is_slippery=True)
    return _largest_error(lake)


def _largest_error(process: gb.FiniteMDP) -> float:
    """The largest error of a fit to all successors."""
    data = gb.environments.exact_transitions(process)
    fit = gb.evaluate(_table(process.num_states), data, max_steps=50, tolerance=1e-30)
    truth = process.under().values
    return float(np.abs(_of_all_states(fit, process.num_states) - truth).max() / truth.std())


def _of_all_states(fit: Any, states: int) -> np.ndarray:
    return np.asarray(fit.network(np.arange(states, dtype=float)[:, None]))


def _car_error(cell: Cell) -> float:
    car, truth, seed = _car(), _truth(cell["grid"], cell["draws"]), cell["seed"]
    data = gb.sample_transitions(
        car, car.along_velocity, CAR_SAMPLES, key=seed, n_step=cell["n_step"], successors=cell["successors"]
    )
    network = gb.FeatureNetwork(car.features(car.along_velocity), gb.MLP((7, 10, 10, 1), key=seed))
    fit = gb.evaluate(network, data, solver=gb.LevenbergMarquardt(), max_steps=100, scale_output=True)
    error = np.asarray(fit.network(truth.state)) - truth.value
    return float(np.sqrt(np.mean(error**2)) / truth.value.std())


def _car() -> gb.environments.MountainCar:
    return gb.environments.MountainCar(noise=PUSHES)


@functools.cache
def _truth(grid: int, draws: int) -> Any:
    car = _car()
    return gb.monte_carlo.value_on_grid(car, car.along_velocity, (grid, grid), samples=draws, key=1)


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to."""
    slope = slope_of(data)
    exact, lake = (float(select(data, problem=name).error.max()) for name in (EXACT, LAKE))
    gains = {n: _gain(data, n) for n in (1, LONG)}
    return {
        "falls": Finding(
            f"as successors to the power {slope:.2f}, over the last four numbers",
            all_of(-1.15 < slope < -0.75),
        ),
        "all": Finding(
            f"largest error {exact:.0e} of the standard deviation, {lake:.0e} on slippery FrozenLake",
            all_of(exact < 1e-10, lake < 1e-10),
        ),
        "single-steps": Finding(
            ", ".join(
                f"n_step {n}: the most successors divide the error by {gain:.1f}" for n, gain in gains.items()
            ),
            all_of(gains[1] < 1.25, gains[LONG] > 2),
        ),
    }


def slope_of(data: Data) -> float:
    """The exponent of a power law through the last four medians: with few successors the bias saturates."""
    counts = _counts(data, FINITE)[-4:]
    medians = [_median(data, problem=FINITE, successors=count) for count in counts]
    return float(np.polyfit(np.log(counts), np.log(medians), 1)[0])


def tabulate(data: Data) -> str:
    """Median errors by number of successors, as a Markdown table."""
    lines = [
        f"| successors | finite process | Mountain Car, n_step 1 | Mountain Car, n_step {LONG} |",
        "|---|---|---|---|",
    ]
    for count in _counts(data, FINITE):
        cars = [
            f"{_median(data, problem=CAR, n_step=n, successors=count):.3g}"
            if count in _counts(data, CAR)
            else ""
            for n in (1, LONG)
        ]
        lines.append(
            f"| {count} | {_median(data, problem=FINITE, successors=count):.3g} | {' | '.join(cars)} |"
        )
    exact, lake = (select(data, problem=name).error.max() for name in (EXACT, LAKE))
    seeds = [len(settings(data, "seed", problem=name)) for name in (FINITE, CAR)]
    note = (
        f"Root mean squared error of the value over its standard deviation, medians of {seeds[0]} and "
        f"{seeds[1]} seeds. In the finite process the error of the last four falls as successors to the "
        f"power {slope_of(data):.2f}, with fewer more slowly. Slippery FrozenLake with all successors: "
        f"largest error {lake:.1e}."
    )
    return "\n".join([*lines, f"| all, with probabilities | {exact:.1e} | | |", "", note, ""])


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """The bias against the number of successors."""
    finite, counts = select(data, problem=FINITE), np.array(_counts(data, FINITE))
    caption = (
        "Left: values of all states of a random finite process, each fitted freely, from transitions with "
        "so many drawn successors. The bias falls towards slope -1 (measured over the last four: "
        f"{slope_of(data):.2f}); with all successors and their probabilities the error is "
        f"{select(data, problem=EXACT).error.max():.0e}. Right: a Mountain Car with random pushes and a "
        "network. With single steps and one successor, the usual residual gradient, the value is worse "
        "than a constant (grey), and more successors do not help; on long paths they do."
    )
    title = "A single drawn successor biases the fit"
    with figures.panels(2, title=title, caption=caption) as (figure, (left, right)):
        for seed in settings(finite, "seed"):
            runs = select(finite, seed=seed).sortby("successors")
            left.loglog(runs.successors, runs.error, color=figures.BLUE, alpha=0.35, lw=0.8)
        medians = np.array([_median(finite, successors=count) for count in counts])
        left.loglog(counts, medians, "o-", color=figures.BLUE, label="several drawn successors, median")
        left.loglog(counts, medians[0] / counts, ":", color=figures.GREY, label="1 / successors")
        left.loglog(
            counts[:1], medians[:1], "s", ms=9, mfc="none", color=figures.VERMILION, label="single sample"
        )
        few = _counts(data, CAR)
        for n, colour, marker in ((1, figures.VERMILION, "s"), (LONG, figures.BLUE, "o")):
            medians = [_median(data, problem=CAR, n_step=n, successors=count) for count in few]
            right.loglog(few, medians, f"{marker}-", color=colour, label=f"n_step {n}")
        right.axhline(1.0, color=figures.GREY, lw=1, label="best constant")
        for axis, shown, name in ((left, counts, "Finite process"), (right, few, "Noisy Mountain Car")):
            axis.set(title=name, xlabel="successors of a transition", ylabel="error of the value / its sd")
            axis.legend(fontsize=7)
            axis.set_xticks(shown, [str(count) for count in shown])
            levels = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]
            axis.set_yticks(levels, [str(level) for level in levels])
            low, high = axis.get_ylim()
            axis.set_ylim(low, 1.3 * high)
            axis.minorticks_off()
    return {"noise": figure}


def _counts(data: Data, problem: str) -> list[int]:
    return [int(count) for count in settings(data, "successors", problem=problem)]


def _gain(data: Data, n_step: int) -> float:
    """By how much the most successors divide Mountain Car's error."""
    counts = _counts(data, CAR)
    one, most = (
        _median(data, problem=CAR, n_step=n_step, successors=count) for count in (counts[0], counts[-1])
    )
    return one / most


def _median(data: Data, **wanted: Any) -> float:
    return float(np.median(select(data, **wanted).error))


def _group(cell: Cell) -> Any:
    return [cell["problem"], cell.get("n_step"), cell.get("successors")]


def _cost(cell: Cell) -> float:
    return 6.0 if cell["problem"] == CAR else 3.0


STUDY = Study("noise", TITLE, CLAIMS, cells, measure, _group, _cost, check, tabulate, draw)
