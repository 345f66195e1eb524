"""Double precision inside, and no surprise outside: run where 64-bit types are off."""

import subprocess
import sys

PROGRAM = """
import warnings
warnings.simplefilter("error")
import sys
import jax, jax.numpy as jnp, numpy as np
import gaussbell as gb

for module in ("matplotlib", "gymnasium", "dask", "typer", "rich", "gaussbell.cli"):
    assert module not in sys.modules, module
assert not jax.config.jax_enable_x64
assert jnp.ones(2).dtype == jnp.float32

chain = gb.environments.SevenStar().under()
features = gb.encodings.normal(7, 2, key=1)
network = gb.MLP((2, 7, 1), key=0)
solution = gb.evaluate(network, chain, features=features, tolerance=1e-24)
assert solution.status is gb.Status.CONVERGED and solution.msbe <= 1e-24
assert solution.network.weights[0].dtype == jnp.float64
assert solution.network(features).dtype == jnp.float32
assert float(gb.msbe(solution.network, chain, features=features)) <= 1e-24

def evaluate(key):
    return gb.evaluate(gb.MLP((2, 7, 1), key=key), chain, features=features, tolerance=1e-24)

batch = jax.vmap(evaluate)(jax.random.split(jax.random.key(0), 3))
assert batch.loss.dtype == jnp.float32 and (np.asarray(batch.loss) <= 1e-24).all()
batch.history.loss.mean(); jnp.log10(batch.loss[jnp.argmin(batch.loss)])
gb.msbe(network, chain, features=features) + 1
assert float(jax.jit(evaluate)(jax.random.key(0)).loss) <= 1e-24

data = gb.Transitions(np.eye(2), [0.0, 1.0], 0.9 * np.eye(2))
for solver in (gb.LevenbergMarquardt(), gb.GaussNewton(), gb.BacktrackingGaussNewton(),
               gb.Minibatch(batch_size=1),
               gb.ResidualAlgorithm(), gb.LevenbergMarquardt(space=gb.linalg.MatrixFree(rows=1))):
    def evaluate(key):
        return gb.evaluate(gb.MLP((2, 3, 1), key=key), data, solver=solver, max_steps=5)
    jax.jit(evaluate)(jax.random.key(0))

import equinox as eqx
single = eqx.nn.MLP(2, "scalar", 8, 1, key=jax.random.key(0))
fitted = gb.evaluate(single, chain, features=features, max_steps=50).network
assert fitted.layers[0].weight.dtype == jnp.float32
fitted(jnp.zeros(2))

at = gb.linearise(network, chain, features=features)
assert at.gradient().dtype == at.hessian().dtype == at.gram().dtype == jnp.float64
assert gb.differential_map(network, features).rows().dtype == jnp.float64
assert jnp.ones(2).dtype == jnp.float32 and not jax.config.jax_enable_x64
print("fine")
"""


def test_programs_in_single_precision_are_left_alone():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "fine"
