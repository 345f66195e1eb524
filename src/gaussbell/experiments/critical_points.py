"""Where fits from many random weights end, and what kind of critical point that is."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gaussbell as gb
from gaussbell.bellman import BellmanProblem, bellman_problem
from gaussbell.experiments.study import Data
from gaussbell.networks.mlp import bent_identity
from gaussbell.records.cells import Cell, xarray

FINITE, CAR = "finite process", "mountain car"
MANY, FEW = "more parameters", "fewer parameters"
MINIMA, STEPS = "minima", "steps"
STATES, SAMPLES, TRANSITIONS = 20, 25, 100
"""States of the finite process; Mountain Car's samples in a fit, and where conditioning is compared."""
SIZES = {(FINITE, MANY): (4, 10, 1), (FINITE, FEW): (4, 2, 1), (CAR, MANY): (2, 10, 1), (CAR, FEW): (2, 3, 1)}
BENT, RELU, SATURATED = "bent identity", "ReLU", "saturated sigmoid"
ACTIVATIONS: dict[str, tuple[Any, float]] = {
    BENT: (bent_identity, 1.0),
    RELU: (jax.nn.relu, 1.0),
    SATURATED: (jax.nn.sigmoid, 20.0),
}
"""Each with a factor for the weights of hidden layers."""
FLAT = 1e-10
"""An eigenvalue below this share of the largest counts as zero."""
RESOLVED = 1e-6
"""Directions of the Jacobian beyond this share of the largest are left out of what it amplifies."""


class Fitted(NamedTuple):
    """What is fitted: transitions, the inputs of a chain's states, and where the true value is known."""

    data: Any
    features: Any
    inputs: Any
    truth: np.ndarray


@functools.cache
def _fitted(problem: str) -> Fitted:
    if problem == FINITE:
        chain = gb.environments.RandomMDP(STATES, 2, seed=1).under()
        inputs = gb.encodings.normal(STATES, 4, key=1)
        return Fitted(chain, inputs, inputs, chain.values)
    car = gb.environments.MountainCar()
    data = gb.sample_transitions(car, car.along_velocity, SAMPLES, key=1)
    state = np.asarray(car.sample_states(1000, key=2))
    return Fitted(data, None, state, gb.monte_carlo.returns(car, car.along_velocity, state))


def measure_minima(cell: Cell) -> Data:
    """Where each start ends, with what rank, and what the true Hessian is there."""
    fitted = _fitted(cell["problem"])
    activation, factor = ACTIVATIONS[cell["activation"]]
    sizes = SIZES[cell["problem"], cell["size"]]

    def first(key: Any) -> Any:
        network = gb.MLP(sizes, activation, key=key)
        *hidden, last = network.weights
        network = eqx.tree_at(lambda n: n.weights, network, (*(factor * w for w in hidden), last))
        if cell["problem"] == FINITE:
            return network
        car = gb.environments.MountainCar
        return gb.FeatureNetwork(gb.features.Scale(car.low, car.high), network)

    def solve(network: Any) -> Any:
        return gb.evaluate(
            network,
            fitted.data,
            features=fitted.features,
            solver=gb.LevenbergMarquardt(),
            tolerance=0.0,
            max_steps=cell["solver_steps"],
        ).network

    starts = eqx.filter_vmap(first)(jax.random.split(jax.random.key(3), cell["starts"]))
    ends = eqx.filter_vmap(solve)(starts)
    problem = bellman_problem(first(jax.random.key(0)), fitted.data, features=fitted.features)
    pack = eqx.filter_vmap(problem.pack)
    before, after = pack(starts), pack(ends)
    first_found, found = _kinds(problem, before), _kinds(problem, after)
    values = np.asarray(eqx.filter_vmap(lambda network: network(jnp.asarray(fitted.inputs)))(ends))
    errors = np.sqrt(np.mean((values - fitted.truth) ** 2, axis=1)) / fitted.truth.std()
    return xarray.Dataset(
        {
            **{name: ("start", np.asarray(numbers)) for name, numbers in found.items()},
            "first_rank": ("start", np.asarray(first_found["rank"])),
            "first_effective_rank": ("start", np.asarray(first_found["effective_rank"])),
            "value_error": ("start", errors),
            "samples": len(problem.target),
            "parameters": problem.packing.size,
        },
        coords={"start": np.arange(cell["starts"])},
    )


@eqx.filter_jit
def _kinds(problem: BellmanProblem, points: Any) -> dict[str, Any]:
    """What kind of point each is: loss, gradient, rank of the Jacobian, eigenvalues of the true Hessian."""
    nothing = 0.5 * problem.target @ problem.target

    def kind(x: Any) -> dict[str, Any]:
        at = problem.linearise(x)
        jacobian = at.jacobian()
        singular = jnp.linalg.svd(jacobian, compute_uv=False)
        floor = max(jacobian.shape) * jnp.finfo(jnp.float64).eps * singular[0]
        share = singular / singular.sum()
        eigenvalues = jnp.linalg.eigvalsh(jax.hessian(problem.loss)(x))
        scale = singular[0] * jnp.linalg.norm(at.residual)
        return {
            "loss": at.loss / nothing,
            "gradient": jnp.linalg.norm(at.gradient()) / jnp.where(scale > 0, scale, 1.0),
            "rank": (singular > floor).sum(),
            "effective_rank": jnp.exp(-jax.scipy.special.xlogy(share, share).sum()),
            "hessian_rank": (eigenvalues > FLAT * eigenvalues[-1]).sum(),
            "lowest": eigenvalues[0] / eigenvalues[-1],
        }

    return jax.lax.map(kind, points)


def measure_steps(cell: Cell) -> Data:
    """The Bellman Jacobian of random networks on transitions of so many steps."""
    car = gb.environments.MountainCar()
    condition, effective, amplified = [], [], []
    for key in range(cell["starts"]):
        data = gb.sample_transitions(car, car.along_velocity, TRANSITIONS, key=key, n_step=cell["n_step"])
        network = gb.FeatureNetwork(gb.features.Scale(car.low, car.high), gb.MLP((2, 10, 10, 1), key=key))
        seen = gb.diagnostics.spectra(network, data).bellman
        effective.append(seen.effective_rank)
        condition.append(float(seen.values[0] / max(seen.values[-1], seen.floor)))
        inner, inputs = network.network, network.features(data.inputs)
        followed = network.features(data.next_inputs)
        states, successors = (gb.differential_map(inner, x).rows() for x in (inputs, followed))
        bellman = np.asarray(states) - np.asarray(data.discount)[:, None] * np.asarray(successors)
        amplified.append(np.linalg.norm(np.asarray(states) @ np.linalg.pinv(bellman, rcond=RESOLVED), 2))
    found = {"condition": condition, "effective_rank": effective, "amplification": amplified}
    return xarray.Dataset(
        {name: ("start", np.array(numbers)) for name, numbers in found.items()},
        coords={"start": np.arange(cell["starts"])},
    )
