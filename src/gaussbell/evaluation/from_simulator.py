"""The value of a policy from a simulator, in one call: which n_step, and how good is it."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.data.horizons import LambdaReturn
from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.assessment import Reference, judge
from gaussbell.diagnostics.checks import check
from gaussbell.environments.simulator import Simulator, read_simulator
from gaussbell.evaluation.experience import BoxExperience, EpisodeExperience, StartValue
from gaussbell.evaluation.fits import Experience, ValidatedFit, Watch
from gaussbell.evaluation.fixed_point import can_have_fixed_point
from gaussbell.evaluation.from_data import corrected, with_network
from gaussbell.networks import features as input_features
from gaussbell.networks.mlp import MLP, bent_identity, tanh
from gaussbell.networks.value_function import FeatureNetwork, mean_network
from gaussbell.numerics.arguments import as_key, read_count
from gaussbell.numerics.precision import in_double
from gaussbell.optimise.solution import Solution
from gaussbell.optimise.solve import Progress
from gaussbell.optimise.solvers import Solver
from gaussbell.processes.policies import Policy, is_noisy
from gaussbell.simulation.monte_carlo import look_ahead as simulate_ahead

BOX_BUDGET, EPISODE_BUDGET = 1_000_000, 100_000
"""Simulated steps by default: of compiled environments, and of those on the host."""
MOST_TRANSITIONS = 8000
"""Transitions of a fit by default."""
LADDER = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""What n_step="auto" tries."""
EPISODE_LADDER = (1, 3, 10, 30, 100, 300, 1000, 3000)
"""The same along episodes, where one n_step costs as much as another and what counts is their noise."""
SEARCHED, PROMISING = 3000, 2
"""Along episodes: transitions of each fit of the search, and how many n_step are fitted anew with more."""
CORRECTIONS = (1, 10, 100, 1000)
"""The n_step that a fixed point of the last layer is tried with."""
LIKELY = 0.97
"""A table's validation error counts as that much of itself at the fixed point of one step."""
FEWEST_SAMPLES = 20
MIDDLE, EPISODE_MIDDLE = 0.2, 1.0
"""The first n_step that is tried, as a share of 1 / (1 - discount), in the box and along episodes."""
SMALLEST_REST = 1e-3
"""The least 1 - discount that counts in that."""
CLEARLY_WORSE, NO_BETTER = 1.3, 1.0
"""A ratio of errors that ends the search on one side, in the box and along episodes."""
FIRST_STEPS, FIRST_EPISODE_STEPS = 100, 30
"""Solver steps for each n_step that is tried, in the box and along episodes; the most promising goes on."""
STATES = ("box", "visited")


class Candidate(NamedTuple):
    """One n_step that was tried, with the error that validation found."""

    n_step: int
    num_transitions: int
    value_error: float


class PolicyEvaluation(Solution):
    """The solution of `evaluate_policy`, with what it cost and how far to trust it.

    `value_error` estimates the root mean squared error of the value over the states that `assessment.over`
    names, by returns that no fit has seen, and `relative_error` is that divided by the standard deviation of
    the value there: 1 is no better than a constant. `start` has the mean value over the environment's
    starts with its confidence interval, and the Monte-Carlo estimate beside it. `n_step` is that of the
    transitions, `tried` lists all that were tried, `transitions` are those of the fit, and `simulated` counts
    every step of the simulator, the ones for the choice and for the estimate included. `corrected_by` is the
    n_step whose fixed point replaced the last layer of the fit (`gaussbell.fixed_point`), or None.
    """

    n_step: Any = eqx.field(static=True)
    tried: tuple[Candidate, ...] = eqx.field(static=True)
    transitions: Transitions
    simulated: int = eqx.field(static=True)
    ahead: Callable[[Any, Any, int], Any] = eqx.field(static=True)
    start: StartValue | None = eqx.field(static=True, default=None)
    corrected_by: int | None = eqx.field(static=True, default=None)

    @property
    def value_error(self) -> float:
        """The estimated root mean squared error of the value."""
        return self.assessment.value_error

    @property
    def relative_error(self) -> float:
        """The error in standard deviations of the value: 1 is no better than a constant."""
        return self.assessment.relative_error

    @property
    def start_value(self) -> float | None:
        """The mean value over the environment's starts; `start` has its interval."""
        return None if self.start is None else self.start.value

    def __str__(self) -> str:
        start = "" if self.start is None else f" {self.start}"
        return (
            f"{self.status} with n_step {self.n_step}, {self.simulated:,} simulated steps in all. "
            f"{self.status.value}{start} Assessment: {self.assessment}"
        )

    def value(self, state: Any, *, look_ahead: int = 0) -> Float[Array, " N"]:
        """The value of states (N, d), where `look_ahead` steps are simulated before the network is asked."""
        return self.ahead(self.network, state, look_ahead) if look_ahead else self.network(state)

    def to_dict(self) -> dict[str, Any]:
        """How the evaluation went, as plain data."""
        n_step = self.n_step if isinstance(self.n_step, int) else repr(self.n_step)
        tried = [candidate._asdict() for candidate in self.tried]
        start = None if self.start is None else self.start._asdict()
        found = {"n_step": n_step, "tried": tried, "simulated": self.simulated, "start": start}
        return super().to_dict() | found | {"corrected_by": self.corrected_by}


class EvaluationInterrupted(KeyboardInterrupt):
    """Raised when Ctrl-C stops `evaluate_policy`; `solution` is the best fit so far, if there is one."""

    def __init__(self, solution: Solution | None):
        self.solution = solution
        super().__init__("interrupted while simulating" if solution is None else str(solution))


@in_double
def evaluate_policy(
    env: Simulator,
    policy: Policy,
    network: Any = None,
    *,
    budget: int | None = None,
    n_step: int | LambdaReturn | str = "auto",
    key: PRNGKeyArray | int = 0,
    q: bool = False,
    successors: int | None = None,
    states: str | Callable[[int, Any], Any] | None = None,
    solver: Solver | None = None,
    max_steps: int = 200,
    max_transitions: int = MOST_TRANSITIONS,
    timeout: float | None = None,
    progress: bool | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> PolicyEvaluation:
    """The value of `policy` in a simulator: simulate, choose n_step, fit, and estimate the error.

    Transitions of one step make a small residual and a bad value, and noise biases them; too long an n_step
    has too much noise, or leaves too few samples in the budget. With `n_step="auto"` a few are tried, and
    the one whose value is nearest to *returns* that no fit has seen wins.

    Where evaluations start with episodes ("visited": by default every Gymnasium environment), whole episodes
    are played from its own starts. Transitions are drawn over all steps of some of them; others validate, and
    the rest give the error that is returned, over visited states and with the noise of returns subtracted
    (`diagnostics.held_out.HeldOutEpisodes`). Truncation never ends the process: held-out episodes go on past
    Gymnasium's time limit until their returns are nearly whole.

    Where they start all over a box ("box": our environments, and Gymnasium's with a box given to
    `from_gymnasium`), fresh paths with a tenth of the discount left measure the value,

        value_error = rms(f(s) - R_h - discount^h f(s_h)) / (1 - discount^h),

    in pairs where the process is stochastic, which keep the noise out of the mean square.

    Args:
        network: By default two layers of 20 units behind features, and along episodes the mean of two such
            networks where validation prefers it; a plain MLP as wide as a state gets the scaled or
            standardised state.
        budget: The most steps to simulate in all, checks included: by default a million in the box of a
            compiled environment, 100,000 in episodes.
        n_step: To fix it instead.
        q: For Q-factors.
        successors: How many paths each transition averages in the box, by default 1, or 8 if env or policy
            are stochastic.
        states: "box", "visited", or a function of a number and a key to as many states to start paths from
            (`monte_carlo.mixed_states` makes one).
        solver: By default LevenbergMarquardt().
        max_steps: Of the solver: the fit stops earlier where validation says so.
        max_transitions: Of a fit: more cost time, and add little unless the value is rugged. Along episodes
            they are drawn by leverage (`data.thinning`), so that few stand for all.
        timeout: Seconds after which simulation and fits end, with the best so far.
        progress: Whether to tell what goes on, by default where the error stream is a terminal.
        on_progress: Called with every fit's Progress.

    Example:
        >>> import gaussbell as gb
        >>> pendulum = gb.environments.Pendulum(discount=0.9)
        >>> network = gb.MLP((2, 10, 1))
        >>> found = gb.evaluate_policy(pendulum, lambda s: -s[1:] / 8, network, budget=4000, n_step=10)
        >>> found.relative_error < 0.5
        True
    """
    env = read_simulator(env)
    if states is None:
        states = STATES[0] if env.starts_anywhere else STATES[1]
    if isinstance(states, str) and (states not in STATES or (states == "box" and env.low is None)):
        raise ValueError(
            f"states={states!r}: give 'visited', a function that draws states, or, where the environment has "
            "a box of states, 'box'."
        )
    visited = states == "visited"
    budget = read_count(
        "budget", (EPISODE_BUDGET if visited else BOX_BUDGET) if budget is None else budget, 1
    )
    max_transitions = read_count("max_transitions", max_transitions, 1)
    max_steps = read_count("max_steps", max_steps, 1)
    if isinstance(n_step, str) and n_step != "auto":
        raise ValueError(f"n_step={n_step!r}: give 'auto', a whole number, or a LambdaReturn.")
    watch = Watch(timeout, progress, budget)
    data_key, network_key = jax.random.split(as_key(key))
    fits: list[ValidatedFit] = []
    try:
        with watch:
            if visited:
                experience: Experience = EpisodeExperience(
                    env,
                    policy,
                    budget,
                    key=data_key,
                    q=q,
                    max_transitions=max_transitions,
                    on_progress=watch.simulated,
                )
            else:
                experience = BoxExperience(
                    env,
                    policy,
                    budget,
                    key=data_key,
                    q=q,
                    successors=successors,
                    states=None if isinstance(states, str) else states,
                    max_transitions=max_transitions,
                    searching=isinstance(n_step, str),
                )
            is_own, features = network is not None, experience.features
            first, other = (
                _behind_features(network, env, policy, q, k, features) for k in jax.random.split(network_key)
            )

            def fit(candidate: Any, most: int = max_transitions, start: Any = first) -> ValidatedFit:
                data = experience.transitions(candidate, most)
                fits.append(ValidatedFit(candidate, data, start, solver, experience, watch, on_progress))
                return fits[-1]

            if isinstance(n_step, str):
                _search(
                    fit,
                    fits,
                    experience,
                    env.discount,
                    min(max_steps, FIRST_EPISODE_STEPS if visited else FIRST_STEPS),
                )
            else:
                fit(n_step)
            fits.sort(key=lambda fitted: fitted.error)
            if visited:  # the most promising start again with more transitions
                for fitted, start in zip(fits[:PROMISING], (first, other), strict=False):
                    if len(fitted.data) < experience.fits(fitted.n_step):
                        fit(fitted.n_step, start=start).go_on(min(max_steps, FIRST_EPISODE_STEPS))
            best, *others = sorted(fits, key=lambda fitted: fitted.error)
            best.go_on(max_steps)
            solution = best.solution
            if visited and not is_own:
                solution = _with_another(best, others, experience)
            solution, corrected_by = _with_fixed_point(solution, experience)
            checks = dataclasses.replace(
                check(solution.network, best.data), double_sampling=experience.double_sampling
            )
            assessment = judge(
                checks,
                status=solution.status,
                reference=Reference.SIMULATOR,
                estimate=experience.estimate(solution.network),
                scorer=lambda inputs: experience.error_at(solution.network, inputs),
            )
            start = experience.start_value(solution.network)
    except KeyboardInterrupt as interrupt:
        so_far = [fitted for fitted in fits if np.isfinite(fitted.error)]
        known = min(so_far, key=lambda fitted: fitted.error).solution if so_far else None
        raise EvaluationInterrupted(getattr(interrupt, "solution", known) or known) from None
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
        simulated=experience.simulated,
        ahead=lambda network, state, n: simulate_ahead(network, env, policy, state, n, key=data_key),
        start=start,
        corrected_by=corrected_by,
    )


def _with_another(best: ValidatedFit, others: list[ValidatedFit], experience: Experience) -> Solution:
    """The solution of the best fit, or the mean of two if validation prefers that: it varies less."""
    solution, error = best.solution, best.error
    for other in others:
        network = mean_network(best.solution.network, other.solution.network)
        if (its := experience.validation_error(network)) < error:
            solution, error = with_network(best.solution, network, best.data), its
    return solution


def _with_fixed_point(solution: Solution, experience: Experience) -> tuple[Solution, int | None]:
    """The solution with its last layer corrected by the n_step that validation likes best, if any helps.

    All logged steps take part in that, not only those that were fitted. Of a table the fixed point of one
    step is the most likely value, so others have to be clearly better.
    """
    best, error, chosen = solution, experience.validation_error(solution.network), None
    is_table = isinstance(experience.features, input_features.OneHot)
    if isinstance(experience, EpisodeExperience) and can_have_fixed_point(solution.network):
        for n in [n for n in CORRECTIONS if n <= experience.longest]:
            other = corrected(solution, experience.transitions(n, experience.logged))
            its = experience.validation_error(other.network) * (LIKELY if is_table and n == 1 else 1.0)
            if its < error:
                best, error, chosen = other, its, n
    return best, chosen


def _search(
    fit: Callable[..., ValidatedFit],
    fits: list[ValidatedFit],
    experience: Experience,
    discount: float,
    most: int,
) -> None:
    """Try numbers of steps from the middle outwards, until the validation error is clearly worse."""
    along = isinstance(experience, EpisodeExperience)
    rungs = EPISODE_LADDER if along else LADDER
    ladder = [
        n for n in rungs if n == 1 or (experience.fits(n) >= FEWEST_SAMPLES and n <= experience.longest)
    ]
    share = EPISODE_MIDDLE if along else MIDDLE
    middle = int(np.argmin([abs(np.log(n * max(1 - discount, SMALLEST_REST) / share)) for n in ladder]))
    worse = NO_BETTER if along else CLEARLY_WORSE
    for side in (ladder[middle:], ladder[:middle][::-1]):
        for n in side:
            if fits and experience.fits(n) < 1:
                break  # the budget is spent
            fitted = fit(n, most=SEARCHED) if along else fit(n)
            fitted.go_on(most)
            if fitted.error > worse * min(other.error for other in fits):
                break


def _behind_features(
    network: Any, env: Simulator, policy: Policy, q: bool, key: Any, standardised: Any
) -> Any:
    """The network as it takes the environment's states: scaled, if it is a plain MLP of their width."""
    inputs = env.width + (len(env.actions.low) if q else 0)
    if network is None:
        made = (
            env.features(None if is_noisy(policy) else policy, q=q) if standardised is None else standardised
        )
        if isinstance(made, input_features.OneHot):  # a table
            return FeatureNetwork(made, MLP((made.count, 1), key=key))
        width = inputs if made is None else input_features.width(made, inputs)
        # Along episodes many states lie outside of what was seen, where bounded units are the safer guess.
        inner = MLP((width, 20, 20, 1), bent_identity if standardised is None else tanh, key=key)
        if standardised is not None:  # observations of many numbers: keep sums of them of order one
            inner = inner.with_weights(tuple(weight / np.sqrt(len(weight)) for weight in inner.weights))
        return inner if made is None else FeatureNetwork(made, inner)
    scaling = env.scaling(q=q) if standardised is None else standardised
    return FeatureNetwork(scaling, network) if type(network) is MLP and scaling is not None else network
