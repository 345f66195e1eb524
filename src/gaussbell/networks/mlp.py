"""The paper's multi-layer perceptron and its activations."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.numerics.arguments import as_key, read_count, read_numbers
from gaussbell.numerics.compilation import compiled_in_haste
from gaussbell.numerics.precision import as_single, callers_dtype, has_double, in_double, is_traced

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

    Args:
        sizes: From input to output, the last being 1; `key` a JAX key or a whole number.

    Example:
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
        key: PRNGKeyArray | int = 0,
    ):
        if not isinstance(sizes, Iterable) or len(sizes) < 2:
            raise ValueError(
                f"sizes={sizes}: give at least an input and an output size, for example (2, 10, 10, 1)."
            )
        sizes = tuple(read_count("sizes", n, 1) for n in sizes)
        if sizes[-1] != 1:
            raise ValueError(
                f"sizes={sizes}: a value is one number, so the last size must be 1, not {sizes[-1]}. For "
                "Q-factors make the action part of the input."
            )
        if not callable(activation):
            raise ValueError(
                f"activation={activation!r}: give a smooth function of an array, for example "
                "gaussbell.networks.bent_identity or jax.numpy.tanh."
            )
        self.weights = _draw_weights(as_key(key), sizes)
        self.activation = activation

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of units of each layer, input and output included."""
        return (self.weights[0].shape[-2] - 1, *(w.shape[-1] for w in self.weights))

    @property
    def num_parameters(self) -> int:
        """The sum over layers of (n_{l-1} + 1) n_l."""
        return sum((fan_in + 1) * fan_out for fan_in, fan_out in itertools.pairwise(self.sizes))

    def with_weights(self, weights: tuple[Any, ...]) -> "MLP":
        """The network with other weights, of the same shapes."""
        return eqx.tree_at(lambda network: network.weights, self, tuple(weights))

    @in_double
    def scaled(self, factor: Any) -> "MLP":
        """The network whose output is `factor` times this one's: only the last layer changes."""
        *hidden, last = self.weights
        return self.with_weights((*hidden, last * factor))

    def __call__(self, inputs: Any) -> Float[Array, "*batch"]:
        """The value of one input (d,), a scalar, or of a batch (N, d), a vector of N."""
        if is_traced(inputs) and not (has_double() or is_traced(self.weights)):
            # A program, of gradients say, that has no 64-bit types.
            return as_single(self).forward(jnp.asarray(inputs, jnp.float32))
        return self._answer(inputs, callers_dtype())

    @in_double
    def _answer(self, inputs: Any, dtype: Any) -> Float[Array, "*batch"]:
        numbers = read_numbers("inputs", inputs)
        if numbers.ndim == 0 or numbers.shape[-1] != self.sizes[0]:
            raise ValueError(
                f"inputs: shape {numbers.shape}; the network takes ({self.sizes[0]},) for one input or (N, "
                f"{self.sizes[0]}) for a batch."
            )
        return self.forward(numbers).astype(dtype)

    def forward(self, inputs: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """The values in the precision of `inputs`, without conversions."""
        *hidden, last = self.weights
        phi = inputs
        for weight in hidden:
            phi = self.activation(phi @ weight[:-1] + weight[-1])
        return (phi @ last[:-1] + last[-1])[..., 0]


@compiled_in_haste
def _draw_weights(
    key: PRNGKeyArray, sizes: tuple[int, ...]
) -> tuple[Float[Array, "fan_in_and_one fan_out"], ...]:
    # Drawn in single precision, which JAX can do in every mode, so a key always means the same weights.
    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(
        jax.random.uniform(k, (fan_in + 1, fan_out), jnp.float32, -1, 1).astype(jnp.float64)
        for k, (fan_in, fan_out) in zip(keys, itertools.pairwise(sizes), strict=True)
    )
