"""Logged steps of some policy, in the order they happened, and the transitions they hold for another."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray, Shaped

from gaussbell.actions import Actions, BoxActions
from gaussbell.policies import Policy, check_actions, choose, is_noisy, read_policy
from gaussbell.precision import as_key, in_double, read_concrete
from gaussbell.sampling import LambdaReturn, read_horizons
from gaussbell.transitions import Transitions, check_finite

SAME_ACTION = 1e-3
"""Two actions of a box are the same if they differ by less than this share of its size."""


class Log(eqx.Module):
    """Steps of a policy in the order they happened: what a data set of episodes holds.

    `terminated` marks steps that ended the process: nothing follows, the discount is 0. `truncated` marks
    steps after which only the recording stopped, at a time limit for instance: the value goes on, and the
    successor's is asked of the network. The last step of the data counts as truncated.

    Arguments: `state` and `next_state` (N, d), `action` (N,) or (N, k), `reward` (N,), `terminated` and
    `truncated` (N,), `episode` (N,), the number of each step's episode; by default an episode ends where a
    step is terminated or truncated; `actions`, the set of legal actions, if it is known.

    >>> import gaussbell as gb
    >>> log = gb.Log([[0.0], [1.0]], [0, 1], [1.0, 2.0], [[1.0], [2.0]], terminated=[False, True])
    >>> log.transitions(discount=0.5, steps=2).reward.tolist()
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
    ):
        self.actions = actions
        self.state = read_concrete("state", state)
        count = len(self.state)
        if self.state.ndim != 2 or self.state.size == 0:
            raise ValueError(
                f"state: shape {self.state.shape}; give one row of numbers a step, at least one step."
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
        return Log(**joined, episode=episode, actions=logs[0].actions)

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
        steps: int | LambdaReturn = 1,
        policy: Policy | None = None,
        key: PRNGKeyArray | int = 0,
    ) -> Transitions:
        """Transitions over one or several steps, cut at the end of an episode.

        Without a `policy` they are those of the policy that was logged, for state values. With one they are
        Q-factors of that policy: the first action is the logged one, whatever it was, and the next action
        is the policy's. Several steps go on only as long as the log does what the policy would do (the
        importance weight of a certain policy is zero after that), so no weights are needed; a random policy
        has all actions as successors, with their probabilities, and one step.
        """
        if isinstance(steps, LambdaReturn):
            raise ValueError("steps: a logged path is cut at different places; give a whole number of steps.")
        horizon = int(read_horizons(steps)[0])
        if policy is None:
            return self._cut(horizon, discount, np.ones(len(self), bool))
        actions = self.actions
        if actions is None:
            raise ValueError(
                "actions: say which are legal, for example Log(..., "
                "actions=gaussbell.actions.DiscreteActions(2))."
            )
        check_actions(actions, self.action, self.state)
        policy = read_policy(policy, self.state.shape[1], actions)
        if is_noisy(policy):
            return self._expected(horizon, discount, policy, actions)
        chosen = choose_all(policy, self.state, key)
        data = self._cut(horizon, discount, _same(actions, chosen, self.action))
        next_state = np.where(
            np.asarray(data.discount)[:, None] == 0, self.state, np.asarray(data.next_state)
        )
        next_action = choose_all(policy, next_state, key)
        check_actions(actions, next_action, next_state)
        return Transitions(
            data.state, data.reward, next_state, data.discount, action=self.action, next_action=next_action
        )

    def _cut(self, horizon: int, discount: float, follows: Bool[np.ndarray, " N"]) -> Transitions:
        """n-step transitions that go on through step t only if the episode does and `follows[t]`."""
        count, rows = len(self), np.arange(len(self))
        over = self.terminated | self.truncated
        last, reward = rows.copy(), self.reward.copy()
        going, share = ~over, 1.0
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
        return Transitions(self.state, reward, self.next_state[last], ahead)

    def _expected(self, horizon: int, discount: float, policy: Any, actions: Actions) -> Transitions:
        if isinstance(actions, BoxActions) or not hasattr(policy, "probabilities"):
            raise ValueError(
                "policy: a random policy needs whole-number actions and a method probabilities(state)."
            )
        if horizon != 1:
            raise ValueError(
                f"steps={horizon}: with a random policy logged paths have one step; give steps=1."
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


@in_double
def choose_all(policy: Policy, states: Any, key: PRNGKeyArray | int = 0) -> np.ndarray:
    """The policy's actions in a batch of states."""
    keys = jax.random.split(as_key(key), len(states)) if is_noisy(policy) else None
    return np.asarray(_choose_all(policy, jnp.asarray(states), keys))


@eqx.filter_jit
def _choose_all(policy: Policy, states: Any, keys: Any) -> Any:
    return jax.vmap(lambda s, k: choose(policy, s, k))(states, keys)


@eqx.filter_jit
def _probabilities(policy: Any, states: Any) -> Any:
    return jax.vmap(policy.probabilities)(states)


def _same(actions: Actions, chosen: np.ndarray, logged: np.ndarray) -> Bool[np.ndarray, " N"]:
    if isinstance(actions, BoxActions):
        near = np.abs(chosen - logged) <= SAME_ACTION * (actions.high - actions.low)
        return np.asarray(near.reshape(len(logged), -1).all(axis=1))
    return chosen.ravel() == logged.ravel()
