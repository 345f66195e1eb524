"""Logged data: cutting paths, files, frames, Minari, and offline evaluation."""

import gymnasium
import minari
import numpy as np
import pandas
import polars
import pytest

import gaussbell as gb

TWO = gb.actions.DiscreteActions(2)


def small_log():
    """Two episodes: three steps to an end, two steps to a time limit."""
    return gb.Log(
        state=[[0.0], [1.0], [2.0], [10.0], [11.0]],
        action=[0, 1, 0, 1, 1],
        reward=[1.0, 2.0, 4.0, 8.0, 16.0],
        next_state=[[1.0], [2.0], [np.nan], [11.0], [12.0]],
        terminated=[0, 0, 1, 0, 0],
        truncated=[0, 0, 0, 0, 1],
        actions=TWO,
    )


def test_steps_are_cut_at_ends_and_time_limits():
    data = small_log().transitions(discount=0.5, n_step=3)
    assert data.reward.tolist() == [1 + 0.5 * 2 + 0.25 * 4, 2 + 0.5 * 4, 4, 8 + 0.5 * 16, 16]
    assert data.discount.tolist() == [0, 0, 0, 0.25, 0.5]
    assert data.next_state[3:].tolist() == [[12.0], [12.0]]


def test_steps_are_cut_where_the_policy_would_do_something_else():
    data = small_log().transitions(discount=0.5, n_step=3, policy=lambda state: 1)
    # The first action is the log's; after it step 1 agrees (action 1), step 2 does not (action 0).
    assert data.reward.tolist() == [1 + 0.5 * 2, 2, 4, 8 + 0.5 * 16, 16]
    assert data.discount.tolist() == [0.25, 0.5, 0, 0.25, 0.5]
    assert data.next_state[0].tolist() == [2.0] and (np.asarray(data.next_action) == 1).all()
    assert data.action[:, 0].tolist() == [0, 1, 0, 1, 1]


def test_random_policies_have_all_actions_as_successors():
    policy = gb.policies.EpsilonGreedy(gb.policies.Constant(1), 2, epsilon=0.4)
    data = small_log().transitions(discount=0.5, policy=policy)
    assert data.probability.tolist() == [[pytest.approx(0.2), pytest.approx(0.8)]] * 5
    assert data.next_inputs[0].tolist() == [[1.0, 0.0], [1.0, 1.0]]


def test_logs_agree_with_simulation():
    """On-policy rows of a log are what simulating on from its states gives."""
    car = gb.environments.MountainCar(ending="end")
    log = car.record(car.along_velocity, episodes=4, length=150, key=0)
    data = log.transitions(discount=0.99, n_step=30)
    rows = np.flatnonzero(np.asarray(data.discount) == pytest.approx(0.99**30))[::40]
    paths = car.simulate(car.along_velocity, log.state[rows], [30])
    assert np.allclose(paths.reward[0], np.asarray(data.reward)[rows])
    assert np.allclose(paths.next_state[0], np.asarray(data.next_state)[rows])


def test_messages_of_a_log():
    with pytest.raises(ValueError, match="reward: 1 of 2 hold NaN or infinity"):
        gb.Log(np.zeros((2, 1)), [0, 0], [np.nan, 0.0], np.zeros((2, 1)))
    with pytest.raises(ValueError, match="action: 3 rows; there are 2 states"):
        gb.Log(np.zeros((2, 1)), [0, 0, 1], [0.0, 0.0], np.zeros((2, 1)))
    with pytest.raises(ValueError, match="actions: the log does not say which are legal"):
        gb.Log(np.zeros((2, 1)), [0, 0], [0.0, 0.0], np.zeros((2, 1))).transitions(
            discount=0.9, policy=lambda s: 0
        )
    with pytest.raises(ValueError, match=r"policy: it chose 1\.0 in state"):
        log = small_log()
        gb.Log(
            log.state, log.action, log.reward, log.state, actions=gb.actions.DiscreteActions(1)
        ).transitions(discount=0.9, policy=lambda s: 0)


FIELDS = ("state", "action", "reward", "terminated", "truncated", "episode")


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_files_read_back_as_written(tmp_path, suffix):
    log = small_log()
    back = gb.datasets.read(gb.datasets.write(tmp_path / f"log.{suffix}", log), actions=TWO)
    assert all(np.array_equal(getattr(log, name), getattr(back, name)) for name in FIELDS)
    data = log.transitions(discount=0.5, policy=lambda state: 1)
    again = gb.datasets.read_transitions(gb.datasets.write(tmp_path / f"data.{suffix}", data))
    assert isinstance(again, gb.Transitions)
    assert np.array_equal(again.inputs, data.inputs) and np.array_equal(again.discount, data.discount)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_several_successors_in_a_file(tmp_path):
    data = gb.environments.exact_transitions(gb.environments.ChainWalk(4))
    back = gb.datasets.read_transitions(gb.datasets.write(tmp_path / "data.npz", data))
    assert np.array_equal(back.probability, data.probability)
    with pytest.raises(ValueError, match="several successors do not fit a table"):
        gb.datasets.write(tmp_path / "data.parquet", data)


def test_frames():
    columns = {
        "x": [0.0, 1.0, 5.0],
        "v": [2.0, 3.0, 4.0],
        "push": [0, 1, 1],
        "r": [1.0, 2.0, 3.0],
        "done": [0, 1, 0],
    }
    names = {"state": ["x", "v"], "action": "push", "reward": "r", "terminated": "done"}
    for frame in (columns, pandas.DataFrame(columns), polars.DataFrame(columns)):
        log = gb.datasets.from_frame(frame, **names)
        # The last step has no successor in the frame, so it is dropped; the second has ended.
        assert log.state.tolist() == [[0.0, 2.0], [1.0, 3.0]] and log.next_state[0].tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="state: there is no column 'y'; there are x, v"):
        gb.datasets.from_frame(columns, state="y")
    with pytest.raises(ValueError, match="reward: the frame has columns"):
        gb.datasets.from_frame({"state": [0.0], "action": [1]})
    with pytest.raises(ValueError, match="frame: got int"):
        gb.datasets.from_frame(3)


def test_bad_files(tmp_path):
    whole = gb.datasets.write(tmp_path / "log.parquet", small_log()).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut\.parquet: cannot be read as Parquet .* cut short"):
        gb.datasets.read(tmp_path / "cut.parquet")
    (tmp_path / "bad.npz").write_bytes(b"PK no")
    with pytest.raises(ValueError, match=r"bad\.npz: cannot be read as a NumPy file"):
        gb.datasets.read(tmp_path / "bad.npz")
    np.savez(tmp_path / "pickled.npz", state=np.array([{}], object))
    with pytest.raises(ValueError, match="cannot be read as a NumPy file"):
        gb.datasets.read(tmp_path / "pickled.npz")
    with pytest.raises(ValueError, match="there is no such file"):
        gb.datasets.read(tmp_path / "none.parquet")
    (tmp_path / "log.txt").write_text("x")
    with pytest.raises(ValueError, match="its kind is not known"):
        gb.datasets.read(tmp_path / "log.txt")


@pytest.mark.filterwarnings("ignore")
def test_minari_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(gymnasium.make("CartPole-v1", max_episode_steps=8))
    rewards = []
    for seed in range(3):
        env.reset(seed=seed)
        for _ in range(8):
            step = env.step(seed % 2)
            rewards.append(step[1])
            if step[2] or step[3]:
                break
    env.create_dataset("pole/short-v0", algorithm_name="constant")
    log = gb.datasets.from_minari("pole/short-v0")
    assert len(log) == len(rewards) and log.starts.shape == (3, 4) and log.actions.count == 2
    assert log.reward.tolist() == rewards and np.array_equal(log.next_state[0], log.state[1])
    assert set(log.action[log.episode == 1]) == {1.0}
    with pytest.raises(ValueError, match="minari:pole/none-v0: it cannot be loaded"):
        gb.datasets.from_minari("pole/none-v0")


def test_offline_evaluation_finds_the_value():
    """A slippery walk, logged by a random policy: the value of always going right is known exactly."""
    walk = gb.environments.ChainWalk(6, success=1.0, discount=0.8)
    env = gb.environments.FiniteEnvironment(walk)
    random = gb.policies.EpsilonGreedy(gb.policies.Constant(0), 2, epsilon=1.0)
    log = env.record(random, episodes=30, length=20, key=0)
    found = gb.evaluate_offline(
        log, gb.policies.Constant(1), discount=0.8, num_bootstrap=2, max_steps=40, key=1
    )
    truth = walk.under(np.ones(6, int)).values[0]
    assert abs(found.value - truth) < 0.05
    spread = found.bootstrap.std(ddof=1)
    wide = (found.bootstrap.mean() - 1.645 * spread, found.bootstrap.mean() + 1.645 * spread)
    np.testing.assert_allclose(found.interval, (min(found.value, wide[0]), max(found.value, wide[1])))
    assert len(set(found.bootstrap)) == 2 and spread > 0, "refits differ by episodes and weights"
    assert found.assessment.checks.neighbour_value == pytest.approx(truth, abs=1e-6)
    assert 0.4 < found.assessment.checks.action_match_rate < 0.6 and not found.warnings
    assert "confidence interval" in str(found) and found.level == 0.9


def test_offline_evaluation_says_what_is_wrong():
    log = small_log()
    flat = gb.Log(log.state, [0, 0, 0, 0, 0], np.ones(5), log.state + 0.1, actions=TWO)
    found = gb.evaluate_offline(flat, gb.policies.Constant(1), num_bootstrap=0, max_steps=5)
    assert found.assessment.trusted is False and found.interval is None
    said = " ".join(found.warnings)
    assert (
        "Only 0.0% of the logged actions match" in said
        and "No chain of transitions reaches a second reward" in said
    )


def test_a_thinned_log_says_so_and_a_given_network_is_redrawn_for_refits():
    walk = gb.environments.FiniteEnvironment(gb.environments.ChainWalk(6, success=1.0, discount=0.8))
    log = walk.record(
        gb.policies.EpsilonGreedy(gb.policies.Constant(0), 2, epsilon=1.0), episodes=1, length=40
    )
    network = gb.MLP((2, 5, 1), key=3)
    options = {"discount": 0.8, "max_steps": 0, "num_bootstrap": 2}
    found = gb.evaluate_offline(log, gb.policies.Constant(1), network, max_transitions=25, **options)
    assert len(found.transitions) == 25 and "25 of 40 transitions" in str(found)
    # With one episode and no steps, refits differ by their weights alone.
    assert len({found.value, *found.bootstrap}) == 3


def test_a_frame_comes_back_and_actions_are_checked():
    log = small_log()
    again = gb.datasets.from_frame(log.to_frame(), actions=TWO)
    assert all(np.array_equal(getattr(log, name), getattr(again, name)) for name in FIELDS)
    with pytest.raises(ValueError, match=r"actions=2: give gaussbell.actions.DiscreteActions"):
        gb.datasets.from_frame(log.to_frame(), actions=2)
    with pytest.raises(ValueError, match="actions: the log does not say which are legal"):
        gb.evaluate_offline(gb.datasets.from_frame(log.to_frame()), gb.policies.Constant(1))


def test_episodes_may_be_labelled_by_texts():
    table = {"state": [0.0, 1.0, 2.0, 3.0], "action": [0, 1, 0, 1], "reward": [1.0] * 4}
    table |= {"run": ["run-b", "run-b", "run-a", "run-a"], "terminated": [0, 1, 0, 1]}
    log = gb.datasets.from_frame(table, episode="run")
    assert log.episode.tolist() == [0, 0, 1, 1] and log.starts.ravel().tolist() == [0.0, 2.0]


def test_texts_elsewhere_are_refused_with_the_remedy():
    table = {"state": [0.0, 1.0], "cmd": ["LEFT", "RIGHT"], "reward": [1.0, 1.0], "terminated": [0, 1]}
    with pytest.raises(ValueError, match=r"action \(column cmd\): .*'LEFT'.*code each text"):
        gb.datasets.from_frame(table, action="cmd")


def test_a_frame_that_does_not_say_where_episodes_end_is_told_of():
    table = {"state": [0.0, 1.0, 2.0], "action": [0, 1, 0], "reward": [1.0] * 3}
    with pytest.warns(UserWarning, match="read as one episode that never ends"):
        log = gb.datasets.from_frame(table)
    assert len(log) == 2 and not log.terminated.any()


@pytest.mark.parametrize("labels", [["b", "b", "a"], [0.2, 0.2, 0.7], [2**60, 2**60, 2**60 + 1]], ids=str)
def test_labels_of_any_kind_tell_episodes_apart(labels):
    table = {"state": [0.0, 1.0, 2.0], "action": [0, 1, 0], "reward": [1.0] * 3, "next_state": [1.0] * 3}
    assert gb.datasets.from_frame(table | {"episode": labels}).episode.tolist() == [0, 0, 1]


def test_steps_without_a_label_or_an_end_are_refused():
    table = {"state": [0.0, 1.0], "action": [0, 1], "reward": [1.0] * 2, "next_state": [1.0] * 2}
    with pytest.raises(ValueError, match=r"episode .*some steps have no label"):
        gb.datasets.from_frame(table | {"episode": [0.0, np.nan]})
    with pytest.raises(ValueError, match="terminated"):
        gb.datasets.from_frame(table | {"terminated": [0.0, np.nan]})


def test_a_csv_file_of_pandas_is_the_frame(tmp_path):
    frame = pandas.DataFrame({"state": [0.0, 1.0, 2.0], "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0]})
    frame["terminated"], frame["run"] = [False, True, False], ["x", "x", "y"]
    frame["next_state"] = [1.0, 2.0, 3.0]
    frame.to_csv(tmp_path / "log.csv", index=False)
    log = gb.datasets.read(tmp_path / "log.csv", episode="run")
    assert log.terminated.tolist() == [False, True, False] and log.episode.tolist() == [0, 0, 1]
    assert log.reward.tolist() == [1.0, 2.0, 3.0]
    (tmp_path / "bad.csv").write_text("state,action\n1,2\n3\n")
    with pytest.raises(ValueError, match="all of one length"):
        gb.datasets.read(tmp_path / "bad.csv")
