"""How right are values in environments that nobody here wrote, of policies that Stable-Baselines3 trained?

    python benchmarks/real_environments.py --out runs/bench [--seeds 1] [--torch PYTHON] [Hopper-v5 ...]

For every policy in benchmarks/policies (made by train_policies.py), and a random one in each environment: the
error of `evaluate_policy` over the states of fresh episodes, beside what others make of the same episodes
with a network of the same size: regression on their returns (by our solver, and by Adam), TD(lambda) by Adam
(value_peers.py, if --torch names the Python of an environment that has torch), and the critic of the policy's
own training. The truth at a visited state is its return where nothing is random, else the mean of
continuations: the episode is played again up to the state, then with other random numbers. Toy-text
environments show their table of probabilities, which gives the truth exactly; all ways then fit a table, and
stored policies draw their actions as they were trained.

Development was done on the first stages of LunarLander-v3, Hopper-v5 and HalfCheetah-v5, on CartPole-v1, on
later stages in CliffWalking-v1 and both FrozenLakes and a random policy there (marked in the record), and
on policies of other seeds that are not kept here; four more were seen before the method last changed (both of
Acrobot-v1, the last of HalfCheetah-v5, the first of CliffWalking-v1) and count too. The rest was set aside.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import gymnasium
import jax
import numpy as np

import gaussbell as gb
from gaussbell import records
from gaussbell.data.thinning import Thinning
from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.held_out import TAIL
from gaussbell.diagnostics.held_out_episodes import LoggedReturns
from gaussbell.evaluation.experience import EpisodeExperience
from gaussbell.simulation.episodes import episode_length

DISCOUNT = 0.99
HORIZON = 700  # less than a thousandth of the discount is left
CONTINUATIONS = 30
NOISY_STATES = 100
RETURNS = 8000
"""Rows of the regression by our solver, drawn as ours are; peers by Adam take all of them."""
EPISODES, STEPS = 60, 50_000
"""Of the truth, at least."""
HERE = Path(__file__).parent
DEVELOPED_ON = (
    "LunarLander-v3-98304",
    "Hopper-v5-81920",
    "HalfCheetah-v5-81920",
    "CartPole-v1-4096",
    "CartPole-v1-40960",
    "CliffWalking-v1-40960",
    "FrozenLake-v1-40960",
    "FrozenLake-v1-random",
    "FrozenLake8x8-v1-40960",
    "Acrobot-v1-20480",
    "Acrobot-v1-122880",
    "HalfCheetah-v5-286720",
    "CliffWalking-v1-8192",
)


class RandomPolicy:
    """Every legal action alike: `noisy`, so it is given keys."""

    algorithm, noisy = "random", True

    def __init__(self, name: str):
        self.name, self.stem = name, f"{name}-random"
        env = gymnasium.make(name)
        self.space, self.finite = env.action_space, _is_finite(env)

    def probabilities(self, states: np.ndarray) -> np.ndarray:
        return np.full((len(states), self.space.n), 1 / self.space.n)

    def __call__(self, states: np.ndarray, keys: np.ndarray) -> np.ndarray:
        rngs = [np.random.default_rng(key) for key in keys]
        if isinstance(self.space, gymnasium.spaces.Discrete):
            return np.array([rng.integers(self.space.n) for rng in rngs])
        return np.array([rng.uniform(self.space.low, self.space.high) for rng in rngs])

    def critic(self, states: np.ndarray) -> None:
        return None


class StoredPolicy:
    """The deterministic actions, and the critic, of a file that `train_policies.py` wrote."""

    def __init__(self, path: Path):
        with np.load(path) as stored:
            self.arrays = dict(stored)
        self.stem = path.stem
        self.settings = json.loads(str(self.arrays.pop("settings")))
        self.name, self.algorithm = self.settings["env"], self.settings["algorithm"]
        env = gymnasium.make(self.name)
        self.space, self.noisy = env.action_space, _is_finite(env)
        self.finite = self.noisy

    def __call__(self, states: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        if keys is not None:
            draws = np.array([np.random.default_rng(key).random() for key in keys])
            return (self.probabilities(states).cumsum(axis=1) < draws[:, None]).sum(axis=1)
        scores = self._network("actor", states)
        if isinstance(self.space, gymnasium.spaces.Discrete):
            return scores.argmax(axis=1)
        low, high = self.space.low, self.space.high
        if self.algorithm == "SAC":
            return low + (np.tanh(scores) + 1) / 2 * (high - low)
        return np.clip(scores, low, high)

    def probabilities(self, states: np.ndarray) -> np.ndarray:
        """Of each action, as PPO draws them."""
        odds = np.exp(self._network("actor", states).astype(float))
        return odds / odds.sum(axis=1, keepdims=True)

    def critic(self, states: np.ndarray) -> np.ndarray | None:
        """What PPO's training thought of states, in units of the rewards; None for other algorithms."""
        if self.algorithm != "PPO":
            return None
        unit = np.sqrt(self.arrays["reward_variance"] + 1e-8) if "reward_variance" in self.arrays else 1.0
        return self._network("critic", states)[:, 0] * unit

    def _network(self, part: str, states: np.ndarray) -> np.ndarray:
        phi = np.asarray(states, np.float32)
        if self.finite:
            phi = np.eye(self.arrays["actor_weight_0"].shape[1], dtype=np.float32)[phi[:, 0].astype(int)]
        if "mean" in self.arrays:
            deviation = np.sqrt(self.arrays["variance"] + 1e-8)
            phi = np.clip((phi - self.arrays["mean"]) / deviation, -10, 10)
        depth = sum(name.startswith(f"{part}_weight") for name in self.arrays)
        for k in range(depth):
            phi = phi @ self.arrays[f"{part}_weight_{k}"].T + self.arrays[f"{part}_bias_{k}"]
            if k < depth - 1:
                phi = np.tanh(phi) if self.algorithm == "PPO" else np.maximum(phi, 0)
        return phi


def _is_finite(env) -> bool:
    return isinstance(env.observation_space, gymnasium.spaces.Discrete)


def truth(policy, seed: int):
    """Visited states of fresh episodes, their values, and the standard errors of these; and start returns."""
    env = gymnasium.make(policy.name, max_episode_steps=-1)
    simulated = gb.environments.from_gymnasium(policy.name, num_envs=1, exact=False)
    noisy, limit = policy.noisy or simulated.is_stochastic, episode_length(simulated)
    rng = np.random.default_rng(seed)
    played, judged = [], 0
    while len(played) < EPISODES or judged < STEPS:
        played.append(_play(env, policy, int(rng.integers(2**31)), limit))
        judged += min(limit, len(played[-1][1]))
    if policy.finite:
        return _exact_truth(policy, env, [seen[:limit] for _, seen, *_ in played])
    steps = [(k, t) for k, (_, seen, *_) in enumerate(played) for t in range(min(limit, len(seen)))]
    seen, values, errors = [], [], []
    count = min(NOISY_STATES, len(steps)) if noisy else len(steps)
    for pick in rng.choice(len(steps), count, replace=False):
        number, t = steps[pick]
        episode_seed, observations, actions, rewards = played[number]
        if noisy:
            continued = [
                _branch(env, policy, episode_seed, actions[:t], int(rng.integers(2**31)))
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


def _exact_truth(policy, env, seen):
    """The same where the table of probabilities is known."""
    mdp = gb.environments.from_gymnasium(policy.name, discount=DISCOUNT)
    starts = env.unwrapped.initial_state_distrib
    states = np.minimum(np.arange(mdp.num_states), len(starts) - 1)  # an end of its own may come last
    values = np.asarray(mdp.under(policy.probabilities(states[:, None])).values)
    visited = np.concatenate(seen).astype(int)
    start = starts @ values[: len(starts)]
    return visited[:, None].astype(float), values[visited], np.zeros(len(visited)), np.full(2, start)


def _act(policy, observation, seed: int, step: int):
    states = np.atleast_1d(np.asarray(observation))[None]
    return (policy(states, np.array([[seed, step]], np.uint32)) if policy.noisy else policy(states))[0]


def _play(env, policy, seed: int, limit: int):
    observation, _ = env.reset(seed=seed)
    seen, actions, rewards, ended = [], [], [], False
    while not ended and len(rewards) < limit + HORIZON:
        action = _act(policy, observation, seed, len(rewards))
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
    for step in range(HORIZON):
        observation, reward, ended, *_ = env.step(_act(policy, observation, other, step))
        total, share = total + share * float(reward), share * DISCOUNT
        if ended:
            break
    return total


def by_returns(experience: EpisodeExperience, network, seed: int):
    """Regression on returns by our own solver: the same network, transitions and validation.

    First on returns that are nearly whole, then on all, with the first value where an episode was cut.
    """
    log, returns = experience.log, LoggedReturns(experience.log, DISCOUNT)
    rows, weight = Thinning(np.asarray(experience.features(log.state)), seed=seed)(RETURNS)
    whole = returns.remaining[rows] <= TAIL
    found = gb.FeatureNetwork(network.features, network.network.scaled(0.0))  # the first guess after a cut
    for chosen in (whole, np.full(len(rows), True)):
        kept, share = rows[chosen], weight[chosen] / weight[chosen].sum()
        data = Transitions(
            log.state[kept], returns(found)[kept], log.next_state[kept], np.zeros(len(kept)), share
        )
        found = gb.evaluate(
            network,
            data,
            solver=gb.LevenbergMarquardt(),
            scale_output=True,
            max_steps=100,
            validation=experience.validation_error,
            diagnose=False,
        ).network
    return found


def by_torch(experience: EpisodeExperience, states: np.ndarray, seed: int, python: str) -> dict:
    logs = {"fitting": experience.log, "validating": experience.validating.log}
    fields = ("state", "reward", "next_state", "terminated", "episode")
    arrays = {f"{name}_{field}": getattr(log, field) for name, log in logs.items() for field in fields}
    sizes = [20, 20]
    if isinstance(experience.features, gb.features.OneHot):
        one_hot = np.eye(experience.features.count)
        sizes, states = [], one_hot[states[:, 0].astype(int)]
        for name in [name for name in arrays if name.endswith("state")]:
            arrays[name] = one_hot[arrays[name][:, 0].astype(int)]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "episodes.npz", Path(folder) / "values.npz"
        np.savez(source, states=states, sizes=np.array(sizes, int), seed=seed, discount=DISCOUNT, **arrays)
        subprocess.run([python, str(HERE / "value_peers.py"), str(source), str(target)], check=True)
        with np.load(target) as found:
            return {name: found[name] for name in found.files}


def measure(policy, seed: int, budget: int, python: str | None) -> dict:
    env = gb.environments.from_gymnasium(policy.name, discount=DISCOUNT, exact=False)
    acting = gb.policies.on_host(policy, noisy=policy.noisy)
    states, values, errors, starts = truth(policy, 10_000 + seed)

    def error(predicted) -> float:
        square = np.mean((np.asarray(predicted, float) - values) ** 2) - np.mean(errors**2)
        return float(np.sqrt(max(square, 0.0)) / values.std())

    def timed(call):
        started = time.perf_counter()
        return call(), round(time.perf_counter() - started, 1)

    ours, seconds = timed(lambda: gb.evaluate_policy(env, acting, budget=budget, key=seed, progress=False))
    key = jax.random.split(jax.random.key(seed))
    experience = EpisodeExperience(env, acting, budget, key=key[0], q=False, max_transitions=budget)
    width = gb.features.width(experience.features, env.width)
    sizes = (width, 1) if policy.finite else (width, 20, 20, 1)
    inner = gb.MLP(sizes, gb.networks.tanh, key=key[1])
    start_network = gb.FeatureNetwork(
        experience.features, inner.with_weights(tuple(np.asarray(w) / np.sqrt(len(w)) for w in inner.weights))
    )
    regression, regression_seconds = timed(lambda: by_returns(experience, start_network, seed))
    peers = {"returns, LM": error(regression(states))}
    peer_seconds = {"returns, LM": regression_seconds}
    versions = {"gymnasium": gymnasium.__version__, "gaussbell": gb.__version__}
    if python is not None:
        found = by_torch(experience, states, seed, python)
        versions["torch"] = str(found["torch"])
        for name in ("returns, Adam", "TD(lambda), Adam"):
            peers[name] = error(found[name])
            peer_seconds[name] = round(float(found[f"seconds of {name}"]), 1)
    critic = policy.critic(states)
    if critic is not None:
        peers["SB3's critic"] = error(critic)
    true_error = error(ours.network(states))
    return {
        "policy": policy.stem,
        "developed on": policy.stem in DEVELOPED_ON,
        "seed": seed,
        "random": bool(errors.any()),
        "error": true_error,
        "claimed": ours.relative_error,
        "claimed over true": ours.value_error / (true_error * values.std()),
        "peers": peers,
        "over the best peer": true_error / min(peers.values()),
        "n_step": ours.n_step,
        "corrected by": ours.corrected_by,
        "start value": ours.start_value,
        "interval": ours.start.interval,
        "Monte-Carlo interval": ours.start.monte_carlo_interval,
        "true start value": starts.mean(),
        "its standard error": starts.std(ddof=1) / np.sqrt(len(starts)),
        "simulated": ours.simulated,
        "seconds": seconds,
        "peers' seconds": peer_seconds,
        "trusted": ours.assessment.trusted,
        "versions": versions,
    }


def report(rows: list) -> str:
    """The record as tables: all policies, then what the claims come to where nothing was developed on."""
    peers = list(dict.fromkeys(name for row in rows for name in row["peers"]))
    lines = [
        f"| policy | gaussbell | {' | '.join(peers)} | claimed / true | trusted | seconds |",
        "|---" * (len(peers) + 5) + "|",
    ]
    for row in rows:
        found = [row["error"], *(row["peers"].get(name) for name in peers)]
        least = min(error for error in found if error is not None)
        cells = ["" if error is None else f"{error:.3f}" for error in found]
        cells = [f"**{cell}**" if error == least else cell for cell, error in zip(cells, found, strict=True)]
        stem = row["policy"] + (" (dev)" if row["developed on"] else "")
        seconds = [row["seconds"], *row["peers' seconds"].values()]
        trusted = {True: "yes", False: "no", None: "cannot tell"}[row["trusted"]]
        lines.append(
            f"| {stem} | {' | '.join(cells)} | {row['claimed over true']:.2f} | {trusted} | "
            f"{', '.join(f'{number:.0f}' for number in seconds)} |"
        )
    judged = [row for row in rows if not row["developed on"]]
    ratio = np.array([row["over the best peer"] for row in judged])
    claimed = np.array([row["claimed over true"] for row in judged])
    wrong = [row["policy"] for row in judged if row["trusted"] and row["claimed over true"] < 0.5]
    lines += [
        "",
        f"{len(judged)} policies set aside: the error is {np.median(ratio):.2f} times that "
        f"of the best peer in the median, and the smallest in {np.mean(ratio < 1):.0%}. The claimed error is "
        f"{np.median(claimed):.2f} times the true one in the median, and between half and twice of it in "
        f"{np.mean((claimed > 0.5) & (claimed < 2)):.0%}. Trusted, and more than twice as large as claimed: "
        f"{', '.join(wrong) or 'none'}.",
        "",
    ]
    return "\n".join(lines)


def _kept(out: Path) -> list:
    """What an earlier run has measured already."""
    path = out / "real_environments.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def write(out: Path, name: str, rows: list) -> None:
    """The record of a benchmark, whole at any time."""
    record = {"benchmark": name.replace("_", " "), "versions": records.versions(), "rows": rows}
    records.write(out / f"{name}.json", record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--policies", type=Path, default=HERE / "policies")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", type=int, default=100_000)
    parser.add_argument("--torch", help="the Python of an environment that has torch")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    policies = [StoredPolicy(path) for path in sorted(given.policies.glob("*.npz"))]
    policies += [RandomPolicy(name) for name in dict.fromkeys(policy.name for policy in policies)]
    done = {row["policy"] for row in _kept(given.out)}
    policies = [policy for policy in policies if policy.stem not in done]
    rows = _kept(given.out)
    for policy in policies:
        if given.names and not any(policy.stem.startswith(name) for name in given.names):
            continue
        for seed in range(given.seeds):
            rows.append(measure(policy, seed, given.budget, given.torch))
            print(json.dumps(rows[-1]), flush=True)
            write(given.out, "real_environments", rows)
    records.write_text(given.out / "real_environments.md", report(rows))


if __name__ == "__main__":
    main()
