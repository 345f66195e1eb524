"""Every solver on every problem: the promises that hold for all of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gaussbell as gb
from problems import random_transitions, relative_error, star

SOLVERS = [
    gb.GaussNewton(1.0, 1e-3),
    gb.SemiGaussNewton(0.01, 1e-2),
    gb.ResidualGradient(0.01),
    gb.SemiGradient(0.001),
    gb.LevenbergMarquardt(),
    gb.Dogleg(),
    gb.BacktrackingGaussNewton(1e-3),
    gb.ResidualAlgorithm(0.001, 0.5),
    gb.FirstOrder(optax.adam(0.01)),
    gb.Minibatch(batch_size=4),
]
STEPS = 15
TOLERANCE = 1e-6
"""Above rounding, which quadratic steps reach within these steps."""


def on_the_star(key, solver):
    chain, features = star()
    network = gb.MLP((2, 7, 1), key=key)
    return gb.evaluate(network, chain, features=features, solver=solver, max_steps=STEPS, tolerance=TOLERANCE)


def on_samples(key, solver):
    network = gb.MLP((2, 7, 1), gb.networks.tanh, key=key)
    return gb.evaluate(network, random_transitions(), solver=solver, max_steps=STEPS, tolerance=TOLERANCE)


def on_samples_with_a_foreign_network(key, solver):
    slopes = jax.random.normal(key, (5, 2), jnp.float64)
    network = gb.ValueFunction(slopes, _sum_of_tanh)
    return gb.evaluate(network, random_transitions(), solver=solver, max_steps=STEPS, tolerance=TOLERANCE)


def _sum_of_tanh(slopes, s):
    return jnp.tanh(slopes @ s).sum()


WAYS = (gb.SemiGradient, gb.LevenbergMarquardt, gb.Dogleg)
"""One solver for each way of using a problem; the others differ from these only on the rows themselves."""

PAIRS = [(on_samples, solver) for solver in SOLVERS] + [
    (problem, solver)
    for problem in (on_the_star, on_samples_with_a_foreign_network)
    for solver in SOLVERS
    if isinstance(solver, WAYS)
]

every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
every_pair = pytest.mark.parametrize(
    ("problem", "solver"), PAIRS, ids=[f"{p.__name__}-{type(s).__name__}" for p, s in PAIRS]
)


def test_minibatches_need_rows_that_stand_alone():
    with pytest.raises(ValueError, match="rows that stand alone"):
        on_the_star(jax.random.key(5), gb.Minibatch(batch_size=4))


@every_pair
def test_plain_jit_and_vmap_agree_and_are_finite(problem, solver):
    keys = jax.random.split(jax.random.key(5), 3)
    batch = jax.vmap(lambda key: problem(key, solver))(keys)
    compiled = jax.jit(lambda key: problem(key, solver))(keys[0])
    assert relative_error(compiled.loss, batch.loss[0]) <= 1e-6
    for k, key in enumerate(keys):
        single = problem(key, solver)
        assert relative_error(batch.loss[k], single.loss) <= 1e-6
        assert batch.status_code[k] == single.status_code
        assert batch.steps[k] == single.steps
        assert np.isfinite(single.loss)
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(single.network))
        history = single.history
        assert len(history.loss) == single.steps + 1
        assert np.isfinite(history.loss).all()
        assert np.isfinite(history.gradient_norm).all()


@every_solver
def test_same_seed_same_bits_and_the_reported_loss_is_the_networks(solver):
    first, second = (on_samples(jax.random.key(1), solver) for _ in range(2))
    assert np.array_equal(first.history.loss, second.history.loss, equal_nan=True)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(first.network), jax.tree.leaves(second.network), strict=True)
    )
    assert relative_error(gb.msbe(first.network, random_transitions()), first.msbe) <= 1e-9
    assert first.msbe == np.nanmin(first.history.msbe)


def test_other_numbers_of_the_same_shape_compile_nothing():
    traces = 0

    def counted(x):
        nonlocal traces
        traces += 1
        return gb.networks.bent_identity(x)

    def evaluate(seed, step_size, tolerance):
        solver = gb.GaussNewton(step_size, 1e-3)
        network = gb.MLP((2, 4, 1), counted, key=seed)
        data = random_transitions(seed=seed)
        gb.evaluate(network, data, solver=solver, max_steps=600, tolerance=tolerance, patience=seed + 590)

    evaluate(0, 1.0, 0.0)
    before = traces
    evaluate(1, 0.5, 1e-30)
    assert before > 0 and traces == before


def test_a_whole_evaluation_vmapped_over_25_seeds():
    chain, features = star()
    keys = jax.random.split(jax.random.key(0), 25)

    def evaluate(key):
        # Quadratic steps square relative differences; below this tolerance they show rounding only.
        return gb.evaluate(gb.MLP((2, 7, 1), key=key), chain, features=features, tolerance=1e-6)

    batch = jax.vmap(evaluate)(keys)
    loop = [evaluate(key) for key in keys]
    assert batch.succeeded.all()
    assert batch.steps.tolist() == [single.steps for single in loop]
    for k, single in enumerate(loop):
        assert relative_error(batch.loss[k], single.loss) <= 1e-6


def test_sweep_over_a_setting_by_vmap():
    chain, features = star()

    def evaluate(damping):
        solver = gb.GaussNewton(1.0, damping)
        return gb.evaluate(
            gb.MLP((2, 7, 1), key=0), chain, features=features, solver=solver, max_steps=10, tolerance=0.0
        ).loss

    dampings = jnp.array([1e-5, 1e-3])
    wanted = [evaluate(float(damping)) for damping in dampings]
    assert relative_error(jax.vmap(evaluate)(dampings), np.array(wanted)) <= 1e-6


def test_equinox_module_with_other_leaves():
    keys = jax.random.split(jax.random.key(0), 2)
    network = eqx.nn.Sequential(
        [
            eqx.nn.Linear(2, 8, key=keys[0]),
            eqx.nn.Lambda(jnp.tanh),
            eqx.nn.Dropout(0.5, inference=True),
            eqx.nn.Linear(8, "scalar", key=keys[1]),
        ]
    )
    data = random_transitions(rows=10)
    solution = gb.evaluate(network, data)
    assert solution.succeeded
    assert gb.linearise(network, data).gradient().shape == (33,)
    assert solution.network.layers[2].p == 0.5


def test_numbers_among_the_parameters_of_a_function():
    network = gb.ValueFunction({"slope": jnp.ones(2), "bias": 0.0}, lambda p, s: p["slope"] @ s + p["bias"])
    assert gb.linearise(network, random_transitions()).gradient().shape == (3,)
    assert gb.evaluate(network, random_transitions()).succeeded


def test_vmap_over_any_part_of_the_data():
    draft = random_transitions()
    network = gb.MLP((3, 4, 1), key=0)

    def loss(action):
        data = gb.Transitions(draft.state, draft.reward, draft.next_state, action=action, next_action=action)
        return gb.evaluate(network, data, max_steps=3).loss

    assert jax.vmap(loss)(jnp.ones((2, 12))).shape == (2,)
    chain, features = star()
    weighted = jax.vmap(
        lambda w: gb.evaluate(gb.MLP((2, 3, 1), key=0), chain, features=features, weight=w, max_steps=3).loss
    )(jnp.ones((2, 7)))
    assert weighted[0] == weighted[1]
    assert jax.vmap(lambda k: gb.MLP((2, 3, 1), key=k)(jnp.zeros(2)))(jnp.arange(3)).shape == (3,)


def test_equinox_module_as_network():
    network = eqx.nn.MLP(2, "scalar", 8, 1, activation=jnp.tanh, key=jax.random.key(0))
    solution = gb.evaluate(network, random_transitions(rows=10), max_steps=200)
    assert solution.succeeded
    assert isinstance(solution.network.network, eqx.nn.MLP)
    assert solution.network(np.zeros((4, 2))).shape == (4,)
    again = gb.evaluate(solution.network, random_transitions(rows=10), max_steps=2)
    assert isinstance(again.network.network, eqx.nn.MLP), "what comes back goes in again"
    assert float(gb.msbe(solution.network, random_transitions(rows=10))) <= 1e-10
