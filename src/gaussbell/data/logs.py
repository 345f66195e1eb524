"""Logged steps of some policy, in the order they happened, and the transitions they hold for another."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray, Shaped

from gaussbell.data.horizons import LambdaReturn, read_horizons
from gaussbell.data.transitions import Transitions, check_finite
from gaussbell.numerics.arguments import read_concrete
from gaussbell.numerics.precision import in_double
from gaussbell.processes.actions import Actions, BoxActions
from gaussbell.processes.policies import Policy, check_actions, choose_all, is_noisy, read_policy

MISSING_ACTIONS = (
    "actions: the log does not say which are legal; give them, for example Log(..., "
    "actions=gaussbell.actions.DiscreteActions(2)), or the same argument of datasets.from_frame and read."
)

SAME_ACTION = 1e-3
"""Two actions of a box are the same if they differ by less than this share of its size."""


class Log(eqx.Module):
    """Steps of a policy in the order they happened: what a data set of episodes holds.

    `terminated` marks steps that ended the process: nothing follows, the discount is 0. `truncated` marks
    steps after which only the recording stopped, at a time limit for instance: the value goes on, and the
    successor's is asked of the network. The last step of the data counts as truncated.

    Args:
        state, next_state: (N, d), `action` (N,) or (N, k), `reward` (N,), `terminated` and `truncated` (N,),
            `episode` (N,), the number of each step's episode; by default an episode ends where a step is
            terminated or truncated.
        actions: The set of legal actions, if it is known.
        seed: (N,), what each step's episode was reset with, where a simulator can play it again.

    Example:
        >>> import gaussbell as gb
        >>> log = gb.Log([[0.0], [1.0]], [0, 1], [1.0, 2.0], [[1.0], [2.0]], terminated=[False, True])
        >>> log.transitions(discount=0.5, n_step=2).reward.tolist()
        [2.0, 2.0]
    """

    state: Float[np.ndarray, "N d"]
    action: Shaped[np.ndarray, "N *k"]
    reward: Float[np.ndarray, " N"]
    next_state: Float[np.ndarray, "N d"]
    terminated: Bool[np.ndarray, " N"]
    truncated: Bool[np.ndarray, " N"]
    episode: Int[np.ndarray, " N"]
    actions: Actions | None
    seed: Int[np.ndarray, " N"] | None

    def __init__(
        self,
        state: Any,
        action: Any,
        reward: Any,
        next_state: Any,
        terminated: Any = False,
        truncated: Any = False,
        episode: Any = None,
        actions: Actions | None = None,
        seed: Any = None,
    ):
        if not isinstance(actions, Actions | None):
            raise ValueError(
                f"actions={actions!r}: give gaussbell.actions.DiscreteActions(count) or BoxActions(low, "
                "high)."
            )
        self.actions = actions
        self.seed = None if seed is None else np.asarray(seed)
        self.state = read_concrete("state", state)
        count = len(self.state)
        if self.state.ndim != 2 or self.state.size == 0:
            raise ValueError(
                f"state: shape {self.state.shape}; give one vector of numbers a step, at least one step."
            )
        self.action = read_concrete("action", action)
        self.reward = read_concrete("reward", reward)
        self.next_state = read_concrete("next_state", next_state)
        self.terminated = np.broadcast_to(read_concrete("terminated", terminated) != 0, (count,))
        truncated = np.broadcast_to(read_concrete("truncated", truncated) != 0, (count,))
        for name in ("action", "reward", "next_state"):
            if len(getattr(self, name)) != count:
                raise ValueError(f"{name}: {len(getattr(self, name))} rows; there are {count} states.")
        if self.reward.ndim != 1 or self.next_state.shape != self.state.shape:
            raise ValueError("reward, next_state: give shapes (N,) and that of state.")
        for name in ("state", "action", "reward"):
            check_finite(name, getattr(self, name))
        check_finite("next_state", np.where(self.terminated[:, None], 0.0, self.next_state))
        over = self.terminated | truncated
        if episode is None:
            self.episode = np.concatenate([[0], np.cumsum(over)[:-1]])
        else:
            self.episode = read_concrete("episode", episode).astype(int)
        last = np.append(self.episode[1:] != self.episode[:-1], True)
        self.truncated = (truncated | last) & ~self.terminated

    def __len__(self) -> int:
        return len(self.reward)

    @staticmethod
    def join(*logs: "Log") -> "Log":
        """Several logs as one; their episodes stay apart."""
        fields = ("state", "action", "reward", "next_state", "terminated", "truncated")
        joined = {name: np.concatenate([getattr(log, name) for log in logs]) for name in fields}
        offsets = np.cumsum([0, *(int(log.episode.max()) + 1 for log in logs[:-1])])
        episode = np.concatenate([log.episode + offset for log, offset in zip(logs, offsets, strict=True)])
        seeds = [log.seed for log in logs if log.seed is not None]
        seed = np.concatenate(seeds) if len(seeds) == len(logs) else None
        return Log(**joined, episode=episode, actions=logs[0].actions, seed=seed)

    def to_frame(self) -> Any:
        """The log as a pandas DataFrame, a row a step, with the columns that `datasets.from_frame` reads.

        Example:
            >>> import gaussbell as gb
            >>> log = gb.Log([[0.0], [1.0]], [0, 1], [1.0, 2.0], [[1.0], [2.0]], terminated=[False, True])
            >>> log.to_frame().columns.tolist()[:4]
            ['state_0', 'action', 'reward', 'next_state_0']
        """
        try:
            import pandas  # noqa: PLC0415 - only here
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas.") from error
        return pandas.DataFrame(self.columns())

    def columns(self) -> dict[str, np.ndarray]:
        """The log as a table: one array a column, vectors as numbered columns."""
        fields = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
        return as_columns({name: getattr(self, name) for name in fields})

    @property
    def age(self) -> Int[np.ndarray, " N"]:
        """How many steps of its episode come before each step."""
        first, rows = np.append(True, self.episode[1:] != self.episode[:-1]), np.arange(len(self))
        return rows - np.maximum.accumulate(np.where(first, rows, 0))

    @property
    def starts(self) -> Float[np.ndarray, "E d"]:
        """The states that the episodes start in."""
        first = np.append(True, self.episode[1:] != self.episode[:-1])
        return self.state[first]

    @in_double
    def transitions(
        self,
        *,
        discount: float,
        n_step: int | LambdaReturn = 1,
        policy: Policy | None = None,
        key: PRNGKeyArray | int = 0,
        rows: Any = None,
    ) -> Transitions:
        """Transitions over one or several steps, cut at the end of an episode.

        Without a `policy` they are those of the policy that was logged, for state values. With one they are
        Q-factors of that policy: the first action is the logged one, whatever it was, and the next action is
        the policy's. Several steps go on only as long as the log does what the policy would do (the
        importance weight of a certain policy is zero after that), so no weights are needed; a stochastic
        policy has all actions as successors, with their probabilities, and one step.

        Args:
            rows: The numbers of the steps that transitions start with, by default all.
        """
        rows = np.arange(len(self)) if rows is None else np.asarray(rows)
        if policy is None:
            always = np.ones(len(self), bool)
            cut = [self._cut(int(horizon), discount, always, rows) for horizon in read_horizons(n_step)]
            return cut[0] if len(cut) == 1 else _side_by_side(cut)
        if isinstance(n_step, LambdaReturn):
            raise ValueError(
                "n_step: paths of another policy are cut at different places; give a whole number of steps."
            )
        horizon = int(read_horizons(n_step)[0])
        actions = self.actions
        if actions is None:
            raise ValueError(MISSING_ACTIONS)
        check_actions(actions, self.action, self.state)
        policy = read_policy(policy, self.state.shape[1], actions)
        if is_noisy(policy):
            return self._expected(horizon, discount, policy, actions).take(rows)
        chosen = choose_all(policy, self.state, key)
        data = self._cut(horizon, discount, _same(actions, chosen, self.action), rows)
        next_state = np.where(
            np.asarray(data.discount)[:, None] == 0, self.state[rows], np.asarray(data.next_state)
        )
        next_action = choose_all(policy, next_state, key)
        check_actions(actions, next_action, next_state)
        return Transitions(
            data.state,
            data.reward,
            next_state,
            data.discount,
            action=self.action[rows],
            next_action=next_action,
        )

    def _cut(
        self, horizon: int, discount: float, follows: Bool[np.ndarray, " N"], rows: np.ndarray
    ) -> Transitions:
        """n-step transitions that go on through step t only if the episode does and `follows[t]`."""
        count, over = len(self), self.terminated | self.truncated
        last, reward = rows.copy(), self.reward[rows]
        going, share = ~over[rows], 1.0
        for step in range(1, min(horizon, count)):
            at = np.minimum(rows + step, count - 1)
            going = going & follows[at]
            if not going.any():
                break
            share *= discount
            reward = reward + np.where(going, share * self.reward[at], 0.0)
            last = np.where(going, at, last)
            going = going & ~over[at]
        ahead = np.where(self.terminated[last], 0.0, discount ** (last - rows + 1.0))
        return Transitions(self.state[rows], reward, self.next_state[last], ahead)

    def _expected(self, horizon: int, discount: float, policy: Any, actions: Actions) -> Transitions:
        if isinstance(actions, BoxActions) or not hasattr(policy, "probabilities"):
            raise ValueError(
                "policy: a stochastic policy needs whole-number actions and a method probabilities(state)."
            )
        if horizon != 1:
            raise ValueError(
                f"n_step={horizon}: with a stochastic policy logged paths have one step; give n_step=1."
            )
        count = actions.count
        ended = self.terminated[:, None]
        next_state = np.where(ended, self.state, self.next_state)
        probability = np.asarray(_probabilities(policy, jnp.asarray(next_state)))
        return Transitions(
            self.state,
            self.reward,
            np.repeat(next_state[:, None], count, axis=1),
            np.where(self.terminated, 0.0, discount),
            action=self.action,
            next_action=np.broadcast_to(np.arange(count), (len(self), count)),
            probability=probability,
        )


def _side_by_side(parts: list[Transitions]) -> Transitions:
    """Transitions from the same states, as one with a successor of each."""
    columns = ("reward", "next_state", "discount")
    return Transitions(
        parts[0].state,
        *(np.stack([np.asarray(getattr(part, name)) for part in parts], axis=1) for name in columns),
    )


@eqx.filter_jit
def _probabilities(policy: Any, states: Any) -> Any:
    return jax.vmap(policy.probabilities)(states)


def _same(actions: Actions, chosen: np.ndarray, logged: np.ndarray) -> Bool[np.ndarray, " N"]:
    if isinstance(actions, BoxActions):
        near = np.abs(chosen - logged) <= SAME_ACTION * (actions.high - actions.low)
        return np.asarray(near.reshape(len(logged), -1).all(axis=1))
    return chosen.ravel() == logged.ravel()


def as_columns(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays by name as columns of a table: of a vector, one column for each of its numbers."""
    table: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            table[name] = array
        else:
            table |= {f"{name}_{k}": array[:, k] for k in range(array.shape[1])}
    return table
