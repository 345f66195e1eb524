"""Rank and spectrum of the Jacobians that decide whether all minima are good (Propositions 1 and 4)."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from gaussbell.bellman import BellmanProblem, ChainDifference, WeightedSums, bellman_problem
from gaussbell.data.transitions import Transitions
from gaussbell.networks.derivatives import differential_map
from gaussbell.numerics.differential import MOST_DENSE_NUMBERS, DifferentialMap
from gaussbell.numerics.precision import in_double
from gaussbell.processes.markov_chain import MarkovChain


class Spectrum(NamedTuple):
    """The singular values of a Jacobian (rows, parameters), in falling order.

    `floor` is where rounding takes over: smaller values are not told from zero.

    Example:
        >>> import numpy, gaussbell as gb
        >>> seen = gb.diagnostics.Spectrum(numpy.array([2.0, 1.0, 0.0]), rows=3, parameters=5, floor=1e-12)
        >>> seen.rank, seen.has_full_rank, seen.condition
        (2, False, inf)
    """

    values: Float[np.ndarray, " k"]
    rows: int
    parameters: int
    floor: float

    @property
    def rank(self) -> int:
        """How many singular values are above rounding."""
        return int((self.values > self.floor).sum())

    @property
    def has_full_rank(self) -> bool:
        """Are the rows of the Jacobian independent? Only then has every critical point zero residual."""
        return self.rank == self.rows

    @property
    def condition(self) -> float:
        """The largest singular value over the smallest; infinite where that is lost in rounding."""
        if len(self.values) == 0:
            return np.nan
        return float(self.values[0] / self.values[-1]) if self.values[-1] > self.floor else np.inf

    @property
    def effective_rank(self) -> float:
        """The exponential of the entropy of the values: how many directions the samples really span.

        Rows that nearly repeat each other count once ("sufficiently unique samples").
        """
        total = self.values.sum()
        if not total > 0:
            return 0.0
        share = self.values[self.values > 0] / total
        return float(np.exp(-(share * np.log(share)).sum()))


class Spectra(NamedTuple):
    """Of G at the states, of G' at their successors, and of their difference, the Bellman Jacobian."""

    states: Spectrum
    successors: Spectrum
    bellman: Spectrum


@in_double
def spectrum(differential: DifferentialMap, *, by_gram: bool | None = None) -> Spectrum:
    """The singular values of a Jacobian, from the matrix itself or from its Gram matrix.

    The Gram matrix is far cheaper for many parameters, but squares the singular values: those below 1e-8 of
    the largest are lost. By default it is taken where the matrix would not fit (256 MiB).
    """
    rows, parameters = len(differential.value), differential.num_parameters
    if by_gram is None:
        by_gram = rows * parameters > MOST_DENSE_NUMBERS
    if not by_gram:
        return spectrum_of(np.asarray(differential.rows()))
    squares = np.linalg.eigvalsh(np.asarray(differential.gram()))[::-1]
    values = np.sqrt(np.maximum(squares, 0.0))
    return Spectrum(values, rows, parameters, float(np.sqrt(_rounding(rows, parameters)) * values[0]))


def spectrum_of(jacobian: Float[np.ndarray, "m n"]) -> Spectrum:
    """The singular values of a Jacobian that is at hand as a matrix."""
    values = np.linalg.svd(jacobian, compute_uv=False)
    return Spectrum(values, *jacobian.shape, floor=float(_rounding(*jacobian.shape) * values[0]))


def _rounding(rows: int, parameters: int) -> float:
    return max(rows, parameters) * float(np.finfo(np.float64).eps)


@in_double
def spectra(
    network: Any, data: Transitions | MarkovChain, *, features: Any = None, by_gram: bool | None = None
) -> Spectra:
    """The spectra of G, of G' and of G - discount G' for a network on data.

    With at least as many parameters as samples and the last one of full rank, every critical point there has
    zero residual. Rows count alike, whatever their weights, which change no rank.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> data = gb.sample_transitions(car, car.along_velocity, 20, n_step=20)
        >>> network = gb.FeatureNetwork(car.features(), gb.MLP((6, 10, 1), key=0))
        >>> found = gb.diagnostics.spectra(network, data)
        >>> found.bellman.rank, found.bellman.has_full_rank, found.bellman.parameters
        (20, True, 81)
    """
    problem = bellman_problem(network, data, features=features)
    unweighted = _unweighted(problem)
    at = differential_map(problem.network(problem.pack(network)), problem.inputs)
    states, successors, bellman = (row_map.differentiate(at) for row_map in unweighted)
    return Spectra(*(spectrum(one, by_gram=by_gram) for one in (states, successors, bellman)))


def _unweighted(problem: BellmanProblem) -> tuple[Any, Any, Any]:
    """The maps from values to F, to F' and to F - discount F', without the weights of rows."""
    difference = problem.difference
    if isinstance(difference, ChainDifference):
        ones = jnp.ones_like(difference.root_weight)
        bellman = ChainDifference(ones, difference.transition, difference.discount)
        none = ChainDifference(ones, difference.transition, jnp.zeros(()))
        return none, _Successors(ones, difference.transition, difference.discount), bellman
    assert isinstance(difference, WeightedSums)
    coefficients = difference.coefficients / difference.coefficients[:1]
    only_states = coefficients.at[1:].set(0.0)
    weights = -coefficients.at[0].set(0.0)
    total = weights.sum(axis=0)
    mean = weights / jnp.where(total == 0, 1.0, total)
    return WeightedSums(only_states), WeightedSums(mean), WeightedSums(coefficients)


class _Successors(ChainDifference):
    """P F for the values of all states of a chain."""

    def __call__(self, values: Any) -> Any:
        return self.transition @ values

    def transpose(self, u: Any) -> Any:
        return self.transition.T @ u
