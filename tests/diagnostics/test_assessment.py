"""Assessments: references against exact values, and judgements that find what is known to be bad."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import gaussbell as gb
from gaussbell.cli import app
from gaussbell.diagnostics import neighbours
from gaussbell.diagnostics.assessment import TOLERABLE, Reference, judge
from gaussbell.diagnostics.checks import Checks
from gaussbell.diagnostics.held_out import ErrorEstimate, HeldOutPaths, error_at
from gaussbell.experiments import assessments, propositions
from gaussbell.experiments.study import Verdict
from gaussbell.numerics.precision import double_throughout
from gaussbell.records.diagnosis import diagnose
from gaussbell.records.evaluations import Evaluation

CAR = gb.environments.MountainCar()
RAW = (2, 10, 10, 1)


def line(points=40, discount=0.9):
    """A walk to the right along a line that ends with a reward of one, and its exact value."""
    state = np.linspace(0, 1, points)
    reached = np.append(state[1:], np.nan)
    ahead = np.where(np.isnan(reached), 0.0, discount)
    reward = np.where(ahead == 0, 1.0, 0.0)
    return gb.Transitions(state[:, None], reward, reached[:, None], ahead), discount ** np.arange(points)[
        ::-1
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_averages_are_exact_where_rows_are_complete(count):
    data, value = line()
    found = neighbours.nearest_neighbour_averager(data, count)(data.state)
    np.testing.assert_allclose(found, value, atol=1e-6)
    chains = neighbours.neighbour_values(data)
    np.testing.assert_allclose(chains.value, value, atol=1e-9)
    np.testing.assert_allclose(chains.reward_grounded, 1.0, atol=1e-9)
    assert chains.reaches_reward.all()


def test_rows_whose_successors_cannot_be_told_from_them_are_not_pinned():
    state = np.linspace(0, 1, 11)[:, None]
    chains = neighbours.neighbour_values(gb.Transitions(state, np.zeros(11), state + 0.02, 0.9))
    np.testing.assert_allclose(chains.reward_grounded, 0.1)
    resting = neighbours.neighbour_values(gb.Transitions(state, np.zeros(11), state, 0.9))
    np.testing.assert_allclose(resting.reward_grounded, 1.0, err_msg="a state that leads to itself is known")


def test_averages_know_all_successors():
    mdp = gb.environments.ChainWalk(12)
    rows = gb.environments.exact_transitions(mdp)
    found = neighbours.nearest_neighbour_averager(rows, 1)(rows.state)
    np.testing.assert_allclose(found, mdp.under().values, atol=1e-6)


def test_smooth_value_is_right_near_data_and_doubtful_far_from_them():
    data, value = line(30)
    mean, doubt = gb.diagnostics.gptd(data)(np.asarray(data.state))
    np.testing.assert_allclose(mean, value, atol=0.05)
    assert gb.diagnostics.gptd(data)([[5.0]])[1][0] > 10 * doubt.max()


def test_smooth_value_is_the_gaussian_posterior():
    data, _ = line(8)
    found = gb.diagnostics.gptd(data)
    points = np.asarray(data.state) / found.scale

    def kernel(a, b):
        distance = np.sqrt(3) * np.abs(a - b.T) / found.length
        return 100 + (1 + distance) * np.exp(-distance)

    bellman = np.eye(8) - np.diag(np.asarray(data.discount)[:-1], 1)
    gram = bellman @ kernel(points, points) @ bellman.T
    np.testing.assert_allclose(found.factor @ found.factor.T, gram, rtol=2e-2, atol=1e-6)
    weights = np.linalg.solve(found.factor @ found.factor.T, np.asarray(data.reward))
    exact = kernel(points, points) @ bellman.T @ weights
    np.testing.assert_allclose(found(np.asarray(data.state))[0], exact, atol=1e-8)


@double_throughout
def test_the_error_by_simulation_is_the_true_one_up_to_the_tail():
    network = gb.MLP(RAW, key=3)
    state = np.asarray(CAR.sample_states(40, key=1))
    truth = gb.monte_carlo.returns(CAR, CAR.along_velocity, state)
    errors = np.asarray(network(state)) - truth
    found = error_at(network, CAR, CAR.along_velocity, state, key=0)
    np.testing.assert_allclose(found, np.abs(errors), atol=0.3 * np.abs(errors).max())
    estimate = HeldOutPaths(CAR, CAR.along_velocity, 256, key=5).estimate(network)
    assert estimate.low <= estimate.error <= estimate.high
    assert 0.7 < estimate.error / np.sqrt(np.mean(errors**2)) < 1.4


def test_chance_is_taken_off_where_the_process_is_random():
    lake = gb.environments.from_gymnasium("FrozenLake-v1", is_slippery=True)
    env = gb.environments.FiniteEnvironment(lake)
    policy = lake.optimal().policy
    truth = jnp.asarray(lake.under(policy).values)

    def exact(states):
        return truth[jnp.asarray(states)[..., 0].astype(int)]

    def act(state):
        return jnp.asarray(policy)[state[0].astype(int)]

    right = HeldOutPaths(env, act, 512, key=0, paths=16).estimate(exact)
    off = HeldOutPaths(env, act, 512, key=0, paths=16).estimate(lambda states: exact(states) + 0.5)
    assert right.error < 0.05 and off.error == pytest.approx(0.5, abs=0.1)
    states = np.arange(16.0)[:, None]
    assert error_at(exact, env, act, states, key=0).mean() < 0.05
    assert error_at(lambda s: exact(s) + 0.5, env, act, states, key=0).mean() == pytest.approx(0.5, abs=0.1)


def test_the_model_gives_the_exact_error_within_the_bound():
    chain = gb.environments.ChainWalk(10).under()
    inputs = np.eye(10)
    fit = gb.evaluate(gb.MLP((10, 4, 1), key=0), chain, features=inputs, max_steps=5)
    found = gb.assess(fit, chain, features=inputs)
    with jax.enable_x64(True):
        errors = np.abs(np.asarray(fit.network(inputs)) - chain.values)
    np.testing.assert_allclose(found.per_state(np.arange(10)), errors, atol=1e-9)
    np.testing.assert_allclose(found.per_state(inputs[3:5]), errors[3:5], atol=1e-9)
    assert errors.max() <= found.checks.sup_norm_bound == pytest.approx(fit.assessment.checks.sup_norm_bound)
    assert found.reference == "the model" and found.value_error == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_a_good_value_is_trusted_and_the_plateau_is_not():
    data = gb.sample_transitions(CAR, CAR.along_velocity, 1000, key=0, n_step=100)
    network = gb.FeatureNetwork(CAR.features(CAR.along_velocity), gb.MLP((7, 10, 1), key=0))
    good = gb.evaluate(network, data, max_steps=80)
    simulator = {"env": CAR, "policy": CAR.along_velocity}
    by_simulator, by_rows = gb.assess(good, data, **simulator), gb.assess(good, data)
    assert by_simulator.relative_error < TOLERABLE and by_simulator.trusted and by_rows.trusted
    assert str(by_rows).startswith("trusted: by the data alone")
    fresh = gb.sample_transitions(CAR, CAR.along_velocity, 512, key=9, n_step=200)
    held_out = gb.assess(good, data, held_out=fresh)
    assert (
        held_out.reference == "held-out data" and 0.6 < held_out.value_error / by_simulator.value_error < 1.6
    )
    plateau = gb.ValueFunction(np.array([-100.0]), lambda level, s: level[0] + 0 * s[0])
    few = gb.sample_transitions(CAR, CAR.along_velocity, 25, key=1)
    for witness in ({}, simulator):
        flat = gb.assess(plateau, few, **witness)
        assert not flat.trusted and len(flat.reasons) >= 1, witness


def test_no_chain_that_reaches_a_reward_is_said():
    low = CAR.sample_states(40, key=0) * np.array([0.3, 1.0]) - np.array([0.4, 0.0])
    data = gb.sample_transitions(CAR, CAR.along_velocity, 40, key=0, state=low)
    fit = gb.evaluate(gb.MLP(RAW, key=0), data, max_steps=100)
    assert (
        fit.assessment.checks.reward_coverage == 0
        and "No chain" in fit.warnings[0]
        and "No chain" in str(fit)
    )
    assert "No chain" in " ".join(gb.assess(fit, data).reasons)


def test_q_factors_are_scored_by_pairs():
    data = gb.sample_transitions(CAR, CAR.along_velocity, 60, key=0, n_step=20, q=True)
    fit = gb.evaluate(gb.MLP((3, 5, 1), key=0), data, max_steps=20)
    pairs = np.asarray(data.inputs)[:7]
    found = gb.assess(fit, data, env=CAR, policy=CAR.along_velocity)
    assert np.isfinite(found.per_state(pairs)).all() and found.per_state(pairs).shape == (7,)
    assert np.isfinite(gb.assess(fit, data).value_error)


def test_evaluations_carry_checks_outside_of_vmap_only():
    data = gb.sample_transitions(CAR, CAR.along_velocity, 30, key=0)
    alone = gb.evaluate(gb.MLP((2, 3, 1), key=0), data, max_steps=5)
    checks = alone.assessment.checks
    assert checks.num_transitions == 30 and checks.num_parameters == 13 and checks.rank is None
    assert 0 < gb.diagnostics.check(alone.network, data).rank <= 13
    assert gb.evaluate(gb.MLP((2, 3, 1), key=0), data, max_steps=5, diagnose=False).assessment is None
    many = jax.vmap(lambda key: gb.evaluate(gb.MLP((2, 3, 1), key=key), data, max_steps=5))(
        jax.random.split(jax.random.key(0), 2)
    )
    assert many.assessment is None and many.warnings == () and many.loss.shape == (2,)


def test_values_out_of_range_are_noticed():
    data = gb.sample_transitions(CAR, CAR.along_velocity, 30, key=0, n_step=50)
    far = gb.ValueFunction(np.array([300.0]), lambda level, s: level[0] + 0 * s[0])
    seen = gb.diagnostics.check(far, data)
    assert seen.out_of_range == 1 and "beyond" in " ".join(seen.warnings)
    assert gb.diagnostics.check(gb.MLP((2, 3, 1), key=0), data).facts[0] == "13 parameters for 30 transitions"


@pytest.mark.parametrize(
    ("options", "named"),
    [({"env": CAR}, "env and policy"), ({"features": np.ones((3, 2))}, "features")],
)
def test_bad_arguments_are_named(options, named):
    data = gb.sample_transitions(CAR, CAR.along_velocity, 10, key=0)
    with pytest.raises(ValueError, match=named):
        gb.assess(gb.MLP((2, 3, 1), key=0), data, **options)


def test_landscape_shows_the_loss_and_the_paths():
    chain = gb.environments.SevenStar().under()
    inputs = gb.encodings.normal(7, 2, key=1)
    start = gb.MLP((2, 7, 1), key=0)
    methods = {"ours": gb.LevenbergMarquardt(), "runs away": gb.SemiGradient(1e3)}
    seen = gb.diagnostics.landscape(start, chain, features=inputs, methods=methods, max_steps=40, points=11)
    assert np.isfinite(seen.loss).all() and seen.loss.min() >= 0
    np.testing.assert_allclose(seen.paths["ours"][-1], 0.0, atol=1e-12)
    assert seen.losses["ours"][0] == pytest.approx(float(gb.msbe(start, chain, features=inputs)), rel=1e-5)
    assert all(np.isfinite(path).all() for path in seen.paths.values())
    # The slice's corner nearest to the solution has a small loss: the plane goes through it.
    nearest = np.abs(seen.second).argmin(), np.abs(seen.first).argmin()
    assert seen.loss[nearest] < seen.losses["ours"][0]


@pytest.mark.parametrize("kind", ["samples", "chain"])
def test_an_evaluation_survives_its_file(tmp_path, kind):
    if kind == "chain":
        data, features = gb.environments.SevenStar().under(), np.asarray(gb.encodings.normal(7, 2, key=1))
        fit = gb.evaluate(gb.MLP((2, 7, 1), key=0), data, features=features, max_steps=20)
    else:
        data, features = gb.sample_transitions(CAR, CAR.along_velocity, 20, key=0, successors=2), None
        network = gb.FeatureNetwork(CAR.features(CAR.along_velocity), gb.MLP((7, 3, 1), key=0))
        fit = gb.evaluate(network, data, max_steps=5)
    path = gb.save_evaluation(tmp_path / "fit.json", fit, data, features=features)
    again = gb.load_evaluation(path)
    before = gb.diagnostics.check(fit.network, data, features=features)
    after = gb.diagnostics.check(again.network, again.data, features=again.features)
    assert dataclasses.replace(after, condition=0, effective_rank=0) == dataclasses.replace(
        before, condition=0, effective_rank=0
    )
    assert after.condition == pytest.approx(before.condition)
    assert again.status == fit.status.name and again.losses[-1] == pytest.approx(fit.history.loss[-1])


def test_files_that_are_no_evaluation_are_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"kind": "policy solution"}')
    with pytest.raises(ValueError, match="no evaluation"):
        gb.load_evaluation(path)
    path.write_text('{"kind": "evaluation", "format": 99, "versions": {"gaussbell": "9.9"}}')
    with pytest.raises(ValueError, match=r"9\.9"):
        gb.load_evaluation(path)
    path.write_text('{"kind": "evaluation", "network": {}}')
    with pytest.raises(ValueError, match="garbles"):
        gb.load_evaluation(path)


def test_diagnose_prints_and_writes(tmp_path, monkeypatch):
    few = {"Levenberg-Marquardt": gb.LevenbergMarquardt(), "semi-gradient": gb.SemiGradient(0.01)}
    monkeypatch.setattr("gaussbell.diagnostics.loss_landscape.METHODS", few)
    chain, features = gb.environments.SevenStar().under(), np.asarray(gb.encodings.normal(7, 2, key=1))
    fit = gb.evaluate(gb.MLP((2, 7, 1), key=0), chain, features=features)
    path = gb.save_evaluation(tmp_path / "fit.json", fit, chain, features=features)
    told = CliRunner().invoke(app, ["diagnose", str(path), "--out", str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert "The value is trusted" in told.output and "no value is off by more than" in told.output
    written = {one.name for one in (tmp_path / "out").iterdir()}
    assert written == {"diagnosis.json", "spectra.png", "landscape.png"}


def test_the_area_under_the_curve():
    bad = np.array([False, False, True, True])
    assert assessments.area_under_curve(np.array([1.0, 2.0, 3.0, 4.0]), bad) == 1
    assert assessments.area_under_curve(np.array([1.0, 3.0, 2.0, 4.0]), bad) == 0.75
    assert np.isnan(assessments.area_under_curve(np.ones(4), np.ones(4, bool)))


def test_propositions_hold_on_a_small_sweep():
    cell = {"part": "minima", "problem": propositions.FINITE, "size": propositions.MANY}
    found = propositions.measure(cell | {"activation": propositions.BENT, "starts": 6, "solver_steps": 200})
    ends = propositions._Ends(found)
    assert ends.zero.all() and ends.verdict is Verdict.HOLDS and ends.psd.all() and ends.thin.all()
    assert ends.worst < 1e-9


def test_a_value_that_is_right_raises_no_alarm():
    """A process that contracts to the origin, with a smooth reward: the value is right to five digits."""
    state = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    data = gb.Transitions(state, -np.sum(state**2, axis=1), 0.9 * state, discount=0.95)
    fit = gb.evaluate(gb.MLP((2, 10, 10, 1)), data)
    exact = -np.sum(state**2, axis=1) / (1 - 0.95 * 0.81)
    assert np.abs(np.asarray(fit.network(state)) - exact).max() < 0.02
    assert fit.warnings == () and fit.assessment.trusted is not False


def test_a_value_at_its_bound_is_in_range():
    """A constant reward of one: every value is 1 / (1 - discount), the bound itself."""
    state = np.linspace(-1, 1, 20)[:, None]
    data = gb.Transitions(state, np.ones(20), 0.5 * state, discount=0.99)
    level = gb.ValueFunction(np.array([100.002]), lambda level, s: level[0] + 0 * s[0])
    assert gb.diagnostics.check(level, data).out_of_range == 0


def test_a_saved_discount_is_the_one_that_is_diagnosed():
    car = gb.environments.MountainCar(discount=0.9)
    data = gb.sample_transitions(car, car.along_velocity, 40, n_step=5)
    fit = gb.evaluate(gb.MLP((2, 4, 1)), data, max_steps=5)
    losses = np.asarray(fit.history.loss)

    def references(options):
        kept = Evaluation(fit.network, data, None, fit.status.name, losses, "mountain-car", options)
        return diagnose(kept, landscape=False)["assessments"]

    with_options = references({"discount": 0.9})
    by_hand = gb.assess(fit, data, env=car, policy=car.along_velocity)
    assert with_options["a simulator"]["value_error"] == pytest.approx(by_hand.value_error)
    assert list(references({})) == ["the data alone"], "data of another discount are not simulated at 0.99"


@pytest.mark.parametrize(
    ("error", "caveat", "trusted"), [(0.1, None, True), (0.1, "But.", None), (0.9, "But.", False)]
)
def test_a_small_error_with_a_caveat_is_not_trusted(error, caveat, trusted):
    estimate = ErrorEstimate(error, 0.0, 1.0, 1.0, "some states", caveat)
    found = judge(Checks(10, 5, 0.0), reference=Reference.SIMULATOR, estimate=estimate)
    assert found.trusted is trusted and (caveat is None or found.reasons[-1] == caveat)
