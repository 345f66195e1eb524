"""The true Hessian of the NMSBE beside the Gauss-Newton one (Propositions 2 and 5).

    H = J'J + sum_i r_i D^2 r_i

The second term holds the residual as a factor and vanishes where the fit is exact.
"""

from collections.abc import Callable
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
from gaussbell.processes.markov_chain import MarkovChain

DENSE_PARAMETERS = 1000
"""Up to so many parameters eigenvalues come from the dense matrix: Lanczos gains nothing."""
LANCZOS_STEPS = 100
"""Products with the Hessian, where it is too large to be formed."""


class HessianTerms(NamedTuple):
    """The two terms of the Hessian, (n, n) each, in the order of the network's parameters."""

    gauss_newton: Float[np.ndarray, "n n"]
    second_order: Float[np.ndarray, "n n"]

    @property
    def hessian(self) -> Float[np.ndarray, "n n"]:
        """Their sum, the true Hessian."""
        return self.gauss_newton + self.second_order


class Curvature(NamedTuple):
    """The largest and the smallest eigenvalues of the true Hessian, in falling order.

    `floor` is the accuracy they are known to: where the matrix is not formed, the smallest ones are those
    seen on the space of a hundred products. Where the residual is not quite zero, directions that no sample
    depends on have a curvature near zero of either sign.
    """

    largest: Float[np.ndarray, " k"]
    smallest: Float[np.ndarray, " k"]
    floor: float

    @property
    def negative_share(self) -> float:
        """The most negative eigenvalue over the largest, 0 if there is none: so at a minimum."""
        return float(max(0.0, -self.smallest[-1]) / abs(self.largest[0]))


@in_double
def hessian_product(
    network: Any, data: Transitions | MarkovChain, *, features: Any = None
) -> Callable[[Any], Float[Array, " n"]]:
    """The function h -> H h of the true Hessian: one derivative of the gradient along h, no matrix.

    Example:
        >>> import gaussbell as gb, numpy
        >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[1.0], [0.0]], discount=0.9)
        >>> network = gb.MLP((1, 3, 1))
        >>> product, h = gb.diagnostics.hessian_product(network, data), numpy.arange(10.0)
        >>> dense = gb.diagnostics.hessian_terms(network, data).hessian
        >>> bool(numpy.allclose(product(h), dense @ h, rtol=1e-5))
        True
    """
    problem, x = _problem(network, data, features)

    def product(h: Any) -> Float[Array, " n"]:
        with jax.enable_x64(True):
            return _product(problem, x, jnp.asarray(h, jnp.float64))

    return product


@in_double
def hessian_terms(network: Any, data: Transitions | MarkovChain, *, features: Any = None) -> HessianTerms:
    """Both terms of the Hessian of the NMSBE at a network, as dense matrices, exact by autodiff.

    For networks of a few thousand parameters; `curvature` needs no matrix.
    """
    problem, x = _problem(network, data, features)
    jacobian = np.asarray(problem.linearise(x).jacobian())
    gauss_newton = jacobian.T @ jacobian
    return HessianTerms(gauss_newton, np.asarray(_dense(problem, x)) - gauss_newton)


@in_double
def curvature(
    network: Any, data: Transitions | MarkovChain, *, features: Any = None, count: int = 3
) -> Curvature:
    """The `count` largest and smallest eigenvalues of the true Hessian, by Lanczos where it is large.

    Example:
        >>> import gaussbell as gb
        >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[1.0], [0.0]], discount=0.9)
        >>> found = gb.diagnostics.curvature(gb.MLP((1, 3, 1), key=0), data)
        >>> found.largest.shape, bool(found.largest[0] > 0)
        ((3,), True)
    """
    problem, x = _problem(network, data, features)
    size = len(x)
    count = read_count("count", count, 1)
    if size <= max(DENSE_PARAMETERS, 2 * count + 1):
        values = np.linalg.eigvalsh(np.asarray(_dense(problem, x)))[::-1]
        floor = size * np.finfo(np.float64).eps * np.abs(values).max()
        return Curvature(values[:count], values[-count:], float(floor))

    values, accuracy = _lanczos(problem, x, min(size, LANCZOS_STEPS))
    values, accuracy = np.asarray(values)[::-1], np.asarray(accuracy)[::-1]
    shown = np.r_[accuracy[:count], accuracy[-count:]]
    return Curvature(values[:count], values[-count:], float(shown.max()))


@eqx.filter_jit
def _lanczos(
    problem: BellmanProblem, x: Float[Array, " n"], steps: int
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Eigenvalues of the Hessian on the space that so many products span, and how far off each can be.

    Every new direction is made orthogonal to all before, twice: what rounding adds would grow otherwise.
    """
    first = jax.random.normal(jax.random.key(0), x.shape, jnp.float32).astype(x.dtype)
    basis = jnp.zeros((steps, len(x))).at[0].set(first / jnp.linalg.norm(first))

    def extend(k, carry):
        basis, diagonal, beside = carry
        image = _product(problem, x, basis[k])
        diagonal = diagonal.at[k].set(basis[k] @ image)
        for _ in range(2):
            image = image - basis.T @ (basis @ image)
        length = jnp.linalg.norm(image)
        beside = beside.at[k].set(length)
        direction = jnp.where(length > 0, image / jnp.where(length > 0, length, 1.0), 0.0)
        return basis.at[k + 1].set(direction, mode="drop"), diagonal, beside

    empty = jnp.zeros(steps)
    _, diagonal, beside = jax.lax.fori_loop(0, steps, extend, (basis, empty, empty))
    matrix = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    values, vectors = jnp.linalg.eigh(matrix)
    return values, jnp.abs(beside[-1] * vectors[-1])


@in_double
def second_order_share(
    network: Any, data: Transitions | MarkovChain, parameters: Any, *, features: Any = None
) -> Float[np.ndarray, " T"]:
    """How much of the Hessian Gauss-Newton leaves out, at each step of a run: |second term| / |H|.

    Args:
        parameters: (T, n), as `evaluate(..., solver=..., keep_parameters=True)` keeps them in
            `solution.history.parameters`; norms are Frobenius'.
    """
    problem, _ = _problem(network, data, features)

    def share(x: Float[Array, " n"]) -> Float[Array, ""]:
        whole, part = _dense(problem, x), problem.linearise(x).hessian()
        return jnp.linalg.norm(whole - part) / jnp.linalg.norm(whole)

    return np.asarray(jax.lax.map(share, jnp.asarray(parameters, jnp.float64)))


def _problem(network: Any, data: Any, features: Any) -> tuple[BellmanProblem, Float[Array, " n"]]:
    problem = bellman_problem(as_double(network), data, features=features)
    return problem, problem.pack(as_double(network))


@eqx.filter_jit
def _product(problem: BellmanProblem, x: Float[Array, " n"], h: Float[Array, " n"]) -> Float[Array, " n"]:
    return jax.jvp(jax.grad(problem.loss), (x,), (h,))[1]


@eqx.filter_jit
def _dense(problem: BellmanProblem, x: Float[Array, " n"]) -> Float[Array, "n n"]:
    return jax.hessian(problem.loss)(x)
