"""Problems that several tests share."""

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import gaussbell as gb


def relative_error(got, wanted) -> float:
    """The largest difference, as a fraction of the largest wanted number."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    return float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-300))


def random_transitions(rows=12, width=2, seed=0, **options) -> gb.Transitions:
    """Transitions without a process behind them: enough for calculus."""
    rng = np.random.default_rng(seed)
    state = rng.uniform(-1, 1, (rows, width))
    return gb.Transitions(state, rng.normal(size=rows), np.clip(state + 0.1, -1, 1), **options)


def random_mdp(states=6, actions=2, seed=0, discount=0.9) -> gb.FiniteMDP:
    """An ergodic process: every transition has positive probability."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(states), (states, actions))
    return gb.FiniteMDP(transition, rng.normal(size=(states, actions, states)), discount)


def star():
    """The star's chain and its features."""
    return gb.environments.SevenStar().under(), gb.encodings.normal(7, 2, key=1)


def packed(network):
    """A network's parameters as a vector, and the way back."""
    return ravel_pytree(network)


def sampled_loss(network, data: gb.Transitions):
    """The NMSBE written as in the paper, to be differentiated automatically."""
    difference = network(data.inputs) - data.reward - data.discount * network(data.next_inputs)
    return 0.5 * jnp.mean(difference**2)


def chain_loss(network, chain: gb.MarkovChain, features):
    """The discrete NMSBE written as in the paper, to be differentiated automatically."""
    values = network(features)
    transition = jnp.asarray(chain.transition.toarray())
    difference = values - jnp.asarray(chain.reward) - chain.discount * transition @ values
    return 0.5 * difference @ (jnp.asarray(chain.stationary) * difference)
