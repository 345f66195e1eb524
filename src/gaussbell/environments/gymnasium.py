"""Any Gymnasium environment: set its state and step it, or run a policy in it and keep what happens."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from gaussbell.data.logs import Log
from gaussbell.environments.copies import VECTORIZATIONS, AsyncCopies, Copies, LocalCopies
from gaussbell.environments.playing import EpisodePlan, NotRepeatedError, Player
from gaussbell.environments.simulator import Paths
from gaussbell.environments.spaces import (
    draws_at_random,
    from_table,
    maker_of,
    read_observations,
    state_access,
    state_of,
    time_limit,
)
from gaussbell.environments.tasks import Earn
from gaussbell.networks.features import Features, Scale, one_hot
from gaussbell.numerics.arguments import as_key, host_rng, read_concrete, read_count
from gaussbell.processes.actions import DiscreteActions, read_actions
from gaussbell.processes.finite_mdp import FiniteMDP
from gaussbell.processes.policies import Policy, check_actions, choose_all, is_noisy, read_policy

ENDINGS = ("end", "restart")
TESTED_EPISODES = 2
"""How many episodes are tried to see whether steps are random."""


def from_gymnasium(
    env: Any,
    *,
    discount: float = 0.99,
    ending: str = "end",
    low: Any = None,
    high: Any = None,
    num_envs: int = 16,
    vectorization: str = "sync",
    stochastic: bool | None = None,
    exact: bool = True,
    **options: Any,
) -> "FiniteMDP | GymnasiumEnvironment":
    """A Gymnasium environment, by its id or as an object, for `sample_transitions` and all that builds on it.

    An environment with a table of probabilities `P` (FrozenLake, Taxi, CliffWalking) becomes a FiniteMDP,
    exact. Any other becomes a GymnasiumEnvironment. Where its state can be set (classic control by `state`,
    MuJoCo by `qpos` and `qvel`) and the box to sample from is known, transitions start from states all over
    that box; otherwise they are gathered by running the policy.

    Args:
        ending: What a terminated episode means: "end", the process is over, or "restart", it goes on from a
            new start; truncation never ends anything.
        low, high: The box of states to sample from (for MuJoCo of qpos and qvel), by default the bounds of
            the observations if they are finite and are the state.
        num_envs: How many copies run side by side; an environment given as an object runs alone.
        vectorization: "sync", all copies in this process, or "async", each in its own by Gymnasium's
            AsyncVectorEnv, which pays where steps take a millisecond or more and there are cores for them.
        stochastic: Whether the same state and action can lead to different successors, by default found out
            by a short test.
        exact: Whether a table of probabilities, where there is one, is read; False simulates the environment
            like any other.
        options: For `gymnasium.make`.

    Example:
        >>> import gaussbell as gb
        >>> gb.environments.from_gymnasium("FrozenLake-v1", is_slippery=True)
        FiniteMDP(16 states, 4 actions, discount 0.99)
    """
    if ending not in ENDINGS:
        raise ValueError(f"ending={ending!r}: give 'end' or 'restart', what a terminated episode means.")
    if vectorization not in VECTORIZATIONS:
        raise ValueError(f"vectorization={vectorization!r}: give 'sync' or 'async'.")
    make = maker_of(env, options)
    first = make()
    table = getattr(first.unwrapped, "P", None)
    if exact and isinstance(table, dict):
        return from_table(first.unwrapped, table, discount, ending)
    count = read_count("num_envs", num_envs, 1) if isinstance(env, str) else 1  # objects are not copied
    if vectorization == "async" and isinstance(env, str):
        local, copies = LocalCopies([first]), AsyncCopies(make, count)
    else:
        local = copies = LocalCopies([first, *(make() for _ in range(count - 1))])
    return GymnasiumEnvironment(local, copies, discount, ending, low, high, stochastic)


class GymnasiumEnvironment:
    """A Gymnasium environment as a simulator on the host. Made by `from_gymnasium`.

    Transitions hold observations, which is what policies see and what logged data hold too; `simulate` and
    `sample_states` deal in states, as far as they can be set.
    """

    def __init__(
        self,
        local: LocalCopies,
        copies: Copies,
        discount: float,
        ending: str,
        low: Any,
        high: Any,
        stochastic: bool | None = None,
    ):
        if not 0 < discount <= 1:
            raise ValueError(f"discount={discount!r}: give a number above 0 and up to 1.")
        self.discount, self.ending, self._stochastic = discount, ending, stochastic
        self._envs, self._copies = local.envs, copies
        env = self._envs[0]
        self.actions, self._first_action = read_actions(env.action_space)
        self._name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        space = env.observation_space
        self._observe = read_observations(space, self._name)
        self.width = len(self._observe(env.reset(seed=0)[0]))
        self._state = state_access(env)
        self.low, self.high = self._box(space, low, high)
        self._box_given = low is not None

    def __repr__(self) -> str:
        how = "states from a box" if self.low is not None else "states visited"
        return f"GymnasiumEnvironment({self._name}, {how}, discount {self.discount:g})"

    @property
    def task(self) -> Earn | None:
        """The return that Gymnasium's registry counts as solved, if it names one."""
        spec = self._envs[0].spec
        if spec is None or spec.reward_threshold is None or spec.max_episode_steps is None:
            return None
        return Earn(at_least=spec.reward_threshold, length=spec.max_episode_steps)

    @property
    def can_set_state(self) -> bool:
        """Can the state be set?"""
        return self._state is not None

    @property
    def starts_anywhere(self) -> bool:
        """Do evaluations start all over a box of states? Only where one was given."""
        return self._box_given

    @property
    def time_limit(self) -> int | None:
        """After how many steps Gymnasium's TimeLimit truncates an episode, if it does."""
        return time_limit(self._envs[0])

    @property
    def nominal_start(self) -> None:
        """Not known: an episode starts where `reset` says."""
        return None

    @property
    def is_stochastic(self) -> bool:
        """Can the same state and action lead to different successors? Given, or tested on first use.

        Two episodes start from the same seed and take the same actions, the second with another random
        generator after its reset: they differ if a step draws from it. What an environment draws from
        elsewhere is found only if it ignores the seed; say so then: from_gymnasium(..., stochastic=True).
        """
        if self._stochastic is None:
            tested = range(TESTED_EPISODES)
            self._stochastic = any(draws_at_random(self._envs[0], seed) for seed in tested)
        return self._stochastic

    def close(self) -> None:
        """Close all copies."""
        self._envs[0].close()
        self._copies.close()

    def sample_states(self, count: int, *, key: PRNGKeyArray | int = 0) -> Float[np.ndarray, "count s"]:
        """States drawn uniformly from the box."""
        if self.low is None or self.high is None:
            raise ValueError(
                f"env: {self._name} has no box of states to sample from; give from_gymnasium(..., low=..., "
                "high=...), or use sample_transitions, which then runs the policy."
            )
        return host_rng(key).uniform(self.low, self.high, (count, len(self.low)))

    def features(self, policy: Policy | None = None, *, q: bool = False) -> Features | None:
        """The recommended inputs of a network: one for each of a finite number of observations, else scaled.

        None for observations as they are.
        """
        space = self._envs[0].observation_space
        if type(space).__name__ != "Discrete":
            return self.scaling(q=q)
        count = int(space.start + space.n)
        if not q:
            return one_hot(count)
        return one_hot(count, self.actions.count) if isinstance(self.actions, DiscreteActions) else None

    def scaling(self, *, q: bool = False) -> Scale | None:
        """Observations mapped to [-1, 1], with the actions for Q-factors; None where bounds are not known."""
        space = self._envs[0].observation_space
        low, high = np.ravel(getattr(space, "low", np.inf)), np.ravel(getattr(space, "high", np.inf))
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (np.abs(high) < 1e30).all()):
            return None
        if q:
            low, high = np.append(low, self.actions.low), np.append(high, self.actions.high)
        return Scale(low, high)

    def simulate(
        self,
        policy: Policy,
        state: Any,
        horizons: Any,
        *,
        action: Any = None,
        key: PRNGKeyArray | int = 0,
    ) -> Paths:
        """Follow `policy` from N states, as `Environment.simulate` does, but what is seen are observations.

        Copies of the environment take the states in turn, as many at a time as there are copies.
        """
        if self._state is None:
            raise ValueError(
                f"env: the state of {self._name} cannot be set; sample_transitions runs the policy instead."
            )
        policy = read_policy(policy, self.width, self.actions)
        state, counts = self._read_states(state), np.atleast_1d(np.asarray(horizons))
        size, copies = len(state), len(self._envs)
        seen, first = np.zeros((size, self.width)), []
        reward, discount = np.zeros((len(counts), size)), np.zeros((len(counts), size))
        reached = np.zeros((len(counts), size, self.width))
        rng, key = host_rng(key), as_key(key)
        for start in range(0, size, copies):
            rows = np.arange(start, min(start + copies, size))
            for row, env in zip(rows, self._envs, strict=False):
                env.reset(seed=_seed(rng))
                seen[row] = self._observe(self._state(env, state[row]))
            at, total, ahead = seen[rows].copy(), np.zeros(len(rows)), np.ones(len(rows))
            going = np.ones(len(rows), bool)
            for step in range(int(counts[-1]) + 1):
                # What is still to come stays as it is once no path goes on.
                for line in np.flatnonzero(counts == step if going.any() else counts >= step):
                    reward[line, rows], discount[line, rows], reached[line, rows] = total, ahead, at
                if step > 0 and (step == counts[-1] or not going.any()):
                    break
                chosen = self._act(policy, at, jax.random.fold_in(jax.random.fold_in(key, start), step))
                if step == 0:
                    chosen = chosen if action is None else np.asarray(action)[rows]
                    first.append(chosen)
                    if counts[-1] == 0:
                        break
                legal = self._legal(chosen)
                for k in np.flatnonzero(going):
                    result = self._envs[k].step(legal[k])
                    total[k] += ahead[k] * float(result[1])
                    ahead[k] *= self.discount
                    at[k] = self._observe(result[0])
                    if result[2] and self.ending == "restart":
                        at[k] = self._observe(self._envs[k].reset(seed=_seed(rng))[0])
                    elif result[2]:
                        ahead[k], going[k] = 0.0, False
                    elif result[3]:  # a time limit: the row stops here and asks the network
                        going[k] = False
        answer: Any = (seen, np.concatenate(first), reward, discount, reached)
        return Paths(*answer)

    def log(self, policy: Policy, count: int, *, key: PRNGKeyArray | int = 0, explore: float = 0.0) -> Log:
        """Run `policy` for `count` steps in all, in episodes of the environment, and keep what happens.

        With probability `explore` an action is drawn uniformly instead.
        """
        policy = read_policy(policy, self.width, self.actions)
        rng, key = host_rng(key), as_key(key)
        everyone = range(len(self._copies))
        length = -(-read_count("count", count, 1) // len(everyone))
        seen = self._begin(everyone, rng)
        rows: list[tuple[Any, ...]] = []
        for step in range(length):
            action = self._act(policy, seen, jax.random.fold_in(key, step))
            if explore > 0:
                random = self.actions.sample(len(seen), key=jax.random.fold_in(key, length + step))
                explores = rng.random(len(seen)) < explore
                action = np.where(explores.reshape(-1, *(1,) * (action.ndim - 1)), random, action)
            observed, reward, terminated, truncated = self._copies.step(everyone, self._legal(action))
            reached = np.stack([self._observe(one) for one in observed])
            following = reached.copy()
            over = np.flatnonzero(terminated | truncated)
            if len(over):
                following[over] = self._begin(over, rng)
            if self.ending == "restart":  # the process goes on from the new start
                reached = np.where(terminated[:, None], following, reached)
                terminated = np.zeros_like(terminated)
            rows.append((seen, action, reward, reached, terminated, truncated))
            seen = following
        columns = [np.stack(column, axis=1) for column in zip(*rows, strict=True)]  # (envs, steps, ...)
        columns[5][:, -1] |= ~columns[4][:, -1]
        return Log(*(column.reshape(-1, *column.shape[2:]) for column in columns), actions=self.actions)

    def play(
        self,
        policy: Policy,
        *,
        episodes: int,
        length: int | None = None,
        key: PRNGKeyArray | int = 0,
        start: Any = None,
        past_limit: bool = False,
        on_progress: Callable[[int], Any] | None = None,
    ) -> Log:
        """Whole episodes of a policy from `reset`, each until the environment ends it or for `length` steps.

        Copies of the environment run side by side, and one whose episode is over begins the next.

        Args:
            start: States to begin with, where the state can be set.
            past_limit: Whether to go on where only a time limit has passed: the process itself has none.
            on_progress: Called with the steps so far; if it answers True the episodes are cut there.
        """
        seeds = host_rng(key).integers(2**31, size=read_count("episodes", episodes, 1))
        start = None if start is None or self._state is None else self._read_states(start)
        plans = [
            EpisodePlan(int(seed), start=None if start is None else start[k]) for k, seed in enumerate(seeds)
        ]
        return self._play(policy, plans, length, key, past_limit, on_progress)

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
        """Other continuations from steps of a log of `play`, past any time limit; None where that fails.

        Each episode is played again from its seed, with the same actions, up to the step; from there on the
        environment draws other random numbers, and the policy acts. That fails where an environment draws
        from elsewhere, so that the same seed and actions do not lead to the same state.
        """
        if log.seed is None:
            return None
        first = np.arange(len(log)) - log.age
        fresh = host_rng(key).integers(2**31, size=len(rows))
        plans = [
            EpisodePlan(
                int(log.seed[row]),
                log.action[first[row] : row + keep_action],
                log.state[row],
                int(seed),
                keep_action,
            )
            for row, seed in zip(rows, fresh, strict=True)
        ]
        try:
            return self._play(policy, plans, length, key, True, on_progress)
        except NotRepeatedError:
            return None

    def _play(
        self,
        policy: Policy,
        plans: list[EpisodePlan],
        length: int | None,
        key: Any,
        past_limit: bool,
        on_progress: Callable[[int], Any] | None,
    ) -> Log:
        policy, steps_key = read_policy(policy, self.width, self.actions), as_key(key)

        def act(seen: np.ndarray, taken: int) -> np.ndarray:
            now = jax.random.fold_in(steps_key, taken) if is_noisy(policy) else steps_key
            return self._act(policy, seen, now)

        def place(number: int, state: np.ndarray) -> Any:
            assert self._state is not None
            return self._state(self._envs[number], state)

        player = Player(self._copies, self._observe, self._legal, place, self.time_limit, self.width)
        parts = player.play(plans, act, length=length, past_limit=past_limit, on_progress=on_progress)
        rows = [row for part in parts for row in part]
        if not rows:
            raise ValueError(f"episodes: those of {self._name} were stopped before their first step.")
        state, action, reward, reached, ended = (np.array(column) for column in zip(*rows, strict=True))
        lengths = [len(part) for part in parts]
        return Log(
            state,
            action,
            reward,
            reached,
            ended,
            episode=np.repeat(np.arange(len(plans)), lengths),
            actions=self.actions,
            seed=np.repeat([plan.seed for plan in plans], lengths),
        )

    def reset_states(self, count: int, *, key: PRNGKeyArray | int = 0) -> np.ndarray:
        """What is observed at the beginning of `count` episodes; no step is taken."""
        rng, env = host_rng(key), self._envs[0]
        return np.stack([self._observe(env.reset(seed=_seed(rng))[0]) for _ in range(count)])

    def _begin(self, numbers: Any, rng: np.random.Generator) -> np.ndarray:
        observed = self._copies.reset(numbers, [_seed(rng) for _ in numbers])
        return np.stack([self._observe(one) for one in observed])

    def _read_states(self, state: Any) -> np.ndarray:
        state, wanted = read_concrete("state", state), len(state_of(self._envs[0]))
        if state.ndim != 2 or state.shape[1] != wanted:
            seen = "" if self.width == wanted else f" What is observed has {self.width}, and cannot be set."
            raise ValueError(
                f"state: shape {state.shape}; give (N, {wanted}), since a state of {self._name} has {wanted} "
                f"numbers (in MuJoCo qpos, then qvel).{seen}"
            )
        return state

    def _act(self, policy: Policy, seen: np.ndarray, key: Any) -> np.ndarray:
        action = choose_all(policy, seen, key)
        check_actions(self.actions, action, seen)
        return action

    def _legal(self, actions: np.ndarray) -> list[Any]:
        """Actions as Gymnasium takes them."""
        if isinstance(self.actions, DiscreteActions):
            return [int(action) + self._first_action for action in actions]
        return list(np.asarray(actions, self._envs[0].action_space.dtype))

    def _box(self, space: Any, low: Any, high: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        if (low is None) != (high is None):
            raise ValueError("low and high go together: give both or neither.")
        if self._state is None:
            if low is not None:
                raise ValueError(f"low, high: the state of {self._name} cannot be set, so no box is sampled.")
            return None, None
        if low is not None:
            box = read_concrete("low", low), read_concrete("high", high)
            wanted = state_of(self._envs[0]).shape
            if box[0].shape != wanted or box[1].shape != wanted:
                raise ValueError(
                    f"low, high: give {wanted[0]} numbers each, one for each number of the state."
                )
            return box
        bounds = (
            np.ravel(getattr(space, "low", np.inf)).astype(float),
            np.ravel(getattr(space, "high", np.inf)),
        )
        state = state_of(self._envs[0])
        known = all(np.isfinite(b).all() and (np.abs(b) < 1e30).all() for b in bounds)
        same = state.shape == bounds[0].shape and np.allclose(
            self._observe(self._state(self._envs[0], state)), state, atol=1e-5
        )
        return (bounds[0], bounds[1].astype(float)) if known and same else (None, None)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
