"""Where the rows of policy iteration come from: states to start at, and steps that are kept.

What a step does depends on no policy: (state, action, reward, next state) once seen serves the evaluation
of every later policy too, only the action after it is that policy's. `Replay` keeps such steps. `Fresh`
simulates anew each sweep, as many steps as wanted.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from gaussbell.actions import DiscreteActions
from gaussbell.logs import Log
from gaussbell.policies import Constant, EpsilonGreedy, Policy
from gaussbell.precision import host_rng
from gaussbell.rollouts import play
from gaussbell.sampling import LambdaReturn, read_horizons, sample_transitions
from gaussbell.transitions import Transitions

RESTARTS = 64
"""Restart states drawn at a time."""


class EnvironmentFailed(RuntimeError):
    """The environment raised an error, or returned numbers that are not finite."""


class Experience:
    """All that a run has seen of an environment, with every simulated step counted by its purpose."""

    def __init__(self, env: Any, key: Any):
        if not isinstance(getattr(env, "actions", None), DiscreteActions):
            raise ValueError(
                f"env: {type(env).__name__} has no discrete actions to be greedy in; give an environment "
                "with actions from a finite set."
            )
        self.env, self.key = env, key
        self.num_actions: int = env.actions.count
        self.counts = {"training": 0, "roll-outs": 0, "confirmation": 0}
        self.rewards = (np.inf, -np.inf)
        self.rolled: Log | None = None  # the last roll-outs
        self.followed: Log | None = None  # those of the policy that is evaluated next
        self.kept: dict[str, Log] = {}

    @property
    def is_settable(self) -> bool:
        """Can transitions start from any state of a box?"""
        return getattr(self.env, "low", None) is not None

    @property
    def value_range(self) -> tuple[float, float]:
        """What the rewards seen so far can add up to, with the discount."""
        low, high = self.rewards
        ahead = 1 / (1 - self.env.discount)
        return min(low, low * ahead), max(high, high * ahead)

    def _counted(self, log: Log, purpose: str) -> Log:
        self.counts[purpose] += len(log)
        low, high = self.rewards
        self.rewards = min(low, float(log.reward.min())), max(high, float(log.reward.max()))
        return log

    def play(self, policy: Policy, episodes: int, length: int, purpose: str, **options: Any) -> Log:
        """Whole episodes of a policy, counted."""
        with _watching(self.env):
            log = play(self.env, policy, episodes=episodes, length=length, **options)
        return self._counted(log, purpose)

    def explore(self, policy: Policy, steps: int, key: Any) -> Log:
        """About as many steps of a policy, in episodes, counted as training."""
        with _watching(self.env):
            log = self.env.log(policy, steps, key=key)
        return self._counted(log, "training")

    def after_the_end(self, log: Log, key: Any) -> Log:
        """Played steps as the evaluated process has them: if it restarts, so does a step into the end."""
        ending = getattr(self.env, "ending", "end")
        if ending == "end" or not log.terminated.any():
            return log
        reached = log.next_state
        if ending == "restart":
            starts = Starts(RESTARTS)(self, key) if hasattr(self.env, "initial") else log.starts
            which = host_rng(key).integers(0, len(starts), len(reached))
            reached = np.where(log.terminated[:, None], starts[which], reached)
        over = log.terminated | log.truncated
        parts = (log.state, log.action, log.reward, reached)
        return Log(*parts, truncated=over, episode=log.episode, actions=log.actions)

    def attempt(self, state: Float[np.ndarray, "N d"], action: np.ndarray, key: Any) -> Log:
        """One step from each of N states with the given actions, counted as training."""
        count = len(state)
        rows = np.resize(np.arange(count), 1 << (count - 1).bit_length())  # few shapes, so few compilations
        state, action = state[rows], action[rows]
        with _watching(self.env):
            log = self._attempt(state, action, count, key)
        return self._counted(log, "training")

    def _attempt(self, state: np.ndarray, action: np.ndarray, count: int, key: Any) -> Log:
        if hasattr(self.env, "sample_transitions"):  # on the host: only what is needed
            state, action = state[:count], action[:count]
            data = self.env.sample_transitions(
                Constant(0), count, key=key, steps=1, q=True, successors=1, state=state, action=action
            )
            seen, reward, reached = data.state, data.reward, data.next_state
            ended = np.asarray(data.discount) == 0
        else:
            paths = self.env.simulate(Constant(0), state, [1], action=action, key=key)
            seen, reward, reached, ended = state, paths.reward[0], paths.next_state[0], paths.discount[0] == 0
        parts = [np.asarray(part)[:count] for part in (seen, action, reward, reached, ended)]
        return Log(*parts, truncated=True, actions=self.env.actions)

    def keep(self, name: str, log: Log) -> None:
        """Remember steps under a name."""
        self.kept[name] = Log.join(self.kept[name], log) if name in self.kept else log

    def all_actions(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Every state with every action."""
        count = self.num_actions
        return np.repeat(state, count, axis=0), np.tile(np.arange(count), len(state))


class Uniform(eqx.Module):
    """`count` states drawn uniformly from the environment's box."""

    count: int

    def __call__(self, seen: Experience, key: Any) -> Float[np.ndarray, "N d"]:
        return np.asarray(seen.env.sample_states(self.count, key=key))


class Visited(eqx.Module):
    """`count` states that the last roll-outs passed through; uniform ones before the first."""

    count: int

    def __call__(self, seen: Experience, key: Any) -> Float[np.ndarray, "N d"]:
        if seen.rolled is None:
            return Uniform(self.count)(seen, key)
        states = seen.rolled.state
        return states[host_rng(key).choice(len(states), self.count, replace=len(states) < self.count)]


class Starts(eqx.Module):
    """`count` states that the process starts and restarts from, or within ± `reach` of them."""

    count: int
    reach: Any = 0.0

    def __call__(self, seen: Experience, key: Any) -> Float[np.ndarray, "N d"]:
        keys = jax.random.split(key, self.count)
        starts = np.asarray(jax.vmap(seen.env.initial)(keys), float)
        return starts + host_rng(key).uniform(-1, 1, starts.shape) * np.asarray(self.reach)


class Mixed(eqx.Module):
    """The states of several samplers together."""

    parts: tuple[Any, ...]

    def __init__(self, *parts: Any):
        self.parts = parts

    def __call__(self, seen: Experience, key: Any) -> Float[np.ndarray, "N d"]:
        return np.concatenate([part(seen, jax.random.fold_in(key, k)) for k, part in enumerate(self.parts)])


class Fresh(eqx.Module):
    """Rows simulated anew for each policy, from the states of a sampler: Algorithm 2, and paths of n steps.

    Arguments: `states`, a sampler; `steps`, a whole number or a LambdaReturn: after the first action the
    evaluated policy is followed; `every_action`, whether each state is tried with all actions or with one
    drawn at random; `once`, whether the states are drawn once and for all; `successors`, how many paths a
    row averages, where the process is random.
    """

    states: Any
    steps: int | LambdaReturn = 1
    every_action: bool = True
    once: bool = False
    successors: int = 1

    def rows(self, seen: Experience, policy: Policy, caution: float, key: Any) -> Transitions:
        """The rows of one sweep."""
        draw, paths = jax.random.split(seen.key if self.once else key)
        state = self.states(seen, draw)
        if self.every_action:
            state, action = seen.all_actions(state)
        else:
            action = np.asarray(seen.env.actions.sample(len(state), key=jax.random.fold_in(draw, 1)))
        longest = int(read_horizons(self.steps)[-1])
        seen.counts["training"] += len(state) * longest * self.successors
        with _watching(seen.env):
            return sample_transitions(
                seen.env,
                _cautious(policy, caution, seen.num_actions),
                len(state),
                key=paths,
                steps=self.steps,
                q=True,
                successors=self.successors,
                state=state,
                action=action,
            )


class Replay(eqx.Module):
    """Single steps, all kept: each new policy is evaluated on everything seen so far.

    Half of the rows are steps from states all over the box, half from states that roll-outs visited, tried
    with the other actions too. Where the state cannot be set, all rows come from playing: the roll-outs, and
    episodes of the policy with random actions mixed in.

    Arguments: `first` and `more`, how many states of the box are tried before the first sweep and before each
    other one; `visited`, how many states of the last roll-outs are tried with the actions not taken;
    `rows_a_fit`, how many rows a fit has; `paths`, how many further rows go `ahead` steps along the roll-outs
    of the evaluated policy, at no cost (single steps say which action is better, paths how good it all is);
    `explored`, where the state cannot be set, how many steps are played before each sweep, with random
    actions with probability `explore`.
    """

    first: int = 200
    more: int = 100
    visited: int = 200
    rows_a_fit: int = 1500
    paths: int = 0
    ahead: int = 10
    explored: int = 500
    explore: float = 0.3

    def rows(self, seen: Experience, policy: Policy, caution: float, key: Any) -> Transitions:
        """The rows of one sweep."""
        keys = jax.random.split(key, 6)
        if seen.is_settable:
            state = Uniform(self.more if seen.kept else self.first)(seen, keys[0])
            if len(state):
                seen.keep("uniform", seen.attempt(*seen.all_actions(state), keys[1]))
        else:
            noisy = EpsilonGreedy(policy, seen.num_actions, self.explore if seen.kept else 1.0)
            seen.keep("visited", seen.after_the_end(seen.explore(noisy, self.explored, keys[0]), keys[1]))
        if seen.rolled is not None:
            self._keep_visited(seen, keys[2])
        half = self.rows_a_fit // len(seen.kept)
        rng = host_rng(keys[3])
        parts = [_draw(log, half, rng) for log in seen.kept.values()]
        data = Log.join(*parts).transitions(
            discount=seen.env.discount, policy=_cautious(policy, caution, seen.num_actions)
        )
        if self.paths == 0 or seen.followed is None:
            return data
        log = seen.after_the_end(seen.followed, keys[4])
        along = log.transitions(discount=seen.env.discount, steps=self.ahead, policy=policy)
        return Transitions.join(data, along.take(rng.choice(len(log), self.paths)))

    def _keep_visited(self, seen: Experience, key: Any) -> None:
        """The steps of the last roll-outs, and what the other actions would have done there."""
        assert seen.rolled is not None
        log = seen.rolled
        chosen = host_rng(key).choice(len(log), min(self.visited, len(log)), replace=False)
        seen.keep("visited", _take(seen.after_the_end(log, key), chosen))
        if seen.is_settable and not hasattr(seen.env, "sample_transitions"):
            state, action = seen.all_actions(log.state[chosen])
            other = action != np.repeat(log.action[chosen].astype(int), seen.num_actions)
            seen.keep("visited", seen.attempt(state[other], action[other], jax.random.fold_in(key, 1)))


@contextlib.contextmanager
def _watching(env: Any) -> Iterator[None]:
    """Whatever goes wrong in here is the environment's doing."""
    try:
        yield
    except Exception as error:
        raise EnvironmentFailed(f"{env!r}: {type(error).__name__}: {error}") from error


def _take(log: Log, rows: np.ndarray) -> Log:
    """Some steps, each standing for itself."""
    parts = (log.state, log.action, log.reward, log.next_state, log.terminated)
    return Log(*(part[rows] for part in parts), truncated=True, actions=log.actions)


def _draw(log: Log, count: int, rng: np.random.Generator) -> Log:
    return _take(log, rng.choice(len(log), count, replace=len(log) < count))


def _cautious(policy: Policy, caution: float, num_actions: int) -> Policy:
    """The policy whose later actions are random with probability `caution`."""
    return policy if caution == 0 else EpsilonGreedy(policy, num_actions, caution)
