"""A double of a Stable-Baselines3 model without torch: exactly its `predict`, with its types and checks.

As in `BaseAlgorithm.predict`: observations of one environment or of a batch, float32; the answer is a pair of
actions, in the type of the action space, and a state that is None for policies without memory.
"""

import numpy as np


class Model:
    """A linear policy behind the interface of Stable-Baselines3."""

    def __init__(self, observation_space, action_space, seed=0):
        self.observation_space, self.action_space = observation_space, action_space
        self.calls = 0
        width = observation_space.shape[0]
        outputs = action_space.n if hasattr(action_space, "n") else action_space.shape[0]
        self._weights = np.random.default_rng(seed).normal(size=(width, outputs)).astype(np.float32)

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.calls += 1
        if not deterministic and hasattr(self.action_space, "n"):
            return np.random.default_rng(self.calls).integers(
                self.action_space.n, size=len(observation)
            ), state
        observation = np.array(observation)
        assert observation.dtype == np.float32, observation.dtype
        vectorised = observation.shape != self.observation_space.shape
        assert (
            observation.reshape(-1, *self.observation_space.shape).shape[1:] == self.observation_space.shape
        )
        scores = observation.reshape(-1, len(self._weights)) @ self._weights
        if hasattr(self.action_space, "n"):
            actions = scores.argmax(axis=1).astype(np.int64)
        else:
            low, high = self.action_space.low, self.action_space.high
            actions = np.clip(np.tanh(scores), low, high).astype(np.float32)
        return (actions if vectorised else actions[0]), state
