"""Offline evaluation on logged Cart Pole and Pendulum data: ours beside d3rlpy's fitted Q evaluation.

d3rlpy needs a virtual environment of its own (it pins another Gymnasium): make one with `pip install
d3rlpy==2.8.1` and name its Python with --fqe-python. Data go over in files. Without it only ours is
measured.

    python benchmarks/offline.py --out runs/bench --fqe-python ../peer/bin/python
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import gaussbell as gb
from gaussbell import records

SEEDS = (800, 801, 802, 803, 804)
DISCOUNT = 0.99
FQE_STEPS = 5_000
"""Gradient steps. With d3rlpy's defaults (a target held for 100 steps, a learning rate of 1e-4) they would
be only 50 iterations, for a horizon of several hundred; so the target is held for 10, the rate is 1e-3."""

CART_GAINS = np.array([0.0, 0.0, 1.0, 0.0])
"""A mediocre policy: it pushes to the side the pole leans to, whatever the speeds."""
PENDULUM_GAINS = np.array([0.0, -0.6, -0.5])
"""Cosine, sine and speed: damps the swing, does not swing up."""


def push(observation):
    return (observation @ CART_GAINS > 0).astype(int)


def twist(observation):
    return jnp.clip(observation @ PENDULUM_GAINS, -1, 1)[None]


class Noisy(gb.policies.EpsilonGreedy):
    """A box policy with, now and then, a uniformly random action."""

    def __call__(self, state, key):
        explores, which = jax.random.split(key)
        random = jax.random.uniform(which, (1,), jnp.float32, -1, 1).astype(jnp.float64)
        return jnp.where(
            jax.random.uniform(explores, (), jnp.float32) < self.epsilon, random, self.policy(state)
        )


def cart_pole(seed):
    """Logged steps of three policies, the start states, and the true value of the target there."""
    env = gb.environments.CartPole(discount=DISCOUNT, spread=0.05)
    behaviours = [
        gb.policies.EpsilonGreedy(push, 2, epsilon=0.3),
        gb.policies.EpsilonGreedy(push, 2, epsilon=0.7),
        gb.policies.EpsilonGreedy(gb.policies.Constant(0), 2, epsilon=1.0),
    ]
    logs = [
        env.record(policy, episodes=20, length=200, key=jax.random.fold_in(seed, k))
        for k, policy in enumerate(behaviours)
    ]
    log = gb.Log.join(*logs)
    truth = gb.monte_carlo.returns(env, push, log.starts, samples=200, key=jax.random.fold_in(seed, 9)).mean()
    return log, push, truth


def pendulum(seed):
    """The same for Pendulum, with observations (cosine, sine, speed) in place of states."""
    env = gb.environments.Pendulum(discount=DISCOUNT)

    def target(state):
        return twist(env.observation(state))

    behaviours = [Noisy(target, 1, epsilon=0.3), Noisy(target, 1, epsilon=0.7), Noisy(target, 1, epsilon=1.0)]
    logs = [
        env.record(policy, episodes=20, length=200, key=jax.random.fold_in(seed, k))
        for k, policy in enumerate(behaviours)
    ]
    log = gb.Log.join(*logs)
    truth = gb.monte_carlo.returns(env, target, log.starts).mean()
    observe = jax.vmap(env.observation)
    seen = [np.asarray(observe(jnp.asarray(states)), float) for states in (log.state, log.next_state)]
    log = gb.Log(
        seen[0],
        log.action,
        log.reward,
        seen[1],
        log.terminated,
        log.truncated,
        log.episode,
        actions=log.actions,
    )
    return log, twist, truth


def ours(log, policy, seed):
    started = time.perf_counter()
    found = gb.evaluate_offline(log, policy, discount=DISCOUNT, key=seed)
    low, high = found.interval
    return {
        "estimate": found.value,
        "low": low,
        "high": high,
        "warnings": list(found.warnings),
        "neighbours": found.assessment.checks.neighbour_value,
        "seconds": round(time.perf_counter() - started, 1),
        "status": found.solution.status.name,
    }


def theirs(python, log, problem, seed):
    """d3rlpy's estimate, from a process in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "log.npz"
        np.savez(
            data,
            state=log.state,
            action=log.action.reshape(len(log), -1),
            reward=log.reward,
            terminated=log.terminated,
            truncated=log.truncated,
            starts=log.starts,
            gains=CART_GAINS if problem == "cart-pole" else PENDULUM_GAINS,
        )
        script = Path(__file__).with_name("fqe_peer.py")
        settings = [problem, str(DISCOUNT), str(FQE_STEPS), str(seed)]
        output = subprocess.run(
            [python, script, data, *settings], check=True, capture_output=True, text=True, cwd=folder
        )
    return json.loads(output.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--fqe-python", help="Python of an environment that has d3rlpy")
    chosen = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = []
    for problem, make in (("cart-pole", cart_pole), ("pendulum", pendulum)):
        for seed in SEEDS:
            log, policy, truth = make(jax.random.key(seed))
            answers = {"gaussbell": ours(log, policy, seed)}
            if chosen.fqe_python:
                answers["d3rlpy FQE"] = theirs(chosen.fqe_python, log, problem, seed)
            for method, answer in answers.items():
                row = {"problem": problem, "seed": seed, "method": method, "truth": truth, **answer}
                row["error"] = abs(answer["estimate"] - truth)
                rows.append(row)
                print(
                    f"{problem} {seed} {method}: {answer['estimate']:.3f}, truth {truth:.3f}, "
                    f"{answer['seconds']} s"
                )
    record = {"benchmark": "offline", "versions": records.versions(), "fqe_steps": FQE_STEPS, "rows": rows}
    records.write(chosen.out / "offline.json", record)
    records.write_text(chosen.out / "offline.md", summary(record))
    print(summary(record))


def summary(record):
    """Medians by problem and method."""
    lines = [
        "| problem | method | absolute error, median (range) | true value | seconds |",
        "|---|---|---|---|---|",
    ]
    for problem in ("cart-pole", "pendulum"):
        methods = dict.fromkeys(row["method"] for row in record["rows"] if row["problem"] == problem)
        for method in methods:
            rows = [row for row in record["rows"] if (row["problem"], row["method"]) == (problem, method)]
            errors = [row["error"] for row in rows]
            lines.append(
                f"| {problem} | {method} | {np.median(errors):.3g} ({min(errors):.2g} to "
                f"{max(errors):.2g}) | "
                f"{np.median([row['truth'] for row in rows]):.4g} | "
                f"{np.median([row['seconds'] for row in rows]):.3g} |"
            )
    ours = [row for row in record["rows"] if row["method"] == "gaussbell"]
    covered = sum(row["low"] <= row["truth"] <= row["high"] for row in ours)
    lines += ["", f"Our 90 % interval covers the truth in {covered} of {len(ours)} runs."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
