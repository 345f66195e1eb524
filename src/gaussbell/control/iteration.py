"""Policy iteration: evaluate, improve, roll out, and keep only what roll-outs confirm (Algorithm 2)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from gaussbell.control.checks import Earned, assess_q, compare
from gaussbell.control.experience import EnvironmentFailed, Experience
from gaussbell.control.recipe import Recipe, default_recipe
from gaussbell.control.solution import IterationInterrupted, PolicySolution, PolicyStatus, Sweep
from gaussbell.data.logs import Log
from gaussbell.diagnostics.assessment import Assessment
from gaussbell.environments import tasks
from gaussbell.environments.simulator import Simulator
from gaussbell.evaluation.from_data import evaluate
from gaussbell.networks import features as input_features
from gaussbell.networks.mlp import MLP
from gaussbell.networks.value_function import FeatureNetwork, redrawn, values_at
from gaussbell.numerics.arguments import as_key, read_count
from gaussbell.numerics.precision import in_double
from gaussbell.processes.policies import Greedy

FIRST_WEIGHTS = 0.5
"""Default networks start from weights within ± this: smaller than the paper's, for smoother Q-factors."""


@in_double
def policy_iteration(
    env: Simulator,
    network: Any = None,
    *,
    key: PRNGKeyArray | int = 0,
    sweeps: int = 40,
    task: tasks.Task | None = None,
    recipe: Recipe | None = None,
    on_sweep: Callable[[Sweep], None] | None = None,
) -> PolicySolution:
    """Find a policy that solves a task: evaluate the greedy policy, take the one greedy in its Q, repeat.

        Q(s, a) = reward + discount Q(s', policy(s')),    policy'(s) = argmax_a Q(s, a)

    By default single steps are kept and serve every later evaluation, a policy is kept only if roll-outs say
    that it is no worse (or, on the way to a goal, not much worse), after four rejections the weights are
    drawn afresh, and "solved" is said only after fresh episodes confirmed it. The best policy seen is
    returned in any case. `Recipe` holds these choices; `control.algorithm_2(...)` makes the paper's.
    Ctrl-C raises IterationInterrupted with the best policy so far; an environment that fails on the way ends
    the iteration with a status.

    Args:
        env: With actions from a finite set: ours, or `environments.from_gymnasium(...)`.
        network: For a state with the action's number appended, from whose weights it starts, or a function
            from a key that draws one; by default two layers of 10 units behind `env.features`; a plain MLP
            gets the scaled state and action, any other network is taken as it is (`PerAction` for one output
            an action).
        sweeps: At most.
        task: By default the environment's own.
        recipe: By default that of `control.default_recipe`.
        on_sweep: Called after each sweep.

    Example:
        >>> import gaussbell as gb
        >>> found = gb.policy_iteration(gb.environments.CartPole(), sweeps=1)
        >>> found.status.name, found.policy([0.0, 0.0, 0.1, 0.0]) in (0, 1)
        ('OUT_OF_SWEEPS', True)
    """
    run = _Run(env, network, task, recipe, as_key(key), read_count("sweeps", sweeps, 1), on_sweep)
    try:
        return run.solution(run.iterate())
    except EnvironmentFailed as failed:
        if not run.history:
            raise
        return run.solution(PolicyStatus.ENVIRONMENT_FAILED, failed)
    except KeyboardInterrupt:
        raise IterationInterrupted(run.solution(PolicyStatus.INTERRUPTED)) from None


class _Kept(NamedTuple):
    """A policy with the mean score of its roll-outs, and the scores of episodes that were to confirm it."""

    score: float
    network: Any
    policy: Greedy
    assessment: Assessment | None = None
    confirmed: np.ndarray = np.empty(0)


class _Run:
    """What policy iteration carries from sweep to sweep."""

    def __init__(
        self,
        env: Simulator,
        network: Any,
        task: tasks.Task | None,
        recipe: Recipe | None,
        key: Any,
        sweeps: int,
        on_sweep: Any,
    ):
        self.weights_key, self.data_key, self.play_key, once_key = jax.random.split(key, 4)
        self.seen = Experience(env, once_key)
        task = task or self.seen.env.task
        if not isinstance(task, tasks.Task):
            raise ValueError(
                f"task={task!r}: the environment names no goal; give one, such as "
                "gaussbell.tasks.Earn(at_least=200, length=500)."
            )
        self.task, self.recipe = task, recipe or default_recipe(task)
        self.sweeps, self.on_sweep = sweeps, on_sweep
        scaling = env.scaling(q=True)
        if type(network) is MLP and scaling is not None:
            network = FeatureNetwork(scaling, network)
        self.draw = _network_maker(network, env)
        self.history: list[Sweep] = []
        first = network if isinstance(network, eqx.Module) else self.draw(self.weights_key)
        self.kept = self.best = self._untried(first)

    def iterate(self) -> PolicyStatus:
        rejections, attempt = 0, self.recipe.attempt or self.sweeps
        for sweep in range(self.sweeps):
            if sweep % attempt == 0:
                rejections = 0
                self._begin(sweep)
            data_key = jax.random.fold_in(self.data_key, sweep)
            evaluation = self.recipe.evaluation
            data = self.recipe.data.transitions(self.seen, self.kept.policy, evaluation.epsilon, data_key)
            start = self.kept.network if evaluation.persistent else self._fresh(sweep)
            fit = evaluate(
                start,
                data,
                solver=evaluation.solver,
                max_steps=evaluation.max_steps,
                tolerance=evaluation.tolerance,
                diagnose=False,
            )
            policy = Greedy(fit.network, self.seen.num_actions)
            log = self._play(policy, sweep + 1, "roll-outs")
            self.seen.rolled = log
            values = values_at(fit.network, data.inputs)
            earned = compare(fit.network, policy, self.seen, log, data_key)
            now = _Kept(
                float(self.task.score(log).mean()),
                fit.network,
                policy,
                assess_q(fit.network, values, earned, self.seen),
            )
            accepted = self.recipe.acceptance.accepts(now.score, self.kept.score)
            rejections = 0 if accepted else rejections + 1
            redrawn = rejections >= self.recipe.acceptance.patience
            if accepted:
                self.kept, self.seen.followed = now, log
            elif redrawn:
                rejections, self.kept = 0, self._untried(self._fresh(sweep))
            if now.score >= self.best.score:  # of equals the later one
                self.best = now
            self._note(now.score, fit, values, earned, log, accepted, redrawn)
            if self.task.is_met(self.task.score(log)) and self.recipe.stops:
                tried = now._replace(confirmed=self._confirm(now, sweep))
                solved = self.task.is_confirmed(tried.confirmed)
                self.best = tried if solved or self.best is now else self.best
                if solved:
                    return PolicyStatus.SOLVED
        return PolicyStatus.OUT_OF_SWEEPS

    def _begin(self, sweep: int) -> None:
        """Start, or start over: with data still to come, and roll-outs of a policy still to be evaluated."""
        if sweep > 0:
            self.seen.kept.clear()
            self.kept = self._untried(self._fresh(sweep - 1))
        self.seen.rolled = self.seen.followed = self._play(self.kept.policy, 10**5 + sweep, "roll-outs")

    def solution(self, status: PolicyStatus, failed: EnvironmentFailed | None = None) -> PolicySolution:
        return PolicySolution(
            policy=self.best.policy,
            network=self.best.network,
            status=status,
            score=self.best.score,
            confirmed=self.best.confirmed,
            history=tuple(self.history),
            transitions=dict(self.seen.counts),
            assessment=self.best.assessment,
            error="" if failed is None else str(failed),
            failure=None if failed is None else failed.__cause__,
        )

    def _untried(self, network: Any) -> _Kept:
        """A policy that any other is better than."""
        return _Kept(-np.inf, network, Greedy(network, self.seen.num_actions))

    def _fresh(self, sweep: int) -> Any:
        return self.draw(jax.random.fold_in(self.weights_key, sweep + 1))

    def _play(self, policy: Greedy, number: int, purpose: str, **options: Any) -> Log:
        length = self.task.confirming_length if purpose == "confirmation" else self.task.length
        key = jax.random.fold_in(self.play_key, number)
        return self.seen.play(policy, self.recipe.rollouts, length, purpose, key=key, **options)

    def _confirm(self, now: _Kept, sweep: int) -> np.ndarray:
        """The scores of fresh episodes, played until they are enough or speak against the policy."""
        scores, batch = np.empty(0), self.recipe.rollouts
        for number in range(-(-self.task.confirmations // batch)):
            label = 10**6 + 1000 * sweep + number
            start = self.task.starts(self.seen.env, batch, jax.random.fold_in(self.play_key, label))
            log = self._play(now.policy, label, "confirmation", start=start)
            scores = np.append(scores, self.task.score(log))
            if self.task.is_refuted(scores):
                # Where it failed is what the next fit should see.
                assert self.seen.rolled is not None
                self.seen.rolled = Log.join(self.seen.rolled, log)
                break
        return scores

    def _note(
        self,
        score: float,
        fit: Any,
        values: np.ndarray,
        earned: Earned,
        log: Log,
        accepted: bool,
        redrawn: bool,
    ) -> None:
        """The sweep's entry in the history."""
        returns, steps = tasks.returns(log), tasks.lengths(log)
        sweep = Sweep(
            score=score,
            returns=(float(returns.mean()), float(returns.min()), float(returns.max())),
            steps=(float(steps.mean()), float(steps.min()), float(steps.max())),
            msbe=float(fit.msbe),
            solver_steps=int(fit.steps),
            low=float(values.min()),
            high=float(values.max()),
            correlation=earned.correlation,
            error=earned.error,
            accepted=bool(accepted),
            redrawn=bool(redrawn),
            transitions=sum(self.seen.counts.values()),
        )
        self.history.append(sweep)
        if self.on_sweep is not None:
            self.on_sweep(sweep)


def _network_maker(network: Any, env: Simulator) -> Callable[[Any], Any]:
    """What draws a network with fresh weights: given, or made from the network that was given."""
    if network is not None and not isinstance(network, eqx.Module):
        if not callable(network):
            raise ValueError(f"network={network!r}: give a network, or a function from a key that makes one.")
        return network
    if network is None:
        return lambda key: default_network(env, key)
    return lambda key: redrawn(network, key)


def default_network(env: Simulator, key: PRNGKeyArray | int = 0) -> Any:
    """Two layers of 10 units behind the environment's features, with small weights, for Q-factors."""
    inputs = env.features(None, q=True)
    count = env.width + 1
    width = count if inputs is None else input_features.width(inputs, count)
    network = MLP((width, 10, 10, 1), key=key)
    weights = tuple(FIRST_WEIGHTS * array for array in network.weights)
    network = eqx.tree_at(lambda net: net.weights, network, weights)
    return network if inputs is None else FeatureNetwork(inputs, network)
