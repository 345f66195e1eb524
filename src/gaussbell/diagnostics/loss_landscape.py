"""The loss around a solution: a slice through parameter space, and the paths of methods in it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gaussbell.bellman import BellmanProblem, bellman_problem
from gaussbell.data.transitions import Transitions
from gaussbell.numerics.arguments import read_count
from gaussbell.numerics.precision import as_double, in_double
from gaussbell.optimise.solve import solve
from gaussbell.optimise.solvers import (
    GaussNewton,
    LevenbergMarquardt,
    ResidualGradient,
    SemiGaussNewton,
    SemiGradient,
    Solver,
)
from gaussbell.processes.markov_chain import MarkovChain

METHODS: dict[str, Solver] = {
    "Levenberg-Marquardt": LevenbergMarquardt(),
    "residual Gauss-Newton": GaussNewton(0.1),
    "residual gradient": ResidualGradient(0.01),
    "semi-gradient Gauss-Newton": SemiGaussNewton(0.1),
    "semi-gradient": SemiGradient(0.01),
}
"""Ours first, whose solution is the centre; then the paper's four with step sizes at which they move."""
MARGIN = 0.25
"""How much further than the paths the slice goes, as a share of their extent."""


class Landscape(NamedTuple):
    """The NMSBE on a plane of parameters, (rows along `second`, columns along `first`), and paths in it.

    The plane goes through the solution of the first method, at (0, 0), along the two directions in which
    its path goes furthest: `kept` is the share of that path's squared extent that it shows. `paths` holds
    (T, 2) coordinates of each method, and `losses` (T,) the loss on the way: that of the path itself, not of
    its shadow on the plane.
    """

    first: Float[np.ndarray, " A"]
    second: Float[np.ndarray, " B"]
    loss: Float[np.ndarray, "B A"]
    paths: dict[str, Float[np.ndarray, "T 2"]]
    losses: dict[str, Float[np.ndarray, " T"]]
    kept: float


@in_double
def landscape(
    network: Any,
    data: Transitions | MarkovChain,
    *,
    features: Any = None,
    methods: Mapping[str, Solver] | None = None,
    max_steps: int = 200,
    points: int = 61,
) -> Landscape:
    """Run methods from the same weights, and the loss on the plane where the first one's path lies best.

    Args:
        network: Whose weights all paths start from; `methods` by name, by default ours and the paper's four.
        points: Of the slice along each axis.

    Example:
        >>> import gaussbell as gb
        >>> chain = gb.environments.SevenStar().under()
        >>> inputs = gb.encodings.normal(7, 2, key=1)
        >>> start = gb.MLP((2, 7, 1), key=0)
        >>> some = {"Gauss-Newton": gb.GaussNewton(1.0)}
        >>> options = {"features": inputs, "methods": some, "max_steps": 50, "points": 9}
        >>> seen = gb.diagnostics.landscape(start, chain, **options)
        >>> seen.loss.shape, len(seen.paths), 0 < seen.kept <= 1
        ((9, 9), 1, True)
    """
    problem = bellman_problem(as_double(network), data, features=features)
    start, points = problem.pack(as_double(network)), read_count("points", points, 2)
    trails, losses = {}, {}
    for name, solver in (METHODS if methods is None else methods).items():
        found = solve(
            problem,
            start,
            solver,
            max_steps=max_steps,
            tolerance=0.0,
            patience=max_steps + 1,
            keep_parameters=True,
        )
        trail, loss = np.asarray(found.history.parameters), np.asarray(found.history.loss)
        sound = np.isfinite(trail).all(axis=1) & np.isfinite(loss)
        trails[name], losses[name] = trail[sound], loss[sound]
    ours = next(iter(trails.values()))
    if len(ours) == 0:
        raise ValueError("network: its loss is not finite, so no path starts there; draw other weights.")
    centre = ours[-1]
    directions, kept = _plane(ours - centre)
    paths = {name: (trail - centre) @ directions.T for name, trail in trails.items()}
    # Of the first path only: one that runs away would shrink all others to a point.
    axes = [_axis(places, points) for places in next(iter(paths.values())).T]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    loss = np.asarray(_losses(problem, jnp.asarray(centre + grid @ directions))).reshape(points, points)
    return Landscape(axes[0], axes[1], loss, paths, losses, kept)


def _plane(path: Float[np.ndarray, "T n"]) -> tuple[Float[np.ndarray, "2 n"], float]:
    """The two directions in which a path goes furthest, and the share of its extent that they hold."""
    still = np.zeros((1, path.shape[1]))  # a path of one point has no direction: any will do
    _, extent, directions = np.linalg.svd(np.concatenate([path, still]), full_matrices=False)
    total = float((extent**2).sum())
    return directions[:2], float((extent[:2] ** 2).sum()) / total if total > 0 else 1.0


def _axis(places: np.ndarray, points: int) -> np.ndarray:
    low, high = places.min(), places.max()
    reach = (high - low) or 1.0
    return np.linspace(low - MARGIN * reach, high + MARGIN * reach, points)


@eqx.filter_jit
def _losses(problem: BellmanProblem, points: Float[Array, "K n"]) -> Float[Array, " K"]:
    return jax.lax.map(problem.loss, points)
