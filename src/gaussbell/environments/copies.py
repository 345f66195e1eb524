"""Copies of a Gymnasium environment that run side by side, in this process or in others."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

VECTORIZATIONS = ("sync", "async")


class Stepped(NamedTuple):
    """What one step of several copies led to, a row each."""

    observation: list[Any]
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class Copies(abc.ABC):
    """Several environments of one kind; `numbers` say which of them are meant."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def reset(self, numbers: Any, seeds: Any) -> list[Any]:
        """Begin an episode in each of the copies, and what is observed then."""

    @abc.abstractmethod
    def step(self, numbers: Any, actions: Sequence[Any]) -> Stepped:
        """Take one action in each of the copies."""

    @abc.abstractmethod
    def redraw(self, numbers: Any, seeds: Any) -> None:
        """From here on these copies draw other random numbers."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close them all."""


class LocalCopies(Copies):
    """Copies in this process, stepped one after the other."""

    def __init__(self, envs: list[Any]):
        self.envs = envs

    def __len__(self) -> int:
        return len(self.envs)

    def reset(self, numbers: Any, seeds: Any) -> list[Any]:
        return [self.envs[k].reset(seed=int(seed))[0] for k, seed in zip(numbers, seeds, strict=True)]

    def step(self, numbers: Any, actions: Sequence[Any]) -> Stepped:
        results = [self.envs[k].step(action) for k, action in zip(numbers, actions, strict=True)]
        observation, reward, terminated, truncated, _ = zip(*results, strict=True)
        return Stepped(
            list(observation), np.array(reward, float), np.array(terminated, bool), np.array(truncated, bool)
        )

    def redraw(self, numbers: Any, seeds: Any) -> None:
        for k, seed in zip(numbers, seeds, strict=True):
            self.envs[k].unwrapped.np_random = np.random.default_rng(int(seed))

    def close(self) -> None:
        for env in self.envs:
            env.close()


class AsyncCopies(Copies):
    """Copies in processes of their own, by Gymnasium's AsyncVectorEnv: for environments with slow steps.

    The processes start with the first reset, and anew after an interrupt. All copies take every step: one
    that has nothing to do is reset and steps along.
    """

    def __init__(self, make: Callable[[], Any], count: int):
        self._make, self._count = make, count
        self._envs: Any = None
        self._over = np.ones(count, bool)

    def __len__(self) -> int:
        return self._count

    def reset(self, numbers: Any, seeds: Any) -> list[Any]:
        if self._envs is None:
            self._start()
        given: list[Any] = [None] * self._count
        for k, seed in zip(numbers, seeds, strict=True):
            given[k] = int(seed)
        mask = np.isin(np.arange(self._count), numbers)
        observation, _ = self._safely(lambda: self._envs.reset(seed=given, options={"reset_mask": mask}))
        self._over[mask] = False
        return [observation[k] for k in numbers]

    def step(self, numbers: Any, actions: Sequence[Any]) -> Stepped:
        if self._over.any():
            idle = np.flatnonzero(self._over)
            self.reset(list(idle), list(range(len(idle))))
        taken = [actions[0]] * self._count
        for k, action in zip(numbers, actions, strict=True):
            taken[k] = action
        found = self._safely(lambda: self._envs.step(np.array(taken)))
        observation, reward, terminated, truncated, _ = found
        self._over = terminated | truncated
        self._over[list(numbers)] = False  # whoever asked for the step resets these
        rows = list(numbers)
        return Stepped([observation[k] for k in rows], reward[rows], terminated[rows], truncated[rows])

    def redraw(self, numbers: Any, seeds: Any) -> None:
        generators: list[Any] = list(self._envs.get_attr("np_random"))
        for k, seed in zip(numbers, seeds, strict=True):
            generators[k] = np.random.default_rng(int(seed))
        self._safely(lambda: self._envs.set_attr("np_random", generators))

    def close(self) -> None:
        if self._envs is not None:
            self._envs.close(terminate=True)
            self._envs = None

    def _start(self) -> None:
        from gymnasium.vector import AsyncVectorEnv, AutoresetMode  # noqa: PLC0415 - an extra

        # Not forked: JAX has threads.
        self._envs = AsyncVectorEnv(
            [self._make] * self._count, context="spawn", autoreset_mode=AutoresetMode.DISABLED
        )
        self._over[:] = True

    def _safely(self, call: Callable[[], Any]) -> Any:
        """The answer of a call; after a failure or an interrupt the processes are of no use any more."""
        try:
            return call()
        except BaseException:
            self.close()
            raise
