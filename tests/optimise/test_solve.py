"""The loop: why it stops, what it keeps, what it says."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gaussbell as gb
from gaussbell.bellman import bellman_problem
from problems import packed, random_transitions, relative_error, star


def rosenbrock(x):
    return jnp.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def test_converged():
    solution = gb.least_squares(rosenbrock, [-1.2, 1.0], tolerance=1e-20)
    assert solution.status is gb.Status.CONVERGED
    assert solution.loss <= 1e-20
    assert solution.raise_if_failed() is solution


def test_stationary_where_the_residual_cannot_vanish():
    solution = gb.least_squares(lambda x: jnp.stack([x - 1, x + 1]), 5.0)
    assert solution.status is gb.Status.STATIONARY
    assert solution.succeeded
    assert float(solution.params) == pytest.approx(0, abs=1e-7)
    assert float(solution.loss) == pytest.approx(1.0)


def test_out_of_steps():
    solution = gb.least_squares(rosenbrock, [-1.2, 1.0], max_steps=2)
    assert solution.status is gb.Status.OUT_OF_STEPS
    assert solution.steps == 2
    with pytest.raises(gb.SolveFailed, match="out of steps after 2 steps") as failure:
        solution.raise_if_failed()
    assert failure.value.solution is solution


def test_no_steps_at_all():
    assert gb.least_squares(rosenbrock, [-1.2, 1.0], max_steps=0).status is gb.Status.OUT_OF_STEPS
    assert gb.least_squares(rosenbrock, [1.0, 1.0], max_steps=0).status is gb.Status.CONVERGED


def test_stagnated():
    solution = gb.least_squares(
        rosenbrock, [-1.2, 1.0], solver=gb.ResidualGradient(1e-12), patience=7, max_steps=50
    )
    assert solution.status is gb.Status.STAGNATED
    assert solution.steps == 7


def test_diverged_keeps_the_best():
    network, data = gb.MLP((2, 7, 1), key=0), random_transitions()
    solution = gb.evaluate(network, data, solver=gb.SemiGradient(1e3), max_steps=300)
    assert solution.status is gb.Status.DIVERGED
    assert solution.msbe == np.nanmin(solution.history.msbe) <= solution.history.msbe[0]
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in solution.network.weights)
    assert np.isclose(gb.msbe(solution.network, data), solution.msbe, rtol=1e-12)


@pytest.mark.parametrize("solver", [gb.GaussNewton(1.0, 0.0), gb.BacktrackingGaussNewton(0.0)])
def test_singular_system_without_damping(solver):
    solution = gb.least_squares(lambda x: x[0] + x[1] - 1, [0.0, 0.0], solver=solver)
    assert solution.succeeded  # one row: sample space is not singular
    solution = gb.least_squares(
        lambda x: jnp.stack([x[0] - 2, x[0] * 3, x[0]]), [1.0, 1.0], solver=solver
    )  # the second parameter does nothing, so it stays where it is
    assert solution.status is gb.Status.STATIONARY
    assert np.allclose(solution.params, [2 / 11, 1.0])


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_network_that_is_not_finite(bad):
    network = gb.ValueFunction(jnp.ones(2), lambda p, s: p @ s + bad)
    draft = random_transitions()
    without_rewards = gb.Transitions(draft.state, np.zeros(12), draft.next_state)
    assert gb.evaluate(network, without_rewards).status is gb.Status.NOT_FINITE_AT_START
    solution = gb.evaluate(network, draft)
    assert solution.status is gb.Status.NOT_FINITE_AT_START
    assert solution.steps == 0
    assert np.array_equal(solution.network.params, np.ones(2))
    with pytest.raises(gb.SolveFailed, match="Check what the network"):
        solution.raise_if_failed()


def test_trial_that_overflows_is_rejected():
    solution = gb.least_squares(lambda x: jnp.exp(x) - 2.0, -8.0)
    assert solution.succeeded
    assert float(jnp.exp(solution.params)) == pytest.approx(2.0)
    assert not solution.history.accepted.all()


def test_history_tells_each_step():
    solution = gb.least_squares(rosenbrock, [-1.2, 1.0], keep_parameters=True)
    history = solution.history
    assert len(history.loss) == solution.steps + 1
    assert history.parameters.shape == (solution.steps + 1, 2)
    assert history.parameters[0].tolist() == [-1.2, 1.0]
    assert history.accepted.dtype == bool
    moved = np.linalg.norm(np.diff(history.parameters, axis=0), axis=1)
    taken = history.accepted[1:]
    assert np.allclose(moved[taken], history.step_norm[1:][taken], rtol=1e-9, atol=1e-15)
    assert (moved[~taken] == 0).all()
    for x, loss in zip(history.parameters, history.loss, strict=True):
        assert float(0.5 * jnp.sum(rosenbrock(x) ** 2)) == pytest.approx(loss, rel=1e-6, abs=1e-25)
    assert (np.diff(history.loss) <= 0).all()


def test_history_shows_the_gradient_and_the_damping():
    network, data = gb.MLP((2, 7, 1), key=0), random_transitions()
    solution = gb.evaluate(
        network, data, solver=gb.GaussNewton(0.5, 1e-3), max_steps=3, tolerance=0.0, keep_parameters=True
    )
    _, unpack = packed(network)
    for x, norm in zip(solution.history.parameters, solution.history.gradient_norm, strict=True):
        assert np.isclose(norm, np.linalg.norm(gb.linearise(unpack(jnp.asarray(x)), data).gradient()))
    assert solution.history.damping[1:].tolist() == [1e-3] * 3


def test_levenberg_marquardt_by_hand():
    """Straight steps, acceptance and Nielsen's rule, written out in NumPy."""
    solver = gb.LevenbergMarquardt(initial_factor=1e-3, max_acceleration=None)
    history = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=solver, max_steps=14).history
    assert not history.accepted.all()

    def residual(x):
        return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])

    def loss(x):
        return 0.5 * residual(x) @ residual(x)

    x, factor, growth = np.array([-1.2, 1.0]), 1e-3, 2.0
    unit = None
    for k in range(1, len(history.loss)):
        jacobian, r = np.array([[-20 * x[0], 10.0], [-1.0, 0.0]]), residual(x)
        unit = np.sum(jacobian**2) / 2 / np.linalg.norm(r) if unit is None else unit
        c = factor * unit * np.linalg.norm(r)
        step = np.linalg.solve(jacobian.T @ jacobian + c * np.eye(2), jacobian.T @ r)
        predicted = loss(x) - 0.5 * np.sum((r - jacobian @ step) ** 2)
        gain = (loss(x) - loss(x - step)) / predicted
        accepted = gain > 1e-4
        assert np.isclose(history.damping[k], c, rtol=1e-6)
        assert np.isclose(history.gain_ratio[k], gain, rtol=1e-5)
        assert history.accepted[k] == accepted
        if accepted:
            x, factor, growth = x - step, factor * max(1 / 3, 1 - (2 * gain - 1) ** 3), 2.0
        else:
            factor, growth = factor * growth, growth * 2


def test_acceleration_is_the_second_order_correction():
    """On r(x) = x^2 + x - 6 the bent step is exact to third order in the step."""
    problem = gb.least_squares(
        lambda x: x**2 + x - 6.0, 2.1, solver=gb.LevenbergMarquardt(1e-12), max_steps=1, keep_parameters=True
    )
    slope, residual = 2 * 2.1 + 1, 2.1**2 + 2.1 - 6
    straight = residual / slope
    bent = straight + 0.5 * 2 * straight**2 / slope
    assert np.isclose(float(problem.params), 2.1 - bent, rtol=1e-9)


def test_dogleg_by_hand():
    """Straight dogleg steps and the choice of a radius, written out in NumPy."""
    history = gb.least_squares(
        rosenbrock, [-1.2, 1.0], solver=gb.Dogleg(max_acceleration=None), max_steps=9
    ).history

    def residual(x):
        return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])

    def loss(x):
        return 0.5 * residual(x) @ residual(x)

    x, radius, chosen = np.array([-1.2, 1.0]), None, set()
    for k in range(1, len(history.loss)):
        jacobian, r = np.array([[-20 * x[0], 10.0], [-1.0, 0.0]]), residual(x)
        gradient = jacobian.T @ r
        descent = gradient * (gradient @ gradient) / np.sum((jacobian @ gradient) ** 2)
        newton = np.linalg.solve(jacobian, r)
        radius = np.linalg.norm(descent) if radius is None else radius
        along = np.linspace(0, 1, 100_001)[:, None]
        path = np.concatenate([along * descent, descent + along * (newton - descent)])
        lengths = np.linalg.norm(path, axis=1)
        tried = []
        for multiple in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8):
            step = path[np.flatnonzero(lengths <= multiple * radius * (1 + 1e-12))[-1]]
            predicted = loss(x) - 0.5 * np.sum((r - jacobian @ step) ** 2)
            tried.append(((loss(x) - loss(x - step)) / predicted, loss(x - step), multiple, step))
        fair = [trial for trial in tried if trial[0] > 0.5]
        gain, after, multiple, step = min(fair, key=lambda trial: trial[1])
        chosen.add(multiple)
        assert np.isclose(history.step_norm[k], np.linalg.norm(step), rtol=1e-3)
        assert np.isclose(history.gain_ratio[k], gain, rtol=1e-2, atol=1e-2)
        assert np.isclose(history.loss[k], after, rtol=1e-2, atol=1e-9)
        x, radius = x - step, np.linalg.norm(step)
    assert len(chosen) > 1


def test_dogleg_shrinks_its_region_where_no_step_is_fair():
    # Beyond |x| = 1e-3 of its start the residual is not what its derivative says.
    def residual(x):
        return jnp.where(jnp.abs(x) < 1e-3, x - 1.0, 5.0)

    history = gb.least_squares(residual, 0.0, solver=gb.Dogleg(), max_steps=4, patience=9).history
    assert history.accepted[1:].tolist() == [False, False, False, True]
    assert history.step_norm[4] < 1e-3 and history.loss[4] < history.loss[0]


def test_dogleg_where_the_jacobian_has_lost_rank():
    def residual(x):
        return jnp.stack([x[0] + x[1] - 1, 2 * x[0] + 2 * x[1] - 2, 0.0 * x[0]])

    for solver in (gb.Dogleg(), gb.LevenbergMarquardt()):
        solution = gb.least_squares(residual, [3.0, 4.0], solver=solver)
        assert solution.succeeded and solution.loss < 1e-20


@pytest.mark.parametrize("solver", [gb.LevenbergMarquardt(), gb.Dogleg(), gb.GaussNewton(), None], ids=repr)
@pytest.mark.parametrize("case", ["duplicated rows", "contradicting rows", "state is successor", "one row"])
def test_rank_deficient_batches(case, solver):
    draft = random_transitions(rows=10, seed=3)
    state, reward, following = (np.asarray(a) for a in (draft.state, draft.reward, draft.next_state))
    if case == "duplicated rows":
        state, reward, following = (np.concatenate([a, a]) for a in (state, reward, following))
    if case == "contradicting rows":
        state, following = (np.concatenate([a, a]) for a in (state, following))
        reward = np.concatenate([reward, reward + 1])
    if case == "state is successor":
        following = state
    if case == "one row":
        state, reward, following = state[:1], reward[:1], following[:1]
    data = gb.Transitions(state, reward, following, 0.9)
    solution = gb.evaluate(gb.MLP((2, 12, 1), key=0), data, solver=solver, max_steps=300)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in solution.network.weights)
    assert solution.msbe <= solution.history.msbe[0]
    assert solution.status is not gb.Status.DIVERGED
    if case == "contradicting rows":  # half of each pair's difference is the best there is
        assert np.isclose(solution.msbe, 0.125, rtol=1e-3)
    elif not isinstance(solver, gb.GaussNewton):
        assert solution.status is gb.Status.CONVERGED


def test_a_jacobian_too_large_to_hold_is_taken_on_demand(monkeypatch):
    dense = gb.least_squares(rosenbrock, [-1.2, 1.0], max_steps=30).history.loss
    monkeypatch.setattr(sys.modules["gaussbell.optimise.least_squares"], "MOST_DENSE_NUMBERS", 1)
    for space in (gb.linalg.ByShape(), gb.linalg.MatrixFree(tolerance=1e-12)):

        def residual(x):  # a new function, so that it is compiled anew
            return rosenbrock(x)

        solver = gb.LevenbergMarquardt(space=space)
        history = gb.least_squares(residual, [-1.2, 1.0], solver=solver, max_steps=30).history
        assert np.allclose(history.loss[:15], dense[:15], rtol=1e-6)


def test_minibatches_lower_the_loss_and_never_raise_it():
    draft = random_transitions(rows=130)
    data = gb.Transitions(draft.state, np.sin(3 * draft.state[:, 0]), draft.next_state, 0.9)
    network = gb.MLP((2, 12, 1), key=0)
    solution = gb.evaluate(network, data, solver=gb.Minibatch(batch_size=32), max_steps=60, patience=60)
    history = solution.history
    assert history.msbe[-1] < 0.05 * history.msbe[0]
    assert (np.diff(history.msbe) <= 0).all() and not history.accepted.all()
    # The loss and the gradient are those of all rows, also of the last two, which fill no batch.
    at = gb.linearise(solution.network, data)
    assert np.isclose(at.loss, history.msbe[-1], rtol=1e-12)
    assert np.isclose(np.linalg.norm(at.gradient()), history.gradient_norm[-1], rtol=1e-6)


def test_a_minibatch_step_by_hand():
    """One batch of all rows: the step with a guide is that of a damped problem about the guide."""
    problem = bellman_problem(gb.MLP((2, 4, 1), key=0), random_transitions(rows=9))
    x = problem.pack(gb.MLP((2, 4, 1), key=0))
    at = problem.linearise(x)
    jacobian, residual = np.asarray(at.jacobian()), np.asarray(at.residual)
    guide = np.linspace(-1, 1, len(x))
    step = gb.Minibatch()._batch_step(problem, x, jnp.asarray(guide), jnp.asarray(0.1))
    damping = 0.1 * np.sum(jacobian**2) / 9
    stacked = np.vstack([jacobian, np.sqrt(damping) * np.eye(len(x))])
    best = np.linalg.lstsq(stacked, np.append(residual, np.sqrt(damping) * guide), rcond=None)[0]
    assert relative_error(step, best) <= 1e-9


def test_residual_algorithm_lies_between_the_gradients():
    network, data = gb.MLP((2, 5, 1), key=0), random_transitions()

    def first_step(solver):
        trail = gb.evaluate(
            network, data, solver=solver, max_steps=1, keep_parameters=True
        ).history.parameters
        return trail[1] - trail[0]

    full, semi = first_step(gb.ResidualGradient(0.1)), first_step(gb.SemiGradient(0.1))
    assert np.allclose(first_step(gb.ResidualAlgorithm(0.1, 1.0)), full, rtol=1e-12)
    assert np.allclose(first_step(gb.ResidualAlgorithm(0.1, 0.0)), semi, rtol=1e-12)
    assert np.allclose(first_step(gb.ResidualAlgorithm(0.1, 0.3)), 0.3 * full + 0.7 * semi, rtol=1e-9)


def test_first_order_is_the_optax_optimiser():
    def loss(x):
        return 0.5 * jnp.sum(rosenbrock(x) ** 2)

    adam, x = optax.adam(0.01), jnp.array([-1.2, 1.0])
    state = adam.init(x)
    for _ in range(20):
        update, state = adam.update(jax.grad(loss)(x), state, x)
        x = x + update
    solution = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=gb.FirstOrder(adam), max_steps=20)
    assert np.isclose(solution.history.loss[-1], float(loss(x)), rtol=1e-9)


def test_backtracking_halves_until_the_loss_falls():
    # Newton's step on arctan from 3 overshoots; halves of it do not.
    solver = gb.BacktrackingGaussNewton(0.0)
    solution = gb.least_squares(jnp.arctan, 3.0, solver=solver, keep_parameters=True, max_steps=1)
    step = np.arctan(3.0) * (1 + 3.0**2)
    trials = [3 - step / 2**k for k in range(6)]
    slope = np.arctan(3.0) ** 2
    fits = [
        0.5 * (np.arctan(3.0) ** 2 - np.arctan(t) ** 2) >= 1e-4 * slope / 2**k for k, t in enumerate(trials)
    ]
    assert fits.index(True) > 0
    assert np.isclose(solution.history.parameters[1, 0], trials[fits.index(True)])
    assert gb.least_squares(jnp.arctan, 3.0, solver=solver).loss < 1e-20


def test_growth_ends_a_solve_before_it_overflows():
    solution = gb.least_squares(lambda x: x - 1.0, 0.0, solver=gb.ResidualGradient(1e3))
    assert solution.status is gb.Status.DIVERGED
    assert solution.steps < 10 and float(solution.params) == 0.0


def test_a_large_parameter_does_not_hide_a_small_one():
    solution = gb.least_squares(lambda x: jnp.stack([(x[0] - 1e14) * 1e-14, x[1] ** 3 - 8.0]), [1e14, 0.5])
    assert float(solution.params[1]) == pytest.approx(2.0, rel=1e-9)


def test_gain_ratio_is_one_for_a_linear_problem():
    solution = gb.least_squares(lambda x: 3 * x - 6.0, 1.0, solver=gb.GaussNewton(0.5, 0.1), max_steps=4)
    assert np.allclose(solution.history.gain_ratio[1:], 1.0)


def test_progress_is_told_and_changes_nothing():
    seen = []
    told = gb.least_squares(rosenbrock, [-1.2, 1.0], on_progress=seen.append, max_steps=200)
    quiet = gb.least_squares(rosenbrock, [-1.2, 1.0], max_steps=200)
    assert [now.steps for now in seen] == sorted(now.steps for now in seen)
    assert seen[-1].steps == told.steps and seen[-1].max_steps == 200
    assert np.array_equal(told.history.loss, quiet.history.loss)


def test_interrupt_stops_the_program_and_keeps_the_best_so_far():
    def interrupt(now):
        if now.steps >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="interrupted after 6 steps") as stop:
        gb.least_squares(rosenbrock, [-1.2, 1.0], on_progress=interrupt, max_steps=100)
    solution = stop.value.solution
    assert solution.status is gb.Status.INTERRUPTED
    assert solution.loss == solution.history.loss.min() < solution.history.loss[0]


def test_steps_that_vanish_for_a_bad_reason_are_no_success():
    crawl = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=gb.ResidualGradient(1e-20))
    assert crawl.status is gb.Status.STAGNATED and not crawl.succeeded

    def fenced(x):
        return jnp.where(jnp.abs(x - 1) < 1e-6, x, jnp.nan)

    assert gb.least_squares(fenced, 1.0).status is gb.Status.STAGNATED


def test_the_size_of_the_rewards_does_not_matter():
    draft, network = random_transitions(), gb.MLP((2, 7, 1), key=0)
    runs = []
    for size in (1e-6, 1.0, 1e6):
        data = gb.Transitions(draft.state, size * draft.reward, draft.next_state)
        solution = gb.evaluate(network, data)
        assert solution.status is gb.Status.CONVERGED
        assert np.isclose(gb.msbe(solution.network, data), solution.msbe, rtol=1e-6)
        runs.append(solution.history.msbe / size**2)
    for run in runs:
        assert run.shape == runs[0].shape
        assert np.allclose(run[:20], runs[0][:20], rtol=1e-4)  # rounding grows along the path


def test_a_network_that_fits_is_left_alone():
    data, network = random_transitions(), gb.MLP((2, 7, 1), key=0)
    fitted = gb.evaluate(network, data).network
    again = gb.evaluate(fitted, data)
    assert again.steps == 0
    assert np.allclose(again.network(data.state), fitted(data.state), rtol=1e-6)


def test_zero_rewards():
    draft = random_transitions()
    data = gb.Transitions(draft.state, np.zeros(12), draft.next_state)
    solution = gb.evaluate(gb.MLP((2, 7, 1), key=0), data)
    assert solution.status is gb.Status.CONVERGED


def test_parameters_come_back_as_they_went_in():
    params = {"a": jnp.ones(2, jnp.float32), "b": 1.0, "c": (np.array([1, 2]),)}
    solution = gb.least_squares(
        lambda p: jnp.concatenate([p["a"] - 2, jnp.atleast_1d(p["b"]) - 3, p["c"][0] - 4]), params
    )
    assert solution.params["a"].dtype == jnp.float32
    assert solution.params["b"].dtype == solution.params["c"][0].dtype == jnp.float64
    assert np.allclose(solution.params["a"], 2) and np.allclose(solution.params["c"][0], 4)


def test_closure_over_a_traced_value():
    targets = jnp.array([1.0, 2.0])
    found = jax.vmap(lambda y: gb.least_squares(lambda p: p - y, 0.0).params)(targets)
    assert np.allclose(found, targets)


def test_numpy_integers_are_whole_numbers():
    assert gb.least_squares(rosenbrock, [0.9, 0.9], max_steps=np.int64(50), patience=np.int32(9)).succeeded


def test_str_of_one_and_of_many():
    assert "converged after" in str(gb.least_squares(rosenbrock, [0.9, 0.9], tolerance=1e-10))
    many = jax.vmap(lambda x: gb.least_squares(rosenbrock, x, tolerance=1e-10))(jnp.ones((3, 2)))
    assert str(many).startswith("3 solves: 3 converged")
    assert many.raise_if_failed() is many


def test_status_inside_jit_says_where_to_read_it():
    chain, features = star()

    def read(key):
        return gb.evaluate(gb.MLP((2, 3, 1), key=key), chain, features=features, max_steps=1).status

    with pytest.raises(ValueError, match="status_code"):
        jax.jit(read)(jax.random.key(0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], max_steps=-1), "max_steps=-1"),
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], tolerance=-1.0), "tolerance=-1.0"),
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], patience=0), "patience=0"),
        (lambda: gb.least_squares(rosenbrock, []), "params"),
        (lambda: gb.least_squares(rosenbrock, "x"), "params"),
        (lambda: gb.least_squares(None, [0.0]), "residual"),
        (lambda: gb.least_squares(lambda x: x[:0], np.zeros(2)), "residual.*empty"),
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], solver=gb.SemiGradient(0.1)), "has no target"),
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], solver="lm"), "solver='lm'"),
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], solver=gb.GaussNewton), "solver="),
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], tolerance="a"), "tolerance"),
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], max_steps=10**9), "max_steps"),
        (lambda: gb.least_squares(rosenbrock, [0.0, 0.0], on_progress=3), "on_progress"),
        (lambda: gb.GaussNewton("0.1"), "step_size='0.1'"),
        (lambda: gb.GaussNewton(np.float32(-1)), "step_size"),
        (lambda: gb.GaussNewton(1.0, None), "damping=None"),
        (lambda: gb.GaussNewton(space="sample"), "space='sample'"),
        (lambda: gb.LevenbergMarquardt(lookback=0), "lookback"),
        (lambda: gb.GaussNewton(step_size=0.0), "step_size=0.0"),
        (lambda: gb.GaussNewton(damping=-1.0), "damping=-1.0"),
        (lambda: gb.ResidualGradient(float("nan")), "step_size=nan"),
        (lambda: gb.LevenbergMarquardt(initial_factor=-1.0), "initial_factor"),
    ],
)  # fmt: skip
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
