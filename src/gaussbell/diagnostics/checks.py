"""The checks that every evaluation gets: cheap ones, from the network and its rows alone."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gaussbell.diagnostics.ranks import spectrum_of
from gaussbell.mdp import MarkovChain
from gaussbell.neighbours import neighbour_values, successors_of
from gaussbell.networks import network_values
from gaussbell.precision import in_double
from gaussbell.residuals import BellmanProblem, bellman_problem
from gaussbell.transitions import Transitions

MOST_WORK = 2e8
"""Rows times parameters times the smaller of both, up to which singular values are computed."""
MOST_ROWS = 20_000
"""Up to so many rows chains of neighbours are followed; of more, so many are drawn."""
TIED = 0.5
"""A row of whose value less than this share comes from rewards in the data is not tied to any."""
MANY = 0.2
"""A share of rows that is worth a warning."""
SLACK = 0.05
"""How far values may leave the range that rewards allow, as a share of it."""


class Checks(NamedTuple):
    """What a fit's rows say about it.

    `rows` and `parameters`, counted; `rank`, `condition`, `effective_rank` of the Bellman Jacobian, None
    where that would take long, and in what `evaluate` does by itself; `outside`, the share of values beyond
    what the rewards can add up to; of sampled rows also `floating`, the share that is not tied to any reward
    by the data, and `reaching`, the share from which a chain of rows meets a reward other than the
    commonest; of a finite chain `certificate`: no value is further from the truth than this.
    """

    rows: int
    parameters: int
    outside: float
    rank: int | None = None
    condition: float | None = None
    effective_rank: float | None = None
    floating: float | None = None
    reaching: float | None = None
    certificate: float | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against the values, in sentences."""
        said = []
        if self.reaching == 0:
            said.append(
                "No chain of rows reaches a second reward: if there is one, the value cannot be known from "
                "these rows. Add samples or steps."
            )
        elif self.floating is not None and self.floating > MANY:
            said.append(
                f"{self.floating:.0%} of the rows are not tied to any reward, however small the residual: "
                "their successors cannot be told from where they came. Add samples or steps."
            )
        if self.outside > 0.01:
            said.append(f"{self.outside:.0%} of the values are beyond what the rewards can add up to.")
        return tuple(said)

    @property
    def certificates(self) -> tuple[str, ...]:
        """What is certain about the values, in sentences: of a finite process, how far off they can be."""
        if self.certificate is None:
            return ()
        return (f"No value is off by more than {self.certificate:.2g}.",)

    @property
    def facts(self) -> tuple[str, ...]:
        """What is known about the fit, in short."""
        said = [f"{self.parameters} parameters for {self.rows} rows"]
        if self.rank is not None and self.effective_rank is not None:
            said.append(f"Jacobian of rank {self.rank}, effectively {self.effective_rank:.0f}")
        return tuple(said)


@in_double
def check(
    network: Any, data: Transitions | MarkovChain, *, features: Any = None, weight: Any = None
) -> Checks:
    """The cheap checks of a network on the data it was fitted to, with the rank of its Jacobian.

    `evaluate` puts all but the rank on its solution: to compile a Jacobian takes half a second.

    >>> import gaussbell as gb
    >>> car = gb.environments.MountainCar()
    >>> data = gb.sample_transitions(car, car.along_velocity, 100, key=0)
    >>> seen = gb.diagnostics.check(gb.MLP((2, 10, 10, 1), key=0), data)
    >>> seen.parameters, seen.rows, seen.floating > 0.9
    (151, 100, True)
    """
    problem = bellman_problem(network, data, features=features, weight=weight)
    return check_problem(problem, problem.pack(network), data, with_rank=True)


def check_problem(
    problem: BellmanProblem, x: Any, data: Transitions | MarkovChain, *, with_rank: bool
) -> Checks:
    """The cheap checks of parameters, as a problem packs them."""
    rows, parameters = len(problem.target), len(x)
    small = with_rank and rows * parameters * min(rows, parameters) <= MOST_WORK
    values, jacobian = (np.asarray(part) for part in _look(problem, jnp.asarray(x, jnp.float64), small))
    seen: dict[str, Any] = {"rows": rows, "parameters": parameters}
    if small and np.isfinite(jacobian).all():
        spectrum = spectrum_of(jacobian)
        seen |= {
            "rank": spectrum.rank,
            "condition": spectrum.condition,
            "effective_rank": spectrum.effective_rank,
        }
    if isinstance(data, MarkovChain):
        residual = np.abs(data.residual(values)).max()
        seen["certificate"] = float(residual / (1 - data.discount))
        ends = data.reward / (1 - data.discount)
    else:
        near = neighbour_values(_some(data))
        seen["floating"] = float((near.pinned < TIED).mean())
        seen["reaching"] = float(near.reaches.mean())
        values = values[: len(data)]
        ahead = successors_of(data)[1].sum(axis=1)
        ends = np.asarray(data.reward) / np.where(ahead < 1, 1 - ahead, np.nan)
    low, high = np.nanmin(ends), np.nanmax(ends)
    slack = SLACK * (high - low) + 1e-6 * max(abs(low), abs(high))
    return Checks(outside=float(((values < low - slack) | (values > high + slack)).mean()), **seen)


def _some(data: Transitions) -> Transitions:
    if len(data) <= MOST_ROWS:
        return data
    return data.take(np.sort(np.random.default_rng(0).choice(len(data), MOST_ROWS, replace=False)))


@eqx.filter_jit
def _look(
    problem: BellmanProblem, x: Float[Array, " n"], with_jacobian: bool
) -> tuple[Float[Array, " K"], Float[Array, "m n"]]:
    """The values at all inputs, and the Bellman Jacobian, or nothing in its place."""
    values = network_values(problem.network(x), problem.inputs)
    return values, problem.linearise(x).jacobian() if with_jacobian else jnp.zeros((0, 0))
