"""Where transitions start: samplers of states, which compose."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from gaussbell.control.experience import Experience
from gaussbell.numerics.arguments import host_rng


class Uniform(eqx.Module):
    """`count` states drawn uniformly from the environment's box."""

    count: int

    def __call__(self, seen: Experience, key: Any) -> Float[np.ndarray, "N d"]:
        return np.asarray(seen.env.sample_states(self.count, key=key))


class Visited(eqx.Module):
    """`count` states that the last roll-outs passed through; uniform ones before the first."""

    count: int

    def __call__(self, seen: Experience, key: Any) -> Float[np.ndarray, "N d"]:
        if seen.rolled is None:
            return Uniform(self.count)(seen, key)
        states = seen.rolled.state
        return states[host_rng(key).choice(len(states), self.count, replace=len(states) < self.count)]


class Starts(eqx.Module):
    """`count` states that the process starts and restarts from, or within ± `reach` of them."""

    count: int
    reach: Any = 0.0

    def __call__(self, seen: Experience, key: Any) -> Float[np.ndarray, "N d"]:
        starts = seen.starts(self.count, key)
        if starts is None:
            raise ValueError("env: where it starts is known from episodes only; use Visited states instead.")
        return starts + host_rng(key).uniform(-1, 1, starts.shape) * np.asarray(self.reach)


class Mixed(eqx.Module):
    """The states of several samplers together."""

    parts: tuple[Any, ...]

    def __init__(self, *parts: Any):
        self.parts = parts

    def __call__(self, seen: Experience, key: Any) -> Float[np.ndarray, "N d"]:
        return np.concatenate([part(seen, jax.random.fold_in(key, k)) for k, part in enumerate(self.parts)])
