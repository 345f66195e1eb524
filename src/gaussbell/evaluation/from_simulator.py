"""The value of a policy from a simulator, in one call: which n_step, and how good is it."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.data.horizons import LambdaReturn, read_horizons
from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.assessment import Reference, judge
from gaussbell.diagnostics.checks import check
from gaussbell.diagnostics.held_out import TAIL, HeldOutPaths, error_at
from gaussbell.environments.simulator import Simulator, is_random, read_simulator
from gaussbell.evaluation.from_data import pose
from gaussbell.networks import features as input_features
from gaussbell.networks.mlp import MLP
from gaussbell.networks.value_function import FeatureNetwork
from gaussbell.numerics.arguments import as_key, read_count
from gaussbell.numerics.precision import in_double
from gaussbell.optimise.solution import Solution
from gaussbell.optimise.solve import Progress, Solving
from gaussbell.optimise.solvers import LevenbergMarquardt, Solver
from gaussbell.processes.policies import Policy, is_noisy
from gaussbell.simulation.monte_carlo import effective_horizon
from gaussbell.simulation.monte_carlo import look_ahead as simulate_ahead
from gaussbell.simulation.sampling import sample_transitions

LADDER = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""What n_step="auto" tries."""
FEWEST_SAMPLES = 20
CHECKED_STATES = (256, 1024)
"""Held-out paths, at least and at most: as many as the budget itself would pay for, within these bounds."""
LONGEST_TAIL = 0.01
"""No paths are tried that are so long that less than this share of the discount is left."""
MIDDLE = 0.2
"""The first n_step that is tried, as a share of 1 / (1 - discount)."""
CLEARLY_WORSE = 1.3
PATIENCE = 200
"""Solver steps without progress after which a fit ends."""
NOISY_SUCCESSORS = 8
FIRST_STEPS = 100
"""Solver steps for each n_step that is tried; the most promising fit goes on."""


class Candidate(NamedTuple):
    """One n_step that was tried, with the held-out estimate of the value's error."""

    n_step: int
    num_transitions: int
    value_error: float


class PolicyEvaluation(Solution):
    """The solution of `evaluate_policy`, with what it cost and how far to trust it.

    `value_error` estimates the root mean squared error of the value over the environment's box (or the states
    that were asked for), from fresh paths that no fit has seen, and `relative_error` is that divided by the
    standard deviation of the value there: 1 is no better than a constant. `n_step` is that of the
    transitions, `tried` lists all that were tried, `transitions` are those of the fit, and `simulated` counts
    every step of the simulator, the ones for the choice and for the estimate included.
    """

    n_step: Any = eqx.field(static=True)
    tried: tuple[Candidate, ...] = eqx.field(static=True)
    transitions: Transitions
    simulated: int = eqx.field(static=True)
    ahead: Callable[[Any, Any, int], Any] = eqx.field(static=True)

    @property
    def value_error(self) -> float:
        """The estimated root mean squared error of the value."""
        return self.assessment.value_error

    @property
    def relative_error(self) -> float:
        """The error in standard deviations of the value: 1 is no better than a constant."""
        return self.assessment.relative_error

    def __str__(self) -> str:
        return (
            f"{self.status} with n_step {self.n_step}, {self.simulated:,} simulated steps in all. "
            f"{self.status.value} Assessment: {self.assessment}"
        )

    def value(self, state: Any, *, look_ahead: int = 0) -> Float[Array, " N"]:
        """The value of states (N, d), where `look_ahead` steps are simulated before the network is asked."""
        return self.ahead(self.network, state, look_ahead) if look_ahead else self.network(state)

    def to_dict(self) -> dict[str, Any]:
        """How the evaluation went, as plain data."""
        n_step = self.n_step if isinstance(self.n_step, int) else repr(self.n_step)
        tried = [candidate._asdict() for candidate in self.tried]
        return super().to_dict() | {"n_step": n_step, "tried": tried, "simulated": self.simulated}


@in_double
def evaluate_policy(
    env: Simulator,
    policy: Policy,
    network: Any = None,
    *,
    budget: int = 200_000,
    n_step: int | LambdaReturn | str = "auto",
    key: PRNGKeyArray | int = 0,
    q: bool = False,
    successors: int | None = None,
    states: Callable[[int, Any], Any] | None = None,
    solver: Solver | None = None,
    max_steps: int = 200,
    max_transitions: int = 8000,
    on_progress: Callable[[Progress], None] | None = None,
) -> PolicyEvaluation:
    """The value of `policy` in a simulator: choose n_step, sample, fit, and estimate the error.

    Transitions of one step make a small residual and a bad value; too long an n_step leaves too few samples
    in the budget. With `n_step="auto"` a few are tried, each with the same budget, and the one whose value
    has the smallest *long-horizon* residual on fresh states wins:

        value_error = rms(f(s) - R_h - discount^h f(s_h)) / (1 - discount^h)

    with h so large that discount^h is a tenth. That is an error of the value itself, not of one step. It also
    validates a fit while it runs, and fresh paths, used for nothing else, give the error that is returned.
    If the process is stochastic, pairs of independent paths keep the noise out of the mean square.

    Args:
        network: By default two layers of 20 units behind `env.features(policy)`; a plain MLP as wide as a
            state gets the scaled state.
        budget: How many simulated steps the fit may use (the search uses as many for each n_step it tries;
            `.simulated` counts all).
        n_step: To fix it instead.
        q: For Q-factors.
        successors: How many paths each transition averages, by default 1, or 8 if env or policy are
            stochastic and states can be drawn.
        states: A function of a number and a key to as many states, to start transitions and paths elsewhere
            than uniformly in the box (`monte_carlo.mixed_states` makes one).
        solver: By default LevenbergMarquardt().
        max_steps: Of the solver: the fit stops earlier where validation says so.
        max_transitions: Of a fit: more cost time, and add little unless the value is rugged.

    Example:
        >>> import gaussbell as gb
        >>> pendulum = gb.environments.Pendulum(discount=0.9)
        >>> network = gb.MLP((2, 10, 1))
        >>> found = gb.evaluate_policy(pendulum, lambda s: -s[1:] / 8, network, budget=2000, n_step=10)
        >>> found.relative_error < 0.5
        True
    """
    env = read_simulator(env)
    budget = read_count("budget", budget, 1)
    max_transitions = read_count("max_transitions", max_transitions, 1)
    max_steps = read_count("max_steps", max_steps, 1)
    noisy = is_random(env, policy)
    if successors is None:
        successors = NOISY_SUCCESSORS if noisy and (env.low is not None or states is not None) else 1
    fit_key, check_key, final_key, network_key = jax.random.split(as_key(key), 4)
    network = _behind_features(network, env, policy, q, network_key)
    count = int(np.clip(budget // effective_horizon(env.discount, TAIL), *CHECKED_STATES))
    validating, final = (
        HeldOutPaths(env, policy, count, key=k, q=q, states=states) for k in (check_key, final_key)
    )

    def sample(candidate: Any) -> Transitions:
        cost = int(read_horizons(candidate)[-1]) * successors
        size = min(budget // cost, max_transitions)
        if size < 1:
            raise ValueError(
                f"budget={budget}: one transition of {cost} simulated steps does not fit; give more."
            )
        state = None if states is None else states(size, fit_key)
        return sample_transitions(
            env, policy, size, key=fit_key, n_step=candidate, q=q, successors=successors, state=state
        )

    def fit(candidate: Any) -> _Fit:
        return _Fit(candidate, sample(candidate), network, solver, validating, on_progress)

    if isinstance(n_step, str):
        if n_step != "auto":
            raise ValueError(f"n_step={n_step!r}: give 'auto', a whole number, or a LambdaReturn.")
        fits = _search(fit, budget // successors, env.discount, min(max_steps, FIRST_STEPS))
    else:
        fits = [fit(n_step)]
    best = min(fits, key=lambda fitted: fitted.error)
    best.go_on(max_steps)
    solution = best.solution
    checks = dataclasses.replace(
        check(solution.network, best.data), double_sampling=noisy and successors == 1
    )
    assessment = judge(
        checks,
        status=solution.status,
        reference=Reference.SIMULATOR,
        estimate=final.estimate(solution.network),
        scorer=lambda inputs: error_at(solution.network, env, policy, inputs, key=check_key, q=q),
    )
    counts = [len(fitted.data) * int(read_horizons(fitted.n_step)[-1]) * successors for fitted in fits]
    tried = [Candidate(fitted.n_step, len(fitted.data), fitted.error) for fitted in fits]
    return PolicyEvaluation(
        params=solution.params,
        loss=solution.loss,
        status_code=solution.status_code,
        steps=solution.steps,
        history=solution.history,
        assessment=assessment,
        n_step=best.n_step,
        tried=tuple(sorted(tried)) if len(tried) > 1 else tuple(tried),
        transitions=best.data,
        simulated=sum(counts) + validating.cost + final.cost,
        ahead=lambda network, state, n: simulate_ahead(network, env, policy, state, n, key=check_key),
    )


class _Fit:
    """A fit that is validated by held-out paths, and that can go on later.

    Steps that lower the loss on the samples further may well raise the error of the value between them; where
    there are fewer samples than parameters they always do in the end.
    """

    def __init__(
        self, n_step: Any, data: Transitions, network: Any, solver: Any, paths: HeldOutPaths, on_progress: Any
    ):
        self.n_step, self.data, self._paths = n_step, data, paths
        posed = pose(network, data, solver=solver or LevenbergMarquardt(), scale_output=True)
        self._solving = Solving(
            posed.problem,
            posed.start,
            posed.solver,
            tolerance=posed.tolerance,
            patience=PATIENCE,
            on_progress=on_progress,
            validation=lambda network: paths.estimate(network).error,
        )
        self.error = np.inf

    def go_on(self, max_steps: int) -> None:
        """Take further steps, up to `max_steps` in all, as long as the validation error keeps falling."""
        self._solving.run_to(max_steps)
        self.error = self._paths.estimate(self.solution.network).error

    @property
    def solution(self) -> Solution:
        """The best network so far."""
        return self._solving.solution()


def _search(fit: Callable[[int], _Fit], budget: int, discount: float, most: int) -> list[_Fit]:
    """Try numbers of steps from the middle outwards, until the held-out error is clearly worse."""
    ladder = [
        steps
        for steps in LADDER
        if steps == 1
        or (budget // steps >= FEWEST_SAMPLES and steps <= effective_horizon(discount, LONGEST_TAIL))
    ]
    middle = int(np.argmin([abs(np.log(steps * (1 - discount) / MIDDLE)) for steps in ladder]))
    fits: list[_Fit] = []
    for side in (ladder[middle:], ladder[:middle][::-1]):
        for n in side:
            fitted = fit(n)
            fitted.go_on(most)
            fits.append(fitted)
            if fitted.error > CLEARLY_WORSE * min(other.error for other in fits):
                break
    return fits


def _behind_features(network: Any, env: Simulator, policy: Policy, q: bool, key: Any) -> Any:
    """The network as it takes the environment's states: scaled, if it is a plain MLP of their width."""
    if network is None:
        made = env.features(None if is_noisy(policy) else policy, q=q)
        inputs = env.width + (len(env.actions.low) if q else 0)
        width = inputs if made is None else input_features.width(made, inputs)
        inner = MLP((width, 20, 20, 1), key=key)
        return inner if made is None else FeatureNetwork(made, inner)
    scaling = env.scaling(q=q)
    return FeatureNetwork(scaling, network) if type(network) is MLP and scaling is not None else network
