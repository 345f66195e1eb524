"""Policies and features."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gaussbell as gb

CAR = gb.environments.MountainCar()
STATES = np.asarray(CAR.sample_states(30, key=3))


class Model:
    """What Stable-Baselines3 models look like to a caller."""

    def predict(self, observations, deterministic=False):
        assert deterministic and observations.dtype == np.float32
        return np.where(observations[:, 1] >= 0, 2, 0), None


class Normaliser:
    def normalize_obs(self, observations):
        return -observations


def test_models_draw_their_actions_and_normalise_what_they_see():
    class Drawing(Model):
        def predict(self, observations, deterministic=False):
            return np.where(observations[:, 1] >= 0, 2, 0) if deterministic else np.ones(
                len(observations)
            ), None

        def get_vec_normalize_env(self):
            return Normaliser()

    known = gb.policies.from_stable_baselines(Drawing())
    given = gb.policies.from_stable_baselines(Model(), normalise=Normaliser())
    plain = gb.policies.from_stable_baselines(Model())
    assert np.array_equal(known.answer(STATES), given.answer(STATES))
    assert np.array_equal(given.answer(-STATES), plain.answer(STATES))
    drawn = gb.policies.from_stable_baselines(Drawing(), deterministic=False)
    assert drawn.noisy and (drawn.answer(STATES, np.zeros((30, 2), np.uint32)) == 1).all()
    with pytest.raises(ValueError, match="normalise=3"):
        gb.policies.from_stable_baselines(Model(), normalise=3)


def slow(state):
    return 2 if state[1] >= 0 else 0  # Python's if: not for JAX


@pytest.mark.parametrize("policy", [gb.policies.from_stable_baselines(Model()), slow], ids=["sb3", "python"])
def test_any_callable_is_a_policy(policy):
    wanted = CAR.simulate(CAR.along_velocity, STATES, [1, 5])
    found = CAR.simulate(policy, STATES, [1, 5])
    assert np.array_equal(found.next_state, wanted.next_state) and np.array_equal(found.reward, wanted.reward)


def test_illegal_actions_are_named():
    with pytest.raises(
        ValueError, match=r"policy: it chose 5 in state .* actions here are whole numbers from 0 to 2"
    ):
        gb.sample_transitions(CAR, lambda state: 5, 10, key=0)
    with pytest.raises(ValueError, match="policy: it chose an illegal action on the way"):
        gb.sample_transitions(CAR, lambda state: jnp.where(state[0] < -1.19, 9, 0), 50, key=0, n_step=100)
    with pytest.raises(ValueError, match=r"policy: it returned an action of shape \(2,\)"):
        gb.sample_transitions(CAR, lambda state: state, 10, key=0)
    with pytest.raises(ValueError, match="policy='left': give a function"):
        gb.sample_transitions(CAR, "left", 10, key=0)
    with pytest.raises(ValueError, match=r"policy: it failed on a state of shape \(2,\)"):
        gb.sample_transitions(CAR, lambda state: state.nothing, 10, key=0)


def test_greedy_takes_the_largest_q():
    network = gb.FeatureNetwork(CAR.features(q=True), gb.MLP((9, 8, 1), key=1))
    policy = gb.policies.Greedy(network, 3)
    q = np.stack([network(np.column_stack([STATES, np.full(30, a)])) for a in range(3)], axis=1)
    assert np.array_equal(jax.vmap(policy)(STATES), q.argmax(axis=1))


def test_epsilon_greedy_draws_its_probabilities():
    policy = gb.policies.EpsilonGreedy(CAR.along_velocity, 3, epsilon=0.3)
    keys = jax.random.split(jax.random.key(0), 5000)
    drawn = jax.vmap(lambda key: policy(jnp.array([0.0, -0.1]), key))(keys)
    shares = np.bincount(np.asarray(drawn), minlength=3) / 5000
    assert np.abs(shares - policy.probabilities(jnp.array([0.0, -0.1]))).max() < 0.02


def test_features_compose():
    scaled = gb.features.Scale(CAR.low, CAR.high)
    made = gb.features.Concatenate(scaled, gb.features.Chain(scaled, gb.features.Fourier(2)))(STATES)
    by_hand = np.asarray(CAR.scale(STATES))
    angles = np.pi * np.column_stack([by_hand, 2 * by_hand])
    assert np.allclose(made, np.column_stack([by_hand, np.sin(angles), np.cos(angles)]))
    turned = gb.features.Angles((0,))(STATES)
    assert np.allclose(turned, np.column_stack([np.sin(STATES[:, 0]), np.cos(STATES[:, 0]), STATES[:, 1]]))
    acts = gb.features.PolicyAction(CAR.along_velocity, CAR.actions, 2)(STATES)
    assert np.array_equal(acts[:, 0], np.where(STATES[:, 1] >= 0, 1, -1))
    assert gb.features.OneHot(4, 1)(jnp.array([9.0, 2.0])).tolist() == [0, 0, 1, 0]
    assert gb.features.Columns((1,))(STATES).shape == (30, 1)


def test_a_network_behind_features_is_the_network_on_featured_data():
    data = gb.sample_transitions(CAR, CAR.along_velocity, 40, key=0, n_step=5)
    made = CAR.features(CAR.along_velocity)
    inner = gb.MLP((7, 5, 1), key=0)
    one = gb.evaluate(gb.FeatureNetwork(made, inner), data, max_steps=15)
    by_hand = gb.Transitions(made(data.state), data.reward, made(data.next_state), data.discount)
    other = gb.evaluate(inner, by_hand, max_steps=15)
    assert np.array_equal(one.history.msbe, other.history.msbe)
    assert np.allclose(one.network(STATES), other.network(made(STATES)))
    assert one.network.num_parameters == inner.num_parameters
    assert np.allclose(jax.vmap(one.network)(STATES), one.network(STATES))


def test_functions_on_the_host_that_draw_are_given_keys():
    def draw(states, keys):
        return [np.random.default_rng(key).integers(3) for key in keys]

    policy = gb.policies.on_host(draw, noisy=True)
    keys = np.arange(60, dtype=np.uint32).reshape(30, 2)
    assert policy.noisy and len(set(policy.answer(STATES, keys).tolist())) == 3
    assert np.array_equal(policy.answer(STATES, keys), policy.answer(STATES, keys))
