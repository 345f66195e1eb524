"""All tests run in double precision; warnings are errors (see pyproject.toml).

Most of their time goes into compiling programs that run once, so these are compiled with few optimisations,
and kept on disk: modules that compile the same, and later runs, read them. Each process has a folder of its
own, since a file that another one has half written would be a warning.
"""

import os
from pathlib import Path

os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", True)
COMPILED = Path(__file__).parent.parent / ".jax_cache" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

hypothesis.settings.register_profile(
    "gaussbell", deadline=None, derandomize=True, max_examples=16, database=None
)
hypothesis.settings.load_profile("gaussbell")


def pytest_collection_modifyitems(items):
    """The longest first, so that no process waits for another at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/test_readme", "tests/test_precision")))


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Hundreds of compiled programs in one process exhaust its memory maps."""
    yield
    jax.clear_caches()
