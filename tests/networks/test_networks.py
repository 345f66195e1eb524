import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gaussbell as gb
from gaussbell.networks.features import Standardise
from gaussbell.networks.value_function import mean_network


@pytest.mark.parametrize(
    ("sizes", "count"), [((2, 7, 1), 29), ((2, 10, 10, 1), 151), ((5, 10, 10, 1), 181), ((3, 1), 4)]
)
def test_number_of_parameters(sizes, count):
    network = gb.MLP(sizes, key=0)
    assert network.num_parameters == count == sum(w.size for w in network.weights)
    assert network.sizes == sizes


def test_weights_are_homogeneous_and_uniform():
    network = gb.MLP((50, 60, 1), key=0)
    assert [w.shape for w in network.weights] == [(51, 60), (61, 1)]
    weights = np.asarray(network.weights[0])
    assert weights.min() >= -1 and weights.max() <= 1
    assert abs(weights.mean()) < 0.05 and abs(weights.std() - 3**-0.5) < 0.02


def test_bias_is_the_last_row():
    network = gb.MLP((2, 3, 1), jnp.tanh, key=0)
    first, last = network.weights
    x = np.array([0.3, -0.4])
    wanted = np.append(np.tanh(np.append(x, 1) @ first), 1) @ last
    assert float(network(x)) == pytest.approx(float(wanted[0]), rel=1e-14)


def test_one_input_or_a_batch():
    network = gb.MLP((2, 3, 1), key=0)
    batch = np.random.default_rng(0).normal(size=(4, 2))
    assert network(batch).shape == (4,)
    assert network(batch[0]).shape == ()
    assert np.allclose(network(batch)[0], network(batch[0]), rtol=1e-14)


def test_whole_number_and_key_give_the_same_network():
    first, second = gb.MLP((2, 3, 1), key=7), gb.MLP((2, 3, 1), key=jax.random.key(7))
    assert np.array_equal(first.weights[0], second.weights[0])


def test_bent_identity():
    x = np.array([-2.0, 0.0, 3.0])
    assert np.allclose(gb.networks.bent_identity(x), (np.sqrt(x**2 + 1) - 1) / 2 + x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sizes": (2,)}, "sizes"),
        ({"sizes": (2, 0, 1)}, "sizes"),
        ({"sizes": 5}, "sizes=5"),
        ({"sizes": (2, 3, 2)}, "the last size must be 1"),
        ({"sizes": (2, 3, 1), "activation": "tanh"}, "activation"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(ValueError, match=message):
        gb.MLP(**arguments, key=0)


@pytest.mark.parametrize("key", [None, 1.0, 2**70, -1, "a"])
def test_mistakes_in_the_key(key):
    with pytest.raises(ValueError, match="key="):
        gb.MLP((2, 3, 1), key=key)


def test_input_of_the_wrong_width():
    with pytest.raises(ValueError, match=r"inputs: shape \(3,\)"):
        gb.MLP((2, 3, 1), key=0)(np.zeros(3))


def test_sizes_may_be_an_array_and_keys_old_style():
    assert gb.MLP(np.array([2, 8, 1]), key=jax.random.PRNGKey(0)).sizes == (2, 8, 1)


def test_the_mean_of_two_networks_is_one_network():
    states = np.random.default_rng(0).normal(size=(7, 2))
    features = Standardise(np.ones(2), np.full(2, 2.0))
    for sizes in ((2, 1), (2, 5, 1), (2, 5, 4, 1), (2, 5, 4, 3, 1)):
        one, other = (gb.FeatureNetwork(features, gb.MLP(sizes, key=key)) for key in (0, 1))
        mean = mean_network(one, other)
        np.testing.assert_allclose(mean(states), (one(states) + other(states)) / 2, rtol=1e-5)
        assert mean.network.sizes == (2, *(2 * n for n in sizes[1:-1]), 1)
