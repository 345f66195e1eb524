"""G(W) of any value network: in layer factors for an MLP, by autodiff otherwise."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.networks.layer_factors import layer_factors
from gaussbell.networks.mlp import MLP
from gaussbell.networks.value_function import network_values, one_value
from gaussbell.numerics.differential import MOST_DENSE_NUMBERS, DenseRows, DifferentialMap, OnDemand
from gaussbell.numerics.packing import Packing
from gaussbell.numerics.precision import as_double, in_double


@in_double
def differential_map(network: Any, inputs: Any) -> DifferentialMap:
    """G(W) of a network at a batch of inputs: in layer factors for an MLP, by autodiff otherwise.

    Labels eq:diff_map_f and eq:def_G_W of the paper.

    Example:
        >>> import gaussbell as gb
        >>> g = gb.differential_map(gb.MLP((2, 7, 1), key=0), [[0.0, 1.0], [1.0, 0.0]])
        >>> g.rows().shape, g.gram().shape
        ((2, 29), (2, 2))
    """
    inputs = jnp.asarray(inputs, jnp.float64)
    if inputs.ndim != 2:
        raise ValueError(f"inputs: shape {inputs.shape}; give a batch of shape (N, d), one input a row.")
    network = as_double(network)
    if type(network) is MLP:
        return layer_factors(network, inputs)
    packing = Packing(network)
    x, value = packing.pack(network), network_values(network, inputs)
    if value.size * x.size > MOST_DENSE_NUMBERS:
        return OnDemand(value, x, _Values(packing, inputs))

    def gradient(s: Float[Array, " d"]) -> Float[Array, " n"]:
        return jax.grad(lambda y: one_value(packing.unpack(y), s))(x)

    return DenseRows(value, jax.vmap(gradient)(inputs))


class _Values(eqx.Module):
    """The values of a network at fixed inputs, as a function of its packed parameters."""

    packing: Packing
    inputs: Float[Array, "N d"]

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " N"]:
        return network_values(self.packing.unpack(x), self.inputs)
