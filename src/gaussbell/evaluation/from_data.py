"""Policy evaluation: fit a network to the Bellman equation of a policy (Algorithm 1)."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.bellman import BellmanProblem, bellman_problem, match_output
from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.assessment import judge, judge_chain
from gaussbell.diagnostics.checks import check_problem
from gaussbell.evaluation.fixed_point import fixed_point as solve_fixed_point
from gaussbell.networks.mlp import MLP
from gaussbell.networks.value_function import without_features
from gaussbell.numerics.compilation import compiled_in_haste
from gaussbell.numerics.precision import as_double, callers_dtype, in_double, is_traced
from gaussbell.optimise.problem import Linearisation
from gaussbell.optimise.solution import Solution
from gaussbell.optimise.solve import Progress, solve
from gaussbell.optimise.solvers import Dogleg, LevenbergMarquardt, Solver
from gaussbell.processes.markov_chain import MarkovChain

RELATIVE_TOLERANCE = 1e-10
"""The default tolerance, as a fraction of the NMSBE of a network that is zero everywhere."""

SOLVED_STATES = 1000
"""Chains up to this size are solved exactly, to know how much their values differ."""


@in_double
def evaluate(
    network: Any,
    data: Transitions | MarkovChain,
    *,
    solver: Solver | None = None,
    max_steps: int = 1000,
    tolerance: float | None = None,
    features: Any = None,
    weight: Any = None,
    patience: int = 200,
    scale_output: bool | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    validation: Callable[[Any], float] | None = None,
    keep_parameters: bool = False,
    fixed_point: bool = False,
    diagnose: bool = True,
) -> Solution:
    """Fit `network` to the value of a policy by minimising the NMSBE with complete derivatives.

        msbe = 1/2 sum_i weight_i (f(s_i) - reward_i - discount_i f(s'_i))^2

    A small msbe means that the Bellman equation holds at the samples, no more: its error is amplified by
    up to 1 / (1 - discount) in the value, and few samples leave the values between them free. With as many
    parameters as samples, or more, and a Jacobian of full rank, every minimum has zero residual
    (Propositions 1 and 3 of the paper).

    By default the output of an MLP is first scaled to fit the rewards best, which changes nothing in a
    network that fits already, and the fit runs in units of the rewards: their size does not matter. With a
    `solver` of your own the fit starts from the network just as it is.

    Args:
        network: An MLP, an equinox module or a ValueFunction, from whose parameters the fit starts, or one of
            them behind features (FeatureNetwork).
        data: Transitions, or `mdp.under(policy)`.
        solver: By default Dogleg() where there are at least as many parameters as samples, so that the
            residual can reach zero, and LevenbergMarquardt() otherwise.
        tolerance: The msbe at which to stop, by default 1e-10 of the msbe of the zero function.
        features: (K, d) and `weight` (K,), for a finite chain: the network's input for each state and how
            much it counts (by default its number and its stationary probability).
        scale_output: Whether to scale an MLP's output first, by default only without a solver of your own.
        validation: A function from a network to its error on data of your own: it is asked every few steps,
            the network with the smallest answer is returned, and the fit stops early where it no longer
            falls.
        fixed_point: Whether to replace the fitted MLP's last layer by the fixed point of its Bellman equation
            (`gaussbell.fixed_point`): for data of a stochastic process with one successor a state, which
            biases a squared residual. It assumes that states are drawn as the policy visits them; the loss
            is then that of the corrected network.
        diagnose: Whether to check the data behind the fit (`solution.assessment`, `.warnings`); the rest as
            in `least_squares`.

    Example:
        >>> import gaussbell as gb
        >>> chain = gb.environments.SevenStar().under()
        >>> features = gb.encodings.normal(7, 2, key=1)
        >>> solution = gb.evaluate(gb.MLP((2, 7, 1), key=0), chain, features=features)
        >>> solution.status.name
        'CONVERGED'
        >>> bool(abs(solution.network(features) - chain.values).max() < 1e-2)
        True
    """
    posed = pose(network, data, features=features, weight=weight, solver=solver, scale_output=scale_output)
    solution = solve(
        posed.problem,
        posed.start,
        posed.solver,
        max_steps=max_steps,
        tolerance=posed.tolerance if tolerance is None else tolerance,
        patience=patience,
        on_progress=on_progress,
        validation=validation,
        keep_parameters=keep_parameters,
    )
    if fixed_point:
        if not isinstance(data, Transitions):
            raise ValueError("fixed_point: it is for Transitions; an exact chain has no noise to correct.")
        solution = corrected(solution, data)
    if not diagnose or is_traced((solution.loss, posed.problem)):
        return solution
    checks = check_problem(posed.problem, posed.problem.pack(solution.network), data, with_rank=False)
    if isinstance(data, MarkovChain):
        values = data.reward / (1 - data.discount) if data.num_states > SOLVED_STATES else data.values
        return dataclasses.replace(solution, assessment=judge_chain(checks, values, solution.status))
    return dataclasses.replace(solution, assessment=judge(checks, status=solution.status))


def corrected(solution: Solution, data: Transitions) -> Solution:
    """The solution with the last layer at the fixed point of `data`."""
    return with_network(solution, solve_fixed_point(solution.network, data), data)


def with_network(solution: Solution, network: Any, data: Transitions) -> Solution:
    """The solution with another network, and its loss."""
    return dataclasses.replace(solution, params=network, loss=msbe(network, data))


class Posed(NamedTuple):
    """All that a solve needs: the problem, where to start, the solver, and the default tolerance."""

    problem: BellmanProblem
    start: Float[Array, " n"]
    solver: Solver
    tolerance: Float[Array, ""]


def pose(
    network: Any,
    data: Transitions | MarkovChain,
    *,
    features: Any = None,
    weight: Any = None,
    solver: Solver | None = None,
    scale_output: bool | None = None,
) -> Posed:
    """The problem of fitting `network` to `data`, ready to be solved; arguments as in `evaluate`."""
    problem = bellman_problem(network, data, features=features, weight=weight)
    fitted = without_features(network)
    wanted = solver is None if scale_output is None else scale_output
    problem, start, tolerance = _prepare(problem, fitted, scale_output=wanted and type(fitted) is MLP)
    return Posed(problem, start, _default_solver(problem, start) if solver is None else solver, tolerance)


@compiled_in_haste
def _prepare(problem: BellmanProblem, network: Any, scale_output: bool):
    """The problem to solve, the vector to start from and a tolerance: many small operations, so compiled."""
    if scale_output:
        problem, network = match_output(problem, network)
    start = problem.pack(network)
    return problem, start, _default_tolerance(problem, start)


def _default_solver(problem: BellmanProblem, start: Float[Array, " n"]) -> Solver:
    return Dogleg() if len(start) >= len(problem.target) else LevenbergMarquardt()


def _default_tolerance(problem: BellmanProblem, start: Float[Array, " n"]) -> Float[Array, ""]:
    """A tolerance that scales with the rewards, or with the start where all rewards are zero."""
    zero = 0.5 * problem.target @ problem.target
    at_start = jnp.nan_to_num(problem.loss(start), posinf=0.0)  # not finite: for the solve to name
    return RELATIVE_TOLERANCE * jnp.where(zero > 0, zero, at_start)


@in_double
def linearise(
    network: Any, data: Transitions | MarkovChain, *, features: Any = None, weight: Any = None
) -> Linearisation:
    """The Bellman residual of a network on data, with its complete derivative.

    `.loss` is the NMSBE, `.gradient()` its gradient and `.hessian()` its Gauss-Newton Hessian, as flat arrays
    in the order of the network's parameters (labels eq:nmsbe to eq:hessian_J and their continuous twins).

    Example:
        >>> import gaussbell as gb
        >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[1.0], [0.0]], discount=0.9)
        >>> at = gb.linearise(gb.MLP((1, 3, 1), key=0), data)
        >>> at.residual.shape, at.gradient().shape, at.hessian().shape
        ((2,), (10,), (10, 10))
    """
    problem = bellman_problem(as_double(network), data, features=features, weight=weight)
    return problem.linearise(problem.pack(network))


@in_double
def msbe(
    network: Any, data: Transitions | MarkovChain, *, features: Any = None, weight: Any = None
) -> Float[Array, ""]:
    """The NMSBE of a network on data (labels eq:nmsbe and eq:nmsbe_continuous).

    Example:
        >>> import gaussbell as gb, numpy
        >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[1.0], [0.0]], discount=0.9)
        >>> round(float(gb.msbe(gb.ValueFunction(numpy.zeros(1), lambda slope, s: slope @ s), data)), 12)
        0.25
    """
    at = linearise(network, data, features=features, weight=weight)
    return at.loss.astype(callers_dtype())
