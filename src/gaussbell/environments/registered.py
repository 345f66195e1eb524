"""Our environments as Gymnasium's: gymnasium.make("gaussbell/MountainCar-v0") and so on. Needs gymnasium."""

from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from gaussbell.environments.acrobot import Acrobot
from gaussbell.environments.cart_pole import CartPole
from gaussbell.environments.environment import Environment
from gaussbell.environments.finite import ChainWalk, FiniteEnvironment, GridWorld, RandomMDP
from gaussbell.environments.mountain_car import MountainCar
from gaussbell.environments.pendulum import Pendulum
from gaussbell.environments.seven_star import SevenStar
from gaussbell.numerics.precision import in_double
from gaussbell.processes.actions import BoxActions


class RegisteredEnv(gymnasium.Env):
    """One of our environments, stepped one state at a time. `state` can be read and set.

    Args:
        make: What makes the environment, with `options` for its constructor.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own form

    def __init__(self, make: Callable[..., Any], render_mode: str | None = None, **options: Any):
        made = make(**options)
        self.functions: Environment = made if isinstance(made, Environment) else FiniteEnvironment(made)
        self.render_mode = render_mode
        self.state: np.ndarray | None = None
        self.observation_space, self.action_space = _spaces(self.functions)
        self._start, self._advance = _compiled(self.functions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """A start of the environment, or the state that options={"state": ...} asks for."""
        super().reset(seed=seed)
        wanted = (options or {}).get("state")
        self.state, shown = self._start(self._seed(), None if wanted is None else np.array(wanted, float))
        return self._observation(shown), {}

    def step(self, action: Any):
        if self.state is None:
            raise ValueError("step: call reset() first.")
        if not self.action_space.contains(action):
            raise ValueError(f"action={action!r}: actions here are {self.functions.actions}.")
        self.state, shown, reward, ended = self._advance(self._seed(), self.state, np.asarray(action))
        return self._observation(shown), float(reward), bool(ended), False, {}

    def _get_obs(self) -> Any:
        """What is seen in the present state: by this name Gymnasium's own environments have it too."""
        return self._observation(self._start(np.uint32(0), self.state)[1])

    def _seed(self) -> np.uint32:
        return self.np_random.integers(2**31, dtype=np.uint32)

    def _observation(self, shown: np.ndarray) -> Any:
        if isinstance(self.observation_space, gymnasium.spaces.Discrete):
            return np.int64(shown[0])
        return shown.astype(np.float32)


def _compiled(env: Environment) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions behind reset and step, each one compiled call."""

    def start(seed, state):
        state = env.initial(jax.random.key(seed)) if state is None else state
        return state, env.observation(state)

    def advance(seed, state, action):
        reached, reward, ended = env.step(state, action, jax.random.key(seed))
        return reached, env.observation(reached), reward, ended

    return tuple(in_double(_to_numpy(jax.jit(function))) for function in (start, advance))  # type: ignore


def _to_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: jax.device_get(function(*arguments))


def _spaces(env: Environment) -> tuple[Any, Any]:
    actions = (
        gymnasium.spaces.Box(env.actions.low.astype(np.float32), env.actions.high.astype(np.float32))
        if isinstance(env.actions, BoxActions)
        else gymnasium.spaces.Discrete(env.actions.count)
    )
    if isinstance(env, FiniteEnvironment):
        return gymnasium.spaces.Discrete(len(env.rewards)), actions
    return gymnasium.spaces.Box(*_observed_bounds(env), dtype=np.float32), actions


def _observed_bounds(env: Environment) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of what is seen; where there are none, as for Cart Pole's speeds, very large numbers."""
    if isinstance(env, CartPole):
        bound = np.array([4.8, 1e6, 0.42, 1e6], np.float32)
    elif isinstance(env, MountainCar):
        return env.low.astype(np.float32), env.high.astype(np.float32)
    else:  # sines and cosines, then speeds
        angles = len(env.observation(jnp.zeros(env.width))) - env.width
        bound = np.append(np.ones(2 * angles), env.high[angles:]).astype(np.float32)
    return -bound, bound


MAKERS: dict[str, Callable[..., Any]] = {
    "gaussbell/MountainCar-v0": MountainCar,
    "gaussbell/CartPole-v0": CartPole,
    "gaussbell/Pendulum-v0": Pendulum,
    "gaussbell/Acrobot-v0": Acrobot,
    "gaussbell/SevenStar-v0": SevenStar,
    "gaussbell/RandomMDP-v0": RandomMDP,
    "gaussbell/ChainWalk-v0": ChainWalk,
    "gaussbell/GridWorld-v0": GridWorld,
}
"""Every id, and what makes its environment."""

for name, maker in MAKERS.items():
    gymnasium.register(
        name, entry_point="gaussbell.environments.registered:RegisteredEnv", kwargs={"make": maker}
    )
