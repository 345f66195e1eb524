"""Ranks, spectra and Hessians against dense matrices and autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gaussbell as gb
from gaussbell.diagnostics import hessians
from gaussbell.diagnostics import jacobian_spectra as ranks

CAR = gb.environments.MountainCar()


def sampled(n=30, sizes=(2, 6, 5, 1), n_step=1, **options):
    data = gb.sample_transitions(CAR, CAR.along_velocity, n, key=1, n_step=n_step, **options)
    return gb.FeatureNetwork(gb.features.Scale(CAR.low, CAR.high), gb.MLP(sizes, key=2)), data


def rows_of(network, inputs):
    inner = network.network
    return np.asarray(gb.differential_map(inner, network.features(jnp.asarray(inputs))).rows())


@pytest.mark.parametrize("by_gram", [False, True])
def test_spectra_are_those_of_the_dense_jacobians(by_gram):
    network, data = sampled()
    found = gb.diagnostics.spectra(network, data, by_gram=by_gram)
    states, successors = rows_of(network, data.state), rows_of(network, data.next_state)
    bellman = states - np.asarray(data.discount)[:, None] * successors
    for one, dense in zip(found, (states, successors, bellman), strict=True):
        exact = np.linalg.svd(dense, compute_uv=False)
        np.testing.assert_allclose(one.values, exact, atol=(1e-6 if by_gram else 1e-12) * exact[0])
        assert (one.rows, one.parameters) == (30, 59)
    assert found.bellman.rank == np.linalg.matrix_rank(bellman) or by_gram


def test_spectra_of_a_chain():
    chain = gb.environments.SevenStar().under()
    inputs = gb.encodings.normal(7, 2, key=0)
    network = gb.MLP((2, 7, 1), key=1)
    found = gb.diagnostics.spectra(network, chain, features=inputs)
    states = np.asarray(gb.differential_map(network, inputs).rows())
    transition = chain.transition.toarray()
    for one, dense in zip(
        found, (states, transition @ states, states - chain.discount * transition @ states), strict=True
    ):
        np.testing.assert_allclose(one.values, np.linalg.svd(dense, compute_uv=False), rtol=1e-9, atol=1e-12)
    assert found.states.has_full_rank and found.bellman.has_full_rank


def test_rank_is_lost_with_repeated_rows_or_few_parameters():
    network, data = sampled(20)
    twice = data.take(np.r_[np.arange(20), 3])
    found = gb.diagnostics.spectra(network, twice).bellman
    assert found.rank == 20 and not found.has_full_rank and found.condition == np.inf
    small, many = sampled(100)
    assert gb.diagnostics.spectra(small, many).bellman.rank <= 59


def test_effective_rank_counts_what_is_unique():
    def effective(values):
        return gb.diagnostics.Spectrum(np.array(values), len(values), 9, 0.0).effective_rank

    assert effective([1.0, 1.0, 1.0]) == pytest.approx(3)
    assert effective([1.0, 1e-12, 0.0]) == pytest.approx(1, abs=1e-6)
    assert effective([0.0]) == 0


def test_several_successors_are_averaged():
    network, data = sampled(10, successors=3)
    found = gb.diagnostics.spectra(network, data)
    each = [rows_of(network, data.next_state[:, k]) for k in range(3)]
    np.testing.assert_allclose(
        found.successors.values, np.linalg.svd(np.mean(each, axis=0), compute_uv=False), atol=1e-10
    )


def test_the_two_terms_add_up_to_the_hessian():
    network, data = sampled()
    terms = gb.diagnostics.hessian_terms(network, data)
    problem, x = hessians._problem(network, data, None)
    np.testing.assert_allclose(terms.hessian, jax.jit(jax.hessian(problem.loss))(x), atol=1e-12)
    np.testing.assert_allclose(terms.gauss_newton, gb.linearise(network, data).hessian(), atol=1e-12)
    step = 1e-6 * np.eye(len(x))[5]
    gradient = jax.jit(jax.grad(problem.loss))
    slope = (gradient(x + step) - gradient(x - step)) / 2e-6
    np.testing.assert_allclose(terms.hessian[5], slope, atol=1e-6)


def test_lanczos_finds_the_dense_eigenvalues(monkeypatch):
    monkeypatch.setattr(hessians, "DENSE_PARAMETERS", 50)
    network, data = sampled(40, sizes=(2, 14, 12, 1))
    found = gb.diagnostics.curvature(network, data, count=3)
    exact = np.linalg.eigvalsh(gb.diagnostics.hessian_terms(network, data).hessian)[::-1]
    np.testing.assert_allclose(found.largest, exact[:3], atol=1e-8 * exact[0])
    np.testing.assert_allclose(found.smallest, exact[-3:], atol=1e-8 * exact[0])
    assert found.negative_share == pytest.approx(max(0, -exact[-1]) / exact[0], abs=1e-8)


def test_gauss_newton_becomes_exact_along_a_run():
    chain = gb.environments.SevenStar().under()
    inputs = gb.encodings.normal(7, 2, key=1)
    network = gb.MLP((2, 7, 1), key=0)
    fit = gb.evaluate(
        network, chain, features=inputs, solver=gb.LevenbergMarquardt(), tolerance=1e-24, keep_parameters=True
    )
    share = gb.diagnostics.second_order_share(network, chain, fit.history.parameters, features=inputs)
    assert len(share) == int(fit.steps) + 1
    assert share[-1] < 1e-8 and share.max() > 1e-2
    hessian = gb.diagnostics.hessian_terms(fit.network, chain, features=inputs).hessian
    assert np.linalg.matrix_rank(hessian, tol=1e-9) <= chain.num_states


def test_gram_is_taken_where_the_matrix_would_not_fit(monkeypatch):
    network, data = sampled(10)
    taken = []
    monkeypatch.setattr(ranks, "MOST_DENSE_NUMBERS", 100)
    monkeypatch.setattr(ranks.np.linalg, "svd", lambda *_, **__: taken.append(1))
    assert gb.diagnostics.spectra(network, data).bellman.rank == 10 and not taken
