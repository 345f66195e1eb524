"""The Bellman residual, and what a semi-gradient drops from its derivative.

Sampled or exact, a Bellman residual is affine in the network's values at fixed inputs,

    residual = A F(W) - target,

so all of its calculus is the map A. With w the weight of a row (1/N, or the stationary probability),

    samples:      A F = sqrt(w) (F(s) - discount F(s')),      target = sqrt(w) reward (F(s'): the mean of
    several) finite chain: A F = sqrt(w) (F - discount P F),           target = sqrt(w) expected reward

and half the sum of squares is the NMSBE itself (labels eq:nmsbe, eq:nmsbe_continuous). The complete
derivative is A G. A semi-gradient keeps only sqrt(w) G(s): it drops the successor.
"""

import abc
import math
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse
from jaxtyping import Array, Float, Int

from gaussbell.data.transitions import Transitions
from gaussbell.networks import encodings
from gaussbell.networks.derivatives import differential_map
from gaussbell.networks.layer_factors import LayerFactors
from gaussbell.networks.mlp import MLP
from gaussbell.networks.value_function import FeatureNetwork, network_values, taking_batches, without_features
from gaussbell.numerics.arguments import read_numbers
from gaussbell.numerics.differential import DifferentialMap, combine
from gaussbell.numerics.packing import Packing
from gaussbell.numerics.precision import in_double, is_traced, on_host
from gaussbell.numerics.triangles import product_triangle
from gaussbell.optimise.problem import LeastSquaresProblem, Linearisation
from gaussbell.processes.markov_chain import MarkovChain, SparseMatrix

DENSE_CHAIN_STATES = 500
"""Chains up to this size are multiplied as dense matrices."""


class RowMap(eqx.Module):
    """A linear map A from the K values of a network to the m rows of a residual."""

    @abc.abstractmethod
    def __call__(self, values: Float[Array, " K"]) -> Float[Array, " m"]:
        """A v."""

    @abc.abstractmethod
    def differentiate(self, differential: DifferentialMap) -> DifferentialMap:
        """The values A F and derivatives A G, from F and G."""


class WeightedSums(RowMap):
    """Row i is a sum over terms of coefficients[t, i] F_ti, for values listed term by term.

    Samples have two terms, sqrt(w) for the state and -sqrt(w) discount for its successor.
    """

    coefficients: Float[Array, "T m"]

    def __call__(self, values: Float[Array, " K"]) -> Float[Array, " m"]:
        return combine(self.coefficients, values)

    def differentiate(self, differential: DifferentialMap) -> DifferentialMap:
        return differential.combined(self.coefficients)


class ChainDifference(RowMap):
    """sqrt(w) (F - discount P F) for values of all states of a finite chain."""

    root_weight: Float[Array, " K"]
    transition: Any  # a dense array (K, K) or a BCOO
    discount: Float[Array, ""]

    def __call__(self, values: Float[Array, "K *rest"]) -> Float[Array, "K *rest"]:
        weight = self.root_weight.reshape(-1, *(1,) * (values.ndim - 1))
        return weight * (values - self.discount * (self.transition @ values))

    def transpose(self, u: Float[Array, " K"]) -> Float[Array, " K"]:
        weighted = self.root_weight * u
        return weighted - self.discount * (self.transition.T @ weighted)

    def differentiate(self, differential: DifferentialMap) -> "ChainDerivative":
        return ChainDerivative(self(differential.value), differential, self)


class ChainDerivative(DifferentialMap):
    """A G, for the G of the values of a chain's states and the chain's own A."""

    value: Float[Array, " K"]
    of_values: DifferentialMap
    difference: ChainDifference

    @property
    def num_parameters(self) -> int:
        return self.of_values.num_parameters

    @in_double
    def rows(self) -> Float[Array, "K n"]:
        return self.difference(self.of_values.rows())

    @in_double
    def apply(self, h: Float[Array, " n"]) -> Float[Array, " K"]:
        return self.difference(self.of_values.apply(h))

    @in_double
    def transpose(self, u: Float[Array, " K"]) -> Float[Array, " n"]:
        return self.of_values.transpose(self.difference.transpose(u))

    @in_double
    def gram_triangle(self) -> Float[Array, "K K"]:
        # Products of rows cost K^2 n; the Gram matrix of the values costs less in a wide network.
        if self.num_parameters < 2 * len(self.value):
            return product_triangle(self.rows())
        return self.difference(self.difference(self.of_values.gram()).T)


class BellmanProblem(LeastSquaresProblem):
    """The NMSBE of a network as a least-squares problem in its parameters.

    `inputs` are all inputs the network is evaluated at, the states first, then successors if any;
    `difference` maps their values to rows, `semi_gradient` those of the states alone. With an `output_unit`
    the last layer's weights are counted in multiples of it, so that all parameters are of one size.
    `features`, if any, have been applied to `inputs` already, and come before the network again when it is
    returned.
    """

    packing: Packing
    inputs: Float[Array, "K d"]
    target: Float[Array, " m"]
    difference: RowMap
    semi_gradient: WeightedSums
    output_unit: Float[Array, ""] | None = None
    features: Any = None

    def pack(self, network: Any) -> Float[Array, " n"]:
        """The vector that stands for a network."""
        return self.packing.pack(_scale_output(without_features(network), self.output_unit, -1))

    def network(self, x: Float[Array, " n"]) -> Any:
        """The network that x stands for, in double precision."""
        return _scale_output(self.packing.unpack(x), self.output_unit, 1)

    def restore(self, x: Float[Array, " n"]) -> Any:
        network = _scale_output(self.packing.restore(x), self.output_unit, 1)
        return taking_batches(network) if self.features is None else FeatureNetwork(self.features, network)

    def after(self, features: Any) -> "BellmanProblem":
        """The same problem with features before the network."""
        changed = eqx.tree_at(lambda problem: problem.inputs, self, features(self.inputs))
        return eqx.tree_at(lambda p: p.features, changed, features, is_leaf=lambda leaf: leaf is None)

    def residual(self, x: Float[Array, " n"]) -> Float[Array, " m"]:
        return self.difference(network_values(self.network(x), self.inputs)) - self.target

    def linearise(self, x: Float[Array, " n"]) -> Linearisation:
        differential = self.difference.differentiate(self._differential(x, self.inputs))
        return Linearisation(differential.value - self.target, differential)

    def linearise_semi_gradient(self, x: Float[Array, " n"]) -> Linearisation:
        differential = self._differential(x, self.inputs[: len(self.target)])
        return Linearisation(self.residual(x), self.semi_gradient.differentiate(differential))

    @property
    def num_rows(self) -> int:
        return len(self.target) if isinstance(self.difference, WeightedSums) else super().num_rows

    def take(self, rows: Int[Array, " s"]) -> "BellmanProblem":
        difference = cast(WeightedSums, self.difference)
        terms, size = difference.coefficients.shape
        scale = math.sqrt(size / len(rows))
        return BellmanProblem(
            packing=self.packing,
            inputs=self.inputs.reshape(terms, size, -1)[:, rows].reshape(terms * len(rows), -1),
            target=scale * self.target[rows],
            difference=WeightedSums(scale * difference.coefficients[:, rows]),
            semi_gradient=WeightedSums(scale * self.semi_gradient.coefficients[:, rows]),
            output_unit=self.output_unit,
            features=self.features,
        )

    def _differential(self, x: Float[Array, " n"], inputs: Float[Array, "K d"]) -> DifferentialMap:
        differential = differential_map(self.network(x), inputs)
        if self.output_unit is not None and isinstance(differential, LayerFactors):
            return differential.with_output_unit(self.output_unit)
        return differential


def _scale_output(network: Any, unit: Float[Array, ""] | None, power: int) -> Any:
    return network if unit is None else network.scaled(unit**power)


def match_output(problem: BellmanProblem, network: MLP) -> tuple[BellmanProblem, MLP]:
    """The problem in units of the rewards, and the network with its output scaled to fit them best.

    The factor minimises the loss along the output's scale, so a network that fits already keeps its
    output. Rewards of any size then make the same problem.
    """
    values = problem.residual(problem.pack(network)) + problem.target  # the row map of the values
    square, size = values @ values, jnp.linalg.norm(problem.target)
    factor = jnp.where(square > 0, (values @ problem.target) / jnp.where(square > 0, square, 1.0), 1.0)
    unit = jnp.where(size > 0, size, 1.0)
    in_units = eqx.tree_at(lambda p: p.output_unit, problem, unit, is_leaf=lambda leaf: leaf is None)
    # A network with an output that is not finite is left as it is, for the solve to name.
    return in_units, network.scaled(jnp.where(jnp.isfinite(factor), factor, 1.0))


@in_double
def bellman_problem(
    network: Any,
    data: Transitions | MarkovChain,
    *,
    features: Any = None,
    weight: Any = None,
) -> BellmanProblem:
    """The least-squares problem of fitting `network` to a Bellman equation.

    Args:
        data: Transitions, or a chain with `features` (K, d), a row of input for each state (default: the
            state's number, 1 to K).
        weight: (K,), how much each state of a chain counts (default: its stationary probability).
    """
    fitted = without_features(network)
    if isinstance(data, Transitions):
        if features is not None or weight is not None:
            raise ValueError(
                "features and weight describe the states of a finite chain; Transitions carry their own: "
                "put the features into `state` and the weights into Transitions(weight=...)."
            )
        problem = _sampled_problem(fitted, data)
    elif isinstance(data, MarkovChain):
        problem = _chain_problem(fitted, data, features, weight)
    else:
        raise ValueError(
            f"data: got {type(data).__name__}; give gaussbell.Transitions, or mdp.under(policy) of a "
            "gaussbell.FiniteMDP."
        )
    if isinstance(network, FeatureNetwork):
        problem = problem.after(network.features)
    _check_network(fitted, problem)
    return problem


def _sampled_problem(network: Any, data: Transitions) -> BellmanProblem:
    # On the host where the numbers are there: in JAX each of these small operations is compiled.
    host: Any = jnp if is_traced(data) else np
    data = data if is_traced(data) else on_host(data)
    root_weight = host.sqrt(data.weight)
    successors, discount = data.next_inputs, data.discount
    if data.probability is None:
        successors, discount = successors[:, None], discount[:, None]
    else:
        discount = data.probability * discount
    # The successor of a transition that ends the process may be anything, even NaN: it counts for
    # nothing, but zero times NaN would not.
    successors = host.where((discount == 0)[..., None], data.inputs[:, None], successors)
    terms = host.concatenate([data.inputs[None], host.moveaxis(successors, 1, 0)])
    return BellmanProblem(
        packing=Packing(network),
        inputs=jnp.asarray(terms.reshape(-1, terms.shape[-1])),
        target=jnp.asarray(root_weight * data.reward),
        difference=WeightedSums(
            jnp.asarray(host.concatenate([root_weight[None], -root_weight * discount.T]))
        ),
        semi_gradient=WeightedSums(jnp.asarray(root_weight[None])),
    )


def _chain_problem(network: Any, chain: MarkovChain, features: Any, weight: Any) -> BellmanProblem:
    features = encodings.number(chain.num_states) if features is None else features
    features = read_numbers("features", features)
    if features.ndim != 2 or len(features) != chain.num_states:
        raise ValueError(
            f"features: shape {features.shape}; the chain has {chain.num_states} states, so give an array "
            f"of shape ({chain.num_states}, d), one row for each state."
        )
    if not is_traced(features) and not bool(jnp.isfinite(features).all()):
        raise ValueError("features: some are NaN or infinite; every state needs a finite input.")
    weight = read_numbers("weight", chain.positive_stationary() if weight is None else weight)
    if weight.shape != (chain.num_states,):
        raise ValueError(f"weight: shape {weight.shape}; give {chain.num_states} numbers, one a state.")
    if not is_traced(weight) and not (
        bool((weight >= 0).all()) and bool(jnp.isfinite(weight).all()) and float(weight.sum()) > 0
    ):
        raise ValueError("weight: give finite numbers from 0 up, not all zero.")
    root_weight = jnp.sqrt(weight / weight.sum())
    matrix = chain.transition
    small = chain.num_states <= DENSE_CHAIN_STATES
    transition = jnp.asarray(matrix.toarray()) if small else _to_bcoo(matrix)
    return BellmanProblem(
        packing=Packing(network),
        inputs=features,
        target=root_weight * chain.reward,
        difference=ChainDifference(root_weight, transition, jnp.asarray(chain.discount)),
        semi_gradient=WeightedSums(root_weight[None]),
    )


def _to_bcoo(matrix: SparseMatrix) -> sparse.BCOO:
    coo = matrix.tocoo()
    indices = np.stack([coo.row, coo.col], axis=1)
    return sparse.BCOO((jnp.asarray(coo.data), jnp.asarray(indices)), shape=matrix.shape, indices_sorted=True)


def _check_network(network: Any, problem: BellmanProblem) -> None:
    if not callable(network):
        raise ValueError(
            f"network: {type(network).__name__} cannot be called; give a gaussbell.MLP, an equinox module, "
            "or gaussbell.ValueFunction(params, apply)."
        )
    if problem.packing.size == 0:
        raise ValueError("network: it has no floating-point parameters, so there is nothing to fit.")
    width = problem.inputs.shape[1]
    if type(network) is MLP:
        first = cast(MLP, network).sizes[0]
        if first != width:
            raise ValueError(
                f"network: its first size is {first}; it must be {width}, the width of the data's states "
                "(with the action, for Q-factors)."
            )
        return
    try:
        jax.eval_shape(problem.residual, jax.ShapeDtypeStruct((problem.packing.size,), jnp.float64))
    except (TypeError, ValueError) as error:
        if str(error).startswith("network:"):
            raise
        raise ValueError(
            f"network: it failed on an input of shape ({width},), one state of the data (with the action, "
            f"for Q-factors): {str(error).splitlines()[0]}"
        ) from error
