"""What policy iteration has seen of an environment, with every simulated step counted by its purpose."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from gaussbell.data.logs import Log
from gaussbell.diagnostics.checks import value_range
from gaussbell.environments.environment import Environment
from gaussbell.environments.simulator import Simulator, read_simulator
from gaussbell.numerics.arguments import host_rng
from gaussbell.processes.actions import DiscreteActions
from gaussbell.processes.policies import Constant, Policy

PACKAGE = str(Path(__file__).parent.parent)
RESTARTS = 64
"""Restart states drawn at a time."""


class EnvironmentFailed(RuntimeError):
    """The environment raised an error, or returned numbers that are not finite."""


class Experience:
    """All that a run has seen of an environment, with every simulated step counted by its purpose."""

    def __init__(self, env: Simulator, key: Any):
        env = read_simulator(env)
        if not isinstance(env.actions, DiscreteActions):
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
    def has_box(self) -> bool:
        """Can transitions start from any state of a box?"""
        return self.env.low is not None

    @property
    def value_range(self) -> tuple[float, float]:
        """What the rewards seen so far can add up to, with the discount."""
        return value_range(np.tile(self.rewards, 2), np.repeat([0.0, self.env.discount], 2))

    def _counted(self, log: Log, purpose: str) -> Log:
        self.counts[purpose] += len(log)
        low, high = self.rewards
        self.rewards = min(low, float(log.reward.min())), max(high, float(log.reward.max()))
        return log

    def play(self, policy: Policy, episodes: int, length: int, purpose: str, **options: Any) -> Log:
        """Whole episodes of a policy, counted."""
        with watching(self.env):
            log = self.env.play(policy, episodes=episodes, length=length, **options)
        return self._counted(log, purpose)

    def explore(self, policy: Policy, steps: int, key: Any) -> Log:
        """About as many steps of a policy, in episodes, counted as training."""
        with watching(self.env):
            log = self.env.log(policy, steps, key=key)
        return self._counted(log, "training")

    def after_the_end(self, log: Log, key: Any) -> Log:
        """Played steps as the evaluated process has them: if it restarts, so does a step into the end."""
        ending = self.env.ending
        if ending == "end" or not log.terminated.any():
            return log
        reached = log.next_state
        if ending == "restart":
            starts = self.starts(RESTARTS, key)
            starts = log.starts if starts is None else starts
            which = host_rng(key).integers(0, len(starts), len(reached))
            reached = np.where(log.terminated[:, None], starts[which], reached)
        over = log.terminated | log.truncated
        parts = (log.state, log.action, log.reward, reached)
        return Log(*parts, truncated=over, episode=log.episode, actions=log.actions)

    def starts(self, count: int, key: Any) -> Float[np.ndarray, "N d"] | None:
        """States that the process starts and restarts from; None where they are known from episodes only."""
        if not isinstance(self.env, Environment):
            return None
        return np.asarray(jax.vmap(self.env.initial)(jax.random.split(key, count)), float)

    def attempt(self, state: Float[np.ndarray, "N d"], action: np.ndarray, key: Any) -> Log:
        """One step from each of N states with the given actions, counted as training."""
        count = len(state)
        if isinstance(self.env, Environment):  # compiled: few shapes, so few compilations
            rows = np.resize(np.arange(count), 1 << (count - 1).bit_length())
            state, action = state[rows], action[rows]
        with watching(self.env):
            paths = self.env.simulate(Constant(0), state, [1], action=action, key=key)
            seen = (paths.state, action, paths.reward[0], paths.next_state[0], paths.discount[0] == 0)
            parts = [np.asarray(part)[:count] for part in seen]
            log = Log(*parts, truncated=True, actions=self.env.actions)
        return self._counted(log, "training")

    def keep(self, name: str, log: Log) -> None:
        """Remember steps under a name."""
        self.kept[name] = Log.join(self.kept[name], log) if name in self.kept else log

    def all_actions(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Every state with every action."""
        count = self.num_actions
        return np.repeat(state, count, axis=0), np.tile(np.arange(count), len(state))


@contextlib.contextmanager
def watching(env: Simulator) -> Iterator[None]:
    """What an environment or a policy raises in here ends an iteration, with its own traceback kept.

    A mistake of our own is no failure of theirs: it passes as it is.
    """
    try:
        yield
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = bool(frames) and frames[-1].filename.startswith(PACKAGE)
        if ours and not isinstance(error, ValueError):
            raise
        raise EnvironmentFailed(f"{env!r}: {type(error).__name__}: {error}") from error
