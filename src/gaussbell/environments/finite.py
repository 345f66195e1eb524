"""Finite processes: random ones, chains and grids, and any of them as an environment to simulate."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gaussbell.data.transitions import Transitions
from gaussbell.environments.environment import Environment
from gaussbell.networks import features
from gaussbell.numerics.arguments import read_count
from gaussbell.processes.actions import DiscreteActions
from gaussbell.processes.finite_mdp import FiniteMDP
from gaussbell.processes.policies import Policy


class RandomMDP(FiniteMDP):
    """Garnet's random process: from each state and action to `branches` random states, random rewards.

    Args:
        seed: Fixes it.

    Example:
        >>> import gaussbell as gb
        >>> gb.environments.RandomMDP(20, 3, seed=1)
        RandomMDP(20 states, 3 actions, discount 0.95)
    """

    def __init__(
        self, num_states: int = 30, num_actions: int = 2, *, branches: int = 4, discount=0.95, seed: int = 0
    ):
        num_states, num_actions = (
            read_count("num_states", num_states, 1),
            read_count("num_actions", num_actions, 1),
        )
        branches = read_count("branches", branches, 1, num_states)
        rng = np.random.default_rng(seed)
        transition = np.zeros((num_states, num_actions, num_states))
        for row in transition.reshape(-1, num_states):
            reached = rng.choice(num_states, branches, replace=False)
            row[reached] = rng.dirichlet(np.ones(branches))
        super().__init__(transition, rng.normal(size=(num_states, num_actions)), discount)


class ChainWalk(FiniteMDP):
    """States in a line; left (0) and right (1) succeed with probability `success`, else go the other way.

    A reward of one is given for every step that ends in the last state.

    Example:
        >>> import gaussbell as gb
        >>> gb.environments.ChainWalk(10).optimal().policy.tolist()
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    def __init__(self, num_states: int = 50, *, success: float = 0.9, discount: float = 0.95):
        num_states = read_count("num_states", num_states, 2)
        if not 0 <= success <= 1:
            raise ValueError(f"success={success!r}: give a probability.")
        states = np.arange(num_states)
        left, right = np.maximum(states - 1, 0), np.minimum(states + 1, num_states - 1)
        transition = np.zeros((num_states, 2, num_states))
        for action, (meant, other) in enumerate([(left, right), (right, left)]):
            transition[states, action, meant] += success
            transition[states, action, other] += 1 - success
        reward = np.zeros((num_states, 2, num_states))
        reward[..., -1] = 1.0
        super().__init__(transition, reward, discount)


class GridWorld(FiniteMDP):
    """A grid with walls; up (0), right (1), down (2), left (3), which slip sideways with probability `slip`.

    Entering the goal, in the last cell, has reward one and leads on to the first cell; all else has none.
    `layout` lists the rows as strings, with # for a wall.

    Example:
        >>> import gaussbell as gb
        >>> grid = gb.environments.GridWorld(["...", ".#.", "..."])
        >>> grid.num_states, grid.optimal().policy[1:3].tolist()
        (8, [1, 2])
    """

    def __init__(
        self,
        layout: list[str] | tuple[str, ...] = ("........",) * 3 + ("..####..",) * 2 + ("........",) * 3,
        *,
        slip: float = 0.1,
        discount: float = 0.95,
    ):
        cells = [(r, c) for r, row in enumerate(layout) for c, mark in enumerate(row) if mark != "#"]
        if len(cells) < 2 or len({len(row) for row in layout}) != 1:
            raise ValueError("layout: give rows of one length with at least two cells that are no wall (#).")
        number = {cell: k for k, cell in enumerate(cells)}
        goal, moves = len(cells) - 1, [(-1, 0), (0, 1), (1, 0), (0, -1)]
        transition = np.zeros((len(cells), 4, len(cells)))
        for (r, c), state in number.items():
            ends = [number.get((r + dr, c + dc), state) for dr, dc in moves]
            for action in range(4):
                for turn, share in ((0, 1 - slip), (1, slip / 2), (-1, slip / 2)):
                    end = ends[(action + turn) % 4]
                    transition[state, action, 0 if state == goal else end] += share
        reward = transition[..., goal] * (np.arange(len(cells)) != goal)[:, None]
        self.cells = cells
        super().__init__(transition, reward, discount)


class FiniteEnvironment(Environment):
    """A FiniteMDP to be simulated: a state is a vector with the state's number.

    Example:
        >>> import gaussbell as gb
        >>> env = gb.environments.FiniteEnvironment(gb.environments.ChainWalk(5))
        >>> data = gb.sample_transitions(env, lambda state: 1, 10, key=0, successors=4)
        >>> data.next_state.shape
        (10, 4, 1)
    """

    cumulative: Float[np.ndarray, "S A S"]
    rewards: Float[np.ndarray, "S A"]
    discount: float
    low: np.ndarray
    high: np.ndarray
    actions: DiscreteActions
    is_stochastic = True

    def __init__(self, mdp: FiniteMDP):
        self.cumulative = np.cumsum(mdp.transition_array(), axis=-1)
        self.rewards = mdp.reward
        self.discount = mdp.discount
        # Constants of a class elsewhere; here they depend on the process.
        self.low, self.high = np.zeros(1), np.array([mdp.num_states - 1.0])  # type: ignore[misc]
        self.actions = DiscreteActions(mdp.num_actions)  # type: ignore[misc]

    def initial(self, rng: PRNGKeyArray | None = None) -> Float[Array, " 1"]:
        """The first state."""
        return jnp.zeros(1)

    def transition(
        self, state: Float[Array, " 1"], action: Int[Array, ""], rng: PRNGKeyArray | None = None
    ) -> Float[Array, " 1"]:
        row = jnp.asarray(self.cumulative)[_number(state), action]
        assert rng is not None
        draw = jax.random.uniform(rng, (), jnp.float32).astype(row.dtype) * row[-1]
        # The number of states whose cumulated probability the draw has passed.
        return jnp.sum(row <= draw).astype(jnp.result_type(float))[None]

    def reward(
        self,
        state: Float[Array, " 1"],
        action: Int[Array, ""],
        next_state: Float[Array, " 1"] | None = None,
        rng: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        """The expected reward of the pair."""
        return jnp.asarray(self.rewards)[_number(state), action]

    def sample_states(self, count: int, *, key: PRNGKeyArray | int = 0) -> Float[Array, "count 1"]:
        """States drawn uniformly."""
        drawn: Any = DiscreteActions(len(self.rewards)).sample(count, key=key)
        return drawn[:, None].astype(float)

    def features(self, policy: Policy | None = None, *, q: bool = False) -> features.Features:
        """One input for each state, and for each action for Q-factors."""
        return features.one_hot(*self.rewards.shape) if q else features.one_hot(len(self.rewards))


def exact_transitions(mdp: FiniteMDP, policy: Any = None, *, weight: Any = None) -> Transitions:
    """All states of a finite process under a policy, with all their successors and the probabilities.

    The residual of these rows is the exact one: nothing is sampled. States are numbers; use
    `features.OneHot(num_states)` or others before the network. Every row counts the same, or as `weight`
    says.

    Example:
        >>> import gaussbell as gb
        >>> data = gb.environments.exact_transitions(gb.environments.ChainWalk(5))
        >>> data.next_state.shape
        (5, 2, 1)
    """
    chain = mdp.under(policy)
    rows = chain.transition.toarray()
    most = int((rows > 0).sum(axis=1).max())
    order = np.argsort(-rows, axis=1, kind="stable")[:, :most]
    probability = np.take_along_axis(rows, order, axis=1)
    state = np.arange(chain.num_states, dtype=float)[:, None]
    # A place that is not needed has probability 0; its successor is not read.
    return Transitions(
        state, chain.reward, order[..., None].astype(float), chain.discount, weight, probability=probability
    )


def _number(state: Float[Array, " 1"]) -> Int[Array, ""]:
    return jnp.asarray(state)[0].astype(jnp.int32)
