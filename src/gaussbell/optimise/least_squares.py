"""Nonlinear least squares for any residual: no word of values or policies."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gaussbell.numerics.differential import MOST_DENSE_NUMBERS, DenseRows, OnDemand
from gaussbell.numerics.packing import Packing
from gaussbell.numerics.precision import in_double, is_floating
from gaussbell.optimise.problem import LeastSquaresProblem, Linearisation
from gaussbell.optimise.solution import Solution
from gaussbell.optimise.solve import Progress, solve
from gaussbell.optimise.solvers import LevenbergMarquardt, Solver


class FunctionProblem(LeastSquaresProblem):
    """The residual of any function of a parameter pytree; its Jacobian by autodiff."""

    packing: Packing
    args: tuple[Any, ...]
    function: Callable[..., Array] = eqx.field(static=True)

    def restore(self, x: Float[Array, " n"]) -> Any:
        return self.packing.restore(x)

    def residual(self, x: Float[Array, " n"]) -> Float[Array, " m"]:
        return jnp.ravel(jnp.asarray(self.function(self.packing.unpack(x), *self.args), jnp.float64))

    def linearise(self, x: Float[Array, " n"]) -> Linearisation:
        residual = self.residual(x)
        if residual.size * x.size > MOST_DENSE_NUMBERS:
            return Linearisation(residual, OnDemand(residual, x, self.residual))
        # One reverse sweep a row or one forward sweep a parameter, whichever are fewer.
        jacobian = jax.jacrev if residual.shape[0] < x.shape[0] else jax.jacfwd
        return Linearisation(residual, DenseRows(residual, jacobian(self.residual)(x)))

    def linearise_semi_gradient(self, x: Float[Array, " n"]) -> Linearisation:
        raise ValueError(
            "solver: semi-gradient methods hold the target of a Bellman residual fixed; a general residual "
            "has no target. Use gaussbell.LevenbergMarquardt, GaussNewton or ResidualGradient."
        )


@in_double
def least_squares(
    residual: Callable[..., Array],
    params: Any,
    *,
    args: tuple[Any, ...] = (),
    solver: Solver | None = None,
    max_steps: int = 1000,
    tolerance: float = 0.0,
    patience: int = 200,
    on_progress: Callable[[Progress], None] | None = None,
    keep_parameters: bool = False,
) -> Solution:
    """Minimise half the sum of squares of `residual(params, *args)` over a pytree of parameters.

        loss = residual . residual / 2

    It finds a local minimum near the start; with several, try several starts. All arithmetic is in
    float64; the parameters come back in the precision they were given in.

    Args:
        residual: A JAX function of the parameters that returns an array.
        params: Any pytree of numbers and arrays.
        args: What else the function takes, data for instance: a function that is given new ones of the same
            shape is not compiled again, as one that closes over them would be.
        solver: By default LevenbergMarquardt().
        tolerance: The loss at which to stop (by default as small as it gets).
        patience: The steps without progress after which to stop.
        on_progress: Called now and then with a `Progress`.
        keep_parameters: Keep every iterate in `history.parameters`.

    Example:
        >>> import gaussbell as gb
        >>> import jax.numpy as jnp
        >>> t = jnp.linspace(0, 1, 20)
        >>> y = 2.0 * jnp.exp(-1.5 * t)
        >>> def misfit(p, t, y):
        ...     return p["a"] * jnp.exp(-p["b"] * t) - y
        >>> fit = gb.least_squares(misfit, {"a": 1.0, "b": 1.0}, args=(t, y))
        >>> round(float(fit.params["a"]), 4), round(float(fit.params["b"]), 4)
        (2.0, 1.5)
    """
    if not callable(residual):
        raise ValueError(f"residual: {type(residual).__name__} cannot be called; give a function.")
    params = jax.tree.map(_as_parameter, params)
    packing = Packing(params)
    if packing.size == 0:
        raise ValueError("params: there are none; give a pytree with at least one number.")
    if not isinstance(args, tuple):
        raise ValueError(f"args: got {type(args).__name__}; give a tuple, such as args=(data,).")
    args = jax.tree.map(_as_argument, args)
    problem = FunctionProblem(packing, args, residual)
    shape = jax.eval_shape(problem.residual, jax.ShapeDtypeStruct((packing.size,), jnp.float64)).shape
    if shape == (0,):
        raise ValueError("residual: it returned an empty array; give at least one number to fit.")
    return solve(
        problem,
        packing.pack(params),
        LevenbergMarquardt() if solver is None else solver,
        max_steps=max_steps,
        tolerance=tolerance,
        patience=patience,
        on_progress=on_progress,
        keep_parameters=keep_parameters,
    )


def _as_parameter(leaf: Any) -> Any:
    """Numbers and integer arrays become float64; floating-point arrays keep their precision."""
    if is_floating(leaf):
        return leaf
    if isinstance(leaf, int | float | np.ndarray | np.generic | jax.Array):
        return jnp.asarray(leaf, jnp.float64)
    raise ValueError(f"params: a leaf is a {type(leaf).__name__}; give numbers and arrays only.")


def _as_argument(leaf: Any) -> Any:
    """Numbers and arrays become JAX arrays, so that new ones compile nothing; anything else stays."""
    return jnp.asarray(leaf) if isinstance(leaf, int | float | np.ndarray | np.generic) else leaf
