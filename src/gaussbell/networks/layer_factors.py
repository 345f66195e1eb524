"""The differential map G(W) of the MLP, in factors, after the paper's appendix.

For value i and layer l, with phi_{l-1} (n_{l-1},) the layer's input and Psi_l (n_l,) the derivative of the
value by the layer's pre-activation,

    Psi_L = 1,    Psi_l = activation'(z_l) * (Wbar_{l+1} Psi_{l+1}),    Wbar: W without its bias row,

the derivative by W_l is the outer product [phi_{l-1}; 1] Psi_l'. Row i of G lists these products layer
by layer, each row by row (the paper stacks columns; only the order of parameters differs).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gaussbell.networks.mlp import MLP
from gaussbell.numerics.differential import DenseRows, DifferentialMap, combine
from gaussbell.numerics.precision import in_double
from gaussbell.numerics.triangles import product_triangle, row_blocks

FACTORS_PAY = 2.0
"""A layer enters the Gram matrix by its factors if its dense rows cost this many times more products."""

DENSE_NUMBERS = 2**17
"""Up to so many entries (1 MiB) dense rows are the faster form, to compile and to run."""

NORMAL_BLOCK_NUMBERS = 2**23
"""How many entries of dense rows are formed at once (64 MiB) on the way to G'G."""


class LayerFactors(DifferentialMap):
    """G in the factors of the Psi recursion: a layer input and a sensitivity for each layer.

    Nothing of size N x n is stored. Each row is a sum of T terms, one as it comes from the network, two for a
    state and its successor; phi and Psi list the terms in T stacks of N. With i, j rows and t, u terms,

        (G h)_i   = sum_l sum_t  [phi_ti; 1]' H_l Psi_ti
        (G' u)_l  = sum_i sum_t  u_i [phi_ti; 1] Psi_ti'
        (G G')_ij = sum_l sum_tu (phi_ti . phi_uj + 1) (Psi_ti . Psi_uj)
    """

    value: Float[Array, " N"]
    inputs: tuple[Float[Array, "TN fan_in"], ...]
    sensitivities: tuple[Float[Array, "TN fan_out"], ...]
    terms: int = eqx.field(static=True, default=1)

    @in_double
    def with_output_unit(self, unit: Float[Array, ""]) -> "LayerFactors":
        """G for last-layer weights that are counted in multiples of `unit`."""
        *hidden, last = self.sensitivities
        return LayerFactors(self.value, self.inputs, (*hidden, unit * last), self.terms)

    def combined(self, coefficients: Float[Array, "T m"]) -> DifferentialMap:
        """Sums of rows: in factors, or dense where that is small."""
        assert self.terms == 1
        sensitivities = tuple(coefficients.reshape(-1, 1) * psi for psi in self.sensitivities)
        value = combine(coefficients, self.value)
        factors = LayerFactors(value, self.inputs, sensitivities, coefficients.shape[0])
        small = len(value) * self.num_parameters <= DENSE_NUMBERS
        return DenseRows(value, factors.rows()) if small else factors

    @property
    def num_parameters(self) -> int:
        return sum((phi.shape[-1] + 1) * psi.shape[-1] for phi, psi in self.layers())

    def layers(self):
        """The pairs (phi_{l-1}, Psi_l) from the first layer to the last."""
        return list(zip(self.inputs, self.sensitivities, strict=True))

    def take(self, rows: Int[Array, " s"]) -> "LayerFactors":
        def some(factor: Float[Array, "TN width"]) -> Float[Array, "Ts width"]:
            width = factor.shape[-1]
            return factor.reshape(self.terms, -1, width)[:, rows].reshape(-1, width)

        inputs, sensitivities = jax.tree.map(some, (self.inputs, self.sensitivities))
        return LayerFactors(self.value[rows], inputs, sensitivities, self.terms)

    @in_double
    def rows(self) -> Float[Array, "N n"]:
        return self._dense(self.layers())

    def _dense(self, layers) -> Float[Array, "N columns"]:
        blocks = []
        for phi, psi in layers:
            # Products of stacks that are added: XLA fuses this into one pass, which a batched product is not.
            pairs = zip(jnp.split(phi, self.terms), jnp.split(psi, self.terms), strict=True)
            outer = sum(p[:, :, None] * q[:, None, :] for p, q in pairs)
            blocks.append(jnp.reshape(outer, (len(self.value), -1)))
            blocks.append(sum(jnp.split(psi, self.terms)))  # the bias row comes last
        return jnp.concatenate(blocks, axis=1)

    @in_double
    def apply(self, h: Float[Array, " n"]) -> Float[Array, " N"]:
        total = jnp.zeros(self.terms * len(self.value), self.value.dtype)
        start = 0
        for phi, psi in self.layers():
            fan_in, fan_out = phi.shape[1], psi.shape[1]
            end = start + (fan_in + 1) * fan_out
            direction = h[start:end].reshape(fan_in + 1, fan_out)
            total += jnp.sum((phi @ direction[:-1] + direction[-1]) * psi, axis=1)
            start = end
        return total.reshape(self.terms, -1).sum(axis=0)

    @in_double
    def transpose(self, u: Float[Array, " N"]) -> Float[Array, " n"]:
        weight = jnp.tile(u, self.terms)[:, None]
        blocks = []
        for phi, psi in self.layers():
            weighted = weight * psi
            blocks.append((phi.T @ weighted).ravel())
            blocks.append(weighted.sum(axis=0))
        return jnp.concatenate(blocks)

    @in_double
    def gram_triangle(self) -> Float[Array, "N N"]:
        """G G' on and below the diagonal, in blocks of rows that stay in the processor's cache.

        A wide layer enters by its factors, whose products are as long as its widths; thin layers enter by
        their dense rows, as long as their parameters.
        """
        size, terms = len(self.value), self.terms
        wide = [pair for pair in self.layers() if _factors_pay(*pair, terms)]
        thin = [pair for pair in self.layers() if not _factors_pay(*pair, terms)]
        if not wide:
            return product_triangle(self._dense(thin))
        dense = self._dense(thin) if thin else jnp.zeros((size, 0), self.value.dtype)
        wide = [tuple(factor.reshape(terms, size, -1) for factor in pair) for pair in wide]
        blocks = []
        for start, end in row_blocks(size):
            block = dense[start:end] @ dense[:end].T
            for pair in wide:
                phi, psi = (_cross_products(factor[:, start:end], factor[:, :end]) for factor in pair)
                product = ((phi + 1) * psi).reshape(terms, end - start, terms, end)
                block += product.sum(axis=(0, 2))
            blocks.append(jnp.pad(block, ((0, 0), (0, size - end))))
        return jnp.concatenate(blocks)

    @in_double
    def normal_triangle(self) -> Float[Array, "n n"]:
        size, columns = len(self.value), self.num_parameters
        height = max(1, NORMAL_BLOCK_NUMBERS // columns)
        if size <= height:
            return product_triangle(self.rows().T)
        whole = size // height * height

        def add(total, rows):
            return total + product_triangle(self.take(rows).rows().T), None

        zero = jnp.zeros((columns, columns), self.value.dtype)
        blocks = jnp.arange(whole, dtype=jnp.int32).reshape(-1, height)
        total = jax.lax.scan(add, zero, blocks)[0]
        return total if whole == size else add(total, np.arange(whole, size, dtype=np.int32))[0]


def _factors_pay(phi: Float[Array, "TN fan_in"], psi: Float[Array, "TN fan_out"], terms: int) -> bool:
    fan_in, fan_out = phi.shape[1], psi.shape[1]
    return (fan_in + 1) * fan_out > FACTORS_PAY * terms**2 * (fan_in + fan_out)


def _cross_products(
    left: Float[Array, "T a width"], right: Float[Array, "T b width"]
) -> Float[Array, "Ta Tb"]:
    width = left.shape[-1]
    return left.reshape(-1, width) @ right.reshape(-1, width).T


def layer_factors(network: MLP, inputs: Float[Array, "N d"]) -> LayerFactors:
    """The values and the factors of an MLP at a batch of inputs: one pass forward, one back."""
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
