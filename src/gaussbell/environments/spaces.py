"""A Gymnasium environment: how it is made, its spaces, its state, its table of probabilities, its chance."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gaussbell.processes.finite_mdp import FiniteMDP

TESTED_STEPS = 20
"""How long an environment is tried to see whether its steps are random."""


def read_observations(space: Any, name: str) -> Callable[[Any], np.ndarray]:
    """The function that makes a vector of an observation."""
    kind = type(space).__name__
    if kind == "Discrete":
        return lambda observation: np.array([observation], float)
    if kind == "Box" and len(space.shape) == 1:
        return lambda observation: np.asarray(observation, float)
    if kind == "Box" and len(space.shape) > 1:
        raise ValueError(
            f"env: {name} shows arrays of shape {space.shape}, such as images; values are fitted to "
            "vectors. Wrap it in something that makes features of them "
            "(gymnasium.wrappers.TransformObservation), or flatten small ones "
            "(gymnasium.wrappers.FlattenObservation)."
        )
    raise ValueError(
        f"env: {name} shows {kind} observations; make vectors of them: "
        f"gymnasium.wrappers.FlattenObservation(env)."
    )


def state_of(env: Any) -> np.ndarray:
    """The state as a vector: what the setter takes."""
    base = env.unwrapped
    if hasattr(base, "set_state") and hasattr(base, "data"):
        return np.concatenate([base.data.qpos, base.data.qvel])
    return np.asarray(base.state, float)


def state_access(env: Any) -> Callable[[Any, np.ndarray], Any] | None:
    """A function that sets an environment's state and returns what is then observed, if there is a way."""
    base = env.unwrapped
    if hasattr(base, "set_state") and hasattr(base, "data") and hasattr(base.data, "qpos"):
        positions = len(base.data.qpos)

        def set_joints(env: Any, state: np.ndarray) -> Any:
            env.unwrapped.set_state(state[:positions], state[positions:])
            return env.unwrapped._get_obs()

        return set_joints
    if isinstance(getattr(base, "state", None), np.ndarray | tuple | list):
        reader = next((name for name in ("_get_obs", "_get_ob") if hasattr(base, name)), None)

        def set_attribute(env: Any, state: np.ndarray) -> Any:
            env.unwrapped.state = np.array(state, float)
            return getattr(env.unwrapped, reader)() if reader else state

        return set_attribute
    return None


def time_limit(env: Any) -> int | None:
    """The number of steps of the TimeLimit wrapper around an environment, if it has one."""
    while env is not env.unwrapped:
        if type(env).__name__ == "TimeLimit":
            return env.spec.max_episode_steps
        env = env.env
    return None


def from_table(env: Any, table: dict, discount: float, ending: str) -> FiniteMDP:
    """The process of a toy-text environment: P[s][a] lists (probability, next state, reward, terminated)."""
    rows = [
        (state, action, probability, reached, reward, terminated)
        for state, choices in table.items()
        for action, outcomes in choices.items()
        for probability, reached, reward, terminated in outcomes
    ]
    states, choices = len(table), len(table[0])
    over = {row[3] for row in rows if row[5]}
    passing = over & {row[3] for row in rows if not row[5]}
    extra = int(bool(passing) and ending == "end")  # a state that is passed through cannot also be an end
    transition = np.zeros((states + extra, choices, states + extra))
    reward = np.zeros((states + extra, choices))
    start = np.asarray(env.initial_state_distrib, float) if ending == "restart" else None
    for state, action, probability, reached, gain, terminated in rows:
        reward[state, action] += probability * gain
        if terminated and start is not None:
            transition[state, action, :states] += probability * start
        elif terminated and extra:
            transition[state, action, states] += probability
        else:
            transition[state, action, reached] += probability
    if start is None:
        for state in range(states, states + 1) if extra else over:
            transition[state], reward[state] = 0.0, 0.0
            transition[state, :, state] = 1.0
    return FiniteMDP(transition, reward, discount)


def maker_of(env: Any, options: dict[str, Any]) -> Callable[[], Any]:
    """A function that makes copies of a Gymnasium environment, given by its id or as an object."""
    try:
        import gymnasium  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError("Gymnasium environments need: pip install 'gaussbell[gymnasium]'.") from error
    if isinstance(env, gymnasium.Env):
        if options:
            raise ValueError(f"{', '.join(options)}: options are for an id; this env is made already.")
        return lambda: env
    if not isinstance(env, str):
        raise ValueError(f"env={env!r}: give the id of a Gymnasium environment or the environment itself.")
    try:
        gymnasium.spec(env)
    except gymnasium.error.Error as error:
        raise ValueError(
            f"env={env!r}: Gymnasium cannot make it ({str(error).splitlines()[0]}) Choose an id from "
            "gymnasium.registry, or import the package that registers yours."
        ) from error

    def make() -> Any:
        try:
            return gymnasium.make(env, **options)
        except gymnasium.error.DependencyNotInstalled as error:
            raise ImportError(f"env={env!r}: {error}") from error

    return make


def draws_at_random(env: Any, seed: int) -> bool:
    """Do two episodes with the same start and actions, but other random numbers on the way, differ?"""

    def episode(redraw: bool) -> list[tuple[np.ndarray, float]]:
        seen, _ = env.reset(seed=seed)
        env.action_space.seed(seed)
        if redraw:
            env.unwrapped.np_random = np.random.default_rng(seed + 1)
        path = [(np.asarray(seen, float), 0.0)]
        for _ in range(TESTED_STEPS):
            seen, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            path.append((np.asarray(seen, float), float(reward)))
            if terminated or truncated:
                break
        return path

    first, second = episode(False), episode(True)
    same = len(first) == len(second) and all(
        np.array_equal(a[0], b[0]) and a[1] == b[1] for a, b in zip(first, second, strict=True)
    )
    return not same
