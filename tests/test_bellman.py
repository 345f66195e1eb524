"""Mathematics: what must hold exactly, whatever the numbers."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

import gaussbell as gb
from gaussbell.networks.layer_factors import LayerFactors
from gaussbell.numerics.differential import DenseRows, OnDemand
from gaussbell.numerics.linalg import ByShape, MatrixFree, ParameterSpace, SampleSpace, damped_step
from gaussbell.optimise.problem import Linearisation
from problems import chain_loss, packed, random_mdp, random_transitions, relative_error, sampled_loss
from tolerances import CURVATURE, DIFFERENCES, EXACT, SOLVED

ARCHITECTURES = [(2, 1), (2, 7, 1), (2, 10, 10, 1), (3, 4, 5, 6, 1), (5, 10, 10, 1)]
ACTIVATIONS = [gb.networks.bent_identity, gb.networks.softplus, gb.networks.tanh, gb.networks.identity]


def inputs_for(sizes, rows=9):
    return np.random.default_rng(3).normal(size=(rows, sizes[0]))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("sizes", ARCHITECTURES, ids=str)
def test_differential_map_is_the_jacobian(sizes, activation):
    network = gb.MLP(sizes, activation, key=1)
    inputs = inputs_for(sizes)
    x, unpack = packed(network)

    def values(y):
        return unpack(y)(inputs)

    rows = gb.differential_map(network, inputs).rows()
    assert relative_error(rows, jax.jit(jax.jacrev(values))(x)) <= EXACT

    h = 1e-5
    steps = h * jnp.eye(len(x))
    differences = jax.jit(jax.vmap(lambda e: (values(x + e) - values(x - e)) / (2 * h)))(steps).T
    assert relative_error(rows, differences) <= DIFFERENCES


@pytest.mark.parametrize("sizes", ARCHITECTURES, ids=str)
def test_products_and_gram_come_from_the_factors(sizes):
    g = gb.differential_map(gb.MLP(sizes, key=1), inputs_for(sizes))
    assert isinstance(g, LayerFactors)
    rows = np.asarray(g.rows())
    rng = np.random.default_rng(0)
    h, u = rng.normal(size=rows.shape[1]), rng.normal(size=rows.shape[0])
    assert relative_error(g.apply(jnp.asarray(h)), rows @ h) <= EXACT
    assert relative_error(g.transpose(jnp.asarray(u)), rows.T @ u) <= EXACT
    assert relative_error(g.gram(), rows @ rows.T) <= EXACT


def test_network_known_only_as_a_function_has_the_same_map():
    mlp = gb.MLP((2, 6, 1), key=1)
    function = gb.ValueFunction(mlp.weights, _by_hand)
    inputs = inputs_for((2,))
    g, h = gb.differential_map(mlp, inputs), gb.differential_map(function, inputs)
    assert isinstance(h, DenseRows)
    assert relative_error(h.value, g.value) <= EXACT
    assert relative_error(h.rows(), g.rows()) <= EXACT
    assert relative_error(h.gram(), g.gram()) <= EXACT


def _by_hand(weights, s):
    hidden = gb.networks.bent_identity(weights[0].T @ jnp.append(s, 1.0))
    return weights[1].T @ jnp.append(hidden, 1.0)


@pytest.mark.parametrize("q_factors", [False, True], ids=["V", "Q"])
def test_sampled_gradient(q_factors):
    actions = np.random.default_rng(1).integers(0, 2, (2, 12)).astype(float)
    options = {"action": actions[0], "next_action": actions[1]} if q_factors else {}
    data = random_transitions(**options)
    network = gb.MLP((3 if q_factors else 2, 8, 1), key=2)
    at = gb.linearise(network, data)
    assert relative_error(at.loss, sampled_loss(network, data)) <= EXACT
    gradient = packed(jax.jit(jax.grad(sampled_loss))(network, data))[0]
    assert relative_error(at.gradient(), gradient) <= EXACT


def test_discrete_gradient():
    chain = random_mdp().under()
    features = gb.encodings.normal(chain.num_states, 2, key=1)
    network = gb.MLP((2, 8, 1), key=2)
    at = gb.linearise(network, chain, features=features)
    assert relative_error(at.loss, chain_loss(network, chain, features)) <= EXACT
    gradient = packed(jax.grad(chain_loss)(network, chain, features))[0]
    assert relative_error(at.gradient(), gradient) <= EXACT


def test_sampled_hessian_is_the_true_one_where_the_residual_is_zero():
    network = gb.MLP((2, 8, 1), key=2)
    draft = random_transitions()
    reward = network(draft.state) - 0.99 * network(draft.next_state)
    data = gb.Transitions(draft.state, reward, draft.next_state)
    at = gb.linearise(network, data)
    x, unpack = packed(network)
    assert float(at.loss) < 1e-28
    true = jax.jit(jax.hessian(lambda y: sampled_loss(unpack(y), data)))(x)
    assert relative_error(at.hessian(), true) <= CURVATURE


def test_discrete_hessian_is_the_true_one_where_the_residual_is_zero():
    draft = random_mdp(actions=1)
    features = gb.encodings.normal(6, 2, key=1)
    network = gb.MLP((2, 8, 1), key=2)
    values = np.asarray(network(features))
    chain = draft.under()
    reward = values - chain.discount * (chain.transition @ values)
    chain = gb.MarkovChain(chain.transition, reward, chain.discount)
    at = gb.linearise(network, chain, features=features)
    x, unpack = packed(network)
    assert float(at.loss) < 1e-28
    true = jax.jit(jax.hessian(lambda y: chain_loss(unpack(y), chain, features)))(x)
    assert relative_error(at.hessian(), true) <= CURVATURE


def test_hessian_differs_from_the_true_one_elsewhere():
    network, data = gb.MLP((2, 8, 1), key=2), random_transitions()
    x, unpack = packed(network)
    true = jax.jit(jax.hessian(lambda y: sampled_loss(unpack(y), data)))(x)
    assert relative_error(gb.linearise(network, data).hessian(), true) > 1e-3


def test_chain_and_its_transitions_agree():
    """A deterministic chain with uniform weights is a batch of transitions."""
    order = np.array([1, 2, 3, 0])
    mdp = gb.FiniteMDP(np.eye(4)[order][:, None, :], np.arange(4.0)[:, None], 0.9)
    features = gb.encodings.normal(4, 2, key=0)
    network = gb.MLP((2, 5, 1), key=0)
    exact = gb.linearise(network, mdp.under(), features=features)
    sampled = gb.linearise(network, gb.Transitions(features, np.arange(4.0), features[order], 0.9))
    assert relative_error(exact.gradient(), sampled.gradient()) <= EXACT
    assert relative_error(exact.gram(), sampled.gram()) <= EXACT


@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
    damping=st.floats(1e-4, 10),
    seed=st.integers(0, 2**31),
)
def test_parameter_space_sample_space_and_least_squares_agree(rows, columns, damping, seed):
    rng = np.random.default_rng(seed)
    jacobian, residual = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    at = Linearisation(jnp.asarray(residual), DenseRows(jnp.asarray(residual), jnp.asarray(jacobian)))
    stacked = np.vstack([jacobian, np.sqrt(damping) * np.eye(columns)])
    dense = np.linalg.lstsq(stacked, np.append(residual, np.zeros(columns)), rcond=None)[0]
    for space in (ParameterSpace(), SampleSpace(), ByShape()):
        assert relative_error(damped_step(space, at, jnp.asarray(damping)), dense) <= SOLVED


@pytest.fixture
def in_factors(monkeypatch):
    """Rows in layer factors however small they are."""
    monkeypatch.setattr("gaussbell.networks.layer_factors.DENSE_NUMBERS", 0)


@pytest.mark.parametrize(("most", "kind"), [(0, LayerFactors), (10**9, DenseRows)])
def test_small_rows_are_dense(monkeypatch, most, kind):
    monkeypatch.setattr("gaussbell.networks.layer_factors.DENSE_NUMBERS", most)
    assert isinstance(gb.linearise(gb.MLP((2, 5, 1), key=0), random_transitions(rows=7)).differential, kind)


@pytest.mark.usefixtures("in_factors")
def test_structured_gram_gives_the_same_step_as_dense_rows():
    network, data = gb.MLP((2, 60, 60, 1), key=0), random_transitions(rows=20)
    at = gb.linearise(network, data)
    rows = np.asarray(at.jacobian())
    assert relative_error(at.gram(), rows @ rows.T) <= EXACT
    dense = rows.T @ np.linalg.solve(rows @ rows.T + 1e-3 * np.eye(20), at.residual)
    assert relative_error(damped_step(ByShape(), at, jnp.asarray(1e-3)), dense) <= SOLVED


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        pytest.param((2, 60, 60, 1), 300, marks=pytest.mark.slow),
        ((3, 200, 1), 127),
        ((3, 200, 1), 300),
        ((2, 5, 5, 1), 1),
        ((2, 5, 5, 1), 300),
    ],
    ids=str,
)
@pytest.mark.usefixtures("in_factors")
def test_triangles_by_blocks_are_those_of_the_jacobian(sizes, rows):
    at = gb.linearise(gb.MLP(sizes, key=0), random_transitions(rows=rows, width=sizes[0]))
    jacobian = np.asarray(at.jacobian())
    assert relative_error(np.tril(at.gram_triangle()), np.tril(jacobian @ jacobian.T)) <= EXACT
    assert relative_error(np.tril(at.normal_triangle()), np.tril(jacobian.T @ jacobian)) <= EXACT
    some = jnp.array([0, rows - 1, rows // 2])
    assert relative_error(at.take(some).jacobian(), jacobian[some]) <= EXACT


@pytest.mark.usefixtures("in_factors")
def test_normal_matrix_by_blocks_of_rows(monkeypatch):
    at = gb.linearise(gb.MLP((2, 6, 1), key=0), random_transitions(rows=53))
    jacobian = np.asarray(at.jacobian())
    monkeypatch.setattr("gaussbell.networks.layer_factors.NORMAL_BLOCK_NUMBERS", 10 * at.num_parameters)
    assert relative_error(at.hessian(), jacobian.T @ jacobian) <= EXACT


def test_derivatives_on_demand_are_those_of_dense_rows(monkeypatch):
    network = gb.ValueFunction(jnp.ones((5, 2)), lambda w, s: jnp.tanh(w @ s).sum())
    data = random_transitions(rows=8)
    dense = gb.linearise(network, data)
    monkeypatch.setattr("gaussbell.networks.derivatives.MOST_DENSE_NUMBERS", 1)
    demanded = gb.linearise(network, data)
    assert isinstance(demanded.differential, OnDemand)
    assert relative_error(demanded.jacobian(), dense.jacobian()) <= EXACT
    assert relative_error(demanded.jvp(jnp.arange(10.0)), dense.jvp(jnp.arange(10.0))) <= EXACT
    assert relative_error(demanded.vjp(jnp.arange(8.0)), dense.vjp(jnp.arange(8.0))) <= EXACT
    assert relative_error(demanded.gram(), dense.gram()) <= EXACT


@pytest.mark.parametrize("rows", [5, 40, 1000])
@pytest.mark.parametrize("kind", ["samples", "chain", "function"])
def test_conjugate_gradients_give_the_dense_step(kind, rows):
    if kind == "samples":
        at = gb.linearise(gb.MLP((2, 20, 20, 1), key=0), random_transitions(rows=60))
    elif kind == "chain":
        chain = random_mdp(states=30).under()
        at = gb.linearise(gb.MLP((1, 8, 1), key=0), chain)
    else:
        rng = np.random.default_rng(0)
        matrix = jnp.asarray(rng.normal(size=(50, 20)))
        at = Linearisation(jnp.ones(50), OnDemand(jnp.ones(50), jnp.ones(20), lambda x: matrix @ x))
    space = MatrixFree(rows=rows, tolerance=1e-10, max_iterations=500)
    damping = 1e-5 * space.square_norm(space.system(at))
    dense = damped_step(ByShape(), at, damping)
    assert relative_error(damped_step(space, at, damping), dense) <= 1e-6


def test_square_norm_is_that_of_the_jacobian():
    at = gb.linearise(gb.MLP((2, 20, 1), key=0), random_transitions(rows=60))
    square = np.sum(np.asarray(at.jacobian()) ** 2)
    for space in (SampleSpace(), ParameterSpace(), MatrixFree(rows=60)):
        assert np.isclose(space.square_norm(space.system(at)), square, rtol=1e-12)


def test_the_solve_follows_from_the_shape():
    by_shape = ByShape()
    assert isinstance(by_shape.for_shape(100, 151), SampleSpace)
    assert isinstance(by_shape.for_shape(151, 151), ParameterSpace)
    assert isinstance(by_shape.for_shape(100_000, 17_793), MatrixFree)
    assert isinstance(by_shape.for_shape(100_000, 500), ParameterSpace)
    assert isinstance(ByShape(memory=1e3).for_shape(100, 151), MatrixFree)


@given(rank=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_a_failed_factorisation_falls_back_on_the_pseudo_inverse(rank, seed):
    rng = np.random.default_rng(seed)
    jacobian = rng.normal(size=(7, rank)) @ rng.normal(size=(rank, 12))
    residual = rng.normal(size=7)
    gram = jacobian @ jacobian.T - 1e-13 * np.eye(7)  # rounding has made it indefinite
    factor = SampleSpace().factorise_anyway(jnp.asarray(gram), jnp.zeros(()))
    solved = jacobian.T @ jax.scipy.linalg.cho_solve((factor, True), residual)
    best = np.linalg.lstsq(jacobian, residual, rcond=1e-9)[0]
    assert relative_error(solved, best) <= 1e-5


def test_the_fallback_costs_nothing_under_vmap_and_reaches_the_lane_that_needs_it():
    good, bad = np.eye(3), np.diag([1.0, 1e-18, -1e-20])  # the last two drown in rounding
    factors = jax.vmap(lambda m: SampleSpace().factorise_anyway(m, jnp.zeros(())))(jnp.stack([good, bad]))
    solved = jax.vmap(lambda f: jax.scipy.linalg.cho_solve((f, True), jnp.ones(3)))(factors)
    assert np.allclose(solved, [[1, 1, 1], [1, 0, 0]])


def test_gauss_newton_iterates_do_not_depend_on_the_space():
    network, data = gb.MLP((2, 8, 1), key=0), random_transitions()
    losses = [
        gb.evaluate(
            network, data, solver=gb.GaussNewton(0.5, 1e-3, space), max_steps=20, tolerance=0.0
        ).history.msbe
        for space in (ParameterSpace(), SampleSpace())
    ]
    assert relative_error(*losses) <= SOLVED


@given(
    reward=hnp.arrays(float, 6, elements=st.floats(-10, 10)),
    values=hnp.arrays(float, 6, elements=st.floats(-100, 100)),
    seed=st.integers(0, 5),
    discount=st.sampled_from([0.0, 0.5, 0.99]),
)
def test_value_bounds(reward, values, seed, discount):
    """The exact value has no residual; any other is off by at most residual / (1 - discount)."""
    transition = random_mdp(actions=1, seed=seed).under().transition
    chain = gb.MarkovChain(transition, reward, discount)
    scale = 1 + np.abs(reward).max() / (1 - discount)
    assert np.abs(chain.residual(chain.values)).max() <= EXACT * scale
    error = np.abs(values - chain.values).max()
    assert error <= np.abs(chain.residual(values)).max() / (1 - discount) + SOLVED * scale


def test_constant_reward_moves_the_value_by_its_discounted_sum():
    chain = random_mdp(discount=0.95).under()
    richer = gb.MarkovChain(chain.transition, chain.reward + 3.0, chain.discount)
    assert relative_error(richer.values, chain.values + 3.0 / 0.05) <= EXACT


def test_one_undamped_step_solves_a_linear_network():
    data = random_transitions(rows=12)
    network = gb.MLP((2, 1), gb.networks.identity, key=0)
    solution = gb.evaluate(network, data, solver=gb.GaussNewton(1.0, 0.0), max_steps=1, tolerance=0.0)
    with_bias = np.hstack([data.state, np.ones((12, 1))])
    next_with_bias = np.hstack([data.next_state, np.ones((12, 1))])
    jacobian = with_bias - 0.99 * next_with_bias
    best = np.linalg.lstsq(jacobian, np.asarray(data.reward), rcond=None)[0]
    assert relative_error(solution.network.weights[0][:, 0], best) <= SOLVED


def test_strongly_damped_step_is_the_gradient():
    at = gb.linearise(gb.MLP((2, 8, 1), key=0), random_transitions())
    damping = 1e9
    for space in (ParameterSpace(), SampleSpace()):
        step = damped_step(space, at, jnp.asarray(damping))
        assert relative_error(damping * step, at.gradient()) <= 1e-7


def test_semi_gradient_is_the_gradient_with_the_target_held():
    network, data = gb.MLP((2, 8, 1), key=0), random_transitions()

    def held_loss(moving):
        target = data.reward + data.discount * network(data.next_inputs)
        return 0.5 * jnp.mean((moving(data.inputs) - jax.lax.stop_gradient(target)) ** 2)

    wanted, _ = packed(jax.grad(held_loss)(network))
    solution = gb.evaluate(
        network, data, solver=gb.SemiGradient(0.1), max_steps=1, tolerance=0.0, keep_parameters=True
    )
    moved = solution.history.parameters[0] - solution.history.parameters[1]
    assert relative_error(moved, 0.1 * wanted) <= EXACT

    newton = gb.evaluate(
        network, data, solver=gb.SemiGaussNewton(0.1, 1e-3), max_steps=1, tolerance=0.0, keep_parameters=True
    )
    g = np.asarray(gb.differential_map(network, data.inputs).rows())
    semi_hessian = g.T @ g / len(data) + 1e-3 * np.eye(g.shape[1])
    moved = newton.history.parameters[0] - newton.history.parameters[1]
    assert relative_error(moved, 0.1 * np.linalg.solve(semi_hessian, wanted)) <= SOLVED


def test_algorithm_1_to_the_letter():
    """Three steps of the paper's Algorithm 1, written with its own matrices and Householder QR."""
    network, data = gb.MLP((2, 8, 1), key=0), random_transitions()
    step_size, c, count = 0.7, 1e-5, len(data)
    solution = gb.evaluate(
        network,
        data,
        solver=gb.GaussNewton(step_size, c),
        max_steps=3,
        tolerance=0.0,
        keep_parameters=True,
    )
    w, unpack = packed(network)
    for k in range(3):
        assert relative_error(solution.history.parameters[k], w) <= 1e-7
        f = unpack(w)
        g = gb.differential_map(f, data.state).rows()
        g_next = gb.differential_map(f, data.next_state).rows()
        delta = f(data.state) - data.reward - 0.99 * f(data.next_state)
        gradient = (g - 0.99 * g_next).T @ delta / count
        hessian = (g - 0.99 * g_next).T @ (g - 0.99 * g_next) / count
        q, r = jnp.linalg.qr(hessian + c * jnp.eye(len(w)))
        w = w - step_size * jax.scipy.linalg.solve_triangular(r, q.T @ gradient)
