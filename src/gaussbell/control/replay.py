"""The transitions of a sweep: simulated anew, or replayed from all steps seen so far.

What a step does depends on no policy: (state, action, reward, next state) once seen serves the evaluation
of every later policy too, only the action after it is that policy's. `Replay` keeps such steps. `Fresh`
simulates anew each sweep, n-step transitions included.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from gaussbell.control.experience import Experience, watching
from gaussbell.control.states import Uniform
from gaussbell.data.horizons import LambdaReturn, read_horizons
from gaussbell.data.logs import Log
from gaussbell.data.transitions import Transitions
from gaussbell.environments.environment import Environment
from gaussbell.numerics.arguments import host_rng
from gaussbell.processes.policies import EpsilonGreedy, Policy
from gaussbell.simulation.sampling import sample_transitions


class Fresh(eqx.Module):
    """Transitions simulated anew for each policy, from the states of a sampler: Algorithm 2, and n-step ones.

    Args:
        states: A sampler.
        n_step: A whole number or a LambdaReturn: after the first action the evaluated policy is followed.
        every_action: Whether each state is tried with all actions or with one drawn at random.
        once: Whether the states are drawn once and for all.
        successors: How many paths a transition averages, where the process is stochastic.
    """

    states: Any
    n_step: int | LambdaReturn = 1
    every_action: bool = True
    once: bool = False
    successors: int = 1

    def transitions(self, seen: Experience, policy: Policy, epsilon: float, key: Any) -> Transitions:
        """The transitions of one sweep."""
        draw, paths = jax.random.split(seen.key if self.once else key)
        state = self.states(seen, draw)
        if self.every_action:
            state, action = seen.all_actions(state)
        else:
            action = np.asarray(seen.env.actions.sample(len(state), key=jax.random.fold_in(draw, 1)))
        longest = int(read_horizons(self.n_step)[-1])
        seen.counts["training"] += len(state) * longest * self.successors
        with watching(seen.env):
            return sample_transitions(
                seen.env,
                _epsilon_soft(policy, epsilon, seen.num_actions),
                len(state),
                key=paths,
                n_step=self.n_step,
                q=True,
                successors=self.successors,
                state=state,
                action=action,
            )


class Replay(eqx.Module):
    """Single steps, all kept: each new policy is evaluated on everything seen so far.

    Half of the transitions are steps from states all over the box, half from states that roll-outs visited,
    tried with the other actions too. Where the state cannot be set, all come from playing: the roll-outs, and
    episodes of the policy with random actions mixed in.

    Args:
        first, more: How many states of the box are tried before the first sweep and before each other one.
        visited: How many states of the last roll-outs are tried with the actions not taken;
            `transitions_per_fit`.
        paths: How many further transitions go `ahead` steps along the roll-outs of the evaluated policy, at
            no cost (single steps say which action is better, paths how good it all is).
        explored: Where the state cannot be set, how many steps are played before each sweep, with random
            actions with probability `explore`.
    """

    first: int = 200
    more: int = 100
    visited: int = 200
    transitions_per_fit: int = 1500
    paths: int = 0
    ahead: int = 10
    explored: int = 500
    explore: float = 0.3

    def transitions(self, seen: Experience, policy: Policy, epsilon: float, key: Any) -> Transitions:
        """The transitions of one sweep."""
        keys = jax.random.split(key, 6)
        if seen.has_box:
            state = Uniform(self.more if seen.kept else self.first)(seen, keys[0])
            if len(state):
                seen.keep("uniform", seen.attempt(*seen.all_actions(state), keys[1]))
        else:
            noisy = EpsilonGreedy(policy, seen.num_actions, self.explore if seen.kept else 1.0)
            seen.keep("visited", seen.after_the_end(seen.explore(noisy, self.explored, keys[0]), keys[1]))
        if seen.rolled is not None:
            self._keep_visited(seen, keys[2])
        half = self.transitions_per_fit // len(seen.kept)
        rng = host_rng(keys[3])
        parts = [_draw(log, half, rng) for log in seen.kept.values()]
        data = Log.join(*parts).transitions(
            discount=seen.env.discount, policy=_epsilon_soft(policy, epsilon, seen.num_actions)
        )
        if self.paths == 0 or seen.followed is None:
            return data
        log = seen.after_the_end(seen.followed, keys[4])
        along = log.transitions(discount=seen.env.discount, n_step=self.ahead, policy=policy)
        return Transitions.join(data, along.take(rng.choice(len(log), self.paths)))

    def _keep_visited(self, seen: Experience, key: Any) -> None:
        """The steps of the last roll-outs, and what the other actions would have done there."""
        assert seen.rolled is not None
        log = seen.rolled
        chosen = host_rng(key).choice(len(log), min(self.visited, len(log)), replace=False)
        seen.keep("visited", _take(seen.after_the_end(log, key), chosen))
        if isinstance(seen.env, Environment):
            state, action = seen.all_actions(log.state[chosen])
            other = action != np.repeat(log.action[chosen].astype(int), seen.num_actions)
            seen.keep("visited", seen.attempt(state[other], action[other], jax.random.fold_in(key, 1)))


def _take(log: Log, rows: np.ndarray) -> Log:
    """Some steps, each standing for itself."""
    parts = (log.state, log.action, log.reward, log.next_state, log.terminated)
    return Log(*(part[rows] for part in parts), truncated=True, actions=log.actions)


def _draw(log: Log, count: int, rng: np.random.Generator) -> Log:
    return _take(log, rng.choice(len(log), count, replace=len(log) < count))


def _epsilon_soft(policy: Policy, epsilon: float, num_actions: int) -> Policy:
    """The policy whose later actions are random with probability `epsilon`."""
    return policy if epsilon == 0 else EpsilonGreedy(policy, num_actions, epsilon)
