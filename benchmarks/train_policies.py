"""Policies by Stable-Baselines3, at several stages of their training, as plain arrays without pickle.

Run it with the Python of an environment of its own, which has stable-baselines3 and gymnasium[box2d,mujoco]:

    python benchmarks/train_policies.py --out benchmarks/policies [--seed 1] [Hopper-v5 ...]

Each file holds the layers of the actor and of the critic, the statistics of VecNormalize, and the settings.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

PPO_MUJOCO = {"n_steps": 1024, "batch_size": 128, "gae_lambda": 0.95, "ent_coef": 0.0, "learning_rate": 3e-4}
PPO_LANDER = {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "n_epochs": 4, "ent_coef": 0.01}
DQN_CAR = {
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
    "policy_kwargs": {"net_arch": [256, 256]},
}
PPO_TOY = {"n_steps": 256, "ent_coef": 0.01}
SAC_PENDULUM = {"learning_rate": 1e-3, "policy_kwargs": {"net_arch": [64, 64]}}
PLANS = {
    "CartPole-v1": ("PPO", False, (4_096, 40_960), {"n_steps": 256}),
    "MountainCar-v0": ("DQN", False, (20_000, 120_000), DQN_CAR),
    "Acrobot-v1": ("PPO", True, (20_480, 122_880), {"n_steps": 256, "gae_lambda": 0.94, "n_epochs": 4}),
    "Pendulum-v1": ("SAC", False, (2_000, 8_000), SAC_PENDULUM),
    "LunarLander-v3": ("PPO", False, (98_304, 294_912), PPO_LANDER),
    "Hopper-v5": ("PPO", True, (81_920, 286_720), PPO_MUJOCO),
    "HalfCheetah-v5": ("PPO", True, (81_920, 286_720), PPO_MUJOCO),
    "Walker2d-v5": ("PPO", True, (81_920, 286_720), PPO_MUJOCO),
    "FrozenLake-v1": ("PPO", False, (8_192, 40_960), PPO_TOY),
    "FrozenLake8x8-v1": ("PPO", False, (8_192, 40_960), PPO_TOY),
    "CliffWalking-v1": ("PPO", False, (8_192, 40_960), PPO_TOY),
    "Taxi-v4": ("PPO", False, (8_192, 40_960), PPO_TOY),
}
"""Algorithm, VecNormalize or not, the numbers of steps at which a policy is kept, and settings."""


def layers(sequential) -> list[torch.nn.Linear]:
    return [module for module in sequential if isinstance(module, torch.nn.Linear)]


def networks(model) -> dict[str, list[torch.nn.Linear]]:
    """The actor's and, where it has one of the state's value, the critic's layers, first to last."""
    policy = model.policy
    if isinstance(model, sb3.PPO):
        extractor = policy.mlp_extractor
        return {
            "actor": [*layers(extractor.policy_net), policy.action_net],
            "critic": [*layers(extractor.value_net), policy.value_net],
        }
    if isinstance(model, sb3.DQN):
        return {"actor": layers(policy.q_net.q_net), "critic": layers(policy.q_net.q_net)}
    return {
        "actor": [*layers(policy.actor.latent_pi), policy.actor.mu],
        "critic": layers(policy.critic.qf0),
    }


class Keep(BaseCallback):
    """Writes the policy when training has come to each of the stages."""

    def __init__(self, name: str, stages: tuple[int, ...], out: Path, settings: dict):
        super().__init__()
        self.name, self.stages, self.out, self.settings = name, list(stages), out, settings

    def _on_step(self) -> bool:
        while self.stages and self.num_timesteps >= self.stages[0]:
            self._write(self.stages.pop(0))
        return True

    def _write(self, stage: int) -> None:
        arrays = {
            f"{part}_{kind}_{k}": getattr(layer, kind).detach().numpy()
            for part, found in networks(self.model).items()
            for k, layer in enumerate(found)
            for kind in ("weight", "bias")
        }
        if hasattr(self.model.policy, "log_std"):
            arrays["log_std"] = self.model.policy.log_std.detach().numpy()
        if isinstance(self.model.get_env(), VecNormalize):
            statistics = self.model.get_env().obs_rms
            arrays |= {"mean": statistics.mean, "variance": statistics.var}
            arrays["reward_variance"] = np.array(self.model.get_env().ret_rms.var)
        arrays = {key: np.asarray(value, np.float32) for key, value in arrays.items()}
        arrays["settings"] = np.array(json.dumps(self.settings | {"stage": stage, "env": self.name}))
        self.out.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(self.out / f"{self.name}-{stage}.npz", **arrays)
        print(f"{self.name} after {stage:,} steps", flush=True)


def train(name: str, out: Path, seed: int) -> None:
    algorithm, normalised, stages, options = PLANS[name]
    envs = make_vec_env(name, n_envs=8 if algorithm == "PPO" else 1, seed=seed)
    if normalised:
        envs = VecNormalize(envs, gamma=options.get("gamma", 0.99))
    model = getattr(sb3, algorithm)("MlpPolicy", envs, seed=seed, device="cpu", **options)
    settings = {
        "algorithm": algorithm,
        "seed": seed,
        "options": options,
        "stable_baselines3": sb3.__version__,
    }
    model.learn(stages[-1], callback=Keep(name, stages, out, settings))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PLANS))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/policies"))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for chosen in given.names:
        train(chosen, given.out, given.seed)
