"""The value of a policy from a simulator, in one call: how many steps, how good is it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell import features as input_features
from gaussbell.diagnostics.checks import check
from gaussbell.diagnostics.held_out import TAIL, HeldOutPaths, is_random
from gaussbell.evaluation import evaluate
from gaussbell.networks import MLP, FeatureNetwork
from gaussbell.policies import Policy, is_noisy
from gaussbell.precision import as_key, in_double, read_count
from gaussbell.rollouts import look_ahead as simulate_ahead
from gaussbell.rollouts import steps_for
from gaussbell.sampling import LambdaReturn, read_horizons, sample_transitions
from gaussbell.solution import History, Solution, Status
from gaussbell.solve import Progress
from gaussbell.solvers import LevenbergMarquardt, Solver
from gaussbell.transitions import Transitions

LADDER = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""The numbers of steps that "auto" tries."""
FEWEST_ROWS = 20
CHECKED_STATES = (256, 1024)
"""Held-out paths, at least and at most: as many as the budget itself would pay for, within these bounds."""
LONGEST_TAIL = 0.01
"""No paths are tried that are so long that less than this share of the discount is left."""
MIDDLE = 0.2
"""The first number of steps that is tried, as a share of 1 / (1 - discount)."""
CLEARLY_WORSE = 1.3
NOISY_SUCCESSORS = 8
BOUT = 100
"""Steps of one fit: the most promising ones go on for another."""


class Candidate(NamedTuple):
    """One number of steps that was tried, with the held-out estimate of the value's error."""

    steps: int
    rows: int
    value_error: float


class PolicyEvaluation(Solution):
    """The solution of `evaluate_policy`, with what it cost and how far to trust it.

    `value_error` estimates the root mean squared error of the value over the environment's box, from fresh
    states that no fit has seen, and `relative_error` is that divided by the standard deviation of the value
    there: 1 is no better than a constant. `horizon` is the number of steps of the transitions, `tried`
    lists all numbers that were tried, `transitions` are those of the fit, and `simulated` counts every step
    of the simulator, the ones for the choice and for the check included.
    """

    horizon: Any = eqx.field(static=True)
    value_error: float
    relative_error: float
    tried: tuple[Candidate, ...] = eqx.field(static=True)
    transitions: Transitions
    simulated: int = eqx.field(static=True)
    ahead: Callable[[Any, Any], Any] = eqx.field(static=True)

    def __str__(self) -> str:
        return (
            f"{self.status} with {self.horizon} steps a row; estimated error of the value "
            f"{self.value_error:.3g}, {self.relative_error:.3g} standard deviations. {self.status.value}"
            + "".join(f" {warning}" for warning in self.warnings)
        )

    def value(self, state: Any, *, look_ahead: int = 0) -> Float[Array, " N"]:
        """The value of states (N, d), where `look_ahead` steps are simulated before the network is asked."""
        return self.ahead(self.network, (state, look_ahead)) if look_ahead else self.network(state)


@in_double
def evaluate_policy(
    env: Any,
    policy: Policy,
    network: Any = None,
    *,
    budget: int = 200_000,
    steps: int | LambdaReturn | str = "auto",
    key: PRNGKeyArray | int,
    q: bool = False,
    successors: int | None = None,
    states: Callable[[int, Any], Any] | None = None,
    solver: Solver | None = None,
    max_steps: int = 200,
    most_rows: int = 8000,
    on_progress: Callable[[Progress], None] | None = None,
) -> PolicyEvaluation:
    """The value of `policy` in a simulator: choose the number of steps, sample, fit, and estimate the error.

    Transitions of one step make a small residual and a bad value; too many steps leave too few rows in the
    budget. With `steps="auto"` a few numbers of steps are tried, each with the same budget, and the one
    whose value has the smallest *long-horizon* residual on fresh states wins:

        value_error = rms(f(s) - R_h - discount^h f(s_h)) / (1 - discount^h)

    with h so large that discount^h is a tenth. That is an error of the value itself, not of one step. It
    also says when to stop a fit, and fresh paths, used for nothing else, give the error that is returned.
    If the process is random, pairs of independent paths keep the noise out of the mean square.

    Arguments: `network`, by default two layers of 20 units behind `env.features(policy)`; a plain MLP as
    wide as a state gets the scaled state; `budget`, how many simulated steps the fit may use (the search
    uses as many for each number it tries; `.simulated` counts all); `steps`, to fix the number instead;
    `q`, for Q-factors; `successors`, how many paths each row averages, by default 1, or 8 if env or policy
    are random; `states`, a function of a number and a key to as many states, to start rows and checks
    elsewhere than uniformly in the box (`rollouts.mixed_states` makes one); `solver`, by default
    LevenbergMarquardt(); `max_steps`, of the solver: the fit ends earlier where held-out paths say so;
    `most_rows`, of a fit: more cost time, and add little unless the value is rugged.

    >>> import gaussbell as gb
    >>> pendulum = gb.environments.Pendulum(discount=0.9)
    >>> network = gb.MLP((2, 10, 1), key=0)
    >>> found = gb.evaluate_policy(pendulum, lambda s: -s[1:] / 8, network, budget=2000, steps=10, key=1)
    >>> found.relative_error < 0.5
    True
    """
    budget = read_count("budget", budget, 1)
    most_rows = read_count("most_rows", most_rows, 1)
    successors = (NOISY_SUCCESSORS if is_random(env, policy) else 1) if successors is None else successors
    fit_key, check_key, final_key, network_key = jax.random.split(as_key(key), 4)
    network = _behind_features(network, env, policy, q, network_key)
    count = int(np.clip(budget // steps_for(env.discount, TAIL), *CHECKED_STATES))
    watched, final = (
        HeldOutPaths(env, policy, count, key=k, q=q, states=states) for k in (check_key, final_key)
    )

    def sample(candidate: Any) -> Transitions:
        cost = int(read_horizons(candidate)[-1]) * successors
        rows = min(budget // cost, most_rows)
        if rows < 1:
            raise ValueError(f"budget={budget}: one row of {cost} simulated steps does not fit; give more.")
        state = None if states is None else states(rows, fit_key)
        return sample_transitions(
            env, policy, rows, key=fit_key, steps=candidate, q=q, successors=successors, state=state
        )

    def fit(candidate: Any) -> _Fit:
        return _Fit(candidate, sample(candidate), network, solver, watched, on_progress)

    if isinstance(steps, str):
        if steps != "auto":
            raise ValueError(f"steps={steps!r}: give 'auto', a whole number, or a LambdaReturn.")
        fits = _search(fit, budget // successors, env.discount, min(max_steps, BOUT))
    else:
        fits = [fit(steps)]
    best = min(fits, key=lambda fitted: fitted.error)
    best.go_on(max_steps)
    estimate = final.estimate(best.network)
    counts = [len(fitted.data) * int(read_horizons(fitted.steps)[-1]) * successors for fitted in fits]
    tried = [Candidate(fitted.steps, len(fitted.data), fitted.error) for fitted in fits]
    return PolicyEvaluation(
        params=best.network,
        loss=best.loss,
        status_code=np.int32(best.status.code),
        steps=np.int32(best.taken),
        history=best.history(),
        horizon=best.steps,
        value_error=estimate.error,
        relative_error=estimate.error / estimate.spread if estimate.spread > 0 else np.inf,
        tried=tuple(sorted(tried)) if len(tried) > 1 else tuple(tried),
        transitions=best.data,
        checks=check(best.network, best.data),
        simulated=sum(counts) + watched.cost + final.cost,
        ahead=lambda network, query: simulate_ahead(network, env, policy, *query, key=check_key),
    )


class _Fit:
    """A fit that stops by held-out paths, and that can go on later.

    Steps that lower the loss on the rows further may well raise the error of the value between them; where
    there are fewer rows than parameters they always do in the end.
    """

    def __init__(
        self, steps: Any, data: Transitions, network: Any, solver: Any, check: HeldOutPaths, on_progress: Any
    ):
        self.steps, self.data, self.network = steps, data, network
        self._check, self._solver, self._on_progress = check, solver or LevenbergMarquardt(), on_progress
        self.taken, self._histories = 0, []
        self.error, self.loss, self.status = np.inf, np.float64(np.nan), Status.OUT_OF_STEPS

    def go_on(self, most: int) -> None:
        """Take further steps, up to `most` in all, as long as the held-out error keeps falling."""
        while self.taken < most and self.status is Status.OUT_OF_STEPS:
            solution = evaluate(
                self.network,
                self.data,
                solver=self._solver,
                max_steps=min(BOUT, most),
                scale_output=True,
                held_out=lambda network: self._check.estimate(network).error,
                on_progress=self._on_progress,
                diagnose=False,
            )
            self._histories.append(solution.history)
            self.network, self.loss, self.status = solution.network, solution.loss, solution.status
            self.taken += int(solution.steps)
        self.error = self._check.estimate(self.network).error

    def history(self) -> History:
        """The histories of all bouts as one; each bout starts where the one before it ended."""
        first, *others = self._histories
        fields = ("loss", "gradient_norm", "step_norm", "damping", "gain_ratio", "accepted")
        joined: Any = {
            name: np.concatenate(
                [
                    np.asarray(getattr(first, name)),
                    *(np.asarray(getattr(other, name))[1:] for other in others),
                ]
            )
            for name in fields
        }
        return History(**joined)


def _search(fit: Callable[[int], _Fit], budget: int, discount: float, most: int) -> list[_Fit]:
    """Try numbers of steps from the middle outwards, until the held-out error is clearly worse."""
    ladder = [
        steps
        for steps in LADDER
        if steps == 1 or (budget // steps >= FEWEST_ROWS and steps <= steps_for(discount, LONGEST_TAIL))
    ]
    middle = int(np.argmin([abs(np.log(steps * (1 - discount) / MIDDLE)) for steps in ladder]))
    fits: list[_Fit] = []
    for side in (ladder[middle:], ladder[:middle][::-1]):
        for steps in side:
            fitted = fit(steps)
            fitted.go_on(most)
            fits.append(fitted)
            if fitted.error > CLEARLY_WORSE * min(other.error for other in fits):
                break
    return fits


def _behind_features(network: Any, env: Any, policy: Policy, q: bool, key: Any) -> Any:
    """The network as it takes the environment's states: scaled, if it is a plain MLP of their width."""
    if network is None:
        made = env.features(None if is_noisy(policy) else policy, q=q)
        inputs = env.width + (len(env.actions.low) if q else 0)
        width = inputs if made is None else input_features.width(made, inputs)
        inner = MLP((width, 20, 20, 1), key=key)
        return inner if made is None else FeatureNetwork(made, inner)
    scaling = env.scaling(q=q)
    return FeatureNetwork(scaling, network) if type(network) is MLP and scaling is not None else network
