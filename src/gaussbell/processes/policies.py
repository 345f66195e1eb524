"""Policies: any function from one state to one action, and a few that everyone needs.

A policy written in JAX runs compiled, for all states at once. Any other callable works too: it is called on
the host, a state at a time, which is slow; a function of whole batches is better passed as
`on_host(function)`, a model of Stable-Baselines3 as `from_stable_baselines(model)`. A stochastic policy has
an attribute `noisy = True` and takes a key as its second argument; on the host that is the key's data, two
numbers of 32 bits that `numpy.random.default_rng` and `jax.random` both take.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from gaussbell.numerics.arguments import as_key
from gaussbell.numerics.precision import in_double, is_traced
from gaussbell.numerics.precision import on_host as keep_on_host
from gaussbell.processes.actions import Actions, BoxActions

Policy = Callable[..., Any]


class HostFunction:
    """A function of a batch of states on the host, equal to another of the same function.

    A compiled program that calls it is found again, however often the function is wrapped anew.
    """

    def __init__(self, function: Callable[..., Any], each: bool = False):
        self.function, self.each = function, each

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostFunction) and self.function is other.function and self.each == other.each

    def __hash__(self) -> int:
        return hash((id(self.function), self.each))

    def __call__(self, states: np.ndarray, *keys: np.ndarray) -> Any:
        if not self.each:
            return self.function(states, *keys)
        return [self.function(*row) for row in zip(states, *keys, strict=True)]


class Predict:
    """The `predict` of a Stable-Baselines3 model, or of anything that has one like it, on batches of states.

    Observations are normalised as in training where the model knows its VecNormalize.
    """

    def __init__(self, model: Any, deterministic: bool, normalise: Callable[[Any], Any] | None):
        self.model, self.deterministic, self.normalise = model, deterministic, normalise

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Predict) or self.model is not other.model:
            return False
        return (self.deterministic, self.normalise) == (other.deterministic, other.normalise)

    def __hash__(self) -> int:
        return hash((id(self.model), self.deterministic))

    def __call__(self, states: np.ndarray, keys: np.ndarray | None = None) -> Any:
        with contextlib.nullcontext() if keys is None else seeded_torch(keys):
            return self.model.predict(self._seen(states), deterministic=self.deterministic)[0]

    def log_prob(self, states: np.ndarray, actions: Any) -> np.ndarray:
        """The log-probability (or its density) of actions in states, by the model's own distribution."""
        import torch  # noqa: PLC0415 # type: ignore[import-not-found] - the model's own library

        policy = self.model.policy
        with torch.no_grad():
            seen = policy.obs_to_tensor(self._seen(np.asarray(states, float)))[0]
            if callable(getattr(policy, "get_distribution", None)):
                taken = torch.as_tensor(np.asarray(actions), device=seen.device)
                return policy.get_distribution(seen).log_prob(taken).cpu().numpy()
            if not callable(getattr(getattr(policy, "actor", None), "get_action_dist_params", None)):
                raise ValueError("policy: this model has no distribution of actions to ask.")
            mean, deviation, more = policy.actor.get_action_dist_params(seen)
            drawn = policy.actor.action_dist.proba_distribution(mean, deviation, **more)
            taken = policy.scale_action(np.asarray(actions, np.float32))
            return drawn.log_prob(torch.as_tensor(taken, device=seen.device)).cpu().numpy()

    def _seen(self, states: np.ndarray) -> np.ndarray:
        seen = states.astype(np.float32)
        return seen if self.normalise is None else np.asarray(self.normalise(seen), np.float32)


@contextlib.contextmanager
def seeded_torch(keys: np.ndarray) -> Iterator[None]:
    """Torch's random numbers follow from `keys` in here, and are outside as if nothing had happened."""
    torch = sys.modules.get("torch")
    if torch is None:  # what the model draws from is its own affair
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.default_rng(keys.ravel()).integers(2**31)))
        yield


class OnHost(eqx.Module):
    """A policy that runs on the host: a function from a batch of states (N, d) to N actions.

    Compiled programs call it back. Such a call knows only 32-bit numbers in programs that have 64-bit types
    off, so numbers travel in two halves and lose nothing. What the function raises is raised again, with its
    own traceback, by the call that ran the program (`raising_failures`).
    """

    function: Any = eqx.field(static=True)
    shape: tuple[int, ...] | None = eqx.field(static=True, default=None)
    noisy: bool = eqx.field(static=True, default=False)

    def __call__(self, state: Float[Array, " d"], key: Any = None) -> Float[Array, " *k"]:
        shape = self.shape or ()
        halves = jax.ShapeDtypeStruct((2, *shape), jnp.float32)
        keys = () if key is None else (jax.random.key_data(key),)
        answer = _Callback(self.function, shape)
        high, low = jax.pure_callback(answer, halves, _split(state), *keys, vmap_method="expand_dims")
        return high.astype(jnp.result_type(float)) + low

    def answer(self, states: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        """The actions in a batch of states, without a compiled program in between."""
        given = self.function(states) if keys is None else self.function(states, keys)
        return _as_actions(given, len(states), self.shape or ())

    def log_prob(self, states: Any, actions: Any) -> np.ndarray:
        """The log-probability of actions in states, where the function can tell."""
        if not isinstance(self.function, Predict):
            raise ValueError("policy: a function has no log_prob; wrap a model by from_stable_baselines.")
        return self.function.log_prob(np.asarray(states, float), actions)


def _as_actions(given: Any, count: int, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.asarray(given, np.float64).reshape(count, *shape)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"policy: for {count} states it returned something that is not {count} actions of shape {shape} "
            f"({error})."
        ) from error


def _split(numbers: Any) -> Any:
    """Numbers of 64 bits as the sum of two of 32: all that matters of them."""
    module = jnp if isinstance(numbers, jax.Array) else np
    high = module.asarray(numbers, module.float32)
    return module.stack([high, module.asarray(numbers - high, module.float32)])


class _Callback:
    """What a compiled program calls: equal for equal functions, silent about failures until it is over."""

    def __init__(self, function: Any, shape: tuple[int, ...]):
        self.function, self.shape = function, shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Callback) and (self.function, self.shape) == (other.function, other.shape)

    def __hash__(self) -> int:
        return hash((self.function, self.shape))

    def __call__(self, halves: Any, *keys: Any) -> np.ndarray:
        halves = np.asarray(halves, np.float64)
        states = halves[..., 0, :] + halves[..., 1, :]
        batch = states.shape[:-1]
        rows = states.reshape(-1, states.shape[-1])
        keys = tuple(np.broadcast_to(np.asarray(key), (*batch, 2)).reshape(-1, 2) for key in keys)
        if _failures:
            return np.zeros((*batch, 2, *self.shape), np.float32)
        try:
            actions = _as_actions(self.function(rows, *keys), len(rows), self.shape)
        except Exception as error:  # raised again where Python can see it
            _failures.append(error)
            return np.zeros((*batch, 2, *self.shape), np.float32)
        return np.moveaxis(_split(actions), 0, 1).reshape(*batch, 2, *self.shape)


_failures: list[Exception] = []


@contextlib.contextmanager
def raising_failures() -> Iterator[None]:
    """Raise what a policy on the host raised while a compiled program ran in here."""
    yield
    if _failures:
        error = _failures[0]
        _failures.clear()
        raise error


def on_host(function: Callable[..., Any], width: int | None = None, *, noisy: bool = False) -> OnHost:
    """A policy from a function of a batch of states (N, d) that returns N actions, in NumPy or anything else.

    Args:
        width: How many numbers an action has; by default what the environment's actions have.
        noisy: Whether it draws actions at random: it is then also given keys (N, 2), whole numbers that
            `numpy.random.default_rng` takes, and the same keys must give the same actions.

    Example:
        >>> import gaussbell as gb, numpy
        >>> policy = gb.policies.on_host(lambda states: numpy.where(states[:, 1] >= 0, 2, 0))
        >>> float(policy(numpy.array([0.0, -0.1])))
        0.0
    """
    return OnHost(HostFunction(function), None if width is None else (width,), noisy)


def from_stable_baselines(model: Any, *, deterministic: bool = True, normalise: Any = None) -> OnHost:
    """The policy of a trained Stable-Baselines3 model, or of anything with its `predict`.

    policy = gaussbell.policies.from_stable_baselines(PPO.load("model"))

    A whole batch of states is one call of `predict`. `policy.log_prob(states, actions)` asks the model's own
    distribution.

    Args:
        deterministic: Whether actions are the model's most likely ones, or drawn from its distribution.
        normalise: The VecNormalize of the model's training, or a function of a batch of observations; by
            default the one that the model itself knows (`model.get_vec_normalize_env()`), if any.
    """
    if not callable(getattr(model, "predict", None)):
        raise ValueError(f"model={model!r}: give an object with Stable-Baselines3's `predict`.")
    if normalise is None:
        normalise = getattr(model, "get_vec_normalize_env", lambda: None)()
    normalise = getattr(normalise, "normalize_obs", normalise)
    if normalise is not None and not callable(normalise):
        raise ValueError(f"normalise={normalise!r}: give a VecNormalize or a function of observations.")
    space = getattr(model, "action_space", None)
    function = Predict(model, deterministic, normalise)
    return OnHost(function, None if space is None else tuple(space.shape), not deterministic)


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

    Example:
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

    Example:
        >>> import gaussbell as gb, jax.numpy as jnp
        >>> policy = gb.policies.EpsilonGreedy(gb.policies.Constant(0), num_actions=2, epsilon=0.2)
        >>> [f"{probability:.2f}" for probability in policy.probabilities(jnp.zeros(3))]
        ['0.90', '0.10']
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

    Args:
        width: The length of a state.
    """
    shape = actions.low.shape if isinstance(actions, BoxActions) else ()
    if not callable(policy):
        if callable(getattr(policy, "predict", None)):
            return read_policy(from_stable_baselines(policy), width, actions)
        raise ValueError(
            f"policy={policy!r}: give a function from a state of shape ({width},) to an action; for a "
            "Stable-Baselines3 model use gaussbell.policies.from_stable_baselines(model)."
        )
    if isinstance(policy, OnHost):
        if policy.shape not in (None, shape):
            raise ValueError(
                f"policy: its actions have shape {policy.shape}; actions here are {actions}, of shape "
                f"{shape}."
            )
        return OnHost(policy.function, shape, policy.noisy)
    if isinstance(policy, EpsilonGreedy):
        return EpsilonGreedy(read_policy(policy.policy, width, actions), policy.num_actions, policy.epsilon)
    state, key = jax.ShapeDtypeStruct((width,), jnp.float64), jax.eval_shape(lambda: jax.random.key(0))
    try:
        action = jax.eval_shape(lambda s, k: choose(policy, s, k), state, key)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        return OnHost(HostFunction(policy, each=True), shape, is_noisy(policy))
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


@in_double
def choose_all(policy: Policy, states: Any, key: PRNGKeyArray | int = 0) -> Any:
    """The policy's actions in a batch of states; one that runs on the host is asked there, at once."""
    keys = jax.random.split(as_key(key), len(states)) if is_noisy(policy) else None
    if isinstance(policy, OnHost) and not is_traced((states, keys)):
        raw = None if keys is None else np.asarray(jax.random.key_data(keys))
        return policy.answer(np.asarray(states, float), raw)
    with raising_failures():
        return keep_on_host(_choose_all(policy, jnp.asarray(states), keys))


@eqx.filter_jit
def _choose_all(policy: Policy, states: Any, keys: Any) -> Any:
    return jax.vmap(lambda s, k: choose(policy, s, k))(states, keys)


def check_actions(actions: Actions, chosen: Any, states: Any) -> None:
    """ValueError where a policy chose an illegal action, with the first such state."""
    legal = np.asarray(actions.contains(chosen))
    if not legal.all():
        worst = int(np.argmin(legal))
        raise ValueError(
            f"policy: it chose {np.asarray(chosen)[worst]} in state {np.asarray(states)[worst]} "
            f"({int((~legal).sum())} of {len(legal)} choices are illegal); actions here are {actions}."
        )
