"""Does the interval of the start value cover the truth as often as it says?

    python benchmarks/start_coverage.py --out runs/bench [--repetitions 100]

`evaluate_policy` with other random numbers each time, in environments that are cheap to simulate, for
policies of benchmarks/policies. The truth is exact where a table of probabilities is shown, else the mean
return of many episodes in Gymnasium itself, whose standard error is in the record.
"""

import argparse
import json
from pathlib import Path

import gymnasium
import numpy as np

import gaussbell as gb
from real_environments import DISCOUNT, HERE, HORIZON, StoredPolicy, truth, write

POLICIES = ("CartPole-v1-4096", "Pendulum-v1-2000", "Acrobot-v1-20480", "FrozenLake-v1-8192")
BUDGET = 10_000
EPISODES = 4000


def true_start(policy: StoredPolicy) -> tuple[float, float]:
    """The mean value at the starts, and its standard error."""
    if policy.finite:
        return float(truth(policy, 0)[3].mean()), 0.0
    envs = gymnasium.make_vec(policy.name, num_envs=EPISODES, vectorization_mode="sync", max_episode_steps=-1)
    observation, _ = envs.reset(seed=40_000)
    total, going, share = np.zeros(EPISODES), np.ones(EPISODES, bool), 1.0
    for _ in range(HORIZON):
        observation, reward, ended, *_ = envs.step(policy(observation))
        total += going * share * reward
        going &= ~ended
        share *= DISCOUNT
        if not going.any():
            break
    return float(total.mean()), float(total.std(ddof=1) / np.sqrt(EPISODES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--repetitions", type=int, default=100)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for stem in POLICIES:
        policy = StoredPolicy(HERE / "policies" / f"{stem}.npz")
        value, error = true_start(policy)
        env = gb.environments.from_gymnasium(policy.name, discount=DISCOUNT, exact=False)
        acting = gb.policies.on_host(policy, noisy=policy.noisy)
        starts = [
            gb.evaluate_policy(env, acting, budget=BUDGET, max_steps=20, key=seed, progress=False).start
            for seed in range(1000, 1000 + given.repetitions)
        ]

        def covered(intervals, value: float = value) -> int:
            return sum(low <= value <= high for low, high in intervals)

        rows.append(
            {
                "policy": stem,
                "true start value": value,
                "its standard error": error,
                "repetitions": given.repetitions,
                "covered": covered(start.interval for start in starts),
                "covered by Monte-Carlo": covered(start.monte_carlo_interval for start in starts),
                "mean width": float(np.mean([np.diff(start.interval) for start in starts])),
                "mean width of Monte-Carlo": float(
                    np.mean([np.diff(start.monte_carlo_interval) for start in starts])
                ),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
        write(given.out, "start_coverage", rows)


if __name__ == "__main__":
    main()
