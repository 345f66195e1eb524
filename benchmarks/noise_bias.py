"""Noise and one successor a state: what each way against double-sampling bias makes of the same episodes.

    python benchmarks/noise_bias.py --out runs/bench [--seeds 3]

Mountain Car by Gymnasium where three actions in ten are drawn at random, and LunarLander-v3 with a policy of
benchmarks/policies (its engines are noisy). Whole episodes, some to fit and some to validate; the truth at
visited states is the mean of continuations. For every number of transitions and every way: the bias of the
value (its mean error, in standard deviations of the value over these states) and the root mean square.

Ways: the plain squared residual of one step; n_step by validation; that with the fixed point of the last
layer by validation, as `evaluate_policy` does for one fit; the fixed point alone, on the fit of one step;
iterated targets, each a regression by Levenberg-Marquardt; and the modified residual of Antos, Szepesvari
and Munos (2008), in which an auxiliary network's guess of the mean target takes the noise out: its last
layer is eliminated, f(s) - Pi (r + discount f(s')), so that one second-order problem is left.
"""

import argparse
import json
import time
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import gaussbell as gb
from gaussbell.data.transitions import Transitions
from gaussbell.evaluation.experience import EpisodeExperience
from real_environments import DISCOUNT, HERE, StoredPolicy, truth, write

SIZES = (1000, 4000, 16_000)
LADDER = (1, 3, 10, 30, 100, 300, 1000)
ITERATIONS = 30
AUXILIARY = 100
BUDGET = 100_000
MODIFIED_ROWS = 4000
"""The most rows of the modified residual, whose Jacobian is dense."""


class NoisyActions(gymnasium.ActionWrapper):
    """Three actions in ten are drawn at random."""

    def action(self, action):
        rng = self.unwrapped.np_random
        return rng.integers(self.action_space.n) if rng.random() < 0.3 else action


def noisy_car() -> gymnasium.Env:
    return NoisyActions(gymnasium.make("MountainCar-v0").unwrapped)


gymnasium.register("NoisyMountainCar-v0", noisy_car, max_episode_steps=200)


class Pumping:
    """Mountain Car: always push the way it moves."""

    name, stem, algorithm, noisy, finite = "NoisyMountainCar-v0", "NoisyMountainCar-v0", "rule", False, False

    def __call__(self, states: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(states)[:, 1] < 0, 0, 2)


def fit(experience, network, data, steps: int = 100):
    solution = gb.evaluate(
        network,
        data,
        solver=gb.LevenbergMarquardt(),
        scale_output=True,
        max_steps=steps,
        validation=experience.validation_error,
        diagnose=False,
    )
    return solution.network


def best_of(experience, networks):
    return min(networks, key=experience.validation_error)


def iterated(experience, network, size: int):
    """Fitted evaluation: regressions on reward + discount times the last network's value; the best one."""
    data = experience.transitions(1, size)
    best = current = gb.FeatureNetwork(network.features, network.network.scaled(0.0))
    for _ in range(ITERATIONS):
        target = data.reward + data.discount * np.asarray(current(data.next_state))
        regression = Transitions(data.state, target, data.next_state, np.zeros(len(data)), data.weight)
        current = fit(experience, network, regression, steps=20)
        best = best_of(experience, [best, current])
    return best


def modified(experience, network, size: int, seed: int):
    """The residual f(s) - Pi (r + discount f(s')), with Pi the regression on an auxiliary layer."""
    data = experience.transitions(1, min(size, MODIFIED_ROWS))
    units = np.random.default_rng(seed).standard_normal((network.network.sizes[0] + 1, AUXILIARY))
    inputs = np.asarray(network.features(data.state))
    layer = np.tanh(np.column_stack([inputs, np.ones(len(inputs))]) @ units / np.sqrt(len(units)))
    basis = np.linalg.qr(np.column_stack([inputs, layer, np.ones(len(inputs))]))[0]
    scale = float(np.std(data.reward) / (1 - DISCOUNT) + 1e-9)

    def residual(inner):
        def values(states):
            return inner(network.features(states)) * scale

        target = data.reward + data.discount * values(data.next_state)
        return (values(data.state) - basis @ (basis.T @ target)) / jnp.sqrt(len(data))

    best, start = None, network.network
    for steps in (5, 10, 20, 40):
        solution = gb.least_squares(residual, start, solver=gb.LevenbergMarquardt(), max_steps=steps)
        start = solution.params
        found = gb.FeatureNetwork(network.features, start.scaled(scale))
        best = found if best is None else best_of(experience, [best, found])
    return best


def ways(experience, network, size: int, seed: int):
    """The networks that all ways make of the first `size` transitions, by name."""
    residual = {n: fit(experience, network, experience.transitions(n, size)) for n in LADDER}
    by_n = best_of(experience, residual.values())
    data = {n: experience.transitions(n, size) for n in (1, 10, 100, 1000)}
    yield "residual of one step", lambda: residual[1]
    yield "n_step by validation", lambda: by_n
    yield (
        "n_step and fixed point by validation",
        lambda: best_of(experience, [by_n, *(gb.fixed_point(by_n, rows) for rows in data.values())]),
    )
    yield "fixed point of one step", lambda: gb.fixed_point(residual[1], data[1])
    yield "iterated targets", lambda: iterated(experience, network, size)
    yield "modified residual", lambda: modified(experience, network, size, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for policy in (Pumping(), StoredPolicy(HERE / "policies" / "LunarLander-v3-294912.npz")):
        states, values, errors, _ = truth(policy, 30_000)
        for seed in range(given.seeds):
            env = gb.environments.from_gymnasium(policy.name, discount=DISCOUNT)
            keys = jax.random.split(jax.random.key(100 + seed))
            experience = EpisodeExperience(
                env, gb.policies.on_host(policy), BUDGET, key=keys[0], q=False, max_transitions=BUDGET
            )
            inner = gb.MLP((env.width, 20, 20, 1), gb.networks.tanh, key=keys[1])
            inner = inner.with_weights(tuple(weight / np.sqrt(len(weight)) for weight in inner.weights))
            network = gb.FeatureNetwork(experience.features, inner)
            for size in SIZES:
                for way, make in ways(experience, network, size, seed):
                    started = time.perf_counter()
                    gaps = np.asarray(make()(states), float) - values
                    square = max(np.mean(gaps**2) - np.mean(errors**2), 0.0)
                    rows.append(
                        {
                            "task": policy.stem,
                            "way": way,
                            "transitions": size,
                            "seed": seed,
                            "bias": float(gaps.mean() / values.std()),
                            "error": float(np.sqrt(square) / values.std()),
                            "seconds": round(time.perf_counter() - started, 1),
                        }
                    )
                    print(json.dumps(rows[-1]), flush=True)
                write(given.out, "noise_bias", rows)


if __name__ == "__main__":
    main()
