"""Value functions that others made, as functions of a batch of states: what an audit asks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gaussbell.networks.host_values import HostValues


def read_critic(critic: Any, policy: Callable[[np.ndarray], np.ndarray]) -> HostValues:
    """A critic as a function of states, whatever it came from.

    Args:
        critic: A function of a batch of states (one of our networks, say); a Stable-Baselines3 model, whose
            state value (PPO, A2C) or Q-factor of the policy's action (DQN, SAC, TD3) is asked, with the
            observations and rewards of its VecNormalize; or anything with d3rlpy's `predict_value`.
        policy: A batch of states to the actions that are taken there, for Q-factors.
    """
    if isinstance(critic, HostValues):
        return critic
    if hasattr(critic, "policy") and callable(getattr(critic, "predict", None)):
        return _from_stable_baselines(critic, policy)
    if callable(getattr(critic, "predict_value", None)):
        return HostValues(
            lambda states: critic.predict_value(states.astype(np.float32), policy(states)),
            getattr(getattr(critic, "config", None), "gamma", None),
        )
    if not callable(critic):
        raise ValueError(
            f"critic={critic!r}: give a function of a batch of states, a Stable-Baselines3 model, or an "
            "object with d3rlpy's `predict_value`."
        )
    return HostValues(critic)


def _from_stable_baselines(model: Any, policy: Callable[[np.ndarray], np.ndarray]) -> HostValues:
    learned = model.policy
    normaliser = getattr(model, "get_vec_normalize_env", lambda: None)()

    def values(states: np.ndarray) -> np.ndarray:
        import torch  # noqa: PLC0415 # type: ignore[import-not-found] - the model's own library

        seen = states.astype(np.float32)
        if normaliser is not None:
            seen = np.asarray(normaliser.normalize_obs(seen), np.float32)
        with torch.no_grad():
            tensor = learned.obs_to_tensor(seen)[0]
            if callable(getattr(learned, "predict_values", None)):
                found = learned.predict_values(tensor)
            elif hasattr(learned, "q_net"):
                chosen = torch.as_tensor(np.asarray(policy(states)), dtype=torch.long, device=tensor.device)
                found = learned.q_net(tensor).gather(1, chosen.reshape(-1, 1))
            elif hasattr(learned, "critic"):
                taken = learned.scale_action(np.asarray(policy(states), np.float32))
                pairs = learned.critic(tensor, torch.as_tensor(taken, device=tensor.device))
                found = torch.cat(pairs, dim=1).min(dim=1).values
            else:
                raise ValueError("critic: this model has no value function that is known here.")
        return _in_units_of_rewards(found.cpu().numpy().reshape(-1), normaliser)

    return HostValues(values, getattr(model, "gamma", None))


def _in_units_of_rewards(values: np.ndarray, normaliser: Any) -> np.ndarray:
    """VecNormalize divides rewards by the deviation of returns; values come back in the rewards' own unit."""
    if normaliser is None or not getattr(normaliser, "norm_reward", False):
        return values
    return values * float(np.sqrt(normaliser.ret_rms.var + normaliser.epsilon))
