"""A fit to Mountain Car's value, as the paper's studies of policy evaluation make many.

The policy pushes along the velocity. The paper's fits take states of one step, drawn uniformly, with inputs
as they are, weights uniform in [-1, 1], and a method with a fixed step size that uses all its iterations.
Ours, beside them, use the same network behind scaled inputs with the default solver. Every fit is tested on
a grid that it has not seen, by its Bellman error and by the error of the value itself.
"""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import numpy as np

import gaussbell as gb
from gaussbell.experiments.methods import METHODS, OURS
from gaussbell.experiments.study import Data
from gaussbell.numerics.precision import double_throughout
from gaussbell.records.cells import Cell, xarray

POINTS = 150
"""Points of a recorded curve, spread evenly on a logarithmic axis."""
SURFACE = 60
"""Points of a recorded value surface along each axis."""


class Test(NamedTuple):
    """States on a grid, their successors under the policy, and their true values."""

    state: np.ndarray
    reward: np.ndarray
    next_state: np.ndarray
    discount: np.ndarray
    value: np.ndarray


def cell_of(
    method: str,
    samples: int,
    repetition: int,
    *,
    iterations: int,
    sizes: tuple[int, ...] = (2, 10, 10, 1),
    step_size: float | None = None,
    n_step: int = 1,
    grid: int = 500,
) -> Cell:
    """A fit; `grid` counts the points of the test along an axis."""
    cell = {
        "method": method,
        "step_size": step_size,
        "samples": samples,
        "network": "-".join(map(str, sizes)),
        "n_step": n_step,
        "iterations": iterations,
        "grid": grid,
        "repetition": repetition,
    }
    return {name: setting for name, setting in cell.items() if setting is not None}


@double_throughout
def measure(cell: Cell) -> Data:
    """Fit, and test. The data and the first weights depend on the repetition only, not on the method."""
    car = gb.environments.MountainCar()
    data_key, weights_key = jax.random.split(jax.random.key(cell["repetition"]))
    network = gb.MLP(sizes_of(cell), key=weights_key)
    samples, n_step, iterations = cell["samples"], cell["n_step"], cell["iterations"]
    if cell["method"] != OURS:
        data = gb.sample_transitions(car, car.along_velocity, samples, key=data_key, n_step=n_step)
        solver = METHODS[cell["method"]](cell["step_size"])
        fit = gb.evaluate(
            network, data, solver=solver, max_steps=iterations, tolerance=0.0, patience=iterations
        )
    elif n_step == 1:
        data = gb.sample_transitions(car, car.along_velocity, samples, key=data_key)
        scaled = gb.FeatureNetwork(gb.features.Scale(car.low, car.high), network)
        fit = gb.evaluate(scaled, data, max_steps=iterations, tolerance=1e-12)
    else:
        fit = gb.evaluate_policy(
            car,
            car.along_velocity,
            network,
            budget=gb.evaluation.budget_for(samples * n_step),
            max_transitions=samples,
            n_step=n_step,
            key=data_key,
            max_steps=iterations,
        )
    losses = np.asarray(fit.history.loss)
    diverged = fit.status is gb.Status.DIVERGED
    curve = np.full(iterations + 1, np.nan if diverged else losses[-1])
    curve[: len(losses)] = losses
    curve[~np.isfinite(curve)] = np.nan
    kept = curve_points(iterations)
    tested, values = _test_network(fit.network, cell["grid"])
    axes = [np.linspace(low, high, SURFACE) for low, high in zip(car.low, car.high, strict=True)]
    surface = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    return xarray.Dataset(
        {
            "msbe": ("iteration", curve[kept]),
            "training": float(fit.msbe),
            "test": tested,
            "diverged": int(diverged),
            "used": int(fit.steps),
            "value_error": float(np.sqrt(np.mean((values - _test(cell["grid"]).value) ** 2)))
            / _test(cell["grid"]).value.std(),
            "correlation": _correlation(values, _test(cell["grid"]).value),
            "parameters": network.num_parameters,
            "surface": (
                ("position", "velocity"),
                np.asarray(fit.network(surface)).reshape(SURFACE, SURFACE).astype(np.float32),
            ),
        },
        coords={"iteration": kept, "position": axes[0], "velocity": axes[1]},
    )


def sizes_of(cell: Cell) -> tuple[int, ...]:
    """The units of each layer."""
    return tuple(map(int, cell["network"].split("-")))


def curve_points(iterations: int) -> np.ndarray:
    """The iterations of a recorded curve, from the start to the last."""
    return np.unique(np.r_[0, np.geomspace(1, iterations, POINTS).round().astype(int)])


def group(cell: Cell) -> Any:
    """What decides which programs are compiled."""
    return [cell["method"], cell["samples"], cell["network"], cell["n_step"], cell["iterations"]]


def cost(cell: Cell) -> float:
    """About the seconds of a fit on one core: to compile, to pass over the samples, to solve for steps."""
    sizes = sizes_of(cell)
    parameters = sum((fan_in + 1) * fan_out for fan_in, fan_out in itertools.pairwise(sizes))
    samples, smaller = cell["samples"], min(cell["samples"], parameters)
    second_order = "Newton" in cell["method"] or cell["method"] == OURS
    step = 4e-5 + 1e-9 * samples * parameters
    if second_order:
        step += samples * parameters * (6e-9 + 5e-11 * smaller) + 2.5e-11 * smaller**3
    return (6.0 if cell["repetition"] == 0 else 0.3) + cell["iterations"] * step


def measure_truth() -> Data:
    """The true value on the grid of recorded surfaces."""
    car = gb.environments.MountainCar()
    truth = gb.monte_carlo.value_on_grid(car, car.along_velocity, (SURFACE, SURFACE))
    axes = ("position", "velocity")
    surface = truth.table().astype(np.float32)
    return xarray.Dataset({"surface": (axes, surface)}, coords=dict(zip(axes, truth.axes, strict=True)))


@functools.cache
def _test(grid: int) -> Test:
    car = gb.environments.MountainCar()
    truth = gb.monte_carlo.value_on_grid(car, car.along_velocity, (grid, grid))
    data = gb.sample_transitions(car, car.along_velocity, len(truth.state), key=0, state=truth.state)
    arrays = (truth.state, data.reward, data.next_state, data.discount, truth.value)
    return Test(*(np.asarray(array) for array in arrays))


def _test_network(network: Any, grid: int) -> tuple[float, np.ndarray]:
    """The NMSBE on the grid, and the values there."""
    test = _test(grid)
    values = np.asarray(network(test.state))
    residual = values - test.reward - test.discount * np.asarray(network(test.next_state))
    return float(0.5 * np.mean(residual**2)), values


def _correlation(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.corrcoef(values, truth)[0, 1]) if values.std() > 0 else 0.0
