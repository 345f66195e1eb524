"""What policy iteration sees of an environment, and how tasks judge it."""

import jax
import numpy as np

import gaussbell as gb
from gaussbell.control import Replay, Starts, Uniform, Visited
from gaussbell.control.experience import Experience
from gaussbell.control.recipe import NotWorse


def test_replayed_rows_are_the_process_that_is_evaluated():
    env = gb.environments.CartPole()
    seen = Experience(env, jax.random.key(0))
    seen.rolled = seen.play(gb.policies.Constant(1), 3, 500, "roll-outs", key=0)
    data = Replay(first=20, more=5, visited=100, transitions_per_fit=200).transitions(
        seen, gb.policies.Constant(0), 0.0, jax.random.key(1)
    )
    assert len(data) == 200 and np.all(np.asarray(data.discount) == env.discount)
    again = env.simulate(
        gb.policies.Constant(0), np.asarray(data.state), [1], action=np.asarray(data.action)[:, 0]
    )
    np.testing.assert_allclose(again.next_state[0], data.next_state, atol=1e-12)
    np.testing.assert_array_equal(again.reward[0], data.reward)
    tried = len(seen.rolled)  # one other action at each visited state
    assert seen.counts["training"] == 40 + tried and (np.asarray(data.reward) == -1).any()


def test_caution_is_the_probability_of_a_random_action():
    seen = Experience(gb.environments.CartPole(), jax.random.key(0))
    rows = Replay(first=5, transitions_per_fit=10)
    data = rows.transitions(seen, gb.policies.Constant(1), 0.2, jax.random.key(1))
    np.testing.assert_allclose(np.asarray(data.probability), np.tile([0.1, 0.9], (10, 1)))


def test_samplers():
    seen = Experience(gb.environments.CartPole(), jax.random.key(0))
    key = jax.random.key(1)
    assert Visited(4)(seen, key).shape == (4, 4)
    seen.rolled = seen.play(gb.policies.Constant(1), 1, 500, "roll-outs", key=0)
    visited = Visited(4)(seen, key)
    assert all((seen.rolled.state == state).all(axis=1).any() for state in visited)
    mixed = gb.control.Mixed(Starts(3), Starts(2, (1, 1, 0, 0)), Uniform(4))(seen, key)
    assert mixed.shape == (9, 4) and not mixed[:3].any() and mixed[3:5, :2].any() and not mixed[3:5, 2:].any()


def test_paths_of_the_evaluated_policy_are_followed_and_others_are_not():
    env, ahead = gb.environments.MountainCar(ending="end"), 10
    along = gb.policies.AlongVelocity()
    seen = Experience(env, jax.random.key(0))
    seen.rolled = seen.followed = seen.play(along, 3, 200, "roll-outs", key=0)
    rows = Replay(first=5, visited=5, transitions_per_fit=20, paths=80, ahead=ahead)
    before = seen.counts["roll-outs"]
    data = rows.transitions(seen, along, 0.1, jax.random.key(1)).take(np.arange(20, 100))
    assert seen.counts["roll-outs"] == before
    again = env.simulate(
        along, np.asarray(data.state), [ahead], action=np.asarray(data.action)[:, 0].astype(int)
    )
    np.testing.assert_allclose(data.reward, again.reward[0], atol=1e-12)
    going = again.discount[0] > 0
    assert 0.5 < going.mean() < 1
    np.testing.assert_allclose(np.asarray(data.discount)[:, 0], again.discount[0], atol=1e-12)
    np.testing.assert_allclose(np.asarray(data.next_state)[going, 0], again.next_state[0][going], atol=1e-12)
    np.testing.assert_array_equal(np.asarray(data.probability), np.tile([1.0, 0, 0], (80, 1)))
    other = rows.transitions(seen, gb.policies.Constant(1), 0.0, jax.random.key(1)).take(np.arange(20, 100))
    assert set(np.asarray(other.reward)) <= {0.0, -1.0}


def test_scores_of_tasks():
    log = gb.Log(
        np.zeros((5, 1)),
        [0] * 5,
        [1.0, 2.0, 3.0, 4.0, 5.0],
        np.zeros((5, 1)),
        [0, 1, 0, 0, 0],
        [0, 0, 0, 0, 1],
    )
    assert list(gb.tasks.Survive(3).score(log)) == [2, 3] and not gb.tasks.Survive(3).is_met([2, 3])
    assert gb.tasks.Survive(3).is_confirmed([3, 3]) and gb.tasks.Survive(3).is_refuted([2, 3])
    assert gb.tasks.Survive(3, lasting=9).is_met([3, 3]) and gb.tasks.Survive(3, lasting=9).is_refuted([9, 8])
    assert list(gb.tasks.Reach(within=2, length=9).score(log)) == [-2, -9]
    assert list(gb.tasks.Earn(at_least=0).score(log)) == [3, 12]


def test_a_hopeless_confirmation_ends_early():
    for task in (gb.tasks.Reach(within=110, length=200), gb.tasks.Earn(at_least=-110)):
        assert not task.is_refuted([-150.0] * 19) and task.is_refuted([-150.0] * 20)
        assert not task.is_refuted([-100.0, -125.0] * 10)


def test_how_much_worse_may_be_kept():
    assert NotWorse().accepts(5.0, 5.0) and not NotWorse().accepts(4.9, 5.0)
    forgiving = NotWorse(slack=0.3)
    assert forgiving.accepts(-129.0, -100.0) and not forgiving.accepts(-131.0, -100.0)
    assert forgiving.accepts(-500.0, -np.inf)
