"""The value of a controller in MuJoCo's inverted pendulum, whose state is set through qpos and qvel.

pip install 'gaussbell[gymnasium]' 'gymnasium[mujoco]'
python examples/mujoco_pendulum.py
"""

import time

import numpy as np

import gaussbell as gb


def balance(observation):
    """A linear controller: cart and pole positions, then their speeds. It saves most starts, not all."""
    return (observation @ np.array([0.3, 3.0, 0.3, 0.5]))[None].clip(-3, 3)


def main():
    started = time.perf_counter()
    # Reward one a step until the pole leans by more than 0.2; then the process is over.
    env = gb.environments.from_gymnasium(
        "InvertedPendulum-v5", low=[-0.5, -0.2, -1.0, -1.5], high=[0.5, 0.2, 1.0, 1.5], discount=0.98
    )
    network = gb.MLP((4, 20, 20, 1), key=0)
    # All saved starts end at the same place, upright; with short paths its value is learned from few rows and
    # carries all the others. Long paths hardly ask for it.
    found = gb.evaluate_policy(env, balance, network, budget=150_000, n_step=150, key=1)
    print(f"{found.n_step} steps a row, {len(found.transitions):,} rows, {found.simulated:,} simulated steps")
    print(f"estimated error {found.value_error:.2f}, {found.relative_error:.2f} standard deviations")

    states = env.sample_states(200, key=2)
    truth = gb.monte_carlo.returns(env, balance, states)
    learned = np.asarray(found.network(states))
    error = np.sqrt(np.mean((learned - truth) ** 2))
    print(f"true error on 200 fresh states {error:.2f}; values from {truth.min():.1f} to {truth.max():.1f}")
    print(f"{time.perf_counter() - started:.0f} seconds")
    env.close()


if __name__ == "__main__":
    main()
