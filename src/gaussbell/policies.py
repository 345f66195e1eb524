"""Policies: any function from one state to one action, and a few that everyone needs.

A policy written in JAX runs compiled, for all states at once. Any other callable works too: it is called on
the host, a state at a time, which is slow; a function of whole batches, such as the `predict` of
Stable-Baselines3, is better passed as `on_host(function)`. Where a policy is random it has an attribute
`noisy = True` and takes a key as its second argument.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from gaussbell.actions import Actions, BoxActions, DiscreteActions
from gaussbell.precision import in_double, is_traced

Policy = Callable[..., Any]


class OnHost(eqx.Module):
    """A NumPy function from a batch of states (N, d) to a batch of actions, callable from compiled code."""

    function: Callable[[np.ndarray], Any] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, state: Float[Array, " d"]) -> Float[Array, " *k"]:
        result = jax.ShapeDtypeStruct(self.shape, jnp.float64)
        return jax.pure_callback(self._answer, result, state, vmap_method="expand_dims")

    def _answer(self, states: Any) -> np.ndarray:
        states = np.asarray(states)
        rows = states.reshape(-1, states.shape[-1])
        try:
            return np.asarray(self.function(rows), np.float64).reshape(states.shape[:-1] + self.shape)
        except ValueError as error:
            raise ValueError(
                f"policy: for {len(rows)} states it returned something that is not {len(rows)} actions of "
                f"shape {self.shape} ({error})."
            ) from error


def on_host(function: Callable[[np.ndarray], Any], width: int | None = None) -> OnHost:
    """A policy from a function of a batch of states (N, d) that returns N actions, in NumPy or anything else.

    Arguments: `width`, how many numbers an action has, for boxes of actions; None for whole numbers.

    >>> import gaussbell as gb, numpy
    >>> policy = gb.policies.on_host(lambda states: numpy.where(states[:, 1] >= 0, 2, 0))
    >>> float(policy(numpy.array([0.0, -0.1])))
    0.0
    """
    return OnHost(function, () if width is None else (width,))


def from_stable_baselines(model: Any) -> OnHost:
    """The deterministic policy of a trained Stable-Baselines3 model, or of anything with its `predict`.

    policy = gaussbell.policies.from_stable_baselines(PPO.load("model"))
    """
    shape = getattr(getattr(model, "action_space", None), "shape", ())
    width = shape[0] if shape else None
    return on_host(lambda states: model.predict(states.astype(np.float32), deterministic=True)[0], width)


class Constant(eqx.Module):
    """The same action in every state."""

    action: Any

    def __call__(self, state: Float[Array, " d"]) -> Array:
        return jnp.asarray(self.action)


class AlongVelocity(eqx.Module):
    """Push along the velocity, to the right at rest: the paper's policy for Mountain Car."""

    def __call__(self, state: Float[Array, " 2"]) -> Int[Array, ""]:
        return jnp.where(state[1] >= 0, 2, 0)


class Greedy(eqx.Module):
    """The action with the largest Q-factor, the first of equals (label eq:def_gip).

    `network` takes the state with the action's number appended, as in Transitions with actions.

    >>> import gaussbell as gb, jax.numpy as jnp
    >>> policy = gb.policies.Greedy(lambda x: -(x[-1] - 1) ** 2, num_actions=3)
    >>> policy(jnp.zeros(2))
    1
    """

    network: Any
    num_actions: int = eqx.field(static=True)

    def action_values(self, state: Float[Array, " d"]) -> Float[Array, " A"]:
        """The Q-factors of all actions in one state."""
        state = jnp.asarray(state)
        pairs = jnp.stack([jnp.append(state, action) for action in range(self.num_actions)])
        return jax.vmap(self.network)(pairs)

    def __call__(self, state: Float[Array, " d"]) -> Int[Array, ""] | int:
        """The action: a plain whole number, as Gymnasium's `step` takes it; inside jit and vmap an array."""
        if is_traced(state):
            return self._choose(state)
        return int(_compiled_choice(self, np.asarray(state, float)))

    def _choose(self, state: Float[Array, " d"]) -> Int[Array, ""]:
        q = self.action_values(state)
        numbers = jnp.arange(self.num_actions, dtype=jnp.int32)  # argmax counts in 64 bits in here
        return jnp.min(jnp.where(q == q.max(), numbers, self.num_actions - 1))


@in_double
def _compiled_choice(policy: Greedy, state: np.ndarray) -> Any:
    return _greedy_action(policy, state)


@eqx.filter_jit
def _greedy_action(policy: Greedy, state: Any) -> Any:
    return policy._choose(state)


class EpsilonGreedy(eqx.Module):
    """The action of `policy`, or with probability `epsilon` one drawn uniformly.

    >>> import gaussbell as gb, jax.numpy as jnp
    >>> policy = gb.policies.EpsilonGreedy(gb.policies.Constant(0), num_actions=2, epsilon=0.2)
    >>> policy.probabilities(jnp.zeros(3)).round(2).tolist()
    [0.9, 0.1]
    """

    policy: Any
    num_actions: int = eqx.field(static=True)
    epsilon: float = 0.1

    noisy = True

    def probabilities(self, state: Float[Array, " d"]) -> Float[Array, " A"]:
        """How probable each action is in one state."""
        chosen = jnp.arange(self.num_actions) == self.policy(state)
        return jnp.where(chosen, 1 - self.epsilon, 0.0) + self.epsilon / self.num_actions

    def __call__(self, state: Float[Array, " d"], key: PRNGKeyArray) -> Int[Array, ""]:
        explores, which = jax.random.split(key)
        random = jax.random.randint(which, (), 0, self.num_actions, jnp.int32)
        explore = jax.random.uniform(explores, (), jnp.float32) < self.epsilon
        return jnp.where(explore, random, jnp.asarray(self.policy(state), jnp.int32))


def is_noisy(policy: Policy) -> bool:
    """Does the policy draw its actions?"""
    return bool(getattr(policy, "noisy", False))


def choose(policy: Policy, state: Float[Array, " d"], key: Any) -> Shaped[Array, " *k"]:
    """The policy's action in one state."""
    return jnp.asarray(policy(state, key) if is_noisy(policy) else policy(state))


@in_double
def read_policy(policy: Any, width: int, actions: Actions) -> Policy:
    """A policy that compiled code can call, from any callable; ValueError where it is none.

    Arguments: `width`, the length of a state.
    """
    if not callable(policy):
        raise ValueError(
            f"policy={policy!r}: give a function from a state of shape ({width},) to an action; for a "
            "Stable-Baselines3 model use gaussbell.policies.from_stable_baselines(model)."
        )
    shape = actions.low.shape if isinstance(actions, BoxActions) else ()
    state, key = jax.ShapeDtypeStruct((width,), jnp.float64), jax.eval_shape(lambda: jax.random.key(0))
    try:
        action = jax.eval_shape(lambda s, k: choose(policy, s, k), state, key)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        return OnHost(lambda states: [policy(state) for state in states], shape)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(
            f"policy: it failed on a state of shape ({width},): {str(error).splitlines()[0]}"
        ) from error
    if action.shape != shape:
        raise ValueError(
            f"policy: it returned an action of shape {action.shape} for one state; actions here are "
            f"{actions}, of shape {shape}."
        )
    return policy


def check_actions(actions: Actions, chosen: Any, states: Any) -> None:
    """ValueError where a policy chose an illegal action, with the first such state."""
    legal = np.asarray(actions.contains(chosen))
    if not legal.all():
        worst = int(np.argmin(legal))
        raise ValueError(
            f"policy: it chose {np.asarray(chosen)[worst]} in state {np.asarray(states)[worst]} "
            f"({int((~legal).sum())} of {len(legal)} choices are illegal); actions here are {actions}."
        )


__all__ = [
    "AlongVelocity",
    "Constant",
    "DiscreteActions",
    "EpsilonGreedy",
    "Greedy",
    "OnHost",
    "Policy",
    "check_actions",
    "choose",
    "from_stable_baselines",
    "is_noisy",
    "on_host",
    "read_policy",
]
