"""What a simulator is: all that sampling, Monte-Carlo estimates and policy iteration ask for."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from gaussbell.data.logs import Log
from gaussbell.environments.tasks import Task
from gaussbell.networks.features import Features, Scale
from gaussbell.processes.actions import Actions
from gaussbell.processes.finite_mdp import FiniteMDP
from gaussbell.processes.policies import Policy, is_noisy


class Paths(NamedTuple):
    """N states simulated on, seen after each of H numbers of steps.

        value(state) = reward[j] + discount[j] * value(next_state[j])    in expectation, for every j

    `state` is what is observed at the start of each path and `action` its first action; `discount` is 0 where
    the process has ended.
    """

    state: Float[Array, "N d"]
    action: Shaped[Array, "N *k"]
    reward: Float[Array, "H N"]
    discount: Float[Array, "H N"]
    next_state: Float[Array, "H N d"]


class Simulator(Protocol):
    """An environment to run policies in: ours, Gymnasium's behind `from_gymnasium`, or your own.

    Attributes:
        discount: The discount of one step.
        actions: The set of legal actions.
        width: The length of what is observed, and of a network's input.
        is_stochastic: Can the same state and action lead to different successors?
        can_set_state: Can a simulation start from any state?
        low: The box that states are drawn from, its lower end; None where there is none.
        high: Its upper end.
        nominal_start: The state that episodes start from, or around; None where it is not known.
        ending: "end" if termination ends the process, "restart" if it goes on from a start.
        task: What an episode is worth and when the problem counts as solved, if that is known.
        starts_anywhere: Do evaluations start all over the box, or with the starts of episodes?
        time_limit: After how many steps an episode is truncated, though the process would go on.
    """

    @property
    def discount(self) -> float: ...

    @property
    def actions(self) -> Actions: ...

    @property
    def width(self) -> int: ...

    @property
    def is_stochastic(self) -> bool: ...

    @property
    def can_set_state(self) -> bool: ...

    @property
    def low(self) -> np.ndarray | None: ...

    @property
    def high(self) -> np.ndarray | None: ...

    @property
    def nominal_start(self) -> np.ndarray | None: ...

    @property
    def ending(self) -> str: ...

    @property
    def task(self) -> Task | None: ...

    @property
    def starts_anywhere(self) -> bool: ...

    @property
    def time_limit(self) -> int | None: ...

    def sample_states(self, count: int, *, key: PRNGKeyArray | int = 0) -> Any:
        """States drawn uniformly from the box."""
        ...

    def simulate(
        self, policy: Policy, state: Any, horizons: Any, *, action: Any = None, key: PRNGKeyArray | int = 0
    ) -> Paths:
        """Follow `policy` from each of N states; see the path after each number of steps in `horizons`."""
        ...

    def play(
        self,
        policy: Policy,
        *,
        episodes: int,
        length: int,
        key: PRNGKeyArray | int = 0,
        start: Any = None,
        past_limit: bool = False,
        on_progress: Callable[[int], Any] | None = None,
    ) -> Log:
        """Whole episodes, from the environment's own starts unless others are given.

        `past_limit` says to go on past a time limit; `on_progress` is told the steps so far, and cuts the
        episodes if it answers True.
        """
        ...

    def branch(
        self,
        policy: Policy,
        log: Log,
        rows: Any,
        *,
        length: int,
        key: PRNGKeyArray | int = 0,
        keep_action: bool = False,
        on_progress: Callable[[int], Any] | None = None,
    ) -> Log | None:
        """Other continuations, by other random numbers, from steps of a log of `play`; an episode for each.

        None where they cannot be had. With `keep_action` they begin with the logged action.
        """
        ...

    def reset_states(self, count: int, *, key: PRNGKeyArray | int = 0) -> np.ndarray:
        """The states that `count` episodes start in."""
        ...

    def log(self, policy: Policy, count: int, *, key: PRNGKeyArray | int = 0, explore: float = 0.0) -> Log:
        """About `count` steps in episodes; with probability `explore` an action is drawn uniformly."""
        ...

    def scaling(self, *, q: bool = False) -> Scale | None:
        """Inputs mapped to [-1, 1], with the actions for Q-factors; None where bounds are not known."""
        ...

    def features(self, policy: Policy | None = None, *, q: bool = False) -> Features | None:
        """The recommended inputs of a network; None for the observations as they are."""
        ...


MEMBERS = sorted(name for name in vars(Simulator) if not name.startswith("_"))


def read_simulator(env: Any) -> Simulator:
    """The simulator that was given; ValueError, with the remedy, where it is none."""
    # Looked up without being asked: to ask whether an environment is stochastic may run it.
    nothing = object()
    missing = [name for name in MEMBERS if inspect.getattr_static(env, name, nothing) is nothing]
    if not missing:
        return env
    if isinstance(env, FiniteMDP):
        raise ValueError(
            f"env: the values of {env} are exact: env.under(policy).values. To simulate it, give "
            "environments.FiniteEnvironment(mdp), or make it by from_gymnasium(..., exact=False)."
        )
    raise ValueError(
        f"env: got {type(env).__name__}, which cannot be simulated (it has no {missing[0]}); give a "
        "gaussbell environment, environments.from_gymnasium(...), or environments.FiniteEnvironment(mdp)."
    )


def is_random(env: Any, policy: Policy) -> bool:
    """Does the same state lead to different paths, by chance in the process or in the policy?"""
    return env.is_stochastic or is_noisy(policy)
