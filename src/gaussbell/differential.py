"""The differential map G(W) of a value network: the derivative of a batch of values by the parameters.

For the MLP it is kept in factors, after the paper's appendix. For sample i and layer l, with
phi_{l-1} (n_{l-1},) the layer's input and Psi_l (n_l,) the derivative of the value by the layer's
pre-activation,

    Psi_L = 1,    Psi_l = activation'(z_l) * (Wbar_{l+1} Psi_{l+1}),    Wbar: W without its bias row,

the derivative by W_l is the outer product [phi_{l-1}; 1] Psi_l'. Row i of G lists these products layer
by layer, each row by row (the paper stacks columns; only the order of parameters differs).
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.networks import MLP, network_values, one_value
from gaussbell.packing import Packing
from gaussbell.precision import as_double, in_double


class DifferentialMap(eqx.Module):
    """The values F of N inputs and the N x P matrix G of their derivatives by the parameters."""

    value: eqx.AbstractVar[Float[Array, " N"]]

    @property
    @abc.abstractmethod
    def num_parameters(self) -> int: ...

    @abc.abstractmethod
    def rows(self) -> Float[Array, "N P"]:
        """G as a dense matrix."""

    @abc.abstractmethod
    def apply(self, h: Float[Array, " P"]) -> Float[Array, " N"]:
        """G h."""

    @abc.abstractmethod
    def transpose(self, u: Float[Array, " N"]) -> Float[Array, " P"]:
        """G' u."""

    @abc.abstractmethod
    def gram(self) -> Float[Array, "N N"]:
        """G G'."""

    @property
    @abc.abstractmethod
    def gram_from_rows_is_cheaper(self) -> bool:
        """Is it cheaper to form the rows and multiply them than to call `gram`?"""


class DenseRows(DifferentialMap):
    """G as a dense matrix: for networks of which nothing but the function is known."""

    value: Float[Array, " N"]
    matrix: Float[Array, "N P"]

    @property
    def num_parameters(self) -> int:
        return self.matrix.shape[1]

    @in_double
    def rows(self) -> Float[Array, "N P"]:
        return self.matrix

    @in_double
    def apply(self, h: Float[Array, " P"]) -> Float[Array, " N"]:
        return self.matrix @ h

    @in_double
    def transpose(self, u: Float[Array, " N"]) -> Float[Array, " P"]:
        return u @ self.matrix

    @in_double
    def gram(self) -> Float[Array, "N N"]:
        return self.matrix @ self.matrix.T

    @property
    def gram_from_rows_is_cheaper(self) -> bool:
        return True


class LayerFactors(DifferentialMap):
    """G in the factors of the Psi recursion: a layer input and a sensitivity for each layer.

    Nothing of size N x P is stored. The products and the Gram matrix come from the factors:

        (G h)_i   = sum_l  [phi_{l-1}^i; 1]' H_l Psi_l^i
        (G' u)_l  = sum_i  u_i [phi_{l-1}^i; 1] Psi_l^i'
        (G G')_ij = sum_l  (phi_{l-1}^i . phi_{l-1}^j + 1) (Psi_l^i . Psi_l^j)
    """

    value: Float[Array, " N"]
    inputs: tuple[Float[Array, "N fan_in"], ...]
    sensitivities: tuple[Float[Array, "N fan_out"], ...]

    @in_double
    def with_output_unit(self, unit: Float[Array, ""]) -> "LayerFactors":
        """G for last-layer weights that are counted in multiples of `unit`."""
        *hidden, last = self.sensitivities
        return LayerFactors(self.value, self.inputs, (*hidden, unit * last))

    @property
    def num_parameters(self) -> int:
        return sum((phi.shape[1] + 1) * psi.shape[1] for phi, psi in self.layers())

    def layers(self):
        """The pairs (phi_{l-1}, Psi_l) from the first layer to the last."""
        return zip(self.inputs, self.sensitivities, strict=True)

    @in_double
    def rows(self) -> Float[Array, "N P"]:
        blocks = []
        for phi, psi in self.layers():
            blocks.append((phi[:, :, None] * psi[:, None, :]).reshape(len(phi), -1))
            blocks.append(psi)  # the bias row comes last
        return jnp.concatenate(blocks, axis=1)

    @in_double
    def apply(self, h: Float[Array, " P"]) -> Float[Array, " N"]:
        total = jnp.zeros_like(self.value)
        start = 0
        for phi, psi in self.layers():
            fan_in, fan_out = phi.shape[1], psi.shape[1]
            end = start + (fan_in + 1) * fan_out
            direction = h[start:end].reshape(fan_in + 1, fan_out)
            total += jnp.sum((phi @ direction[:-1] + direction[-1]) * psi, axis=1)
            start = end
        return total

    @in_double
    def transpose(self, u: Float[Array, " N"]) -> Float[Array, " P"]:
        blocks = []
        for phi, psi in self.layers():
            weighted = u[:, None] * psi
            blocks.append((phi.T @ weighted).ravel())
            blocks.append(weighted.sum(axis=0))
        return jnp.concatenate(blocks)

    @in_double
    def gram(self) -> Float[Array, "N N"]:
        return sum(
            ((phi @ phi.T + 1) * (psi @ psi.T) for phi, psi in self.layers()),
            start=jnp.zeros((), self.value.dtype),
        )

    @property
    def gram_from_rows_is_cheaper(self) -> bool:
        # Products cost N^2 P from rows and N^2 times the sum of widths from factors, but the latter also
        # pass over N x N matrices a few times a layer. Measured: equal near (2, 50, 50, 1).
        widths = sum(phi.shape[1] + psi.shape[1] for phi, psi in self.layers())
        return self.num_parameters < 12 * widths


@in_double
def differential_map(network: Any, inputs: Any) -> DifferentialMap:
    """G(W) of a network at a batch of inputs: in layer factors for an MLP, by autodiff otherwise.

    Labels eq:diff_map_f and eq:def_G_W of the paper.

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
        return _layer_factors(network, inputs)
    return _dense_rows(network, inputs)


def _layer_factors(network: MLP, inputs: Float[Array, "N d"]) -> LayerFactors:
    *hidden, last = network.weights
    layer_inputs, slopes = [inputs], []
    for weight in hidden:
        z = layer_inputs[-1] @ weight[:-1] + weight[-1]
        phi, slope = jax.jvp(network.activation, (z,), (jnp.ones_like(z),))
        layer_inputs.append(phi)
        slopes.append(slope)
    value = (layer_inputs[-1] @ last[:-1] + last[-1])[:, 0]

    psi = jnp.ones((len(inputs), 1), inputs.dtype)
    sensitivities = [psi]
    for slope, following in zip(reversed(slopes), reversed(network.weights[1:]), strict=True):
        psi = slope * (psi @ following[:-1].T)
        sensitivities.append(psi)
    return LayerFactors(value, tuple(layer_inputs), tuple(reversed(sensitivities)))


def _dense_rows(network: Any, inputs: Float[Array, "N d"]) -> DenseRows:
    packing = Packing(network)
    x = packing.pack(network)

    def gradient(s: Float[Array, " d"]) -> Float[Array, " P"]:
        return jax.grad(lambda y: one_value(packing.unpack(y), s))(x)

    return DenseRows(network_values(network, inputs), jax.vmap(gradient)(inputs))
