"""The last layer of a fit by the fixed point of its Bellman equation, which noise does not bias (LSTD)."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.neighbours import successors_of
from gaussbell.networks.mlp import MLP
from gaussbell.networks.value_function import FeatureNetwork, without_features
from gaussbell.numerics.precision import in_double

RIDGE = 1e-6
"""How hard the old last layer holds on, as a share of the mean diagonal of the system."""


@in_double
def fixed_point(network: Any, data: Transitions) -> Any:
    """The network whose last layer solves the projected Bellman equation of `data`, the others as they are.

        sum_i w_i phi(s_i) (phi(s_i) - discount_i phi(s'_i))' theta = sum_i w_i reward_i phi(s_i)

    phi are the units of the last hidden layer and a one: LSTD on the features that a fit has learned. A
    single successor of a random process biases a squared residual (double sampling); here it enters only
    once, so the solution has no such bias. What is assumed instead: states are drawn as the policy visits
    them. With others, of another policy say, the fixed point can be far off where the features cannot hold
    the value.

    Args:
        network: An MLP, or one behind features, that was fitted to such data.

    References:
        Bradtke and Barto (1996), Linear least-squares algorithms for temporal difference learning.

    Example:
        >>> import gaussbell as gb
        >>> data = gb.Transitions([[0.0], [1.0]], [1.0, 0.0], [[1.0], [0.0]], discount=0.9)
        >>> corrected = gb.fixed_point(gb.MLP((1, 3, 1)), data)
        >>> bool(gb.msbe(corrected, data) < 1e-9)
        True
    """
    if not can_have_fixed_point(network):
        raise ValueError(
            f"network: {type(without_features(network)).__name__} has no last layer that is known to be "
            "linear; give a gaussbell.MLP, alone or in a FeatureNetwork."
        )
    phi, old = _last_features(network, data.inputs), np.asarray(without_features(network).weights[-1])[:, 0]
    successors, discount = successors_of(data)
    ahead = _last_features(network, successors.reshape(discount.size, -1)).reshape(*discount.shape, -1)
    following = (discount[..., None] * ahead).sum(axis=1)
    weighted = np.asarray(data.weight)[:, None] * phi
    system, target = weighted.T @ (phi - following), weighted.T @ np.asarray(data.reward)
    ridge = RIDGE * np.trace(system) / len(system) * np.eye(len(system))
    last = np.linalg.lstsq(system + ridge, target + ridge @ old)[0]
    fitted = without_features(network)
    changed = eqx.tree_at(lambda inner: inner.weights[-1], fitted, jnp.asarray(last[:, None]))
    return FeatureNetwork(network.features, changed) if isinstance(network, FeatureNetwork) else changed


def can_have_fixed_point(network: Any) -> bool:
    """Is the last layer of a network known to be linear?"""
    return type(without_features(network)) is MLP


def _last_features(network: Any, inputs: Any) -> np.ndarray:
    """The units of the last hidden layer, and a one."""
    made = network.features if isinstance(network, FeatureNetwork) else (lambda x: x)
    return np.asarray(_hidden(without_features(network), made(jnp.asarray(inputs))))


@eqx.filter_jit
def _hidden(network: MLP, phi: Float[Array, "N d"]) -> Float[Array, "N k"]:
    for weight in network.weights[:-1]:
        phi = network.activation(phi @ weight[:-1] + weight[-1])
    return jnp.concatenate([phi, jnp.ones_like(phi[:, :1])], axis=1)
