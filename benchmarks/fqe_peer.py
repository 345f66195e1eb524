"""d3rlpy's fitted Q evaluation of a linear policy on logged steps. Run by offline.py, elsewhere."""

import json
import sys
import time

import d3rlpy
import numpy as np
import torch


class LinearPolicy:
    """What FQE asks of the algorithm it evaluates: the best action."""

    def __init__(self, gains, problem):
        self.gains = torch.tensor(gains, dtype=torch.float32)
        self.problem = problem
        self.impl = self

    def predict_best_action(self, states):
        pushed = states @ self.gains
        return (pushed > 0).long() if self.problem == "cart-pole" else pushed.clamp(-1, 1)[:, None]


def main():
    path, problem, discount, steps, seed = sys.argv[1:]
    file = np.load(path)
    d3rlpy.seed(int(seed))
    torch.set_num_threads(1)  # two slow each other down at this size
    discrete = problem == "cart-pole"
    started = time.perf_counter()
    dataset = d3rlpy.dataset.MDPDataset(
        observations=file["state"].astype(np.float32),
        actions=file["action"].astype(np.int64 if discrete else np.float32),
        rewards=file["reward"].astype(np.float32),
        terminals=file["terminated"].astype(np.float32),
        timeouts=file["truncated"].astype(np.float32),
        action_space=d3rlpy.ActionSpace.DISCRETE if discrete else d3rlpy.ActionSpace.CONTINUOUS,
        action_size=2 if discrete else 1,
    )
    policy = LinearPolicy(file["gains"], problem)
    config = d3rlpy.ope.FQEConfig(gamma=float(discount), learning_rate=1e-3, target_update_interval=10)
    make = d3rlpy.ope.DiscreteFQE if discrete else d3rlpy.ope.FQE
    fqe = make(algo=policy, config=config)
    fqe.fit(
        dataset,
        n_steps=int(steps),
        n_steps_per_epoch=int(steps),
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
    )
    starts = file["starts"].astype(np.float32)
    actions = policy.predict_best_action(torch.tensor(starts)).numpy()
    values = fqe.predict_value(starts, actions)
    answer = {"estimate": float(np.mean(values)), "seconds": round(time.perf_counter() - started, 1)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
