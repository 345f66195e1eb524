"""Mountain Car: how good is the value? A small residual is not enough; the length of the paths decides.

Two questions. With 2,000 samples, how far does each `n_step` get, beside a supervised fit of the same network
to the true values? And with a budget of simulated steps, how close does `n_step="auto"` come to the best one,
which nobody knows beforehand?
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import gaussbell as gb
from gaussbell import figures
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import (
    BEYOND,
    Claim,
    Data,
    Finding,
    Study,
    all_of,
    by_share,
    select,
    settings,
)
from gaussbell.numerics.precision import double_throughout
from gaussbell.records.cells import Cell, xarray

N_STEP, LAMBDA, SUPERVISED, AUTO = "n-step", "lambda", "supervised", "auto"
PLAIN, FEATURED = "plain", "features"
NETWORKS = {PLAIN: "(2, 20, 20, 1)", FEATURED: "(7, 20, 20, 1), features"}
LAMBDA_ = 0.99
LOOK_AHEAD = 50
SEARCH = 8
"""So many numbers of steps may be tried, each with the same share."""
MOST_TRANSITIONS = 8000
LONG = 50
"""Paths from this length on are called long."""
EVERY = 25
"""Looking ahead is tried on every so many points of the grid."""

TITLE = "How good is the value? Errors by number of steps and budget on Mountain Car"
CLAIMS = (
    Claim("single-steps", BEYOND, "Single steps leave the value little better than a constant, or worse."),
    Claim("long-paths", BEYOND, "From 50 steps on the fit is about as good as a supervised one."),
    Claim("look-ahead", BEYOND, "Simulating 50 steps at query time then halves the error, or better."),
    Claim("auto", BEYOND, 'With a budget, "auto" comes within a quarter of the best number of steps.'),
    Claim("estimate", BEYOND, "The error that it estimates is within a factor of 1.5 of the true one."),
)


class Size(NamedTuple):
    """How much is run."""

    samples: int
    n_steps: tuple[int, ...]
    budgets: tuple[int, ...]
    budget_n_steps: tuple[int, ...]
    seeds: int
    max_steps: int
    grid: int


def cells(scale: Scale) -> list[Cell]:
    """Fits by a number of samples, and by a budget."""
    full = Size(
        2000, (1, 5, 20, 50, 100, 200), (5_000, 20_000, 100_000), (1, 2, 5, 10, 20, 50, 100, 200), 5, 200, 500
    )
    size = Size(60, (1, 50), (3_000,), (1, 20), 1, 10, 20) if scale is Scale.SMOKE else full
    common = {"max_steps": size.max_steps, "grid": size.grid}
    targets = [(N_STEP, n) for n in size.n_steps] + [(LAMBDA, None), (SUPERVISED, None)]
    by_samples = [
        {
            "network": network,
            "target": target,
            "n_step": n,
            "samples": size.samples,
            **common,
            "seed": 900 + k,
        }
        for network in NETWORKS
        for target, n in targets
        for k in range(size.seeds)
    ]
    targets = [(N_STEP, n) for n in size.budget_n_steps] + [(AUTO, None)]
    by_budget = [
        {"network": PLAIN, "target": target, "n_step": n, "budget": budget, **common, "seed": 910 + k}
        for budget in size.budgets
        for target, n in targets
        for k in range(size.seeds)
    ]
    return [
        {name: part for name, part in cell.items() if part is not None} for cell in by_samples + by_budget
    ]


@double_throughout
def measure(cell: Cell) -> Data:
    """Fit, and compare with the true value on a grid, with and without looking ahead."""
    car, truth = gb.environments.MountainCar(), _truth(cell["grid"])
    network = _network(car, cell)
    fitted, found = (
        _fit_supervised(car, network, cell) if cell["target"] == SUPERVISED else _fit(car, network, cell)
    )
    few = slice(None, None, EVERY)
    ahead = gb.monte_carlo.look_ahead(fitted, car, car.along_velocity, truth.state[few], LOOK_AHEAD)
    spread = truth.value.std()
    found |= {
        "error": _relative(np.asarray(fitted(truth.state)), truth.value),
        "error_ahead": float(np.sqrt(np.mean((ahead - truth.value[few]) ** 2)) / spread),
    }
    if "estimate" in found:
        found["estimate"] /= spread
    return xarray.Dataset(found)


def _fit(car: Any, network: Any, cell: Cell) -> tuple[Any, dict[str, Any]]:
    n_step: Any = {LAMBDA: gb.LambdaReturn(LAMBDA_), AUTO: "auto"}.get(cell["target"], cell.get("n_step"))
    longest = int(n_step.horizons()[-1]) if cell["target"] == LAMBDA else n_step
    simulated = cell.get("budget") or cell["samples"] * longest
    simulated *= SEARCH if cell["target"] == AUTO else 1
    samples = MOST_TRANSITIONS if cell["target"] == AUTO else simulated // longest
    fit = gb.evaluate_policy(
        car,
        car.along_velocity,
        network,
        budget=gb.evaluation.budget_for(simulated),
        max_transitions=samples,
        n_step=n_step,
        key=cell["seed"],
        max_steps=cell["max_steps"],
    )
    chosen = fit.n_step if isinstance(fit.n_step, int) else longest
    return fit.network, {"estimate": float(fit.value_error), "chosen": chosen, "solver_steps": int(fit.steps)}


def _fit_supervised(car: Any, network: Any, cell: Cell) -> tuple[Any, dict[str, Any]]:
    """A fit to true values at as many states, stopped by the error at others: the floor of this network."""
    keys = jax.random.split(jax.random.key(cell["seed"]))
    counts = (cell["samples"], 1024)
    states = [car.sample_states(count, key=key) for count, key in zip(counts, keys, strict=True)]
    values = [gb.monte_carlo.returns(car, car.along_velocity, state) for state in states]
    if type(network) is gb.MLP:
        network = gb.FeatureNetwork(gb.features.Scale(car.low, car.high), network)
    fit = gb.evaluate(
        network,
        gb.Transitions(states[0], values[0], states[0], discount=0.0),
        solver=gb.LevenbergMarquardt(),
        scale_output=True,
        max_steps=cell["max_steps"],
        validation=lambda fitted: _relative(np.asarray(fitted(states[1])), values[1]),
    )
    return fit.network, {"solver_steps": int(fit.steps)}


def _network(car: Any, cell: Cell) -> Any:
    if cell["network"] == PLAIN:
        return gb.MLP((2, 20, 20, 1), key=cell["seed"])
    return gb.FeatureNetwork(car.features(car.along_velocity), gb.MLP((7, 20, 20, 1), key=cell["seed"]))


@functools.cache
def _truth(grid: int) -> Any:
    car = gb.environments.MountainCar()
    return gb.monte_carlo.value_on_grid(car, car.along_velocity, (grid, grid))


def _relative(fitted: np.ndarray, value: np.ndarray) -> float:
    return float(np.sqrt(np.mean((fitted - value) ** 2)) / value.std())


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to."""
    found = by_samples(data)
    floor = {network: _median(select(found, network=network, target=SUPERVISED)) for network in NETWORKS}
    single = {network: _median(select(found, network=network, n_step=1)) for network in NETWORKS}
    fits = [
        (network, select(found, network=network, **wanted))
        for network in NETWORKS
        for wanted in [{"n_step": n} for n in n_steps(found) if n >= LONG] + [{"target": LAMBDA}]
    ]
    beside = [_median(runs) / floor[network] for network, runs in fits]
    gains = [_median(runs) / _median(runs, "error_ahead") for _, runs in fits]
    ratios = {budget: np.median(compare_auto(data, budget)[0]) for budget in budgets(data)}
    auto = select(data, target=AUTO)
    honest = auto.estimate.values / auto.error.values
    return {
        "single-steps": Finding(
            "error in standard deviations of the value: "
            + ", ".join(f"{NETWORKS[network]}: {error:.2f}" for network, error in single.items()),
            all_of(*(error > 0.7 for error in single.values())),
        ),
        "long-paths": Finding(
            f"{min(beside):.2f} to {max(beside):.2f} of the supervised error",
            all_of(*(ratio < 1.25 for ratio in beside)),
        ),
        "look-ahead": Finding(
            f"the error is divided by {min(gains):.1f} to {max(gains):.1f}",
            all_of(*(gain > 2 for gain in gains)),
        ),
        "auto": Finding(
            "error over that of the best: "
            + ", ".join(f"{ratio:.2f} with {n:,} steps" for n, ratio in ratios.items()),
            all_of(*(ratio < 1.25 for ratio in ratios.values())),
        ),
        "estimate": Finding(
            f"estimated over true error {np.median(honest):.2f} ({honest.min():.2f} to {honest.max():.2f})",
            by_share(float(np.mean((honest > 1 / 1.5) & (honest < 1.5)))),
        ),
    }


def tabulate(data: Data) -> str:
    """Errors by `n_step` and network, and by budget."""
    found = by_samples(data)
    samples = int(settings(found, "samples")[0])
    lines = [
        f"| n_step, {samples:,} samples | "
        + " | ".join(f"{name} | look-ahead {LOOK_AHEAD}" for name in NETWORKS.values())
        + " |",
        "|---|" + "---|---|" * len(NETWORKS),
    ]
    kinds: list[tuple[str, dict[str, Any]]] = [(f"{n:g}", {"n_step": n}) for n in n_steps(found)]
    kinds += [(name, {"target": name}) for name in (LAMBDA, SUPERVISED)]
    for label, wanted in kinds:
        entries = []
        for network in NETWORKS:
            runs = select(found, network=network, **wanted)
            entries += [_spread(runs.error.values), _spread(runs.error_ahead.values)]
        lines.append(f"| {label} | {' | '.join(entries)} |")
    lines += [
        "",
        "| budget | auto | best fixed n_step, by seed | auto over best | estimated over true error |",
        "|---|---|---|---|---|",
    ]
    for budget in budgets(data):
        auto = select(data, budget=budget, target=AUTO)
        ratios, best = compare_auto(data, budget)
        chosen = ", ".join(f"{n:.0f}" for n in auto.chosen.values)
        lines.append(
            f"| {budget:,} | {_spread(auto.error.values)}, n = {chosen} | {np.median(best):.3f} | "
            f"{_spread(ratios, '.2f')} | {_spread(auto.estimate.values / auto.error.values, '.2f')} |"
        )
    note = (
        "Root mean squared error over the grid divided by the standard deviation of the true value: median "
        f"(smallest to largest) of {len(settings(found, 'seed'))} seeds."
    )
    return "\n".join([*lines, "", note, ""])


def by_samples(data: Data) -> Data:
    """The fits to a number of samples; the others have a budget."""
    return data.isel(cell=np.flatnonzero(np.isnan(data.budget.values)))


def budgets(data: Data) -> list[int]:
    """The budgets, from the smallest."""
    return [int(budget) for budget in settings(data, "budget")]


def n_steps(data: Data, **wanted: Any) -> list[int]:
    """The lengths of paths, from the shortest."""
    return [int(n) for n in settings(data, "n_step", **wanted)]


def compare_auto(data: Data, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """For each seed the error of "auto" over that of the best fixed `n_step`, and the latter."""
    auto = select(data, budget=budget, target=AUTO)
    best = np.array(
        [select(data, budget=budget, target=N_STEP, seed=seed).error.min() for seed in auto.seed.values]
    )
    return auto.error.values / best, best


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """The error against `n_step`, by samples and by budget."""
    found = by_samples(data)
    samples = int(settings(found, "samples")[0])
    caption = (
        f"Left: {samples:,} samples. Single steps leave the value little better than a constant (1), or "
        "worse; paths of 50 to 200 steps bring the fit near a supervised one to the true values (dashed), "
        f"and simulating {LOOK_AHEAD} steps at query time brings it further (open marks). Right: with a "
        "budget of simulated steps longer paths mean fewer transitions, so the best length moves; squares "
        'are what "auto" reached by validation, at the length it chose. Medians of seeds; bars span all.'
    )
    title = "Mountain Car: the error of the value"
    with figures.panels(2, title=title, caption=caption) as (figure, (left, right)):
        for (network, name), colour in zip(NETWORKS.items(), (figures.BLUE, figures.VERMILION), strict=True):
            runs = select(found, network=network)
            _bars(left, runs, "error", colour, name)
            _bars(left, runs, "error_ahead", colour, f"the same, look-ahead {LOOK_AHEAD}")
            left.axhline(_median(select(runs, target=SUPERVISED)), color=colour, ls="--", lw=1)
        for budget, colour in zip(budgets(data), (figures.ORANGE, figures.GREEN, figures.BLUE), strict=False):
            _bars(right, select(data, budget=budget), "error", colour, f"{budget:,} simulated steps")
            auto = select(data, budget=budget, target=AUTO)
            right.loglog(auto.chosen, auto.error, "s", ms=8, mfc="none", color=colour)
        for axes, name in ((left, "By number of steps"), (right, "By budget")):
            axes.set(title=name, xlabel="n_step of a transition", ylabel="RMSE / sd of the value")
            axes.legend(fontsize=7)
            axes.axhline(1.0, color=figures.GREY, lw=0.8)
            ticks = [1, 2, 5, 10, 20, 50, 100, 200]
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
            levels = [0.03, 0.1, 0.3, 1, 3]
            axes.set_yticks(levels, [str(level) for level in levels])
    return {"values": figure}


def _bars(axes: Any, runs: Data, field: str, colour: str, label: str) -> None:
    numbers = n_steps(runs)
    errors = [select(runs, target=N_STEP, n_step=n)[field].values for n in numbers]
    middle = np.array([np.median(some) for some in errors])
    around = np.abs(np.array([[some.min(), some.max()] for some in errors]).T - middle)
    look = {"mfc": "none", "ls": ":"} if field == "error_ahead" else {"ls": "-"}
    axes.errorbar(numbers, middle, around, color=colour, marker="o", ms=5, capsize=2, label=label, **look)
    axes.set(xscale="log", yscale="log")


def _median(runs: Data, field: str = "error") -> float:
    return float(np.median(runs[field]))


def _spread(numbers: Sequence[float] | np.ndarray, form: str = ".3f") -> str:
    return f"{np.median(numbers):{form}} ({min(numbers):{form}} to {max(numbers):{form}})"


def _group(cell: Cell) -> Any:
    return [cell["network"], cell["target"], cell.get("n_step"), cell.get("budget")]


def _cost(cell: Cell) -> float:
    samples = cell.get("samples") or cell["budget"] / cell.get("n_step", 20)
    return 5.0 + 4e-5 * min(samples, 4000) * cell["max_steps"]


STUDY = Study("values", TITLE, CLAIMS, cells, measure, _group, _cost, check, tabulate, draw)
