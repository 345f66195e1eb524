"""What users do, in programs of their own: JAX's default 32-bit mode, no flags, warnings are errors."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HEAD = """
import warnings
warnings.simplefilter("error")
import sys
sys.path.insert(0, {here!r})
import gymnasium, jax, jax.numpy as jnp, numpy as np
import gaussbell as gb
from stable_baselines_double import Model
assert not jax.config.jax_enable_x64

def counting_compilations(run):
    import jax.monitoring
    seen = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: seen.append(name))
    run()
    return sum("backend_compile" in name for name in seen)

def log_of(name, steps=200, seed=0):
    env = gymnasium.make(name)
    parts = [], [], [], [], [], []
    seen, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    for _ in range(steps):
        action = env.action_space.sample()
        reached, reward, terminated, truncated, _ = env.step(action)
        for part, value in zip(parts, (seen, action, reward, reached, terminated, truncated)):
            part.append(value)
        seen = env.reset()[0] if terminated or truncated else reached
    actions = gb.environments.from_gymnasium(env).actions
    return gb.Log(*(np.array(part) for part in parts), actions=actions)
"""


def run(program):
    """Run a program as a user would, and show what it said if it fails."""
    text = HEAD.format(here=str(Path(__file__).parent)) + textwrap.dedent(program)
    plain = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_ENABLE_X64")}
    done = subprocess.run(
        [sys.executable, "-c", text], env=plain, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_stable_baselines_models_work_in_every_call():
    run("""
    for name in ("CartPole-v1", "Pendulum-v1"):
        env = gymnasium.make(name)
        model = Model(env.observation_space, env.action_space)
        simulator = gb.environments.from_gymnasium(name, num_envs=4)
        policy = gb.policies.from_stable_baselines(model)
        log = log_of(name)
        for given in (policy, model):
            found = gb.evaluate_offline(log, given, num_bootstrap=0, max_steps=3)
            assert np.isfinite(found.value) and found.status.name in ("OUT_OF_STEPS", "CONVERGED")
        found = gb.evaluate_policy(simulator, policy, budget=300, n_step=5, max_steps=3)
        assert np.isfinite(found.value_error)
        assert gb.sample_transitions(simulator, policy, 10, q=True).next_action.shape == (10, 1)
        assert len(simulator.play(policy, episodes=2, length=5)) == 10
    car = gb.environments.MountainCar()  # a simulator in JAX calls the model back
    env = gymnasium.make("MountainCar-v0")
    model = Model(env.observation_space, env.action_space, seed=2)
    policy = gb.policies.from_stable_baselines(model)
    data = gb.sample_transitions(car, policy, 8, n_step=3)
    chosen = model.predict(np.asarray(data.state, np.float32), deterministic=True)[0]
    states = np.asarray(data.state, np.float32)
    reached = np.array([car.transition(s, int(a)) for s, a in zip(states, chosen)])
    one = gb.sample_transitions(car, policy, 8)
    np.testing.assert_allclose(one.next_state, reached, atol=1e-6)
    fresh = lambda: gb.sample_transitions(car, gb.policies.from_stable_baselines(model), 8, n_step=3)
    assert counting_compilations(fresh) == 0, "a policy on the host, wrapped anew, compiles nothing anew"
    python = lambda state: 0 if float(state[1]) < 0 else 2
    gb.sample_transitions(car, python, 8, n_step=3)
    assert counting_compilations(lambda: gb.sample_transitions(car, python, 8, n_step=3)) == 0
    """)


def test_policies_on_the_host():
    run("""
    class Drawn:
        noisy = True
        keys = []
        def __call__(self, state, key):
            self.keys.append(tuple(np.asarray(key).tolist()))
            return int(np.random.default_rng(np.asarray(key)).integers(2)) if float(state[0]) < 9 else 0
    pole = gb.environments.from_gymnasium("CartPole-v1", num_envs=2)
    log = pole.play(Drawn(), episodes=2, length=20)
    assert set(np.unique(log.action)) == {0.0, 1.0} and len(set(Drawn.keys)) > 10
    ours = gb.environments.CartPole().record(Drawn(), episodes=3, length=10)
    assert set(np.unique(ours.action)) == {0.0, 1.0}

    class OnlyPredict:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            return np.tanh(np.asarray(observation)[:, 2:3]), None
    pendulum = gb.environments.from_gymnasium("Pendulum-v1", num_envs=2)
    for policy in (OnlyPredict(), gb.policies.from_stable_baselines(OnlyPredict())):
        assert pendulum.play(policy, episodes=1, length=3).action.shape == (3, 1)

    def broken(state):
        raise LookupError("the file of weights is gone" if float(state[0]) < 99 else "")
    for env in (gb.environments.CartPole(), pole):
        try:
            env.play(broken, episodes=1, length=3)
        except LookupError as error:
            assert "broken" in str(error.__traceback__.tb_next.tb_frame) or error.__traceback__ is not None
        else:
            raise AssertionError("an error of the policy is lost")
    """)


def test_networks_of_equinox_at_any_size_and_in_batches():
    run("""
    import equinox as eqx
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (300, 2))
    data = gb.Transitions(state, -np.sum(state**2, axis=1), 0.9 * state, discount=0.95)
    network = eqx.nn.MLP(2, "scalar", 256, 2, jax.nn.tanh, key=jax.random.key(0))
    fit = gb.evaluate(network, data, max_steps=2)
    assert fit.network(state[:7].astype(np.float32)).shape == (7,)
    assert fit.network(state[0].astype(np.float32)).shape == ()
    assert isinstance(fit.network.network, eqx.nn.MLP) and fit.network.layers[0].weight.shape == (256, 2)
    """)


def test_gradients_through_a_fitted_network_do_not_warn():
    run("""
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (50, 2))
    data = gb.Transitions(state, -np.sum(state**2, axis=1), 0.9 * state, discount=0.95)
    behind = gb.FeatureNetwork(gb.features.Scale([-1, -1], [1, 1]), gb.MLP((2, 8, 1)))
    for start in (gb.MLP((2, 8, 1)), behind):
        fit = gb.evaluate(start, data, max_steps=30)
        slope = jax.grad(fit.network)(jnp.array([0.3, -0.2]))
        near = [float(fit.network(np.array([0.3 + h, -0.2]))) for h in (-1e-2, 1e-2)]
        assert slope.dtype == jnp.float32 and abs(float(slope[0]) - (near[1] - near[0]) / 2e-2) < 1e-2
        jax.jit(jax.vmap(fit.network))(jnp.zeros((3, 2)))
    """)


def test_nothing_compiles_for_other_numbers_of_the_same_shape():
    run("""
    def data(seed):
        state = np.random.default_rng(seed).uniform(-1, 1, (30, 2))
        return gb.Transitions(state, -np.sum(state**2, axis=1), 0.9 * state, discount=0.95)
    first, second = data(0), data(1)
    network = gb.MLP((2, 5, 1))
    gb.evaluate(network, first, max_steps=300)
    again = [lambda: gb.evaluate(network, first, max_steps=17),
             lambda: gb.evaluate(network, second, max_steps=17),
             lambda: gb.evaluate(network, first, tolerance=1e-3, max_steps=600)]
    assert [counting_compilations(run) for run in again] == [0, 0, 0]

    def line(params, t, y):
        return params[0] * t + params[1] - y
    t = np.linspace(0, 1, 5)
    gb.least_squares(line, [0.0, 0.0], args=(t, 2 * t + 1))
    other = lambda: gb.least_squares(line, [0.0, 0.0], args=(t, 3 * t), max_steps=9)
    assert counting_compilations(other) == 0
    """)


@pytest.mark.parametrize("module", ["gymnasium", "matplotlib", "pandas", "xarray", "typer"])
def test_importing_is_lean(module):
    run(f"""
    import subprocess
    code = "import gaussbell, sys; assert {module!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    """)
