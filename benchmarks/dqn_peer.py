"""Stable-Baselines3's DQN until a Gymnasium task is solved. Run by control_peers.py, elsewhere.

The settings are those that RL Baselines3 Zoo lists as tuned for these environments. Every 2,000 steps twenty
episodes without exploration are played; where their mean reaches the threshold a hundred fresh ones decide.
None of these count, neither their steps nor their seconds.
"""

import json
import sys
import time

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

SETTINGS = {
    "CartPole-v1": {
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
    },
    "MountainCar-v0": {
        "learning_rate": 4e-3,
        "batch_size": 128,
        "buffer_size": 10_000,
        "learning_starts": 1000,
        "gamma": 0.98,
        "target_update_interval": 600,
        "train_freq": 16,
        "gradient_steps": 8,
        "exploration_fraction": 0.2,
        "exploration_final_eps": 0.07,
    },
}
STEPS = {"CartPole-v1": 50_000, "MountainCar-v0": 120_000}
BETWEEN = 2000


class UntilSolved(BaseCallback):
    """Stops the training once a hundred episodes reach the threshold on average."""

    def __init__(self, name, seed):
        super().__init__()
        self.env = gymnasium.make(name)
        self.threshold = self.env.spec.reward_threshold
        self.seed = 1000 * seed
        self.solved_at, self.looking, self.best = None, 0.0, -np.inf

    def _mean(self, episodes):
        total = 0.0
        for _ in range(episodes):
            self.seed += 1
            seen, _ = self.env.reset(seed=self.seed)
            over = False
            while not over:
                seen, reward, terminated, truncated, _ = self.env.step(
                    int(self.model.predict(seen, deterministic=True)[0])
                )
                total += float(reward)
                over = terminated or truncated
        return total / episodes

    def _on_step(self):
        if self.num_timesteps % BETWEEN:
            return True
        started = time.perf_counter()
        mean = self._mean(20)
        self.best = max(self.best, mean)
        solved = mean >= self.threshold and self._mean(100) >= self.threshold
        self.looking += time.perf_counter() - started
        if solved:
            self.solved_at = self.num_timesteps
        return not solved


def main():
    name, seed = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(2)
    watch = UntilSolved(name, seed)
    started = time.perf_counter()
    model = DQN(
        "MlpPolicy",
        gymnasium.make(name),
        seed=seed,
        device="cpu",
        policy_kwargs={"net_arch": [256, 256]},
        **SETTINGS[name],
    )
    model.learn(STEPS[name], callback=watch)
    seconds = time.perf_counter() - started - watch.looking
    answer = {
        "solved": watch.solved_at is not None,
        "transitions": watch.solved_at or STEPS[name],
        "best": watch.best,
        "seconds": round(seconds, 1),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
