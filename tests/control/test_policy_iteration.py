"""Policy iteration: against exact policy iteration, by hand, and when things go wrong."""

import json

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gaussbell as gb
from gaussbell.control import Fresh, Replay, Uniform
from gaussbell.control.experience import EnvironmentFailed, Experience
from gaussbell.control.recipe import Always, Evaluation, NotWorse, Recipe

QUICK = Recipe(
    Replay(first=20, more=5, visited=10, transitions_per_fit=60), Evaluation(max_steps=3), rollouts=2
)


class Scripted(gb.tasks.Task):
    """A task whose scores are written down beforehand: the first for the roll-outs before any sweep."""

    scores: list
    length: int = 10
    confirmations: int = 2

    def score(self, log):
        return np.full(len(np.unique(log.episode)), float(self.scores[0]))

    def is_met(self, scores):
        self.scores.append(self.scores.pop(0))
        return False


def table_network(states, actions):
    def look_up(table, pair):
        row = (jnp.arange(states) == pair[0]).astype(table.dtype)
        column = (jnp.arange(actions) == pair[1]).astype(table.dtype)
        return row @ table @ column

    return gb.ValueFunction(np.zeros((states, actions)), look_up)


def test_on_a_finite_process_it_is_exact_policy_iteration():
    mdp = gb.environments.ChainWalk(8, success=1.0)
    env = gb.environments.FiniteEnvironment(mdp)
    recipe = Recipe(
        Replay(first=200, more=0, visited=1, transitions_per_fit=400),
        Evaluation(epsilon=0.0),
        Always(),
        1,
        stops=False,
    )
    found = gb.policy_iteration(
        env, table_network(8, 2), key=0, sweeps=9, recipe=recipe, task=gb.tasks.Earn(at_least=1e9, length=5)
    )
    best = mdp.optimal()
    chosen = [found.policy([float(state)]) for state in range(8)]
    assert chosen == list(best.policy)
    pairs = np.array([[s, a] for s in range(8) for a in range(2)], float)
    q = np.array([float(found.network(jnp.asarray(pair))) for pair in pairs]).reshape(8, 2)
    np.testing.assert_allclose(q.max(axis=1), best.values, rtol=1e-4)


def test_algorithm_2_by_hand():
    env, network = gb.environments.CartPole(), gb.MLP((5, 4, 1), key=3)
    raw = gb.FeatureNetwork(gb.features.Identity(), network)
    recipe = gb.control.algorithm_2(30, step_size=0.1, evaluation_steps=4, rollouts=2)
    weights = []

    def maker(key):
        weights.append(key)
        return raw

    found = gb.policy_iteration(env, maker, key=7, sweeps=2, recipe=recipe)
    # By hand: the same thirty states, one random action each, four damped Gauss-Newton steps, greedy.
    once = jax.random.split(jax.random.key(7), 4)[3]
    seen, at = Experience(env, once), raw
    for _ in range(2):
        data = recipe.data.transitions(seen, gb.policies.Greedy(at, 2), 0.0, jax.random.key(0))
        at = gb.evaluate(at, data, solver=gb.GaussNewton(0.1, 1e-5), max_steps=4, tolerance=1e-5).network
    for ours, by_hand in zip(found.network.network.weights, at.network.weights, strict=True):
        np.testing.assert_allclose(ours, by_hand, rtol=1e-9)
    assert found.transitions["training"] == 60 and len(weights) == 1
    assert set(np.unique(np.asarray(data.action))) <= {0.0, 1.0} and len(data) == 30


def test_states_are_drawn_once_or_every_sweep():
    seen = Experience(gb.environments.CartPole(), jax.random.key(0))
    keys, policy = jax.random.split(jax.random.key(1)), gb.policies.Constant(0)
    for once in (True, False):
        rows = Fresh(Uniform(5), once=once)
        first, second = (rows.transitions(seen, policy, 0.0, key) for key in keys)
        assert np.array_equal(first.state, second.state) == once
        assert np.array_equal(first.state[0], first.state[1]) and list(first.action[:2, 0]) == [0, 1]


def test_transient_starts_from_fresh_weights():
    drawn = []

    def maker(key):
        drawn.append(gb.MLP((5, 4, 1), key=key))
        return drawn[-1]

    for persistent, count in ((True, 1), (False, 4)):
        drawn.clear()
        recipe = gb.control.algorithm_2(10, evaluation_steps=1, persistent=persistent, rollouts=1)
        gb.policy_iteration(gb.environments.CartPole(), maker, key=0, sweeps=3, recipe=recipe)
        assert len(drawn) == count


def test_the_best_is_kept_and_weights_are_redrawn_after_rejections():
    scores = [5, 9, 7, 8, 4, 6]
    task = Scripted(list(scores))
    found = gb.policy_iteration(
        gb.environments.CartPole(),
        key=0,
        sweeps=6,
        task=task,
        recipe=QUICK._replace(acceptance=NotWorse(patience=3)),
    )
    assert list(found.column("score")) == scores and len(found.confirmed) == 0
    assert list(found.column("accepted")) == [True, True, False, False, False, True]
    assert list(found.column("redrawn")) == [False, False, False, False, True, False]
    assert found.score == 9 and found.status is gb.PolicyStatus.OUT_OF_SWEEPS


class Doubtful(gb.tasks.Task):
    """A task that every roll-out meets, and that is confirmed as the verdicts say."""

    verdicts: list
    length: int = 5
    confirmations: int = 4
    confirming_length = 7

    def score(self, log):
        return gb.tasks.lengths(log).astype(float)

    def is_met(self, scores):
        return True

    def is_confirmed(self, scores):
        return self.verdicts.pop(0)


def test_solved_is_said_only_when_confirmed():
    found = gb.policy_iteration(
        gb.environments.CartPole(), key=0, sweeps=5, task=Doubtful([False, True, None]), recipe=QUICK
    )
    assert found.status is gb.PolicyStatus.SOLVED and found.sweeps == 2
    assert list(found.confirmed) == [7.0] * 4 and found.transitions["confirmation"] == 2 * 4 * 7
    never = gb.policy_iteration(
        gb.environments.CartPole(), key=0, sweeps=2, task=Doubtful([False] * 2), recipe=QUICK
    )
    assert never.status is gb.PolicyStatus.OUT_OF_SWEEPS and len(never.confirmed) == 4


def test_an_unsolved_run_starts_over():
    sizes = []

    class Watched(Replay):
        def transitions(self, seen, *others):
            data = super().transitions(seen, *others)
            sizes.append(len(seen.kept["uniform"]))
            return data

    recipe = QUICK._replace(data=Watched(first=20, more=5, visited=10, transitions_per_fit=60), attempt=2)
    task = Scripted([5, 4, 3, 2])
    found = gb.policy_iteration(gb.environments.CartPole(), key=0, sweeps=4, recipe=recipe, task=task)
    assert sizes == [40, 50, 40, 50]
    assert found.score == max(sweep.score for sweep in found.history)
    assert [sweep.accepted for sweep in found.history][::2] == [True, True]


def test_every_simulated_step_is_counted(monkeypatch):
    simulated = []
    environment = gb.environments.CartPole
    follow = environment.simulate

    def counted(self, policy, state, steps, **options):
        simulated.append(len(state) * int(np.max(steps)))
        return follow(self, policy, state, steps, **options)

    monkeypatch.setattr(environment, "simulate", counted)
    recipe = QUICK._replace(data=Fresh(Uniform(7), n_step=3))
    found = gb.policy_iteration(environment(), key=0, sweeps=2, recipe=recipe)
    assert found.transitions["training"] == sum(simulated) == 2 * 7 * 2 * 3
    assert found.history[-1].transitions == sum(found.transitions.values())


@pytest.mark.slow
def test_cart_pole_is_solved_and_the_policy_plays_in_gymnasium():
    found = gb.policy_iteration(gb.environments.CartPole(), key=0)
    assert found.succeeded and list(found.confirmed) == [2000.0] * 2
    assert found.transitions["confirmation"] >= 2 * 2000
    theirs = gymnasium.make("CartPole-v1")
    seen, _ = theirs.reset(seed=1)
    total, over = 0.0, False
    while not over:
        action = found.policy(seen)
        assert theirs.action_space.contains(action)
        seen, reward, terminated, truncated, _ = theirs.step(action)
        total, over = total + float(reward), terminated or truncated
    assert total == 500


def test_the_policy_is_a_plain_function_for_gymnasium():
    theirs = gymnasium.make("CartPole-v1")
    seen, _ = theirs.reset(seed=1)
    action = gb.policies.Greedy(gb.MLP((5, 3, 1), key=0), 2)(seen)
    assert type(action) is int and theirs.action_space.contains(action)


class Pole(gymnasium.Wrapper):
    """Gymnasium's Cart Pole without a state to set, which fails at some step."""

    def __init__(self, fails_at=10**9, how="raise"):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.count, self.fails_at, self.how = 0, fails_at, how

    @property
    def unwrapped(self):
        return self

    def step(self, action):
        self.count += 1
        seen, *rest = super().step(action)
        if self.count >= self.fails_at:
            if self.how == "raise":
                raise OSError("the robot fell off the table")
            seen = np.full_like(seen, np.nan)
        return seen, *rest


def test_an_environment_whose_state_cannot_be_set():
    env = gb.environments.from_gymnasium(Pole())
    assert not env.can_set_state and env.task.at_least == 475
    found = gb.policy_iteration(env, key=0, sweeps=2, recipe=QUICK)
    assert found.transitions["training"] >= 1000 and found.sweeps == 2
    assert found.history[0].steps[0] > 5


@pytest.mark.parametrize("how, said", [("raise", "fell off the table"), ("nan", "NaN")])
def test_an_environment_that_fails_on_the_way(how, said):
    env = gb.environments.from_gymnasium(Pole(1200, how))
    found = gb.policy_iteration(env, key=0, sweeps=50, recipe=QUICK)
    assert found.status is gb.PolicyStatus.ENVIRONMENT_FAILED and said in found.error
    assert found.sweeps >= 1 and found.score == found.column("score").max()
    raised_by = "step" if how == "raise" else "check_finite"
    assert raised_by in "".join(found.to_dict()["traceback"]), "the failure keeps its own traceback"
    with pytest.raises(EnvironmentFailed, match=said):
        gb.policy_iteration(
            gb.environments.from_gymnasium(Pole(3, how)), key=0, recipe=QUICK
        )  # nothing to keep yet


def test_interrupted_with_the_best_so_far():
    def stop(sweep):
        raise KeyboardInterrupt

    with pytest.raises(gb.IterationInterrupted) as caught:
        gb.policy_iteration(gb.environments.CartPole(), key=0, recipe=QUICK, on_sweep=stop)
    solution = caught.value.solution
    assert solution.status is gb.PolicyStatus.INTERRUPTED and solution.sweeps == 1
    assert solution.policy(np.zeros(4)) in (0, 1)


def test_the_false_zero_is_noticed():
    """Values of zero and a spike at the start make a small Bellman error, and are told apart."""
    env = gb.environments.CartPole()

    def spiked(height, pair):
        return height * jnp.exp(-1e4 * jnp.sum(pair[:4] ** 2))

    from gaussbell.control.checks import assess_q, compare  # noqa: PLC0415

    for height, suspicious in ((1 / 0.99, True), (-1.0, False)):
        network = gb.ValueFunction(np.array(height), spiked)
        seen, policy = Experience(env, jax.random.key(0)), gb.policies.Greedy(network, 2)
        log = seen.play(policy, 2, 500, "roll-outs", key=0, start=np.zeros((2, 4)))
        earned = compare(network, policy, seen, log, jax.random.key(1))
        said = " ".join(assess_q(network, np.zeros(5), earned, seen).reasons)
        assert ("a spike" in said) == suspicious


def test_what_was_earned():
    """By hand: an episode of three steps that ends, with rewards 0, 0, -1."""
    from gaussbell.control.checks import compare  # noqa: PLC0415

    env = gb.environments.CartPole(ending="end")
    log = gb.Log(np.zeros((3, 4)), [0, 1, 0], [0.0, 0.0, -1.0], np.zeros((3, 4)), [False, False, True])
    network = gb.ValueFunction(np.array(0.0), lambda zero, pair: zero + pair[4])
    earned = compare(network, gb.policies.Greedy(network, 2), Experience(env, jax.random.key(0)), log, None)
    wanted = np.array([0 + 0.99**2, 1 + 0.99, 1.0])
    rows = np.resize(np.arange(3), 256)
    assert earned.error == pytest.approx(np.sqrt((wanted[rows] ** 2).mean()))


@pytest.mark.parametrize(
    "network",
    [
        gb.MLP((5, 4, 1), key=0),
        gb.FeatureNetwork(
            gb.features.Concatenate(gb.features.Columns((0, 1, 2, 3)), gb.features.OneHot(2, 4)),
            gb.MLP((6, 4, 1), key=0),
        ),
        gb.networks.PerAction(eqx.nn.MLP(4, 2, 4, 1, jnp.tanh, key=jax.random.key(0))),
    ],
    ids=["index", "one-hot", "one output an action"],
)
def test_actions_as_inputs_or_outputs(network, tmp_path):
    found = gb.policy_iteration(gb.environments.CartPole(), network, key=0, sweeps=2, recipe=QUICK)
    path = gb.save_policy(tmp_path / "policy.json", found)
    again = gb.load_policy(path, network=found.network)
    for state in np.random.default_rng(0).normal(size=(5, 4)):
        assert again.policy(state) == found.policy(state)
    assert str(again.history) == str(found.history)
    assert again.to_dict()["assessment"] == found.to_dict()["assessment"]
    assert (again.status, again.score, again.transitions) == (found.status, found.score, found.transitions)


def test_files_of_other_versions_and_broken_ones(tmp_path):
    found = gb.policy_iteration(gb.environments.CartPole(), key=0, sweeps=1, recipe=QUICK)
    path = gb.save_policy(tmp_path / "policy.json", found)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(
            found.network.network.weights, gb.load_policy(path).network.network.weights, strict=True
        )
    )
    record = json.loads(path.read_text())
    older = {name: record[name] for name in ("kind", "network", "num_actions", "status", "history")}
    for sweep in older["history"]:
        del sweep["correlation"]
    path.write_text(json.dumps(older))
    again = gb.load_policy(path)
    assert again.policy(np.zeros(4)) == found.policy(np.zeros(4)) and np.isnan(again.history[0].correlation)
    for broken, said in (
        ({**record, "format": 99}, "newer format"),
        ({**record, "kind": "other"}, "no policy solution"),
        ({name: record[name] for name in ("kind", "format")}, "lacks"),
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(ValueError, match=said):
            gb.load_policy(path)
    path.write_text(json.dumps(record)[:-40])
    with pytest.raises(ValueError, match="not a whole JSON record"):
        gb.load_policy(path)


def test_it_starts_from_the_network_it_is_given():
    network = gb.MLP((5, 4, 1), key=9)
    recipe = gb.control.algorithm_2(10, evaluation_steps=0, rollouts=1)
    found = gb.policy_iteration(gb.environments.CartPole(), network, key=0, sweeps=1, recipe=recipe)
    starts = zip(found.network.network.weights, network.weights, strict=True)
    assert all(np.array_equal(ours, given) for ours, given in starts)


def test_mistakes():
    with pytest.raises(ValueError, match="names no goal"):
        gb.policy_iteration(gb.environments.FiniteEnvironment(gb.environments.ChainWalk(4)), key=0)
    with pytest.raises(ValueError, match="discrete actions"):
        gb.policy_iteration(gb.environments.Pendulum(), key=0, task=gb.tasks.Earn(at_least=0))
    with pytest.raises(ValueError, match="function from a key"):
        gb.policy_iteration(gb.environments.CartPole(), 3, key=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 304))
def test_cart_pole_on_every_seed(seed):
    found = gb.policy_iteration(gb.environments.CartPole(), key=seed)
    starts = np.random.default_rng(seed).uniform(-0.05, 0.05, (200, 4))
    log = gb.environments.CartPole().play(found.policy, episodes=200, length=500, key=0, start=starts)
    assert found.succeeded and gb.tasks.lengths(log).mean() > 490


@pytest.mark.slow
@pytest.mark.parametrize("kind", [gb.environments.MountainCar, gb.environments.Acrobot])
def test_goals_are_reached_in_time(kind):
    env = kind(ending="end")
    found = gb.policy_iteration(env, key=302)
    log = env.play(found.policy, episodes=200, length=env.task.length, key=0)
    assert found.succeeded and env.task.score(log).mean() > -1.05 * env.task.within
