"""The loop: why it stops, what it keeps, what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gaussbell as gb
from problems import packed, random_transitions, star


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


def test_singular_system_without_damping_is_a_status():
    solution = gb.least_squares(lambda x: x[0] + x[1] - 1, [0.0, 0.0], solver=gb.GaussNewton(1.0, 0.0))
    assert solution.succeeded  # one row: sample space is not singular
    solution = gb.least_squares(
        lambda x: jnp.stack([x[0] - 2, x[0] * 3, x[0]]), [1.0, 1.0], solver=gb.GaussNewton(1.0, 0.0)
    )  # the second parameter does nothing
    assert solution.status is gb.Status.DIVERGED
    assert np.isfinite(np.asarray(solution.params)).all()


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
    solver = gb.LevenbergMarquardt(initial_factor=1e-3, bend=None)
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
    """Straight dogleg steps and the trust region, written out in NumPy."""
    history = gb.least_squares(rosenbrock, [-1.2, 1.0], solver=gb.Dogleg(bend=None), max_steps=12).history
    assert not history.accepted.all()

    def residual(x):
        return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])

    def loss(x):
        return 0.5 * residual(x) @ residual(x)

    x, radius = np.array([-1.2, 1.0]), None
    for k in range(1, len(history.loss)):
        jacobian, r = np.array([[-20 * x[0], 10.0], [-1.0, 0.0]]), residual(x)
        gradient = jacobian.T @ r
        descent = gradient * (gradient @ gradient) / np.sum((jacobian @ gradient) ** 2)
        newton = np.linalg.solve(jacobian, r)
        radius = np.linalg.norm(descent) if radius is None else radius
        along = np.linspace(0, 1, 200_001)[:, None]
        path = np.concatenate([along * descent, descent + along * (newton - descent)])
        within = np.flatnonzero(np.linalg.norm(path, axis=1) <= radius * (1 + 1e-12))
        step = path[within[-1]]
        assert np.isclose(history.step_norm[k], np.linalg.norm(step), rtol=1e-4)
        predicted = loss(x) - 0.5 * np.sum((r - jacobian @ step) ** 2)
        gain = (loss(x) - loss(x - step)) / predicted
        assert np.isclose(history.gain_ratio[k], gain, rtol=1e-2, atol=1e-2)
        radius *= 3.5 if gain > 0.99 else 1.0 if gain > 0.01 else 0.25
        if history.accepted[k]:
            x = x - step


def test_dogleg_where_the_jacobian_has_lost_rank():
    def residual(x):
        return jnp.stack([x[0] + x[1] - 1, 2 * x[0] + 2 * x[1] - 2, 0.0 * x[0]])

    for solver in (gb.Dogleg(), gb.LevenbergMarquardt()):
        solution = gb.least_squares(residual, [3.0, 4.0], solver=solver)
        assert solution.succeeded and solution.loss < 1e-20


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
        assert np.allclose(run[:20], runs[0][:20], rtol=1e-6)  # rounding grows along the path


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
