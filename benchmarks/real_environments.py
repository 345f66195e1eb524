"""How right are values in environments that nobody here wrote, of policies that Stable-Baselines3 trained?

    python benchmarks/real_environments.py --out runs/bench [--seeds 3] [Hopper-v5 ...]

For every policy in benchmarks/policies (made by train_policies.py): the error of `evaluate_policy` over the
states of fresh episodes, beside a fit of the same network to the returns of the same episodes, and the
critic of the policy's own training. The truth at a visited state is its return where nothing is random, else
the mean of continuations: the episode is played again up to the state, then with other random numbers.

Development was done on the first stages of LunarLander-v3, Hopper-v5 and CartPole-v1; the rest was set aside.
"""

import argparse
import json
import time
from pathlib import Path

import gymnasium
import numpy as np

import gaussbell as gb

DISCOUNT = 0.99
HORIZON = 700  # less than a thousandth of the discount is left
CONTINUATIONS = 16
HERE = Path(__file__).parent
DEVELOPED_ON = ("LunarLander-v3-98304", "Hopper-v5-81920", "CartPole-v1-4096")


class StoredPolicy:
    """The deterministic actions, and the critic, of a file that `train_policies.py` wrote."""

    def __init__(self, path: Path):
        with np.load(path) as stored:
            self.arrays = dict(stored)
        self.settings = json.loads(str(self.arrays.pop("settings")))
        self.name, self.algorithm = self.settings["env"], self.settings["algorithm"]
        self.space = gymnasium.make(self.name).action_space

    def __call__(self, states: np.ndarray) -> np.ndarray:
        scores = self._network("actor", states)
        if isinstance(self.space, gymnasium.spaces.Discrete):
            return scores.argmax(axis=1)
        low, high = self.space.low, self.space.high
        if self.algorithm == "SAC":
            return low + (np.tanh(scores) + 1) / 2 * (high - low)
        return np.clip(scores, low, high)

    def critic(self, states: np.ndarray) -> np.ndarray | None:
        """What the training thought of states, in its own discount; None where it normalised rewards."""
        if self.algorithm == "SAC" or "reward_variance" in self.arrays:
            return None
        values = self._network("critic", states)
        return values.max(axis=1)

    def _network(self, part: str, states: np.ndarray) -> np.ndarray:
        phi = np.asarray(states, np.float32)
        if "mean" in self.arrays:
            deviation = np.sqrt(self.arrays["variance"] + 1e-8)
            phi = np.clip((phi - self.arrays["mean"]) / deviation, -10, 10)
        depth = sum(name.startswith(f"{part}_weight") for name in self.arrays)
        for k in range(depth):
            phi = phi @ self.arrays[f"{part}_weight_{k}"].T + self.arrays[f"{part}_bias_{k}"]
            if k < depth - 1:
                phi = np.tanh(phi) if self.algorithm == "PPO" else np.maximum(phi, 0)
        return phi


def truth(policy: StoredPolicy, seed: int, states: int = 200, episodes: int = 60):
    """Visited states of fresh episodes, their values, and the standard errors of these."""
    env = gymnasium.make(policy.name, max_episode_steps=-1)
    limit = gymnasium.spec(policy.name).max_episode_steps
    noisy = gb.environments.from_gymnasium(policy.name, num_envs=1).is_stochastic
    rng = np.random.default_rng(seed)
    played = [_play(env, policy, int(rng.integers(2**31)), limit) for _ in range(episodes)]
    steps = [(k, t) for k, (_, seen, *_) in enumerate(played) for t in range(min(limit, len(seen)))]
    seen, values, errors = [], [], []
    for pick in rng.choice(len(steps), min(states, len(steps)), replace=False):
        number, t = steps[pick]
        episode_seed, observations, actions, rewards = played[number]
        if noisy:
            continued = [
                _branch(env, policy, episode_seed, actions[:t], rng.integers(2**31))
                for _ in range(CONTINUATIONS)
            ]
            values.append(np.mean(continued))
            errors.append(np.std(continued, ddof=1) / np.sqrt(CONTINUATIONS))
        else:
            values.append(rewards[t:] @ DISCOUNT ** np.arange(len(rewards) - t))
            errors.append(0.0)
        seen.append(observations[t])
    starts = [rewards @ DISCOUNT ** np.arange(len(rewards)) for *_, rewards in played]
    return np.array(seen, float), np.array(values), np.array(errors), np.array(starts)


def _play(env, policy, seed: int, limit: int):
    observation, _ = env.reset(seed=seed)
    seen, actions, rewards, ended = [], [], [], False
    while not ended and len(rewards) < limit + HORIZON:
        action = policy(observation[None])[0]
        seen.append(observation)
        actions.append(action)
        observation, reward, ended, *_ = env.step(action)
        rewards.append(float(reward))
    return seed, seen, actions, np.array(rewards)


def _branch(env, policy, seed: int, actions, other: int) -> float:
    observation, _ = env.reset(seed=seed)
    for action in actions:
        observation, *_ = env.step(action)
    env.unwrapped.np_random = np.random.default_rng(other)
    total, share = 0.0, 1.0
    for _ in range(HORIZON):
        observation, reward, ended, *_ = env.step(policy(observation[None])[0])
        total, share = total + share * float(reward), share * DISCOUNT
        if ended:
            break
    return total


def measure(path: Path, seed: int, budget: int) -> dict:
    policy = StoredPolicy(path)
    env = gb.environments.from_gymnasium(policy.name, discount=DISCOUNT)
    acting = gb.policies.on_host(policy)
    states, values, errors, starts = truth(policy, 10_000 + seed)

    def error(network) -> float:
        square = np.mean((np.asarray(network(states), float) - values) ** 2) - np.mean(errors**2)
        return float(np.sqrt(max(square, 0.0)) / values.std())

    found, seconds = {}, {}
    for name, n_step in (("auto", "auto"), ("whole returns", 10**6)):
        started = time.perf_counter()
        found[name] = gb.evaluate_policy(env, acting, n_step=n_step, budget=budget, key=seed, progress=False)
        seconds[name] = round(time.perf_counter() - started, 1)
    ours, critic = found["auto"], policy.critic(states)
    start, deviation = starts.mean(), starts.std() / np.sqrt(len(starts))
    return {
        "policy": path.stem,
        "developed on": path.stem in DEVELOPED_ON,
        "seed": seed,
        "error": error(ours.network),
        "claimed over true": ours.value_error / values.std() / error(ours.network),
        "error of a fit to returns": error(found["whole returns"].network),
        "error of the critic": None if critic is None else error(lambda _: critic),
        "n_step": ours.n_step,
        "start value": ours.start_value,
        "interval": ours.start.interval,
        "Monte-Carlo interval": ours.start.monte_carlo_interval,
        "true start value": start,
        "its standard error": deviation,
        "simulated": ours.simulated,
        "seconds": seconds["auto"],
        "seconds of the fit to returns": seconds["whole returns"],
        "trusted": ours.assessment.trusted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--policies", type=Path, default=HERE / "policies")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", type=int, default=100_000)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for path in sorted(given.policies.glob("*.npz")):
        if given.names and not any(path.stem.startswith(name) for name in given.names):
            continue
        for seed in range(given.seeds):
            rows.append(measure(path, seed, given.budget))
            print(json.dumps(rows[-1]), flush=True)
            (given.out / "real_environments.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
