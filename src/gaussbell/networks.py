"""Value networks: the paper's multi-layer perceptron, and an adapter for any other function."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.precision import as_key, callers_dtype, in_double, numbers_as_arrays, read_count, read_numbers

Activation = Callable[[Array], Array]


def bent_identity(x: Array) -> Array:
    """(sqrt(x^2 + 1) - 1) / 2 + x: smooth, unbounded, with a slope between 1/2 and 3/2."""
    return (jnp.sqrt(x * x + 1) - 1) / 2 + x


def softplus(x: Array) -> Array:
    """log(1 + exp(x)): smooth, with a slope between 0 and 1."""
    return jax.nn.softplus(x)


def tanh(x: Array) -> Array:
    """The hyperbolic tangent. It saturates, so rows of the Jacobian can vanish: see Proposition 1."""
    return jnp.tanh(x)


def identity(x: Array) -> Array:
    """The identity: with it in every layer the network is linear in its input."""
    return x


class MLP(eqx.Module):
    """A fully connected network with homogeneous weights and a scalar output.

        phi_0 = input,    phi_l = activation(W_l' [phi_{l-1}; 1]),    value = W_L' [phi_{L-1}; 1]

    Each W_l has shape (n_{l-1} + 1, n_l); its last row is the bias. Weights are drawn uniformly from
    [-1, 1] and are float64 whatever the `jax_enable_x64` flag; a call computes in float64 and answers in
    the caller's default precision. The activation must be smooth and act element by element; one whose
    slope vanishes (tanh far out, ReLU) costs rank in the Jacobian. Section 3.3 of the paper.

    Arguments: `sizes` from input to output, the last being 1; `key` a JAX key or a whole number.

    >>> import gaussbell as gb
    >>> network = gb.MLP((2, 10, 10, 1), key=0)
    >>> network.num_parameters
    151
    >>> network([[0.0, 0.0], [0.1, 0.2], [0.3, 0.4]]).shape
    (3,)
    """

    weights: tuple[Float[Array, "fan_in_and_one fan_out"], ...]
    activation: Activation = eqx.field(static=True)

    @in_double
    def __init__(
        self,
        sizes: Sequence[int],
        activation: Activation = bent_identity,
        *,
        key: PRNGKeyArray | int,
    ):
        if not isinstance(sizes, Iterable) or len(sizes) < 2:
            raise ValueError(
                f"sizes={sizes}: give at least an input and an output size, for example (2, 10, 10, 1)."
            )
        sizes = tuple(read_count("sizes", n, 1) for n in sizes)
        if sizes[-1] != 1:
            raise ValueError(
                f"sizes={sizes}: a value is one number, so the last size must be 1, not {sizes[-1]}. "
                "For Q-factors make the action part of the input."
            )
        if not callable(activation):
            raise ValueError(
                f"activation={activation!r}: give a smooth function of an array, for example "
                "gaussbell.networks.bent_identity or jax.numpy.tanh."
            )
        keys = jax.random.split(as_key(key), len(sizes) - 1)
        # Drawn in single precision, which JAX can do in every mode, so a key always means the same weights.
        self.weights = tuple(
            jax.random.uniform(k, (fan_in + 1, fan_out), jnp.float32, -1, 1).astype(jnp.float64)
            for k, (fan_in, fan_out) in zip(keys, itertools.pairwise(sizes), strict=True)
        )
        self.activation = activation

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of units of each layer, input and output included."""
        return (self.weights[0].shape[-2] - 1, *(w.shape[-1] for w in self.weights))

    @property
    def num_parameters(self) -> int:
        """The sum over layers of (n_{l-1} + 1) n_l."""
        return sum((fan_in + 1) * fan_out for fan_in, fan_out in itertools.pairwise(self.sizes))

    @in_double
    def scaled(self, factor: Any) -> "MLP":
        """The network whose output is `factor` times this one's: only the last layer changes."""
        *hidden, last = self.weights
        return eqx.tree_at(lambda network: network.weights, self, (*hidden, last * factor))

    def __call__(self, inputs: Any) -> Float[Array, "*batch"]:
        """The value of one input (d,), a scalar, or of a batch (N, d), a vector of N."""
        return self._answer(inputs, callers_dtype())

    @in_double
    def _answer(self, inputs: Any, dtype: Any) -> Float[Array, "*batch"]:
        numbers = read_numbers("inputs", inputs)
        if numbers.ndim == 0 or numbers.shape[-1] != self.sizes[0]:
            raise ValueError(
                f"inputs: shape {numbers.shape}; the network takes ({self.sizes[0]},) for one input or "
                f"(N, {self.sizes[0]}) for a batch."
            )
        return self.forward(numbers).astype(dtype)

    def forward(self, inputs: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """The values in the precision of `inputs`, without conversions."""
        *hidden, last = self.weights
        phi = inputs
        for weight in hidden:
            phi = self.activation(phi @ weight[:-1] + weight[-1])
        return (phi @ last[:-1] + last[-1])[..., 0]


class ValueFunction(eqx.Module):
    """A value network made of a parameter pytree and a function `apply(params, input) -> value`.

    Use it for networks of other libraries (Flax, Haiku, plain functions). `apply` gets one input of
    shape (d,) and returns one number. Equinox modules need no wrapping: pass them as they are.

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

    def __call__(self, x: Array) -> Array:
        return self.apply(self.params, x)


class FeatureNetwork(eqx.Module):
    """A network behind features: it takes states as they are and fits only the network's parameters.

    The features are computed once for a whole solve, so they cost nothing a step.

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
        return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(self.network, eqx.is_inexact_array)))

    def __call__(self, inputs: Any) -> Float[Array, "*batch"]:
        """The value of one input (d,), a scalar, or of a batch (N, d), a vector of N."""
        return self._answer(inputs, callers_dtype())

    @in_double
    def _answer(self, inputs: Any, dtype: Any) -> Float[Array, "*batch"]:
        made = self.features(read_numbers("inputs", inputs))
        values = network_values(self.network, made.reshape(-1, made.shape[-1]))
        return values.reshape(made.shape[:-1]).astype(dtype)


class PerAction(eqx.Module):
    """Q-factors with one output an action: `network(state)` gives them all, the last input says which.

    It takes a state with the action's number appended, as every other Q network here. Arguments: `network`,
    an equinox module or any function of one state to as many numbers as there are actions.

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


def without_features(network: Any) -> Any:
    """The part of a network that is fitted."""
    return network.network if isinstance(network, FeatureNetwork) else network


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
            f"network: one input of shape {x.shape} gave an output of shape {value.shape}; a value "
            "network returns one number (shape () or (1,)) for each input."
        )
    return value.reshape(())


@in_double
def values_at(network: Any, inputs: Any) -> np.ndarray:
    """The values of a batch of inputs under any value network, in double precision, as NumPy numbers.

    Compiled once for each number of inputs.
    """
    return np.asarray(_compiled_values(network, read_numbers("inputs", inputs)))


@eqx.filter_jit
def _compiled_values(network: Any, inputs: Float[Array, "N d"]) -> Float[Array, " N"]:
    return network_values(network, inputs)


@in_double
def redrawn(network: Any, key: PRNGKeyArray | int) -> Any:
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
