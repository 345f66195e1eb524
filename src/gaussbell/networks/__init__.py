"""What is fitted: the paper's multi-layer perceptron, any other network, and the inputs before it."""

from gaussbell.networks import encodings, features
from gaussbell.networks.derivatives import differential_map
from gaussbell.networks.mlp import MLP, bent_identity, identity, softplus, tanh
from gaussbell.networks.value_function import (
    BatchedNetwork,
    FeatureNetwork,
    PerAction,
    ValueFunction,
    redrawn,
)

__all__ = [
    "MLP",
    "BatchedNetwork",
    "FeatureNetwork",
    "PerAction",
    "ValueFunction",
    "bent_identity",
    "differential_map",
    "encodings",
    "features",
    "identity",
    "redrawn",
    "softplus",
    "tanh",
]
