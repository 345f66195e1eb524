"""What an environment is: pure functions of a state, in the shape of Gymnasium's FuncEnv."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gaussbell.data.logs import Log
from gaussbell.environments.simulator import Paths, is_random
from gaussbell.environments.tasks import Task
from gaussbell.networks.features import Features, Scale
from gaussbell.numerics.arguments import as_key, read_count, read_numbers
from gaussbell.numerics.precision import in_double, is_traced, on_host
from gaussbell.processes.actions import Actions, BoxActions, DiscreteActions
from gaussbell.processes.policies import (
    EpsilonGreedy,
    Policy,
    check_actions,
    choose,
    raising_failures,
    read_policy,
)

ENDINGS = ("restart", "restart later", "end")
LOGGED_EPISODES = 16


class Environment(eqx.Module):
    """An environment whose state can be set to anything: the ground of sampling, simulation and truth.

    A subclass defines `initial`, `transition`, `reward` and, where the process can end, `terminal`, each for
    one state and in JAX; `low` and `high`, the box that states are sampled from; `actions`; `discount`. If a
    step is random it sets `is_stochastic = True`, and then `rng` is a key: the same for `transition`
    and `reward`, so that both see the same draw. Otherwise `rng` is None.
    """

    discount: eqx.AbstractVar[float]
    low: ClassVar[np.ndarray]
    high: ClassVar[np.ndarray]
    actions: ClassVar[Actions]
    task = cast(Task | None, None)
    is_stochastic = False
    can_set_state = True
    starts_anywhere = True
    time_limit = cast(int | None, None)
    ending = "end"

    @abc.abstractmethod
    def initial(self, rng: PRNGKeyArray | None = None) -> Float[Array, " d"]:
        """A state to start from."""

    @abc.abstractmethod
    def transition(
        self, state: Float[Array, " d"], action: Array, rng: PRNGKeyArray | None = None
    ) -> Float[Array, " d"]:
        """The next state."""

    @abc.abstractmethod
    def reward(
        self,
        state: Float[Array, " d"],
        action: Array,
        next_state: Float[Array, " d"] | None = None,
        rng: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        """The reward of a step. It follows from state, action and rng; `next_state` need not be given."""

    def terminal(self, state: Float[Array, " d"], rng: PRNGKeyArray | None = None) -> Bool[Array, ""]:
        """Does the process end in this state?"""
        return jnp.zeros((), bool)

    def observation(self, state: Float[Array, " d"], rng: PRNGKeyArray | None = None) -> Array:
        """What an agent sees: the state itself."""
        return state

    def step(
        self, state: Float[Array, " d"], action: Array, rng: PRNGKeyArray | None = None
    ) -> tuple[Float[Array, " d"], Float[Array, ""], Bool[Array, ""]]:
        """The next state, the reward, and whether the process ends there."""
        reached = self.transition(state, action, rng)
        return reached, self.reward(state, action, reached, rng), self.terminal(reached, rng)

    @property
    def width(self) -> int:
        """The length of a state."""
        return len(self.low)

    @property
    def nominal_start(self) -> np.ndarray:
        """The state that episodes start from, or around."""
        return np.asarray(self.initial(), float)

    @property
    def episodic(self) -> "Environment":
        """The same dynamics as episodes are played: with an end, from a start that varies."""
        return self

    @in_double
    def sample_states(self, count: int, *, key: PRNGKeyArray | int = 0) -> Float[Array, "count d"]:
        """States drawn uniformly from the box."""
        share = jax.random.uniform(as_key(key), (count, self.width), jnp.float32).astype(jnp.float64)
        return on_host(jnp.asarray(self.low) + share * (self.high - self.low))

    @in_double
    def scale(self, state: Any) -> Float[Array, "*batch d"]:
        """States as inputs of a network, in [-1, 1]."""
        return on_host(Scale(self.low, self.high)(read_numbers("state", state)))

    def features(self, policy: Policy | None = None, *, q: bool = False) -> Features:
        """The recommended inputs of a network: here the scaled state, with the action for Q-factors."""
        return self.scaling(q=q)

    def scaling(self, *, q: bool = False) -> Scale:
        """The box, with the actions for Q-factors, mapped to [-1, 1]."""
        low = np.concatenate([self.low, self.actions.low]) if q else self.low
        high = np.concatenate([self.high, self.actions.high]) if q else self.high
        return Scale(low, high)

    @in_double
    def simulate(
        self,
        policy: Policy,
        state: Any,
        horizons: Any,
        *,
        action: Any = None,
        key: PRNGKeyArray | int = 0,
    ) -> Paths:
        """Follow `policy` from each of N states; see the path after each number of steps in `horizons`.

        Args:
            horizons: Whole numbers in rising order.
            action: (N,) or (N, k), the first actions, by default the policy's.
            key: For what is random.

        Example:
            >>> import gaussbell as gb
            >>> car = gb.environments.MountainCar()
            >>> paths = car.simulate(car.along_velocity, [[-0.5, 0.0]], [1, 124])
            >>> paths.reward[0].tolist(), paths.next_state[1].tolist()
            ([-1.0], [[-0.5, 0.0]])
        """
        state = read_numbers("state", state)
        if state.ndim != 2 or state.shape[1] != self.width:
            raise ValueError(f"state: shape {state.shape}; give one row of {self.width} numbers a state.")
        policy = read_policy(policy, self.width, self.actions)
        counts = jnp.asarray(np.atleast_1d(np.asarray(horizons)), jnp.int32)
        with raising_failures():
            paths, legal = _follow(self, policy, state, action, counts, as_key(key))
            legal = legal if is_traced(legal) else np.asarray(legal)
        if not is_traced(legal) and not bool(legal.all()):
            check_actions(self.actions, paths.action, state)
            raise ValueError(
                f"policy: it chose an illegal action on the way from state "
                f"{np.asarray(state)[int(np.argmin(legal))]}; actions here are {self.actions}."
            )
        return on_host(paths)

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
        """Whole episodes, as they are played: of `episodic`, with an end, from its own starts.

        There is no time limit but `length`.
        """
        if on_progress is not None:
            on_progress(0)
        return self.episodic.record(policy, episodes=episodes, length=length, key=key, start=start)

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
        """Other continuations from steps of a log; None with `keep_action`, for which paths are simulated."""
        if keep_action:
            return None
        return self.play(policy, episodes=len(rows), length=length, key=key, start=log.state[rows])

    @in_double
    def reset_states(self, count: int, *, key: PRNGKeyArray | int = 0) -> np.ndarray:
        """The states that `count` episodes start in."""
        return np.asarray(jax.vmap(self.initial)(jax.random.split(as_key(key), count)))

    def log(self, policy: Policy, count: int, *, key: PRNGKeyArray | int = 0, explore: float = 0.0) -> Log:
        """About `count` steps in a few episodes of this process; an action is random with `explore`."""
        if explore > 0:
            assert isinstance(self.actions, DiscreteActions)
            policy = EpsilonGreedy(policy, self.actions.count, explore)
        length = -(-count // LOGGED_EPISODES)
        return self.record(policy, episodes=LOGGED_EPISODES, length=length, key=key)

    @in_double
    def record(
        self,
        policy: Policy,
        *,
        episodes: int,
        length: int,
        key: PRNGKeyArray | int = 0,
        start: Any = None,
    ) -> Log:
        """Run `policy` and keep every step: `episodes` of at most `length` steps, then truncated.

        Args:
            start: (episodes, d), by default states that the environment starts in.

        Example:
            >>> import gaussbell as gb
            >>> car = gb.environments.MountainCar()
            >>> log = car.record(car.along_velocity, episodes=3, length=50)
            >>> len(log), log.starts.shape
            (150, (3, 2))
        """
        episodes, length = read_count("episodes", episodes, 1), read_count("length", length, 1)
        policy = read_policy(policy, self.width, self.actions)
        start_key, steps_key = jax.random.split(as_key(key))
        if start is None:
            start = jax.vmap(self.initial)(jax.random.split(start_key, episodes))
        with raising_failures():
            rows = on_host(_record(self, policy, jnp.asarray(start, jnp.float64), length, steps_key))
        state, action, reward, reached, ended = (np.moveaxis(rows[k], 0, 1) for k in range(5))  # (E, L, ...)
        check_actions(self.actions, action.reshape(-1, *action.shape[2:]), state.reshape(-1, self.width))
        over = np.cumsum(ended, axis=1)
        kept = (over - ended) == 0  # up to and with the step that ends the process
        number = np.broadcast_to(np.arange(episodes)[:, None], kept.shape)
        return Log(
            state[kept],
            action[kept],
            reward[kept],
            reached[kept],
            terminated=ended[kept],
            episode=number[kept],
            actions=self.actions,
        )


@eqx.filter_jit
def _record(env: Environment, policy: Policy, start: Float[Array, "E d"], length: int, key: Any):
    noisy = is_random(env, policy)

    def advance(state, step):
        now = jax.random.fold_in(key, step)
        keys = jax.random.split(now, 2 * len(state)).reshape(2, -1) if noisy else (None, None)
        action = jax.vmap(lambda s, k: choose(policy, s, k))(state, keys[0])
        reached, reward, ended = jax.vmap(env.step)(state, action, keys[1])
        return reached, (state, action, reward, reached, ended)

    return jax.lax.scan(advance, start, jnp.arange(length))[1]


@eqx.filter_jit
def _follow(env: Environment, policy: Policy, state, action, counts: Int[Array, " H"], key):
    """Simulate all states side by side, from one count of steps to the next; and were all actions legal?"""
    size = len(state)
    noisy = is_random(env, policy)

    def pick(state, key):
        return choose(policy, state, key)

    def keys(step, purpose):
        if not noisy:
            return None
        return jax.random.split(jax.random.fold_in(jax.random.fold_in(key, purpose), step), size)

    def advance(step, path):
        state, total, discount, legal = path
        action = jnp.where(step == 0, start, pick_all(state, step))
        reached, reward, ended = jax.vmap(env.step)(state, action, keys(step, 0))
        total = total + discount * reward
        discount = discount * jnp.where(ended, 0.0, env.discount)
        legal = legal & env.actions.contains(action)
        # An ended path stays where it is: it counts for nothing.
        state = jnp.where(ended[:, None], state, reached)
        return state, total, discount, legal

    def pick_all(state, step):
        chosen = jax.vmap(pick)(state, keys(step, 1))
        return chosen if isinstance(env.actions, BoxActions) else chosen.astype(jnp.int32)

    def next_count(carry, count):
        step, path = carry
        path = jax.lax.fori_loop(step, count, advance, path)
        return (count, path), (path[1], path[2], path[0])

    dtype = jnp.float64 if isinstance(env.actions, BoxActions) else jnp.int32
    start = pick_all(state, 0) if action is None else jnp.asarray(action, dtype)
    zero, one = jnp.zeros(size, jnp.float64), jnp.ones(size, jnp.float64)
    path = (state, zero, one, jnp.ones(size, bool))
    (_, path), (reward, discount, reached) = jax.lax.scan(
        next_count, (jnp.zeros((), jnp.int32), path), counts
    )
    return Paths(state, start, reward, discount, reached), path[3]


def check_ending(ending: str) -> None:
    """ValueError for a word that is no way to go on after the goal or a failure."""
    if ending not in ENDINGS:
        raise ValueError(f"ending={ending!r}: give one of {', '.join(map(repr, ENDINGS))}.")


def near(centre: Any, spread: float, rng: PRNGKeyArray | None) -> Float[Array, " d"]:
    """A state within `spread` of the centre in every number; the centre itself if the spread is zero."""
    centre = jnp.asarray(centre, jnp.result_type(float))
    if rng is None:
        return centre
    draw = jax.random.uniform(rng, centre.shape, jnp.float32, -1, 1).astype(centre.dtype)
    return centre + spread * draw
