"""What others would do with the same episodes: networks by Adam in PyTorch. Called by real_environments.py.

    python benchmarks/value_peers.py EPISODES.npz VALUES.npz

Run with the Python of an environment that has torch. The same inputs, network size (tanh instead of bent
identities, as is usual), fitting and validation episodes; early stopping by the returns of the latter.
Two ways: regression on Monte-Carlo returns, and TD(lambda), whose targets are made anew in every epoch from
the network itself, as actor-critic methods train critics. Each is run with three learning rates, of which
validation chooses; seconds count all three.
"""

import sys
import time

import numpy as np
import torch

RATES = (1e-3, 3e-3, 1e-2)
UPDATES, BATCH, LOOK_EVERY = 10_000, 256, 500
LAMBDA = 0.95


class Episodes:
    def __init__(self, stored, name: str, discount: float):
        fields = ("state", "reward", "next_state", "terminated", "episode")
        self.state, self.reward, self.next_state, self.terminated, self.episode = (
            stored[f"{name}_{field}"] for field in fields
        )
        self.last = np.append(self.episode[1:] != self.episode[:-1], True)
        self.discount = discount

    def returns(self, values_ahead: np.ndarray, lambda_: float) -> np.ndarray:
        """Lambda-returns; where an episode was cut, the value of the state it was cut at."""
        ahead = np.where(self.terminated, 0.0, values_ahead)
        targets, following = np.empty(len(self.reward)), 0.0
        for t in range(len(self.reward) - 1, -1, -1):
            following = ahead[t] if self.last[t] else (1 - lambda_) * ahead[t] + lambda_ * following
            following = self.reward[t] + self.discount * following
            targets[t] = following
        return targets


def fit(fitting: Episodes, validating: Episodes, sizes, rate: float, lambda_: float, seed: int):
    torch.manual_seed(seed)
    centre, unit = fitting.state.mean(axis=0), fitting.state.std(axis=0)
    unit = np.where(unit > 1e-9, unit, 1.0)

    def scaled(states):
        return torch.as_tensor(np.clip((states - centre) / unit, -8, 8), dtype=torch.float32)

    layers, width = [], fitting.state.shape[1]
    for size in sizes:
        layers += [torch.nn.Linear(width, size), torch.nn.Tanh()]
        width = size
    network = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
    plain = fitting.returns(np.zeros(len(fitting.reward)), 1.0)
    mean, deviation = plain.mean(), plain.std() + 1e-9
    optimiser = torch.optim.Adam(network.parameters(), rate)
    inputs, ahead, looked = (scaled(fitting.state), scaled(fitting.next_state), scaled(validating.state))
    looked_ahead = scaled(validating.next_state)

    def values(rows):
        with torch.no_grad():
            return network(rows)[:, 0].numpy() * deviation + mean

    epoch = max(1, len(inputs) // BATCH)
    best, kept = np.inf, None
    for update in range(UPDATES + 1):
        if update % epoch == 0 and (lambda_ < 1 or update == 0 or update % (5 * epoch) == 0):
            # Also returns of episodes that were cut are made anew, from the network's value there.
            targets = torch.as_tensor(
                (fitting.returns(values(ahead), lambda_) - mean) / deviation, dtype=torch.float32
            )
        if update % LOOK_EVERY == 0:
            gaps = values(looked) - validating.returns(values(looked_ahead), 1.0)
            error = float(np.sqrt(np.mean(gaps**2)))
            if error < best:
                best, kept = error, {k: v.clone() for k, v in network.state_dict().items()}
        rows = torch.randint(len(inputs), (BATCH,))
        loss = ((network(inputs[rows])[:, 0] - targets[rows]) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    network.load_state_dict(kept)
    return best, lambda states: values(scaled(states))


def main(source: str, target: str) -> None:
    torch.set_num_threads(2)
    stored = np.load(source)
    discount = float(stored["discount"])
    fitting, validating = (Episodes(stored, name, discount) for name in ("fitting", "validating"))
    found = {}
    for name, lambda_ in (("returns, Adam", 1.0), ("TD(lambda), Adam", LAMBDA)):
        started = time.perf_counter()
        tried = [
            fit(fitting, validating, stored["sizes"], rate, lambda_, int(stored["seed"])) for rate in RATES
        ]
        values = min(tried, key=lambda one: one[0])[1]
        found[name] = values(stored["states"])
        found[f"seconds of {name}"] = np.array(time.perf_counter() - started)
    np.savez(target, **found, torch=np.array(torch.__version__))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
