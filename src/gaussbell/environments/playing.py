"""Whole episodes in copies of an environment, each from a plan: its seed, and what is repeated first."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gaussbell.environments.copies import Copies


class EpisodePlan(NamedTuple):
    """How an episode goes: its seed, the actions that are repeated first, and what comes after them.

    Attributes:
        state: What is observed where it branches off.
        fresh: The seed of the random numbers from there on.
        keep_action: Whether the last of the repeated actions belongs to the new branch.
        start: The state to begin with, instead of what the seed says.
    """

    seed: int
    repeated: Any = ()
    state: Any = None
    fresh: int | None = None
    keep_action: bool = False
    start: Any = None

    @property
    def replayed(self) -> int:
        """After how many steps the episode begins to count."""
        return len(self.repeated) - self.keep_action


class NotRepeatedError(Exception):
    """The same seed and actions did not lead to the same state."""


class Player(NamedTuple):
    """Plays episodes in copies that run side by side: one whose episode is over begins the next.

    Attributes:
        observe: What is observed, as a vector.
        legal: Actions as the environment takes them.
        place: Sets the state of a copy, by its number, and returns what is then observed.
        time_limit: After how many steps a truncation is only a time limit.
    """

    copies: Copies
    observe: Callable[[Any], np.ndarray]
    legal: Callable[[np.ndarray], list[Any]]
    place: Callable[[int, np.ndarray], Any]
    time_limit: int | None
    width: int

    def play(
        self,
        plans: list[EpisodePlan],
        act: Callable[[np.ndarray, int], np.ndarray],
        *,
        length: int | None,
        past_limit: bool,
        on_progress: Callable[[int], Any] | None,
    ) -> list[list[tuple[Any, ...]]]:
        """The steps of each episode: state, action, reward, successor, terminated.

        Args:
            act: The actions in a batch of states, and the number of steps taken so far.
        """
        copies = self.copies
        seen = np.zeros((len(copies), self.width))
        number, age = np.full(len(copies), -1), np.zeros(len(copies), int)
        parts: list[list[tuple[Any, ...]]] = [[] for _ in plans]
        begun = taken = 0
        while True:
            free = np.flatnonzero(number < 0)[: len(plans) - begun]
            if len(free):
                number[free], age[free] = range(begun, begun + len(free)), 0
                observed = copies.reset(free, [plans[n].seed for n in number[free]])
                for k, observation in zip(free, observed, strict=True):
                    start = plans[number[k]].start
                    seen[k] = self.observe(observation if start is None else self.place(k, start))
                begun += len(free)
            going = np.flatnonzero(number >= 0)
            if not len(going) or (taken and on_progress is not None and on_progress(taken)):
                return parts
            at = {int(k): plans[number[k]] for k in going}
            self._branch_off(at, age, seen)
            action = np.array(act(seen, taken))
            for k, plan in at.items():
                if age[k] < len(plan.repeated):
                    action[k] = plan.repeated[age[k]]
            observed, reward, terminated, truncated = copies.step(going, self.legal(action[going]))
            for j, (k, plan) in enumerate(at.items()):
                reached = self.observe(observed[j])
                if age[k] >= plan.replayed:
                    parts[number[k]].append((seen[k].copy(), action[k], reward[j], reached, terminated[j]))
                age[k], seen[k] = age[k] + 1, reached
                limited = self.time_limit is not None and age[k] >= self.time_limit
                cut = truncated[j] and not (past_limit and limited)
                if terminated[j] or cut or (length is not None and age[k] - plan.replayed >= length):
                    number[k] = -1
            taken += len(going)

    def _branch_off(self, at: dict[int, EpisodePlan], age: np.ndarray, seen: np.ndarray) -> None:
        """Other random numbers for the copies that have come to where their episode branches off."""
        here = [k for k, plan in at.items() if plan.fresh is not None and age[k] == plan.replayed]
        if any(not np.array_equal(seen[k], at[k].state) for k in here):
            raise NotRepeatedError
        if here:
            self.copies.redraw(here, [at[k].fresh for k in here])
