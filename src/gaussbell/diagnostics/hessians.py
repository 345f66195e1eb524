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
from scipy.sparse.linalg import LinearOperator, eigsh

from gaussbell.mdp import MarkovChain
from gaussbell.precision import as_double, in_double, read_count
from gaussbell.residuals import BellmanProblem, bellman_problem
from gaussbell.transitions import Transitions

DENSE_PARAMETERS = 200
"""Up to so many parameters eigenvalues come from the dense matrix: Lanczos gains nothing."""


LANCZOS_ACCURACY = 1e-10
"""Of eigenvalues, relative to the largest."""


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

    `floor` is the accuracy they are known to. Where the residual is not quite zero, directions that no row
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

    >>> import gaussbell as gb, numpy
    >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[1.0], [0.0]], discount=0.9)
    >>> network = gb.MLP((1, 3, 1), key=0)
    >>> product, h = gb.diagnostics.hessian_product(network, data), numpy.arange(10.0)
    >>> bool(numpy.allclose(product(h), gb.diagnostics.hessian_terms(network, data).hessian @ h, rtol=1e-5))
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

    >>> import gaussbell as gb
    >>> chain = gb.environments.SevenStar().under()
    >>> inputs = gb.encodings.normal(7, 2, key=1)
    >>> fit = gb.evaluate(gb.MLP((2, 7, 1), key=0), chain, features=inputs)
    >>> gb.diagnostics.curvature(fit.network, chain, features=inputs).negative_share < 1e-4
    True
    """
    problem, x = _problem(network, data, features)
    size = len(x)
    count = read_count("count", count, 1)
    if size <= max(DENSE_PARAMETERS, 2 * count + 1):
        values = np.linalg.eigvalsh(np.asarray(_dense(problem, x)))[::-1]
        floor = size * np.finfo(np.float64).eps * np.abs(values).max()
        return Curvature(values[:count], values[-count:], float(floor))

    def product(h: np.ndarray) -> np.ndarray:
        return np.asarray(_product(problem, x, jnp.asarray(h.ravel())))

    largest = _lanczos(product, size, count, "LA")
    top = float(largest.max())
    # Shifted by the largest, the smallest are far from zero, where Lanczos is quick.
    smallest = top + _lanczos(lambda h: product(h) - top * h.ravel(), size, count, "SA")
    return Curvature(np.sort(largest)[::-1], np.sort(smallest)[::-1], LANCZOS_ACCURACY * abs(top))


def _lanczos(product: Callable[[np.ndarray], np.ndarray], size: int, count: int, which: str) -> np.ndarray:
    operator: Any = LinearOperator
    solve: Any = eigsh
    start = np.random.default_rng(0).normal(size=size)
    matrix = operator((size, size), matvec=product, dtype=np.float64)
    return solve(matrix, count, which=which, v0=start, tol=LANCZOS_ACCURACY, return_eigenvectors=False)


@in_double
def second_order_share(
    network: Any, data: Transitions | MarkovChain, parameters: Any, *, features: Any = None
) -> Float[np.ndarray, " T"]:
    """How much of the Hessian Gauss-Newton leaves out, at each step of a run: |second term| / |H|.

    Arguments: `parameters` (T, n), as `evaluate(..., solver=..., keep_parameters=True)` keeps them in
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
