"""Value networks: the paper's multi-layer perceptron, and an adapter for any other function."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.linalg import block_diag

from gaussbell.networks.host_values import HostValues
from gaussbell.networks.mlp import MLP
from gaussbell.numerics.arguments import as_key, read_numbers
from gaussbell.numerics.precision import (
    as_single,
    callers_dtype,
    has_double,
    in_double,
    is_traced,
    numbers_as_arrays,
)


class ValueFunction(eqx.Module):
    """A value network made of a parameter pytree and a function `apply(params, input) -> value`.

    Use it for networks of other libraries (Flax, Haiku, plain functions). `apply` gets one input of
    shape (d,) and returns one number. Equinox modules need no wrapping: pass them as they are.

    Example:
        >>> import gaussbell as gb, jax.numpy as jnp
        >>> linear = gb.ValueFunction({"slope": jnp.ones(2)}, lambda params, s: params["slope"] @ s)
        >>> float(linear(jnp.array([1.0, 2.0])))
        3.0
    """

    params: Any
    apply: Callable[[Any, Array], Array] = eqx.field(static=True)

    @in_double
    def __init__(self, params: Any, apply: Callable[[Any, Array], Array]):
        # A Python number among the parameters is one of them.
        self.params = numbers_as_arrays(params)
        self.apply = apply

    def __call__(self, x: Any) -> Array:
        """The value of one input (d,), or of a batch (N, d)."""
        x = jnp.asarray(x)
        if x.ndim < 2:
            return self.apply(self.params, x)
        return jax.vmap(lambda one: self.apply(self.params, one))(x)


class BatchedNetwork(eqx.Module):
    """A network of one input, such as an equinox module, that takes batches too: what `evaluate` gives back.

    Example:
        >>> import equinox, gaussbell as gb, jax, numpy
        >>> network = equinox.nn.MLP(2, "scalar", 8, 1, key=jax.random.key(0))
        >>> gb.networks.BatchedNetwork(network)(numpy.zeros((5, 2))).shape
        (5,)
    """

    network: Any

    def __getattr__(self, name: str) -> Any:
        """What the network itself has, its layers for instance."""
        return getattr(object.__getattribute__(self, "network"), name)

    def __call__(self, inputs: Any) -> Float[Array, "*batch"]:
        """The value of one input (d,), a scalar, or of a batch (N, d), a vector of N."""
        inputs = jnp.asarray(inputs)
        if inputs.ndim < 2:
            return one_value(self.network, inputs)
        return jax.vmap(lambda one: one_value(self.network, one))(inputs)


class FeatureNetwork(eqx.Module):
    """A network behind features: it takes states as they are and fits only the network's parameters.

    The features are computed once for a whole solve, so they cost nothing a step.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> network = gb.FeatureNetwork(car.features(), gb.MLP((6, 20, 20, 1), key=0))
        >>> network(car.sample_states(5, key=1)).shape
        (5,)
    """

    features: Any
    network: Any

    @property
    def num_parameters(self) -> int:
        """How many numbers are fitted: those of the network."""
        return num_parameters(self)

    def __call__(self, inputs: Any) -> Float[Array, "*batch"]:
        """The value of one input (d,), a scalar, or of a batch (N, d), a vector of N."""
        if is_traced(inputs) and not (has_double() or is_traced(self.network)):
            return as_single(self)._values(jnp.asarray(inputs, jnp.float32))
        return self._answer(inputs, callers_dtype())

    @in_double
    def _answer(self, inputs: Any, dtype: Any) -> Float[Array, "*batch"]:
        return self._values(read_numbers("inputs", inputs)).astype(dtype)

    def _values(self, inputs: Any) -> Float[Array, "*batch"]:
        made = self.features(inputs)
        values = network_values(self.network, made.reshape(-1, made.shape[-1]))
        return values.reshape(made.shape[:-1])


class PerAction(eqx.Module):
    """Q-factors with one output an action: `network(state)` gives them all, the last input says which.

    It takes a state with the action's number appended, as every other Q network here.

    Args:
        network: An equinox module or any function of one state to as many numbers as there are actions.

    Example:
        >>> import equinox, gaussbell as gb, jax, jax.numpy as jnp
        >>> q = gb.networks.PerAction(equinox.nn.MLP(4, 2, 10, 2, key=jax.random.key(0)))
        >>> q(jnp.zeros(5)).shape
        ()
    """

    network: Any

    def __call__(self, pair: Float[Array, " d_and_one"]) -> Float[Array, ""]:
        q = self.network(pair[..., :-1])
        number = jnp.arange(q.shape[-1], dtype=pair.dtype)
        return jnp.where(number == pair[..., -1], q, 0.0).sum()


TAKE_BATCHES = (MLP, ValueFunction, FeatureNetwork, BatchedNetwork)


def without_features(network: Any) -> Any:
    """The part of a network that is fitted."""
    return network.network if isinstance(network, FeatureNetwork | BatchedNetwork) else network


def taking_batches(network: Any) -> Any:
    """The network itself if it takes batches of inputs, or one around it that does."""
    return network if isinstance(network, TAKE_BATCHES) else BatchedNetwork(network)


@in_double
def mean_network(one: Any, other: Any) -> Any:
    """The mean of two MLPs of one size, alone or behind the same features, as one that is twice as wide.

    Example:
        >>> import gaussbell as gb
        >>> from gaussbell.networks.value_function import mean_network
        >>> one, other = gb.MLP((2, 3, 1), key=0), gb.MLP((2, 3, 1), key=1)
        >>> mean = mean_network(one, other)
        >>> mean.sizes, bool(abs(mean([1.0, 2.0]) - (one([1.0, 2.0]) + other([1.0, 2.0])) / 2) < 1e-6)
        ((2, 6, 1), True)
    """
    if isinstance(one, FeatureNetwork):
        return FeatureNetwork(one.features, mean_network(one.network, other.network))
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(one.weights, other.weights, strict=True)]
    if len(pairs) == 1:
        return one.with_weights(((pairs[0][0] + pairs[0][1]) / 2,))
    first, *hidden, (a, b) = pairs
    blocks = [np.asarray(block_diag(c[:-1], d[:-1])) for c, d in hidden]
    biases = [np.append(c[-1], d[-1]) for c, d in hidden]
    layers = [np.column_stack(first)]
    layers += [np.vstack([block, bias]) for block, bias in zip(blocks, biases, strict=True)]
    layers += [np.vstack([a[:-1], b[:-1], a[-1:] + b[-1:]]) / 2]
    return one.with_weights(tuple(jnp.asarray(layer) for layer in layers))


def num_parameters(network: Any) -> int:
    """How many numbers of a network are fitted."""
    fitted = eqx.filter(without_features(network), eqx.is_inexact_array)
    return sum(leaf.size for leaf in jax.tree.leaves(fitted))


def network_values(network: Any, inputs: Float[Array, "N d"]) -> Float[Array, " N"]:
    """The values of a batch of inputs under any value network."""
    if type(network) is MLP:
        return network.forward(inputs)
    return jax.vmap(lambda x: one_value(network, x))(inputs)


def one_value(network: Any, x: Float[Array, " d"]) -> Float[Array, ""]:
    """The value of one input under a network that may return shape () or (1,)."""
    value = network(x)
    if value is None or not jnp.issubdtype(jnp.result_type(value), jnp.floating):
        raise ValueError(
            f"network: one input of shape {x.shape} gave {value!r}; a value network returns one "
            "floating-point number for each input."
        )
    value = jnp.asarray(value)
    if math.prod(value.shape) != 1:
        raise ValueError(
            f"network: one input of shape {x.shape} gave an output of shape {value.shape}; a value network "
            "returns one number (shape () or (1,)) for each input."
        )
    return value.reshape(())


@in_double
def values_at(network: Any, inputs: Any) -> np.ndarray:
    """The values of a batch of inputs under any value network, in double precision, as NumPy numbers.

    Compiled once for each number of inputs, unless it is a function on the host.
    """
    if isinstance(network, HostValues):
        return network(inputs)
    return np.asarray(_compiled_values(network, read_numbers("inputs", inputs)))


@eqx.filter_jit
def _compiled_values(network: Any, inputs: Float[Array, "N d"]) -> Float[Array, " N"]:
    return network_values(network, inputs)


@in_double
def redrawn(network: Any, key: PRNGKeyArray | int = 0) -> Any:
    """The network with every weight drawn anew, uniformly within ± the largest of its array."""
    weights, rest = eqx.partition(without_features(network), eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(weights)
    keys = jax.random.split(as_key(key), len(leaves))
    drawn = [
        jnp.abs(leaf).max() * jax.random.uniform(k, leaf.shape, jnp.float32, -1, 1).astype(leaf.dtype)
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    fresh = eqx.combine(jax.tree.unflatten(tree, drawn), rest)
    return FeatureNetwork(network.features, fresh) if isinstance(network, FeatureNetwork) else fresh
