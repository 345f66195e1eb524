"""Why restart or end matters for one improvement of a policy of Cart Pole.

After a restart the Q-factors are those with an end, times a constant: 1 - discount V(start). So the truly
greedy policy is the same, and what differs is the fit. Is it the size of the target? Then scaled rewards
would do the same. Is it the state that every failing row is tied to? Then a restart elsewhere would not. And
where is the fit better? At the states to which the truly greedy policy leads.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gaussbell as gb
from gaussbell.control import Fresh
from gaussbell.control.experience import Experience
from gaussbell.numerics.arguments import as_key
from gaussbell.processes.policies import Greedy

RESTART, ELSEWHERE, END, SCALED = "restart", "restart elsewhere", "end", "end, scaled rewards"
ENDINGS = (RESTART, ELSEWHERE, END, SCALED)
FAR = (1.5, -0.8, 0.1, 0.5)
"""A start from which the cart goes on for some time, far from where a good policy keeps it."""
LONGEST = 1000
"""Steps after which a policy counts as never failing."""
STATES = 800


def lean(state: Any) -> Any:
    """Push the cart to where the pole leans: Cart Pole then lasts some forty steps."""
    return (state[2] > 0).astype(int)


def improve_once(ending: str, steps: int, seed: int, states: Any, solver_steps: int = 150) -> dict[str, Any]:
    """Evaluate `lean` once from rows with this ending; how do the policy greedy in Q, and Q itself, do?

    `after`, the steps of the new policy; `gap`, the correlation of Q(s, right) - Q(s, left) with its true
    value where the truly greedy policy leads.
    """
    env: Any = gb.environments.CartPole(
        ending="end" if ending in (END, SCALED) else "restart",
        start=FAR if ending == ELSEWHERE else (0.0, 0.0, 0.0, 0.0),
    )
    keys = [as_key(10 * seed + k) for k in range(5)]
    played = Experience(gb.environments.CartPole(), keys[0])
    seen = Experience(env, keys[0])
    seen.rolled = played.play(lean, 10, env.task.length, "roll-outs", key=keys[1])
    data = Fresh(states, n_step=steps).transitions(seen, lean, 0.0, keys[2])
    if ending == SCALED:
        start = np.zeros((1, 4))
        value = gb.monte_carlo.returns(gb.environments.CartPole(), lean, start)[0]
        data = eqx.tree_at(lambda rows: rows.reward, data, data.reward * (1 - env.discount * value))
    network = gb.control.default_network(env, keys[3])
    fit = gb.evaluate(network, data, solver=gb.LevenbergMarquardt(), max_steps=solver_steps, diagnose=False)
    log = played.play(Greedy(fit.network, 2), 30, env.task.length, "roll-outs", key=keys[4])
    state, truth = _true_gaps()
    left, right = (np.column_stack([state, np.full(len(state), action)]) for action in (0, 1))
    gap = np.asarray(fit.network(right)) - np.asarray(fit.network(left))
    return {
        "after": float(env.task.score(log).mean()),
        "gap": float(np.corrcoef(gap, truth)[0, 1]) if gap.std() > 0 else 0.0,
    }


@functools.cache
def _true_gaps() -> tuple[np.ndarray, np.ndarray]:
    """States to which the policy truly greedy in Q of `lean` leads, and by how much right is better there."""
    pole = gb.environments.CartPole(ending="end")
    rng = np.random.default_rng(1)
    start = rng.uniform(-0.05, 0.05, (40, 4))
    visited, alive = (np.asarray(part) for part in _play_greedily(pole, jnp.asarray(start)))
    state = visited[alive]
    state = state[rng.integers(0, len(state), STATES)]
    q = [gb.monte_carlo.returns(pole, lean, state, action=np.full(STATES, action)) for action in (0, 1)]
    return state, q[1] - q[0]


@eqx.filter_jit
def _play_greedily(pole: Any, start: Any) -> tuple[Any, Any]:
    """Episodes of the policy that takes the action after which `lean` fails later: states; is it alive?"""

    def lasts(state: Any, action: int) -> Any:
        def step(carry, number):
            state, alive = carry
            state = pole.move(state, jnp.where(number == 0, action, lean(state)))
            alive = alive & ~pole.failed(state)
            return (state, alive), alive

        return jax.lax.scan(step, (state, jnp.asarray(True)), jnp.arange(LONGEST))[1].sum()

    def play(state: Any) -> tuple[Any, Any]:
        def step(carry, _):
            state, alive = carry
            left, right = lasts(state, 0), lasts(state, 1)
            action = jnp.where(left == right, lean(state), (right > left).astype(int))
            moved = pole.move(state, action)
            return (moved, alive & ~pole.failed(moved)), (state, alive)

        return jax.lax.scan(step, (state, jnp.asarray(True)), None, length=500)[1]

    return jax.vmap(play)(start)


__all__ = ["ENDINGS", "improve_once", "lean"]
