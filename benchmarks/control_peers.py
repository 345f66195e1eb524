"""Policy iteration beside Stable-Baselines3's DQN: transitions and seconds to solve a Gymnasium task.

Solved means the same for all: a hundred episodes of Gymnasium's own environment reach its threshold on
average. Ours runs twice: on our twin of the task, whose states can be set, and on Gymnasium's own environment
by whole episodes from reset, as DQN does. It counts every simulated step, roll-outs and confirmation
included; DQN only the steps it trains on. DQN needs an environment of its own: `pip install torch==2.13.0`,
then `stable-baselines3==2.9.2`; name its Python with --dqn-python.

    python benchmarks/control_peers.py --out runs/bench --dqn-python ../peer/bin/python
"""

import argparse
import json
import subprocess
import time
from pathlib import Path

import gymnasium
import numpy as np

import gaussbell as gb
from gaussbell import records

SEEDS = (1500, 1501, 1502, 1503, 1504)
PROBLEMS = {
    "CartPole-v1": gb.environments.CartPole,
    "MountainCar-v0": lambda: gb.environments.MountainCar(ending="end"),
}
"""Our twins of the tasks."""
BY_EPISODES = ("CartPole-v1",)
"""Those also solved in Gymnasium's own environment."""


def in_gymnasium(name, policy, seed):
    """Does the policy reach the threshold in Gymnasium's own environment?"""
    env = gb.environments.from_gymnasium(name, num_envs=20)
    task = env.task
    log = env.play(policy, episodes=100, length=task.length, key=seed)
    env.close()
    return float(task.score(log).mean()), task.at_least


def ours(name, seed, env):
    started = time.perf_counter()
    found = gb.policy_iteration(env, key=seed)
    seconds = time.perf_counter() - started
    mean, threshold = in_gymnasium(name, found.policy, seed)
    return {
        "solved": found.succeeded and mean >= threshold,
        "transitions": sum(found.transitions.values()),
        "by_purpose": dict(found.transitions),
        "best": mean,
        "seconds": round(seconds, 1),
    }


def theirs(python, name, seed):
    script = Path(__file__).with_name("dqn_peer.py")
    output = subprocess.run([python, script, name, str(seed)], check=True, capture_output=True, text=True)
    return json.loads(output.stdout.splitlines()[-1])


def summary(record):
    """The table for people."""
    lines = [
        "| problem | method | solved | transitions, median (range) | seconds, median (range) |",
        "|---|---|---|---|---|",
    ]
    for name in PROBLEMS:
        for method in dict.fromkeys(row["method"] for row in record["rows"]):
            rows = [row for row in record["rows"] if (row["problem"], row["method"]) == (name, method)]
            if not rows:
                continue
            counts, seconds = ([row[field] for row in rows] for field in ("transitions", "seconds"))
            lines.append(
                f"| {name} | {method} | {sum(row['solved'] for row in rows)} of {len(rows)} | "
                f"{np.median(counts):,.0f} ({min(counts):,} to {max(counts):,}) | "
                f"{np.median(seconds):.3g} ({min(seconds):.3g} to {max(seconds):.3g}) |"
            )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--dqn-python", help="the Python of an environment with stable-baselines3")
    options = parser.parse_args()
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    rows = []
    for name, twin in PROBLEMS.items():
        for seed in SEEDS:
            found = {"gaussbell, our twin": ours(name, seed, twin())}
            if name in BY_EPISODES:
                env = gb.environments.from_gymnasium(name)
                found["gaussbell, episodes only"] = ours(name, seed, env)
                env.close()
            if options.dqn_python:
                found["DQN"] = theirs(options.dqn_python, name, seed)
            for method, row in found.items():
                rows.append({"problem": name, "method": method, "seed": seed, **row})
                print(f"{name} {seed} {method}: {row}", flush=True)
    record = {"benchmark": "control", "versions": records.versions(), "rows": rows}
    records.write(options.out / "control_peers.json", record)
    records.write_text(options.out / "control_peers.md", summary(record))
    print(summary(record))


if __name__ == "__main__":
    main()
