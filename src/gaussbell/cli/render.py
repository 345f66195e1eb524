"""A policy at work, drawn by Gymnasium's own renderer without a screen, as a moving picture."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

import gaussbell as gb
from gaussbell import records

THEIRS = {"cart-pole": "CartPole-v1", "mountain-car": "MountainCar-v0", "acrobot": "Acrobot-v1"}
EVERY = 2
"""One step in so many is drawn."""
MILLISECONDS = 40
MOST_STEPS = 500


def check_picture(path: Path | None) -> None:
    """Raise before the work, not after it, if no moving picture can be made."""
    if path is None:
        return
    if path.suffix.lower() != ".gif":
        raise ValueError(f"--render {path}: moving pictures are .gif files; choose such a name.")
    for module in ("gymnasium", "PIL", "pygame"):
        if importlib.util.find_spec(module) is None:
            raise ImportError("--render needs: pip install 'gaussbell[render]'.")


def render(env: gb.environments.Simulator, problem: str, policy: Any, path: Path, seed: int = 0) -> int:
    """Play one episode and write it as a GIF; how many frames it has."""
    import gymnasium  # noqa: PLC0415 - an extra
    from PIL import Image  # noqa: PLC0415

    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # no screen is needed
    shown = gymnasium.make(THEIRS.get(problem, problem), render_mode="rgb_array")
    try:
        frames = _ours(env, policy, shown, seed) if problem in THEIRS else _theirs(policy, shown, seed)
    except gymnasium.error.DependencyNotInstalled as error:
        raise ImportError(f"--render: {error} pip install 'gaussbell[render]'.") from error
    finally:
        shown.close()
    first, *others = [Image.fromarray(frame) for frame in frames]
    records.write_atomically(
        path,
        lambda file: first.save(
            file, format="GIF", save_all=True, append_images=others, duration=MILLISECONDS, loop=0
        ),
    )
    return len(frames)


def _ours(env: gb.environments.Simulator, policy: Any, shown: Any, seed: int) -> list[np.ndarray]:
    """States of our own simulation, put into Gymnasium's environment to be drawn."""
    log = env.play(policy, episodes=1, length=MOST_STEPS, key=seed)
    shown.reset(seed=seed)
    frames = []
    for state, action in zip(log.state[::EVERY], log.action[::EVERY], strict=True):
        shown.unwrapped.state = state
        shown.unwrapped.last_u = action
        frames.append(np.asarray(shown.render()))
    return frames


def _theirs(policy: Any, shown: Any, seed: int) -> list[np.ndarray]:
    seen, _ = shown.reset(seed=seed)
    frames = [np.asarray(shown.render())]
    for step in range(MOST_STEPS):
        seen, _, terminated, truncated, _ = shown.step(policy(seen))
        if step % EVERY == 0:
            frames.append(np.asarray(shown.render()))
        if terminated or truncated:
            break
    return frames
